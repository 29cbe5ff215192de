//! `header` of Caddy: field lines of responses, and the paths that have them.

use super::Routes;
use crate::caddy::matcher::Matcher;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::HeaderRule;
use crate::pattern::{covers, overlaps};
use crate::value::{field, removable};

impl Routes<'_> {
    /// Reports field lines whose paths in Weir are not those of Caddy, which compares the path of the request before it tries
    /// files. Weir compares the path of the file that it sends.
    pub(super) fn note_lines(&mut self) {
        for (at, shown, paths) in std::mem::take(&mut self.lines) {
            let (mut lost, mut leaked): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
            for rule in &self.site.tried {
                let is_whole = paths.iter().any(|path| covers(path, &rule.path));
                for text in rule.files.iter().filter(|text| *text != "$path") {
                    let of = |path: &str| match text.strip_prefix("$path") {
                        Some(suffix) => format!("{path}{suffix}"),
                        None => text.clone(),
                    };
                    let asked = paths.iter().filter(|path| overlaps(path, &rule.path));
                    let is_own = |file: &str| paths.iter().any(|path| covers(path, file));
                    let all = asked.map(|path| {
                        of(if covers(&rule.path, path) {
                            path
                        } else {
                            &rule.path
                        })
                    });
                    lost.extend(all.filter(|file| !is_own(file)));
                    let file = of(&rule.path);
                    if !is_whole && paths.iter().any(|path| overlaps(path, &file)) {
                        leaked.push(rule.path.clone());
                    }
                }
            }
            for list in [&mut lost, &mut leaked] {
                list.sort();
                list.dedup();
            }
            if !lost.is_empty() {
                let why = format!(
                    "Weir compares the path of the file sent, and `try_files` sends `{}`, without these lines; write a `[[header-rule]]` for it",
                    lost.join("`, `")
                );
                self.report.add(&at, &shown, Fate::missing(why));
            }
            if !leaked.is_empty() {
                let why = format!(
                    "Weir compares the path of the file sent: requests for `{}` have these lines, too, if `try_files` sends such a file",
                    leaked.join("`, `")
                );
                self.report.add(&at, &shown, Fate::changed(why));
            }
        }
    }

    pub(super) fn header(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let mut lines = Vec::new();
        let mut others = Vec::new();
        let mut removed = Vec::new();
        let mut one = |name: &str, value: &str| {
            let bare = name.trim_start_matches(['+', '?', '>']);
            if let Some(gone) = name.strip_prefix('-') {
                match removable(gone) {
                    Ok(()) => removed.push(gone.to_owned()),
                    Err(why) => others.push(why),
                }
                return;
            }
            if value.contains('{') {
                return others.push(format!("`{bare}`: Weir has no variables"));
            }
            match field(bare, value) {
                Ok(line) => lines.push(line),
                Err(why) => others.push(why),
            }
        };
        match args {
            [] => {}
            [name] => one(name, ""),
            // A third argument replaces a part of what the upstream sent.
            [name, value] => one(name, value),
            [name, ..] => return Fate::missing(format!("`{name}`: Weir replaces no parts of fields")),
        }
        for inner in directive.inner() {
            match inner.args.len() {
                _ if inner.name == "defer" => {}
                0 | 1 => one(&inner.name, inner.arg(0)),
                _ => return Fate::missing(format!("`{}`: Weir replaces no parts of fields", inner.name)),
            }
        }
        for name in &removed {
            for path in &matcher.patterns {
                for conditions in matcher.conditions.iter() {
                    self.site.remove_field(path, conditions, name);
                }
            }
        }
        let is_empty = lines.is_empty();
        let is_unneeded = is_empty && removed.iter().all(|name| name.eq_ignore_ascii_case("server"));
        match matcher.is_everything() {
            true => self.site.header_always.extend(lines),
            false => {
                if !is_empty && matcher.conditions.is_always() {
                    let (at, shown) = (directive.at.clone(), directive.shown());
                    self.lines.push((at, shown, matcher.patterns.clone()));
                }
                for path in matcher.patterns.iter().filter(|_| !is_empty) {
                    let rules = matcher.conditions.iter().map(|conditions| HeaderRule {
                        path: path.clone(),
                        conditions: conditions.clone(),
                        header: lines.clone(),
                        always: true,
                    });
                    self.site.header_rules.extend(rules);
                }
            }
        }
        match (others.is_empty(), is_unneeded) {
            (false, _) => Fate::missing(others.join("; ")),
            (true, true) => {
                Fate::unneeded("Weir sends no `Server` field, and the result removes that of upstreams")
            }
            (true, false) => Fate::Carried,
        }
    }
}
