//! The common behavior of every strategy, on real sockets.
//!
//! Nothing here sleeps: a test waits for bytes, for an end of input, or for a condition that another thread makes true,
//! each with a timeout that only a failure reaches.
use crate::fs::tests::Temp;
use crate::fs::{How, Root, Symlinks, Wait};
use crate::listen::{Listener, Listening};
use crate::session::Loss;
use crate::strategy::{COMBINATIONS, Concurrency, Handle, Io, Limits, Strategy, serve, try_uring};
use crate::toy::{Seen, Toy};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use units::Duration;
use units::Word as _;

const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    handle: Option<Handle>,
    address: SocketAddr,
    toy: Toy,
    strategy: Strategy,
}

impl Server {
    fn start(strategy: Strategy, toy: Toy, limits: Limits) -> Server {
        // Clients of these tests connect first and send later, which deferred accept would hide.
        let how = Listening {
            defer_accept: false,
            ..Listening::default()
        };
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), how).unwrap();
        let address = listener.address().tcp().unwrap();
        let handle = serve(strategy, &[listener], &Arc::new(toy.clone()), limits).unwrap();
        Server {
            handle: Some(handle),
            address,
            toy,
            strategy,
        }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_write_timeout(Some(PATIENCE)).unwrap();
        client
    }

    fn handle(&self) -> &Handle {
        self.handle.as_ref().unwrap()
    }

    fn seen<T>(&self, look: impl Fn(&Seen) -> T) -> T {
        look(&self.toy.seen.lock().unwrap())
    }

    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        until(&format!("{what}, {:?}", self.strategy), &mut done);
    }

    fn end(mut self) {
        let handle = self.handle.take().unwrap();
        handle.drain(Duration::from_millis(500));
        handle.join().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.stop();
        }
    }
}

fn until(what: &str, done: &mut dyn FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}

/// Every strategy, with enough workers to show its nature. With tiny rings, only those that use a ring.
fn strategies() -> impl Iterator<Item = Strategy> {
    let refused = try_uring()
        .inspect_err(|why| println!("skipped uring: {why}"))
        .is_err();
    let tiny = crate::io::uring::tests::tiny();
    let possible = move |(_, io): &(Concurrency, Io)| match io {
        Io::Uring => !refused,
        Io::Epoll | Io::Blocking => !tiny,
    };
    COMBINATIONS
        .into_iter()
        .filter(possible)
        .map(|(concurrency, io)| {
            let workers = match concurrency {
                Concurrency::Loop => 1,
                Concurrency::Loops | Concurrency::ProcessLoops => 2,
                Concurrency::Pool | Concurrency::Processes => 4,
                Concurrency::ThreadPerConnection | Concurrency::ThreadPerRequest => 16,
            };
            Strategy::new(concurrency, io, NonZeroUsize::new(workers).unwrap()).unwrap()
        })
}

fn each(toy: impl Fn() -> Toy, test: impl Fn(&Server)) {
    for strategy in strategies() {
        println!("{strategy:?}");
        let server = Server::start(strategy, toy(), Limits::default());
        test(&server);
        server.end();
    }
}

/// As `each`, with all strategies at once: for tests that mostly wait.
fn each_at_once(toy: impl Fn() -> Toy + Sync, test: impl Fn(&Server) + Sync) {
    std::thread::scope(|scope| {
        for strategy in strategies() {
            let (toy, test) = (&toy, &test);
            scope.spawn(move || {
                println!("{strategy:?}");
                let server = Server::start(strategy, toy(), Limits::default());
                test(&server);
                server.end();
            });
        }
    });
}

fn read_exactly(mut client: &TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

fn read_to_end(mut client: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

fn send(mut client: &TcpStream, text: &str) {
    client.write_all(text.as_bytes()).unwrap();
}

fn ask(client: &TcpStream, line: &str, answer: &str) {
    send(client, line);
    assert_eq!(
        String::from_utf8(read_exactly(client, answer.len())).unwrap(),
        answer
    );
}

#[test]
fn pipelined_lines_are_answered_in_order() {
    each(Toy::default, |server| {
        let client = server.connect();
        let lines: String = (0..2000).map(|i| format!("echo {i}\n")).collect();
        let answers: String = (0..2000).map(|i| format!("{i}\n")).collect();
        ask(&client, &lines, &answers);
        ask(&client, "echo one more\n", "one more\n");
        for byte in "echo byte by byte\n".chars() {
            send(&client, &byte.to_string());
        }
        assert_eq!(read_exactly(&client, 13), b"byte by byte\n");
    });
}

#[test]
fn jobs_run_where_they_may_block() {
    each(Toy::default, |server| {
        let client = server.connect();
        ask(&client, "now 1\nlater 2\necho 3\nlater 4\n", "1\n2\n3\n4\n");
        let threads = server.seen(|seen| seen.job_threads.clone());
        let offloaded: u64 = server.handle().counts().map(|counts| counts.offloaded).sum();
        match server.strategy.io() {
            Io::Blocking => assert_eq!(offloaded, 0),
            Io::Epoll | Io::Uring => {
                assert_eq!((offloaded, &threads[0]), (2, &None));
                assert!(
                    threads[1].as_ref().unwrap().starts_with("weir-blocking-"),
                    "{threads:?}"
                );
            }
        }
    });
}

#[test]
fn more_jobs_than_hands_wait_their_turn() {
    for strategy in strategies().filter(|s| s.io() != Io::Blocking) {
        let limits = Limits {
            blocking_threads: 1,
            ..Limits::default()
        };
        let server = Server::start(strategy, Toy::default(), limits);
        let clients: Vec<_> = (0..64).map(|_| server.connect()).collect();
        for client in &clients {
            send(client, "later x\n");
        }
        for client in &clients {
            assert_eq!(read_exactly(client, 2), b"x\n");
        }
        assert_eq!(server.handle().crew_queue_depth(), 0);
        server.end();
    }
}

#[test]
fn big_answers_to_slow_readers_arrive_whole_and_hold_nobody_up() {
    const BIG: usize = 24 << 20;
    each(Toy::default, |server| {
        let (slow, other) = (server.connect(), server.connect());
        send(&slow, &format!("big {BIG}\necho end\n"));
        server.until("the sender to be blocked", || {
            server.seen(|seen| seen.progress > 0)
        });
        ask(&other, "echo quick\n", "quick\n");
        let got = read_exactly(&slow, BIG + 4);
        assert!(got[..BIG].iter().all(|&b| b == b'x'));
        assert_eq!(&got[BIG..], b"end\n");
    });
}

#[test]
fn a_client_that_half_closes_first_gets_its_whole_answer() {
    each(Toy::default, |server| {
        let client = server.connect();
        send(&client, "big 3000000\nlater x\necho end\n");
        client.shutdown(Shutdown::Write).unwrap();
        let got = read_to_end(&client);
        assert_eq!((got.len(), &got[3_000_000..]), (3_000_006, &b"x\nend\n"[..]));
        server.until("the connection to be closed", || {
            server.seen(|seen| seen.closed == 1)
        });
    });
}

#[test]
fn the_last_answer_survives_a_client_that_goes_on_sending() {
    each(Toy::default, |server| {
        let client = server.connect();
        send(&client, "bye\n");
        assert_eq!(read_exactly(&client, 4), b"bye\n");
        send(&client, &"x".repeat(100_000));
        assert_eq!(read_to_end(&client), b"");
        assert_eq!(
            server.seen(|seen| seen.closed),
            0,
            "it waits for the client's end"
        );
        client.shutdown(Shutdown::Write).unwrap();
        server.until("the connection to be closed", || {
            server.seen(|seen| seen.closed == 1)
        });
        assert_eq!(server.seen(|seen| seen.losses.clone()), []);
    });
}

#[test]
fn a_client_that_never_stops_sending_is_cut_off() {
    each(Toy::default, |server| {
        let mut client = server.connect();
        send(&client, "bye\n");
        let error = loop {
            if let Err(error) = client.write_all(&[b'x'; 65_536]) {
                break error;
            }
        };
        assert!(
            matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
            "{error}"
        );
        server.until("the connection to be closed", || {
            server.seen(|seen| seen.closed == 1)
        });
    });
}

#[test]
fn deadlines_fire_on_idle_and_on_stuck_connections() {
    let toy = || Toy {
        idle: Some(Duration::from_millis(300)),
        ..Toy::default()
    };
    each(toy, |server| {
        let (idle, stuck) = (server.connect(), server.connect());
        send(&stuck, "big 50000000\n");
        assert_eq!(read_to_end(&idle), b"timeout\n");
        server.until("both to be closed", || server.seen(|seen| seen.closed == 2));
        drop(stuck);
    });
}

#[test]
fn a_reset_is_a_loss_and_nothing_else() {
    each(Toy::default, |server| {
        let (reading, sending) = (server.connect(), server.connect());
        send(&sending, "big 50000000\n");
        server.until("the sender to be blocked", || {
            server.seen(|seen| seen.progress > 0)
        });
        for client in [reading, sending] {
            socket2::SockRef::from(&client)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        }
        server.until("both to be lost", || server.seen(|seen| seen.closed == 2));
        let losses = server.seen(|seen| seen.losses.clone());
        assert_eq!(losses.len(), 2);
        assert!(
            losses.iter().all(|loss| matches!(loss, Loss::Socket(_))),
            "{losses:?}"
        );
    });
}

#[test]
fn a_panic_loses_one_connection_and_no_other() {
    each(Toy::default, |server| {
        let (bad, worse, good) = (server.connect(), server.connect(), server.connect());
        send(&bad, "panic\n");
        send(&worse, "jobpanic\n");
        assert_eq!(read_to_end(&bad), b"");
        assert_eq!(read_to_end(&worse), b"");
        ask(&good, "echo fine\n", "fine\n");
        server.until("one to be left", || server.handle().open() == 1);
    });
}

#[test]
fn a_worker_that_panics_is_replaced_and_its_connections_give_their_places_back() {
    each_at_once(Toy::default, |server| {
        let victim = server.connect();
        ask(&victim, "echo here\n", "here\n");
        for round in 0..3 {
            let bad = server.connect();
            send(&bad, "poison\n");
            // Its worker's next turn may be a second away.
            send(&bad, "echo x\n");
            server.until("the panic", || server.seen(|seen| seen.panics > round));
            let next = server.connect();
            ask(&next, &format!("echo {round}\n"), &format!("{round}\n"));
        }
        drop(victim);
        server.until("all places to be free", || server.handle().open() == 0);
        // A worker that dies while the strategy ends is a failure of the whole.
        let lives_shortly = matches!(
            server.strategy.concurrency(),
            Concurrency::ThreadPerConnection | Concurrency::ThreadPerRequest
        );
        server.until("the dead to be replaced", || {
            lives_shortly || server.handle().replaced() == 3
        });
        assert!(!server.handle().is_finished());
    });
}

fn with_file(dir: &Temp, len: usize) -> Toy {
    let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    dir.write("f", &bytes);
    let root = Root::open(dir.path()).unwrap();
    let file = root
        .open_file(
            b"f",
            How {
                symlinks: Symlinks::Refuse,
                wait: Wait::Block,
            },
        )
        .unwrap();
    Toy {
        file: Some(Arc::new(file)),
        ..Toy::default()
    }
}

#[test]
fn files_are_sent_whole_whether_in_memory_or_not() {
    const LEN: usize = 9 << 20;
    let dir = Temp::new();
    each(
        || with_file(&dir, LEN),
        |server| {
            let client = server.connect();
            let file = server.toy.file.as_ref().unwrap();
            rustix::fs::fsync(file).unwrap();
            let is_in_memory = || file.is_resident(0, LEN as u64);
            // How many reads had to wait for the disk.
            let ask_for_it = || -> u64 {
                let cold = || -> u64 { server.handle().counts().map(|counts| counts.cold_reads).sum() };
                let before = cold();
                send(&client, &format!("file {LEN}\necho end\n"));
                let got = read_exactly(&client, 5 + LEN + 4);
                assert!(
                    got[5..5 + LEN]
                        .iter()
                        .enumerate()
                        .all(|(i, &b)| b == (i % 251) as u8)
                );
                assert_eq!(&got[5 + LEN..], b"end\n");
                cold() - before
            };
            let was_in_memory = is_in_memory();
            let cold = ask_for_it();
            // A machine that is short of memory may have taken it back meanwhile.
            if was_in_memory && is_in_memory() {
                assert_eq!(cold, 0, "{:?}", server.strategy);
            }
            // The look at what is in memory may make the kernel read the rest before the server looks.
            let is_blocking = server.strategy.io() == Io::Blocking;
            let mut forgotten = 0;
            let has_waited = (0..if is_blocking { 1 } else { 20 }).any(|_| {
                file.cool();
                forgotten += u32::from(!is_in_memory());
                ask_for_it() > 0
            });
            match is_blocking {
                true => assert!(!has_waited, "who blocks waits where it reads"),
                false if forgotten == 0 => println!("skipped: this file system forgets nothing"),
                false => assert!(has_waited, "{:?}: a helper reads what is cold", server.strategy),
            }
        },
    );
}

#[test]
fn a_file_cut_while_it_is_sent_is_a_loss() {
    const LEN: usize = 32 << 20;
    let dir = Temp::new();
    each(
        || with_file(&dir, LEN),
        |server| {
            let client = server.connect();
            send(&client, &format!("file {LEN}\n"));
            server.until("the sender to be blocked", || {
                server.seen(|seen| seen.progress > 0)
            });
            let path = dir.path().join("f");
            std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(10)
                .unwrap();
            assert!(read_to_end(&client).len() < LEN);
            server.until("the loss", || server.seen(|seen| seen.losses == [Loss::File(0)]));
        },
    );
}

#[test]
fn draining_answers_the_backlog_lets_the_busy_finish_and_closes_the_idle() {
    for strategy in strategies() {
        let server = Server::start(strategy, Toy::default(), Limits::default());
        let (idle, busy) = (server.connect(), server.connect());
        ask(&idle, "echo x\n", "x\n");
        send(&busy, "big 20000000\n");
        server.until("the sender to be blocked", || {
            server.seen(|seen| seen.progress > 0)
        });
        let handle = server.handle();
        handle.drain(PATIENCE);
        assert_eq!(read_to_end(&idle), b"");
        let refused = || TcpStream::connect(server.address).is_err();
        // Busy threads stop listening when they are done; the test's own listener is dropped.
        assert_eq!(read_to_end(&busy).len(), 20_000_000);
        server.until("the threads to end", || server.handle().is_finished());
        server.until("the port to be closed", refused);
        server.end();
    }
}

#[test]
fn draining_ends_when_patience_does_and_patience_can_be_cut_short() {
    for strategy in strategies() {
        let server = Server::start(strategy, Toy::default(), Limits::default());
        let stuck = server.connect();
        send(&stuck, "big 50000000\n");
        server.until("the sender to be blocked", || {
            server.seen(|seen| seen.progress > 0)
        });
        server.handle().drain(Duration::from_secs(3600));
        assert!(!server.handle().is_finished());
        server.handle().stop();
        server.until("the threads to end", || server.handle().is_finished());
        server.end();
    }
}

#[test]
fn connections_past_the_limit_wait_and_are_served_when_others_leave() {
    for strategy in strategies() {
        let limits = Limits {
            connections_max: 3,
            ..Limits::default()
        };
        let server = Server::start(strategy, Toy::default(), limits);
        let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
        for (i, client) in clients.iter().enumerate() {
            send(client, &format!("echo {i:02}\n"));
        }
        let mut served = 0;
        while !clients.is_empty() {
            assert!(
                server.handle().open() <= 4,
                "a worker each may exceed the limit by one"
            );
            let before = clients.len();
            clients.retain(|client| {
                client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                match (&*client).read(&mut [0; 3]) {
                    Ok(3) => false,
                    Ok(_) => panic!("closed unserved"),
                    Err(e) => {
                        assert!(
                            // A wait with a timeout is not restarted after a signal meant for others.
                            matches!(
                                e.kind(),
                                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                            ),
                            "{e}"
                        );
                        true
                    }
                }
            });
            served += before - clients.len();
        }
        assert_eq!(served, 12);
        server.end();
    }
}

#[test]
fn a_strategy_hands_its_listener_to_the_next_without_refusing_anyone() {
    let how = Listening {
        defer_accept: false,
        ..Listening::default()
    };
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), how).unwrap();
    let address = listener.address().tcp().unwrap();
    for strategy in strategies() {
        let listeners = [listener.clone()];
        let handle = serve(strategy, &listeners, &Arc::new(Toy::default()), Limits::default()).unwrap();
        let client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        ask(&client, "echo x\n", "x\n");
        handle.drain(PATIENCE);
        handle.join().unwrap();
    }
    TcpStream::connect(address).expect("the socket outlives its strategies");
}

#[test]
fn several_addresses_are_served_by_one_strategy() {
    let how = Listening::default();
    let mut listeners = vec![Listener::bind("127.0.0.1:0".parse().unwrap(), how).unwrap()];
    match Listener::bind("[::1]:0".parse().unwrap(), how) {
        Ok(six) => listeners.push(six),
        Err(e) => println!("skipped IPv6: {e}"),
    }
    for strategy in strategies() {
        let handle = serve(strategy, &listeners, &Arc::new(Toy::default()), Limits::default()).unwrap();
        for listener in &listeners {
            let client = TcpStream::connect(listener.address()).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            ask(&client, "echo x\n", "x\n");
        }
        handle.drain(PATIENCE);
        handle.join().unwrap();
    }
}

/// Names the I/O back end in the child process that runs one test with few descriptors.
const FEW: &str = "RUNTIME_TEST_FEW_DESCRIPTORS";

#[test]
fn out_of_descriptors_the_served_stay_served_and_the_rest_wait() {
    let name = "concurrency::tests::with_few_descriptors";
    for io in [Io::Epoll, Io::Uring] {
        if let (Io::Uring, Err(why)) = (io, try_uring()) {
            println!("skipped uring: {why}");
            continue;
        }
        let exe = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(exe);
        let output = child
            .args(["--exact", name, "--nocapture"])
            .env(FEW, io.word())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{io}: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(text.contains("ran with few descriptors"), "{io}: {text}");
    }
}

#[test]
fn with_few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Ok(io) = std::env::var(FEW) else {
        return; // `out_of_descriptors_...` runs it in a process of its own.
    };
    let strategy = Strategy::new(Concurrency::Loop, io.parse().unwrap(), NonZeroUsize::MIN).unwrap();
    // Client sockets are created first, so that only the server's side runs out.
    let mut made: Vec<socket2::Socket> = (0..41)
        .map(|_| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap())
        .collect();
    let maximum = getrlimit(Resource::Nofile).maximum;
    let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    // Before the start: a ring's accept uses the limit in force when it was armed.
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(used + 14),
            maximum,
        },
    )
    .unwrap();
    let server = Server::start(strategy, Toy::default(), Limits::default());
    let connect = |socket: socket2::Socket| {
        socket.connect(&server.address.into()).unwrap();
        TcpStream::from(socket)
    };
    let first = connect(made.pop().unwrap());
    ask(&first, "echo first\n", "first\n");
    let waiting: Vec<TcpStream> = made.into_iter().map(connect).collect();
    let errors = || {
        server
            .handle()
            .counts()
            .map(|counts| counts.accept_errors)
            .sum::<u64>()
    };
    server.until("descriptors to run out", || errors() > 0);
    ask(&first, "echo still here\n", "still here\n");
    let before = errors();
    let start = std::time::Instant::now();
    server.until("another try", || errors() > before + 1);
    assert!(start.elapsed() > Duration::from_millis(100), "it does not spin");
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .unwrap();
    for client in &waiting {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        ask(client, "echo at last\n", "at last\n");
    }
    server.end();
    println!("ran with few descriptors");
}

#[test]
fn an_idle_connection_costs_the_driver_little() {
    use crate::concurrency::worker::Worker;
    use crate::io::epoll::Epoll;
    use crate::io::uring::Uring;
    let (worker, backend) = (Worker::<Toy, Epoll>::conn_size(), Epoll::conn_size());
    let uring = Uring::conn_size();
    println!(
        "per idle connection, besides the session: worker {worker} B, epoll {backend} B, uring {uring} B"
    );
    assert!(
        worker + backend.max(uring) <= 88,
        "{worker} + {backend} or {uring}"
    );
    assert!(worker + backend <= 40, "{worker} + {backend}");
}

/// Every strategy answers a request whose disk hangs without the file, and no connection gets another job's result.
#[test]
fn a_job_that_takes_too_long_is_given_up_and_what_it_brings_is_dropped() {
    let toy = || Toy {
        patience: Some(Duration::from_secs(3)),
        ..Toy::default()
    };
    each_at_once(toy, |server| {
        let client = server.connect();
        ask(&client, "stuck first\n", "late\n");
        ask(&client, "echo and on\n", "and on\n");
        // The same connection waits for its second job when the first ends.
        send(&client, "stuck second\necho end\n");
        server.toy.latch.open();
        assert_eq!(read_exactly(&client, 11), b"second\nend\n");
        server.until("both jobs to end", || server.seen(|seen| seen.jobs_done == 2));
        assert_eq!(server.seen(|seen| (seen.job_threads.len(), seen.closed)), (1, 0));
    });
}

/// A blocking worker returns from a job that hangs and can serve others.
#[test]
fn jobs_that_hang_do_not_take_the_workers() {
    let toy = || Toy {
        patience: Some(Duration::from_secs(1)),
        ..Toy::default()
    };
    each_at_once(toy, |server| {
        for _ in 0..3 {
            let hung: Vec<_> = (0..4).map(|_| server.connect()).collect();
            hung.iter().for_each(|client| send(client, "stuck x\n"));
            for client in hung {
                assert_eq!(read_exactly(&client, 5), b"late\n");
            }
        }
        ask(&server.connect(), "echo here\nnow 1\n", "here\n1\n");
        server.toy.latch.open();
    });
}

#[test]
fn a_job_that_nobody_waits_for_any_more_is_not_begun() {
    for strategy in strategies().filter(|s| s.io() != Io::Blocking) {
        let toy = Toy {
            patience: Some(Duration::from_secs(1)),
            ..Toy::default()
        };
        let limits = Limits {
            blocking_threads: 1,
            ..Limits::default()
        };
        let server = Server::start(strategy, toy, limits);
        let (first, second) = (server.connect(), server.connect());
        send(&first, "stuck 1\n");
        send(&second, "stuck 2\n");
        for client in [&first, &second] {
            assert_eq!(read_exactly(client, 5), b"late\n");
        }
        server.toy.latch.open();
        // Queued behind both.
        ask(&first, "later 3\n", "3\n");
        assert_eq!(server.seen(|seen| seen.jobs_done), 1, "{strategy:?}");
        server.end();
    }
}

/// A kernel accepts more for a send buffer only when a third of it is free. A slow reader therefore seems to take
/// nothing for longer than the deadline, although it takes data all the time.
#[test]
fn who_reads_slowly_is_not_who_reads_nothing() {
    let toy = || Toy {
        idle: Some(Duration::from_secs(3)),
        ..Toy::default()
    };
    each_at_once(toy, |server| {
        let mut client = server.connect();
        send(&client, "big 60000000\n");
        let mut buf = vec![0; 32 << 10];
        let began = std::time::Instant::now();
        let mut got = 0;
        // Some 300 KB/s, four deadlines long.
        while began.elapsed() < 4 * Duration::from_secs(3) {
            while got < began.elapsed().as_millis() * 300 {
                client.read_exact(&mut buf).unwrap();
                got += buf.len() as u128;
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        let (taken, closed) = server.seen(|seen| (seen.taken.clone(), seen.closed));
        assert_eq!(closed, 0, "{:?}: {taken:?}", server.strategy);
        let most = taken.iter().map(|taken| taken.bytes).max();
        assert!(most > Some(0), "{:?}: {taken:?}", server.strategy);
        // Now it reads nothing: the connection is reset, and the kernel keeps none of its data.
        server.until("it is given up", || server.seen(|seen| seen.closed == 1));
        let error = loop {
            match client.read(&mut buf) {
                Ok(0) => panic!("{:?}: closed in order", server.strategy),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{:?}", server.strategy);
    });
}

/// Every call of a worker reaches the service's own context, even through a wrapper.
#[test]
fn a_shared_context_passes_on_what_it_is_told_and_asked() {
    let toy = || Toy {
        timed: true,
        ..Toy::default()
    };
    each_at_once(toy, |server| {
        let idle: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for client in &idle {
            ask(client, "echo x\n", "x\n");
        }
        server.until("turns to be timed", || server.seen(|seen| seen.rests > 0));
        let before = server.seen(|seen| seen.reconsidered);
        server
            .toy
            .bounds
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        server.until("all to reconsider", || {
            server.seen(|seen| seen.reconsidered >= before + idle.len())
        });
    });
}

#[test]
fn connections_are_counted_by_the_listener_they_came_from() {
    for strategy in strategies() {
        let how = Listening {
            defer_accept: false,
            ..Listening::default()
        };
        let listeners = [(); 2].map(|()| Listener::bind("127.0.0.1:0".parse().unwrap(), how).unwrap());
        let addresses = listeners.each_ref().map(Listener::address);
        let handle = serve(strategy, &listeners, &Arc::new(Toy::default()), Limits::default()).unwrap();
        drop(listeners);
        let connect = |at: usize| {
            let client = TcpStream::connect(&addresses[at]).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            ask(&client, "echo x\n", "x\n");
            client
        };
        let (first, second) = ([connect(0), connect(0)], connect(1));
        assert_eq!((handle.open_at(0), handle.open_at(1)), (2, 1), "{strategy:?}");
        drop(first);
        until("two to be gone", &mut || handle.open_at(0) == 0);
        assert_eq!((handle.open_at(1), handle.open()), (1, 1), "{strategy:?}");
        drop(second);
        handle.stop();
        handle.join().unwrap();
    }
}

#[test]
fn helpers_come_when_they_are_wanted_and_not_beyond_their_number() {
    use super::blocking_pool::{BlockingPool, Finished, Inbox, JobId, Work};
    use crate::io::Id;
    let toy = Toy::default();
    let pool = BlockingPool::growing(2);
    assert_eq!(pool.threads(), 0);
    let waiter = std::thread::current();
    let inbox = Inbox::new(move || waiter.unpark());
    for number in 0..3 {
        let job = crate::toy::Work::Stuck(Vec::new(), Arc::clone(&toy.latch), Arc::clone(&toy.seen));
        let id = Id {
            index: number,
            generation: 0,
        };
        let job_id = JobId {
            number: number.into(),
            ticket: crate::session::Ticket::ONLY,
        };
        let given = pool.give(id, Work::Job(job_id, job), &inbox, None);
        assert!(given.is_ok());
    }
    until("one to wait", &mut || pool.depth() == 1);
    assert_eq!(pool.threads(), 2);
    toy.latch.open();
    let mut finished = Vec::new();
    until("all to be done", &mut || {
        inbox.take(&mut finished);
        finished.len() == 3
    });
    assert!(finished.iter().all(|one| matches!(one, Finished::Job(..))));
}
/// Three times as many connections as the limit arrive one after another, and none leaves.
#[test]
fn at_the_limit_whoever_is_idle_longest_gives_way() {
    for strategy in strategies() {
        println!("{strategy:?}");
        let limits = Limits {
            connections_max: 3,
            ..Limits::default()
        };
        let toy = Toy {
            gives_way: true,
            ..Toy::default()
        };
        let server = Server::start(strategy, toy, limits);
        let mut clients = Vec::new();
        for number in 0..9 {
            let client = server.connect();
            send(&client, &format!("echo {number:02}\n"));
            assert_eq!(read_exactly(&client, 3), format!("{number:02}\n").as_bytes());
            clients.push(client);
        }
        let newest = clients.pop().expect("nine came");
        assert_eq!(read_to_end(&clients[0]), b"", "the eldest is closed");
        send(&newest, "echo on\n");
        assert_eq!(read_exactly(&newest, 3), b"on\n");
        server.end();
    }
}
