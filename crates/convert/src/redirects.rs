//! Redirects of the result. Decides how many paths each of them leaves out, and reports the others.

use crate::fate::Fate;
use crate::model::{EXCEPT_MAX, Server};
use crate::report::Report;

/// Leaves out the exceptions of a redirect beyond the limit: the result redirects these paths, too.
pub(crate) fn bound(server: &mut Server, file: &str, report: &mut Report) {
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        let (at, _) = site.place(file);
        for rule in &mut site.redirects {
            let Some(first) = rule.except.get(EXCEPT_MAX) else {
                continue;
            };
            let why = format!(
                "`except` of a redirect names at most {EXCEPT_MAX} paths; the result redirects {} more, the first of them `{first}`",
                rule.except.len() - EXCEPT_MAX
            );
            report.add(&at, &format!("redirect of `{}`", rule.from), Fate::missing(why));
            rule.except.truncate(EXCEPT_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Redirect, Site};

    #[test]
    fn the_exceptions_of_a_redirect_are_bounded() {
        let leaving = |count: usize| Server {
            top: Site {
                redirects: vec![Redirect {
                    from: "*".to_owned(),
                    except: (0..count).map(|at| format!("/{at}")).collect(),
                    ..Redirect::default()
                }],
                ..Site::default()
            },
            ..Server::default()
        };
        for (count, noted) in [(1000, 0), (1002, 1)] {
            let mut server = leaving(count);
            let mut report = Report::default();
            bound(&mut server, "site", &mut report);
            assert_eq!(server.top.redirects[0].except.len(), 1000, "{count}");
            assert_eq!(report.notes().len(), noted, "{count}");
            let names_it = |note: &crate::Note| note.fate.why().contains("2 more, the first of them `/1000`");
            assert!(report.notes().iter().all(names_it), "{report:?}");
        }
    }
}
