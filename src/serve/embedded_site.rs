//! The site inside the program, which is served if the configuration names no other: its files, their date and its error
//! page.

use crate::demo;
use server::config::Config;
use server::site::Source;
use units::UnixTime;

/// `Last-Modified` of the embedded site. Fixed, so that a rebuild does not invalidate client caches.
const DEMO_MODIFIED: UnixTime = UnixTime {
    secs: 1_795_392_000,
    nanos: 0,
};
/// The embedded site's error page for 404.
pub(super) const DEMO_NOT_FOUND: (&str, &str) = ("404", "/404.html");

/// Whether the embedded site is served.
pub(super) fn is_demo(config: &Config) -> bool {
    config.root.is_none() && config.versions.is_none() && config.replay.is_none()
}

pub(super) fn embedded() -> Source {
    Source::Embedded {
        files: demo::FILES,
        modified: DEMO_MODIFIED,
    }
}

/// Number of files and bytes of the embedded site.
pub(super) fn demo_size() -> (usize, usize) {
    (
        demo::FILES.len(),
        demo::FILES.iter().map(|(_, content)| content.len()).sum(),
    )
}
