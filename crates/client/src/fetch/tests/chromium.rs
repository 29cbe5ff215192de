//! Compares this client's requests with those observed from Chromium on the same pages (`testdata/chromium`).
//! Lists every difference with its reason.

use super::*;
use serde_json::Value;

/// Requests that only Chromium makes.
const ONLY_CHROMIUM: [(&str, &str); 6] = [
    ("/prefetch.js", "meant for another page"),
    ("/hdr-prefetch.js", "meant for another page"),
    ("/video.mp4", "sound and video are not played"),
    ("/audio.mp3", "sound and video are not played"),
    ("/source1.webm", "sound and video are not played"),
    ("/source2.mp4", "sound and video are not played"),
];

/// Requests that only this client makes: it knows no viewport, no pixel density and not which rules apply.
const ONLY_HERE: [(&str, &str); 10] = [
    ("/css-unused.png", "a rule that never matches"),
    ("/unusedfont.woff2", "an unused font"),
    ("/dn-bg.png", "the background of a hidden element"),
    ("/set2.png", "a candidate for another density"),
    ("/is-url2.png", "a candidate for another density"),
    ("/ss.png", "a candidate for another density"),
    ("/ss2.png", "a candidate for another density"),
    ("/preload-set2.png", "a candidate for another density"),
    ("/preload-img.png", "a candidate for another density"),
    ("/pic-fallback.png", "a candidate for another density"),
];

fn recorded() -> Value {
    serde_json::from_str(include_str!("../../../testdata/chromium/requests.json")).expect("JSON")
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn of(media: &str, more: &str, body: &[u8]) -> Answer {
    let head = format!(
        "200 OK\r\nContent-Type: {media}\r\n{more}Content-Length: {}",
        body.len()
    );
    let mut answer = answer(&head, "");
    answer.bytes.extend_from_slice(body);
    answer
}

fn served(all: &[&Value], target: &str) -> Answer {
    let name = target.split('?').next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    if let Some(file) = all.iter().find(|file| file["name"] == name) {
        let (media, body) = (file["type"].as_str(), file["body"].as_str());
        return of(media.expect("a type"), "", &bytes(body.expect("a body")));
    }
    match name.rsplit('.').next().unwrap_or_default() {
        "css" => ok("text/css", ""),
        "js" => ok("text/javascript", ""),
        "json" => ok("application/json", "{}"),
        "html" => ok("text/html", "<p>"),
        "vtt" => ok("text/vtt", "WEBVTT\n\n"),
        _ => ok("image/png", "PNG"),
    }
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().expect("a list").iter().collect()
}

fn texts(value: &Value) -> BTreeSet<String> {
    let all = list(value).into_iter();
    all.map(|one| one.as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_page_with_everything_is_fetched_as_chromium_does() {
    let recorded = recorded();
    let page = include_bytes!("../../../testdata/chromium/page.html");
    let links: String = texts(&recorded["links"])
        .iter()
        .map(|link| format!("Link: {link}\r\n"))
        .collect();
    let files = list(&recorded["files"]);
    for piece in [1, 700, 100_000] {
        let url = Url::parse("http://example.org/").expect("a URL");
        let fetch = Fetch::new(url, plan("serial"), Entries::new(), UnixTime::from_secs(0));
        let (outcome, asked) = World::run(fetch, piece, |head, _| {
            let target = head.split(' ').nth(1).expect("a target");
            Some(match target {
                "/" => of("text/html", &links, page),
                target => served(&files, target),
            })
        });
        assert_eq!(outcome.timeline.sums().failed, 0);
        let ours: BTreeSet<String> = asked.into_iter().filter(|target| target != "/").collect();
        let theirs = texts(&recorded["asked"]);
        let set = |all: &[(&str, &str)]| -> BTreeSet<String> {
            all.iter().map(|(target, _)| (*target).to_owned()).collect()
        };
        let only =
            |one: &BTreeSet<String>, other| -> BTreeSet<String> { one.difference(other).cloned().collect() };
        assert_eq!(
            only(&theirs, &ours),
            set(&ONLY_CHROMIUM),
            "requested only by Chromium"
        );
        assert_eq!(
            only(&ours, &theirs),
            set(&ONLY_HERE),
            "requested only by this client"
        );
    }
}

#[test]
fn urls_of_every_encoding_are_chromiums() {
    let recorded = recorded();
    let all: Vec<&Value> = [list(&recorded["cases"]), list(&recorded["parts"])].concat();
    for case in list(&recorded["cases"]) {
        let name = case["name"].as_str().expect("a name");
        // The result must not depend on how the page is cut.
        for piece in [1, 3, 100_000] {
            let url = Url::parse(&format!("http://example.org/{name}")).expect("a URL");
            let fetch = Fetch::new(url, plan("pipelined"), Entries::new(), UnixTime::from_secs(0));
            let (_, asked) = World::run(fetch, piece, |head, _| {
                Some(served(&all, head.split(' ').nth(1).expect("a target")))
            });
            let ours: BTreeSet<String> = asked
                .into_iter()
                .filter(|target| *target != format!("/{name}"))
                .collect();
            assert_eq!(ours, texts(&case["asked"]), "{name} in pieces of {piece}");
        }
    }
}
