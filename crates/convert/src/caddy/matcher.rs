//! Matchers: which requests a directive of Caddy is for, as path patterns and networks.

use crate::directive::Directive;
use crate::pattern::pattern;
use crate::value::network;
use std::collections::BTreeMap;

/// Networks by which requests are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Networks {
    pub(super) networks: Vec<String>,
    /// Whether clients outside the networks are meant.
    pub(super) is_outside: bool,
}

/// The requests of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matcher {
    pub(super) patterns: Vec<String>,
    pub(super) networks: Option<Networks>,
}

impl Matcher {
    /// All requests.
    pub(super) fn everything() -> Matcher {
        Matcher {
            patterns: vec!["*".to_owned()],
            networks: None,
        }
    }

    /// Whether all paths match.
    pub(super) fn is_everything(&self) -> bool {
        self.patterns
            .iter()
            .any(|pattern| pattern == "*" || pattern == "/*")
    }
}

/// Matchers with names; `Err` has the reason why Weir has none like it.
pub(super) type Named = BTreeMap<String, Result<Matcher, String>>;

/// The matcher of a list of arguments, and how many of them it takes.
///
/// # Errors
/// Why Weir has none like it.
pub(super) fn of(
    args: &[String],
    (around, strip): (&Matcher, Option<&str>),
    named: &Named,
) -> Result<(Matcher, usize), String> {
    match args.first().map_or("", |arg| arg) {
        "*" => Ok((around.clone(), 1)),
        name if name.starts_with('@') => match named.get(name) {
            Some(Ok(matcher)) => Ok((matcher.clone(), 1)),
            Some(Err(why)) => Err(format!("{name}: {why}")),
            None => Err(format!("`{name}` is not defined")),
        },
        path if path.starts_with('/') && strip.is_some() => Err(STRIPPED.to_owned()),
        path if path.starts_with('/') => Ok((of_paths(&args[..1])?, 1)),
        _ => Ok((around.clone(), 0)),
    }
}

/// The matcher of paths.
fn of_paths(paths: &[String]) -> Result<Matcher, String> {
    let patterns: Option<Vec<String>> = paths.iter().map(|path| pattern(path)).collect();
    match patterns {
        Some(patterns) if !patterns.is_empty() => Ok(Matcher {
            patterns,
            networks: None,
        }),
        _ => Err("a path of Weir has at most one `*`".to_owned()),
    }
}

/// Why there is no matcher for paths within `handle_path`.
const STRIPPED: &str = "paths in `handle_path` lack its prefix; write the rule with the whole path";

/// Why there is no matcher for names that begin with a dot.
pub(super) const HIDDEN: &str = crate::hidden::WHY;

/// Whether a path of Caddy is that of names that begin with a dot.
fn is_hidden(path: &str) -> bool {
    matches!(path, "*/.*" | "/.*")
}

/// Reads the definition of a matcher with a name, for requests that match `around`, without the prefix `strip`.
pub(super) fn define(definition: &Directive, (around, strip): (&Matcher, Option<&str>), named: &mut Named) {
    let lines: Vec<Directive> = match (&definition.block, definition.args.split_first()) {
        (Some(block), _) => block.clone(),
        (None, Some((name, args))) => vec![Directive {
            at: definition.at.clone(),
            name: name.clone(),
            args: args.to_vec(),
            block: None,
        }],
        (None, None) => Vec::new(),
    };
    let mut matcher = Matcher {
        patterns: around.patterns.clone(),
        networks: around.networks.clone(),
    };
    let mut found = Err("it matches nothing".to_owned());
    for line in &lines {
        let args = &line.args;
        let read = match (line.name.as_str(), args.first().map_or("", |arg| arg)) {
            ("path", first) if !first.is_empty() && args.iter().all(|path| is_hidden(path)) => {
                Err(HIDDEN.to_owned())
            }
            ("path", _) if strip.is_some() => Err(STRIPPED.to_owned()),
            ("remote_ip" | "client_ip" | "not", _) if around.networks.is_some() => {
                Err("the block around it names networks, and Weir applies those of one rule".to_owned())
            }
            ("path", _) => of_paths(args).map(|paths| matcher.patterns = paths.patterns),
            ("remote_ip" | "client_ip", _) => {
                of_networks(args, false).map(|networks| matcher.networks = Some(networks))
            }
            ("not", "remote_ip" | "client_ip") => {
                of_networks(&args[1..], true).map(|networks| matcher.networks = Some(networks))
            }
            ("not", _)
                if line.inner().len() == 1
                    && matches!(line.inner()[0].name.as_str(), "remote_ip" | "client_ip") =>
            {
                of_networks(&line.inner()[0].args, true).map(|networks| matcher.networks = Some(networks))
            }
            (other, _) => Err(format!(
                "Weir chooses requests by path and network, not by `{other}`"
            )),
        };
        found = read;
        if found.is_err() {
            break;
        }
    }
    named.insert(definition.name.clone(), found.map(|()| matcher));
}

fn of_networks(args: &[String], is_outside: bool) -> Result<Networks, String> {
    let mut networks = Vec::new();
    for arg in args.iter().filter(|arg| *arg != "forwarded") {
        match arg.as_str() {
            "private_ranges" => {
                let all = [
                    "192.168.0.0/16",
                    "172.16.0.0/12",
                    "10.0.0.0/8",
                    "127.0.0.0/8",
                    "fd00::/8",
                    "::1/128",
                ];
                networks.extend(all.map(str::to_owned));
            }
            text => networks.push(network(text).ok_or_else(|| format!("`{text}` is not a network"))?),
        }
    }
    match networks.is_empty() {
        true => Err("no network is named".to_owned()),
        false => Ok(Networks { networks, is_outside }),
    }
}
