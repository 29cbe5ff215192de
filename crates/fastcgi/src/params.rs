//! Parameters of a request: pairs of a name and a value (section 3.4 of the specification), and the names that CGI/1.1 gives to
//! field lines (RFC 3875 section 4.1.18).

/// Longest name or value whose length takes one byte.
const SHORT_MAX: usize = 127;

/// Appends a pair. Names and values are shorter than 2 GiB: heads of requests have limits.
pub fn pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    length(out, name.len());
    length(out, value.len());
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

fn length(out: &mut Vec<u8>, length: usize) {
    match length <= SHORT_MAX {
        true => out.push(length as u8),
        false => out.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes()),
    }
}

/// The variable for a field of the request, `HTTP_ACCEPT` for `accept`; `None`: the application must not get it.
///
/// A name with an underscore is dropped, because its variable would also be that of a name with a hyphen, and so is any name
/// with characters that are neither letters, digits nor hyphens. `Proxy` is dropped, because programs take `HTTP_PROXY` for
/// the setting of the operator (httpoxy, CVE-2016-5385). `Content-Type` and `Content-Length` have variables of their own.
pub fn variable(field: &str) -> Option<String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let has_own = ["content-type", "content-length", "proxy"];
    if field.is_empty()
        || !field.bytes().all(is_plain)
        || has_own.iter().any(|own| field.eq_ignore_ascii_case(own))
    {
        return None;
    }
    let mut name = String::with_capacity(5 + field.len());
    name.push_str("HTTP_");
    name.extend(field.chars().map(|c| match c {
        '-' => '_',
        c => c.to_ascii_uppercase(),
    }));
    Some(name)
}

/// The pairs in `bytes`; `None` if they are no sequence of pairs. For applications that tests play.
#[doc(hidden)]
pub fn read(mut bytes: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    fn length(bytes: &mut &[u8]) -> Option<usize> {
        match **bytes {
            [short @ 0..=127, ref rest @ ..] => {
                *bytes = rest;
                Some(usize::from(short))
            }
            [a, b, c, d, ref rest @ ..] => {
                *bytes = rest;
                Some((u32::from_be_bytes([a, b, c, d]) & !(1 << 31)) as usize)
            }
            _ => None,
        }
    }
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let name = length(&mut bytes)?;
        let value = length(&mut bytes)?;
        let (name, rest) = bytes.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        bytes = rest;
        pairs.push((name.to_vec(), value.to_vec()));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_take_one_byte_or_four() {
        for (length, head) in [
            (0, &[1, 0][..]),
            (127, &[1, 127]),
            (128, &[1, 0x80, 0, 0, 128]),
            (70_000, &[1, 0x80, 1, 0x11, 0x70]),
        ] {
            let mut out = Vec::new();
            pair(&mut out, b"N", &vec![b'v'; length]);
            assert_eq!(&out[..head.len()], head);
            assert_eq!(out.len(), head.len() + 1 + length);
        }
    }

    #[test]
    fn fields_have_variables_or_are_dropped() {
        for (field, name) in [
            ("Accept", Some("HTTP_ACCEPT")),
            ("x-forwarded-for", Some("HTTP_X_FORWARDED_FOR")),
            ("X-Proxy", Some("HTTP_X_PROXY")),
            ("Proxy", None),
            ("pROXY", None),
            ("X_Forwarded-For", None),
            ("x.y", None),
            ("", None),
            ("Content-Length", None),
            ("content-type", None),
        ] {
            assert_eq!(variable(field).as_deref(), name, "{field}");
        }
    }

    proptest! {
        #[test]
        fn pairs_are_read_as_written(
            pairs in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(any::<u8>(), 0..300)), 0..8)
        ) {
            let mut out = Vec::new();
            for (name, value) in &pairs {
                pair(&mut out, name, value);
            }
            prop_assert_eq!(read(&out), Some(pairs));
        }
    }
}
