//! A profile as text, as JSON and as a picture. Decides layout, units and validity; every number is given.

use super::account::{Cost, Sum};
use super::category::{self, Category};
use crate::failure::Failure;
use chart::{self, Bars, Pie};
use profiler::{Means, Price, Seen};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use units::Duration;

/// Number of calls listed by name; the others appear in their category only.
const CALLS_SHOWN: usize = 16;

/// Number of requests that counts are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requests {
    /// Given by `--requests`.
    Told(u64),
    /// Counted by this program's load.
    Loaded(u64),
}

/// A profile, ready to be shown.
#[derive(Debug)]
pub(crate) struct Profile {
    who: String,
    sum: Sum,
    seen: Seen,
    requests: Option<Requests>,
    /// Time under this program's own load, if any.
    loaded: Option<Duration>,
    by_category: BTreeMap<Category, Cost>,
}

impl Profile {
    pub(crate) fn new(who: String, mut sum: Sum, seen: Seen, requests: Option<Requests>) -> Profile {
        let mut by_category: BTreeMap<Category, Cost> = BTreeMap::new();
        for (_, category, cost) in &sum.calls {
            by_category.entry(*category).or_default().add(cost);
        }
        sum.calls
            .sort_by_key(|(_, _, cost)| std::cmp::Reverse((cost.ran, cost.count)));
        Profile {
            who,
            sum,
            seen,
            requests,
            loaded: None,
            by_category,
        }
    }

    /// The profile of a server that was under load for this part of the observed time.
    pub(crate) fn under_load_for(self, span: Duration) -> Profile {
        Profile {
            loaded: Some(span),
            ..self
        }
    }

    /// Whether the profile is valid.
    ///
    /// # Errors
    /// `Invalid` if records were lost, or nothing was seen.
    pub(crate) fn judged(&self) -> Result<(), Failure> {
        if self.seen.lost > 0 {
            return Err(Failure::Invalid(format!(
                "{} records were lost: this machine is too busy, so counts are too low; profile under less load",
                self.seen.lost
            )));
        }
        if self.sum.threads == 0 || self.calls() == 0 && self.sum.user.is_zero() {
            return Err(Failure::Invalid(
                "no call was seen in that time; profile under load".to_owned(),
            ));
        }
        Ok(())
    }

    fn span(&self) -> Duration {
        self.seen.end.since(self.seen.start)
    }

    /// Processor time in calls.
    fn system(&self) -> Duration {
        self.by_category.values().map(|cost| cost.ran).sum()
    }

    fn calls(&self) -> u64 {
        self.by_category.values().map(|cost| cost.count).sum()
    }

    fn opens(&self) -> u64 {
        let opens = |name: &String| category::opens(name);
        let calls = self.sum.calls.iter().filter(|(name, ..)| opens(name));
        calls.map(|(_, _, cost)| cost.count).sum()
    }

    /// The divisor of the counts, with its name.
    fn divisor(&self) -> Option<(f64, &'static str)> {
        match self.requests {
            Some(Requests::Told(count)) => Some((count as f64, "request, as told")),
            Some(Requests::Loaded(count)) => Some((count as f64, "request, as the load counted them")),
            None => (self.sum.exchanges > 0).then_some((
                self.sum.exchanges as f64,
                "exchange: a receive and a send after it on one descriptor",
            )),
        }
    }

    /// Processor time by task, as in document 002's pie charts.
    fn shares(&self) -> Vec<(String, Duration)> {
        let mut shares: Vec<(String, Duration)> = Category::ALL
            .iter()
            .map(|category| {
                let ran = self
                    .by_category
                    .get(category)
                    .map_or(Duration::ZERO, |cost| cost.ran);
                (category.words().to_owned(), ran)
            })
            .collect();
        shares.push((USER.to_owned(), self.sum.user));
        if let Some(queued) = self.seen.queued {
            shares.push((QUEUED.to_owned(), queued));
        }
        shares
    }

    /// The profile as text.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let seconds = self.span().as_secs_f64();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "{}: {}, {} ({} active), {seconds:.2} s{}\n",
            self.who,
            counted(self.seen.watched.0, "process", "processes"),
            counted(self.seen.watched.1, "thread", "threads"),
            self.sum.threads,
            self.loaded.map_or_else(String::new, |span| {
                format!(
                    ", including the start and end of the load ({:.2} s of load)",
                    span.as_secs_f64()
                )
            })
        );
        if let Some(unwatched) = &self.seen.unwatched {
            let processes: Vec<String> = unwatched.processes.iter().map(u32::to_string).collect();
            let _ = writeln!(
                text,
                "not profiled: {} of process {}: {}; the table excludes them (root can profile all)\n",
                counted(unwatched.threads, "thread", "threads"),
                processes.join(", "),
                unwatched.why
            );
        }
        let shares = self.shares();
        let whole: Duration = shares.iter().map(|share| share.1).sum();
        let divisor = self.divisor();
        let _ = writeln!(
            text,
            "{:<28}{:>7}{:>11}{:>11}{:>9}{:>12}{:>10}",
            "task",
            "share",
            "ran ms",
            "calls",
            match (divisor, self.requests) {
                (None, _) => "",
                (_, Some(_)) => "per req",
                (_, None) => "per exch",
            },
            "waited ms",
            "errors"
        );
        for (words, ran) in &shares {
            let category = Category::ALL.iter().find(|category| category.words() == words);
            let cost = category.map(|category| self.by_category.get(category).copied().unwrap_or_default());
            let _ = write!(
                text,
                "{words:<28}{:>6.1}%{:>11.2}",
                percent(*ran, whole),
                ms(*ran)
            );
            if let Some(cost) = cost {
                self.counts(&mut text, &cost, divisor);
            }
            text.push('\n');
        }
        let _ = write!(text, "\n{:<28}{:>7}{:>11}", "call", "", "ran ms");
        let _ = writeln!(
            text,
            "{:>11}{:>9}{:>12}{:>10}",
            "calls", "", "waited ms", "errors"
        );
        for (name, category, cost) in self.sum.calls.iter().take(CALLS_SHOWN) {
            let _ = write!(text, "{name:<16}{:<19}{:>11.2}", category.words(), ms(cost.ran));
            self.counts(&mut text, cost, divisor);
            text.push('\n');
        }
        text.push('\n');
        self.notes(&mut text, divisor);
        text
    }

    fn counts(&self, text: &mut String, cost: &Cost, divisor: Option<(f64, &'static str)>) {
        let per = divisor.map_or(String::new(), |(divisor, _)| {
            format!("{:.2}", cost.count as f64 / divisor)
        });
        let _ = write!(
            text,
            "{:>11}{per:>9}{:>12.1}{:>10}",
            cost.count,
            ms(cost.waited),
            cost.errors
        );
    }

    fn notes(&self, text: &mut String, divisor: Option<(f64, &'static str)>) {
        if let Some((divisor, what)) = divisor {
            let per = |count: u64| count as f64 / divisor;
            let _ = writeln!(
                text,
                "per {what} ({divisor:.0}): {:.2} calls, {:.2} opens, {:.2} futex operations",
                per(self.calls()),
                per(self.opens()),
                per(self.locks().count)
            );
        }
        let _ = writeln!(
            text,
            "processor: {:.1} ms in calls, {:.1} ms outside calls",
            ms(self.system()),
            ms(self.sum.user)
        );
        match self.seen.means {
            Means::Tracepoints => {
                let _ = writeln!(
                    text,
                    "switches: {} voluntary (a thread waited), {} involuntary (another thread ran)",
                    self.sum.voluntary, self.sum.involuntary
                );
            }
            Means::Ptrace => {
                text.push_str("switches: not counted, because ptrace causes one at every stop\n")
            }
        }
        let _ = writeln!(
            text,
            "locks: {} futex operations, {:.1} ms waited in them; taking a free lock makes no call and is not counted",
            self.locks().count,
            ms(self.locks().waited)
        );
        let _ = writeln!(text, "{}", self.price());
    }

    fn locks(&self) -> Cost {
        let mut locks = Cost::default();
        for (name, _, cost) in &self.sum.calls {
            if name.starts_with("futex") {
                locks.add(cost);
            }
        }
        locks
    }

    /// The cost of observation, as a sentence.
    fn price(&self) -> String {
        let mut text = format!("seen by {}", self.seen.means.name());
        if let Some(why) = &self.seen.refused {
            let _ = write!(text, " (tracepoints: {why})");
        }
        let us = |span: Duration| span.as_secs_f64() * 1e6;
        match self.seen.cost {
            Some(price) if price.is_known() => {
                let _ = write!(
                    text,
                    ": about {:.2} us of processor time added to each call ({:.2} to {:.2} in {} trials)",
                    us(price.middle),
                    us(price.lowest),
                    us(price.highest),
                    price.trials
                );
                let all = self.added().unwrap_or_default().as_secs_f64();
                let busy = (self.system() + self.sum.user).as_secs_f64();
                // A trial's call may cost more than a server's calls.
                let _ = match all <= busy {
                    true => write!(
                        text,
                        ", some {:.1} ms in all, {:.0} % of the processor time above",
                        all * 1e3,
                        100.0 * all / busy.max(1e-9)
                    ),
                    false => write!(
                        text,
                        ", which is more than these calls took, so the real cost was lower"
                    ),
                };
            }
            Some(price) => {
                let _ = write!(
                    text,
                    "; the time this adds to a call is uncertain: {:.2} to {:.2} us in {} trials",
                    us(price.lowest),
                    us(price.highest),
                    price.trials
                );
            }
            None => text.push_str("; the time this adds to a call could not be measured"),
        }
        let _ = write!(text, "; the profiler itself used {:.1} ms", ms(self.seen.own));
        text
    }

    /// Processor time added by observation, if known.
    fn added(&self) -> Option<Duration> {
        let price = self.seen.cost.filter(Price::is_known)?;
        Some(Duration::from_secs_f64(
            price.middle.as_secs_f64() * self.calls() as f64,
        ))
    }

    /// The profile as JSON.
    pub(crate) fn json(&self) -> Value {
        let divisor = self.divisor();
        let cost = |cost: &Cost| {
            json!({
                "calls": cost.count,
                "errors": cost.errors,
                "ran_ms": ms(cost.ran),
                "waited_ms": ms(cost.waited),
                "per_request": divisor.map(|(divisor, _)| cost.count as f64 / divisor),
            })
        };
        let categories: serde_json::Map<String, Value> = Category::ALL
            .iter()
            .map(|category| {
                let key = category.words().replace([' ', '/'], "_");
                let value = cost(&self.by_category.get(category).copied().unwrap_or_default());
                (key, value)
            })
            .collect();
        let calls: Vec<Value> = self
            .sum
            .calls
            .iter()
            .map(|(name, category, one)| {
                let mut value = cost(one);
                value["call"] = json!(name);
                value["category"] = json!(category);
                value
            })
            .collect();
        let counted = |count: u64| (self.seen.means == Means::Tracepoints).then_some(count);
        json!({
            "event": "profile",
            "version": 1,
            "who": self.who,
            "command": std::env::args().collect::<Vec<_>>(),
            "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
            "clock": "CLOCK_MONOTONIC",
            "means": self.seen.means.name(),
            "means_refused": self.seen.refused,
            "seconds": self.span().as_secs_f64(),
            "processes": self.seen.watched.0,
            "threads": self.seen.watched.1,
            "threads_active": self.sum.threads,
            "unwatched": self.seen.unwatched.as_ref().map(|unwatched| json!({
                "processes": unwatched.processes, "threads": unwatched.threads, "why": unwatched.why,
            })),
            "lost": self.seen.lost,
            "overhead": {
                "us_per_call": self.seen.cost.filter(Price::is_known).map(|price| price.middle.as_secs_f64() * 1e6),
                "ms": self.added().map(ms),
                "own_ms": ms(self.seen.own),
            },
            "divided_by": divisor.map(|(count, what)| json!({ "count": count, "what": what })),
            "exchanges": self.sum.exchanges,
            "calls_total": self.calls(),
            "opens": self.opens(),
            "opens_per_request": divisor.map(|(divisor, _)| self.opens() as f64 / divisor),
            "futex": cost(&self.locks()),
            "user_ms": ms(self.sum.user),
            "system_ms": ms(self.system()),
            "preempted_ms": ms(self.sum.preempted),
            "queued_ms": self.seen.queued.map(ms),
            "switches": {
                "voluntary": counted(self.sum.voluntary),
                "involuntary": counted(self.sum.involuntary),
            },
            "categories": categories,
            "calls": calls,
            "exit_code": self.seen.code,
        })
    }

    /// Drawn: the pie of document 002's figures, and calls per request by category. A task has the same color in every
    /// drawing, so that two servers can be held beside each other.
    pub(crate) fn svg(&self) -> String {
        let shares = self.shares();
        let whole: Duration = shares.iter().map(|share| share.1).sum();
        let (slices, colors): (Vec<(String, f64)>, Vec<usize>) = shares
            .into_iter()
            .filter(|(_, ran)| percent(*ran, whole) >= 0.05)
            .map(|(words, ran)| {
                let color = color(&words);
                ((words, ran.as_secs_f64()), color)
            })
            .unzip();
        let pie = Pie {
            title: self.spent(),
            slices,
        };
        let (divisor, label) = match (self.divisor(), self.requests) {
            (Some((divisor, _)), Some(_)) => (divisor, "calls per request"),
            (Some((divisor, _)), None) => (divisor, "calls per exchange"),
            (None, _) => (1.0, "calls"),
        };
        let (series, of_bars): (Vec<(String, Vec<f64>)>, Vec<usize>) = self
            .by_category
            .iter()
            .filter(|(_, cost)| cost.count as f64 >= 0.005 * divisor)
            .map(|(category, cost)| {
                let value = (cost.count as f64 / divisor * 100.0).round() / 100.0;
                (
                    (category.words().to_owned(), vec![value]),
                    color(category.words()),
                )
            })
            .unzip();
        let bars = Bars {
            title: format!("{}: {label}, by {}", self.who, self.seen.means.name()),
            label: label.to_owned(),
            groups: vec![String::new()],
            series,
            reach: None,
        };
        chart::page(&[pie.body_in(&colors), bars.body_in(&of_bars)])
    }

    /// What the pie divides, in one line: time that was used, and time that only passed.
    fn spent(&self) -> String {
        let used = ms(self.system() + self.sum.user);
        match self.seen.queued {
            Some(queued) => format!(
                "{}: {used:.1} ms on a processor, {:.1} ms waiting for one",
                self.who,
                ms(queued)
            ),
            None => format!("{}: {used:.1} ms on a processor", self.who),
        }
    }
}

const USER: &str = "HTTP processing (no call)";
const QUEUED: &str = "waiting for a processor";

/// Color number of a task; the most frequent tasks have the strongest colors.
fn color(words: &str) -> usize {
    let place = Category::ALL
        .iter()
        .position(|category| category.words() == words);
    match (words, place) {
        (USER, _) => 0,
        (_, Some(place)) => 1 + place,
        (_, None) => 1 + Category::ALL.len(),
    }
}

/// A number with its singular or plural noun.
fn counted(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn percent(part: Duration, whole: Duration) -> f64 {
    100.0 * part.as_secs_f64() / whole.as_secs_f64().max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    fn profile(requests: Option<Requests>, lost: u64) -> Profile {
        let cost = |count, ran, waited| Cost {
            count,
            errors: 0,
            ran: Duration::from_millis(ran),
            waited: Duration::from_millis(waited),
        };
        let calls = vec![
            ("openat".to_owned(), Category::FileOperations, cost(670, 14, 0)),
            ("futex".to_owned(), Category::Synchronization, cost(400, 6, 30)),
            ("write".to_owned(), Category::WritingFiles, cost(100, 20, 0)),
        ];
        let sum = Sum {
            calls,
            user: Duration::from_millis(60),
            preempted: Duration::ZERO,
            voluntary: 5,
            involuntary: 6,
            threads: 3,
            exchanges: 50,
        };
        let seen = Seen {
            start: Instant::ZERO,
            end: Instant::from_nanos(2_000_000_000),
            means: Means::Tracepoints,
            refused: None,
            lost,
            cost: Some(price([250, 300, 400])),
            own: Duration::from_millis(3),
            watched: (2, 4),
            unwatched: None,
            queued: Some(Duration::from_millis(100)),
            code: None,
            is_interrupted: false,
        };
        Profile::new("server".to_owned(), sum, seen, requests)
    }

    fn price([lowest, middle, highest]: [u64; 3]) -> Price {
        Price {
            middle: Duration::from_nanos(middle),
            lowest: Duration::from_nanos(lowest),
            highest: Duration::from_nanos(highest),
            trials: 3,
        }
    }

    #[test]
    fn what_looking_cost_is_said_as_far_as_it_can_be_told() {
        let mut seen = profile(None, 0);
        for part in [
            "about 0.30 us",
            "(0.25 to 0.40 in 3 trials)",
            "0.4 ms in all, 0 %",
        ] {
            assert!(seen.table().contains(part), "{part}: {}", seen.table());
        }
        seen.seen.cost = Some(price([130, 1160, 8780]));
        let table = seen.table();
        assert!(table.contains("is uncertain: 0.13 to 8.78 us"), "{table}");
        assert!(!table.contains(" % of the processor"), "{table}");
        assert!(seen.json()["overhead"]["us_per_call"].is_null() && seen.json()["overhead"]["ms"].is_null());
        // 1170 calls in 100 ms.
        seen.seen.cost = Some(price([99_000, 100_000, 101_000]));
        assert!(
            seen.table().contains("so the real cost was lower"),
            "{}",
            seen.table()
        );
    }

    #[test]
    fn who_could_not_be_watched_is_named() {
        let mut seen = profile(None, 0);
        assert!(!seen.table().contains("not profiled") && seen.json()["unwatched"].is_null());
        seen.seen.unwatched = Some(profiler::Unwatched {
            processes: vec![71, 72],
            threads: 3,
            why: "Operation not permitted (os error 1)".to_owned(),
        });
        let table = seen.table();
        assert!(
            table.contains("not profiled: 3 threads of process 71, 72: Operation not permitted"),
            "{table}"
        );
        assert_eq!(seen.json()["unwatched"]["threads"], 3);
    }

    #[test]
    fn one_process_is_not_several_and_a_load_is_not_all_that_is_watched() {
        let mut seen = profile(None, 0);
        assert!(
            seen.table()
                .contains("2 processes, 4 threads (3 active), 2.00 s\n")
        );
        seen.seen.watched = (1, 1);
        let table = seen.under_load_for(Duration::from_millis(1500)).table();
        let begins = "server: 1 process, 1 thread (3 active), 2.00 s, including the start and end of the load (1.50 s of load)";
        assert!(table.starts_with(begins), "{table}");
    }

    #[test]
    fn shares_are_of_what_was_spent_and_counts_of_what_was_asked() {
        let table = profile(Some(Requests::Told(100)), 0).table();
        for part in [
            "6.70",
            "4.00",
            "10.0%",
            "50.0%",
            "30.0%",
            "5 voluntary",
            "0.30 us",
            "6.70 opens",
        ] {
            assert!(table.contains(part), "{part} is not in\n{table}");
        }
        // Nobody said how many requests there were: by exchanges.
        let table = profile(None, 0).table();
        assert!(
            table.contains("13.40 opens") && table.contains("exchange"),
            "{table}"
        );
        assert!(profile(None, 0).judged().is_ok());
        assert!(matches!(profile(None, 9).judged(), Err(Failure::Invalid(_))));
    }

    #[test]
    fn json_and_drawing_say_the_same() {
        let profile = profile(Some(Requests::Loaded(100)), 0);
        let json = profile.json();
        assert_eq!(json["opens_per_request"], 6.7);
        assert_eq!(json["categories"]["writing_files"]["calls"], 100);
        assert_eq!(json["categories"]["asynchronous_I_O"]["calls"], 0);
        assert_eq!(json["futex"]["waited_ms"], 30.0);
        let svg = profile.svg();
        for part in [
            "waiting for a processor",
            "50.0 %",
            "HTTP processing",
            "calls per request",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("signal handling"), "nothing has no slice");
        assert!(
            svg.contains("server: 100.0 ms on a processor, 100.0 ms waiting for one"),
            "waiting is not using: {svg}"
        );
    }

    /// The class of the mark before a name.
    fn class(svg: &str, name: &str) -> Vec<String> {
        let named = format!(">{name}<");
        let marks = svg.match_indices(&named).map(|(end, _)| {
            let before = &svg[..end];
            let from = before.rfind("class=\"s").map(|at| at + 7).expect("a mark");
            // The text has a class of its own in a legend of bars.
            let from = match before[from..].starts_with("small") {
                true => before[..from - 7]
                    .rfind("class=\"s")
                    .map(|at| at + 7)
                    .expect("a mark"),
                false => from,
            };
            before[from..].split('"').next().expect("a name").to_owned()
        });
        marks.collect()
    }

    #[test]
    fn a_task_has_its_color_whatever_else_was_done() {
        let all = profile(None, 0);
        let mut some = profile(None, 0);
        some.by_category.remove(&Category::FileOperations);
        some.sum.user = Duration::ZERO;
        for name in [Category::WritingFiles.words(), Category::Synchronization.words()] {
            let (one, other) = (class(&all.svg(), name), class(&some.svg(), name));
            assert_eq!(one.len(), 2, "{name} is in the pie and in the bars");
            assert_eq!((&one[0], &one), (&one[1], &other), "{name}");
        }
        assert!(all.svg().contains("calls per exchange"));
        assert!(!all.svg().contains("calls per request"));
    }

    #[test]
    fn who_did_nothing_has_no_profile() {
        let mut idle = profile(None, 0);
        idle.by_category.clear();
        idle.sum.user = Duration::ZERO;
        assert!(matches!(idle.judged(), Err(Failure::Invalid(_))));
    }
}
