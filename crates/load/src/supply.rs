//! Sources of objects: a script, weights or an order.
//!
//! A run and its plan draw from the same supplies, so the printed plan is what the run sends. Does not know when and
//! how requests are sent.

use crate::webstone::Choices;
use crate::work::Work;
use measure::Duration;
use std::sync::Arc;

/// One request of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The file.
    pub file: u32,
    /// Whether an object begins with it.
    pub begins: bool,
    /// Whether a session ends with it.
    pub last: bool,
    /// How long the user is OFF after it.
    pub off: Duration,
}

/// Where a user's objects come from.
#[derive(Debug)]
pub enum Supply {
    /// A list of its own, with OFF times; it is done at the end.
    Script {
        /// The requests.
        steps: Box<[Step]>,
        /// The next one.
        next: usize,
    },
    /// Objects drawn by weight, endless.
    Weighted(Choices),
    /// Every `stride`-th object of an order, around and around.
    Turn {
        /// Objects by number.
        order: Arc<[u32]>,
        /// Position of the next one.
        next: usize,
        /// What is added for the one after it.
        stride: usize,
    },
}

/// A file of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) file: u32,
    /// How long the user is OFF after it.
    pub(crate) off: Duration,
}

/// All files of an object.
pub(crate) fn whole(work: &Work, object: u32, parts: &mut Vec<Part>) {
    let files = &work.objects[object as usize];
    parts.extend(files.iter().map(|&file| Part {
        file,
        off: Duration::ZERO,
    }));
}

impl Supply {
    /// The files of the next object, and whether the session ends with it; none when all is done.
    pub(crate) fn next(&mut self, work: &Work, parts: &mut Vec<Part>) -> Option<bool> {
        match self {
            Supply::Script { steps, next } => {
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
            Supply::Weighted(_) | Supply::Turn { .. } => {
                whole(work, self.object()?, parts);
                Some(false)
            }
        }
    }

    /// The next object of a supply that deals in whole objects; none of a script.
    pub(crate) fn object(&mut self) -> Option<u32> {
        match self {
            Supply::Script { .. } => None,
            Supply::Weighted(choices) => choices.next().map(|object| object as u32),
            Supply::Turn { order, next, stride } => {
                let object = order[*next % order.len()];
                *next = (*next + *stride) % order.len();
                Some(object)
            }
        }
    }
}

/// The objects of a whole process of arrivals, whichever shard each arrival belongs to.
#[derive(Debug)]
pub struct Dealt {
    supply: Supply,
    /// Objects that were drawn.
    drawn: u64,
}

impl Dealt {
    /// One object for each arrival, in order.
    pub fn new(supply: Supply) -> Dealt {
        Dealt { supply, drawn: 0 }
    }

    /// The object of arrival number `number`; numbers ascend from call to call.
    pub fn object(&mut self, work: &Work, number: u64) -> u32 {
        match &mut self.supply {
            Supply::Turn { order, .. } => order[(number % order.len() as u64) as usize],
            Supply::Weighted(choices) => {
                let mut object = 0;
                while self.drawn <= number {
                    object = choices.next().unwrap_or(0) as u32;
                    self.drawn += 1;
                }
                object
            }
            Supply::Script { .. } => (number % work.objects.len() as u64) as u32,
        }
    }
}
