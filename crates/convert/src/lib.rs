//! Configurations of other servers as a configuration of `weir serve`: nginx, Caddy, Apache httpd.
//!
//! Every directive has a [`Fate`]: it became lines of the result, needs none, or is reported with file, line and reason.
//! The functions that read a directive return its fate, so none can be dropped by accident. This crate opens no file:
//! the caller passes [`Files`], which reads includes. It does not know the types of the crate `server`; the caller checks
//! the result with them.

mod directive;
mod fate;
mod files;
mod model;
mod nginx;
mod pattern;
mod regex;
mod report;
mod value;
mod write;

pub use fate::Fate;
pub use files::{Files, INCLUDES_MAX, Text};
pub use report::{Note, Report, Unreadable};

use core::fmt;

/// The server that a configuration was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// nginx: a whole `nginx.conf` or one `server` block.
    Nginx,
}

impl Dialect {
    /// Every dialect with its word.
    pub const ALL: [(Dialect, &'static str); 1] = [(Dialect::Nginx, "nginx")];

    /// The dialect of a file, by its name and text.
    pub fn of(_name: &str, _text: &str) -> Dialect {
        Dialect::Nginx
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Dialect::ALL.iter().find(|(dialect, _)| dialect == self);
        f.write_str(word.map_or("", |(_, word)| word))
    }
}

/// A configuration of `weir serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The text of the TOML file. It begins with the directives that are missing, as comments.
    pub toml: String,
    /// Further files that the TOML file names, relative to it: name and text.
    pub files: Vec<(String, String)>,
    /// The fate of every directive.
    pub report: Report,
}

/// Converts a configuration. `root` is the document root of a configuration that names none.
///
/// # Errors
/// The first mistake of syntax.
pub fn convert(
    dialect: Dialect,
    main: &Text,
    files: &dyn Files,
    root: Option<&str>,
) -> Result<Conversion, Unreadable> {
    let mut report = Report::default();
    let mut server = match dialect {
        Dialect::Nginx => nginx::convert(main, files, &mut report)?,
    };
    if server.top.root.is_none() {
        server.top.root = root.map(str::to_owned);
    }
    report.sort();
    let toml = write::toml(&server, &report, &main.name);
    Ok(Conversion {
        toml,
        files: Vec::new(),
        report,
    })
}
