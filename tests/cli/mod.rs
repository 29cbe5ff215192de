//! The built binary, run to its end without a terminal, and what it said: what the black boxes ask it with.

use std::process::{Command, Output, Stdio};

/// The binary.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Runs it with these words.
pub(crate) fn weir(words: &[&str]) -> Output {
    Command::new(WEIR)
        .args(words)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("the binary cargo just built")
}

/// What it wrote, whatever that is.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
