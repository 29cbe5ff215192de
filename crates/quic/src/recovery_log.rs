//! What the library logs of loss recovery and congestion control (RFC 9002) while a connection is recorded: the packets that it
//! declares lost, and figures that its statistics lack. The library writes lines of JSON; they are read after each of its turns.
//!
//! ```text
//!   quinn-proto ── QlogStream ──▶ lines ── read ──▶ losses, figures ──▶ tape
//! ```

use quinn_proto::{QlogConfig, QlogStream};
use serde::Deserialize;
use std::io;
use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use units::Duration;

type Lines = Mutex<Vec<u8>>;

/// What a line of JSON begins with (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The log of one connection.
#[derive(Debug)]
pub(crate) struct RecoveryLog {
    lines: Arc<Lines>,
    figures: Figures,
}

/// What is known of recovery, as of the last line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// The latest sample of the round-trip time; before the first one, the library's estimate.
    pub(crate) rtt_latest: Option<Duration>,
    /// Bytes that were sent, and neither acknowledged nor declared lost.
    pub(crate) in_flight: Option<u64>,
}

/// A packet that was declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) packet_type: PacketType,
    pub(crate) number: u64,
    /// Bytes; `None` if congestion control does not count them, as of acknowledgments.
    pub(crate) length: Option<u64>,
}

/// Type of a packet that has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum PacketType {
    /// Initial.
    #[serde(rename = "initial")]
    Initial,
    /// Handshake.
    #[serde(rename = "handshake")]
    Handshake,
    /// 0-RTT.
    #[serde(rename = "0RTT")]
    ZeroRtt,
    /// With a short header.
    #[serde(rename = "1RTT")]
    OneRtt,
}

/// The library's end.
#[derive(Debug)]
struct Writer(Weak<Lines>);

#[derive(Deserialize)]
#[serde(tag = "name", content = "data")]
enum Line {
    #[serde(rename = "recovery:metrics_updated")]
    Metrics {
        /// In seconds: the library does not convert it to the milliseconds of qlog.
        latest_rtt: Option<f64>,
        bytes_in_flight: Option<u64>,
    },
    #[serde(rename = "recovery:packet_lost")]
    Lost { header: Header },
}

#[derive(Deserialize)]
struct Header {
    packet_type: PacketType,
    packet_number: u64,
    length: u64,
}

impl RecoveryLog {
    /// A log, and the stream for the library's configuration of one connection, which begins at `now`.
    pub(crate) fn begin(now: std::time::Instant) -> (RecoveryLog, Option<QlogStream>) {
        let lines = Arc::<Lines>::default();
        let mut config = QlogConfig::default();
        config
            .writer(Box::new(Writer(Arc::downgrade(&lines))))
            .start_time(now);
        let log = RecoveryLog {
            lines,
            figures: Figures::default(),
        };
        (log, config.into_stream())
    }

    /// Reads what the library has written since the last call. Returns the figures, and passes on each packet declared lost.
    pub(crate) fn read(&mut self, mut lost: impl FnMut(Declared)) -> Figures {
        let written = take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        for line in written.split(|byte| *byte == RECORD_SEPARATOR) {
            // Others are events that datagrams and their secrets tell of, too.
            match serde_json::from_slice(line) {
                Ok(Line::Metrics {
                    latest_rtt,
                    bytes_in_flight,
                }) => {
                    let latest = latest_rtt.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                    self.figures.rtt_latest = latest.or(self.figures.rtt_latest);
                    self.figures.in_flight = bytes_in_flight.or(self.figures.in_flight);
                }
                Ok(Line::Lost { header }) => lost(Declared {
                    packet_type: header.packet_type,
                    number: header.packet_number,
                    length: Some(header.length).filter(|length| *length > 0),
                }),
                Err(_) => {}
            }
        }
        self.figures
    }
}

impl io::Write for Writer {
    /// Writes nothing once nobody reads it: connections outlive their logs.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(lines) = self.0.upgrade() {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn figures_last_until_a_line_changes_them() {
        let (mut log, stream) = RecoveryLog::begin(runtime::clock::to_standard(units::Instant::ZERO));
        assert!(stream.is_some());
        let mut writer = Writer(Arc::downgrade(&log.lines));
        let mut write = |text: &str| writeln!(writer, "\x1e{text}").expect("memory");
        write(
            r#"{"time":1.0,"name":"recovery:metrics_updated","data":{"latest_rtt":0.25,"bytes_in_flight":1200}}"#,
        );
        write(
            r#"{"time":2.0,"name":"recovery:packet_lost","data":{"header":{"packet_type":"1RTT","packet_number":7,"length":99}}}"#,
        );
        write(r#"{"time":2.0,"name":"recovery:metrics_updated","data":{"bytes_in_flight":0}}"#);
        let mut lost = Vec::new();
        let figures = log.read(|one| lost.push(one));
        let wanted = Figures {
            rtt_latest: Some(Duration::from_millis(250)),
            in_flight: Some(0),
        };
        assert_eq!(figures, wanted);
        let declared = Declared {
            packet_type: PacketType::OneRtt,
            number: 7,
            length: Some(99),
        };
        assert_eq!(lost, [declared]);
        assert_eq!(log.read(|_| panic!("each loss is passed on once")), wanted);
        drop(log);
        assert!(writer.0.upgrade().is_none(), "nothing is kept for nobody");
        writer.write_all(b"more").expect("the connection goes on");
    }
}
