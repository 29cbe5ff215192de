//! Why a command failed: an exit code and a message for the user. Decides exit codes; commands write the messages.

use crate::secure::Fault;
use std::path::Path;
use std::process::ExitCode;
use std::{fmt, io};

/// The failure of a command. The text names the cause and what to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Exit code 2: an invalid flag or configuration, or a path that does not exist.
    Usage(String),
    /// Exit code 1: a measurement or result does not meet its requirement.
    Failed(String),
    /// Exit code 3: a measurement cannot be trusted.
    Invalid(String),
    /// Exit code 4: a system call failed.
    System(String),
}

impl Failure {
    /// The exit code of the process; never 0.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// The exit code as a number from 1 to 4.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Invalid(_) => 3,
            Failure::System(_) => 4,
        }
    }

    /// Appends what `addition` returns for the text.
    pub(crate) fn with(self, addition: impl FnOnce(&str) -> String) -> Failure {
        let longer = |text: String| format!("{text}{}", addition(&text));
        match self {
            Failure::Failed(text) => Failure::Failed(longer(text)),
            Failure::Invalid(text) => Failure::Invalid(longer(text)),
            Failure::Usage(text) => Failure::Usage(longer(text)),
            Failure::System(text) => Failure::System(longer(text)),
        }
    }

    /// The failure to read a log: `Usage` if another file must be named, otherwise `System`.
    pub(crate) fn of_log(log: &Path, error: &io::Error) -> Failure {
        let text = format!("cannot read the log `{}`: {error}", log.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData => {
                Failure::Usage(text)
            }
            _ => Failure::System(text),
        }
    }

    /// Fails if any of these outcomes is a failure, with the texts of all, and with the exit code of the first.
    ///
    /// # Errors
    /// The failure, or all of them in one.
    pub(crate) fn of_all(outcomes: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
        let failures = outcomes.into_iter().filter_map(Result::err);
        let joined = failures.reduce(|first, other| first.with(|_| format!("\nalso: {other}")));
        joined.map_or(Ok(()), Err)
    }

    /// The kind as a word, for JSON.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Failure::Failed(_) => "failed",
            Failure::Usage(_) => "usage",
            Failure::Invalid(_) => "invalid",
            Failure::System(_) => "system",
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        match fault {
            Fault::Usage(text) => Failure::Usage(text),
            Fault::System(text) => Failure::System(text),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(text) | Failure::Usage(text) | Failure::Invalid(text) | Failure::System(text) => {
                f.write_str(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_failures_are_told() {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        let system = |text: &str| Err(Failure::System(text.to_owned()));
        for (outcomes, wanted) in [
            (vec![], None),
            (vec![Ok(()), Ok(())], None),
            (vec![Ok(()), system("a")], Some((4, "a"))),
            (
                vec![usage("a"), Ok(()), system("b"), system("c")],
                Some((2, "a\nalso: b\nalso: c")),
            ),
        ] {
            let failure = Failure::of_all(outcomes).err();
            let got = failure.map(|failure| (failure.code(), failure.to_string()));
            assert_eq!(got.as_ref().map(|(code, text)| (*code, text.as_str())), wanted);
        }
    }
}
