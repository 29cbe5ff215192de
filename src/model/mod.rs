//! `weir model`: parses a question, calls the crate with the formulas, and prints the answer in the requested form.
//! Computes only grids and curves, which combine many answers.

mod balance;
mod bursts;
mod count;
mod document;
mod experiment;
mod fit;
mod flow;
mod grid;
mod loopback;
mod measured;
mod queues;
mod record;
mod replayed;
mod report;
mod simulate;
mod stage;
mod timeline;
mod transfers;
mod users;
mod validate;

use crate::cli::model::{Flags, Format, Question};
use crate::failure::Failure;
use crate::voice::Voice;
use ::model::{DomainError, Quantity};
use report::Report;
use std::io::{self, Write};

/// Measured values to compare with the region of validity.
type Measured<'a> = &'a [(Quantity, f64)];

/// Prints the answer on standard output.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let output = &flags.output;
    let format = if voice.json { Format::Json } else { output.format };
    let name = name(&flags.question);
    let report = match answer(&flags.question, &output.measured, voice) {
        Ok(report) => report,
        Err(why) => {
            // With `--format json`, the reason for a missing answer goes where the answer would be. With the global
            // `--json`, the caller prints it as an event.
            if format == Format::Json && !voice.json {
                say(&report::refusal(name, &why))?;
            }
            return Err(why);
        }
    };
    say(&report.render(format, output.explain, name)?)?;
    report.failed.map_or(Ok(()), |why| Err(Failure::Failed(why)))
}

/// Writes `text` on standard output.
fn say(text: &str) -> Result<(), Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that closes the pipe has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::System(format!("cannot write the answer: {error}"))),
    }
}

/// The question's name on the command line.
fn name(question: &Question) -> &'static str {
    match question {
        Question::Transaction(_) => "transaction",
        Question::Transfer(_) => "transfer",
        Question::Page(_) => "page",
        Question::Waiting(_) => "waiting",
        Question::Dimension(_) => "dimension",
        Question::Distribute(_) => "distribute",
        Question::Servers(_) => "servers",
        Question::Tables(_) => "tables",
        Question::Savings(_) => "savings",
        Question::Queue(_) => "queue",
        Question::Closed(_) => "closed",
        Question::Srpt(_) => "srpt",
        Question::Flow(_) => "flow",
        Question::Fit(_) => "fit",
        Question::Experiment(_) => "experiment",
        Question::Validate(_) => "validate",
        Question::Balance(_) => "balance",
    }
}

/// Dispatches the question.
fn answer(question: &Question, measured: Measured<'_>, voice: &Voice) -> Result<Report, Failure> {
    match question {
        Question::Transaction(flags) => transfers::transaction(flags, measured),
        Question::Transfer(flags) => transfers::transfer(flags, measured),
        Question::Page(flags) => transfers::page(flags, measured),
        Question::Waiting(flags) => users::waiting(flags, measured),
        Question::Dimension(flags) => users::dimension(flags, measured),
        Question::Distribute(flags) => users::distribute(flags, measured),
        Question::Servers(flags) => count::servers(flags, measured),
        Question::Tables(flags) => document::tables(flags),
        Question::Savings(flags) => document::savings(flags),
        Question::Queue(flags) => queues::queue(flags, measured),
        Question::Closed(flags) => queues::closed(flags, measured),
        Question::Srpt(flags) => queues::srpt(flags, measured),
        Question::Flow(flags) => flow::flow(flags, measured),
        Question::Fit(flags) => fit::fit(flags, measured),
        Question::Experiment(flags) => experiment::experiment(flags, voice),
        Question::Validate(flags) => validate::validate(flags, voice),
        Question::Balance(flags) => balance::balance(flags),
    }
}

impl From<DomainError> for Failure {
    fn from(error: DomainError) -> Failure {
        match error {
            // The question was valid and its answer is negative.
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

#[cfg(feature = "measure")]
#[cfg(test)]
mod tests;
