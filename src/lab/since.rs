//! `weir lab since`: simulated visits of the study on the protocols since, as text or JSON lines.

use crate::cli::lab::SinceFlags;
use crate::failure::Failure;
use crate::fetch::simulated::studied::{Setting, Visit, pages, visit};
use crate::output::print;
use crate::voice::Voice;
use client::plan::Mode;
use serde_json::{Value, json};
use std::fmt::Write;
use units::Seed;

/// A first visit, and one that validates what the first has left: the names that the plan gives them.
const TESTS: [(&str, bool); 2] = [("first_time", true), ("cache_validation", false)];

/// Runs the command.
///
/// # Errors
/// `Usage` for an impossible link, `Failed` if an object is missing, `System` if the report cannot be written.
pub(super) fn run(flags: &SinceFlags, voice: &Voice) -> Result<(), Failure> {
    print(&report(flags, voice.json)?)
}

fn report(flags: &SinceFlags, is_json: bool) -> Result<String, Failure> {
    let setting = Setting {
        link: &flags.link,
        is_secured: !flags.clear,
        seed: Seed(flags.seed),
    };
    if flags.clear && flags.modes().iter().any(|mode| mode.manner.mode == Mode::Http3) {
        return Err(Failure::Usage(
            "HTTP/3 always has TLS: leave out --clear, or the modes with `h3`".to_owned(),
        ));
    }
    if let Some(span) = flags.pages {
        return taken(flags, &setting, span, is_json);
    }
    let mut text = String::new();
    if !is_json {
        text = format!(
            "{}, seed {}, {}\n{:<14} {:<16} {:>9} {:>9} {:>9} {:>11} {:>13}\n",
            flags.link,
            flags.seed,
            if flags.clear { "without TLS" } else { "TLS" },
            "mode",
            "visit",
            "seconds",
            "packets",
            "bytes",
            "connections",
            "request bytes"
        );
    }
    for mode in flags.modes() {
        for (test, is_first) in TESTS {
            let visit = visit(&setting, mode.manner, mode.connections, is_first)?;
            // Writing to a String cannot fail, here and below.
            let _ = match is_json {
                true => writeln!(text, "{}", row(flags, mode.name, test, &visit)),
                false => writeln!(
                    text,
                    "{:<14} {:<16} {:>9.3} {:>9} {:>9} {:>11} {:>13}",
                    mode.name,
                    if is_first { "first" } else { "validation" },
                    visit.figures.seconds,
                    visit.figures.packets(),
                    visit.figures.packet_bytes(),
                    visit.figures.connections,
                    visit.request_bytes
                ),
            };
        }
    }
    Ok(text)
}

fn row(flags: &SinceFlags, mode: &str, test: &str, visit: &Visit) -> Value {
    let figures = &visit.figures;
    json!({
        "event": "row", "document": "since", "link": flags.link, "seed": flags.seed, "tls": !flags.clear, "mode": mode, "test": test,
        "simulated": {
            "packets": figures.packets(), "bytes": figures.packet_bytes(), "seconds": figures.seconds,
            "connections": figures.connections, "request_bytes": visit.request_bytes,
        },
    })
}

/// Pages that a client takes one after another, with a connection that stays open and with one for each page.
fn taken(
    flags: &SinceFlags,
    setting: &Setting<'_>,
    span: units::Duration,
    is_json: bool,
) -> Result<String, Failure> {
    let mut text = String::new();
    if !is_json {
        text = format!(
            "{}, seed {}, TLS\n{:<14} {:>9} {:>9} {:>14}\n",
            flags.link, flags.seed, "mode", "pages", "packets", "packets a page"
        );
    }
    for mode in [Mode::Pipelined, Mode::EarlyClose] {
        let taken = pages(setting, mode, span)?;
        let _ = match is_json {
            true => writeln!(
                text,
                "{}",
                json!({
                    "event": "pages", "document": "since", "link": flags.link, "seed": flags.seed, "mode": mode.name(),
                    "packets": taken.packets, "pages": taken.pages,
                })
            ),
            false => writeln!(
                text,
                "{:<14} {:>9} {:>9} {:>14.1}",
                mode.name(),
                taken.pages,
                taken.packets,
                taken.packets as f64 / taken.pages as f64
            ),
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::lab::Command;
    use clap::Parser;

    /// The command alone.
    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    fn said(words: &[&str]) -> Result<String, Failure> {
        let line = Line::try_parse_from(["lab", "since"].iter().chain(words));
        match line.expect("flags").command {
            Command::Since(flags) => report(&flags, false),
            _ => panic!("another command"),
        }
    }

    /// Of the plan in the size quick: the arms `sim-visit` and `sim-close`, and `sim-loss` over 4G with one seed. All machines have
    /// these numbers. TCP, QUIC, TLS, the responses of the server and the requests of the client are in them.
    #[test]
    fn the_numbers_of_the_plan_are_those_of_the_last_change() {
        let mut text = String::new();
        for words in [
            &["--link", "lan"][..],
            &["--link", "wan"],
            &["--link", "4g"],
            &["--link", "4g loss=3%", "--modes", "h1-six,h1-pipelined,h2,h3"],
            &["--link", "lan", "--pages", "5s"],
            &["--link", "4g", "--pages", "5s"],
        ] {
            text += &said(words).expect("visits");
        }
        assert_eq!(
            text,
            include_str!("since/golden.txt"),
            "replace src/lab/since/golden.txt if transports, TLS, responses or requests changed on purpose:\n{text}"
        );
    }

    #[test]
    fn http_3_needs_tls_and_other_modes_do_not() {
        let refused = said(&["--clear", "--modes", "h2,h3"]).expect_err("no HTTP/3 in cleartext");
        assert!(matches!(refused, Failure::Usage(why) if why.contains("always has TLS")));
        let clear = said(&["--clear", "--modes", "h1-pipelined"]).expect("visits");
        assert!(clear.starts_with("wan, seed 1, without TLS\n"), "{clear}");
        assert_eq!(clear.lines().count(), 4, "{clear}");
        assert!(said(&["--link", "rate=nothing"]).is_err());
    }
}
