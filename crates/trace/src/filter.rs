//! Selects packets by the port and address of either end.
//!
//! Rejected packets are only counted; connections are numbered among those that pass.

use crate::packet::Endpoint;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// A filter by ports and networks; without any, everything passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Ports, one of which an end must have; empty: any port.
    pub ports: Vec<u16>,
    /// Networks, one of which must contain an end; empty: any address.
    pub networks: Vec<Network>,
}

impl Filter {
    /// Whether the filter lets everything pass.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.networks.is_empty()
    }

    #[inline]
    pub(crate) fn passes(&self, from: Endpoint, to: Endpoint) -> bool {
        let ends = [from, to];
        let port =
            self.ports.is_empty() || self.ports.iter().any(|port| ends.iter().any(|e| e.port == *port));
        let inside = |end: &Endpoint| self.networks.iter().any(|network| network.holds(*end));
        port && (self.networks.is_empty() || ends.iter().any(inside))
    }
}

/// An address, or a network given by its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    fn holds(self, end: Endpoint) -> bool {
        match (self.address, end.address()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = u64::from(own.to_bits() ^ other.to_bits());
                differing >> (32 - u32::from(self.prefix)) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.checked_shr(128 - u32::from(self.prefix)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Text that is neither an address nor an address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNetworkError(String);

impl fmt::Display for ParseNetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not an address; write 192.0.2.1, 2001:db8::1, or a network such as 192.0.2.0/24",
            self.0
        )
    }
}

impl std::error::Error for ParseNetworkError {}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Network, ParseNetworkError> {
        let wrong = || ParseNetworkError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= longest)
                .ok_or_else(wrong)?,
            None => longest,
        };
        Ok(Network { address, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        let end = Endpoint::new(address.parse().expect("an address"), 80);
        network.parse::<Network>().expect("a network").holds(end)
    }

    #[test]
    fn networks_hold_what_shares_their_bits() {
        for (network, inside, outside) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
        ] {
            assert!(holds(network, inside), "{network} {inside}");
            assert!(!holds(network, outside), "{network} {outside}");
        }
        for wrong in [
            "",
            "example.org",
            "192.0.2.0/33",
            "::/129",
            "192.0.2.0/",
            "192.0.2/24",
        ] {
            let error = wrong.parse::<Network>().expect_err(wrong);
            assert!(error.to_string().contains("is not an address"), "{error}");
        }
    }
}
