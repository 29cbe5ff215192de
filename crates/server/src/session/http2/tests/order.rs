//! Whose bytes go first.

use super::peer::Peer;

/// Asks for all of these at once while nothing can be sent, then lets the server send; returns the order of the ends.
fn order(requests: &[(&str, &[(&str, &str)])]) -> Vec<usize> {
    let mut peer = Peer::new();
    // All are in the cache.
    for (path, _) in requests {
        peer.get("GET", path, &[]);
    }
    peer.ended.clear();
    let (streams, ups): (Vec<_>, Vec<_>) = requests
        .iter()
        .map(|(path, fields)| peer.ask("GET", path, fields, true))
        .unzip();
    peer.send(&ups.concat());
    peer.ended
        .iter()
        .map(|ended| {
            streams
                .iter()
                .position(|stream| stream == ended)
                .expect("one of them")
        })
        .collect()
}

#[test]
fn the_clients_priority_decides() {
    let low = &[("priority", "u=6")][..];
    let high = &[("priority", "u=1")][..];
    assert_eq!(
        order(&[("/page.png", low), ("/small.png", low), ("/page.png", high)]),
        [2, 1, 0]
    );
}

/// As browsers do: they leave out the field where it would say the default.
#[test]
fn a_client_that_names_priorities_means_the_default_where_it_names_none() {
    let low = &[("priority", "u=5")][..];
    assert_eq!(order(&[("/page.png", low), ("/digits.bin", &[])]), [1, 0]);
    assert_eq!(order(&[("/page.png", &[]), ("/digits.bin", &[])]), [0, 1]);
}

#[test]
fn without_one_it_is_what_the_file_is_and_how_long() {
    assert_eq!(
        order(&[
            ("/digits.bin", &[]),
            ("/page.png", &[]),
            ("/text.txt", &[]),
            ("/", &[])
        ]),
        [3, 2, 1, 0]
    );
}
