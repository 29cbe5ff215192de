//! Transport parameters (RFC 9000, section 18) in a ClientHello or in EncryptedExtensions: the initial limits of flow control.

use super::varint;
use crate::tls::Fields;

/// Extension number (RFC 9001, section 8.2).
const EXTENSION: u16 = 0x39;

/// Limits that an end sets for its peer, in bytes. What it does not name is zero (section 18.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// All streams together.
    pub(super) data: u64,
    /// A bidirectional stream that this end opens.
    pub(super) local: u64,
    /// A bidirectional stream that the peer opens.
    pub(super) remote: u64,
    /// A unidirectional stream.
    pub(super) uni: u64,
}

/// The parameters in the body of a ClientHello.
pub(super) fn of_client_hello(body: &[u8]) -> Option<Limits> {
    let mut fields = Fields(body);
    fields.take(34)?;
    fields.vec8()?;
    fields.vec16()?;
    fields.vec8()?;
    of_extensions(fields.vec16()?)
}

/// The parameters in the body of EncryptedExtensions.
pub(super) fn of_encrypted_extensions(body: &[u8]) -> Option<Limits> {
    of_extensions(Fields(body).vec16()?)
}

fn of_extensions(mut extensions: Fields<'_>) -> Option<Limits> {
    loop {
        let kind = extensions.u16()?;
        let value = extensions.vec16()?;
        if kind == EXTENSION {
            return parameters(value.0);
        }
    }
}

fn parameters(mut rest: &[u8]) -> Option<Limits> {
    let mut limits = Limits::default();
    while !rest.is_empty() {
        let (id, after) = varint(rest)?;
        let (len, after) = varint(after)?;
        let (value, after) = after.split_at_checked(usize::try_from(len).ok()?)?;
        rest = after;
        let place = match id {
            4 => &mut limits.data,
            5 => &mut limits.local,
            6 => &mut limits.remote,
            7 => &mut limits.uni,
            _ => continue,
        };
        *place = varint(value)?.0;
    }
    Some(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_among_others() {
        // initial_max_data, an unknown one, initial_max_stream_data_bidi_remote.
        let parameters = [4, 2, 0x40, 0x64, 0x1b, 1, 9, 6, 1, 50];
        let mut body = vec![0, 14, 0, EXTENSION as u8, 0, 10];
        body.extend_from_slice(&parameters);
        let limits = of_encrypted_extensions(&body).expect("parameters");
        assert_eq!((limits.data, limits.remote, limits.local), (100, 50, 0));
        for cut in 0..body.len() {
            assert_eq!(of_encrypted_extensions(&body[..cut]), None, "{cut}");
        }
    }
}
