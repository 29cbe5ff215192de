//! Passes the identity of the build to the program: commit of the sources, profile, target. Decides nothing else.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script asks git for the commit, and cargo for the rest by environment variables"
)]

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The sources of the program. Documents are not: a commit that changes only them makes no other program.
const SOURCES: [&str; 5] = ["src", "crates", "experiments", "Cargo.toml", "Cargo.lock"];

fn main() {
    for path in SOURCES.iter().chain(&["build.rs"]) {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=WEIR_COMMIT");
    let profile = profile().or_else(|| env::var("PROFILE").ok()).unwrap_or_default();
    let features: Vec<String> = env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .filter(|name| name != "default")
        .collect();
    let features = match features.as_slice() {
        [] => "no features".to_owned(),
        some => format!("features {}", some.join("+")),
    };
    let target = env::var("TARGET").unwrap_or_default();
    println!(
        "cargo:rustc-env=WEIR_BUILD={}, profile {profile}, {features}, {target}",
        commit()
    );
}

/// The name of the profile. `PROFILE` calls every profile that inherits from it `release`, and the optimization level
/// that Cargo passes is that of this package alone: the crates that serve have others.
fn profile() -> Option<String> {
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    // target/PROFILE/build/weir-HASH/out
    Some(out.ancestors().nth(3)?.file_name()?.to_str()?.to_owned())
}

/// The commit, with `+` if the sources differ from it. Packagers without git set `WEIR_COMMIT`.
fn commit() -> String {
    if let Ok(given) = env::var("WEIR_COMMIT") {
        return format!("commit {given}");
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "commit unknown".to_owned();
    };
    let changes = git(&[
        &["status", "--porcelain", "--untracked-files=no", "--"],
        &SOURCES[..],
    ]
    .concat());
    let mark = if changes.is_none_or(|changes| changes.is_empty()) {
        ""
    } else {
        "+"
    };
    format!("commit {commit}{mark}")
}

/// What git prints; `None` without git or outside a repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
