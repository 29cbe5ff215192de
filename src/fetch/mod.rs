//! `weir fetch`: a page over real connections, once or repeatedly, in one mode or several. Handles flags, host names,
//! the cache directory and reports; `client` decides what is requested when.

mod csv;
pub(crate) mod fields;
mod har;
mod json;
mod qlog;
mod race;
mod report;
pub(crate) mod simulated;
mod spread;
mod store;
mod svg;

use crate::archive::Archive;
use crate::cli::fetch::Flags;
use crate::failure::Failure;
use crate::output;
use crate::secure::{self, Secure};
use crate::voice::Voice;
use client::alternatives::Alternatives;
use client::cache::Entries;
use client::fetch::{Fetch, Outcome};
use client::plan::{Buffering, Limits, Manner, Mode, Plan};
use client::streams::STREAM_WINDOW;
use client::timeline::{Fate, Timeline};
use qlog::{Log, Taping};
use race::{Race, Racing};
use runtime::{clock, dial};
use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use store::Store;
use svg::Waterfall;
use units::{Duration, UnixTime};
use url::{Host, Url};

/// The User-Agent of requests.
pub(crate) const USER_AGENT: &str = concat!("weir/", env!("CARGO_PKG_VERSION"));

/// One fetch and its mode.
struct Run {
    manner: Manner,
    began: UnixTime,
    /// Address of the server; `None` in a simulation.
    peer: Option<SocketAddr>,
    /// How long the lookup of the host's name took, before the fetch; `None` without a lookup.
    dns: Option<Duration>,
    timeline: Timeline,
    /// The race between QUIC and TCP, if there was one.
    race: Option<Race>,
}

/// Runs the command.
///
/// # Errors
/// `Usage` for impossible flags or URLs, `Failed` if an object is missing, `System` if the system refuses something.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    if let Some((flag, why)) = flags.idle() {
        return Err(Failure::Usage(format!("`{flag}` has no effect here: {why}")));
    }
    for (place, manner) in flags.compare.iter().enumerate() {
        if flags.compare[..place].contains(manner) {
            return Err(Failure::Usage(format!(
                "`--compare` names {manner} twice; to fetch each mode several times, use --repeat"
            )));
        }
    }
    one_on_output(flags, voice)?;
    let recorded = recorded(flags)?;
    let Some(url) = &flags.url else {
        return match flags.simulate {
            Some(_) => simulated::run(flags, &recorded, voice),
            None => drawn(flags, &recorded),
        };
    };
    if flags.revalidate && flags.cache.is_none() {
        return Err(Failure::Usage(
            "`--revalidate` needs cache entries: name a cache directory with --cache".to_owned(),
        ));
    }
    let mut page = page(url)?;
    let given = fields::Given {
        header: &flags.header,
        user: flags.user.as_deref(),
        cookie: &flags.cookie,
    };
    let asked = fields::Asked::of(&given, &mut page)?;
    let secure = match page.scheme() {
        "https" => {
            let host = page.host_str().unwrap_or_default();
            Some(Secure::new(&flags.tls, secure::host(host))?)
        }
        _ => Secure::none(&flags.tls).map(|()| None)?,
    };
    let insecure = secure.as_ref().map(|secure| secure.is_insecure);
    let (peer, dns) = resolve(&page)?;
    let mut qlog = flags.qlog.as_deref().map(Log::create_now).transpose()?;
    let store = flags.cache.as_deref().map(opened).transpose()?;
    let before = match &store {
        Some((_, entries)) => entries.clone(),
        None => Entries::new(),
    };
    let manners = manners(flags);
    let mut runs: Vec<Run> = Vec::new();
    let mut last = None;
    let mut racing = secure.as_ref().map(|secure| Racing {
        flags,
        page: &page,
        secure,
        peer,
        known: Alternatives::default(),
    });
    for _ in 0..flags.repeat {
        // Each round runs every mode once, so that conditions that change over time affect all modes alike. Every run
        // starts from
        // the same cache.
        for &manner in &manners {
            let began = clock::wall();
            let make = |manner| {
                let plan = asked.on(plan(flags, manner));
                Fetch::new(page.clone(), plan, before.clone(), began)
            };
            // A comparison uses what it names.
            let may_race = flags.compare.is_empty() && !flags.h3_only;
            let is_open = matches!(manner.mode, Mode::Auto | Mode::Http3);
            let taping = qlog.is_some().then(Taping::default);
            let taping = taping.as_ref();
            let (outcome, race, peer) = match &mut racing {
                Some(racing) if may_race && is_open => racing.fetch(manner, make, taping)?,
                _ => {
                    let secure = secure.as_ref();
                    let over = match manner.mode {
                        Mode::Http2 => secure.map(Secure::for_http2),
                        Mode::Http3 => Some(taped(http3(flags, secure)?, taping)),
                        Mode::Auto => secure.map(Secure::for_either),
                        _ => secure.cloned(),
                    };
                    (driven(make(manner), peer, over.as_ref())?, None, peer)
                }
            };
            if let (Some(qlog), Some(taping)) = (&mut qlog, taping) {
                qlog.take(taping.take(None, peer));
            }
            if voice.json {
                let mut line = json::of(&page, manner, &outcome.timeline, insecure, flags.explain);
                line["dns_seconds"] = dns.map_or(serde_json::Value::Null, |took| took.as_secs_f64().into());
                line["race"] = race.as_ref().map_or(serde_json::Value::Null, Race::json);
                output::print(&format!("{line}\n"))?;
            }
            runs.push(Run {
                manner,
                began,
                peer: Some(peer),
                dns,
                timeline: outcome.timeline.clone(),
                race,
            });
            last = Some(outcome);
        }
    }
    let Some(last) = last else { return Ok(()) };
    // A cache that cannot be written must not suppress the report.
    let saved = match &store {
        Some((store, _)) => kept(store, &last, flags.cache.as_deref()),
        None => Ok(()),
    };
    let logged = qlog.map_or(Ok(()), |qlog| qlog.write(voice));
    say(flags, &page, &manners, &runs, &recorded, voice)?;
    saved?;
    logged?;
    judged(&runs, plan(flags, flags.mode).limits.objects_max)
}

/// How connections of HTTP/3 are made.
fn http3(flags: &Flags, secure: Option<&Secure>) -> Result<Secure, Failure> {
    let Some(secure) = secure else {
        return Err(Failure::Usage(
            "`h3` needs an https URL: HTTP/3 always has TLS".to_owned(),
        ));
    };
    Ok(secure.for_http3(flags.stream_window.unwrap_or(STREAM_WINDOW))?)
}

/// The same, recorded for `--qlog`.
fn taped(secure: Secure, taping: Option<&Taping>) -> Secure {
    match taping {
        Some(taping) => taping.of(secure),
        None => secure,
    }
}

/// Writes changed entries to the cache directory.
fn kept(store: &Store, last: &Outcome, dir: Option<&Path>) -> Result<(), Failure> {
    let (failed, first) = store.save(&last.entries, &last.changed);
    let Some(error) = first else { return Ok(()) };
    Err(Failure::System(format!(
        "the page was fetched, but {failed} of {1} entries could not be written to the cache `{0}`: {error}; free some space or name \
         another directory with --cache",
        dir.unwrap_or(Path::new("")).display(),
        last.changed.len()
    )))
}

/// Whether an archive or a picture goes to standard output.
fn takes_output(flags: &Flags) -> bool {
    let is_output = |path: &Option<std::path::PathBuf>| path.as_deref() == Some(Path::new("-"));
    is_output(&flags.har) || is_output(&flags.svg) || is_output(&flags.csv)
}

/// Refuses two outputs that both go to standard output.
fn one_on_output(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let is_output = |path: &Option<std::path::PathBuf>| path.as_deref() == Some(Path::new("-"));
    let all = [
        ("--har -", is_output(&flags.har)),
        ("--svg -", is_output(&flags.svg)),
        ("--csv -", is_output(&flags.csv)),
        ("--json", voice.json),
    ];
    let mut wanted = all
        .iter()
        .filter(|(_, is_wanted)| *is_wanted)
        .map(|(flag, _)| *flag);
    match (wanted.next(), wanted.next()) {
        (Some(one), Some(other)) => Err(Failure::Usage(format!(
            "`{one}` and `{other}` both write to standard output: name a file for one of them"
        ))),
        _ => Ok(()),
    }
}

fn manners(flags: &Flags) -> Vec<Manner> {
    match flags.compare.as_slice() {
        [] if flags.h3_only => vec![Manner {
            mode: Mode::Http3,
            ..flags.mode
        }],
        [] => vec![flags.mode],
        several => several.to_vec(),
    }
}

/// The URL of a page; without a scheme, http.
///
/// # Errors
/// `Usage` for what is not an http or https URL.
pub(crate) fn page(text: &str) -> Result<Url, Failure> {
    let fault = |why: String| Failure::Usage(format!("`{}`: {why}", text.escape_debug()));
    let url = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("http://{text}"))
    };
    let url = url.map_err(|error| fault(format!("is not a URL: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(fault(format!(
            "the scheme `{other}` is not supported; use an http or https URL"
        ))),
    }
}

/// The address of the host, and how long the lookup of its name took; an address needs none.
///
/// # Errors
/// `Usage` for a host without an address.
pub(crate) fn resolve(page: &Url) -> Result<(SocketAddr, Option<Duration>), Failure> {
    let host = page.host_str().unwrap_or_default();
    let asked = clock::now();
    let addresses = page
        .socket_addrs(|| page.port_or_known_default())
        .map_err(|error| Failure::Usage(format!("cannot find the host `{host}`: {error}")))?;
    let took = clock::now().since(asked);
    let dns = matches!(page.host(), Some(Host::Domain(_))).then_some(took);
    let peer = dial::answering(&addresses);
    peer.map(|peer| (peer, dns))
        .ok_or_else(|| Failure::Usage(format!("the host `{host}` has no address")))
}

fn opened(dir: &Path) -> Result<(Store, Entries), Failure> {
    let refused = |error: std::io::Error| Failure::System(format!("the cache `{}`: {error}", dir.display()));
    let store = Store::open(dir).map_err(refused)?;
    let (entries, damaged) = store.load().map_err(refused)?;
    if damaged > 0 {
        tracing::warn!(
            "{damaged} files in the cache `{}` are incomplete and were ignored",
            dir.display()
        );
    }
    Ok((store, entries))
}

fn plan(flags: &Flags, manner: Manner) -> Plan {
    let fallback = Limits::DEFAULT;
    let buffering = Buffering::DEFAULT;
    Plan {
        manner,
        connections: flags.connections.map_or(manner.mode.connections(), usize::from),
        buffering: Buffering {
            bytes_max: flags.buffer.map_or(buffering.bytes_max, |bytes| {
                usize::try_from(bytes.0).unwrap_or(usize::MAX)
            }),
            timer: flags.flush_timer.unwrap_or(buffering.timer),
            flush_page: !flags.no_explicit_flush,
        },
        user_agent: USER_AGENT.to_owned(),
        fields: Vec::new(),
        cookies: Vec::new(),
        revalidate: flags.revalidate,
        first_bytes: flags.first_bytes.map(|bytes| bytes.0.max(1)),
        embedded: !flags.no_embedded,
        priorities: flags.priorities.unwrap_or_default(),
        stream_window: flags.stream_window.unwrap_or(STREAM_WINDOW),
        limits: Limits {
            objects_max: flags.objects_max.unwrap_or(fallback.objects_max),
            bytes_max: flags.bytes_max.map_or(fallback.bytes_max, |bytes| bytes.0),
            ratio_max: flags.ratio_max.unwrap_or(fallback.ratio_max),
            redirects_max: flags.redirects_max.unwrap_or(fallback.redirects_max),
            repeats_max: flags.repeats_max.unwrap_or(fallback.repeats_max),
            connect_timeout: flags.connect_timeout.unwrap_or(fallback.connect_timeout),
            stall_timeout: flags.stall_timeout.unwrap_or(fallback.stall_timeout),
            timeout: flags.timeout.unwrap_or(fallback.timeout),
        },
    }
}

/// Runs the fetch over real connections.
///
/// # Errors
/// `System` if no thread can be started.
pub(crate) fn driven(fetch: Fetch, peer: SocketAddr, secure: Option<&Secure>) -> Result<Outcome, Failure> {
    let refused = |error: std::io::Error| Failure::System(format!("cannot start a thread: {error}"));
    let running = secure::start(vec![fetch], peer, secure).map_err(refused)?;
    let mut ended = running.join().map_err(refused)?;
    match ended.pop() {
        Some((fetch, _)) => Ok(fetch.into_outcome()),
        None => Err(Failure::System("no thread was started".to_owned())),
    }
}

/// The archives that `--beside` names.
fn recorded(flags: &Flags) -> Result<Vec<Archive>, Failure> {
    let read = |path: &std::path::PathBuf| Archive::read(path, "--beside");
    flags.beside.iter().map(read).collect()
}

/// Draws recorded results alone.
fn drawn(flags: &Flags, recorded: &[Archive]) -> Result<(), Failure> {
    let (Some(path), Some(first)) = (&flags.svg, recorded.first()) else {
        return Ok(());
    };
    let page = first.entries.first().map_or("", |entry| entry.url.as_str());
    let waterfalls: Vec<Waterfall<'_>> = recorded.iter().map(Waterfall::Recorded).collect();
    written(path, svg::draw(page, &waterfalls).as_bytes())
}

fn say(
    flags: &Flags,
    page: &Url,
    manners: &[Manner],
    runs: &[Run],
    recorded: &[Archive],
    voice: &Voice,
) -> Result<(), Failure> {
    let Some(last) = runs.last() else { return Ok(()) };
    let archived = match &flags.har {
        Some(path) => written(path, format!("{:#}\n", har::of(page, last)).as_bytes()),
        None => Ok(()),
    };
    let drawn = match &flags.svg {
        Some(path) => {
            let earlier = recorded.iter().map(Waterfall::Recorded);
            // Of each mode, the last fetch.
            let now = manners
                .iter()
                .filter_map(|manner| runs.iter().rfind(|run| run.manner == *manner))
                .map(Waterfall::Fetched);
            let waterfalls: Vec<Waterfall<'_>> = earlier.chain(now).collect();
            written(path, svg::draw(page.as_str(), &waterfalls).as_bytes())
        }
        None => Ok(()),
    };
    let listed = match &flags.csv {
        Some(path) => written(path, csv::of(runs).as_bytes()),
        None => Ok(()),
    };
    let told = tell(flags, page, manners, runs, voice);
    archived.and(drawn).and(listed).and(told)
}

/// Prints the report.
fn tell(flags: &Flags, page: &Url, manners: &[Manner], runs: &[Run], voice: &Voice) -> Result<(), Failure> {
    let Some(last) = runs.last() else { return Ok(()) };
    if voice.json {
        if flags.repeat > 1 || manners.len() > 1 {
            for &manner in manners {
                output::print(&format!("{}\n", json::spread(page, manner, runs)))?;
            }
        }
        return Ok(());
    }
    if !voice.reports() {
        return Ok(());
    }
    let mut text = String::new();
    if manners.len() == 1 {
        text.push_str(&report::waterfall(page, last, is_terminal(flags)));
    }
    if manners.len() > 1 || flags.repeat > 1 {
        text.push_str(&report::comparison(manners, runs, flags.explain));
    } else if flags.explain {
        text.push_str(&report::explained(&last.timeline));
    }
    match takes_output(flags) {
        // Standard output holds only the archive or the picture.
        true => output::print_error(&text),
        false => output::print(&text),
    }
}

/// Whether the report goes to a terminal.
fn is_terminal(flags: &Flags) -> bool {
    match takes_output(flags) {
        true => std::io::stderr().is_terminal(),
        false => std::io::stdout().is_terminal(),
    }
}

/// Writes to a file, or to standard output for `-`.
fn written(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if path == Path::new("-") {
        return output::print_bytes(content);
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path);
    file.and_then(|mut file| file.write_all(content))
        .map_err(|error| Failure::System(format!("cannot write `{}`: {error}", path.display())))
}

/// Succeeds if all objects arrived; otherwise the error names the first missing object of every mode.
fn judged(runs: &[Run], objects_max: usize) -> Result<(), Failure> {
    let mut told: Vec<(Manner, String)> = Vec::new();
    for run in runs {
        if told.iter().any(|(manner, _)| *manner == run.manner) {
            continue;
        }
        let objects = &run.timeline.objects;
        let mut failed = objects.iter().filter_map(|object| match &object.fate {
            Fate::Failed(why) => Some((object, why)),
            _ => None,
        });
        let count = failed.clone().count();
        if let Some((object, why)) = failed.next() {
            let more = match count {
                1 => String::new(),
                more => format!("; {} more are missing", more - 1),
            };
            let why = format!("{} `{}`: {why}{more}", run.manner, object.url);
            told.push((run.manner, why));
        } else if run.timeline.left_out > 0 {
            let why = format!(
                "{}: {} left out, as the page has more than {objects_max} objects; raise --objects-max",
                run.manner,
                report::references(run.timeline.left_out)
            );
            told.push((run.manner, why));
        }
    }
    if told.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = told.into_iter().map(|(_, why)| why).collect();
    Err(Failure::Failed(all.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_and_https_are_spoken() {
        assert!(page("https://h/").is_ok());
        assert_eq!(
            page("localhost:8080/x").expect("fine").as_str(),
            "http://localhost:8080/x"
        );
        for (text, fragment) in [("ftp://h/", "not supported"), ("http://", "not a URL")] {
            let error = page(text).expect_err(text).to_string();
            assert!(error.contains(fragment), "{error}");
        }
    }
}
