//! The server's listeners, made from `-l` and `-p`, or `-s`.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use ::io::net::{Listener, is_absent};
use protocol::Wire;

use crate::options::Options;
use crate::stdio;

/// Without `-l` only this machine can connect: a cache that the whole network can read and fill
/// has to be asked for.
const HOST_DEFAULT: &str = "127.0.0.1";

/// The prefix that exempts an address from TLS.
pub const PLAIN_PREFIX: &str = "notls:";

/// A listener, and the protocol spoken there.
pub struct Endpoint {
    /// The listener.
    pub listener: Listener,
    /// The only protocol; `None` where a connection's first byte decides.
    pub wire: Option<Wire>,
    /// Everything goes through TLS.
    pub is_tls: bool,
    /// The option that asks for it.
    pub option: &'static str,
}

/// Binds every address that the options name. No client can connect yet.
pub fn bind(options: &Options) -> Result<Vec<Endpoint>, String> {
    let mut endpoints = Vec::new();
    if let Some(path) = &options.unix_path {
        let listener = Listener::bind_unix(path, options.unix_mode)
            .map_err(|error| cannot_listen(path.display(), "unix-socket", &error))?;
        endpoints.push(Endpoint { listener, wire: None, is_tls: false, option: "unix-socket" });
    } else {
        bind_tcp(options, None, &mut endpoints)?;
    }
    if options.redis_port != 0 {
        bind_tcp(options, Some(options.redis_port), &mut endpoints)?;
    }
    Ok(endpoints)
}

/// Binds the addresses of `-l`: each at its own port for memcached's clients, or all at one for
/// those of Redis.
fn bind_tcp(
    options: &Options,
    redis_port: Option<u16>,
    endpoints: &mut Vec<Endpoint>,
) -> Result<(), String> {
    let option = option(options, redis_port);
    let mut taken: Vec<SocketAddr> = Vec::new();
    for name in names(options) {
        let (name, is_plain) = plain(name);
        let is_tls = match redis_port.and(options.redis_tls) {
            Some(is_tls) => is_tls,
            None => options.tls.is_on && !is_plain,
        };
        let failed = |error: io::Error| cannot_listen(name, option, &error);
        let mut found = resolve(name, options.port).map_err(failed)?;
        if let Some(port) = redis_port {
            found.iter_mut().for_each(|address| address.set_port(port));
        }
        let listeners = bind_each(&found, |address| {
            // One host with two memcached ports has a single Redis port.
            if redis_port.is_some() && taken.contains(&address) {
                return Ok(None);
            }
            taken.push(address);
            Listener::bind_tcp(address).map(Some)
        });
        let listeners = listeners.map_err(|(at, error)| cannot_listen(at, option, &error))?;
        endpoints.extend(listeners.into_iter().map(|listener| {
            let wire = redis_port.map(|_| Wire::Redis);
            Endpoint { listener, wire, is_tls, option }
        }));
    }
    Ok(())
}

/// Binds the addresses that one name stands for. Where it stands for several, one that this machine
/// does not have is left out as long as another works: the system may resolve a name to a family
/// that the kernel does not know. `None` is one that was bound before.
pub fn bind_each<L>(
    addresses: &[SocketAddr],
    mut bind: impl FnMut(SocketAddr) -> io::Result<Option<L>>,
) -> Result<Vec<L>, (SocketAddr, io::Error)> {
    let (mut bound, mut absent) = (Vec::new(), Vec::new());
    for &address in addresses {
        match bind(address) {
            Ok(listener) => bound.push(listener),
            Err(error) if is_absent(&error) => absent.push((address, error)),
            Err(error) => return Err((address, error)),
        }
    }
    if bound.is_empty() && !absent.is_empty() {
        return Err(absent.swap_remove(0));
    }
    for (address, error) in absent {
        stdio::err(format_args!("larder: not listening on {address}: {error}"));
    }
    Ok(bound.into_iter().flatten().collect())
}

/// The addresses of TCP that the options name.
fn names(options: &Options) -> impl Iterator<Item = &str> {
    let default = options.listen.is_empty().then_some(HOST_DEFAULT);
    options.listen.iter().map(String::as_str).chain(default)
}

/// The option that asks for these listeners.
fn option(options: &Options, redis_port: Option<u16>) -> &'static str {
    match redis_port {
        Some(_) => "redis-port",
        None if options.listen.is_empty() => "port",
        None => "listen",
    }
}

fn cannot_listen(place: impl Display, option: &str, error: &io::Error) -> String {
    format!("cannot listen on {place} for --{option}: {error}")
}

/// The name without [`PLAIN_PREFIX`], and whether it had that.
pub fn plain(name: &str) -> (&str, bool) {
    match name.strip_prefix(PLAIN_PREFIX) {
        None => (name, false),
        Some(rest) => (rest, true),
    }
}

/// Reports an invalid address without a name lookup. Whether the name exists, and whether this
/// machine has such an address, shows at the start.
pub fn check(name: &str) -> Result<(), String> {
    let (host, _) = split(plain(name).0, 0).map_err(|error| error.to_string())?;
    let is_wrong = match host {
        "" => return Err("the address is missing".to_owned()),
        _ if host.contains(':') => {
            let address = host.split_once('%').map_or(host, |(address, _)| address);
            address.parse::<Ipv6Addr>().is_err()
        }
        _ if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            // Fewer numbers, as in 127.1, are for the system to parse.
            let dots = host.matches('.').count();
            dots > 3 || dots == 3 && host.split('.').any(|part| part.parse::<u8>().is_err())
        }
        _ => false,
    };
    if is_wrong { Err("it is not an address".to_owned()) } else { Ok(()) }
}

/// Reports two places that are one, without looking up names.
pub fn check_places(options: &Options) -> Result<(), String> {
    let mut places: Vec<(&str, SocketAddr)> = Vec::new();
    let redis_port = Some(options.redis_port).filter(|port| *port != 0);
    for name in names(options).map(|name| plain(name).0) {
        let at = |port| split(name, port).ok().and_then(literal);
        if options.unix_path.is_none() {
            places.extend(at(options.port).map(|address| (option(options, None), address)));
        }
        if let Some(port) = redis_port
            && let Some(mut address) = at(port)
        {
            address.set_port(port);
            let place = (option(options, redis_port), address);
            // One host with two memcached ports has a single Redis port.
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    if let Some(port) = options.admin_port {
        let address = split(plain(&options.admin_listen).0, port).ok().and_then(literal);
        places.extend(address.map(|address| ("admin-port", address)));
    }
    for (number, (option, address)) in places.iter().enumerate() {
        if let Some(other) = places[..number].iter().find(|(_, it)| overlap(it, address)) {
            return Err(told(*other, (*option, *address)));
        }
    }
    Ok(())
}

/// The message about two places that overlap. Of a host and all hosts the one does not appear twice
/// in the options, so the message names both.
fn told(one: (&str, SocketAddr), other: (&str, SocketAddr)) -> String {
    if one.1 == other.1 {
        return match one.0 == other.0 {
            true => format!("--{} asks for {} twice", one.0, one.1),
            false => format!("--{} and --{} both ask for {}", one.0, other.0, one.1),
        };
    }
    let ((any_option, any), (option, address)) =
        if one.1.ip().is_unspecified() { (one, other) } else { (other, one) };
    format!(
        "--{any_option} asks for {any}, which includes {address} of --{option}; give one of them \
         another port"
    )
}

/// Whether only one of the two can be listened on.
fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_same = one.ip() == other.ip() || is_any && one.is_ipv4() == other.is_ipv4();
    is_same && one.port() == other.port() && one.port() != 0
}

/// The address of a host that is a literal.
fn literal((host, port): (&str, u16)) -> Option<SocketAddr> {
    let ip = match host {
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => host.parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}

/// Starts to accept connections at the listeners.
pub fn listen(endpoints: &[Endpoint], options: &Options) -> Result<(), String> {
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    for Endpoint { listener, option, .. } in endpoints {
        let listening = listener.listen(backlog);
        listening.map_err(|error| cannot_listen(listener.name(), option, &error))?;
    }
    Ok(())
}

/// The addresses that a name stands for: `host`, `host:port`, `1.2.3.4`, `[::1]:port`, `::1`, `*`,
/// each perhaps behind `tcp:`.
pub fn resolve(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = split(name, port)?;
    if let Some(address) = literal((host, port)) {
        return Ok(vec![address]);
    }
    Ok((host, port).to_socket_addrs()?.collect())
}

/// The port within a name.
pub fn own_port(name: &str) -> Option<u16> {
    let with = |default| split(plain(name).0, default).ok().map(|(_, port)| port);
    with(0).filter(|port| with(1) == Some(*port))
}

/// The host and the port of a name.
fn split(name: &str, port: u16) -> io::Result<(&str, u16)> {
    split_port(name.strip_prefix("tcp:").unwrap_or(name), port)
}

/// Cuts a port off. A bare IPv6 address has more than one colon and no port.
fn split_port(name: &str, default: u16) -> io::Result<(&str, u16)> {
    let (host, port) = match name.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| invalid("] is missing"))?;
            match rest.strip_prefix(':') {
                None if !rest.is_empty() => return Err(invalid("the text after ] is not a port")),
                port => (host, port),
            }
        }
        None => match name.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (name, None),
        },
    };
    match port {
        None => Ok((host, default)),
        Some(port) => match port.parse() {
            Ok(port) => Ok((host, port)),
            Err(_) => Err(invalid("the port is not a number from 0 to 65535")),
        },
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the server did not start where the kernel knows no IPv6 and localhost is `[::1]`
    /// as well.
    #[test]
    fn an_address_that_is_not_there_is_left_out_while_another_works() {
        const ABSENT: u16 = 1;
        const TAKEN: u16 = 2;
        const EADDRNOTAVAIL: i32 = 99;
        let bind = |address: SocketAddr| match address.port() {
            ABSENT => Err(io::Error::from_raw_os_error(EADDRNOTAVAIL)),
            TAKEN => Err(io::ErrorKind::AddrInUse.into()),
            port => Ok(Some(port)),
        };
        for (ports, expected) in [
            (&[5, 6][..], Ok(&[5, 6][..])),
            (&[ABSENT, 5], Ok(&[5])),
            (&[5, ABSENT], Ok(&[5])),
            (&[ABSENT], Err(ABSENT)),
            (&[ABSENT, ABSENT], Err(ABSENT)),
            (&[5, TAKEN], Err(TAKEN)),
            (&[ABSENT, TAKEN], Err(TAKEN)),
        ] {
            let at = |port: &u16| SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let addresses: Vec<_> = ports.iter().map(at).collect();
            let bound = bind_each(&addresses, bind);
            let bound = bound.as_deref().map_err(|(address, _)| address.port());
            assert_eq!(bound, expected, "{ports:?}");
        }
        let before = [SocketAddr::from((Ipv4Addr::LOCALHOST, 5))];
        let bound = bind_each(&before, |_| Ok(None::<u16>)).expect("it works");
        assert!(bound.is_empty(), "that one is there before");
    }

    #[test]
    fn names_with_and_without_ports() {
        for (name, host, port) in [
            ("127.0.0.1", "127.0.0.1", 7),
            ("127.0.0.1:9", "127.0.0.1", 9),
            ("localhost:9", "localhost", 9),
            ("::1", "::1", 7),
            ("[::1]", "::1", 7),
            ("[::1]:9", "::1", 9),
        ] {
            assert_eq!(split_port(name, 7).expect("a good name"), (host, port), "{name}");
        }
        for name in ["[::1", "host:", "host:x", "host:70000"] {
            assert!(split_port(name, 7).is_err(), "{name}");
        }
        let any = resolve("tcp:*:9", 7).expect("no lookup needed");
        assert_eq!(any, [SocketAddr::from(([0, 0, 0, 0], 9))]);
    }

    #[test]
    fn an_invalid_address_is_reported_without_a_name_lookup() {
        for name in [
            "*",
            "h",
            "h.example:7",
            "notls:h",
            "tcp:*:7",
            "127.1",
            "::",
            "fe80::1%eth0",
            "[::1]:7",
            "notls:[::1]",
            "0.0.0.0",
            "1.example",
            "host with spaces",
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in [
            "",
            ":7",
            "notls:",
            "999.1.1.1",
            "127.0.0.",
            "1.2.3.4.5",
            "127.0.0.1:",
            "h:70000",
            "[::1",
            "[::1]7",
            "::g",
            "1:2:3",
            "[g::]:7",
            "notls:1.2.3.256",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn one_place_is_asked_for_once() {
        let places = |line: &str| {
            let mut options = Options { port: 7, ..Options::default() };
            let words: Vec<&str> = line.split(' ').collect();
            options.listen =
                words[0].split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let port = |place: usize| words.get(place).and_then(|word| word.parse().ok());
            options.redis_port = port(1).unwrap_or(0);
            options.admin_port = port(2);
            check_places(&options)
        };
        for line in [
            "",
            " 8 9",
            "10.0.0.1 8 7",
            "10.0.0.1,10.0.0.1:8",
            "10.0.0.1,10.0.0.1:8 9",
            "* 8 9",
            "0.0.0.0,::",
            "h,h",
            "10.0.0.1:0,10.0.0.1:0",
            "127.0.0.1 8 0",
        ] {
            assert_eq!(places(line), Ok(()), "{line}");
        }
        for (line, words) in [
            (" 7", "--port and --redis-port both ask for 127.0.0.1:7"),
            (" 0 7", "--port and --admin-port both ask for 127.0.0.1:7"),
            (" 8 8", "--redis-port and --admin-port both ask for 127.0.0.1:8"),
            (
                "* 0 7",
                "--listen asks for 0.0.0.0:7, which includes 127.0.0.1:7 of --admin-port; give one \
                 of them another port",
            ),
            ("10.0.0.1,10.0.0.1:7", "--listen asks for 10.0.0.1:7 twice"),
            (
                "[::1]:7,::",
                "--listen asks for [::]:7, which includes [::1]:7 of --listen; give one of them \
                 another port",
            ),
            ("10.0.0.1:8 8", "--listen and --redis-port both ask for 10.0.0.1:8"),
        ] {
            assert_eq!(places(line), Err(words.to_owned()), "{line}");
        }
    }
}
