//! Access rules of blocks of which one answers a request, the first that matches: a rule in a later one is not about the paths
//! of the earlier ones.

use crate::access::Access;
use crate::pattern::{covers, meet, overlaps};
use crate::report::At;

/// A rule, and the paths that earlier blocks answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exclusive {
    pub(super) rule: Access,
    /// Patterns that [`can_leave_out`] accepts.
    pub(super) except: Vec<String>,
    /// The directive that says so.
    pub(super) said: Option<(At, String)>,
}

/// Whether rules of Weir can leave out the paths of a pattern. A rule also covers all paths below those of its pattern, so what
/// is below must belong to the same block, or have a rule of its own.
pub(super) fn can_leave_out(pattern: &str) -> bool {
    !pattern.ends_with('/') && (pattern.ends_with('*') || !pattern.contains('*'))
}

/// Adds rules to others, of which the first that covers a path decides. Clients must satisfy what both say, where both are
/// about a path.
///
/// # Errors
/// Two rules of which Weir has no one rule: nobody is admitted. The rules are added all the same.
pub(super) fn add(rules: &mut Vec<Access>, exclusive: &[Exclusive]) -> Result<(), String> {
    let mut outcome = Ok(());
    for one in exclusive {
        let mut both = |rule: &Access, other: &Access, path: &str| {
            joined(rule, other, path).unwrap_or_else(|why| {
                outcome = Err(why);
                Access::nobody(path)
            })
        };
        let mut added = Vec::new();
        for path in &one.except {
            // Of a path without a star, those below it belong to no earlier block.
            if !path.contains('*') {
                let below = format!("{path}/*");
                let around = rules.iter().filter(|rule| overlaps(&rule.path, &below));
                let rule = around.fold(one.rule.clone(), |rule, other| both(&rule, other, &below));
                // With a slash at its end, it covers what is below, and not the path itself.
                let path = format!("{path}/");
                added.push(Access { path, ..rule });
            }
            added.extend(within(rules, path));
        }
        for rule in rules.iter() {
            let mut shared = meet(&rule.path, &one.rule.path);
            if shared.is_empty() && rule.applies_to(&one.rule.path) {
                shared.push(one.rule.path.clone());
            }
            added.extend(shared.iter().map(|path| both(rule, &one.rule, path)));
            if !covers(&one.rule.path, &rule.path) {
                added.push(rule.clone());
            }
        }
        added.push(one.rule.clone());
        *rules = added;
        let mut kept: Vec<Access> = Vec::new();
        for rule in rules.drain(..) {
            // No path reaches a rule behind one that covers all its paths.
            if !kept.iter().any(|known| covers(&known.path, &rule.path)) {
                kept.push(rule);
            }
        }
        *rules = kept;
    }
    outcome
}

/// What decides about the paths of a pattern.
fn within(rules: &[Access], path: &str) -> Vec<Access> {
    let mut found = Vec::new();
    for rule in rules {
        if rule.applies_to(path) {
            found.push(Access {
                path: path.to_owned(),
                ..rule.clone()
            });
            return found;
        }
        let shared = meet(&rule.path, path).into_iter();
        found.extend(shared.map(|path| Access { path, ..rule.clone() }));
    }
    found.push(Access {
        path: path.to_owned(),
        allow: vec!["all".to_owned()],
        ..Access::default()
    });
    found
}

/// The rule, for a path, whose clients satisfy both. A refusal of everyone keeps its status.
fn joined(rule: &Access, more: &Access, path: &str) -> Result<Access, String> {
    let found = match (rule.is_for_nobody(), more.is_for_nobody()) {
        (true, _) => rule.clone(),
        // A text is for those clients only who satisfy the rule.
        (false, true) if !rule.is_for_everyone() => Access {
            text: None,
            ..more.clone()
        },
        (false, true) => more.clone(),
        (false, false) => rule.and(more).map_err(|what| {
            format!(
                "`{}` and `{}` both {what}, and Weir applies one rule; the result denies `{path}`",
                rule.path, more.path
            )
        })?,
    };
    Ok(Access {
        path: path.to_owned(),
        ..found
    })
}
