//! `weir load fit`: what an access log says about the parameters of Surge, as a table or as JSON. How they are
//! estimated `load` decides.

use super::log;
use crate::cli::load::FitFlags;
use crate::cli::{Failure, Voice, output};
use ::load::estimate::{Estimates, Visit, estimate};
use serde_json::json;
use std::collections::HashMap;

/// Requests of a log at the most: 32 bytes each, and as many again while they are sorted out.
const REQUESTS_MAX: usize = 20_000_000;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for a log that is not there or has nothing to look at, `System` if it cannot be read.
pub(crate) fn run(flags: &FitFlags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let name = flags.log.display();
    let mut clients: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut files: HashMap<String, u32> = HashMap::new();
    let mut visits = Vec::new();
    let mut others = 0u64;
    let passed_over = log::each(&flags.log, |get| {
        // Only what was sent whole says how long a file is and that somebody wanted it.
        if get.status != 200 && get.status != 304 {
            others += 1;
            return Ok(());
        }
        if visits.len() >= REQUESTS_MAX {
            return Err(Failure::Usage(format!(
                "`{name}` has more than {REQUESTS_MAX} requests; look at a part of it"
            )));
        }
        let path = get.target.split('?').next().unwrap_or(get.target);
        let (client, file) = (clients.len() as u32, files.len() as u32);
        visits.push(Visit {
            client: *clients.entry(get.client.to_vec()).or_insert(client),
            at_ns: i64::try_from(get.at_ns).unwrap_or(i64::MAX),
            file: *files.entry(path.to_owned()).or_insert(file),
            bytes: get.bytes.unwrap_or(0),
            page: is_page(path),
        });
        Ok(())
    })?;
    if visits.is_empty() {
        return Err(Failure::Usage(format!(
            "`{name}` has no GET of a path that was answered with 200 or 304"
        )));
    }
    let session_ns = i64::try_from(flags.session_gap.as_nanos()).unwrap_or(i64::MAX);
    let whole_seconds = visits.iter().all(|visit| visit.at_ns % 1_000_000_000 == 0);
    let found = estimate(visits, session_ns);
    let passed_over = passed_over + others;
    if voice.json {
        let line = json!({
            "event": "fit", "format": "weir-fit", "version": 1, "log": flags.log, "passed_over": passed_over,
            "session_gap_s": flags.session_gap.as_secs_f64(), "whole_seconds": whole_seconds, "estimates": found,
        });
        output::line(&line)?;
    } else {
        output::print(&words(&found, passed_over, whole_seconds))?;
    }
    Ok(())
}

/// Whether an object begins with it, as far as a path can say.
fn is_page(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, extension)) => ["html", "htm", "xhtml", "php"].contains(&extension.to_lowercase().as_str()),
        None => true,
    }
}

fn words(found: &Estimates, passed_over: u64, whole_seconds: bool) -> String {
    let mut text = format!(
        "{} requests of {} files by {} clients; {passed_over} lines passed over\n",
        found.requests, found.files, found.clients
    );
    if let Some(exponent) = found.zipf_exponent {
        text += &format!("popularity: --zipf-exponent {exponent:.3}\n");
    }
    for stream in &found.streams {
        text += &format!(
            "{}: {} values, mean {:.4}, median {:.4}\n",
            stream.stream, stream.values, stream.mean, stream.median
        );
        for (place, candidate) in stream.candidates.iter().enumerate() {
            let flag = match (place, stream.flag) {
                (0, Some(flag)) => format!("--{flag} "),
                _ => String::new(),
            };
            text += &format!(
                "  {} D = {:.4}, p = {:.3}  {flag}'{}'\n",
                if place == 0 { "best" } else { "    " },
                candidate.distance,
                candidate.p_value,
                candidate.model
            );
        }
        if stream.candidates.is_empty() {
            text += "  too few values to say anything\n";
        }
    }
    text += "D is the largest difference of the distribution functions; p is too kind, as the parameters come from the same log\n";
    if whole_seconds {
        text += "this log knows whole seconds only: pauses of about a second, and what an object is, are blurred\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_from_what_they_embed() {
        for (path, page) in [
            ("/", true),
            ("/a/b.html", true),
            ("/a/b.HTM", true),
            ("/news", true),
            ("/v1.2/", true),
            ("/a.png", false),
            ("/style.css", false),
        ] {
            assert_eq!(is_page(path), page, "{path}");
        }
    }
}
