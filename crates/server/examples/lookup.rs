//! The cost of a hit in a worker's view of the cache: read the nanoseconds of a release build, or let
//! `benches/instructions` count instructions.
//!
//! ```text
//! cargo run --profile dist -p server --example lookup many 20000000
//! ```
#![allow(clippy::disallowed_methods, reason = "a measurement reads a clock")]

use runtime::session::Job;
use server::site::{Lookup, Site, SiteConfig, Source, View};
use std::hint::black_box;
use units::{Instant, UnixTime};

const FILES: usize = 1_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let rounds: usize = arguments
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(20_000_000);
    let wanted = match kind.as_str() {
        "one" => 1,
        "many" => FILES,
        _ => return println!("usage: lookup one|many [COUNT]"),
    };
    let files: Vec<(&'static str, &'static [u8])> = (0..FILES)
        .map(|n| {
            let path: &'static str = Box::leak(format!("/assets/page-{n:04}.html").into_boxed_str());
            (path, &[b'x'; 1024][..])
        })
        .collect();
    // Not in loading order, so that neither CPU cache nor predictor knows the next one.
    let paths: Vec<&[u8]> = (0..FILES).map(|n| files[n * 617 % FILES].0.as_bytes()).collect();
    let modified = UnixTime::from_secs(1_000_000_000);
    let source = Source::Embedded {
        files: Box::leak(files.into_boxed_slice()),
        modified,
    };
    let site = Site::open(SiteConfig::new(source)).expect("an embedded site always opens");
    let mut view = site.view(Instant::ZERO, UnixTime::from_secs(1_700_000_000));
    for path in &paths {
        if let Lookup::Load(load) = view.lookup(path) {
            let loaded = load.try_now().unwrap_or_else(Job::run);
            view.finish(loaded);
        }
    }
    let start = std::time::Instant::now();
    let found = hits(&mut view, &paths[..wanted], rounds);
    let each = start.elapsed().as_nanos() as f64 / rounds as f64;
    println!("{kind}: {found} hits, {each:.1} ns each");
    println!("{:?} {:?}", view.counters(), site.counters());
}

#[inline(never)]
fn hits(view: &mut View, paths: &[&[u8]], rounds: usize) -> usize {
    let mut found = 0;
    let mut next = 0;
    for _ in 0..rounds {
        next += 1;
        if next >= paths.len() {
            next = 0;
        }
        if let Lookup::Hit(entry) = view.lookup(black_box(paths[next])) {
            found += usize::from(!black_box(entry).is_dead());
        }
    }
    found
}
