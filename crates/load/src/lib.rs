//! Workloads: a site's files and the requests for them, by user and time, all from a seed.
//!
//! Surge (Barford and Crovella 1998, 1999), the WebStone file lists and the Microscape page. Everything here is
//! arithmetic: no socket, file or clock. Content is written to the caller's `io::Write`, with memory that does not
//! grow with the site. Random numbers and the functions that decide what is generated use portable arithmetic
//! ([`chance`]), so a seed gives the same bytes on every machine.
//!
//! ```text
//!   parameters ─▶ files ─▶ popularity ─▶ matching ─▶ objects ─▶ sequence ─┬▶ plan, requests: user, file, time
//!        │          │                                  │                 │
//!        └──────────┴──────────▶ site: pages, images, manifest ◀──────────┘      fit: how well
//!
//!   work (manifest or paths) + plan or arrivals ─▶ crew: users as state machines ─▶ record ─▶ run ─▶ verdict
//! ```

pub mod arrivals;
pub mod chance;
pub mod compare;
pub mod connections;
pub mod crew;
mod deferred;
pub mod estimate;
pub mod files;
pub mod fit;
pub mod gif;
mod ledger;
pub mod limits;
pub mod manifest;
pub mod matching;
pub mod model;
pub mod objects;
pub mod outage;
pub mod page;
pub mod parameters;
pub mod plan;
pub mod popularity;
mod prose;
pub mod published;
pub mod record;
pub mod replies;
pub mod request_source;
pub mod requests;
pub mod run;
pub mod scenario;
pub mod sequence;
pub mod shares;
pub mod site;
pub mod steps;
pub mod streams;
pub mod surge;
pub mod times;
pub mod trouble;
pub mod users;
pub mod verdict;
pub mod webstone;
pub mod weights;
pub mod work;
