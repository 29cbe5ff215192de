//! Records of TLS 1.3 once the handshake is complete (RFC 8446, sections 4.6, 5 and 6): sealed and opened where they stand.
//!
//! rustls makes the keys, in the handshake and at each update, and keeps tickets; here is only what every byte passes. Its
//! own record layer copies each record twice more and allocates for it. `docs/performance.md` has what that costs.
//!
//! ```text
//!   Open ──close_notify from the peer──▶ Open, deaf     ──close──▶ Closed
//!     └──a record that breaks the rules──▶ Failed: an alert has been written, nothing more is read
//! ```

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, Error, ExtractedSecrets, HandshakeType,
    InvalidMessage, PeerMisbehaved, SupportedCipherSuite,
};

/// Length of a record's header in bytes.
const HEADER: usize = 5;
/// Length of a tag in bytes, the same for all ciphers of TLS 1.3.
const TAG: usize = 16;
/// Length of a nonce in bytes.
pub(crate) const NONCE: usize = 12;
/// Limit on the plaintext of a record in bytes, without its content type.
const PLAINTEXT_MAX: usize = 1 << 14;
/// Limit on the fragment of a record in bytes (RFC 8446, section 5.2).
const FRAGMENT_MAX: usize = PLAINTEXT_MAX + 256;
/// Limit on a handshake message in bytes, its header included: a ticket is the largest that comes now.
const MESSAGE_MAX: usize = 1 << 16;
/// Key updates that a peer may send without application data between them, as rustls has it.
pub(crate) const KEY_UPDATES_MAX: u8 = 32;
/// Alerts that are no errors and not `close_notify`, as rustls has it.
const WARNINGS_MAX: u8 = 4;
/// Records without content that a peer may send without application data between them. Each costs as much as a full one.
const EMPTY_MAX: u8 = 32;

/// Length of the body of a key update (RFC 8446, section 4.6.3).
const KEY_UPDATE_LEN: usize = 1;

/// Which end this is, with what rustls keeps for it.
enum Kernel {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

impl Kernel {
    fn suite(&self) -> SupportedCipherSuite {
        match self {
            Kernel::Server(kernel) => kernel.negotiated_cipher_suite(),
            Kernel::Client(kernel) => kernel.negotiated_cipher_suite(),
        }
    }

    fn next_to_send(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Kernel::Server(kernel) => kernel.update_tx_secret(),
            Kernel::Client(kernel) => kernel.update_tx_secret(),
        }
    }

    fn next_to_receive(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Kernel::Server(kernel) => kernel.update_rx_secret(),
            Kernel::Client(kernel) => kernel.update_rx_secret(),
        }
    }
}

/// The key of one direction.
struct Protection {
    key: LessSafeKey,
    /// The nonce of record 0 (RFC 8446, section 5.3).
    iv: [u8; NONCE],
    /// Number of the next record.
    sequence: u64,
}

impl Protection {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Protection, Error> {
        let (cipher, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => {
                return Err(Error::General(
                    "a cipher that rustls did not have before".to_owned(),
                ));
            }
        };
        let key = UnboundKey::new(cipher, key.as_ref()).map_err(|_| Error::EncryptError)?;
        let iv = iv.as_ref().try_into().map_err(|_| Error::EncryptError)?;
        Ok(Protection {
            key: LessSafeKey::new(key),
            iv,
            sequence,
        })
    }

    /// The nonce of the next record.
    fn nonce(&mut self) -> Nonce {
        let nonce = nonce(self.iv, self.sequence);
        // 2^64 records take longer than any connection lasts, and keys are updated long before.
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Appends a record of at most [`PLAINTEXT_MAX`] bytes.
    fn seal(&mut self, content: ContentType, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let length = plain.len() + 1 + TAG;
        let header = [
            u8::from(ContentType::ApplicationData),
            3,
            3,
            (length >> 8) as u8,
            length as u8,
        ];
        out.reserve(HEADER + length);
        out.extend_from_slice(&header);
        let from = out.len();
        out.extend_from_slice(plain);
        out.push(content.into());
        let nonce = self.nonce();
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), &mut out[from..])
            .map_err(|_| Error::EncryptError)?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Opens a record in place. Returns its content type and the length of its content, which stands at the beginning.
    fn open(&mut self, header: [u8; HEADER], fragment: &mut [u8]) -> Result<(ContentType, usize), Error> {
        let nonce = self.nonce();
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(header), fragment)
            .map_err(|_| Error::DecryptError)?;
        // RFC 8446, section 5.4: zeros are padding, the last byte before them is the content type.
        let Some(at) = plain.iter().rposition(|byte| *byte != 0) else {
            return Err(PeerMisbehaved::IllegalTlsInnerPlaintext.into());
        };
        if at > PLAINTEXT_MAX {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok((ContentType::from(plain[at]), at))
    }
}

/// What [`Records::receive`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Bytes of the input that were whole records.
    pub(crate) used: usize,
    /// The peer will send no more.
    pub(crate) closed: bool,
}

/// The record layer of one connection.
pub(crate) struct Records {
    kernel: Kernel,
    sealing: Protection,
    opening: Protection,
    /// Records after which the key for sealing is replaced.
    sealed_max: u64,
    /// The start of a handshake message.
    message: Vec<u8>,
    key_updates: u8,
    warnings: u8,
    empty: u8,
    /// The peer has closed its half, or there was an error.
    is_deaf: bool,
    /// This end has.
    is_closed: bool,
}

impl Records {
    /// Goes on for a server's connection.
    ///
    /// # Errors
    /// Keys that cannot be used.
    pub(crate) fn server(
        (secrets, kernel): (ExtractedSecrets, KernelConnection<ServerConnectionData>),
    ) -> Result<Records, Error> {
        Records::new(secrets, Kernel::Server(kernel))
    }

    /// Goes on for a client's connection.
    ///
    /// # Errors
    /// Keys that cannot be used.
    pub(crate) fn client(
        (secrets, kernel): (ExtractedSecrets, KernelConnection<ClientConnectionData>),
    ) -> Result<Records, Error> {
        Records::new(secrets, Kernel::Client(kernel))
    }

    fn new(secrets: ExtractedSecrets, kernel: Kernel) -> Result<Records, Error> {
        let limit = match kernel.suite() {
            SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
            SupportedCipherSuite::Tls12(_) => {
                return Err(Error::General("records of TLS 1.3 only".to_owned()));
            }
        };
        Ok(Records {
            sealed_max: limit.saturating_sub(1).max(1),
            kernel,
            sealing: Protection::new(secrets.tx)?,
            opening: Protection::new(secrets.rx)?,
            message: Vec::new(),
            key_updates: 0,
            warnings: 0,
            empty: 0,
            is_deaf: false,
            is_closed: false,
        })
    }

    /// Appends one record with at most 16,384 bytes of plaintext.
    ///
    /// # Errors
    /// The connection was closed by this end, or keys cannot be made.
    pub(crate) fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        if self.is_closed {
            return Err(closed());
        }
        if self.sealing.sequence >= self.sealed_max {
            self.update(false, out)?;
        }
        self.sealing.seal(ContentType::ApplicationData, plain, out)
    }

    /// Replaces the key for sealing, and says so; `asks` the peer to do the same (RFC 8446, section 4.6.3).
    pub(crate) fn update(&mut self, asks: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        let message = [
            HandshakeType::KeyUpdate.into(),
            0,
            0,
            KEY_UPDATE_LEN as u8,
            asks.into(),
        ];
        self.sealing.seal(ContentType::Handshake, &message, out)?;
        self.sealing = Protection::new(self.kernel.next_to_send()?)?;
        Ok(())
    }

    /// Appends `close_notify`.
    ///
    /// # Errors
    /// Sealing failed.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        if self.is_closed {
            return Ok(());
        }
        self.is_closed = true;
        self.alert(1, AlertDescription::CloseNotify, out)
    }

    fn alert(&mut self, level: u8, description: AlertDescription, out: &mut Vec<u8>) -> Result<(), Error> {
        self.sealing
            .seal(ContentType::Alert, &[level, description.into()], out)
    }

    /// Opens the whole records at the beginning of `input`, in place. Their content is appended to `plain`, what must be said
    /// in return to `out`.
    ///
    /// # Errors
    /// The peer broke the rules, or ended the connection with an error. An alert stands in `out` where one is due.
    pub(crate) fn receive(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Opened, Error> {
        let mut wants_update = false;
        let result = self.open_all(input, plain, &mut wants_update);
        if let Err(error) = &result {
            // RFC 8446, section 6.2: after an error, neither end sends or reads any more.
            self.is_deaf = true;
            let is_open = !core::mem::replace(&mut self.is_closed, true);
            if let Some(description) = answer(error).filter(|_| is_open) {
                self.alert(2, description, out)?;
            }
        } else if wants_update && !self.is_closed {
            // One for however many requests.
            self.update(false, out)?;
        }
        result
    }

    fn open_all(
        &mut self,
        input: &mut [u8],
        plain: &mut Vec<u8>,
        wants_update: &mut bool,
    ) -> Result<Opened, Error> {
        let mut opened = Opened::default();
        while let Some(header) = input[opened.used..].first_chunk::<HEADER>().copied() {
            if self.is_deaf {
                // RFC 8446, section 6.1: what follows close_notify is ignored, as is what follows an error.
                opened.used = input.len();
                break;
            }
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if header[0] != u8::from(ContentType::ApplicationData) {
                return Err(unprotected(header[0]));
            }
            if length > FRAGMENT_MAX {
                return Err(Error::PeerSentOversizedRecord);
            }
            let from = opened.used + HEADER;
            let Some(fragment) = input.get_mut(from..from + length) else {
                break;
            };
            let (content, len) = self.opening.open(header, fragment)?;
            let fragment = &fragment[..len];
            opened.used = from + length;
            if content != ContentType::Handshake && !self.message.is_empty() {
                return Err(PeerMisbehaved::MessageInterleavedWithHandshakeMessage.into());
            }
            match content {
                ContentType::ApplicationData => self.data(fragment, plain)?,
                ContentType::Handshake => self.handshake(fragment, wants_update)?,
                ContentType::Alert => opened.closed |= self.alerted(fragment)?,
                _ => return Err(InvalidMessage::InvalidContentType.into()),
            }
        }
        Ok(opened)
    }

    fn data(&mut self, content: &[u8], plain: &mut Vec<u8>) -> Result<(), Error> {
        if content.is_empty() {
            self.empty += 1;
            if self.empty > EMPTY_MAX {
                return Err(PeerMisbehaved::TooManyEmptyFragments.into());
            }
            return Ok(());
        }
        (self.key_updates, self.empty) = (0, 0);
        plain.extend_from_slice(content);
        Ok(())
    }

    /// Whether the peer closes its half.
    fn alerted(&mut self, content: &[u8]) -> Result<bool, Error> {
        let &[_, description] = content else {
            return Err(InvalidMessage::MessageTooShort.into());
        };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => {
                self.is_deaf = true;
                Ok(true)
            }
            // The one other that is no error (RFC 8446, section 6.1).
            AlertDescription::UserCanceled if self.warnings < WARNINGS_MAX => {
                self.warnings += 1;
                Ok(false)
            }
            AlertDescription::UserCanceled => Err(PeerMisbehaved::TooManyWarningAlertsReceived.into()),
            error => Err(Error::AlertReceived(error)),
        }
    }

    /// Reads handshake messages, which may span records.
    fn handshake(&mut self, mut content: &[u8], wants_update: &mut bool) -> Result<(), Error> {
        if content.is_empty() {
            return Err(InvalidMessage::InvalidEmptyPayload.into());
        }
        while !content.is_empty() {
            let wanted = length(&self.message).unwrap_or(4);
            let n = (wanted - self.message.len()).min(content.len());
            self.message.extend_from_slice(&content[..n]);
            content = &content[n..];
            if length(&self.message).is_some_and(|length| length > MESSAGE_MAX) {
                return Err(InvalidMessage::MessageTooLarge.into());
            }
            if length(&self.message) == Some(self.message.len()) {
                let message = core::mem::take(&mut self.message);
                self.message(&message, content.is_empty(), wants_update)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &[u8], is_last: bool, wants_update: &mut bool) -> Result<(), Error> {
        let kind = HandshakeType::from(message[0]);
        match (kind, &message[4..], &mut self.kernel) {
            (HandshakeType::KeyUpdate, &[asks @ 0..=1], _) => {
                // RFC 8446, section 5.1: the next record has the new key, so nothing may follow in this one.
                if !is_last {
                    return Err(PeerMisbehaved::KeyEpochWithPendingFragment.into());
                }
                self.key_updates += 1;
                if self.key_updates > KEY_UPDATES_MAX {
                    return Err(PeerMisbehaved::TooManyKeyUpdateRequests.into());
                }
                self.opening = Protection::new(self.kernel.next_to_receive()?)?;
                *wants_update |= asks == 1;
                Ok(())
            }
            (HandshakeType::KeyUpdate, _, _) => Err(InvalidMessage::InvalidKeyUpdate.into()),
            (HandshakeType::NewSessionTicket, body, Kernel::Client(kernel)) => {
                kernel.handle_new_session_ticket(body)
            }
            _ => Err(Error::InappropriateHandshakeMessage {
                expect_types: vec![HandshakeType::KeyUpdate],
                got_type: kind,
            }),
        }
    }
}

/// This end has closed, and cannot send.
pub(crate) fn closed() -> Error {
    Error::General("nothing follows close_notify".to_owned())
}

/// The nonce of a record: the first one's, with the record's number in its last eight bytes (RFC 8446, section 5.3; RFC
/// 7905, section 2).
pub(crate) fn nonce(mut first: [u8; NONCE], sequence: u64) -> [u8; NONCE] {
    let last = &mut first[NONCE - 8..];
    last.iter_mut()
        .zip(sequence.to_be_bytes())
        .for_each(|(byte, with)| *byte ^= with);
    first
}

/// Length of a handshake message with its header, once that has come (RFC 8446, section 4).
fn length(message: &[u8]) -> Option<usize> {
    let &[_, a, b, c] = message.first_chunk::<4>()?;
    Some(4 + u32::from_be_bytes([0, a, b, c]) as usize)
}

/// A record that is not protected, after the handshake.
fn unprotected(kind: u8) -> Error {
    match ContentType::from(kind) {
        content @ (ContentType::ChangeCipherSpec | ContentType::Alert | ContentType::Handshake) => {
            Error::InappropriateMessage {
                expect_types: vec![ContentType::ApplicationData],
                got_type: content,
            }
        }
        _ => InvalidMessage::InvalidContentType.into(),
    }
}

/// The alert that tells the peer of an error (RFC 8446, section 6.2); `None` if the peer knows.
fn answer(error: &Error) -> Option<AlertDescription> {
    Some(match error {
        Error::AlertReceived(_) => return None,
        Error::DecryptError => AlertDescription::BadRecordMac,
        Error::PeerSentOversizedRecord => AlertDescription::RecordOverflow,
        Error::InvalidMessage(_) => AlertDescription::DecodeError,
        Error::EncryptError | Error::General(_) => AlertDescription::InternalError,
        _ => AlertDescription::UnexpectedMessage,
    })
}

#[cfg(test)]
mod tests;
