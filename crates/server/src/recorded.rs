//! Answers from a recording (`weir record`): status, field lines and body of the exchange that matches a request best.
//!
//! A source of answers like the files of a site: the exchange consults it, and the session frames its answers. The whole
//! recording is in memory, so an answer waits for nothing but, if that is configured, the time that the recorded one took. [`recording`] knows the format of the files and chooses the exchange;
//! this file reads the folder and prepares the field lines.

use crate::own_fields::{HOP_BY_HOP, is_among};
use bytes::Bytes;
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use http1::response;
use recording::exchange::{Exchange, HEAD_BYTES_MAX, SUFFIX, has_no_body};
use recording::search::{Match, Recording, Wanted};
use runtime::alarms::Alarms;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Bytes as Size, Duration, Instant};

/// Most exchanges of a recording.
const EXCHANGES_MAX: usize = 20_000;

/// Most responses that wait for their time without a thread. Further ones occupy a helper thread each, and so may come late.
const DELAYS_MAX: usize = 65_536;

/// Fields that this server writes itself, or that name ports of the recorded server (RFC 7838).
const OWN: [&str; 2] = ["date", "alt-svc"];

/// A recording, ready to be sent.
#[derive(Debug)]
pub(crate) struct Recorded {
    folder: PathBuf,
    recording: Recording,
    /// The field lines of each exchange, without those of connections and framing.
    lines: Vec<Box<[u8]>>,
    /// Tells when a response is due; `None`: all are due at once.
    alarms: Option<Arc<Alarms>>,
}

/// A wait for the time at which a response is due.
#[derive(Debug)]
pub(crate) struct Delay {
    due: Instant,
    alarms: Arc<Alarms>,
}

impl Delay {
    /// Whether the response is due.
    pub(crate) fn is_over(&self) -> bool {
        Alarms::has_passed(self.due)
    }

    /// Blocks this thread until the response is due.
    pub(crate) fn sleep(&self) {
        Alarms::sleep_until(self.due);
    }

    /// Calls `report` when the response is due.
    ///
    /// # Errors
    /// The delay, if too many responses wait.
    pub(crate) fn defer(self, report: impl FnOnce() + Send + 'static) -> Result<(), Delay> {
        self.alarms.set(self.due, report).map_err(|_| self)
    }
}

/// A recorded response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply<'r> {
    pub(crate) status: Status,
    pub(crate) lines: &'r [u8],
    pub(crate) content: &'r Bytes,
    /// Whether the status allows no content.
    pub(crate) is_bodiless: bool,
}

impl Recorded {
    /// Reads the recording in a folder, with bodies of at most `bytes_max` in all. Responses are due at once. Blocks.
    ///
    /// # Errors
    /// The folder or file that cannot be used, and what to do.
    pub(crate) fn open(folder: &Path, bytes_max: Size) -> Result<Recorded, String> {
        Recorded::open_within(folder, bytes_max, EXCHANGES_MAX)
    }

    fn open_within(folder: &Path, bytes_max: Size, exchanges_max: usize) -> Result<Recorded, String> {
        let shown = folder.display();
        let names = runtime::fs::names_in(folder, SUFFIX, exchanges_max)
            .map_err(|error| format!("cannot read the recording `{shown}`: {error}"))?;
        if names.is_empty() {
            return Err(format!(
                "there is no recorded exchange in `{shown}`; record one with `weir record URL {shown}`"
            ));
        }
        let mut exchanges = Vec::with_capacity(names.len());
        let mut left = bytes_max.0;
        let too_large = || {
            format!(
                "the recording `{shown}` is larger than the cache, {bytes_max}, which holds it; raise `cache-size`"
            )
        };
        for name in names {
            let path = folder.join(name);
            let most = left.saturating_add(HEAD_BYTES_MAX as u64);
            let file = runtime::fs::read_small(&path, most).map_err(|error| match error.kind() {
                std::io::ErrorKind::FileTooLarge => too_large(),
                _ => format!("cannot read `{}`: {error}", path.display()),
            })?;
            let exchange = Exchange::parse(&Bytes::from(file)).map_err(|fault| {
                format!(
                    "`{}` is not a recorded exchange: {fault}; remove it, or record it again",
                    path.display()
                )
            })?;
            left = left
                .checked_sub(exchange.body.len() as u64)
                .ok_or_else(too_large)?;
            exchanges.push(exchange);
        }
        Recorded::of(folder, exchanges)
    }

    fn of(folder: &Path, exchanges: Vec<Exchange>) -> Result<Recorded, String> {
        let recording = Recording::new(exchanges);
        let lines = recording
            .exchanges()
            .iter()
            .map(lines)
            .collect::<Result<_, _>>()?;
        Ok(Recorded {
            folder: folder.to_owned(),
            recording,
            lines,
            alarms: None,
        })
    }

    /// The same recording, whose responses are due after the recorded time to the first byte.
    pub(crate) fn with_delays(self) -> Recorded {
        Recorded {
            alarms: Some(Arc::new(Alarms::new("weir-delays", DELAYS_MAX))),
            ..self
        }
    }

    /// The wait for the response to a request of which the first byte arrived at `started`, and its length; `None`: there is
    /// none.
    pub(crate) fn delay(
        &self,
        head: &RequestHead<'_, '_>,
        is_secured: bool,
        started: Instant,
    ) -> Option<(Delay, Duration)> {
        let alarms = self.alarms.as_ref()?;
        let (at, _) = self.recording.find(&wanted(head, is_secured))?;
        let span = self.recording.exchanges()[at].first_byte;
        let delay = Delay {
            due: started + span,
            alarms: Arc::clone(alarms),
        };
        Some((delay, span))
    }

    /// The response to a request.
    ///
    /// # Errors
    /// Why there is none, as a sentence.
    pub(crate) fn answer(&self, head: &RequestHead<'_, '_>, is_secured: bool) -> Result<Reply<'_>, String> {
        let wanted = wanted(head, is_secured);
        let Some((at, _)) = self.recording.find(&wanted) else {
            return Err(format!("{}.\n", self.recording.missing(&wanted)));
        };
        let exchange = &self.recording.exchanges()[at];
        Ok(Reply {
            status: Status::from_u16(exchange.status).unwrap_or(Status::INTERNAL_SERVER_ERROR),
            lines: &self.lines[at],
            content: &exchange.body,
            is_bodiless: has_no_body(exchange.status),
        })
    }

    /// The exchange that answers a request and how it matches, or why there is none, in words.
    pub(crate) fn explain(&self, head: &RequestHead<'_, '_>, is_secured: bool) -> String {
        let wanted = wanted(head, is_secured);
        let Some((at, how)) = self.recording.find(&wanted) else {
            return self.recording.missing(&wanted);
        };
        let exchange = &self.recording.exchanges()[at];
        let how = match how {
            Match::Exact => "an exact match".to_owned(),
            Match::Prefix(bytes) => {
                format!("the best match with this path: {bytes} bytes at the start of the query are the same")
            }
        };
        let wait = match self.alarms {
            Some(_) => format!("; its first byte comes after {:?}", exchange.first_byte),
            None => String::new(),
        };
        format!(
            "{} {} in `{}`: {how}{wait}",
            exchange.method,
            exchange.url,
            exchange.file_name()
        )
    }

    /// The folder and the number of exchanges, in words.
    pub(crate) fn in_words(&self) -> String {
        format!(
            "the recording in `{}` ({} exchanges)",
            self.folder.display(),
            self.recording.exchanges().len()
        )
    }
}

/// A request, as far as it chooses an exchange.
fn wanted<'a>(head: &RequestHead<'a, '_>, is_secured: bool) -> Wanted<'a> {
    Wanted {
        method: head.method_name,
        authority: head.authority().unwrap_or_default(),
        is_secured,
        path: head.target.path(),
        query: head.target.query(),
    }
}

/// The field lines of a recorded response that are sent again.
fn lines(exchange: &Exchange) -> Result<Box<[u8]>, String> {
    let nominated: Vec<&str> = exchange
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(',').map(str::trim))
        .collect();
    let is_nominated = |name: &str| nominated.iter().any(|one| one.eq_ignore_ascii_case(name));
    let mut lines = Vec::new();
    for (name, value) in &exchange.fields {
        if is_among(name, &HOP_BY_HOP) || is_among(name, &OWN) || is_nominated(name) {
            continue;
        }
        response::field(&mut lines, name, value.as_bytes()).map_err(|_| {
            format!(
                "`{}` (`{}`) has a field that cannot be sent: `{}`; correct its first line",
                exchange.file_name(),
                exchange.url,
                name.escape_debug()
            )
        })?;
    }
    Ok(lines.into())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests of files write some")]
mod tests {
    use super::*;

    fn line(url: &str, more: &str, body_bytes: usize) -> String {
        format!(
            r#"{{"format":"weir-exchange","version":1,"method":"GET","url":"{url}","protocol":"h2","recorded":1,"first_byte_seconds":0.1,"request_fields":[],"status":200,"fields":[{more}],"body_bytes":{body_bytes}}}"#
        ) + "\n"
    }

    fn folder(files: &[(&str, &str, usize)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (number, (url, more, bytes)) in files.iter().enumerate() {
            let text = line(url, more, *bytes) + &"x".repeat(*bytes);
            std::fs::write(folder.path().join(format!("{number}{SUFFIX}")), text).unwrap();
        }
        folder
    }

    #[test]
    fn fields_of_the_connection_stay_behind() {
        let fields = r#"["Date","now"],["ETag","\"a\""],["Connection","X-Hop, close"],["x-hop","1"],["Content-Length","9"],["Transfer-Encoding","chunked"],["alt-svc","h3=\":443\""],["Set-Cookie","a=1"],["set-cookie","b=2"]"#;
        let folder = folder(&[("http://a.test/", fields, 1)]);
        let recorded = Recorded::open(folder.path(), Size(1)).unwrap();
        assert_eq!(
            &*recorded.lines[0],
            b"ETag: \"a\"\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n"
        );
    }

    #[test]
    fn a_recording_may_have_as_many_bytes_as_the_cache_and_no_more() {
        let folder = folder(&[("http://a.test/", "", 600), ("http://a.test/b", "", 400)]);
        assert!(Recorded::open(folder.path(), Size(1_000)).is_ok());
        let why = Recorded::open(folder.path(), Size(999)).unwrap_err();
        assert!(why.contains("raise `cache-size`"), "{why}");
        assert!(Recorded::open_within(folder.path(), Size(1_000), 2).is_ok());
        let why = Recorded::open_within(folder.path(), Size(1_000), 1).unwrap_err();
        assert!(why.contains("more than 1 files"), "{why}");
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let why = Recorded::open(empty.path(), Size(9)).unwrap_err();
        assert!(why.contains("weir record"), "{why}");
        let why = Recorded::open(&empty.path().join("none"), Size(9)).unwrap_err();
        assert!(why.contains("cannot read the recording"), "{why}");
        let unsendable = folder(&[("http://a.test/", r#"["X","a\r\nb"]"#, 0)]);
        let why = Recorded::open(unsendable.path(), Size(9)).unwrap_err();
        assert!(why.contains("cannot be sent"), "{why}");
        let torn = folder(&[("http://a.test/", "", 5)]);
        let file = torn.path().join(format!("0{SUFFIX}"));
        let mut content = runtime::fs::read_small(&file, 10_000).unwrap();
        content.pop();
        std::fs::write(&file, content).unwrap();
        let why = Recorded::open(torn.path(), Size(9)).unwrap_err();
        assert!(
            why.contains("not a recorded exchange") && why.contains("4 bytes"),
            "{why}"
        );
    }
}
