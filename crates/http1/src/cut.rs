//! Test support: every way a stream may be cut, and the proof that none of them matters.
//!
//! A parser is run on its input whole, byte by byte, at random cuts, and with bytes behind it. The
//! first three must give the same events; the last must begin with them.

use measure::{Draw, Seed};

/// Random cuts tried per input.
const RANDOM_RUNS: u64 = 6;

/// What may follow an input: another request, a response, garbage, and bytes that change the
/// meaning of what stands before them if that was not complete.
const TAILS: [&[u8]; 4] = [
    b"GET /tail HTTP/1.1\r\nHost: tail\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"\0\r\n\r\n",
    b"0\r\n\r\n",
];

/// Runs `events` on every way to cut `input` and returns what it says of the whole.
///
/// `events` gets the pieces of a stream in order and writes down what it saw. It must write an event
/// only once it is certain, so that more input can only add to the list; the last event may also
/// get longer.
///
/// # Panics
/// If any way of cutting makes a difference; the message names the seed.
pub fn everywhere(input: &[u8], seed: Seed, events: impl Fn(&[&[u8]]) -> Vec<String>) -> Vec<String> {
    let whole = events(&[input]);
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    same(&events(&bytes), &whole, input, "byte by byte");
    let mut rng = seed.rng();
    for run in 0..RANDOM_RUNS {
        let mut pieces = Vec::new();
        let mut rest = input;
        while !rest.is_empty() {
            // Short pieces mostly: the cuts that hurt are inside line ends.
            let longest = if rng.next_u32() % 4 == 0 { 64 } else { 5 };
            let len = (1 + rng.next_u32() as usize % longest).min(rest.len());
            let (piece, after) = rest.split_at(len);
            pieces.push(piece);
            rest = after;
        }
        same(&events(&pieces), &whole, input, &format!("{seed}, cut {run}"));
    }
    for tail in TAILS {
        let longer = [input, tail].concat();
        let events = events(&[&longer]);
        let grown = events.len() >= whole.len()
            && whole.iter().enumerate().all(|(position, event)| {
                let after = &events[position];
                let may_grow = position + 1 == whole.len();
                after == event || (may_grow && after.starts_with(event.trim_end_matches('"')))
            });
        assert!(
            grown,
            "bytes behind it changed what {} means\nalone: {whole:#?}\nwith {}: {events:#?}",
            show(input),
            show(tail)
        );
    }
    whole
}

fn same(cut: &[String], whole: &[String], input: &[u8], how: &str) {
    assert_eq!(cut, whole, "{how}: {} must mean what it means whole", show(input));
}

/// Bytes in a form a person can read and a vector can hold.
pub fn show(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}
