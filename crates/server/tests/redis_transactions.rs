//! MULTI and EXEC as clients see them: Redis' answers, and what the server keeps meanwhile.

use crate::common::{Client, Server, array};

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

#[test]
fn commands_after_multi_are_executed_by_exec() {
    let (server, address) = Server::start_with_redis(&[]);
    let (mut client, mut text) = (Client::connect(address), server.connect());
    client.ask("multi\r\nset a 1\r\nincr a\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    text.ask("get a\r\n", "END\r\n");
    client.ask("mget a b\r\nexec\r\n", "+QUEUED\r\n*3\r\n+OK\r\n:2\r\n*2\r\n$1\r\n2\r\n$-1\r\n");
    text.ask("get a\r\n", "VALUE a 0 1\r\n2\r\nEND\r\n");
    client.ask("get a\r\n", "$1\r\n2\r\n");
    client.ask("multi\r\nexec\r\n", "+OK\r\n*0\r\n");
}

#[test]
fn an_error_of_one_command_stops_none_of_the_others() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    client.ask(
        "set a text\r\nmulti\r\nincr a\r\nset b 2\r\n",
        "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n",
    );
    client.ask("exec\r\n", "*2\r\n-ERR value is not an integer or out of range\r\n+OK\r\n");
    client.ask("get b\r\n", "$1\r\n2\r\n");
}

#[test]
fn if_one_command_was_refused_none_is_executed() {
    let users = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(users.path(), "bob:secret\n[read-only]\neve:secret\n").expect("written");
    let path = users.path().to_str().expect("UTF-8");
    let (_server, address) = Server::start_with_redis(&["-I", "100k", "-Y", path]);
    let mut client = Client::connect(address);
    client.ask("multi\r\n", "-NOAUTH Authentication required.\r\n");
    client.ask("auth bob secret\r\n", "+OK\r\n");
    let long = format!("get {}", "k".repeat(251));
    let large = format!("set a {}", "v".repeat(60_000));
    for refused in ["get", "nonsense", "watch a", "auth eve secret", "hello 3", &long] {
        client.ask("multi\r\nset a 1\r\n", "+OK\r\n+QUEUED\r\n");
        client.send(format!("{refused}\r\n").as_bytes());
        let answer = client.read_to("\r\n");
        assert!(answer.starts_with("-ERR "), "{refused}: {answer}");
        client.ask("set a 2\r\nexec\r\nget a\r\n", &format!("+QUEUED\r\n{ABORTED}$-1\r\n"));
    }
    // The limit of one command holds for several together, too.
    client.ask("multi\r\n", "+OK\r\n");
    let mut queued_bytes = 0;
    let answer = loop {
        client.send(format!("{large}\r\n").as_bytes());
        let answer = client.read_to("\r\n");
        if answer != "+QUEUED\r\n" {
            break answer;
        }
        queued_bytes += large.len();
    };
    assert!(answer.starts_with("-ERR transaction has more than 4"), "{answer}");
    assert!((4 << 20..5 << 20).contains(&queued_bytes), "{queued_bytes}");
    client.ask("exec\r\nget a\r\n", &format!("{ABORTED}$-1\r\n"));
    client.ask("auth eve secret\r\nmulti\r\n", "+OK\r\n+OK\r\n");
    let not_allowed = "-NOPERM this user has no permissions to run the 'set' command\r\n";
    client.ask("get a\r\nset a 1\r\n", &format!("+QUEUED\r\n{not_allowed}"));
    client.ask("exec\r\n", ABORTED);
}

#[test]
fn a_transaction_ends_in_several_ways() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    client.ask("exec\r\ndiscard\r\n", "-ERR EXEC without MULTI\r\n-ERR DISCARD without MULTI\r\n");
    client.ask("multi\r\nset a 1\r\ndiscard\r\n", "+OK\r\n+QUEUED\r\n+OK\r\n");
    client.ask("get a\r\nexec\r\n", "$-1\r\n-ERR EXEC without MULTI\r\n");
    client.ask("multi\r\nset a 1\r\nreset\r\n", "+OK\r\n+QUEUED\r\n+RESET\r\n");
    client.ask("get a\r\nexec\r\n", "$-1\r\n-ERR EXEC without MULTI\r\n");
    client.ask("multi\r\nmulti\r\n", "+OK\r\n-ERR MULTI calls can not be nested\r\n");
    client.ask("set a 1\r\nexec\r\n", "+QUEUED\r\n*1\r\n+OK\r\n");
    client.ask("multi\r\nset a 2\r\nquit\r\n", "+OK\r\n+QUEUED\r\n+OK\r\n");
    client.expect_end();
    Client::connect(address).ask("get a\r\n", "$1\r\n1\r\n");
}

/// Regression: it stayed open after an EXEC with too many words, and queued the commands after
/// that.
#[test]
fn an_exec_that_is_refused_ends_the_transaction() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    let refused = "-EXECABORT Transaction discarded because of: wrong number of arguments for \
                   'exec' command\r\n";
    client.ask("multi\r\nset a 1\r\nexec x\r\n", &format!("+OK\r\n+QUEUED\r\n{refused}"));
    client.ask("set a 2\r\nexec\r\n", "+OK\r\n-ERR EXEC without MULTI\r\n");
    client.ask("exec x\r\n", refused);
    client.ask(
        "multi\r\ndiscard x\r\n",
        "+OK\r\n-ERR wrong number of arguments for 'discard' command\r\n",
    );
    client.ask("exec\r\nget a\r\n", &format!("{ABORTED}$1\r\n2\r\n"));
}

/// Regression: they were checked when EXEC came to them, and the others were executed.
#[test]
fn a_subcommand_that_there_is_not_is_refused_as_it_comes() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    for (command, error) in [
        ("client foo", "unknown subcommand 'foo'. Try CLIENT HELP."),
        ("client setname", "wrong number of arguments for 'client|setname' command"),
        ("Config Get", "wrong number of arguments for 'config|get' command"),
        ("config set a b", "unknown subcommand 'set'. Try CONFIG HELP."),
        ("command foo", "unknown subcommand 'foo'. Try COMMAND HELP."),
        ("command count x", "wrong number of arguments for 'command|count' command"),
    ] {
        let refused = format!("-ERR {error}\r\n");
        client.ask(&format!("{command}\r\n"), &refused);
        client.ask("multi\r\nset a 1\r\n", "+OK\r\n+QUEUED\r\n");
        client
            .ask(&format!("{command}\r\nexec\r\nget a\r\n"), &format!("{refused}{ABORTED}$-1\r\n"));
    }
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    client.ask("multi\r\nclient getname\r\nconfig get save\r\n", queued);
    client.ask("exec\r\n", "*2\r\n$-1\r\n*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
}

/// Regression: a client that had queued more than connections may keep was told that it was queued,
/// and then closed.
#[test]
fn a_client_that_can_queue_no_more_gets_an_error() {
    let (_server, address) = Server::start_with_redis(&["-m", "64"]);
    let large = format!("multi\r\nset large {}\r\n", "v".repeat(60_000));
    let more = format!("append large {}\r\n", "v".repeat(60_000));
    let mut clients = Vec::new();
    let refused = loop {
        let mut client = Client::connect(address);
        client.ask(&large, "+OK\r\n+QUEUED\r\n");
        let mut answers = (1..9).map(|_| {
            client.send(more.as_bytes());
            client.read_to("\r\n")
        });
        let refused = answers.find(|answer| answer != "+QUEUED\r\n");
        drop(answers);
        clients.push(client);
        assert!(clients.len() < 200, "3 % of the memory and 16 MiB are less");
        if let Some(refused) = refused {
            break refused;
        }
    };
    assert!(refused.starts_with("-OOM "), "{refused}");
    assert!(clients.len() > 10);
    clients.pop().expect("the one that was refused").ask("exec\r\n", ABORTED);
    let mut first = clients.remove(0);
    first.send(b"exec\r\n");
    assert!(first.read_to(":540000\r\n").starts_with("*9\r\n+OK\r\n"));
}

/// Regression: all that was queued had to fit in once more, so at most half of the limit could be.
#[test]
fn a_client_alone_can_queue_most_of_the_room() {
    const COMMANDS: usize = 24;
    let (server, address) = Server::start_with_redis(&["-m", "64", "-I", "32m"]);
    let mut client = Client::connect(address);
    client.ask("multi\r\n", "+OK\r\n");
    let set = array(&[b"set", b"k", &[b'v'; 1 << 20]]);
    for _ in 0..COMMANDS {
        client.send(&set);
        client.expect(b"+QUEUED\r\n");
    }
    let answer = format!("*{COMMANDS}\r\n{}", "+OK\r\n".repeat(COMMANDS));
    client.ask("exec\r\n", &answer);
    server.connect().wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}

#[test]
fn a_long_exec_goes_on_where_it_was_interrupted() {
    let (_server, address) = Server::start_with_redis(&[]);
    let mut client = Client::connect(address);
    let value = "v".repeat(40_000);
    client.ask(&format!("*3\r\n$3\r\nset\r\n$1\r\na\r\n$40000\r\n{value}\r\n"), "+OK\r\n");
    let commands = "incr n\r\nmget a n\r\n".repeat(500);
    // The client reads nothing before all is sent: 20 MB of answers have to wait for it.
    client.ask(&format!("multi\r\n{commands}exec\r\nget n\r\n"), "+OK\r\n");
    client.expect("+QUEUED\r\n".repeat(1000).as_bytes());
    client.expect(b"*1000\r\n");
    for number in 1..=500 {
        let shown = number.to_string();
        let counted = format!(":{number}\r\n*2\r\n$40000\r\n{value}\r\n");
        client.expect(format!("{counted}${}\r\n{shown}\r\n", shown.len()).as_bytes());
    }
    client.expect(b"$3\r\n500\r\n");
}

#[test]
fn queued_commands_do_not_fill_the_memory() {
    let (server, address) = Server::start_with_redis(&["-m", "64", "-I", "1m"]);
    let set = format!("*3\r\n$3\r\nset\r\n$1\r\na\r\n$900000\r\n{}\r\n", "v".repeat(900_000));
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        // Those without room are closed while they send.
        let sent = std::io::Write::write_all(&mut client.stream, b"multi\r\n")
            .and_then(|()| std::io::Write::write_all(&mut client.stream, set.as_bytes()));
        drop(sent);
    }
    let mut text = server.connect();
    text.wait_for_stat("output_parked_bytes", |bytes| bytes > 900_000);
    assert!(text.stat("output_parked_bytes") <= (16 << 20) + (64 << 20) / 100 * 3);
    drop(clients);
    text.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
    let mut client = Client::connect(address);
    client.ask("multi\r\nset a 1\r\nexec\r\n", "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n");
    text.wait_for_stat("output_parked_bytes", |bytes| bytes == 0);
}
