//! Which client a request is from, if a trusted proxy sends it.
//!
//! ```text
//!   client ─▶ proxy A ─▶ proxy B ─▶ Weir        X-Forwarded-For: client, A        peer of the connection: B
//!                                               ◀──── read in this direction ─────
//! ```
//! Only trusted peers are believed, and the walk ends at the first address that is not trusted (RFC 7239 section 8.1): what
//! stands in front of it may be forged. A request of a trusted peer whose client cannot be read is from the unspecified
//! address, which no network contains: whoever can spoil the field must not pass for the proxy.

use crate::checked::Guarded;
use crate::config::{Config, Network, TrustedField};
use crate::request_id::RequestId;
use crate::traced::Trace;
use http_semantics::forwarded::{self, Node};
use http_semantics::request::RequestHead;
use runtime::listen::UNIX_PEER;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Most addresses of a chain of proxies.
const HOPS_MAX: usize = 32;

/// A client of which nothing is known.
pub(crate) const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A client's address, for people.
pub(crate) struct Shown(pub(crate) IpAddr);

impl core::fmt::Display for Shown {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            address if address == UNIX_PEER.ip() => f.write_str("a client of a Unix socket"),
            address => address.fmt(f),
        }
    }
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct From {
    /// The client.
    pub(crate) peer: IpAddr,
    /// The trusted proxies between the client and this server, in the order in which the request passed them.
    pub(crate) hops: Vec<IpAddr>,
    /// Whether fields beside those of this module may say that the client used https: a proxy that this server trusts sent the
    /// request, and the client used https.
    pub(crate) may_claim_https: bool,
    /// Whether the client used https.
    pub(crate) is_secured: bool,
    /// What access rules mean for the request.
    pub(crate) guarded: Guarded,
    /// Id of the request, if requests have ids.
    pub(crate) id: Option<RequestId>,
    /// Its part in its trace, if requests are traced.
    pub(crate) trace: Option<Arc<Trace>>,
}

/// The networks that are trusted, and the field in which they name clients.
#[derive(Debug, Default)]
pub(crate) struct Trusted {
    networks: Vec<Network>,
    field: TrustedField,
}

impl Trusted {
    pub(crate) fn of(config: &Config) -> Trusted {
        Trusted {
            networks: config.trusted.clone(),
            field: config.trusted_field,
        }
    }

    /// Whether this peer is believed.
    #[inline]
    pub(crate) fn includes(&self, peer: IpAddr) -> bool {
        !self.networks.is_empty() && self.contains(peer.to_canonical())
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The client of a request that `peer` sent.
    #[inline]
    pub(crate) fn client(&self, peer: IpAddr, head: &RequestHead<'_, '_>) -> IpAddr {
        match self.includes(peer) {
            true => self.walk(peer, head, &mut |_| {}).0,
            false => peer,
        }
    }

    /// Whether the client of a request that `peer` sent used https: to this server, because the request `is_secured`, or to
    /// `peer`, because `peer` says so.
    #[inline]
    pub(crate) fn used_https(&self, peer: IpAddr, is_secured: bool, head: &RequestHead<'_, '_>) -> bool {
        is_secured || (self.includes(peer) && self.from(peer, false, head).is_secured)
    }

    /// The client of a request that `peer` sent, encrypted if it `is_secured`, and the proxies between.
    pub(crate) fn from(&self, peer: IpAddr, is_secured: bool, head: &RequestHead<'_, '_>) -> From {
        let mut hops = Vec::new();
        if !self.includes(peer) {
            return From {
                peer,
                hops,
                may_claim_https: false,
                is_secured,
                guarded: Guarded::default(),
                id: None,
                trace: None,
            };
        }
        let (client, scheme) = self.walk(peer, head, &mut |hop| hops.push(hop));
        hops.reverse();
        let scheme = scheme.or_else(|| self.scheme(head));
        let is_secured = scheme.unwrap_or(is_secured);
        From {
            peer: client,
            hops,
            may_claim_https: is_secured,
            is_secured,
            guarded: Guarded::default(),
            id: None,
            trace: None,
        }
    }

    /// The client, and whether it used https. Calls `pass` with each trusted address in front of which the walk went on.
    fn walk(
        &self,
        peer: IpAddr,
        head: &RequestHead<'_, '_>,
        pass: &mut dyn FnMut(IpAddr),
    ) -> (IpAddr, Option<bool>) {
        let mut last = (peer.to_canonical(), None);
        let name = match self.field {
            TrustedField::XForwardedFor => "x-forwarded-for",
            TrustedField::Forwarded => "forwarded",
        };
        // Several lines are one list (RFC 9110 section 5.3).
        let lines: Vec<&[u8]> = head
            .fields
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect();
        let nodes = lines.into_iter().rev().flat_map(|value| self.nodes(value));
        for (number, node) in nodes.enumerate() {
            pass(last.0);
            // A field cannot name the client of a Unix socket.
            let address = node
                .address
                .filter(|address| number < HOPS_MAX && *address != UNIX_PEER.ip());
            let Some(address) = address.map(|address| address.to_canonical()) else {
                return (UNKNOWN, node.is_secured);
            };
            last = (address, node.is_secured);
            if !self.contains(address) {
                break;
            }
        }
        last
    }

    /// The nodes of a line, the last one first.
    fn nodes<'v>(&self, value: &'v [u8]) -> Box<dyn Iterator<Item = Node> + 'v> {
        match self.field {
            TrustedField::XForwardedFor => Box::new(forwarded::x_forwarded_for(value)),
            TrustedField::Forwarded => Box::new(forwarded::forwarded(value)),
        }
    }

    /// The scheme that the nearest proxy names in `X-Forwarded-Proto`, if it names one.
    fn scheme(&self, head: &RequestHead<'_, '_>) -> Option<bool> {
        let mut lines = head
            .fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("x-forwarded-proto"));
        let (_, value) = lines
            .next()
            .filter(|_| self.field == TrustedField::XForwardedFor)?;
        forwarded::scheme(value).filter(|_| lines.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::field::{Fields, Line};
    use http_semantics::method::Method;
    use http_semantics::request::Protocol;
    use http_semantics::target::Target;

    fn from(field: &str, peer: &str, lines: &[(&str, &str)]) -> From {
        let text = format!(
            "trusted = [\"10.0.0.0/8\", \"2001:db8::/32\", \"127.0.0.1\"]\ntrusted-field = \"{field}\"\n"
        );
        let trusted = Trusted::of(&Config::from_toml(&text, "w.toml").unwrap());
        let lines: Vec<Line<'_>> = lines
            .iter()
            .map(|(name, value)| Line {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let head = RequestHead {
            method: Method::Get,
            method_name: "GET",
            target: Target::parse(b"/", Method::Get).unwrap(),
            target_raw: b"/",
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        let peer = peer.parse().unwrap();
        let from = trusted.from(peer, false, &head);
        assert_eq!(trusted.client(peer, &head), from.peer);
        assert_eq!(trusted.used_https(peer, false, &head), from.is_secured);
        assert!(trusted.used_https(peer, true, &head));
        from
    }

    #[test]
    fn the_walk_ends_at_the_first_address_that_is_not_trusted() {
        for (peer, value, client, hops) in [
            ("10.0.0.1", "192.0.2.7", "192.0.2.7", &["10.0.0.1"][..]),
            // A client that is not trusted cannot name another.
            ("192.0.2.9", "192.0.2.7", "192.0.2.9", &[]),
            ("10.0.0.1", "127.0.0.1, 192.0.2.7", "192.0.2.7", &["10.0.0.1"]),
            (
                "10.0.0.1",
                "1.1.1.1, 192.0.2.7, 10.0.0.3, 2001:db8::1",
                "192.0.2.7",
                &["10.0.0.3", "2001:db8::1", "10.0.0.1"],
            ),
            ("::ffff:10.0.0.1", "::ffff:192.0.2.7", "192.0.2.7", &["10.0.0.1"]),
            ("10.0.0.1", "10.0.0.2", "10.0.0.2", &["10.0.0.1"]),
            // It speaks for itself.
            ("10.0.0.1", "", "10.0.0.1", &[]),
            // Whoever can spoil the field is not the proxy.
            ("10.0.0.1", "192.0.2.7, unknown", "0.0.0.0", &["10.0.0.1"]),
            ("10.0.0.1", "192.0.2.7, x", "0.0.0.0", &["10.0.0.1"]),
        ] {
            let got = from("X-Forwarded-For", peer, &[("X-Forwarded-For", value)]);
            assert_eq!(got.peer.to_string(), client, "{peer} {value}");
            let got: Vec<String> = got.hops.iter().map(ToString::to_string).collect();
            assert_eq!(got, hops, "{peer} {value}");
        }
    }

    #[test]
    fn lines_are_one_list_and_only_one_field_counts() {
        let lines = [
            ("x-forwarded-for", "1.1.1.1"),
            ("Forwarded", "for=3.3.3.3"),
            ("X-Forwarded-For", "192.0.2.7, 10.0.0.2"),
        ];
        let got = from("X-Forwarded-For", "10.0.0.1", &lines);
        assert_eq!(got.peer.to_string(), "192.0.2.7");
        let got = from("Forwarded", "10.0.0.1", &lines);
        assert_eq!(got.peer.to_string(), "3.3.3.3");
        // A line that a client left open has one unknown node, and those behind it count.
        let lines = [
            ("Forwarded", "for=\"1.1.1.1"),
            ("Forwarded", "for=192.0.2.7;proto=https"),
        ];
        let got = from("Forwarded", "10.0.0.1", &lines);
        assert_eq!(
            (got.peer.to_string().as_str(), got.is_secured),
            ("192.0.2.7", true)
        );
        let got = from("Forwarded", "10.0.0.1", &lines[..1]);
        assert_eq!(got.peer, UNKNOWN);
    }

    #[test]
    fn the_scheme_is_that_of_the_nearest_proxy() {
        for (peer, protos, is_secured) in [
            ("10.0.0.1", &["https"][..], true),
            ("10.0.0.1", &["HTTP"], false),
            ("10.0.0.1", &["https", "https"], false),
            ("10.0.0.1", &["https, http"], false),
            ("192.0.2.9", &["https"], false),
        ] {
            let mut lines = vec![("X-Forwarded-For", "192.0.2.7")];
            lines.extend(protos.iter().map(|proto| ("X-Forwarded-Proto", *proto)));
            let got = from("X-Forwarded-For", peer, &lines);
            assert_eq!(got.is_secured, is_secured, "{peer} {protos:?}");
        }
    }

    #[test]
    fn other_fields_say_https_only_if_the_chosen_one_does() {
        let https = ("X-Forwarded-Proto", "https");
        let http = ("X-Forwarded-Proto", "http");
        let forwarded_https = ("Forwarded", "for=192.0.2.7;proto=https");
        let forwarded_http = ("Forwarded", "for=192.0.2.7;proto=http");
        for (field, peer, lines, may_claim_https) in [
            ("X-Forwarded-For", "10.0.0.1", &[][..], false),
            ("X-Forwarded-For", "10.0.0.1", &[https], true),
            ("X-Forwarded-For", "10.0.0.1", &[http], false),
            ("X-Forwarded-For", "10.0.0.1", &[https, https], false),
            ("X-Forwarded-For", "10.0.0.1", &[forwarded_http], false),
            ("X-Forwarded-For", "10.0.0.1", &[forwarded_https], false),
            ("X-Forwarded-For", "192.0.2.9", &[https], false),
            ("Forwarded", "10.0.0.1", &[forwarded_https], true),
            ("Forwarded", "10.0.0.1", &[forwarded_http], false),
            ("Forwarded", "10.0.0.1", &[https], false),
        ] {
            let got = from(field, peer, lines);
            assert_eq!(got.may_claim_https, may_claim_https, "{field} {peer} {lines:?}");
        }
    }

    #[test]
    fn a_chain_is_bounded() {
        let hops = |number| vec!["10.0.0.2"; number].join(",");
        let got = from(
            "X-Forwarded-For",
            "10.0.0.1",
            &[("X-Forwarded-For", &hops(HOPS_MAX))],
        );
        assert_eq!(
            (got.peer.to_string().as_str(), got.hops.len()),
            ("10.0.0.2", HOPS_MAX)
        );
        let got = from(
            "X-Forwarded-For",
            "10.0.0.1",
            &[("X-Forwarded-For", &hops(HOPS_MAX + 1))],
        );
        assert_eq!((got.peer, got.hops.len()), (UNKNOWN, HOPS_MAX + 1));
    }
}
