//! Errors about environment variables that stand for flags: misspelled names and invalid values. Decides what counts as
//! a misspelling; clap reads the variables themselves.
//!
//! An unknown name is not an error: platforms set `WEIR_*` variables for a service called weir (Kubernetes:
//! `WEIR_SERVICE_HOST`). A name very similar to a flag's is reported as a misspelling.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use std::ffi::{OsStr, OsString};

/// Jaro-Winkler similarity, from 0 to 1, from which a name counts as misspelled.
const ALIKE: f64 = 0.95;

/// The misspelled variables in the environment, each with the name probably meant.
pub(crate) fn misspelt<'a>(set: impl Iterator<Item = String>, known: &[&'a str]) -> Vec<(String, &'a str)> {
    let mut found: Vec<_> = set
        .filter(|name| name.starts_with("WEIR_") && !known.contains(&name.as_str()))
        .filter_map(|name| {
            let alike = |meant: &&str| strsim::jaro_winkler(&name, meant);
            let meant = known
                .iter()
                .max_by(|a, b| alike(a).total_cmp(&alike(b)))
                .copied()
                .filter(|meant| alike(meant) >= ALIKE)?;
            Some((name, meant))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Adds the variable to an error about an invalid value that came from the environment.
pub(crate) fn blame(mut error: clap::Error, declaration: &mut clap::Command) -> clap::Error {
    // Before `build`, a flag has no display form to compare with.
    declaration.build();
    if let Some(tip) = variable_of(&error, declaration, &|name| std::env::var_os(name)) {
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![StyledStr::from(tip)]),
        );
    }
    error
}

/// A tip naming the variable that holds the invalid value of an error, if there is one.
fn variable_of(
    error: &clap::Error,
    declaration: &clap::Command,
    value_of: &dyn Fn(&OsStr) -> Option<OsString>,
) -> Option<String> {
    let text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    let (flag, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let mut flags = declaration
        .get_subcommands()
        .flat_map(clap::Command::get_arguments);
    let variable = flags.find_map(|known| known.get_env().filter(|_| known.to_string() == flag))?;
    let held = value_of(variable)?;
    // A variable may hold a comma-separated list.
    let is_held = held.to_str()?.split(',').any(|one| one == value) || held.to_str()? == value;
    let name = variable.to_str()?;
    is_held.then(|| format!("the value comes from the environment: {name}={}", held.display()))
}

#[cfg(test)]
mod tests {
    use super::{misspelt, variable_of};

    #[test]
    fn the_variable_that_holds_what_cannot_be_is_named() {
        let mut declaration = clap::Command::new("weir").subcommand(
            clap::Command::new("serve").arg(
                clap::arg!(--workers <N>)
                    .env("WEIR_TEST_WORKERS")
                    .value_parser(clap::value_parser!(u8)),
            ),
        );
        let error = declaration
            .clone()
            .try_get_matches_from(["weir", "serve", "--workers", "many"])
            .expect_err("no number");
        declaration.build();
        let blamed = |held: Option<&str>| variable_of(&error, &declaration, &|_| held.map(Into::into));
        assert_eq!(
            blamed(Some("many")).as_deref(),
            Some("the value comes from the environment: WEIR_TEST_WORKERS=many")
        );
        assert_eq!(blamed(Some("few")), None, "then the command line did");
        assert_eq!(blamed(None), None);
    }

    #[test]
    fn only_near_misses_are_pointed_out() {
        let set = [
            "WEIR_CACHE_SISE",
            "WEIR_CACHE_SIZE",
            "WEIR_PORT_8080_TCP",
            "WEIR_SERVICE_HOST",
            "HOME",
        ];
        let known = ["WEIR_CACHE_SIZE", "WEIR_CACHE_POLICY", "WEIR_LISTEN"];
        assert_eq!(
            misspelt(set.into_iter().map(str::to_owned), &known),
            [("WEIR_CACHE_SISE".to_owned(), "WEIR_CACHE_SIZE")]
        );
    }
}
