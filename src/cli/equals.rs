//! Flags with an optional value take it only after `=` (`--live=all`), because the word after a bare `--live` may be
//! the directory to serve. Decides when a word was probably meant as a value, so that the error shows the correct form.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A word that was probably meant as the value of the flag before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    flag: String,
    value: String,
}

impl Stray {
    /// Finds the first word after a bare flag that is a valid value of it. `arguments` are without the program's name.
    /// For a flag that takes any text, every word counts, unless a directory of this name exists.
    pub(crate) fn find(declaration: &clap::Command, arguments: &[OsString]) -> Option<Stray> {
        let words: Vec<&str> = arguments.iter().map_while(|word| word.to_str()).collect();
        let (at, command) = words
            .iter()
            .enumerate()
            .find_map(|(at, word)| Some((at, declaration.find_subcommand(word)?)))?;
        let read = words[at + 1..].split(|word| *word == "--").next()?;
        read.windows(2).find_map(|pair| {
            let (name, value) = (pair[0].strip_prefix("--")?, pair[1]);
            let is_it = |flag: &&clap::Arg| {
                let mut names = flag
                    .get_long()
                    .into_iter()
                    .chain(flag.get_all_aliases().unwrap_or_default());
                flag.is_require_equals_set() && names.any(|known| known == name)
            };
            let flag = command.get_arguments().find(is_it)?;
            let offered = flag.get_possible_values();
            let is_meant = match offered.is_empty() {
                true => !value.starts_with('-') && !Path::new(value).is_dir(),
                false => offered.iter().any(|one| one.matches(value, false)),
            };
            is_meant.then(|| Stray {
                flag: pair[0].to_owned(),
                value: value.to_owned(),
            })
        })
    }

    /// Whether `word` is the stray value.
    pub(crate) fn is(&self, word: &OsStr) -> bool {
        word == OsStr::new(&self.value)
    }

    /// The correct form, for an error message.
    pub(crate) fn advice(&self) -> String {
        let Stray { flag, value } = self;
        format!("to give `{value}` as the value of `{flag}`, write `{flag}={value}`")
    }
}

/// Adds the correct form to clap's error about an unexpected argument.
pub(crate) fn explain(
    mut error: clap::Error,
    declaration: &clap::Command,
    arguments: &[OsString],
) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(stray) = Stray::find(declaration, arguments)
    {
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![StyledStr::from(stray.advice())]),
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;

    fn stray(arguments: &[&str]) -> Option<String> {
        let mut declaration = Cli::declaration();
        declaration.build();
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        Stray::find(&declaration, &arguments).map(|stray| stray.advice())
    }

    /// Covers every flag of the server with an optional value: with each of its words, or with any text.
    #[test]
    fn a_value_behind_a_bare_flag_is_told_how_to_be_written() {
        let mut declaration = Cli::declaration();
        declaration.build();
        let serve = declaration.find_subcommand("serve").expect("a command");
        let mut seen = 0;
        for flag in serve.get_arguments().filter(|flag| flag.is_require_equals_set()) {
            let name = flag.get_long().expect("a long name");
            let offered = flag.get_possible_values();
            let mut values: Vec<&str> = offered.iter().map(|one| one.get_name()).collect();
            if values.is_empty() {
                values = vec!["/no/such/folder.html"];
            }
            for value in values {
                let wanted = format!("write `--{name}={value}`");
                let said = stray(&[
                    "serve",
                    "--listen",
                    ":80",
                    &format!("--{name}"),
                    value,
                    "./public",
                ]);
                assert!(
                    said.as_deref().is_some_and(|said| said.ends_with(&wanted)),
                    "{said:?}"
                );
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
        for fine in [
            &["serve", "--live", "./public"][..],
            &["serve", "--live=all", "local"],
            &["serve", "--live", "--", "local"],
            &["serve", "--spa", "src"],
            &["serve", "--listing", "--live"],
            &["--live", "local"],
            &["ctl", "status"],
        ] {
            assert_eq!(stray(fine), None, "{fine:?}");
        }
        assert!(
            stray(&["-q", "serve", "--spa", "/app.html"]).is_some(),
            "an alias"
        );
    }

    #[test]
    fn a_word_too_many_is_explained() {
        let arguments = ["weir", "serve", "./public", "--live", "local"].map(OsString::from);
        let mut declaration = Cli::declaration();
        let error = declaration
            .try_get_matches_from_mut(&arguments)
            .expect_err("a word too many");
        let said = explain(error, &declaration, &arguments[1..]).to_string();
        assert!(said.contains("write `--live=local`"), "{said}");
    }
}
