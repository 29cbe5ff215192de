//! The TLS handshake in CRYPTO frames: messages in order, and what they say.

use super::assembly::{Arrival, Assembly};
use super::parameters;
use super::protect::Space;
use crate::budget::Budget;
use crate::connection::Side;
use crate::quic_facts::TransportParameters;
use crate::times::Stamp;
use crate::tls::{ClientHello, ServerHello};

/// Limit on the bytes of a handshake message that are kept; a longer one is skipped.
const MESSAGE_MAX: usize = 1 << 14;
/// Length of a message's header in bytes.
const HEADER: usize = 4;

/// Handshake message types (RFC 8446, section 4).
mod message {
    pub(super) const CLIENT_HELLO: u8 = 1;
    pub(super) const SERVER_HELLO: u8 = 2;
    pub(super) const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub(super) const FINISHED: u8 = 20;
}

/// One end's messages in one space.
#[derive(Debug, Default)]
struct Sequence {
    assembly: Assembly,
    /// Bytes in order that have not been read.
    message: Vec<u8>,
    /// Bytes of a long message that are still to be skipped.
    skip: usize,
    charged: usize,
}

/// New facts.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) client_hello: Option<ClientHello>,
    pub(super) server_hello: Option<ServerHello>,
    pub(super) alpn: Option<String>,
    /// Transport parameters and who sent them.
    pub(super) parameters: Vec<(Side, TransportParameters)>,
    /// Whether the client's Finished was seen.
    pub(super) finished: bool,
}

/// The handshake of one connection.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    sequences: [[Sequence; 2]; 2],
    /// The first ClientHello.
    pub(super) first_hello: Option<Stamp>,
    /// A HelloRetryRequest that has no answer yet.
    pub(super) asked: Option<Stamp>,
}

impl Handshake {
    /// Takes the data of a CRYPTO frame. Messages after the handshake are not read.
    pub(super) fn take(
        &mut self,
        side: Side,
        space: Space,
        offset: u64,
        data: &[u8],
        budget: &mut Budget,
    ) -> Arrival {
        let Some(sequence) = self.sequences[side as usize].get_mut(space as usize) else {
            return Arrival::default();
        };
        let Sequence {
            assembly, message, ..
        } = sequence;
        let arrival = assembly.take(offset, data, budget, |bytes| message.extend_from_slice(bytes));
        let len = sequence.message.len();
        if len > sequence.charged {
            if budget.hold(len - sequence.charged) {
                sequence.charged = len;
            } else {
                sequence.message.clear();
                sequence.assembly.give_up(budget);
            }
        }
        arrival
    }

    /// The client begins anew, after a Retry: some send another ClientHello then.
    pub(super) fn restart(&mut self, budget: &mut Budget) {
        let sequence = &mut self.sequences[Side::Client as usize][Space::Initial as usize];
        sequence.assembly.give_up(budget);
        budget.release(sequence.charged);
        *sequence = Sequence::default();
    }

    /// Reads all whole messages.
    pub(super) fn read(&mut self) -> News {
        let mut news = News::default();
        for side in [Side::Client, Side::Server] {
            for space in 0..2 {
                let sequence = &mut self.sequences[side as usize][space];
                while let Some((kind, body)) = sequence.next() {
                    news.message(side, kind, &body);
                }
            }
        }
        news
    }

    /// Returns everything to the budget.
    pub(super) fn finish(&mut self, budget: &mut Budget) {
        for sequence in self.sequences.iter_mut().flatten() {
            sequence.assembly.give_up(budget);
            budget.release(core::mem::take(&mut sequence.charged));
        }
    }
}

impl Sequence {
    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            let skipped = self.skip.min(self.message.len());
            self.message.drain(..skipped);
            self.skip -= skipped;
            let &[kind, a, b, c] = self.message.first_chunk::<HEADER>()?;
            let len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if len > MESSAGE_MAX {
                self.skip = HEADER + len;
                continue;
            }
            let body = self.message.get(HEADER..HEADER + len)?.to_vec();
            self.message.drain(..HEADER + len);
            return Some((kind, body));
        }
    }
}

impl News {
    fn message(&mut self, side: Side, kind: u8, body: &[u8]) {
        match (side, kind) {
            (Side::Client, message::CLIENT_HELLO) => {
                if let Ok(hello) = ClientHello::parse(body) {
                    self.client_hello = Some(hello);
                }
                let values = parameters::of_client_hello(body);
                self.parameters.extend(values.map(|values| (side, values)));
            }
            (Side::Server, message::SERVER_HELLO) => {
                if let Ok(hello) = ServerHello::parse(body) {
                    self.server_hello = Some(hello);
                }
            }
            (Side::Server, message::ENCRYPTED_EXTENSIONS) => {
                self.alpn = ServerHello::encrypted_alpn(body);
                let values = parameters::of_encrypted_extensions(body);
                self.parameters.extend(values.map(|values| (side, values)));
            }
            (Side::Client, message::FINISHED) => self.finished = true,
            _ => {}
        }
    }
}
