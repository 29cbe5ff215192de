//! The record layer (RFC 8446, section 5.1; RFC 5246, section 6.2): cuts one direction's stream into records.
//!
//! Bytes that the capture lacks are announced as gaps. A gap inside a record costs that record. After a larger gap the
//! reader skips bytes until a piece of the stream starts with a plausible record header.

use crate::times::{Stamp, Times};

/// Largest fragment of a protected record: 2^14 bytes and 2048 of expansion (RFC 5246, section 6.2.3).
const FRAGMENT_MAX: usize = (1 << 14) + 2048;
/// Capacity of the buffer that is kept between records, in bytes.
const KEPT: usize = 1 << 10;
/// Length of a record header in bytes.
pub(crate) const HEADER: usize = 5;

/// Content type of a record (RFC 8446, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentType {
    /// Starts protected records in TLS 1.2; without meaning in TLS 1.3.
    ChangeCipherSpec,
    /// Errors and the end of the stream.
    Alert,
    /// Negotiation.
    Handshake,
    /// Payload; in TLS 1.3, every protected record.
    ApplicationData,
}

impl ContentType {
    /// The type with this number; `None` for numbers that TLS over TCP does not use.
    pub(super) fn of(number: u8) -> Option<ContentType> {
        match number {
            20 => Some(ContentType::ChangeCipherSpec),
            21 => Some(ContentType::Alert),
            22 => Some(ContentType::Handshake),
            23 => Some(ContentType::ApplicationData),
            _ => None,
        }
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Its content type, as the header says.
    pub(crate) content: ContentType,
    pub(crate) header: [u8; HEADER],
    pub(crate) times: Times,
    /// Length of the fragment in bytes, as the header says.
    pub(crate) len: usize,
    /// The fragment; `None` if the capture lacks some of its bytes, or the reader does not keep them.
    pub(crate) fragment: Option<&'a [u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Reading a header or a fragment into the buffer.
    Whole,
    /// Skipping the rest of a record that has missing bytes or is not kept; the number of bytes left.
    Torn(usize),
    /// The position of record boundaries is unknown.
    Lost,
    /// The stream is not TLS, or was given up.
    Opaque,
}

/// The record reader of one direction.
#[derive(Debug)]
pub(crate) struct Records {
    state: State,
    /// Header and fragment of the current record, as far as they have arrived.
    buffer: Vec<u8>,
    begun: Stamp,
    came: Stamp,
    /// Whether fragments of protected records are kept.
    pub(super) keeps: bool,
}

/// Content type and fragment length, or `None` if no TLS record starts so.
fn header(bytes: &[u8]) -> Option<(ContentType, usize)> {
    let content = ContentType::of(bytes[0])?;
    let len = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
    // SSL 3.0 to TLS 1.2; TLS 1.3 writes 1.2 here.
    let is_version = bytes[1] == 3 && bytes[2] <= 3;
    (is_version && (1..=FRAGMENT_MAX).contains(&len)).then_some((content, len))
}

/// Whether bytes begin with a record. Text, as of HTTP, never does.
pub(crate) fn is_record(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER && header(bytes).is_some()
}

/// Whether bytes begin as a record with a ClientHello, as far as they go. Text never does.
pub(crate) fn is_hello(bytes: &[u8]) -> bool {
    let is = |at: usize, wanted: u8| bytes.get(at).is_none_or(|byte| *byte == wanted);
    !bytes.is_empty() && is(0, 22) && is(1, 3) && is(5, 1)
}

impl Records {
    /// A reader at the start of a stream, or with `midstream` anywhere inside.
    pub(crate) fn new(midstream: bool) -> Records {
        let never = (units::Instant::ZERO, 0);
        Records {
            state: if midstream { State::Lost } else { State::Whole },
            buffer: Vec::new(),
            begun: never,
            came: never,
            keeps: true,
        }
    }

    /// Whether the stream is not TLS, or was given up. No further byte will be parsed.
    pub(crate) fn is_opaque(&self) -> bool {
        self.state == State::Opaque
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// Reads nothing more, and holds nothing.
    pub(super) fn give_up(&mut self) {
        self.state = State::Opaque;
        self.buffer = Vec::new();
    }

    /// Reads the stream's next bytes, which came at `came` and were in order at `here`.
    pub(crate) fn bytes(
        &mut self,
        came: Stamp,
        here: Stamp,
        mut input: &[u8],
        mut emit: impl FnMut(Record<'_>),
    ) {
        if self.state == State::Lost {
            if input.len() < HEADER || header(input).is_none() {
                return;
            }
            self.state = State::Whole;
        }
        while !input.is_empty() {
            if self.buffer.is_empty() {
                (self.begun, self.came) = (came, came);
            } else if came.1 > self.came.1 {
                self.came = came;
            }
            match self.state {
                State::Lost | State::Opaque => return,
                State::Torn(left) => {
                    let n = left.min(input.len());
                    input = &input[n..];
                    self.skip(left - n, here, &mut emit);
                }
                State::Whole => {
                    let wanted = match self.buffer.len() {
                        ..HEADER => HEADER,
                        _ => HEADER + header(&self.buffer).map_or(0, |(_, len)| len),
                    };
                    let n = (wanted - self.buffer.len()).min(input.len());
                    self.buffer.extend_from_slice(&input[..n]);
                    input = &input[n..];
                    if self.buffer.len() == wanted {
                        self.reached(wanted, here, &mut emit);
                    }
                }
            }
        }
        if self.buffer.is_empty() {
            self.buffer.shrink_to(KEPT);
        }
    }

    /// The buffer holds a complete header or a complete record.
    fn reached(&mut self, wanted: usize, here: Stamp, emit: &mut impl FnMut(Record<'_>)) {
        let Some((content, len)) = header(&self.buffer) else {
            self.state = State::Opaque;
            self.buffer = Vec::new();
            return;
        };
        if wanted == HEADER {
            if !self.keeps && content == ContentType::ApplicationData {
                self.state = State::Torn(len);
            }
            return;
        }
        emit(self.record(content, len, here, Some(&self.buffer[HEADER..])));
        self.buffer.clear();
    }

    fn record<'a>(
        &self,
        content: ContentType,
        len: usize,
        here: Stamp,
        fragment: Option<&'a [u8]>,
    ) -> Record<'a> {
        let mut header = [0; HEADER];
        header.copy_from_slice(&self.buffer[..HEADER]);
        Record {
            content,
            header,
            times: Times {
                begun: self.begun,
                came: self.came,
                here,
            },
            len,
            fragment,
        }
    }

    /// Skips `n` bytes that were not captured; `here` is the packet that showed the gap.
    pub(crate) fn gap(&mut self, here: Stamp, n: u64, mut emit: impl FnMut(Record<'_>)) {
        let left = match self.state {
            State::Lost | State::Opaque => return,
            State::Torn(left) => Some(left),
            State::Whole if self.buffer.len() < HEADER => None,
            State::Whole => header(&self.buffer).map(|(_, len)| HEADER + len - self.buffer.len()),
        };
        match left {
            Some(left) if n <= left as u64 => self.skip(left - n as usize, here, &mut emit),
            _ => {
                self.state = State::Lost;
                self.buffer = Vec::new();
            }
        }
    }

    /// Whether the position of record boundaries is unknown.
    pub(super) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Moves on in a record that is not kept, to `left` bytes before its end.
    fn skip(&mut self, left: usize, here: Stamp, emit: &mut impl FnMut(Record<'_>)) {
        if left > 0 {
            self.state = State::Torn(left);
            return;
        }
        self.state = State::Whole;
        if let Some((content, len)) = header(&self.buffer) {
            emit(self.record(content, len, here, None));
        }
        self.buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Stamp = (units::Instant::ZERO, 1);

    fn read(records: &mut Records, input: &[u8], out: &mut Vec<(ContentType, Option<Vec<u8>>)>) {
        records.bytes(NOW, NOW, input, |record| {
            out.push((record.content, record.fragment.map(<[u8]>::to_vec)));
        });
    }

    const TWO: &[u8] = &[21, 3, 3, 0, 2, 1, 0, 23, 3, 3, 0, 3, 7, 8, 9];

    fn both() -> Vec<(ContentType, Option<Vec<u8>>)> {
        vec![
            (ContentType::Alert, Some(vec![1, 0])),
            (ContentType::ApplicationData, Some(vec![7, 8, 9])),
        ]
    }

    #[test]
    fn records_may_be_cut_anywhere() {
        for cut in 0..=TWO.len() {
            let (mut records, mut out) = (Records::new(false), Vec::new());
            read(&mut records, &TWO[..cut], &mut out);
            read(&mut records, &TWO[cut..], &mut out);
            assert_eq!(out, both(), "{cut}");
        }
        let (mut records, mut out) = (Records::new(false), Vec::new());
        TWO.iter().for_each(|byte| read(&mut records, &[*byte], &mut out));
        assert_eq!(out, both());
    }

    #[test]
    fn a_gap_inside_a_record_costs_only_that_record() {
        let (mut records, mut out) = (Records::new(false), Vec::new());
        read(&mut records, &TWO[..6], &mut out);
        records.gap(NOW, 1, |record| out.push((record.content, None)));
        read(&mut records, &TWO[7..], &mut out);
        assert_eq!(out[0], (ContentType::Alert, None));
        assert_eq!(out[1], both()[1]);
    }

    #[test]
    fn after_a_larger_gap_a_piece_that_starts_with_a_record_is_read() {
        let (mut records, mut out) = (Records::new(false), Vec::new());
        read(&mut records, &TWO[..6], &mut out);
        records.gap(NOW, 2, |_| panic!("no record is complete"));
        read(&mut records, &TWO[8..], &mut out);
        assert_eq!(out, []);
        read(&mut records, TWO, &mut out);
        assert_eq!(out, both());
    }

    #[test]
    fn other_protocols_are_opaque() {
        for other in [&b"GET / HTTP/1.1"[..], &[22, 3, 9, 0, 1], &[22, 3, 3, 0xff, 0xff]] {
            let mut records = Records::new(false);
            read(&mut records, other, &mut Vec::new());
            assert!(records.is_opaque(), "{other:?}");
        }
    }
}
