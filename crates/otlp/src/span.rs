//! A span in the encoding of OTLP (opentelemetry/proto/trace/v1/trace.proto).
//!
//! A span is made in two steps: what is known when a response is composed, and what its end adds. Each step appends fields of
//! the same message, which protobuf allows in any order.

use crate::ids::SpanId;
use crate::trace_parent::TraceParent;
use crate::wire;

/// Longest text of an attribute in bytes; what is longer is cut.
pub const TEXT_MAX: usize = 1_024;

/// Field of `ScopeSpans` that holds a span.
const SPANS: u32 = 2;

/// Flag of a span: the one below it is known.
const HAS_REMOTE: u32 = 0x100;
/// Flag of a span: its parent is in another process.
const IS_REMOTE: u32 = 0x200;

/// Whose part of an exchange a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// That of the server of a request.
    Server = 2,
    /// That of its client.
    Client = 3,
}

/// The place of a span in its trace.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The trace, the span itself, and the flags.
    pub context: TraceParent,
    /// The span that led to it; `None`: the trace begins with it.
    pub parent: Option<SpanId>,
    /// Whether the parent is in another process.
    pub is_remote: bool,
    /// What other systems have noted about the trace (`tracestate`); empty: nothing.
    pub state: &'a str,
}

/// A span that is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Fields of the message.
    fields: Vec<u8>,
}

impl Span {
    /// A span that began then, in nanoseconds of Unix time.
    pub fn begin(place: &Place<'_>, kind: Kind, name: &str, start: u64) -> Span {
        let mut fields = Vec::with_capacity(512);
        let out = &mut fields;
        wire::bytes(out, 1, place.context.trace.bytes());
        wire::bytes(out, 2, place.context.span.bytes());
        if !place.state.is_empty() {
            wire::bytes(out, 3, place.state.as_bytes());
        }
        if let Some(parent) = &place.parent {
            wire::bytes(out, 4, parent.bytes());
        }
        wire::bytes(out, 5, name.as_bytes());
        wire::number(out, 6, kind as u64);
        wire::fixed64(out, 7, start);
        let remote = HAS_REMOTE | if place.is_remote { IS_REMOTE } else { 0 };
        wire::fixed32(out, 16, u32::from(place.context.flags()) | remote);
        Span { fields }
    }

    /// Adds an attribute with a text. What is not UTF-8 is replaced, and what is longer than [`TEXT_MAX`] is cut.
    pub fn text(&mut self, key: &str, value: &[u8]) {
        attribute(&mut self.fields, 9, key, |out| {
            let text = String::from_utf8_lossy(value);
            let end = text.floor_char_boundary(TEXT_MAX.min(text.len()));
            wire::bytes(out, 1, &text.as_bytes()[..end]);
        });
    }

    /// Adds an attribute with a number.
    pub fn number(&mut self, key: &str, value: u64) {
        attribute(&mut self.fields, 9, key, |out| {
            wire::signed(out, 3, i64::try_from(value).unwrap_or(i64::MAX));
        });
    }

    /// Its status is an error.
    pub fn fail(&mut self) {
        const ERROR: u64 = 2;
        wire::message(&mut self.fields, 15, |out| wire::number(out, 3, ERROR));
    }

    /// Ends it then, in nanoseconds of Unix time, and appends it to a batch.
    pub fn end(mut self, end: u64, batch: &mut Vec<u8>) {
        wire::fixed64(&mut self.fields, 8, end);
        wire::bytes(batch, SPANS, &self.fields);
    }
}

/// Appends a `KeyValue`, whose value `write` appends.
pub(crate) fn attribute(out: &mut Vec<u8>, field: u32, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
    wire::message(out, field, |out| {
        wire::bytes(out, 1, key.as_bytes());
        wire::message(out, 2, write);
    });
}
