//! A link carries from the first packet: what is sent at once is not lost to interfaces that are still coming up.

use crate::link::{WEIR, echo, no_links, text};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Links that are made, and connections that each opens at once.
const LINKS: usize = 200;
const CONNECTIONS: usize = 5;
/// Half of the initial retransmission timeout (RFC 6298, section 2): a connection that is slower has repeated its SYN.
const SLOW_MICROS: u64 = 500_000;

#[test]
fn a_thousand_connections_at_once_repeat_no_syn() {
    if no_links() {
        return;
    }
    let port = echo();
    // All at the same time, and each says how long it took in microseconds.
    let script = format!(
        "one() {{ s=$EPOCHREALTIME; exec 3<>/dev/tcp/198.18.0.1/{port}; e=$EPOCHREALTIME; \
         echo $(( ${{e/[.,]/}} - ${{s/[.,]/}} )); }}
         for n in $(seq {CONNECTIONS}); do one & done; wait"
    );
    let left = AtomicUsize::new(LINKS);
    let work = || {
        let mut took: Vec<u64> = Vec::new();
        while left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1))
            .is_ok()
        {
            let output = Command::new(WEIR)
                .args(["link", "rate=none", "--", "bash", "-c", &script])
                .stdin(Stdio::null())
                .output()
                .expect("the binary cargo just built");
            assert!(output.status.success(), "{}", text(&output.stderr));
            took.extend(
                text(&output.stdout)
                    .lines()
                    .map(|line| line.parse::<u64>().expect("a number")),
            );
        }
        took
    };
    let took: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker"))
            .collect()
    });
    assert_eq!(took.len(), LINKS * CONNECTIONS);
    let slow: Vec<u64> = took.into_iter().filter(|micros| *micros > SLOW_MICROS).collect();
    assert_eq!(
        slow,
        [0; 0],
        "microseconds, of {} connections",
        LINKS * CONNECTIONS
    );
}
