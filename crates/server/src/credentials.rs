//! Reads a user and a password from a request (RFC 7617).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_semantics::field::Fields;
use zeroize::Zeroizing;

/// Longest user and password together, in bytes. The check of a password takes longer the longer it is.
const BYTES_MAX: usize = 512;

/// What a client names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) name: Box<[u8]>,
    pub(crate) password: Zeroizing<Vec<u8>>,
}

impl Credentials {
    /// The credentials of a request. `None`: there are none, several, or malformed ones.
    pub(crate) fn of(fields: &Fields<'_, '_>) -> Option<Credentials> {
        let mut values = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let (_, value) = values.next()?;
        match values.next() {
            // Which one is meant is not defined.
            Some(_) => None,
            None => Credentials::read(value),
        }
    }

    /// The user whom a request names. Whether it has the right password, access rules have found out.
    pub(crate) fn user(fields: &Fields<'_, '_>) -> Option<Box<[u8]>> {
        Credentials::of(fields).map(|credentials| credentials.name)
    }

    fn read(value: &[u8]) -> Option<Credentials> {
        let space = value.iter().position(|&b| b == b' ')?;
        let (scheme, encoded) = (&value[..space], value[space..].trim_ascii());
        if !scheme.eq_ignore_ascii_case(b"basic") || encoded.len() > BYTES_MAX.div_ceil(3) * 4 {
            return None;
        }
        let decoded = Zeroizing::new(STANDARD.decode(encoded).ok()?);
        let colon = decoded.iter().position(|&b| b == b':')?;
        let (name, password) = (&decoded[..colon], &decoded[colon + 1..]);
        // RFC 7617 section 2 allows no control characters. A hash would end at a NUL.
        if decoded.len() > BYTES_MAX || decoded.iter().any(u8::is_ascii_control) {
            return None;
        }
        Some(Credentials {
            name: name.into(),
            password: Zeroizing::new(password.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, String)> {
        let credentials = Credentials::read(value.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((text(&credentials.name), text(&credentials.password)))
    }

    #[test]
    fn a_user_and_a_password_are_read() {
        for (value, found) in [
            // The examples of RFC 7617 section 2.
            (
                "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
                Some(("Aladdin", "open sesame")),
            ),
            ("basic dGVzdDoxMjPCow==", Some(("test", "123£"))),
            ("BASIC  YTpiOmM= ", Some(("a", "b:c"))),
            ("Basic Og==", Some(("", ""))),
            ("Basic YWI=", None),
            ("Basic YTpiOmM", None),
            ("Basic", None),
            ("Basic ", None),
            ("Bearer YTpiOmM=", None),
            ("BasicYTpiOmM=", None),
            ("Basic YToAYg==", None),
            ("Basic ***", None),
            ("", None),
        ] {
            let found = found.map(|(name, password)| (name.to_owned(), password.to_owned()));
            assert_eq!(read(value), found, "{value}");
        }
    }

    #[test]
    fn the_length_is_bounded() {
        let of = |len: usize| {
            read(&format!(
                "Basic {}",
                STANDARD.encode(format!("a:{}", "b".repeat(len - 2)))
            ))
        };
        assert!(of(BYTES_MAX).is_some());
        assert_eq!(of(BYTES_MAX + 1), None);
        assert_eq!(of(4 * BYTES_MAX), None);
    }
}
