//! OpenTelemetry without I/O: the trace context that requests carry (W3C Trace Context), spans and metrics in the OpenTelemetry
//! protocol (OTLP 1), and what the answer of a collector means.
//!
//! ```text
//!   traceparent ──▶ TraceParent ──▶ ids of a span ──▶ Span ────┐
//!                          counts, distributions ──▶ Metrics ──┴▶ export::request ──▶ body of a POST
//!   the collector's response ──▶ answer::judge ──▶ taken, again later, or lost
//! ```
//! The encoding is binary protobuf, which every collector takes (in JSON, OTLP is optional for them). Fields of protobuf
//! messages may come in any order and in pieces, so whoever makes spans encodes each one at once, and a batch is the
//! concatenation of encoded spans. [`wire`] also encodes messages of other protocols, such as Prometheus remote write. This crate
//! opens no connection and knows no clock.

pub mod answer;
pub mod export;
pub mod ids;
pub mod metric;
pub mod span;
pub mod trace_parent;
pub mod trace_state;
pub mod wire;
