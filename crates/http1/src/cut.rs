//! Test support: runs a parser on every kind of split of a stream and proves that splitting changes nothing.
//!
//! A parser gets its input whole, byte by byte, at random splits, and with bytes after it. The first three
//! runs must yield equal events; the last must begin with them.

use crate::limits::Limits;
use units::{Draw, Seed};

/// Random splits per input.
const RANDOM_RUNS: u64 = 6;

/// Bytes appended to an input: another request, a response, garbage, and bytes that would change the meaning
/// of an incomplete input.
const TAILS: [&[u8]; 4] = [
    b"GET /tail HTTP/1.1\r\nHost: tail\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"\0\r\n\r\n",
    b"0\r\n\r\n",
];

/// Runs `events` on every kind of split of `input` and returns the events of the unsplit input.
///
/// `events` gets the pieces of a stream in order, and whether the stream then ends. It must record an event
/// only once it is certain, so that more input can only extend the list; the last event may also grow.
///
/// # Panics
/// If splitting changes the events; the message names the seed.
pub(crate) fn everywhere(
    input: &[u8],
    seed: Seed,
    events: impl Fn(&[&[u8]], bool) -> Vec<String>,
) -> Vec<String> {
    let whole = events(&[input], true);
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    same(&events(&bytes, true), &whole, input, "byte by byte");
    let mut rng = seed.rng();
    for run in 0..RANDOM_RUNS {
        let mut pieces = Vec::new();
        let mut rest = input;
        while !rest.is_empty() {
            // Mostly short pieces: splits inside line ends find the most bugs.
            let longest = if rng.next_u32().is_multiple_of(4) { 64 } else { 5 };
            let len = (1 + rng.next_u32() as usize % longest).min(rest.len());
            let (piece, after) = rest.split_at(len);
            pieces.push(piece);
            rest = after;
        }
        same(
            &events(&pieces, true),
            &whole,
            input,
            &format!("{seed}, cut {run}"),
        );
    }
    let open = events(&[input], false);
    for tail in TAILS {
        let longer = [input, tail].concat();
        let events = events(&[&longer], false);
        let grown = events.len() >= open.len()
            && open.iter().enumerate().all(|(position, event)| {
                let after = &events[position];
                let may_grow = position + 1 == open.len();
                after == event || (may_grow && after.starts_with(event.trim_end_matches('"')))
            });
        assert!(
            grown,
            "bytes behind it changed what {} means\nalone: {open:#?}\nwith {}: {events:#?}",
            show(input),
            show(tail)
        );
    }
    whole
}

fn same(cut: &[String], whole: &[String], input: &[u8], how: &str) {
    assert_eq!(cut, whole, "{how}: {} must mean what it means whole", show(input));
}

/// Bytes in a readable form that a vector can contain.
pub(crate) fn show(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// A seed derived from the input, so that a failing input fails every time.
pub(crate) fn seed_of(data: &[u8]) -> Seed {
    Seed(data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// Limits low enough for short inputs to reach, chosen by one byte; 0 for the defaults.
pub(crate) fn limits_of(choice: u8) -> Limits {
    if choice == 0 {
        return Limits::DEFAULT;
    }
    Limits {
        head_bytes_max: 16 + u32::from(choice),
        fields_max: u16::from(choice % 8),
        target_bytes_max: 1 + u32::from(choice % 32),
        trailer_bytes_max: 2 + u32::from(choice % 64),
        extension_bytes_max: u32::from(choice % 16),
        interim_max: choice % 4,
        http09: choice.is_multiple_of(2),
        ..Limits::DEFAULT
    }
}

/// Configures this many cases from a fixed seed, so that a failing test fails every time.
#[cfg(test)]
pub(crate) fn cases(count: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: count,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x1994_1106),
        ..proptest::test_runner::Config::default()
    }
}

/// Two bytes of options, then a stream of HTTP fragments and noise.
#[cfg(test)]
pub(crate) fn http_like() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    const PARTS: [&[u8]; 44] = [
        b"GET / HTTP/1.1\r\nHost: h\r\n",
        b"GET /a?b HTTP/1.0\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\n",
        b"GET /simple\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"Expect: 100-continue\r\n",
        b"Host: i\r\n",
        b"A: b\r\n",
        b"A: \r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"hello",
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"0\r\n",
        b"5;a=b\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\t",
        b":",
        b";",
        b",",
        b"0",
        b"a",
        b"/",
        b"GET",
        b"HTTP/1.1",
        b"HTTP/2.0",
        b"\0",
        b"\x16\x03\x01",
        b"\xff",
        b"-",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        b"Upgrade: x\r\n",
    ];
    parts(&PARTS, 14)
}

/// One byte of options, then fragments of chunked bodies.
#[cfg(test)]
pub(crate) fn chunk_like() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    const PARTS: [&[u8]; 20] = [
        b"5\r\nhello\r\n",
        b"5;x\r\nhello\r\n",
        b"1\r\na\r\n",
        b"00a\r\n0123456789\r\n",
        b"0\r\n",
        b"\r\n",
        b"0\r\n\r\n",
        b"A: b\r\n",
        b"hello",
        b";",
        b"\r",
        b"\n",
        b" ",
        b"f",
        b"ffffffffffffffff",
        b"g",
        b"\t",
        b"\0",
        b"\x7f",
        b"\xff",
    ];
    parts(&PARTS, 12)
}

#[cfg(test)]
fn parts(
    parts: &'static [&'static [u8]],
    count_max: usize,
) -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    // Default limits half of the time: with low ones, few streams get past their first head.
    let bounds = prop_oneof![Just(0_u8), any::<u8>()];
    let stream = proptest::collection::vec(proptest::sample::select(parts), 0..count_max);
    (any::<u8>(), bounds, stream).prop_map(|(options, bounds, stream)| {
        let mut data = vec![options, bounds];
        data.extend(stream.concat());
        data
    })
}
