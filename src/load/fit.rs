//! `weir load fit`: Surge's parameters as estimated from an access log, as a table or as JSON. The crate `load` does
//! the estimating.

use super::log;
use crate::cli::load::FitFlags;
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use ::load::estimate::{DISTANCE_MAX, Estimate, Estimates, LEVEL, Visit, estimate};
use serde_json::json;
use std::collections::HashMap;
use units::Duration;

/// Largest number of requests: 32 bytes each, and as many again while sorting.
const REQUESTS_MAX: usize = 20_000_000;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for a missing log or one without requests, `System` if it cannot be read.
pub(crate) fn run(flags: &FitFlags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let name = flags.log.display();
    let mut clients: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut files: HashMap<String, u32> = HashMap::new();
    let mut visits = Vec::new();
    let mut others = 0u64;
    let mut passed_over = log::each(&flags.log, |get| {
        // Only a complete response gives the length of a file.
        if get.status != 200 && get.status != 304 {
            others += 1;
            return Ok(());
        }
        if visits.len() >= REQUESTS_MAX {
            return Err(Failure::Usage(format!(
                "`{name}` has more than {REQUESTS_MAX} requests; use a part of it"
            )));
        }
        let path = get.target.split('?').next().unwrap_or(get.target);
        let (client, file) = (clients.len() as u32, files.len() as u32);
        visits.push(Visit {
            client: *clients.entry(get.client.to_vec()).or_insert(client),
            at_ns: i64::try_from(get.at_ns).unwrap_or(i64::MAX),
            file: *files.entry(path.to_owned()).or_insert(file),
            bytes: get.bytes.unwrap_or(0),
            embedded: is_embedded(path),
        });
        Ok(())
    })?;
    passed_over.others += others;
    if visits.is_empty() {
        return Err(passed_over.nothing(&flags.log, "no GET of a path that was answered with 200 or 304"));
    }
    let passed_over = passed_over.lines();
    let session_ns = i64::try_from(flags.session_gap.as_nanos()).unwrap_or(i64::MAX);
    let found = estimate(visits, session_ns);
    if voice.json {
        let line = json!({
            "event": "fit", "format": "weir-fit", "version": 2, "log": flags.log, "passed_over": passed_over,
            "session_gap_s": flags.session_gap.as_secs_f64(), "whole_seconds": found.whole_seconds, "estimates": found,
        });
        output::line(&line)?;
    } else {
        output::print(&words(&found, passed_over, flags.session_gap))?;
    }
    Ok(())
}

/// File extensions of embedded files.
const EMBEDDED: [&str; 17] = [
    "gif", "png", "jpg", "jpeg", "webp", "avif", "svg", "ico", "bmp", "css", "js", "mjs", "woff", "woff2",
    "ttf", "otf", "eot",
];

/// Whether the path names a file of an embedded kind.
fn is_embedded(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.')
        .is_some_and(|(_, extension)| EMBEDDED.contains(&extension.to_lowercase().as_str()))
}

fn words(found: &Estimates, passed_over: u64, session_gap: Duration) -> String {
    let classes = &found.classes;
    let mut text = format!(
        "{} requests for {} objects by {} clients; {passed_over} lines skipped\nrequested files: --files {}",
        found.requests, found.objects, found.clients, found.files
    );
    if !found.mixed {
        text += &format!(
            " --shares {}/{}/{} (base/embedded/single)",
            classes.base, classes.embedded, classes.single
        );
    }
    text.push('\n');
    match found.zipf_exponent {
        Some(exponent) => text += &format!("popularity of files: --zipf-exponent {exponent:.3}\n"),
        None => text += "popularity of files: too few files to estimate\n",
    }
    for stream in &found.streams {
        text += &described(stream);
    }
    text += &format!(
        "D is the largest difference of the distribution functions; a model fits if D is at most {DISTANCE_MAX} or p is above {LEVEL}; p is too \
         favorable, because the parameters come from the same log\n\
         an object begins with a request for anything but an image, style, script or font, and includes the client's requests for these; \
         a log lacks requests answered by caches, so popular files look less popular than they are\n\
         a session ends with a pause of more than --session-gap, {} s here, a convention; {} pauses are longer and are not OFF times\n",
        session_gap.as_secs_f64(),
        found.session_pauses
    );
    if found.whole_seconds {
        text += "this log records whole seconds only: OFF times are fitted as differences of whole seconds; shorter pauses and the order \
                 of requests within a second are unknown\n";
    }
    text
}

fn described(stream: &Estimate) -> String {
    let mut text = match stream.values {
        0 => format!("{}: none\n", stream.stream),
        values => format!(
            "{}: {values} values, mean {:.4}, median {:.4}\n",
            stream.stream, stream.mean, stream.median
        ),
    };
    if !stream.fits && !stream.candidates.is_empty() {
        text += "  none fits; the nearest is first\n";
    }
    for (place, candidate) in stream.candidates.iter().enumerate() {
        let (word, flag) = match (place, stream.flag) {
            (0, flag) => (
                if stream.fits { "fits   " } else { "nearest" },
                flag.map_or(String::new(), |flag| format!("--{flag} ")),
            ),
            _ => ("       ", String::new()),
        };
        text += &format!(
            "  {word} D = {:.4}, p = {:.3}  {flag}'{}'\n",
            candidate.distance, candidate.p_value, candidate.model
        );
    }
    if let Some(why) = &stream.untold {
        text += &format!("  cannot be estimated from this log: {why}\n");
    } else if stream.candidates.is_empty() {
        text += "  too few values to fit\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_embedded_is_told_from_what_embeds() {
        for (path, embedded) in [
            ("/", false),
            ("/a/b.html", false),
            ("/a/b.HTM", false),
            ("/news", false),
            ("/v1.2/", false),
            ("/paper.pdf", false),
            ("/s/12.txt", false),
            ("/a.png", true),
            ("/a.GIF", true),
            ("/style.css", true),
        ] {
            assert_eq!(is_embedded(path), embedded, "{path}");
        }
    }
}
