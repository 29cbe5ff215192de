//! Types of configuration values, each parsed the same way for flags and file.

use super::duration::{parse_duration, parse_duration_or_off};
use core::fmt;
use core::str::FromStr;
use runtime::listen::Address;
use runtime::shaping::Shaping;
use runtime::strategy::Io;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use units::{Bytes, Duration, Rate};

units::words! {
    /// I/O back end: how bytes move between kernel and server.
    #[derive(Default)]
    pub enum IoKind {
        /// The best back end that the machine and the strategy allow.
        #[default]
        Auto = "auto",
        /// epoll: readiness.
        Epoll = "epoll",
        /// io_uring: completions. Epoll where the system does not allow io_uring.
        Uring = "uring",
        /// Blocking calls.
        Blocking = "blocking",
    }
}

impl IoKind {
    /// The back end that was asked for; `None` for [`IoKind::Auto`].
    pub const fn asked(self) -> Option<Io> {
        match self {
            IoKind::Auto => None,
            IoKind::Epoll => Some(Io::Epoll),
            IoKind::Uring => Some(Io::Uring),
            IoKind::Blocking => Some(Io::Blocking),
        }
    }
}

units::words! {
    /// Where HTTP/2 is spoken.
    #[derive(Default)]
    pub enum Http2 {
        /// Nowhere.
        Off = "off",
        /// Over TLS, with clients that choose it (ALPN).
        #[default]
        Tls = "tls",
        /// Also in cleartext, with clients that begin with it (RFC 9113 section 3.3).
        All = "all",
    }
}

units::words! {
    /// Whether HTTP/3 is spoken, over UDP at each address with TLS.
    #[derive(Default)]
    pub enum Http3 {
        /// No.
        Off = "false",
        /// Where it is possible: without TLS, with `processes`, behind the PROXY protocol, or if a UDP port cannot be had, the
        /// server does without.
        #[default]
        Auto = "auto",
        /// Yes; the server does not start if it is impossible.
        On = "true",
    }
}

/// Reads `http3`: a boolean, or a word.
pub(super) fn http3<'de, D: Deserializer<'de>>(d: D) -> Result<Http3, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`http3` is true, false, or \"auto\"")]
    enum Value {
        Flag(bool),
        Word(String),
    }
    match Value::deserialize(d)? {
        Value::Flag(true) => Ok(Http3::On),
        Value::Flag(false) => Ok(Http3::Off),
        Value::Word(word) => word.parse().map_err(de::Error::custom),
    }
}

units::words! {
    /// Format of the access log.
    #[derive(Default)]
    pub enum LogFormat {
        /// Common Log Format.
        Common = "common",
        /// Common Log Format with referrer and user agent.
        #[default]
        Combined = "combined",
        /// One JSON object per line, with duration and bytes on the wire.
        Json = "json",
    }
}

units::words! {
    /// Which settings the server may change by itself.
    #[derive(Default)]
    pub enum Adapt {
        /// Every setting that is not explicit.
        #[default]
        Auto = "auto",
        /// None; decisions are only reported.
        DryRun = "dry-run",
        /// None; nothing is observed.
        Off = "off",
    }
}

/// Longest turn of a worker above which expensive requests are rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaxTurn {
    /// No limit: no request is rejected.
    #[default]
    Off,
    /// This long, at least 1 ms.
    At(Duration),
}

impl FromStr for MaxTurn {
    type Err = String;

    fn from_str(text: &str) -> Result<MaxTurn, String> {
        match text {
            "off" => Ok(MaxTurn::Off),
            _ => match super::parse_duration(text) {
                Ok(span) if span >= Duration::from_millis(1) => Ok(MaxTurn::At(span)),
                Ok(_) => Err("the minimum is 1ms, because one response may take as long".to_owned()),
                Err(why) => Err(format!("{why}; or off")),
            },
        }
    }
}

impl<'de> Deserialize<'de> for MaxTurn {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<MaxTurn, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// Limit on the server's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryBound {
    /// The limit of the control group, if it has one.
    #[default]
    Auto,
    /// No limit.
    Off,
    /// This size, and the limit of the control group if that is smaller.
    At(Bytes),
}

impl MemoryBound {
    /// Smallest limit accepted: about the memory of an idle server.
    const LEAST: Bytes = Bytes::mib(16);
}

impl FromStr for MemoryBound {
    type Err = String;

    fn from_str(text: &str) -> Result<MemoryBound, String> {
        match text {
            "auto" => Ok(MemoryBound::Auto),
            "off" => Ok(MemoryBound::Off),
            _ => match text.parse::<Bytes>() {
                Ok(bytes) if bytes >= MemoryBound::LEAST => Ok(MemoryBound::At(bytes)),
                Ok(bytes) => Err(format!(
                    "{bytes} is too small; it must be at least {}",
                    MemoryBound::LEAST
                )),
                Err(why) => Err(format!("{why}; or auto, off")),
            },
        }
    }
}

impl<'de> Deserialize<'de> for MemoryBound {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<MemoryBound, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

units::words! {
    /// Which files Landlock lets the process use.
    #[derive(Default)]
    pub enum Landlock {
        /// Files below the folder that holds the root, so that a replaced root can still be read.
        #[default]
        Auto = "auto",
        /// Files below the root only.
        Root = "root",
        /// No restriction.
        Off = "off",
    }
}

units::words! {
    /// Whether system calls that a file server never makes are denied (seccomp).
    #[derive(Default)]
    pub enum Seccomp {
        /// Denied, if the kernel has seccomp.
        #[default]
        Auto = "auto",
        /// Allowed.
        Off = "off",
    }
}

/// A user, and a group if it differs from the user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name or user ID.
    pub name: String,
    /// Name or group ID. `None`: the user's own group.
    pub group: Option<String>,
}

impl FromStr for User {
    type Err = String;

    fn from_str(text: &str) -> Result<User, String> {
        let (name, group) = match text.split_once(':') {
            Some((name, group)) => (name, Some(group)),
            None => (text, None),
        };
        if name.is_empty() || group.is_some_and(|group| group.is_empty() || group.contains(':')) {
            return Err(format!(
                "`{text}` is not a user; write NAME or NAME:GROUP, as in www-data:www-data"
            ));
        }
        Ok(User {
            name: name.to_owned(),
            group: group.map(str::to_owned),
        })
    }
}

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<User, D::Error> {
        from_text_or_number(d)
    }
}

units::words! {
    /// Which clients may read the live page.
    #[derive(Default)]
    pub enum LiveFor {
        /// None; its paths belong to the site.
        #[default]
        Nobody = "nobody",
        /// Clients on this machine.
        Local = "local",
        /// All clients.
        All = "all",
    }
}

units::words! {
    /// Which response leaves first if the line rate is declared.
    #[derive(Default)]
    pub enum LineOrder {
        /// The response with the fewest bytes left; a share goes to the oldest one.
        #[default]
        Smallest = "smallest",
        /// All responses take turns.
        Shared = "shared",
    }
}

/// Number of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// One per core that the process may use.
    #[default]
    Auto,
    /// A number from 1 to 1024.
    Fixed(NonZeroUsize),
}

impl FromStr for Workers {
    type Err = String;

    fn from_str(text: &str) -> Result<Workers, String> {
        match text.trim() {
            "auto" => Ok(Workers::Auto),
            n => match n.parse::<NonZeroUsize>() {
                Ok(n) if n.get() <= 1024 => Ok(Workers::Fixed(n)),
                _ => Err(format!(
                    "`{text}` is not a worker count; write `auto` or a number from 1 to 1024"
                )),
            },
        }
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workers::Auto => f.write_str("auto"),
            Workers::Fixed(n) => n.fmt(f),
        }
    }
}

impl Serialize for Workers {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Workers, D::Error> {
        from_text_or_number(d)
    }
}

/// Addresses to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen(pub Vec<Address>);

impl Default for Listen {
    /// Loopback, so that nothing is exposed by accident.
    fn default() -> Listen {
        Listen(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()])
    }
}

impl Listen {
    /// Parses one address: that of [`Listen::parse_tcp`], or `unix:/PATH` for a Unix socket.
    ///
    /// # Errors
    /// A sentence that names the text and shows valid spellings.
    pub fn parse_one(text: &str) -> Result<Address, String> {
        match text.trim() {
            path if path.starts_with("unix:") => path.parse(),
            address => Listen::parse_tcp(address).map(Address::Tcp),
        }
    }

    /// Parses one address of TCP: `ADDR:PORT`, `[V6]:PORT`, or `:PORT` for every address of the machine.
    ///
    /// # Errors
    /// A sentence that names the text and shows valid spellings.
    pub fn parse_tcp(text: &str) -> Result<SocketAddr, String> {
        let text = text.trim();
        if let Some(port) = text.strip_prefix(':').and_then(|p| p.parse::<u16>().ok()) {
            return Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
        }
        if let Some(port) = text
            .strip_prefix("localhost:")
            .and_then(|p| p.parse::<u16>().ok())
        {
            return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        }
        text.parse().map_err(|_| {
            format!("`{text}` is not an address; write ADDR:PORT, as in 127.0.0.1:8080, [::1]:8080, :8080 or unix:/run/weir.sock")
        })
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Listen, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Listen;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address as ADDR:PORT or unix:/PATH, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Listen, E> {
                Listen::parse_one(text)
                    .map(|a| Listen(vec![a]))
                    .map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Listen, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = seq.next_element::<String>()? {
                    all.push(Listen::parse_one(&text).map_err(de::Error::custom)?);
                }
                Ok(Listen(all))
            }
        }
        d.deserialize_any(OneOrMany)
    }
}

/// File names: one string or a list.
pub(super) fn paths<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<PathBuf>, D::Error> {
    struct OneOrMany;
    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<PathBuf>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a file name, or a list of them")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<PathBuf>, E> {
            Ok(vec![text.into()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<PathBuf>, A::Error> {
            let mut all = Vec::new();
            while let Some(path) = seq.next_element()? {
                all.push(path);
            }
            Ok(all)
        }
    }
    d.deserialize_any(OneOrMany)
}

/// Error pages by status or class; a status takes precedence over its class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPages {
    pages: Vec<(Which, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Status(u16),
    Class(u16),
}

impl ErrorPages {
    /// Adds a page. `status` is `404`, `4xx` or `5xx`; `path` is a path of the site.
    ///
    /// # Errors
    /// A sentence that shows a valid status or path.
    pub fn insert(&mut self, status: &str, path: &str) -> Result<(), String> {
        let which = match status {
            "4xx" => Which::Class(4),
            "5xx" => Which::Class(5),
            _ => match status.parse::<u16>() {
                Ok(n @ 400..=599) => Which::Status(n),
                _ => {
                    return Err(format!(
                        "`{status}` is not an error status; write 400 to 599, 4xx or 5xx"
                    ));
                }
            },
        };
        site_path(path)?;
        self.pages.retain(|(w, _)| *w != which);
        self.pages.push((which, path.to_owned()));
        Ok(())
    }

    /// The path of the page for `status`, if one is configured.
    pub fn page(&self, status: u16) -> Option<&str> {
        let find = |which| {
            self.pages
                .iter()
                .find(|(w, _)| *w == which)
                .map(|(_, p)| p.as_str())
        };
        find(Which::Status(status)).or_else(|| find(Which::Class(status / 100)))
    }

    /// The paths of all pages.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.pages.iter().map(|(_, path)| path.as_str())
    }

    /// Whether no page is configured.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

impl FromStr for ErrorPages {
    type Err = String;

    /// Parses one `STATUS=PATH`, as in the flag.
    fn from_str(text: &str) -> Result<ErrorPages, String> {
        let (status, path) = text.split_once('=').ok_or_else(|| {
            format!("`{text}` is not an error page; write STATUS=PATH, as in 404=/404.html")
        })?;
        let mut pages = ErrorPages::default();
        pages.insert(status, path)?;
        Ok(pages)
    }
}

impl<'de> Deserialize<'de> for ErrorPages {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ErrorPages, D::Error> {
        struct Pages;
        impl<'de> Visitor<'de> for Pages {
            type Value = ErrorPages;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of STATUS = \"/PATH\"")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ErrorPages, A::Error> {
                let mut pages = ErrorPages::default();
                while let Some((status, path)) = map.next_entry::<String, SitePath>()? {
                    pages.insert(&status, &path.0).map_err(de::Error::custom)?;
                }
                Ok(pages)
            }
        }
        d.deserialize_map(Pages)
    }
}

/// A field line that cannot break the framing of a response: no control characters, no computed fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLine {
    name: String,
    value: String,
}

/// Fields that the server computes itself; a configured value would be wrong.
const COMPUTED: [&str; 13] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
];

/// Whether the server computes the field of this lowercase name itself.
pub(super) fn is_computed(name: &str) -> bool {
    COMPUTED.contains(&name)
}

/// Field lines of requests to other servers.
pub(super) fn request_lines<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<FieldLine>, D::Error> {
    let lines = Vec::<String>::deserialize(d)?;
    let lines = lines.iter().map(|line| FieldLine::of_request(line));
    lines.collect::<Result<_, _>>().map_err(de::Error::custom)
}

impl FieldLine {
    /// A line that is known to be valid.
    pub(super) fn new(name: &str, value: &str) -> FieldLine {
        FieldLine {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    /// The field name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The field value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// A line for requests to other servers, in which this server computes less than in responses.
    ///
    /// # Errors
    /// What is wrong with its syntax.
    pub fn of_request(text: &str) -> Result<FieldLine, String> {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| format!("`{text}` is not a field line; write NAME: VALUE"))?;
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(format!(
                "`{name}` is not a field name; write letters, digits and - only"
            ));
        }
        let value = value.trim_matches([' ', '\t']);
        if !value.bytes().all(|b| b == b'\t' || (0x20..0x7f).contains(&b)) {
            return Err(format!(
                "the value of `{name}` may contain only visible ASCII and spaces"
            ));
        }
        Ok(FieldLine {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl FromStr for FieldLine {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldLine, String> {
        let line = FieldLine::of_request(text)?;
        let name = &line.name;
        if COMPUTED.iter().any(|c| name.eq_ignore_ascii_case(c)) {
            return Err(format!(
                "`{name}` is computed by the server for each response and cannot be set"
            ));
        }
        Ok(line)
    }
}

impl fmt::Display for FieldLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

impl<'de> Deserialize<'de> for FieldLine {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<FieldLine, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// A path validated by the reader, so that an error names its line.
struct SitePath(String);

impl<'de> Deserialize<'de> for SitePath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<SitePath, D::Error> {
        let path = String::deserialize(d)?;
        site_path(&path).map_err(de::Error::custom)?;
        Ok(SitePath(path))
    }
}

/// Whether `path` can name a page of the site.
pub(super) fn site_path(path: &str) -> Result<(), String> {
    let plain = |b: u8| (0x21..0x7f).contains(&b) && b != b'?' && b != b'#' && b != b'\\';
    let is_file = || crate::path::resolve(path.as_bytes(), true, &mut Vec::new()).is_ok();
    if path.starts_with('/') && !path.starts_with("//") && path.bytes().all(plain) && is_file() {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a path of the site; write it percent-encoded from the root, as in /404.html",
        path.escape_debug()
    ))
}

/// One value or a list of them, each as a string. `wrong` is the error for anything else.
pub(super) fn one_or_several<'de, D, T>(d: D, wrong: &str) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        Several(Vec<String>),
    }
    let written = match Written::deserialize(d) {
        Ok(Written::One(one)) => vec![one],
        Ok(Written::Several(several)) => several,
        Err(_) => return Err(de::Error::custom(wrong)),
    };
    written
        .iter()
        .map(|text| text.parse().map_err(de::Error::custom))
        .collect()
}

pub(super) fn bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
    from_text_or_number(d)
}

pub(super) fn some_bytes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Bytes>, D::Error> {
    from_text_or_number(d).map(Some)
}

/// Parses a line rate. [`Config::validate`](super::Config::validate) checks its range.
///
/// # Errors
/// A sentence that names the text, the range and a valid rate.
pub fn parse_line_rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|_| no_line_rate(&format!("`{text}`")))
}

pub(super) fn no_line_rate(what: &str) -> String {
    format!(
        "{what} is not a valid line rate; write the rate of the slowest line, from {} to {}, as in 100Mbit",
        Shaping::RATE_MIN,
        Shaping::RATE_MAX
    )
}

pub(super) fn line_rate<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
    struct Line(Rate);
    impl FromStr for Line {
        type Err = String;
        fn from_str(text: &str) -> Result<Line, String> {
            parse_line_rate(text).map(Line)
        }
    }
    from_text_or_number(d).map(|Line(rate)| Some(rate))
}

pub(super) fn duration_or_off<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    struct Span(Duration);
    impl FromStr for Span {
        type Err = String;
        fn from_str(text: &str) -> Result<Span, String> {
            parse_duration_or_off(text).map(Span)
        }
    }
    from_text_or_number(d).map(|Span(span)| span)
}

pub(super) fn duration<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    struct Span(Duration);
    impl FromStr for Span {
        type Err = String;
        fn from_str(text: &str) -> Result<Span, String> {
            parse_duration(text).map(Span)
        }
    }
    from_text_or_number(d).map(|Span(d)| d)
}

/// Reads a string or a number through the type's `FromStr`.
fn from_text_or_number<'de, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    struct TextOrNumber<T>(core::marker::PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for TextOrNumber<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number, or a text with a number and a unit")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, n: i64) -> Result<T, E> {
            self.visit_str(&n.to_string())
        }

        fn visit_u64<E: de::Error>(self, n: u64) -> Result<T, E> {
            self.visit_str(&n.to_string())
        }
    }
    d.deserialize_any(TextOrNumber(core::marker::PhantomData))
}
