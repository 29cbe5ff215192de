//! State machine for one direction of one exchange, independent of role.
//!
//! A server reads requests and writes responses, a client the reverse; each direction passes through these
//! states. This module only defines the valid transitions. The data of a state (scan position, body framing)
//! belongs to the owner.
//!
//! ```text
//!     ┌ Interim ┐
//!     │         ▼
//!     └──────  Idle ── Head ──▶ Body ── End ──▶ Done
//!              ▲  │                             ▲ │
//!              │  └────────── Bodiless ─────────┘ │
//!              └────────────── Next ──────────────┘
//!
//!     any state              ── Last ──▶ Closed
//!     any state but Closed   ── Fail ──▶ Failed
//! ```

use crate::error::Misuse;

/// State of one direction. `I` is the owner's data between messages, `B` the framing of the current body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side<I, B> {
    /// Between messages.
    Idle(I),
    /// Inside a body.
    Body(B),
    /// The message is complete.
    Done,
    /// No message will follow.
    Closed,
    /// The message was invalid; the rest of the stream cannot be trusted.
    Failed,
}

/// A transition of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<B> {
    /// An interim response passed.
    Interim,
    /// A head passed, and a body follows.
    Head(B),
    /// A head passed, and no body follows.
    Bodiless,
    /// The body ended.
    End,
    /// Both directions are done, and the connection persists.
    Next,
    /// No further message will pass.
    Last,
    /// A rule was broken.
    Fail,
}

impl<I: Default + Copy, B: Copy> Side<I, B> {
    /// Takes a transition that this crate's code guarantees to exist. If that is ever wrong, the side becomes
    /// `Failed`.
    #[inline]
    pub(crate) fn go(&mut self, step: Step<B>) {
        let after = self.step(step);
        debug_assert!(after.is_ok(), "a step the state table does not have");
        *self = after.unwrap_or(Side::Failed);
    }

    /// The state after a step.
    ///
    /// # Errors
    /// [`Misuse::Order`] for a step the state does not have.
    #[inline]
    pub(crate) fn step(self, step: Step<B>) -> Result<Side<I, B>, Misuse> {
        match (self, step) {
            (Side::Idle(_), Step::Interim) => Ok(Side::Idle(I::default())),
            (Side::Idle(_), Step::Head(body)) => Ok(Side::Body(body)),
            (Side::Idle(_), Step::Bodiless) => Ok(Side::Done),
            (Side::Body(_), Step::End) => Ok(Side::Done),
            (Side::Done, Step::Next) => Ok(Side::Idle(I::default())),
            (_, Step::Last) => Ok(Side::Closed),
            (Side::Idle(_) | Side::Body(_) | Side::Done | Side::Failed, Step::Fail) => Ok(Side::Failed),
            (
                Side::Idle(_) | Side::Body(_) | Side::Done | Side::Closed | Side::Failed,
                Step::Interim | Step::Head(_) | Step::Bodiless | Step::End | Step::Next | Step::Fail,
            ) => Err(Misuse::Order),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_in_every_state() {
        type S = Side<(), ()>;
        let states = [S::Idle(()), S::Body(()), S::Done, S::Closed, S::Failed];
        let steps = [
            Step::Interim,
            Step::Head(()),
            Step::Bodiless,
            Step::End,
            Step::Next,
            Step::Last,
            Step::Fail,
        ];
        let mut shown = String::new();
        for state in states {
            for step in steps {
                let after = match state.step(step) {
                    Ok(after) => format!("{after:?}"),
                    Err(_) => "-".to_owned(),
                };
                shown += &format!("{:<9} {:<9} {after}\n", format!("{state:?}"), format!("{step:?}"));
            }
        }
        insta::assert_snapshot!(shown);
    }
}
