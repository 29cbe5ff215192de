//! The priority that a browser gives a request (RFC 9218): from the role of the object and what the first reference says.
//!
//! Sources, as of 2026-11:
//!
//! - Chromium, levels: `ResourceFetcher::ComputeLoadPriority` and `AdjustPriorityWithPriorityHintAndRenderBlocking`
//!   (`third_party/blink/renderer/platform/loader/fetch`), for style sheets that do not apply also
//!   `core/html/link_style.cc`. The document "Resource Fetch Priorities and Scheduling" was not consulted.
//! - Chromium, urgency: very high, high, medium, low, very low are the requests' HIGHEST, MEDIUM, LOW, LOWEST, IDLE
//!   (`ConvertWebKitPriorityToNetPriority`), and those 0 to 4 (`ConvertRequestPriorityToQuicPriority` in
//!   `net/quic/quic_http_utils.cc`, for HTTP/2 too). `ShouldLoadIncremental` tells what may share bandwidth.
//! - Firefox: "Firefox Network Scheduling and Prioritization" (`netwerk/docs/http/prioritization.md`). Scripts in the body:
//!   `ScriptLoader::PrepareRequestPriorityAndRequestDependencies`. Other rows follow from
//!   `nsHttpHandler::UrgencyFromCoSFlags`.
//! - Measured: the fields that Chromium 156 and Firefox 153 sent for one page, without `fetchpriority` and preloads. They
//!   agree with these sources, except that Chromium's image was not raised as one of the first five.
//!
//! No source, so a choice of this client: images and frames with `loading=lazy`, which browsers request once they come near
//! the viewport; in Chromium, objects of [`Role::Other`], among them manifests and text tracks.

use crate::plan::Priorities;
use crate::timeline::Role;
use http2::priority::Priority;
use markup::{FetchPriority, Loading, Position, Timing};

/// The priority of a request for an object of this role, whose first reference has this `loading`.
pub(super) fn of(priorities: Priorities, role: Role, loading: Loading) -> Priority {
    match priorities {
        Priorities::Chromium => chromium(role, loading),
        Priorities::Firefox => firefox(role, loading),
        Priorities::None => Priority::DEFAULT,
    }
}

/// The value of the field. Browsers send none for the default.
pub(super) fn said(priority: Priority) -> Option<&'static str> {
    (priority != Priority::DEFAULT).then(|| priority.value())
}

/// Not known here, so left out: which images are in the viewport or large. Chromium raises those to 1, or to 2 as one of
/// the first five.
fn chromium(role: Role, loading: Loading) -> Priority {
    let is_late = loading.position == Position::AfterImage;
    let urgency = match (role, loading.timing) {
        (Role::Style | Role::Image | Role::Frame, Timing::OtherMedia | Timing::Lazy) => 4,
        (Role::Page | Role::Frame, _) => 0,
        (Role::Script, Timing::Async | Timing::Defer) => 3,
        (Role::Script, Timing::Module) => 1,
        (Role::Style | Role::Script, _) if is_late => 2,
        (Role::Style, _) => 0,
        (Role::Script, _) | (Role::Font, Timing::Preload) => 1,
        (Role::Font, _) => 0,
        (Role::Image | Role::Other, _) => 3,
    };
    let urgency = match loading.priority {
        FetchPriority::Auto => urgency,
        FetchPriority::High => urgency.min(1),
        FetchPriority::Low if role == Role::Style && urgency == 0 => 1,
        FetchPriority::Low => urgency.max(3),
    };
    Priority {
        urgency,
        incremental: matches!(role, Role::Page | Role::Frame | Role::Image | Role::Other),
    }
}

/// Not known here, so left out: which images are about to be rendered. Firefox raises those to 3.
fn firefox(role: Role, loading: Loading) -> Priority {
    let [auto, high, low] = match (role, loading.timing) {
        (Role::Page, _) => [0; 3],
        (Role::Style, Timing::Preload) => [0, 0, 1],
        (Role::Style, Timing::OtherMedia) => [4, 2, 4],
        (Role::Style, _) => [2, 0, 2],
        (Role::Script, Timing::Preload) => [1, 1, 4],
        (Role::Script, Timing::Usual) if loading.position == Position::Head => [2, 1, 3],
        (Role::Script, _) => [3, 2, 4],
        (Role::Font, Timing::Preload) => [2, 2, 4],
        (Role::Font, _) => [3; 3],
        (Role::Image, Timing::Preload) => [4, 3, 5],
        (Role::Image, Timing::Lazy) => [6, 3, 6],
        (Role::Image, _) => [5, 3, 6],
        (Role::Frame, Timing::Lazy) => [6; 3],
        (Role::Frame | Role::Other, _) => [4, 3, 5],
    };
    Priority {
        urgency: match loading.priority {
            FetchPriority::Auto => auto,
            FetchPriority::High => high,
            FetchPriority::Low => low,
        },
        incremental: matches!(role, Role::Page | Role::Image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::page::Text;
    use encoding_rs::UTF_8;
    use url::Url;

    /// The fields of requests for what a page with these elements names, in its order.
    #[track_caller]
    fn check(elements: &str, chromium: &[Option<&str>], firefox: &[Option<&str>]) {
        let url = Url::parse("http://example.org/").expect("a URL");
        let mut text = Text::of(Role::Page, "text/html; charset=utf-8", &url, UTF_8);
        let mut named = text.push(elements.as_bytes());
        named.extend(text.finish(&url).0);
        for (priorities, want) in [
            (Priorities::Chromium, chromium),
            (Priorities::Firefox, firefox),
            (Priorities::None, &vec![None; chromium.len()][..]),
        ] {
            let got = named
                .iter()
                .map(|one| said(of(priorities, one.role, one.loading)));
            assert_eq!(got.collect::<Vec<_>>(), want, "{priorities}: {elements}");
        }
    }

    #[test]
    fn elements_have_the_priorities_of_the_sources() {
        check(
            "<link rel=stylesheet href=a><script src=b></script><script async src=c></script><script defer src=d></script>\
             <script type=module src=e></script><link rel=stylesheet media=print href=f>",
            &[Some("u=0"), Some("u=1"), None, None, Some("u=1"), Some("u=4")],
            &[Some("u=2"), Some("u=2"), None, None, None, Some("u=4")],
        );
        check(
            "<p><script src=a></script><img src=b><script src=c></script><link rel=stylesheet href=d><script async src=e></script>\
             <iframe src=f></iframe><img loading=lazy src=g>",
            &[
                Some("u=1"),
                Some("i"),
                Some("u=2"),
                Some("u=2"),
                None,
                Some("u=0, i"),
                Some("u=4, i"),
            ],
            &[
                None,
                Some("u=5, i"),
                None,
                Some("u=2"),
                None,
                Some("u=4"),
                Some("u=6, i"),
            ],
        );
        check(
            "<link rel=preload as=style href=a><link rel=preload as=script href=b><link rel=preload as=font href=c>\
             <link rel=preload as=image href=d><link rel=preload as=fetch href=e>\
             <style>@font-face { src: url(f) } p { background: url(g) }</style>",
            &[
                Some("u=0"),
                Some("u=1"),
                Some("u=1"),
                Some("i"),
                Some("i"),
                Some("u=0"),
                Some("i"),
            ],
            &[
                Some("u=0"),
                Some("u=1"),
                Some("u=2"),
                Some("u=4, i"),
                Some("u=4"),
                None,
                Some("u=5, i"),
            ],
        );
    }

    #[test]
    fn fetchpriority_raises_and_lowers() {
        check(
            "<script fetchpriority=low src=a></script><script async fetchpriority=high src=b></script>\
             <link rel=stylesheet fetchpriority=low href=c><link rel=stylesheet fetchpriority=high href=d>\
             <link rel=preload as=font fetchpriority=low href=e><img fetchpriority=high src=f><img fetchpriority=low src=g>",
            &[
                None,
                Some("u=1"),
                Some("u=1"),
                Some("u=0"),
                None,
                Some("u=1, i"),
                Some("i"),
            ],
            &[
                None,
                Some("u=2"),
                Some("u=2"),
                Some("u=0"),
                Some("u=4"),
                Some("i"),
                Some("u=6, i"),
            ],
        );
    }
}
