//! Formats of the access log that an operator writes: text with variables.
//!
//! Decides which variables exist and whether a template is valid. The access log decides their values.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::sync::Arc;
use units::Word as _;

/// Maximum length of a template in bytes.
const LENGTH_MAX: usize = 4_096;

/// Maximum number of variables in a template.
const VARIABLES_MAX: usize = 100;

/// What the variables of request fields begin with.
const FIELD_PREFIX: &str = "http_";

units::words! {
    /// A part of a log line that differs from request to request.
    pub enum Variable {
        /// Time of the response, in whole seconds of UTC.
        Time = "time",
        /// The same with milliseconds.
        TimeMs = "time_ms",
        /// The same as the Common Log Format has it, without brackets.
        TimeClf = "time_clf",
        /// The same as milliseconds since 1970.
        EpochMs = "epoch_ms",
        /// Address of the client.
        Peer = "peer",
        /// User of a verified password or certificate.
        User = "user",
        /// The request line.
        Request = "request",
        /// Method.
        Method = "method",
        /// Target as received.
        Target = "target",
        /// The target up to its query.
        Path = "path",
        /// The query.
        Query = "query",
        /// Version of HTTP.
        Version = "version",
        /// `https` or `http`.
        Scheme = "scheme",
        /// Version of TLS.
        TlsVersion = "tls_version",
        /// Host that the request names.
        Host = "host",
        /// `Referer`.
        Referer = "referer",
        /// `User-Agent`.
        UserAgent = "user_agent",
        /// Id of the request.
        RequestId = "request_id",
        /// Id of the trace of the request.
        TraceId = "trace_id",
        /// Id of the span of the request.
        SpanId = "span_id",
        /// Number of the stream.
        Stream = "stream",
        /// Upstream that the request was passed to.
        Upstream = "upstream",
        /// Time from the dial to the head of its response, in microseconds.
        UpstreamUs = "upstream_us",
        /// The same in milliseconds.
        UpstreamMs = "upstream_ms",
        /// What the cache for the upstream did.
        CacheStatus = "cache_status",
        /// Status.
        Status = "status",
        /// Bytes sent, head included.
        Bytes = "bytes",
        /// Bytes of content sent.
        BodyBytes = "body_bytes",
        /// Duration in microseconds.
        DurationUs = "duration_us",
        /// The same in milliseconds.
        DurationMs = "duration_ms",
        /// Why the response was cut short.
        Aborted = "aborted",
        /// Round-trip time in microseconds.
        RttUs = "rtt_us",
        /// Congestion window in segments.
        Cwnd = "cwnd",
        /// Segments sent again.
        Retransmitted = "retransmitted",
    }
}

impl Variable {
    /// Whether its value is known only once the response is sent.
    pub(crate) fn is_late(self) -> bool {
        matches!(
            self,
            Variable::Bytes
                | Variable::BodyBytes
                | Variable::DurationUs
                | Variable::DurationMs
                | Variable::Aborted
                | Variable::RttUs
                | Variable::Cwnd
                | Variable::Retransmitted
        )
    }

    /// Whether its value is a number.
    fn is_number(self) -> bool {
        use Variable as V;
        let is_path = matches!(self, V::RttUs | V::Cwnd | V::Retransmitted);
        let is_upstream = matches!(self, V::UpstreamUs | V::UpstreamMs);
        let is_size = matches!(self, V::Bytes | V::BodyBytes | V::DurationUs | V::DurationMs);
        is_path || is_upstream || is_size || matches!(self, V::EpochMs | V::Stream | V::Status)
    }
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text as it is.
    Text(String),
    /// The value of a variable.
    Value(Variable),
    /// The value of a field of the request, by its name in lower case.
    Field(Box<str>),
}

impl Piece {
    /// The piece of a variable with this name. `None`: there is no such variable.
    fn of(name: &str) -> Option<Piece> {
        if let Ok(variable) = name.parse() {
            return Some(Piece::Value(variable));
        }
        let field = name.strip_prefix(FIELD_PREFIX)?;
        if field.is_empty() || !field.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return None;
        }
        let field = field.to_ascii_lowercase().replace('_', "-");
        Some(match &*field {
            // In HTTP/2 and HTTP/3, the host is no field.
            "host" => Piece::Value(Variable::Host),
            "referer" => Piece::Value(Variable::Referer),
            "user-agent" => Piece::Value(Variable::UserAgent),
            _ => Piece::Field(field.into()),
        })
    }
}

/// A format of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    pieces: Arc<[Piece]>,
    is_json: bool,
}

impl LogTemplate {
    /// Its pieces in order.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether lines are JSON objects: text is escaped accordingly, and missing numbers are `null`.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether it shows the state of the TCP connection.
    pub(crate) fn shows_path(&self) -> bool {
        let is_path = |variable| {
            matches!(
                variable,
                Variable::RttUs | Variable::Cwnd | Variable::Retransmitted
            )
        };
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Value(variable) if is_path(*variable)))
    }

    /// Whether it shows fields of requests by their names.
    pub(crate) fn shows_fields(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Field(_)))
    }

    /// Whether it shows the ids of requests.
    pub(crate) fn shows_id(&self) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Value(Variable::RequestId)))
    }

    /// Whether it shows ids of traces.
    pub(crate) fn shows_trace(&self) -> bool {
        let is_of_trace = |variable| matches!(variable, Variable::TraceId | Variable::SpanId);
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Value(variable) if is_of_trace(*variable)))
    }

    /// A line with values that need no escaping.
    fn example(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(variable) if variable.is_number() => "1".to_owned(),
            Piece::Value(_) | Piece::Field(_) => "x".to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }
}

impl FromStr for LogTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<LogTemplate, String> {
        if text.is_empty() || text.len() > LENGTH_MAX || !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Err(format!(
                "a template is one line of printable ASCII, of at most {LENGTH_MAX} characters, as in \
                 $time_ms $peer \"$request\" $status $duration_ms"
            ));
        }
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('$') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix('$') {
                plain.push('$');
                rest = behind;
                continue;
            }
            let (name, behind) = match rest.strip_prefix('{') {
                Some(inner) => inner
                    .split_once('}')
                    .ok_or("a `${` has no `}`; write the name of a variable between them, as in ${status}")?,
                None => {
                    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                    rest.split_at(end)
                }
            };
            let piece = Piece::of(name).ok_or_else(|| {
                let valid = Variable::WORDS.join(", $");
                let nearest = units::words::nearest(name, Variable::WORDS);
                let hint = nearest.map_or(String::new(), |one| format!("; did you mean `${one}`?"));
                format!(
                    "`${name}` is no variable; valid are ${valid}, and ${FIELD_PREFIX} with the name of a request field, \
                     as in ${FIELD_PREFIX}accept_language{hint}; write `$$` for a dollar"
                )
            })?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        let count = pieces
            .iter()
            .filter(|piece| !matches!(piece, Piece::Text(_)))
            .count();
        if count > VARIABLES_MAX {
            return Err(format!(
                "a template has at most {VARIABLES_MAX} variables; remove some"
            ));
        }
        let template = LogTemplate {
            is_json: text.starts_with('{'),
            pieces: pieces.into(),
        };
        if template.is_json {
            let example = template.example();
            serde_json::from_str::<serde_json::Value>(&example).map_err(|error| {
                format!(
                    "lines of this template would be no JSON, as in {example} ({error}); write text values in quotes and \
                     numbers without, as in {{\"time\":\"$time_ms\",\"status\":$status}}"
                )
            })?;
        }
        Ok(template)
    }
}

impl fmt::Display for LogTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &*self.pieces {
            match piece {
                Piece::Text(text) => f.write_str(&text.replace('$', "$$"))?,
                Piece::Value(variable) => write!(f, "${{{variable}}}")?,
                Piece::Field(name) => write!(f, "${{{FIELD_PREFIX}{}}}", name.replace('-', "_"))?,
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for LogTemplate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<LogTemplate, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_text_and_variables() {
        let template: LogTemplate = "$time_ms ${status}s $$5 $peer".parse().unwrap();
        assert_eq!(
            template.pieces(),
            [
                Piece::Value(Variable::TimeMs),
                Piece::Text(" ".to_owned()),
                Piece::Value(Variable::Status),
                Piece::Text("s $5 ".to_owned()),
                Piece::Value(Variable::Peer),
            ]
        );
        assert!(!template.is_json() && !template.shows_path());
        assert_eq!(template.to_string().parse(), Ok(template));
        let json: LogTemplate = r#"{"t":"$time_ms","rtt":$rtt_us}"#.parse().unwrap();
        assert!(json.is_json() && json.shows_path());
    }

    #[test]
    fn fields_of_requests_have_names_as_in_nginx() {
        let template: LogTemplate = "${http_Accept_Language}s $http_x_a".parse().unwrap();
        assert_eq!(
            template.pieces(),
            [
                Piece::Field("accept-language".into()),
                Piece::Text("s ".to_owned()),
                Piece::Field("x-a".into()),
            ]
        );
        assert!(template.shows_fields());
        assert_eq!(template.to_string().parse(), Ok(template));
        // These have variables of their own, whose values are at hand.
        let known: LogTemplate = "$http_host$http_referer$http_user_agent".parse().unwrap();
        assert_eq!("$host$referer$user_agent".parse(), Ok(known.clone()));
        assert!(!known.shows_fields());
        assert!(r#"{"a":"$http_x"}"#.parse::<LogTemplate>().is_ok());
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, advice) in [
            ("", "one line"),
            ("a\nb", "one line"),
            (&*"x".repeat(LENGTH_MAX + 1), "at most 4096"),
            ("$stauts", "did you mean `$status`?"),
            ("$", "is no variable"),
            ("$http_", "is no variable"),
            ("${http_a b}", "$http_accept_language"),
            ("{\"a\":$http_x}", "no JSON"),
            ("${status", "has no `}`"),
            ("{\"a\":$peer}", "no JSON"),
            ("{\"a\":\"$peer\"", "no JSON"),
            (&*"$status".repeat(VARIABLES_MAX + 1), "at most 100 variables"),
            (&*"$http_a ".repeat(VARIABLES_MAX + 1), "at most 100 variables"),
        ] {
            let why = text.parse::<LogTemplate>().unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
        assert!("x".repeat(LENGTH_MAX).parse::<LogTemplate>().is_ok());
    }
}
