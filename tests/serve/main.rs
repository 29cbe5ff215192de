//! The black box: every test here starts the built binary, speaks to it over a real socket and looks
//! only at what a client, an operator or the file system can see. Each test runs once per strategy.
//!
//! - `files`: which file answers which path; redirects, listings, error pages, methods
//! - `representations`: conditions, ranges, content codings
//! - `connections`: persistence, pipelining, half-close, bytes that nobody read
//! - `bounds`: what happens when a limit or a timeout is reached, and that the others do not feel it
//! - `disk`: files that change, vanish, shrink, or are no files at all; the way out of the root
//! - `operation`: configuration, signals, logs, exit codes
//! - `upgrade`: one process follows another, and no request is lost
//! - `manager`: what a service manager passes and is told
//! - `rights`: what the process may still do once it listens
//! - `messages`: malformed and odd requests, and the conformance vectors
//! - `clients`: programs people use (curl, wget, Python requests, Node fetch)
//!
//! The tools: `process` starts and stops the server, `wire` is a client that trusts nothing,
//! `tree` makes a folder of files.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it opens sockets and touches files"
)]

mod process;
mod tree;
mod wire;

mod bounds;
mod clients;
mod connections;
mod disk;
mod files;
mod manager;
mod messages;
mod operation;
mod representations;
mod rights;
mod upgrade;

/// Makes one test per strategy out of each named function `fn(Strategy)`.
macro_rules! on_every_strategy {
    ($($name:ident),* $(,)?) => {
        mod loops { $(#[test] fn $name() { super::$name(crate::process::Strategy::LOOPS) })* }
        mod one_loop { $(#[test] fn $name() { super::$name(crate::process::Strategy::ONE_LOOP) })* }
        mod pool { $(#[test] fn $name() { super::$name(crate::process::Strategy::POOL) })* }
    };
}
use on_every_strategy;
