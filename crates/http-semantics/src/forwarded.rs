//! Who sent a request through proxies: the fields `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Each proxy appends the address of its own client, so the last node is the most recent one. A proxy can vouch for nothing
//! in front of what it appended: readers walk from the end and stop at the first node that no trusted proxy added (RFC 7239
//! section 8.1). This file reads nodes; which ones are trusted is decided elsewhere.

use core::net::IpAddr;

/// A proxy's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// `None`: the proxy did not tell it, as in `unknown` or `_hidden`, or wrote something else than an address.
    pub address: Option<IpAddr>,
    /// Whether its request came over https; `None`: not told.
    pub is_secured: Option<bool>,
}

impl Node {
    /// A node of which nothing is known.
    pub const UNKNOWN: Node = Node {
        address: None,
        is_secured: None,
    };
}

/// The nodes of one line `X-Forwarded-For`, the last one first.
pub fn x_forwarded_for(value: &[u8]) -> impl Iterator<Item = Node> {
    let members = value.rsplit(|&b| b == b',').map(<[u8]>::trim_ascii);
    members.filter(|member| !member.is_empty()).map(|member| Node {
        address: address(member),
        is_secured: None,
    })
}

/// The nodes of one line `Forwarded`, the last one first. A line with a syntax error is one unknown node: where an element
/// begins cannot be told, because a quoted string may contain commas.
pub fn forwarded(value: &[u8]) -> impl Iterator<Item = Node> {
    let nodes = elements(value).unwrap_or_else(|| vec![Node::UNKNOWN]);
    nodes.into_iter().rev()
}

/// The elements of a line in their order; `None`: it has a syntax error.
fn elements(mut rest: &[u8]) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    loop {
        let (element, behind) = element(rest)?;
        nodes.extend(element);
        match behind {
            None => return Some(nodes),
            Some(behind) => rest = behind,
        }
    }
}

/// The first element, if it is not empty, and what follows its comma.
type First<'v> = (Option<Node>, Option<&'v [u8]>);

fn element(mut rest: &[u8]) -> Option<First<'_>> {
    let mut node = Node::UNKNOWN;
    let (mut is_empty, mut has_node, mut has_scheme) = (true, false, false);
    loop {
        rest = rest.trim_ascii_start();
        if !matches!(rest.first(), None | Some(b',' | b';')) {
            is_empty = false;
            let (name, behind) = token(rest)?;
            let (value, behind) = value(behind.strip_prefix(b"=")?)?;
            rest = behind.trim_ascii_start();
            if name.eq_ignore_ascii_case(b"for") {
                // RFC 7239 section 4: each parameter occurs once in an element.
                if core::mem::replace(&mut has_node, true) {
                    return None;
                }
                node.address = address(&value);
            } else if name.eq_ignore_ascii_case(b"proto") {
                if core::mem::replace(&mut has_scheme, true) {
                    return None;
                }
                node.is_secured = scheme(&value);
            }
        }
        let behind = match rest.split_first() {
            None => None,
            Some((b',', behind)) => Some(behind),
            Some((b';', behind)) => {
                rest = behind;
                continue;
            }
            Some(_) => return None,
        };
        return Some(((!is_empty).then_some(node), behind));
    }
}

/// Whether this scheme is https; `None` if it is neither that nor http.
pub fn scheme(value: &[u8]) -> Option<bool> {
    let is = |name: &[u8]| value.eq_ignore_ascii_case(name);
    is(b"https")
        .then_some(true)
        .or_else(|| is(b"http").then_some(false))
}

/// A token (RFC 9110 section 5.6.2) and what follows it.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    let end = text.iter().position(|b| !is_part(b)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A token or a quoted string, without its quotes, and what follows it.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = text.strip_prefix(b"\"") else {
        let (value, behind) = token(text)?;
        return Some((value.to_vec(), behind));
    };
    let mut value = Vec::new();
    loop {
        let (&first, behind) = rest.split_first()?;
        rest = behind;
        match first {
            b'"' => return Some((value, rest)),
            b'\\' => {
                let (&escaped, behind) = rest.split_first()?;
                value.push(escaped);
                rest = behind;
            }
            _ => value.push(first),
        }
    }
}

/// The address of a node, which may have a port.
fn address(node: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(node).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    let is_port = |port: &str| {
        // RFC 7239 section 6: a number, or an obfuscated port.
        let is_number = port.parse::<u16>().is_ok() && port.len() <= 5;
        is_number || port.starts_with('_')
    };
    if let Some(literal) = text.strip_prefix('[') {
        let (inner, port) = literal.split_once(']')?;
        let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        let address = inner.parse::<core::net::Ipv6Addr>().ok()?;
        return is_whole.then_some(address.into());
    }
    let (inner, port) = text.split_once(':')?;
    let address = inner.parse::<core::net::Ipv4Addr>().ok()?;
    is_port(port).then_some(address.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(nodes: impl Iterator<Item = Node>) -> Vec<String> {
        let text = |node: Node| {
            let address = node.address.map_or("?".to_owned(), |address| address.to_string());
            match node.is_secured {
                None => address,
                Some(is_secured) => format!("{address} {is_secured}"),
            }
        };
        nodes.map(text).collect()
    }

    #[test]
    fn a_list_is_read_from_its_end() {
        for (value, nodes) in [
            ("192.0.2.1", &["192.0.2.1"][..]),
            (
                "192.0.2.1, 10.0.0.1:4711 ,2001:db8::1",
                &["2001:db8::1", "10.0.0.1", "192.0.2.1"],
            ),
            ("[2001:db8::1], [::1]:80", &["::1", "2001:db8::1"]),
            ("unknown, , 10.0.0.1,", &["10.0.0.1", "?"]),
            (
                "10.0.0.1:x, 10.0.0.256, [::1, [::1]x, [10.0.0.1]",
                &["?", "?", "?", "?", "?"],
            ),
            ("", &[]),
        ] {
            assert_eq!(shown(x_forwarded_for(value.as_bytes())), nodes, "{value}");
        }
    }

    #[test]
    fn elements_have_parameters() {
        for (value, nodes) in [
            ("for=192.0.2.43", &["192.0.2.43"][..]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
            (
                "for=192.0.2.60;proto=http;by=203.0.113.43, FOR=10.0.0.1 ; Proto=HTTPS",
                &["10.0.0.1 true", "192.0.2.60 false"],
            ),
            (
                "for=unknown, for=_gazonk, for=\"10.0.0.1:_x\", by=10.0.0.2",
                &["?", "10.0.0.1", "?", "?"],
            ),
            ("host=\"a, for=10.0.0.1\";for=10.0.0.2", &["10.0.0.2"]),
            ("for=\"10.0\\.0.1\"", &["10.0.0.1"]),
            (", ,for=10.0.0.1;,", &["10.0.0.1"]),
        ] {
            assert_eq!(shown(forwarded(value.as_bytes())), nodes, "{value}");
        }
    }

    /// A client that opens a quoted string swallows what the proxy appends: the line has then one node, which is unknown.
    #[test]
    fn a_syntax_error_hides_the_line() {
        for value in [
            "for=\"10.0.0.1, for=192.0.2.1",
            "for=\"x, for=192.0.2.1, for=\"[2001:db8::1]\"",
            "for=10.0.0.1;for=10.0.0.2",
            "for=10.0.0.1;proto=http;proto=https",
            "for 10.0.0.1",
            "for=",
            "for=10.0.0.1 for=10.0.0.2",
            "=10.0.0.1",
            "for=\"\\",
        ] {
            assert_eq!(shown(forwarded(value.as_bytes())), ["?"], "{value}");
        }
    }
}
