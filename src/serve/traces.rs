//! Spans on their way to a collector: takes them from workers, and sends them on a thread of its own.
//!
//! ```text
//!   workers ── encoded spans ──▶ queue (bounded) ── batch ──▶ thread ── POST ──▶ collector
//!      ▲                           │ full: dropped                     │ no, not now: kept, and sent again later
//!      └──────── counts ◀──────────┴───────────────────────────────────┘ never: dropped
//! ```
//! Nothing waits for the collector: a worker takes a lock for as long as it takes to append a buffer. A batch is sent once it is
//! full, or once its first span has waited for the interval. One request is under way at a time. If the collector asks for it,
//! or does not answer, the batch is sent again and again, while further spans wait in the queue. Once the queue is full, a
//! batch that was sent [`ATTEMPTS`] times is dropped.

use crate::collector::{self, Collector, SCOPE};
use crate::failure::Failure;
use otlp::answer::Verdict;
use otlp::export::{self, TRACES_AT};
use runtime::background::Background;
use runtime::clock;
use server::config::Config;
use server::{Delivered, SpanSink};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant};

/// Attempts after which a batch is dropped if the queue is full.
const ATTEMPTS: u32 = 6;

/// How often to see whether a batch is due.
const EVERY: Duration = Duration::from_secs(1);

/// Where spans go, and how many may wait.
#[derive(Debug)]
pub(super) struct Target {
    collector: Collector,
    queue: u64,
    batch: u32,
    interval: Duration,
}

impl Target {
    /// The target of a configuration; `None` if requests are not traced.
    ///
    /// # Errors
    /// As [`Collector::of`].
    pub(super) fn of(config: &Config) -> Result<Option<Target>, Failure> {
        let Some(otlp) = &config.otlp else { return Ok(None) };
        let collector = Collector::of(otlp, TRACES_AT)?;
        Ok(collector.map(|collector| Target {
            collector,
            queue: otlp.queue.into(),
            batch: otlp.batch,
            interval: otlp.interval,
        }))
    }
}

/// Encoded spans and their number.
#[derive(Debug, Default)]
struct Spans {
    bytes: Vec<u8>,
    count: u32,
}

impl Spans {
    /// Takes up to so many from the front.
    fn take(&mut self, most: u32) -> Spans {
        if self.count <= most {
            return std::mem::take(self);
        }
        let rest = self.bytes.split_off(export::length_of(&self.bytes, most));
        let taken = Spans {
            bytes: std::mem::replace(&mut self.bytes, rest),
            count: most,
        };
        self.count -= most;
        taken
    }
}

/// A batch that the collector did not take yet.
#[derive(Debug)]
struct Again {
    spans: Spans,
    failed: u32,
    at: Instant,
}

#[derive(Debug, Default)]
struct Queue {
    target: Option<Arc<Target>>,
    waiting: VecDeque<Spans>,
    /// Number of spans that wait or are under way.
    held: u64,
    /// When the first one that waits came.
    since: Option<Instant>,
    again: Option<Again>,
    /// No more spans come: all are sent at once, and what the collector does not take is dropped.
    is_closing: bool,
    /// Counts that no worker knows yet.
    news: Delivered,
    /// `None`: the collector takes spans.
    trouble: Option<Trouble>,
}

/// A time in which the collector takes no spans.
#[derive(Debug)]
struct Trouble {
    /// Spans lost since it began.
    lost: u64,
    /// The cause that was logged last.
    why: String,
}

impl Queue {
    fn waiting(&self) -> u64 {
        self.waiting.iter().map(|spans| u64::from(spans.count)).sum()
    }

    /// Whether a batch is to be sent now.
    fn is_due(&self, now: Instant) -> bool {
        let Some(target) = &self.target else { return false };
        match &self.again {
            Some(again) => self.is_closing || now >= again.at,
            None => {
                let is_old = self.since.is_some_and(|since| now - since >= target.interval);
                self.waiting() > 0 && (self.is_closing || is_old || self.waiting() >= u64::from(target.batch))
            }
        }
    }

    /// The next batch, if it is due, and how often it was sent before.
    fn next(&mut self, now: Instant) -> Option<(Arc<Target>, Spans, u32)> {
        if !self.is_due(now) {
            return None;
        }
        let target = Arc::clone(self.target.as_ref()?);
        if let Some(again) = self.again.take() {
            return Some((target, again.spans, again.failed));
        }
        let mut batch = Spans::default();
        while batch.count < target.batch
            && let Some(first) = self.waiting.front_mut()
        {
            let mut taken = first.take(target.batch - batch.count);
            if first.count == 0 {
                self.waiting.pop_front();
            }
            batch.bytes.append(&mut taken.bytes);
            batch.count += taken.count;
        }
        // What is left came later; it is sent no later than if it had come now.
        self.since = (!self.waiting.is_empty()).then_some(now);
        Some((target, batch, 0))
    }

    fn drop_spans(&mut self, count: u64) {
        self.news.dropped += count;
        if let Some(trouble) = &mut self.trouble {
            trouble.lost += count;
        }
    }

    /// Drops all that waits. Returns the number.
    fn clear(&mut self) -> u64 {
        let again = self.again.take().map_or(0, |again| u64::from(again.spans.count));
        let count = self.waiting() + again;
        self.waiting.clear();
        self.since = None;
        self.held -= count;
        self.drop_spans(count);
        count
    }
}

/// Takes spans from the workers of this process and sends them.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: Arc<Mutex<Queue>>,
    thread: Background<()>,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exporter {
    /// Sends to this target, once there are spans.
    pub(super) fn new(target: Option<Target>) -> Exporter {
        let queue = Arc::new(Mutex::new(Queue {
            target: target.map(Arc::new),
            ..Queue::default()
        }));
        let shared = Arc::clone(&queue);
        Exporter {
            queue,
            thread: Background::new("traces", 1, move |(), _| send_due(&shared)),
        }
    }

    /// Sends to another target from now on; to none: once what waits is sent to the old one.
    pub(super) fn install(&self, target: Option<Target>) {
        let mut queue = lock(&self.queue);
        queue.is_closing = target.is_none();
        if let Some(target) = target {
            queue.target = Some(Arc::new(target));
        }
        drop(queue);
        self.wake();
    }

    /// Time until [`Exporter::go_on`] should be called again; `None`: there is nothing to do.
    pub(super) fn patience(&self) -> Option<Duration> {
        let queue = lock(&self.queue);
        let target = queue.target.as_ref().filter(|_| !queue.is_closing)?;
        Some(target.interval.min(EVERY))
    }

    /// Sends a batch if one is due. Returns at once.
    pub(super) fn go_on(&self, now: Instant) {
        if lock(&self.queue).is_due(now) {
            self.wake();
        }
    }

    /// Sends all that waits, and drops what the collector does not take.
    pub(super) fn close(&self) {
        lock(&self.queue).is_closing = true;
        self.wake();
    }

    /// Whether nothing waits or is under way any more.
    pub(super) fn is_finished(&self) -> bool {
        lock(&self.queue).held == 0
    }

    /// Drops what was not sent. Follows [`Exporter::close`].
    pub(super) fn abandon(&self) {
        let mut queue = lock(&self.queue);
        let held = queue.held;
        queue.clear();
        drop(queue);
        if held > 0 {
            tracing::error!("traces: the collector did not answer in time: {held} spans are lost");
        }
    }

    fn wake(&self) {
        // Refused if one waits already, which will find what is due now.
        let _ = self.thread.offer(());
    }
}

impl SpanSink for Exporter {
    fn write(&self, bytes: Vec<u8>, count: u32) -> Delivered {
        let mut queue = lock(&self.queue);
        let most = queue.target.as_ref().map_or(0, |target| target.queue);
        let room = most.saturating_sub(queue.held);
        let mut spans = Spans { bytes, count };
        let taken = spans.take(u32::try_from(room).unwrap_or(u32::MAX));
        queue.drop_spans(spans.count.into());
        if taken.count > 0 {
            queue.held += u64::from(taken.count);
            queue.waiting.push_back(taken);
            queue.since.get_or_insert_with(clock::now);
        }
        let news = std::mem::take(&mut queue.news);
        let is_full = queue.is_due(clock::now());
        drop(queue);
        if is_full {
            self.wake();
        }
        news
    }
}

/// Sends batches until none is due.
fn send_due(queue: &Mutex<Queue>) {
    loop {
        let Some((target, spans, failed)) = lock(queue).next(clock::now()) else {
            return;
        };
        let collector = &target.collector;
        let content = export::request(&collector.resource(), SCOPE, &spans.bytes);
        // A certificate may be replaced while this server runs, so every failure is worth another attempt.
        let outcome = collector.send(&content).map_err(|unanswered| unanswered.why);
        settle(&mut lock(queue), collector.place(), spans, failed, outcome);
    }
}

/// Decides what follows from the outcome of a request, which is logged if it differs from the one before.
fn settle(
    queue: &mut Queue,
    place: &str,
    spans: Spans,
    failed: u32,
    outcome: Result<(u16, Verdict), String>,
) {
    let count = u64::from(spans.count);
    let answers = |status: u16| format!("it answers with {status}");
    let (why, after, is_final, follows) = match outcome {
        Ok((_, Verdict::Taken { rejected, message })) => {
            let rejected = rejected.min(count);
            queue.held -= count;
            queue.news.sent += count - rejected;
            queue.news.dropped += rejected;
            if rejected > 0 || !message.is_empty() {
                tracing::warn!(
                    "traces: {place} rejected {rejected} of {count} spans: \"{}\"; see its log",
                    message.escape_debug()
                );
            }
            if let Some(trouble) = queue.trouble.take() {
                tracing::info!("traces: {place} takes spans again; lost: {}", trouble.lost);
            }
            return;
        }
        Ok((status, Verdict::Again { after })) => {
            (answers(status), after, false, "spans wait for it; see its log")
        }
        Ok((status, Verdict::Refused)) => (
            answers(status),
            None,
            true,
            "spans are lost; check `endpoint` and `header` in `[otlp]`, and the log of the collector",
        ),
        Err(why) => (
            why,
            None,
            false,
            "spans wait for it; start the collector, or correct `endpoint` in `[otlp]`",
        ),
    };
    if queue.trouble.as_ref().is_none_or(|trouble| trouble.why != why) {
        tracing::warn!("traces: {place} takes no spans: {why}; {follows}");
        let lost = queue.trouble.take().map_or(0, |trouble| trouble.lost);
        queue.trouble = Some(Trouble { lost, why });
    }
    let failed = failed.saturating_add(1);
    let most = queue.target.as_ref().map_or(0, |target| target.queue);
    let is_given_up = failed >= ATTEMPTS && queue.held >= most;
    if is_final || is_given_up || queue.is_closing {
        queue.held -= count;
        queue.drop_spans(count);
        if queue.is_closing {
            let lost = count + queue.clear();
            tracing::warn!("traces: {lost} spans are lost: {place} did not take the last ones");
        }
        return;
    }
    queue.again = Some(Again {
        spans,
        failed,
        at: clock::now() + collector::pause(failed, after),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::config::Otlp;

    /// A queue in which one batch of one span is under way, and others wait.
    fn queue(most: u64, waiting: u32) -> Queue {
        let otlp = Otlp {
            endpoint: Some("http://127.0.0.1:1".parse().unwrap()),
            ..Otlp::default()
        };
        let target = Target {
            collector: Collector::of(&otlp, TRACES_AT).unwrap().unwrap(),
            queue: most,
            batch: 1,
            interval: EVERY,
        };
        Queue {
            target: Some(Arc::new(target)),
            waiting: [spans(waiting)].into(),
            held: 1 + u64::from(waiting),
            ..Queue::default()
        }
    }

    fn spans(count: u32) -> Spans {
        Spans {
            bytes: Vec::new(),
            count,
        }
    }

    fn refused() -> Result<(u16, Verdict), String> {
        Err("connection refused".to_owned())
    }

    #[test]
    fn an_outage_costs_spans_only_once_the_queue_is_full() {
        let mut queue = queue(3, 1);
        for failed in 0..4 * ATTEMPTS {
            settle(&mut queue, "x", spans(1), failed, refused());
            assert_eq!((queue.held, queue.news.dropped), (2, 0), "{failed}");
            queue.again.take().expect("another attempt");
        }
        // No room for others: the oldest batch is dropped, but not before its time.
        queue.held = 3;
        settle(&mut queue, "x", spans(1), ATTEMPTS - 2, refused());
        assert!(queue.again.take().is_some() && queue.news.dropped == 0);
        settle(&mut queue, "x", spans(1), ATTEMPTS - 1, refused());
        assert!(queue.again.is_none());
        assert_eq!((queue.held, queue.news.dropped), (2, 1));
    }

    #[test]
    fn another_cause_is_logged_and_the_count_goes_on() {
        let mut queue = queue(100, 9);
        let cause = |queue: &Queue| {
            let trouble = queue.trouble.as_ref().expect("trouble");
            (trouble.why.clone(), trouble.lost)
        };
        settle(&mut queue, "x", spans(1), 0, Ok((400, Verdict::Refused)));
        assert_eq!(cause(&queue), ("it answers with 400".to_owned(), 1));
        settle(&mut queue, "x", spans(1), 0, refused());
        assert_eq!(cause(&queue), ("connection refused".to_owned(), 1));
        let taken = Verdict::Taken {
            rejected: 0,
            message: String::new(),
        };
        settle(&mut queue, "x", spans(1), 1, Ok((200, taken)));
        assert!(queue.trouble.is_none());
    }
}
