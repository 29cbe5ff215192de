//! The crew without a driver: what it commands, and what it tells, at which events and times.

use super::*;
use runtime::dial::Wish;
use std::sync::mpsc;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const PATIENCE: Duration = Duration::from_secs(10);

struct Bench {
    crew: Exchange,
    port: Port,
    jobs: Sender<Job>,
    outcomes: Receiver<Outcome>,
    now: Instant,
}

fn job(persists: bool) -> Job {
    let url = "http://127.0.0.1:1/x".parse().unwrap();
    let request = Request {
        url: &url,
        method: "POST",
        fields: &[],
        content: b"spans",
    };
    Job::new(&request, persists, PATIENCE)
}

/// A crew whose first request is sent.
fn begun(persists: bool) -> Bench {
    let (jobs, taken) = mpsc::channel();
    let (told, outcomes) = mpsc::channel();
    jobs.send(job(persists)).unwrap();
    let mut bench = Bench {
        crew: Exchange::new(taken, told),
        port: Port::default(),
        jobs,
        outcomes,
        now: Instant::from_nanos(1_000_000_000),
    };
    bench.crew.start(&mut bench.port, bench.now);
    let sent = bench.sent();
    assert_eq!(sent.first(), Some(&Wish::Connect(0)));
    assert_eq!(sent.last(), Some(&Wish::Wake(0, bench.now + PATIENCE)));
    bench
}

impl Bench {
    fn sent(&mut self) -> Vec<Wish> {
        self.port.take().0
    }

    fn tell(&mut self, happened: Happened<'_>) {
        self.crew.handle(0, happened, &mut self.port, self.now);
    }

    /// Offers another request.
    fn call(&mut self) {
        self.jobs.send(job(true)).unwrap();
        self.crew.called(&mut self.port, self.now);
    }

    #[track_caller]
    fn is_answered(&mut self) {
        match self.outcomes.try_recv() {
            Ok(Outcome::Answered(response)) => {
                assert_eq!((response.status, &*response.content), (200, &b"hi"[..]));
            }
            other => panic!("{other:?}"),
        }
    }

    /// The crew has ended and told nothing more.
    #[track_caller]
    fn is_over(&mut self) {
        assert!(self.port.is_ended());
        assert!(matches!(
            self.outcomes.try_recv(),
            Err(mpsc::TryRecvError::Disconnected)
        ));
        assert!(
            self.jobs.send(job(true)).is_err(),
            "whoever asks learns that it is over"
        );
    }
}

#[test]
fn a_response_has_an_end() {
    for (length, is_taken) in [(CONTENT_MAX, true), (CONTENT_MAX + 1, false)] {
        let mut bench = begun(false);
        bench.crew.input = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
        bench.crew.input.resize(bench.crew.input.len() + length, b'x');
        match bench.crew.read() {
            None => assert!(
                is_taken && bench.crew.response.content.len() == length,
                "{length}"
            ),
            Some(outcome) => {
                let why = outcome.unwrap_err();
                assert!(
                    !is_taken && why.contains("more than 1048576 bytes"),
                    "{length}: {why}"
                );
            }
        }
    }
}

#[test]
fn requests_share_a_connection_until_it_was_idle_for_too_long() {
    let mut bench = begun(true);
    for piece in [&OK[..20], &OK[20..]] {
        bench.tell(Happened::Bytes(piece));
    }
    bench.is_answered();
    assert_eq!(bench.sent(), [Wish::Wake(0, bench.now + IDLE_MAX)]);
    bench.now = bench.now + (IDLE_MAX - Duration::from_nanos(1));
    bench.call();
    let wishes = bench.sent();
    assert!(
        matches!(wishes[..], [Wish::Send(0, _), Wish::Wake(..)]),
        "{wishes:?}"
    );
    bench.tell(Happened::Bytes(OK));
    bench.is_answered();
    assert_eq!(bench.sent(), [Wish::Wake(0, bench.now + IDLE_MAX)]);
    assert!(!bench.port.is_ended());
    bench.now = bench.now + IDLE_MAX;
    bench.tell(Happened::Woken(bench.now));
    bench.is_over();
}

#[test]
fn a_response_that_is_the_last_ends_the_connection() {
    let closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    let followed = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 408 X\r\n\r\n";
    for (persists, response) in [(false, OK), (true, closing), (true, followed)] {
        let mut bench = begun(persists);
        bench.tell(Happened::Bytes(response));
        bench.is_answered();
        bench.is_over();
    }
}

#[test]
fn what_a_server_says_or_does_between_requests_is_no_failure() {
    for happened in [
        Happened::Eof,
        Happened::Lost(Failing::Open(104)),
        Happened::Lost(Failing::Cut),
        Happened::Bytes(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"),
    ] {
        let mut bench = begun(true);
        bench.tell(Happened::Bytes(OK));
        bench.is_answered();
        bench.tell(happened);
        bench.is_over();
    }
}

#[test]
fn only_a_connection_used_before_is_stale_and_only_without_a_response() {
    fn ends() -> [Happened<'static>; 3] {
        [
            Happened::Eof,
            Happened::Lost(Failing::Open(104)),
            Happened::Refused(refusal::closed()),
        ]
    }
    for number in 0..ends().len() {
        let [end, reused, partly] = [(); 3].map(|()| ends().into_iter().nth(number).unwrap());
        let mut fresh = begun(true);
        fresh.tell(end);
        let outcome = fresh.outcomes.try_recv();
        assert!(
            matches!(&outcome, Ok(Outcome::Failed(why)) if !why.is_final),
            "{outcome:?}"
        );
        fresh.is_over();

        let second = || {
            let mut bench = begun(true);
            bench.tell(Happened::Bytes(OK));
            bench.is_answered();
            bench.call();
            bench
        };
        let mut stale = second();
        stale.tell(reused);
        let outcome = stale.outcomes.try_recv();
        assert!(matches!(outcome, Ok(Outcome::Stale)), "{outcome:?}");
        stale.is_over();

        let mut broken = second();
        broken.tell(Happened::Bytes(&OK[..20]));
        broken.tell(partly);
        let outcome = broken.outcomes.try_recv();
        assert!(matches!(outcome, Ok(Outcome::Failed(_))), "{outcome:?}");
        broken.is_over();
    }
}

#[test]
fn a_request_waits_for_its_response_for_its_time() {
    let mut bench = begun(true);
    bench.tell(Happened::Bytes(&OK[..20]));
    bench.now = bench.now + PATIENCE;
    bench.tell(Happened::Woken(bench.now));
    match bench.outcomes.try_recv() {
        Ok(Outcome::Failed(unanswered)) => assert!(unanswered.why.contains("no response within")),
        other => panic!("{other:?}"),
    }
    bench.is_over();
}
