//! What a hit in a view costs: run it under `valgrind --tool=callgrind` and divide the instructions of
//! `lookup` by the count it prints, or with a release build read the nanoseconds.
//!
//! ```text
//! cargo run --release -p server --example lookup
//! valgrind --tool=callgrind --toggle-collect='lookup::hits' target/release/examples/lookup 100000
//! ```
#![allow(clippy::disallowed_methods, reason = "a measurement reads a clock")]

use measure::{Instant, UnixTime};
use runtime::session::Job;
use server::site::{Lookup, Site, SiteConfig, Source, View};
use std::hint::black_box;

const FILES: usize = 1_000;

fn main() {
    let rounds: usize = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(20_000_000);
    let files: Vec<(&'static str, &'static [u8])> = (0..FILES)
        .map(|n| {
            let path: &'static str = Box::leak(format!("/assets/page-{n:04}.html").into_boxed_str());
            (path, &[b'x'; 1024][..])
        })
        .collect();
    // Not in order of loading, so that neither cache nor predictor knows what comes.
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
    for (name, paths) in [("one path", &paths[..1]), ("a thousand paths", &paths[..])] {
        let start = std::time::Instant::now();
        let found = hits(&mut view, paths, rounds);
        let each = start.elapsed().as_nanos() as f64 / rounds as f64;
        println!("{name}: {found} hits, {each:.1} ns each");
    }
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
