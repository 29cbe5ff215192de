//! Access rules of Weir that reach further than their locations of nginx: to paths below a name, to all paths, or to the script or
//! page that answers paths without a file. Limits of clients reach further, too. Decides what the result leaves out or adds for it,
//! and bounds its lists.

use super::lines;
use super::place::Place;
use crate::access::Access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{ACCESS_MAX, LIMITS_MAX, Limit, Site};
use crate::pattern::{covers_all, meet, meet_all, overlaps, shortest};
use crate::report::{At, Report, named};

/// Most rules for the paths below the names of one pattern.
const BELOW_MAX: usize = 8;

/// Most patterns of a site that have more than one such rule.
const NAMES_MAX: usize = 32;

/// Adds what later rules say about the paths below names of a pattern such as `*.css`: its rule is also for these.
pub(super) fn fence_names(site: &mut Site) {
    let rules = std::mem::take(&mut site.access);
    let names = rules.iter().filter(|rule| admits_names(rule)).count();
    let most = if names > NAMES_MAX { 0 } else { BELOW_MAX };
    for (at, rule) in rules.iter().enumerate() {
        if admits_names(rule) {
            for below in below_names(rule, rules.get(at + 1..).unwrap_or_default(), most) {
                if !site.access.contains(&below) {
                    site.access.push(below);
                }
            }
        }
        site.access.push(rule.clone());
    }
}

/// Whether a rule admits clients to names that end in some way.
fn admits_names(rule: &Access) -> bool {
    let end = rule.path.split_once('*').map_or("", |(_, end)| end);
    !end.is_empty() && !end.ends_with('/') && !rule.is_for_nobody()
}

/// The rules for the paths below the names of a pattern: one, and at most so many for some of them. `behind`: the later rules, which are
/// about these paths in nginx.
fn below_names(rule: &Access, behind: &[Access], most: usize) -> Vec<Access> {
    // With a slash at its end, a path covers what is below it.
    let path = format!("{}/", rule.path);
    let own = Access {
        path: path.clone(),
        is_filled: false,
        ..rule.clone()
    };
    let (mut narrow, mut wide) = (Vec::new(), own.clone());
    for next in behind {
        let region = match next.path.contains('*') {
            true => next.path.clone(),
            false => format!("{}/*", next.path.trim_end_matches('/')),
        };
        let is_conditional = !next.conditions.is_empty();
        let is_last = covers_all(&region);
        let paths = match region.ends_with('*') {
            _ if rule.satisfies(next) => Vec::new(),
            true if !is_last => meet(&path, &region),
            false if !overlaps(&rule.path, &region) => vec![region],
            _ if is_conditional => vec![path.clone()],
            _ => {
                wide = both(&wide, next);
                Vec::new()
            }
        };
        narrow.extend(paths.into_iter().map(|path| Access {
            path,
            is_filled: false,
            ..next.clone()
        }));
        if is_last && !is_conditional {
            break;
        }
    }
    if narrow.len() > most {
        wide = narrow.drain(..).fold(wide, |wide, next| both(&wide, &next));
    }
    if wide != own {
        narrow.push(wide);
    }
    narrow
}

/// The rule for the paths of the first one whose clients satisfy both.
fn both(rule: &Access, next: &Access) -> Access {
    let path = rule.path.clone();
    match next.satisfies(rule) {
        true => Access {
            path,
            conditions: rule.conditions.clone(),
            is_filled: rule.is_filled,
            ..next.clone()
        },
        false => rule.and(next).unwrap_or_else(|_| Access::nobody(&path)),
    }
}

/// Takes out rules for `/`, which would be for all paths. `block` is the server.
pub(super) fn leave_start(site: &mut Site, block: &Directive, report: &mut Report) {
    let is_other = |rule: &Access| rule.path != "/";
    if site.access.iter().chain(&site.refusals).all(is_other) {
        return;
    }
    site.access.retain(is_other);
    site.refusals.retain(is_other);
    let is_start = |one: &&Directive| one.name == "location" && Place::of(one).patterns == ["/"];
    let location = block.inner().iter().find(is_start).unwrap_or(block);
    let why = "a rule of Weir for `/` is for all paths, so the result has none for `/` alone and refuses nobody there";
    report.add(&location.at, "access to `/`", Fate::open(why));
}

/// Admits to a folder that an expression leaves out, as `/a/` for `^/a/.+`, nobody whom the rule of that path refuses. `block` is the
/// server.
pub(super) fn keep_shortest(site: &mut Site, block: &Directive, report: &mut Report) {
    // A rule for the paths below a name reports nothing.
    let narrowed = site.keep_shortest();
    for path in narrowed.into_iter().filter(|path| path.contains('*')) {
        let location = leaving_out(block, &path).unwrap_or(block);
        let why = format!(
            "a rule of Weir for `{path}` is also for `{}`, so clients must satisfy the rule of that path, too",
            shortest(&path)
        );
        report.add(&location.at, &location.shown(), Fate::changed(why));
    }
}

/// The location in a block whose expression leaves out the shortest path of this pattern.
fn leaving_out<'d>(block: &'d Directive, path: &str) -> Option<&'d Directive> {
    let mut locations = block.inner().iter().filter(|one| one.name == "location");
    locations.find_map(|one| {
        let is_it = Place::of(one).filled.iter().any(|known| known == path);
        match is_it {
            true => Some(one),
            false => leaving_out(one, path),
        }
    })
}

/// Keeps the script and the page that answer paths without a file from clients whom their own rules refuse. nginx asks again before it
/// sends them; in Weir, the rule of the path decides. `at` is the server.
pub(super) fn keep_answers(site: &mut Site, at: &At, report: &mut Report) {
    if let Some(page) = site.spa.clone()
        && !admitting_more(site, &page).is_empty()
    {
        site.spa = None;
        let why = format!(
            "nginx asks for more at `{page}` than at other paths, and `spa-fallback` of Weir sends it by their rules: the result has none"
        );
        report.add(at, "page for paths without a file", Fate::missing(why));
    }
    let has_scripts = site.proxies.iter().any(|rule| rule.is_fastcgi);
    let Some(front) = site.front.clone().filter(|_| has_scripts) else {
        return;
    };
    let wider = admitting_more(site, &front);
    if wider.is_empty() {
        return;
    }
    let left: Vec<String> = wider.iter().flat_map(|path| with_below(path)).collect();
    let mut outcome = match wider.iter().any(|path| covers_all(path)) {
        true => Err("paths without a rule of their own lead there".to_owned()),
        false => Ok(()),
    };
    for rule in site.proxies.iter_mut().filter(|rule| rule.is_fastcgi) {
        for path in &left {
            outcome = outcome.and_then(|()| rule.leave_out(path));
        }
    }
    let fate = match outcome {
        Ok(()) => Fate::changed(format!(
            "`front` of Weir runs `{front}` by the rule of the path, so the application gets no paths of `{}`: their rules admit clients \
             whom that of `{front}` refuses",
            wider.join("`, `")
        )),
        Err(why) => {
            site.front = None;
            Fate::missing(format!(
                "`front` of Weir runs `{front}` by the rule of the path, and nginx asks for more at `{front}`: the result has no `front`, \
                 because {why}"
            ))
        }
    };
    report.add(at, "script for paths without a file", fate);
}

/// The patterns with which an upstream leaves out the paths of an access rule, which is also for the paths below its own.
fn with_below(path: &str) -> Vec<String> {
    match (path.contains('*'), path.ends_with('/')) {
        (true, _) => vec![path.to_owned()],
        (false, true) => vec![format!("{path}*")],
        (false, false) => vec![path.to_owned(), format!("{path}/*")],
    }
}

/// The paths of rules that admit clients whom the rule of a target refuses. `/*` also stands for paths without a rule.
fn admitting_more(site: &Site, target: &str) -> Vec<String> {
    // `internal` refuses clients, and not what leads there.
    let is_internal = |rule: &Access| rule.is_for_nobody() && rule.status == Some(404);
    let is_meant = |rule: &&Access| rule.conditions.is_empty() && !is_internal(rule);
    let decides = |rule: &&Access| is_meant(rule) && rule.applies_to(target);
    let Some(own) = site.access.iter().find(decides) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for rule in site.access.iter().filter(|rule| rule.conditions.is_empty()) {
        if !rule.satisfies(own) && !paths.contains(&rule.path) {
            paths.push(rule.path.clone());
        }
        if covers_all(&rule.path) {
            return paths;
        }
    }
    if !own.is_for_everyone() {
        paths.push("/*".to_owned());
    }
    paths
}

/// Reports limits of clients that Weir also applies to paths of stronger locations. `places` are in the order in which nginx tries
/// them; a location in another one is only asked about the paths of that one. `limits`: those of the result.
pub(super) fn note_limits(places: &[(&Directive, Place)], limits: &[Limit], report: &mut Report) {
    let is_limit = |one: &Directive| matches!(one.name.as_str(), "limit_req" | "limit_conn");
    for (index, (location, place)) in places.iter().enumerate() {
        let mut all = Vec::new();
        lines::inside(location, place, &mut all);
        let inner = all.iter().map(|(one, paths)| (*one, paths, true));
        for (one, paths, is_inside) in inner.chain([(*location, place, false)]) {
            let is_kept = limits.iter().any(|rule| paths.patterns.contains(&rule.path));
            if !is_kept || !one.inner().iter().any(is_limit) {
                continue;
            }
            // nginx looks at these before the expressions beside the location around them.
            let is_first = is_inside && place.is_plain() && (paths.is_expression() || paths.is_exact());
            let mut others: Vec<String> = Vec::new();
            for (other, taken) in &places[..index] {
                let is_other = !(taken.is_hidden || is_first && taken.is_expression());
                if is_other && !meet_all(&taken.patterns, &paths.patterns).is_empty() {
                    others.push(other.shown());
                }
            }
            if !others.is_empty() {
                let why = format!(
                    "Weir also limits the requests that nginx gives to {}",
                    named(&others)
                );
                report.add(&one.at, &format!("limits of {}", one.shown()), Fate::changed(why));
            }
        }
    }
}

/// Bounds the lists of a site of which Weir accepts no more. `at` is the server.
pub(super) fn bound(site: &mut Site, at: &At, report: &mut Report) {
    if site.limits.len() > LIMITS_MAX {
        site.limits.truncate(LIMITS_MAX);
        let why = format!(
            "Weir has at most {LIMITS_MAX} limits for each host, and a pattern needs one: the result lacks the others"
        );
        report.add(at, "limit_req and limit_conn", Fate::missing(why));
    }
    let most = format!("Weir has at most {ACCESS_MAX} access rules for each host, and a pattern needs one");
    let has_conditions = site.access.iter().any(|rule| !rule.conditions.is_empty());
    if site.all_access().len() > ACCESS_MAX && (has_conditions || !site.refusals.is_empty()) {
        site.refusals.clear();
        site.access.retain(|rule| rule.conditions.is_empty());
        let why = format!("{most}: the result has no refusals with conditions");
        report.add(at, "if", Fate::open(why));
    }
    if site.all_access().len() > ACCESS_MAX {
        site.close(&["/*".to_owned()]);
        report.add(
            at,
            "access rules",
            Fate::missing(format!("{most}: the result denies all paths")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fates of a site with so many rules and limits, and with a refusal that has a condition if `is_conditional`.
    fn bounded(rules: usize, limits: usize, is_conditional: bool) -> (Site, Vec<String>) {
        let conditional = Access {
            conditions: vec!["header x".to_owned()],
            ..Access::nobody("/x")
        };
        let mut access: Vec<Access> = (0..rules).map(|at| Access::nobody(&format!("/{at}"))).collect();
        if is_conditional {
            access.insert(0, conditional);
        }
        let mut site = Site {
            access,
            limits: vec![Limit::default(); limits],
            ..Site::default()
        };
        let at = At {
            file: "site".into(),
            line: 1,
        };
        let mut report = Report::default();
        bound(&mut site, &at, &mut report);
        let fates = report.notes().iter().map(|note| note.fate.word().to_owned());
        (site, fates.collect())
    }

    #[test]
    fn limits_and_access_rules_are_bounded() {
        let (site, fates) = bounded(1000, 100, false);
        assert_eq!((site.all_access().len(), site.limits.len()), (1000, 100));
        assert!(fates.is_empty(), "{fates:?}");
        let (site, fates) = bounded(0, 101, false);
        assert_eq!(site.limits.len(), 100);
        assert_eq!(fates, ["missing"]);
        let (site, fates) = bounded(1001, 0, false);
        assert_eq!(site.all_access(), [Access::nobody("/*")]);
        assert_eq!(fates, ["missing"]);
        // With the rule behind it, the refusal needs two. Without conditions, there is room.
        let (site, fates) = bounded(999, 0, true);
        assert_eq!(site.all_access().len(), 999);
        assert_eq!(fates, ["open"]);
        let (site, fates) = bounded(1001, 0, true);
        assert_eq!(site.all_access(), [Access::nobody("/*")]);
        assert_eq!(fates, ["open", "missing"]);
    }
}
