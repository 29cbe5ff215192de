//! The flags of `weir convert`: a file, its dialect, where the result goes. Parses them; converts nothing.

use clap::Args;
use convert::Dialect;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  weir convert /etc/nginx/nginx.conf                      the result on standard output
  weir convert /etc/nginx/nginx.conf --out weir.toml
  weir convert Caddyfile --out weir.toml
  weir convert /var/www/html/.htaccess --root /var/www/html
  weir serve --config weir.toml --check

Standard error lists the directives that the result does not carry over unchanged, with file,
line and reason. Those with the same reason are listed together: the first five, or all of them
with -v. Each has one of these words:

  open        limits access, and the result does not; act before the site is public
  missing     not in the result
  changed     in the result, but Weir behaves differently, as the reason says
  unneeded    Weir needs no line for it (listed with -v)

The result begins with the open and missing directives, as comments.

Exit codes: 0 converted; 1 the result is not a valid configuration of Weir; 2 usage, or a file that
cannot be parsed; 4 a file cannot be read or written.";

/// Arguments of `weir convert`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The main file; includes are read, too, relative to its folder
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The server that the file was written for: nginx, caddy or apache [default: by name and content]
    #[arg(long, value_name = "SERVER", value_parser = dialect)]
    pub(crate) from: Option<Dialect>,

    /// Document root, if the file names none; a .htaccess may have others in its folders
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    /// Writes the result to a file that does not exist yet, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

fn dialect(text: &str) -> Result<Dialect, String> {
    let found = Dialect::ALL.iter().find(|(_, word)| *word == text);
    found.map(|(dialect, _)| *dialect).ok_or_else(|| {
        let words: Vec<&str> = Dialect::ALL.iter().map(|(_, word)| *word).collect();
        format!(
            "`{text}` is no server that can be converted from; write {}",
            words.join(", ")
        )
    })
}
