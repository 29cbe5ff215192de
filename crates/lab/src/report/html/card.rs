//! A claim as a card: its number in each world, the verdict and its cause; how it is judged is folded.

use super::{class, escaped, slug, value};
use crate::document::RECALLED;
use crate::ledger::Entry;
use crate::observation::World;
use crate::report::{COUNTERFACTUALS, cells, numbers};
use std::fmt::Write;

/// Letters of a cause that are shown before the fold.
const CAUSE_MAX: usize = 160;

/// Adds the card.
pub(super) fn card(html: &mut String, entry: &Entry) {
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        html,
        "<article class=\"card\" data-verdict=\"{1}\" id=\"{0}\"><p class=\"top\"><a href=\"#{0}\">{0}</a> {4}<span class=\"verdict {1}\">{2}</span></p>\
         <p class=\"claim\">{3}</p><p class=\"worlds\">",
        escaped(&entry.id),
        class(entry.verdict),
        entry.verdict.name(),
        escaped(&entry.claim),
        if entry.is_further {
            "<span>further claim</span> "
        } else {
            ""
        }
    );
    for world in World::ALL {
        if let Some(text) = value(entry, world) {
            let target = entry.views.get(&world).and_then(|view| view.sources.first());
            let text = match target {
                Some(source) => format!("<a href=\"#{}\">{text}</a>", anchor(entry, source)),
                None => text,
            };
            let _ = write!(
                html,
                "<span class=\"cell\"><span class=\"w {0}\">{0}</span> {text}</span> ",
                world.name()
            );
        }
    }
    html.push_str("</p>");
    for (world, view) in &entry.views {
        if let Some(part) = &view.partly_run {
            let _ = write!(html, "<p class=\"small\">{}: {}</p>", world.name(), escaped(part));
        }
    }
    if !entry.shows.is_empty() {
        let _ = write!(html, "<p class=\"small\">Number: {}</p>", escaped(&entry.shows));
    }
    if !entry.brief_cause.is_empty() {
        let _ = write!(
            html,
            "<p class=\"small cause\">{}</p>",
            escaped(&short(&entry.brief_cause))
        );
    }
    judged(html, entry);
    html.push_str("</article>\n");
}

/// The first words of a text, cut at a space. The whole is in the fold.
fn short(text: &str) -> String {
    if text.chars().count() <= CAUSE_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(CAUSE_MAX).collect();
    let end = head.rfind(' ').unwrap_or(head.len());
    format!("{} …", head[..end].trim_end_matches([',', ';', ':', '.']))
}

fn judged(html: &mut String, entry: &Entry) {
    let _ = write!(
        html,
        "<details><summary>Why, and how it is judged</summary><p>Number: {}</p><p>{}</p><p>{}: {}</p>",
        escaped(&entry.shows),
        escaped(&entry.reason),
        if entry.is_since() {
            "Source"
        } else {
            "In the document"
        },
        escaped(&entry.check)
    );
    for rule in &entry.premise {
        let _ = write!(html, "<p>premise: <code>{}</code></p>", escaped(rule));
    }
    for (number, rule) in entry.rules.iter().enumerate() {
        let _ = write!(html, "<p>rule {}: <code>{}</code></p>", number + 1, escaped(rule));
    }
    counterfactuals(html, entry);
    for (world, view) in &entry.views {
        let _ = write!(
            html,
            "<p><span class=\"w {0}\">{0}</span> {1}</p>",
            world.name(),
            escaped(&numbers(view))
        );
    }
    if let Some(study) = &entry.study {
        let _ = write!(html, "<p><a href=\"#plan-{}\">the plan</a></p>", escaped(study));
    }
    html.push_str("</details>");
}

/// The values of the claim's rules in each counterfactual.
fn counterfactuals(html: &mut String, entry: &Entry) {
    if entry.counterfactuals.is_empty() {
        return;
    }
    let _ = write!(html, "<p>{COUNTERFACTUALS}</p><ul>");
    for one in &entry.counterfactuals {
        let cells = cells(one, entry.rules.len());
        let rules: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(number, text)| format!("rule {}: {}", number + 1, escaped(text)))
            .collect();
        let _ = write!(
            html,
            "<li>without {}: {}</li>",
            escaped(&one.name()),
            rules.join("; ")
        );
    }
    html.push_str("</ul>");
}

/// Anchor of a claim's source on the page.
fn anchor(entry: &Entry, source: &str) -> String {
    let source = source.strip_suffix(RECALLED).unwrap_or(source);
    match (&entry.study, source.strip_prefix("table ")) {
        (Some(study), Some(number)) => format!("{study}-table-{}", slug(number)),
        _ => slug(source),
    }
}

#[cfg(test)]
mod tests {
    use super::{CAUSE_MAX, short};

    #[test]
    fn a_long_cause_is_cut_at_a_word() {
        assert_eq!(short("Cause unknown"), "Cause unknown");
        let long = "wörter, ".repeat(40);
        let cut = short(&long);
        assert!(
            cut.ends_with("wörter …") && cut.chars().count() <= CAUSE_MAX + 2,
            "{cut}"
        );
    }
}
