//! The black box: the built binary, used as its users do, in one program, so that all its waits overlap. A module for
//! each command.
//!
//! - `cache`, `convert`, `fetch`, `link`, `model`, `profile`, `reproductions` (`weir lab`), `serve`, `study`, `trace`, `tune`,
//!   `visit`: by their names
//! - `workload`: `weir site` and `weir load`
//! - `secure`: TLS and QUIC in `fetch` and `load`
//! - `interop`: the public interoperability cases of QUIC, with programs of others
//!
//! The tools: `cli` runs the binary to its end, `drawn` checks what viewers of qlog draw, `fixture` serves a site, `quic_go` builds
//! a client and server of others, `schema` checks JSON.

mod cli;
mod drawn;
mod fixture;
mod quic_go;
mod schema;

mod cache;
mod convert;
mod fetch;
mod interop;
mod link;
mod model;
mod profile;
mod reproductions;
mod secure;
mod serve;
mod study;
mod trace;
mod tune;
mod visit;
mod workload;
