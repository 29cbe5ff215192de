//! The flags of `weir completions` and `weir man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Flags of `weir completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell to generate the script for
    pub(crate) shell: Shell,
}

/// Flags of `weir man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Existing directory for the pages: weir.1 and one page per command
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
