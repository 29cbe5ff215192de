//! The text report of a fetch: bars on a terminal, a plain table elsewhere, one line per mode in a comparison.

use super::Run;
use super::json::tcp_bytes;
use super::spread::Spread;
use client::explain::{Cause, Hint, Wait, explain, hints, streams, sums};
use client::plan::{Manner, Mode};
use client::timeline::{Connection, Fate, Object, Skipped, Source, Timeline};
use std::fmt::Write;
use units::{Bytes, Duration, Instant};
use url::Url;

/// Width of the bars in columns.
const BARS: usize = 40;
/// Width of the object names in columns.
const NAME: usize = 34;

pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e3)
}

/// The table of all objects with their times.
pub(super) fn waterfall(page: &Url, run: &Run, is_terminal: bool) -> String {
    let timeline = &run.timeline;
    let elapsed = timeline.ended - timeline.began;
    let mut text = String::new();
    let names = if is_terminal { NAME } else { 0 };
    let _ = writeln!(
        text,
        "{:<names$} {:>6} {:>9} {:>8} {:>8} {:>8} {:>5}{}",
        if is_terminal { "object" } else { "" },
        "status",
        "bytes",
        "asked",
        "first",
        "last",
        "conn",
        if is_terminal {
            format!("  0 ms{:>width$} ms", milliseconds(elapsed), width = BARS - 8)
        } else {
            "  url".to_owned()
        },
    );
    for object in &timeline.objects {
        let name = object
            .url
            .strip_prefix(&page[..url::Position::BeforePath])
            .unwrap_or(&object.url);
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        let since = |at: Instant| milliseconds(at.since(timeline.began));
        let or_dash = |at: Option<Instant>| at.map_or("-".to_owned(), since);
        let one = object.tries.last();
        let (first, last) = (
            object.tries.iter().find_map(|one| one.first),
            one.and_then(|one| one.last),
        );
        let status = match &object.fate {
            Fate::Done(Source::Cache) => "cache".to_owned(),
            Fate::Failed(_) => object
                .status
                .map_or("failed".to_owned(), |status| format!("{status}!")),
            _ => object.status.map_or("-".to_owned(), |status| status.to_string()),
        };
        let bytes: u64 = object
            .tries
            .iter()
            .map(|one| one.head_bytes + one.body_bytes)
            .sum();
        let shown = if is_terminal {
            shortened(&name, names)
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{shown:<names$} {status:>6} {bytes:>9} {:>8} {:>8} {:>8} {:>5}  {}",
            or_dash(object.tries.first().map(|one| one.asked)),
            or_dash(first),
            or_dash(last),
            one.map_or("-".to_owned(), |one| match one.stream {
                Some(stream) => format!("{}:{stream}", one.connection),
                None => one.connection.to_string(),
            }),
            if is_terminal { bar(object, timeline) } else { name },
        );
    }
    let totals = timeline.sums();
    let _ = writeln!(
        text,
        "\n{}{}: {} ms, {} objects, {} connections, {} requests, {} in, {} out{}",
        run.manner,
        agreed(run),
        milliseconds(elapsed),
        timeline.objects.len(),
        totals.connections,
        totals.requests,
        Bytes(totals.bytes_in),
        Bytes(totals.bytes_out),
        totals
            .packets
            .map_or(String::new(), |packets| format!(", {packets} packets")),
    );
    if let Some(dns) = run.dns {
        let _ = writeln!(
            text,
            "name lookup: {} ms, before the fetch and not part of its times",
            milliseconds(dns)
        );
    }
    text.push_str(&secured(timeline));
    if let Some(race) = &run.race {
        text.push_str(&race.said());
    }
    let announced = hints(timeline).len();
    if announced > 0 {
        let _ = writeln!(
            text,
            "{announced} objects were announced before their page (103, Early Hints)"
        );
    }
    if totals.packets.is_some() && totals.unclosed > 0 {
        let _ = writeln!(
            text,
            "packets are without the closing of {} of {} connections",
            totals.unclosed, totals.connections
        );
    }
    if totals.repeated > 0 {
        let _ = writeln!(
            text,
            "{} repeated because connections ended before responses were complete",
            match totals.repeated {
                1 => "1 request was".to_owned(),
                more => format!("{more} requests were"),
            }
        );
    }
    if totals.from_cache > 0 {
        let _ = writeln!(
            text,
            "{} from the cache",
            if totals.from_cache == 1 {
                "1 object is".to_owned()
            } else {
                format!("{} objects are", totals.from_cache)
            }
        );
    }
    // References beyond `--objects-max` are an error, which names them.
    let mut elsewhere = timeline
        .skipped
        .iter()
        .filter(|(_, why)| *why == Skipped::Elsewhere);
    if let Some((url, why)) = elsewhere.next() {
        let listed = 1 + elsewhere.count() as u64;
        // References beyond the list may be of either kind.
        let more = if timeline.skipped_more > 0 {
            "at least "
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "{more}{} not followed, such as {} ({why})",
            references(listed),
            url.escape_debug()
        );
    }
    text
}

/// What was agreed on, if that was open.
fn agreed(run: &Run) -> String {
    let mut all = run.timeline.connections.iter().map(|one| one.protocol);
    match all.find(|name| !name.is_empty()) {
        Some(name) if run.manner.mode == Mode::Auto || run.race.is_some() => format!(" ({name})"),
        _ => String::new(),
    }
}

/// A number of references with its verb.
pub(super) fn references(count: u64) -> String {
    match count {
        1 => "1 reference was".to_owned(),
        more => format!("{more} references were"),
    }
}

/// The end of a name that has more characters than this.
pub(super) fn shortened(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(count + 1 - most).collect();
    format!("…{tail}")
}

/// A line about the TLS handshakes; empty without.
fn secured(timeline: &Timeline) -> String {
    let all = || timeline.connections.iter().filter_map(|one| one.secured);
    let Some((_, first)) = all().next() else {
        return String::new();
    };
    let took = timeline.connections.iter().filter_map(Connection::handshake);
    let mean = took.sum::<Duration>() / all().count().max(1) as u32;
    // Its handshake contains that of TLS, so the time is of both.
    let transport = match first.protocol {
        "h3" => "QUIC with ",
        _ => "",
    };
    format!(
        "{transport}{}, {}: {} ms per handshake, {} of {} resumed\n",
        first.version,
        first.suite,
        milliseconds(mean),
        all().filter(|(_, agreed)| agreed.resumed).count(),
        all().count(),
    )
}

/// The bar of an object: dots until it is requested, light while waiting, dark while receiving.
fn bar(object: &Object, timeline: &Timeline) -> String {
    let elapsed = (timeline.ended - timeline.began).as_secs_f64().max(1e-9);
    let column = |at: Instant| {
        let share = at.since(timeline.began).as_secs_f64() / elapsed;
        ((share * BARS as f64) as usize).min(BARS - 1)
    };
    let mut cells = [' '; BARS];
    let mut paint = |from: Instant, to: Instant, with: char| {
        cells[column(from)..=column(to)].fill(with);
    };
    for one in &object.tries {
        let end = one.last.or(one.first).unwrap_or(timeline.ended);
        paint(object.found.min(one.asked), one.asked, '·');
        paint(one.asked, one.first.unwrap_or(end), '░');
        if let Some(first) = one.first {
            paint(first, end, '█');
        }
    }
    cells.iter().collect::<String>().trim_end().to_owned()
}

/// The critical path by cause.
pub(super) fn explained(timeline: &Timeline) -> String {
    if !timeline.has_page() {
        return "\nthe page did not arrive, so there is no critical path to explain\n".to_owned();
    }
    let spans = explain(timeline);
    let elapsed = timeline.ended - timeline.began;
    let mut text = String::from("\ncritical path          ms  share\n");
    for (cause, took) in sums(&spans) {
        if matches!(cause, Cause::Handshake | Cause::FlowControl) && took.is_zero() {
            continue;
        }
        let share = took.as_secs_f64() / elapsed.as_secs_f64().max(1e-9) * 100.0;
        let _ = writeln!(
            text,
            "{:<20} {:>6} {share:>5.1}%",
            cause.name(),
            milliseconds(took)
        );
    }
    let _ = writeln!(text, "{:<20} {:>6} 100.0%", "total", milliseconds(elapsed));
    text.push_str(&by_connection(timeline));
    text.push_str(&by_stream(timeline));
    text.push_str(&by_hint(timeline));
    text
}

/// The path and query of a URL, without control characters.
fn path_of(url: &str) -> String {
    let name: String = url.chars().filter(|c| !c.is_control()).collect();
    Url::parse(&name).map_or(name.clone(), |url| url[url::Position::BeforePath..].to_owned())
}

/// What Early Hints gained and wasted; empty without any.
fn by_hint(timeline: &Timeline) -> String {
    let all = hints(timeline);
    if all.is_empty() {
        return String::new();
    }
    let used = || all.iter().filter(|hint| hint.is_used);
    let wasted = || all.iter().filter(|hint| !hint.is_used);
    let most = used().filter_map(|hint| hint.earlier).max();
    let mut text = format!(
        "\nearly hints: {} of {} objects are used by the page, known up to {} ms earlier; {} wasted ({})\n",
        used().count(),
        all.len(),
        milliseconds(most.unwrap_or(Duration::ZERO)),
        wasted().count(),
        Bytes(wasted().map(|hint| hint.bytes).sum()),
    );
    for hint in &all {
        let _ = writeln!(
            text,
            "{}: {}",
            path_of(&timeline.objects[hint.object].url),
            hinted(hint)
        );
    }
    text
}

/// What Early Hints did for one object, in words.
fn hinted(hint: &Hint) -> String {
    let head = match hint.before_head {
        Some(before) => format!(
            "named by Early Hints {} ms before the page's head",
            milliseconds(before)
        ),
        None => "named by Early Hints, but the page's head never came".to_owned(),
    };
    match hint.earlier.filter(|_| hint.is_used) {
        Some(earlier) => format!("{head}, {} ms before the page names it", milliseconds(earlier)),
        None => format!("{head}, wasted: the page does not use it ({})", Bytes(hint.bytes)),
    }
}

/// What the transport knows of each connection over QUIC; empty without any.
fn by_connection(timeline: &Timeline) -> String {
    let mut text = String::new();
    for (number, connection) in timeline.connections.iter().enumerate() {
        let Some(quic) = connection.quic else { continue };
        let handshake = match (connection.handshake_round_trips(), quic.rtt_min) {
            (Some(trips), Some(rtt)) => {
                format!("handshake {trips:.1} round trips of {} ms", milliseconds(rtt))
            }
            _ => "no handshake".to_owned(),
        };
        let _ = writeln!(
            text,
            "\nQUIC connection {number}: {handshake}, {} packets of it sent again; {} datagrams in, {} out, at most {} bytes",
            connection.shaken_again, quic.datagrams_in, quic.datagrams_out, quic.mtu,
        );
        let _ = writeln!(
            text,
            "sent: {} packets lost, {} probes; received: {} waits for a missing packet, {} times blocked by flow control; {} \
             PATH_CHALLENGE frames",
            quic.lost, quic.probes, quic.holes, quic.blocked, quic.challenges,
        );
    }
    text
}

/// What each response over HTTP/2 or HTTP/3 waited for; empty without any.
fn by_stream(timeline: &Timeline) -> String {
    let all = streams(timeline);
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:>6}", "stream");
    for wait in Wait::ALL {
        let _ = write!(text, "  {}", wait.name());
    }
    let _ = writeln!(text, "  total ms  object");
    for one in all {
        let object = &timeline.objects[one.object];
        let place = object.tries[one.one].connection;
        let _ = write!(text, "{:>6}", format!("{place}:{}", one.stream));
        for (wait, took) in Wait::ALL.iter().zip(one.waits) {
            let _ = write!(text, "  {:>w$}", milliseconds(took), w = wait.name().len());
        }
        let _ = writeln!(
            text,
            "  {:>8}  {}",
            milliseconds(one.total()),
            path_of(&object.url)
        );
    }
    text
}

/// One line per mode with the columns of the W3C NOTE's tables and the spread of the time.
pub(super) fn comparison(manners: &[Manner], runs: &[Run], with_causes: bool) -> String {
    let mut text = format!(
        "{:<20} {:>4} {:>9} {:>9} {:>9} {:>9} {:>5} {:>5} {:>8} {:>9} {:>9} {:>6}\n",
        "mode",
        "runs",
        "mean s",
        "min s",
        "max s",
        "dev s",
        "conn",
        "req",
        "packets",
        "bytes",
        "tcp bytes",
        "ov %"
    );
    for &manner in manners {
        let all = runs.iter().filter(|run| run.manner == manner).count();
        let timelines = with_page(manner, runs);
        let count = match timelines.len() {
            some if some == all => all.to_string(),
            some => format!("{some}/{all}"),
        };
        let mean = |of: &dyn Fn(&Timeline) -> Option<u64>| {
            let values: Option<Vec<f64>> = timelines
                .iter()
                .map(|one| of(one).map(|value| value as f64))
                .collect();
            values.and_then(Spread::of).map(|spread| spread.mean)
        };
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        let Some(seconds) = Spread::of(timelines.iter().map(|one| (one.ended - one.began).as_secs_f64()))
        else {
            let _ = writeln!(
                text,
                "{:<20} {count:>4} {:>9} {:>9} {:>9} {:>9} {:>5} {:>5} {:>8} {:>9} {:>9} {:>6}",
                manner.to_string(),
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-"
            );
            continue;
        };
        let packets = mean(&|one| one.sums().packets);
        let all = mean(&|one| tcp_bytes(one));
        // Overhead as the NOTE defines it: 40-byte headers as a share of all bytes.
        let overhead = packets
            .zip(all)
            .map(|(packets, all)| 4000.0 * packets / all.max(1.0));
        let _ = writeln!(
            text,
            "{:<20} {count:>4} {:>9.4} {:>9.4} {:>9.4} {:>9.4} {:>5} {:>5} {:>8} {:>9} {:>9} {:>6}",
            manner.to_string(),
            seconds.mean,
            seconds.least,
            seconds.most,
            seconds.deviation,
            shown(mean(&|one| Some(one.sums().connections))),
            shown(mean(&|one| Some(one.sums().requests))),
            shown(packets),
            shown(mean(&|one| Some(one.sums().bytes_in + one.sums().bytes_out))),
            shown(all),
            overhead.map_or("-".to_owned(), |share| format!("{share:.1}")),
        );
    }
    text.push_str(&missing(manners, runs));
    if with_causes {
        text.push_str(&causes(manners, runs));
    }
    text
}

/// The fetches of a mode that received the page.
fn with_page(manner: Manner, runs: &[Run]) -> Vec<&Timeline> {
    let of_mode = runs.iter().filter(|run| run.manner == manner);
    of_mode
        .map(|run| &run.timeline)
        .filter(|timeline| timeline.has_page())
        .collect()
}

/// Remarks on incomplete figures, one line per fault.
fn missing(manners: &[Manner], runs: &[Run]) -> String {
    let mut text = String::new();
    for &manner in manners {
        let of_mode = || {
            let of_mode = runs.iter().filter(|run| run.manner == manner);
            of_mode.map(|run| &run.timeline)
        };
        let first = |timeline: &Timeline| {
            timeline.objects.iter().find_map(|object| match &object.fate {
                Fate::Failed(why) => Some(format!("`{}`: {why}", object.url)),
                _ => None,
            })
        };
        let (here, gone): (Vec<&Timeline>, Vec<&Timeline>) = of_mode().partition(|one| one.has_page());
        if let Some(why) = gone.iter().find_map(|one| first(one)) {
            let _ = writeln!(
                text,
                "{manner}: {} of {} fetches did not receive the page and are left out: {why}",
                gone.len(),
                of_mode().count()
            );
        }
        if let Some(why) = here.iter().find_map(|one| first(one)) {
            let objects: u64 = here.iter().map(|one| one.sums().failed).sum();
            let _ = writeln!(
                text,
                "{manner}: {objects} objects are missing in the measured fetches, such as {why}"
            );
        }
        let sums = || here.iter().map(|one| one.sums());
        let unclosed: u64 = sums().map(|one| one.unclosed).sum();
        if unclosed > 0 && sums().all(|one| one.packets.is_some()) {
            let connections: u64 = sums().map(|one| one.connections).sum();
            let _ = writeln!(
                text,
                "{manner}: packets are without the closing of {unclosed} of {connections} connections"
            );
        }
    }
    text
}

/// Mean milliseconds by cause, one line per mode.
fn causes(manners: &[Manner], runs: &[Run]) -> String {
    let mut text = format!("\n{:<20}", "mean ms");
    let is_secured = runs.iter().any(|run| run.timeline.is_secured());
    let is_h2 = runs.iter().any(|run| {
        let mut tries = run.timeline.objects.iter().flat_map(|object| &object.tries);
        tries.any(|one| one.stream.is_some())
    });
    let is_shown = |cause: Cause| match cause {
        Cause::Handshake => is_secured,
        Cause::FlowControl => is_h2,
        _ => true,
    };
    for cause in Cause::ALL.into_iter().filter(|&cause| is_shown(cause)) {
        let _ = write!(text, " {:>w$}", cause.name(), w = cause.name().len().max(8));
    }
    let _ = writeln!(text, " {:>9}", "total");
    for &manner in manners {
        let _ = write!(text, "{:<20}", manner.to_string());
        let all: Vec<_> = with_page(manner, runs)
            .into_iter()
            .map(|timeline| sums(&explain(timeline)))
            .collect();
        if all.is_empty() {
            let _ = writeln!(text, " {:>8}", "-");
            continue;
        }
        let mut total = 0.0;
        for (place, cause) in Cause::ALL.iter().enumerate() {
            if !is_shown(*cause) {
                continue;
            }
            let mean = Spread::of(all.iter().map(|one| one[place].1.as_secs_f64() * 1e3));
            let mean = mean.map_or(0.0, |spread| spread.mean);
            total += mean;
            let _ = write!(text, " {mean:>w$.1}", w = cause.name().len().max(8));
        }
        let _ = writeln!(text, " {total:>9.1}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_say_what_they_gained_or_wasted() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let hint = |before_head, earlier, is_used| {
            hinted(&Hint {
                object: 1,
                before_head,
                earlier,
                is_used,
                bytes: 2048,
            })
        };
        assert_eq!(
            hint(ms(420), ms(431), true),
            "named by Early Hints 420.0 ms before the page's head, 431.0 ms before the page names it"
        );
        assert_eq!(
            hint(ms(420), ms(420), false),
            "named by Early Hints 420.0 ms before the page's head, wasted: the page does not use it (2 KiB)"
        );
        assert_eq!(
            hint(None, None, false),
            "named by Early Hints, but the page's head never came, wasted: the page does not use it (2 KiB)"
        );
    }
}
