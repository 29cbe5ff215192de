//! The least whole bit per second that meets an objective: by bisection, because turnaround falls with the rate;
//! stretch by stretch where it falls only between steps. Knows the effect of a rate only from
//! [`Question::turnaround_at`].

use super::{Basis, Dimension, Question};
use crate::domain::DomainError;
use crate::explain::Explained;
use crate::transaction::{Mode, Transfer};
use units::Rate;

/// Rates beyond a petabit per second answer nothing.
const RATE_MAX: u64 = 1_000_000_000_000_000;

impl Question {
    /// Whether the mean turnaround at this rate, in bit/s, meets the objective.
    pub(super) fn meets(&self, rate: u64) -> Result<bool, DomainError> {
        Ok(self.turnaround_at(Rate(rate))?.total() <= self.turnaround)
    }

    /// The least rate in `low..=high` that meets the objective, where turnaround falls with the rate.
    fn least(&self, mut low: u64, mut high: u64) -> Result<Option<u64>, DomainError> {
        if !self.meets(high)? {
            return Ok(None);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.meets(middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Some(low))
    }

    /// The least rate for [`Basis::Document`], whose slow-start rounds grow in steps with the rate: the
    /// turnaround falls only between the steps, so each stretch is searched. Where none
    /// meets the objective, the rate that comes closest.
    fn least_by_steps(&self, mode: Mode) -> Result<Result<u64, u64>, DomainError> {
        let rounds = |rate: u64| -> Result<u32, DomainError> {
            let transfer = Transfer {
                size: self.page,
                rate: Rate(rate),
                rtt: self.rtt,
                mss: self.sender.mss,
            };
            Ok(transfer.transaction(mode)?.s)
        };
        let (mut start, mut closest) = (1, (f64::INFINITY, RATE_MAX));
        loop {
            let here = rounds(start)?;
            // The last rate with this number of rounds.
            let (mut last, mut beyond) = (start, RATE_MAX + 1);
            while beyond - last > 1 {
                let middle = last + (beyond - last) / 2;
                if rounds(middle)? == here {
                    last = middle
                } else {
                    beyond = middle
                }
            }
            if let Some(found) = self.least(start, last)? {
                return Ok(Ok(found));
            }
            let total = self.turnaround_at(Rate(last))?.total().0;
            if total < closest.0 {
                closest = (total, last);
            }
            if beyond > RATE_MAX {
                return Ok(Err(closest.1));
            }
            start = beyond;
        }
    }

    /// The answer; [`DomainError::Unattainable`] states the turnaround that remains at any bandwidth.
    pub fn answer(&self) -> Result<Explained<Dimension>, DomainError> {
        self.check()?;
        let found = match self.basis {
            Basis::Document(mode) => self.least_by_steps(mode)?,
            Basis::Burst | Basis::Windows | Basis::Steady { .. } => self.least(1, RATE_MAX)?.ok_or(RATE_MAX),
        };
        let rate = match found {
            Ok(rate) => rate,
            Err(closest) => return Err(self.unattainable(Rate(closest))?),
        };
        let parts = self.turnaround_at(Rate(rate))?;
        Ok(self.explain(Rate(rate), parts))
    }

    fn unattainable(&self, closest: Rate) -> Result<DomainError, DomainError> {
        let floor = self.turnaround_at(closest)?;
        Ok(DomainError::Unattainable {
            objective_s: self.turnaround.0,
            floor_s: floor.total().0,
            because: match self.basis {
                Basis::Document(_) => {
                    "round trips of all users in turn, which bandwidth cannot shorten".to_owned()
                }
                Basis::Burst | Basis::Windows | Basis::Steady { .. } => {
                    if floor.round_trips + floor.window + floor.loss >= floor.wire + floor.sharing {
                        let losses = if self.loss > 0.0 {
                            format!(", {} of losses", floor.loss)
                        } else {
                            String::new()
                        };
                        format!(
                            "{} of round trips{losses} and {} of window growth, which bandwidth cannot shorten",
                            floor.round_trips, floor.window
                        )
                    } else {
                        format!(
                            "{} of bytes, the users' own and the others', at {closest}, the highest rate that is tried",
                            floor.wire + floor.sharing
                        )
                    }
                }
            },
        })
    }
}
