//! Opens the packets of QUIC connections between others (RFC 9001; RFC 9369 for version 2).
//!
//! The keys of Initial packets follow from a connection ID that everyone can read. All others need a secret that one of the
//! ends has logged.

use super::{NONCE, Suite, expand, records, suite13};
use aws_lc_rs::aead::quic::{AES_128, AES_256, CHACHA20, HeaderProtectionKey};
use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, Salt};
use rustls::CipherSuite;

/// Number of version 1 on the wire.
const V1: u32 = 1;
/// Number of version 2 on the wire (RFC 9369, section 3.1).
const V2: u32 = 0x6b33_43cf;
/// Suite of Initial packets: TLS_AES_128_GCM_SHA256.
const INITIAL: u16 = 0x1301;

/// Salt of the Initial secrets, and the labels of key, nonce, header protection and key update.
struct Constants {
    salt: [u8; 20],
    key: &'static [u8],
    iv: &'static [u8],
    hp: &'static [u8],
    update: &'static [u8],
}

/// RFC 9001, sections 5.1, 5.2 and 6.1; RFC 9369, section 3.3. `None` for other versions.
fn constants(version: u32) -> Option<Constants> {
    match version {
        V1 => Some(Constants {
            salt: [
                0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c,
                0xad, 0xcc, 0xbb, 0x7f, 0x0a,
            ],
            key: b"quic key",
            iv: b"quic iv",
            hp: b"quic hp",
            update: b"quic ku",
        }),
        V2 => Some(Constants {
            salt: [
                0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d,
                0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
            ],
            key: b"quicv2 key",
            iv: b"quicv2 iv",
            hp: b"quicv2 hp",
            update: b"quicv2 ku",
        }),
        _ => None,
    }
}

/// Protection of one direction's packets under one key.
pub struct PacketKey {
    key: LessSafeKey,
    iv: [u8; NONCE],
    header: HeaderProtectionKey,
}

impl core::fmt::Debug for PacketKey {
    /// Shows no secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PacketKey").finish_non_exhaustive()
    }
}

impl PacketKey {
    /// The keys of the client's and of the server's Initial packets, by the Destination Connection ID of the client's first one
    /// (RFC 9001, section 5.2). `None` if the version, by its number on the wire, is not known.
    pub fn initial(version: u32, destination: &[u8]) -> Option<[PacketKey; 2]> {
        let salt = constants(version)?.salt;
        let prk = Salt::new(hkdf::HKDF_SHA256, &salt).extract(destination);
        let side = |label| {
            let mut secret = [0; 32];
            super::expand_prk(&prk, label, &mut secret)?;
            PacketKey::of_secret(version, INITIAL, &secret)
        };
        Some([side(b"client in")?, side(b"server in")?])
    }

    /// The key of a traffic secret (RFC 9001, section 5.1). `None` if the version or the suite, by their numbers on the wire, is
    /// not known, or the secret has not its length.
    pub fn of_secret(version: u32, number: u16, secret: &[u8]) -> Option<PacketKey> {
        let constants = constants(version)?;
        let suite = suite13(number)?;
        let header = match CipherSuite::from(number) {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => &AES_128,
            CipherSuite::TLS13_AES_256_GCM_SHA384 => &AES_256,
            _ => &CHACHA20,
        };
        let Suite { aead, .. } = suite.0;
        let (mut iv, mut key) = ([0; NONCE], vec![0; aead.key_len()]);
        expand(suite, secret, constants.iv, &mut iv)?;
        expand(suite, secret, constants.key, &mut key)?;
        let key = LessSafeKey::new(UnboundKey::new(aead, &key).ok()?);
        let mut hp = vec![0; aead.key_len()];
        expand(suite, secret, constants.hp, &mut hp)?;
        Some(PacketKey {
            key,
            iv,
            header: HeaderProtectionKey::new(header, &hp).ok()?,
        })
    }

    /// The mask of a packet's header protection (RFC 9001, section 5.4.1).
    pub fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        // A sample of 16 bytes has the length that all three algorithms take.
        self.header.new_mask(sample).unwrap_or_default()
    }

    /// Opens packet `number` in place, given its header without protection (RFC 9001, section 5.3). Returns whether the packet is
    /// authentic; if not, `payload` is of no use.
    pub fn open(&self, number: u64, header: &[u8], payload: &mut Vec<u8>) -> bool {
        let Some(len) = payload.len().checked_sub(self.key.algorithm().tag_len()) else {
            return false;
        };
        let nonce = Nonce::assume_unique_for_key(records::nonce(self.iv, number));
        let is_authentic = self.key.open_in_place(nonce, Aad::from(header), payload).is_ok();
        payload.truncate(len);
        is_authentic
    }
}

/// The traffic secret after a key update (RFC 9001, section 6.1); `None` if the version or the suite is not known.
pub fn updated(version: u32, suite: u16, secret: &[u8]) -> Option<Vec<u8>> {
    let constants = constants(version)?;
    let mut next = vec![0; secret.len()];
    expand(suite13(suite)?, secret, constants.update, &mut next)?;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::super::tests::hex;
    use super::*;

    /// Removes the protection of a packet whose number is at `at`, as in RFC 9001, section 5.4.
    fn opened(key: &PacketKey, packet: &[u8], at: usize, largest: u64) -> (u64, Vec<u8>, Vec<u8>) {
        let sample = packet[at + 4..at + 20].try_into().expect("16 bytes");
        let mask = key.mask(sample);
        let mut header = packet[..at].to_vec();
        header[0] ^= mask[0] & if header[0] & 0x80 != 0 { 0x0f } else { 0x1f };
        let len = usize::from(header[0] & 3) + 1;
        let mut number = 0;
        for (byte, mask) in packet[at..at + len].iter().zip(&mask[1..]) {
            header.push(byte ^ mask);
            number = number << 8 | u64::from(byte ^ mask);
        }
        let mut payload = packet[at + len..].to_vec();
        assert!(key.open(number + largest, &header, &mut payload), "authentic");
        (number, header, payload)
    }

    /// RFC 9001, appendix A.1 (the keys are checked by what they open) and A.3: the server's Initial packet.
    #[test]
    fn initial_packets_open_as_in_rfc_9001() {
        let keys = PacketKey::initial(1, &hex("8394c8f03e515708")).expect("version 1");
        let packet = hex(
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb3\
             8cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84\
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        );
        let (number, header, payload) = opened(&keys[1], &packet, 18, 0);
        assert_eq!(number, 1);
        assert_eq!(header, hex("c1000000010008f067a5502a4262b50040750001"));
        assert_eq!(payload[..5], hex("0200000000"));
        assert_eq!(payload[5..9], hex("0600405a"), "CRYPTO of 90 bytes");
        let (sample, mask) = (hex("2cd0991cd25b0aac406a5816b6394100"), hex("2ec0d8356a"));
        assert_eq!(
            keys[1].mask(sample[..].try_into().expect("16 bytes"))[..],
            mask[..]
        );
        // The client's mask in A.2.
        let (sample, mask) = (hex("d1b1c98dd7689fb8ec11d242b123dc9b"), hex("437b9aec36"));
        assert_eq!(
            keys[0].mask(sample[..].try_into().expect("16 bytes"))[..],
            mask[..]
        );
    }

    /// RFC 9001, appendix A.5: a short header under ChaCha20-Poly1305, and the key update's secret.
    #[test]
    fn a_short_header_opens_as_in_rfc_9001() {
        let secret = hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
        let key = PacketKey::of_secret(1, 0x1303, &secret).expect("a suite");
        let packet = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
        let (number, header, payload) = opened(&key, &packet, 1, 654_360_564 - 0xbff4);
        assert_eq!((number, header), (0xbff4, hex("4200bff4")));
        assert_eq!(payload, [1], "PING");
        let next = updated(1, 0x1303, &secret).expect("a suite");
        assert_eq!(
            next,
            hex("1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9")
        );
    }

    /// RFC 9369, appendix A.3: the server's Initial packet of version 2.
    #[test]
    fn version_2_has_keys_of_its_own() {
        let keys = PacketKey::initial(V2, &hex("8394c8f03e515708")).expect("version 2");
        let packet = hex(
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b89237bbf872630\
             17915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2\
             c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84bed8521e2e140",
        );
        let (number, _, payload) = opened(&keys[1], &packet, 18, 0);
        assert_eq!(number, 1);
        assert_eq!(payload[5..9], hex("0600405a"));
    }

    #[test]
    fn unknown_versions_suites_and_secrets_have_no_key() {
        assert!(PacketKey::initial(0xff00_001d, &[1; 8]).is_none());
        assert!(PacketKey::of_secret(1, 0x1301, &[0; 48]).is_none());
        assert!(PacketKey::of_secret(1, 0xc02f, &[0; 32]).is_none());
        let key = PacketKey::of_secret(1, 0x1302, &[0; 48]).expect("a suite");
        for len in 0..40 {
            assert!(!key.open(0, &[0x40], &mut vec![0; len]), "{len}");
        }
    }
}
