//! The files a page embeds are loaded before their request; no others are, and never too many.
#![allow(
    clippy::disallowed_methods,
    reason = "tests limit their wait for another thread"
)]

use super::super::tests::Fixture;
use super::super::{Lookup, SiteConfig};
use crate::cache::{CacheConfig, Policy};
use crate::coding::CompressConfig;
use http_semantics::coding::Coding;
use runtime::session::Job;
use std::os::unix::fs::symlink;
use units::Word as _;
use units::{Bytes, Duration, UnixTime};

const ANTICIPATING: [Policy; 2] = [Policy::Hinted, Policy::Structured];

fn with(policy: Policy) -> impl Fn(&mut SiteConfig) {
    move |config| config.cache.policy = policy
}

fn ahead(f: &Fixture) -> u64 {
    f.site.counters().ahead
}

/// Waits until all pages so far have been handled. Returns how many entries were loaded ahead in all.
#[track_caller]
fn settle(f: &Fixture) -> u64 {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while f.site.shared.warmer.get().is_some_and(|warmer| !warmer.is_idle()) {
        assert!(
            std::time::Instant::now() < deadline,
            "the thread does not become idle"
        );
        std::thread::park_timeout(Duration::from_millis(1));
    }
    ahead(f)
}

#[test]
fn what_a_page_embeds_is_there_before_it_is_asked_for() {
    for policy in ANTICIPATING {
        let mut f = Fixture::new(with(policy));
        f.write(
            "blog/index.html",
            "<link rel=stylesheet href=/style.css><img src=a.png><img src=missing.png><img src=out.png>\
             <img src=https://example.org/other.png><img src=../../../etc/passwd><a href=next.html>next</a>\
             <img src=.secret.png>",
        );
        for name in [
            "style.css",
            "blog/a.png",
            "blog/next.html",
            "blog/.secret.png",
            "other.png",
        ] {
            f.write(name, name);
        }
        std::fs::write(f.at("../secret"), "secret").unwrap();
        symlink(f.at("../secret"), f.at("blog/out.png")).unwrap();
        f.see("/blog/");
        assert_eq!(settle(&f), 2, "{policy}");
        assert!(f.is_kept("/style.css") && f.is_kept("/blog/a.png"));
        for path in [
            "/blog/next.html",
            "/blog/out.png",
            "/blog/missing.png",
            "/other.png",
        ] {
            assert!(!f.is_kept(path), "{path}");
        }
        assert_eq!(f.see("/blog/a.png"), "blog/a.png");
    }
}

#[test]
fn other_policies_load_nothing_ahead() {
    for policy in Policy::ALL.iter().copied().filter(|policy| !policy.anticipates()) {
        let mut f = Fixture::new(with(policy));
        f.write("index.html", "<img src=a.png>");
        f.write("a.png", "a");
        f.see("/");
        assert!(f.site.shared.warmer.get().is_none(), "there is no such thread");
        assert_eq!(ahead(&f), 0);
    }
}

#[test]
fn a_page_of_ten_thousand_references_is_bounded() {
    let mut f = Fixture::new(with(Policy::Hinted));
    let max = crate::references::Limits::DEFAULT.references_max;
    for number in 0..max + 40 {
        f.write(&format!("{number}.png"), "picture");
    }
    let page: String = (0..10_000)
        .map(|number| format!("<img src={number}.png>"))
        .collect();
    f.write("index.html", &page);
    assert_eq!(f.see("/"), page);
    assert_eq!(settle(&f), max as u64);
    assert!(f.is_kept("/0.png") && !f.is_kept(&format!("/{max}.png")));
}

#[test]
fn one_page_never_takes_the_whole_cache() {
    for policy in ANTICIPATING {
        let mut f = Fixture::new(|config| {
            config.cache = CacheConfig {
                policy,
                budget: Bytes::kib(512),
                ..CacheConfig::default()
            };
        });
        // Everything is written before anything is watched: files loaded while their folder changes are not cached.
        f.write("other.txt", "in use");
        for number in 0..60 {
            f.write(&format!("{number}.png"), vec![b'x'; 12 << 10]);
        }
        let page: String = (0..60).map(|number| format!("<img src={number}.png>")).collect();
        f.write("index.html", page);
        f.see("/other.txt");
        f.see("/");
        let loaded = settle(&f);
        // A quarter of the cache, plus the load under way when it was reached.
        assert_eq!(loaded, 128 / 12 + 1, "{policy}");
        assert!(f.is_kept("/other.txt"), "{policy}");
        let counters = f.site.counters();
        assert!(counters.bytes_peak <= 512 << 10);
    }
}

#[test]
fn a_part_that_changes_is_seen_to() {
    for policy in ANTICIPATING {
        let mut f = Fixture::new(with(policy));
        f.write("index.html", "<img src=a.png>");
        f.write("a.png", "one");
        f.see("/");
        assert_eq!(settle(&f), 1);
        assert_eq!(f.see("/a.png"), "one");
        f.write("a.png", "two");
        f.becomes("/a.png", "two");
        // A page that embeds other files is a new page.
        f.write("b.png", "new");
        f.write("index.html", "<img src=b.png>");
        f.becomes("/", "<img src=b.png>");
        // It was loaded while its folder changed and so not cached; the next load is.
        while settle(&f) < 2 {
            f.see("/");
        }
        assert!(f.is_kept("/b.png"));
    }
}

#[test]
fn a_coding_made_of_a_page_leaves_its_parts_with_it() {
    for policy in ANTICIPATING {
        let mut f = Fixture::new(|config| {
            config.cache.policy = policy;
            config.compress = Some(CompressConfig::default());
        });
        f.write("index.html", format!("<img src=a.png>{}", "text ".repeat(400)));
        f.write("a.png", "a");
        let page = f.get("/");
        let job = f.view.encode(&page, Coding::Gzip).expect("a coding to make");
        let coded = f.view.finish(job.run());
        assert!(page.is_dead() && !coded.is_dead());
        assert_eq!(settle(&f), 1);
        assert!(f.site.shared.store.is_referred(&coded), "{policy}");
        assert!(matches!(f.view.lookup(b"/a.png"), Lookup::Hit(_)));
    }
}

#[test]
fn a_page_too_large_for_memory_is_read_as_a_stream() {
    let mut f = Fixture::new(with(Policy::Structured));
    let page = format!("{}<img src=a.png>", "<p>text".repeat(20_000));
    f.write("index.html", &page);
    f.write("a.png", "a");
    assert_eq!(f.see("/"), page);
    assert_eq!(settle(&f), 1);
    assert!(f.is_kept("/a.png"));
}

/// The scan of a page and the load that finds it gone may come in either order.
#[test]
fn a_page_that_is_gone_is_not_announced_whichever_comes_first() {
    let mut f = Fixture::new(|config| config.early_hints = true);
    f.write("index.html", "<link rel=stylesheet href=/style.css>");
    let page = f.get("/");
    settle(&f);
    let hint = |f: &Fixture| f.site.shared.hints.as_ref().and_then(|hints| hints.of(b"/"));
    assert!(hint(&f).is_some());
    std::fs::remove_file(f.at("index.html")).unwrap();
    f.becomes("/", "Forbidden");
    assert_eq!(hint(&f), None);
    f.site.shared.warm(page, UnixTime::from_secs(0));
    assert_eq!(hint(&f), None, "the scan came last");
}
