//! Dictionaries of structured fields (RFC 9651 section 3.2), as far as targeted cache control needs them: integers and true
//! are told apart, other values are checked and passed over.

use std::collections::BTreeMap;

/// Value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(i64),
    True,
    /// Of another type.
    Other,
}

/// The members of a dictionary, the last of each name. `None` if the text is none: the whole field is then ignored.
pub(crate) fn dictionary(text: &[u8]) -> Option<BTreeMap<String, Value>> {
    let mut input = Input(text);
    let mut members = BTreeMap::new();
    input.skip(b" ");
    while !input.0.is_empty() {
        let name = input.key()?;
        let value = match input.take(b'=') {
            true => input.member()?,
            false => {
                input.parameters()?;
                Value::True
            }
        };
        members.insert(name, value);
        input.skip(b" \t");
        if input.0.is_empty() {
            return Some(members);
        }
        if !input.take(b',') {
            return None;
        }
        input.skip(b" \t");
        if input.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn skip(&mut self, these: &[u8]) {
        while let Some((first, rest)) = self.0.split_first()
            && these.contains(first)
        {
            self.0 = rest;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// The bytes at the front that are of a kind.
    fn run(&mut self, is: impl Fn(u8) -> bool) -> Vec<u8> {
        let end = self.0.iter().position(|&b| !is(b)).unwrap_or(self.0.len());
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        run.to_vec()
    }

    fn key(&mut self) -> Option<String> {
        if !matches!(self.0.first(), Some(b'a'..=b'z' | b'*')) {
            return None;
        }
        let key = self.run(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'));
        String::from_utf8(key).ok()
    }

    /// An item or an inner list, with its parameters.
    fn member(&mut self) -> Option<Value> {
        let value = match self.take(b'(') {
            true => loop {
                self.skip(b" ");
                if self.take(b')') {
                    break Value::Other;
                }
                self.bare()?;
                self.parameters()?;
                if !matches!(self.0.first(), Some(b' ' | b')')) {
                    return None;
                }
            },
            false => self.bare()?,
        };
        self.parameters()?;
        Some(value)
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare()?;
            }
        }
        Some(())
    }

    fn bare(&mut self) -> Option<Value> {
        match self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => {
                self.take(b'"');
                loop {
                    let (&first, rest) = self.0.split_first()?;
                    self.0 = rest;
                    match first {
                        b'"' => return Some(Value::Other),
                        b'\\' => {
                            let (next, rest) = self.0.split_first()?;
                            if !matches!(next, b'"' | b'\\') {
                                return None;
                            }
                            self.0 = rest;
                        }
                        b' '..=b'~' => {}
                        _ => return None,
                    }
                }
            }
            b'?' => {
                self.take(b'?');
                match self.take(b'1') {
                    true => Some(Value::True),
                    false => self.take(b'0').then_some(Value::Other),
                }
            }
            b':' => {
                self.take(b':');
                self.run(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
                self.take(b':').then_some(Value::Other)
            }
            b'@' => {
                self.take(b'@');
                match self.number()? {
                    Value::Integer(_) => Some(Value::Other),
                    _ => None,
                }
            }
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.run(|b| http_semantics::field::is_token_byte(b) || matches!(b, b':' | b'/'));
                Some(Value::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let is_negative = self.take(b'-');
        let digits = self.run(|b| b.is_ascii_digit());
        if digits.is_empty() {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.run(|b| b.is_ascii_digit());
            let is_valid = digits.len() <= 12 && (1..=3).contains(&fraction.len());
            return is_valid.then_some(Value::Other);
        }
        if digits.len() > 15 {
            return None;
        }
        let value = digits
            .iter()
            .fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if is_negative { -value } else { value }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_read_or_ignored_whole() {
        let read =
            |text: &str| dictionary(text.as_bytes()).map(|members| members.into_iter().collect::<Vec<_>>());
        let member = |name: &str, value| (name.to_owned(), value);
        for (text, members) in [
            ("", vec![]),
            ("max-age=60", vec![member("max-age", Value::Integer(60))]),
            ("max-age=1, max-age=2", vec![member("max-age", Value::Integer(2))]),
            (
                "a;x=1;y, b=?1 ,\tc=?0",
                vec![
                    member("a", Value::True),
                    member("b", Value::True),
                    member("c", Value::Other),
                ],
            ),
            (
                "a=(1 \"x\" t;q=1.5);p, n=-7",
                vec![member("a", Value::Other), member("n", Value::Integer(-7))],
            ),
            (
                "a=\"x\\\"y\", b=:aGk=:, c=@1, d=*t/x:y, e=1.25",
                vec![
                    member("a", Value::Other),
                    member("b", Value::Other),
                    member("c", Value::Other),
                    member("d", Value::Other),
                    member("e", Value::Other),
                ],
            ),
        ] {
            assert_eq!(read(text), Some(members), "{text}");
        }
        for text in [
            "max-age=10000, &&&&&",
            "MaX-aGe=3600",
            "max-age =100",
            "max-age= 100",
            "a,",
            "a=",
            "a=1.",
            "a=1.2345",
            "a=1234567890123456",
            "a=\"x",
            "a=\"\\x\"",
            "a=(1",
            "a=(1\"x\")",
            "a=@x",
            "a=-",
            "a b",
            "a=:x",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
