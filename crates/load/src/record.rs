//! The record of a run: latencies, a series by second, errors by kind.
//!
//! *Service* time begins where document 000's client reads its clock: before the connection is opened, otherwise when
//! the request is sent, otherwise when the previous file of a pipelined batch completed. *Response* time begins at
//! the intended start; for arrivals, the difference is the waiting that coordinated omission hides. Users in a closed
//! loop intend to send only after a response, so both times omit that waiting. Failed requests have a histogram of
//! their own and count in quantiles as longer than all others. Records of several crews and machines add up exactly,
//! before and after they were serialized. Knows no clock.

use crate::deferred::{Deferred, Timing};
use crate::replies::{Breach, Refused, Statuses};
use crate::steps::StepRecord;
use crate::times::{Lost, Recent, Sparse, Times, nanoseconds};
pub use crate::trouble::Trouble;
use crate::webstone::Counts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::{Duration, Instant};

/// Limit on the seconds of a series: one day.
const SECONDS_MAX: usize = 86_400;
/// Limit on the stored bytes of a path.
const PATH_MAX: usize = 200;
/// Number of size classes of objects, each with the same share of requests.
pub const DECILES: usize = 10;

/// A failed file, as an example: the first of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Example {
    /// Time of the failure, in nanoseconds from the start of the run.
    pub at_ns: u64,
    /// Path of the file.
    pub path: Box<str>,
    /// Expected length in bytes, if known.
    pub wanted: Option<u64>,
    /// Received length in bytes, if known.
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

/// One second of the series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Objects begun.
    pub begun: u64,
    /// Completed files, also those due in the warm-up.
    pub files: u64,
    /// Content bytes of completed files.
    pub bytes: u64,
    /// Errors of any kind.
    pub errors: u64,
    /// Response times of the completed files that were due after the warm-up.
    pub response: Sparse,
    /// Files given up.
    #[serde(default, skip_serializing_if = "is_none")]
    pub failed: u64,
    /// Objects pending at the start of the second.
    #[serde(default, skip_serializing_if = "is_none")]
    pub under_way: u64,
    /// Bytes received, headers included.
    #[serde(default, skip_serializing_if = "is_none")]
    pub received: u64,
    /// First completion, in nanoseconds from the start of the second; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ns: Option<u64>,
    /// Last completion, in nanoseconds from the start of the second; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ns: Option<u64>,
    /// Last failure of a file, in nanoseconds from the start of the second; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failed_ns: Option<u64>,
    /// Complete responses with status 300 to 399, successful or not.
    #[serde(default, skip_serializing_if = "is_none")]
    pub replies_3xx: u64,
    /// Complete responses with status 400 to 499, successful or not.
    #[serde(default, skip_serializing_if = "is_none")]
    pub replies_4xx: u64,
    /// Complete responses with status 500 to 599, successful or not.
    #[serde(default, skip_serializing_if = "is_none")]
    pub replies_5xx: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Second {
    /// Counts a completion `after_ns` after the start of the second.
    fn complete(&mut self, bytes: u64, after_ns: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.first_ns = Some(self.first_ns.map_or(after_ns, |first| first.min(after_ns)));
        self.last_ns = Some(self.last_ns.map_or(after_ns, |last| last.max(after_ns)));
    }

    /// Adds another crew's figures of the same second.
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

/// Events of the warm-up, excluded from all other figures except rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Objects begun.
    pub objects_begun: u64,
    /// Completed objects.
    pub objects: u64,
    /// Completed files.
    pub files: u64,
    /// Files given up.
    pub files_failed: u64,
    /// Content bytes of completed files.
    pub bytes: u64,
    /// Errors of any kind.
    pub errors: u64,
    /// Completed files that completed within the measured time: those count in rates.
    #[serde(default)]
    pub files_in_time: u64,
    /// Their content bytes.
    #[serde(default)]
    pub bytes_in_time: u64,
}

impl LeftOut {
    /// Adds the events of another warm-up.
    fn add(&mut self, other: &LeftOut) {
        self.objects_begun += other.objects_begun;
        self.objects += other.objects;
        self.files += other.files;
        self.files_failed += other.files_failed;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.files_in_time += other.files_in_time;
        self.bytes_in_time += other.bytes_in_time;
    }
}

/// Everything measured in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Time from a file's intended start to its failure, for each of `files_failed`.
    #[serde(default)]
    pub failed: Times,
    /// Time that each of the `unfinished` objects had waited at the end of the grace period.
    #[serde(default)]
    pub waited: Times,
    /// Time within the run for which each failed or incomplete request kept its client from sending, including the
    /// pause before the retry. Files given up together count once.
    #[serde(default)]
    pub held: Times,
    /// Service times. Like `response`, `first_byte` and `transfer` it has one time per successful file and none of
    /// failed files, whose times say nothing about files.
    pub service: Times,
    /// Response times, from a file's intended start to its end.
    pub response: Times,
    /// Times to establish a connection, for all established ones, whatever happened on them later.
    pub connect: Times,
    /// Times of the TLS handshakes that succeeded, from the established connection; empty without TLS.
    #[serde(default, skip_serializing_if = "Times::is_empty")]
    pub handshake: Times,
    /// TLS handshakes that resumed an earlier session.
    #[serde(default, skip_serializing_if = "is_none")]
    pub resumed: u64,
    /// Why a TLS handshake failed: the first reason, and after a merge the first in alphabetical order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_fault: Option<Box<str>>,
    /// The error with which the server closed a connection, and whose fault it was: the first one, and after a merge the first in
    /// alphabetical order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close_fault: Option<Box<str>>,
    /// Time to first byte, from the start of service or the established connection.
    pub first_byte: Times,
    /// Time from the first to the last byte.
    pub transfer: Times,
    /// Times of successful objects, from their intended start. All files of the object must succeed.
    pub object: Times,
    /// Object times by decile of the object's size, smallest first; empty if sizes are unknown.
    pub deciles: Vec<Times>,
    /// Objects by decile that failed or were still pending at the end of the grace period; empty without any or if sizes
    /// are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deciles_failed: Vec<u64>,
    /// Lateness of this program's timers for users and arrivals.
    pub lag: Times,
    /// Lateness of each thread's ticks, one every 10 ms; every missed tick counts.
    pub tick: Times,
    /// Series by second from the start.
    pub seconds: Vec<Second>,
    /// Number of errors by kind.
    pub troubles: BTreeMap<Trouble, u64>,
    /// First failed file of each kind of error that concerns files.
    #[serde(default)]
    pub examples: BTreeMap<Trouble, Example>,
    /// Established connections. A failed attempt is an error, not a connection.
    pub connections: u64,
    /// Attempts to open a connection that failed, or were still pending at the end of the grace period. An attempt
    /// counts once, however many requests waited for it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub connects_failed: u64,
    /// TLS handshakes that failed, or were still pending at the end of the grace period.
    #[serde(default, skip_serializing_if = "is_none")]
    pub handshakes_failed: u64,
    /// Established connections, plus those opened in the warm-up and still open at its end.
    pub established: u64,
    /// Total time that connections were open.
    #[serde(rename = "standing_ns", with = "nanoseconds")]
    pub standing: Duration,
    /// Complete responses by status, including those that failed by status, length or content.
    #[serde(default)]
    pub statuses: Statuses,
    /// Responses whose status does not count as success.
    #[serde(default)]
    pub refused: BTreeMap<u16, Refused>,
    /// First occurrence of data that is not HTTP.
    #[serde(default)]
    pub breach: Option<Breach>,
    /// Connections that the server closed or reset although further requests could have followed.
    pub closed_by_server: u64,
    /// Requests repeated on another connection because the server closed theirs without a response.
    pub resent: u64,
    /// Users that began; arrivals do not count.
    pub users_begun: u64,
    /// Start of the last user that began, from the start of the run.
    #[serde(rename = "last_begun_ns", with = "nanoseconds")]
    pub last_begun: Duration,
    /// Events of the warm-up, which no other field includes except rates and the series' completions.
    pub left_out: LeftOut,
    /// Objects begun.
    pub objects_begun: u64,
    /// Completed objects.
    pub objects: u64,
    /// Completed files.
    pub files: u64,
    /// Files completed within the time that counts for rates, also those due in the warm-up.
    pub files_in_time: u64,
    /// Files given up.
    pub files_failed: u64,
    /// Content bytes of completed files.
    pub bytes: u64,
    /// Content bytes of `files_in_time`.
    pub bytes_in_time: u64,
    /// All bytes received, headers included.
    pub bytes_received: u64,
    /// Requests that ended within the time that counts for rates, as WebStone counts them.
    pub in_time: Counts,
    /// Arrivals dropped because the queue for a connection was full.
    pub dropped: u64,
    /// Objects still pending at the end of the grace period.
    pub unfinished: u64,
    /// Their requests that were under way, of which an object may have several. Results of earlier versions have none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub requests_unfinished: u64,
    /// Steps of scenarios, by number; empty without a script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// Requests that were never made, because an earlier step of their scenario failed.
    #[serde(default, skip_serializing_if = "is_none")]
    pub skipped: u64,
    /// Scenarios whose users were thinking at the end of the run, so that they neither completed nor failed.
    #[serde(default, skip_serializing_if = "is_none")]
    pub interrupted: u64,
    /// `errno` of the last connection refused by this machine.
    pub refusal: Option<i32>,
    /// Number of the current second and its response times so far.
    #[serde(skip)]
    pub(crate) under_way: (usize, Recent),
    /// Times that are not in their histograms yet.
    #[serde(skip)]
    pub(crate) deferred: Deferred,
}

impl Record {
    /// An empty record with the histograms that successful requests need, so that the run does not wait for their memory.
    /// `secured`: there are handshakes.
    pub(crate) fn prepared(secured: bool) -> Record {
        let mut record = Record::default();
        for times in [
            &mut record.service,
            &mut record.response,
            &mut record.connect,
            &mut record.first_byte,
            &mut record.transfer,
            &mut record.object,
            &mut record.lag,
            &mut record.tick,
        ] {
            times.prepare();
        }
        if secured {
            record.handshake.prepare();
        }
        record.under_way.1.prepare();
        record
    }

    /// The second of the series that contains `now`.
    pub fn second(&mut self, now: Instant, began: Instant) -> &mut Second {
        let number = number(now, began);
        if number >= self.seconds.len() {
            self.seconds.resize(number + 1, Second::default());
        }
        &mut self.seconds[number]
    }

    /// Records a time. It is in its histogram once the record is settled.
    #[inline]
    pub(crate) fn time(&mut self, timing: Timing, time: Duration) {
        self.deferred.keep(timing, time);
        if self.deferred.is_full() {
            self.add_deferred();
        }
    }

    #[inline(never)]
    fn add_deferred(&mut self) {
        let mut deferred = core::mem::take(&mut self.deferred);
        deferred.take(|timing, time| {
            let times = match timing {
                Timing::Lag => &mut self.lag,
                Timing::Tick => &mut self.tick,
                Timing::Service => &mut self.service,
                Timing::Response => &mut self.response,
                Timing::FirstByte => &mut self.first_byte,
                Timing::Transfer => &mut self.transfer,
                Timing::Object => &mut self.object,
            };
            times.add(time);
        });
        self.deferred = deferred;
    }

    /// Records the response time of a completed file.
    pub fn respond(&mut self, time: Duration, now: Instant, began: Instant) {
        self.time(Timing::Response, time);
        let number = number(now, began);
        if number != self.under_way.0 {
            self.close_second();
            self.under_way.0 = number;
        }
        self.under_way.1.add(time);
    }

    /// Counts a successful file.
    pub fn complete(&mut self, bytes: u64, now: Instant, began: Instant) {
        self.second(now, began).complete(bytes, into_second(now, began));
    }

    /// Counts files that failed `took` after their intended start.
    pub fn fail(&mut self, files: u64, took: Duration, now: Instant, began: Instant) {
        if files > 0 {
            self.files_failed += files;
            self.failed.add_n(took, files);
            let second = self.second(now, began);
            second.failed += files;
            second.last_failed_ns = second.last_failed_ns.max(Some(into_second(now, began)));
        }
    }

    /// Requests that were still under way at the end of the grace period.
    pub fn pending(&self) -> u64 {
        self.requests_unfinished.max(self.unfinished)
    }

    /// Counts an object still pending at the end of the grace period, with this many requests, after waiting for `waited`.
    pub fn abandon(&mut self, requests: u64, waited: Duration) {
        self.unfinished += 1;
        self.requests_unfinished += requests;
        self.waited.add(waited);
    }

    /// Stores a failed file as the example of its kind of error, unless there is an earlier one.
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

    /// Requests missing from the histograms of files. Each failed one counts in means as at least `timeout`.
    pub fn lost_files(&self, timeout: Duration) -> Lost {
        Lost {
            count: self.files_failed + self.pending(),
            timed: self.failed.count(),
            least_ns: self.failed.total_of_at_least(timeout),
        }
    }

    /// Objects missing from the histogram of objects. Each failed one counts in means as at least `timeout`.
    pub fn lost_objects(&self, timeout: Duration) -> Lost {
        let ended = self.objects + self.interrupted;
        let count = self.objects_begun.saturating_sub(ended);
        let timed = count.saturating_sub(self.unfinished);
        Lost {
            count,
            timed,
            least_ns: timed as f64 * timeout.as_nanos() as f64,
        }
    }

    /// The record of a step.
    pub fn step(&mut self, number: u32) -> &mut StepRecord {
        let number = number as usize;
        if number >= self.steps.len() {
            self.steps.resize(number + 1, StepRecord::default());
        }
        &mut self.steps[number]
    }

    /// Counts an object of this size decile that failed or never completed.
    pub fn decile_failed(&mut self, decile: usize) {
        if self.deciles_failed.is_empty() {
            self.deciles_failed = vec![0; DECILES];
        }
        if let Some(count) = self.deciles_failed.get_mut(decile) {
            *count += 1;
        }
    }

    /// Records the time of a successful object of this size decile.
    pub fn decile(&mut self, decile: usize, time: Duration) {
        if self.deciles.is_empty() {
            self.deciles = vec![Times::default(); DECILES];
        }
        if let Some(times) = self.deciles.get_mut(decile) {
            times.add(time);
        }
    }

    /// Adds all times that are still kept elsewhere to the histograms and the series. Call before reading the record.
    pub fn settle(&mut self) {
        self.add_deferred();
        self.close_second();
    }

    /// Moves the current second's response times into the series.
    fn close_second(&mut self) {
        let (number, times) = &mut self.under_way;
        let Some(sparse) = times.take() else { return };
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

    /// Stores the first occurrence of data that is not HTTP.
    pub fn breached(&mut self, fault: &str, seen: &[u8], now: Instant, began: Instant) {
        let breach = Breach {
            at_ns: u64::try_from(now.since(began).as_nanos()).unwrap_or(u64::MAX),
            fault: fault.into(),
            seen: seen.escape_ascii().to_string().into(),
        };
        Breach::first(&mut self.breach, Some(&breach));
    }

    /// Counts an error.
    pub fn trouble(&mut self, trouble: Trouble, now: Instant, began: Instant) {
        *self.troubles.entry(trouble).or_default() += 1;
        self.second(now, began).errors += 1;
    }

    /// Number of all errors.
    pub fn errors(&self) -> u64 {
        self.troubles.values().sum()
    }

    /// Number of errors of this kind.
    pub fn count(&self, trouble: Trouble) -> u64 {
        self.troubles.get(&trouble).copied().unwrap_or(0)
    }

    /// Adds the record of another crew of the same run. Both must be settled.
    pub fn merge(&mut self, other: &Record) {
        for (sum, part) in [
            (&mut self.failed, &other.failed),
            (&mut self.waited, &other.waited),
            (&mut self.held, &other.held),
            (&mut self.service, &other.service),
            (&mut self.response, &other.response),
            (&mut self.connect, &other.connect),
            (&mut self.handshake, &other.handshake),
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
            (&mut self.connects_failed, other.connects_failed),
            (&mut self.handshakes_failed, other.handshakes_failed),
            (&mut self.established, other.established),
            (&mut self.closed_by_server, other.closed_by_server),
            (&mut self.resent, other.resent),
            (&mut self.resumed, other.resumed),
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
            (&mut self.requests_unfinished, other.requests_unfinished),
            (&mut self.skipped, other.skipped),
            (&mut self.interrupted, other.interrupted),
        ] {
            *sum += part;
        }
        if self.steps.len() < other.steps.len() {
            self.steps.resize(other.steps.len(), StepRecord::default());
        }
        for (sum, part) in self.steps.iter_mut().zip(&other.steps) {
            sum.merge(part);
        }
        for (first, other) in [
            (&mut self.handshake_fault, &other.handshake_fault),
            (&mut self.close_fault, &other.close_fault),
        ] {
            if let Some(fault) = other
                && first.as_ref().is_none_or(|first| fault < first)
            {
                *first = Some(fault.clone());
            }
        }
        self.left_out.add(&other.left_out);
        self.last_begun = self.last_begun.max(other.last_begun);
        self.in_time.add(&other.in_time);
        self.standing += other.standing;
        // Maximum rather than first: sums must not depend on the order.
        self.refusal = self.refusal.max(other.refusal);
    }
}

/// Index of the second that contains `now`.
fn number(now: Instant, began: Instant) -> usize {
    (now.since(began).as_secs() as usize).min(SECONDS_MAX - 1)
}

/// Time from the start of its second to `now`, in nanoseconds.
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
            record.abandon(1, Duration::from_millis(ms + 3));
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
        (a.connects_failed, b.connects_failed) = (4, 5);
        (a.handshakes_failed, b.handshakes_failed) = (6, 7);
        (a.close_fault, b.close_fault) = (Some("b".into()), Some("a".into()));
        a.merge(&b);
        assert_eq!(a.close_fault.as_deref(), Some("a"));
        assert_eq!(
            (a.users_begun, a.last_begun, a.files_in_time),
            (5, Duration::from_millis(100), 3)
        );
        assert_eq!((a.left_out.files, a.left_out.errors), (7, 1));
        assert_eq!((a.connects_failed, a.handshakes_failed), (9, 13));
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

    /// However many times are kept outside the histograms meanwhile.
    #[test]
    fn a_settled_record_has_every_time_once() {
        assert_eq!(Record::prepared(true), Record::default());
        for count in [0, 1, 127, 128, 1000] {
            let mut record = Record::prepared(false);
            let mut wanted = Times::default();
            for ms in 0..count {
                let time = Duration::from_millis(ms);
                record.time(Timing::Lag, time);
                record.time(Timing::Object, time);
                wanted.add(time);
            }
            record.settle();
            record.settle();
            assert_eq!((&record.lag, &record.object), (&wanted, &wanted), "{count}");
            assert!(record.tick.is_empty());
        }
    }

    #[test]
    fn troubles_are_called_what_results_call_them() {
        for trouble in [
            Trouble::Here,
            Trouble::Connect,
            Trouble::Handshake,
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

        /// The sum is the same, however the parts are grouped, ordered and serialized.
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
