//! A line whose rate was declared: what is sent keeps to it, and who has least left to be sent goes first.

use crate::serve::files::noise;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, head};
use std::io::Read;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: i32 = 2;
/// Bytes of content in a segment, and of headers around them.
const SEGMENT: u64 = 1448;
const HEADERS: u64 = 52;

/// What `content` takes of the line.
fn on_the_line(content: u64) -> u64 {
    content + content.div_ceil(SEGMENT) * HEADERS
}

fn served(strategy: Strategy, tree: &Tree, flags: &[&str]) -> Server {
    Launch::new(strategy)
        .root(tree.path())
        .args(["--compress=false", "--live"])
        .args(flags)
        .start()
}

/// The order is each worker's own.
fn one_worker(strategy: Strategy) -> Strategy {
    Strategy {
        workers: 1,
        ..strategy
    }
}

/// Asks for a large file and takes what comes of it, until `body` returns; `body` gets the count so far.
fn beside_a_large_answer<T>(server: &Server, body: impl FnOnce(&AtomicU64) -> T) -> T {
    let mut large = server.connect();
    large.send(head("GET", "/large.bin", &[]));
    large.exactly(1);
    let mut reader = large.stream().try_clone().expect("another handle");
    let count = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 65_536];
            // It ends with an error or with the end of file once this side is shut down.
            while let Ok(some @ 1..) = reader.read(&mut buffer) {
                count.fetch_add(some as u64, Ordering::Relaxed);
            }
        });
        let made = body(&count);
        large
            .stream()
            .shutdown(Shutdown::Both)
            .expect("an open connection");
        made
    })
}

/// However many ask and however many workers answer, in no time more leaves than the line carries in it.
fn what_is_sent_keeps_to_the_rate(strategy: Strategy) {
    let tree = Tree::new();
    tree.write("large.bin", noise(80_000));
    tree.write("small.bin", noise(9_000));
    let server = served(strategy, &tree, &["--line-rate", "4Mbit"]);
    let began = Instant::now();
    let mut connections: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send([head("GET", "/large.bin", &[]), head("GET", "/small.bin", &[])].concat());
    }
    let mut content = 0;
    for connection in &mut connections {
        for _ in 0..2 {
            content += connection.receive("GET").body.len() as u64;
        }
    }
    let took = began.elapsed().as_secs_f64();
    assert_eq!(content, 4 * 89_000);
    // A burst is four segments at this rate.
    let least = (on_the_line(content) - 4 * (SEGMENT + HEADERS)) as f64 / 500_000.0;
    assert!(
        took >= least,
        "{took} s for {content} bytes, which take {least} s"
    );
}

/// Bytes of a large answer that come while a smaller one is asked for and sent.
fn meanwhile(server: &Server) -> u64 {
    beside_a_large_answer(server, |count| {
        let mut other = server.connect();
        let before = count.load(Ordering::Relaxed);
        assert_eq!(other.get("/small.bin").body.len(), 100_000);
        count.load(Ordering::Relaxed) - before
    })
}

/// An answer of 100 kB that is asked for while a large one is being sent has seven eighths of the line; with `shared`
/// both have half of it. Who waits is on the metrics.
fn the_least_left_goes_first(strategy: Strategy) {
    let strategy = one_worker(strategy);
    let tree = Tree::new();
    tree.write("large.bin", noise(4_000_000));
    tree.write("small.bin", noise(100_000));
    let flags = ["--line-rate", "2Mbit"];
    let server = served(strategy, &tree, &flags);
    // What comes between the end of the one and the look at the other grows with what else this machine does.
    eventually("the line for the smaller answer", || {
        (meanwhile(&server) < 50_000).then_some(())
    });
    beside_a_large_answer(&server, |_| {
        eventually("the large answer to wait", || {
            let metrics = server.connect().get("/.weir/metrics").text();
            let value = |name: &str| -> f64 {
                let of = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
                let found = metrics.lines().find_map(of);
                found.unwrap_or_else(|| panic!("no {name} in {metrics}"))
            };
            let waits = value("weir_line_waiting ") >= 1.0 && value("weir_line_waiting_bytes ") > 1_000_000.0;
            let waited = value("weir_line_waits_total ") >= 2.0;
            (waits && waited && value("weir_line_wait_seconds_total ") > 0.1).then_some(())
        });
    });
    drop(server);
    let server = served(
        strategy,
        &tree,
        &[&flags[..], &["--line-order", "shared"]].concat(),
    );
    // A reader that the system keeps off a processor meanwhile has counted too few.
    let mut came = Vec::new();
    let is_half = (0..5).any(|_| {
        came.push(meanwhile(&server));
        came.last() > Some(&70_000)
    });
    assert!(is_half, "{came:?} bytes of the other, where both have half");
}

/// While small answers keep coming a large one gets an eighth of the line, and with that it is sent in the end.
fn a_large_answer_does_not_starve(strategy: Strategy) {
    let strategy = one_worker(strategy);
    let tree = Tree::new();
    tree.write("large.bin", noise(60_000));
    tree.write("small.bin", noise(2_000));
    let server = served(strategy, &tree, &["--line-rate", "4Mbit"]);
    let (is_over, small) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = AtEnd(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = server.connect();
                while !is_over.load(Ordering::Relaxed) {
                    connection.get("/small.bin");
                    small.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        eventually("small answers under way", || {
            (small.load(Ordering::Relaxed) > 8).then_some(())
        });
        // Seven times what it takes itself, with its head, and what others had begun with before it.
        let most = 7 * (on_the_line(60_300) + 4 * on_the_line(2_200)) + 8 * (SEGMENT + HEADERS);
        // On a busy machine small answers come between the count and the question, or too few are asked for: one of ten
        // tries is as it should be.
        let mut all = Vec::new();
        let is_fair = (0..10).any(|_| {
            let before = small.load(Ordering::Relaxed);
            assert_eq!(server.connect().get("/large.bin").body.len(), 60_000);
            let others = (small.load(Ordering::Relaxed) - before) * on_the_line(2_200);
            all.push(others);
            others > 30_000 && others <= most
        });
        assert!(
            is_fair,
            "{all:?} bytes before it: more than 30,000 and at most {most}"
        );
    });
}

/// Set when this is dropped, by a panic as well: threads that go on until then end, and their scope with them.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks for the large file, and for the connection to be closed behind it.
fn ask_for_large(server: &Server) -> Connection {
    let mut connection = server.connect();
    connection.send(head("GET", "/large.bin", &[("Connection", "close")]));
    connection
}

/// An answer that waits its turn for longer than `--write-timeout` is sent all the same: its client is not slow.
fn who_waits_for_the_line_is_not_given_up(strategy: Strategy) {
    let strategy = one_worker(strategy);
    let tree = Tree::new();
    tree.write("large.bin", noise(900_000));
    let flags = ["--line-rate", "8Mbit", "--write-timeout", "500ms"];
    let server = served(strategy, &tree, &flags);
    let clients = [(); 3].map(|()| ask_for_large(&server));
    let came = std::thread::scope(|scope| {
        let threads = clients.map(|mut client| scope.spawn(move || client.rest().0.len()));
        threads.map(|thread| thread.join().expect("a reader"))
    });
    assert!(came.iter().all(|&came| came > 900_000), "{came:?}");
}

/// Who is offered bytes and takes none has `--write-timeout`, as ever.
fn who_takes_nothing_is_given_up(strategy: Strategy) {
    let tree = Tree::new();
    tree.write("large.bin", noise(32 << 20));
    let flags = ["--line-rate", "1Gbit", "--write-timeout", "300ms"];
    let server = served(one_worker(strategy), &tree, &flags);
    let mut stuck = ask_for_large(&server);
    // Without the flag, after 30 seconds.
    within(Duration::from_secs(20), "a timeout", || {
        let metrics = server.connect().get("/.weir/metrics").text();
        metrics
            .contains("\nweir_timeouts_total{worker=\"0\"} 1\n")
            .then_some(())
    });
    assert!(stuck.rest().0.len() < 32 << 20);
}

/// Nobody waits for the line for ever: twenty times `--write-timeout` at a stretch is too long.
fn who_waits_for_the_line_too_long_is_given_up(strategy: Strategy) {
    let tree = Tree::new();
    tree.write("large.bin", noise(4_000_000));
    let flags = ["--line-rate", "1Mbit", "--write-timeout", "100ms"];
    let server = served(one_worker(strategy), &tree, &flags);
    beside_a_large_answer(&server, |_| {
        // One gets an eighth of the line, and two nothing.
        let _others = [(); 2].map(|()| ask_for_large(&server));
        let began = Instant::now();
        let mut last = ask_for_large(&server);
        assert_eq!(last.rest().0.len(), 0);
        assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
    });
}

fn closing_gives_the_line_back(strategy: Strategy) {
    let strategy = one_worker(strategy);
    let tree = Tree::new();
    tree.write("large.bin", noise(4_000_000));
    tree.write("small.bin", noise(2_000));
    let server = served(strategy, &tree, &["--line-rate", "2Mbit"]);
    for _ in 0..8 {
        let mut large = server.connect();
        large.send(head("GET", "/large.bin", &[]));
        large.exactly(1);
    }
    eventually("nobody to wait but who asks", || {
        let metrics = server.connect().get("/.weir/metrics").text();
        metrics.contains("\nweir_line_waiting 0\n").then_some(())
    });
    assert_eq!(server.connect().get("/small.bin").body.len(), 2_000);
}

macro_rules! where_output_waits_in_order {
    ($($name:ident),* $(,)?) => {
        on_strategy!(loops, LOOPS: $($name),*);
        on_strategy!(one_loop, ONE_LOOP: $($name),*);
        on_strategy!(loops_uring, LOOPS_URING: $($name),*);
        on_strategy!(one_loop_uring, ONE_LOOP_URING: $($name),*);
    };
}

where_output_waits_in_order!(
    what_is_sent_keeps_to_the_rate,
    the_least_left_goes_first,
    a_large_answer_does_not_starve,
    who_waits_for_the_line_is_not_given_up,
    who_takes_nothing_is_given_up,
    who_waits_for_the_line_too_long_is_given_up,
    closing_gives_the_line_back,
);

#[test]
fn where_nobody_orders_what_is_sent_a_rate_is_refused() {
    for strategy in [
        Strategy::PROCESS_LOOPS,
        Strategy::POOL,
        Strategy::PER_CONNECTION,
        Strategy::PER_REQUEST,
        Strategy::PROCESSES,
    ] {
        for check in [&[][..], &["--check"]] {
            let launch = Launch::new(strategy).args(["--line-rate", "20Mbit"]).args(check);
            let (code, text) = launch.fail();
            assert_eq!(code, USAGE, "{text}");
            for part in [
                "`--line-rate 20 Mbit/s`",
                strategy.concurrency,
                "use `--concurrency loops` or `loop`",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}

#[test]
fn a_rate_or_an_order_that_cannot_be_is_named_where_it_stands() {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    for (lines, blames) in [
        ("line-rate = '20 potatoes'", "weir.toml:2: `line-rate`: "),
        (
            "line-rate = '1k'",
            "weir.toml:2: `line-rate`: 1 kbit/s is not a valid line rate",
        ),
        (
            "line-order = 'shared'",
            "weir.toml:2: `line-order`: the order has an effect only with",
        ),
        (
            "line-rate = '20M'\nline-order = 'largest'",
            "weir.toml:3: `line-order`: ",
        ),
        (
            "line-rate = '20M'\nconcurrency = 'pool'",
            "weir.toml:2: `line-rate = \"20 Mbit/s\"` needs",
        ),
    ] {
        tree.write("weir.toml", format!("root = 'site'\n{lines}\n"));
        let file = tree.join("weir.toml").display().to_string();
        let (code, text) = Launch::bare().args(["--check", "--config", &file]).fail();
        assert_eq!(code, USAGE, "{lines}: {text}");
        assert!(text.contains(blames), "{lines}: {text}");
    }
}

#[test]
fn another_rate_needs_a_restart_and_another_strategy_that_cannot_is_refused() {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let write = |rate: &str| {
        tree.write(
            "weir.toml",
            format!("root = 'site'\nlisten = '127.0.0.1:0'\nline-rate = '{rate}'\ncontrol = 'control'\n"),
        )
    };
    let file = write("20Mbit");
    let server = Launch::bare()
        .args(["--config".as_ref(), file.as_os_str()])
        .start();
    write("30Mbit");
    server.signal("HUP");
    eventually("the key in the log", || {
        server.stderr().contains("line-rate").then_some(())
    });
    let control = tree.join("control").display().to_string();
    let asked = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["ctl", "--socket", &control, "strategy", "pool"])
        .output()
        .expect("the binary cargo just built");
    assert!(!asked.status.success());
    let text = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(text.contains("line-rate"), "{text}");
    assert_eq!(server.connect().get("/a.txt").status, 200);
}
