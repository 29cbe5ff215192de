//! The public cache-tests suite (`testdata/cache-tests`) against the cache of `weir fetch`. This file plays the
//! suite's client, origin and pauses in virtual time; the cache makes every decision.

use client::cache::{self, Entries, Exchange, Use};
use http_semantics::date;
use serde_json::Value;
use units::UnixTime;

/// Passed, or the reason it did not.
type Judged = Result<(), String>;

/// Cases that do not apply to this cache, by suite or by start of the name, with the reason.
const NOT_APPLICABLE: [(&str, &str); 7] = [
    (
        "stale-while-revalidate-window",
        "its first step needs stale-while-revalidate, which is optional and not implemented",
    ),
    (
        "invalidation",
        "the client sends only GET and HEAD, which invalidate nothing",
    ),
    ("method", "the client never sends POST"),
    (
        "cc-request",
        "requests have no Cache-Control; `--revalidate` validates every entry",
    ),
    ("pragma-request", "requests have no Pragma"),
    (
        "updateHEAD",
        "the client compares a response to HEAD with the entry and updates nothing",
    ),
    (
        "partial",
        "the client requests ranges itself and joins the parts; the cache holds only whole responses",
    ),
];

/// Optional behavior that is not implemented, with the reason.
const NOT_OPTIMAL: [(&str, &str); 9] = [
    (
        "freshness-expires-ansi-c",
        "the day of the week does not match the date",
    ),
    (
        "freshness-expires-wrong-case-weekday",
        "dates are parsed only in the formats of RFC 9110",
    ),
    (
        "freshness-expires-wrong-case-month",
        "dates are parsed only in the formats of RFC 9110",
    ),
    (
        "freshness-expires-wrong-case-tz",
        "dates are parsed only in the formats of RFC 9110",
    ),
    ("stale-while-revalidate", "nothing is fetched in the background"),
    ("vary-invalidate", "the cache stores one response per URL"),
    (
        "vary-normalise-lang-order",
        "fields are compared as lists, not by meaning",
    ),
    (
        "vary-normalise-lang-case",
        "fields are compared as lists, not by meaning",
    ),
    (
        "vary-normalise-lang-select",
        "fields are compared as lists, not by meaning",
    ),
];

/// Questions of the suite without a right answer: those answered with yes; all others are answered with no.
const YES: [&str; 30] = [
    "freshness-none",
    "freshness-max-age-date",
    "freshness-max-age-quoted",
    "freshness-max-age-space-before-equals",
    "freshness-max-age-space-after-equals",
    "heuristic-delta-60",
    "heuristic-delta-300",
    "heuristic-delta-600",
    "heuristic-delta-1200",
    "heuristic-delta-1800",
    "heuristic-delta-3600",
    "heuristic-delta-43200",
    "heuristic-delta-86400",
    "pragma-response-no-cache",
    "pragma-response-extension",
    "conditional-etag-forward",
    "304-etag-update-response-Content-Location",
    "304-etag-update-response-Content-MD5",
    "304-etag-update-response-Content-Security-Policy",
    "304-etag-update-response-Content-Type",
    "304-etag-update-response-Clear-Site-Data",
    "304-etag-update-response-Expires",
    "304-etag-update-response-Public-Key-Pins",
    "304-etag-update-response-Set-Cookie",
    "304-etag-update-response-Set-Cookie2",
    "304-etag-update-response-X-Frame-Options",
    "304-etag-update-response-X-XSS-Protection",
    "other-date-update-expires-update",
    "other-heuristic-content-disposition-attachment",
    "other-fresh-content-disposition-attachment",
];

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value[name].as_str()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn is_set(value: &Value, name: &str) -> bool {
    value[name].as_bool().unwrap_or(false)
}

fn check(is_so: bool, why: impl FnOnce() -> String) -> Judged {
    if is_so { Ok(()) } else { Err(why()) }
}

/// The value of a field as a client sees it: all lines joined.
fn joined(fields: &[(String, String)], name: &str) -> Option<String> {
    let lines: Vec<&str> = fields
        .iter()
        .filter(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// Parses a number as Node's `parseInt` does.
fn integer(text: &str) -> Option<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

/// A request as seen by the origin.
struct Seen {
    number: usize,
    method: String,
    fields: Vec<(String, String)>,
    /// Field lines of its response that must reach the client.
    owed: Vec<(String, String)>,
}

struct Answer {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
}

/// Client, cache, origin and clock of one case.
struct World<'c> {
    requests: &'c [Value],
    entries: Entries,
    seen: Vec<Seen>,
    /// Milliseconds since 1970.
    now: i64,
}

/// The origin's default body: 36 bytes, like the suite's identifiers.
const BODY: &str = "01234567-89ab-4cde-8f01-23456789abcd";

const FIELDS_OF_DATES: [&str; 5] = [
    "date",
    "expires",
    "last-modified",
    "if-modified-since",
    "if-unmodified-since",
];

impl World<'_> {
    fn time(&self) -> UnixTime {
        UnixTime {
            secs: self.now.div_euclid(1_000),
            nanos: self.now.rem_euclid(1_000) as u32 * 1_000_000,
        }
    }

    /// A field of the suite; numbers in date fields are seconds relative to `base`.
    fn field(&self, config: &Value, header: &Value, base: i64, url: &str) -> (String, String) {
        let name = header[0].as_str().expect("a name").to_owned();
        let lower = name.to_ascii_lowercase();
        let value = match &header[1] {
            Value::Number(seconds) if FIELDS_OF_DATES.contains(&lower.as_str()) => {
                let time =
                    UnixTime::from_secs((base + seconds.as_i64().expect("whole") * 1_000).div_euclid(1_000));
                let fixed = String::from_utf8(date::format(time).to_vec()).expect("text");
                match list(config, "rfc850date").iter().any(|one| one == lower.as_str()) {
                    true => rfc850(&fixed),
                    false => fixed,
                }
            }
            Value::String(value) if is_set(config, "magic_locations") && lower.ends_with("location") => {
                format!("{url}/{value}")
            }
            Value::String(value) => value.clone(),
            other => other.to_string(),
        };
        (name, value)
    }

    /// The origin's response to a request; `None` if it closes.
    fn origin(
        &mut self,
        number: usize,
        url: &str,
        method: &str,
        sent: &[(String, String)],
    ) -> Option<Answer> {
        let config = &self.requests[number];
        let mut status = config["response_status"][0].as_u64().unwrap_or(200) as u16;
        if text(config, "expected_type").is_some_and(|kind| kind.ends_with("validated")) {
            let before: Vec<_> = list(&self.requests[number - 1], "response_headers")
                .iter()
                .map(|header| self.field(&self.requests[number - 1], header, self.now, url))
                .collect();
            let is_met = |condition, validator| {
                let theirs = joined(sent, condition);
                // Dates of the suite are fixed once: reuse those the origin sent before.
                let ours = self.seen.last().and_then(|seen| joined(&seen.owed, validator));
                theirs.is_some() && theirs == ours.or_else(|| joined(&before, validator))
            };
            let is_true = is_met("if-modified-since", "last-modified") || is_met("if-none-match", "etag");
            status = if is_true { 304 } else { 999 };
        }
        let mut fields = vec![
            ("Server-Base-Url".to_owned(), url.to_owned()),
            (
                "Server-Request-Count".to_owned(),
                (self.seen.len() + 1).to_string(),
            ),
            ("Client-Request-Count".to_owned(), (number + 1).to_string()),
            ("Server-Now".to_owned(), self.now.to_string()),
        ];
        let mut owed = Vec::new();
        for header in list(config, "response_headers") {
            let field = self.field(config, header, self.now, url);
            if header.as_array().expect("a pair").len() < 3 || header[2] == true {
                owed.push(field.clone());
            }
            fields.push(field);
        }
        let body = text(config, "response_body").unwrap_or(BODY).to_owned();
        let mut by_default = |name: &str, value: String| {
            if joined(&fields, name).is_none() {
                fields.push((name.to_owned(), value));
            }
        };
        by_default("Content-Type", "text/plain".to_owned());
        let now = date::format(self.time()).to_vec();
        by_default("Date", String::from_utf8(now).expect("text"));
        let has_body = !matches!(status, 204 | 304);
        if has_body {
            by_default("Content-Length", body.len().to_string());
        }
        self.seen.push(Seen {
            number: number + 1,
            method: method.to_owned(),
            fields: sent.to_vec(),
            owed,
        });
        (!is_set(config, "disconnect")).then(|| Answer {
            status,
            fields,
            body: if has_body { body } else { String::new() },
        })
    }

    /// The client's result of a request, with the logic of [`client::fetch::Fetch`].
    fn fetched(&mut self, number: usize) -> Option<Answer> {
        let config = &self.requests[number];
        let url = format!(
            "http://example.org/test{}{}",
            text(config, "filename").map_or(String::new(), |name| format!("/{name}")),
            text(config, "query_arg").map_or(String::new(), |query| format!("?{query}")),
        );
        let method = text(config, "request_method").unwrap_or("GET");
        assert_eq!(method, "GET", "no other method is sent");
        let sent: Vec<_> = list(config, "request_headers")
            .iter()
            .map(|header| self.field(config, header, self.now, &url))
            .collect();
        // Fields that the Fetch API sends in the mode `no-cache`: the user's, not the cache's.
        let of_user = config["cache"]
            .as_str()
            .map(|_| ("Cache-Control".to_owned(), "max-age=0".to_owned()));
        let conditions = match self.entries.get(&url) {
            Some(entry) => match entry.kept.usable(&sent, false, self.time()) {
                Use::Fresh => return Some(self.kept(&url)),
                Use::Validate(conditions) => conditions,
                Use::None => Vec::new(),
            },
            None => Vec::new(),
        };
        let whole: Vec<_> = sent.iter().chain(&conditions).cloned().chain(of_user).collect();
        let (answer, exchange) = self.exchanged(number, &url, &sent, &whole)?;
        if answer.status == 304 && !conditions.is_empty() {
            let entry = self.entries.get_mut(&url).expect("the validated entry exists");
            if entry.kept.validated(exchange) {
                return Some(self.kept(&url));
            }
            // The 304 belongs to another response: request the whole object.
            let (answer, exchange) = self.exchanged(number, &url, &sent, &sent)?;
            cache::store(
                &mut self.entries,
                &url,
                exchange,
                answer.body.clone().into_bytes(),
            );
            return Some(answer);
        }
        cache::store(
            &mut self.entries,
            &url,
            exchange,
            answer.body.clone().into_bytes(),
        );
        Some(answer)
    }

    /// Sends a request to the origin and returns its response.
    fn exchanged<'e>(
        &mut self,
        number: usize,
        url: &str,
        sent: &'e [(String, String)],
        whole: &[(String, String)],
    ) -> Option<(Answer, Exchange<'e>)> {
        let asked = self.time();
        self.now += 1 + self.requests[number]["response_pause"].as_i64().unwrap_or(0) * 1_000;
        let answer = self.origin(number, url, "GET", whole)?;
        self.now += 1;
        let exchange = Exchange {
            sent,
            asked,
            came: self.time(),
            status: answer.status,
            fields: answer.fields.clone(),
        };
        Some((answer, exchange))
    }

    /// A cache entry as a client sees it.
    fn kept(&self, url: &str) -> Answer {
        let entry = &self.entries[url];
        let mut fields = entry.kept.fields.clone();
        fields.retain(|(name, _)| !name.eq_ignore_ascii_case("age"));
        fields.push(("Age".to_owned(), entry.kept.age(self.time()).to_string()));
        Answer {
            status: entry.kept.status,
            fields,
            body: String::from_utf8(entry.body.clone()).expect("text"),
        }
    }

    fn run(&mut self) -> Judged {
        let mut answers = Vec::new();
        for number in 0..self.requests.len() {
            let config = &self.requests[number];
            // Without a response the client gets an error, as from a proxy: it must not use a stale entry
            // instead.
            let answer = self.fetched(number).unwrap_or(Answer {
                status: 502,
                fields: Vec::new(),
                body: String::new(),
            });
            self.judge(number, config, &answer)?;
            answers.push(answer);
            self.now += if is_set(config, "pause_after") { 3_000 } else { 5 };
        }
        self.judge_origin(&answers)
    }

    /// The assertions of the suite's `checkResponse`.
    fn judge(&self, number: usize, config: &Value, answer: &Answer) -> Judged {
        let counted = joined(&answer.fields, "server-request-count").and_then(|text| integer(&text));
        let here = number + 1;
        // A client-side error has no count and comes from nowhere.
        let counted = counted.map_or(here, |counted| counted as usize);
        match text(config, "expected_type") {
            Some("cached") => check(counted < here, || {
                format!("response {here} does not come from the cache")
            })?,
            Some("not_cached") => check(counted == here, || {
                format!("response {here} comes from the cache")
            })?,
            _ => {}
        }
        let wanted = match (config.get("expected_status"), &config["response_status"][0]) {
            (Some(status), _) => status.as_u64(),
            (None, Value::Number(status)) => status.as_u64(),
            _ => Some(200),
        };
        check(
            wanted.is_none_or(|wanted| wanted == u64::from(answer.status)),
            || format!("response {here} has status {}, not {wanted:?}", answer.status),
        )?;
        for header in list(config, "expected_response_headers") {
            let name = header.as_str().or(header[0].as_str()).expect("a name");
            let value = joined(&answer.fields, name);
            let is_met = match (
                header.as_str(),
                header[1].as_str(),
                header.as_array().map(Vec::len),
            ) {
                (Some(_), ..) => value.is_some(),
                (None, Some("="), Some(3)) => {
                    value == joined(&answer.fields, header[2].as_str().expect("a name"))
                }
                (None, Some(">"), Some(3)) => value.as_deref().and_then(integer) > header[2].as_i64(),
                _ => {
                    let then = joined(&answer.fields, "server-now").and_then(|text| integer(&text));
                    let wanted = self.field(config, header, then.unwrap_or(self.now), "");
                    value.as_deref() == Some(wanted.1.as_str())
                }
            };
            check(is_met, || {
                format!("response {here} has {name} {value:?}, not {header}")
            })?;
        }
        for header in list(config, "expected_response_headers_missing") {
            let name = header.as_str().or(header[0].as_str()).expect("a name");
            let value = joined(&answer.fields, name);
            let is_there = match header[1].as_str() {
                Some(part) => value.is_some_and(|value| value.contains(part)),
                None => value.is_some(),
            };
            check(!is_there, || format!("response {here} has {header}"))?;
        }
        if config["check_body"] == false || matches!(answer.status, 204 | 304) {
            return Ok(());
        }
        let wanted = match (&config["expected_response_text"], &config["response_body"]) {
            (Value::String(body), _) | (Value::Null, Value::String(body)) => body.as_str(),
            _ => BODY,
        };
        check(answer.body == wanted, || {
            format!("response {here} has body `{}`", answer.body)
        })
    }

    /// The assertions of the suite's `checkServerRequests`.
    fn judge_origin(&self, answers: &[Answer]) -> Judged {
        let mut seen = self.seen.iter();
        for (number, config) in self.requests.iter().enumerate() {
            let here = number + 1;
            let kind = text(config, "expected_type");
            if kind == Some("cached") {
                continue;
            }
            let Some(one) = seen.next() else {
                let needs = kind.is_some() || !list(config, "expected_request_headers").is_empty();
                check(!needs, || format!("request {here} did not reach the origin"))?;
                continue;
            };
            if kind == Some("not_cached") {
                check(one.number == here, || {
                    format!("response {here} comes from the cache")
                })?;
            }
            let condition = match kind {
                Some("etag_validated") => Some("if-none-match"),
                Some("lm_validated") => Some("if-modified-since"),
                _ => None,
            };
            if let Some(condition) = condition {
                check(joined(&one.fields, condition).is_some(), || {
                    format!("request {here} has no {condition}")
                })?;
            }
            for header in list(config, "expected_request_headers") {
                let name = header.as_str().or(header[0].as_str()).expect("a name");
                let value = joined(&one.fields, name);
                let is_met = match header[1].as_str() {
                    Some(wanted) => value.as_deref() == Some(wanted),
                    None => value.is_some(),
                };
                check(is_met, || {
                    format!("request {here} has {name} {value:?}, not {header}")
                })?;
            }
            for header in list(config, "expected_request_headers_missing") {
                let name = header.as_str().or(header[0].as_str()).expect("a name");
                let value = joined(&one.fields, name);
                let is_met = match header[1].as_str() {
                    Some(unwanted) => value.as_deref() != Some(unwanted),
                    None => value.is_none(),
                };
                check(is_met, || format!("request {here} has {header}"))?;
            }
            for (name, _) in &one.owed {
                if name.eq_ignore_ascii_case("date") {
                    continue;
                }
                let (wanted, value) = (joined(&one.owed, name), joined(&answers[number].fields, name));
                check(wanted == value, || {
                    format!("response {here} has {name} {value:?}, not {wanted:?}")
                })?;
            }
            if let Some(method) = text(config, "expected_method") {
                check(one.method == method, || {
                    format!("request {here} is {}", one.method)
                })?;
            }
        }
        Ok(())
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` as `Sunday, 06-Nov-94 08:49:37 GMT`.
fn rfc850(fixed: &str) -> String {
    let days = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let day = days
        .iter()
        .find(|day| day.starts_with(&fixed[..3]))
        .expect("a day");
    format!(
        "{day}, {}-{}-{} {}",
        &fixed[5..7],
        &fixed[8..11],
        &fixed[14..16],
        &fixed[17..]
    )
}

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("../testdata/cache-tests/cases.json")).expect("JSON")
}

fn judged(case: &Value) -> Judged {
    World {
        requests: list(case, "requests"),
        entries: Entries::new(),
        seen: Vec::new(),
        // Not at the start of a second, like real tests.
        now: 1_790_000_000_400,
    }
    .run()
}

fn why_not(case: &Value) -> Option<&'static str> {
    let (suite, id) = (
        text(case, "suite").expect("a suite"),
        text(case, "id").expect("a name"),
    );
    NOT_APPLICABLE
        .iter()
        .find(|(known, _)| *known == suite || id.starts_with(known))
        .map(|(_, why)| *why)
}

#[test]
fn a_private_cache_does_what_it_must_and_says_what_it_does_not() {
    let (mut faults, mut counts) = (Vec::new(), std::collections::BTreeMap::new());
    for case in cases() {
        let (id, kind) = (
            text(&case, "id").expect("a name"),
            text(&case, "kind").expect("a kind"),
        );
        let mut count = |what: &str| *counts.entry((kind.to_owned(), what.to_owned())).or_insert(0_u32) += 1;
        if why_not(&case).is_some() {
            count("not applicable");
            continue;
        }
        let judged = judged(&case);
        count(if judged.is_ok() { "passed" } else { "not passed" });
        let listed = NOT_OPTIMAL.iter().any(|(known, _)| *known == id);
        let is_expected = match kind {
            "check" => judged.is_ok() == YES.contains(&id),
            _ => judged.is_ok() != listed,
        };
        if !is_expected {
            faults.push(format!("{kind} {id}: {judged:?}"));
        }
    }
    let count = |kind: &str, what: &str| {
        counts
            .get(&(kind.to_owned(), what.to_owned()))
            .copied()
            .unwrap_or(0)
    };
    assert_eq!(
        (
            count("required", "passed"),
            count("required", "not passed"),
            count("optimal", "passed")
        ),
        (130, 0, 55),
        "{}",
        faults.join("\n")
    );
    assert!(faults.is_empty(), "{}\n{counts:#?}", faults.join("\n"));
}
