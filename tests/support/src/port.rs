//! Free ports that stay free.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// Below the range the kernel takes the source ports of connections from: a server that is down for a
/// moment does not find a client on its port.
const PORTS: std::ops::Range<u16> = 10_000..20_000;
/// A cluster node's bus listens this far above its port.
const BUS: u16 = 10_000;

/// A port of 127.0.0.1 that no other test takes while this value lives, whether anything listens on
/// it or not. The port 10000 above it is free too.
#[derive(Debug)]
pub struct FreePort {
    port: u16,
    // Nobody talks UDP here: the socket only marks the TCP port of the same number as taken, across
    // processes and until this one ends.
    _claim: UdpSocket,
}

impl FreePort {
    /// Claims a port.
    ///
    /// # Panics
    ///
    /// If a whole range of ports is taken.
    pub fn claim() -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        let start = (random % PORTS.len() as u64) as u16;
        (0..PORTS.len() as u16)
            .map(|step| PORTS.start + (start + step) % PORTS.len() as u16)
            .find_map(Self::claim_this)
            .expect("one port of the range is free")
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.port
    }

    fn claim_this(port: u16) -> Option<Self> {
        let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        (free(port) && free(port + BUS)).then_some(Self {
            port,
            _claim: claim,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_claims_never_give_the_same_port() {
        let ports: Vec<_> = (0..50).map(|_| FreePort::claim()).collect();
        let mut numbers: Vec<_> = ports.iter().map(FreePort::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), ports.len());
    }
}
