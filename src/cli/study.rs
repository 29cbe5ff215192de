//! The flags of `weir study`: which document, which size, where results go. Does nothing.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir study qos --quick
  weir study all --quick --out ./study
  weir study w3c --full --out ./study
  weir study heidemann --paper --figures --out ./study
  weir study since --quick
  weir study all since --full --out ./study
  weir study all --report-only --out ./study
  weir study all --report-only --out ./study --publish docs/report
  weir study --plan mine.toml --out ./mine
  weir study qos --show-plan > mine.toml

Weir keeps results in --out, and an interrupted study continues there. The report shows arms (groups
of runs) that this machine cannot run as not run, with the reason. The report is report.html,
report.md and report.json in --out.

Exit codes: 0 the report was written; 1 a run failed or stayed invalid; 2 usage, or a plan that
cannot be read; 4 the system refused.";

/// A study, or the five documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// 003: pipelining and compression, W3C 1997
    W3c,
    /// 001: P-HTTP and TCP, Heidemann 1997
    Heidemann,
    /// 000: HTTP/1.0 and 1.1 under Surge, Barford and Crovella 1999
    Barford,
    /// 002: server architectures, JAWS 1997
    Jaws,
    /// 004: waiting and turnaround, formulas
    Qos,
    /// The protocols since: HTTP/2 and HTTP/3 on the page of document 003, with claims of this project
    Since,
    /// The five documents
    All,
}

impl Name {
    /// The names of the studies to run.
    pub(crate) fn studies(self) -> &'static [&'static str] {
        match self {
            Name::W3c => &["w3c"],
            Name::Heidemann => &["heidemann"],
            Name::Barford => &["barford"],
            Name::Jaws => &["jaws"],
            Name::Qos => &["qos"],
            Name::Since => &["since"],
            Name::All => &["w3c", "heidemann", "barford", "jaws", "qos"],
        }
    }
}

/// Flags of `weir study`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Studies to run: documents whose claims to check, or the protocols since
    #[arg(value_name = "NAME", value_enum, required_unless_present = "plan")]
    pub(crate) names: Vec<Name>,

    /// Runs your own plan instead of the plan of a document
    #[arg(long, value_name = "FILE", conflicts_with = "names")]
    pub(crate) plan: Option<PathBuf>,

    /// Runs simulations and short live runs (the default); planned at 22 minutes for the five documents, 15 without root
    #[arg(long, conflicts_with_all = ["full", "paper"])]
    pub(crate) quick: bool,

    /// Runs every arm, with scaled durations
    #[arg(long, conflicts_with = "paper")]
    pub(crate) full: bool,

    /// Runs every arm with the document's own durations
    #[arg(long)]
    pub(crate) paper: bool,

    /// Directory for results and the report
    #[arg(long, value_name = "DIR", default_value = "study")]
    pub(crate) out: PathBuf,

    /// Runs only arms whose names begin with one of these comma-separated prefixes, or, written `NAME$`, have this
    /// very name; the report shows all results
    #[arg(long, value_name = "ARMS", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Makes only runs whose numbers a figure or table of the report shows; claims that need other runs are judged as far
    /// as results exist
    #[arg(long, conflicts_with = "report_only")]
    pub(crate) figures: bool,

    /// Runs nothing: judges and reports the existing results
    #[arg(long)]
    pub(crate) report_only: bool,

    /// Also writes a version for a Git repository into this directory: report, plans, pictures, and tables of every run
    /// and number
    #[arg(long, value_name = "DIR")]
    pub(crate) publish: Option<PathBuf>,

    /// Only prints the plan
    #[arg(long, conflicts_with_all = ["plan", "only", "figures", "report_only", "publish"])]
    pub(crate) show_plan: bool,
}
