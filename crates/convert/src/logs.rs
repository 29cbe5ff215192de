//! Access logs of hosts: which file, in which format, and how many there may be.

use crate::access_log::Log;
use crate::fate::Fate;
use crate::model::{Server, Site};
use crate::report::{At, Report};
use crate::value::quote;
use core::fmt::Write as _;

/// Most access logs of Weir.
const LOGS_MAX: usize = 64;

/// Leaves out the logs of hosts that are too many.
pub(crate) fn bound(server: &mut Server, file: &str, report: &mut Report) {
    let mut files: Vec<String> = Vec::new();
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        let Some(name) = site.log.as_ref().and_then(Log::file) else {
            continue;
        };
        if files.iter().any(|known| known == name) {
            continue;
        }
        if files.len() < LOGS_MAX {
            files.push(name.to_owned());
            continue;
        }
        let at = At {
            file: file.into(),
            line: 0,
        };
        let why = format!("Weir writes at most {LOGS_MAX} access logs; this host has none");
        report.add(&at, &format!("access log {name}"), Fate::missing(why));
        site.log = None;
    }
}

/// Reports the sites for which the configuration names no log, where the top level has one: they do not share it.
pub(crate) fn note_absent(server: &Server, report: &mut Report) {
    let Some(above) = server.top.log.as_ref().and_then(Log::file) else {
        return;
    };
    for host in server.hosts.iter().filter(|host| host.log.is_none()) {
        if let Some((at, shown)) = &host.at {
            let why = format!(
                "no log is named for it, and the result writes none: `{above}` is that of another site"
            );
            report.add(at, &format!("access log of {shown}"), Fate::changed(why));
        }
    }
}

/// Writes the keys of a site. A host for which no log is named does not have that of the top level, which is another site's.
pub(crate) fn write(out: &mut String, site: &Site, top: Option<&Site>) {
    let above = top.and_then(|top| top.log.as_ref());
    if site.log.as_ref() == above {
        return;
    }
    match &site.log {
        Some(Log::To {
            file,
            format: (key, value),
        }) => {
            let _ = write!(out, "access-log = {}\n{key} = {value}\n", quote(file));
        }
        Some(Log::Off) | None if above.and_then(Log::file).is_some() => out.push_str("access-log = false\n"),
        Some(Log::Off) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(log: Option<Log>) -> Site {
        Site {
            log,
            ..Site::default()
        }
    }

    #[test]
    fn a_host_writes_what_differs_from_the_top_level() {
        let (one, other) = (
            Log::of_format("/a.log", "combined"),
            Log::of_template("/b.log", "$status"),
        );
        let text = |host: Option<Log>, top: Option<Log>| {
            let mut out = String::new();
            write(&mut out, &site(host), Some(&site(top)));
            out
        };
        assert_eq!(text(Some(one.clone()), Some(one.clone())), "");
        assert_eq!(text(None, Some(one.clone())), "access-log = false\n");
        assert_eq!(text(Some(Log::Off), None), "");
        assert_eq!(text(Some(Log::Off), Some(one.clone())), "access-log = false\n");
        assert_eq!(
            text(Some(other), Some(one)),
            "access-log = \"/b.log\"\nlog-template = \"$status\"\n"
        );
    }

    #[test]
    fn the_number_of_logs_is_bounded() {
        let mut server = Server::default();
        for number in 0..=LOGS_MAX {
            server
                .hosts
                .push(site(Some(Log::of_format(&format!("/{number}.log"), "json"))));
        }
        // A file that another host has is no further one.
        server.hosts.push(site(Some(Log::of_format("/0.log", "json"))));
        let mut report = Report::default();
        bound(&mut server, "site", &mut report);
        let without: Vec<usize> = (0..server.hosts.len())
            .filter(|at| server.hosts[*at].log.is_none())
            .collect();
        assert_eq!(without, [LOGS_MAX]);
        assert_eq!(report.notes().len(), 1);
        assert!(report.notes()[0].directive.contains("/64.log"), "{report:?}");
    }
}
