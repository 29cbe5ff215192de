//! A server's side of exchanges: order of output, flow control, cancellation, shutdown, memory.

use super::*;
use crate::error::{Code, Fault};
use crate::frame::{kind, write};
use crate::qpack::block;
use units::Instant;

const NOW: Instant = Instant::ZERO;

fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    block::begin(&mut out);
    for (name, value) in fields {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

fn request(more: &[(&str, &str)]) -> Vec<u8> {
    let get = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/"),
    ];
    let mut out = Vec::new();
    write::frame(kind::HEADERS, &section(&[&get[..], more].concat()), &mut out);
    out
}

/// All events of this input, in words.
fn take(server: &mut Connection, stream: u64, input: &[u8], fin: bool) -> Vec<String> {
    let (mut rest, mut found) = (input, Vec::new());
    loop {
        let received = server.receive(stream, rest, fin, NOW);
        rest = &rest[received.used..];
        found.push(match received.event {
            Event::Partial => return found,
            Event::Request { stream, end, .. } => format!("request {stream} {end}"),
            Event::Body { bytes, .. } => format!("body {}", bytes.len()),
            Event::Trailers { fields, .. } => format!("trailers {}", fields.len()),
            other => format!("{other:?}"),
        });
        if found.last().is_some_and(|event| event.starts_with("Closed")) {
            return found;
        }
    }
}

/// A server with these requests on the streams 0, 4, 8 and so on, whose control stream was sent.
fn serving(requests: &[&[(&str, &str)]], limits: Limits) -> Connection {
    let mut server = Connection::new(Arc::new(limits));
    let Some(Output::Write(piece)) = server.poll() else {
        panic!("the control stream comes first");
    };
    let (stream, bytes) = (piece.stream, piece.frames.len() as u64);
    assert_eq!((stream, piece.frames[0]), (3, 0));
    server.sent(stream, bytes);
    for (at, more) in requests.iter().enumerate() {
        let stream = 4 * at as u64;
        server.open(stream, NOW).unwrap();
        assert_eq!(
            take(&mut server, stream, &request(more), true),
            [format!("request {stream} true")]
        );
    }
    server
}

fn respond(server: &mut Connection, stream: u64, body: u64) {
    server
        .respond(stream, &section(&[(":status", "200")]), body == 0)
        .unwrap();
    if body > 0 {
        server.ready(stream, body).unwrap();
        server.finish(stream).unwrap();
    }
}

/// The order of what is sent, at most `step` bytes a turn: stream, bytes, `.` at its end.
fn sent(server: &mut Connection, step: u64) -> String {
    let mut order = Vec::new();
    while let Some(output) = server.poll() {
        let Output::Write(piece) = output else {
            order.push(format!("{output:?}"));
            continue;
        };
        let (stream, all, end) = (piece.stream, piece.frames.len() as u64 + piece.body, piece.end);
        let bytes = all.min(step);
        let mark = if bytes == all && end { "." } else { "" };
        order.push(format!("{stream}:{bytes}{mark}"));
        server.sent(stream, bytes);
    }
    order.join(" ")
}

#[test]
fn a_response_is_head_data_and_end_in_one_piece() {
    let mut server = serving(&[&[]], Limits::DEFAULT);
    respond(&mut server, 0, 1_000_000);
    let Some(Output::Write(piece)) = server.poll() else {
        panic!("something to send");
    };
    // HEADERS of 3 bytes, then the header of DATA.
    assert_eq!(piece.frames, [1, 3, 0, 0, 0xd9, 0, 0x80, 0x0f, 0x42, 0x40]);
    assert_eq!((piece.stream, piece.body, piece.end), (0, 1_000_000, true));
    // The transport takes a part of the frames, then a part of the body.
    server.sent(0, 4);
    let Some(Output::Write(piece)) = server.poll() else {
        panic!("the rest");
    };
    assert_eq!((piece.frames.len(), piece.body), (6, 1_000_000));
    server.sent(0, 6 + 999_999);
    assert_eq!(sent(&mut server, u64::MAX), "0:1.");
    assert_eq!(server.streams(), 0);
    assert_eq!(server.ready(0, 1), Err(Misuse::Gone));
}

#[test]
fn bodies_in_runs_interim_responses_and_trailers() {
    let mut server = serving(&[&[]], Limits::DEFAULT);
    server.inform(0, &section(&[(":status", "103")])).unwrap();
    server.inform(0, &section(&[(":status", "103")])).unwrap();
    let fields: [(&[u8], &[u8]); 1] = [(b"date", b"x")];
    server
        .respond_with(0, &section(&[(":status", "200")]), fields, false)
        .unwrap();
    assert_eq!(server.inform(0, &[]), Err(Misuse::Order));
    assert_eq!(server.respond(0, &[], true), Err(Misuse::Order));
    let first = sent(&mut server, u64::MAX);
    assert_eq!(first, "0:18", "two interim heads of five bytes, one of eight");
    server.ready(0, 10).unwrap();
    assert_eq!(sent(&mut server, u64::MAX), "0:12");
    server.ready(0, 10).unwrap();
    assert_eq!(sent(&mut server, 5), "0:5 0:5 0:2");
    server.ready(0, 1).unwrap();
    server.trailers(0, &section(&[("a", "b")])).unwrap();
    assert_eq!(server.ready(0, 1), Err(Misuse::Order));
    assert_eq!(server.finish(0), Err(Misuse::Order));
    let rest = sent(&mut server, u64::MAX);
    assert!(rest.starts_with("0:3 0:") && rest.ends_with('.'), "{rest}");
    assert_eq!(server.streams(), 0);
}

#[test]
fn the_urgent_and_the_small_go_first_and_incremental_ones_take_turns() {
    let incremental = [("priority", "i")];
    let mut server = serving(
        &[&[], &[], &[("priority", "u=0")], &incremental, &incremental],
        Limits::DEFAULT,
    );
    for (stream, body) in [(0, 3_000), (4, 2_000), (8, 3_000), (12, 2_000), (16, 2_000)] {
        respond(&mut server, stream, body);
    }
    let order = sent(&mut server, 1_008);
    let streams: Vec<&str> = order
        .split(' ')
        .map(|piece| piece.split(':').next().unwrap())
        .collect();
    assert_eq!(
        streams.join(" "),
        "8 0 4 12 16 8 8 12 16 4 12 16 4 0 0 0",
        "{order}: all heads behind one turn of the urgent one; then 4, the smaller one, in turns with 12 and 16"
    );
}

#[test]
fn the_smallest_goes_first_if_asked() {
    let limits = Limits {
        smallest_first: true,
        ..Limits::DEFAULT
    };
    let mut server = serving(&[&[], &[("priority", "i")]], limits);
    respond(&mut server, 0, 3_000);
    respond(&mut server, 4, 2_000);
    let order = sent(&mut server, 1_008);
    assert_eq!(order, "4:1008 0:5 4:1000. 0:1008 0:1008 0:987.");
}

#[test]
fn the_largest_section_and_the_first_above_it() {
    let limits = Limits {
        fields_max: 6,
        list_bytes_max: 300,
        ..Limits::DEFAULT
    };
    // Four pseudo-fields, 42 + 44 + 43 + 38 bytes.
    let long = "x".repeat(99);
    for (more, is_whole) in [
        (&[("a", "b"), ("a", "b")][..], true),
        (&[("a", "b"), ("a", "b"), ("a", "b")], false),
        (&[("aa", &long)], true),
        (&[("aaa", &long)], false),
    ] {
        let mut server = serving(&[], limits);
        server.open(0, NOW).unwrap();
        let expected = match is_whole {
            true => "request 0 true",
            false => "Oversized { stream: 0, end: true }",
        };
        assert_eq!(take(&mut server, 0, &request(more), true), [expected], "{more:?}");
    }
}

#[test]
fn priority_update_counts_before_and_after_the_request() {
    let mut server = serving(&[&[]], Limits::DEFAULT);
    server.open(2, NOW).unwrap();
    let mut control = vec![0, 4, 0];
    write::priority_update(0, "u=1", &mut control);
    write::priority_update(4, "u=2, i", &mut control);
    assert_eq!(take(&mut server, 2, &control, false), [""; 0]);
    assert_eq!(server.priority(0).map(|priority| priority.urgency), Some(1));
    server.open(4, NOW).unwrap();
    take(&mut server, 4, &request(&[("priority", "u=7")]), true);
    let priority = server.priority(4).unwrap();
    assert_eq!((priority.urgency, priority.incremental), (2, true));
    // Its stream is open, and its request comes later.
    server.open(8, NOW).unwrap();
    control.clear();
    write::priority_update(8, "u=6", &mut control);
    take(&mut server, 2, &control, false);
    take(&mut server, 8, &request(&[]), true);
    assert_eq!(server.priority(8).map(|priority| priority.urgency), Some(6));
    // Of those that come before their request, sixteen are kept: the latest.
    control.clear();
    for n in 3..30 {
        write::priority_update(4 * n, "u=1", &mut control);
    }
    take(&mut server, 2, &control, false);
    for n in [3, 13, 14, 29] {
        server.open(4 * n, NOW).unwrap();
        take(&mut server, 4 * n, &request(&[]), true);
        let expected = if n < 14 { 3 } else { 1 };
        assert_eq!(
            server.priority(4 * n).map(|priority| priority.urgency),
            Some(expected),
            "{n}"
        );
    }
}

#[test]
fn a_stream_that_flow_control_blocks_is_passed_over() {
    let limits = Limits::DEFAULT;
    let mut server = serving(&[&[("priority", "u=0")], &[]], limits);
    respond(&mut server, 0, 10_000);
    respond(&mut server, 4, 10);
    assert!(matches!(server.poll(), Some(Output::Write(piece)) if piece.stream == 0));
    server.sent(0, 100);
    server.blocked(0, NOW);
    assert!(sent(&mut server, u64::MAX).starts_with("4:"));
    assert_eq!(server.poll(), None);
    assert_eq!(server.deadline(), Some(NOW + limits.stall_time));
    // Less than 4 KiB passes: no progress.
    server.writable(0);
    assert_eq!(
        sent(&mut server, 1_000).split(' ').count(),
        10,
        "everything goes now"
    );
    assert_eq!(server.deadline(), None);
}

#[test]
fn a_stalled_stream_is_reset_and_a_creeping_one_too() {
    let limits = Limits::DEFAULT;
    let mut server = serving(&[&[], &[]], limits);
    for stream in [0, 4] {
        respond(&mut server, stream, 100_000);
        server.poll();
        server.blocked(stream, NOW);
    }
    let half = NOW + limits.stall_time / 2;
    for (stream, bytes) in [(0, 4_000), (4, 5_000)] {
        server.writable(stream);
        server.sent(stream, bytes);
        server.blocked(stream, half);
    }
    let (mut lost, late) = (Vec::new(), NOW + limits.stall_time);
    server
        .expire(late, |stream, code| lost.push((stream, code)))
        .unwrap();
    assert_eq!(lost, [(0, Code::EXCESSIVE_LOAD)]);
    assert_eq!(server.deadline(), Some(half + limits.stall_time));
    let code = Code::EXCESSIVE_LOAD;
    assert_eq!(server.poll(), Some(Output::Reset { stream: 0, code }));
    assert_eq!(
        server.poll(),
        None,
        "the request had ended, nothing of it is to stop"
    );
}

#[test]
fn a_stream_that_we_leave_waiting_is_not_reset() {
    let limits = Limits::DEFAULT;
    let mut server = serving(&[&[]], limits);
    respond(&mut server, 0, 100_000);
    server.poll();
    server.blocked(0, NOW);
    server.writable(0);
    let late = NOW + limits.stall_time;
    server
        .expire(late, |stream, _| panic!("stream {stream} may send"))
        .unwrap();
    assert_eq!((server.deadline(), server.streams()), (None, 1));
}

#[test]
fn a_head_must_come_in_time() {
    let limits = Limits::DEFAULT;
    let mut server = serving(&[], limits);
    for stream in [0, 4] {
        server.open(stream, NOW).unwrap();
    }
    take(&mut server, 0, &request(&[])[..5], false);
    take(&mut server, 4, &request(&[]), false);
    assert_eq!(server.deadline(), Some(NOW + limits.head_time), "of stream 0");
    let late = NOW + limits.head_time;
    let code = Code::EXCESSIVE_LOAD;
    let mut lost = Vec::new();
    server
        .expire(late, |stream, code| lost.push((stream, code)))
        .unwrap();
    assert_eq!(
        lost,
        [(0, code)],
        "the caller counts it, though it never saw its request"
    );
    assert_eq!(server.poll(), Some(Output::Reset { stream: 0, code }));
    assert_eq!(server.poll(), Some(Output::Stop { stream: 0, code }));
    assert_eq!(server.poll(), None);
    assert_eq!((server.deadline(), server.streams()), (None, 1));
}

#[test]
fn an_answer_before_the_end_of_the_request() {
    let mut server = serving(&[], Limits::DEFAULT);
    server.open(0, NOW).unwrap();
    let events = take(
        &mut server,
        0,
        &[&request(&[])[..], &[0, 5, 1, 2]].concat(),
        false,
    );
    assert_eq!(events, ["request 0 false", "body 2"]);
    respond(&mut server, 0, 10);
    assert!(sent(&mut server, u64::MAX).ends_with('.'));
    assert_eq!(server.streams(), 1, "the request goes on");
    server.stop(0, Code::NO_ERROR);
    let code = Code::NO_ERROR;
    assert_eq!(server.poll(), Some(Output::Stop { stream: 0, code }));
    assert_eq!(server.poll(), None);
    assert_eq!(server.streams(), 0);
    assert_eq!(
        server.peer_reset(0, NOW),
        Ok(false),
        "the client's answer to STOP_SENDING"
    );
    assert_eq!(take(&mut server, 0, b"late", true), [""; 0]);
}

#[test]
fn stopping_the_request_does_not_end_the_response() {
    let mut server = serving(&[], Limits::DEFAULT);
    server.open(0, NOW).unwrap();
    take(&mut server, 0, &request(&[]), false);
    respond(&mut server, 0, 10);
    server.stop(0, Code::NO_ERROR);
    assert_eq!(server.peer_reset(0, NOW), Ok(false));
    let order = sent(&mut server, u64::MAX);
    assert!(order.ends_with(" 0:17."), "{order}");
}

#[test]
fn jobs_hold_the_place_of_a_cancelled_stream() {
    let mut server = serving(
        &[&[], &[]],
        Limits {
            streams_max: 2,
            ..Limits::DEFAULT
        },
    );
    server.job_began(0);
    assert_eq!(server.peer_stopped(0, Code::REQUEST_CANCELLED, NOW), Ok(true));
    assert_eq!(server.peer_stopped(0, Code::REQUEST_CANCELLED, NOW), Ok(false));
    assert_eq!(server.streams(), 2);
    sent(&mut server, u64::MAX);
    server.open(8, NOW).unwrap();
    assert!(sent(&mut server, u64::MAX).contains("H3_REQUEST_REJECTED"));
    server.job_ended(0);
    assert_eq!(server.streams(), 1);
    server.open(12, NOW).unwrap();
    assert_eq!(take(&mut server, 12, &request(&[]), true), ["request 12 true"]);
}

#[test]
fn a_graceful_shutdown_serves_what_was_on_its_way() {
    let limits = Limits::DEFAULT;
    let mut server = serving(&[&[]], limits);
    server.shut_down(NOW);
    let Some(Output::Write(piece)) = server.poll() else {
        panic!("GOAWAY");
    };
    assert_eq!(
        piece.frames,
        [7, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]
    );
    server.sent(3, 10);
    server.open(4, NOW).unwrap();
    assert_eq!(take(&mut server, 4, &request(&[]), true), ["request 4 true"]);
    let due = NOW + limits.drain_time;
    assert_eq!(server.deadline(), Some(due));
    server.expire(due, |_, _| panic!("nothing is lost")).unwrap();
    let Some(Output::Write(piece)) = server.poll() else {
        panic!("the second GOAWAY");
    };
    assert_eq!(piece.frames, [7, 1, 8]);
    server.sent(3, 3);
    server.open(8, due).unwrap();
    let rejected = sent(&mut server, u64::MAX);
    assert_eq!(
        rejected.matches("stream: 8, code: H3_REQUEST_REJECTED").count(),
        2
    );
    for stream in [0, 4] {
        assert!(!server.is_drained());
        respond(&mut server, stream, 3);
        sent(&mut server, u64::MAX);
    }
    assert!(server.is_drained());
    server.shut_down(due);
    server.leave();
    assert_eq!(server.poll(), None, "GOAWAY is sent twice, not more");
}

#[test]
fn leaving_at_once_names_the_streams_of_now() {
    let mut server = serving(&[], Limits::DEFAULT);
    server.leave();
    assert!(server.is_drained());
    let Some(Output::Write(piece)) = server.poll() else {
        panic!("GOAWAY");
    };
    assert_eq!(piece.frames, [7, 1, 0]);
}

#[test]
fn goaway_of_a_client_says_nothing_of_its_requests() {
    let mut server = serving(&[], Limits::DEFAULT);
    server.open(2, NOW).unwrap();
    // The type of a control stream, SETTINGS, and GOAWAY that names push 0.
    take(&mut server, 2, &[0, 4, 0, 7, 1, 0], false);
    assert!(!server.is_drained());
    server.open(0, NOW).unwrap();
    assert_eq!(take(&mut server, 0, &request(&[]), true), ["request 0 true"]);
}

/// A section waits for its entry; the stream is left unread and goes on when the encoder stream has brought it.
#[test]
fn a_section_waits_for_the_dynamic_table() {
    let limits = Limits {
        table_bytes: 128,
        blocked_max: 1,
        ..Limits::DEFAULT
    };
    let mut server = serving(&[], limits);
    assert_eq!(
        sent(&mut server, u64::MAX),
        "7:1",
        "the type of the decoder stream"
    );
    for stream in [0, 2] {
        server.open(stream, NOW).unwrap();
    }
    let input = [&[1, 6, 2, 0, 0xd1, 0xd7, 0xc1, 0x80][..], &[0, 2, 1, 2]].concat();
    let received = server.receive(0, &input, true, NOW);
    assert!(matches!(received.event, Event::Partial));
    let used = received.used;
    assert_eq!(used, 8, "the rest stays with the caller");
    assert_eq!(
        take(&mut server, 2, &[2, 0x3f, 0x45, 0xc0, 1, b'a'], false),
        ["Resumed { stream: 0 }"]
    );
    let events = take(&mut server, 0, &input[used..], true);
    assert_eq!(events, ["request 0 false", "body 2", "End { stream: 0 }"]);
    let Some(Output::Write(piece)) = server.poll() else {
        panic!("an acknowledgment");
    };
    assert_eq!((piece.stream, piece.frames), (7, &[0x80][..]));
    server.sent(7, 1);
    // An entry that no section uses is announced by an increment.
    take(&mut server, 2, &[0xc0, 1, b'b'], false);
    assert_eq!(
        server
            .poll()
            .map(|output| matches!(output, Output::Write(piece) if piece.frames == [1])),
        Some(true)
    );
    server.sent(7, 1);
    // A stream that is reset while its section waits is cancelled.
    server.open(4, NOW).unwrap();
    assert_eq!(
        take(&mut server, 4, &[1, 6, 4, 0, 0xd1, 0xd7, 0xc1, 0x80], false),
        [""; 0]
    );
    assert_eq!(server.deadline(), Some(NOW + limits.head_time));
    assert_eq!(server.peer_reset(4, NOW), Ok(true));
    let order = sent(&mut server, u64::MAX);
    assert!(order.ends_with("7:1"), "{order}");
    // So is one that we give up.
    server.open(8, NOW).unwrap();
    server.reset(8, Code::INTERNAL_ERROR);
    let order = sent(&mut server, u64::MAX);
    assert!(order.contains("Stop") && order.ends_with("7:1"), "{order}");
}

#[test]
fn a_decoder_stream_that_is_not_read_is_bounded() {
    let limits = Limits {
        table_bytes: 128,
        backlog_bytes_max: 20,
        ..Limits::DEFAULT
    };
    let mut server = serving(&[], limits);
    server.open(2, NOW).unwrap();
    take(&mut server, 2, &[2, 0x3f, 0x45, 0xc0, 1, b'a'], false);
    server.blocked(7, NOW);
    let mut served = 0;
    let fault = loop {
        let stream = 4 * served;
        server.open(stream, NOW).unwrap();
        let events = take(&mut server, stream, &[1, 6, 2, 0, 0xd1, 0xd7, 0xc1, 0x80], true);
        if events[0] != format!("request {stream} true") {
            break events[0].clone();
        }
        served += 1;
        server.poll();
    };
    assert!(fault.contains("EXCESSIVE_LOAD"), "{fault}");
    assert!((15..20).contains(&served), "{served}");
    assert!(matches!(
        server.open(400, NOW),
        Err(Fault::Connection(Code::EXCESSIVE_LOAD, _))
    ));
}

#[test]
fn an_idle_connection_holds_little() {
    let mut server = serving(&[&[], &[], &[]], Limits::DEFAULT);
    for stream in [2, 6, 10] {
        server.open(stream, NOW).unwrap();
    }
    take(&mut server, 2, &[0, 4, 0], false);
    take(&mut server, 6, &[2], false);
    take(&mut server, 10, &[3], false);
    for stream in [0, 4, 8] {
        respond(&mut server, stream, 10_000);
    }
    sent(&mut server, u64::MAX);
    server.trim();
    assert!(server.memory() <= 1_200, "{} bytes", server.memory());
}

/// All that a client can make a connection hold at the default limits, without the bytes that the transport holds.
#[test]
fn memory_is_bounded() {
    let mut server = serving(&[], Limits::DEFAULT);
    let begun = [&[1, 0x80, 0, 0x7f, 0][..], &[0; 30_000]].concat();
    for n in 0..1_000 {
        if server.open(4 * n, NOW).is_err() {
            break;
        }
        take(&mut server, 4 * n, &begun, false);
        while server.poll().is_some() {
            server.sent(3, u64::MAX);
        }
    }
    assert!(server.memory() < 512 << 10, "{} bytes", server.memory());
}
