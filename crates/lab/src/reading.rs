//! Values that a plan reads from a line of a result: numbers by JSON pointer, and arithmetic on them. Decides
//! precedence and missing values; knows no measure.
//!
//! ```text
//! sum     := product (('+' | '-') product)*
//! product := factor (('*' | '/') factor)*
//! factor  := number | pointer | '(' sum ')'
//! ```
//!
//! Words are separated by spaces, so `/a / /b` is one pointer divided by another. True counts as 1, false as 0.

use serde_json::Value;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Number(f64),
    Pointer(String),
    Pair(Box<Expression>, Sign, Box<Expression>),
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Plus,
    Minus,
    Times,
    Over,
}

impl Expression {
    /// Parses an expression.
    ///
    /// Errors: the first unexpected word.
    pub(crate) fn parse(text: &str) -> Result<Expression, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut rest = words.as_slice();
        let whole = sum(&mut rest).and_then(|whole| match rest.first() {
            None => Ok(whole),
            Some(word) => Err((*word).to_owned()),
        });
        whole.map_err(|word| format!("`{text}`: unexpected `{word}`"))
    }

    /// The value in a line; `None` if a pointer leads to no number.
    pub(crate) fn value(&self, line: &Value) -> Option<f64> {
        match self {
            Expression::Number(number) => Some(*number),
            Expression::Pointer(pointer) => match line.pointer(pointer)? {
                Value::Bool(yes) => Some(f64::from(u8::from(*yes))),
                value => value.as_f64(),
            },
            Expression::Pair(left, sign, right) => {
                let (left, right) = (left.value(line)?, right.value(line)?);
                Some(match sign {
                    Sign::Plus => left + right,
                    Sign::Minus => left - right,
                    Sign::Times => left * right,
                    Sign::Over => left / right,
                })
            }
        }
    }
}

fn sum(rest: &mut &[&str]) -> Result<Expression, String> {
    let mut left = product(rest)?;
    while let Some((sign, after)) = signed(rest, &[("+", Sign::Plus), ("-", Sign::Minus)]) {
        *rest = after;
        left = Expression::Pair(Box::new(left), sign, Box::new(product(rest)?));
    }
    Ok(left)
}

fn product(rest: &mut &[&str]) -> Result<Expression, String> {
    let mut left = factor(rest)?;
    while let Some((sign, after)) = signed(rest, &[("*", Sign::Times), ("/", Sign::Over)]) {
        *rest = after;
        left = Expression::Pair(Box::new(left), sign, Box::new(factor(rest)?));
    }
    Ok(left)
}

/// The next operator, if it is one of these, and the rest.
fn signed<'w, 't>(rest: &&'w [&'t str], signs: &[(&str, Sign)]) -> Option<(Sign, &'w [&'t str])> {
    let (first, after) = rest.split_first()?;
    let (_, sign) = signs.iter().find(|(word, _)| word == first)?;
    Some((*sign, after))
}

fn factor(rest: &mut &[&str]) -> Result<Expression, String> {
    let (first, after) = rest.split_first().ok_or("the end")?;
    *rest = after;
    if *first == "(" {
        let inner = sum(rest)?;
        return match rest.split_first() {
            Some((&")", after)) => {
                *rest = after;
                Ok(inner)
            }
            Some((word, _)) => Err((*word).to_owned()),
            None => Err("the end".to_owned()),
        };
    }
    if first.len() > 1 && first.starts_with('/') {
        return Ok(Expression::Pointer((*first).to_owned()));
    }
    first
        .parse()
        .map(Expression::Number)
        .map_err(|_| (*first).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: Option<f64>) {
        let line = serde_json::json!({"a": 6, "b": {"c": 2}, "yes": true, "word": "x", "rows": [5]});
        let value = Expression::parse(text).expect(text).value(&line);
        assert_eq!(value, wanted, "{text}");
    }

    #[test]
    fn products_bind_before_sums_and_brackets_before_both() {
        check("/a", Some(6.0));
        check("/a * 1000 / /b/c + /rows/0", Some(3005.0));
        check("/a - /b/c - 1", Some(3.0));
        check("100 * /a / ( /a + /b/c )", Some(75.0));
        check("2 * ( /a - ( /b/c + 1 ) )", Some(6.0));
        check("/yes", Some(1.0));
    }

    #[test]
    fn what_is_no_number_has_no_value() {
        for text in ["/word", "/none", "/a + /none"] {
            check(text, None);
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, word) in [
            ("", "the end"),
            ("/a +", "the end"),
            ("/a /b", "/b"),
            ("( /a", "the end"),
            ("a", "a"),
            ("/a ) + 1", ")"),
        ] {
            let said = Expression::parse(text).expect_err(text);
            assert!(said.contains(&format!("unexpected `{word}`")), "{said}");
        }
    }
}
