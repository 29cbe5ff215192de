//! Sources of objects: a script, weighted choice or a fixed order.
//!
//! A run and its plan draw from the same supplies, so the printed plan is what the run requests. Does not know when and
//! how requests are sent.

use crate::weights::Choices;
use crate::work::Work;
use std::sync::Arc;
use units::Duration;

/// One request of a user's script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the file.
    pub file: u32,
    /// Whether an object begins with this file.
    pub begins: bool,
    /// Whether a session ends with this file.
    pub last: bool,
    /// OFF time after the file.
    pub off: Duration,
}

/// Source of a user's objects.
#[derive(Debug)]
pub enum RequestSource {
    /// The user's own list with OFF times; ends with its last step.
    Script {
        /// Requests in order.
        steps: Box<[Step]>,
        /// Index of the next step.
        next: usize,
    },
    /// Objects drawn by weight, without end.
    Weighted(Choices),
    /// Every `stride`-th object of an order, repeated without end.
    Turn {
        /// Objects by number, shared by all users.
        order: Arc<[u32]>,
        /// Position of the next object.
        next: usize,
        /// Step between two objects of this user.
        stride: usize,
    },
    /// Numbers of starts of a script, without end.
    Starts {
        /// The next number.
        next: u64,
        /// Step between two starts of this user.
        stride: u64,
    },
}

/// A file of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) file: u32,
    /// OFF time after the file.
    pub(crate) off: Duration,
}

/// Appends all files of an object, without OFF times between them.
pub(crate) fn whole(work: &Work, object: u32, parts: &mut Vec<Part>) {
    let files = &work.objects[object as usize];
    parts.extend(files.iter().map(|&file| Part {
        file,
        off: Duration::ZERO,
    }));
}

impl RequestSource {
    /// Appends the next object's files to `parts` and says whether the session ends with it; `None` at the end.
    pub(crate) fn next(&mut self, work: &Work, parts: &mut Vec<Part>) -> Option<bool> {
        match self {
            RequestSource::Script { steps, next } => {
                let rest = steps.get(*next..)?;
                let first = rest.first()?;
                let more = rest[1..].iter().take_while(|step| !step.begins);
                let all = core::iter::once(first).chain(more);
                let mut last = false;
                for step in all {
                    parts.push(Part {
                        file: step.file,
                        off: step.off,
                    });
                    last = step.last;
                    *next += 1;
                }
                Some(last)
            }
            RequestSource::Weighted(_) | RequestSource::Turn { .. } | RequestSource::Starts { .. } => {
                whole(work, self.object()?, parts);
                Some(false)
            }
        }
    }

    /// The next object of a source of whole objects, or the number of the next start; `None` for a script.
    pub(crate) fn object(&mut self) -> Option<u32> {
        match self {
            RequestSource::Script { .. } => None,
            RequestSource::Weighted(choices) => choices.next().map(|object| object as u32),
            RequestSource::Turn { order, next, stride } => {
                let object = order[*next % order.len()];
                *next = (*next + *stride) % order.len();
                Some(object)
            }
            RequestSource::Starts { next, stride } => {
                let start = *next;
                *next = next.wrapping_add(*stride);
                Some(start as u32)
            }
        }
    }
}

/// The objects of all arrivals of a process, whichever shard owns an arrival.
#[derive(Debug)]
pub struct Dealt {
    source: RequestSource,
    /// Number of objects drawn.
    drawn: u64,
}

impl Dealt {
    /// Draws one object per arrival, in order.
    pub fn new(source: RequestSource) -> Dealt {
        Dealt { source, drawn: 0 }
    }

    /// The object of arrival `number`. Numbers must ascend from call to call.
    pub fn object(&mut self, work: &Work, number: u64) -> u32 {
        match &mut self.source {
            RequestSource::Turn { order, .. } => order[(number % order.len() as u64) as usize],
            RequestSource::Weighted(choices) => {
                let mut object = 0;
                while self.drawn <= number {
                    object = choices.next().unwrap_or(0) as u32;
                    self.drawn += 1;
                }
                object
            }
            RequestSource::Starts { .. } => number as u32,
            RequestSource::Script { .. } => (number % work.objects.len() as u64) as u32,
        }
    }
}
