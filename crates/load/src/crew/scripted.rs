//! Users of a script: the next start, the next request, and what a failed step means for the rest of its scenario.
//!
//! A scenario is an object whose files are its steps. A step that fails ends it: later steps were built on what the step
//! should have brought, so they are skipped and counted as such.

use super::{Crew, FIRST, Fetch, Phase, RETRY_PAUSE, Setup, User};
use crate::ledger::Ledger;
use crate::record::Trouble;
use crate::request_source::Part;
use crate::scenario::{Script, Visitor};
use client::multiplexed::Multiplexed;
use client::session::Verb;
use client::streams::Priority;
use runtime::dial::Port;
use std::sync::Arc;
use units::Instant;

impl Setup {
    /// The method of the request in progress.
    pub(super) fn verb(&self, fetch: &Fetch) -> &Verb {
        let step = self.script.as_ref().zip(fetch.parts.get(fetch.got));
        match step {
            Some((script, part)) => &script.steps[part.file as usize].verb,
            None => self.ending.verb(),
        }
    }

    /// Whether a status is a success of the request in progress.
    pub(super) fn accepts(&self, fetch: &Fetch, status: u16) -> bool {
        let step = self.script.as_ref().zip(fetch.parts.get(fetch.got));
        match step {
            Some((script, part)) => script.steps[part.file as usize].expect.holds(status),
            None => self.accept.holds(status),
        }
    }
}

/// Begins the next start of a user, or `given`. Appends its steps, and says whether its connection ends with it; `None` if
/// a feed is used up.
pub(super) fn begin(
    script: &Script,
    user: &mut User,
    given: Option<u32>,
    parts: &mut Vec<Part>,
) -> Option<bool> {
    let start = match given {
        Some(start) => start,
        None => user.source.as_mut()?.object()?,
    };
    let visitor = user.visitor.get_or_insert_default();
    if !visitor.start(script, start.into()) {
        return None;
    }
    let scenario = script.scenario_of(start.into());
    let steps = script.scenarios[scenario].steps.clone();
    let thinks = script.thinks(start.into(), scenario);
    parts.extend(steps.zip(thinks).map(|(file, off)| Part { file, off }));
    Some(!script.keeps_connections)
}

/// Sends the rendered request of a visitor on a stream.
pub(super) fn ask(
    streams: &mut Multiplexed,
    scheme: &str,
    script: &Script,
    visitor: &Visitor,
    step: u32,
    now: Instant,
) -> Option<u32> {
    let request = &visitor.request;
    let verb = &script.steps[step as usize].verb;
    let (host, regular) = request.fields.split_first()?;
    let regular: Vec<(String, &str)> = regular
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
        .collect();
    let pseudo = [
        (":method", verb.name()),
        (":scheme", scheme),
        (":authority", &host.1),
        (":path", &request.target),
    ];
    let regular = regular.iter().map(|(name, value)| (name.as_str(), *value));
    let fields = pseudo.into_iter().chain(regular);
    let (is_head, priority) = (verb.is_head(), Priority::DEFAULT);
    match &request.content {
        None => streams.ask(fields, is_head, priority),
        Some(content) => streams.ask_with(fields, is_head, priority, Arc::clone(content), now),
    }
}

/// Counts the step in progress as failed, and the rest of its scenario as skipped.
#[cold]
pub(super) fn fail_step(fetch: &mut Fetch, ledger: &mut Ledger, trouble: Trouble, now: Instant) {
    let Some(part) = fetch.parts.get(fetch.got) else {
        return;
    };
    let took = now.since(fetch.part_intended);
    let record = ledger.of(fetch.part_intended);
    record.step(part.file).fail(trouble, took);
    for skipped in &fetch.parts[fetch.got + 1..] {
        record.step(skipped.file).skipped += 1;
        record.skipped += 1;
    }
    fetch.parts.truncate(fetch.got + 1);
}

impl Crew {
    /// Builds the request of the next step, unless it is built and only repeated. False if its values make none: then the
    /// step has failed and its scenario is over.
    pub(super) fn render(&mut self, line: u32, port: &mut Port, now: Instant) -> bool {
        let Some(script) = self.setup.script.clone() else {
            return true;
        };
        let civil = self.setup.started + now.since(self.began).as_secs() as i64;
        let User { phase, visitor, .. } = &mut self.users[(line - FIRST) as usize];
        let (Phase::Fetching(fetch), Some(visitor)) = (phase, visitor) else {
            return true;
        };
        let Some(part) = fetch.parts.get(fetch.got) else {
            return true;
        };
        if visitor.step == Some(part.file) {
            return true;
        }
        let Err(trouble) = visitor.render(&script, part.file, civil) else {
            return true;
        };
        self.fail_part(line, trouble, now);
        self.finish(line, RETRY_PAUSE, port, now);
        false
    }

    /// A user of a closed loop has no row left. The run ends with the last one.
    pub(super) fn exhausted(&mut self, line: u32, port: &mut Port, now: Instant) {
        self.leave_all(line, port, now);
        self.done += 1;
        if self.done == self.users.len() && !self.ending {
            self.ending = true;
            self.ledger.close(now);
            port.end();
        }
    }

    /// Ends the scenarios of users who think: no step begins after the end of the run.
    pub(super) fn interrupt_thinkers(&mut self, port: &mut Port, now: Instant) {
        if self.setup.script.is_none() {
            return;
        }
        for line in FIRST..FIRST + self.users.len() as u32 {
            if matches!(self.user(line).phase, Phase::Pausing(_)) {
                self.interrupt(line, port, now);
            }
        }
    }

    /// Ends the scenario of a user before its next step: neither complete nor failed.
    pub(super) fn interrupt(&mut self, line: u32, port: &mut Port, now: Instant) {
        let phase = core::mem::replace(&mut self.user(line).phase, Phase::Done);
        let (Phase::Fetching(fetch) | Phase::Pausing(fetch)) = phase else {
            return;
        };
        self.active -= 1;
        self.measured -= u64::from(fetch.intended >= self.ledger.from());
        self.ledger.of(fetch.intended).interrupted += 1;
        self.leave_all(line, port, now);
    }
}
