//! Matchers: which requests a directive of Caddy is for, as path patterns, networks and conditions.

use crate::condition::{self, Compared, Sets};
use crate::directive::Directive;
use crate::pattern::{covers_all, meet, pattern};
use crate::regex;
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
    pub(super) conditions: Sets,
    /// Whether an expression does not match the shortest path of one of the patterns, as `^/a/.+`.
    pub(super) is_filled: bool,
}

impl Matcher {
    /// All requests.
    pub(super) fn everything() -> Matcher {
        Matcher {
            patterns: vec!["*".to_owned()],
            networks: None,
            conditions: Sets::always(),
            is_filled: false,
        }
    }

    /// Adds networks to those of another line: clients of either, or outside of both.
    ///
    /// # Errors
    /// Clients inside of some and outside of others.
    fn join(&mut self, more: Networks) -> Result<(), String> {
        match &mut self.networks {
            None => self.networks = Some(more),
            Some(known) if known.is_outside == more.is_outside => known.networks.extend(more.networks),
            Some(_) => return Err("networks inside of others".to_owned()),
        }
        Ok(())
    }

    /// The requests that a block around this one gets, too.
    ///
    /// # Errors
    /// Weir has no rule for both.
    fn within(&self, around: &Matcher) -> Result<Matcher, String> {
        let networks = match (&self.networks, &around.networks) {
            (own, None) => own.clone(),
            (None, around) => around.clone(),
            (own, around) if own == around => own.clone(),
            _ => return Err(NETWORKS_AROUND.to_owned()),
        };
        let are_all = |matcher: &Matcher| matcher.patterns.iter().any(|path| covers_all(path));
        let patterns = match (are_all(self), are_all(around)) {
            (true, _) => around.patterns.clone(),
            (false, true) => self.patterns.clone(),
            (false, false) => {
                let mut shared: Vec<String> = Vec::new();
                for outer in &around.patterns {
                    let both = self.patterns.iter().flat_map(|own| meet(outer, own));
                    shared.extend(both);
                }
                shared.dedup();
                shared
            }
        };
        if patterns.is_empty() {
            return Err(format!(
                "no path of the block around it matches: `{}`",
                around.patterns.join("`, `")
            ));
        }
        Ok(Matcher {
            networks,
            conditions: self.conditions.and(&around.conditions)?,
            is_filled: self.is_filled || around.is_filled,
            patterns,
        })
    }

    /// Whether all requests match, whatever network they are from.
    pub(super) fn is_everything(&self) -> bool {
        self.conditions.is_always() && self.patterns.iter().any(|path| covers_all(path))
    }
}

/// A matcher that Weir has none like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// Why Weir has none.
    pub(super) why: String,
    /// Patterns of all paths that match, and perhaps of others.
    pub(super) patterns: Vec<String>,
}

/// Matchers with names.
pub(super) type Named = BTreeMap<String, Result<Matcher, Lost>>;

/// The matcher of a list of arguments, and how many of them it takes.
///
/// # Errors
/// Why Weir has none like it.
pub(super) fn of(
    args: &[String],
    (around, strip): (&Matcher, Option<&str>),
    named: &Named,
) -> Result<(Matcher, usize), Lost> {
    let lost = |why: String, patterns: Option<Vec<String>>| Lost {
        why,
        patterns: patterns.unwrap_or_else(|| around.patterns.clone()),
    };
    match args.first().map_or("", |arg| arg) {
        "*" => Ok((around.clone(), 1)),
        name if name.starts_with('@') => match named.get(name) {
            Some(Ok(matcher)) => match matcher.within(around) {
                Ok(both) => Ok((both, 1)),
                Err(why) => Err(lost(why, Some(matcher.patterns.clone()))),
            },
            Some(Err(found)) => Err(Lost {
                why: format!("{name}: {}", found.why),
                ..found.clone()
            }),
            None => Err(lost(format!("`{name}` is not defined"), None)),
        },
        path if path.starts_with('/') && strip.is_some() => {
            Err(lost(STRIPPED.to_owned(), around_paths(&args[..1], strip)))
        }
        path if path.starts_with('/') => {
            let paths = of_paths(&args[..1]).map_err(|why| lost(why, around_paths(&args[..1], strip)))?;
            let patterns = paths.patterns.clone();
            let both = paths.within(around).map_err(|why| lost(why, Some(patterns)))?;
            Ok((both, 1))
        }
        _ => Ok((around.clone(), 0)),
    }
}

/// The only path that a definition of a matcher names. Caddy sorts directives by it.
pub(super) fn only_path(definition: &Directive) -> Option<String> {
    let of = |name: &str, args: &[String]| match name {
        "path" => args.to_vec(),
        _ => Vec::new(),
    };
    let paths: Vec<String> = match (&definition.block, definition.args.split_first()) {
        (Some(block), _) => block.iter().flat_map(|line| of(&line.name, &line.args)).collect(),
        (None, Some((name, args))) => of(name, args),
        (None, None) => Vec::new(),
    };
    match paths.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Patterns of all paths that paths of Caddy match, and of others. `strip`: the paths lack this prefix.
fn around_paths(paths: &[String], strip: Option<&str>) -> Option<Vec<String>> {
    let prefix = strip.map_or("", |prefix| prefix.trim_end_matches(['*', '/']));
    let each = paths.iter().map(|path| {
        let whole = format!("{prefix}{path}");
        pattern(&whole).or_else(|| {
            let (before, _) = whole.split_once('*')?;
            pattern(&format!("{before}*"))
        })
    });
    each.collect::<Option<Vec<String>>>()
        .filter(|all| !all.is_empty())
}

/// The matcher of paths.
fn of_paths(paths: &[String]) -> Result<Matcher, String> {
    let patterns: Option<Vec<String>> = paths.iter().map(|path| pattern(path)).collect();
    match patterns {
        Some(patterns) if !patterns.is_empty() => Ok(Matcher {
            patterns,
            networks: None,
            conditions: Sets::always(),
            is_filled: false,
        }),
        _ => Err("a path of Weir has at most one `*`".to_owned()),
    }
}

/// Why there is no matcher for paths within `handle_path`.
const STRIPPED: &str = "paths in `handle_path` lack its prefix; write the rule with the whole path";

/// Why there is no matcher with networks in a block with others.
const NETWORKS_AROUND: &str = "the block around it names networks, and Weir applies those of one rule";

/// Forgets matchers of paths that were defined outside of a block that removes this prefix: Caddy compares them with the rest.
pub(super) fn strip(named: &mut Named, prefix: &str) {
    for found in named.values_mut() {
        let Ok(matcher) = found else { continue };
        if !matcher.patterns.iter().any(|path| covers_all(path)) {
            let wider = around_paths(&matcher.patterns, Some(prefix));
            *found = Err(Lost {
                why: STRIPPED.to_owned(),
                patterns: wider.unwrap_or_else(|| vec![prefix.to_owned()]),
            });
        }
    }
}

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
        conditions: around.conditions.clone(),
        is_filled: around.is_filled,
    };
    // Several lines are one list of paths.
    let of_path = lines.iter().filter(|line| line.name == "path");
    let paths: Vec<String> = of_path.flat_map(|line| line.args.clone()).collect();
    // Without what Weir cannot tell, the matcher is about these paths.
    let expressions = lines
        .iter()
        .filter(|line| line.name == "path_regexp" && strip.is_none());
    let mut of_expression = expressions.filter_map(|line| {
        let expression = line.args.last()?;
        let read = regex::read(expression).map(regex::Read::patterns);
        let found = read.unwrap_or_else(|_| regex::around(expression));
        (!found.is_empty()).then_some(found)
    });
    let wider = around_paths(&paths, strip).or_else(|| of_expression.next());
    let wider = wider.unwrap_or_else(|| around.patterns.clone());
    // Several tests of one field mean any of them.
    let mut fields: Vec<(String, Sets)> = Vec::new();
    let mut found = Err("it matches nothing".to_owned());
    let is_only_expression = lines.iter().filter(|line| line.name == "path_regexp").count() == 1;
    for line in &lines {
        let args = &line.args;
        let read = match (line.name.as_str(), args.first().map_or("", |arg| arg)) {
            ("path", first) if !first.is_empty() && args.iter().all(|path| is_hidden(path)) => {
                Err(HIDDEN.to_owned())
            }
            ("path", _) if strip.is_some() => Err(STRIPPED.to_owned()),
            ("remote_ip" | "client_ip" | "not", _) if around.networks.is_some() => {
                Err(NETWORKS_AROUND.to_owned())
            }
            ("path_regexp", _) if strip.is_some() => Err(STRIPPED.to_owned()),
            ("path_regexp", _) if paths.is_empty() && around.is_everything() && is_only_expression => {
                regex::read(args.last().map_or("", |text| text)).and_then(|read| match read.differs {
                    None => {
                        matcher.is_filled = !read.filled().is_empty();
                        matcher.patterns = read.patterns();
                        Ok(())
                    }
                    Some(differs) => Err(differs),
                })
            }
            ("path", _) => of_paths(&paths).map(|paths| matcher.patterns = paths.patterns),
            ("remote_ip" | "client_ip", _) => {
                of_networks(args, false).and_then(|networks| matcher.join(networks))
            }
            ("not", "remote_ip" | "client_ip") => {
                of_networks(&args[1..], true).and_then(|networks| matcher.join(networks))
            }
            ("not", _)
                if line.inner().len() == 1
                    && matches!(line.inner()[0].name.as_str(), "remote_ip" | "client_ip") =>
            {
                of_networks(&line.inner()[0].args, true).and_then(|networks| matcher.join(networks))
            }
            ("header", name) if !args.is_empty() => of_header(args).map(|sets| {
                let bare = name.trim_start_matches('!').to_ascii_lowercase();
                match fields
                    .iter_mut()
                    .find(|(known, _)| *known == bare && !name.starts_with('!'))
                {
                    Some((_, known)) => *known = known.clone().or(sets),
                    None => fields.push((bare, sets)),
                }
            }),
            ("query" | "protocol" | "method", _) => of_request(&line.name, args)
                .and_then(|sets| matcher.conditions.and(&sets))
                .map(|sets| matcher.conditions = sets),
            ("not", _) => not(line)
                .and_then(|sets| matcher.conditions.and(&sets))
                .map(|sets| matcher.conditions = sets),
            (other, _) => Err(format!(
                "Weir chooses requests by path, network, field, query, protocol and method, not by `{other}`"
            )),
        };
        found = read;
        if found.is_err() {
            break;
        }
    }
    let conditions = fields
        .iter()
        .try_fold(matcher.conditions.clone(), |all, (_, sets)| all.and(sets));
    let found = found.and(conditions).map(|conditions| Matcher {
        conditions,
        ..matcher
    });
    let found = found.map_err(|why| Lost { why, patterns: wider });
    named.insert(definition.name.clone(), found);
}

/// The conditions of `header NAME [VALUE...]`; `!NAME` is a field that is absent.
fn of_header(args: &[String]) -> Result<Sets, String> {
    let name = args.first().map_or("", |name| name);
    // Checks the name.
    condition::of_value(("header", name.trim_start_matches('!')), Compared::Filled, false)?;
    match (name.strip_prefix('!'), &args[1..]) {
        (Some(name), []) => Ok(Sets::one(format!("not header {name}"))),
        (Some(_), _) => Err("a field that is absent has no value".to_owned()),
        (None, []) => Ok(Sets::one(format!("header {name}"))),
        (None, values) => {
            let each: Result<Vec<String>, String> = values
                .iter()
                .map(|value| Ok(format!("header {name}={}", starred(value)?)))
                .collect();
            Sets::any(each?).and(&Sets::always())
        }
    }
}

/// A value in which only a star at the beginning and at the end has a meaning.
fn starred(value: &str) -> Result<String, String> {
    condition::literal(value.trim_matches('*'))?;
    Ok(value.to_owned())
}

/// The conditions of `query`, `protocol` and `method`.
fn of_request(kind: &str, args: &[String]) -> Result<Sets, String> {
    let wrong = || format!("`{kind} {}` has no form in Weir", args.join(" "));
    match kind {
        "protocol" => match args {
            [scheme] if matches!(&**scheme, "http" | "https") => Ok(Sets::one(format!("scheme {scheme}"))),
            _ => Err(wrong()),
        },
        "method" => args
            .iter()
            .map(|name| condition::of_method(Compared::Text(&name.to_ascii_uppercase()), false))
            .reduce(|one, other| Ok(one?.or(other?)))
            .unwrap_or_else(|| Err(wrong())),
        _ => {
            // Of one name, any value; of several names, each.
            let mut names: Vec<(&str, Sets)> = Vec::new();
            for arg in args {
                let (name, value) = arg.split_once('=').ok_or_else(wrong)?;
                condition::of_value(("query", name), Compared::Filled, false)?;
                let one = match value {
                    "*" => Sets::one(format!("query {name}")),
                    value => Sets::one(format!("query {name}={}", condition::literal(value)?)),
                };
                match names.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = known.clone().or(one),
                    None => names.push((name, one)),
                }
            }
            match names.is_empty() {
                true => Err(wrong()),
                false => names
                    .iter()
                    .try_fold(Sets::always(), |all, (_, sets)| all.and(sets)),
            }
        }
    }
}

/// The conditions of `not`, around one matcher that is one condition or several alternatives.
fn not(line: &Directive) -> Result<Sets, String> {
    let (kind, args) = match (line.inner(), line.args.split_first()) {
        ([one], _) => (&one.name, &one.args[..]),
        ([], Some((kind, args))) => (kind, args),
        _ => return Err("`not` around several matchers".to_owned()),
    };
    let sets = match kind.as_str() {
        "header" => of_header(args)?,
        "query" | "protocol" | "method" => of_request(kind, args)?,
        other => return Err(format!("`not {other}`")),
    };
    let mut all = Sets::always();
    for set in sets.iter() {
        let [one] = &set[..] else {
            return Err("`not` around several conditions".to_owned());
        };
        let opposite = match one.strip_prefix("not ") {
            Some(bare) => bare.to_owned(),
            None => format!("not {one}"),
        };
        all = all.and(&Sets::one(opposite))?;
    }
    Ok(all)
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
