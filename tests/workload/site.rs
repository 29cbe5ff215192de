//! What `weir site` writes: the same bytes from the same seed, a manifest that is true, nothing overwritten.

use crate::workload::{conforms, printed, refused};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const SMALL: [&str; 4] = ["--files", "200", "--size-max", "200000"];

/// Every file below a folder.
fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read(&path).expect("a file"))
        })
        .collect()
}

fn manifest(files: &BTreeMap<String, Vec<u8>>) -> Value {
    serde_json::from_slice(&files["manifest.json"]).expect("JSON")
}

fn write(kind: &str, more: &[&str]) -> (TempDir, BTreeMap<String, Vec<u8>>) {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().to_str().expect("text").to_owned();
    printed(&[&["site", kind, &path], more].concat());
    let files = tree(dir.path());
    (dir, files)
}

/// What a manifest says is what lies there.
fn check(files: &BTreeMap<String, Vec<u8>>) {
    let manifest = manifest(files);
    conforms("site-manifest.schema.json", std::slice::from_ref(&manifest));
    let listed = manifest["files"].as_array().expect("files");
    assert_eq!(
        listed.len() + 1,
        files.len(),
        "every file is listed, but the manifest"
    );
    let mut bytes = 0;
    for entry in listed {
        let content = &files[entry["path"].as_str().expect("a path")];
        assert_eq!(entry["bytes"], content.len(), "{entry}");
        bytes += content.len();
        match entry["type"].as_str() {
            Some("text/html") => assert!(content.starts_with(b"<"), "{entry}"),
            Some("image/gif") => assert!(content.starts_with(b"GIF8"), "{entry}"),
            _ => {}
        }
    }
    assert_eq!(manifest["totals"]["bytes"], bytes);
    for object in manifest["objects"].as_array().expect("objects") {
        let members: Vec<&str> = object["files"]
            .as_array()
            .expect("files")
            .iter()
            .map(|number| {
                listed[number.as_u64().expect("a number") as usize]["path"]
                    .as_str()
                    .expect("a path")
            })
            .collect();
        let page = String::from_utf8_lossy(&files[members[0]]);
        for embedded in &members[1..] {
            assert!(page.contains(embedded), "{} does not name {embedded}", members[0]);
        }
    }
}

#[test]
fn surge_sites_are_what_their_manifests_say() {
    let (_dir, files) = write("surge", &SMALL);
    assert_eq!(files.len(), 201);
    check(&files);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (_a, first) = write("surge", &SMALL);
    let (_b, second) = write("surge", &SMALL);
    assert_eq!(first, second);
    let (_c, other) = write("surge", &[&SMALL[..], &["--seed", "2"]].concat());
    assert_ne!(first["manifest.json"], other["manifest.json"]);
}

#[test]
fn webstone_lists_have_their_published_sizes() {
    for (list, sizes) in [
        ("table-1", &[500, 5120, 51_200, 5_242_880][..]),
        ("standard", &[500, 5125, 51_250, 512_500, 5_248_000]),
    ] {
        let (_dir, files) = write("webstone", &["--list", list]);
        check(&files);
        let mut found: Vec<usize> = manifest(&files)["files"]
            .as_array()
            .expect("files")
            .iter()
            .map(|file| file["bytes"].as_u64().expect("a number") as usize)
            .collect();
        found.sort_unstable();
        assert_eq!(found, sizes, "{list}");
    }
}

#[test]
fn webstone_files_can_lie_in_nested_folders() {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().to_str().expect("text");
    printed(&["site", "webstone", path, "--depth", "2"]);
    let files = tree(&dir.path().join("folder/folder"));
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["file500.html", "file50k.html", "file5k.html", "file5m.html"]
    );
    let manifest: Value =
        serde_json::from_slice(&fs::read(dir.path().join("manifest.json")).expect("a manifest"))
            .expect("JSON");
    conforms("site-manifest.schema.json", std::slice::from_ref(&manifest));
    for file in manifest["files"].as_array().expect("files") {
        let below = file["path"].as_str().expect("a path");
        let name = below.strip_prefix("folder/folder/").expect("nested");
        assert_eq!(file["bytes"], files[name].len(), "{file}");
    }
}

#[test]
fn the_microscape_page_has_its_pictures() {
    let (_dir, files) = write("microscape", &[]);
    check(&files);
    let manifest = manifest(&files);
    let pictures: Vec<u64> = manifest["files"]
        .as_array()
        .expect("files")
        .iter()
        .filter(|file| file["type"] == "image/gif")
        .map(|file| file["bytes"].as_u64().expect("a number"))
        .collect();
    assert_eq!(pictures.len(), 42);
    assert_eq!(pictures.iter().sum::<u64>(), 103_299 + 24_988);
}

#[test]
fn a_report_shows_every_stream_and_needs_no_network() {
    let dir = TempDir::new().expect("a folder");
    let (site, report) = (dir.path().join("site"), dir.path().join("fit.html"));
    let (site, report) = (site.to_str().expect("text"), report.to_str().expect("text"));
    let said = printed(&[&["site", "surge", site, "--report", report, "--json"], &SMALL[..]].concat());
    let streams: Vec<Value> = crate::workload::lines(&said)
        .into_iter()
        .filter(|line| line["event"] == "stream")
        .collect();
    let drawn = streams
        .iter()
        .filter(|stream| stream["verdict"]["kind"] == "drawn");
    for stream in drawn.clone() {
        assert_eq!(stream["values"], 100_000, "{stream}");
        assert_eq!(stream["holds"], true, "{stream}");
        assert!(stream["verdict"]["fit"]["p_value"].is_number(), "{stream}");
    }
    assert_eq!(
        drawn.count(),
        6,
        "sizes of three classes, files per object, sessions, OFF times"
    );
    let html = fs::read_to_string(report).expect("a report");
    for stream in &streams {
        let name = stream["name"].as_str().expect("a name");
        assert!(html.contains(name), "{name}");
    }
    assert!(html.matches("<svg").count() >= 16);
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
}

/// The models of 1998 keep the tolerances that hold for them; what is always the same is not tested, and no two streams
/// are the same draws.
#[test]
fn a_report_of_1998_holds_and_has_no_empty_tests() {
    let dir = TempDir::new().expect("a folder");
    let (site, report) = (dir.path().join("site"), dir.path().join("fit.html"));
    let (site, report) = (site.to_str().expect("text"), report.to_str().expect("text"));
    let set = ["--parameters", "surge-1998", "--report", report];
    let said = crate::workload::lines(&printed(&[&["site", "surge", site, "--json"], &set[..]].concat()));
    let streams: Vec<&Value> = said.iter().filter(|line| line["event"] == "stream").collect();
    assert!(
        streams.iter().all(|stream| stream["holds"] == true),
        "{streams:?}"
    );
    let named = |name: &str| streams.iter().find(|stream| stream["name"] == name);
    assert!(named("session lengths").is_none());
    let statistic = |name: &str| named(name).expect(name)["verdict"]["fit"]["statistic"].clone();
    assert_ne!(statistic("OFF times"), statistic("active OFF times"));
    let manifest = fs::read_to_string(dir.path().join("site/manifest.json")).expect("a manifest");
    assert!(!manifest.contains("Table 8") && !manifest.contains("26 KB"));
}

/// What does not decide is not called a failure, and what cannot be written is known first.
#[test]
fn distances_that_do_not_decide_fail_nothing() {
    let dir = TempDir::new().expect("a folder");
    let (site, report) = (dir.path().join("site"), dir.path().join("fit.html"));
    let (site, report) = (site.to_str().expect("text"), report.to_str().expect("text"));
    let few = ["site", "surge", site, "--files", "3", "--report"];
    let error = refused(&[&few[..], &["/nonexistent/x.html"]].concat(), 4);
    assert!(error.contains("/nonexistent/x.html"), "{error}");
    assert!(!dir.path().join("site").exists());
    let said = printed(&[&few[..], &[report]].concat());
    assert!(
        said.contains("  apart  ") && said.contains("does not decide"),
        "{said}"
    );
    assert!(!said.contains("FAILS"), "{said}");
    let html = fs::read_to_string(report).expect("a report");
    assert!(html.contains("that decides holds") && !html.contains(">fails<"));
}

/// The sites of the other documents are held against what these print.
#[test]
fn reports_of_lists_and_pages_hold_every_published_figure() {
    for (kind, more, figures, streams, shown) in [
        (
            "webstone",
            &[][..],
            5,
            1,
            &["WebStone site", "50 Kbytes, 14 %", "file5m.html"][..],
        ),
        (
            "webstone",
            &["--list", "standard"],
            6,
            1,
            &["350 of 1000", "5,248,000"],
        ),
        (
            "microscape",
            &[],
            14,
            0,
            &["Microscape site", "103299", "0.27", "11K", "keep14.gif"],
        ),
        ("microscape", &["--tags", "mixed"], 13, 0, &["0.35"]),
    ] {
        let dir = TempDir::new().expect("a folder");
        let (site, report) = (dir.path().join("site"), dir.path().join("report.html"));
        let (site, report) = (site.to_str().expect("text"), report.to_str().expect("text"));
        let said = crate::workload::lines(&printed(
            &[&["site", kind, site, "--report", report, "--json"], more].concat(),
        ));
        let of_event =
            |event: &str| -> Vec<&Value> { said.iter().filter(|line| line["event"] == event).collect() };
        let held = of_event("figure");
        assert_eq!(held.len(), figures, "{said:?}");
        assert!(held.iter().all(|figure| figure["holds"] == true), "{held:?}");
        let fitted = of_event("stream");
        assert_eq!(fitted.len(), streams);
        for stream in fitted {
            assert_eq!(
                (&stream["values"], &stream["holds"]),
                (&100_000.into(), &true.into()),
                "{stream}"
            );
            assert_eq!(stream["verdict"]["fit"]["test"], "chi-square");
        }
        let html = fs::read_to_string(report).expect("a report");
        for fragment in shown {
            assert!(html.contains(fragment), "{kind} {fragment}");
        }
        for outside in ["http://", "https://", "<script", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}

#[test]
fn nothing_is_overwritten_unasked() {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().to_str().expect("text");
    fs::write(dir.path().join("precious"), "kept").expect("a file");
    let error = refused(&["site", "microscape", path], 2);
    assert!(
        error.contains("is not empty") && error.contains("--force"),
        "{error}"
    );
    printed(&["site", "microscape", path, "--force"]);
    assert_eq!(
        fs::read(dir.path().join("precious")).expect("still there"),
        b"kept"
    );
    let file = dir.path().join("precious");
    let error = refused(&["site", "microscape", file.to_str().expect("text")], 2);
    assert!(error.contains("is no folder"), "{error}");
}

#[test]
fn what_cannot_be_made_is_named() {
    let error = refused(&["site", "surge", "/nonexistent/site", "--files", "2"], 2);
    assert!(error.contains("--files") && error.contains("from 3"), "{error}");
    let error = refused(&["site", "webstone", "/nonexistent/site", "--depth", "33"], 2);
    assert!(error.contains("--depth") && error.contains("32"), "{error}");
    let error = refused(&["site", "webstone", "/proc/weir-test"], 4);
    assert!(error.contains("/proc/weir-test"), "{error}");
}
