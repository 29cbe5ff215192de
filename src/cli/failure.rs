//! Why a command ended without success, as an exit code and a sentence for the person who typed it.

use std::path::Path;
use std::process::ExitCode;
use std::{fmt, io};

/// A failed command. The text names the offender and what to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked cannot be: a flag, a file of configuration, a directory that is not there.
    Usage(String),
    /// What was measured or made is not what it must be.
    Failed(String),
    /// What was measured cannot be trusted.
    Invalid(String),
    /// The system refused.
    System(String),
}

impl Failure {
    /// 0 is success.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    /// The same as a number.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Invalid(_) => 3,
            Failure::System(_) => 4,
        }
    }

    /// The same with what its text calls for added to it.
    pub(crate) fn with(self, addition: impl FnOnce(&str) -> String) -> Failure {
        let longer = |text: String| format!("{text}{}", addition(&text));
        match self {
            Failure::Failed(text) => Failure::Failed(longer(text)),
            Failure::Invalid(text) => Failure::Invalid(longer(text)),
            Failure::Usage(text) => Failure::Usage(longer(text)),
            Failure::System(text) => Failure::System(longer(text)),
        }
    }

    /// Why a log cannot be read: another file must be named, or the system refuses this one.
    pub(crate) fn of_log(log: &Path, error: &io::Error) -> Failure {
        let text = format!("cannot read the log `{}`: {error}", log.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData => {
                Failure::Usage(text)
            }
            _ => Failure::System(text),
        }
    }

    /// One word for machines.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Failure::Failed(_) => "failed",
            Failure::Usage(_) => "usage",
            Failure::Invalid(_) => "invalid",
            Failure::System(_) => "system",
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
