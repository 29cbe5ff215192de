//! The traces that requests belong to: which trace a request is a part of, whether it is recorded, and what an upstream is told
//! of it.
//!
//! Ids of this server are hashes of the place of a request, as ids of requests are. So wherever the trace of a request is asked
//! for, it is the same, and no state has to go along. The spans themselves are made with the lines of the access log.

use crate::config::{Config, Otlp, Parents, PathPattern, SampledBy};
use crate::field_list::write_line;
use crate::request_id::{Ids, Nth};
use core::fmt;
use http_semantics::request::RequestHead;
use otlp::ids::SpanId;
use otlp::span::Place;
use otlp::trace_parent::TraceParent;
use otlp::trace_state;
use std::sync::Arc;

/// Takes encoded spans on their way to a collector.
pub trait SpanSink: Send + Sync + fmt::Debug {
    /// Takes so many spans, as [`otlp::span::Span::end`] has appended them. Never waits.
    fn write(&self, spans: Vec<u8>, count: u32) -> Delivered;
}

/// What became of spans since the last call of [`SpanSink::write`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Spans that the collector took.
    pub sent: u64,
    /// Spans that were dropped: too many waited, or the collector did not take them.
    pub dropped: u64,
}

/// How requests are traced.
#[derive(Debug)]
pub(crate) struct Tracing {
    share: f64,
    sampled_by: SampledBy,
    pub(crate) parents: Parents,
    pub(crate) sink: Arc<dyn SpanSink>,
}

impl Tracing {
    /// `None`: there is no collector, or this program sends nothing.
    pub(crate) fn of(config: &Config, sink: Option<&Arc<dyn SpanSink>>) -> Option<Tracing> {
        let otlp: &Otlp = config.otlp.as_ref()?;
        Some(Tracing {
            share: otlp.sample.get(),
            sampled_by: otlp.sampled_by,
            parents: otlp.parent,
            sink: Arc::clone(sink?),
        })
    }

    /// The trace of a request at this place, which used https if it `is_secured`. `head`: its head, if the peer that sent it is
    /// believed.
    pub(crate) fn trace(
        &self,
        ids: &Ids,
        (connection, nth): (u64, Nth),
        head: Option<&RequestHead<'_, '_>>,
        is_secured: bool,
    ) -> Trace {
        let made = ids.trace(connection, nth);
        let parent = head.and_then(parent);
        let context = match parent {
            Some(parent) => TraceParent {
                span: made.span,
                is_sampled: match self.sampled_by {
                    SampledBy::Parent => parent.is_sampled,
                    SampledBy::Share => parent.trace.is_within(self.share),
                },
                ..parent
            },
            None => TraceParent {
                trace: made.trace,
                span: made.span,
                is_sampled: made.trace.is_within(self.share),
                is_random: false,
            },
        };
        Trace {
            context,
            parent: parent.map(|parent| parent.span),
            call: made.call,
            state: parent.and(head).and_then(state),
            route: None,
            is_secured,
        }
    }
}

/// The values of a field in its lines, in order.
fn values<'h>(head: &'h RequestHead<'_, '_>, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    let lines = head.fields.iter();
    lines
        .filter(move |(its, _)| its.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// What a request says of its parent, in a single line.
fn parent(head: &RequestHead<'_, '_>) -> Option<TraceParent> {
    let mut lines = values(head, TraceParent::FIELD);
    let value = lines.next().filter(|_| lines.next().is_none())?;
    TraceParent::read(value)
}

fn state(head: &RequestHead<'_, '_>) -> Option<Box<str>> {
    trace_state::read(values(head, trace_state::FIELD)).map(String::into)
}

/// The part of a request in its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace, and the span of the request.
    context: TraceParent,
    /// The span of the client; `None`: the trace begins here.
    parent: Option<SpanId>,
    /// The span of the request to an upstream.
    call: SpanId,
    /// What others have noted of the trace.
    state: Option<Box<str>>,
    /// The paths of the rule that passed the request on; `None`: none did, or the trace is not recorded.
    route: Option<Box<str>>,
    /// Whether the client used https.
    pub(crate) is_secured: bool,
}

impl Trace {
    /// Whether its spans are recorded.
    #[inline]
    pub fn is_sampled(&self) -> bool {
        self.context.is_sampled
    }

    /// The trace, and the span of the request.
    pub fn context(&self) -> &TraceParent {
        &self.context
    }

    /// The place of the span of the request.
    pub(crate) fn request(&self) -> Place<'_> {
        Place {
            context: self.context,
            parent: self.parent,
            is_remote: self.parent.is_some(),
            state: self.state.as_deref().unwrap_or_default(),
        }
    }

    /// The place of the span of the request to an upstream.
    pub(crate) fn call(&self) -> Place<'_> {
        Place {
            context: TraceParent {
                span: self.call,
                ..self.context
            },
            parent: Some(self.context.span),
            is_remote: false,
            state: self.state.as_deref().unwrap_or_default(),
        }
    }

    /// The paths of the rule that passed the request on, if one did.
    pub(crate) fn route(&self) -> Option<&str> {
        self.route.as_deref()
    }

    /// The same for a request that the rule for these paths passes on.
    pub(crate) fn routed(self: &Arc<Trace>, paths: &PathPattern) -> Arc<Trace> {
        match self.is_sampled() {
            true => Arc::new(Trace {
                route: Some(paths.to_string().into()),
                ..Trace::clone(self)
            }),
            // Nobody will ask.
            false => Arc::clone(self),
        }
    }

    /// The same for a request to another server that has no span of its own.
    pub(crate) fn without_call(&self) -> Trace {
        Trace {
            call: self.context.span,
            ..self.clone()
        }
    }

    /// A trace that begins with this request, for tests.
    #[cfg(test)]
    pub(crate) fn begun(bits: u64, is_sampled: bool) -> Trace {
        use otlp::ids::TraceId;
        Trace {
            context: TraceParent {
                trace: TraceId::of(0, bits),
                span: SpanId::of(bits),
                is_sampled,
                is_random: false,
            },
            parent: None,
            call: SpanId::of(bits + 1),
            state: None,
            route: None,
            is_secured: true,
        }
    }

    /// Whether a field of this name is written anew for upstreams.
    pub(crate) fn replaces(name: &str) -> bool {
        [TraceParent::FIELD, trace_state::FIELD]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
    }

    /// Appends the lines for an upstream, except those that `drops` drops.
    pub(crate) fn write(&self, out: &mut Vec<u8>, drops: impl Fn(&str) -> bool) {
        if !drops(TraceParent::FIELD) {
            write_line(
                out,
                TraceParent::FIELD,
                self.call().context.to_string().as_bytes(),
            );
        }
        if let Some(state) = self.state.as_deref().filter(|_| !drops(trace_state::FIELD)) {
            write_line(out, trace_state::FIELD, state.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::field::{Fields, Line};
    use http_semantics::method::Method;
    use http_semantics::request::Protocol;
    use http_semantics::target::Target;
    use units::Seed;

    #[derive(Debug)]
    struct Nowhere;

    impl SpanSink for Nowhere {
        fn write(&self, _: Vec<u8>, _: u32) -> Delivered {
            Delivered::default()
        }
    }

    fn tracing(more: &str) -> Tracing {
        let text = format!("[otlp]\nendpoint = 'http://127.0.0.1:1'\n{more}");
        let config = Config::from_toml(&text, "w.toml").unwrap();
        let sink: Arc<dyn SpanSink> = Arc::new(Nowhere);
        Tracing::of(&config, Some(&sink)).unwrap()
    }

    fn traced<'l>(tracing: &Tracing, ids: &Ids, nth: Nth, lines: &[(&'l str, &'l str)]) -> Trace {
        let line = |&(name, value): &(&'l str, &'l str)| Line {
            name,
            value: value.as_bytes(),
        };
        let lines: Vec<Line<'l>> = lines.iter().map(line).collect();
        let head = RequestHead {
            method: Method::Get,
            method_name: "GET",
            target: Target::parse(b"/", Method::Get).unwrap(),
            target_raw: b"/",
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        tracing.trace(ids, (1, nth), Some(&head), false)
    }

    fn written(trace: &Trace) -> String {
        let mut out = Vec::new();
        trace.write(&mut out, |_| false);
        String::from_utf8(out).unwrap()
    }

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_goes_on_with_a_span_of_its_own() {
        let (tracing, ids) = (tracing("sample = 0"), Ids::new(Seed(1)));
        let trace = traced(
            &tracing,
            &ids,
            Nth::Request(1),
            &[
                ("TraceParent", PARENT),
                ("tracestate", "a=1"),
                ("TRACESTATE", " b=2"),
            ],
        );
        assert!(trace.is_sampled(), "the caller records it");
        let text = written(&trace);
        let (first, second) = text.split_once("\r\n").unwrap();
        assert_eq!(second, "tracestate: a=1,b=2\r\n");
        let parent = first.strip_prefix("traceparent: ").unwrap();
        let parent = TraceParent::read(parent.as_bytes()).unwrap();
        let received = TraceParent::read(PARENT.as_bytes()).unwrap();
        assert_eq!(parent.trace, received.trace);
        assert_eq!(parent.span, trace.call().context.span);
        assert_eq!(trace.request().parent, Some(received.span));
        assert_eq!(trace.call().parent, Some(trace.context().span));
        let spans = [received.span, trace.context().span, parent.span];
        assert!(spans[0] != spans[1] && spans[1] != spans[2] && spans[0] != spans[2]);
        // The same request has the same trace wherever it is asked for.
        let again = traced(&tracing, &ids, Nth::Request(1), &[("traceparent", PARENT)]);
        assert_eq!(again.context(), trace.context());
    }

    #[test]
    fn a_trace_begins_here_without_a_valid_parent() {
        let (tracing, ids) = (tracing(""), Ids::new(Seed(1)));
        let mut seen = std::collections::HashSet::new();
        for (at, lines) in [
            &[][..],
            &[("traceparent", "00-nonsense")],
            &[("traceparent", PARENT), ("traceparent", PARENT)],
            &[("tracestate", "a=1")],
        ]
        .into_iter()
        .enumerate()
        {
            let trace = traced(&tracing, &ids, Nth::Stream(at as u64), lines);
            assert_eq!(trace.request().parent, None, "{lines:?}");
            assert!(
                trace.is_sampled() && !written(&trace).contains("tracestate"),
                "{lines:?}"
            );
            assert!(seen.insert(trace.context().trace), "{lines:?}");
        }
        let none = self::tracing("sample = 0");
        let trace = traced(&none, &ids, Nth::Request(7), &[]);
        assert!(!trace.is_sampled() && written(&trace).ends_with("-00\r\n"));
        // An upstream learns what the client has decided.
        let unsampled = PARENT.replace("-01", "-00");
        let trace = traced(&tracing, &ids, Nth::Request(8), &[("traceparent", &unsampled)]);
        assert!(!trace.is_sampled());
    }

    #[test]
    fn the_share_may_decide_about_the_traces_of_others() {
        let ids = Ids::new(Seed(1));
        let unsampled = PARENT.replace("-01", "-00");
        for (share, parent, is_sampled) in [(0, PARENT, false), (1, &*unsampled, true)] {
            let tracing = tracing(&format!("sample = {share}\nsampled-by = 'share'"));
            let trace = traced(&tracing, &ids, Nth::Request(1), &[("traceparent", parent)]);
            let received = TraceParent::read(parent.as_bytes()).unwrap();
            assert_eq!(trace.context().trace, received.trace);
            assert_eq!(trace.request().parent, Some(received.span));
            assert_eq!(trace.is_sampled(), is_sampled, "{share}");
            // Upstreams are told of the decision.
            let flags = if is_sampled { "-01" } else { "-00" };
            assert!(
                written(&trace).contains(&format!("{flags}\r\n")),
                "{}",
                written(&trace)
            );
        }
    }

    #[test]
    fn rules_drop_lines() {
        let (tracing, ids) = (tracing(""), Ids::new(Seed(1)));
        let trace = traced(
            &tracing,
            &ids,
            Nth::Request(1),
            &[("traceparent", PARENT), ("tracestate", "a=1")],
        );
        for (dropped, left) in [("traceparent", "tracestate: "), ("tracestate", "traceparent: ")] {
            let mut out = Vec::new();
            trace.write(&mut out, |name| name == dropped);
            let out = String::from_utf8(out).unwrap();
            assert!(out.starts_with(left) && out.lines().count() == 1, "{out}");
        }
    }
}
