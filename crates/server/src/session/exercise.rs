//! Feeds a session any stream, in any pieces, with any events in between, and checks its invariants. Runs as a property
//! test and as a fuzz target.

use super::rig::{End, Rig, answers};
use crate::limits::Limits;
use runtime::session::Loss;
use units::{Draw as _, Duration, Seed};

/// Pieces of real streams; the dictionary of the fuzzer.
pub const FRAGMENTS: [&[u8]; 24] = [
    b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /big.png HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\n",
    b"GET /nothing HTTP/1.1\r\nHost: a\r\n",
    b"GET /text.txt HTTP/1.0\r\n",
    b"GET /dir HTTP/1.1\r\nHost: a\r\n",
    b"GET /index.html\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 99999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: keep-alive\r\n",
    b"Connection: close\r\n",
    b"Accept-Encoding: gzip, br;q=0.5, identity;q=0\r\n",
    b"Range: bytes=0-1,50-90000,-5\r\n",
    b"If-None-Match: *\r\n",
    b"If-Match: \"x\"\r\n",
    b"\r\n",
    b"hello",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"\0\xff\r",
];

/// Feeds the stream and checks the invariants. The first eight bytes decide where it is split and which events occur.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(data: &[u8]) {
    let Some((seed, mut rest)) = data.split_first_chunk::<8>() else {
        return;
    };
    let seed = Seed(u64::from_le_bytes(*seed));
    let mut rng = seed.rng();
    let mut rig = Rig::with(|c| {
        c.max_body_size = units::Bytes(64);
        c.max_pipeline = 8;
        c.error_pages
            .insert("404", "/errors/404.html")
            .expect("a valid page");
    });
    let mut lost = false;
    while !rest.is_empty() && rig.end != End::Closed {
        let len = 1 + rng.next_u64() as usize % rest.len().min(120);
        let (piece, behind) = rest.split_at(len);
        rest = behind;
        match rng.next_u64() % 32 {
            0 => rig.stalled = true,
            1 => rig.wait(Duration::from_secs(rng.next_u64() % 30)),
            2 => rig.drain(),
            3 => rig.eof(),
            4 => rig.progress(0),
            5 => {
                rig.lose(Loss::Socket(104));
                lost = true;
            }
            _ => {}
        }
        rig.send(piece);
        if rng.next_u64().is_multiple_of(2) {
            rig.unstall();
        }
    }
    lost |= rig.end == End::Blocked;
    rig.hang_up();
    let output_max = Limits::OUTPUT_PER_TURN + 110_000;
    assert!(
        rig.output_max <= output_max,
        "{seed}: {} bytes at once",
        rig.output_max
    );
    let log = rig.log();
    let totals = rig.server.totals();
    assert_eq!(
        log.lines().count() as u64,
        totals.requests,
        "{seed}: a line for each answer"
    );
    assert_eq!((totals.accepted, totals.closed), (1, 1));
    assert_eq!(rig.server.open_connections(), 0);
    if !lost && totals.timeouts == 0 && !log.contains("HTTP/0.9") {
        let lines: Vec<&str> = log.lines().collect();
        // Interim responses precede the final one of their request.
        let mut finals = 0;
        let all = answers(&rig.out, |final_index| {
            lines
                .get(final_index)
                .is_some_and(|l| l.contains("\"method\":\"HEAD\""))
        });
        for answer in &all {
            finals += u64::from(answer.status >= 200);
        }
        assert_eq!(finals, totals.requests, "{seed}: an answer for each request");
    }
}

/// What a script of HTTP/2 may ask for.
const PATHS: [&str; 6] = [
    "/digits.bin",
    "/big.png",
    "/nothing",
    "/text.txt",
    "/dir",
    "/empty.bin",
];

/// Feeds an HTTP/2 session frames and noise, and checks the invariants. The first eight bytes decide which events occur;
/// each further byte is a frame.
///
/// # Panics
/// If an invariant does not hold.
pub fn run_http2(data: &[u8]) {
    let Some((seed, script)) = data.split_first_chunk::<8>() else {
        return;
    };
    let seed = Seed(u64::from_le_bytes(*seed));
    let mut rng = seed.rng();
    let mut rig = Rig::with(|c| {
        c.max_body_size = units::Bytes(64);
        c.max_streams = 8;
    });
    rig.agree_on_http2();
    rig.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let mut next = 1_u32;
    for &byte in script.iter().take(400) {
        if rig.end == End::Closed {
            break;
        }
        rig.holds_jobs = rng.next_u64().is_multiple_of(3);
        let draw = rng.next_u64() as u32;
        let known = (draw % next) | 1;
        let frames = match byte % 16 {
            0..=5 => {
                let path = PATHS[usize::from(byte) % PATHS.len()];
                next += 2;
                request(next - 2, path, byte & 16 == 0)
            }
            6 | 7 => frame(0, u8::from(byte & 16 == 0), known, &vec![7; draw as usize % 200]),
            8 => frame(3, 0, known, &draw.to_be_bytes()),
            9 | 10 => frame(
                8,
                0,
                if byte & 16 == 0 { 0 } else { known },
                &(1 + draw % 70_000).to_be_bytes(),
            ),
            11 => {
                let mut setting = vec![0, 4];
                setting.extend((draw % 70_000).to_be_bytes());
                frame(4, 0, 0, &setting)
            }
            12 => frame(6, 0, 0, &[byte; 8]),
            13 => frame(4, 1, 0, &[]),
            14 => {
                let mut update = known.to_be_bytes().to_vec();
                update.extend(b"u=1, i");
                frame(16, 0, 0, &update)
            }
            _ if draw.is_multiple_of(8) => draw.to_be_bytes().repeat(5),
            _ => Vec::new(),
        };
        match draw % 48 {
            0 => rig.stalled = true,
            1 => rig.wait(Duration::from_secs(u64::from(draw) % 30)),
            2 => rig.drain(),
            3 => rig.eof(),
            4 => rig.progress(0),
            5 => rig.lose(Loss::Socket(104)),
            _ => {}
        }
        let cut = frames.len().min(draw as usize % 30);
        rig.send(&frames[..cut]);
        rig.send(&frames[cut..]);
        if draw.is_multiple_of(2) {
            rig.unstall();
        }
        if draw.is_multiple_of(5) {
            rig.run_jobs();
        }
        let held = rig.cx.hub.budget.held().0;
        assert!(held < 2 << 20, "{seed}: {held} bytes are held");
    }
    rig.run_jobs();
    rig.hang_up();
    let log = rig.log();
    let totals = rig.server.totals();
    assert_eq!(
        log.lines().count() as u64,
        totals.requests,
        "{seed}: a line for each answer"
    );
    assert!(totals.requests <= totals.http2_requests, "{seed}");
    assert!(totals.aborted <= totals.requests, "{seed}");
    assert_eq!((totals.accepted, totals.closed), (1, 1));
    assert_eq!(rig.server.open_connections(), 0);
}

/// A frame (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HEADERS of a request, with the end of the stream if it `ends` there.
fn request(stream: u32, path: &str, ends: bool) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
    ] {
        ::http2::hpack::block::field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    frame(1, 4 | u8::from(ends), stream, &block)
}
