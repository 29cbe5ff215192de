//! Responses by kind: counts by status, which statuses count as success, redirect targets, and data that is not HTTP.
//!
//! A status costs one increment; details are examined only for unexpected responses. Memory is bounded: there are 900
//! statuses (RFC 9112 section 4: three digits, the first not 0), and one example is kept, the smallest by text or time,
//! so that sums do not depend on order. Follows no redirect, and does not know the user.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Smallest status.
const LEAST: u16 = 100;
/// Number of statuses.
const KINDS: usize = 900;
/// Limit on the stored bytes of a location.
const LOCATION_MAX: usize = 200;
/// Limit on the statuses in one sentence.
const NAMED_MAX: usize = 4;

/// Ranges of statuses that count as success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept(Vec<(u16, u16)>);

impl Accept {
    /// The default for requests with these header fields: 200; also 206 for range requests and 304 for conditional
    /// requests.
    pub fn answering<'n>(names: impl IntoIterator<Item = &'n str>) -> Accept {
        let mut ranges = vec![(200, 200)];
        for name in names {
            let more = if name.eq_ignore_ascii_case("Range") {
                206
            } else if ["If-None-Match", "If-Modified-Since"]
                .iter()
                .any(|condition| name.eq_ignore_ascii_case(condition))
            {
                304
            } else {
                continue;
            };
            if !ranges.contains(&(more, more)) {
                ranges.push((more, more));
            }
        }
        ranges.sort_unstable();
        Accept(ranges)
    }

    /// The default for requests that do more than read: every 2xx, because a server that creates or accepts something
    /// says 201, 202 or 204 (RFC 9110 section 15.3).
    pub fn successful() -> Accept {
        Accept(vec![(200, 299)])
    }

    /// Whether a status counts as success.
    #[inline]
    pub fn holds(&self, status: u16) -> bool {
        self.0.iter().any(|&(from, to)| from <= status && status <= to)
    }
}

impl Default for Accept {
    fn default() -> Accept {
        Accept::answering([])
    }
}

impl core::fmt::Display for Accept {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (position, (from, to)) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match from == to {
                true => write!(f, "{comma}{from}")?,
                false => write!(f, "{comma}{from}-{to}")?,
            }
        }
        Ok(())
    }
}

impl core::str::FromStr for Accept {
    type Err = String;

    fn from_str(text: &str) -> Result<Accept, String> {
        let one = |text: &str| {
            let status = text.parse::<u16>().ok().filter(|_| text.len() == 3);
            status.filter(|status| (200..LEAST + KINDS as u16).contains(status))
        };
        let each = |part: &str| {
            if let Some(class) = part.strip_suffix("xx") {
                return Some((one(&format!("{class}00"))?, one(&format!("{class}99"))?));
            }
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some((one(from)?, one(to)?)).filter(|(from, to)| from <= to)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(|part| each(part.trim())).collect();
        let mut ranges = ranges.ok_or_else(|| {
            format!("`{text}` is not a list of final statuses: write 200-399, 200,404 or 2xx")
        })?;
        ranges.sort_unstable();
        ranges.dedup();
        Ok(Accept(ranges))
    }
}

/// Number of complete responses by status.
#[derive(Clone, PartialEq, Eq)]
pub struct Statuses(Box<[u64; KINDS]>);

impl Default for Statuses {
    fn default() -> Statuses {
        Statuses(Box::new([0; KINDS]))
    }
}

impl core::fmt::Debug for Statuses {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Statuses {
    /// Counts a response.
    #[inline]
    pub fn add(&mut self, status: u16) {
        if let Some(count) = self.0.get_mut(usize::from(status.wrapping_sub(LEAST))) {
            *count += 1;
        }
    }

    /// Statuses with their counts, ascending, without zeros.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (LEAST..)
            .zip(self.0.iter().copied())
            .filter(|&(_, count)| count > 0)
    }

    /// Number of all responses.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Statuses) {
        for (sum, part) in self.0.iter_mut().zip(other.0.iter()) {
            *sum += part;
        }
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Statuses, D::Error> {
        let mut statuses = Statuses::default();
        for (status, count) in BTreeMap::<u16, u64>::deserialize(from)? {
            let place = statuses.0.get_mut(usize::from(status.wrapping_sub(LEAST)));
            *place.ok_or_else(|| D::Error::custom(format!("{status} is no status")))? = count;
        }
        Ok(statuses)
    }
}

/// Responses of one unsuccessful status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Number of responses.
    pub count: u64,
    /// Redirect target of one of them: the smallest by text.
    pub location: Option<Box<str>>,
    /// Whether other responses had other targets.
    pub elsewhere: bool,
}

impl Refused {
    /// Records a redirect target.
    pub fn points_to(&mut self, location: &[u8]) {
        let known = &location[..location.len().min(LOCATION_MAX)];
        let text = String::from_utf8_lossy(known);
        if self.location.as_deref() != Some(&*text) {
            self.unite(Some(text.into()), false);
        }
    }

    /// Adds the responses of another.
    pub fn merge(&mut self, other: &Refused) {
        self.count += other.count;
        self.unite(other.location.clone(), other.elsewhere);
    }

    fn unite(&mut self, location: Option<Box<str>>, elsewhere: bool) {
        let mut both: Vec<Box<str>> = self.location.take().into_iter().chain(location).collect();
        both.sort_unstable();
        both.dedup();
        self.elsewhere |= elsewhere || both.len() > 1;
        self.location = both.into_iter().next();
    }
}

/// First occurrence of data that is not HTTP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Breach {
    /// Time in nanoseconds from the start of the run.
    pub at_ns: u64,
    /// The protocol error.
    pub fault: Box<str>,
    /// First bytes of the data, escaped.
    pub seen: Box<str>,
}

impl Breach {
    /// Keeps the earlier of two.
    pub fn first(of: &mut Option<Breach>, other: Option<&Breach>) {
        if let Some(other) = other
            && of.as_ref().is_none_or(|first| other < first)
        {
            *of = Some(other.clone());
        }
    }
}

/// Sentence about unsuccessful responses with advice; `None` without any.
pub fn told(refused: &BTreeMap<u16, Refused>, all: u64) -> Option<String> {
    let mut kinds: Vec<(u16, &Refused)> = refused
        .iter()
        .filter(|(_, refused)| refused.count > 0)
        .map(|(status, refused)| (*status, refused))
        .collect();
    kinds.sort_by_key(|&(status, refused)| (core::cmp::Reverse(refused.count), status));
    let (first, several) = (kinds.first()?, kinds.len() > 1);
    let count: u64 = kinds.iter().map(|(_, refused)| refused.count).sum();
    let each = kinds.iter().take(NAMED_MAX).map(|(status, refused)| {
        let mut text = status.to_string();
        if let Some(location) = &refused.location {
            text += &format!(" to {location}");
            text += if refused.elsewhere { " and elsewhere" } else { "" };
        }
        if several {
            text += &format!(" ({})", refused.count);
        }
        text
    });
    let mut text = if count == all {
        format!("all {all} responses were ")
    } else {
        format!("{count} of {all} responses were ")
    };
    text += &each.collect::<Vec<_>>().join(", ");
    if kinds.len() > NAMED_MAX {
        text += &format!(" and {} other statuses", kinds.len() - NAMED_MAX);
    }
    if let (
        status @ 300..400,
        Refused {
            location: Some(_),
            elsewhere,
            ..
        },
    ) = first
    {
        let what = if *elsewhere {
            "request the targets directly"
        } else {
            "use that URL"
        };
        text += &format!(
            "; redirects are not followed: {what}, or accept them with --accept-status 200,{status}"
        );
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_named_as_people_do() {
        for (text, shown, good, bad) in [
            ("200", "200", 200, 201),
            ("200-399", "200-399", 399, 400),
            ("404, 200", "200,404", 404, 203),
            ("2xx,304", "200-299,304", 299, 303),
        ] {
            let accept: Accept = text.parse().expect(text);
            assert_eq!(accept.to_string(), shown);
            assert!(accept.holds(good) && !accept.holds(bad), "{text}");
        }
        for wrong in [
            "", "ok", "99", "100", "1xx", "300-200", "200-", "2000", "200,,201", "+20",
        ] {
            assert!(wrong.parse::<Accept>().is_err(), "{wrong}");
        }
        let shown = |names: &[&str]| Accept::answering(names.iter().copied()).to_string();
        assert_eq!(shown(&["Accept", "Cookie"]), "200");
        assert_eq!(
            shown(&["if-none-match", "If-Modified-Since", "RANGE"]),
            "200,206,304"
        );
    }

    #[test]
    fn counts_are_by_status_and_survive_being_written() {
        let mut statuses = Statuses::default();
        for status in [200, 404, 200, 999, 100, 99, 1000] {
            statuses.add(status);
        }
        assert_eq!(
            statuses.iter().collect::<Vec<_>>(),
            [(100, 1), (200, 2), (404, 1), (999, 1)]
        );
        assert_eq!(statuses.total(), 5);
        let text = serde_json::to_string(&statuses).expect("JSON");
        assert_eq!(text, r#"{"100":1,"200":2,"404":1,"999":1}"#);
        assert_eq!(serde_json::from_str::<Statuses>(&text).expect("counts"), statuses);
        assert!(serde_json::from_str::<Statuses>(r#"{"99":1}"#).is_err());
    }

    #[test]
    fn what_was_refused_is_told_with_a_way_out() {
        let refused = |parts: &[(u16, u64, &[&str])]| {
            let mut all: BTreeMap<u16, Refused> = BTreeMap::new();
            for (status, count, locations) in parts {
                let one = all.entry(*status).or_default();
                one.count = *count;
                locations
                    .iter()
                    .for_each(|location| one.points_to(location.as_bytes()));
            }
            all
        };
        for (parts, all, said) in [
            (&[][..], 5, None),
            (&[(404, 0, &[][..])], 5, None),
            (&[(404, 5, &[])], 5, Some("all 5 responses were 404")),
            (
                &[(404, 5, &[]), (503, 7, &[])],
                20,
                Some("12 of 20 responses were 503 (7), 404 (5)"),
            ),
            (
                &[(301, 300, &["http://h/x/"])],
                300,
                Some(
                    "all 300 responses were 301 to http://h/x/; redirects are not followed: use that URL, or accept \
                     them with --accept-status 200,301",
                ),
            ),
            (
                &[(302, 3, &["/b", "/a", "/b"])],
                4,
                Some(
                    "3 of 4 responses were 302 to /a and elsewhere; redirects are not followed: request the targets \
                     directly, or accept them with --accept-status 200,302",
                ),
            ),
            (
                &[
                    (400, 1, &[]),
                    (401, 1, &[]),
                    (402, 1, &[]),
                    (403, 1, &[]),
                    (404, 1, &[]),
                ],
                5,
                Some("all 5 responses were 400 (1), 401 (1), 402 (1), 403 (1) and 1 other statuses"),
            ),
        ] {
            assert_eq!(told(&refused(parts), all).as_deref(), said);
        }
        let mut long = Refused::default();
        long.points_to(&[b'x'; 10_000]);
        assert_eq!(long.location.map(|text| text.len()), Some(LOCATION_MAX));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// Sums depend on neither order nor grouping.
        #[test]
        fn what_was_seen_adds_up_in_any_order(
            parts in proptest::collection::vec((0u64..9, proptest::option::of("[ab]")), 3),
            times in proptest::collection::vec(proptest::option::of((0u64..4, "[ab]")), 3),
        ) {
            let parts: Vec<Refused> = parts.iter().map(|(count, location)| {
                let mut one = Refused { count: *count, ..Refused::default() };
                location.iter().for_each(|location| one.points_to(location.as_bytes()));
                one
            }).collect();
            let sum = |order: &[usize]| {
                let mut sum = Refused::default();
                order.iter().for_each(|&part| sum.merge(&parts[part]));
                sum
            };
            let mut right = parts[1].clone();
            right.merge(&parts[2]);
            let mut nested = parts[0].clone();
            nested.merge(&right);
            proptest::prop_assert_eq!(sum(&[0, 1, 2]), sum(&[2, 1, 0]));
            proptest::prop_assert_eq!(sum(&[0, 1, 2]), nested);
            let breaches: Vec<Option<Breach>> = times.iter().map(|time| time.as_ref().map(|(at_ns, seen)| Breach {
                at_ns: *at_ns, fault: "f".into(), seen: seen.as_str().into(),
            })).collect();
            let first = |order: [usize; 3]| {
                let mut first = None;
                order.iter().for_each(|&part| Breach::first(&mut first, breaches[part].as_ref()));
                first
            };
            proptest::prop_assert_eq!(first([0, 1, 2]), first([2, 0, 1]));
        }
    }
}
