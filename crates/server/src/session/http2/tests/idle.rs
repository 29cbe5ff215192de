//! What an idle connection costs.

use super::peer::Peer;
use crate::session::Session;
use ::http2::priority::Priority;
use units::Duration;

/// Bytes an idle connection may hold, its place in the worker included.
const MOST: usize = 1_024;

/// Bytes that the server holds for its one connection.
fn held(peer: &Peer) -> usize {
    size_of::<Session>() + peer.rig.cx.hub.budget.held().0 as usize
}

/// Fields a browser adds to each request, besides `:path`.
const BROWSER: [(&str, &str); 13] = [
    (
        "sec-ch-ua",
        "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\", \"Google Chrome\";v=\"140\"",
    ),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    ),
    (
        "accept",
        "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    ),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "no-cors"),
    ("sec-fetch-dest", "image"),
    ("referer", "https://www.example.org/news/2026/"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-US,en;q=0.9,de;q=0.8"),
    ("cookie", "session=4f1c2d7e9a8b4f1c2d7e9a8b4f1c2d7e9a8b"),
    ("priority", "i"),
];

/// Loads a page as a browser does: the fields go through its dynamic table, and many requests are sent at once.
fn load_page(peer: &mut Peer) {
    let paths = [
        "/",
        "/text.txt",
        "/small.png",
        "/page.png",
        "/big.png",
        "/nothing",
    ];
    let (mut up, mut streams) = (Vec::new(), Vec::new());
    for path in paths.iter().cycle().take(30) {
        let control = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", path),
        ];
        let fields = control.iter().chain(&BROWSER);
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let stream = peer
            .http
            .request_with(&[], fields, true, false, Priority::DEFAULT, &mut up);
        streams.push(stream.expect("room for a stream"));
    }
    peer.send(&up);
    assert!(streams.iter().all(|stream| peer.got[stream].has_ended));
}

#[test]
fn an_idle_connection_holds_at_most_1_kib() {
    let mut peer = Peer::new();
    for page in 0..3 {
        load_page(&mut peer);
        // The pauses within a page do not empty the table.
        peer.rig.wait(Duration::from_secs(4));
        peer.take();
        assert!(held(&peer) > MOST, "page {page}: {}", held(&peer));
        peer.rig.wait(Duration::from_secs(2));
        peer.take();
        assert!(held(&peer) <= MOST, "page {page}: {}", held(&peer));
    }
    // Nor do frames that ask for an answer cost anything for long.
    peer.send(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(held(&peer) <= MOST, "{}", held(&peer));
    assert!(!peer.is_left);
}

#[test]
fn a_client_that_compresses_little_holds_as_little_at_once() {
    let mut peer = Peer::new();
    for path in ["/digits.bin", "/big.png", "/nothing"] {
        peer.get("GET", path, &[("user-agent", "curl/8.15.0")]);
    }
    assert!(held(&peer) <= MOST, "{}", held(&peer));
}

#[test]
fn the_time_without_requests_counts_from_the_last_one() {
    let mut peer = Peer::new();
    load_page(&mut peer);
    peer.rig.wait(Duration::from_secs(6));
    peer.take();
    peer.rig.wait(Duration::from_secs(58));
    peer.take();
    assert!(!peer.is_left, "the table does not shorten it");
    peer.rig.wait(Duration::from_secs(2));
    peer.take();
    assert!(peer.is_left, "nor extend it");
}
