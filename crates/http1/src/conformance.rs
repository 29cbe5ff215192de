//! Runs the conformance vectors of `testdata/http/*.md` with every way of splitting their bytes.
//!
//! `BLESS=1` writes the observed events into the files instead of comparing; review them before committing.
//! [`crate::vectors`] documents the format.

use crate::cut;
use crate::error::Fault;
use crate::limits::Limits;
use crate::slots::Slots;
use crate::transcript::{Client, Manner, Server};
use crate::{server, vectors};
use http_semantics::coding::Coding;
use http_semantics::conditional::{self, Validators, Verdict};
use http_semantics::method::Method;
use http_semantics::negotiate::Preferences;
use http_semantics::range::{self, Selection};
use http_semantics::{date, target};
use std::path::PathBuf;
use units::{Seed, UnixTime};

const FILES: [&str; 9] = [
    "chunked",
    "conditions",
    "dates",
    "framing",
    "negotiation",
    "persistence",
    "ranges",
    "requests",
    "responses",
];

/// Minimum number of vectors, so that a parser that finds none fails.
const VECTORS_MIN: usize = 120;

#[test]
fn vectors() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/http"));
    let mut count = 0;
    for file in FILES {
        let path = folder.join(file).with_extension("md");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let blessed = run(&text, file, &mut count);
        if std::env::var_os("BLESS").is_some() {
            #[expect(
                clippy::disallowed_methods,
                reason = "the one test that writes the files it reads"
            )]
            std::fs::write(&path, blessed).expect("the vectors can be written");
        } else {
            let first_difference = text
                .lines()
                .zip(blessed.lines())
                .position(|(has, sees)| has != sees);
            assert!(
                text == blessed,
                "{file}.md differs from the observed events from line {:?} on; observed:\n{}",
                first_difference.map(|line| line + 1),
                blessed
                    .lines()
                    .skip(first_difference.unwrap_or_default().saturating_sub(12))
                    .take(30)
                    .collect::<Vec<_>>()
                    .join("\n")
            );
        }
    }
    assert!(count >= VECTORS_MIN, "{count} vectors were found");
}

/// The file with each `events` block replaced by the observed events.
fn run(text: &str, file: &str, count: &mut usize) -> String {
    let mut out = String::new();
    let mut title = "";
    let mut events: Option<Vec<String>> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        title = line.strip_prefix("## ").unwrap_or(title);
        let Some(kind) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let shown = if kind == "events" {
            events
                .take()
                .unwrap_or_else(|| panic!("{file}.md, {title}: events without a message"))
        } else {
            *count += 1;
            events = Some(see(kind, &vectors::bytes(&block), Seed(*count as u64)));
            block.into_iter().map(str::to_owned).collect()
        };
        for line in shown {
            out += &line;
            out.push('\n');
        }
        out += "```\n";
    }
    out
}

/// Every message of the vectors, with the words after its fence.
pub(crate) fn messages() -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/http"));
    FILES
        .iter()
        .map(|file| std::fs::read_to_string(folder.join(file).with_extension("md")).expect("a vector file"))
        .flat_map(|text| vectors::messages(&text))
        .collect()
}

/// The observed events of a message.
fn see(kind: &str, message: &[u8], seed: Seed) -> Vec<String> {
    let mut words = kind.split(' ');
    let subject = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    match subject {
        "server" => see_server(&words, message, seed),
        "client" => see_client(&words, message, seed),
        "range" => vec![see_range(&words, message)],
        "encoding" => vec![see_encoding(&words, message)],
        "date" => vec![match date::parse(message) {
            Some(time) => format!("{} = {}", time.secs, String::from_utf8_lossy(&date::format(time))),
            None => "none".to_owned(),
        }],
        "condition" => vec![see_condition(&words, message)],
        "path" => vec![match target::decode(message) {
            Ok(path) => cut::show(&path),
            Err(bad) => format!("fault {:?}", Fault::from(bad)),
        }],
        _ => panic!("unknown subject in ```{kind}"),
    }
}

fn limits(words: &[&str]) -> Limits {
    let mut limits = Limits {
        http09: words.contains(&"http09"),
        ..Limits::DEFAULT
    };
    for word in words {
        if let Some((bound, value)) = word.split_once('=') {
            let value: u16 = value.parse().expect("a bound is a number");
            match bound {
                "head" => limits.head_bytes_max = value.into(),
                "fields" => limits.fields_max = value,
                "target" => limits.target_bytes_max = value.into(),
                "trailer" => limits.trailer_bytes_max = value.into(),
                "extension" => limits.extension_bytes_max = value.into(),
                "interim" => limits.interim_max = value as u8,
                _ => panic!("unknown bound {bound}"),
            }
        }
    }
    limits
}

fn see_server(words: &[&str], message: &[u8], seed: Seed) -> Vec<String> {
    let manner = Manner {
        answers_early: words.contains(&"early"),
        closes: words.contains(&"close"),
        refuses_bodies: words.contains(&"refuse"),
        shows_fields: words.contains(&"fields"),
    };
    cut::everywhere(message, seed, |pieces, ends| {
        let mut server = Server::new(manner, limits(words));
        pieces.iter().for_each(|piece| server.bytes(piece));
        if ends {
            server.eof();
        }
        server.events
    })
}

fn see_client(words: &[&str], message: &[u8], seed: Seed) -> Vec<String> {
    let methods: Vec<Method> = words
        .iter()
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|word| Method::of(word))
        .collect();
    cut::everywhere(message, seed, |pieces, ends| {
        let mut client = Client::new(
            &methods,
            words.contains(&"last"),
            words.contains(&"fields"),
            limits(words),
        );
        pieces.iter().for_each(|piece| client.bytes(piece));
        if ends {
            client.eof();
        }
        client.events
    })
}

fn see_range(words: &[&str], value: &[u8]) -> String {
    let len = words[0].parse().expect("a length");
    let ranges_max = words.iter().find_map(|word| word.strip_prefix("ranges="));
    let ranges_max = ranges_max.map_or(32, |most| most.parse().expect("a bound is a number"));
    match range::select(value, len, ranges_max) {
        Selection::Whole => "whole".to_owned(),
        Selection::One(range) => {
            let mut shown = Vec::new();
            range::content_range(range, len, &mut shown);
            String::from_utf8_lossy(&shown).into_owned()
        }
        Selection::Many(ranges) => ranges.iter().fold("many".to_owned(), |shown, range| {
            format!("{shown} {}-{}", range.first, range.last)
        }),
        Selection::Unsatisfiable => "unsatisfiable".to_owned(),
    }
}

fn see_encoding(words: &[&str], value: &[u8]) -> String {
    let available: Vec<Coding> = words
        .iter()
        .map(|word| Coding::of(word.as_bytes()).expect("a coding"))
        .collect();
    // Each line of the value is a field line of its own.
    let preferences = Preferences::parse(value.split(|&b| b == b'\n'));
    match preferences.choose(available) {
        Some(coding) => format!("{} at {}", coding.name(), preferences.weight(coding)),
        None => "none".to_owned(),
    }
}

fn see_condition(words: &[&str], fields: &[u8]) -> String {
    let method = words[0];
    let word = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let time = |name| word(name).map(|secs| UnixTime::from_secs(secs.parse().expect("seconds")));
    let validators = Validators {
        etag: word("etag=").map(str::as_bytes),
        last_modified: time("modified="),
    };
    let message = [method.as_bytes(), b" / HTTP/1.1\r\nHost: h\r\n", fields, b"\r\n"].concat();
    let mut slots = Slots::new();
    let head = match server::Connection::new().receive(&message, &mut slots, &Limits::DEFAULT) {
        Ok(server::Step::Request { head, .. }) => head,
        other => panic!("the request is sound: {other:?}"),
    };
    let now = time("now=").unwrap_or(UnixTime::from_secs(1_000_000_000));
    match conditional::evaluate(head.method, &head.fields, &validators, now) {
        Verdict::Proceed { range: true } => "proceed, a range applies",
        Verdict::Proceed { range: false } => "proceed, no range applies",
        Verdict::NotModified => "304",
        Verdict::Failed => "412",
    }
    .to_owned()
}

#[test]
fn every_fault_has_a_vector() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/http"));
    let all: String = FILES
        .iter()
        .map(|file| std::fs::read_to_string(folder.join(file).with_extension("md")).expect("a vector file"))
        .collect();
    for fault in Fault::all() {
        // An unknown expectation is valid framing; the server above responds to it.
        let shown = match fault {
            Fault::Expectation => "expects the unknown".to_owned(),
            fault => format!("fault {fault:?} "),
        };
        assert!(all.contains(&shown), "no vector shows {fault:?}");
    }
}
