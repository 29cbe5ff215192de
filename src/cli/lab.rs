//! The flags of `weir lab`: what the laboratory can say of this machine. Does nothing.

use clap::Subcommand;

/// What `weir lab` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Says what works on this machine (namespaces, TUN, io_uring, capture, control groups) and how to enable the rest
    #[command(after_help = "\
Examples:
  weir lab doctor
  weir lab doctor --json

Exit code 0 whatever is found: what is missing limits what can be measured here, not whether Weir serves.")]
    Doctor,
}
