//! The flags that write a summary for continuous integration, of `weir load` and `weir compare`. Parses them;
//! [`crate::gate`] writes the files.

use clap::Args;
use std::path::PathBuf;

/// Files with the checks of a run or a comparison.
#[derive(Debug, Args)]
pub(crate) struct SummaryFlags {
    /// Writes a summary in Markdown, for the job summary of a CI system
    #[arg(long, value_name = "FILE", help_heading = "Continuous integration")]
    pub(crate) markdown: Option<PathBuf>,

    /// Writes the checks as JUnit XML, one test case for each
    #[arg(long, value_name = "FILE", help_heading = "Continuous integration")]
    pub(crate) junit: Option<PathBuf>,
}
