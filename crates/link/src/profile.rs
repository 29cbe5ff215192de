//! Named links: where each number comes from stands beside it.
//!
//! Three of the W3C's performance study (NOTE-pipelining-970624, Table 1), Lighthouse's mobile profile and
//! the list of sitespeed.io's `throttle`. Publications name rates and round trips only; framing and queue
//! are our choice, written here once.

use crate::bottleneck::{Framing, Server};
use crate::delay::Jitter;
use crate::discipline::Discipline;
use crate::hold::HoldTimer;
use crate::loss::LossModel;
use measure::{Bytes, Duration, Rate};

/// One direction of a link. The default passes everything at once.
#[derive(Clone, Debug)]
pub struct Way {
    /// The line; none is infinitely fast.
    pub server: Option<Server>,
    /// What the line carries around packets.
    pub framing: Framing,
    /// The queue before the line.
    pub discipline: Discipline,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Added to it.
    pub jitter: Jitter,
    /// Whether jitter may reorder.
    pub reorder: bool,
    /// Which packets are lost.
    pub loss: Option<LossModel>,
    /// Largest IP packet.
    pub mtu: Option<Bytes>,
    /// Whether pure ACKs are held, and until when.
    pub hold_acks: Option<HoldTimer>,
    /// The segment size two of which make an ACK pass unheld.
    pub hold_mss: Bytes,
}

impl Default for Way {
    fn default() -> Way {
        Way {
            server: None,
            framing: Framing::IP,
            discipline: Discipline::default(),
            delay: Duration::ZERO,
            jitter: Jitter::None,
            reorder: false,
            loss: None,
            mtu: None,
            hold_acks: None,
            hold_mss: Bytes(1_460),
        }
    }
}

/// A link: two directions, and whether they share one medium.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Where its numbers come from.
    pub source: String,
    /// From the client.
    pub up: Way,
    /// To the client.
    pub down: Way,
    /// Both directions queue for one line: that of `up`.
    pub half_duplex: bool,
}

/// A row of the table: name, down and up in kbit/s, round trip in microseconds, source.
struct Row(&'static str, u64, u64, u64, &'static str);

const W3C: &str = "W3C NOTE-pipelining-970624, Table 1";
const SITESPEED: &str = "sitespeed.io throttle, built-in profiles";

const ROWS: &[Row] = &[
    Row("lan", 10_000, 10_000, 500, W3C),
    Row("wan", 1_500, 1_500, 90_000, W3C),
    // One decimal of a kilobit does not fit this table; `preset` sets 28.8 kbit/s.
    Row("ppp", 28, 28, 150_000, W3C),
    Row(
        "mobile",
        1_600,
        750,
        150_000,
        "Lighthouse, mobile: slow 4G at packet level",
    ),
    Row("3g", 1_600, 768, 150_000, SITESPEED),
    Row("3gfast", 1_600, 768, 75_000, SITESPEED),
    Row("3gslow", 400, 400, 200_000, SITESPEED),
    Row("2g", 280, 256, 400_000, SITESPEED),
    Row("cable", 5_000, 1_000, 14_000, SITESPEED),
    Row("dsl", 1_500, 384, 25_000, SITESPEED),
    Row("4g", 9_000, 9_000, 85_000, SITESPEED),
    Row("lte", 12_000, 12_000, 35_000, SITESPEED),
    Row("edge", 240, 200, 420_000, SITESPEED),
    Row("dial", 49, 30, 60_000, SITESPEED),
    Row("fios", 20_000, 5_000, 2_000, SITESPEED),
];

/// The names [`Profile::preset`] knows, in the order of a help text.
pub const PRESETS: &[&str] = &[
    "lan", "wan", "ppp", "mobile", "3g", "3gfast", "3gslow", "2g", "cable", "dsl", "4g", "lte", "edge",
    "dial", "fios",
];

impl Profile {
    /// The named link, or `None`.
    ///
    /// ```
    /// let cable = link::Profile::preset("cable").expect("a preset");
    /// assert_eq!(cable.down.delay.as_millis(), 7);
    /// ```
    pub fn preset(name: &str) -> Option<Profile> {
        let row = ROWS.iter().find(|row| row.0 == name)?;
        let way = |kbit| Way {
            server: Some(Server::Rate(Rate::kbit(kbit))),
            delay: Duration::from_micros(row.3 / 2),
            mtu: Some(Bytes(1_500)),
            ..Way::default()
        };
        let mut profile = Profile {
            name: name.to_owned(),
            source: row.4.to_owned(),
            up: way(row.2),
            down: way(row.1),
            half_duplex: false,
        };
        match name {
            "lan" => {
                profile.source += ": 10 Mbit/s Ethernet, RTT \"< 1 ms\" (0.5 ms and half duplex assumed)";
                profile.half_duplex = true;
                profile.each(|way| way.framing = Framing::ETHERNET);
            }
            "wan" => profile.source += ": RTT 90 ms; its rate is not stated (1.5 Mbit/s assumed)",
            "ppp" => {
                profile.source += ": 28.8 kbit/s modem, RTT 150 ms (PPP framing, no compression assumed)";
                profile.each(|way| {
                    way.framing = Framing::PPP;
                    way.server = Some(Server::Rate(Rate(28_800)));
                });
            }
            _ => {}
        }
        Some(profile)
    }

    /// Changes both directions alike.
    pub(crate) fn each(&mut self, mut change: impl FnMut(&mut Way)) {
        change(&mut self.up);
        change(&mut self.down);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_row_and_a_source() {
        assert_eq!(PRESETS.len(), ROWS.len());
        for name in PRESETS {
            let profile = Profile::preset(name).expect(name);
            assert_eq!(profile.name, *name);
            assert!(!profile.source.is_empty());
        }
        assert!(Profile::preset("carrier-pigeon").is_none());
    }
}
