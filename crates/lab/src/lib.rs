//! Studies: a plan says which programs run how often and what is claimed; the runner runs them and keeps what they
//! printed; rules written in the plan judge the claims from what was kept; a report shows it all.
//!
//! Knows no server, client or load: the contract with them is the command line of the binary and the lines of JSON it
//! prints. Nothing here decides a verdict but the rule of a claim and the numbers of result files.

pub mod chart;
pub mod document;
pub mod ledger;
pub mod observation;
pub mod plan;
mod reading;
pub mod record;
pub mod report;
pub mod rule;
pub mod run;
pub mod statistics;
