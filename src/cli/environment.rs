//! Variables that stand for flags: those that nearly are a flag's, and those with a value that cannot be.
//! Decides what is a misspelling and who is to blame; the variables themselves are read with the flags.
//!
//! An unknown name is no error: platforms set variables of that prefix for a service called weir
//! (Kubernetes: `WEIR_SERVICE_HOST`). One that nearly is a flag's was meant for it.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use std::ffi::{OsStr, OsString};

/// How alike two names are to be taken for the same, from 0 to 1.
const ALIKE: f64 = 0.95;

/// The misspelt among the variables set, each with what was meant.
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

/// Names the variable in an error about a flag that was not given: the value came from there.
pub(crate) fn blame(mut error: clap::Error, declaration: &mut clap::Command) -> clap::Error {
    // A flag has no words before.
    declaration.build();
    if let Some(tip) = variable_of(&error, declaration, &|name| std::env::var_os(name)) {
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![StyledStr::from(tip)]),
        );
    }
    error
}

/// What to say about the variable that holds the value an error is about, if one does and no word of the
/// command line has to be meant.
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
    // One variable may hold a list.
    let is_held = held.to_str()?.split(',').any(|one| one == value) || held.to_str()? == value;
    let name = variable.to_str()?;
    is_held.then(|| format!("the environment says so: {name}={}", held.display()))
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
            Some("the environment says so: WEIR_TEST_WORKERS=many")
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
