//! `$apr1$`: the variant of MD5-crypt with which Apache's `htpasswd` hashes passwords unless told otherwise.
//!
//! Computes a hash and compares it. Decides nothing about files of users. The hash is weak, because 1,000 rounds of MD5 take
//! less than a millisecond. Weir accepts it in files of other servers.

use md5::{Digest as _, Md5};
use std::hint::black_box;

/// What a hash begins with. It is also hashed.
const MAGIC: &str = "$apr1$";

/// Longest salt, in bytes. Apache cuts a longer one, and no password has the hash then.
const SALT_MAX: usize = 8;

const ROUNDS: u32 = 1_000;

/// Length of an encoded hash, in bytes: 128 bits, six in each byte, two in the last one.
const ENCODED: usize = 22;

/// The byte for each value of six bits. Of a number, the lowest six bits are written first.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The order in which bytes of the hash are encoded, three at a time: those of the highest bits first. The last one, at 11,
/// is alone.
const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];

/// A hashed password.
#[derive(PartialEq, Eq)]
pub(super) struct Apr1 {
    salt: Box<[u8]>,
    encoded: [u8; ENCODED],
}

impl Apr1 {
    /// Reads `$apr1$SALT$HASH`. `None`: it is no such hash, or one that no password has.
    pub(super) fn of(text: &str) -> Option<Apr1> {
        let (salt, hash) = text.strip_prefix(MAGIC)?.split_once('$')?;
        let encoded: [u8; ENCODED] = hash.as_bytes().try_into().ok()?;
        let is_plain = |byte: u8| ALPHABET.contains(&byte);
        // The last byte has two bits.
        let is_whole = ALPHABET[..4].contains(&encoded[ENCODED - 1]);
        let is_valid = salt.len() <= SALT_MAX && salt.bytes().chain(encoded).all(is_plain) && is_whole;
        is_valid.then(|| Apr1 {
            salt: salt.as_bytes().into(),
            encoded,
        })
    }

    /// Whether the password has this hash. Compares in constant time.
    pub(super) fn matches(&self, password: &[u8]) -> bool {
        let computed = encode(&hash(password, &self.salt));
        let pairs = computed.iter().zip(&self.encoded);
        let difference = pairs.fold(0u8, |all, (one, other)| all | (one ^ other));
        // The compiler must not stop at the first byte that differs.
        black_box(difference) == 0
    }
}

/// The hash of a password, before it is encoded.
fn hash(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let mix: [u8; 16] = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .into();
    let mut first = Md5::new()
        .chain_update(password)
        .chain_update(MAGIC)
        .chain_update(salt);
    for part in password.chunks(mix.len()) {
        first.update(&mix[..part.len()]);
    }
    // One byte for each bit of the length, the lowest bit first.
    let mut length = password.len();
    while length > 0 {
        match length & 1 {
            1 => first.update([0u8]),
            _ => first.update(&password[..1]),
        }
        length >>= 1;
    }
    let mut hash: [u8; 16] = first.finalize().into();
    for round in 0..ROUNDS {
        let (begin, end) = match round % 2 {
            0 => (&hash[..], password),
            _ => (password, &hash[..]),
        };
        let mut md5 = Md5::new().chain_update(begin);
        if round % 3 != 0 {
            md5.update(salt);
        }
        if round % 7 != 0 {
            md5.update(password);
        }
        md5.update(end);
        hash = md5.finalize().into();
    }
    hash
}

fn encode(hash: &[u8; 16]) -> [u8; ENCODED] {
    let mut encoded = [0; ENCODED];
    let alone = [u32::from(hash[11])];
    let threes = ORDER.iter().map(|bytes| {
        bytes
            .iter()
            .fold(0u32, |bits, &at| bits << 8 | u32::from(hash[at]))
    });
    for (part, mut bits) in encoded.chunks_mut(4).zip(threes.chain(alone)) {
        for byte in part {
            *byte = ALPHABET[(bits & 63) as usize];
            bits >>= 6;
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `openssl passwd -apr1` computes them.
    #[test]
    fn hashes_are_those_of_openssl() {
        for (password, hash) in [
            ("", "$apr1$saltsalt$a8ml/vK5HEjiZ5oypDWA7/"),
            ("a", "$apr1$saltsalt$OEnK0QmmvoDzFw9W2yFYT/"),
            ("123456789012345", "$apr1$saltsalt$OoJwhz0t6lonTqQTrQkL3."),
            ("1234567890123456", "$apr1$saltsalt$Iet1VPyd4ov.jQfv8YHGj0"),
            ("12345678901234567", "$apr1$saltsalt$qBew2DDvwrDF5eJsa.9KE0"),
            (
                "1234567890123456789012345678901234567890",
                "$apr1$saltsalt$4hqBQkjxU0lzKxLfWE1U./",
            ),
            ("pässwörd€", "$apr1$saltsalt$O5K4N3p7sPA94X6KA6.wl/"),
            ("myPassword", "$apr1$xxxxxxxx$RKMOWWMKN4Ts9r6E5noqv0"),
            ("secret", "$apr1$./aZ09xY$7.jBLfIDNh34rCa9tOEAN1"),
            ("secret", "$apr1$a$PtM1vJaZieHDFk40mKMu6/"),
            ("secret", "$apr1$$g/UEjvgvl9nWOQl6rNKvZ."),
        ] {
            let known = Apr1::of(hash).unwrap();
            assert!(known.matches(password.as_bytes()), "{hash}");
            let longer = format!("{password} ");
            assert!(!known.matches(longer.as_bytes()), "{hash}");
        }
    }

    #[test]
    fn each_byte_of_the_hash_counts() {
        let hash = "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0";
        assert!(Apr1::of(hash).unwrap().matches(b"secret"));
        let start = hash.len() - ENCODED;
        for at in start..hash.len() {
            let other = if hash.as_bytes()[at] == b'/' { "." } else { "/" };
            let changed = format!("{}{other}{}", &hash[..at], &hash[at + 1..]);
            assert!(!Apr1::of(&changed).unwrap().matches(b"secret"), "{changed}");
        }
    }

    #[test]
    fn malformed_hashes_are_no_hashes() {
        for text in [
            "",
            "$apr1$",
            "$apr1$saltsalt",
            "$apr1$saltsalt$",
            "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ",
            "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ00",
            "$apr1$saltsalt$LrttParrLPdxvgutaSXW$0",
            "$apr1$saltsalt$LrttParrLPdxvgutaSXW 0",
            // Four bits that no hash has.
            "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ2",
            "$apr1$saltsalts$LrttParrLPdxvgutaSXWJ0",
            "$apr1$salt:alt$LrttParrLPdxvgutaSXWJ0",
            "$apr1$saltsält$LrttParrLPdxvgutaSXWJ0",
            "$1$saltsalt$LrttParrLPdxvgutaSXWJ0",
            "apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
        ] {
            assert!(Apr1::of(text).is_none(), "{text}");
        }
    }
}
