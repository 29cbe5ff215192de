//! A link carries from the first packet: what is sent at once is not lost to interfaces that are still coming up.

use crate::link::{WEIR, echo, no_links, text};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Links that are made, and connections that each opens at once.
const LINKS: usize = 200;
const CONNECTIONS: usize = 5;

#[test]
fn a_thousand_connections_at_once_repeat_no_syn() {
    if no_links() {
        return;
    }
    let port = echo();
    // All at the same time. Then the kernel's count of this namespace: how long a connection took says as much of how busy
    // the machine is.
    let script = format!(
        "one() {{ exec 3<>/dev/tcp/198.18.0.1/{port} && echo open; }}
         for n in $(seq {CONNECTIONS}); do one & done; wait
         while read -ra names && read -ra values; do
             for at in ${{!names[@]}}; do
                 test ${{names[at]}} = TCPSynRetrans && echo repeated ${{values[at]}}
             done
         done < /proc/net/netstat
         exit 0"
    );
    let left = AtomicUsize::new(LINKS);
    // What the scripts said, of connections that opened and of SYNs that were repeated.
    let work = || {
        let mut said = String::new();
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
            said += &text(&output.stdout);
        }
        said
    };
    let said: String = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker"))
            .collect()
    });
    let count = |line: &str| said.lines().filter(|said| *said == line).count();
    assert_eq!(count("open"), LINKS * CONNECTIONS, "{said}");
    assert_eq!(count("repeated 0"), LINKS, "{said}");
}
