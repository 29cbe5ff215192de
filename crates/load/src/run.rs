//! A run in serialized form, and runs of several machines merged.
//!
//! A [`Run`] is what one process did: its load, environment and whole record. Several are parts of one run if they
//! have the same plan, number of machines and agreed start; [`Parts`] is a set of them by rank. Merging is the union
//! of sets, so it is exact, and order, repetition and grouping do not matter. A missing rank is named with the load
//! it would have carried, because every part knows the shares of all.

use crate::record::Record;
use crate::times::{Lost, Times};
use crate::verdict::{Asked, Bounds, Verdict, judge};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::Duration;

/// Format name in result lines.
pub const FORMAT: &str = "weir-load";
/// Format version: raised when a reader of the old format could misunderstand the new one.
pub const VERSION: u32 = 5;
/// Largest distance between the starts of the ranks, in seconds.
const SPREAD_MAX: f64 = 1.0;

/// Planned load of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Users, clients or sessions; 0 for arrivals.
    pub users: u64,
    /// Objects that begin if responses take no time; `None` if unlimited.
    pub objects: Option<u64>,
    /// Their files.
    pub files: Option<u64>,
    /// Content bytes, as far as lengths are known.
    pub bytes: Option<u64>,
}

impl Share {
    /// The empty share.
    pub const NONE: Share = Share {
        users: 0,
        objects: Some(0),
        files: Some(0),
        bytes: Some(0),
    };

    /// Adds another share.
    pub fn add(&mut self, other: &Share) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        *self = Share {
            users: self.users + other.users,
            objects: sum(self.objects, other.objects),
            files: sum(self.files, other.files),
            bytes: sum(self.bytes, other.bytes),
        };
    }
}

/// TLS settings of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// The versions offered, as `1.2,1.3`.
    pub versions: String,
    /// The policy of key exchanges and ciphers; empty in results of older versions.
    #[serde(default)]
    pub crypto: String,
    /// Whether sessions were resumed where possible.
    pub resumption: bool,
    /// Whether certificates were accepted unchecked.
    pub insecure: bool,
}

/// Result of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// The command line.
    pub command: Vec<String>,
    /// The program and its version.
    pub program: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The processor's name.
    pub processor: Option<String>,
    /// Name of the clock behind the times.
    pub clock: String,
    /// Random seed.
    pub seed: u64,
    /// Digest of everything that determines the requests and their times, except the number of machines.
    pub plan: String,
    /// Address of the server.
    pub peer: String,
    /// `surge`, `webstone`, `each`, `replay` or `scenario`.
    pub workload: String,
    /// `users`, `clients`, `sessions`, `poisson`, `constant` or `replay`.
    pub model: String,
    /// The protocol mode.
    pub mode: String,
    /// Whether contents were compared with digests.
    pub verified: bool,
    /// Method of every request.
    #[serde(default = "get")]
    pub method: String,
    /// Bytes of the content of every request; `None` without content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// How connections spoke TLS; `None` for cleartext.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Steps of the scenarios, in the order of the record's; empty without a script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_names: Vec<StepName>,
    /// Header fields added to every request.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Statuses that count as success.
    #[serde(default = "once_accepted")]
    pub accept_status: String,
    /// Users or clients over all machines.
    pub users: Option<u32>,
    /// Arrivals per second over all machines, with the start of each rate.
    pub schedule: Option<String>,
    /// Measured time in seconds; all rates refer to it. A log may end before the
    /// requested duration.
    pub asked_s: f64,
    /// Warm-up in seconds.
    pub warmup_s: f64,
    /// Longest time without progress, in seconds; failed requests count in means as at least this.
    pub timeout_s: f64,
    /// Time between the starts of two users in seconds; `None` if they do not start one after another.
    pub stagger_s: Option<f64>,
    /// Mean rate set by flag or log, in objects per second.
    pub rate_asked: Option<f64>,
    /// Arrivals drawn over all machines, without the warm-up.
    pub arrivals_drawn: Option<u64>,
    /// Measured seconds at an early stop; 0 if stopped in the warm-up; `None` without a stop.
    pub stopped_after_s: Option<f64>,
    /// Rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Agreed start in seconds since 1970, if any.
    pub start_at: Option<f64>,
    /// Start of this process in seconds since 1970.
    pub started_at: f64,
    /// Shares of all ranks.
    pub shares: Vec<Share>,
    /// Largest object of each size decile, in bytes.
    pub decile_bytes: Vec<u64>,
    /// Limits of a valid run.
    pub bounds: Bounds,
    /// Processor share of each thread in the measured time.
    pub cpu: Vec<f64>,
    /// The measurement.
    pub record: Record,
}

fn get() -> String {
    "GET".to_owned()
}

/// Default for results written before this field existed.
fn once_accepted() -> String {
    "200-399".to_owned()
}

impl Run {
    /// The requested run of this process, for the verdict.
    fn asked(&self) -> Asked {
        let share = self.shares.get(self.rank as usize);
        let users = share
            .map(|share| share.users)
            .filter(|_| matches!(self.model.as_str(), "users" | "clients" | "sessions"));
        Asked {
            duration: seconds(self.asked_s),
            arrivals: share
                .and_then(|share| share.objects)
                .filter(|_| matches!(self.model.as_str(), "poisson" | "constant" | "replay")),
            users,
            // With random arrivals of sessions, some may be due after the end.
            users_missing_max: match self.model.as_str() {
                "sessions" => (users.unwrap_or(0) as f64 * self.bounds.shortfall_max).ceil() as u64,
                _ => 0,
            },
            paced: self.model != "clients",
            corrected_p999: self
                .corrected()
                .and_then(|(times, lost)| times.quantile_with(0.999, lost.count)),
        }
    }

    /// Whether this is a closed loop, which sends less to a slow server.
    pub fn is_closed(&self) -> bool {
        matches!(self.model.as_str(), "users" | "clients")
    }

    /// Longest time of a request without progress.
    pub fn timeout(&self) -> Duration {
        seconds(self.timeout_s)
    }

    /// Time over which completed files are counted for rates.
    pub fn measured(&self) -> Duration {
        seconds(self.stopped_after_s.unwrap_or(self.asked_s).min(self.asked_s))
    }

    /// Mean time between two requests of a user or client in a closed loop: the rate at which it would send if all
    /// responses took the mean time. `None` in an open loop, or if nothing completed.
    pub fn expected_interval(&self) -> Option<Duration> {
        let record = &self.record;
        let files = record.files_in_time;
        (self.is_closed() && files > 0 && record.users_begun > 0)
            .then(|| seconds(self.measured().as_secs_f64() * record.users_begun as f64 / files as f64))
    }

    /// Response times corrected for coordinated omission, and the requests without a time; `None` in an open loop.
    /// Failed and incomplete requests add the requests that their clients did not send meanwhile; those count as longer
    /// than all recorded times.
    pub fn corrected(&self) -> Option<(Times, Lost)> {
        let interval = self.expected_interval()?;
        let record = &self.record;
        // Older results lack `held`; the times to failure are the next best.
        let held = match record.held.count() {
            0 => &record.failed,
            _ => &record.held,
        };
        let all = held.corrected(interval);
        let missing = all.count() - held.count();
        let lost = record.lost_files(self.timeout());
        let more = Lost {
            count: lost.count + missing,
            timed: lost.timed + record.waited.count() + missing,
            // A missing request would have taken the time that was left.
            least_ns: lost.least_ns + record.waited.total_ns() + (all.total_ns() - held.total_ns()).max(0.0),
        };
        Some((record.response.corrected(interval), more))
    }

    /// Verdict on this process and its own share.
    pub fn verdict(&self) -> Verdict {
        let asked = self.asked();
        let stopped = self.stopped_after_s.map(seconds);
        judge(&self.record, &asked, &self.cpu, stopped, &self.bounds)
    }

    /// Whether unanswered load is the only reason against the run: files failed or came too late, or arrivals found
    /// every connection busy. Such a run shows that the load was too high, and nothing about response times.
    pub fn is_overloaded(&self) -> bool {
        if self.verdict().valid {
            return false;
        }
        let mut answered = self.clone();
        answered.record.files_failed = 0;
        answered.record.files_in_time = answered.record.files;
        answered.record.dropped = 0;
        // Without the series there are no outages.
        answered.record.seconds.clear();
        let share = self.shares.get(self.rank as usize);
        answered.record.objects_begun = share.and_then(|share| share.objects).unwrap_or(0);
        answered.verdict().valid
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// A step of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepName {
    /// Name of its scenario.
    pub scenario: String,
    /// Its own name, unique in the run.
    pub name: String,
}

/// Parts of one run by rank; never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts(BTreeMap<u32, Run>);

impl Parts {
    /// The parts of one run; repeated parts count once.
    ///
    /// # Errors
    /// Names the conflicting parts by rank.
    pub fn of(runs: impl IntoIterator<Item = Run>) -> Result<Parts, String> {
        Parts::named(runs.into_iter().map(|run| (String::new(), run)))
    }

    /// The parts of one run, each with a name for error messages, such as its file and line.
    ///
    /// # Errors
    /// Names the conflicting parts by name and rank.
    pub fn named(runs: impl IntoIterator<Item = (String, Run)>) -> Result<Parts, String> {
        let mut parts: BTreeMap<u32, (String, Run)> = BTreeMap::new();
        for (name, run) in runs {
            let name = match name.as_str() {
                "" => format!("rank {}", run.rank),
                name => format!("{name} (rank {})", run.rank),
            };
            if run.rank >= run.size || run.shares.len() != run.size as usize {
                return Err(format!(
                    "{name} gives {} ranks but {} shares: it is not part of a run",
                    run.size,
                    run.shares.len()
                ));
            }
            fits(&name, &run)?;
            if let Some((first_name, first)) = parts.values().next() {
                belongs((first_name.as_str(), first), (name.as_str(), &run))?;
            }
            if let Some((before, _)) = parts.values().find(|(_, before)| is_copied(before, &run)) {
                return Err(format!(
                    "{before} and {name} have two ranks but one measurement: one of the ranks is wrong"
                ));
            }
            match parts.get(&run.rank) {
                Some((before_name, before)) if *before != run => {
                    return Err(format!(
                        "{before_name} and {name} are two different results of rank {}; give results of one run",
                        run.rank
                    ));
                }
                _ => {
                    parts.insert(run.rank, (name, run));
                }
            }
        }
        if parts.is_empty() {
            return Err("there is no result".to_owned());
        }
        let parts = parts.into_iter().map(|(rank, (_, run))| (rank, run));
        Ok(Parts(parts.collect()))
    }

    /// The parts, by rank.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.0.values()
    }

    /// The first part, for the fields that all parts share.
    pub fn first(&self) -> &Run {
        self.0.values().next().expect("there is at least one part")
    }

    /// The merged run: the first part with the merged record.
    pub fn whole(&self) -> Run {
        // Records are large: that of the first part is copied once.
        let mut whole = self.first().clone();
        self.runs()
            .skip(1)
            .for_each(|run| whole.record.merge(&run.record));
        whole.cpu = self.runs().flat_map(|run| run.cpu.iter().copied()).collect();
        whole.stopped_after_s = self.runs().filter_map(|run| run.stopped_after_s).reduce(f64::min);
        whole
    }

    /// The missing ranks with their shares.
    pub fn missing(&self) -> Vec<(u32, Share)> {
        let shares = (0..).zip(&self.first().shares);
        shares
            .filter(|(rank, _)| !self.0.contains_key(rank))
            .map(|(rank, share)| (rank, *share))
            .collect()
    }

    /// The requested run of all ranks together.
    pub fn planned(&self) -> Share {
        let mut sum = Share::NONE;
        self.first().shares.iter().for_each(|share| sum.add(share));
        sum
    }

    /// The verdict on the whole: on each part, and whether any rank is missing.
    pub fn verdict(&self) -> Verdict {
        let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
        let missing = self.missing();
        if !missing.is_empty() {
            let ranks: Vec<String> = missing.iter().map(|(rank, _)| rank.to_string()).collect();
            let mut lost = Share::NONE;
            missing.iter().for_each(|(_, share)| lost.add(share));
            reasons.push(format!(
                "{} of {} ranks {} missing ({}), and with {} {}",
                missing.len(),
                self.first().size,
                if missing.len() == 1 { "is" } else { "are" },
                ranks.join(", "),
                if missing.len() == 1 { "it" } else { "them" },
                carried(&lost, &self.planned()),
            ));
        }
        let starts = || self.runs().map(|run| run.started_at);
        let spread = starts().fold(f64::MIN, f64::max) - starts().fold(f64::MAX, f64::min);
        if spread > SPREAD_MAX {
            reasons.push(format!(
                "the ranks began {spread:.1} s apart; the limit is {SPREAD_MAX:.1} s (--start-at, --start-with)"
            ));
        }
        for run in self.runs() {
            let of = |reason| match self.first().size {
                1 => reason,
                _ => format!("rank {}: {reason}", run.rank),
            };
            let verdict = run.verdict();
            reasons.extend(verdict.reasons.into_iter().map(of));
            warnings.extend(verdict.warnings.into_iter().map(of));
        }
        Verdict {
            valid: reasons.is_empty(),
            reasons,
            warnings,
        }
    }
}

/// Whether a result can be that of its rank: it did no more than its share, and its command line names no other rank.
/// The verdict reports a rank that did less.
fn fits(name: &str, run: &Run) -> Result<(), String> {
    let asked = run.asked();
    let record = &run.record;
    let begun = record.objects_begun + record.left_out.objects_begun;
    for (did, share, what) in [
        (record.users_begun, asked.users, "users"),
        (begun, asked.arrivals, "objects"),
    ] {
        if let Some(share) = share.filter(|&share| did > share) {
            return Err(format!(
                "{name} has {did} {what} that began, but the share of that rank is {share}: it is not a result of that rank"
            ));
        }
    }
    let mut words = run.command.iter();
    let said = words.find_map(|word| match word.strip_prefix("--rank")? {
        "" => Some(None),
        rest => rest.strip_prefix('=').map(Some),
    });
    let said = said.and_then(|value| value.or_else(|| words.next().map(String::as_str)));
    match said.and_then(|said| said.parse::<u32>().ok()) {
        Some(said) if said != run.rank => Err(format!(
            "{name} was started as rank {said} (`{}`): it is not a result of that rank",
            run.command.join(" ")
        )),
        _ => Ok(()),
    }
}

/// Whether two ranks have one measurement, which is impossible on two machines.
fn is_copied(before: &Run, run: &Run) -> bool {
    before.rank != run.rank && before.started_at == run.started_at && before.record == run.record
}

/// Whether `run` belongs to the same run as `first`.
fn belongs(first: (&str, &Run), run: (&str, &Run)) -> Result<(), String> {
    let ((first_name, first), (name, run)) = (first, run);
    let not = |why: String| Err(format!("{first_name} and {name} are not of one run: {why}"));
    if first.plan != run.plan {
        return not(format!("their plans are {} and {}", first.plan, run.plan));
    }
    if first.size != run.size {
        return not(format!(
            "their numbers of machines are {} and {}",
            first.size, run.size
        ));
    }
    if first.shares != run.shares {
        return not(format!(
            "the shares of the {} machines differ between them",
            run.size
        ));
    }
    match (first.start_at, run.start_at) {
        (Some(a), Some(b)) if a != b => not(format!("their agreed starts are {a} and {b}")),
        (Some(_), None) | (None, Some(_)) => not("only one of them had an agreed start".to_owned()),
        _ => Ok(()),
    }
}

/// Text for the load lost with missing ranks.
fn carried(lost: &Share, all: &Share) -> String {
    let mut parts = Vec::new();
    if lost.users > 0 {
        parts.push(format!("{} of {} users", lost.users, all.users));
    }
    for (part, whole, what) in [
        (lost.objects, all.objects, "objects"),
        (lost.files, all.files, "files"),
        (lost.bytes, all.bytes, "bytes"),
    ] {
        if let (Some(part), Some(whole)) = (part, whole.filter(|&whole| whole > 0)) {
            parts.push(format!("{part} of {whole} {what}"));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(rank: u32, size: u32, files: u64) -> Run {
        let mut record = Record {
            files,
            files_in_time: files,
            objects_begun: files,
            users_begun: 2,
            ..Record::default()
        };
        record.tick.add(Duration::from_micros(50));
        let share = Share {
            users: 2,
            objects: Some(50),
            files: Some(100),
            bytes: Some(1000),
        };
        Run {
            format: FORMAT.to_owned(),
            version: VERSION,
            command: vec!["weir".to_owned()],
            program: "weir".to_owned(),
            kernel: None,
            processor: None,
            clock: "test".to_owned(),
            seed: 1,
            plan: "p".to_owned(),
            peer: "h:1".to_owned(),
            workload: "surge".to_owned(),
            model: "users".to_owned(),
            mode: "serial".to_owned(),
            verified: false,
            method: get(),
            body_bytes: None,
            step_names: Vec::new(),
            tls: None,
            headers: Vec::new(),
            accept_status: "200".to_owned(),
            users: Some(6),
            schedule: None,
            asked_s: 10.0,
            warmup_s: 0.0,
            timeout_s: 10.0,
            stagger_s: Some(0.05),
            rate_asked: None,
            arrivals_drawn: None,
            stopped_after_s: None,
            rank,
            size,
            start_at: Some(100.0),
            started_at: 100.0 + f64::from(rank) * 0.1,
            shares: vec![share; size as usize],
            decile_bytes: Vec::new(),
            bounds: Bounds::DEFAULT,
            cpu: vec![0.1],
            record,
        }
    }

    #[test]
    fn order_repetition_and_grouping_do_not_matter() {
        let [a, b, c] = [run(0, 3, 5), run(1, 3, 7), run(2, 3, 11)];
        let whole = Parts::of([a.clone(), b.clone(), c.clone()]).expect("one run");
        assert_eq!(whole.whole().record.files, 23);
        assert!(whole.verdict().valid, "{:?}", whole.verdict());
        let left = Parts::of([a.clone(), b.clone()]).expect("one run");
        let right = Parts::of([c.clone(), b.clone()]).expect("one run");
        for again in [
            vec![c.clone(), a.clone(), b.clone()],
            vec![a.clone(), b.clone(), a, c.clone(), b, c],
            left.runs().chain(right.runs()).cloned().collect(),
        ] {
            assert_eq!(Parts::of(again).expect("one run"), whole);
        }
    }

    #[test]
    fn missing_ranks_are_named_with_what_they_would_have_done() {
        let parts = Parts::of([run(0, 3, 5), run(2, 3, 7)]).expect("one run");
        assert_eq!(parts.missing().len(), 1);
        let verdict = parts.verdict();
        assert!(!verdict.valid);
        let said = verdict.reasons.concat();
        assert!(
            said.contains(
                "1 of 3 ranks is missing (1), and with it 2 of 6 users, 50 of 150 objects, 100 of 300 files"
            ),
            "{said}"
        );
    }

    #[test]
    fn what_is_not_of_one_run_is_refused() {
        let check = |other: Run, fragment: &str| {
            let error = Parts::of([run(0, 3, 5), other]).expect_err(fragment);
            assert!(error.contains(fragment), "{error}");
        };
        check(
            Run {
                plan: "q".to_owned(),
                ..run(1, 3, 1)
            },
            "their plans",
        );
        check(run(1, 4, 1), "their numbers of machines are 3 and 4");
        let mut other = run(1, 3, 1);
        other.shares[2].users = 9;
        check(other, "the shares of the 3 machines differ");
        check(
            Run {
                start_at: Some(7.0),
                ..run(1, 3, 1)
            },
            "agreed starts",
        );
        check(
            Run {
                start_at: None,
                ..run(1, 3, 1)
            },
            "agreed start",
        );
        check(run(0, 3, 6), "two different results of rank 0");
        check(
            Run {
                rank: 3,
                ..run(1, 3, 1)
            },
            "not part of a run",
        );
        assert!(Parts::of([]).is_err());
    }

    #[test]
    fn what_is_refused_is_named() {
        let error = |a: Run, b: Run| {
            let named = [("`a` line 1".to_owned(), a), ("`b` line 2".to_owned(), b)];
            Parts::named(named).expect_err("they do not belong together")
        };
        let other = Run {
            plan: "q".to_owned(),
            ..run(0, 3, 1)
        };
        assert_eq!(
            error(run(0, 3, 5), other),
            "`a` line 1 (rank 0) and `b` line 2 (rank 0) are not of one run: their plans are p and q"
        );
        let said = error(run(0, 3, 5), run(0, 3, 6));
        assert!(
            said.contains("`a` line 1 (rank 0) and `b` line 2 (rank 0) are two different results"),
            "{said}"
        );
    }

    /// A part with a changed rank is not accepted as another machine's.
    #[test]
    fn a_part_is_of_the_rank_it_says() {
        let refused = |run: Run, fragment: &str| {
            let error = Parts::of([run]).expect_err(fragment);
            assert!(error.contains(fragment), "{error}");
        };
        let mut many = run(1, 3, 5);
        many.record.users_begun = 3;
        refused(many, "3 users that began, but the share of that rank is 2");
        let mut arrived = run(1, 3, 51);
        arrived.model = "poisson".to_owned();
        refused(arrived.clone(), "51 objects that began");
        arrived.record.objects_begun = 50;
        Parts::of([arrived]).expect("its share");
        for words in [&["weir", "--rank", "0"][..], &["weir", "--rank=0", "x"]] {
            let mut moved = run(1, 3, 5);
            moved.command = words.iter().map(ToString::to_string).collect();
            refused(moved.clone(), "was started as rank 0");
            moved.rank = 0;
            Parts::of([moved]).expect("that of its command");
        }
        let copied = Run {
            rank: 1,
            ..run(0, 3, 5)
        };
        let error = Parts::of([run(0, 3, 5), copied]).expect_err("a copy");
        assert!(error.contains("two ranks but one measurement"), "{error}");
    }

    #[test]
    fn users_who_never_began_make_a_run_invalid() {
        let mut short = run(1, 2, 5);
        short.record.users_begun = 1;
        let verdict = Parts::of([run(0, 2, 5), short.clone()])
            .expect("one run")
            .verdict();
        assert_eq!(verdict.reasons.len(), 1, "{verdict:?}");
        assert!(
            verdict.reasons[0].contains("rank 1: only 1 of 2 users ever began"),
            "{verdict:?}"
        );
        // Sessions are an arrival process, so some may be due at the end; arrivals have no users.
        for model in ["sessions", "poisson"] {
            short.model = model.to_owned();
            short.shares[1].objects = Some(5);
            assert!(short.verdict().valid, "{model}: {:?}", short.verdict());
        }
    }

    #[test]
    fn what_was_not_answered_is_told_from_what_was_not_asked() {
        let mut open = run(0, 1, 50);
        open.model = "poisson".to_owned();
        assert!(open.verdict().valid && !open.is_overloaded());
        open.record.files_in_time = 0;
        assert!(!open.verdict().valid && open.is_overloaded());
        open.record.files_failed = 9;
        assert!(!open.verdict().valid && open.is_overloaded());
        open.record.objects_begun = 20;
        open.record.dropped = 30;
        assert!(open.is_overloaded());
        open.cpu = vec![1.0];
        assert!(!open.is_overloaded(), "this client was busy");
    }

    /// Two users, ten seconds, a hundred files: one request per 200 ms.
    #[test]
    fn closed_runs_are_corrected_by_how_often_a_user_asks() {
        let mut closed = run(0, 1, 100);
        for _ in 0..99 {
            closed.record.response.add(Duration::from_millis(10));
        }
        closed.record.response.add(Duration::from_millis(1000));
        closed.record.fail(
            1,
            Duration::from_millis(610),
            units::Instant::ZERO,
            units::Instant::ZERO,
        );
        assert_eq!(closed.expected_interval(), Some(Duration::from_millis(200)));
        let (times, lost) = closed.corrected().expect("it is closed");
        // Requests with 800, 600, 400 and 200 ms are missing; for the failed one, 410 and 210.
        assert_eq!((times.count(), lost.count, lost.timed), (104, 3, 3));
        let least = lost.least_ns / 1e6;
        assert!((least - 10_000.0 - 410.0 - 210.0).abs() < 10.0, "{least}");
        for model in ["poisson", "replay", "sessions"] {
            closed.model = model.to_owned();
            assert!(closed.corrected().is_none(), "{model}");
        }
    }

    /// Four users over ten seconds, each with a request every 10 ms until the server stalls at 8.4 s.
    #[test]
    fn what_never_ended_adds_what_was_not_asked_meanwhile() {
        let mut closed = run(0, 1, 0);
        closed.asked_s = 10.0;
        let record = &mut closed.record;
        (record.users_begun, record.files, record.files_in_time) = (4, 3360, 3360);
        let answered = Duration::from_millis(5);
        record.response.add_n(answered, 3360);
        for _ in 0..4 {
            record.abandon(1, Duration::from_millis(2600));
            record.held.add(Duration::from_millis(1600));
        }
        let (times, lost) = closed.corrected().expect("it is closed");
        // One request per 11.9 ms: 133 missing for each user.
        assert_eq!(
            (times.count(), lost.count, lost.timed),
            (3360, 4 + 4 * 133, 4 + 4 * 133)
        );
        let shown = times.summary_with(&lost);
        assert_eq!(
            (shown.p90, shown.p99, shown.p999, shown.max),
            (None, None, None, None)
        );
        assert!(shown.p50.is_some_and(|p50| p50 < 5.1), "{shown:?}");
        // 3,360 of 5 ms, four of 2.6 s, and the missing requests with 0.8 s on average.
        assert!(
            (shown.mean / ((3360.0 * 5.0 + 4.0 * 2600.0 + 532.0 * 800.0) / 3896.0) - 1.0).abs() < 0.02,
            "{shown:?}"
        );
        // A server that refuses at once: each attempt costs its user the pause before the next.
        let mut refused = run(0, 1, 0);
        refused.asked_s = 2.0;
        let record = &mut refused.record;
        (record.users_begun, record.files, record.files_in_time) = (4, 4800, 4800);
        record.response.add_n(Duration::from_millis(1), 4800);
        let at = units::Instant::ZERO + Duration::from_millis(1300);
        record.fail(32, Duration::from_micros(50), at, units::Instant::ZERO);
        record.held.add_n(Duration::from_millis(100), 32);
        let (times, lost) = refused.corrected().expect("it is closed");
        // One request per 1.67 ms: 59 missing for each, or 58 by the histogram's precision.
        assert!((32 * 59..=32 * 60).contains(&lost.count), "{}", lost.count);
        let shown = times.summary_with(&lost);
        assert_eq!((shown.p90, shown.p99), (None, None));
    }

    #[test]
    fn parts_that_began_apart_are_no_run() {
        let late = Run {
            started_at: 105.0,
            ..run(1, 2, 5)
        };
        let parts = Parts::of([run(0, 2, 5), late]).expect("one run");
        assert!(parts.verdict().reasons.concat().contains("5.0 s apart"));
        let stopped = Run {
            stopped_after_s: Some(2.0),
            ..run(1, 2, 5)
        };
        let parts = Parts::of([run(0, 2, 5), stopped]).expect("one run");
        assert!(
            parts
                .verdict()
                .reasons
                .concat()
                .contains("rank 1: it was stopped")
        );
    }
}
