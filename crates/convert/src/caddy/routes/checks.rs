//! Directives of Caddy that decide about clients: passwords, networks, other servers, refusals. A check that Weir has no form for
//! closes its paths.

use super::Routes;
use crate::access::{Access, FixedText};
use crate::caddy::exclusive::{self, Exclusive};
use crate::caddy::matcher::{Lost, Matcher};
use crate::caddy::{proxy, users};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::pattern::{covers, covers_all, overlaps};
use crate::report::Report;
use crate::value::{NO_TEXT, TEXT_AT_START};

/// Whether a directive does nothing but refuse requests.
pub(super) fn refuses(directive: &Directive) -> bool {
    match directive.name.as_str() {
        "abort" | "error" => true,
        "respond" => {
            let is_error = |arg: &String| matches!(arg.parse::<u16>(), Ok(400..=599));
            directive.args.iter().any(is_error)
        }
        "handle" | "route" => !directive.inner().is_empty() && directive.inner().iter().all(refuses),
        _ => false,
    }
}

/// What follows the reason why a check is lost.
pub(super) const DENIED: &str = "the result denies these paths";

/// Whether a directive decides about clients: one of Caddy, or by its name one of a module that the converter does not know.
pub(super) fn is_check(directive: &Directive) -> bool {
    let name = directive.name.as_str();
    let starts = ["auth", "jwt"];
    // What a named route does is not known here.
    matches!(name, "basic_auth" | "basicauth" | "forward_auth" | "invoke")
        || starts.iter().any(|start| name.starts_with(start))
}

/// Whether a directive that the converter does not know refuses some requests, by its name: a firewall.
pub(super) fn is_firewall(directive: &Directive) -> bool {
    let starts = ["appsec", "coraza", "crowdsec", "defender", "waf"];
    starts.iter().any(|start| directive.name.starts_with(start))
}

/// Whether a directive, or one in it, decides about clients.
fn has_check(directive: &Directive) -> bool {
    is_check(directive) || directive.inner().iter().any(has_check)
}

/// Reports a directive without a form in Weir, and all in it: what limits access is open.
fn note_lost(directive: &Directive, why: &str, report: &mut Report) {
    let fate = match is_check(directive) || refuses(directive) || is_firewall(directive) {
        true => Fate::open(why),
        false => Fate::missing(why),
    };
    report.add(&directive.at, &directive.shown(), fate);
    for inner in directive.inner() {
        note_lost(inner, why, report);
    }
}

/// The text of `respond` with these arguments.
///
/// # Errors
/// Why Weir has no such answer.
fn fixed_text(directive: &Directive, args: &[String]) -> Result<FixedText, String> {
    if !directive.inner().is_empty() {
        return Err("the converter reads no options of `respond`".to_owned());
    }
    let is_status = |arg: &str| arg.len() == 3 && arg.bytes().all(|b| b.is_ascii_digit());
    let (text, status) = match args {
        [] => ("", "200"),
        [one] if is_status(one) => ("", one.as_str()),
        [text] => (text.as_str(), "200"),
        [text, status] => (text.as_str(), status.as_str()),
        _ => return Err("this is no `respond` that the converter knows".to_owned()),
    };
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$');
    if text.split('{').skip(1).any(is_name) {
        return Err(
            "Weir has no variables: the text of a fixed answer is the same for all requests".to_owned(),
        );
    }
    let trimmed = text.trim();
    let begins_with = |start: char, next: &str| {
        let rest = trimmed.strip_prefix(start).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with(|c: char| next.contains(c)))
    };
    // Caddy tells JSON by its syntax.
    let is_json = (begins_with('{', "\"") && trimmed.ends_with('}'))
        || (begins_with('[', "{[\"0123456789") && trimmed.ends_with(']'));
    let media_type = match is_json {
        true => "application/json",
        false => "text/plain; charset=utf-8",
    };
    let said = vec![(directive.at.clone(), directive.shown())];
    FixedText::new(status.parse().unwrap_or(0), text, media_type, said)
}

impl Routes<'_> {
    /// Adds an access rule of the directive that is read: it is not about the paths that earlier blocks answer.
    fn limit(&mut self, rule: Access) {
        let levels = self.levels.iter();
        let before = levels.flat_map(|level| {
            let handled = level.handled.iter();
            let handled = handled
                .filter(|(path, is_answer)| (level.is_handle || *is_answer) && !level.filled.contains(path));
            handled.map(|(path, _)| path).chain(&level.redirected)
        });
        let is_left_out = |path: &&String| {
            exclusive::can_leave_out(path) && overlaps(&rule.path, path) && !covers(path, &rule.path)
        };
        let except: Vec<String> = before.filter(is_left_out).cloned().collect();
        if except.is_empty() {
            return self.site.access.push(rule);
        }
        let said = self.levels.last().and_then(|level| level.said.clone());
        self.exclusive.push(Exclusive { rule, except, said });
    }

    /// Reports what rules that leave out the paths below a folder leave out besides.
    pub(super) fn note_left_out(&mut self) {
        let rules = self
            .exclusive
            .chunk_by(|one, next| (&one.said, &one.except) == (&next.said, &next.except));
        for one in rules.filter_map(|rules| rules.first()) {
            let folders: Vec<&str> = one
                .except
                .iter()
                .filter_map(|path| path.strip_suffix("/*"))
                .collect();
            if let (Some((at, shown)), false) = (&one.said, folders.is_empty()) {
                let why = format!(
                    "not for `{}`, because a rule of Weir for the paths below a folder is also for its name",
                    folders.join("`, `")
                );
                self.report.add(at, shown, Fate::changed(why));
            }
        }
    }

    /// Refuses all clients the requests of a matcher.
    pub(super) fn close(&mut self, matcher: &Matcher) {
        for path in &matcher.patterns {
            match matcher.conditions.is_always() {
                true => self.limit(Access::nobody(path)),
                false => self.site.refuse(path, &matcher.conditions, 403),
            }
        }
    }

    /// Reports a directive whose matcher is lost, and denies its paths if it limits access or sends a text. What only refuses all
    /// clients, and a text, do not close a whole site.
    pub(super) fn lose(&mut self, directive: &Directive, lost: &Lost) {
        let is_everything = lost.patterns.iter().any(|path| covers_all(path));
        let answers = refuses(directive) || directive.name == "respond";
        let closes = has_check(directive) || (answers && !is_everything);
        if !closes {
            return note_lost(directive, &lost.why, self.report);
        }
        for path in &lost.patterns {
            self.limit(Access::nobody(path));
        }
        let why = format!("{}; the result denies `{}`", lost.why, lost.patterns.join("`, `"));
        directive.note_all(&Fate::missing(why), self.report);
    }

    /// Reads `forward_auth`: a server that decides about requests.
    pub(super) fn ask(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let option = |name: &'static str| directive.inner().iter().filter(move |one| one.name == name);
        let known = ["uri", "copy_headers"];
        if let Some(other) = directive
            .inner()
            .iter()
            .find(|one| !known.contains(&one.name.as_str()))
        {
            return Fate::open(format!("`{}` has no key", other.name));
        }
        let [server] = args else {
            return Fate::open("Weir asks one server");
        };
        let (server, _) = match proxy::upstream(server) {
            Ok(found) => found,
            Err(why) => return Fate::open(why),
        };
        let uri = option("uri").next_back().map_or("/", |uri| uri.arg(0));
        if uri.contains('{') || !uri.starts_with('/') {
            return Fate::open("Weir has no variables: the URL of the server is a fixed text");
        }
        let url = match server.starts_with("unix:") {
            true => format!("{server}:{uri}"),
            false => format!("{server}{uri}"),
        };
        let lines = option("copy_headers").flat_map(|one| {
            let inner = one
                .inner()
                .iter()
                .flat_map(|line| core::iter::once(&line.name).chain(&line.args));
            one.args.iter().chain(inner)
        });
        let copy: Vec<String> = lines.cloned().collect();
        if copy.iter().any(|name| name.contains('>')) {
            return Fate::open("Weir copies fields under their own names");
        }
        for path in &matcher.patterns {
            self.limit(Access {
                path: path.clone(),
                auth: Some((url.clone(), copy.clone())),
                ..Access::default()
            });
        }
        Fate::Carried
    }

    pub(super) fn users(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let algorithm = args.first().map_or("bcrypt", |arg| arg);
        if algorithm != "bcrypt" {
            return Fate::open("Weir accepts bcrypt and SHA-crypt hashes");
        }
        let (lines, lost) = users::read(directive);
        let lost = match lost.is_empty() {
            true => None,
            false => Some(format!(
                "`{}` has no bcrypt hash of a cost up to 15, and is not admitted",
                lost.join("`, `")
            )),
        };
        if lines.is_empty() {
            return Fate::open(lost.unwrap_or_else(|| "no user is named here".to_owned()));
        }
        let file = self.users.file(lines);
        let realm = args.get(1).cloned();
        for path in &matcher.patterns {
            self.limit(Access {
                path: path.clone(),
                htpasswd: Some(file.clone()),
                realm: realm.clone(),
                ..Access::default()
            });
        }
        let place = format!("the users are in `{file}` beside the result, which `--out` writes");
        match lost {
            Some(lost) => Fate::missing(format!("{lost}; {place}")),
            None => Fate::changed(place),
        }
    }

    pub(super) fn respond(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let status = args.iter().find_map(|arg| {
            arg.parse::<u16>()
                .ok()
                .filter(|status| (100..600).contains(status))
        });
        match status {
            Some(status @ 400..=599) => match self.deny(matcher, status) {
                Fate::Carried if args.len() > 1 => Fate::changed("without the text: error pages have it"),
                fate => fate,
            },
            _ => self.text(directive, args, matcher),
        }
    }

    /// Answers with a text. Where the result has no fixed answer, it denies the paths: the files there, or what an upstream has, are
    /// not for clients. The fate is that of a text that is lost: [`crate::texts`] says so of one that is not.
    fn text(&mut self, directive: &Directive, args: &[String], matcher: &Matcher) -> Fate {
        let is_for_some = !matcher.conditions.is_always() || matcher.networks.is_some();
        let text = match is_for_some {
            true => Err("the converter has no fixed answer with conditions".to_owned()),
            false => fixed_text(directive, args),
        };
        let (why, text) = match text {
            Ok(text) => (NO_TEXT.to_owned(), Some(text)),
            Err(why) => (why, None),
        };
        if matcher.patterns.iter().any(|path| path == "/") {
            let is_alone = matcher.patterns.len() == 1 && !self.answers_start();
            self.site.starts.extend(text.filter(|_| is_alone));
            return Fate::open(format!("{why}; {TEXT_AT_START}"));
        }
        if let Some(text) = text {
            for path in &matcher.patterns {
                self.limit(Access {
                    text: Some(text.clone()),
                    ..Access::nobody(path)
                });
            }
        } else if let Fate::Missing(more) = self.deny(matcher, 403) {
            return Fate::missing(format!("{why}; {more}"));
        }
        Fate::missing(format!(
            "{why}; the result denies `{}`",
            matcher.patterns.join("`, `")
        ))
    }

    /// Whether earlier blocks or redirects have the path `/`.
    fn answers_start(&self) -> bool {
        self.levels.iter().any(|level| {
            let handled = level.handled.iter();
            let mut handled = handled.filter(|(_, is_answer)| level.is_handle || *is_answer);
            handled.any(|(path, _)| covers(path, "/"))
                || level.redirected.iter().any(|path| covers(path, "/"))
        })
    }

    pub(super) fn deny(&mut self, matcher: &Matcher, status: u16) -> Fate {
        if !matcher.conditions.is_always() {
            for path in &matcher.patterns {
                self.site.refuse(path, &matcher.conditions, status);
            }
            return match matcher.networks.is_some() {
                true => Fate::missing(
                    "a rule of Weir with conditions is for clients of all networks, and the result refuses all of them",
                ),
                false => Access::fate_of_refusal(status),
            };
        }
        for path in &matcher.patterns {
            let mut rule = Access {
                path: path.clone(),
                status: Access::refuses_with(status),
                ..Access::default()
            };
            match &matcher.networks {
                None => rule.deny.push("all".to_owned()),
                Some(networks) if networks.is_outside => rule.allow.clone_from(&networks.networks),
                Some(networks) => rule.deny.clone_from(&networks.networks),
            }
            self.limit(rule);
        }
        Access::fate_of_refusal(status)
    }
}
