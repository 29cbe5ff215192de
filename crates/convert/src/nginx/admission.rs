//! Whom the result admits to the paths of a location, where the locations of nginx overlap: the rule of one is not that of another.

use super::closed;
use super::level::Level;
use super::place::Place;
use crate::access::Access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Site;
use crate::pattern::{covers, meet};
use crate::report::Report;

/// Puts prefixes before shorter ones with `^~`: nginx takes the longest. Expressions are stronger than the longer ones; what they say
/// about access comes before the rules of these, if they have patterns.
pub(super) fn precede_shorter(places: &mut [(&Directive, Place)]) {
    let preferred = places.iter().filter(|(_, place)| place.is_preferred());
    let preferred: Vec<String> = preferred.flat_map(|(_, place)| place.patterns.clone()).collect();
    let expressions = places.iter().filter(|(_, place)| place.is_expression());
    let expressions: Vec<(Vec<String>, bool)> = expressions
        .map(|(directive, place)| (place.patterns.clone(), speaks(directive) || passes_on(directive)))
        .collect();
    let mut behind: Vec<String> = Vec::new();
    for (_, place) in places.iter_mut().filter(|(_, place)| place.is_plain()) {
        let [path] = place.patterns.as_slice() else {
            continue;
        };
        let path = path.clone();
        if !preferred.iter().any(|wide| *wide != path && covers(wide, &path)) {
            continue;
        }
        if expressions.iter().any(|(patterns, _)| patterns.is_empty()) {
            place.is_behind_shorter = true;
            behind.push(path);
            continue;
        }
        for (patterns, speaks) in &expressions {
            let shared = patterns.iter().flat_map(|one| meet(one, &path));
            place.overlapped.extend(shared.map(|path| (path, *speaks)));
        }
        place.precede_shorter();
    }
    for (_, place) in places.iter_mut().filter(|(_, place)| place.is_preferred()) {
        let is_wider = |path: &String| place.patterns.iter().any(|wide| covers(wide, path));
        place.is_before_longer = behind.iter().any(is_wider);
    }
}

/// Whether a server behind this one answers a location: if it is lost, nobody may have the files in its place.
fn passes_on(location: &Directive) -> bool {
    location.inner().iter().any(|one| one.name.ends_with("_pass"))
}

/// Whether a location decides about clients, or has a text that the result denies.
pub(super) fn speaks(location: &Directive) -> bool {
    says_access(location) || closed::refuses(location) || closed::sends_text(location)
}

/// Whether a location says something about access itself.
fn says_access(location: &Directive) -> bool {
    let mut said = Level::default();
    for directive in location.inner() {
        said.access.read(directive);
    }
    said.access.is_said()
}

/// Adds the access rules of a location: what it says, over what the level around it does. `spoken`: patterns of the locations beside
/// it that decide about clients.
pub(super) fn admit(
    (block, place): (&Directive, &Place),
    (said, around): (&Level, &Level),
    site: &mut Site,
    (spoken, report): (&[String], &mut Report),
) {
    // What another location says about wider paths does not hold here.
    let is_wider = |path: &String| spoken.iter().any(|wide| wide != path && covers(wide, path));
    let is_below_wider = place.patterns.iter().any(is_wider);
    let access = said.access.over(&around.access);
    let rules: Vec<Access> = place.patterns.iter().map(|path| access.rule(path)).collect();
    let is_said = said.access.is_said() || (around.access.is_said() && is_below_wider);
    if place.is_for_missing && (said.access.is_said() || around.access.is_said()) {
        // nginx asks again; Weir has one rule for files and for what answers without one.
        for rule in rules {
            match site.access.iter_mut().find(|known| known.path == rule.path) {
                Some(known) => {
                    *known = known.and(&rule).unwrap_or_else(|_| Access::nobody(&rule.path));
                    let why = "files of these paths ask for the same";
                    report.add(&block.at, &block.shown(), Fate::changed(why));
                }
                None if said.access.is_said() => site.access.push(rule),
                None => {}
            }
        }
        return;
    }
    if is_said {
        let refuses = rules.iter().any(Access::is_for_nobody);
        if place.patterns.iter().any(|path| path == "/") {
            let why = "a rule of Weir for `/` is for all paths";
            let fate = if refuses {
                Fate::open(why)
            } else {
                Fate::changed(why)
            };
            report.add(&block.at, &block.shown(), fate);
            return;
        }
        if !refuses {
            site.access.extend(of_expressions(block, place, around, report));
        }
        site.access.extend(rules);
    } else if is_below_wider && !closed::refuses(block) && !closed::sends_text(block) {
        // The patterns of an expression may be wider than it.
        let is_exact = place.prefix.is_some()
            && !place.is_before_longer
            && place.patterns.iter().all(|path| path != "/");
        match is_exact && is_answered(block) {
            true => {
                site.access.extend(of_expressions(block, place, around, report));
                site.access
                    .extend(place.patterns.iter().map(|path| everyone(path)));
            }
            false => {
                let why = "the access rule of a wider location also holds here; a rule with `allow = \"all\"` before it \
                           admits everyone";
                report.add(&block.at, &block.shown(), Fate::changed(why));
            }
        }
    }
    if place.is_behind_shorter && (is_said || is_below_wider) {
        let why = "in the result, a shorter location with `^~` decides before this one";
        report.add(&block.at, &block.shown(), Fate::open(why));
    }
}

/// The rules of expressions for paths of a prefix that comes before them in the result.
fn of_expressions(block: &Directive, place: &Place, around: &Level, report: &mut Report) -> Vec<Access> {
    let mut rules = Vec::new();
    let mut refused = Vec::new();
    for (path, speaks) in &place.overlapped {
        if *speaks {
            refused.push(path.as_str());
            rules.push(Access::nobody(path));
        } else if around.access.is_said() {
            rules.push(around.access.rule(path));
        }
    }
    if !refused.is_empty() {
        let why = format!(
            "in nginx, an expression decides about `{}`; the result denies these",
            refused.join("`, `")
        );
        report.add(&block.at, &block.shown(), Fate::changed(why));
    }
    rules
}

/// Whether the result answers a location with what nginx does: files, an upstream or a redirect, and not with files in place of
/// something that is lost.
fn is_answered(block: &Directive) -> bool {
    let is_lost = |one: &Directive| match one.name.as_str() {
        "return" => one.arg(0).starts_with('2'),
        "js_content" | "perl" | "empty_gif" | "stub_status" => true,
        name => name.contains("_by_lua"),
    };
    !block.inner().iter().any(is_lost)
}

/// A rule that admits everyone.
fn everyone(path: &str) -> Access {
    Access {
        path: path.to_owned(),
        allow: vec!["all".to_owned()],
        ..Access::default()
    }
}
