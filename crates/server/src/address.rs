//! Addresses of clients, as far as limits tell them apart: an address of IPv4, a network of IPv6,
//! or this machine's Unix socket.
//!
//! A client with one address of IPv6 has a network of 2^64 of them, so these count as one. An
//! address of IPv4 that an IPv6 socket reports counts as the IPv4 address.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use stdx::sync::lock;

/// The origin of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// The Unix socket: all its clients.
    Unix,
    /// An address of IPv4.
    V4(u32),
    /// The first half of an address of IPv6.
    V6(u64),
}

impl Address {
    /// The peer of a connection; `None` is a Unix socket's.
    pub fn of(peer: Option<SocketAddr>) -> Self {
        match peer.map(|peer| peer.ip().to_canonical()) {
            None => Self::Unix,
            Some(IpAddr::V4(address)) => Self::V4(address.to_bits()),
            Some(IpAddr::V6(address)) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// Connections by address, where that is limited. It has at most one entry for each open
/// connection.
#[derive(Debug, Default)]
pub struct Counts(Mutex<BTreeMap<Address, usize>>);

impl Counts {
    /// Counts one more connection; false, and nothing is counted, if there are `max`. A Unix socket
    /// has no address: its mode limits its use.
    pub fn try_enter(&self, address: Address, max: usize) -> bool {
        if max == 0 || address == Address::Unix {
            return true;
        }
        let mut counts = lock(&self.0);
        match counts.get_mut(&address) {
            Some(count) if *count >= max => return false,
            Some(count) => *count += 1,
            None => _ = counts.insert(address, 1),
        }
        true
    }

    /// Counts out a connection that has ended, if connections are counted.
    pub fn leave(&self, address: Address, max: usize) {
        if max == 0 || address == Address::Unix {
            return;
        }
        let mut counts = lock(&self.0);
        let count = counts.get_mut(&address).expect("who leaves has come");
        *count -= 1;
        if *count == 0 {
            counts.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::of(Some(text.parse().expect("an address")))
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        assert_eq!(address("[2001:db8:1:2::1]:5"), address("[2001:db8:1:2:ffff::9]:6"));
        assert_ne!(address("[2001:db8:1:2::1]:5"), address("[2001:db8:1:3::1]:5"));
        assert_eq!(address("[::ffff:10.0.0.1]:5"), address("10.0.0.1:6"));
        assert_ne!(address("10.0.0.1:5"), address("10.0.0.2:5"));
        assert_ne!(address("0.0.0.0:5"), address("[::]:5"));
        assert_eq!(Address::of(None), Address::Unix);
    }

    #[test]
    fn the_limit_holds_at_its_edge_and_entries_are_removed() {
        let counts = Counts::default();
        let (one, other) = (address("10.0.0.1:5"), address("10.0.0.2:5"));
        for _ in 0..2 {
            assert_eq!([(); 3].map(|()| counts.try_enter(one, 2)), [true, true, false]);
            assert!(counts.try_enter(other, 2));
            counts.leave(one, 2);
            assert_eq!([(); 2].map(|()| counts.try_enter(one, 2)), [true, false]);
            [one, one, other].iter().for_each(|&address| counts.leave(address, 2));
            assert!(lock(&counts.0).is_empty());
        }
        for _ in 0..5 {
            assert!(counts.try_enter(one, 0) && counts.try_enter(Address::Unix, 1));
        }
        assert!(lock(&counts.0).is_empty());
    }
}
