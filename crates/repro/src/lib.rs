//! Documents 001 (Heidemann 1997) and 003 (W3C NOTE-pipelining-970624), simulated over the TCP of 1997 in
//! virtual time.
//!
//! The client is the unmodified crate `client`, the network is `link`, TCP is `tcp`, and `netsim`
//! connects them. This crate adds the servers of 1997, the properties of hosts and networks, the published
//! figures, the comparison of simulated with published figures, and the leave-one-out check of the fitted
//! parameters. Prints nothing. [`ASSUMPTIONS`] lists every
//! assumption with its basis, and fitted ones with the figures they were fitted to. Published figures that were
//! recalled and not seen are marked wherever they appear.

pub mod closing;
pub mod content;
pub mod costs;
pub mod heidemann;
pub mod leave_one_out;
pub mod pacing;
pub mod page;
pub mod refit;
pub mod server;
pub mod tables;
pub mod visit;

/// The basis of an assumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Stated by the document.
    Document,
    /// Chosen to make simulated figures match published ones.
    Fitted,
    /// Chosen without evidence.
    Assumed,
}

impl Basis {
    /// All bases, in the order of a legend.
    pub const ALL: [Basis; 3] = [Basis::Document, Basis::Fitted, Basis::Assumed];

    /// The name in results: one word.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Document => "document",
            Basis::Fitted => "fitted",
            Basis::Assumed => "assumed",
        }
    }

    /// The meaning of the name, for a legend. Comments of this crate write (F) for fitted and (A) for assumed.
    pub fn meaning(self) -> &'static str {
        match self {
            Basis::Document => "stated by the document or by a source it names",
            Basis::Fitted => {
                "chosen to make simulated figures match published ones, which are then no evidence for it"
            }
            Basis::Assumed => "chosen without evidence",
        }
    }
}

/// An assumption of the simulation of document 003.
#[derive(Clone, Copy, Debug)]
pub struct Assumption {
    /// The subject.
    pub what: &'static str,
    /// The assumed value.
    pub value: &'static str,
    /// The basis of the value.
    pub basis: Basis,
    /// For a fitted value, the figures it was fitted to; otherwise the reason.
    pub to: &'static str,
    /// Unexplained evidence against it: a source that documents another value.
    pub not_explained: Option<&'static str>,
}

const fn assumption(what: &'static str, value: &'static str, basis: Basis, to: &'static str) -> Assumption {
    Assumption {
        what,
        value,
        basis,
        to,
        not_explained: None,
    }
}

/// All assumptions behind the rows of Tables 4 to 9: one set for all rows. They were fitted to these rows, so
/// agreement is no evidence for them; disagreement is evidence against them.
pub const ASSUMPTIONS: &[Assumption] = &[
    Assumption {
        not_explained: Some(
            "the documented minimum of 200 ms (tcp_rexmit_interval_min) is above the values for LAN and WAN, and the 3 s \
             over PPP match neither; early retransmission by Solaris 2.5 is documented only for slow links",
        ),
        ..assumption(
            "server retransmission timeout",
            "70 ms LAN, 150 ms WAN, 3 s PPP",
            Basis::Fitted,
            "bytes, packets and seconds of HTTP/1.0 first visits",
        )
    },
    assumption(
        "client ACKs on LAN and WAN",
        "when a read takes two segments, otherwise at the ticks of a host-wide 200 ms timer",
        Basis::Fitted,
        "packets of pipelined LAN visits",
    ),
    assumption(
        "client ACKs over PPP",
        "every second segment, or after 200 ms",
        Basis::Document,
        "Windows NT 4.0, Microsoft's notes",
    ),
    assumption(
        "request size",
        "190 B; revalidations 250 B (Jigsaw), 206 B (Apache); 4 B less over PPP",
        Basis::Fitted,
        "payload bytes of revalidations; the average of 190 B is the document's",
    ),
    assumption(
        "response heads",
        "288/222 B (Jigsaw/Apache), 161/120 B for 304, 231/219 B in HTTP/1.0, 23 B less for PPP first visits",
        Basis::Fitted,
        "payload bytes",
    ),
    assumption(
        "LAN",
        "10 Mbit/s half-duplex, 0.25 ms one way, 18 B framing",
        Basis::Assumed,
        "the document says 10 Mbit/s Ethernet, under 1 ms",
    ),
    assumption(
        "WAN",
        "1.5 Mbit/s, 44.5 ms one way, no loss",
        Basis::Fitted,
        "seconds of WAN visits; 1 to 3 Mbit/s fit about as well; the 90 ms are the document's",
    ),
    assumption(
        "PPP",
        "26.4 kbit/s, 65 ms one way, 8 B framing; a modem that compresses plain HTML by 1.2 if the page is fetched alone",
        Basis::Fitted,
        "seconds of PPP visits; the modem's compression: the modem table's 12.13 s",
    ),
    Assumption {
        not_explained: Some("the system's default is 8 KiB (tcp_xmit_hiwat)"),
        ..assumption(
            "server send buffer",
            "16 KiB",
            Basis::Fitted,
            "seconds of pipelined WAN visits",
        )
    },
    assumption(
        "server processor time",
        "3 ms (Apache), 13 ms (Jigsaw) per request, 1 ms more per HTTP/1.0 connection",
        Basis::Fitted,
        "seconds of LAN visits",
    ),
    assumption(
        "client processor time",
        "1.5 ms per read, 0.8 us per byte, 3 ms per response, 0.5 ms per request, 1 ms per connection (HTTP/1.0: 3 ms)",
        Basis::Fitted,
        "seconds of LAN visits",
    ),
    assumption(
        "persistent cache of the HTTP/1.1 client",
        "3 ms per stored object; the HTTP/1.0 client was an older one without a cache",
        Basis::Fitted,
        "seconds of HTTP/1.1 first visits over the LAN; the document calls the cache a bottleneck",
    ),
    assumption(
        "server output buffer",
        "4,096 B, written when full or when no request waits",
        Basis::Assumed,
        "the document states the rule, not the size",
    ),
    assumption(
        "client output buffer",
        "1,024 B, 50 ms, flushed after the request for the page",
        Basis::Document,
        "section on buffer tuning",
    ),
    assumption(
        "page",
        "42 references spread evenly over 43,008 B",
        Basis::Assumed,
        "the original is lost; according to the document, the first segment names few pictures",
    ),
    assumption(
        "end of an HTTP/1.0 connection",
        "the server's FIN is sent with its last data",
        Basis::Fitted,
        "packets of HTTP/1.0 revalidations",
    ),
    assumption(
        "packets in the trace",
        "teardown on LAN and WAN, none over PPP",
        Basis::Fitted,
        "packets of revalidations: 89 over PPP are 43 + 43 + 3",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use tcp::Stack;
    use visit::{Hosts, Network};

    /// A fitted parameter that contradicts a source of its stack is marked as not explained, both in the list
    /// and in the tables it affects.
    #[test]
    fn what_contradicts_its_own_source_is_marked() {
        let marked = |what: &str| {
            let one = ASSUMPTIONS.iter().find(|one| one.what == what).expect(what);
            one.not_explained.is_some()
        };
        let stack = Stack::preset("solaris-2.5").expect("a preset");
        for network in Network::ALL {
            let fitted = Stack::rto_effective("solaris-2.5", network.name()).expect("one each");
            let too_short = fitted < stack.rto_min;
            assert_eq!(too_short, network != Network::Ppp, "{network:?}");
            assert_eq!(Hosts::contradiction(network).is_some(), too_short, "{network:?}");
            assert!(!too_short || marked("server retransmission timeout"));
        }
        let buffer = Stack::send_buffer_effective("solaris-2.5").expect("one");
        assert!(buffer == stack.send_buffer || marked("server send buffer"));
    }
}
