//! Scenarios: what a user of a script requests, step by step, with values that change from start to start.
//!
//! ```text
//!   Script (shared, read-only)                        Visitor (one per user)
//!   ├─ scenarios: name, weight, steps                 ├─ rows of the feeds, by the number of the start
//!   ├─ steps: templates of target, fields, content    ├─ captured values
//!   └─ feeds: rows of values                          └─ cookies
//! ```
//! Starts of scenarios are numbered over all threads and machines. The number decides the scenario, the rows of the feeds
//! and the think times, so they are the same however a run is divided. Knows neither users nor connections.

pub mod capture;
pub mod feed;
pub mod template;
mod visitor;

use crate::chance::{Purpose, below, stream};
use crate::model::Model;
use crate::replies::Accept;
use capture::Source;
use client::session::Verb;
use feed::Feed;
use template::Template;
use units::{Duration, Seed};
pub use visitor::Visitor;

/// Most steps of all scenarios.
pub const STEPS_MAX: usize = 1000;
/// Longest think time.
pub const THINK_MAX: Duration = Duration::from_secs(24 * 3600);

/// A time before the next step, or before the next start behind the last step.
#[derive(Clone, Debug, PartialEq)]
pub enum Think {
    /// Always the same.
    Fixed(Duration),
    /// Drawn from a distribution, in seconds.
    Drawn(Model),
}

/// What a value in a template is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A column of a feed, both by number.
    Column(u16, u16),
    /// What a step has captured, by number.
    Captured(u16),
}

/// A request of a scenario and what its response must be.
#[derive(Clone, Debug)]
pub struct Step {
    /// Name in results, unique in the script.
    pub name: String,
    /// Method.
    pub verb: Verb,
    /// Path and query; may begin with the scheme and authority of the server.
    pub target: Template,
    /// Fields, beside those of every request.
    pub fields: Vec<(String, Template)>,
    /// Content.
    pub content: Option<Template>,
    /// Statuses that count as success.
    pub expect: Accept,
    /// Time after the step.
    pub think: Option<Think>,
    /// Values to take from the response.
    pub captures: Vec<(u16, Source)>,
}

impl Step {
    /// Whether a capture needs the response's content.
    pub(crate) fn needs_content(&self) -> bool {
        self.captures.iter().any(|(_, source)| source.is_in_content())
    }
}

/// Steps in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Name.
    pub name: String,
    /// Share of the starts, beside the weights of the others.
    pub weight: u32,
    /// Numbers of its steps, from and to.
    pub steps: core::ops::Range<u32>,
}

/// All scenarios of a run.
#[derive(Clone, Debug)]
pub struct Script {
    /// Scenarios; their weights sum to more than 0.
    pub scenarios: Vec<Scenario>,
    /// Steps of all scenarios.
    pub steps: Vec<Step>,
    /// Data, by number.
    pub feeds: Vec<Feed>,
    /// What the slots of the templates stand for.
    pub slots: Vec<Slot>,
    /// Number of values that steps capture.
    pub captured: u16,
    /// Whether a user keeps its cookies from start to start.
    pub keeps_cookies: bool,
    /// Whether a user keeps its connection from start to start.
    pub keeps_connections: bool,
    /// Whether the scheme is https.
    pub is_secure: bool,
    /// Host and port.
    pub authority: String,
    /// Fields of every request, `Host` first.
    pub common: Vec<(String, String)>,
    /// Seed of choices.
    pub seed: Seed,
}

impl Script {
    /// The number of the scenario of this start.
    pub fn scenario_of(&self, start: u64) -> usize {
        let all = self
            .scenarios
            .iter()
            .map(|scenario| u64::from(scenario.weight))
            .sum::<u64>();
        let mut drawn = below(&mut stream(self.seed, Purpose::Scenario, start), all.max(1));
        let of = self.scenarios.iter().position(|scenario| {
            let weight = u64::from(scenario.weight);
            let is_it = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            is_it
        });
        of.unwrap_or(0)
    }

    /// The think times behind the steps of this start, in their order.
    pub fn thinks(&self, start: u64, scenario: usize) -> impl Iterator<Item = Duration> + '_ {
        let mut rng = stream(self.seed, Purpose::Think, start);
        let steps = self.scenarios[scenario].steps.clone();
        self.steps[steps.start as usize..steps.end as usize]
            .iter()
            .map(move |step| match &step.think {
                None => Duration::ZERO,
                Some(Think::Fixed(time)) => *time,
                Some(Think::Drawn(model)) => {
                    let seconds = model.draw(&mut rng).clamp(0.0, THINK_MAX.as_secs_f64());
                    Duration::from_secs_f64(seconds)
                }
            })
    }

    /// The first start that finds a feed used up; `None` if none does.
    pub fn starts_max(&self) -> Option<u64> {
        let once = self.feeds.iter().filter(|feed| feed.order == feed::Order::Once);
        once.map(Feed::rows).min()
    }
}
