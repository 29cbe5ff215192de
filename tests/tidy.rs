//! The rules of this code base that a machine can check: which crate may name which, file headers,
//! names, lint relaxations, documents that must keep up with the code. Each test names every offender
//! and what to do about it. Knows nothing of HTTP.

#![allow(clippy::disallowed_methods, reason = "a test of the tree reads the tree")]

#[path = "tidy/failures.rs"]
mod failures;
#[path = "tidy/modules.rs"]
mod modules;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `A` may depend on these crates of ours, and on no other. The binary may name all of them.
const ARROWS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("accesslog", &["units"]),
    ("acme", &["units"]),
    ("chart", &["units"]),
    ("convert", &[]),
    ("fastcgi", &[]),
    ("http-semantics", &["units"]),
    ("http-cache", &["http-semantics", "units"]),
    ("http1", &["http-semantics", "units"]),
    ("http2", &["http-semantics", "units"]),
    ("http3", &["http-semantics", "units"]),
    ("link", &["units"]),
    ("otlp", &["units"]),
    ("tcp", &["units"]),
    ("trace", &["http2", "http3", "units"]),
    ("model", &["units"]),
    ("balance", &["model", "units"]),
    ("runtime", &["units"]),
    // `netsim` and `tcp` for connections whose TCP is modeled: what crosses the link in their place is theirs.
    ("netem", &["link", "netsim", "runtime", "tcp", "units"]),
    // `runtime` for its contracts only: nothing here makes a system call.
    ("netsim", &["link", "runtime", "tcp", "units"]),
    ("profiler", &["runtime", "units"]),
    ("tls", &["runtime", "units"]),
    ("quic", &["runtime", "tls", "units"]),
    ("markup", &[]),
    ("recording", &["units"]),
    (
        "server",
        &[
            "balance",
            "fastcgi",
            "http-cache",
            "http-semantics",
            "http1",
            "http2",
            "http3",
            "markup",
            "otlp",
            "recording",
            "runtime",
            "tls",
            "units",
        ],
    ),
    (
        "client",
        &[
            "http-semantics",
            "http1",
            "http2",
            "http3",
            "markup",
            "runtime",
            "units",
        ],
    ),
    ("serving", &["quic", "runtime", "server", "tls", "units"]),
    // `http2` is the server of its tests.
    ("load", &["client", "http2", "runtime", "units"]),
    // The client over the simulated network, against servers of 1997 that are its own: never the server of today.
    (
        "repro",
        &[
            "client",
            "http-semantics",
            "http1",
            "link",
            "load",
            "netsim",
            "runtime",
            "tcp",
            "units",
        ],
    ),
    // Period hosts around a service that the binary gives; `server` is the server of its tests.
    (
        "hosts",
        &[
            "client", "http2", "link", "load", "netsim", "runtime", "server", "tcp", "units",
        ],
    ),
    ("lab", &["chart", "units"]),
];

/// Names that say nothing: what is in such a file belongs with the noun it is about.
const JUNK_DRAWERS: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "types"];

#[test]
fn crates_name_only_the_crates_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let packages = packages();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut faults = Vec::new();
    for package in packages.iter().filter(|package| package.name != "weir") {
        let Some(permitted) = allowed.get(package.name.as_str()) else {
            faults.push(format!(
                "crate `{}` is not in ARROWS: add it, and why, first",
                package.name
            ));
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|name| ours.contains(name.as_str()))
        {
            if !permitted.contains(&dependency.as_str()) {
                faults.push(format!(
                    "{} -> {dependency} is not a permitted arrow",
                    package.name
                ));
            }
        }
    }
    report(faults);
}

#[test]
fn modules_name_each_other_in_no_circle() {
    let mut faults = Vec::new();
    let sources: Vec<Source> = sources().collect();
    for package in packages() {
        let folder = package.manifest.parent().expect("a folder").join("src");
        let below = folder.strip_prefix(root()).expect("a folder of the tree");
        let files = sources.iter().filter_map(|source| {
            let path = Path::new(&source.shown).strip_prefix(below).ok()?;
            Some((path.display().to_string(), source.text.clone()))
        });
        let graph = modules::graph(&files.collect::<Vec<_>>());
        for circle in modules::circles(&graph) {
            faults.push(format!(
                "{}: modules name each other in a circle: {circle:?}. None of them can be understood, moved or tested \
                 without the others: move what both need to a module of its own",
                package.name
            ));
        }
    }
    report(faults);
}

#[test]
fn every_source_file_opens_with_why_it_exists() {
    report(
        sources()
            .filter(|source| !source.text.starts_with("//! "))
            .map(|source| {
                format!(
                    "{}: open with `//!`: what it decides, what it refuses to know",
                    source.shown
                )
            }),
    );
}

#[test]
fn no_file_is_a_junk_drawer() {
    report(
        tracked()
            .into_iter()
            .filter(|path| {
                path.components().any(|part| {
                    let name = part.as_os_str().to_string_lossy();
                    JUNK_DRAWERS.contains(&name.split('.').next().unwrap_or_default())
                })
            })
            .map(|path| {
                format!(
                    "{}: name it for the noun of the field it is about",
                    path.display()
                )
            }),
    );
}

#[test]
fn lint_relaxations_say_why() {
    let mut faults = Vec::new();
    for source in sources() {
        for (offset, _) in source.text.match_indices(concat!("[", "allow(")) {
            let attribute: String = source.text[offset..].chars().take_while(|c| *c != ']').collect();
            if !attribute.contains("reason") {
                faults.push(format!(
                    "{}:{}: say why: `reason = \"...\"`",
                    source.shown,
                    line_of(&source.text, offset)
                ));
            }
        }
    }
    report(faults);
}

#[test]
fn nothing_is_left_half_done() {
    const MARKS: &[&str] = &[
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
        concat!("db", "g!("),
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("#[ig", "nore"),
        concat!("thread::sl", "eep("),
    ];
    let mut faults = Vec::new();
    for source in sources() {
        for mark in MARKS {
            for (offset, _) in source.text.match_indices(mark) {
                let line = line_of(&source.text, offset);
                // Only crates that own clocks may wait on one.
                let is_runtime_code = ["crates/runtime/src/", "crates/netem/src/"]
                    .iter()
                    .any(|folder| source.shown.starts_with(folder));
                if mark.contains("sleep") && is_runtime_code {
                    continue;
                }
                faults.push(format!("{}:{line}: `{mark}` may not stay", source.shown));
            }
        }
    }
    report(faults);
}

#[test]
fn unsafe_lives_in_one_module() {
    let word = concat!("uns", "afe ");
    report(
        sources()
            .filter(|source| !source.shown.starts_with("crates/runtime/src/sys"))
            .flat_map(|source| {
                source
                    .text
                    .lines()
                    .enumerate()
                    .filter(|(_, line)| {
                        let code = line.split("//").next().unwrap_or_default();
                        [word, concat!("allow(uns", "afe_code")]
                            .iter()
                            .any(|word| code.contains(word))
                            && !code.contains('`')
                    })
                    .map(|(number, _)| format!("{}:{}: only runtime::sys may", source.shown, number + 1))
                    .collect::<Vec<_>>()
            })
            // `runtime/src/lib.rs` declares the module with its one relaxation.
            .filter(|fault| !fault.starts_with("crates/runtime/src/lib.rs")),
    );
}

#[test]
fn few_crates_replace_the_purity_ban_list() {
    let files: Vec<String> = tracked()
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name == "clippy.toml"))
        .map(|path| path.display().to_string())
        .collect();
    let permitted = [
        "clippy.toml",
        "crates/netem/clippy.toml",
        "crates/profiler/clippy.toml",
        "crates/runtime/clippy.toml",
    ];
    report(
        files
            .into_iter()
            .filter(|file| {
                !permitted.contains(&file.as_str())
                    && !file.starts_with("fuzz/")
                    && !file.starts_with("benches/")
            })
            .map(|file| format!("{file}: only crates that touch the system may replace the ban list")),
    );
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    report(packages().into_iter().filter_map(|package| {
        let manifest = fs::read_to_string(&package.manifest).expect("a manifest cargo just read");
        (!manifest.contains("[lints]\nworkspace = true"))
            .then(|| format!("{}: add `[lints] workspace = true`", package.manifest.display()))
    }));
}

#[test]
fn what_a_release_optimizes_less_a_package_optimizes() {
    let package = levels("dist");
    let is_optimized = |level: &toml::Value| level.as_integer() == Some(3) || is_for_size(level);
    report(
        levels("release")
            .into_iter()
            .filter(|(name, level)| {
                level.as_integer().is_some_and(|level| level < 3) && !package.get(name).is_some_and(is_optimized)
            })
            .map(|(name, level)| {
                format!(
                    "`{name}` has opt-level {level} for a release: give it 3, or \"z\" if it runs rarely, in [profile.dist.package]"
                )
            }),
    );
}

/// A profile inherits the levels of packages that have one in the profiles before it.
#[test]
fn the_small_program_is_built_for_size() {
    let mut inherited = levels("release");
    inherited.extend(levels("dist"));
    inherited.extend(levels("small"));
    report(
        inherited
            .into_iter()
            .filter(|(_, level)| !is_for_size(level))
            .map(|(name, level)| {
                format!("`{name}` has opt-level {level}: give it \"s\" or \"z\" in [profile.small.package]")
            }),
    );
}

fn is_for_size(level: &toml::Value) -> bool {
    matches!(level.as_str(), Some("s" | "z"))
}

/// The level of each package that a profile names; `"*"` is all others from elsewhere.
fn levels(profile: &str) -> BTreeMap<String, toml::Value> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let packages = manifest["profile"][profile]["package"]
        .as_table()
        .expect("a table");
    let level = |(name, of): (&String, &toml::Value)| Some((name.clone(), of.get("opt-level")?.clone()));
    packages.iter().filter_map(level).collect()
}

#[test]
fn every_direct_dependency_is_explained() {
    let packages = packages();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let wanted: BTreeSet<&str> = packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(String::as_str)
        .filter(|name| !ours.contains(name))
        .collect();
    let text = fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md");
    // A row opens with the crate's name in backquotes.
    let explained: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let missing = wanted.difference(&explained).map(|name| {
        format!("`{name}` is used and has no row in docs/dependencies.md: why, licence, what was rejected")
    });
    let stale = explained
        .difference(&wanted)
        .map(|name| format!("`{name}` has a row in docs/dependencies.md and nothing uses it"));
    report(missing.chain(stale));
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let places = [
        concat!("/wo", "rk/"),
        concat!("/tm", "p/w/"),
        concat!("/ro", "ot/"),
    ];
    let mut faults = Vec::new();
    for (path, text) in texts() {
        for place in places {
            if let Some(offset) = text.find(place) {
                faults.push(format!(
                    "{}:{}: `{place}` exists on one machine only",
                    path.display(),
                    line_of(&text, offset)
                ));
            }
        }
    }
    report(faults);
}

#[test]
fn documents_link_to_files_that_exist() {
    let mut faults = Vec::new();
    for (path, text) in texts() {
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        for piece in text.split("](").skip(1) {
            let target = piece.split([')', '#', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let folder = root().join(path.parent().unwrap_or(Path::new("")));
            if !folder.join(target).exists() {
                faults.push(format!(
                    "{}: links to `{target}`, which does not exist",
                    path.display()
                ));
            }
        }
    }
    report(faults);
}

/// Every `$ command` in a document's code block is one this tree has: a script that exists, or a `weir`
/// command line whose command and flags the built binary knows.
#[test]
fn commands_in_documents_exist() {
    let mut faults = Vec::new();
    for name in [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/serve.md",
        "docs/tls.md",
        "docs/rules.md",
        "docs/http.md",
        "docs/operate.md",
        "docs/deploy.md",
    ] {
        let text = fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for command in text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("$ "))
        {
            let words: Vec<&str> = command
                .split_whitespace()
                .take_while(|word| !word.starts_with('#'))
                .collect();
            let arguments = match words.as_slice() {
                ["weir", rest @ ..] => rest,
                ["cargo", "run", "--release", "--", rest @ ..] => rest,
                ["target/release/weir", rest @ ..] => rest,
                [script, ..] if script.starts_with("./") || script.starts_with(".ci/") => {
                    if !root().join(script).exists() {
                        faults.push(format!("{name}: `{script}` does not exist"));
                    }
                    continue;
                }
                _ => continue,
            };
            let commands: Vec<&str> = arguments
                .iter()
                .copied()
                .take_while(|word| !word.starts_with('-'))
                .take(1)
                .collect();
            let help = help(&commands);
            if help.is_empty() {
                faults.push(format!("{name}: `{command}`: weir has no such command"));
            }
            for flag in arguments.iter().filter(|word| word.starts_with('-')) {
                let flag = flag.split('=').next().unwrap_or_default();
                if !help
                    .split(|c: char| c.is_whitespace() || ",[=]".contains(c))
                    .any(|word| word == flag)
                {
                    faults.push(format!("{name}: `{command}`: `{flag}` is not in its --help"));
                }
            }
        }
    }
    report(faults);
}

/// Every flag in the example units and manifests is one the program knows, and every file of
/// configuration in them is valid.
#[test]
fn examples_of_deployment_use_what_there_is() {
    let (serve, load) = (
        help(&["serve"]),
        help(&["load"]) + &help(&["load", "merge"]) + &help(&["compare"]),
    );
    let mut faults = Vec::new();
    for (path, text) in texts().filter(|(path, _)| path.starts_with("deploy")) {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy())
            .unwrap_or_default();
        let (known, command) = match name.starts_with("load") || path.starts_with("deploy/github-action") {
            true => (&load, "load"),
            false => (&serve, "serve"),
        };
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        for word in lines.flat_map(str::split_whitespace) {
            let flag = word.split('=').next().unwrap_or(word);
            if word.starts_with("--") && word.len() > 3 && !known.contains(flag) {
                faults.push(format!(
                    "{}: `{word}` is no flag of weir {command}",
                    path.display()
                ));
            }
        }
        let Some((_, block)) = text.split_once("weir.toml: |\n") else {
            continue;
        };
        let toml: Vec<&str> = block.lines().map(str::trim).collect();
        // Its root lies in an image that is not here, and its secrets in a cluster.
        let toml = toml.join("\n").replace("root = ", "#");
        let toml = toml.replace("/etc/weir-admin/", "deployed-");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let file = folder.join("deployed.toml");
        fs::write(&file, toml).expect("a file below target/");
        let made = rcgen::generate_simple_self_signed(["weir".to_owned()]).expect("a certificate");
        for (name, text) in [
            ("deployed-token", "0123456789abcdef".repeat(2)),
            ("deployed-tls.crt", made.cert.pem()),
            ("deployed-tls.key", made.signing_key.serialize_pem()),
        ] {
            fs::write(folder.join(name), text).expect("a file below target/");
        }
        let arguments = ["serve", "--check", "--config"];
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(arguments)
            .arg(&file)
            .output();
        let output = output.expect("the binary cargo just built");
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            faults.push(format!("{}: {why}", path.display()));
        }
    }
    report(faults);
}

/// What `weir COMMANDS --help` prints, empty if it fails.
fn help(commands: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(commands)
        .arg("--help")
        .output()
        .expect("the binary cargo just built");
    if output.status.success() {
        String::from_utf8_lossy(&output.stdout).into_owned()
    } else {
        String::new()
    }
}

/// A package of this workspace.
struct Package {
    name: String,
    manifest: PathBuf,
    /// Every direct dependency, of any kind.
    dependencies: BTreeSet<String>,
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    metadata["packages"]
        .as_array()
        .expect("packages")
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            manifest: PathBuf::from(text(&package["manifest_path"])),
            dependencies: package["dependencies"]
                .as_array()
                .expect("dependencies")
                .iter()
                .map(|dependency| text(&dependency["name"]))
                .collect(),
        })
        .collect()
}

/// A Rust file.
struct Source {
    shown: String,
    text: String,
}

fn sources() -> impl Iterator<Item = Source> {
    texts()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|(path, text)| Source {
            shown: path.display().to_string(),
            text,
        })
}

/// Every tracked file that is text, with its content.
fn texts() -> impl Iterator<Item = (PathBuf, String)> {
    tracked()
        .into_iter()
        .filter_map(|path| Some((path.clone(), fs::read_to_string(root().join(path)).ok()?)))
}

/// Every file of the tree but what `.gitignore` leaves out, relative to the root.
fn tracked() -> Vec<PathBuf> {
    let ignored: Vec<PathBuf> = fs::read_to_string(root().join(".gitignore"))
        .expect(".gitignore")
        .lines()
        .filter_map(|line| line.strip_prefix('/'))
        .map(PathBuf::from)
        .chain([PathBuf::from(".git")])
        .collect();
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder of the tree") {
            let entry = entry.expect("an entry of the tree");
            let path = folder.join(entry.file_name());
            if ignored.contains(&path) || path.file_name().is_some_and(|name| name == "target") {
                continue;
            }
            let kind = entry.file_type().expect("a file type");
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn report(faults: impl IntoIterator<Item = String>) {
    let faults: Vec<String> = faults.into_iter().collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
