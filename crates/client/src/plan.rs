//! How a page is to be fetched: protocol mode, connections, codings, buffering, bounds.
//!
//! The modes are the robot's of W3C NOTE-pipelining-970624; the defaults of its output buffer are those of all
//! its tables but the third.

use crate::decode::Growth;
use core::fmt;
use core::str::FromStr;
use http_semantics::coding::Coding;
use http_semantics::method::Method;
use measure::Duration;
use serde::{Deserialize, Serialize};

/// How requests are laid onto connections: those of one page, or of a user who asks for one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A connection for each request.
    Http10,
    /// Persistent connections with one request outstanding on each.
    Serial,
    /// Persistent connections; the page is asked for alone, then everything else without waiting for answers.
    Pipelined,
    /// As pipelined; the connection ends with the page.
    EarlyClose,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Http10, Mode::Serial, Mode::Pipelined, Mode::EarlyClose];

    /// The name flags and results use.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Http10 => "http10",
            Mode::Serial => "serial",
            Mode::Pipelined => "pipelined",
            Mode::EarlyClose => "early-close",
        }
    }

    /// How many connections it has at once if nothing else is said.
    pub fn connections(self) -> usize {
        match self {
            Mode::Http10 => 4,
            Mode::Serial | Mode::Pipelined | Mode::EarlyClose => 1,
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
        known.ok_or_else(|| format!("`{text}`: a mode is http10, serial, pipelined or early-close"))
    }
}

/// A mode with the coding it asks for: `serial`, `pipelined+deflate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The mode.
    pub mode: Mode,
    /// What `Accept-Encoding` says in requests for text; nothing is sent without one.
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
        let mode = mode.parse()?;
        let coding = coding
            .map(|name| {
                Coding::of(name.as_bytes())
                    .filter(|coding| *coding != Coding::Identity)
                    .ok_or_else(|| format!("`{text}`: a coding is deflate, gzip, br or zstd"))
            })
            .transpose()?;
        Ok(Manner { mode, coding })
    }
}

/// When the requests of a pipeline leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Output is written when this many bytes are held.
    pub bytes_max: usize,
    /// Or when no request has come for this long.
    pub timer: Duration,
    /// Whether the request for the page leaves at once.
    pub flush_page: bool,
}

impl Buffering {
    /// 1,024 bytes, 50 ms, explicit flush.
    pub const DEFAULT: Buffering = Buffering {
        bytes_max: 1024,
        timer: Duration::from_millis(50),
        flush_page: true,
    };
}

/// What may not grow without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects of a page, itself included; what it embeds beyond is left out and counted.
    pub objects_max: usize,
    /// Bytes received, and bytes decoded, of the whole page.
    pub bytes_max: u64,
    /// Decoded bytes of one answer for each coded one, beyond the first mebibyte
    /// ([`Growth::FREE`](crate::decode::Growth::FREE)).
    pub ratio_max: u64,
    /// Redirections in a row.
    pub redirects_max: u32,
    /// How often one request may be sent again after a connection ended before its answer.
    pub repeats_max: u32,
    /// For a connection to be made.
    pub connect_timeout: Duration,
    /// Without a byte while answers are owed.
    pub stall_timeout: Duration,
    /// For everything.
    pub timeout: Duration,
}

impl Limits {
    /// Enough for the pages there are.
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

/// How a page is fetched.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Mode and coding.
    pub manner: Manner,
    /// Connections at once.
    pub connections: usize,
    /// The output buffer of pipelined modes.
    pub buffering: Buffering,
    /// What requests say they are from.
    pub user_agent: String,
    /// Everything in the cache is held against the server, whether it is fresh or not.
    pub revalidate: bool,
    /// The first bytes of each picture are asked for before the rest of any.
    pub first_bytes: Option<u64>,
    /// Whether embedded objects are fetched.
    pub embedded: bool,
    /// What may not grow without end.
    pub limits: Limits,
}

/// Whether a request with this method may be sent again when a connection ended before its answer
/// (RFC 9110 section 9.2.2: only safe ones here, though idempotent ones may be).
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
