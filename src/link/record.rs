//! Recording of a link: packets as pcapng, counters as JSON lines.

use crate::failure::Failure;
use netem::{Notice, Tally};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use trace::{Frame, LinkType, PcapngWriter};
use units::Instant;

/// Packets begin with their IP header.
const RAW: LinkType = LinkType::RAW;

/// The first reason why the recording is incomplete, if it is. Set by the recording thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    fn tell(&self, why: String) {
        tracing::warn!("{why}");
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.get_or_insert(why);
    }

    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The open files.
pub(super) struct Record {
    pcap: Option<(File, PcapngWriter, u32)>,
    log: Option<File>,
    /// Whether packets are recorded, not pieces of a proxy's byte stream.
    is_packets: bool,
    /// Time of the first tally, the origin of all times.
    start: Option<Instant>,
    scratch: Vec<u8>,
    /// After an error nothing more is written.
    broken: bool,
    trouble: Trouble,
}

impl Record {
    pub(super) fn open(
        pcap: Option<&Path>,
        log: Option<&Path>,
        is_packets: bool,
        trouble: Trouble,
    ) -> Result<Record, Failure> {
        let create = |path: &Path| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(path)
                .map_err(|error| Failure::System(format!("cannot write {}: {error}", path.display())))
        };
        let mut scratch = Vec::new();
        let pcap = match pcap {
            Some(path) => {
                let mut writer =
                    PcapngWriter::begin(&mut scratch, concat!("weir ", env!("CARGO_PKG_VERSION")));
                let interface = writer.interface(&mut scratch, RAW, 0, "weir0");
                Some((create(path)?, writer, interface))
            }
            None => None,
        };
        let mut record = Record {
            pcap,
            log: log.map(create).transpose()?,
            is_packets,
            start: None,
            scratch,
            broken: false,
            trouble,
        };
        record.write_packets();
        Ok(record)
    }

    /// Records a notice.
    pub(super) fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Frame { civil, ip, .. } => {
                if let Some((_, writer, interface)) = &self.pcap {
                    let frame = Frame {
                        number: 0,
                        at: Instant::from_nanos(civil),
                        link: RAW,
                        wire_len: ip.len() as u32,
                        data: &ip,
                    };
                    writer.frame(&mut self.scratch, *interface, &frame);
                }
                if self.scratch.len() > 1 << 16 {
                    self.write_packets();
                }
            }
            Notice::Tally(tally) => {
                self.write_packets();
                self.write_counters(&tally);
            }
        }
    }

    fn write_packets(&mut self) {
        if let Some((file, ..)) = &mut self.pcap
            && !self.broken
            && let Err(error) = file.write_all(&self.scratch)
        {
            self.trouble.tell(format!("the capture ends early: {error}"));
            self.broken = true;
        }
        self.scratch.clear();
    }

    fn write_counters(&mut self, tally: &Tally) {
        let Some(file) = &mut self.log else { return };
        let start = *self.start.get_or_insert(tally.at);
        let way = |k: usize| {
            let counters = &tally.ways[k];
            json!({
                "packets_in": counters.entered,
                "packets_out": counters.left,
                "packets_inside": counters.waiting,
                "bytes_in": tally.bytes_in[k],
                "bytes_out": tally.bytes_out[k],
                "dropped": {
                    "loss": counters.dropped.loss,
                    "full": counters.dropped.full,
                    "aged": counters.dropped.aged,
                    "too_large": counters.dropped.too_large,
                    "superseded": counters.dropped.superseded,
                    "limit": counters.dropped.limit,
                },
            })
        };
        let line = json!({
            "version": 1,
            "packet_level": self.is_packets,
            "seconds": tally.at.since(start).as_secs_f64(),
            "up": way(0),
            "down": way(1),
            "udp": {
                "flows": tally.udp.opened,
                "evicted": tally.udp.evicted,
                "rebound": tally.udp.rebound,
                "unreachable": tally.udp.unreachable,
                "fragments": tally.udp.fragments,
                "too_large": tally.udp.too_large,
                "overflowed": tally.udp.overflowed,
                "unsent": tally.udp.unsent,
            },
            "overflowed": tally.overflowed,
            "refused": tally.refused,
            "late": tally.late,
            "late_max_ms": tally.late_max.as_secs_f64() * 1e3,
        });
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            self.trouble
                .tell(format!("the log of counters ends early: {error}"));
            self.log = None;
        }
    }
}
