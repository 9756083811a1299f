//! `larder top`: the numbers of the admin page in a terminal.
//!
//! Once a second it asks a running server's admin port for `/api/stats`, and at the beginning for
//! `/api/history`, so that the curves show the past. It only reads; drawing is in `screen`, and the
//! formatting of numbers in `format`.

mod format;
mod insight;
mod screen;
mod secure;

use std::io::{self, IsTerminal};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use ::io::moment::Stopwatch;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use self::screen::View;
use self::secure::Trust;
use crate::stdio;

/// The default address of the admin port: the port of memcached's exporter.
const ADDRESS_DEFAULT: &str = "127.0.0.1:9150";

/// How often it asks.
const PAUSE: Duration = Duration::from_secs(1);

/// An answer that takes longer will not come.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer; a longer one is not from an admin port.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The size of the output of `--once`, in columns and lines.
const ONCE_SIZE: (u16, u16) = (100, 40);

/// The text of its help.
pub const HELP: &str = "\
larder top [ADDRESS] [--once]
larder top https://ADDRESS --ca-file FILE [--once]

  Monitors a server that was started with --admin-port: shows the content of its page in a
  terminal. ADDRESS is that of the admin port, by default 127.0.0.1:9150. q quits.

  --ca-file FILE    Authority that signs the certificate of a server whose admin port uses TLS.
  --once            Print the view once and exit.
";

/// The options given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopOptions {
    address: String,
    /// The authorities for the server's certificate, where TLS is spoken.
    ca_file: Option<PathBuf>,
    is_once: bool,
}

impl TopOptions {
    /// Reads the arguments behind `top`; `None` if help is asked for.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let address = ADDRESS_DEFAULT.to_owned();
        let mut options = Self { address, ca_file: None, is_once: false };
        let mut has_address = false;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "-h" | "--help" => return Ok(None),
                "--once" => options.is_once = true,
                "--ca-file" => {
                    let file = arguments.next().ok_or("--ca-file needs a file")?;
                    options.ca_file = Some(file.into());
                }
                _ if argument.starts_with('-') || has_address => {
                    return Err(format!("unknown argument of top: {argument}"));
                }
                _ => (options.address, has_address) = (argument, true),
            }
        }
        let is_tls = match options.address.strip_prefix("https://") {
            Some(address) => {
                options.address = address.trim_end_matches('/').to_owned();
                true
            }
            None => {
                let plain = options.address.strip_prefix("http://");
                if let Some(address) = plain.map(|rest| rest.trim_end_matches('/').to_owned()) {
                    options.address = address;
                }
                false
            }
        };
        // As in other programs that listen or connect.
        if options.address.starts_with(':') && !options.address.starts_with("::") {
            options.address.insert_str(0, "127.0.0.1");
        }
        match (is_tls, &options.ca_file) {
            (true, None) => Err("https:// needs --ca-file, the signing authority".to_owned()),
            (false, Some(_)) => Err("--ca-file needs an address with https://".to_owned()),
            _ => Ok(Some(options)),
        }
    }
}

/// Shows the numbers until the user ends it.
pub fn run(options: &TopOptions) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot start: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let trust = options.ca_file.as_deref().map(Trust::read).transpose()?;
    let address = options.address.clone();
    let source = Source { runtime: runtime.map_err(failed)?, address, trust };
    let mut view = View::new(&options.address);
    view.remember(&source.ask("/api/history")?);
    view.take(source.ask("/api/stats")?);
    if options.is_once {
        return stdio::out(&drawn(&view, ONCE_SIZE));
    }
    if !io::stdout().is_terminal() {
        return Err("the output is not a terminal; use --once to print the view".to_owned());
    }
    let mut terminal =
        ratatui::try_init().map_err(|error| format!("the terminal fails: {error}"))?;
    let shown = show(&mut terminal, &source, &mut view);
    ratatui::restore();
    shown.map_err(|error| format!("the terminal fails: {error}"))
}

/// Draws, waits, asks.
fn show(
    terminal: &mut ratatui::DefaultTerminal,
    source: &Source,
    view: &mut View,
) -> io::Result<()> {
    loop {
        terminal.draw(|frame| view.draw(frame))?;
        let asked = Stopwatch::start();
        while event::poll(asked.rest_of(PAUSE))? {
            match event::read()? {
                Event::Key(key) if is_end(key) => return Ok(()),
                Event::Resize(..) => _ = terminal.draw(|frame| view.draw(frame))?,
                _ => {}
            }
        }
        match source.ask("/api/stats") {
            Ok(stats) => view.take(stats),
            Err(error) => view.fail(error),
        }
    }
}

/// Whether a key ends the program.
fn is_end(key: KeyEvent) -> bool {
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// The screen of a terminal of this size, as text.
fn drawn(view: &View, (columns, lines): (u16, u16)) -> String {
    let mut terminal =
        Terminal::new(TestBackend::new(columns, lines)).expect("memory takes what is drawn");
    terminal.draw(|frame| view.draw(frame)).expect("memory takes what is drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let cells = (0..columns).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..lines).map(line).collect()
}

/// The server that is asked.
struct Source {
    runtime: Runtime,
    address: String,
    trust: Option<Trust>,
}

impl Source {
    /// The answer at `path`.
    fn ask(&self, path: &str) -> Result<Value, String> {
        let Self { runtime, address, trust } = self;
        let answer = runtime.block_on(async {
            tokio::time::timeout(PATIENCE, read(address, trust.as_ref(), path))
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
        });
        answer.map_err(|error| format!("{address}: {error}"))
    }
}

/// Asks once.
async fn read(address: &str, trust: Option<&Trust>, path: &str) -> Result<Value, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let found = address.to_socket_addrs().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => "the address needs a port, as in 127.0.0.1:9150".to_owned(),
        _ => said(&error),
    });
    let stream = reach(&found?.collect::<Vec<_>>()).await?;
    let foreign = "it does not speak HTTP as an admin port does";
    match trust {
        None => exchange(stream, address, path).await.map_err(|error| {
            let advice = "; for one with TLS use larder top";
            error.unwrap_or_else(|| format!("{foreign}{advice} https://{address} --ca-file FILE"))
        }),
        Some(trust) => {
            let stream = trust.connect(address, stream).await?;
            let answer = exchange(stream, address, path).await;
            answer.map_err(|error| error.unwrap_or_else(|| foreign.to_owned()))
        }
    }
}

/// The first of these addresses that takes a connection: a name may have one without a listener, as
/// localhost has where the admin port is at 127.0.0.1 alone.
async fn reach(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    if addresses.is_empty() {
        return Err("the name has no address".to_owned());
    }
    TcpStream::connect(addresses).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("{error}; is there a server with --admin-port at that address?")
        }
        _ => error.to_string(),
    })
}

/// Whether the answer is not HTTP: memcached's protocol closes the connection at once.
fn is_foreign(error: &hyper::Error) -> bool {
    error.is_parse() || error.is_incomplete_message()
}

/// Sends the request and reads its answer. An error without text means a peer that does not speak
/// HTTP.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    address: &str,
    path: &str,
) -> Result<Value, Option<String>> {
    let said = |error: &dyn std::fmt::Display| Some(error.to_string());
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| said(&error))?;
    let request = Request::get(path).header(header::HOST, address).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| said(&error))?;
    let asked = async move {
        let answer =
            sender.send_request(request).await.map_err(|error| match is_foreign(&error) {
                true => None,
                false => said(&error),
            })?;
        let status = answer.status();
        if status != StatusCode::OK {
            return Err(Some(format!("it answers {status}; is this an admin port?")));
        }
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| said(&error))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| said(&error))
    };
    // The connection moves the bytes; it ends with the answer, or fails before it.
    let (answer, _) = tokio::join!(asked, connection);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<TopOptions>, String> {
        TopOptions::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_behind_top_are_parsed() {
        let options = |address: &str, is_once| {
            Ok(Some(TopOptions { address: address.to_owned(), ca_file: None, is_once }))
        };
        assert_eq!(parse(""), options(ADDRESS_DEFAULT, false));
        assert_eq!(parse("--once 10.0.0.1:7"), options("10.0.0.1:7", true));
        assert_eq!(parse("http://10.0.0.1:7/"), options("10.0.0.1:7", false));
        assert_eq!(parse(":9150"), options("127.0.0.1:9150", false));
        assert_eq!(parse("http://:7"), options("127.0.0.1:7", false));
        assert_eq!(parse("a:1 --help"), Ok(None));
        assert!(parse("a b").is_err() && parse("--twice").is_err());
        let over_tls = parse("https://h:7/ --ca-file f").expect("it goes together");
        let over_tls = over_tls.expect("no help");
        assert_eq!((&*over_tls.address, over_tls.ca_file), ("h:7", Some("f".into())));
        for line in ["https://h:7", "h:7 --ca-file f", "https://h:7 --ca-file"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    /// Regression: where localhost is `[::1]` first, the server at 127.0.0.1 was not found.
    #[test]
    fn every_address_of_a_name_is_tried() {
        use socket2::{Domain, SockAddr, Socket, Type};
        let free = SockAddr::from(SocketAddr::from(([127, 0, 0, 1], 0)));
        let bound = |listens: bool| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.bind(&free).expect("a free port");
            if listens {
                socket.listen(1).expect("nobody else is there");
            }
            let address = socket.local_addr().expect("it is bound").as_socket();
            (socket, address.expect("it is one of TCP"))
        };
        let ((_closed, closed), (_open, open)) = (bound(false), bound(true));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let reached = runtime.block_on(reach(&[closed, open])).expect("one is open");
        assert_eq!(reached.peer_addr().expect("it is connected"), open);
        let told = runtime.block_on(reach(&[closed])).err().unwrap_or_default();
        assert!(told.contains("refused") && told.contains("--admin-port"), "{told}");
        assert!(runtime.block_on(reach(&[])).is_err());
    }

    #[test]
    fn the_keys_that_end_it() {
        let plain = |code| is_end(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(plain(KeyCode::Char('q')) && plain(KeyCode::Esc));
        assert!(!plain(KeyCode::Char('c')) && !plain(KeyCode::Enter));
        assert!(is_end(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
