//! What the answer of a collector means (OTLP 1, "OTLP/HTTP Response"), and how long to wait before the next attempt.

use crate::wire::{Fields, Value};
use units::Duration;

/// Statuses after which a request is repeated; all other failures are final.
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// Time before the second attempt, if the collector names none. It doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest time between two attempts, also if the collector names a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Most of a message of the collector that is shown, in bytes.
const MESSAGE_MAX: usize = 300;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The collector took it, apart from what it rejected.
    Taken {
        /// Number of spans, or of points, that it rejected; they are not to be sent again.
        rejected: u64,
        /// Why, or what it warns of; empty: nothing.
        message: String,
    },
    /// It may take it later.
    Again {
        /// The time that it asked for, if it did.
        after: Option<Duration>,
    },
    /// It will never take it.
    Refused,
}

/// What a response with this status, `Retry-After` and content means.
pub fn judge(status: u16, retry_after: Option<&str>, content: &[u8]) -> Verdict {
    match status {
        200..=299 => partial_success(content),
        status if RETRYABLE.contains(&status) => Verdict::Again {
            after: seconds_asked(retry_after),
        },
        _ => Verdict::Refused,
    }
}

/// The time that a `Retry-After` in seconds asks for; `None` for a date or without the field.
pub fn seconds_asked(retry_after: Option<&str>) -> Option<Duration> {
    let seconds = retry_after?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Reads `ExportTraceServiceResponse`; that of metrics has the same fields.
fn partial_success(content: &[u8]) -> Verdict {
    let (mut rejected, mut message) = (0, String::new());
    let messages = Fields(content).filter_map(|field| match field {
        (1, Value::Bytes(inner)) => Some(Fields(inner)),
        _ => None,
    });
    for field in messages.flatten() {
        match field {
            (1, Value::Number(count)) => rejected = count,
            (2, Value::Bytes(text)) => {
                let shown = text.get(..MESSAGE_MAX).unwrap_or(text);
                message = String::from_utf8_lossy(shown).into_owned();
            }
            _ => {}
        }
    }
    Verdict::Taken { rejected, message }
}

/// Time before the attempt after so many failed ones, of which there is at least one. `fraction`, below 1, is random and spreads
/// the attempts of many processes: the time is between a half and all of the usual one.
pub fn pause(failed: u32, asked: Option<Duration>, fraction: f64) -> Duration {
    if let Some(asked) = asked {
        return asked.min(PAUSE_MAX);
    }
    let doubled = PAUSE.saturating_mul(1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX));
    doubled
        .min(PAUSE_MAX)
        .mul_f64(0.5 + fraction.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use proptest::prelude::*;

    #[test]
    fn a_collector_may_take_a_part() {
        let taken = |rejected, message: &str| Verdict::Taken {
            rejected,
            message: message.to_owned(),
        };
        assert_eq!(judge(200, None, b""), taken(0, ""));
        // An empty `partial_success` is none.
        assert_eq!(judge(200, None, &[0x0a, 0]), taken(0, ""));
        let mut content = Vec::new();
        wire::message(&mut content, 1, |out| {
            wire::number(out, 1, 7);
            wire::bytes(out, 2, "quota é".as_bytes());
        });
        assert_eq!(judge(200, None, &content), taken(7, "quota é"));
        let mut content = Vec::new();
        wire::message(&mut content, 1, |out| {
            wire::bytes(out, 2, &[b'x'; MESSAGE_MAX + 1])
        });
        assert_eq!(judge(202, None, &content), taken(0, &"x".repeat(MESSAGE_MAX)));
        // JSON, or half of a message, tells nothing.
        assert_eq!(judge(200, None, b"{\"partialSuccess\":{}}"), taken(0, ""));
    }

    #[test]
    fn four_statuses_are_worth_another_attempt() {
        let again = |seconds: Option<u64>| Verdict::Again {
            after: seconds.map(Duration::from_secs),
        };
        for status in RETRYABLE {
            assert_eq!(judge(status, None, b""), again(None));
            assert_eq!(judge(status, Some(" 7 "), b""), again(Some(7)));
            assert_eq!(
                judge(status, Some("Sun, 06 Nov 1994 08:49:37 GMT"), b""),
                again(None)
            );
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            assert_eq!(judge(status, Some("7"), b""), Verdict::Refused, "{status}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let seconds = |failed, fraction| pause(failed, None, fraction).as_secs_f64();
        assert_eq!(
            [1, 2, 3, 6].map(|failed| seconds(failed, 1.0)),
            [1.0, 2.0, 4.0, 32.0]
        );
        assert_eq!(
            [1, 2, 3, 6].map(|failed| seconds(failed, 0.0)),
            [0.5, 1.0, 2.0, 16.0]
        );
        assert_eq!([7, 50, u32::MAX].map(|failed| seconds(failed, 1.0)), [60.0; 3]);
        assert_eq!(
            pause(1, Some(Duration::from_secs(7)), 0.0),
            Duration::from_secs(7)
        );
        assert_eq!(pause(1, Some(Duration::MAX), 0.0), PAUSE_MAX);
    }

    proptest! {
        #[test]
        fn any_content_is_judged(status: u16, content: Vec<u8>) {
            judge(status, None, &content);
        }
    }
}
