//! Field lines of locations whose paths in Weir are not those of nginx. Weir adds up the lines of all rules for a path, and
//! compares the path of the file that it sends. nginx takes those of one location: that which answers the request. This file
//! reports the difference.

use super::admission;
use super::level::{self, Level};
use super::place::Place;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::pattern::{covers, meet_all, overlaps};
use crate::report::Report;

/// The names of the fields that a block says something about: by `add_header`, and by `expires`.
fn names(block: &[Directive]) -> (Vec<String>, bool) {
    let lines = block.iter().filter(|one| one.name == "add_header");
    let named = lines.filter_map(|one| level::header(one).ok());
    let names = named.map(|line| name_of(&line).to_owned()).collect();
    let expires = block.iter().filter(|one| one.name == "expires");
    let has_lifetime = expires
        .filter_map(|one| level::expires(one).ok().flatten())
        .next()
        .is_some();
    (names, has_lifetime)
}

fn name_of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default()
}

/// All names of a block, the field of lifetimes included.
fn all_names(block: &[Directive]) -> Vec<String> {
    let (mut names, has_lifetime) = names(block);
    if has_lifetime {
        names.push("Cache-Control".to_owned());
    }
    names
}

/// The names of one list that another one lacks.
fn without(names: &[String], others: &[String]) -> Vec<String> {
    let has = |name: &&String| others.iter().any(|other| other.eq_ignore_ascii_case(name));
    let mut left: Vec<String> = names.iter().filter(|name| !has(name)).cloned().collect();
    left.dedup();
    left
}

/// Whether a location sends content: files, or that of an upstream.
fn sends(location: &Directive) -> bool {
    let ends = |one: &Directive| {
        one.name == "return" || one.name == "internal" || (one.name == "deny" && one.arg(0) == "all")
    };
    !location.inner().iter().any(ends)
}

/// The patterns of the files that a location tries before the last one, for the paths of these patterns. Another location
/// answers the last one.
fn tried(block: &[Directive], paths: &[String]) -> Vec<String> {
    let Some(files) = block.iter().find(|one| one.name == "try_files") else {
        return Vec::new();
    };
    let (last, before) = match files.args.split_last() {
        // It is no file.
        Some((last, before)) if last.starts_with(['=', '@']) => (None, before),
        Some((last, before)) => (Some(last), before),
        None => return Vec::new(),
    };
    let mut found = Vec::new();
    for text in before.iter().filter(|text| Some(*text) != last) {
        match text.strip_prefix("$uri") {
            Some("" | "/") => {}
            Some(suffix) => found.extend(paths.iter().map(|path| format!("{path}{suffix}"))),
            None => found.push(text.clone()),
        }
    }
    found
}

/// Reports the lines of the locations of a block that Weir sends with other responses than nginx, or not with all of them.
pub(super) fn note(block: &[Directive], places: &[(&Directive, Place)], around: &Level, report: &mut Report) {
    note_inside(places, report);
    let said = around.site.header.iter().chain(&around.site.header_always);
    let replaced = said.filter(|line| !level::is_lifetime(line));
    let mut outside: Vec<String> = replaced.map(|line| name_of(line).to_owned()).collect();
    let (lines, _) = names(block);
    outside.extend(without(&lines, &outside));
    for (index, (location, place)) in places.iter().enumerate() {
        if place.patterns.is_empty() || !sends(location) {
            continue;
        }
        let shown = location.shown();
        // Lines that Weir cannot send replace those around them, too.
        let replaces = location.inner().iter().any(|one| one.name == "add_header");
        let inherited = without(&outside, &all_names(location.inner()));
        if replaces && !inherited.is_empty() {
            let why = format!(
                "Weir also sends the lines of the block around this location: {}; nginx sends those of the location alone",
                inherited.join(", ")
            );
            report.add(
                &location.at,
                &format!("add_header of {shown}"),
                Fate::changed(why),
            );
        }
        let own = all_names(location.inner());
        if own.is_empty() {
            continue;
        }
        let tries = tried(location.inner(), &place.patterns);
        let is_own = |file: &String| place.patterns.iter().any(|path| covers(path, file));
        let lost: Vec<&str> = tries
            .iter()
            .filter(|file| !is_own(file))
            .map(|file| &**file)
            .collect();
        if !lost.is_empty() {
            let why = format!(
                "Weir compares the path of the file sent, and `try_files` sends `{}`, without these lines; write a `[[header-rule]]` for it",
                lost.join("`, `")
            );
            report.add(
                &location.at,
                &format!("field lines of {shown}"),
                Fate::missing(why),
            );
        }
        // Those that nginx prefers, and those whose files are in the paths of this one.
        let mut others: Vec<String> = Vec::new();
        let mut leaked: Vec<String> = Vec::new();
        for (at, (other, paths)) in places.iter().enumerate().filter(|(at, _)| *at != index) {
            if !sends(other) || paths.is_hidden {
                continue;
            }
            let found = lacking(&own, other);
            let meets = |files: &[String]| {
                files
                    .iter()
                    .any(|file| place.patterns.iter().any(|path| overlaps(path, file)))
            };
            let is_stronger = at < index && meets(&paths.patterns);
            if !found.is_empty() && (is_stronger || meets(&tried(other.inner(), &paths.patterns))) {
                others.push(other.shown());
                leaked.extend(without(&found, &leaked));
            }
        }
        if meets_of_block(block, place) {
            others.push("try_files around it".to_owned());
            leaked.extend(without(&own, &leaked));
        }
        if !others.is_empty() {
            report.add(
                &location.at,
                &format!("field lines of {shown}"),
                added(&leaked, &others),
            );
        }
    }
}

/// The fate of lines that Weir also sends for paths of other locations.
fn added(leaked: &[String], others: &[String]) -> Fate {
    Fate::changed(format!(
        "Weir adds up the lines of all rules for a path, and sends {} also for paths of `{}`",
        leaked.join(", "),
        others.join("`, `")
    ))
}

/// Adds the locations in a location, at any depth, with their paths.
pub(super) fn inside<'a>(location: &'a Directive, place: &Place, found: &mut Vec<(&'a Directive, Place)>) {
    for one in location.inner().iter().filter(|one| one.name == "location") {
        let inner = admission::placed(one, &place.patterns, &place.filled);
        inside(one, &inner, found);
        found.push((one, inner));
    }
}

/// Reports the lines of locations in others that Weir also sends for paths of stronger locations beside these. nginx looks at a
/// location in a prefix only for paths of which that prefix is the longest.
fn note_inside(places: &[(&Directive, Place)], report: &mut Report) {
    for (index, (location, place)) in places.iter().enumerate() {
        let mut inner = Vec::new();
        inside(location, place, &mut inner);
        for (one, paths) in inner.iter().filter(|(one, _)| sends(one)) {
            let own = all_names(one.inner());
            if own.is_empty() {
                continue;
            }
            // nginx looks at these before the expressions around them.
            let is_first = place.is_plain() && (paths.is_expression() || paths.is_exact());
            let mut others: Vec<String> = Vec::new();
            let mut leaked: Vec<String> = Vec::new();
            for (other, taken) in &places[..index] {
                let is_other = sends(other) && !taken.is_hidden && !(is_first && taken.is_expression());
                if !is_other || meet_all(&taken.patterns, &paths.patterns).is_empty() {
                    continue;
                }
                let found = lacking(&own, other);
                if !found.is_empty() {
                    others.push(other.shown());
                    leaked.extend(without(&found, &leaked));
                }
            }
            if !others.is_empty() {
                let shown = format!("field lines of {}", one.shown());
                report.add(&one.at, &shown, added(&leaked, &others));
            }
        }
    }
}

/// The names of lines that another location does not send itself, and that Weir sends for its paths.
fn lacking(names: &[String], other: &Directive) -> Vec<String> {
    let mut found = without(names, &all_names(other.inner()));
    if other.inner().iter().any(|one| one.name.ends_with("_pass")) {
        found.retain(|name| !name.eq_ignore_ascii_case("Cache-Control"));
    }
    found
}

/// Whether `try_files` of the block itself sends files in the paths of a location.
fn meets_of_block(block: &[Directive], place: &Place) -> bool {
    let files = tried(block, &["/*".to_owned()]);
    files
        .iter()
        .any(|file| place.patterns.iter().any(|path| overlaps(path, file)))
}
