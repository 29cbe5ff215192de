//! `weir convert`: reads the files, prints the result and the fate of each directive. The crate `convert` decides both;
//! `server::config` validates the result.

mod includes;
mod nested;

use crate::cli::convert::Flags;
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use ::convert::{Dialect, Fate, LISTED_MAX, Report, Text};
use includes::Includes;
use server::config::Config;
use std::io::Write as _;
use std::path::Path;

/// Converts a file.
///
/// # Errors
/// `Usage`: a mistake of syntax, or a file that does not exist. `Failed`: the result is not valid. `System`: a file cannot
/// be read or written.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let text = includes::read(&flags.file).map_err(|error| {
        let why = format!("cannot read `{}`: {error}", flags.file.display());
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::InvalidInput => Failure::Usage(why),
            _ => Failure::System(why),
        }
    })?;
    let main = Text {
        name: flags.file.display().to_string(),
        text,
    };
    let folder = flags.file.parent().unwrap_or(Path::new(""));
    let dialect = flags.from.unwrap_or_else(|| Dialect::of(&main.name, &main.text));
    let root = flags.root.as_deref().map(|root| root.display().to_string());
    let converted =
        ::convert::convert(dialect, &main, &Includes::of(folder), root.as_deref()).map_err(|wrong| {
            Failure::Usage(format!(
                "{wrong}; read as the configuration of {dialect} (`--from` names another server)"
            ))
        })?;
    if let Some(out) = &flags.out {
        for name in &converted.folders {
            make_empty(&out.with_file_name(name))?;
        }
        write(out, &converted.toml)?;
        for (name, text) in &converted.files {
            write(&out.with_file_name(name), text)?;
        }
    }
    if voice.json {
        output::line(json(dialect, &converted))?;
    } else {
        if flags.out.is_none() {
            output::print(&converted.toml)?;
        }
        output::print_error(&report(&converted.report, voice))?;
    }
    let name = flags
        .out
        .as_deref()
        .map_or("the result".into(), Path::to_string_lossy);
    match Config::from_toml(&converted.toml, &name) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Failed(format!(
            "the result is not a valid configuration: {error}; correct this line, and please report the directive behind it"
        ))),
    }
}

/// Writes a file that must not exist.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let create = || {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)?;
        file.write_all(text.as_bytes())
    };
    create().map_err(|error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::Usage(format!(
            "`{}` exists; remove it or name another file",
            path.display()
        )),
        _ => Failure::System(format!("cannot write `{}`: {error}", path.display())),
    })
}

/// Makes a folder, or leaves one that is empty.
fn make_empty(folder: &Path) -> Result<(), Failure> {
    let system = |error: std::io::Error| {
        Failure::System(format!("cannot make the folder `{}`: {error}", folder.display()))
    };
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            match std::fs::read_dir(folder).map_err(system)?.next() {
                None => Ok(()),
                Some(_) => Err(Failure::Usage(format!(
                    "`{}` is not empty, and hosts without files would send what is in it; empty it, or write the result elsewhere",
                    folder.display()
                ))),
            }
        }
        made => made.map_err(system),
    }
}

fn report(report: &Report, voice: &Voice) -> String {
    let mut out = String::new();
    let most = match voice.is_detailed() {
        true => usize::MAX,
        false => LISTED_MAX,
    };
    for group in report.groups() {
        let is_shown = match group.fate {
            Fate::Open(_) | Fate::Missing(_) => true,
            Fate::Changed(_) => voice.reports(),
            Fate::Unneeded(_) => voice.is_detailed(),
            Fate::Carried => false,
        };
        if !is_shown {
            continue;
        }
        let mut word = group.fate.word();
        for note in group.notes.iter().take(most) {
            let [file, directive] = [&*note.file, &*note.directive].map(printable);
            out.push_str(&format!("{word:<8} {file}:{}: {directive}\n", note.line));
            word = "";
        }
        let more = group.notes.len().saturating_sub(most);
        if more > 0 {
            out.push_str(&format!("         and {more} more\n"));
        }
        out.push_str(&format!("         {}\n", printable(group.fate.why())));
    }
    if voice.reports() {
        let counts = ["carried", "unneeded", "changed", "missing", "open"]
            .map(|word| format!("{} {word}", report.count(word)));
        out.push_str(&format!(
            "{} directives: {}\n",
            report.notes().len(),
            counts.join(", ")
        ));
    }
    out
}

/// A text without characters on which a terminal acts: others may have named the folders of a site, and written files there.
fn printable(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    shown.collect()
}

fn json(dialect: Dialect, converted: &::convert::Conversion) -> serde_json::Value {
    let notes: Vec<serde_json::Value> = converted
        .report
        .notes()
        .iter()
        .map(|note| {
            serde_json::json!({
                "file": note.file,
                "line": note.line,
                "directive": note.directive,
                "fate": note.fate.word(),
                "why": note.fate.why(),
            })
        })
        .collect();
    serde_json::json!({
        "event": "converted",
        "from": dialect.to_string(),
        "toml": converted.toml,
        "files": converted.files.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "folders": converted.folders,
        "directives": notes,
    })
}
