//! The one binary: dispatches to a command and turns its outcome into an exit code.

fn main() {}
