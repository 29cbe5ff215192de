//! Records of an application. Content is passed on as it arrives, so a record need not be complete and nothing of it is held.
//!
//! ```text
//!   Header ─▶ Content ─▶ Padding ─▶ Header          STDOUT, STDERR and what is skipped
//!        └──▶ End ─────▶ Padding ─▶ Header          END_REQUEST: the request is over
//! ```

use crate::{Fault, HEADER, REQUEST, VERSION, kind};

/// Most management records (with the request id 0) during one request. A web server asks for none, so an application has no
/// reason to send any; they are skipped.
const MANAGEMENT_MAX: u8 = 16;

/// What an application sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A piece of the response; never empty.
    Output(&'b [u8]),
    /// A piece of its error messages; never empty.
    Error(&'b [u8]),
    /// The request is over.
    End(End),
}

/// How a request ended (`protocolStatus` in section 5.5 of the specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was processed. The exit status, which has no meaning to a web server, is not passed on.
    Complete,
    /// The application did not process the request: it is overloaded, or has another request on this connection.
    Refused,
    /// The application does not know the role of a responder, or gave a reason that the specification does not have.
    Unknown(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes of the header have arrived.
    Header([u8; HEADER], usize),
    /// So many bytes of content are due, then those of the padding.
    Content {
        kind: u8,
        left: u16,
        padding: u8,
    },
    /// So many bytes of the content of `FCGI_END_REQUEST` have arrived, of this many.
    End {
        body: [u8; 8],
        got: u16,
        length: u16,
        padding: u8,
    },
    Padding(u8),
}

/// Decodes the records of one connection.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    has_ended_output: bool,
    has_ended_errors: bool,
    is_over: bool,
    management: u8,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder {
            state: State::Header([0; HEADER], 0),
            has_ended_output: false,
            has_ended_errors: false,
            is_over: false,
            management: 0,
        }
    }
}

impl Decoder {
    /// Whether the request is over and no part of a record has arrived since, so another request can follow.
    pub fn is_at_rest(&self) -> bool {
        self.is_over && matches!(self.state, State::Header(_, 0))
    }

    /// Another request begins.
    pub fn begin(&mut self) {
        *self = Decoder::default();
    }

    /// Takes bytes up to the first event. Returns how many were used; without an event, those are all.
    ///
    /// # Errors
    /// The bytes are none that an application may send. Nothing that follows has a meaning.
    pub fn receive<'b>(&mut self, bytes: &'b [u8]) -> Result<(usize, Option<Event<'b>>), Fault> {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            match &mut self.state {
                State::Header(header, got) => {
                    let count = rest.len().min(HEADER - *got);
                    header[*got..*got + count].copy_from_slice(&rest[..count]);
                    *got += count;
                    used += count;
                    // Only the first byte tells another protocol from a record that is not complete.
                    if header[0] != VERSION {
                        return Err(Fault::Version(header[0]));
                    }
                    if *got == HEADER {
                        let header = *header;
                        self.begin_record(header)?;
                    }
                }
                State::Content { kind, left, padding } => {
                    let count = rest.len().min(usize::from(*left));
                    let kind = *kind;
                    *left -= count as u16;
                    if *left == 0 {
                        self.state = after(*padding);
                    }
                    used += count;
                    let piece = &rest[..count];
                    match kind {
                        kind::STDOUT => return Ok((used, Some(Event::Output(piece)))),
                        kind::STDERR => return Ok((used, Some(Event::Error(piece)))),
                        _ => {}
                    }
                }
                State::End {
                    body,
                    got,
                    length,
                    padding,
                } => {
                    let count = rest.len().min(usize::from(*length - *got));
                    for (at, &byte) in rest[..count].iter().enumerate() {
                        // A later version may have more.
                        if let Some(place) = body.get_mut(usize::from(*got) + at) {
                            *place = byte;
                        }
                    }
                    *got += count as u16;
                    used += count;
                    if got == length {
                        let end = match body[4] {
                            0 => End::Complete,
                            1 | 2 => End::Refused,
                            other => End::Unknown(other),
                        };
                        self.state = after(*padding);
                        self.is_over = true;
                        return Ok((used, Some(Event::End(end))));
                    }
                }
                State::Padding(left) => {
                    let count = rest.len().min(usize::from(*left));
                    *left -= count as u8;
                    used += count;
                    if *left == 0 {
                        self.state = after(0);
                    }
                }
            }
        }
        Ok((used, None))
    }

    fn begin_record(&mut self, header: [u8; HEADER]) -> Result<(), Fault> {
        let [_, kind, id_high, id_low, high, low, padding, _] = header;
        let length = u16::from_be_bytes([high, low]);
        let id = u16::from_be_bytes([id_high, id_low]);
        if id == 0 {
            self.management += 1;
            if self.management > MANAGEMENT_MAX {
                return Err(Fault::Management);
            }
            self.state = content(0, length, padding);
            return Ok(());
        }
        if id != REQUEST || self.is_over {
            return Err(Fault::Request(id));
        }
        let has_ended = match kind {
            kind::STDOUT => &mut self.has_ended_output,
            kind::STDERR => &mut self.has_ended_errors,
            kind::END_REQUEST if length < 8 => return Err(Fault::ShortEnd(length)),
            kind::END_REQUEST => {
                self.state = State::End {
                    body: [0; 8],
                    got: 0,
                    length,
                    padding,
                };
                return Ok(());
            }
            other => return Err(Fault::Kind(other)),
        };
        if *has_ended {
            return Err(Fault::AfterEnd);
        }
        *has_ended = length == 0;
        self.state = content(kind, length, padding);
        Ok(())
    }
}

fn content(kind: u8, left: u16, padding: u8) -> State {
    match left {
        0 => after(padding),
        left => State::Content { kind, left, padding },
    }
}

fn after(padding: u8) -> State {
    match padding {
        0 => State::Header([0; HEADER], 0),
        padding => State::Padding(padding),
    }
}

/// All that came in these pieces of input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct All {
    pub(crate) stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<End>,
    fault: Option<Fault>,
    is_at_rest: bool,
}

/// Decodes input that arrives in pieces.
pub(crate) fn all(pieces: &[&[u8]]) -> All {
    let mut decoder = Decoder::default();
    let mut all = All::default();
    'pieces: for piece in pieces {
        let mut used = 0;
        while used < piece.len() {
            match decoder.receive(&piece[used..]) {
                Ok((more, event)) => {
                    assert!(more > 0, "input was not used");
                    used += more;
                    match event {
                        Some(Event::Output(out)) => all.stdout.extend_from_slice(out),
                        Some(Event::Error(err)) => all.stderr.extend_from_slice(err),
                        Some(Event::End(end)) => all.end = Some(end),
                        None => assert_eq!(used, piece.len()),
                    }
                }
                Err(fault) => {
                    all.fault = Some(fault);
                    break 'pieces;
                }
            }
        }
    }
    all.is_at_rest = decoder.is_at_rest();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
        let [id_high, id_low] = id.to_be_bytes();
        let [high, low] = (content.len() as u16).to_be_bytes();
        let mut out = vec![1, kind, id_high, id_low, high, low, padding, 0];
        out.extend_from_slice(content);
        out.resize(out.len() + usize::from(padding), 0xff);
        out
    }

    fn end(status: u8) -> Vec<u8> {
        record(kind::END_REQUEST, 1, &[0, 0, 0, 7, status, 0, 0, 0], 0)
    }

    #[test]
    fn a_response_is_the_same_wherever_it_is_cut() {
        let bytes = [
            record(kind::STDERR, 1, b"a warning", 7),
            record(kind::STDOUT, 1, b"Status: 200\r\n\r\n", 0),
            record(10, 0, b"FCGI_MAX_CONNS", 2),
            record(kind::STDOUT, 1, b"content", 255),
            record(kind::STDOUT, 1, b"", 3),
            record(kind::STDERR, 1, b"", 0),
            record(kind::END_REQUEST, 1, &[0, 0, 0, 7, 0, 0, 0, 0, 9, 9], 6),
        ]
        .concat();
        let expected = All {
            stdout: b"Status: 200\r\n\r\ncontent".to_vec(),
            stderr: b"a warning".to_vec(),
            end: Some(End::Complete),
            fault: None,
            is_at_rest: true,
        };
        assert_eq!(all(&[&bytes]), expected);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(all(&[first, second]), expected, "cut at {at}");
        }
        let bytewise: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(all(&bytewise), expected);
    }

    #[test]
    fn faults_are_named() {
        let flood: Vec<u8> = (0..=MANAGEMENT_MAX).flat_map(|_| record(10, 0, b"", 0)).collect();
        for (bytes, fault) in [
            (b"HTTP/1.1 200 OK".to_vec(), Fault::Version(b'H')),
            (record(kind::STDOUT, 2, b"x", 0), Fault::Request(2)),
            (record(kind::STDIN, 1, b"x", 0), Fault::Kind(kind::STDIN)),
            (record(99, 1, b"", 0), Fault::Kind(99)),
            (record(kind::END_REQUEST, 1, b"1234567", 0), Fault::ShortEnd(7)),
            (flood, Fault::Management),
            (
                [record(kind::STDOUT, 1, b"", 0), record(kind::STDOUT, 1, b"x", 0)].concat(),
                Fault::AfterEnd,
            ),
            (
                [record(kind::STDERR, 1, b"", 0), record(kind::STDERR, 1, b"", 0)].concat(),
                Fault::AfterEnd,
            ),
            (
                [end(0), record(kind::STDOUT, 1, b"x", 0)].concat(),
                Fault::Request(1),
            ),
        ] {
            assert_eq!(all(&[&bytes]).fault, Some(fault));
            assert!(!fault.to_string().is_empty());
        }
    }

    #[test]
    fn a_request_ends_in_one_of_three_ways() {
        for (status, expected) in [
            (0, End::Complete),
            (1, End::Refused),
            (2, End::Refused),
            (3, End::Unknown(3)),
            (200, End::Unknown(200)),
        ] {
            assert_eq!(all(&[&end(status)]).end, Some(expected));
        }
    }

    #[test]
    fn a_connection_rests_only_between_requests() {
        let mut decoder = Decoder::default();
        assert!(!decoder.is_at_rest(), "the response is due");
        decoder.receive(&end(0)).unwrap();
        assert!(decoder.is_at_rest());
        decoder.receive(&[1]).unwrap();
        assert!(!decoder.is_at_rest(), "something has arrived since");
        decoder.begin();
        assert!(!decoder.is_at_rest());
        let padded = record(kind::END_REQUEST, 1, &[0; 8], 1);
        let (used, _) = decoder.receive(&padded[..16]).unwrap();
        assert_eq!((used, decoder.is_at_rest()), (16, false), "padding is due");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(data in prop::collection::vec(any::<u8>(), 0..400)) {
            crate::exercise(&data);
        }

        #[test]
        fn records_of_any_content_are_joined(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 1..200), any::<u8>()), 0..6),
            piece in 1..64_usize,
        ) {
            let mut bytes = Vec::new();
            let mut expected = All { end: Some(End::Complete), is_at_rest: true, ..All::default() };
            for (is_error, content, padding) in &pieces {
                let (kind, stream) = match is_error {
                    true => (kind::STDERR, &mut expected.stderr),
                    false => (kind::STDOUT, &mut expected.stdout),
                };
                stream.extend_from_slice(content);
                bytes.extend(record(kind, 1, content, *padding));
            }
            bytes.extend(end(0));
            let cut: Vec<&[u8]> = bytes.chunks(piece).collect();
            prop_assert_eq!(all(&cut), expected);
        }
    }
}
