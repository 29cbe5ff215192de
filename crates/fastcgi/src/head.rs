//! The head of a response of CGI/1.1 (RFC 3875 section 6). Lines end with LF or CRLF.
//!
//! Decides the status of the response. A `Location` without a `Status` makes it 302, also for a path: the local redirect of RFC
//! 3875 section 6.2.2, which the server would answer itself, is one that the client follows here. Which fields are passed on,
//! only the caller knows.

use crate::Fault;

/// Most bytes of a head. As large as that of a response of HTTP: cookies and policies are long.
pub const HEAD_MAX: usize = 64 << 10;

/// Most fields of a head.
pub const FIELDS_MAX: usize = 256;

/// A head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<'b> {
    /// Status of the response, from 200 to 999.
    pub status: u16,
    /// Fields in the order of the head, without `Status`.
    pub fields: Vec<(&'b str, &'b [u8])>,
}

/// Where the head at the start of `output` ends, behind its blank line; `None`: it is not complete. The first `from` bytes are
/// known not to complete it.
pub fn end(output: &[u8], from: usize) -> Option<usize> {
    // The blank line may have begun in them.
    let mut at = from.saturating_sub(2);
    loop {
        let line = at + output.get(at..)?.iter().position(|&b| b == b'\n')? + 1;
        let is_blank = |before: &[u8]| before.is_empty() || before.ends_with(b"\n");
        let before = &output[..line - 1];
        if is_blank(before) || before.strip_suffix(b"\r").is_some_and(is_blank) {
            return Some(line);
        }
        at = line;
    }
}

/// Parses a head as [`end`] has found it.
///
/// # Errors
/// A line is no field, there is none, or the status is invalid.
pub fn parse(head: &[u8]) -> Result<Head<'_>, Fault> {
    let mut fields = Vec::new();
    let mut status = None;
    let mut has_location = false;
    for line in head.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        let colon = line.iter().position(|&b| b == b':').ok_or(Fault::Field)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let is_token = |&b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let is_text = |&b: &u8| b == b'\t' || (b >= b' ' && b != 0x7f);
        if name.is_empty() || !name.iter().all(is_token) || !value.iter().all(is_text) {
            return Err(Fault::Field);
        }
        let name = std::str::from_utf8(name).map_err(|_| Fault::Field)?;
        if name.eq_ignore_ascii_case("status") {
            if status.replace(status_of(value)?).is_some() {
                return Err(Fault::Status);
            }
            continue;
        }
        if fields.len() == FIELDS_MAX {
            return Err(Fault::ManyFields);
        }
        has_location |= name.eq_ignore_ascii_case("location");
        fields.push((name, value));
    }
    if fields.is_empty() && status.is_none() {
        return Err(Fault::EmptyHead);
    }
    let implied = if has_location { 302 } else { 200 };
    Ok(Head {
        status: status.unwrap_or(implied),
        fields,
    })
}

/// The status of a final response: three digits, and a reason that has no meaning.
fn status_of(value: &[u8]) -> Result<u16, Fault> {
    let (digits, rest) = value.split_at_checked(3).ok_or(Fault::Status)?;
    let is_over = rest.first().is_none_or(|b| matches!(b, b' ' | b'\t'));
    let number = std::str::from_utf8(digits).ok().filter(|_| is_over);
    let number = number.filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let number: u16 = number.and_then(|text| text.parse().ok()).ok_or(Fault::Status)?;
    (number >= 200).then_some(number).ok_or(Fault::Status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_a_status_and_fields() {
        for (text, status, fields) in [
            (
                "Content-Type: text/html\r\n\r\n",
                200,
                &[("Content-Type", "text/html")][..],
            ),
            ("Status: 404 Not Found\nX: y\n\n", 404, &[("X", "y")]),
            ("X: 1\r\nstatus:503\r\n\r\n", 503, &[("X", "1")]),
            ("Status: 204\r\n\r\n", 204, &[]),
            ("Location: /a\r\n\r\n", 302, &[("Location", "/a")]),
            (
                "Location: http://b/\nStatus: 301\n\n",
                301,
                &[("Location", "http://b/")],
            ),
            ("X:\n\r\n", 200, &[("X", "")]),
            ("X: a:b \t\r\nX:c\r\n\n", 200, &[("X", "a:b"), ("X", "c")]),
        ] {
            let output = format!("{text}content\n\n");
            assert_eq!(end(output.as_bytes(), 0), Some(text.len()), "{text:?}");
            let head = parse(text.as_bytes()).unwrap();
            let got: Vec<(&str, &str)> = head
                .fields
                .iter()
                .map(|(name, value)| (*name, std::str::from_utf8(value).unwrap()))
                .collect();
            assert_eq!((head.status, &got[..]), (status, fields), "{text:?}");
        }
    }

    #[test]
    fn the_end_is_found_wherever_output_is_cut() {
        for text in [
            "A: b\r\n\r\n",
            "A: b\n\n",
            "A: b\r\n\n",
            "A: b\n\r\n",
            "\n",
            "\r\n",
        ] {
            for known in 0..text.len() {
                assert_eq!(end(&text.as_bytes()[..known], 0), None, "{text:?} up to {known}");
                assert_eq!(
                    end(text.as_bytes(), known),
                    Some(text.len()),
                    "{text:?} from {known}"
                );
            }
        }
        for text in ["", "A: b", "A: b\n\r", "A: b\r\r\n"] {
            assert_eq!(end(text.as_bytes(), 0), None, "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_faults() {
        let many = "X: y\n".repeat(FIELDS_MAX + 1);
        for (text, fault) in [
            ("\r\n", Fault::EmptyHead),
            ("no field\n\n", Fault::Field),
            (": x\n\n", Fault::Field),
            ("A b: x\n\n", Fault::Field),
            ("A : x\n\n", Fault::Field),
            ("A: x\n folded: y\n\n", Fault::Field),
            ("A: x\ry\n\n", Fault::Field),
            ("A: \0\n\n", Fault::Field),
            ("\u{e4}: x\n\n", Fault::Field),
            ("Status: 99\n\n", Fault::Status),
            ("Status: 101 Switching\n\n", Fault::Status),
            ("Status: 2000\n\n", Fault::Status),
            ("Status: +20\n\n", Fault::Status),
            ("Status: \n\n", Fault::Status),
            ("Status: 200\nStatus: 404\n\n", Fault::Status),
            (&format!("{many}\n"), Fault::ManyFields),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(fault), "{text:?}");
        }
        let most = format!("{}\n", "X: y\n".repeat(FIELDS_MAX));
        assert_eq!(parse(most.as_bytes()).unwrap().fields.len(), FIELDS_MAX);
    }
}
