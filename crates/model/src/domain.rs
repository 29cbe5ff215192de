//! Refused questions: a parameter outside a formula's domain, with its value and the allowed values.
//!
//! No public function of this crate returns NaN or infinity; it returns one of these errors. Knows nothing of the
//! numbers' origin.

use crate::Seconds;
use core::fmt;
use serde::Serialize;

/// The reason why a question has no answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum DomainError {
    /// A parameter lies outside the formula's domain.
    Outside {
        /// Name of the parameter, as in the formula.
        parameter: &'static str,
        /// Its value, in the unit named by `allowed`.
        value: f64,
        /// The allowed values with their unit.
        allowed: &'static str,
    },
    /// Work arrives at least as fast as it can be served: no steady state exists.
    Saturated {
        /// The overloaded station.
        station: String,
        /// Its utilization, at least 1.
        utilization: f64,
    },
    /// No value of the free parameter reaches the objective.
    Unattainable {
        /// The objective, in seconds.
        objective_s: f64,
        /// The best that any value of the free parameter gives, in seconds.
        floor_s: f64,
        /// The parts of that floor.
        because: String,
    },
    /// Too few observations for the estimate.
    TooFew {
        /// The observations, as in "samples".
        what: &'static str,
        /// Their number.
        got: usize,
        /// The number needed.
        need: usize,
    },
    /// The observations break a law that holds for any system.
    Contradictory {
        /// The law, and how they break it.
        because: String,
    },
    /// The observations do not determine the estimate.
    Undetermined {
        /// The quantities that cannot be distinguished, and an observation that would help.
        because: &'static str,
    },
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DomainError::Outside {
                parameter,
                value,
                allowed,
            } => {
                write!(f, "{parameter} is {value}; allowed: {allowed}")
            }
            DomainError::Saturated { station, utilization } => write!(
                f,
                "{station} is overloaded (utilization {utilization:.3}); a steady state needs less than 1"
            ),
            DomainError::Unattainable {
                objective_s,
                floor_s,
                because,
            } => write!(
                f,
                "the objective {} cannot be reached: {} remain at best ({because})",
                Seconds(*objective_s),
                Seconds(*floor_s)
            ),
            DomainError::TooFew { what, got, need } => {
                write!(f, "{got} {what} given, at least {need} needed")
            }
            DomainError::Contradictory { because } => {
                write!(f, "the samples contradict themselves: {because}")
            }
            DomainError::Undetermined { because } => {
                write!(f, "the samples leave the answer open: {because}")
            }
        }
    }
}

impl std::error::Error for DomainError {}

/// `value` if it is finite and above zero.
pub(crate) fn positive(
    parameter: &'static str,
    value: f64,
    allowed: &'static str,
) -> Result<f64, DomainError> {
    within(parameter, value, value > 0.0, allowed)
}

/// `value` if it is finite and not below zero.
pub(crate) fn non_negative(
    parameter: &'static str,
    value: f64,
    allowed: &'static str,
) -> Result<f64, DomainError> {
    within(parameter, value, value >= 0.0, allowed)
}

/// `value` if it is finite and `holds`.
pub(crate) fn within(
    parameter: &'static str,
    value: f64,
    holds: bool,
    allowed: &'static str,
) -> Result<f64, DomainError> {
    if value.is_finite() && holds {
        Ok(value)
    } else {
        Err(DomainError::Outside {
            parameter,
            value,
            allowed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_parameter_value_and_region() {
        let error = positive("rtt", -0.1, "above 0 s").unwrap_err();
        assert_eq!(error.to_string(), "rtt is -0.1; allowed: above 0 s");
        assert!(positive("rtt", f64::NAN, "above 0 s").is_err());
        assert!(non_negative("think time", f64::INFINITY, "0 s or more").is_err());
        assert_eq!(non_negative("think time", 0.0, "0 s or more"), Ok(0.0));
    }
}
