//! `weir model`: takes a question apart, asks the crate that knows the formulas, and prints the answer in
//! the form asked for. Computes nothing itself but the grids and curves that are many answers side by side.

mod bursts;
mod document;
mod experiment;
mod fit;
mod flow;
mod grid;
mod loopback;
mod measured;
mod queues;
mod report;
mod simulate;
mod stage;
mod transfers;
mod users;
mod validate;

use crate::cli::model::{Flags, Format, Question};
use crate::cli::{Failure, Voice};
use ::model::{DomainError, Quantity};
use report::Report;
use std::io::{self, Write};

/// What was measured, to be compared with the region of validity.
type Measured<'a> = &'a [(Quantity, f64)];

/// Answers the question on standard output.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let output = &flags.output;
    let format = if voice.json { Format::Json } else { output.format };
    let (name, report) = answer(&flags.question, &output.measured, voice)?;
    let text = report.render(format, output.explain, name)?;
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever reads has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        other => other.map_err(|error| Failure::System(format!("cannot write the answer: {error}")))?,
    }
    report.failed.map_or(Ok(()), |why| Err(Failure::Failed(why)))
}

/// The question's name and its answer.
fn answer(
    question: &Question,
    measured: Measured<'_>,
    voice: &Voice,
) -> Result<(&'static str, Report), Failure> {
    let (name, report) = match question {
        Question::Transaction(flags) => ("transaction", transfers::transaction(flags, measured)),
        Question::Transfer(flags) => ("transfer", transfers::transfer(flags, measured)),
        Question::Page(flags) => ("page", transfers::page(flags, measured)),
        Question::Waiting(flags) => ("waiting", users::waiting(flags, measured)),
        Question::Dimension(flags) => ("dimension", users::dimension(flags, measured)),
        Question::Distribute(flags) => ("distribute", users::distribute(flags, measured)),
        Question::Servers(flags) => ("servers", users::servers(flags, measured)),
        Question::Tables(flags) => ("tables", document::tables(flags)),
        Question::Savings(flags) => ("savings", document::savings(flags)),
        Question::Queue(flags) => ("queue", queues::queue(flags, measured)),
        Question::Closed(flags) => ("closed", queues::closed(flags, measured)),
        Question::Srpt(flags) => ("srpt", queues::srpt(flags, measured)),
        Question::Flow(flags) => ("flow", flow::flow(flags, measured)),
        Question::Fit(flags) => ("fit", fit::fit(flags, measured)),
        Question::Experiment(flags) => ("experiment", experiment::experiment(flags, voice)),
        Question::Validate(flags) => ("validate", validate::validate(flags, voice)),
    };
    Ok((name, report?))
}

impl From<DomainError> for Failure {
    fn from(error: DomainError) -> Failure {
        match error {
            // The question made sense; the answer is no.
            DomainError::Unattainable { .. } | DomainError::Saturated { .. } => {
                Failure::Failed(error.to_string())
            }
            DomainError::Outside { .. }
            | DomainError::TooFew { .. }
            | DomainError::Contradictory { .. }
            | DomainError::Undetermined { .. } => Failure::Usage(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
