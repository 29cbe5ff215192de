//! The query of a listing: order, page and search text.
//!
//! A file server ignores queries, and so does a listing where it does not know them: unknown keys and invalid values change
//! nothing, so links with tracking parameters still work. The last of several values counts. All queries with the same
//! meaning are equal, and [`Query::link`] writes each of them in one way.

use super::Item;
use core::cmp::Ordering;
use core::fmt::Write;
use http_semantics::target::decode;

/// Entries on a page, unless the query says otherwise.
const LIMIT: usize = 1_000;

/// Largest number of entries on a page: higher values of `limit` mean this one.
const LIMIT_MAX: usize = 5_000;

/// The order of the entries within the folders and within the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    #[default]
    Name,
    /// Folders have no size and stay in the order of their names.
    Size,
    Time,
}

impl Sort {
    /// The value in queries and in JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Size => "size",
            Sort::Time => "time",
        }
    }
}

/// Which entries a listing shows, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    pub(super) sort: Sort,
    pub(super) is_descending: bool,
    /// Number of the page, from 1.
    pub(super) page: usize,
    /// Entries on a page; from 1 to [`LIMIT_MAX`].
    pub(super) limit: usize,
    /// Text that names must contain, in any case; empty: all names.
    pub(super) text: String,
}

impl Default for Query {
    fn default() -> Query {
        Query {
            sort: Sort::Name,
            is_descending: false,
            page: 1,
            limit: LIMIT,
            text: String::new(),
        }
    }
}

impl Query {
    /// Reads the query of a target, without its question mark. `None`: it means the same as no query.
    pub(crate) fn parse(raw: &[u8]) -> Option<Query> {
        let mut query = Query::default();
        for pair in raw.split(|&b| b == b'&') {
            let Some(equals) = pair.iter().position(|&b| b == b'=') else {
                continue;
            };
            let (key, value) = (&pair[..equals], &pair[equals + 1..]);
            match (key, value) {
                (b"sort", b"name") => query.sort = Sort::Name,
                (b"sort", b"size") => query.sort = Sort::Size,
                (b"sort", b"time") => query.sort = Sort::Time,
                (b"order", b"asc") => query.is_descending = false,
                (b"order", b"desc") => query.is_descending = true,
                (b"page", value) => query.page = number(value).unwrap_or(query.page),
                (b"limit", value) => query.limit = limit(value).unwrap_or(query.limit),
                (b"q", value) => query.text = text(value).unwrap_or(query.text),
                _ => {}
            }
        }
        (query != Query::default()).then_some(query)
    }

    /// The reference from the page of the folder to this view of it.
    pub(super) fn link(&self) -> String {
        let default = Query::default();
        let mut link = String::new();
        let mut add = |key: &str, value: &str| {
            link.push(if link.is_empty() { '?' } else { '&' });
            link.push_str(key);
            link.push('=');
            for &b in value.as_bytes() {
                if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
                    link.push(b.into());
                } else {
                    // Writing to a `String` cannot fail.
                    let _ = write!(link, "%{b:02X}");
                }
            }
        };
        if self.sort != default.sort {
            add("sort", self.sort.word());
        }
        if self.is_descending {
            add("order", self.order());
        }
        if !self.text.is_empty() {
            add("q", &self.text);
        }
        if self.limit != default.limit {
            add("limit", &self.limit.to_string());
        }
        if self.page != default.page {
            add("page", &self.page.to_string());
        }
        match link.is_empty() {
            true => "./".to_owned(),
            false => link,
        }
    }

    /// The value of `order` in queries and in JSON.
    pub(super) fn order(&self) -> &'static str {
        match self.is_descending {
            true => "desc",
            false => "asc",
        }
    }

    /// The same view with another page.
    pub(super) fn at(&self, page: usize) -> Query {
        Query { page, ..self.clone() }
    }

    /// The view that the header of a column leads to: the first page in the other direction if the entries are in this
    /// order already. Otherwise names ascend; sizes and times descend, because large and new files are looked for.
    pub(super) fn sorted_by(&self, sort: Sort) -> Query {
        Query {
            sort,
            is_descending: match self.sort == sort {
                true => !self.is_descending,
                false => sort != Sort::Name,
            },
            ..self.at(1)
        }
    }

    /// Whether the view begins a folder, in any order: not a further page, and no search.
    pub(crate) fn is_start(&self) -> bool {
        self.page == 1 && self.text.is_empty()
    }

    /// Folders first, then in the order of the query. Equal entries are in the order of their names.
    pub(super) fn compare(&self, a: &Item, b: &Item) -> Ordering {
        let by_name = a.name.cmp(&b.name);
        let order = match self.sort {
            Sort::Name => by_name,
            Sort::Size => a.size.cmp(&b.size),
            Sort::Time => a.modified.cmp(&b.modified),
        };
        let order = match self.is_descending {
            true => order.reverse(),
            false => order,
        };
        a.size.is_some().cmp(&b.size.is_some()).then(order).then(by_name)
    }
}

/// A number from 1, in digits alone.
fn number(value: &[u8]) -> Option<usize> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = is_number
        .then(|| core::str::from_utf8(value).ok()?.parse().ok())
        .flatten();
    number.filter(|&number| number > 0)
}

/// Entries on a page: a number of any length.
fn limit(value: &[u8]) -> Option<usize> {
    let zeros = value.iter().take_while(|b| **b == b'0').count();
    let digits = &value[zeros..];
    match number(digits) {
        // Too large for the type.
        None if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => Some(LIMIT_MAX),
        number => number.map(|number| number.min(LIMIT_MAX)),
    }
}

/// A value as forms send it. `None`: an escape is invalid.
fn text(value: &[u8]) -> Option<String> {
    let spaced: Vec<u8> = value.iter().map(|&b| if b == b'+' { b' ' } else { b }).collect();
    let decoded = decode(&spaced).ok()?;
    Some(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(raw: &str) -> Query {
        Query::parse(raw.as_bytes()).unwrap_or_default()
    }

    #[test]
    fn queries_that_mean_nothing_are_no_queries() {
        for raw in [
            "",
            "&&",
            "=",
            "sort",
            "utm_source=x&ref=a%zz",
            "sort=name&order=asc&page=1&limit=1000&q=",
            "sort=colour",
            "order=up",
            "page=0",
            "page=-1",
            "page=+2",
            "page=1e3",
            "page=99999999999999999999999",
            "limit=0",
            "limit=000000000000000000000000",
            "limit=9999999999999999999999x",
            "limit=",
            "q=%zz",
            "q=a%00b",
            "Sort=size",
            "sort=size&sort=name",
        ] {
            assert_eq!(Query::parse(raw.as_bytes()), None, "{raw}");
        }
    }

    #[test]
    fn a_view_has_one_link() {
        for (raw, link) in [
            ("", "./"),
            ("order=desc", "?order=desc"),
            (
                "page=3&q=a+b%26c%3d&sort=size",
                "?sort=size&q=a%20b%26c%3D&page=3",
            ),
            ("limit=7&page=007", "?limit=7&page=7"),
            ("limit=5000", "?limit=5000"),
            ("limit=5001", "?limit=5000"),
            ("limit=99999999999999999999999", "?limit=5000"),
            ("limit=00000000000000000000007", "?limit=7"),
            ("q=%22%3E%3Cscript%3E", "?q=%22%3E%3Cscript%3E"),
            ("q=%ff", "?q=%EF%BF%BD"),
            ("sort=time&sort=colour", "?sort=time"),
        ] {
            let query = parsed(raw);
            assert_eq!(query.link(), link, "{raw}");
            assert_eq!(parsed(link.trim_start_matches(['.', '/', '?'])), query, "{raw}");
        }
    }

    #[test]
    fn headers_turn_the_order_around() {
        for (raw, sort, link) in [
            ("", Sort::Name, "?order=desc"),
            ("order=desc&page=2", Sort::Name, "./"),
            ("q=a&page=2", Sort::Size, "?sort=size&order=desc&q=a"),
            ("sort=size&order=desc", Sort::Size, "?sort=size"),
            ("sort=size", Sort::Time, "?sort=time&order=desc"),
            ("sort=time", Sort::Name, "./"),
        ] {
            assert_eq!(parsed(raw).sorted_by(sort).link(), link, "{raw}");
        }
    }
}
