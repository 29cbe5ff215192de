//! Tests of what only a ring can get wrong. `concurrency::tests` covers the behavior shared with other back ends, once
//! more over a ring that is too small for everything.

use super::*;
use crate::listen::{Listener as Listening, Listening as How};
use crate::strategy::Writing;
use std::io::{Read, Write};
use std::net::{Shutdown as Half, TcpStream};

/// Set in the child process with tiny rings.
const TINY: &str = "RUNTIME_TEST_TINY_RING";
/// Every queue overflows, every burst lacks buffers, every message is split.
pub(super) const TINY_SIZES: Sizes = Sizes {
    submissions: 2,
    completions: 4,
    buffers: 2,
    buffer: 64,
};
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Whether this is the child process with tiny rings, which tests rings only.
pub(crate) fn tiny() -> bool {
    std::env::var_os(TINY).is_some()
}

/// A ring, or `None` with the reason printed if none can be created.
fn ring(listener: &Listening, sizes: Sizes, room: usize) -> Option<Uring> {
    let wake = Waker::new().unwrap();
    match Uring::new(vec![Arc::clone(listener.fd())], &wake, sizes, move || room) {
        Ok(uring) => Some(uring),
        Err(error) => {
            println!("skipped: no io_uring here: {error}");
            None
        }
    }
}

fn listener() -> Listening {
    let how = How {
        defer_accept: false,
        ..How::default()
    };
    Listening::bind("127.0.0.1:0".parse().unwrap(), how).unwrap()
}

fn connect(listener: &Listening) -> TcpStream {
    let client = TcpStream::connect(listener.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// Waits until `look` finds its result among the completions.
fn wait_for<T>(uring: &mut Uring, mut look: impl FnMut(Done) -> Option<T>) -> T {
    let start = std::time::Instant::now();
    let mut done = Vec::new();
    loop {
        let second = clock::now() + units::Duration::from_secs(1);
        uring.wait(Some(second), &mut done).unwrap();
        let mut found = None;
        for one in done.drain(..) {
            found = found.or(look(one));
        }
        if let Some(found) = found {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain");
    }
}

fn accept(uring: &mut Uring) -> Id {
    wait_for(uring, |done| matches!(done, Done::Incoming { .. }).then_some(()));
    match uring.submit(Op::Accept { listener: 0 }) {
        Some(Done::Accepted { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

fn told(uring: &mut Uring) -> bool {
    uring.submit(Op::Accept { listener: 0 }).is_some()
}

#[test]
fn everything_holds_over_a_ring_too_small_for_anything() {
    if tiny() {
        return; // This is the child.
    }
    let exe = std::env::current_exe().unwrap();
    let output = std::process::Command::new(exe)
        .args(["concurrency::tests::", "--skip", "descriptors"])
        .env(TINY, "1")
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{text}\n{errors}");
    let passed = text
        .split("test result: ok. ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let passed: Option<usize> = passed.and_then(|count| count.parse().ok());
    assert!(
        passed.is_some_and(|count| count >= 10),
        "it ran the suite: {text}"
    );
}

#[test]
fn what_nobody_asked_for_is_held_within_bounds_and_comes_in_order() {
    let listener = listener();
    let Some(mut uring) = ring(&listener, SIZES, 0) else {
        return;
    };
    let mut client = connect(&listener);
    let id = accept(&mut uring);
    assert!(uring.submit(Op::Recv { id }).is_none());
    client.write_all(b"first").unwrap();
    let first = wait_for(&mut uring, |done| match done {
        Done::Recv { buf, .. } => Some(buf),
        _ => None,
    });
    assert_eq!(first.filled(), b"first");
    uring.recycle(first);
    // More than the held bytes and the buffers together: the socket must fill up again.
    let sent: Vec<u8> = (0..8_000_000u32).map(|i| (i % 251) as u8).collect();
    let bytes = sent.clone();
    let writer = std::thread::spawn(move || {
        client.write_all(&bytes).unwrap();
        client.shutdown(Half::Write).unwrap();
        client
    });
    let off = |uring: &mut Uring| uring.sockets.get_mut(id).unwrap().receive == Receive::Off;
    let start = std::time::Instant::now();
    while !off(&mut uring) {
        let soon = clock::now() + units::Duration::from_millis(10);
        uring.wait(Some(soon), &mut Vec::new()).unwrap();
        assert!(start.elapsed() < PATIENCE, "it goes on receiving");
    }
    let held = uring
        .sockets
        .get_mut(id)
        .unwrap()
        .held
        .as_ref()
        .unwrap()
        .bytes
        .len();
    let most = HELD_MAX + usize::from(SIZES.buffers) * SIZES.buffer;
    assert!((HELD_MAX..=most).contains(&held), "{held}");
    let mut got = Vec::new();
    loop {
        let done = match uring.submit(Op::Recv { id }) {
            Some(done) => done,
            None => wait_for(&mut uring, Some),
        };
        match done {
            Done::Recv { buf, .. } => {
                got.extend_from_slice(buf.filled());
                uring.recycle(buf);
            }
            Done::Eof { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    writer.join().unwrap();
}

#[test]
fn while_places_are_few_connections_are_taken_one_at_a_time() {
    let listener = listener();
    let Some(mut uring) = ring(&listener, SIZES, 1) else {
        return;
    };
    let _clients: Vec<TcpStream> = (0..10).map(|_| connect(&listener)).collect();
    let mut taken = 0;
    while taken < 10 {
        accept(&mut uring);
        taken += 1;
        assert!(
            uring.listeners[0].accepted.is_empty(),
            "no more than one beyond the limit"
        );
        assert!(!told(&mut uring), "the next is on its way at the most");
    }
}

#[test]
fn when_places_become_few_the_kernel_stops_accepting_on_its_own() {
    let listener = listener();
    let Some(mut uring) = ring(&listener, SIZES, usize::MAX) else {
        return;
    };
    let first = connect(&listener);
    accept(&mut uring);
    assert_eq!(uring.listeners[0].accept, Accept::All);
    uring.room = Box::new(|| 3);
    let second = connect(&listener);
    // This consumes `told` of the first.
    assert!(!told(&mut uring));
    accept(&mut uring);
    assert_eq!(uring.listeners[0].accept, Accept::Ending);
    assert!(!told(&mut uring));
    let third = connect(&listener);
    accept(&mut uring);
    assert_ne!(uring.listeners[0].accept, Accept::All);
    drop((first, second, third));
}

#[test]
fn what_waits_at_the_end_is_taken_when_the_worker_asks_unasked() {
    let listener = listener();
    let Some(mut uring) = ring(&listener, SIZES, 0) else {
        return;
    };
    let mut done = Vec::new();
    uring.wait(Some(Instant::ZERO), &mut done).unwrap();
    let _clients: Vec<TcpStream> = (0..5).map(|_| connect(&listener)).collect();
    let mut taken = 0;
    while told(&mut uring) {
        taken += 1;
    }
    uring.submit(Op::StopListening);
    uring.wait(Some(Instant::ZERO), &mut done).unwrap();
    while told(&mut uring) {
        taken += 1;
    }
    assert_eq!(taken, 5, "the armed accept may have had one of them");
}

/// Runs turns until the back end has left its listeners; returns how many connections it accepted meanwhile.
fn leave(uring: &mut Uring) -> usize {
    let start = std::time::Instant::now();
    let mut done = Vec::new();
    uring.submit(Op::StopListening);
    while uring.is_listening() {
        uring.wait(Some(Instant::ZERO), &mut done).unwrap();
        assert!(start.elapsed() < PATIENCE, "it never leaves");
    }
    let mut taken = 0;
    while told(uring) {
        taken += 1;
    }
    taken
}

/// An upgrade hands the same socket to another process; here a duplicate of it plays that part.
#[test]
fn a_listener_that_was_handed_over_outlives_stopping() {
    for room in [1, usize::MAX] {
        let listener = listener();
        let Some(mut uring) = ring(&listener, SIZES, room) else {
            return;
        };
        let theirs = listener.fd().try_clone().unwrap();
        let _before = connect(&listener);
        let _ = accept(&mut uring);
        assert_eq!(leave(&mut uring), 0);
        let _after: Vec<TcpStream> = (0..5).map(|_| connect(&listener)).collect();
        let mut done = Vec::new();
        uring.wait(Some(Instant::ZERO), &mut done).unwrap();
        assert!(done.is_empty(), "what comes later is not for this one");
        drop(uring);
        let _late = connect(&listener);
        for _ in 0..6 {
            rustix::net::accept(&theirs).unwrap();
        }
    }
}

/// The kernel wakes one of the accepting processes. If it woke the leaving one, no process would take the connection.
#[test]
fn a_connection_that_comes_while_leaving_is_lost_to_nobody() {
    for room in [1, usize::MAX] {
        let listener = listener();
        let (Some(mut old), Some(mut new)) = (ring(&listener, SIZES, room), ring(&listener, SIZES, room))
        else {
            return;
        };
        let mut done = Vec::new();
        old.wait(Some(Instant::ZERO), &mut done).unwrap();
        new.wait(Some(Instant::ZERO), &mut done).unwrap();
        assert!(done.is_empty());
        let _client = connect(&listener);
        if leave(&mut old) == 0 {
            let _ = accept(&mut new);
        }
    }
}

#[test]
fn dropped_it_lets_go_of_everything() {
    let listener = listener();
    let Some(mut uring) = ring(&listener, SIZES, 0) else {
        return;
    };
    let (mut reading, mut sending) = (connect(&listener), connect(&listener));
    let first = accept(&mut uring);
    let _ = told(&mut uring);
    let second = accept(&mut uring);
    assert!(uring.submit(Op::Recv { id: first }).is_none());
    let mut out = Out::new(Writing::default());
    out.tx.body = Some(Body::Bytes(vec![7; 50_000_000].into()));
    assert!(uring.submit(Op::Send { id: second, out }).is_none());
    wait_for(&mut uring, |done| {
        matches!(done, Done::Progress { .. }).then_some(())
    });
    // A queued close that was never submitted counts, too.
    uring.submit(Op::Close { id: first });
    drop(uring);
    assert_eq!(reading.read(&mut [0; 1]).unwrap(), 0);
    let mut rest = Vec::new();
    let _ = sending.read_to_end(&mut rest);
    assert!(rest.len() < 50_000_000);
}
