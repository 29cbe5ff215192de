//! The program beside this file: an HTTP/3 client and server of quic-go, whose QUIC and HTTP/3 are no relatives of ours.

#![allow(
    clippy::disallowed_methods,
    reason = "a black-box test is the outside world: it starts programs and writes files"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The built program; `None`, with a word to say why, without Go or its modules.
///
/// # Panics
/// If it cannot be compiled.
pub(crate) fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build).as_deref()
}

/// Builds it in the target folder of the tests. Go keeps what it has compiled, and go.sum says which modules these are.
fn build() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("quicgo");
    let go = |arguments: &[&str]| -> std::io::Result<Output> {
        Command::new("go")
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quic_go"))
            .env("GOFLAGS", "-mod=readonly")
            // Another version of Go would be downloaded.
            .env("GOTOOLCHAIN", "local")
            .args(arguments)
            .output()
    };
    let Ok(fetched) = go(&["mod", "download"]) else {
        println!("skipped: go is not on this machine");
        return None;
    };
    if !fetched.status.success() {
        let why = String::from_utf8_lossy(&fetched.stderr);
        println!("skipped: go cannot get the modules of quic-go: {}", why.trim());
        return None;
    }
    let compiled = go(&["build", "-o", built.to_str().expect("text"), "."]).expect("go, as before");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    Some(built)
}

/// Writes what its client asks for: a hundred small files, each of another length, and a large one. Returns the bytes of the small
/// ones.
pub(crate) fn write_files(folder: &Path, large: usize) -> usize {
    let write = |name: &str, length: usize| {
        // No two parts of a file are alike.
        let words = (0_u64..).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        let content: Vec<u8> = words.flatten().take(length).collect();
        std::fs::write(folder.join(name), content).expect("a file");
        length
    };
    write("large.bin", large);
    let small = (0..100).map(|number| write(&format!("small-{number:02}.bin"), 1_000 + 100 * number));
    small.sum()
}

/// Asserts what its client printed. Returns the number of datagrams that came to its second address.
pub(crate) fn assert_printed(printed: &str, small: usize, large: usize) -> u64 {
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], format!("100 at once: {small} bytes"), "{printed}");
    assert_eq!(lines[1], format!("large: {large} bytes"), "{printed}");
    assert_eq!(lines[3], "connections: 1", "{printed}");
    let count = lines[2].strip_prefix("datagrams at the new address: ");
    count.and_then(|count| count.parse().ok()).expect("a number")
}
