//! Documents 001 (Heidemann 1997) and 003 (W3C NOTE-pipelining-970624) over the TCP of their time, in virtual time.
//!
//! The client is `client`'s, unchanged; the network is `link`'s, TCP is `tcp`'s, and what joins them is
//! `runtime::world`. Here are the servers of the period, what their hosts and networks were like, the published
//! figures, and what follows from holding one against the other. Prints nothing. Every assumption that was fitted
//! to a published figure is in [`ASSUMPTIONS`], with what it was fitted to; published figures that were recalled and
//! not seen say so wherever they go.

pub mod closing;
pub mod content;
pub mod heidemann;
pub mod pacing;
pub mod page;
pub mod server;
pub mod tables;
pub mod visit;

/// Where an assumption comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The document says so.
    Document,
    /// Chosen so that simulated figures meet published ones.
    Fitted,
    /// Chosen without evidence.
    Assumed,
}

impl Basis {
    /// All, in the order of a legend.
    pub const ALL: [Basis; 3] = [Basis::Document, Basis::Fitted, Basis::Assumed];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Document => "document",
            Basis::Fitted => "fitted",
            Basis::Assumed => "assumed",
        }
    }

    /// What the word means: a legend for wherever it is shown. Comments of this crate write (F) for fitted and (A) for
    /// assumed.
    pub fn meaning(self) -> &'static str {
        match self {
            Basis::Document => "the document, or what it names, says so",
            Basis::Fitted => {
                "chosen so that simulated figures meet published ones, which are then no evidence for it"
            }
            Basis::Assumed => "chosen without evidence",
        }
    }
}

/// Something the simulation of document 003 takes for granted.
#[derive(Clone, Copy, Debug)]
pub struct Assumption {
    /// What it is about.
    pub what: &'static str,
    /// Its value.
    pub value: &'static str,
    /// Where it comes from.
    pub basis: Basis,
    /// For a fitted one, what to; otherwise why.
    pub to: &'static str,
    /// What speaks against it and is not explained: a source that documents another value.
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

/// Everything the rows of Tables 4 to 9 rest on, one set for all rows. They were fitted to those very rows, so that
/// agreement is no evidence; disagreement is.
pub const ASSUMPTIONS: &[Assumption] = &[
    Assumption {
        not_explained: Some(
            "the documented minimum is 200 ms (tcp_rexmit_interval_min), above the 70 ms and 150 ms of LAN and WAN, and \
             3 s over PPP fit neither; that Solaris 2.5 repeats too early is documented for slow links only",
        ),
        ..assumption(
            "retransmission timeout of the server",
            "70 ms LAN, 150 ms WAN, 3 s PPP",
            Basis::Fitted,
            "bytes, packets and seconds of HTTP/1.0 first visits",
        )
    },
    assumption(
        "ACKs of the LAN and WAN client",
        "when a read takes two segments, else on a 200 ms beat of the host",
        Basis::Fitted,
        "packets of pipelined LAN visits",
    ),
    assumption(
        "ACKs of the PPP client",
        "every second segment, or after 200 ms",
        Basis::Document,
        "Windows NT 4.0, Microsoft's notes",
    ),
    assumption(
        "requests",
        "190 B; revalidations 250 B (Jigsaw), 206 B (Apache); 4 B less over PPP",
        Basis::Fitted,
        "payload bytes of revalidations; 190 B on average is the document's",
    ),
    assumption(
        "heads of answers",
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
        "seconds of WAN visits; 1 to 3 Mbit/s do about as well; 90 ms are the document's",
    ),
    assumption(
        "PPP",
        "26.4 kbit/s, 65 ms one way, 8 B framing; a modem that compresses plain HTML by 1.2 where it comes alone",
        Basis::Fitted,
        "seconds of PPP visits; the gain to the modem table's 12.13 s",
    ),
    Assumption {
        not_explained: Some("the system's default is 8 KiB (tcp_xmit_hiwat)"),
        ..assumption(
            "send buffer of the server",
            "16 KiB",
            Basis::Fitted,
            "seconds of pipelined WAN visits",
        )
    },
    assumption(
        "processor of the server",
        "3 ms (Apache), 13 ms (Jigsaw) a request, 1 ms more for an HTTP/1.0 connection",
        Basis::Fitted,
        "seconds of LAN visits",
    ),
    assumption(
        "processor of the client",
        "1.5 ms a read, 0.8 us a byte, 3 ms an answer, 0.5 ms a request, 1 ms a connection (HTTP/1.0: 3 ms)",
        Basis::Fitted,
        "seconds of LAN visits",
    ),
    assumption(
        "persistent cache of the HTTP/1.1 client",
        "3 ms an object that is kept; the client of HTTP/1.0 was an older one without a cache",
        Basis::Fitted,
        "seconds of HTTP/1.1 first visits over the LAN; that the cache was a bottleneck is the document's",
    ),
    assumption(
        "output of the server",
        "4,096 B, written when full or when no request waits",
        Basis::Assumed,
        "the document has the rule, not the size",
    ),
    assumption(
        "output of the client",
        "1,024 B, 50 ms, flushed after the page's request",
        Basis::Document,
        "section on buffer tuning",
    ),
    assumption(
        "page",
        "42 references spread evenly over 43,008 B",
        Basis::Assumed,
        "the original is lost; the document says that the first segment names few pictures",
    ),
    assumption(
        "end of an HTTP/1.0 connection",
        "the server's FIN is on its last data",
        Basis::Fitted,
        "packets of HTTP/1.0 revalidations",
    ),
    assumption(
        "what the trace counts",
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

    /// A fitted parameter that contradicts what the stack's own sources say is shown as not explained, in the list and
    /// beside the tables it matters for.
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
            assert!(!too_short || marked("retransmission timeout of the server"));
        }
        let buffer = Stack::send_buffer_effective("solaris-2.5").expect("one");
        assert!(buffer == stack.send_buffer || marked("send buffer of the server"));
    }
}
