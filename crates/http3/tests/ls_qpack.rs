//! Field sections that ls-qpack wrote (`testdata/record-qpack`), with dynamic tables of several sizes, given to a server and to a
//! client in pieces. Some sections come before the entries they need and must wait.

use http3::connection::{Connection, Event, Output};
use http3::frame::{kind, write};
use http3::priority::Priority;
use http3::qpack::Fields;
use http3::{Limits, client, server};
use std::sync::Arc;
use units::Instant;

const NOW: Instant = Instant::ZERO;

fn hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// A list of fields.
type List = Vec<(String, String)>;

/// What a connection receives, in order.
enum Step<'l> {
    Encoder(Vec<u8>),
    Section(u64, &'l List, Vec<u8>),
}

/// What happened to the sections of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sections: usize,
    resumed: usize,
    /// Bytes on the decoder stream.
    feedback: usize,
}

fn limits(table: &str, blocked: &str) -> Arc<Limits> {
    Arc::new(Limits {
        table_bytes: table.parse().expect("a number"),
        blocked_max: blocked.parse().expect("a number"),
        ..Limits::DEFAULT
    })
}

/// Gives the steps to a connection whose peer has the encoder stream `encoder`.
fn run<R>(mut connection: Connection<R>, encoder: u64, steps: &[Step<'_>]) -> Counts {
    let mut counts = Counts::default();
    let is_server = encoder & 1 == 0;
    connection.open(encoder, NOW).expect("its first stream");
    let mut expected: Vec<Option<&List>> = Vec::new();
    drain(&mut connection, &mut counts);
    counts.feedback = 0;
    give(&mut connection, encoder, &[2], &mut expected, &mut counts);
    for step in steps {
        match step {
            Step::Encoder(bytes) => give(&mut connection, encoder, bytes, &mut expected, &mut counts),
            Step::Section(stream, list, section) => {
                if is_server {
                    connection.open(*stream, NOW).expect("a request stream");
                }
                expected.resize(expected.len().max(*stream as usize / 4 + 1), None);
                expected[*stream as usize / 4] = Some(list);
                let mut frame = Vec::new();
                write::frame(kind::HEADERS, section, &mut frame);
                give(&mut connection, *stream, &frame, &mut expected, &mut counts);
            }
        }
        drain(&mut connection, &mut counts);
    }
    assert!(expected.iter().all(Option::is_none), "every section was decoded");
    counts
}

/// Offers bytes in pieces, and what waited once it is resumed. No section is followed by anything, so that what waits is empty.
fn give<R>(
    connection: &mut Connection<R>,
    stream: u64,
    bytes: &[u8],
    expected: &mut [Option<&List>],
    counts: &mut Counts,
) {
    for piece in bytes.chunks(7) {
        let (mut rest, mut ready) = (piece, vec![stream]);
        while let Some(stream) = ready.pop() {
            loop {
                let received = connection.receive(stream, rest, false, NOW);
                rest = &rest[received.used..];
                let (stream, fields): (u64, &Fields) = match received.event {
                    Event::Partial => break,
                    Event::Resumed { stream } => {
                        counts.resumed += 1;
                        ready.push(stream);
                        continue;
                    }
                    Event::Request { stream, fields, .. } | Event::Response { stream, fields, .. } => {
                        (stream, fields)
                    }
                    other => panic!("{other:?}"),
                };
                let list = expected[stream as usize / 4]
                    .take()
                    .expect("its section has come");
                let list = list
                    .iter()
                    .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                assert!(fields.iter().eq(list), "stream {stream}: {fields:?}");
                counts.sections += 1;
            }
        }
        assert!(rest.is_empty(), "all was taken");
    }
}

fn drain<R>(connection: &mut Connection<R>, counts: &mut Counts) {
    while let Some(output) = connection.poll() {
        let Output::Write(piece) = output else {
            panic!("{output:?}");
        };
        let (stream, bytes) = (piece.stream, piece.frames.len());
        if stream & 2 != 0 {
            counts.feedback += bytes;
        }
        connection.sent(stream, bytes as u64);
    }
}

fn server(limits: Arc<Limits>, steps: &[Step<'_>]) -> Counts {
    run(server::Connection::new(limits), 2, steps)
}

fn client(limits: Arc<Limits>, steps: &[Step<'_>]) -> Counts {
    let mut client = client::Connection::new(limits);
    for step in steps {
        if let Step::Section(stream, ..) = step {
            let sent = client.request(*stream, &[0, 0], true, false, Priority::DEFAULT);
            sent.expect("nobody leaves");
        }
    }
    run(client, 3, steps)
}

#[test]
fn sections_of_another_encoder() {
    let mut lists: Vec<List> = Vec::new();
    for line in include_str!("../testdata/qpack.txt").lines() {
        match line.split_once('\t') {
            Some((name, value)) => {
                let list = lists.last_mut().expect("a list has begun");
                list.push((name.to_owned(), value.to_owned()));
            }
            None if line.starts_with("list ") => lists.push(List::new()),
            None => {}
        }
    }
    type Run<'l> = (String, Arc<Limits>, Vec<Step<'l>>);
    let mut runs: Vec<Run<'_>> = Vec::new();
    let lines = include_str!("../testdata/qpack.txt").lines();
    for line in lines.filter(|line| !line.contains('\t')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["list", _] => {}
            [side, table, blocked] if side != "section" => {
                runs.push((side.to_owned(), limits(table, blocked), Vec::new()));
            }
            ["encoder", bytes] => runs.last_mut().expect("begun").2.push(Step::Encoder(hex(bytes))),
            ["section", stream, list, bytes] => {
                let list = &lists[list.parse::<usize>().expect("a number")];
                let step = Step::Section(stream.parse().expect("a number"), list, hex(bytes));
                runs.last_mut().expect("begun").2.push(step);
            }
            _ => panic!("a line of an unknown kind: {line}"),
        }
    }
    assert_eq!(runs.len(), 8);
    let mut resumed = 0;
    for (side, limits, steps) in runs {
        let counts = match &side[..] {
            "requests" => server(limits.clone(), &steps),
            _ => client(limits.clone(), &steps),
        };
        let label = format!("{side}, {} bytes: {counts:?}", limits.table_bytes);
        assert_eq!(counts.sections, lists.len() / 2, "{label}");
        assert_eq!(counts.feedback > 0, limits.table_bytes > 0, "{label}");
        resumed += counts.resumed;
    }
    assert!(resumed >= 5, "{resumed} sections waited");
}
