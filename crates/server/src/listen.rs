//! Where the server listens: `-l` and `-p`, or `-s`, made into listeners.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use ::io::net::Listener;
use protocol::Wire;

use crate::options::Options;

/// Without `-l` only this machine can connect: a cache that the whole network can read and fill
/// has to be asked for.
const HOST_DEFAULT: &str = "127.0.0.1";

/// What leaves an address without TLS.
pub const PLAIN_PREFIX: &str = "notls:";

/// Where connections come in, and what is spoken there.
pub struct Door {
    /// Where.
    pub listener: Listener,
    /// The only protocol; none where a connection's first byte decides.
    pub wire: Option<Wire>,
    /// Everything goes through TLS.
    pub is_tls: bool,
}

/// Takes every address that the options name. Nobody can connect yet.
pub fn bind(options: &Options) -> Result<Vec<Door>, String> {
    let mut doors = Vec::new();
    if let Some(path) = &options.unix_path {
        let listener = Listener::bind_unix(path, options.unix_mode)
            .map_err(|error| format!("cannot listen on {}: {error}", path.display()))?;
        doors.push(Door { listener, wire: None, is_tls: false });
    } else {
        bind_tcp(options, None, &mut doors)?;
    }
    if options.redis_port != 0 {
        bind_tcp(options, Some(options.redis_port), &mut doors)?;
    }
    Ok(doors)
}

/// Takes the addresses of `-l`: each at its own port for memcached's clients, or all at one for
/// those of Redis.
fn bind_tcp(
    options: &Options,
    redis_port: Option<u16>,
    doors: &mut Vec<Door>,
) -> Result<(), String> {
    let default = [HOST_DEFAULT.to_owned()];
    let names = if options.listen.is_empty() { &default[..] } else { &options.listen };
    let mut taken: Vec<SocketAddr> = Vec::new();
    for name in names {
        let (name, is_plain) = plain(name, options)?;
        let is_tls = match redis_port.and(options.redis_tls) {
            Some(is_tls) => is_tls,
            None => options.tls.is_on && !is_plain,
        };
        let failed = |error: io::Error| format!("cannot listen on {name}: {error}");
        for mut address in resolve(name, options.port).map_err(failed)? {
            if let Some(port) = redis_port {
                address.set_port(port);
                // One host with two ports for the others has one for these.
                if taken.contains(&address) {
                    continue;
                }
            }
            taken.push(address);
            let failed = |error: io::Error| format!("cannot listen on {address}: {error}");
            let listener = Listener::bind_tcp(address).map_err(failed)?;
            doors.push(Door { listener, wire: redis_port.map(|_| Wire::Redis), is_tls });
        }
    }
    Ok(())
}

/// What stands behind [`PLAIN_PREFIX`], and whether that was there.
pub fn plain<'n>(name: &'n str, options: &Options) -> Result<(&'n str, bool), String> {
    match name.strip_prefix(PLAIN_PREFIX) {
        None => Ok((name, false)),
        Some(rest) if options.tls.is_on => Ok((rest, true)),
        Some(_) => Err(format!("{name} says notls:, which is for a server with --enable-ssl")),
    }
}

/// Lets connections come in.
pub fn listen(doors: &[Door], options: &Options) -> Result<(), String> {
    let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
    for Door { listener, .. } in doors {
        let listening = listener.listen(backlog);
        listening.map_err(|error| format!("cannot listen on {}: {error}", listener.name()))?;
    }
    Ok(())
}

/// The addresses that a name stands for: `host`, `host:port`, `1.2.3.4`, `[::1]:port`, `::1`, `*`,
/// each perhaps behind `tcp:`.
pub fn resolve(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let name = name.strip_prefix("tcp:").unwrap_or(name);
    let (host, port) = split_port(name, port)?;
    if host == "*" {
        return Ok(vec![SocketAddr::from(([0, 0, 0, 0], port))]);
    }
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Cuts a port off. A bare IPv6 address has more than one colon and no port.
fn split_port(name: &str, default: u16) -> io::Result<(&str, u16)> {
    let (host, port) = match name.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| invalid("there is no ]"))?;
            (host, port.strip_prefix(':'))
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
            Err(_) => Err(invalid("the port is no number from 0 to 65535")),
        },
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
