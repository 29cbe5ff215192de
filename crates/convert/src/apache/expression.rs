//! `<If>` and `<Else>` around field lines, as header rules with conditions. Decides which of these sections Weir has a form for.

use super::condition;
use super::site::Folder;
use crate::directive::Directive;
use crate::model::HeaderRule;
use crate::value::field;

/// Why other sections of these names are lost.
pub(super) const LOST: &str = "the converter reads `<If>` and `<Else>` only around `Header set`, with a test of one parameter of the query";

/// The rules of a section. `block`: the directives beside it. `None`: Weir has no form for it, or it has another name.
pub(super) fn rules(section: &Directive, block: &[Directive], folder: &Folder) -> Option<Vec<HeaderRule>> {
    let condition = condition_of(section, block)?;
    let lines: Vec<(bool, String)> = section.inner().iter().map(line).collect::<Option<_>>()?;
    let mut rules = Vec::new();
    for path in &folder.patterns {
        for always in [false, true] {
            let own = lines.iter().filter(|(of_all, _)| *of_all == always);
            let header: Vec<String> = own.map(|(_, line)| line.clone()).collect();
            if !header.is_empty() {
                rules.push(HeaderRule {
                    path: path.clone(),
                    conditions: vec![condition.clone()],
                    header,
                    always,
                });
            }
        }
    }
    Some(rules)
}

/// What requests must have for a section to apply.
fn condition_of(section: &Directive, block: &[Directive]) -> Option<String> {
    if section.name.eq_ignore_ascii_case("<if") {
        return condition::of_expression(&section.args.join(" "));
    }
    if !section.name.eq_ignore_ascii_case("<else") {
        return None;
    }
    let at = block.iter().position(|one| core::ptr::eq(one, section))?;
    // Behind `<ElseIf>`, several conditions are false.
    let before = block
        .get(at.checked_sub(1)?)
        .filter(|one| one.name.eq_ignore_ascii_case("<if"))?;
    condition::of_expression(&before.args.join(" ")).map(|condition| format!("not {condition}"))
}

/// The line of `Header set` with a fixed value, and whether errors have it, too.
fn line(directive: &Directive) -> Option<(bool, String)> {
    let words: Vec<&str> = directive.args.iter().map(String::as_str).collect();
    let (always, words) = match words.split_first()? {
        (first, rest) if first.eq_ignore_ascii_case("always") => (true, rest),
        (first, rest) if first.eq_ignore_ascii_case("onsuccess") => (false, rest),
        _ => (false, words.as_slice()),
    };
    let [action, name, value] = words else {
        return None;
    };
    let is_set = directive.name.eq_ignore_ascii_case("header") && action.eq_ignore_ascii_case("set");
    match is_set && !value.contains("%{") {
        true => Some((always, field(name, value).ok()?)),
        false => None,
    }
}
