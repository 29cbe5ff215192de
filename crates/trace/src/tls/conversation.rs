//! Both directions of a TLS connection: combines their records into the facts of the handshake.

use super::hello::{ClientHello, ServerHello};
use super::record::{ContentType, Record, Records};
use crate::connection::Side;
use crate::quantity;
use core::time::Duration;
use measure::Instant;
use serde::Serialize;

/// Limit on the bytes of a hello message that are kept; a longer one is skipped.
const HELLO_MAX: usize = 1 << 14;
/// Limit on recorded alerts per connection.
const ALERTS_MAX: usize = 8;
/// Length of a protected TLS 1.3 alert: two bytes, the content type and a 16-byte tag (RFC 8446, section 5.2).
const ALERT_13: usize = 19;
const TLS13: u16 = 0x0304;

/// How a session was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resumption {
    /// TLS 1.3: the server accepted a pre-shared key (RFC 8446, section 2.2).
    Psk,
    /// TLS 1.2: the server accepted a session ticket (RFC 5077).
    Ticket,
    /// TLS 1.2: the server knew the session ID (RFC 5246, section 7.3).
    SessionId,
}

/// An alert sent in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Sender.
    pub sender: Side,
    /// Whether it ends the connection with an error.
    pub fatal: bool,
    /// Description (RFC 8446, section 6); 0 is `close_notify`.
    pub description: u8,
}

/// Facts of a connection's handshake. Facts that the capture lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Handshake {
    /// The client's latest offer.
    pub client: Option<ClientHello>,
    /// The server's final choice.
    pub server: Option<ServerHello>,
    /// Whether the server sent a HelloRetryRequest, which costs one round trip.
    pub retried: bool,
    /// How the session was resumed; `None` for a full handshake.
    pub resumption: Option<Resumption>,
    /// Whether the server's Certificate message was seen in clear. TLS 1.3 encrypts it.
    pub certificate_seen: bool,
    /// Alerts in clear, at most eight.
    pub alerts: Vec<Alert>,
    /// Time from the ClientHello's first byte to the client's first protected record, which holds its Finished or its
    /// certificate. `None` if the client offered early data, whose records look the same.
    #[serde(rename = "handshake_ms", serialize_with = "quantity::ms_option")]
    pub duration: Option<Duration>,
    /// Records of the client and of the server.
    pub records: [u64; 2],
}

#[derive(Debug)]
struct Half {
    records: Records,
    /// Handshake bytes in clear that do not form a whole message yet.
    message: Vec<u8>,
    /// Bytes of a skipped message that are still to come.
    skip: usize,
    /// Whether this end's records are protected from here on, so that handshake and alert bodies are ciphertext.
    is_protected: bool,
    /// Whether handshake bytes were lost, so that message boundaries are unknown.
    is_torn: bool,
}

impl Half {
    fn new(midstream: bool) -> Half {
        Half {
            records: Records::new(midstream),
            message: Vec::new(),
            skip: 0,
            is_protected: false,
            is_torn: midstream,
        }
    }
}

/// Reader of one connection.
#[derive(Debug)]
pub struct Conversation {
    halves: [Half; 2],
    begun: Option<Instant>,
    facts: Handshake,
}

impl Conversation {
    /// A reader at the start of a connection, or with `midstream` anywhere inside.
    pub fn new(midstream: bool) -> Conversation {
        Conversation {
            halves: [Half::new(midstream), Half::new(midstream)],
            begun: None,
            facts: Handshake::default(),
        }
    }

    /// Facts found so far.
    pub fn facts(&self) -> &Handshake {
        &self.facts
    }

    /// Whether a direction is not TLS.
    pub fn is_opaque(&self) -> bool {
        self.halves.iter().any(|half| half.records.is_opaque())
    }

    /// Reads the next bytes of one direction, the payload of a packet seen at `at`.
    pub fn bytes(&mut self, side: Side, at: Instant, input: &[u8]) {
        let Conversation { halves, begun, facts } = self;
        let Half { records, .. } = &mut halves[side as usize];
        let mut reader = core::mem::replace(records, Records::new(true));
        reader.bytes(at, input, |record| take(halves, begun, facts, side, record));
        halves[side as usize].records = reader;
    }

    /// Skips `n` bytes of one direction that were not captured.
    pub fn gap(&mut self, side: Side, at: Instant, n: u64) {
        let Conversation { halves, begun, facts } = self;
        let mut reader = core::mem::replace(&mut halves[side as usize].records, Records::new(true));
        halves[side as usize].is_torn = true;
        reader.gap(at, n, |record| take(halves, begun, facts, side, record));
        halves[side as usize].records = reader;
    }
}

fn take(
    halves: &mut [Half; 2],
    begun: &mut Option<Instant>,
    facts: &mut Handshake,
    side: Side,
    record: Record<'_>,
) {
    facts.records[side as usize] += 1;
    let half = &mut halves[side as usize];
    let is_13 = facts.server.as_ref().is_some_and(|hello| hello.version == TLS13);
    match record.content {
        ContentType::Handshake if half.is_protected => finished(*begun, facts, side, record),
        ContentType::Handshake => {
            if side == Side::Client && facts.client.is_none() {
                begun.get_or_insert(record.first);
            }
            if let (Some(fragment), false) = (record.fragment, half.is_torn) {
                messages(half, facts, side, fragment);
            }
        }
        ContentType::ChangeCipherSpec => half.is_protected |= !is_13 && facts.server.is_some(),
        ContentType::Alert if !half.is_protected => {
            if let (Some(&[level, description]), true) = (record.fragment, facts.alerts.len() < ALERTS_MAX) {
                facts.alerts.push(Alert {
                    sender: side,
                    fatal: level == 2,
                    description,
                });
            }
        }
        ContentType::Alert => {}
        ContentType::ApplicationData => {
            half.is_protected = true;
            if is_13 && record.len != ALERT_13 {
                finished(*begun, facts, side, record);
            }
        }
    }
}

/// The client's first protected record ends the handshake.
fn finished(begun: Option<Instant>, facts: &mut Handshake, side: Side, record: Record<'_>) {
    let is_early = facts.client.as_ref().is_none_or(|hello| hello.has_early_data);
    if side == Side::Client && !is_early && facts.duration.is_none() {
        facts.duration = begun.map(|begun| record.last.since(begun));
    }
}

/// Reads handshake messages (RFC 8446, section 4), which may span records and share them.
fn messages(half: &mut Half, facts: &mut Handshake, side: Side, mut input: &[u8]) {
    loop {
        let skipped = half.skip.min(input.len());
        half.skip -= skipped;
        input = &input[skipped..];
        let wanted = match half.message.len() {
            ..4 => 4,
            _ => 4 + length(&half.message),
        };
        let n = (wanted - half.message.len()).min(input.len());
        half.message.extend_from_slice(&input[..n]);
        input = &input[n..];
        if half.message.len() < 4 {
            return;
        }
        let (kind, len) = (half.message[0], length(&half.message));
        let is_hello = matches!(kind, 1 | 2) && len <= HELLO_MAX;
        if !is_hello {
            facts.certificate_seen |= kind == 11 && side == Side::Server;
            half.skip = len;
            half.message.clear();
        } else if half.message.len() == 4 + len {
            let message = core::mem::take(&mut half.message);
            hello(facts, side, kind, &message[4..]);
        } else if input.is_empty() {
            return;
        }
    }
}

/// Length of the body that a message header announces.
fn length(header: &[u8]) -> usize {
    usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3])
}

fn hello(facts: &mut Handshake, side: Side, kind: u8, body: &[u8]) {
    match (side, kind) {
        (Side::Client, 1) => {
            if let Ok(hello) = ClientHello::parse(body) {
                facts.client = Some(hello);
            }
        }
        (Side::Server, 2) => {
            let Ok(hello) = ServerHello::parse(body) else {
                return;
            };
            if hello.is_retry {
                facts.retried = true;
                return;
            }
            facts.resumption = resumption(facts.client.as_ref(), &hello);
            facts.server = Some(hello);
        }
        _ => {}
    }
}

fn resumption(client: Option<&ClientHello>, server: &ServerHello) -> Option<Resumption> {
    if server.version == TLS13 {
        return server.has_psk.then_some(Resumption::Psk);
    }
    let client = client?;
    // RFC 5077, section 3.4: with a ticket too, the server accepts by echoing the client's session ID.
    let is_known = !server.session_id.is_empty() && server.session_id == client.session_id;
    is_known.then_some(if client.has_ticket {
        Resumption::Ticket
    } else {
        Resumption::SessionId
    })
}

#[cfg(test)]
mod tests;
