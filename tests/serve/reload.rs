//! Every key that a reload can change takes effect, and every key is accounted for: as one that is
//! observed here, as one that waits for the next start, or as one of which nothing can be seen from outside.

use crate::serve::files::noise;
use crate::serve::messages::first_version;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::slow::read_slowly;
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, End, head};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Keys that take effect at the next start; a reload says so.
const AT_START: [&str; 39] = [
    "server-log",
    "listen",
    "send-buffer",
    "pacing",
    "line-rate",
    "line-order",
    "profile",
    "workers",
    "concurrency",
    "io",
    "user",
    "landlock",
    "seccomp",
    "adapt",
    "record",
    "control",
    "control-mode",
    "control-group",
    "tls-key-log",
    "qlog",
    "qlog-files",
    "qlog-size",
    "http3",
    "http3-steering",
    "domain",
    "tls",
    "http-listen",
    "tls-state",
    "acme-ca",
    "acme-ca-root",
    "acme-email",
    "acme-eab",
    "acme-profile",
    "acme-challenge",
    "acme-hook",
    "acme-hook-wait",
    "proxy-protocol",
    "admin",
    "behavior",
];
/// Keys whose effect depends on how turns and disks happen to go; `disk` and unit tests look at them.
const UNSEEN: [&str; 5] = [
    "preset",
    "max-turn",
    "max-pipeline",
    "disk-timeout",
    "max-disk-queue",
];
/// Keys whose effect `access`, `tried`, `trusted`, `fields`, `limited`, `tls`, `certificates`, `listeners`, `http2`, `live`, `otlp`, `proxy`,
/// `recorded`, `representations`, `request_id`, `uploads`, `versions` and unit tests look at: certificates change with a reload, listeners at the next start.
const ELSEWHERE: [&str; 35] = [
    "replay",
    "replay-delays",
    "versions",
    "tls-cert",
    "tls-key",
    "tls-client-ca",
    "tls-client-auth",
    "crypto",
    "https-redirect",
    "hsts",
    "listener",
    "proxy",
    "otlp",
    "access",
    "try-files",
    "uploads",
    "trusted",
    "trusted-field",
    "cors",
    "compress-except",
    "security-headers",
    "limit",
    "log-template",
    "log-compress",
    "log-keep",
    "log-rotate-size",
    "log-rotate-time",
    "log-sample",
    "max-streams",
    "early-hints",
    "max-handshakes",
    "max-handshakes-per-address",
    "host-metrics",
    "request-id",
    "request-id-answer",
];
/// A timeout of 300 ms has been noticed by then, also on a busy machine; one of a minute has not.
const NOTICED: Duration = Duration::from_secs(30);
/// What lasts longer than this was not cut off after 300 ms.
const LONGER: Duration = Duration::from_millis(1_500);

/// What is changed, in lines of the file, and how that is seen: the check is told which of the two is in force.
struct Case {
    keys: &'static [&'static str],
    before: &'static str,
    after: &'static str,
    check: fn(&Server, &Tree, bool),
}

fn asked(server: &Server, path: &str, fields: &[(&str, &str)]) -> crate::serve::wire::Response {
    server.connect().request("GET", path, fields)
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = asked(server, "/.weir/metrics", &[]).text();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .map(|value| value as u64)
        .sum()
}

/// What the site is, and how it is shown.
const SITE: &[Case] = &[
    Case {
        keys: &["root"],
        before: "root = 'site'",
        after: "root = 'site2'",
        check: |server, _, is_after| {
            assert_eq!(
                asked(server, "/root.txt", &[]).text(),
                if is_after { "2" } else { "1" }
            );
        },
    },
    Case {
        keys: &["http09"],
        before: "http09 = false",
        after: "http09 = true",
        check: |server, _, is_after| {
            let answer = first_version(server, "/root.txt");
            assert_eq!(answer.starts_with("HTTP/1.1 400 "), !is_after, "{answer}");
        },
    },
    Case {
        keys: &["http2"],
        before: "http2 = 'tls'",
        after: "http2 = 'all'",
        check: |server, _, is_after| {
            let mut stream = TcpStream::connect(server.address).expect("a connection");
            stream
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                .expect("a preface");
            let mut said = [0; 4];
            stream.read_exact(&mut said).expect("an answer");
            assert_eq!(said == *b"HTTP", !is_after, "{said:?}");
        },
    },
    Case {
        keys: &["index"],
        before: "index = ['index.html']",
        after: "index = ['home.html']",
        check: |server, _, is_after| {
            let want = if is_after { "home" } else { "index" };
            assert_eq!(asked(server, "/dir/", &[]).text(), want);
        },
    },
    Case {
        keys: &["listing"],
        before: "listing = false",
        after: "listing = true",
        check: |server, _, is_after| {
            assert_eq!(
                asked(server, "/bare/", &[]).status,
                if is_after { 200 } else { 403 }
            );
        },
    },
    Case {
        keys: &["hidden"],
        before: "hidden = false",
        after: "hidden = true",
        check: |server, _, is_after| {
            assert_eq!(
                asked(server, "/.dot", &[]).status,
                if is_after { 200 } else { 404 }
            );
        },
    },
    Case {
        keys: &["symlinks"],
        before: "symlinks = true",
        after: "symlinks = false",
        check: |server, _, is_after| {
            assert_eq!(asked(server, "/link.txt", &[]).status == 200, !is_after);
        },
    },
    Case {
        keys: &["compress"],
        before: "compress = true",
        after: "compress = false",
        check: |server, _, is_after| {
            // Processes keep a file, and what is made of it, only once it has not changed for a moment.
            eventually("the coding in force", || {
                let answer = asked(server, "/long.txt", &[("Accept-Encoding", "gzip")]);
                (answer.field("Content-Encoding").is_some() != is_after).then_some(())
            });
        },
    },
    Case {
        keys: &["precompressed"],
        before: "precompressed = true",
        after: "precompressed = false",
        check: |server, _, is_after| {
            let answer = asked(server, "/made.js", &[("Accept-Encoding", "br")]);
            assert_eq!(answer.text() == "sibling", !is_after);
        },
    },
    Case {
        keys: &["header"],
        before: "header = ['X-A: 1']",
        after: "header = ['X-A: 2']",
        check: |server, _, is_after| {
            let answer = asked(server, "/root.txt", &[]);
            assert_eq!(answer.must("X-A"), if is_after { "2" } else { "1" });
        },
    },
    Case {
        keys: &["live"],
        before: "live = 'nobody'",
        after: "live = 'local'",
        check: |server, _, is_after| {
            assert_eq!(asked(server, "/.weir/metrics", &[]).status == 404, !is_after);
        },
    },
    Case {
        keys: &["health"],
        before: "health = false",
        after: "health = true",
        check: |server, _, is_after| {
            assert_eq!(
                asked(server, "/healthz", &[]).status,
                if is_after { 200 } else { 404 }
            );
        },
    },
    Case {
        keys: &["access-log", "log-format", "log-tcp"],
        before: "access-log = 'one.log'\nlog-format = 'common'",
        after: "access-log = 'two.log'\nlog-format = 'json'\nlog-tcp = true",
        check: |server, tree, is_after| {
            let name = if is_after { "two.log" } else { "one.log" };
            let mut connection = server.connect();
            eventually("a line of the log", || {
                connection.get("/root.txt");
                let text = std::fs::read_to_string(tree.join(name)).unwrap_or_default();
                // A write can be read in part: only what ends with a newline is a line.
                let (whole, _) = text.rsplit_once('\n')?;
                let line = whole.lines().rfind(|line| line.contains("/root.txt"))?;
                assert_eq!(line.starts_with('{'), is_after, "{line}");
                assert_eq!(line.contains("\"rtt"), is_after, "{line}");
                Some(())
            });
        },
    },
    Case {
        keys: &["error-pages"],
        before: "[error-pages]\n404 = '/lost.html'",
        after: "[error-pages]\n404 = '/gone.html'",
        check: |server, _, is_after| {
            let want = if is_after { "gone" } else { "lost" };
            assert_eq!(asked(server, "/nowhere", &[]).text(), want);
        },
    },
    Case {
        keys: &["types"],
        before: "[types]\nodd = 'text/x-one'",
        after: "[types]\nodd = 'text/x-two'",
        check: |server, _, is_after| {
            let answer = asked(server, "/thing.odd", &[]);
            let want = if is_after { "text/x-two" } else { "text/x-one" };
            assert!(answer.must("Content-Type").starts_with(want));
        },
    },
    Case {
        keys: &["tilde"],
        before: "[tilde]\nusers = { alice = 'home1' }",
        after: "[tilde]\nusers = { alice = 'home2' }",
        check: |server, _, is_after| {
            let want = if is_after { "at home 2" } else { "at home 1" };
            assert_eq!(asked(server, "/~alice/me.txt", &[]).text(), want);
        },
    },
    Case {
        keys: &["mount"],
        before: "[[mount]]\npath = '/mounted/'\nroot = 'home1/public_html'",
        after: "[[mount]]\npath = '/mounted/'\nroot = 'home2/public_html'",
        check: |server, _, is_after| {
            let want = if is_after { "at home 2" } else { "at home 1" };
            assert_eq!(asked(server, "/mounted/me.txt", &[]).text(), want);
        },
    },
    Case {
        keys: &["header-rule"],
        before: "[[header-rule]]\npath = '/root.txt'\nheader = ['X-R: 1']",
        after: "[[header-rule]]\npath = '/root.txt'\nheader = ['X-R: 2']",
        check: |server, _, is_after| {
            let answer = asked(server, "/root.txt", &[]);
            assert_eq!(answer.must("X-R"), if is_after { "2" } else { "1" });
        },
    },
    Case {
        keys: &["redirect"],
        before: "[[redirect]]\nfrom = '/old'\nto = '/one'\nstatus = 301",
        after: "[[redirect]]\nfrom = '/old'\nto = '/two'\nstatus = 301",
        check: |server, _, is_after| {
            let answer = asked(server, "/old", &[]);
            assert!(
                answer
                    .must("Location")
                    .ends_with(if is_after { "/two" } else { "/one" })
            );
        },
    },
    Case {
        keys: &["respond"],
        before: "[[respond]]\npath = '/fixed'\ntext = 'one'",
        after: "[[respond]]\npath = '/fixed'\ntext = 'two'",
        check: |server, _, is_after| {
            let answer = asked(server, "/fixed", &[]);
            assert_eq!(answer.text(), if is_after { "two" } else { "one" });
        },
    },
    Case {
        keys: &["host"],
        before: "[[host]]\nnames = ['other.test']\nroot = 'site'",
        after: "[[host]]\nnames = ['other.test']\nroot = 'home2'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send("GET /who.txt HTTP/1.1\r\nHost: other.test\r\n\r\n");
            let want = if is_after { "home" } else { "site" };
            assert_eq!(connection.receive("GET").text(), want);
        },
    },
];

/// Sizes and counts of a request and a connection.
const SIZES: &[Case] = &[
    Case {
        keys: &["max-head-size"],
        before: "root = 'site'\nlive = 'local'\nmax-head-size = '16KiB'",
        after: "root = 'site'\nlive = 'local'\nmax-head-size = '1KiB'",
        check: |server, _, is_after| {
            let answer = asked(server, "/root.txt", &[("X", &"x".repeat(2_000))]);
            assert_eq!(answer.status, if is_after { 431 } else { 200 });
        },
    },
    Case {
        keys: &[
            "listing-readme",
            "listing-stylesheet",
            "listing-header",
            "listing-footer",
        ],
        before: "listing = true\nlisting-header = '<p>one'",
        after: "listing = true\nlisting-readme = false\nlisting-stylesheet = '/a.css'\nlisting-header = '<p>two'\n\
                listing-footer = '<p>end'",
        check: |server, _, is_after| {
            let text = asked(server, "/read/", &[]).text();
            for (part, is_seen) in [
                ("<p>one", !is_after),
                ("about this folder", !is_after),
                ("<p>two", is_after),
                ("<p>end", is_after),
                ("href=\"/a.css\"", is_after),
            ] {
                assert_eq!(text.contains(part), is_seen, "{part}: {text}");
            }
        },
    },
    Case {
        keys: &["max-fields"],
        before: "max-fields = 100",
        after: "max-fields = 10",
        check: |server, _, is_after| {
            let answer = asked(server, "/root.txt", &[("X", "x"); 20]);
            assert_eq!(answer.status, if is_after { 431 } else { 200 });
        },
    },
    Case {
        keys: &["max-target-length"],
        before: "max-target-length = '8KiB'",
        after: "max-target-length = 64",
        check: |server, _, is_after| {
            let answer = asked(server, &format!("/{}", "x".repeat(100)), &[]);
            assert_eq!(answer.status, if is_after { 414 } else { 404 });
        },
    },
    Case {
        keys: &["max-body-size"],
        before: "max-body-size = '1MiB'",
        after: "max-body-size = 10",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send(head("POST", "/root.txt", &[("Content-Length", "20")]) + "xxxxxxxxxxxxxxxxxxxx");
            assert_eq!(
                connection.receive("POST").status,
                if is_after { 413 } else { 405 }
            );
        },
    },
    Case {
        keys: &["max-ranges"],
        before: "max-ranges = 16",
        after: "max-ranges = 1",
        check: |server, _, is_after| {
            let answer = asked(server, "/long.txt", &[("Range", "bytes=0-0,5-5")]);
            assert_eq!(answer.status, if is_after { 200 } else { 206 });
        },
    },
    Case {
        keys: &["max-requests-per-connection"],
        before: "max-requests-per-connection = 0",
        after: "max-requests-per-connection = 3",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            let third = (0..3).map(|_| connection.get("/root.txt")).last();
            assert_eq!(third.expect("three answers").closes(), is_after);
        },
    },
    Case {
        keys: &["cache-file-size", "cache-files"],
        before: "cache-file-size = '16KiB'\ncache-files = 1000",
        after: "cache-file-size = 0\ncache-files = 1",
        check: |server, _, is_after| {
            // Where nothing tells of changes, files that were changed just now are not kept: so more than once.
            eventually("the cache is as it is to be", || {
                for number in 0..8 {
                    asked(server, &format!("/n{number}.txt"), &[]);
                }
                let (entries, open) = (
                    metric(server, "weir_cache_entries"),
                    metric(server, "weir_cache_descriptors"),
                );
                match is_after {
                    // In memory there is nothing, and each process that was asked has one open.
                    true => (1..=metric(server, "weir_processes"))
                        .contains(&open)
                        .then_some(()),
                    false => (open == 0 && entries >= 1).then_some(()),
                }
            });
        },
    },
];

/// What the cache may hold.
const CACHE: &[Case] = &[
    Case {
        keys: &["memory"],
        before: "memory = '1GiB'",
        after: "memory = '2GiB'",
        check: |server, _, is_after| {
            let listener = &server.started["listeners"][0];
            // Processes have equal parts.
            let parts = match listener["concurrency"].as_str() {
                Some("processes" | "process-loops") => listener["workers"].as_u64().expect("workers"),
                _ => 1,
            };
            let limit = if is_after { 2 << 30 } else { 1 << 30 } / parts;
            eventually("the memory limit in force", || {
                (metric(server, "weir_memory_limit_bytes") == limit).then_some(())
            });
        },
    },
    Case {
        keys: &["cache-size"],
        before: "root = 'site'\nlive = 'local'\ncache-size = '64MiB'",
        after: "root = 'site'\nlive = 'local'\ncache-size = '128KiB'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            let mut held = || {
                for number in 0..40 {
                    assert_eq!(connection.get(&format!("/n{number}.txt")).status, 200);
                }
                metric(server, "weir_cache_size_bytes")
            };
            // Other processes tell of themselves once a second.
            match is_after {
                true => eventually("the files have left", || (held() <= 128 << 10).then_some(())),
                false => eventually("the files are kept", || (held() > 256 << 10).then_some(())),
            }
        },
    },
    Case {
        keys: &["spa-fallback"],
        before: "spa-fallback = '/app.html'",
        after: "spa-fallback = false",
        check: |server, _, is_after| {
            let answer = asked(
                server,
                "/nowhere",
                &[("Accept", "text/html"), ("Sec-Fetch-Mode", "navigate")],
            );
            assert_eq!(answer.status, if is_after { 404 } else { 200 });
        },
    },
];

/// How long the server waits for a client. A connection of before the change is held to what is in force after it.
const TIMES: &[Case] = &[
    Case {
        keys: &["header-timeout"],
        before: "root = 'site'\nheader-timeout = '60s'",
        after: "root = 'site'\nheader-timeout = '300ms'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send("GET /root.txt HTTP/1.1\r\n");
            is_cut_off(&mut connection, is_after);
        },
    },
    Case {
        keys: &["body-timeout"],
        before: "body-timeout = '60s'",
        after: "body-timeout = '300ms'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send(head("POST", "/root.txt", &[("Content-Length", "20")]));
            is_cut_off(&mut connection, is_after);
        },
    },
    Case {
        keys: &["idle-timeout"],
        before: "idle-timeout = '60s'",
        after: "idle-timeout = '300ms'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            assert_eq!(connection.get("/root.txt").status, 200);
            is_cut_off(&mut connection, is_after);
        },
    },
    Case {
        keys: &["write-timeout"],
        before: "write-timeout = '60s'",
        after: "write-timeout = '300ms'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send(head("GET", "/large.bin", &[]));
            if is_after {
                within(NOTICED, "the kernel knows the connection no more", || {
                    (sockets_of(server, &mut connection) == 0).then_some(())
                });
            } else {
                std::thread::park_timeout(LONGER);
                assert_eq!(sockets_of(server, &mut connection), 1);
            }
        },
    },
    Case {
        keys: &["linger-timeout"],
        before: "linger-timeout = '60s'",
        after: "linger-timeout = '300ms'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send("nonsense\r\n\r\n");
            let (_, end) = connection.rest();
            assert_eq!(end, End::Closed, "its half");
            // What is sent to a connection that is closed as a whole is answered with a reset.
            let began = Instant::now();
            let span = if is_after { NOTICED } else { LONGER };
            let mut is_open = true;
            while is_open && began.elapsed() < span {
                is_open = connection.try_send("x");
                std::thread::park_timeout(Duration::from_millis(50));
            }
            assert_eq!(is_open, !is_after);
        },
    },
];

/// What a sender of a body owes, with a patience that is short already.
const RATES: &[Case] = &[
    Case {
        keys: &["min-body-rate"],
        before: "root = 'site'\nlive = 'local'\nbody-timeout = '300ms'\nmin-body-rate = 1",
        after: "root = 'site'\nlive = 'local'\nbody-timeout = '300ms'\nmin-body-rate = '1MB'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send(head("POST", "/root.txt", &[("Content-Length", "2000")]) + &"x".repeat(1_000));
            is_cut_off(&mut connection, is_after);
        },
    },
    Case {
        keys: &["min-send-rate"],
        before: "write-timeout = '5s'\nmin-send-rate = 0",
        after: "write-timeout = '5s'\nmin-send-rate = '1GB'",
        check: |server, _, is_after| {
            let mut connection = server.connect();
            connection.send(head("GET", "/large.bin", &[]));
            // It reads slowly, but it reads.
            let span = Duration::from_secs(if is_after { 40 } else { 9 });
            read_slowly(&mut connection, span, |connection| {
                sockets_of(server, connection) == 1
            });
            // The kernel's table is read while others come and go in it: one reading may miss a line or have it twice.
            within(NOTICED, "the connection is there or not", || {
                (sockets_of(server, &mut connection) == u32::from(!is_after)).then_some(())
            });
        },
    },
    Case {
        keys: &["cache-policy"],
        before: "cache-policy = 'lru'",
        after: "cache-policy = 'hinted'",
        check: |server, _, is_after| {
            assert_eq!(asked(server, "/page.html", &[]).status, 200);
            match is_after {
                true => eventually("what a page embeds is loaded ahead", || {
                    asked(server, "/page.html", &[]);
                    (metric(server, "weir_cache_ahead_total") > 0).then_some(())
                }),
                false => assert_eq!(metric(server, "weir_cache_ahead_total"), 0),
            }
        },
    },
];

/// How many may be there, and how often they may ask.
const CROWD: &[Case] = &[Case {
    keys: &["max-connections-per-address"],
    before: "root = 'site'\nmax-connections-per-address = 1000",
    after: "root = 'site'\nmax-connections-per-address = 4",
    check: |server, _, is_after| assert_eq!(stay(server, 8) <= 4, is_after),
}];
const PACE: &[Case] = &[Case {
    keys: &["max-request-rate", "max-request-burst"],
    before: "root = 'site'\nmax-request-rate = 0\nmax-request-burst = 100",
    after: "root = 'site'\nmax-request-rate = 1\nmax-request-burst = 2",
    check: |server, _, is_after| {
        let mut connection = server.connect();
        let mut is_refused = || connection.get("/root.txt").status == 429;
        match is_after {
            true => eventually("a request too many", || is_refused().then_some(())),
            false => assert!(!(0..10).any(|_| is_refused())),
        }
    },
}];
const ALL_IN_ALL: &[Case] = &[Case {
    keys: &["max-connections"],
    before: "root = 'site'\nmax-connections = 1000",
    after: "root = 'site'\nmax-connections = 4",
    check: |server, _, is_after| assert_eq!(stay(server, 8) <= 4, is_after),
}];

/// How it ends.
const END: &[Case] = &[Case {
    keys: &["grace", "drain-delay"],
    before: "root = 'site'\nhealth = true\ngrace = '60s'\ndrain-delay = 0",
    after: "root = 'site'\nhealth = true\ngrace = '1s'\ndrain-delay = '3s'",
    check: |server, _, is_after| {
        if !is_after {
            return;
        }
        // Of this nobody reads the end.
        let mut stuck = server.connect();
        stuck.send(head("GET", "/large.bin", &[]));
        assert_eq!(stuck.exactly(8), b"HTTP/1.1");
        server.signal("TERM");
        // Connections are taken while it says that it is not ready.
        let mut connection = server.connect();
        eventually("it is not ready", || {
            (connection.get("/readyz").status == 503).then_some(())
        });
        within(NOTICED, "its grace is over", || {
            (sockets_of(server, &mut stuck) == 0).then_some(())
        });
        let (_, end) = stuck.rest();
        assert_eq!(end, End::Reset, "what it did not take is dropped");
    },
}];

const PHASES: &[&[Case]] = &[SITE, SIZES, CACHE, TIMES, RATES, CROWD, PACE, ALL_IN_ALL, END];

/// Whether a connection ends within some seconds, as it is to, or stays.
fn is_cut_off(connection: &mut Connection, is_after: bool) {
    connection.patience(if is_after { NOTICED } else { LONGER });
    assert_eq!(connection.is_silent(), !is_after);
}

/// How many of so many connections are there after each of them has asked.
fn stay(server: &Server, count: usize) -> usize {
    let mut all: Vec<Connection> = (0..count).map(|_| server.connect()).collect();
    for connection in &mut all {
        if connection.try_send(head("GET", "/root.txt", &[])) {
            let _ = connection.try_receive("GET");
        }
    }
    let stays = |connection: &mut Connection| {
        connection.patience(Duration::from_millis(100));
        connection.is_silent()
    };
    all.iter_mut().filter_map(|one| stays(one).then_some(())).count()
}

/// Whether the kernel still has the server's end of a connection, in whatever state.
fn sockets_of(server: &Server, connection: &mut Connection) -> u32 {
    let client = connection.stream().local_addr().expect("an address").port();
    let (server, client) = (
        format!(":{:04X}", server.address.port()),
        format!(":{client:04X}"),
    );
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's connections");
    let is_it = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        local.ends_with(&server) && remote.ends_with(&client)
    };
    u32::try_from(table.lines().filter(is_it).count()).expect("few")
}

fn tree() -> Tree {
    let tree = Tree::with(&[
        ("site/root.txt", "1"),
        ("site2/root.txt", "2"),
        ("site/who.txt", "site"),
        ("home2/who.txt", "home"),
        ("home1/public_html/me.txt", "at home 1"),
        ("home2/public_html/me.txt", "at home 2"),
    ]);
    for site in ["site", "site2"] {
        for (name, text) in [
            ("dir/index.html", "index"),
            ("dir/home.html", "home"),
            ("bare/x.txt", "x"),
            ("read/README.md", "about this folder"),
            (".dot", "dot"),
            ("made.js", "let plain = 1;"),
            ("made.js.br", "sibling"),
            ("app.html", "app"),
            ("thing.odd", "odd"),
            ("lost.html", "lost"),
            ("gone.html", "gone"),
            ("page.html", "<img src=/embedded.txt>"),
            ("embedded.txt", "embedded"),
        ] {
            tree.write(&format!("{site}/{name}"), text);
        }
        tree.write(&format!("{site}/long.txt"), "Weirs regulate flows. ".repeat(200));
        tree.link(&format!("{site}/link.txt"), "root.txt");
    }
    for number in 0..40 {
        tree.write(&format!("site/n{number}.txt"), noise(10_000));
    }
    // Sparse: nine phases in nine ways to serve would write gigabytes.
    let large = File::create(tree.join("site/large.bin")).expect("our own file");
    large.set_len(32 << 20).expect("our own file");
    tree
}

fn configure(file: &Path, phase: &[Case], text: fn(&Case) -> &'static str) {
    // Single keys come before tables.
    let lines: Vec<&str> = phase.iter().map(text).collect();
    std::fs::write(file, lines.join("\n") + "\n").expect("our own file");
}

fn a_reload_changes_every_key_that_it_can(strategy: Strategy) {
    for phase in PHASES {
        let tree = tree();
        let file = tree.join("weir.toml");
        configure(&file, phase, |case| case.before);
        let server = Launch::new(strategy)
            .args(["--config".as_ref(), file.as_os_str()])
            .start();
        // This one is there already, and idle.
        let mut old = server.connect();
        assert_eq!(old.get("/root.txt").status, 200);
        for case in *phase {
            println!("{strategy:?}: {:?} before", case.keys);
            (case.check)(&server, &tree, false);
        }
        configure(&file, phase, |case| case.after);
        server.signal("HUP");
        eventually("it has reloaded", || {
            server.stderr().contains("reloaded").then_some(())
        });
        if phase.iter().any(|case| case.keys.contains(&"idle-timeout")) {
            old.patience(NOTICED);
            old.expect_close();
        }
        drop(old);
        for case in *phase {
            println!("{strategy:?}: {:?} after", case.keys);
            (case.check)(&server, &tree, true);
        }
    }
}

#[test]
fn every_key_is_accounted_for() {
    let unknown = toml::from_str::<server::config::Config>("no-such-key = 1").expect_err("an unknown key");
    let keys: BTreeSet<&str> = unknown.message().split('`').skip(3).step_by(2).collect();
    let seen = PHASES
        .iter()
        .flat_map(|phase| phase.iter())
        .flat_map(|case| case.keys);
    let all = seen.chain(&AT_START).chain(&UNSEEN).chain(&ELSEWHERE);
    let all: Vec<&str> = all.copied().collect();
    let known: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(known, keys);
    assert_eq!(all.len(), known.len(), "a key is of one kind");
}

/// What waits for the next start is compared with what is in force: changed back, there is nothing to wait for.
fn a_key_changed_and_changed_back_waits_for_nothing(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let reload = |server: &Server, listen: &str, said: &str| {
        let before = server.stderr().len();
        let text = format!(
            "root = 'site'\nsend-buffer = {listen}\npacing = {}\n",
            listen != "0"
        );
        std::fs::write(tree.join("weir.toml"), text).expect("our own file");
        server.signal("HUP");
        eventually(said, || {
            let all = server.stderr();
            let line = all[before..]
                .lines()
                .find(|line| line.contains("reloaded"))?
                .to_owned();
            assert_eq!(
                line.contains("send-buffer, pacing"),
                said.contains("wait"),
                "{line}"
            );
            Some(())
        });
    };
    std::fs::write(
        tree.join("weir.toml"),
        "root = 'site'\nsend-buffer = 0\npacing = false\n",
    )
    .expect("a file");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    reload(&server, "65536", "both wait for the next start");
    reload(&server, "65536", "both still wait");
    reload(&server, "0", "nothing is left to do");
}

// One of each way in which a new configuration reaches workers: threads with loops, threads that block, processes.
on_strategy!(loops, LOOPS: a_reload_changes_every_key_that_it_can, a_key_changed_and_changed_back_waits_for_nothing);
on_strategy!(loops_uring, LOOPS_URING: a_reload_changes_every_key_that_it_can);
on_strategy!(pool, POOL: a_reload_changes_every_key_that_it_can);
on_strategy!(process_loops, PROCESS_LOOPS: a_reload_changes_every_key_that_it_can);
on_strategy!(processes, PROCESSES: a_reload_changes_every_key_that_it_can, a_key_changed_and_changed_back_waits_for_nothing);
