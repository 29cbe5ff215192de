//! Transport parameters (RFC 9000, section 18) in a ClientHello or in EncryptedExtensions, as far as they are numbers.

use super::varint;
use crate::quic_facts::TransportParameters;
use crate::tls::Fields;

/// Extension number (RFC 9001, section 8.2).
const EXTENSION: u16 = 0x39;

/// The parameters in the body of a ClientHello.
pub(super) fn of_client_hello(body: &[u8]) -> Option<TransportParameters> {
    let mut fields = Fields(body);
    fields.take(34)?;
    fields.vec8()?;
    fields.vec16()?;
    fields.vec8()?;
    of_extensions(fields.vec16()?)
}

/// The parameters in the body of EncryptedExtensions.
pub(super) fn of_encrypted_extensions(body: &[u8]) -> Option<TransportParameters> {
    of_extensions(Fields(body).vec16()?)
}

fn of_extensions(mut extensions: Fields<'_>) -> Option<TransportParameters> {
    loop {
        let kind = extensions.u16()?;
        let value = extensions.vec16()?;
        if kind == EXTENSION {
            return parameters(value.0);
        }
    }
}

fn parameters(mut rest: &[u8]) -> Option<TransportParameters> {
    let mut values = TransportParameters::default();
    while !rest.is_empty() {
        let (id, after) = varint(rest)?;
        let (len, after) = varint(after)?;
        let (value, after) = after.split_at_checked(usize::try_from(len).ok()?)?;
        rest = after;
        let place = match id {
            0x01 => values.max_idle_timeout.insert(0),
            0x03 => values.max_udp_payload_size.insert(0),
            0x04 => &mut values.initial_max_data,
            0x05 => &mut values.initial_max_stream_data_bidi_local,
            0x06 => &mut values.initial_max_stream_data_bidi_remote,
            0x07 => &mut values.initial_max_stream_data_uni,
            0x08 => &mut values.initial_max_streams_bidi,
            0x09 => &mut values.initial_max_streams_uni,
            0x0a => values.ack_delay_exponent.insert(0),
            0x0b => values.max_ack_delay.insert(0),
            0x0e => values.active_connection_id_limit.insert(0),
            _ => continue,
        };
        *place = varint(value)?.0;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_among_others() {
        // initial_max_data, an unknown one, initial_max_stream_data_bidi_remote, max_idle_timeout.
        let parameters = [4, 2, 0x40, 0x64, 0x1b, 1, 9, 6, 1, 50, 1, 1, 30];
        let mut body = vec![0, 17, 0, EXTENSION as u8, 0, 13];
        body.extend_from_slice(&parameters);
        let values = of_encrypted_extensions(&body);
        let wanted = TransportParameters {
            max_idle_timeout: Some(30),
            initial_max_data: 100,
            initial_max_stream_data_bidi_remote: 50,
            ..TransportParameters::default()
        };
        assert_eq!(values, Some(wanted));
        for cut in 0..body.len() {
            assert_eq!(of_encrypted_extensions(&body[..cut]), None, "{cut}");
        }
    }
}
