//! The measured values of a finding in one line of text.

use super::counters::milliseconds;
use super::quic;
use ::trace::{AckTimer, ErrorSpace, Finding, Kind, Side, Transaction, Undecodable, Unopened};
use tls::names;

pub(super) fn side(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

fn timer(timer: AckTimer) -> &'static str {
    match timer {
        AckTimer::Short => "a short timer, as Linux's 40 ms",
        AckTimer::Heartbeat => "a heartbeat of 200 ms, as BSD's and Windows's",
        AckTimer::Long => "a long timer, up to RFC 1122's 500 ms",
    }
}

/// The measured values of a finding.
pub(super) fn measures(finding: &Finding) -> String {
    match &finding.kind {
        Kind::ShortInitialSegment { first_len, ack_delay } => format!(
            "first segment {first_len} B, the next full; acknowledged {} later",
            milliseconds(*ack_delay)
        ),
        Kind::OddShortFinalSegment {
            odd_len,
            final_len,
            ack_delay,
        } => format!(
            "last {final_len} B held until {odd_len} B were acknowledged {} later",
            milliseconds(*ack_delay)
        ),
        Kind::SlowStartRestart {
            idle,
            flight_before,
            flight_after,
            rounds,
        } => format!(
            "idle {}, then flights of {flight_after} B instead of {flight_before} B for {rounds} round trips",
            milliseconds(*idle)
        ),
        Kind::DelayedAck { timer: which, excess } => {
            format!("acknowledged {} late: {}", milliseconds(*excess), timer(*which))
        }
        Kind::NagleBuffering {
            held_len,
            timer: which,
        } => match which {
            Some(which) => format!("{held_len} B held, and the acknowledgment by {}", timer(*which)),
            None => format!("{held_len} B held for a round trip"),
        },
        Kind::ReceiverWindowLimited { waits, window_max } => {
            format!(
                "{} for a window of at most {window_max} B",
                counted(*waits, "wait")
            )
        }
        Kind::ZeroWindow { probes } => format!("probed {}", counted(*probes, "time")),
        Kind::ApplicationLimited { pauses } => {
            format!("{} with nothing under way", counted(*pauses, "pause"))
        }
        Kind::QueuedInNetwork { pauses } => {
            format!("{} while sent data waited on the way", counted(*pauses, "pause"))
        }
        Kind::FastRecovery { segments, upstream } => {
            let place = if *upstream {
                " before the capture point"
            } else {
                ""
            };
            format!("{} lost{place} and sent again", counted(*segments, "segment"))
        }
        Kind::Reordering { segments } => {
            format!(
                "{} sent again that the receiver had, as it reports",
                counted(*segments, "segment")
            )
        }
        Kind::RetransmissionTimeout {
            transmissions,
            spurious,
        } => {
            let needless = if *spurious {
                "; needless, the original had arrived"
            } else {
                ""
            };
            format!("transmission {transmissions} of this segment{needless}")
        }
        Kind::ResetDestroyedData {
            by,
            unacknowledged,
            unread,
            requests,
            after_close,
        } => {
            let closed = if *after_close { ", which had closed" } else { "" };
            format!(
                "by {}{closed}: {unread} B to it unread, {unacknowledged} B from it unacknowledged, {} \
                 unanswered",
                side(*by),
                counted(*requests, "request")
            )
        }
        Kind::OneRequestPerSegment { requests, needless } => {
            format!(
                "{}, {} too many",
                counted(*requests, "request"),
                counted(*needless, "segment")
            )
        }
        Kind::HandshakeRetransmission { transmissions } => counted(*transmissions, "attempt"),
        Kind::HeadOfLineBlocking { lost, waiting } => {
            let cost = milliseconds(finding.cost);
            format!(
                "{} waited {cost} for a lost segment of {}",
                streams(waiting),
                streams(lost)
            )
        }
        Kind::StreamFlowControl { stream, waits } => {
            format!("stream {stream}: {} for a window", counted(*waits, "wait"))
        }
        Kind::GoAway {
            code,
            last_stream,
            refused,
        } => format!(
            "{code}; last stream {last_stream}, {} above it",
            counted(*refused, "open stream")
        ),
        Kind::HelloRetry => format!("a round trip of {}", milliseconds(finding.cost)),
        Kind::TlsAlert { description } => names::alert(*description),
        Kind::TlsDecryptionStopped { cause } => match cause {
            Unopened::Gap => "the capture lacks bytes, so that the number of the next record is unknown",
            Unopened::NotAuthentic => "a record does not fit the secrets",
            Unopened::Memory => "the limit on memory is reached",
        }
        .to_owned(),
        Kind::Http2DecodingStopped { cause } => match cause {
            Undecodable::Gap => "the capture lacks bytes of a frame",
            Undecodable::Compression => "a field block does not decompress",
            Undecodable::Malformed => "a frame is malformed",
            Undecodable::Memory => "the limit on memory is reached",
        }
        .to_owned(),
        Kind::VersionNegotiation { offered } => {
            format!("the server does not speak {}", quic::version(*offered))
        }
        Kind::QuicRetry => format!("a round trip of {}", milliseconds(finding.cost)),
        Kind::QuicLossRecovery {
            packets_lost,
            upstream,
        } => {
            let place = if *upstream {
                " before the capture point"
            } else {
                ""
            };
            format!(
                "{} lost{place}; data sent again",
                counted(*packets_lost, "packet")
            )
        }
        Kind::QuicProbeTimeout { packets_resent } => format!(
            "data of {} sent again before any acknowledgment reported a loss",
            counted(*packets_resent, "packet")
        ),
        Kind::QuicFlowControl { stream, waits } => match stream {
            Some(stream) => format!("stream {stream}: {} for a limit", counted(*waits, "wait")),
            None => format!("the connection: {} for a limit", counted(*waits, "wait")),
        },
        Kind::QuicError { space, code } => error(*space, *code),
    }
}

/// A CONNECTION_CLOSE's code. Codes of the application are taken for those of HTTP/3.
pub(super) fn error(space: ErrorSpace, code: u64) -> String {
    /// RFC 9000, section 20.1.
    const TRANSPORT: [&str; 17] = [
        "NO_ERROR",
        "INTERNAL_ERROR",
        "CONNECTION_REFUSED",
        "FLOW_CONTROL_ERROR",
        "STREAM_LIMIT_ERROR",
        "STREAM_STATE_ERROR",
        "FINAL_SIZE_ERROR",
        "FRAME_ENCODING_ERROR",
        "TRANSPORT_PARAMETER_ERROR",
        "CONNECTION_ID_LIMIT_ERROR",
        "PROTOCOL_VIOLATION",
        "INVALID_TOKEN",
        "APPLICATION_ERROR",
        "CRYPTO_BUFFER_EXCEEDED",
        "KEY_UPDATE_ERROR",
        "AEAD_LIMIT_REACHED",
        "NO_VIABLE_PATH",
    ];
    match space {
        ErrorSpace::Application if code == 0x100 => "H3_NO_ERROR".to_owned(),
        ErrorSpace::Application => format!("application error {code:#x}"),
        ErrorSpace::Transport => match (usize::try_from(code).ok().and_then(|at| TRANSPORT.get(at)), code) {
            (Some(name), _) => (*name).to_owned(),
            (None, 0x100..=0x1ff) => format!("TLS alert {}", names::alert((code & 0xff) as u8)),
            (None, _) => format!("transport error {code:#x}"),
        },
    }
}

/// Stream numbers with their noun.
fn streams(numbers: &[u32]) -> String {
    let noun = if numbers.len() == 1 { "stream" } else { "streams" };
    let numbers: Vec<u64> = numbers.iter().map(|stream| u64::from(*stream)).collect();
    format!("{noun} {}", packets(&numbers))
}

/// The stream of a request over HTTP/2 and how it was reset, in parentheses.
pub(super) fn stream(transaction: &Transaction) -> String {
    let Some(stream) = transaction.stream else {
        return String::new();
    };
    match &transaction.reset {
        Some(reset) => format!(" (stream {stream}, reset by {}: {})", side(reset.by), reset.code),
        None => format!(" (stream {stream})"),
    }
}

/// A count and its noun, with an "s" unless the count is one.
pub(super) fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Frame numbers, separated by commas.
pub(super) fn packets(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    numbers.join(", ")
}
