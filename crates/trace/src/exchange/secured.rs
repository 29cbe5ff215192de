//! Bytes that are TLS on the way to the tokenizers: recognized, opened as far as there are secrets, and passed on. Turns what
//! TLS has to tell into findings.

use super::{Exchange, Fresh, Pairing, Protocol, Stream, moment};
use crate::connection::Side;
use crate::context::Context;
use crate::finding::Kind;
use crate::http::{Role, Tokenizer};
use crate::times::Times;
use crate::tls::{Content, Conversation, is_hello, is_record};
use core::time::Duration;

/// Whether the connection is secured by TLS.
#[derive(Debug)]
pub(super) enum Security {
    /// No byte has been seen.
    Unknown {
        midstream: bool,
    },
    /// It is in clear.
    Absent,
    Tls(Box<Conversation>),
}

impl Exchange {
    /// Whether bytes are records of TLS. The first ones seen decide for the connection.
    pub(super) fn is_secured(&mut self, fresh: &Fresh<'_>) -> bool {
        if let Security::Unknown { midstream } = self.security
            && !fresh.bytes.is_empty()
        {
            // The beginning of the connection may be missing in the capture, but not that of TLS.
            let is_begun = fresh.missing == 0 && is_hello(fresh.bytes);
            let is_tls = if midstream {
                is_record(fresh.bytes)
            } else {
                is_begun
            };
            self.security = if is_tls || is_begun {
                Security::Tls(Box::new(Conversation::new(!is_begun)))
            } else {
                Security::Absent
            };
            if midstream && is_begun {
                self.streams
                    .iter_mut()
                    .zip([Role::Requests, Role::Responses])
                    .for_each(|(stream, role)| {
                        let expected = stream.expected;
                        *stream = Stream::new(role, false);
                        stream.expected = expected;
                    });
                self.pairing = Pairing::Sure;
            }
        }
        matches!(self.security, Security::Tls(_))
    }

    /// Reads new bytes of a direction as records, and what they hold as HTTP.
    pub(super) fn secured(&mut self, side: Side, fresh: Fresh<'_>, packets: u64, cx: &mut Context<'_>) {
        let Security::Tls(conversation) = &mut self.security else {
            return;
        };
        let mut contents = core::mem::take(&mut self.contents);
        let Times { came, here, .. } = fresh.times;
        if fresh.missing > 0 {
            conversation.gap(side, here, fresh.missing, cx.keys, &mut contents);
        }
        conversation.bytes(side, (came, here), fresh.bytes, cx.keys, &mut contents);
        if fresh.cut > 0 {
            conversation.gap(side, here, fresh.cut, cx.keys, &mut contents);
        }
        conversation.charge(side, here, cx.budget, &mut contents);
        for (side, content) in contents.drain(..) {
            self.content(side, content, packets, cx);
        }
        self.contents = contents;
    }

    /// Whether records wait for their secrets, so that the connection is not over when its packets are.
    pub(crate) fn awaits_secrets(&self) -> bool {
        matches!(&self.security, Security::Tls(conversation) if conversation.awaits_secrets())
    }

    /// Ends the connection's TLS.
    pub(super) fn unseal(&mut self, packets: u64, cx: &mut Context<'_>) {
        let Security::Tls(conversation) = &mut self.security else {
            return;
        };
        let has_waited = conversation.awaits_secrets();
        let mut contents = Vec::new();
        conversation.finish(cx.keys, cx.budget, &mut contents);
        for (side, content) in contents {
            self.content(side, content, packets, cx);
        }
        if has_waited {
            for side in [Side::Client, Side::Server] {
                self.close_at_fin(side, packets, cx);
            }
        }
    }

    fn content(&mut self, side: Side, content: Content, packets: u64, cx: &mut Context<'_>) {
        match content {
            Content::Plain(bytes, times) => self.application(side, 0, &bytes, times, packets, cx),
            Content::Missing(missing, times) => self.application(side, missing, &[], times, packets, cx),
            Content::Stopped(cause, times) => {
                self.here = times.here;
                let (at, packet) = times.here;
                let kind = Kind::TlsDecryptionStopped { cause };
                cx.finding(side, at, Duration::ZERO, &[packet], kind);
                self.give_up(side, times, packets, cx);
            }
            Content::Retried([hello, retry, again]) => {
                let kind = Kind::HelloRetry;
                cx.finding(
                    Side::Server,
                    hello.0,
                    again.0.since(hello.0),
                    &[hello.1, retry.1, again.1],
                    kind,
                );
            }
            Content::Alerted(alert, times) => {
                let (at, packet) = times.here;
                let kind = Kind::TlsAlert {
                    description: alert.description,
                };
                cx.finding(alert.sender, at, Duration::ZERO, &[packet], kind);
            }
        }
    }

    /// Reads application data of one record, behind `missing` bytes of it that the capture lacks.
    fn application(
        &mut self,
        side: Side,
        missing: u64,
        bytes: &[u8],
        times: Times,
        packets: u64,
        cx: &mut Context<'_>,
    ) {
        self.here = times.here;
        let fresh = Fresh {
            missing,
            bytes,
            cut: 0,
            times,
        };
        self.clear(side, fresh, bytes.len() as u32, packets, cx);
    }

    /// No further content of `side` will be known.
    fn give_up(&mut self, side: Side, times: Times, packets: u64, cx: &mut Context<'_>) {
        if let Protocol::Http2(conversation) = &mut self.protocol {
            conversation.give_up(side, moment(times, packets), cx);
            return;
        }
        self.tokens_of(side, packets, cx, Tokenizer::lose);
    }
}
