//! Processors: which worker runs on which, what a switch costs, and where the time went. A worker runs until it
//! waits; what it does, its program decides.

use std::collections::VecDeque;
use units::Duration;

/// What processor time is spent on: the categories of document 002's Table 2, connections apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// In the program itself.
    HttpProcessing,
    /// Opening, closing and examining files.
    FileOperations,
    /// Sending files.
    WritingFiles,
    /// Waiting for and reading requests.
    ReadingRequests,
    /// Opening, accepting and closing connections.
    Connections,
    /// Signal handlers and masks.
    SignalHandling,
    /// Calls for locks.
    Synchronization,
    /// Creating and ending processes and threads.
    ProcessControl,
    /// All other calls.
    Miscellaneous,
    /// Between workers.
    ContextSwitching,
}

impl Task {
    /// All tasks.
    pub const ALL: [Task; 10] = [
        Task::HttpProcessing,
        Task::FileOperations,
        Task::WritingFiles,
        Task::ReadingRequests,
        Task::Connections,
        Task::SignalHandling,
        Task::Synchronization,
        Task::ProcessControl,
        Task::Miscellaneous,
        Task::ContextSwitching,
    ];

    /// The word in results and plans.
    pub fn name(self) -> &'static str {
        match self {
            Task::HttpProcessing => "http_processing",
            Task::FileOperations => "file_operations",
            Task::WritingFiles => "writing_files",
            Task::ReadingRequests => "reading_requests",
            Task::Connections => "connections",
            Task::SignalHandling => "signal_handling",
            Task::Synchronization => "synchronization",
            Task::ProcessControl => "process_control",
            Task::Miscellaneous => "misc_system_calls",
            Task::ContextSwitching => "context_switching",
        }
    }
}

/// Processor time by task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent([Duration; Task::ALL.len()]);

impl Spent {
    /// Time for one task.
    pub fn on(&self, task: Task) -> Duration {
        self.0[task as usize]
    }

    /// Time for all tasks.
    pub fn all(&self) -> Duration {
        self.0.iter().sum()
    }

    /// This without an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Spent) -> Spent {
        let mut left = *self;
        for (mine, before) in left.0.iter_mut().zip(&earlier.0) {
            *mine = mine.saturating_sub(*before);
        }
        left
    }

    pub(crate) fn add(&mut self, task: Task, time: Duration) {
        self.0[task as usize] += time;
    }
}

#[derive(Debug, Default)]
struct Processor {
    running: bool,
    last: Option<usize>,
}

/// The processors of a host.
#[derive(Debug)]
pub(crate) struct Processors {
    all: Vec<Processor>,
    ready: VecDeque<usize>,
    switch: Duration,
    /// Switches so far.
    pub(crate) switches: u64,
    /// Time so far.
    pub(crate) spent: Spent,
}

impl Processors {
    /// `number` processors, on which a switch takes `switch`.
    pub(crate) fn new(number: usize, switch: Duration) -> Processors {
        Processors {
            all: (0..number).map(|_| Processor::default()).collect(),
            ready: VecDeque::new(),
            switch,
            switches: 0,
            spent: Spent::default(),
        }
    }

    /// A worker can run.
    pub(crate) fn wake(&mut self, worker: usize) {
        self.ready.push_back(worker);
    }

    /// Puts the next ready worker on a free processor: the worker, its processor and the time that the switch takes.
    /// A worker that ran last on a free processor returns to it, without a switch.
    pub(crate) fn dispatch(&mut self) -> Option<(usize, usize, Duration)> {
        let worker = *self.ready.front()?;
        let free = |processor: &Processor| !processor.running;
        let own = self
            .all
            .iter()
            .position(|one| free(one) && one.last == Some(worker));
        let place = own.or_else(|| self.all.iter().position(free))?;
        self.ready.pop_front();
        let processor = &mut self.all[place];
        let cost = match processor.last {
            Some(last) if last != worker => {
                self.switches += 1;
                self.switch
            }
            _ => Duration::ZERO,
        };
        (processor.running, processor.last) = (true, Some(worker));
        self.spent.add(Task::ContextSwitching, cost);
        Some((worker, place, cost))
    }

    /// The worker on this processor waits.
    pub(crate) fn free(&mut self, place: usize) {
        self.all[place].running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_costs_where_another_worker_ran() {
        let cost = Duration::from_micros(10);
        let mut processors = Processors::new(2, cost);
        for worker in [0, 1, 2] {
            processors.wake(worker);
        }
        assert_eq!(processors.dispatch(), Some((0, 0, Duration::ZERO)));
        assert_eq!(processors.dispatch(), Some((1, 1, Duration::ZERO)));
        assert_eq!(processors.dispatch(), None);
        processors.free(0);
        assert_eq!(processors.dispatch(), Some((2, 0, cost)));
        processors.free(0);
        processors.free(1);
        processors.wake(1);
        assert_eq!(processors.dispatch(), Some((1, 1, Duration::ZERO)));
        assert_eq!(processors.dispatch(), None);
        assert_eq!(processors.switches, 1);
        assert_eq!(processors.spent.on(Task::ContextSwitching), cost);
    }
}
