//! The body of a request to a collector: who sends, and the spans or metrics
//! (opentelemetry/proto/collector/trace/v1/trace_service.proto, …/metrics/v1/metrics_service.proto).

use crate::span::attribute;
use crate::wire::{self, Fields};

/// Path of traces below that of the collector (OTLP 1, "OTLP/HTTP Request").
pub const TRACES_AT: &str = "/v1/traces";

/// `Content-Type` of requests and responses.
pub const MEDIA_TYPE: &str = "application/x-protobuf";

/// Who sends: name and text of each attribute, such as `service.name`.
pub type Resource<'a> = &'a [(&'a str, &'a str)];

/// The program that made what is sent, and its version.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// Length in bytes of the first so many spans, as [`crate::span::Span::end`] has appended them.
pub fn length_of(spans: &[u8], count: u32) -> usize {
    let mut rest = Fields(spans);
    for _ in 0..count {
        if rest.next().is_none() {
            break;
        }
    }
    spans.len() - rest.0.len()
}

/// The request with these encoded spans or metrics: both kinds have the same field numbers, here and around them.
pub fn request(resource: Resource<'_>, scope: Scope<'_>, entries: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() + 512);
    wire::message(&mut out, 1, |out| {
        wire::message(out, 1, |out| {
            for (key, value) in resource {
                attribute(out, 1, key, |out| wire::bytes(out, 1, value.as_bytes()));
            }
        });
        wire::message(out, 2, |out| {
            wire::message(out, 1, |out| {
                wire::bytes(out, 1, scope.name.as_bytes());
                wire::bytes(out, 2, scope.version.as_bytes());
            });
            out.extend_from_slice(entries);
        });
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{SpanId, TraceId};
    use crate::span::{Kind, Place, Span, TEXT_MAX};
    use crate::trace_parent::TraceParent;
    use crate::wire::Value;

    fn place(parent: Option<SpanId>) -> Place<'static> {
        Place {
            context: TraceParent {
                trace: TraceId::of(1, 2),
                span: SpanId::of(3),
                is_sampled: true,
                is_random: false,
            },
            parent,
            is_remote: parent.is_some(),
            state: if parent.is_some() { "a=1" } else { "" },
        }
    }

    /// The messages in this field.
    fn inner(message: &[u8], number: u32) -> Vec<&[u8]> {
        let fields = Fields(message).filter(|(field, _)| *field == number);
        fields
            .map(|(_, value)| match value {
                Value::Bytes(inner) => inner,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_request_says_who_speaks_and_has_all_spans() {
        let mut batch = Vec::new();
        let mut span = Span::begin(&place(Some(SpanId::of(9))), Kind::Server, "GET", 5);
        span.text("url.path", b"/a\xff");
        span.number("http.response.status_code", 503);
        span.fail();
        span.end(7, &mut batch);
        Span::begin(&place(None), Kind::Client, "GET", 6).end(6, &mut batch);
        assert_eq!(
            [0, 2, 3].map(|count| length_of(&batch, count)),
            [0, batch.len(), batch.len()]
        );
        let first = length_of(&batch, 1);
        assert_eq!(inner(&batch[..first], 2).len(), 1);
        let scope = Scope {
            name: "weir",
            version: "1",
        };
        let request = request(&[("service.name", "shop")], scope, &batch);
        let resources = inner(&request, 1);
        assert_eq!(resources.len(), 1);
        // A `KeyValue` with a `string_value`.
        let attributes = inner(inner(resources[0], 1)[0], 1);
        assert_eq!(attributes, [b"\x0a\x0cservice.name\x12\x06\x0a\x04shop"]);
        let scopes = inner(resources[0], 2);
        assert_eq!(scopes.len(), 1);
        assert_eq!(inner(scopes[0], 1), [b"\x0a\x04weir\x12\x011"]);
        let spans = inner(scopes[0], 2);
        assert_eq!(spans.len(), 2);
        let fields: Vec<_> = Fields(spans[0]).filter(|(field, _)| *field != 9).collect();
        assert_eq!(
            fields,
            [
                (1, Value::Bytes(TraceId::of(1, 2).bytes())),
                (2, Value::Bytes(SpanId::of(3).bytes())),
                (3, Value::Bytes(b"a=1")),
                (4, Value::Bytes(SpanId::of(9).bytes())),
                (5, Value::Bytes(b"GET")),
                (6, Value::Number(2)),
                (7, Value::Fixed64(5)),
                (16, Value::Fixed32(0x301)),
                (15, Value::Bytes(&[0x18, 2])),
                (8, Value::Fixed64(7)),
            ]
        );
        let attributes = inner(spans[0], 9);
        assert_eq!(inner(attributes[0], 1), [b"url.path"]);
        assert_eq!(inner(inner(attributes[0], 2)[0], 1), ["/a\u{fffd}".as_bytes()]);
        let number: Vec<_> = Fields(inner(attributes[1], 2)[0]).collect();
        assert_eq!(number, [(3, Value::Number(503))]);
        let fields: Vec<_> = Fields(spans[1]).map(|(field, _)| field).collect();
        assert_eq!(
            fields,
            [1, 2, 5, 6, 7, 16, 8],
            "no parent, no state, no attribute, no status"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, length) in [
            ("x".repeat(TEXT_MAX), TEXT_MAX),
            ("x".repeat(TEXT_MAX + 1), TEXT_MAX),
            (format!("{}é", "x".repeat(TEXT_MAX - 1)), TEXT_MAX - 1),
        ] {
            let mut span = Span::begin(&place(None), Kind::Server, "GET", 1);
            span.text("k", text.as_bytes());
            let mut batch = Vec::new();
            span.end(1, &mut batch);
            let span = inner(&batch, 2)[0];
            let value = inner(inner(span, 9)[0], 2)[0];
            assert_eq!(inner(value, 1)[0].len(), length);
        }
    }
}
