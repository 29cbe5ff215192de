//! The record of a run: latencies, a series by second, errors by kind.
//!
//! *Service* time begins where document 000's client reads its clock: before the connection is opened, otherwise when
//! the request is sent, otherwise when the previous file of a pipelined batch completed. *Response* time begins at
//! the intended start; for arrivals, the difference is the waiting that coordinated omission hides. Users in a closed
//! loop intend to send only after a response, so both times omit that waiting. Failed requests have a histogram of
//! their own and count in quantiles as longer than all others. Records of several crews and machines add up exactly,
//! before and after they were serialized. Knows no clock.

use crate::replies::{Breach, Refused, Statuses};
use crate::times::{Lost, Sparse, Times, nanoseconds};
use crate::webstone::Counts;
use measure::{Duration, Instant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Seconds of a series at the most: a day.
const SECONDS_MAX: usize = 86_400;
/// Bytes of a path that are kept.
const PATH_MAX: usize = 200;
/// Classes of object sizes, equally often asked for.
pub const DECILES: usize = 10;

/// What went wrong. All but the last four are counted once for each connection they happen to, whether what was owed on it is asked for
/// again, or given up, which is many files; the last four once for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// This machine had no descriptor, port or memory for a connection.
    Here,
    /// A connection could not be opened.
    Connect,
    /// A connection was reset while a reply was owed.
    Lost,
    /// A connection was closed while a reply was owed, none of which had come, and so were those before it on which the same was asked for: it
    /// is given up. The closes before that are no trouble: a server may close (RFC 9112 section 9.5).
    Unanswered,
    /// Nothing came for too long.
    Timeout,
    /// What came was not HTTP, or nobody had asked for it.
    Protocol,
    /// A reply was cut short.
    Truncated,
    /// A status that is none of a good file.
    Status,
    /// A body of another length than the manifest's.
    Length,
    /// A body of another content than the manifest's.
    Content,
}

impl Trouble {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::Here => "here",
            Trouble::Connect => "connect",
            Trouble::Lost => "lost",
            Trouble::Unanswered => "unanswered",
            Trouble::Truncated => "truncated",
            Trouble::Timeout => "timeout",
            Trouble::Protocol => "protocol",
            Trouble::Status => "status",
            Trouble::Length => "length",
            Trouble::Content => "content",
        }
    }
}

/// A file that was not as it should be: of several, the first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Example {
    /// When, from the start of the run.
    pub at_ns: u64,
    /// Its path.
    pub path: Box<str>,
    /// Its length, if that is known.
    pub wanted: Option<u64>,
    /// The length that came, if that is known.
    pub came: Option<u64>,
}

impl core::fmt::Display for Example {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "`{}`", self.path)?;
        match (self.came, self.wanted) {
            (Some(came), Some(wanted)) if came != wanted => write!(f, ", {came} bytes instead of {wanted}"),
            _ => Ok(()),
        }
    }
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Objects begun.
    pub begun: u64,
    /// Files complete.
    pub files: u64,
    /// Content received.
    pub bytes: u64,
    /// Troubles.
    pub errors: u64,
    /// Response times of its files.
    pub response: Sparse,
    /// Files given up.
    #[serde(default, skip_serializing_if = "is_none")]
    pub failed: u64,
    /// Objects under way when it began.
    #[serde(default, skip_serializing_if = "is_none")]
    pub under_way: u64,
    /// Bytes received in it, heads among them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub received: u64,
    /// When the first of its files was complete, in nanoseconds from its beginning; none if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns: Option<u64>,
    /// When the last of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<u64>,
    /// When the last of its files was given up, in nanoseconds from its beginning; none if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_ns: Option<u64>,
    /// Complete replies with a status of 300 to 399, whether that is good or not.
    #[serde(default, skip_serializing_if = "is_none")]
    pub replies_3xx: u64,
    /// The same of 400 to 499.
    #[serde(default, skip_serializing_if = "is_none")]
    pub replies_4xx: u64,
    /// The same of 500 to 599.
    #[serde(default, skip_serializing_if = "is_none")]
    pub replies_5xx: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Second {
    /// Counts a file that was complete so long after the second began.
    fn complete(&mut self, bytes: u64, after_ns: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.first_ns = Some(self.first_ns.map_or(after_ns, |first| first.min(after_ns)));
        self.last_ns = Some(self.last_ns.map_or(after_ns, |last| last.max(after_ns)));
    }

    /// Adds what another crew measured in the same second.
    fn add(&mut self, other: &Second) {
        for (sum, part) in [
            (&mut self.begun, other.begun),
            (&mut self.files, other.files),
            (&mut self.bytes, other.bytes),
            (&mut self.errors, other.errors),
            (&mut self.failed, other.failed),
            (&mut self.under_way, other.under_way),
            (&mut self.received, other.received),
            (&mut self.replies_3xx, other.replies_3xx),
            (&mut self.replies_4xx, other.replies_4xx),
            (&mut self.replies_5xx, other.replies_5xx),
        ] {
            *sum += part;
        }
        self.response.merge(&other.response);
        self.first_ns = self.first_ns.into_iter().chain(other.first_ns).min();
        self.last_ns = self.last_ns.max(other.last_ns);
        self.last_failed_ns = self.last_failed_ns.max(other.last_failed_ns);
    }

    fn replied(&mut self, status: u16) {
        match status {
            300..400 => self.replies_3xx += 1,
            400..500 => self.replies_4xx += 1,
            500..600 => self.replies_5xx += 1,
            _ => {}
        }
    }
}

/// What a warm-up did, which no figure of the run knows of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Objects begun.
    pub objects_begun: u64,
    /// Objects complete.
    pub objects: u64,
    /// Files complete.
    pub files: u64,
    /// Files given up.
    pub files_failed: u64,
    /// Content received.
    pub bytes: u64,
    /// Troubles.
    pub errors: u64,
}

impl LeftOut {
    /// Adds another.
    fn add(&mut self, other: &LeftOut) {
        self.objects_begun += other.objects_begun;
        self.objects += other.objects;
        self.files += other.files;
        self.files_failed += other.files_failed;
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// From when a file was meant to be asked for to when it was given up, of each of `files_failed`.
    #[serde(default)]
    pub failed: Times,
    /// How long each object under way when patience ended had been awaited by then; one of each of `unfinished`.
    #[serde(default)]
    pub waited: Times,
    /// How long each request that failed or was never complete kept its client from asking within the run, the pause before the next
    /// try included. Several files that were given up together count once.
    #[serde(default)]
    pub held: Times,
    /// From a file's mark to its end. This and the next one, `first_byte` and `transfer` are each of every file that is complete and as it should
    /// be, and of no other: how long a failure took says nothing of files.
    pub service: Times,
    /// From when it was meant to be asked for to its end.
    pub response: Times,
    /// Opening a connection, of each that came to stand, whatever was then answered on it.
    pub connect: Times,
    /// From the mark, or the connection's standing, to the first byte of the reply.
    pub first_byte: Times,
    /// From the first byte to the end.
    pub transfer: Times,
    /// A whole object, from when it was meant to begin, of those all of whose files are as they should be.
    pub object: Times,
    /// The same by decile of the object's size, smallest first; empty where sizes are not known.
    pub deciles: Vec<Times>,
    /// Objects of each decile that were given up; empty where sizes are not known or none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deciles_failed: Vec<u64>,
    /// How late this program was to act on the alarms of users and arrivals.
    pub lag: Times,
    /// How late each of its threads was for a tick every 10 ms; of those that a thread slept through, each.
    pub tick: Times,
    /// By second from the start.
    pub seconds: Vec<Second>,
    /// How often each trouble came.
    pub troubles: BTreeMap<Trouble, u64>,
    /// Of each trouble that is of files, the first.
    #[serde(default)]
    pub examples: BTreeMap<Trouble, Example>,
    /// Connections that came to stand. One that could not be opened is a trouble and no connection.
    pub connections: u64,
    /// The same, with those that a warm-up had opened and that stood when it was over.
    pub established: u64,
    /// Sum over connections of how long they stood.
    #[serde(rename = "standing_ns", with = "nanoseconds")]
    pub standing: Duration,
    /// Complete replies by status: those of files and of such as failed by their status, length or content.
    #[serde(default)]
    pub statuses: Statuses,
    /// Of these, the ones whose status is none of a good file.
    #[serde(default)]
    pub refused: BTreeMap<u16, Refused>,
    /// The first time that what came was not HTTP.
    #[serde(default)]
    pub breach: Option<Breach>,
    /// Connections that the server closed or reset although more could have followed.
    pub closed_by_server: u64,
    /// Requests sent again on another connection because the server had closed theirs unanswered.
    pub resent: u64,
    /// Users who began, of those who come by themselves (not with arrivals).
    pub users_begun: u64,
    /// When the last of them did, from the start of the run.
    #[serde(rename = "last_begun_ns", with = "nanoseconds")]
    pub last_begun: Duration,
    /// What a warm-up did; nothing else here knows of it.
    pub left_out: LeftOut,
    /// Objects begun.
    pub objects_begun: u64,
    /// Objects complete.
    pub objects: u64,
    /// Files complete.
    pub files: u64,
    /// Those of them that were complete before the time they are counted over ended.
    pub files_in_time: u64,
    /// Files given up.
    pub files_failed: u64,
    /// Content received.
    pub bytes: u64,
    /// That of the files that were complete in time.
    pub bytes_in_time: u64,
    /// Everything received, heads among it.
    pub bytes_received: u64,
    /// Requests that ended before the time they are counted over did, as WebStone counts them.
    pub in_time: Counts,
    /// Open arrivals that found no room to wait.
    pub dropped: u64,
    /// Files under way when patience ended.
    pub unfinished: u64,
    /// Errno of the last local refusal.
    pub refusal: Option<i32>,
    /// The second that is not over, and the response times in it.
    #[serde(skip)]
    pub(crate) under_way: (usize, Times),
}

impl Record {
    /// The second that `now` lies in.
    pub fn second(&mut self, now: Instant, began: Instant) -> &mut Second {
        let number = number(now, began);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        &mut self.seconds[number]
    }

    /// Records the response time of a file that is complete.
    pub fn respond(&mut self, time: Duration, now: Instant, began: Instant) {
        self.response.add(time);
        let number = number(now, began);
        if number != self.under_way.0 {
            self.settle();
            self.under_way.0 = number;
        }
        self.under_way.1.add(time);
    }

    /// Counts a file that was complete, and as it should be.
    pub fn complete(&mut self, bytes: u64, now: Instant, began: Instant) {
        self.second(now, began).complete(bytes, into_second(now, began));
    }

    /// Counts files that were given up, so long after they were meant to be asked for.
    pub fn fail(&mut self, files: u64, took: Duration, now: Instant, began: Instant) {
        if files > 0 {
            self.files_failed += files;
            self.failed.add_n(took, files);
            let second = self.second(now, began);
            second.failed += files;
            second.last_failed_ns = second.last_failed_ns.max(Some(into_second(now, began)));
        }
    }

    /// Counts an object that is still under way when patience ends, after it was awaited for so long.
    pub fn abandon(&mut self, waited: Duration) {
        self.unfinished += 1;
        self.waited.add(waited);
    }

    /// Remembers a file that was not as it should be, if it is the first with this trouble.
    pub fn example(
        &mut self,
        trouble: Trouble,
        path: &str,
        lengths: [Option<u64>; 2],
        now: Instant,
        began: Instant,
    ) {
        let at_ns = u64::try_from(now.since(began).as_nanos()).unwrap_or(u64::MAX);
        if self
            .examples
            .get(&trouble)
            .is_none_or(|first| at_ns < first.at_ns)
        {
            let end = path.floor_char_boundary(PATH_MAX);
            let [wanted, came] = lengths;
            let path = path[..end].into();
            let example = Example {
                at_ns,
                path,
                wanted,
                came,
            };
            self.examples.insert(trouble, example);
        }
    }

    /// Requests that have no time in the histograms of files, where each that failed counts in a mean as at least `timeout`.
    pub fn lost_files(&self, timeout: Duration) -> Lost {
        Lost {
            count: self.files_failed + self.unfinished,
            timed: self.failed.count(),
            least_ns: self.failed.total_of_at_least(timeout),
        }
    }

    /// The same of objects.
    pub fn lost_objects(&self, timeout: Duration) -> Lost {
        let count = self.objects_begun.saturating_sub(self.objects);
        let timed = count.saturating_sub(self.unfinished);
        Lost {
            count,
            timed,
            least_ns: timed as f64 * timeout.as_nanos() as f64,
        }
    }

    /// Counts an object of this decile of sizes that was given up.
    pub fn decile_failed(&mut self, decile: usize) {
        if self.deciles_failed.is_empty() {
            self.deciles_failed = vec![0; DECILES];
        }
        if let Some(count) = self.deciles_failed.get_mut(decile) {
            *count += 1;
        }
    }

    /// Records how long an object of this decile of sizes took.
    pub fn decile(&mut self, decile: usize, time: Duration) {
        if self.deciles.is_empty() {
            self.deciles = vec![Times::default(); DECILES];
        }
        if let Some(times) = self.deciles.get_mut(decile) {
            times.add(time);
        }
    }

    /// Puts what the second under way has into the series. A record is read after this.
    pub fn settle(&mut self) {
        let (number, times) = &mut self.under_way;
        if times.count() == 0 {
            return;
        }
        let sparse = times.sparse();
        times.clear();
        let number = core::mem::take(number);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        self.seconds[number].response.merge(&sparse);
    }

    /// Counts a complete reply.
    #[inline]
    pub fn replied(&mut self, status: u16, now: Instant, began: Instant) {
        self.statuses.add(status);
        if status >= 300 {
            self.second(now, began).replied(status);
        }
    }

    /// Remembers that what came was not HTTP, if it is the first time.
    pub fn breached(&mut self, fault: &str, seen: &[u8], now: Instant, began: Instant) {
        let breach = Breach {
            at_ns: u64::try_from(now.since(began).as_nanos()).unwrap_or(u64::MAX),
            fault: fault.into(),
            seen: seen.escape_ascii().to_string().into(),
        };
        Breach::first(&mut self.breach, Some(&breach));
    }

    /// Counts a trouble.
    pub fn trouble(&mut self, trouble: Trouble, now: Instant, began: Instant) {
        *self.troubles.entry(trouble).or_default() += 1;
        self.second(now, began).errors += 1;
    }

    /// All troubles.
    pub fn errors(&self) -> u64 {
        self.troubles.values().sum()
    }

    /// How often this trouble came.
    pub fn count(&self, trouble: Trouble) -> u64 {
        self.troubles.get(&trouble).copied().unwrap_or(0)
    }

    /// Adds what another crew of the same run measured; both are settled.
    pub fn merge(&mut self, other: &Record) {
        for (sum, part) in [
            (&mut self.failed, &other.failed),
            (&mut self.waited, &other.waited),
            (&mut self.held, &other.held),
            (&mut self.service, &other.service),
            (&mut self.response, &other.response),
            (&mut self.connect, &other.connect),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.transfer, &other.transfer),
            (&mut self.object, &other.object),
            (&mut self.lag, &other.lag),
            (&mut self.tick, &other.tick),
        ] {
            sum.merge(part);
        }
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (sum, part) in self.seconds.iter_mut().zip(&other.seconds) {
            sum.add(part);
        }
        self.statuses.merge(&other.statuses);
        for (&status, refused) in &other.refused {
            self.refused.entry(status).or_default().merge(refused);
        }
        Breach::first(&mut self.breach, other.breach.as_ref());
        if self.deciles.len() < other.deciles.len() {
            self.deciles.resize(other.deciles.len(), Times::default());
        }
        for (sum, part) in self.deciles.iter_mut().zip(&other.deciles) {
            sum.merge(part);
        }
        if self.deciles_failed.len() < other.deciles_failed.len() {
            self.deciles_failed.resize(other.deciles_failed.len(), 0);
        }
        for (sum, part) in self.deciles_failed.iter_mut().zip(&other.deciles_failed) {
            *sum += part;
        }
        for (&trouble, example) in &other.examples {
            let first = self.examples.entry(trouble).or_insert_with(|| example.clone());
            if example < first {
                first.clone_from(example);
            }
        }
        for (&trouble, count) in &other.troubles {
            *self.troubles.entry(trouble).or_default() += count;
        }
        for (sum, part) in [
            (&mut self.connections, other.connections),
            (&mut self.established, other.established),
            (&mut self.closed_by_server, other.closed_by_server),
            (&mut self.resent, other.resent),
            (&mut self.users_begun, other.users_begun),
            (&mut self.files_in_time, other.files_in_time),
            (&mut self.bytes_in_time, other.bytes_in_time),
            (&mut self.objects_begun, other.objects_begun),
            (&mut self.objects, other.objects),
            (&mut self.files, other.files),
            (&mut self.files_failed, other.files_failed),
            (&mut self.bytes, other.bytes),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.dropped, other.dropped),
            (&mut self.unfinished, other.unfinished),
        ] {
            *sum += part;
        }
        self.left_out.add(&other.left_out);
        self.last_begun = self.last_begun.max(other.last_begun);
        self.in_time.add(&other.in_time);
        self.standing += other.standing;
        // Not the first that is met: sums must not depend on the order.
        self.refusal = self.refusal.max(other.refusal);
    }
}

/// The second that `now` lies in.
fn number(now: Instant, began: Instant) -> usize {
    (now.since(began).as_secs() as usize).min(SECONDS_MAX - 1)
}

/// How long after the beginning of its second `now` is, in nanoseconds.
fn into_second(now: Instant, began: Instant) -> u64 {
    let whole = Duration::from_secs(number(now, began) as u64);
    now.since(began).saturating_sub(whole).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(times: &[u64]) -> Record {
        let mut record = Record::default();
        for &ms in times {
            record.service.add(Duration::from_millis(ms));
            record.files += 1;
            let at = Instant::ZERO + Duration::from_millis(ms);
            record.respond(Duration::from_millis(ms), at, Instant::ZERO);
            record.complete(7, at, Instant::ZERO);
            record.fail(2, Duration::from_millis(ms + 1), at, Instant::ZERO);
            record.held.add(Duration::from_millis(ms + 2));
            record.abandon(Duration::from_millis(ms + 3));
            record.decile_failed((ms % 10) as usize);
            let path = if ms % 3 == 0 { "/a" } else { "/b" };
            record.example(Trouble::Length, path, [Some(ms), None], at, Instant::ZERO);
            let second = record.second(at, Instant::ZERO);
            second.under_way += 3;
            second.received += 9;
            record.trouble(Trouble::Lost, at, Instant::ZERO);
            record.replied(200 + 100 * (ms % 4) as u16, at, Instant::ZERO);
            record.breached("a fault", &[ms as u8, 0], at, Instant::ZERO);
            let refused = record.refused.entry(301).or_default();
            refused.count += 1;
            refused.points_to(if ms % 2 == 0 { b"/even" } else { b"/odd" });
        }
        record.settle();
        record
    }

    #[test]
    fn records_add_up() {
        let (mut a, b) = (record(&[1, 20, 3000]), record(&[5, 4500]));
        let whole = record(&[1, 20, 3000, 5, 4500]);
        (a.users_begun, a.last_begun, a.files_in_time) = (3, Duration::from_millis(100), 2);
        let mut b = b;
        (b.users_begun, b.last_begun, b.files_in_time) = (2, Duration::from_millis(70), 1);
        (a.left_out.files, b.left_out.files, b.left_out.errors) = (5, 2, 1);
        a.merge(&b);
        assert_eq!(
            (a.users_begun, a.last_begun, a.files_in_time),
            (5, Duration::from_millis(100), 3)
        );
        assert_eq!((a.left_out.files, a.left_out.errors), (7, 1));
        assert_eq!(a.service.summary(), whole.service.summary());
        assert_eq!(a.seconds, whole.seconds);
        let last = (a.seconds[4].first_ns, a.seconds[4].last_ns);
        assert_eq!(last, (Some(500_000_000), Some(500_000_000)));
        let first = (a.seconds[0].first_ns, a.seconds[0].last_ns);
        assert_eq!(first, (Some(1_000_000), Some(20_000_000)));
        assert_eq!((a.files_failed, a.failed.count()), (10, 10));
        assert_eq!(
            (a.unfinished, &a.waited, &a.held),
            (5, &whole.waited, &whole.held)
        );
        assert_eq!(a.seconds[4].last_failed_ns, Some(500_000_000));
        assert_eq!(a.deciles_failed, whole.deciles_failed);
        assert_eq!(a.examples[&Trouble::Length].at_ns, 1_000_000);
        assert_eq!((a.files, a.errors(), a.count(Trouble::Lost)), (5, 5, 5));
        assert_eq!(a.count(Trouble::Status), 0);
    }

    #[test]
    fn troubles_are_called_what_results_call_them() {
        for trouble in [
            Trouble::Here,
            Trouble::Connect,
            Trouble::Lost,
            Trouble::Unanswered,
            Trouble::Truncated,
            Trouble::Timeout,
            Trouble::Protocol,
            Trouble::Status,
            Trouble::Length,
            Trouble::Content,
        ] {
            let written = serde_json::to_string(&trouble).expect("JSON");
            assert_eq!(written, format!("\"{}\"", trouble.name()));
        }
    }

    #[test]
    fn records_survive_being_written() {
        let mut a = record(&[1, 20, 3000]);
        a.decile(3, Duration::from_millis(7));
        a.in_time.response_time = Duration::from_nanos(17);
        a.refusal = Some(24);
        (a.users_begun, a.last_begun) = (3, Duration::from_millis(100));
        a.left_out.files = 9;
        let text = serde_json::to_string(&a).expect("JSON");
        let b: Record = serde_json::from_str(&text).expect("a record");
        assert_eq!(a, b);
        assert_eq!(text, serde_json::to_string(&b).expect("JSON"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// However the parts are grouped, ordered and written, the sum is the same.
        #[test]
        fn sums_do_not_depend_on_the_order(
            parts in proptest::collection::vec(proptest::collection::vec(1u64..5000, 0..20), 3),
        ) {
            let parts: Vec<Record> = parts.iter().map(|times| record(times)).collect();
            let sum = |order: &[usize]| {
                let mut sum = Record::default();
                order.iter().for_each(|&part| sum.merge(&parts[part]));
                sum
            };
            let mut right = parts[1].clone();
            right.merge(&parts[2]);
            let text = serde_json::to_string(&right).expect("JSON");
            let mut nested = parts[0].clone();
            nested.merge(&serde_json::from_str(&text).expect("a record"));
            proptest::prop_assert_eq!(sum(&[0, 1, 2]), sum(&[2, 0, 1]));
            proptest::prop_assert_eq!(sum(&[0, 1, 2]), nested);
        }
    }
}
