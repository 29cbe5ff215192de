//! Opens the records of connections between others, with secrets that one of the ends has logged (RFC 9850).
//!
//! For captures: [`Key`] is one direction under one key. Only authenticated ciphers (AEAD) are known: all of TLS 1.3, and of
//! TLS 1.2 those with GCM (RFC 5288, RFC 5289) and with ChaCha20-Poly1305 (RFC 7905).

pub mod quic;

use crate::records::{self, NONCE};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, Prk};
use aws_lc_rs::hmac;
use rustls::CipherSuite;

/// Length of the part of a nonce that each GCM record of TLS 1.2 carries, in bytes (RFC 5288, section 3).
const EXPLICIT: usize = 8;

/// Cipher and hash of a suite.
#[derive(Clone, Copy)]
struct Suite {
    aead: &'static aead::Algorithm,
    hmac: hmac::Algorithm,
    /// Whether it is one of TLS 1.2 whose records carry a part of the nonce.
    is_explicit: bool,
}

/// The suite with this number in TLS 1.3, and what derives its keys.
fn suite13(number: u16) -> Option<(Suite, hkdf::Algorithm)> {
    let (aead, hkdf, hmac) = match CipherSuite::from(number) {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => (&aead::AES_128_GCM, hkdf::HKDF_SHA256, hmac::HMAC_SHA256),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => (&aead::AES_256_GCM, hkdf::HKDF_SHA384, hmac::HMAC_SHA384),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
            (&aead::CHACHA20_POLY1305, hkdf::HKDF_SHA256, hmac::HMAC_SHA256)
        }
        _ => return None,
    };
    let suite = Suite {
        aead,
        hmac,
        is_explicit: false,
    };
    Some((suite, hkdf))
}

/// The suite with this number in TLS 1.2.
fn suite12(number: u16) -> Option<Suite> {
    let (aead, hmac, is_explicit) = match CipherSuite::from(number) {
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_DHE_RSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_RSA_WITH_AES_128_GCM_SHA256 => (&aead::AES_128_GCM, hmac::HMAC_SHA256, true),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_DHE_RSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_RSA_WITH_AES_256_GCM_SHA384 => (&aead::AES_256_GCM, hmac::HMAC_SHA384, true),
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
            (&aead::CHACHA20_POLY1305, hmac::HMAC_SHA256, false)
        }
        _ => return None,
    };
    Some(Suite {
        aead,
        hmac,
        is_explicit,
    })
}

/// One direction's records under one key.
pub struct Key {
    key: LessSafeKey,
    /// The nonce of record 0; in TLS 1.2 with GCM, only its first four bytes count.
    iv: [u8; NONCE],
    is_13: bool,
    is_explicit: bool,
}

impl core::fmt::Debug for Key {
    /// Shows no secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Key")
            .field("is_13", &self.is_13)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// The key of a traffic secret of TLS 1.3 (RFC 8446, section 7.3). `None` if the suite, by its number on the wire, is not
    /// known or the secret has not its length.
    pub fn of_tls13(suite: u16, secret: &[u8]) -> Option<Key> {
        let suite = suite13(suite)?;
        let mut iv = [0; NONCE];
        expand(suite, secret, b"iv", &mut iv)?;
        let mut key = vec![0; suite.0.aead.key_len()];
        expand(suite, secret, b"key", &mut key)?;
        Key::new(suite.0, &key, iv, true)
    }

    /// The keys of the client's and of the server's records of TLS 1.2, by the master secret and the random values of
    /// client and server (RFC 5246, section 6.3). `None` if the suite is not known.
    pub fn of_tls12(suite: u16, master: &[u8], [client, server]: [&[u8; 32]; 2]) -> Option<[Key; 2]> {
        let suite = suite12(suite)?;
        let (key_len, iv_len) = (
            suite.aead.key_len(),
            if suite.is_explicit {
                NONCE - EXPLICIT
            } else {
                NONCE
            },
        );
        let mut block = vec![0; 2 * (key_len + iv_len)];
        prf(
            suite.hmac,
            master,
            &[b"key expansion", server, client],
            &mut block,
        );
        let (keys, ivs) = block.split_at(2 * key_len);
        let side = |n: usize| {
            let mut iv = [0; NONCE];
            iv[..iv_len].copy_from_slice(&ivs[n * iv_len..(n + 1) * iv_len]);
            Key::new(suite, &keys[n * key_len..(n + 1) * key_len], iv, false)
        };
        Some([side(0)?, side(1)?])
    }

    fn new(suite: Suite, key: &[u8], iv: [u8; NONCE], is_13: bool) -> Option<Key> {
        Some(Key {
            key: LessSafeKey::new(UnboundKey::new(suite.aead, key).ok()?),
            iv,
            is_13,
            is_explicit: suite.is_explicit,
        })
    }

    /// Opens record number `sequence` in place, given its header of five bytes. In TLS 1.3 the content type and padding stay
    /// at the end of `fragment`. Returns whether the record is authentic; if not, `fragment` is of no use.
    pub fn open(&self, sequence: u64, header: [u8; 5], fragment: &mut Vec<u8>) -> bool {
        let mut nonce = self.iv;
        if self.is_explicit {
            if fragment.len() < EXPLICIT {
                return false;
            }
            nonce[NONCE - EXPLICIT..].copy_from_slice(&fragment[..EXPLICIT]);
            fragment.drain(..EXPLICIT);
        } else {
            nonce = records::nonce(nonce, sequence);
        }
        let Some(len) = fragment.len().checked_sub(self.key.algorithm().tag_len()) else {
            return false;
        };
        // RFC 8446, section 5.2; RFC 5246, section 6.2.3.3.
        let mut additional = [0; 13];
        let additional = if self.is_13 {
            additional[..5].copy_from_slice(&header);
            &additional[..5]
        } else {
            additional[..8].copy_from_slice(&sequence.to_be_bytes());
            additional[8..11].copy_from_slice(&header[..3]);
            additional[11..].copy_from_slice(&(len as u16).to_be_bytes());
            &additional[..]
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let is_authentic = self
            .key
            .open_in_place(nonce, Aad::from(additional), fragment)
            .is_ok();
        fragment.truncate(len);
        is_authentic
    }

    /// Bytes by which a fragment is longer than its content; in TLS 1.3 without the content type and padding.
    pub fn expansion(&self) -> usize {
        self.key.algorithm().tag_len() + if self.is_explicit { EXPLICIT } else { 0 }
    }
}

/// The traffic secret after a key update (RFC 8446, section 7.2); `None` if the suite is not known.
pub fn updated(suite: u16, secret: &[u8]) -> Option<Vec<u8>> {
    let suite = suite13(suite)?;
    let mut next = vec![0; secret.len()];
    expand(suite, secret, b"traffic upd", &mut next)?;
    Some(next)
}

/// Length of what is derived.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label without context (RFC 8446, section 7.1). `None` if the secret has not the length of the hash.
fn expand(
    (suite, hkdf): (Suite, hkdf::Algorithm),
    secret: &[u8],
    label: &[u8],
    out: &mut [u8],
) -> Option<()> {
    if secret.len() != suite.hmac.digest_algorithm().output_len() {
        return None;
    }
    expand_prk(&Prk::new_less_safe(hkdf, secret), label, out)
}

/// As [`expand`], for a key that was extracted.
fn expand_prk(prk: &Prk, label: &[u8], out: &mut [u8]) -> Option<()> {
    let len = (out.len() as u16).to_be_bytes();
    let info: [&[u8]; 5] = [&len, &[6 + label.len() as u8], b"tls13 ", label, &[0]];
    prk.expand(&info, Length(out.len())).ok()?.fill(out).ok()
}

/// The pseudorandom function of TLS 1.2 (RFC 5246, section 5).
fn prf(hash: hmac::Algorithm, secret: &[u8], seed: &[&[u8]], out: &mut [u8]) {
    let key = hmac::Key::new(hash, secret);
    let sign = |first: &[u8]| {
        let mut context = hmac::Context::with_key(&key);
        context.update(first);
        seed.iter().for_each(|part| context.update(part));
        context.sign()
    };
    let mut a = sign(&[]);
    for chunk in out.chunks_mut(hash.digest_algorithm().output_len()) {
        let block = sign(a.as_ref());
        chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
        a = hmac::sign(&key, a.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn hex(text: &str) -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect(text);
        (0..text.len()).step_by(2).map(byte).collect()
    }

    /// Traffic key and nonce of the server's handshake records in RFC 8448, section 3.
    #[test]
    fn keys_follow_from_secrets_as_in_rfc_8448() {
        let secret = hex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38");
        let suite = suite13(0x1301).expect("a suite of TLS 1.3");
        let (mut key, mut iv) = ([0; 16], [0; 12]);
        expand(suite, &secret, b"key", &mut key).expect("a secret of SHA-256");
        expand(suite, &secret, b"iv", &mut iv).expect("a secret of SHA-256");
        assert_eq!(key.to_vec(), hex("3fce516009c21727d0f2e4e86ee403bc"));
        assert_eq!(iv.to_vec(), hex("5d313eb2671276ee13000b30"));
    }

    #[test]
    fn a_secret_of_another_hash_is_none() {
        assert!(Key::of_tls13(0x1301, &[0; 48]).is_none());
        assert!(Key::of_tls13(0x1302, &[0; 48]).is_some());
        assert!(Key::of_tls13(0xc02f, &[0; 32]).is_none());
        assert!(Key::of_tls12(0x1301, &[0; 48], [&[0; 32]; 2]).is_none());
        // CBC is not authenticated encryption.
        assert!(Key::of_tls12(0xc013, &[0; 48], [&[0; 32]; 2]).is_none());
    }

    #[test]
    fn forged_and_short_records_are_not_authentic() {
        let keys = Key::of_tls12(0xc02f, &[1; 48], [&[2; 32], &[3; 32]]).expect("a suite");
        for len in 0..64 {
            let mut fragment = vec![0; len];
            assert!(!keys[0].open(0, [23, 3, 3, 0, len as u8], &mut fragment), "{len}");
        }
    }
}
