//! What only `--io uring` can show: that it falls back where the system refuses io_uring and says so, and
//! that bursts larger than the ring and its buffers are served whole.

use crate::serve::files::noise;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, head};
use std::process::Command;

/// Runs a program under a seccomp filter by which the system call of its first argument fails with the
/// errno of its second, as containers do it. The numbers are the same on every architecture.
const FILTER: &str = r"
import ctypes, os, struct, sys
call, errno, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
filter = b''.join(struct.pack('HBBI', *line) for line in [
    (0x20, 0, 0, 0),                     # load the number of the call
    (0x15, 0, 1, call),                  # is it the one?
    (0x06, 0, 0, 0x00050000 | errno),    # then it fails
    (0x06, 0, 0, 0x7fff0000),            # else it is allowed
])
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_char_p)]
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(Program(4, filter)), 0, 0):
    sys.exit('seccomp: ' + os.strerror(ctypes.get_errno()))
os.execvp(program[0], program)
";
const SETUP: u32 = 425;
const ENTER: u32 = 426;
const REGISTER: u32 = 427;
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

/// Whether a program can be run like that here; prints why if not.
fn can_filter() -> bool {
    let tried = Command::new("python3")
        .args(["-c", FILTER, "425", "1", "true"])
        .output();
    let why = match tried {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("python3: {error}"),
    };
    println!("skipped: {why}");
    false
}

fn start_refused(strategy: Strategy, call: u32, errno: i32, tree: &Tree) -> Server {
    Launch::wrapped(
        strategy,
        &format!("exec python3 -c \"$FILTER\" {call} {errno} \"$0\" \"$@\""),
    )
    .root(tree.path())
    .env("FILTER", FILTER)
    .start()
}

#[test]
fn refused_by_a_filter_it_serves_with_epoll_and_says_so() {
    if !can_filter() {
        return;
    }
    let tree = Tree::with(&[("a.txt", "a")]);
    for (call, errno, word) in [
        (SETUP, EPERM, "EPERM"),
        (SETUP, EACCES, "EACCES"),
        (SETUP, EINVAL, "EINVAL"),
        (SETUP, ENOSYS, "ENOSYS"),
        (ENTER, EPERM, "EPERM"),
        (REGISTER, EPERM, "EPERM"),
    ] {
        for strategy in [Strategy::LOOPS_URING, Strategy::ONE_LOOP_URING] {
            let mut server = start_refused(strategy, call, errno, &tree);
            let listener = &server.started["listeners"][0];
            assert_eq!(listener["io"], "epoll", "{listener}");
            let why = listener["why"].as_str().expect("a reason");
            assert!(
                why.contains("uring is unavailable") && why.contains(word),
                "{why}"
            );
            assert_eq!(server.connect().get("/a.txt").text(), "a");
            assert_eq!(server.stop(), 0);
            let report = server.stderr();
            assert!(
                report.contains("epoll     uring is unavailable") && report.contains(word),
                "{report}"
            );
        }
    }
}

#[test]
fn nobody_who_did_not_ask_for_it_hears_of_it() {
    if !can_filter() {
        return;
    }
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = start_refused(Strategy::LOOPS, SETUP, EPERM, &tree);
    let listener = &server.started["listeners"][0];
    assert_eq!(listener["io"], "epoll");
    assert!(!listener["why"].to_string().contains("uring"), "{listener}");
}

#[test]
fn threads_that_block_cannot_use_it() {
    let strategy = Strategy {
        io: "uring",
        ..Strategy::POOL
    };
    let (code, said) = Launch::new(strategy).fail();
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("--concurrency pool") && said.contains("use `--io blocking`"),
        "{said}"
    );
}

/// 600 connections that all speak in the same moment: twice as many as a worker has buffers, and more
/// than its submission queue takes; the answers of half of them are larger than a socket's buffer.
#[test]
fn a_burst_larger_than_the_ring_is_served_whole() {
    let strategy = Strategy::ONE_LOOP_URING;
    if !strategy.is_possible() {
        return;
    }
    let tree = Tree::new();
    let (small, large) = (noise(12_000), noise(400_000));
    tree.write("small.bin", &small);
    tree.write("large.bin", &large);
    let server = Server::of(strategy, tree.path());
    let mut crowd: Vec<Connection> = (0..600).map(|_| server.connect()).collect();
    for _ in 0..3 {
        for (number, connection) in crowd.iter_mut().enumerate() {
            let path = if number % 2 == 0 {
                "/small.bin"
            } else {
                "/large.bin"
            };
            // Pipelined, so that one comes while the other is answered.
            connection.send(head("GET", path, &[]).repeat(2));
        }
        for (number, connection) in crowd.iter_mut().enumerate() {
            let wanted = if number % 2 == 0 { &small } else { &large };
            for _ in 0..2 {
                assert!(connection.receive("GET").body == *wanted, "connection {number}");
            }
        }
    }
}

/// As containers that know nothing of Landlock do it; the kernel may know it all the same.
#[test]
fn landlock_that_a_filter_forbids_is_said_to_be_forbidden() {
    const CREATE_RULESET: u32 = 444;
    if !can_filter() {
        return;
    }
    let tree = Tree::with(&[("a.txt", "a")]);
    for (errno, words) in [(EPERM, "forbidden here (EPERM"), (ENOSYS, "does not know it")] {
        let server = start_refused(Strategy::LOOPS, CREATE_RULESET, errno, &tree);
        let said = server.started["rights"]["landlock"].to_string();
        assert!(said.contains(words), "{said}");
        assert_eq!(server.connect().get("/a.txt").text(), "a");
    }
}
