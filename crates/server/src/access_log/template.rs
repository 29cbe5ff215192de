//! Lines of a format that the operator wrote.
//!
//! The text known when the response is composed is written at once. What is known only once it is sent has a mark at its
//! place.

use super::escape::{push_clf, push_json};
use super::{Numbers, Request, RequestLine, push_ip, push_number};
use crate::clock::Clock;
use crate::config::{LogTemplate, Piece, Variable};
use http_semantics::field::Fields;
use runtime::session::TlsVersion;
use std::io::Write as _;
use units::Duration;

/// Appends a line without its late values, whose places are appended to `marks`.
#[cold]
pub(super) fn compose(
    template: &LogTemplate,
    (out, marks): (&mut Vec<u8>, &mut Vec<(u32, Variable)>),
    clock: &Clock,
    request: &Request<'_>,
    status: u16,
) {
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Value(variable) if variable.is_late() => marks.push((out.len() as u32, *variable)),
            Piece::Value(variable) => {
                let writer = Writer {
                    out,
                    is_json: template.is_json(),
                };
                early(*variable, writer, clock, request, status);
            }
            Piece::Field(name) => {
                let writer = Writer {
                    out,
                    is_json: template.is_json(),
                };
                writer.text(request.fields.map(|fields| value(fields, name)).as_deref());
            }
        }
    }
    out.push(b'\n');
}

/// The values of all lines of a field, in order. Empty without any.
fn value(fields: &Fields<'_, '_>, name: &str) -> Vec<u8> {
    // HTTP/2 and HTTP/3 may split this one field into its members (RFC 9113 section 8.2.3).
    let between: &[u8] = if name == "cookie" { b"; " } else { b", " };
    let lines = fields.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name));
    let values: Vec<&[u8]> = lines.map(|(_, value)| value).collect();
    values.join(between)
}

/// Writes values, each escaped for its kind of line.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    is_json: bool,
}

impl Writer<'_> {
    /// Text of a client. An empty or missing one is a dash, or nothing in JSON.
    fn text(self, text: Option<&[u8]>) {
        match (text.filter(|text| !text.is_empty()), self.is_json) {
            (Some(text), true) => push_json(self.out, text),
            (Some(text), false) => push_clf(self.out, text),
            (None, true) => {}
            (None, false) => self.out.push(b'-'),
        }
    }

    fn number(self, number: Option<u64>) {
        match number {
            Some(number) => push_number(self.out, number),
            None => self.no_number(),
        }
    }

    fn no_number(self) {
        let missing: &[u8] = if self.is_json { b"null" } else { b"-" };
        self.out.extend_from_slice(missing);
    }

    fn millis(self, span: Option<Duration>) {
        match span {
            Some(span) => {
                let micros = span.as_micros();
                // Writing to a `Vec` cannot fail.
                let _ = write!(self.out, "{}.{:03}", micros / 1_000, micros % 1_000);
            }
            None => self.no_number(),
        }
    }
}

fn early(variable: Variable, writer: Writer<'_>, clock: &Clock, request: &Request<'_>, status: u16) {
    let (method, target, version) = match request.line {
        RequestLine::Parsed {
            method,
            target,
            version,
        } => (Some(method), Some(target), Some(version.as_bytes())),
        RequestLine::Raw(_) => (None, None, None),
    };
    let query_at = target.and_then(|target| target.iter().position(|&b| b == b'?'));
    match variable {
        Variable::Time => writer.out.extend_from_slice(clock.iso()),
        Variable::TimeMs => {
            writer.out.extend_from_slice(&clock.iso()[..19]);
            let _ = write!(writer.out, ".{:03}Z", clock.now().nanos / 1_000_000);
        }
        Variable::TimeClf => writer.out.extend_from_slice(&clock.bracketed()[1..27]),
        Variable::EpochMs => {
            let now = clock.now();
            let _ = write!(
                writer.out,
                "{}",
                now.secs.saturating_mul(1_000) + i64::from(now.nanos / 1_000_000)
            );
        }
        Variable::Peer => push_ip(writer.out, request.peer),
        Variable::User => writer.text(request.user),
        Variable::Request => match request.line {
            RequestLine::Raw(bytes) => writer.text(Some(bytes)),
            RequestLine::Parsed { .. } => {
                let parts = [method, target, version].map(Option::unwrap_or_default);
                writer.text(Some(&parts.join(&b' ')));
            }
        },
        Variable::Method => writer.text(method),
        Variable::Target => writer.text(target),
        Variable::Path => writer.text(target.map(|target| &target[..query_at.unwrap_or(target.len())])),
        Variable::Query => writer.text(target.and_then(|target| target.get(query_at? + 1..))),
        Variable::Version => writer.text(version),
        Variable::Scheme => {
            let scheme: &[u8] = if request.is_secured { b"https" } else { b"http" };
            writer.text(Some(scheme));
        }
        Variable::TlsVersion => writer.text(request.tls.map(TlsVersion::name).map(str::as_bytes)),
        Variable::Host => writer.text(request.host),
        Variable::Referer => writer.text(request.referer),
        Variable::UserAgent => writer.text(request.user_agent),
        Variable::RequestId => writer.text(request.id.map(str::as_bytes)),
        Variable::TraceId => {
            let id = request.trace.map(|trace| trace.context().trace.to_string());
            writer.text(id.as_deref().map(str::as_bytes));
        }
        Variable::SpanId => {
            let id = request.trace.map(|trace| trace.context().span.to_string());
            writer.text(id.as_deref().map(str::as_bytes));
        }
        Variable::Stream => writer.number(request.stream),
        Variable::Upstream => {
            let address = request.upstream.map(|upstream| upstream.target.to_string());
            writer.text(address.as_deref().map(str::as_bytes));
        }
        Variable::UpstreamUs => {
            writer.number(request.upstream.map(|upstream| upstream.took.as_micros() as u64));
        }
        Variable::UpstreamMs => writer.millis(request.upstream.map(|upstream| upstream.took)),
        Variable::CacheStatus => writer.text(request.cache.map(str::as_bytes)),
        Variable::Status => writer.number(Some(status.into())),
        Variable::Bytes
        | Variable::BodyBytes
        | Variable::DurationUs
        | Variable::DurationMs
        | Variable::Aborted
        | Variable::RttUs
        | Variable::Cwnd
        | Variable::Retransmitted => debug_assert!(false, "a late variable"),
    }
}

/// Appends a value that is known once the response is sent.
#[cold]
pub(super) fn late(variable: Variable, is_json: bool, numbers: &Numbers, out: &mut Vec<u8>) {
    let writer = Writer { out, is_json };
    match variable {
        Variable::Bytes => writer.number(Some(numbers.bytes)),
        Variable::BodyBytes => writer.number(Some(numbers.body_bytes)),
        Variable::DurationUs => writer.number(Some(numbers.duration.as_micros() as u64)),
        Variable::DurationMs => writer.millis(Some(numbers.duration)),
        Variable::Aborted => writer.text(numbers.cut.map(super::Cut::name)),
        Variable::RttUs => writer.number(numbers.path.map(|path| path.rtt.as_micros() as u64)),
        Variable::Cwnd => writer.number(numbers.path.map(|path| path.cwnd.into())),
        Variable::Retransmitted => writer.number(numbers.path.map(|path| path.retransmitted.into())),
        _ => debug_assert!(false, "an early variable"),
    }
}
