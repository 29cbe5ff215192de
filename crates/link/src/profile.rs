//! Named links, each with the source of its numbers.
//!
//! Three come from the W3C's performance study (NOTE-pipelining-970624, Table 1), one from Lighthouse's mobile
//! profile, the others from the built-in profiles of sitespeed.io's `throttle`. Publications state only rates
//! and round-trip times; framing and queues are Weir's choice.

use crate::bottleneck::{Framing, Server};
use crate::delay::Jitter;
use crate::discipline::Discipline;
use crate::hold::HoldTimer;
use crate::loss::LossModel;
use units::{Bytes, Duration, Rate};

/// One direction of a link. The default passes all packets at once.
#[derive(Clone, Debug)]
pub struct Way {
    /// Rate or trace of the bottleneck; `None` for unlimited bandwidth.
    pub server: Option<Server>,
    /// Link-layer overhead of each packet.
    pub framing: Framing,
    /// The queue in front of the bottleneck.
    pub discipline: Discipline,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Random variation of the delay.
    pub jitter: Jitter,
    /// Whether jitter may reorder packets.
    pub reorder: bool,
    /// Random loss; `None` for none.
    pub loss: Option<LossModel>,
    /// Largest IP packet in bytes; `None` for no limit.
    pub mtu: Option<Bytes>,
    /// Timer for holding pure ACKs; `None` if they pass at once.
    pub hold_acks: Option<HoldTimer>,
    /// Segment size in bytes for ACK holding; an ACK of two segments passes at once.
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
    /// Preset name, or the description it was parsed from.
    pub name: String,
    /// Publication of its numbers, with assumptions.
    pub source: String,
    /// From client to server.
    pub up: Way,
    /// From server to client.
    pub down: Way,
    /// Whether both directions share one medium, with the bottleneck and queue of `up`.
    pub half_duplex: bool,
}

/// A row of the table: name, downlink and uplink in kbit/s, round-trip time in microseconds, source.
struct Row(&'static str, u64, u64, u64, &'static str);

const W3C: &str = "W3C NOTE-pipelining-970624, Table 1";
const SITESPEED: &str = "sitespeed.io throttle, built-in profiles";

const ROWS: &[Row] = &[
    Row("lan", 10_000, 10_000, 500, W3C),
    Row("wan", 1_500, 1_500, 90_000, W3C),
    // The table holds whole kilobits; `preset` sets 28.8 kbit/s.
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

/// Names that [`Profile::preset`] accepts, in the order of the help.
pub const PRESETS: &[&str] = &[
    "lan", "wan", "ppp", "mobile", "3g", "3gfast", "3gslow", "2g", "cable", "dsl", "4g", "lte", "edge",
    "dial", "fios",
];

impl Profile {
    /// The preset called `name`; `None` if it is not in [`PRESETS`].
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

    /// Applies a change to both directions.
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
