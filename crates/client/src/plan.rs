//! How to fetch a page: protocol mode, connections, codings, buffering and limits.
//!
//! The modes are those of the robot in W3C NOTE-pipelining-970624. The defaults of the output buffer apply to
//! all tables of the note except the third.

use crate::decode::Growth;
use core::fmt;
use core::str::FromStr;
use http_semantics::coding::Coding;
use http_semantics::method::Method;
use serde::{Deserialize, Serialize};
use units::Duration;

/// How requests are distributed over connections: those of one page, or of a user who sends one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// HTTP/1.0: a connection for each request.
    Http10,
    /// Persistent connections with one outstanding request each.
    Serial,
    /// Persistent connections: first the page alone, then all other requests without waiting for responses.
    Pipelined,
    /// Pipelined, with persistent connections that end with the page.
    EarlyClose,
    /// HTTP/2: each request as soon as it is known, with priorities as in a browser.
    Http2,
    /// HTTP/3: the same over QUIC.
    Http3,
    /// HTTP/2 if the server agrees during the TLS handshake (ALPN, RFC 7301), otherwise as serial. For pages only.
    Auto,
}

impl Mode {
    /// The modes of users and of the NOTE, in the order of the help.
    pub const ALL: [Mode; 4] = [Mode::Http10, Mode::Serial, Mode::Pipelined, Mode::EarlyClose];

    /// The name in flags and results.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Http10 => "http10",
            Mode::Serial => "serial",
            Mode::Pipelined => "pipelined",
            Mode::EarlyClose => "early-close",
            Mode::Http2 => "h2",
            Mode::Http3 => "h3",
            Mode::Auto => "auto",
        }
    }

    /// Whether a connection carries many requests at once, each on a stream.
    pub fn is_multiplexed(self) -> bool {
        matches!(self, Mode::Http2 | Mode::Http3)
    }

    /// Default number of simultaneous connections.
    pub fn connections(self) -> usize {
        match self {
            Mode::Http10 => 4,
            Mode::Serial | Mode::Pipelined | Mode::EarlyClose | Mode::Http2 | Mode::Http3 | Mode::Auto => 1,
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let known = Mode::ALL.into_iter().find(|mode| match text {
            "http/1.0" | "http1.0" => *mode == Mode::Http10,
            "http/1.1" | "http1.1" => *mode == Mode::Serial,
            _ => mode.name() == text,
        });
        known.ok_or_else(|| format!("`{text}` is not a mode; write http10, serial, pipelined or early-close"))
    }
}

/// A mode with the content coding it requests: `serial`, `pipelined+deflate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The mode.
    pub mode: Mode,
    /// The coding in `Accept-Encoding` of requests for text; `None` sends no such field.
    pub coding: Option<Coding>,
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.name())?;
        match self.coding {
            Some(coding) => write!(f, "+{}", coding.name()),
            None => Ok(()),
        }
    }
}

impl FromStr for Manner {
    type Err = String;

    fn from_str(text: &str) -> Result<Manner, String> {
        let (mode, coding) = match text.split_once('+') {
            Some((mode, coding)) => (mode, Some(coding)),
            None => (text, None),
        };
        let mode = match mode {
            "auto" => Mode::Auto,
            "h2" | "http/2" => Mode::Http2,
            "h3" | "http/3" => Mode::Http3,
            mode => mode.parse().map_err(|_| {
                format!(
                    "`{mode}` is not a mode; write auto, http10, serial, pipelined, early-close, h2 or h3"
                )
            })?,
        };
        let coding = coding
            .map(|name| {
                Coding::of(name.as_bytes())
                    .filter(|coding| *coding != Coding::Identity)
                    .ok_or_else(|| format!("`{text}` has an unknown coding; write deflate, gzip, br or zstd"))
            })
            .transpose()?;
        Ok(Manner { mode, coding })
    }
}

/// When pipelined requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes held at which the output is sent.
    pub bytes_max: usize,
    /// Time after the last request at which the output is sent.
    pub timer: Duration,
    /// Whether the request for the page is sent at once.
    pub flush_page: bool,
}

impl Buffering {
    /// 1,024 bytes, 50 ms, and the page's request at once.
    pub const DEFAULT: Buffering = Buffering {
        bytes_max: 1024,
        timer: Duration::from_millis(50),
        flush_page: true,
    };
}

/// Limits of one fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most objects of a page, itself included. Further ones are left out and counted.
    pub objects_max: usize,
    /// Most bytes received, and most bytes decoded, for the whole page.
    pub bytes_max: u64,
    /// Most decoded bytes of a response per coded byte, beyond the first mebibyte
    /// ([`Growth::FREE`](crate::decode::Growth::FREE)).
    pub ratio_max: u64,
    /// Most redirections in a row.
    pub redirects_max: u32,
    /// How often a request may be sent again after its connection ended before the response.
    pub repeats_max: u32,
    /// Time limit for opening a connection.
    pub connect_timeout: Duration,
    /// Time limit without a byte while responses are outstanding.
    pub stall_timeout: Duration,
    /// Time limit for the whole fetch.
    pub timeout: Duration,
}

impl Limits {
    /// Enough for pages found in practice.
    pub const DEFAULT: Limits = Limits {
        objects_max: 500,
        bytes_max: 256 << 20,
        ratio_max: Growth::RATIO_MAX,
        redirects_max: 10,
        repeats_max: 3,
        connect_timeout: Duration::from_secs(10),
        stall_timeout: Duration::from_secs(30),
        timeout: Duration::from_secs(120),
    };
}

units::words! {
    /// The priorities that HTTP/2 requests have (RFC 9218): those of a browser, or none.
    #[derive(Default)]
    pub enum Priorities {
        /// Those of Chromium.
        #[default]
        Chromium = "chromium",
        /// Those of Firefox.
        Firefox = "firefox",
        /// No request has a `Priority` field, so all are equally urgent.
        None = "none",
    }
}

/// All parameters of a fetch.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Protocol mode and content coding.
    pub manner: Manner,
    /// Most simultaneous connections.
    pub connections: usize,
    /// The output buffer of pipelined modes.
    pub buffering: Buffering,
    /// Value of the `User-Agent` field.
    pub user_agent: String,
    /// More fields of every request, in order; `Host`, `User-Agent`, `Accept` and `Cookie` replace the client's own.
    pub fields: Vec<(String, String)>,
    /// Cookies that requests have from the start, beside those that responses set.
    pub cookies: Vec<(String, String)>,
    /// Whether to validate every cache entry, fresh or not.
    pub revalidate: bool,
    /// If set, requests this many bytes of each image before the rest of any.
    pub first_bytes: Option<u64>,
    /// Whether embedded objects are fetched.
    pub embedded: bool,
    /// HTTP/2: the priorities of requests.
    pub priorities: Priorities,
    /// HTTP/2: bytes that the server may send on a stream before more is granted.
    pub stream_window: u32,
    /// Limits on objects, bytes, redirections, repeats and time.
    pub limits: Limits,
}

/// Whether a request with this method may be sent again after its connection ended before the response. RFC
/// 9110 section 9.2.2 also allows idempotent methods; this client repeats only safe ones.
pub fn may_repeat(method: Method) -> bool {
    matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Trace
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_are_written() {
        assert_eq!(Mode::ALL.map(|mode| mode.name().parse()), Mode::ALL.map(Ok));
        assert!("quic".parse::<Mode>().is_err_and(|why| why.contains("`quic`")));
    }

    #[test]
    fn manners_are_read_as_they_are_written() {
        for text in [
            "http10",
            "serial",
            "pipelined+deflate",
            "early-close+br",
            "serial+zstd",
            "h2+br",
            "auto",
        ] {
            assert_eq!(text.parse::<Manner>().expect(text).to_string(), text);
        }
        assert_eq!("http/1.1".parse::<Manner>().expect("an alias").mode, Mode::Serial);
        for text in ["", "spdy", "pipelined+", "pipelined+rar", "pipelined+identity"] {
            assert!(text.parse::<Manner>().is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_unsafe_is_repeated() {
        for method in [
            Method::Post,
            Method::Put,
            Method::Delete,
            Method::Patch,
            Method::Connect,
            Method::Other,
        ] {
            assert!(!may_repeat(method), "{method:?}");
        }
        assert!(may_repeat(Method::Get) && may_repeat(Method::Head));
    }
}
