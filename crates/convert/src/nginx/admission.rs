//! Whom the result admits to the paths of a location where the locations of nginx overlap. There, one has not the rule of another.
//! A location inside another one says nothing about those beside that one.

use super::access;
use super::closed;
use super::level::Level;
use super::place::{Behind, Place};
use crate::access::Access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Site;
use crate::pattern::{covers, meet, meet_all, overlaps, pattern};
use crate::regex;
use crate::report::Report;

/// Why a location is open whose paths a weaker location opens.
pub(super) const OPENED: &str = "in the result, the access rule of another location, for example one inside `location /`, admits \
                                 clients to some of these paths, and no rule of Weir restores the access rule around them";

/// Where a location is that decides about clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Beside the locations that are compared.
    Beside,
    /// In one of them.
    Inside,
    /// In one of them, and an exact path or an expression, or in one. If that one is a prefix, nginx looks for an exact path or an
    /// expression in it before it looks at expressions beside it.
    InsideFirst,
}

/// A location and the access rule that it has in the result.
struct Ruled {
    patterns: Vec<String>,
    /// Whether it decides about clients, or a location around it does.
    decides: bool,
    /// Whether it admits clients whom the level around all locations that are compared refuses.
    admits_more: bool,
    depth: Depth,
    /// Whom it admits, for any path.
    rule: Access,
    /// Whether its files are in a folder of its own, or in that of a location around it.
    has_folder: bool,
}

/// What weaker locations do to one: their access rules, the paths of expressions that are stronger, and those of other folders.
type Weaker = (Behind, Vec<(String, bool)>, Vec<String>);

/// The paths of a location: those of its patterns in the paths of the location around it. `filled`: patterns of that one whose
/// shortest path it leaves out.
pub(super) fn placed(location: &Directive, outer: &[String], filled: &[String]) -> Place {
    let mut place = Place::of(location);
    // Of a location that limits access, fewer paths would be limited.
    if !closed::limits(location) {
        place.take_dots(location);
    }
    place.stay_within(outer, filled);
    place
}

/// Notes what the access rules of weaker locations do to stronger ones. `places` are in the order of their rules. nginx looks at
/// a location inside a prefix only for paths of which that prefix is the longest; in the result, its rule is about all paths of
/// its patterns.
pub(super) fn note_weaker(places: &mut [(&Directive, Place)], block: &[Directive], around: &access::Access) {
    let ruled: Vec<Vec<Ruled>> = places
        .iter()
        .map(|(location, place)| {
            let mut found = Vec::new();
            let top = (*location, place, Depth::Beside);
            gather(top, block, (around, around), (false, false), &mut found);
            found
        })
        .collect();
    let weaker: Vec<Weaker> = places
        .iter()
        .enumerate()
        .map(|(at, (location, place))| {
            let region = region(location, place);
            let mut behind = Behind::Nothing;
            let mut overlapped: Vec<(String, bool)> = Vec::new();
            let mut elsewhere: Vec<String> = Vec::new();
            let admitted = said(location, block, around).over(around).rule("/*");
            let others = places.iter().zip(&ruled).skip(at + 1);
            for ((_, other), one) in others.flat_map(|(other, all)| all.iter().map(move |one| (other, one))) {
                if place.is_expression() && other.is_plain() && one.depth == Depth::InsideFirst {
                    for path in meet_all(&place.patterns, &one.patterns) {
                        if !overlapped.iter().any(|(known, _)| *known == path) {
                            overlapped.push((path, one.decides));
                        }
                    }
                    continue;
                }
                let is_narrower = one.decides && !admitted.satisfies(&one.rule);
                if place.is_expression() && other.is_plain() && one.has_folder && is_narrower {
                    for path in meet_all(&place.patterns, &one.patterns) {
                        if !elsewhere.contains(&path) {
                            elsewhere.push(path);
                        }
                    }
                }
                let meets = |path: &String| one.patterns.iter().any(|other| overlaps(path, other));
                if !one.decides || !region.iter().any(meets) {
                    continue;
                }
                behind = behind.max(match one.depth {
                    _ if one.admits_more => Behind::Admits,
                    Depth::Beside => Behind::Nothing,
                    Depth::Inside | Depth::InsideFirst => Behind::Limits,
                });
            }
            if location.inner().iter().any(answers_without_files) {
                elsewhere.clear();
            }
            (behind, overlapped, elsewhere)
        })
        .collect();
    for ((_, place), (behind, overlapped, elsewhere)) in places.iter_mut().zip(weaker) {
        place.behind = behind;
        place.overlapped.extend(overlapped);
        place.elsewhere = elsewhere;
    }
}

/// Whether a directive answers the requests of a location with something else than files.
fn answers_without_files(directive: &Directive) -> bool {
    directive.name == "return" || directive.name.ends_with("_pass")
}

/// Adds a location and those in it. `around` is the level around it, `outer` the one around the locations that are compared.
/// `decides`: whether a location around it decides about clients; `has_folder`: whether one has a folder of its own.
fn gather(
    (location, place, depth): (&Directive, &Place, Depth),
    siblings: &[Directive],
    (around, outer): (&access::Access, &access::Access),
    (decides, has_folder): (bool, bool),
    found: &mut Vec<Ruled>,
) {
    let said = said(location, siblings, around);
    let mut inside = said.over(around);
    inside.know_servers(&said);
    let decides = decides || speaks(location);
    let is_folder = |one: &Directive| matches!(one.name.as_str(), "root" | "alias");
    let has_folder = has_folder || location.inner().iter().any(is_folder);
    let admits = |path: &String| !inside.rule(path).satisfies(&outer.rule(path));
    found.push(Ruled {
        patterns: place.patterns.clone(),
        decides,
        admits_more: place.patterns.iter().any(admits),
        depth,
        rule: match closed::refuses(location) {
            true => Access::nobody("/*"),
            false => inside.rule("/*"),
        },
        has_folder,
    });
    for one in location.inner().iter().filter(|one| one.name == "location") {
        let inner = placed(one, &place.patterns, &place.filled);
        let is_first = depth == Depth::InsideFirst || inner.is_expression() || inner.is_exact();
        let depth = match is_first {
            true => Depth::InsideFirst,
            false => Depth::Inside,
        };
        gather(
            (one, &inner, depth),
            location.inner(),
            (&inside, outer),
            (decides, has_folder),
            found,
        );
    }
}

/// What a location says about access itself. `siblings` have the servers that `auth_request` names.
fn said(location: &Directive, siblings: &[Directive], around: &access::Access) -> access::Access {
    let mut said = access::Access::default();
    said.know_servers(around);
    said.note_servers(siblings);
    for directive in location.inner() {
        said.read(directive);
    }
    said
}

/// The patterns of a location. If it has none: patterns around its paths.
fn region(location: &Directive, place: &Place) -> Vec<String> {
    if !place.patterns.is_empty() || place.name.is_some() {
        return place.patterns.clone();
    }
    let text = location.args.last().map_or("", |text| text);
    let around = match place.is_expression() {
        // Its patterns are outside of the location around it.
        true if regex::read(text).is_ok() => return Vec::new(),
        true => regex::around(text),
        false if pattern(&format!("{text}*")).is_some() => return Vec::new(),
        false => {
            let mut starts = (0..=text.len()).rev().filter_map(|end| text.get(..end));
            let wider = starts.find_map(|start| pattern(&format!("{start}*")));
            wider.into_iter().collect()
        }
    };
    match around.is_empty() {
        true => vec!["/*".to_owned()],
        false => around,
    }
}

/// Puts prefixes before shorter ones with `^~`: nginx takes the longest. Expressions are stronger than the longer ones; what they say
/// about access comes before the rules of these, if they have patterns.
pub(super) fn precede_shorter(places: &mut [(&Directive, Place)]) {
    let preferred = places.iter().filter(|(_, place)| place.is_preferred());
    let preferred: Vec<String> = preferred.flat_map(|(_, place)| place.patterns.clone()).collect();
    // Weir hides names that begin with a dot, whatever comes first.
    let is_seen = |place: &Place| place.is_expression() && !place.is_hidden;
    let expressions = places.iter().filter(|(_, place)| is_seen(place));
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

/// Whether a location decides about clients or requests, or has a text that the result denies.
pub(super) fn speaks(location: &Directive) -> bool {
    says_access(location)
        || closed::refuses(location)
        || closed::refuses_some(location)
        || closed::sends_text(location)
}

/// Whether a location says something about access itself.
pub(super) fn says_access(location: &Directive) -> bool {
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
    // What another location says about wider paths does not hold here, nor does what a weaker one says about some of them.
    let is_wider = |path: &String| spoken.iter().any(|wide| wide != path && covers(wide, path));
    let is_below_wider = place.patterns.iter().any(is_wider);
    let is_met = is_below_wider || place.behind != Behind::Nothing;
    let access = said.access.over(&around.access);
    let rules = place.patterns.iter().map(|path| place.marked(access.rule(path)));
    let rules: Vec<Access> = rules.collect();
    let inherits = around.access.is_said() && !said.access.is_said();
    let is_said = said.access.is_said() || (inherits && is_met);
    if place.is_for_missing && (said.access.is_said() || around.access.is_said()) {
        // nginx asks again; Weir has one rule for files and for what answers without one.
        let mut is_changed = false;
        for rule in rules {
            // A rule for `/` has no place in the result.
            let decides = |known: &Access| {
                known.path != "/" && known.conditions.is_empty() && known.applies_to(&rule.path)
            };
            let first = site.access.iter().position(decides);
            let Some(at) = first else {
                if said.access.is_said() {
                    site.access.push(rule);
                }
                continue;
            };
            let known = &site.access[at];
            if known.satisfies(&rule) {
                continue;
            }
            let is_same = known.path == rule.path;
            let of_paths = Access {
                path: rule.path.clone(),
                ..known.clone()
            };
            let both = of_paths.and(&rule).unwrap_or_else(|_| Access::nobody(&rule.path));
            match is_same {
                true => site.access[at] = both,
                false => site.access.insert(at, both),
            }
            is_changed = true;
        }
        if is_changed {
            let why = "files of these paths ask for the same";
            report.add(&block.at, &block.shown(), Fate::changed(why));
        }
        return;
    }
    // A rule for more paths than those of the location may admit clients whom a later rule refuses.
    if inherits && !is_below_wider && is_met && (place.differs.is_some() || place.is_before_longer) {
        let why = "the access rule of a location inside another one also holds here";
        let fate = match place.behind {
            Behind::Admits => Fate::open(OPENED),
            Behind::Limits | Behind::Nothing => Fate::changed(why),
        };
        report.add(&block.at, &block.shown(), fate);
        return;
    }
    if is_said {
        let refuses = rules.iter().any(Access::is_for_nobody);
        if let Some(path) = place.patterns.iter().find(|path| path.ends_with('/')) {
            let (why, is_wide) = match path == "/" {
                true => ("a rule of Weir for `/` is for all paths".to_owned(), true),
                false => {
                    let below = format!("{path}*");
                    let is_other = |other: &String| other != path && overlaps(other, &below);
                    let admits = |rule: &Access| !rule.satisfies(&around.access.rule(path));
                    let is_wide = inherits || rules.iter().any(admits) || spoken.iter().any(is_other);
                    let why = format!("a rule of Weir for `{path}` is also for the paths below it");
                    (why, is_wide && !refuses)
                }
            };
            let is_limit = match inherits {
                true => place.behind == Behind::Admits,
                false => !rules.iter().all(Access::is_for_everyone),
            };
            let fate = match is_wide && is_limit {
                true => Fate::open(why),
                false => Fate::changed(why),
            };
            report.add(&block.at, &block.shown(), fate);
            if is_wide {
                return;
            }
        }
        if !refuses {
            site.access.extend(of_expressions(block, place, around, report));
        }
        site.access.extend(rules);
    } else if is_met && !closed::refuses(block) && !closed::sends_text(block) {
        // The patterns of an expression may be wider than it.
        let is_exact = place.prefix.is_some()
            && !place.is_before_longer
            && place.patterns.iter().all(|path| !path.ends_with('/'));
        match is_exact && is_answered(block, place) {
            true => {
                site.access.extend(of_expressions(block, place, around, report));
                site.access
                    .extend(place.patterns.iter().map(|path| everyone(path)));
            }
            false => {
                let other = match is_below_wider {
                    true => "a wider location",
                    false => "a location inside another one",
                };
                let why = format!(
                    "the access rule of {other} also holds here; a rule with `allow = \"all\"` before it admits everyone"
                );
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
            rules.push(place.marked(around.access.rule(path)));
        }
    }
    if !place.elsewhere.is_empty() {
        let why = format!(
            "nginx looks for `{}` in the root around this location, and Weir in the folder of another one; the result denies these",
            place.elsewhere.join("`, `")
        );
        report.add(&block.at, &block.shown(), Fate::changed(why));
        rules.extend(place.elsewhere.iter().map(|path| Access::nobody(path)));
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
fn is_answered(block: &Directive, place: &Place) -> bool {
    // A mount is for a folder.
    let has_slash = place.prefix.as_ref().is_some_and(|prefix| prefix.ends_with('/'));
    let is_lost = |one: &Directive| match one.name.as_str() {
        "root" | "alias" if one.arg(0).contains('$') => true,
        "alias" => place.is_exact() || (has_slash && !one.arg(0).ends_with('/')),
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
