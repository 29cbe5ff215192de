//! Matches requests to responses on one connection, with times and sizes of both.
//!
//! Puts each direction's segments in order, feeds them to the tokenizers and pairs the messages. Out-of-order bytes are
//! held within a budget shared by all connections. When the budget is used up, or the peer has acknowledged bytes that
//! the capture lacks, the missing bytes become a gap.
//!
//! Responses are paired by their order, which is certain if the capture has the connection's beginning. If it began
//! later or lost bytes, unseen requests may be pending: see [`Pairing`].
//!
//! If the client's stream begins with the preface of HTTP/2, the ordered bytes go to [`crate::h2`] instead. If it is TLS,
//! they pass [`secured`] first.

mod secured;

use crate::budget::Budget;
use crate::connection::Side;
use crate::context::Context;
use crate::h2::{Conversation, Moment};
use crate::http::{Asked, Role, Token, Tokenizer};
use crate::times::Times;
use crate::tls::{Content, Tls};
use crate::transaction::{HttpCounts, SingleRun, Transaction};
use http2::frame::{PREFACE, kind};
use secured::Security;
use std::collections::VecDeque;
use units::Instant;

/// Limit on out-of-order segments held per direction.
const STASH_MAX: usize = 256;
/// Limit on remembered requests without a response, per connection.
const PENDING_MAX: usize = 1024;
/// Share of the common budget per remembered request: the record and the target's bytes.
const PENDING_BYTES: usize = 640;
/// Limit on the server's bytes held before the client's first ones show the protocol.
const EARLY_MAX: usize = 4096;

/// What the connection carries.
#[derive(Debug)]
enum Protocol {
    /// The client has sent nothing, or only the first `matched` bytes of HTTP/2's preface, from `since` on. A server may
    /// send its SETTINGS before (RFC 9113, section 3.4); `early` keeps them.
    Unknown {
        matched: usize,
        since: (Instant, u64),
        early: Vec<(Vec<u8>, Moment)>,
    },
    /// HTTP/1.x, or something else.
    Http1,
    Http2(Box<Conversation>),
}

/// New bytes of a direction: of a segment, or of a TLS record.
#[derive(Clone, Copy, Debug)]
struct Fresh<'a> {
    /// Bytes before them that the capture lacks.
    missing: u64,
    bytes: &'a [u8],
    /// Bytes behind them that a short snapshot cut off.
    cut: u64,
    times: Times,
}

/// Whether the order of requests tells which response belongs to which.
///
/// ```text
///   Sure --bytes lost in either direction--> Searching
///    ^                                          |  ^ one more answer: the pair was none
///    |               an answer follows a lone request that it acknowledges
///    |                                          v  |
///    +------the next request, or the end------ Found
/// ```
#[derive(Debug)]
enum Pairing {
    Sure,
    Searching,
    /// A pair, provided that no other response follows.
    Found(Box<Transaction>),
}

#[derive(Debug)]
struct Pending {
    transaction: Transaction,
    started: Instant,
    request_last: Instant,
    /// Offset in the request stream at or before which the request ends.
    end: u64,
    packets_before: u64,
    response_first: Option<Instant>,
}

/// A segment held because it arrived before its predecessors.
#[derive(Debug)]
struct Stashed {
    start: u64,
    len: u32,
    bytes: Vec<u8>,
    came: (Instant, u64),
}

/// One direction: the next byte expected, and the segments held.
#[derive(Debug)]
struct Stream {
    tokenizer: Tokenizer,
    expected: Option<u64>,
    stash: Vec<Stashed>,
    /// Offset of the stream's end.
    fin: Option<u64>,
    /// Time and frame of the current message's first byte.
    begun: (Instant, u64),
}

impl Stream {
    fn new(role: Role, midstream: bool) -> Stream {
        Stream {
            tokenizer: Tokenizer::new(role, midstream),
            expected: None,
            stash: Vec::new(),
            fin: None,
            begun: (Instant::ZERO, 0),
        }
    }
}

/// The HTTP observer of one connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    streams: [Stream; 2],
    security: Security,
    protocol: Protocol,
    pending: VecDeque<Pending>,
    pairing: Pairing,
    /// Offset in the client's stream that the server has acknowledged.
    requests_acked: u64,
    counts: HttpCounts,
    /// Whether the current response is an interim one (1xx).
    interim: bool,
    run: Option<SingleRun>,
    /// Time and frame at which the bytes being read were complete.
    here: (Instant, u64),
    tokens: Vec<Token>,
    contents: Vec<(Side, Content)>,
}

/// A data segment and its position in the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) start: u64,
    pub(crate) len: u32,
    pub(crate) bytes: &'a [u8],
    /// Whether it fills a hole that a loss before the capture point left.
    pub(crate) is_resent: bool,
}

impl Exchange {
    pub(crate) fn new(midstream: bool) -> Exchange {
        Exchange {
            streams: [
                Stream::new(Role::Requests, midstream),
                Stream::new(Role::Responses, midstream),
            ],
            security: Security::Unknown { midstream },
            protocol: Protocol::Unknown {
                matched: 0,
                since: (Instant::ZERO, 0),
                early: Vec::new(),
            },
            pending: VecDeque::new(),
            pairing: if midstream {
                Pairing::Searching
            } else {
                Pairing::Sure
            },
            requests_acked: 0,
            counts: HttpCounts::default(),
            interim: false,
            run: None,
            here: (Instant::ZERO, 0),
            tokens: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// What is known of the connection's TLS.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        match &self.security {
            Security::Tls(conversation) => Some(conversation.facts()),
            _ => None,
        }
    }

    /// Bytes at the end of a direction that only say that TLS ends.
    pub(crate) fn farewell(&self, side: Side) -> u64 {
        match &self.security {
            Security::Tls(conversation) => conversation.farewell(side),
            _ => 0,
        }
    }

    pub(crate) fn counts(&self) -> HttpCounts {
        match &self.protocol {
            Protocol::Http2(conversation) => conversation.counts(),
            _ => self.counts,
        }
    }

    /// Whether no further byte of `side` will be read.
    fn is_deaf(&self, side: Side) -> bool {
        if let Security::Tls(conversation) = &self.security {
            return conversation.is_opaque();
        }
        match &self.protocol {
            Protocol::Unknown { .. } => false,
            Protocol::Http1 => self.streams[side as usize].tokenizer.is_opaque(),
            Protocol::Http2(conversation) => conversation.is_lost(side),
        }
    }

    /// Whether no further byte can change the result.
    pub(crate) fn is_over(&self) -> bool {
        if let Security::Tls(conversation) = &self.security
            && !conversation.is_opaque()
        {
            return false;
        }
        if let Protocol::Http2(conversation) = &self.protocol {
            return conversation.is_over();
        }
        self.streams.iter().all(|s| s.tokenizer.is_opaque()) && self.pending.is_empty()
    }

    /// Number of requests known to wait for a response or the rest of it, and the time of the oldest.
    pub(crate) fn waiting(&self) -> (u32, Option<Instant>) {
        if let Protocol::Http2(conversation) = &self.protocol {
            return conversation.waiting();
        }
        if !matches!(self.pairing, Pairing::Sure) {
            return (0, None);
        }
        (self.pending.len() as u32, self.pending.front().map(|p| p.started))
    }

    /// Sets the offset of the direction's first byte.
    pub(crate) fn expect(&mut self, side: Side, offset: u64) {
        self.streams[side as usize].expected = Some(offset);
    }

    /// Processes a data segment of `side`; `packets` is the connection's packet count including this one.
    pub(crate) fn data(&mut self, side: Side, piece: Piece<'_>, packets: u64, cx: &mut Context<'_>) {
        if self.is_deaf(side) {
            return;
        }
        let stream = &mut self.streams[side as usize];
        let expected = *stream.expected.get_or_insert(piece.start);
        if piece.start > expected {
            if stream.stash.len() < STASH_MAX && cx.budget.hold(piece.bytes.len()) {
                let place = stream.stash.partition_point(|held| held.start <= piece.start);
                let held = Stashed {
                    start: piece.start,
                    len: piece.len,
                    bytes: piece.bytes.to_vec(),
                    came: (cx.at, cx.number),
                };
                stream.stash.insert(place, held);
                return;
            }
            // The budget is used up: missing bytes become a gap, after held segments that come first.
            self.release(side, piece.start, packets, cx);
        }
        self.here = (cx.at, cx.number);
        self.in_order(side, piece, self.here, packets, cx);
        self.release(side, 0, packets, cx);
        if piece.is_resent
            && let Protocol::Http2(conversation) = &mut self.protocol
        {
            conversation.repaired(side, cx);
        }
    }

    /// The peer acknowledged `side`'s bytes up to `ack`: missing bytes below that were lost by the capture.
    pub(crate) fn acknowledged(&mut self, side: Side, ack: u64, packets: u64, cx: &mut Context<'_>) {
        if side == Side::Client {
            self.requests_acked = ack;
        }
        if !self.streams[side as usize].stash.is_empty() {
            self.release(side, ack, packets, cx);
        }
    }

    /// Reads held segments that are in order or start below `until`.
    fn release(&mut self, side: Side, until: u64, packets: u64, cx: &mut Context<'_>) {
        loop {
            let stream = &mut self.streams[side as usize];
            let Some(first) = stream.stash.first() else {
                return;
            };
            let is_next = first.start <= stream.expected.unwrap_or(0);
            if !is_next && first.start >= until {
                return;
            }
            let held = stream.stash.remove(0);
            cx.budget.release(held.bytes.len());
            let piece = Piece {
                start: held.start,
                len: held.len,
                bytes: &held.bytes,
                is_resent: false,
            };
            // Bytes held for missing ones that never come were complete when they arrived.
            let is_filled = is_next && until == 0;
            self.here = if is_filled { (cx.at, cx.number) } else { held.came };
            self.in_order(side, piece, held.came, packets, cx);
        }
    }

    /// Reads a segment that arrived at `came`; messages that it completes are complete [`Exchange::here`].
    fn in_order(
        &mut self,
        side: Side,
        piece: Piece<'_>,
        came: (Instant, u64),
        packets: u64,
        cx: &mut Context<'_>,
    ) {
        let stream = &mut self.streams[side as usize];
        let expected = stream.expected.unwrap_or(piece.start);
        let end = piece.start + u64::from(piece.len);
        if end <= expected {
            return;
        }
        let old = expected.saturating_sub(piece.start) as usize;
        let bytes = piece.bytes.get(old..).unwrap_or(&[]);
        let fresh = Fresh {
            missing: piece.start.saturating_sub(expected),
            bytes,
            cut: end - piece.start.max(expected) - bytes.len() as u64,
            times: Times {
                begun: came,
                came,
                here: self.here,
            },
        };
        stream.expected = Some(end);
        if self.is_secured(&fresh) {
            self.secured(side, fresh, packets, cx);
        } else {
            self.clear(side, fresh, piece.len, packets, cx);
        }
        self.close_at_fin(side, packets, cx);
    }

    /// Reads bytes in clear, of a segment or record with `len` bytes.
    fn clear(&mut self, side: Side, mut fresh: Fresh<'_>, len: u32, packets: u64, cx: &mut Context<'_>) {
        self.recognize(side, &mut fresh, packets, cx);
        let moment = moment(fresh.times, packets);
        match &mut self.protocol {
            Protocol::Http2(conversation) => {
                for (gap, bytes) in [(fresh.missing, fresh.bytes), (fresh.cut, &[][..])] {
                    if gap > 0 {
                        conversation.gap(side, gap, moment, cx);
                    }
                    conversation.bytes(side, bytes, moment, cx);
                }
            }
            Protocol::Unknown { .. } if side == Side::Client => {}
            Protocol::Unknown { .. } | Protocol::Http1 => self.http1(side, fresh, len, packets, cx),
        }
    }

    /// Compares the client's first bytes with HTTP/2's preface. Takes those that belong to it out of `fresh`.
    fn recognize(&mut self, side: Side, fresh: &mut Fresh<'_>, packets: u64, cx: &mut Context<'_>) {
        let moment = moment(fresh.times, packets);
        let Protocol::Unknown {
            matched,
            since,
            early,
        } = &mut self.protocol
        else {
            return;
        };
        if side == Side::Server {
            let held: usize = early.iter().map(|(bytes, _)| bytes.len()).sum();
            let is_settings = held > 0 || fresh.bytes.get(3).is_none_or(|byte| *byte == kind::SETTINGS);
            let is_whole = fresh.missing == 0 && fresh.cut == 0;
            let fits = held + fresh.bytes.len() <= EARLY_MAX;
            if is_settings && is_whole && fits && cx.budget.hold(fresh.bytes.len()) {
                early.push((fresh.bytes.to_vec(), moment));
            } else {
                cx.budget.release(held);
                self.protocol = Protocol::Http1;
            }
            return;
        }
        let rest = &PREFACE[*matched..];
        let n = rest.len().min(fresh.bytes.len());
        let is_lost = self.streams[Side::Client as usize].tokenizer.is_lost();
        // If the beginning was not captured, only a whole preface is one.
        let is_part = n == rest.len() || (fresh.cut == 0 && !is_lost);
        if fresh.missing == 0 && is_part && fresh.bytes[..n] == rest[..n] {
            if *matched == 0 {
                *since = fresh.times.begun;
            }
            *matched += n;
            if n < rest.len() {
                return;
            }
            fresh.bytes = &fresh.bytes[n..];
            let mut conversation = Box::new(Conversation::new());
            for (bytes, moment) in early.drain(..) {
                cx.budget.release(bytes.len());
                conversation.bytes(Side::Server, &bytes, moment, cx);
            }
            self.protocol = Protocol::Http2(conversation);
            return;
        }
        let (matched, since) = (*matched, *since);
        cx.budget
            .release(early.iter().map(|(bytes, _)| bytes.len()).sum());
        self.protocol = Protocol::Http1;
        if matched > 0 {
            let mut tokens = core::mem::take(&mut self.tokens);
            let stream = &mut self.streams[Side::Client as usize];
            stream.begun = since;
            stream
                .tokenizer
                .bytes(&PREFACE[..matched], || Asked::Other, &mut tokens);
            // Only "not HTTP" can come of a part of the preface.
            tokens.clear();
            self.tokens = tokens;
        }
    }

    /// Reads new bytes of HTTP/1.x from a segment with `len` bytes.
    fn http1(&mut self, side: Side, fresh: Fresh<'_>, len: u32, packets: u64, cx: &mut Context<'_>) {
        let stream = &mut self.streams[side as usize];
        if stream.tokenizer.is_opaque() {
            return;
        }
        let mut tokens = core::mem::take(&mut self.tokens);
        if fresh.missing > 0 {
            stream.tokenizer.gap(fresh.missing, &mut tokens);
        }
        if stream.tokenizer.is_between() || stream.tokenizer.is_lost() {
            stream.begun = fresh.times.begun;
        }
        let front = self
            .pending
            .front()
            .map_or(Asked::Other, |p| asked(&p.transaction.method));
        let mut later = self.pending.iter().skip(1);
        let mut first = Some(front);
        stream.tokenizer.bytes(
            fresh.bytes,
            // Several responses may end in one segment: each asks for its own request's method.
            || {
                first.take().unwrap_or_else(|| {
                    later
                        .next()
                        .map_or(Asked::Other, |p| asked(&p.transaction.method))
                })
            },
            &mut tokens,
        );
        if fresh.cut > 0 {
            self.counts.cut_heads += u64::from(stream.tokenizer.is_in_head());
            stream.tokenizer.gap(fresh.cut, &mut tokens);
        }
        let mut ended = 0;
        for token in tokens.drain(..) {
            match side {
                Side::Client => ended += self.request_token(token, packets, cx),
                Side::Server => self.response_token(token, packets, cx),
            }
        }
        self.tokens = tokens;
        if side == Side::Client {
            self.track_run(ended, len, cx);
        }
    }

    /// Returns 1 if a request ended.
    fn request_token(&mut self, token: Token, packets: u64, cx: &mut Context<'_>) -> u32 {
        match token {
            Token::Request {
                method,
                target,
                header_bytes,
            } => {
                self.settle_pairing(packets, cx);
                let ahead = self.pending.len() as u32;
                let index = self.counts.requests;
                self.counts.requests += 1;
                self.counts.pipelined += u64::from(ahead > 0);
                if self.pending.len() >= PENDING_MAX || !cx.budget.hold(PENDING_BYTES) {
                    self.counts.unanswered += 1;
                    return 0;
                }
                let (started, first_packet) = self.streams[Side::Client as usize].begun;
                self.pending.push_back(Pending {
                    transaction: Transaction {
                        connection: cx.connection,
                        index,
                        stream: None,
                        method,
                        target,
                        status: None,
                        request_header_bytes: header_bytes,
                        request_body_bytes: 0,
                        response_header_bytes: 0,
                        response_body_bytes: 0,
                        start: started.since(cx.start),
                        request: self.here.0.since(started),
                        wait: None,
                        receive: None,
                        ahead,
                        packets: 0,
                        first_packet,
                        last_packet: self.here.1,
                        complete: false,
                        reset: None,
                        priority: None,
                        flow_control: None,
                    },
                    started,
                    request_last: self.here.0,
                    end: self.streams[Side::Client as usize].expected.unwrap_or(0),
                    packets_before: packets - 1,
                    response_first: None,
                });
                0
            }
            Token::End { body_bytes } => {
                self.streams[Side::Client as usize].begun = self.here;
                if let Some(pending) = self.pending.back_mut() {
                    pending.transaction.request_body_bytes = body_bytes;
                    pending.transaction.request = self.here.0.since(pending.started);
                    pending.transaction.last_packet = self.here.1;
                    pending.request_last = self.here.0;
                    pending.end = self.streams[Side::Client as usize].expected.unwrap_or(0);
                }
                1
            }
            Token::Lost => {
                self.lose_track(packets, cx);
                0
            }
            _ => 0,
        }
    }

    fn response_token(&mut self, token: Token, packets: u64, cx: &mut Context<'_>) {
        match token {
            Token::Response { status, header_bytes } => {
                self.interim = (100..200).contains(&status) && status != 101;
                if self.interim {
                    return;
                }
                if !self.is_paired(cx) {
                    self.counts.unmatched_responses += 1;
                    return;
                }
                match self.pending.front_mut() {
                    Some(pending) => {
                        let begun = self.streams[Side::Server as usize].begun;
                        let t = &mut pending.transaction;
                        t.status = Some(status);
                        t.response_header_bytes = header_bytes;
                        t.wait = Some(begun.0.since(pending.request_last));
                        pending.response_first = Some(begun.0);
                        if status == 101 {
                            self.finish_front(0, packets, cx);
                        }
                    }
                    None => self.counts.unmatched_responses += 1,
                }
            }
            Token::End { body_bytes } => {
                self.streams[Side::Server as usize].begun = self.here;
                if self.interim {
                    self.interim = false;
                } else {
                    self.finish_front(body_bytes, packets, cx);
                }
            }
            Token::Lost => {
                if self
                    .pending
                    .front()
                    .is_some_and(|p| p.transaction.status.is_some())
                {
                    // Its response has begun; the next one seen belongs to another request.
                    self.abandon_front(packets, cx);
                }
                self.lose_track(packets, cx);
            }
            _ => {}
        }
    }

    /// The pairing became uncertain: messages may have passed unseen.
    fn lose_track(&mut self, packets: u64, cx: &mut Context<'_>) {
        self.run = None;
        self.refute(cx);
        self.pairing = Pairing::Searching;
        if self.pending.len() > 1 {
            self.drop_all(packets, cx);
        }
    }

    /// Handles the start of a request, which confirms a pair found before. While searching, requests that wait although
    /// the other direction is silent have missed their response, or cannot be told from others.
    fn settle_pairing(&mut self, packets: u64, cx: &mut Context<'_>) {
        match core::mem::replace(&mut self.pairing, Pairing::Sure) {
            Pairing::Sure => {}
            Pairing::Found(transaction) => self.complete(*transaction, cx),
            Pairing::Searching => {
                self.pairing = Pairing::Searching;
                let answers = &self.streams[Side::Server as usize].tokenizer;
                if answers.is_lost() || answers.is_between() {
                    self.run = None;
                    self.drop_all(packets, cx);
                }
            }
        }
    }

    /// Whether the response that begins belongs to the oldest pending request, as far as is known now.
    fn is_paired(&mut self, cx: &mut Context<'_>) -> bool {
        match &self.pairing {
            Pairing::Sure => true,
            Pairing::Searching => self.pending.len() == 1 && self.pending[0].end <= self.requests_acked,
            Pairing::Found(_) => {
                self.refute(cx);
                false
            }
        }
    }

    /// Takes back a found pair: its response belongs to an unseen request.
    fn refute(&mut self, cx: &mut Context<'_>) {
        let before = core::mem::replace(&mut self.pairing, Pairing::Searching);
        let Pairing::Found(mut transaction) = before else {
            self.pairing = before;
            return;
        };
        self.counts.unmatched_responses += 1;
        self.counts.unmatched_requests += 1;
        transaction.status = None;
        (transaction.wait, transaction.receive) = (None, None);
        (transaction.response_header_bytes, transaction.response_body_bytes) = (0, 0);
        transaction.complete = false;
        cx.transaction(*transaction);
    }

    /// Gives up pending requests, whose responses cannot be told from others.
    fn drop_all(&mut self, packets: u64, cx: &mut Context<'_>) {
        while !self.pending.is_empty() {
            self.abandon_front(packets, cx);
            self.counts.unanswered -= 1;
            self.counts.unmatched_requests += 1;
        }
    }

    fn complete(&mut self, transaction: Transaction, cx: &mut Context<'_>) {
        self.counts.responses += 1;
        cx.transaction(transaction);
    }

    fn finish_front(&mut self, body_bytes: u64, packets: u64, cx: &mut Context<'_>) {
        // A front entry without a status has no response whose start was seen.
        if self
            .pending
            .front()
            .is_none_or(|p| p.transaction.status.is_none())
        {
            return;
        }
        if let Some(mut pending) = self.pending.pop_front() {
            cx.budget.release(PENDING_BYTES);
            let t = &mut pending.transaction;
            t.response_body_bytes = body_bytes;
            t.receive = pending.response_first.map(|first| self.here.0.since(first));
            t.packets = packets - pending.packets_before;
            t.last_packet = self.here.1;
            t.complete = true;
            match self.pairing {
                Pairing::Sure => self.complete(pending.transaction, cx),
                _ => self.pairing = Pairing::Found(Box::new(pending.transaction)),
            }
        }
    }

    fn abandon_front(&mut self, packets: u64, cx: &mut Context<'_>) {
        if let Some(mut pending) = self.pending.pop_front() {
            cx.budget.release(PENDING_BYTES);
            self.counts.unanswered += 1;
            pending.transaction.packets = packets - pending.packets_before;
            cx.transaction(pending.transaction);
        }
    }

    fn track_run(&mut self, ended: u32, len: u32, cx: &mut Context<'_>) {
        let here = self.here;
        let pipelined = self.pending.len() >= 2;
        match (&mut self.run, ended) {
            (Some(run), 1) if pipelined => {
                run.requests += 1;
                run.bytes += u64::from(len);
                run.last = here;
            }
            _ => {
                self.flush_run(cx);
                if ended == 1 && !pipelined {
                    self.run = Some(SingleRun {
                        requests: 1,
                        bytes: u64::from(len),
                        first: here,
                        last: here,
                    });
                }
            }
        }
    }

    fn flush_run(&mut self, cx: &mut Context<'_>) {
        if let Some(run) = self.run.take() {
            cx.single_requests(run);
        }
    }

    /// `side` closed its half at this offset; earlier bytes may still be missing.
    pub(crate) fn fin(&mut self, side: Side, offset: u64, packets: u64, cx: &mut Context<'_>) {
        self.streams[side as usize].fin = Some(offset);
        self.close_at_fin(side, packets, cx);
    }

    fn close_at_fin(&mut self, side: Side, packets: u64, cx: &mut Context<'_>) {
        let stream = &self.streams[side as usize];
        if stream
            .fin
            .is_some_and(|fin| stream.expected.is_none_or(|expected| expected >= fin))
        {
            self.here = (cx.at, cx.number);
            self.closed(side, packets, cx);
        }
    }

    /// All bytes of `side` have been seen.
    pub(crate) fn closed(&mut self, side: Side, packets: u64, cx: &mut Context<'_>) {
        if self.awaits_secrets() {
            return;
        }
        if matches!(self.protocol, Protocol::Http2(_)) {
            // Frames say where a stream ends.
            return;
        }
        self.tokens_of(side, packets, cx, Tokenizer::close);
    }

    /// Takes the tokens that follow from something other than bytes.
    fn tokens_of(
        &mut self,
        side: Side,
        packets: u64,
        cx: &mut Context<'_>,
        event: impl FnOnce(&mut Tokenizer, &mut Vec<Token>),
    ) {
        let mut tokens = core::mem::take(&mut self.tokens);
        event(&mut self.streams[side as usize].tokenizer, &mut tokens);
        for token in tokens.drain(..) {
            match side {
                Side::Client => {
                    self.request_token(token, packets, cx);
                }
                Side::Server => self.response_token(token, packets, cx),
            }
        }
        self.tokens = tokens;
    }

    /// Ends the connection: pending requests stay unanswered.
    pub(crate) fn finish(&mut self, packets: u64, cx: &mut Context<'_>) {
        self.unseal(packets, cx);
        if let Protocol::Http2(conversation) = &mut self.protocol {
            conversation.finish(packets, cx);
        }
        self.flush_run(cx);
        match core::mem::replace(&mut self.pairing, Pairing::Sure) {
            Pairing::Found(transaction) => self.complete(*transaction, cx),
            Pairing::Searching => self.drop_all(packets, cx),
            Pairing::Sure => {}
        }
        while !self.pending.is_empty() {
            self.abandon_front(packets, cx);
        }
        self.forget(cx.budget);
    }

    /// Returns held bytes to the budget.
    pub(crate) fn forget(&mut self, budget: &mut Budget) {
        if let Protocol::Unknown { early, .. } = &mut self.protocol {
            for (bytes, _) in early.drain(..) {
                budget.release(bytes.len());
            }
        }
        for stream in &mut self.streams {
            for held in stream.stash.drain(..) {
                budget.release(held.bytes.len());
            }
        }
    }
}

fn moment(times: Times, packets: u64) -> Moment {
    Moment {
        begun: times.begun,
        came: times.came,
        here: times.here,
        packets,
    }
}

fn asked(method: &str) -> Asked {
    match method {
        "HEAD" => Asked::Head,
        "CONNECT" => Asked::Connect,
        _ => Asked::Other,
    }
}
