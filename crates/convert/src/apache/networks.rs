//! Networks as Apache spells them: also the first numbers of an address, and an address with a netmask.

use crate::value::network;
use std::net::Ipv4Addr;

/// The network in Weir's spelling. `None`: this is none, but the name of a host or a variable.
pub(super) fn of(text: &str) -> Option<String> {
    if let Some(known) = network(text) {
        return Some(known);
    }
    if let Some((address, mask)) = text.split_once('/') {
        let mask = u32::from(mask.parse::<Ipv4Addr>().ok()?);
        let bits = mask.leading_ones();
        let is_prefix = mask.checked_shl(bits).unwrap_or(0) == 0;
        return is_prefix.then(|| network(&format!("{address}/{bits}")))?;
    }
    let numbers: Vec<&str> = text.trim_end_matches('.').split('.').collect();
    let missing = 4_usize
        .checked_sub(numbers.len())
        .filter(|missing| (1..4).contains(missing))?;
    let address = [&numbers[..], &vec!["0"; missing]].concat().join(".");
    network(&format!("{address}/{}", 8 * numbers.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_apache_are_those_of_weir() {
        for (text, expected) in [
            ("10", Some("10.0.0.0/8")),
            ("10.1", Some("10.1.0.0/16")),
            ("192.0.2.", Some("192.0.2.0/24")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("10.1.0.0/255.255.0.0", Some("10.1.0.0/16")),
            ("10.1.0.0/255.0.255.0", None),
            ("10.1.2.3/0.0.0.0", Some("0.0.0.0/0")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("10.300", None),
            ("", None),
            ("a.test", None),
            ("env=bot", None),
        ] {
            assert_eq!(of(text).as_deref(), expected, "{text}");
        }
    }
}
