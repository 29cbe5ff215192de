//! Studies: a plan says which programs run, how often, and which claims they test. The runner runs them and keeps
//! their output, the plan's rules judge the claims from it, and a report shows everything.
//!
//! Knows no server, client or load: the contract with them is the binary's command line and its JSON lines. Verdicts
//! come only from a claim's rules and the numbers in result files.

pub mod coverage;
pub mod document;
pub mod ledger;
pub mod observation;
pub mod plan;
mod reading;
pub mod record;
pub mod report;
pub mod rule;
pub mod run;
mod shown;
pub mod statistics;
