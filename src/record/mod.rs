//! `weir record`: fetches a page with all its resources and stores each exchange in a folder, for `weir serve --replay`.
//!
//! A fetch follows the references of one origin. So a recording is a fetch for each origin, one after the other, until no
//! reference is left: the times to the first byte of one origin do not depend on the load of another. This module decides
//! the order of the origins and what is left when a bound is reached; `client` fetches, and `recording` knows the files.

mod folder;
mod report;

use crate::cli::record::Flags;
use crate::failure::Failure;
use crate::fetch::fields::{Asked, Given};
use crate::fetch::{self, USER_AGENT};
use crate::output;
use crate::secure::{self, Secure};
use crate::voice::Voice;
use bytes::Bytes;
use client::fetch::{Fetch, Outcome, Reference, Tape, Taped};
use client::plan::{Buffering, Limits, Mode, Plan, Priorities};
use client::streams::STREAM_WINDOW;
use client::timeline::{Fate, Object, Timeline};
use folder::Folder;
use recording::exchange::{Exchange, FieldLines};
use report::Tally;
use runtime::clock;
use std::collections::{HashMap, HashSet};
use units::{Duration, Instant, UnixTime};
use url::{Origin, Url};

/// Fields of requests that are not recorded: those of the connection, those that the URL has, and secrets.
const NOT_RECORDED: [&str; 5] = ["Host", "Connection", "Alt-Used", "Authorization", "Cookie"];

/// Runs the command.
///
/// # Errors
/// `Usage` for impossible flags or URLs, `Failed` if a response is missing or a bound was reached, `System` if the
/// system refuses something.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    if !matches!(flags.mode.mode, Mode::Auto | Mode::Serial | Mode::Http2) {
        return Err(Failure::Usage(format!(
            "`--mode {}`: a recording takes auto, serial or h2",
            flags.mode
        )));
    }
    if flags
        .header
        .iter()
        .any(|line| line.name.eq_ignore_ascii_case("Host"))
    {
        return Err(Failure::Usage(
            "`--header Host`: a recording names exchanges by the host of their URLs; write the host in the URL".to_owned(),
        ));
    }
    let mut page = fetch::page(&flags.url)?;
    let given = Given {
        header: &flags.header,
        user: flags.user.as_deref(),
        cookie: &flags.cookie,
    };
    let asked = Asked::of(&given, &mut page)?;
    let folder = Folder::open(&flags.folder).map_err(|error| refused(flags, &error))?;
    let mut recorder = Recorder {
        flags,
        asked,
        home: page.origin(),
        folder,
        began: clock::now(),
        received: 0,
        known: HashSet::new(),
        tally: Tally::default(),
    };
    recorder.record(Reference::to_page(page))?;
    let tally = recorder.tally;
    if voice.json {
        output::line(tally.json(&flags.folder))?;
    } else if voice.reports() {
        output::print(&tally.text(&flags.folder))?;
    }
    tally.judged()
}

/// A recording under way.
struct Recorder<'f> {
    flags: &'f Flags,
    /// Fields and cookies for the origin of the page.
    asked: Asked,
    home: Origin,
    folder: Folder,
    began: Instant,
    /// Bytes received so far.
    received: u64,
    /// URLs that were requested or are about to be.
    known: HashSet<String>,
    tally: Tally,
}

impl Recorder<'_> {
    /// Records the page and everything it refers to.
    fn record(&mut self, page: Reference) -> Result<(), Failure> {
        self.known.insert(page.url.to_string());
        let mut queue = vec![page];
        let mut is_first = true;
        while let Some(first) = queue.first() {
            let origin = first.url.origin();
            let of_origin = |one: &Reference| one.url.origin() == origin;
            let (now, later): (Vec<_>, Vec<_>) = queue.into_iter().partition(of_origin);
            queue = later;
            let limits = match self.limits() {
                Ok(limits) => limits,
                Err(flag) => {
                    self.tally.bound = Some(flag);
                    self.tally.left_out += (now.len() + queue.len()) as u64;
                    return Ok(());
                }
            };
            let urls: Vec<Url> = now.iter().map(|one| one.url.clone()).collect();
            let began = clock::wall();
            match self.visit(now, limits, began) {
                Ok(outcome) => queue.extend(self.keep(outcome, began)?),
                // The page itself cannot be requested: nothing is recorded.
                Err(Failure::Usage(why)) if !is_first => {
                    let missing = urls.into_iter().map(|url| (url.to_string(), why.clone()));
                    self.tally.missing.extend(missing);
                }
                Err(failure) => return Err(failure),
            }
            is_first = false;
        }
        Ok(())
    }

    /// The limits of the next fetch: what is left of those of the recording.
    ///
    /// # Errors
    /// The flag of which nothing is left.
    fn limits(&self) -> Result<Limits, &'static str> {
        let exchanges = self.flags.exchanges_max.saturating_sub(self.tally.exchanges());
        let bytes = self.flags.bytes_max.0.saturating_sub(self.received);
        let time = self.flags.timeout.saturating_sub(clock::now().since(self.began));
        match (exchanges, bytes, time) {
            (0, ..) => Err("--exchanges-max"),
            (_, 0, _) => Err("--bytes-max"),
            (.., time) if time.is_zero() => Err("--timeout"),
            (exchanges, bytes_max, timeout) => Ok(Limits {
                objects_max: exchanges as usize,
                bytes_max,
                timeout,
                ..Limits::DEFAULT
            }),
        }
    }

    /// Fetches references of one origin and what they refer to there.
    fn visit(&self, references: Vec<Reference>, limits: Limits, began: UnixTime) -> Result<Outcome, Failure> {
        let mut references = references.into_iter();
        let Some(first) = references.next() else {
            return Err(Failure::Usage("there is nothing to record".to_owned()));
        };
        let plan = Plan {
            manner: self.flags.mode,
            connections: self.flags.mode.mode.connections(),
            buffering: Buffering::DEFAULT,
            user_agent: USER_AGENT.to_owned(),
            fields: Vec::new(),
            cookies: Vec::new(),
            revalidate: false,
            first_bytes: None,
            embedded: true,
            priorities: Priorities::default(),
            stream_window: STREAM_WINDOW,
            limits,
        };
        // Credentials and cookies of the page are not for other origins.
        let plan = match first.url.origin() == self.home {
            true => self.asked.on(plan),
            false => plan,
        };
        let secure = match first.url.scheme() {
            "https" => {
                let host = first.url.host_str().unwrap_or_default();
                let secure = Secure::new(&self.flags.tls, secure::host(host))?;
                Some(match plan.manner.mode {
                    Mode::Auto => secure.for_either(),
                    Mode::Http2 => secure.for_http2(),
                    _ => secure,
                })
            }
            _ => None,
        };
        let (peer, _) = fetch::resolve(&first.url)?;
        let fetch = Fetch::recording(first, references.collect(), plan, began);
        fetch::driven(fetch, peer, secure.as_ref())
    }

    /// Stores the exchanges of a fetch. Returns the references to other origins that are new.
    fn keep(&mut self, outcome: Outcome, began: UnixTime) -> Result<Vec<Reference>, Failure> {
        let Outcome { timeline, tape, .. } = outcome;
        let Tape {
            responses,
            elsewhere,
            left_out,
            received,
        } = tape.unwrap_or_default();
        self.received += received;
        if self.received > self.flags.bytes_max.0 {
            self.tally.bound = Some("--bytes-max");
        }
        self.tally.left_out += timeline.left_out + left_out;
        // Of an object that was requested again, the last response counts.
        let mut responses: HashMap<usize, Taped> =
            responses.into_iter().map(|taped| (taped.object, taped)).collect();
        for (number, object) in timeline.objects.iter().enumerate() {
            self.known.insert(object.url.clone());
            let kept = match responses.remove(&number) {
                Some(taped) => self.store(&timeline, object, taped, began)?,
                None => Err(match &object.fate {
                    Fate::Failed(why) => why.clone(),
                    _ => "it has no complete response".to_owned(),
                }),
            };
            if let Err(why) = kept {
                self.tally.missing.push((object.url.clone(), why));
            }
        }
        let mut new = elsewhere;
        new.retain(|reference| self.known.insert(reference.url.to_string()));
        Ok(new)
    }

    /// Stores a response. The inner error says why it cannot be recorded.
    fn store(
        &mut self,
        timeline: &Timeline,
        object: &Object,
        taped: Taped,
        began: UnixTime,
    ) -> Result<Result<(), String>, Failure> {
        let (Some(one), Ok(url)) = (object.tries.get(taped.one), Url::parse(&object.url)) else {
            return Ok(Err("it has no request".to_owned()));
        };
        let sent = one.sent.unwrap_or(one.asked);
        let exchange = Exchange {
            method: "GET".to_owned(),
            url,
            protocol: timeline.connections[one.connection].protocol.to_owned(),
            recorded: UnixTime::from_secs(began.secs),
            first_byte: one.first.map_or(Duration::ZERO, |first| first.since(sent)),
            request_fields: request_fields(&one.request),
            status: one.status,
            fields: one.fields.clone(),
            body: Bytes::from(taped.body),
        };
        let head = match exchange.head() {
            Ok(head) => head,
            Err(fault) => return Ok(Err(fault.to_string())),
        };
        let written = self.folder.write(&exchange, &head);
        let is_replaced = written.map_err(|error| refused(self.flags, &error))?;
        let origin = exchange.url.origin().ascii_serialization();
        self.tally.count(&origin, is_replaced, exchange.body.len() as u64);
        Ok(Ok(()))
    }
}

/// The fields of a request that responses may depend on.
fn request_fields(request: &str) -> FieldLines {
    let lines = request
        .split("\r\n")
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    lines
        .filter(|(name, _)| !NOT_RECORDED.iter().any(|other| other.eq_ignore_ascii_case(name)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn refused(flags: &Flags, error: &std::io::Error) -> Failure {
    Failure::System(format!(
        "cannot write the recording `{}`: {error}; name a folder that you may write to, with free space",
        flags.folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_request_are_not_recorded() {
        let request = "GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: weir\r\nAccept: */*\r\nAuthorization: Basic x\r\n\
                       cookie: a=1\r\nAccept-Language: de\r\n\r\n";
        let names: Vec<String> = request_fields(request)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["User-Agent", "Accept", "Accept-Language"]);
    }
}
