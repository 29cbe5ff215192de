//! DNS over UDP (RFC 1035): questions, their responses, and the time between. Reads only the header and the first
//! question of a message; records of the answer are counted, not read.

use crate::connection::Side;
use crate::context::Context;
use crate::event::Event;
use crate::lookup::Lookup;
use crate::packet::Endpoint;
use units::Instant;

/// Port of DNS servers.
pub(crate) const PORT: u16 = 53;
/// Limit on open questions per pair of ends.
const PENDING_MAX: usize = 64;
/// Share of the common budget per open question: the record and the name.
const PENDING_BYTES: usize = 512;
/// Limit on the length of a name as text, in bytes; longer ones are malformed (RFC 1035, section 2.3.4).
const NAME_MAX: usize = 255;
const HEADER: usize = 12;

/// Header and first question of a message.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    id: u16,
    is_response: bool,
    truncated: bool,
    code: u8,
    answers: u16,
    /// Name and type of the question; `None` if the message has none, as some error responses.
    question: Option<(String, u16)>,
}

impl Message {
    /// Reads a message; `None` if it is cut before the end of its question, or is no query.
    fn parse(bytes: &[u8]) -> Option<Message> {
        let header = bytes.get(..HEADER)?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        // Only standard queries (opcode 0) have the layout below.
        if header[2] & 0x78 != 0 || word(4) > 1 {
            return None;
        }
        let question = match word(4) {
            0 => None,
            _ => {
                let (name, rest) = name(&bytes[HEADER..])?;
                let kind = rest.get(..4)?;
                Some((name, u16::from_be_bytes([kind[0], kind[1]])))
            }
        };
        Some(Message {
            id: word(0),
            is_response: header[2] & 0x80 != 0,
            truncated: header[2] & 0x02 != 0,
            code: header[3] & 0x0f,
            answers: word(6),
            question,
        })
    }
}

/// The name at the front of `bytes`, and the rest. The first name of a message has nothing to point back to, so compression
/// is malformed here.
fn name(mut bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut text = String::new();
    let mut length = 0;
    loop {
        let (&len, rest) = bytes.split_first()?;
        let (label, rest) = rest.split_at_checked(usize::from(len))?;
        bytes = rest;
        length += label.len() + 1;
        if len > 63 || length > NAME_MAX {
            return None;
        }
        if label.is_empty() {
            break;
        }
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            match byte {
                // A dot or backslash within a label (RFC 1035, section 5.1).
                b'.' | b'\\' => text.extend(['\\', char::from(*byte)]),
                0x21..=0x7e => text.push(char::from(byte.to_ascii_lowercase())),
                _ => text.push_str(&format!("\\{byte:03}")),
            }
        }
    }
    if text.is_empty() {
        text.push('.');
    }
    Some((text, bytes))
}

/// A question that has no response yet.
#[derive(Debug)]
struct Pending {
    id: u16,
    started: Instant,
    lookup: Lookup,
}

/// The open questions between two ends.
#[derive(Debug, Default)]
pub(crate) struct Questions(Vec<Pending>);

impl Questions {
    /// Reads a message between `client` and `server`, sent by `side`.
    pub(crate) fn message(
        &mut self,
        (client, server): (Endpoint, Endpoint),
        side: Side,
        bytes: &[u8],
        cx: &mut Context<'_>,
    ) {
        let totals = &mut cx.meter.udp.dns;
        match Message::parse(bytes) {
            Some(message) if message.is_response == (side == Side::Server) => match side {
                Side::Client => self.query((client, server), message, cx),
                Side::Server => self.response(message, cx),
            },
            _ => totals.malformed += 1,
        }
    }

    fn query(&mut self, (client, server): (Endpoint, Endpoint), message: Message, cx: &mut Context<'_>) {
        let Some((name, record)) = message.question else {
            cx.meter.udp.dns.malformed += 1;
            return;
        };
        let is_it = |pending: &&mut Pending| {
            pending.id == message.id && pending.lookup.name == name && pending.lookup.record == record
        };
        if let Some(pending) = self.0.iter_mut().find(is_it) {
            pending.lookup.transmissions += 1;
            pending.lookup.last_packet = cx.number;
            cx.meter.udp.dns.repeated += 1;
            return;
        }
        cx.meter.udp.dns.questions += 1;
        if self.0.len() >= PENDING_MAX {
            let oldest = self.0.remove(0);
            cx.budget.release(PENDING_BYTES);
            report(oldest.lookup, cx);
        }
        if !cx.budget.hold(PENDING_BYTES) {
            cx.meter.udp.dns.unanswered += 1;
            return;
        }
        self.0.push(Pending {
            id: message.id,
            started: cx.at,
            lookup: Lookup {
                client,
                server,
                name,
                record,
                start: cx.at.since(cx.start),
                wait: None,
                code: None,
                answers: 0,
                truncated: false,
                transmissions: 1,
                first_packet: cx.number,
                last_packet: cx.number,
            },
        });
    }

    fn response(&mut self, message: Message, cx: &mut Context<'_>) {
        let is_it = |pending: &Pending| {
            let is_same = |(name, record): &(String, u16)| {
                pending.lookup.name == *name && pending.lookup.record == *record
            };
            pending.id == message.id && message.question.as_ref().is_none_or(is_same)
        };
        let Some(at) = self.0.iter().position(is_it) else {
            cx.meter.udp.dns.unmatched_responses += 1;
            return;
        };
        let Pending { started, lookup, .. } = self.0.remove(at);
        cx.budget.release(PENDING_BYTES);
        let lookup = Lookup {
            wait: Some(cx.at.since(started)),
            code: Some(message.code),
            answers: message.answers,
            truncated: message.truncated,
            last_packet: cx.number,
            ..lookup
        };
        report(lookup, cx);
    }

    /// Reports the questions that stay without a response.
    pub(crate) fn finish(&mut self, cx: &mut Context<'_>) {
        for pending in self.0.drain(..) {
            cx.budget.release(PENDING_BYTES);
            report(pending.lookup, cx);
        }
    }
}

fn report(lookup: Lookup, cx: &mut Context<'_>) {
    let totals = &mut cx.meter.udp.dns;
    match lookup.code {
        None => totals.unanswered += 1,
        Some(code) => {
            totals.answered += 1;
            totals.nonexistent += u64::from(code == 3);
            totals.failed += u64::from(code != 0 && code != 3);
        }
    }
    if let (Some(wait), 1) = (lookup.wait, lookup.transmissions) {
        totals.round_trip.record(wait);
    }
    cx.events.push_back(Event::Lookup(Box::new(lookup)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with one question of type A.
    fn message(id: u16, flags: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [id, flags, 1, 0, 0, 0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&[0, 1, 0, 1]);
        bytes
    }

    #[test]
    fn a_message_is_its_header_and_its_question() {
        let query = message(7, 0x0100, b"\x03WWW\x07example\x00");
        let read = Message::parse(&query).expect("a query");
        assert_eq!(read.question, Some(("www.example".to_owned(), 1)));
        assert_eq!((read.id, read.is_response), (7, false));
        for cut in 0..query.len() {
            assert_eq!(Message::parse(&query[..cut]), None, "{cut}");
        }
        let missing = Message::parse(&message(7, 0x8183, b"\x00")).expect("a response");
        assert_eq!((missing.code, missing.is_response), (3, true));
        assert_eq!(missing.question, Some((".".to_owned(), 1)));
    }

    #[test]
    fn odd_names_are_escaped_or_malformed() {
        for (wire, want) in [
            (&b"\x04a.b\\\x00"[..], Some("a\\.b\\\\")),
            (b"\x02\xc3\xa4\x00", Some("\\195\\164")),
            (b"\x01 \x00", Some("\\032")),
            // A pointer, a label without its end, a name without its end.
            (b"\xc0\x0c", None),
            (b"\x05abc", None),
            (b"\x01a", None),
        ] {
            assert_eq!(name(wire).map(|(name, _)| name).as_deref(), want, "{wire:?}");
        }
        let label = [&[63][..], &[b'a'; 63]].concat();
        let long = |labels: usize| [label.repeat(labels), vec![0]].concat();
        assert!(name(&long(3)).is_some());
        assert!(name(&long(4)).is_none(), "256 bytes are one too many");
    }
}
