//! Both directions of a TLS connection: combines their records into facts, and opens them if there are secrets.

use super::hello::{ClientHello, ServerHello};
use super::keys::{Keyring, Opener, Secrets};
use super::record::{ContentType, HEADER, Record, Records};
use crate::budget::Budget;
use crate::connection::Side;
use crate::quantity;
use crate::times::{Stamp, Times};
use core::time::Duration;
use serde::Serialize;

/// Limit on the bytes of a handshake message that are kept; a longer one is skipped.
const MESSAGE_MAX: usize = 1 << 14;
/// Limit on recorded alerts per connection.
const ALERTS_MAX: usize = 8;
/// Limit on the bytes of records that wait for their secrets, per connection.
const HELD_MAX: usize = 64 << 10;
/// Length of a protected TLS 1.3 alert: two bytes, the content type and a 16-byte tag (RFC 8446, section 5.2).
const ALERT_13: usize = 19;
const TLS13: u16 = 0x0304;

/// Handshake message types (RFC 8446, section 4; RFC 5246, section 7.4).
mod message {
    pub(super) const CLIENT_HELLO: u8 = 1;
    pub(super) const SERVER_HELLO: u8 = 2;
    pub(super) const END_OF_EARLY_DATA: u8 = 5;
    pub(super) const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub(super) const CERTIFICATE: u8 = 11;
    pub(super) const FINISHED: u8 = 20;
    pub(super) const KEY_UPDATE: u8 = 24;
}

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

/// An alert sent in clear, or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Sender.
    pub sender: Side,
    /// Whether it ends the connection with an error.
    pub fatal: bool,
    /// Description (RFC 8446, section 6); 0 is `close_notify`.
    pub description: u8,
}

/// Whether the contents of a connection's records are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decryption {
    /// There was nothing to open them with.
    #[default]
    NotTried,
    /// They are.
    Done,
    /// The key log has no secrets of this connection, or not all.
    NoSecrets,
    /// The cipher suite is not one that can be opened here.
    UnknownSuite,
    /// From some record of one direction on, they are not: see the finding.
    Stopped,
}

/// Why one direction's records cannot be opened any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unopened {
    /// The capture lacks bytes, so that the number of the next record is unknown.
    Gap,
    /// A record is not authentic under the secrets given.
    NotAuthentic,
    /// [`crate::Limits::reassembly`] is used up.
    Memory,
}

/// What is known of a connection's TLS. Facts that the capture lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Tls {
    /// The client's latest offer.
    pub client: Option<ClientHello>,
    /// The server's final choice.
    pub server: Option<ServerHello>,
    /// Application protocol that the server chose (RFC 7301). TLS 1.3 encrypts it.
    pub alpn: Option<String>,
    /// Whether the server sent a HelloRetryRequest, which costs one round trip.
    pub retried: bool,
    /// How the session was resumed; `None` for a full handshake.
    pub resumption: Option<Resumption>,
    /// Whether the server's Certificate message was seen. TLS 1.3 encrypts it.
    pub certificate_seen: bool,
    /// Alerts, at most eight. Those that are encrypted and cannot be opened are not known.
    pub alerts: Vec<Alert>,
    /// Time from the ClientHello's first byte to the client's first protected record, which holds its Finished or its
    /// certificate. `None` if the client offered early data, whose records look the same.
    #[serde(rename = "handshake_ms", serialize_with = "quantity::ms_option")]
    pub handshake: Option<Duration>,
    /// Records of the client and of the server.
    pub records: [u64; 2],
    /// Whether the contents are known.
    pub decryption: Decryption,
}

/// What a direction's records hold, in order.
#[derive(Debug)]
pub(crate) enum Content {
    /// Application data.
    Plain(Vec<u8>, Times),
    /// Application data that the capture lacks: this many bytes, if no record was padded.
    Missing(u64, Times),
    /// Nothing more will follow.
    Stopped(Unopened, Times),
    /// The server asked for another ClientHello: packets of the first one, of the request, and of the second one.
    Retried([Stamp; 3]),
    /// An alert that ends the connection with an error.
    Alerted(Alert, Times),
}

/// Which secret protects a direction's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Epoch {
    Clear,
    /// TLS 1.3, client: early data.
    Early,
    /// TLS 1.3: the handshake traffic secret.
    Handshake,
    Traffic,
}

/// Records that came before their secrets.
#[derive(Debug)]
struct Held {
    side: Side,
    content: ContentType,
    header: [u8; 5],
    times: Times,
    fragment: Vec<u8>,
}

#[derive(Debug)]
struct Half {
    records: Records,
    /// Handshake bytes that do not form a whole message yet.
    message: Vec<u8>,
    /// Type of a skipped message, and its bytes that are still to come.
    skip: (u8, usize),
    /// Whether this end's records are protected from here on, so that handshake and alert bodies are ciphertext.
    is_protected: bool,
    /// Whether handshake bytes were lost, so that message boundaries are unknown.
    is_torn: bool,
    epoch: Epoch,
    opener: Option<Box<dyn Opener>>,
    /// Number of the next record under the current key.
    sequence: u64,
    /// The traffic secret in use, for key updates.
    secret: Vec<u8>,
    /// Whether no record of this direction will be opened any more.
    is_shut: bool,
    /// Bytes of the latest records if these are alerts, headers included.
    farewell: u64,
}

impl Half {
    fn new(midstream: bool) -> Half {
        Half {
            records: Records::new(midstream),
            message: Vec::new(),
            skip: (0, 0),
            is_protected: false,
            is_torn: midstream,
            epoch: Epoch::Clear,
            opener: None,
            sequence: 0,
            secret: Vec::new(),
            is_shut: midstream,
            farewell: 0,
        }
    }

    /// Takes the keys of an epoch into use.
    fn enter(&mut self, epoch: Epoch, opener: Option<Box<dyn Opener>>, secret: &[u8]) {
        self.epoch = epoch;
        self.opener = opener;
        self.sequence = 0;
        self.secret = secret.to_vec();
        self.message.clear();
        self.skip = (0, 0);
    }

    /// Opens a record; `None` if it is not authentic.
    fn open(&mut self, record: &Record<'_>, fragment: &[u8], is_13: bool) -> Option<(ContentType, Vec<u8>)> {
        let mut content = fragment.to_vec();
        let opener = self.opener.as_ref()?;
        if !opener.open(self.sequence, record.header, &mut content) {
            return None;
        }
        self.sequence += 1;
        if !is_13 {
            return Some((record.content, content));
        }
        // RFC 8446, section 5.2: the content type is the last byte that is not zero.
        while content.last() == Some(&0) {
            content.pop();
        }
        let kind = ContentType::of(content.pop()?)?;
        Some((kind, content))
    }
}

/// Reader of one connection.
#[derive(Debug)]
pub(crate) struct Conversation {
    halves: [Half; 2],
    /// Packets of the first ClientHello and of a HelloRetryRequest.
    begun: Option<Stamp>,
    retry: Option<Stamp>,
    facts: Tls,
    held: Vec<Held>,
    held_bytes: usize,
    /// Share of the common budget in use.
    charged: usize,
}

impl Conversation {
    /// A reader at the start of a connection, or with `midstream` anywhere inside.
    pub(crate) fn new(midstream: bool) -> Conversation {
        Conversation {
            halves: [Half::new(midstream), Half::new(midstream)],
            begun: None,
            retry: None,
            facts: Tls::default(),
            held: Vec::new(),
            held_bytes: 0,
            charged: 0,
        }
    }

    /// Facts found so far.
    pub(crate) fn facts(&self) -> &Tls {
        &self.facts
    }

    /// Bytes of the alerts at the end of a direction, as far as it has been read: `close_notify` in most cases.
    pub(crate) fn farewell(&self, side: Side) -> u64 {
        self.halves[side as usize].farewell
    }

    /// Whether records wait for their secrets.
    pub(crate) fn awaits_secrets(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether a direction is not TLS, or was given up.
    pub(crate) fn is_opaque(&self) -> bool {
        self.halves.iter().any(|half| half.records.is_opaque())
    }

    /// Reads the next bytes of one direction, which came at `came` and were in order at `here`.
    pub(crate) fn bytes(
        &mut self,
        side: Side,
        (came, here): (Stamp, Stamp),
        input: &[u8],
        keys: &Keyring,
        out: &mut Vec<(Side, Content)>,
    ) {
        let mut records = core::mem::replace(&mut self.halves[side as usize].records, Records::new(true));
        let half = &self.halves[side as usize];
        records.keeps = !(half.is_protected && (half.is_shut || keys.suites().is_none()));
        records.bytes(came, here, input, |record| self.take(side, record, keys, out));
        self.halves[side as usize].records = records;
    }

    /// Skips `n` bytes of one direction that were not captured; `here` is the packet that showed it.
    pub(crate) fn gap(
        &mut self,
        side: Side,
        here: Stamp,
        n: u64,
        keys: &Keyring,
        out: &mut Vec<(Side, Content)>,
    ) {
        let mut records = core::mem::replace(&mut self.halves[side as usize].records, Records::new(true));
        self.halves[side as usize].is_torn = true;
        records.gap(here, n, |record| self.take(side, record, keys, out));
        if records.is_lost() {
            let times = Times {
                begun: here,
                came: here,
                here,
            };
            self.stop(side, Unopened::Gap, times, out);
        }
        self.halves[side as usize].records = records;
    }

    /// Holds the memory in use against the common budget. Beyond it, the connection is given up.
    pub(crate) fn charge(
        &mut self,
        side: Side,
        here: Stamp,
        budget: &mut Budget,
        out: &mut Vec<(Side, Content)>,
    ) {
        let halves = self
            .halves
            .iter()
            .map(|half| half.records.memory() + half.message.capacity());
        let needed = halves.sum::<usize>() + self.held_bytes;
        if needed > self.charged && !budget.hold(needed - self.charged) {
            let times = Times {
                begun: here,
                came: here,
                here,
            };
            self.stop(side, Unopened::Memory, times, out);
            self.stop(side.peer(), Unopened::Memory, times, out);
            for half in &mut self.halves {
                half.records.give_up();
                half.message = Vec::new();
            }
            self.held = Vec::new();
            self.held_bytes = 0;
            budget.release(core::mem::take(&mut self.charged));
            return;
        }
        if needed < self.charged {
            budget.release(self.charged - needed);
        }
        self.charged = needed;
    }

    /// Ends the connection: what waited for secrets is opened if they have come. Returns the memory to the budget.
    pub(crate) fn finish(&mut self, keys: &Keyring, budget: &mut Budget, out: &mut Vec<(Side, Content)>) {
        self.replay(keys, out);
        self.held.clear();
        budget.release(core::mem::take(&mut self.charged));
    }

    fn is_13(&self) -> bool {
        self.facts
            .server
            .as_ref()
            .is_some_and(|hello| hello.version == TLS13)
    }

    fn take(&mut self, side: Side, record: Record<'_>, keys: &Keyring, out: &mut Vec<(Side, Content)>) {
        self.facts.records[side as usize] += 1;
        if !self.held.is_empty() {
            self.replay(keys, out);
        }
        let is_13 = self.is_13();
        let Conversation {
            halves, begun, facts, ..
        } = self;
        let half = &mut halves[side as usize];
        let is_hidden = is_13 && record.content == ContentType::ApplicationData && record.len == ALERT_13;
        if is_hidden || record.content == ContentType::Alert {
            half.farewell += (HEADER + record.len) as u64;
        } else {
            half.farewell = 0;
        }
        match record.content {
            ContentType::Handshake if half.is_protected => {
                finished(*begun, facts, side, &record);
                self.protected(side, record, keys, out);
            }
            ContentType::Handshake => {
                if side == Side::Client && facts.client.is_none() {
                    begun.get_or_insert(record.times.begun);
                }
                if let (Some(fragment), false) = (record.fragment, half.is_torn) {
                    let retried = facts.retried;
                    messages(half, fragment, |kind, body| facts.clear(side, kind, body));
                    if facts.retried && !retried {
                        self.retry = Some(record.times.here);
                    } else if side == Side::Client
                        && let (Some(retry), Some(begun)) = (self.retry.take(), self.begun)
                    {
                        out.push((side, Content::Retried([begun, retry, record.times.here])));
                    }
                }
            }
            // In TLS 1.3 without meaning (RFC 8446, section 5).
            ContentType::ChangeCipherSpec => half.is_protected |= !is_13 && facts.server.is_some(),
            ContentType::Alert if !half.is_protected => {
                if let Some(fragment) = record.fragment {
                    facts.alert(side, fragment, record.times, out);
                }
            }
            ContentType::Alert => self.protected(side, record, keys, out),
            ContentType::ApplicationData => {
                half.is_protected = true;
                if is_13 && !is_hidden {
                    finished(*begun, facts, side, &record);
                }
                self.protected(side, record, keys, out);
            }
        }
    }

    /// Opens a protected record, if there are secrets, and acts on what it holds.
    fn protected(&mut self, side: Side, record: Record<'_>, keys: &Keyring, out: &mut Vec<(Side, Content)>) {
        if self.halves[side as usize].is_shut || keys.suites().is_none() {
            return;
        }
        if self.halves[side as usize].epoch == Epoch::Clear && !self.unlock(side, keys) {
            self.wait(side, &record, keys);
            return;
        }
        let is_13 = self.is_13();
        let Some(fragment) = record.fragment else {
            self.missed(side, &record, is_13, out);
            return;
        };
        let opened = self.halves[side as usize].open(&record, fragment, is_13);
        let opened = opened.or_else(|| self.open_otherwise(side, &record, fragment, keys));
        match opened {
            Some((kind, content)) => self.opened(side, kind, content, record.times, keys, out),
            None if self.is_refused_early(side) => {}
            None => self.stop(side, Unopened::NotAuthentic, record.times, out),
        }
    }

    /// Whether a record that cannot be opened may be early data that the server refused: the client sends it again (RFC
    /// 8446, section 4.2.10).
    fn is_refused_early(&self, side: Side) -> bool {
        let half = &self.halves[side as usize];
        let is_offered = self
            .facts
            .client
            .as_ref()
            .is_some_and(|hello| hello.has_early_data);
        side == Side::Client && is_offered && half.epoch == Epoch::Handshake && half.sequence == 0
    }

    /// Opens a record under the keys of the next epoch: the record that ends the current one may have been missed.
    fn open_otherwise(
        &mut self,
        side: Side,
        record: &Record<'_>,
        fragment: &[u8],
        keys: &Keyring,
    ) -> Option<(ContentType, Vec<u8>)> {
        let next = match self.halves[side as usize].epoch {
            Epoch::Early => Epoch::Handshake,
            Epoch::Handshake => Epoch::Traffic,
            Epoch::Clear | Epoch::Traffic => return None,
        };
        let (opener, secret) = self.opener(side, next, keys)?;
        // Kept if it does not fit: the current keys then remain.
        let mut half = Half::new(false);
        half.enter(next, Some(opener), &secret);
        let opened = half.open(record, fragment, true)?;
        let own = &mut self.halves[side as usize];
        own.enter(next, half.opener, &secret);
        own.sequence = half.sequence;
        Some(opened)
    }

    /// What opens a direction's records in an epoch of TLS 1.3.
    fn opener(&self, side: Side, epoch: Epoch, keys: &Keyring) -> Option<(Box<dyn Opener>, Vec<u8>)> {
        let suite = self.facts.server.as_ref()?.cipher_suite;
        let secrets = self.secrets(keys)?;
        let secret = match epoch {
            Epoch::Early => secrets.early.as_deref(),
            Epoch::Handshake => secrets.handshake(side),
            _ => secrets.traffic(side),
        }?;
        Some((keys.suites()?.tls13(suite, secret)?, secret.to_vec()))
    }

    fn secrets<'k>(&self, keys: &'k Keyring) -> Option<&'k Secrets> {
        keys.find(&self.facts.client.as_ref()?.random)
    }

    /// Takes a direction's first keys into use. Returns whether there are any.
    fn unlock(&mut self, side: Side, keys: &Keyring) -> bool {
        let Some(secrets) = self.secrets(keys).filter(|secrets| secrets.is_whole()) else {
            if !keys.is_empty() {
                self.facts.decryption = Decryption::NoSecrets;
            }
            return false;
        };
        self.facts.decryption = Decryption::UnknownSuite;
        let (Some(client), Some(server), Some(suites)) =
            (&self.facts.client, &self.facts.server, keys.suites())
        else {
            return false;
        };
        if self.is_13() {
            let is_early = side == Side::Client && client.has_early_data && secrets.early.is_some();
            let epoch = if is_early { Epoch::Early } else { Epoch::Handshake };
            let Some((opener, secret)) = self.opener(side, epoch, keys) else {
                return false;
            };
            self.halves[side as usize].enter(epoch, Some(opener), &secret);
        } else {
            let master = secrets.master.as_deref().unwrap_or_default();
            let Some(openers) = suites.tls12(server.cipher_suite, master, [&client.random, &server.random])
            else {
                return false;
            };
            let [client, server] = openers;
            let opener = if side == Side::Client { client } else { server };
            self.halves[side as usize].enter(Epoch::Traffic, Some(opener), &[]);
        }
        self.facts.decryption = Decryption::Done;
        true
    }

    /// Keeps a record whose secrets may come later, or gives the direction up.
    fn wait(&mut self, side: Side, record: &Record<'_>, keys: &Keyring) {
        let is_hopeless = !keys.grows() || self.facts.decryption == Decryption::UnknownSuite;
        match record.fragment {
            Some(fragment) if !is_hopeless && self.held_bytes + fragment.len() <= HELD_MAX => {
                self.held_bytes += fragment.len();
                self.held.push(Held {
                    side,
                    content: record.content,
                    header: record.header,
                    times: record.times,
                    fragment: fragment.to_vec(),
                });
            }
            _ => {
                self.halves.iter_mut().for_each(|half| half.is_shut = true);
                self.held.clear();
                self.held_bytes = 0;
            }
        }
    }

    /// Opens the records that waited for secrets, if these have come.
    fn replay(&mut self, keys: &Keyring, out: &mut Vec<(Side, Content)>) {
        if !self.secrets(keys).is_some_and(Secrets::is_whole) {
            return;
        }
        self.held_bytes = 0;
        for held in core::mem::take(&mut self.held) {
            let record = Record {
                content: held.content,
                header: held.header,
                times: held.times,
                len: held.fragment.len(),
                fragment: Some(&held.fragment),
            };
            self.protected(held.side, record, keys, out);
        }
    }

    /// A record with missing bytes still has a number and a length.
    fn missed(&mut self, side: Side, record: &Record<'_>, is_13: bool, out: &mut Vec<(Side, Content)>) {
        let half = &mut self.halves[side as usize];
        let expansion = half.opener.as_ref().map_or(0, |opener| opener.expansion()) + usize::from(is_13);
        half.sequence += 1;
        if half.epoch == Epoch::Traffic && record.content == ContentType::ApplicationData {
            let missing = record.len.saturating_sub(expansion) as u64;
            out.push((side, Content::Missing(missing, record.times)));
        }
    }

    /// Acts on the content of an opened record.
    fn opened(
        &mut self,
        side: Side,
        kind: ContentType,
        content: Vec<u8>,
        times: Times,
        keys: &Keyring,
        out: &mut Vec<(Side, Content)>,
    ) {
        match kind {
            ContentType::ApplicationData => out.push((side, Content::Plain(content, times))),
            ContentType::Alert => self.facts.alert(side, &content, times, out),
            ContentType::ChangeCipherSpec => {}
            ContentType::Handshake => {
                let mut next = None;
                let facts = &mut self.facts;
                messages(
                    &mut self.halves[side as usize],
                    &content,
                    |kind, body| match kind {
                        message::ENCRYPTED_EXTENSIONS => facts.alpn = ServerHello::encrypted_alpn(body),
                        message::CERTIFICATE => facts.certificate_seen |= side == Side::Server,
                        message::END_OF_EARLY_DATA => next = Some(Epoch::Handshake),
                        message::FINISHED | message::KEY_UPDATE => next = Some(Epoch::Traffic),
                        _ => {}
                    },
                );
                if let Some(epoch) = next.filter(|_| self.is_13()) {
                    self.advance(side, epoch, keys);
                }
            }
        }
    }

    /// The next record comes under other keys.
    fn advance(&mut self, side: Side, epoch: Epoch, keys: &Keyring) {
        let half = &self.halves[side as usize];
        let next = if half.epoch == Epoch::Traffic {
            let suite = self.facts.server.as_ref().map(|hello| hello.cipher_suite);
            suite.zip(keys.suites()).and_then(|(suite, suites)| {
                let secret = suites.updated(suite, &half.secret)?;
                Some((suites.tls13(suite, &secret)?, secret))
            })
        } else {
            self.opener(side, epoch, keys)
        };
        if let Some((opener, secret)) = next {
            self.halves[side as usize].enter(epoch, Some(opener), &secret);
        }
    }

    /// Gives a direction up, if records were opened.
    fn stop(&mut self, side: Side, cause: Unopened, times: Times, out: &mut Vec<(Side, Content)>) {
        let half = &mut self.halves[side as usize];
        let was_open = half.epoch != Epoch::Clear && !half.is_shut;
        half.is_shut = true;
        half.opener = None;
        if was_open {
            self.facts.decryption = Decryption::Stopped;
            out.push((side, Content::Stopped(cause, times)));
        }
    }
}

impl Tls {
    /// Takes a handshake message that was sent in clear.
    fn clear(&mut self, side: Side, kind: u8, body: &[u8]) {
        match (side, kind) {
            (Side::Client, message::CLIENT_HELLO) => {
                if let Ok(hello) = ClientHello::parse(body) {
                    self.client = Some(hello);
                }
            }
            (Side::Server, message::SERVER_HELLO) => {
                let Ok(hello) = ServerHello::parse(body) else {
                    return;
                };
                if hello.is_retry {
                    self.retried = true;
                    return;
                }
                self.resumption = resumption(self.client.as_ref(), &hello);
                self.alpn.clone_from(&hello.alpn);
                self.server = Some(hello);
            }
            (Side::Server, message::CERTIFICATE) => self.certificate_seen = true,
            _ => {}
        }
    }

    fn alert(&mut self, sender: Side, body: &[u8], times: Times, out: &mut Vec<(Side, Content)>) {
        let &[level, description] = body else {
            return;
        };
        // In TLS 1.3 the description alone decides (RFC 8446, section 6): all but close_notify and user_canceled.
        let is_13 = self.server.as_ref().is_some_and(|hello| hello.version == TLS13);
        let fatal = level == 2 || (is_13 && !matches!(description, 0 | 90));
        let alert = Alert {
            sender,
            fatal,
            description,
        };
        if self.alerts.len() < ALERTS_MAX {
            self.alerts.push(alert);
        }
        if fatal {
            out.push((sender, Content::Alerted(alert, times)));
        }
    }
}

/// The client's first protected record ends the handshake.
fn finished(begun: Option<Stamp>, facts: &mut Tls, side: Side, record: &Record<'_>) {
    let is_early = facts.client.as_ref().is_none_or(|hello| hello.has_early_data);
    if side == Side::Client && !is_early && facts.handshake.is_none() {
        facts.handshake = begun.map(|begun| record.times.here.0.since(begun.0));
    }
}

/// Reads handshake messages (RFC 8446, section 4), which may span records and share them. `take` gets the type and the
/// body of each, an empty one for bodies above [`MESSAGE_MAX`] and for those of no interest.
fn messages(half: &mut Half, mut input: &[u8], mut take: impl FnMut(u8, &[u8])) {
    loop {
        let (kind, left) = half.skip;
        if left > 0 {
            let skipped = left.min(input.len());
            input = &input[skipped..];
            half.skip = (kind, left - skipped);
            if skipped < left {
                return;
            }
            take(kind, &[]);
        }
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
        let has_use = matches!(
            kind,
            message::CLIENT_HELLO | message::SERVER_HELLO | message::ENCRYPTED_EXTENSIONS
        );
        if !has_use || len > MESSAGE_MAX {
            half.skip = (kind, len);
            half.message.clear();
            if len == 0 {
                take(kind, &[]);
            }
        } else if half.message.len() == 4 + len {
            let message = core::mem::take(&mut half.message);
            take(kind, &message[4..]);
        } else if input.is_empty() {
            return;
        }
    }
}

/// Length of the body that a message header announces.
fn length(header: &[u8]) -> usize {
    usize::from(header[1]) << 16 | usize::from(header[2]) << 8 | usize::from(header[3])
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
