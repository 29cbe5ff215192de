//! The field `traceparent` (W3C Trace Context, level 1, section 3.2): which trace a request belongs to, and which span sent it.
//!
//! ```text
//!   00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//!   version, trace ID, ID of the span that sends the request, flags
//! ```
//! Level 2 adds a flag: the trace ID is random. It is passed on, and the others are zero, as both levels demand.

use crate::ids::{self, SpanId, TraceId};
use core::fmt;

/// Flag: the caller may have recorded the trace.
const SAMPLED: u8 = 1;

/// Flag of level 2: at least the last 56 bits of the trace ID are random.
const RANDOM: u8 = 2;

/// Length of the value in version 00.
const LENGTH: usize = 55;

/// The value of `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The span that sends the request.
    pub span: SpanId,
    /// Whether the trace may have been recorded.
    pub is_sampled: bool,
    /// Whether the last 56 bits of the trace ID are known to be random.
    pub is_random: bool,
}

impl TraceParent {
    /// Name of the field.
    pub const FIELD: &str = "traceparent";

    /// Reads the value of the only field line of this name. `None`: it is invalid, and the trace begins here. A version that
    /// is not known yet is read as far as version 00 reaches (section 3.2.4).
    pub fn read(value: &[u8]) -> Option<TraceParent> {
        let value = value.trim_ascii();
        let (known, rest) = value.split_at_checked(LENGTH)?;
        let dashes = [2, 35, 52].map(|at| known[at]);
        let [version] = ids::read(&known[..2])?;
        let is_whole = match version {
            0xff => false,
            0 => rest.is_empty(),
            _ => matches!(rest.first(), None | Some(b'-')),
        };
        if dashes != [b'-'; 3] || !is_whole {
            return None;
        }
        let [flags] = ids::read(&known[53..])?;
        Some(TraceParent {
            trace: TraceId::read(&known[3..35])?,
            span: SpanId::read(&known[36..52])?,
            is_sampled: flags & SAMPLED != 0,
            is_random: flags & RANDOM != 0,
        })
    }

    /// Its flags.
    pub(crate) fn flags(&self) -> u8 {
        (SAMPLED * u8::from(self.is_sampled)) | (RANDOM * u8::from(self.is_random))
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "12345678901234567890123456789012";
    const SPAN: &str = "1234567890123456";

    fn read(text: &str) -> Option<String> {
        TraceParent::read(text.as_bytes()).map(|parent| parent.to_string())
    }

    /// The cases of the test suite of the W3C (github.com/w3c/trace-context, test/test.py).
    #[test]
    fn what_is_valid_is_taken() {
        for (text, shown) in [
            (format!("00-{TRACE}-{SPAN}-01"), "01"),
            (format!("00-{TRACE}-{SPAN}-00"), "00"),
            (format!("00-{TRACE}-{SPAN}-03"), "03"),
            // Flags without a meaning are not passed on.
            (format!("00-{TRACE}-{SPAN}-f9"), "01"),
            (format!("00-{TRACE}-{SPAN}-fc"), "00"),
            (format!(" \t00-{TRACE}-{SPAN}-01 "), "01"),
            // Versions of the future may add to it.
            (format!("cc-{TRACE}-{SPAN}-01"), "01"),
            (format!("cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like"), "01"),
        ] {
            assert_eq!(read(&text), Some(format!("00-{TRACE}-{SPAN}-{shown}")), "{text}");
        }
    }

    #[test]
    fn what_is_not_valid_begins_a_new_trace() {
        for text in [
            String::new(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-what-the-future-will-be-like"),
            format!("00-{TRACE}-{SPAN}-01."),
            format!("cc-{TRACE}-{SPAN}-01.what-the-future-will-not-be-like"),
            format!(".0-{TRACE}-{SPAN}-01"),
            format!("0.-{TRACE}-{SPAN}-01"),
            format!("000-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-.{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{}-{SPAN}-01", TRACE.replace('9', "A")),
            format!("00-{TRACE}{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", &TRACE[..31]),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-.{}-01", &SPAN[1..]),
            format!("00-{TRACE}-{SPAN}0-01"),
            format!("00-{TRACE}-{}-01", &SPAN[..15]),
            format!("00-{TRACE}-{SPAN}-.1"),
            format!("00-{TRACE}-{SPAN}-0."),
            format!("00-{TRACE}-{SPAN}-001"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("00-{TRACE}-{SPAN}-0\u{130}"),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(high: u64, low: u64, span: u64, is_sampled: bool, is_random: bool) {
            let parent = TraceParent {
                trace: TraceId::of(high, low),
                span: SpanId::of(span),
                is_sampled,
                is_random,
            };
            prop_assert_eq!(TraceParent::read(parent.to_string().as_bytes()), Some(parent));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(parent) = TraceParent::read(&bytes) {
                prop_assert!(bytes.len() >= LENGTH);
                prop_assert_eq!(TraceParent::read(parent.to_string().as_bytes()), Some(parent));
            }
        }
    }
}
