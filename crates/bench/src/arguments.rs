//! Kinds of arguments that several commands read.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::failure::{Failure, Outcome};

/// Reads a share of the whole, above 0 and at most 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("`{text}` is no share above 0 and at most 1")),
    }
}

/// Reads the address of a server, as HOST:PORT or IP:PORT.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let found =
        text.to_socket_addrs().map_err(|error| format!("`{text}` as HOST:PORT: {error}"))?;
    let found: Vec<SocketAddr> = found.collect();
    // Servers that are started by hand listen on 127.0.0.1, which `localhost` has second.
    let first = found.iter().find(|it| it.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("`{text}` has no address"))
}

/// Refuses a list that names something twice: the report would merge both into one spread, or show
/// the same figures twice.
pub fn each_once<N: ToString>(option: &str, listed: impl IntoIterator<Item = N>) -> Outcome<()> {
    let mut known: Vec<String> = Vec::new();
    for name in listed {
        let name = name.to_string();
        if known.contains(&name) {
            return Err(Failure::Usage(format!("{option} names {name} twice")));
        }
        known.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{address, each_once, share};

    #[test]
    fn an_address_may_be_a_name_and_has_a_port() {
        assert_eq!(address("localhost:7"), Ok(([127, 0, 0, 1], 7).into()));
        assert_eq!(address("127.0.0.1:7"), Ok(([127, 0, 0, 1], 7).into()));
        assert!(["localhost", "127.0.0.1", "", ":"].iter().all(|text| address(text).is_err()));
    }

    /// Regression: a workload given twice was reported twice, each time with the spread of all
    /// samples of both, though each had a single round.
    #[test]
    fn a_list_that_names_something_twice_is_refused() {
        assert!(each_once("--threads", [1, 2, 4]).is_ok());
        let twice = each_once("--threads", [1, 2, 1]).expect_err("there are two of 1").to_string();
        assert_eq!(twice, "--threads names 1 twice");
    }

    #[test]
    fn shares_end_where_they_should() {
        assert_eq!((share("1"), share("0.5")), (Ok(1.0), Ok(0.5)));
        for text in ["0", "1.1", "-0.1", "NaN", "", "half"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
