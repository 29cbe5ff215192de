//! Logs: the access logs of hosts, with file, format and number, and the log of the server's own messages.

use crate::access_log::Log;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Messages, Server, Site};
use crate::report::{At, Report};
use crate::value::quote;
use core::fmt::Write as _;
use std::path::Path;

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

/// Reads the file for the server's own messages, with a level behind it. The first one stays: that of the outermost block, as blocks
/// are read after what is around them.
pub(crate) fn messages(directive: &Directive, file: &str, server: &mut Server) -> Fate {
    let file = match file {
        "" => return Fate::missing("no file is named"),
        "stderr" | "/dev/stderr" | "/dev/null" => {
            return Fate::unneeded("without `server-log`, Weir writes its messages to standard error");
        }
        "off" => return Fate::unneeded("`off` is the name of a file here; the result writes no such file"),
        file => file,
    };
    let is_daemon = file.split(':').next().is_some_and(|kind| {
        let kinds = ["syslog", "journald", "memory"];
        kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
    });
    if is_daemon || file.starts_with(['|', '-']) || file.contains(['$', '%']) {
        return Fate::missing(format!(
            "`{file}` is no file of one name; `server-log` of Weir also takes log daemons"
        ));
    }
    let known = server.messages.get_or_insert_with(|| Messages {
        file: file.to_owned(),
        said: Vec::new(),
    });
    known.said.push((directive.at.clone(), directive.shown()));
    if known.file != file {
        return Fate::changed(format!("the messages about all hosts are in `{}`", known.file));
    }
    match directive.args.len() {
        1 => Fate::Carried,
        _ => Fate::changed("Weir writes messages of all levels"),
    }
}

/// Leaves out the log of the server's own messages if it is the file of an access log, which Weir refuses.
pub(crate) fn part(server: &mut Server, report: &mut Report) {
    let Some(messages) = &server.messages else {
        return;
    };
    let mut sites = core::iter::once(&server.top).chain(&server.hosts);
    let is_same = |site: &Site| {
        let file = site.log.as_ref().and_then(Log::file);
        file.is_some_and(|file| Path::new(file) == Path::new(&messages.file))
    };
    if sites.any(is_same) {
        let why = format!(
            "`{}` is also an access log; name another file in `server-log`",
            messages.file
        );
        for (at, directive) in &messages.said {
            report.replace(at, directive, Fate::missing(why.as_str()));
        }
        server.messages = None;
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
    use crate::fidelity::{check_fates, converted};
    use crate::{Conversion, Dialect};

    /// The value of `server-log` in a result.
    fn server_log(found: &Conversion) -> Option<&str> {
        let mut lines = found.toml.lines();
        lines.find_map(|line| line.strip_prefix("server-log = "))
    }

    #[test]
    fn messages_of_the_server_have_the_file_of_the_outermost_block() {
        let text = "error_log /l/all.log;\nhttp {\nerror_log /l/http.log warn;\nserver {\nerror_log /l/all.log notice;\n\
                    error_log stderr;\nlocation /x/ {\nerror_log /l/x.log;\n}\n}\n}\n";
        let found = converted(Dialect::Nginx, text);
        assert_eq!(server_log(&found), Some("\"/l/all.log\""), "{}", found.toml);
        check_fates(
            &found,
            &[
                (1, "carried", ""),
                (3, "changed", "in `/l/all.log`"),
                (5, "changed", "all levels"),
                (6, "unneeded", "standard error"),
                (8, "unneeded", "one log"),
            ],
        );
        // Only in blocks of servers.
        let text = "server {\nserver_name a.test;\nerror_log /l/a.log;\n}\n\
                    server {\nserver_name b.test;\nerror_log /l/b.log;\n}\n";
        let found = converted(Dialect::Nginx, text);
        assert_eq!(server_log(&found), Some("\"/l/a.log\""), "{}", found.toml);
        check_fates(&found, &[(7, "changed", "in `/l/a.log`")]);
        let text = "ErrorLog ${APACHE_LOG_DIR}/error.log\nLogLevel warn\n\
                    <VirtualHost *:80>\nServerName a.test\nErrorLog /l/a.log\n</VirtualHost>\n";
        let found = converted(Dialect::Apache, text);
        assert_eq!(
            server_log(&found),
            Some("\"/var/log/apache2/error.log\""),
            "{}",
            found.toml
        );
        check_fates(
            &found,
            &[
                (1, "carried", ""),
                (2, "unneeded", "all levels"),
                (5, "changed", "in `/var/log/apache2/error.log`"),
            ],
        );
    }

    #[test]
    fn messages_of_the_server_stay_on_standard_error_without_a_file() {
        for (line, word) in [
            ("error_log stderr warn;", "unneeded"),
            ("error_log /dev/null;", "unneeded"),
            ("error_log off;", "unneeded"),
            ("error_log syslog:server=192.0.2.1 warn;", "missing"),
            ("error_log memory:32m debug;", "missing"),
            // Weir refuses the file of an access log.
            ("access_log /l/a.log; error_log /l/a.log;", "missing"),
        ] {
            let text = format!("server {{ listen 80; root /srv;\n{line}\n}}\n");
            let found = converted(Dialect::Nginx, &text);
            assert_eq!(server_log(&found), None, "{line}: {}", found.toml);
            check_fates(&found, &[(2, word, "")]);
        }
        // Nor do other files get its messages.
        let text = "server {\naccess_log /l/a.log;\nerror_log /l/a.log;\nerror_log /l/b.log warn;\n}\n";
        let found = converted(Dialect::Nginx, text);
        check_fates(
            &found,
            &[
                (3, "missing", "`/l/a.log` is also an access log"),
                (4, "missing", "`/l/a.log` is also an access log"),
            ],
        );
        for (value, word) in [("syslog:local7", "missing"), ("\"|/bin/cat\"", "missing")] {
            let text = format!("DocumentRoot /srv/www\nErrorLog {value}\n");
            let found = converted(Dialect::Apache, &text);
            assert_eq!(server_log(&found), None, "{value}: {}", found.toml);
            check_fates(&found, &[(2, word, "")]);
        }
    }

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
