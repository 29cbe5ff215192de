//! Rows of data for scenarios: a CSV file with a header (RFC 4180), and which start of a scenario gets which row.
//!
//! Starts are numbered over all machines and threads of a run, and a row depends on that number alone: no state is shared,
//! and every machine deals out the same rows.

use crate::chance::{Purpose, below, stream};
use units::Seed;

/// Most bytes of a file.
pub const FILE_MAX: usize = 256 << 20;
/// Most columns.
const COLUMNS_MAX: usize = 256;

/// Which rows scenarios get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The rows in turn, from the first again after the last.
    #[default]
    Sequential,
    /// A row drawn by the seed.
    Random,
    /// The rows in turn, each at most once in a run.
    Once,
}

impl core::str::FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        match text {
            "sequential" => Ok(Order::Sequential),
            "random" => Ok(Order::Random),
            "once" => Ok(Order::Once),
            _ => Err(format!(
                "`{text}` is not an order: write sequential, random or once"
            )),
        }
    }
}

/// A table of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    columns: Vec<String>,
    /// All values, one after another.
    bytes: Vec<u8>,
    /// Where each value ends, row by row.
    ends: Vec<u32>,
    /// Which rows scenarios get.
    pub order: Order,
}

impl Feed {
    /// Reads a CSV file with a header. Lines end with CRLF or LF; empty lines are skipped.
    ///
    /// # Errors
    /// The mistake and its line: no header or no row, a row of another length, an open quote, too many bytes.
    pub fn read(text: &[u8], order: Order) -> Result<Feed, String> {
        if text.len() > FILE_MAX {
            return Err(format!("it is longer than {} MiB", FILE_MAX >> 20));
        }
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut feed = Feed {
            columns: Vec::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
            order,
        };
        let mut rest = Rest { text, line: 1 };
        while !rest.text.is_empty() {
            let (line, first, before) = (rest.line, feed.ends.len(), feed.bytes.len());
            while rest.value(&mut feed.bytes)? {
                feed.ends.push(feed.bytes.len() as u32);
            }
            feed.ends.push(feed.bytes.len() as u32);
            let count = feed.ends.len() - first;
            if count == 1 && feed.bytes.len() == before {
                feed.ends.truncate(first);
                continue;
            }
            if feed.columns.is_empty() {
                feed.header(count, line)?;
            } else if count != feed.columns.len() {
                return Err(format!(
                    "line {line} has {count} values; the header has {}",
                    feed.columns.len()
                ));
            }
        }
        match (feed.columns.is_empty(), feed.ends.is_empty()) {
            (true, _) => Err("it has no header".to_owned()),
            (_, true) => Err("it has a header and no row".to_owned()),
            _ => Ok(feed),
        }
    }

    /// Takes the row that was read for the names of the columns.
    fn header(&mut self, count: usize, line: usize) -> Result<(), String> {
        let mut from = 0;
        for &end in &self.ends {
            let name = core::str::from_utf8(&self.bytes[from..end as usize])
                .map_err(|_| "its header is not UTF-8")?;
            let name = name.trim().to_owned();
            if name.is_empty() || self.columns.contains(&name) {
                return Err(format!("line {line}: column `{name}` is empty or there twice"));
            }
            self.columns.push(name);
            from = end as usize;
        }
        if count > COLUMNS_MAX {
            return Err(format!("it has more than {COLUMNS_MAX} columns"));
        }
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        (self.ends.len() / self.columns.len().max(1)) as u64
    }

    /// The value of a column in a row; both must exist.
    pub fn value(&self, row: u64, column: usize) -> &[u8] {
        let at = row as usize * self.columns.len() + column;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[from as usize..self.ends[at] as usize]
    }

    /// The row of a start, `None` if all rows were used. `number` tells feeds apart that draw.
    pub fn row(&self, start: u64, seed: Seed, number: u64) -> Option<u64> {
        let rows = self.rows();
        match self.order {
            Order::Sequential => Some(start % rows),
            Order::Once => (start < rows).then_some(start),
            Order::Random => {
                let mut rng = stream(seed, Purpose::Feed, start.wrapping_mul(64).wrapping_add(number));
                Some(below(&mut rng, rows))
            }
        }
    }
}

/// Text that is still to be read.
struct Rest<'t> {
    text: &'t [u8],
    line: usize,
}

impl Rest<'_> {
    /// Appends the next value. Whether another follows in its row.
    fn value(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        if let Some(mut quoted) = self.text.strip_prefix(b"\"") {
            let from = self.line;
            loop {
                let end = quoted.iter().position(|&byte| byte == b'"');
                let end = end.ok_or_else(|| format!("line {from}: a quote is not closed"))?;
                out.extend_from_slice(&quoted[..end]);
                self.line += quoted[..end].iter().filter(|&&byte| byte == b'\n').count();
                quoted = &quoted[end + 1..];
                match quoted.strip_prefix(b"\"") {
                    Some(more) => {
                        out.push(b'"');
                        quoted = more;
                    }
                    None => break,
                }
            }
            self.text = quoted;
            if !matches!(self.text, [] | [b',' | b'\n', ..] | [b'\r', b'\n', ..]) {
                return Err(format!(
                    "line {}: text follows a closing quote; double quotes inside values",
                    self.line
                ));
            }
        } else {
            let end = self.text.iter().position(|byte| b",\n".contains(byte));
            let end = end.unwrap_or(self.text.len());
            let (value, rest) = self.text.split_at(end);
            let is_last = !rest.starts_with(b",");
            let value = if is_last {
                value.strip_suffix(b"\r").unwrap_or(value)
            } else {
                value
            };
            out.extend_from_slice(value);
            self.text = rest;
        }
        if let Some(rest) = self.text.strip_prefix(b",") {
            self.text = rest;
            return Ok(true);
        }
        let rest = self.text.strip_prefix(b"\r").unwrap_or(self.text);
        self.text = rest.strip_prefix(b"\n").unwrap_or(rest);
        self.line += 1;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(feed: &Feed) -> Vec<Vec<String>> {
        let row = |row| {
            (0..feed.columns().len())
                .map(|column| String::from_utf8_lossy(feed.value(row, column)).into_owned())
                .collect()
        };
        (0..feed.rows()).map(row).collect()
    }

    #[test]
    fn tables_are_read() {
        let text = "\u{feff}name, id\r\nanna,1\r\n\r\n\"b \"\"the\"\" b, jr\",\"two\nlines\"\nc,";
        let feed = Feed::read(text.as_bytes(), Order::Sequential).expect("a table");
        assert_eq!(feed.columns(), ["name", "id"]);
        assert_eq!(
            shown(&feed),
            [["anna", "1"], ["b \"the\" b, jr", "two\nlines"], ["c", ""]]
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, why) in [
            ("", "no header"),
            ("\n\r\n", "no header"),
            ("a,b\n", "no row"),
            ("a,a\n1,2", "column `a` is empty or there twice"),
            ("a,b\n1,2\n\n3\n", "line 4 has 1 values; the header has 2"),
            ("a\n\"x\ny", "line 2: a quote is not closed"),
            ("a\n\"x\"y\n", "line 2: text follows a closing quote"),
        ] {
            let error = Feed::read(text.as_bytes(), Order::Once).expect_err(text);
            assert!(error.contains(why), "{text:?}: {error}");
        }
        let wide = |columns: usize| {
            let names: Vec<String> = (0..columns).map(|n| format!("c{n}")).collect();
            format!("{}\n{}", names.join(","), vec!["1"; columns].join(","))
        };
        assert!(Feed::read(wide(COLUMNS_MAX).as_bytes(), Order::Once).is_ok());
        let error = Feed::read(wide(COLUMNS_MAX + 1).as_bytes(), Order::Once).expect_err("wide");
        assert!(error.contains("more than 256 columns"), "{error}");
    }

    #[test]
    fn rows_follow_the_order() {
        let rows = |order: Order| -> Vec<Option<u64>> {
            let feed = Feed::read(b"a\n1\n2\n3", order).expect("a table");
            (0..5).map(|start| feed.row(start, Seed(7), 0)).collect()
        };
        assert_eq!(rows(Order::Sequential), [0, 1, 2, 0, 1].map(Some));
        assert_eq!(rows(Order::Once), [Some(0), Some(1), Some(2), None, None]);
        assert_eq!(rows(Order::Random), rows(Order::Random));
        let feed = Feed::read(b"a\n1\n2\n3", Order::Random).expect("a table");
        let mut counts = [0; 3];
        (0..3000).for_each(|start| counts[feed.row(start, Seed(7), 0).expect("a row") as usize] += 1);
        assert!(
            counts.iter().all(|count| (900..1100).contains(count)),
            "{counts:?}"
        );
        assert!("twice".parse::<Order>().is_err());
    }

    proptest! {
        /// Values that are quoted come back as they were, line breaks and quotes included.
        #[test]
        fn quoted_values_come_back(rows in proptest::collection::vec(proptest::collection::vec("[a,\"\r\n ]{0,6}", 2), 1..6)) {
            let quoted = |value: &String| format!("\"{}\"", value.replace('"', "\"\""));
            let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",");
            let text = format!("a,b\r\n{}", rows.iter().map(line).collect::<Vec<_>>().join("\r\n"));
            let feed = Feed::read(text.as_bytes(), Order::Sequential).expect("a table");
            prop_assert_eq!(shown(&feed), rows);
        }

        /// No input panics.
        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), any::<u8>()], 0..40)) {
            if let Ok(feed) = Feed::read(&text, Order::Once) {
                prop_assert_eq!(shown(&feed).len() as u64, feed.rows());
            }
        }
    }
}
