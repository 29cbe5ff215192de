//! Extra field lines sent with every request, written as `Name: value`.
//!
//! Refuses lines that would break the request apart (RFC 9110 section 5.5 bans CR, LF and NUL; control
//! characters are banned here altogether) and fields this client decides: framing, persistence, upgrades and
//! expectations. Knows no other meaning of fields.

use http_semantics::field::is_token_byte;

/// Most bytes of a line.
const LINE_MAX: usize = 8192;
/// Refused field names, with the reason.
const DECIDED: [(&str, &str); 10] = [
    (
        "Connection",
        "the protocol mode decides whether a connection persists",
    ),
    (
        "Keep-Alive",
        "the protocol mode decides whether a connection persists",
    ),
    (
        "Proxy-Connection",
        "the protocol mode decides whether a connection persists",
    ),
    ("Content-Length", "the content decides it"),
    ("Transfer-Encoding", "content is sent as it is, with its length"),
    ("Trailer", "content is sent without trailers"),
    ("Expect", "content is sent without waiting for 100 (Continue)"),
    (
        "TE",
        "trailers and transfer codings other than chunked are not read",
    ),
    ("Upgrade", "the client speaks only HTTP/1"),
    ("HTTP2-Settings", "the client speaks only HTTP/1"),
];

/// A field line for every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// The name as written.
    pub name: String,
    /// The value without surrounding whitespace.
    pub value: String,
}

impl core::fmt::Display for Extra {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

impl core::str::FromStr for Extra {
    type Err = String;

    fn from_str(text: &str) -> Result<Extra, String> {
        if text.len() > LINE_MAX {
            return Err(format!("the field line is longer than {LINE_MAX} bytes"));
        }
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| "write a field line as `Name: value`".to_owned())?;
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(format!(
                "`{}` is not a valid field name; use letters, digits and hyphens, and put the colon right after it",
                name.escape_debug()
            ));
        }
        let value = value.trim_matches([' ', '\t']);
        if value.chars().any(|letter| letter.is_control() && letter != '\t') {
            return Err(format!(
                "the value `{}` contains a control character; remove it",
                value.escape_debug()
            ));
        }
        if let Some((name, why)) = DECIDED
            .iter()
            .find(|(decided, _)| decided.eq_ignore_ascii_case(name))
        {
            return Err(format!("`{name}` cannot be set: {why}"));
        }
        Ok(Extra {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

/// The field lines of every request: `Host` and `User-Agent`, each replaced by an extra of that name, then the
/// other extras in order.
///
/// # Errors
/// If one of the two is given twice.
pub fn lines<'f>(
    host: &'f str,
    user_agent: &'f str,
    extras: &'f [Extra],
) -> Result<Vec<(&'f str, &'f str)>, String> {
    let mut lines = vec![("Host", host), ("User-Agent", user_agent)];
    let mut given = [false; 2];
    for extra in extras {
        let own = (0..2).find(|&own| lines[own].0.eq_ignore_ascii_case(&extra.name));
        match own {
            Some(own) if given[own] => return Err(format!("`{}` is given twice", lines[own].0)),
            Some(own) => {
                lines[own].1 = &extra.value;
                given[own] = true;
            }
            None => lines.push((&extra.name, &extra.value)),
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(text: &str) -> Extra {
        text.parse().expect(text)
    }

    #[test]
    fn lines_are_read_and_unsound_ones_refused() {
        for (text, shown) in [
            ("Accept: text/html", "Accept: text/html"),
            ("X-A:b", "X-A: b"),
            ("Cookie:  a=b; c=d:e\t", "Cookie: a=b; c=d:e"),
            ("X-Empty:", "X-Empty: "),
            ("X-Name: Zoë", "X-Name: Zoë"),
        ] {
            assert_eq!(extra(text).to_string(), shown);
        }
        for (text, fragment) in [
            ("Accept", "`Name: value`"),
            (": x", "not a valid field name"),
            ("Bad Name: x", "not a valid field name"),
            ("Name : x", "not a valid field name"),
            ("X: a\r\nGET /b", "control character"),
            ("X: a\0", "control character"),
            (
                "content-length: 3",
                "`Content-Length` cannot be set: the content decides it",
            ),
            ("Transfer-Encoding: chunked", "with its length"),
            ("connection: close", "protocol mode"),
            ("Expect: 100-continue", "without waiting"),
            ("Upgrade: h2c", "HTTP/1"),
            ("TE: trailers", "not read"),
        ] {
            let error = text.parse::<Extra>().expect_err(text);
            assert!(error.contains(fragment), "{text}: {error}");
        }
        assert!(format!("X: {}", "y".repeat(LINE_MAX)).parse::<Extra>().is_err());
    }

    #[test]
    fn what_is_given_stands_in_the_place_of_what_would_have_been_sent() {
        let extras = ["A: 1", "host: b.example", "A: 2"].map(extra);
        assert_eq!(
            lines("h:1", "weir", &extras),
            Ok(vec![
                ("Host", "b.example"),
                ("User-Agent", "weir"),
                ("A", "1"),
                ("A", "2")
            ])
        );
        let twice = ["Host: a", "HOST: b"].map(extra);
        assert_eq!(
            lines("h", "weir", &twice),
            Err("`Host` is given twice".to_owned())
        );
    }
}
