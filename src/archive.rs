//! HTTP archives (HAR 1.2), as browsers, `weir visit` and `weir fetch --har` write them: requests with their times by phase. Skips
//! bodies, fields and requests of other schemes than http and https; commands decide what the times mean.

pub(crate) mod civil;

use crate::failure::Failure;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use url::{Position, Url};

/// Limit on the size of a file, in bytes.
const FILE_MAX: u64 = 256 << 20;
/// Limit on requests.
const ENTRIES_MAX: usize = 10_000;
/// Limit on a phase, in milliseconds: longer ones count as this.
const PHASE_MAX: f64 = 1e9;
/// What to do about a file that is none.
const NAMED: &str = "name a file of `weir fetch --har`, or one that a browser exported";

/// The parts of a file that are used.
#[derive(Debug, Deserialize)]
struct File {
    log: Log,
}

#[derive(Debug, Deserialize)]
struct Log {
    entries: Vec<Logged>,
    #[serde(default)]
    pages: Vec<LoggedPage>,
    browser: Option<Program>,
    creator: Option<Program>,
    #[serde(rename = "_leftOut", default)]
    left_out: LeftOut,
}

#[derive(Debug, Deserialize)]
struct Program {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoggedPage {
    #[serde(default)]
    page_timings: PageTimings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageTimings {
    on_content_load: Option<f64>,
    on_load: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logged {
    started_date_time: String,
    request: LoggedRequest,
    #[serde(default)]
    response: LoggedResponse,
    timings: Timings,
    #[serde(rename = "serverIPAddress")]
    server: Option<String>,
    /// Of Chromium, for responses that needed no server.
    #[serde(rename = "_fromCache")]
    from_cache: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct LoggedRequest {
    method: String,
    url: String,
}

/// Sizes are in bytes, absent or negative if they are not known.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LoggedResponse {
    status: Option<f64>,
    http_version: Option<String>,
    content: LoggedContent,
    headers_size: Option<f64>,
    body_size: Option<f64>,
    /// Of Chromium: head and body as they came.
    #[serde(rename = "_transferSize")]
    transfer_size: Option<f64>,
    /// Of Chromium: why there is no response.
    #[serde(rename = "_error")]
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LoggedContent {
    mime_type: Option<String>,
}

/// Milliseconds; absent, null or negative if a phase does not apply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Timings {
    blocked: Option<f64>,
    dns: Option<f64>,
    connect: Option<f64>,
    send: Option<f64>,
    wait: Option<f64>,
    receive: Option<f64>,
    ssl: Option<f64>,
}

/// The requests of a file, at least one, in the order of their starts.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The file.
    pub(crate) name: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) page: Page,
}

/// What an archive says of its page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The client: name and version.
    pub(crate) client: String,
    /// Milliseconds from the start of the page until its document was parsed (DOMContentLoaded).
    pub(crate) content: Option<f64>,
    /// Milliseconds until it was loaded with all that it embeds.
    pub(crate) load: Option<f64>,
    pub(crate) left_out: LeftOut,
}

/// Numbers of what `weir visit` left out of its archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct LeftOut {
    /// Requests beyond a limit.
    pub(crate) requests: u64,
    /// Messages of the browser that were too long or could not be read.
    pub(crate) messages: u64,
}

/// A request and its response.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) method: String,
    pub(crate) url: Url,
    /// Milliseconds since 1970.
    pub(crate) start: f64,
    pub(crate) phases: Phases,
    /// Address of the server, if it is known.
    pub(crate) server: Option<IpAddr>,
    pub(crate) is_cached: bool,
    /// Status code; 0 without a response.
    pub(crate) status: u16,
    /// Version of HTTP, as the archive spells it.
    pub(crate) version: String,
    pub(crate) media: String,
    /// Bytes of the response as they came, with its head.
    pub(crate) bytes: Option<u64>,
    /// Why there is no response, or not all of it.
    pub(crate) error: Option<String>,
}

/// Durations of consecutive phases in milliseconds; 0 if a phase does not apply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phases {
    /// Before anything else: queues and limits of the client.
    pub(crate) blocked: f64,
    pub(crate) lookup: f64,
    /// Without TLS.
    pub(crate) connect: f64,
    pub(crate) tls: f64,
    pub(crate) send: f64,
    pub(crate) wait: f64,
    pub(crate) receive: f64,
}

impl Archive {
    /// Reads a file. `flag` is the flag that names it, for errors.
    ///
    /// # Errors
    /// `Usage` if it cannot be read, is no archive, or has no or too many requests.
    #[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
    pub(crate) fn read(path: &Path, flag: &str) -> Result<Archive, Failure> {
        let unusable = |why: String| Failure::Usage(format!("{flag}: `{}`: {why}", path.display()));
        let file =
            std::fs::File::open(path).map_err(|error| unusable(format!("{error}; name a readable file")))?;
        let mut text = String::new();
        file.take(FILE_MAX + 1)
            .read_to_string(&mut text)
            .map_err(|error| unusable(format!("it cannot be read as text ({error}); {NAMED}")))?;
        if text.len() as u64 > FILE_MAX {
            return Err(unusable(
                "it has more than 256 MiB; export it without content".to_owned(),
            ));
        }
        Archive::parse(&text, path.display().to_string()).map_err(unusable)
    }

    /// # Errors
    /// Why the text is no archive, and what to do.
    pub(crate) fn parse(text: &str, name: String) -> Result<Archive, String> {
        // Some programs begin the file with a byte order mark.
        let file: File = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|error| format!("this is no HTTP archive ({error}); {NAMED}"))?;
        let page = Page::of(&file.log);
        let all = file.log.entries;
        if all.len() > ENTRIES_MAX {
            return Err(format!(
                "it has {} requests, and at most {ENTRIES_MAX} are read; export one visit",
                all.len()
            ));
        }
        let entries = all.into_iter().map(Entry::of).filter_map(Result::transpose);
        let mut entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        if entries.is_empty() {
            return Err("it has no request over http or https; export one visit".to_owned());
        }
        entries.sort_by(|one, other| one.start.total_cmp(&other.start));
        Ok(Archive { name, entries, page })
    }

    /// Milliseconds since 1970 of the first request.
    pub(crate) fn start(&self) -> f64 {
        self.entries.first().map_or(0.0, |entry| entry.start)
    }

    /// Milliseconds from the first request to the end of the last response.
    pub(crate) fn elapsed(&self) -> f64 {
        let ends = self.entries.iter().map(Entry::end);
        (ends.fold(self.start(), f64::max) - self.start()).max(0.0)
    }
}

impl Page {
    fn of(log: &Log) -> Page {
        let time = |took: Option<f64>| took.filter(|took| (0.0..=PHASE_MAX).contains(took));
        let client = log.browser.as_ref().or(log.creator.as_ref());
        let client = client.map_or(String::new(), |program| {
            format!("{} {}", program.name, program.version).trim().to_owned()
        });
        let first = log.pages.first();
        let timings = first.map(|page| &page.page_timings);
        Page {
            client,
            content: time(timings.and_then(|timings| timings.on_content_load)),
            load: time(timings.and_then(|timings| timings.on_load)),
            left_out: log.left_out,
        }
    }
}

impl LoggedResponse {
    /// Bytes of head and body, if both are known.
    fn bytes(&self) -> Option<u64> {
        let known = |size: Option<f64>| size.filter(|size| *size >= 0.0);
        let parts = || Some(known(self.headers_size)? + known(self.body_size)?);
        known(self.transfer_size).or_else(parts).map(|size| size as u64)
    }
}

impl Entry {
    /// `None` for schemes other than http and https.
    ///
    /// # Errors
    /// Its time cannot be read.
    fn of(logged: Logged) -> Result<Option<Entry>, String> {
        let url = Url::parse(&logged.request.url).ok();
        let Some(url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Ok(None);
        };
        let date = logged.started_date_time;
        let start = units::civil::rfc3339(date.as_bytes()).ok_or_else(|| {
            format!(
                "`{}` is not a time such as 2026-11-24T10:11:12.345Z; export the file again",
                date.escape_debug()
            )
        })?;
        // Chromium writes IPv6 addresses in brackets.
        let server = logged.server.unwrap_or_default();
        let server = server.trim_start_matches('[').trim_end_matches(']');
        Ok(Some(Entry {
            method: logged.request.method,
            url,
            start: start.secs as f64 * 1e3 + f64::from(start.nanos) / 1e6,
            phases: Phases::of(&logged.timings),
            server: server.parse().ok(),
            is_cached: logged.from_cache.is_some(),
            status: logged.response.status.unwrap_or(0.0) as u16,
            bytes: logged.response.bytes(),
            version: logged.response.http_version.unwrap_or_default(),
            media: logged.response.content.mime_type.unwrap_or_default(),
            error: logged.response.error.filter(|error| !error.is_empty()),
        }))
    }

    /// Path and query: the target of the request in origin form (RFC 9112, section 3.2.1).
    pub(crate) fn target(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// Milliseconds since 1970 when the request was sent.
    pub(crate) fn sent(&self) -> f64 {
        self.start + self.phases.before()
    }

    /// Milliseconds since 1970 of the end of the response.
    pub(crate) fn end(&self) -> f64 {
        self.start + self.phases.total()
    }
}

impl Phases {
    fn of(timings: &Timings) -> Phases {
        // Numbers of a file may be of any size, and times of all phases must stay addable.
        let phase = |took: Option<f64>| took.unwrap_or(0.0).clamp(0.0, PHASE_MAX);
        // `connect` includes `ssl`.
        let (connect, tls) = (phase(timings.connect), phase(timings.ssl));
        Phases {
            blocked: phase(timings.blocked),
            lookup: phase(timings.dns),
            connect: (connect - tls).max(0.0),
            tls: tls.min(connect),
            send: phase(timings.send),
            wait: phase(timings.wait),
            receive: phase(timings.receive),
        }
    }

    /// The time before the request.
    pub(crate) fn before(&self) -> f64 {
        self.blocked + self.lookup + self.connect + self.tls
    }

    /// The time of the request and its response.
    pub(crate) fn exchange(&self) -> f64 {
        self.send + self.wait + self.receive
    }

    /// The time of all phases.
    pub(crate) fn total(&self) -> f64 {
        self.before() + self.exchange()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &str) -> Result<Archive, String> {
        Archive::parse(&format!(r#"{{"log":{{"entries":[{entries}]}}}}"#), "x".to_owned())
    }

    #[test]
    fn phases_are_consecutive_and_in_the_order_of_starts() {
        let archive = parse(
            r#"{"startedDateTime":"2026-11-24T11:11:12.500+01:00","request":{"method":"GET","url":"https://h/b?x#y"},
                "serverIPAddress":"[::1]","_fromCache":"disk","response":{"status":200,"httpVersion":"h2",
                "content":{"mimeType":"text/css"},"headersSize":-1,"bodySize":9,"_transferSize":120.5,"_error":""},
                "timings":{"blocked":1,"dns":-1,"connect":30,"ssl":20,"send":0.5,"wait":9,"receive":4}},
               {"startedDateTime":"2026-11-24T10:11:12.400Z","request":{"method":"GET","url":"http://h/a"},
                "response":{"status":-1,"headersSize":20,"bodySize":9,"_error":"net::ERR_FAILED"},
                "timings":{"wait":5,"receive":1e300,"blocked":null}},
               {"startedDateTime":"","request":{"method":"GET","url":"data:,x"},"timings":{}}"#,
        );
        let archive = archive.expect("an archive");
        let urls: Vec<&str> = archive.entries.iter().map(|entry| entry.url.as_str()).collect();
        assert_eq!(urls, ["http://h/a", "https://h/b?x#y"]);
        let (plain, cached) = (&archive.entries[0], &archive.entries[1]);
        assert_eq!((plain.server, plain.is_cached), (None, false));
        assert_eq!((cached.target(), cached.is_cached), ("/b?x", true));
        assert_eq!(cached.server, Some(std::net::Ipv6Addr::LOCALHOST.into()));
        assert_eq!(archive.entries[1].start - archive.start(), 100.0);
        let phases = archive.entries[1].phases;
        assert_eq!((phases.connect, phases.tls, phases.lookup), (10.0, 20.0, 0.0));
        assert_eq!((phases.before(), phases.total()), (31.0, 44.5));
        assert_eq!(archive.elapsed(), 5.0 + PHASE_MAX);
        assert_eq!(
            (cached.status, cached.version.as_str(), cached.media.as_str()),
            (200, "h2", "text/css")
        );
        assert_eq!((cached.bytes, cached.error.as_deref()), (Some(120), None));
        assert_eq!(
            (plain.bytes, plain.error.as_deref()),
            (Some(29), Some("net::ERR_FAILED"))
        );
        assert_eq!((plain.status, archive.page.load), (0, None));
    }

    #[test]
    fn a_page_has_a_client_and_its_times_if_they_are_known() {
        let text = r#"{"log":{"browser":{"name":"Chromium","version":"156"},"creator":{"name":"weir","version":"1"},
            "pages":[{"title":"a","pageTimings":{"onContentLoad":-1,"onLoad":20}}],
            "entries":[{"startedDateTime":"2026-11-24T10:11:12Z","request":{"method":"GET","url":"http://h/"},"timings":{}}]}}"#;
        let page = Archive::parse(text, "x".to_owned()).expect("an archive").page;
        assert_eq!(page.client, "Chromium 156");
        assert_eq!((page.content, page.load), (None, Some(20.0)));
    }

    #[test]
    fn a_file_that_is_no_archive_says_why() {
        for (entries, said) in [
            ("", "no request over http"),
            ("{}", "no HTTP archive"),
            (
                r#"{"startedDateTime":"today","request":{"method":"GET","url":"http://h/"},"timings":{}}"#,
                "`today` is not a time",
            ),
        ] {
            let why = parse(entries).expect_err(said);
            assert!(why.contains(said), "{why}");
        }
    }
}
