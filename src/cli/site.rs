//! The flags of `weir site`: workload, seed and target folder. Parses and documents them; writes nothing.

use crate::failure::Failure;
use ::load::parameters::{Parameters, Set};
use ::load::site::DEPTH_MAX;
use ::load::site::microscape::TagCase;
use ::load::webstone::List;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use units::Seed;

const EXAMPLES: &str = "\
Examples:
  weir site surge ./site                             2,000 files, about 50 MB, and their manifest
  weir site surge ./site --seed 7 --report fit.html  another site, with a report of its fit
  weir site surge ./site --files 200 --size-max 1000000
  weir site surge ./site --parameters surge-1998
  weir site surge ./site --off-time 'pareto(1,1.4)@..600' --shares 44/30/26
  weir site webstone ./site --list standard
  weir site microscape ./site && weir serve ./site

Write a model as name(numbers)@smallest..largest and a mixture as 0.9*a(...) + 0.1*b(...). Models:
lognormal(mu,sigma), pareto(k,alpha), inverse-gaussian(mean,lambda), weibull(scale,shape),
exponential(mean), constant(value). docs/site.md gives the source of each default.

Exit codes: 0 written; 1 with --report, a stream does not fit its model or a figure differs from the
published one; 2 usage; 4 the system refused.";

/// Subcommands of `weir site`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes Surge's file set: pages, images and text with modeled sizes, popularity and objects
    #[command(after_help = EXAMPLES)]
    Surge(Box<SurgeFlags>),
    /// Writes the files of a WebStone list, with their weights in the manifest
    #[command(
        after_help = "Examples:\n  weir site webstone ./site --list standard\n  weir site webstone ./site --report list.html"
    )]
    Webstone(WebstoneFlags),
    /// Writes the Microscape page: 42 KB of HTML and 42 GIF images
    #[command(
        after_help = "Examples:\n  weir site microscape ./site && weir serve ./site\n  weir site microscape ./site --report page.html"
    )]
    Microscape(MicroscapeFlags),
}

/// Target folder of a site.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Folder to write into; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Writes into a folder that is not empty, and replaces files with equal names
    #[arg(long)]
    pub(crate) force: bool,
}

/// Flags of `weir site surge`.
#[derive(Debug, Args)]
pub(crate) struct SurgeFlags {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Writes a self-contained HTML page with model, sample, fit and plots of every stream
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) workload: Workload,
}

/// Flags of `weir site webstone`.
#[derive(Debug, Args)]
pub(crate) struct WebstoneFlags {
    #[command(flatten)]
    pub(crate) target: Target,

    /// List of files: table-1 (document 002: 35/50/14/1 percent) or standard (WebStone 2.0) [default: table-1]
    #[arg(long, value_name = "LIST")]
    list: Option<List>,

    /// Number of folders, one inside the other, around the files: a server that looks for a file such as .htaccess in
    /// each folder opens as many more for a request
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=i64::from(DEPTH_MAX)))]
    pub(crate) depth: u8,

    /// Random seed of the content [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Writes a self-contained HTML page that compares files with the list, and clients' choices with the weights of
    /// the list
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

impl WebstoneFlags {
    pub(crate) fn list(&self) -> List {
        self.list.unwrap_or(List::Table1)
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed(self.seed.unwrap_or(1))
    }
}

/// Flags of `weir site microscape`.
#[derive(Debug, Args)]
pub(crate) struct MicroscapeFlags {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Case of tags: lower or mixed (which compresses less) [default: lower]
    #[arg(long, value_name = "CASE")]
    tags: Option<TagCase>,

    /// Random seed of the content [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Writes a self-contained HTML page that compares the written files with the document's counts and sums
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

impl MicroscapeFlags {
    pub(crate) fn tags(&self) -> TagCase {
        self.tags.unwrap_or(TagCase::Lower)
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed(self.seed.unwrap_or(1))
    }
}

/// Declares one flag for each parameter and hands the given ones on by name.
macro_rules! workload {
    ($($(#[$help:meta])* $field:ident = $name:literal, $value:literal, $heading:literal;)*) => {
        /// The parameters of a Surge workload, as text: the crate that knows them reads them.
        #[derive(Debug, Args)]
        pub(crate) struct Workload {
            /// Published set to start from: surge-table-8, surge-1998 [default: surge-table-8]
            #[arg(long, value_name = "SET", help_heading = "Workload")]
            pub(crate) parameters: Option<Set>,

            /// Random seed of the workload [default: 1]
            #[arg(long, value_name = "N", help_heading = "Workload")]
            pub(crate) seed: Option<u64>,

            $($(#[$help])*
            #[arg(long = $name, value_name = $value, help_heading = $heading, allow_hyphen_values = true)]
            $field: Option<String>,)*
        }

        impl Workload {
            fn given(&self) -> Vec<(&str, &str)> {
                let mut given = Vec::new();
                $(if let Some(value) = &self.$field { given.push(($name, value.as_str())); })*
                given
            }
        }
    };
}

workload! {
    /// Files of the site [default: 2000]
    files = "files", "N", "Workload";
    /// References to files in one pass of the sequence [default: 75 per file]
    references = "references", "N", "Workload";
    /// Shares of base/embedded/single files, as relative weights [default: 30/38/32]
    shares = "shares", "SHARES", "Workload";
    /// Bytes of the largest file [default: 10000000]
    size_max = "size-max", "N", "Parameters that no document gives";
    /// Bytes at which the tail of base files begins [default: k of the Pareto tail]
    base_cut = "base-cut", "N", "Parameters that no document gives";
    /// Bytes at which the tail of requests begins [default: k of the Pareto tail]
    request_cut = "request-cut", "N", "Parameters that no document gives";
    /// Share of single files drawn from the large lognormal [default: 0.46]
    large_share = "large-share", "SHARE", "Parameters that no document gives";
    /// Seconds of the longest OFF time [default: 3600]
    off_time_max = "off-time-max", "N", "Parameters that no document gives";
    /// Bytes of a base file
    base_size = "base-size", "MODEL", "Models";
    /// Bytes of an embedded file
    embedded_size = "embedded-size", "MODEL", "Models";
    /// Bytes of a single file
    single_size = "single-size", "MODEL", "Models";
    /// Bytes of a response
    request_size = "request-size", "MODEL", "Models";
    /// Exponent s of Zipf's law: references are proportional to 1/rank^s [default: 1]
    zipf_exponent = "zipf-exponent", "S", "Models";
    /// Number of files of an object with a base file, rounded down
    files_per_object = "files-per-object", "MODEL", "Models";
    /// Largest number of files per object; larger values are drawn again [default: 150]
    files_per_object_max = "files-per-object-max", "N", "Models";
    /// Stack distance of the next object
    stack_distance = "stack-distance", "MODEL", "Models";
    /// Number of depths searched around the drawn stack distance [default: 3]
    stack_window = "stack-window", "N", "Models";
    /// OFF time after an object, in seconds
    off_time = "off-time", "MODEL", "Models";
    /// OFF time after each file of an object except the last, in seconds, or none
    active_off_time = "active-off-time", "MODEL", "Models";
    /// Number of objects of a session, rounded
    session_length = "session-length", "MODEL", "Models";
}

impl Workload {
    /// The parameters these flags make.
    ///
    /// # Errors
    /// `Usage`, naming the flag.
    pub(crate) fn parameters(&self) -> Result<Parameters, Failure> {
        let set = self.parameters.unwrap_or(Set::Table8);
        Parameters::with(set, &self.given())
            .map_err(|error| Failure::Usage(format!("`--{}`: {}", error.name, error.why)))
    }

    /// Whether any flag but the seed says how the workload is.
    pub(crate) fn describes(&self) -> bool {
        self.parameters.is_some() || !self.given().is_empty()
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed(self.seed.unwrap_or(1))
    }
}

#[cfg(feature = "measure")]
#[cfg(test)]
mod tests {
    use super::super::{Cli, Command as Top, Measure};
    use super::*;
    use ::load::parameters::NAMES;
    use clap::{CommandFactory, Parser};

    fn parameters(arguments: &[&str]) -> Result<Parameters, String> {
        let all = ["weir", "site", "surge", "dir"].iter().chain(arguments);
        let cli = Cli::try_parse_from(all).map_err(|error| error.to_string())?;
        let Top::Measure(Measure::Site {
            what: Command::Surge(flags),
        }) = cli.command
        else {
            panic!("another command")
        };
        flags.workload.parameters().map_err(|failure| failure.to_string())
    }

    #[test]
    fn every_parameter_is_a_flag() {
        let command = Cli::command();
        let site = command.find_subcommand("site").expect("a command");
        let surge = site.find_subcommand("surge").expect("a command");
        for name in NAMES {
            assert!(
                surge.get_arguments().any(|flag| flag.get_long() == Some(name)),
                "{name}"
            );
        }
    }

    #[test]
    fn flags_reach_the_parameters() {
        let made = parameters(&["--files", "300", "--off-time", "pareto(1,1.4)@..60"]).expect("valid");
        assert_eq!(made.files, 300);
        assert_eq!(made.off_time.high(), 60.0);
        assert_eq!(
            parameters(&[]).expect("valid"),
            Parameters::published(Set::Table8)
        );
        assert_eq!(
            parameters(&["--parameters", "surge-1998"]).expect("valid"),
            Parameters::published(Set::First)
        );
    }

    /// What the help calls a default is the default.
    #[test]
    fn defaults_in_the_help_are_true() {
        let command = Cli::command();
        let surge = command
            .find_subcommand("site")
            .and_then(|site| site.find_subcommand("surge"));
        let published = Parameters::published(Set::Table8);
        let mut seen = 0;
        for flag in surge.expect("a command").get_arguments() {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let (Some(name), Some((_, value))) = (flag.get_long(), help.split_once("[default: ")) else {
                continue;
            };
            let (Some(choice), false) = (published.choice(name), value.contains(' ')) else {
                continue;
            };
            assert_eq!(choice.value, value.trim_end_matches(']'), "{name}");
            seen += 1;
        }
        assert!(seen >= 8, "{seen}");
    }

    #[test]
    fn errors_name_the_flag() {
        for (arguments, fragment) in [
            (&["--files", "2"][..], "`--files`"),
            (&["--off-time", "weekly"], "`--off-time`"),
            (&["--parameters", "surge-2000"], "surge-1998"),
        ] {
            let error = parameters(arguments).expect_err("invalid");
            assert!(error.contains(fragment), "{error}");
        }
    }
}
