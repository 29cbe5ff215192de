//! ClientHello and ServerHello: what one end offers and what the other chooses.
//!
//! Reads the extensions that a report names and skips all others. Lists are cut at [`LIST_MAX`] entries.

use super::fields::Fields;
use serde::Serialize;

/// Limit on the entries kept of an offered list.
const LIST_MAX: usize = 64;

/// `random` of a ServerHello that is a HelloRetryRequest (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

const SERVER_NAME: u16 = 0;
const SUPPORTED_GROUPS: u16 = 10;
const ALPN: u16 = 16;
const SESSION_TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

/// The message ends inside a field, or a length exceeds its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloError;

impl core::fmt::Display for HelloError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("truncated TLS hello message")
    }
}

impl core::error::Error for HelloError {}

/// The client's offer (RFC 8446, section 4.1.2; RFC 5246, section 7.4.1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientHello {
    /// `random`: the name of the session in a key log.
    #[serde(skip)]
    pub random: [u8; 32],
    /// Session ID; a random filler in TLS 1.3.
    #[serde(skip)]
    pub session_id: Vec<u8>,
    /// Server name (RFC 6066, section 3).
    pub server_name: Option<String>,
    /// Application protocols, most preferred first (RFC 7301).
    pub alpn: Vec<String>,
    /// Versions as on the wire: 0x0304 is TLS 1.3.
    pub versions: Vec<u16>,
    /// Cipher suites, most preferred first.
    pub cipher_suites: Vec<u16>,
    /// Key exchange groups, most preferred first (RFC 8446, section 4.2.7).
    pub groups: Vec<u16>,
    /// Whether a session ticket is presented (RFC 5077, section 3.2).
    pub has_ticket: bool,
    /// Whether pre-shared keys are offered (RFC 8446, section 4.2.11).
    pub has_psk: bool,
    /// Whether early data follows (RFC 8446, section 4.2.10).
    pub has_early_data: bool,
}

/// The server's choice (RFC 8446, section 4.1.3; RFC 5246, section 7.4.1.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerHello {
    /// `random`.
    #[serde(skip)]
    pub random: [u8; 32],
    /// Session ID; an echo of the client's in TLS 1.3.
    #[serde(skip)]
    pub session_id: Vec<u8>,
    /// Whether this is a HelloRetryRequest (RFC 8446, section 4.1.4).
    pub is_retry: bool,
    /// Version as on the wire: 0x0304 is TLS 1.3.
    pub version: u16,
    /// Cipher suite.
    pub cipher_suite: u16,
    /// Group of the key share; TLS 1.2 names it in a later message.
    pub group: Option<u16>,
    /// Application protocol; TLS 1.3 encrypts it.
    pub alpn: Option<String>,
    /// Whether a pre-shared key was accepted.
    pub has_psk: bool,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Protocol names of an ALPN extension.
fn protocols(mut body: Fields<'_>) -> Option<Vec<String>> {
    let mut list = body.vec16()?;
    let mut names = Vec::new();
    while !list.is_empty() && names.len() < LIST_MAX {
        names.push(text(list.vec8()?.0));
    }
    Some(names)
}

/// The `host_name` of a server name extension.
fn server_name(mut body: Fields<'_>) -> Option<String> {
    let mut list = body.vec16()?;
    while !list.is_empty() {
        let kind = list.u8()?;
        let name = list.vec16()?;
        if kind == 0 {
            return Some(text(&name.0[..name.0.len().min(255)]));
        }
    }
    None
}

impl ClientHello {
    /// Parses the message's body, without its four bytes of header.
    ///
    /// # Errors
    /// If the body ends inside a field.
    pub fn parse(body: &[u8]) -> Result<ClientHello, HelloError> {
        ClientHello::fields(Fields(body)).ok_or(HelloError)
    }

    fn fields(mut body: Fields<'_>) -> Option<ClientHello> {
        let legacy = body.u16()?;
        let mut hello = ClientHello {
            random: body.take(32)?.try_into().ok()?,
            session_id: body.vec8()?.0.to_vec(),
            versions: vec![legacy],
            cipher_suites: body.vec16()?.u16s(LIST_MAX),
            ..ClientHello::default()
        };
        body.vec8()?;
        if body.is_empty() {
            // RFC 5246, section 7.4.1.2: extensions are optional.
            return Some(hello);
        }
        let mut extensions = body.vec16()?;
        while !extensions.is_empty() {
            let kind = extensions.u16()?;
            let mut value = extensions.vec16()?;
            match kind {
                SERVER_NAME => hello.server_name = server_name(value),
                ALPN => hello.alpn = protocols(value)?,
                SUPPORTED_VERSIONS => hello.versions = value.vec8()?.u16s(LIST_MAX),
                SUPPORTED_GROUPS => hello.groups = value.vec16()?.u16s(LIST_MAX),
                SESSION_TICKET => hello.has_ticket = !value.is_empty(),
                PRE_SHARED_KEY => hello.has_psk = true,
                EARLY_DATA => hello.has_early_data = true,
                _ => {}
            }
        }
        Some(hello)
    }
}

impl ServerHello {
    /// Parses the message's body, without its four bytes of header.
    ///
    /// # Errors
    /// If the body ends inside a field.
    pub fn parse(body: &[u8]) -> Result<ServerHello, HelloError> {
        ServerHello::fields(Fields(body)).ok_or(HelloError)
    }

    /// The application protocol in the body of EncryptedExtensions (RFC 8446, section 4.3.1).
    pub(crate) fn encrypted_alpn(body: &[u8]) -> Option<String> {
        let mut extensions = Fields(body).vec16()?;
        while !extensions.is_empty() {
            let kind = extensions.u16()?;
            let value = extensions.vec16()?;
            if kind == ALPN {
                return protocols(value)?.into_iter().next();
            }
        }
        None
    }

    fn fields(mut body: Fields<'_>) -> Option<ServerHello> {
        let version = body.u16()?;
        let random: [u8; 32] = body.take(32)?.try_into().ok()?;
        let mut hello = ServerHello {
            random,
            is_retry: random == RETRY,
            version,
            session_id: body.vec8()?.0.to_vec(),
            cipher_suite: body.u16()?,
            ..ServerHello::default()
        };
        body.u8()?;
        if body.is_empty() {
            return Some(hello);
        }
        let mut extensions = body.vec16()?;
        while !extensions.is_empty() {
            let kind = extensions.u16()?;
            let mut value = extensions.vec16()?;
            match kind {
                SUPPORTED_VERSIONS => hello.version = value.u16()?,
                KEY_SHARE => hello.group = Some(value.u16()?),
                ALPN => hello.alpn = protocols(value)?.into_iter().next(),
                PRE_SHARED_KEY => hello.has_psk = true,
                _ => {}
            }
        }
        Some(hello)
    }
}
