//! Explains how a request would be answered: each rule that applies, in the order in which a server applies them, and the
//! source of the answer.
//!
//! The answer comes from the same exchange as that of a session, so the explanation cannot differ from it. This file knows no
//! connection, and it passes nothing to upstreams.

use crate::access::{Check, Sender, Verdict};
use crate::checked::{Assumed, Known};
use crate::client_address::{From, Shown, UNKNOWN};
use crate::config::{
    Access, Conditions, Config, Facts, FieldLine, HeaderRule, PathPattern, Redirect, Respond, Satisfy,
    TrailingSlash, spelling,
};
use crate::context::{Cx, Done};
use crate::entry::{Answer as Kind, Entry, Missing};
use crate::exchange::{Asked, Exchange, Head, Step as Next, Way};
use crate::proxy::cache::Cached;
use crate::proxy::head::asks_for_websocket;
use crate::proxy::{Found, Route};
use crate::service::{Server, State};
use crate::site::Lookup;
use http_semantics::field::{Fields, Line};
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use http_semantics::target::Target;
use http1::framing::Framing;
use runtime::Context as _;
use runtime::session::Job;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, UnixTime};

/// A request to explain.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// Method.
    pub method: &'q str,
    /// Name of the server, as the client knows it.
    pub host: &'q str,
    /// Path and query.
    pub target: &'q str,
    /// Whether it comes over TLS.
    pub is_secured: bool,
    /// Address of the peer. If it is trusted, the fields may name another client.
    pub peer: IpAddr,
    /// Whether to assume that the client has the certificate and the password that access rules ask for, and that other
    /// servers admit it.
    pub is_admitted: bool,
    /// Field lines besides `Host`. Without `Accept`, the request accepts HTML as browsers do.
    pub fields: &'q [FieldLine],
}

/// What would happen to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What applies, in order.
    pub steps: Vec<Step>,
    /// Status of the answer; `None`: an upstream decides it.
    pub status: Option<u16>,
    /// Where the answer comes from, in words.
    pub source: String,
    /// Field lines of the answer that depend on the configuration, as `Name: value`. If an upstream decides the answer: those
    /// that rules add.
    pub fields: Vec<String>,
}

/// One thing that applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The key of the configuration, or the part of the request.
    pub subject: &'static str,
    /// What it does, in words.
    pub text: String,
}

impl Server {
    /// Explains how a request would be answered now. Reads the file that answers it. Checks no password and asks no other
    /// server.
    ///
    /// # Errors
    /// Why it is no request, as a clause.
    pub fn explain(
        &self,
        question: &Question<'_>,
        now: Instant,
        wall: UnixTime,
    ) -> Result<Explanation, String> {
        let method = Method::of(question.method);
        let target = Target::parse(question.target.as_bytes(), method)
            .map_err(|_| format!("`{}` is not a path", question.target))?;
        let line = |name, value| Line { name, value };
        let mut lines = vec![line("Host", question.host.as_bytes())];
        lines.extend(
            question
                .fields
                .iter()
                .map(|field| line(field.name(), field.value().as_bytes())),
        );
        if Fields::new(&lines).find("accept").is_none() {
            lines.push(line("Accept", b"text/html,*/*;q=0.8"));
        }
        let head = RequestHead {
            method,
            method_name: question.method,
            target,
            target_raw: question.target.as_bytes(),
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        let mut cx = runtime::Service::context(self, 0);
        cx.turn(now, wall);
        Ok(explain(&mut cx, &head, question, (wall, now)))
    }
}

fn explain(
    cx: &mut Cx,
    head: &RequestHead<'_, '_>,
    received: &Question<'_>,
    (wall, now): (UnixTime, Instant),
) -> Explanation {
    let state = Arc::clone(&cx.state);
    let from = state.trusted.from(received.peer, received.is_secured, head);
    // From here on, the request of the client, as sessions see it.
    let question = &Question {
        peer: state.trusted.client(received.peer, head),
        is_secured: state.trusted.used_https(received.peer, received.is_secured, head),
        ..*received
    };
    let site = state.hosts.index_of(head.authority());
    let config = &state.hosts.place(site).config;
    let facts = Facts {
        head,
        is_secured: question.is_secured,
    };
    let mut steps = Vec::new();
    let mut say = |subject, text: String| steps.push(Step { subject, text });
    say(
        "host",
        match &state.recorded {
            Some(recorded) => recorded.in_words(),
            None => host(&state.config, site, config),
        },
    );
    match (&config.access_log, &state.config.access_log) {
        (Some(log), _) => say("access-log", format!("a line in `{}`", log.display())),
        (None, Some(_)) => say("access-log", "no line".to_owned()),
        (None, None) => {}
    }
    if !from.hops.is_empty() || question.is_secured != received.is_secured {
        say("client", client(&from, question));
    }
    let raw = head.target.path().unwrap_or(b"*");
    let spelled = spelling(raw).unwrap_or_default();
    if spelled != raw && !spelled.is_empty() {
        say("path", format!("rules compare `{}`", spelled.escape_ascii()));
    }
    let handled = state.handlers.of(head).is_some();
    let is_redirected = state.https_port.is_some() && !question.is_secured;
    // Of answers that are no files.
    let is_always = |rule: &HeaderRule| rule.always && !handled && rule.path.matches(&spelled);
    if state.handlers.is_rate_limited(head) {
        limits(config, (&spelled, facts), question.peer, &mut say);
    }
    if !handled
        && !is_redirected
        && let Some(rule) = cors(config, (&spelled, facts), &mut say)
        && state.field_rules.answers(site, facts)
    {
        header_rules(config, facts, is_always, &mut say);
        let (status, fields) = answer(cx, head, question, Known::default(), now).unzip();
        return Explanation {
            steps,
            status,
            source: format!("cors {rule}, for a preflight request"),
            fields: fields.unwrap_or_default(),
        };
    }
    let fixed = config.fixed_answer(facts);
    // Before access rules, because whether a password is right is not known here.
    let is_passed = || fixed.is_none() && state.proxies.find(site, facts, false).is_some();
    let storing = storing(config, &spelled).filter(|_| is_passed());
    if let Some(text) = &storing {
        say("uploads", text.clone());
    }
    let mut source = None;
    let sender = Sender {
        peer: question.peer,
        is_secured: question.is_secured,
        certificate: None,
        id: None,
        trace: None,
    };
    let known = match question.is_admitted {
        true => Known::assuming(Assumed {
            // As in sessions, the certificate of a trusted peer says nothing about its clients.
            has_certificate: received.is_secured && !state.trusted.includes(received.peer),
        }),
        false => Known::default(),
    };
    let verdict = state.gates.verdict(site, head, sender, &known);
    let covering = state.gates.covering(site, facts);
    for (at, rule) in state.gates.conditional(site, head) {
        say("if", decided("access", at, &rule.path, &rule.conditions, facts));
    }
    for (at, rule) in &covering {
        say("access", format!("rule {} for `{}`", at + 1, rule.path));
    }
    let is_ruled = !matches!(&verdict, Verdict::Open(admitted) if !admitted.is_ruled);
    // Whether a password, which is not checked here, or another server decides.
    let is_undecided = is_ruled && !is_redirected && matches!(verdict, Verdict::Check(_));
    if is_ruled && !is_redirected {
        let (text, stops) = match &verdict {
            Verdict::Open(_) => (admitted(&covering, question), false),
            Verdict::Refused(status) => {
                let text = format!("{} is not admitted: {}", Shown(question.peer), status.as_u16());
                (text, true)
            }
            Verdict::Check(Check::Asked(asked, _)) => (format!("{} decides (auth)", asked.url()), true),
            Verdict::Check(Check::Password(_)) => ("the password in Authorization decides".to_owned(), true),
            Verdict::Answered(_) | Verdict::Unanswered(_) => {
                ("the server of `auth` cannot be asked".to_owned(), true)
            }
            Verdict::Uncertified if question.is_admitted => (
                "a client certificate is needed, which requests in cleartext or of trusted peers do not have: 403"
                    .to_owned(),
                true,
            ),
            Verdict::Uncertified => (
                "a client certificate is needed, and explained requests have none: 403".to_owned(),
                true,
            ),
            Verdict::Challenge(_) => ("a password is needed".to_owned(), true),
            Verdict::Busy => ("too many passwords are being checked".to_owned(), true),
            Verdict::Malformed => ("the path is malformed".to_owned(), true),
        };
        if stops {
            source = Some(match is_undecided {
                true => format!("access, {text}"),
                false => "the access rule".to_owned(),
            });
        }
        say("access", text);
    }
    if is_redirected && (is_ruled || !handled) {
        say("https-redirect", "requests in cleartext go to https".to_owned());
        source.get_or_insert("the redirect to https".to_owned());
    }
    if handled {
        say(
            "live, health",
            "this path belongs to the server itself".to_owned(),
        );
    }
    if let Some(recorded) = &state.recorded
        && !handled
    {
        say("replay", recorded.explain(head, question.is_secured));
        source.get_or_insert_with(|| "the recording".to_owned());
    }
    // They come before upstreams, and the one that applies behind redirects.
    if fixed.is_none() {
        fixed_conditions(config, (&spelled, facts), &mut say);
    }
    // Whether an upstream gets the request if it has a route, at least if the client proves to be admitted.
    let is_passable = !handled && (source.is_none() || is_undecided);
    if let Some(text) = &storing
        && is_passable
    {
        header_rules(config, facts, is_always, &mut say);
        return Explanation {
            steps,
            status: None,
            source: source.unwrap_or_else(|| format!("uploads, {text}")),
            fields: ruled(&state, site, facts),
        };
    }
    let covers = |at: usize| fixed.is_none() && config.proxy[at].covers(&spelled);
    let conditions: Vec<_> = config.proxy.iter().map(|rule| &rule.conditions).collect();
    for at in asked(&conditions, covers, facts) {
        say(
            "if",
            decided("proxy", at, &config.proxy[at].path, conditions[at], facts),
        );
    }
    let passed = state.proxies.find(site, facts, false);
    let is_passed = passed.is_some();
    let found = passed.or_else(|| state.proxies.without_file(site, facts));
    let found = found.filter(|_| fixed.is_none());
    let passing = found.as_ref().and_then(|found| passing(config, found));
    if let Some(text) = &passing {
        match is_passed {
            true => say("proxy", text.clone()),
            false => say("proxy", format!("{text}, if there is no file")),
        }
        if is_passable && let Some(found) = &found {
            let is_personal = state.gates.guarded(site, facts).is_personal;
            for text in cache(&found.route, head, is_personal, from.is_secured, (wall, now)) {
                say("cache", text);
            }
        }
        if is_passable && is_passed {
            header_rules(config, facts, is_always, &mut say);
            return Explanation {
                steps,
                status: None,
                source: source.unwrap_or_else(|| format!("proxy, {text}")),
                fields: ruled(&state, site, facts),
            };
        }
    }
    let covers = |at: usize| config.redirect[at].covers(&spelled);
    let conditions: Vec<_> = config.redirect.iter().map(Redirect::conditions).collect();
    for at in asked(&conditions, covers, facts) {
        let from = config.redirect[at].from();
        say("if", decided("redirect", at, from, conditions[at], facts));
    }
    let redirects = config.redirect.iter().enumerate();
    let redirect = redirects
        .filter_map(|(at, rule)| Some((at, rule, rule.applies(&spelled, facts)?)))
        .next();
    if let Some((at, rule, status)) = redirect {
        let mut location = Vec::new();
        rule.location(&spelled, head.target.query(), &mut location, |query, out| {
            out.extend_from_slice(query);
        });
        let location = location.escape_ascii();
        say(
            "redirect",
            format!("rule {}: {} to {location}", at + 1, status.as_u16()),
        );
        if !handled {
            source.get_or_insert(format!("redirect rule {}", at + 1));
        }
    }
    // Whether a fixed answer is sent.
    let mut is_text = false;
    if let Some((at, rule)) = fixed {
        fixed_conditions(config, (&spelled, facts), &mut say);
        let status = rule.status().as_u16();
        say(
            "respond",
            format!("rule {} for `{}`: {status}", at + 1, rule.path()),
        );
        if !handled && source.is_none() {
            source = Some(format!("respond rule {}", at + 1));
            is_text = true;
        }
    }
    let covers = |at: usize| config.try_files[at].path.matches(&spelled);
    let conditions: Vec<_> = config.try_files.iter().map(|rule| &rule.conditions).collect();
    for at in asked(&conditions, covers, facts) {
        let path = &config.try_files[at].path;
        say("if", decided("try-files", at, path, conditions[at], facts));
    }
    let mut tries = config.try_files.iter().enumerate();
    let tries = tries.find(|(_, rule)| rule.applies(&spelled, facts));
    if let Some((at, rule)) = tries {
        let files: Vec<String> = rule.files.iter().map(ToString::to_string).collect();
        say(
            "try-files",
            format!("rule {} for `{}`: {}", at + 1, rule.path, files.join(", ")),
        );
    }
    let found = match source {
        None if !handled && matches!(head.method, Method::Get | Method::Head) => {
            file(cx, (site, facts), raw, config)
        }
        _ => None,
    };
    let of_file = found.as_ref().map_or(&spelled, |found| &found.file);
    if source.is_none()
        && !handled
        && state.recorded.is_none()
        && let Some(mount) = config.mount_of(of_file)
    {
        say(
            "mount",
            format!("`{}`: files in `{}`", mount.path, mount.folder().display()),
        );
    }
    let answered = match is_undecided {
        true => None,
        false => answer(cx, head, question, known, now),
    };
    let Some((status, fields)) = answered else {
        header_rules(config, facts, is_always, &mut say);
        return Explanation {
            steps,
            status: None,
            source: source.unwrap_or_else(|| format!("proxy, {}", passing.unwrap_or_default())),
            // A file may have other lines than a refusal.
            fields: match is_undecided {
                true => Vec::new(),
                false => ruled(&state, site, facts),
            },
        };
    };
    let has_content = source.is_none() && !handled && matches!(status, 200 | 206 | 304);
    let fallback = match &config.spa_fallback {
        Some(page) if found.is_none() && has_content => {
            spelling(page.as_bytes()).map(|page| LookedUp::of(cx, site, config, page))
        }
        _ => None,
    };
    let sent = found.as_ref().or(fallback.as_ref()).filter(|_| has_content);
    let is_for = |rule: &HeaderRule| match sent {
        Some(looked_up) => looked_up.has(rule, &spelled),
        // It has the lines of a file.
        None if is_text && status == 200 => rule.path.matches(&spelled),
        None => is_always(rule),
    };
    header_rules(config, facts, is_for, &mut say);
    let source = source.unwrap_or_else(|| match (&found, status) {
        _ if handled && status != 404 => "the server itself".to_owned(),
        (_, 301) if tries.is_some_and(|(_, rule)| rule.trailing_slash != TrailingSlash::Keep) => {
            "`trailing-slash` of the rule in `try-files`".to_owned()
        }
        (Some(looked_up), 200..400) => looked_up.text.clone(),
        (None, 200 | 206 | 304) if fallback.is_some() => {
            let page = config.spa_fallback.as_deref().unwrap_or_default();
            say(
                "spa-fallback",
                format!("no file has this path, so `{page}` answers"),
            );
            format!("the file `{page}`")
        }
        (_, 204) => "the methods that this server answers".to_owned(),
        _ => "no file".to_owned(),
    });
    if status >= 400
        && !is_text
        && let Some(page) = config.error_pages.page(status)
    {
        say(
            "error-pages",
            format!("`{page}` for {status}, if this file exists"),
        );
    }
    Explanation {
        steps,
        status: Some(status),
        source,
        fields,
    }
}

/// The client that a trusted peer names, in words.
fn client(from: &From, question: &Question<'_>) -> String {
    let scheme = match question.is_secured {
        true => "https",
        false => "http",
    };
    let client = match from.peer {
        UNKNOWN => format!("{UNKNOWN} (unknown)"),
        address => Shown(address).to_string(),
    };
    let hops: Vec<String> = from.hops.iter().map(|hop| Shown(*hop).to_string()).collect();
    match hops.is_empty() {
        true => format!("{client} over {scheme}, as it says itself (trusted)"),
        false => format!("{client} over {scheme}, through {} (trusted)", hops.join(", ")),
    }
}

/// Says that the access rules which cover a request admit its client, and what that assumes.
fn admitted(covering: &[(usize, &Access)], question: &Question<'_>) -> String {
    let client = question.peer.to_canonical();
    let needs_more =
        |rule: &Access| question.is_admitted && !(rule.satisfy == Satisfy::Any && rule.admits(client));
    let mut assumed: Vec<String> = Vec::new();
    for (_, rule) in covering.iter().filter(|(_, rule)| needs_more(rule)) {
        let certificate = rule.certificate.is_needed();
        let password = rule.htpasswd.as_ref();
        let server = rule.auth.as_ref();
        let needed = [
            certificate.then(|| "a client certificate".to_owned()),
            password.map(|file| match rule.users {
                None => format!("a password of `{}`", file.display()),
                Some(_) => format!("a password of one of `users` in `{}`", file.display()),
            }),
            server.map(|url| format!("the consent of {url} (auth)")),
        ];
        for one in needed.into_iter().flatten() {
            if !assumed.contains(&one) {
                assumed.push(one);
            }
        }
    }
    let client = Shown(question.peer);
    match assumed.is_empty() {
        true => format!("{client} is admitted"),
        false => format!("{client} is admitted, assuming {}", assumed.join(", ")),
    }
}

/// The rules of a list whose conditions decide about a request: those that cover its path, up to the first that applies.
fn asked(conditions: &[&Conditions], covers: impl Fn(usize) -> bool, facts: Facts<'_, '_, '_>) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, conditions) in conditions.iter().enumerate().filter(|(at, _)| covers(*at)) {
        if !conditions.is_empty() {
            found.push(at);
        }
        if conditions.hold(facts) {
            break;
        }
    }
    found
}

/// Which condition decides whether a rule for the path of a request applies, in words.
fn decided(
    list: &str,
    at: usize,
    path: &PathPattern,
    conditions: &Conditions,
    facts: Facts<'_, '_, '_>,
) -> String {
    let rule = format!("{list} rule {} for `{path}`", at + 1);
    match conditions.failing(facts) {
        Some(one) => format!("{rule} does not apply: `{one}` does not hold"),
        None => format!("{rule} applies: `{conditions}` holds"),
    }
}

/// Says which conditions of fixed answers decide.
fn fixed_conditions(
    config: &Config,
    (spelled, facts): (&[u8], Facts<'_, '_, '_>),
    say: &mut impl FnMut(&'static str, String),
) {
    let covers = |at: usize| config.respond[at].covers(spelled);
    let conditions: Vec<_> = config.respond.iter().map(Respond::conditions).collect();
    for at in asked(&conditions, covers, facts) {
        let path = config.respond[at].path();
        say("if", decided("respond", at, path, conditions[at], facts));
    }
}

/// Says which limits count a request of this client.
fn limits(
    config: &Config,
    (spelled, facts): (&[u8], Facts<'_, '_, '_>),
    peer: IpAddr,
    say: &mut impl FnMut(&'static str, String),
) {
    let rules = config.limit.iter().enumerate();
    for (at, rule) in rules.filter(|(_, rule)| rule.path.covers(spelled)) {
        if !rule.conditions.is_empty() {
            say("if", decided("limit", at, &rule.path, &rule.conditions, facts));
        }
        if rule.counts(facts) {
            let text = match rule.client(peer.to_canonical()) {
                Some(_) => format!("each client {}", rule.allowance()),
                None => format!("{} is not limited (except)", Shown(peer)),
            };
            say("limit", format!("rule {} for `{}`: {text}", at + 1, rule.path));
        }
    }
}

/// Says which rule for pages of other origins applies to a request. Returns its name, if one does.
fn cors(
    config: &Config,
    (spelled, facts): (&[u8], Facts<'_, '_, '_>),
    say: &mut impl FnMut(&'static str, String),
) -> Option<String> {
    let covers = |at: usize| config.cors[at].path.matches(spelled);
    let conditions: Vec<_> = config.cors.iter().map(|rule| &rule.conditions).collect();
    for at in asked(&conditions, covers, facts) {
        say(
            "if",
            decided("cors", at, &config.cors[at].path, conditions[at], facts),
        );
    }
    let mut rules = config.cors.iter().enumerate();
    let (at, rule) = rules.find(|(_, rule)| rule.applies(spelled, facts))?;
    let origins: Vec<String> = rule.origins.iter().map(ToString::to_string).collect();
    let name = format!("rule {}", at + 1);
    say(
        "cors",
        format!("{name} for `{}`: pages of {}", rule.path, origins.join(", ")),
    );
    Some(name)
}

/// Says which header rules apply, of those that are for an answer.
fn header_rules(
    config: &Config,
    facts: Facts<'_, '_, '_>,
    is_for: impl Fn(&HeaderRule) -> bool,
    say: &mut impl FnMut(&'static str, String),
) {
    let rules = config.header_rule.iter().enumerate();
    for (at, rule) in rules.filter(|(_, rule)| is_for(rule)) {
        if !rule.conditions.is_empty() {
            say(
                "if",
                decided("header-rule", at, &rule.path, &rule.conditions, facts),
            );
        }
        if !rule.conditions.hold(facts) {
            continue;
        }
        say(
            "header-rule",
            format!("rule {} for `{}`: {}", at + 1, rule.path, rule.in_words()),
        );
    }
}

/// The site of a request, in words.
fn host(whole: &Config, site: usize, config: &Config) -> String {
    let root = match &config.root {
        Some(root) => format!("files in `{}`", root.display()),
        None => "the embedded site".to_owned(),
    };
    let host = site.checked_sub(1).and_then(|at| whole.host.get(at));
    match host {
        Some(host) => {
            let names: Vec<String> = host.names.iter().map(ToString::to_string).collect();
            format!("host {site}, {}: {root}", names.join(", "))
        }
        None => format!("the top level: {root}"),
    }
}

/// What answers a request: a file, a listing, or the redirect of a directory.
struct LookedUp {
    /// The path that was looked up, in normalized spelling.
    path: Vec<u8>,
    /// The path of the file; of a directory with an index, that of the index.
    file: Vec<u8>,
    /// What it is, in words.
    text: String,
}

impl LookedUp {
    /// The file at a path for which there is one.
    fn of(cx: &mut Cx, site: usize, config: &Config, path: Vec<u8>) -> LookedUp {
        let mut pages = config.index_of(&path).iter().map(|name| {
            let mut page = path.clone();
            crate::path::encode(name.as_bytes(), &mut page);
            page
        });
        let is_page = |page: &Vec<u8>| {
            look_up(cx, site, page).is_some_and(|entry| matches!(entry.answer, Kind::Resource(_)))
        };
        let page = match path.ends_with(b"/") {
            true => pages.find(is_page),
            false => None,
        };
        let file = page.unwrap_or_else(|| path.clone());
        let text = format!("the file `{}`", file.escape_ascii());
        LookedUp { path, file, text }
    }

    /// A directory, which has no file.
    fn directory(path: Vec<u8>, text: &str) -> LookedUp {
        LookedUp {
            file: path.clone(),
            path,
            text: text.to_owned(),
        }
    }

    /// Whether the rule is for an answer with this content to a request for `asked`: as [`crate::filter`] decides for rules
    /// without conditions, and [`crate::conditional`] for those with conditions.
    fn has(&self, rule: &HeaderRule, asked: &[u8]) -> bool {
        let path: &[u8] = match rule.conditions.is_empty() {
            true => &self.path,
            false => asked,
        };
        rule.path.matches(path) || rule.path.matches(&self.file)
    }
}

/// What a lookup of `raw` finds: the path itself, or the first file of the rule in `try-files` that applies.
fn file(
    cx: &mut Cx,
    (site, facts): (usize, Facts<'_, '_, '_>),
    raw: &[u8],
    config: &Config,
) -> Option<LookedUp> {
    let spelled = spelling(raw)?;
    let mut rules = config.try_files.iter();
    let rule = rules.find(|rule| rule.applies(&spelled, facts));
    let mut tried: Vec<(Vec<u8>, bool)> = Vec::new();
    if let Some(rule) = rule.filter(|rule| rule.tries(&spelled)) {
        let files = (0..rule.files.len()).filter_map(|at| Some((rule.file(at, &spelled)?, rule.is_path(at))));
        tried.extend(files);
    }
    if tried.is_empty() {
        tried.push((spelled, true));
    }
    let removes_slash = rule.is_some_and(|rule| rule.trailing_slash == TrailingSlash::Remove);
    for (path, is_path) in tried {
        let entry = look_up(cx, site, &path)?;
        match &entry.answer {
            Kind::Resource(_) => return Some(LookedUp::of(cx, site, config, path)),
            Kind::Listing(_) => return Some(LookedUp::directory(path, "the listing of the directory")),
            Kind::Redirect(_) if is_path && !removes_slash => {
                return Some(LookedUp::directory(
                    path,
                    "the directory, whose path ends with a slash",
                ));
            }
            Kind::Redirect(_) | Kind::Missing(Missing::NotFound) => {}
            Kind::Missing(_) => return None,
        }
    }
    None
}

fn look_up(cx: &mut Cx, site: usize, path: &[u8]) -> Option<Arc<Entry>> {
    let view = cx.views.get_mut(site)?;
    Some(match view.lookup(path) {
        Lookup::Hit(entry) => Arc::clone(entry),
        Lookup::Load(load) => view.finish(load.try_now().unwrap_or_else(Job::run)),
        Lookup::Refused => return None,
    })
}

/// The rule by which clients change the files of a path in normalized spelling, in words.
fn storing(config: &Config, spelled: &[u8]) -> Option<String> {
    let mut rules = config.uploads.iter().enumerate();
    let (at, rule) = rules.find(|(_, rule)| rule.path.pattern().matches(spelled))?;
    let folder = rule.folder_in(config)?.display();
    Some(format!(
        "rule {} for `{}`: files in `{folder}`",
        at + 1,
        rule.path
    ))
}

/// The proxy rule that covers a path in normalized spelling, in words.
fn passing(config: &Config, found: &Found) -> Option<String> {
    let rule = &found.route.rule;
    let at = config.proxy.iter().position(|one| one == rule)?;
    let upstreams: Vec<String> = rule.upstreams.iter().map(ToString::to_string).collect();
    let script = match (&found.script, &rule.scripts()) {
        (Some(asked), Some(rule)) => format!("; {}", asked.explain(rule)),
        _ => String::new(),
    };
    Some(format!(
        "rule {} for `{}`: to {}{script}",
        at + 1,
        rule.path,
        upstreams.join(", ")
    ))
}

/// What the cache of a route may do for a request, in words.
fn cache(
    route: &Route,
    head: &RequestHead<'_, '_>,
    is_personal: bool,
    is_secured: bool,
    (wall, now): (UnixTime, Instant),
) -> Vec<String> {
    let switches = route.rule.websocket && asks_for_websocket(head, Framing::Empty);
    let cache = match route.cache_for(switches, is_personal) {
        Ok(cache) => cache,
        Err(why) => return vec![format!("none: {why}")],
    };
    match Cached::new(cache, head, false, is_secured, wall, now) {
        Some(cached) => cached.explain(),
        None => vec!["none: the target is no path".to_owned()],
    }
}

/// Field lines that rules add to the answer of an upstream.
fn ruled(state: &State, site: usize, facts: Facts<'_, '_, '_>) -> Vec<String> {
    shown(state.ruled(site, facts).list().text())
}

/// Field lines as text.
fn shown(lines: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(lines);
    text.lines().map(str::to_owned).collect()
}

/// Status and field lines of the answer; `None`: an upstream answers.
fn answer(
    cx: &mut Cx,
    head: &RequestHead<'_, '_>,
    question: &Question<'_>,
    known: Known,
    now: Instant,
) -> Option<(u16, Vec<String>)> {
    let way = Way {
        is_secured: question.is_secured,
        tls: None,
        is_admin: false,
    };
    let mut exchange = Exchange::new(question.peer, way, now).knowing(known);
    let mut entry: Option<Arc<Entry>> = None;
    loop {
        let (scope, _) = cx.split();
        let work = match match &entry {
            None => exchange.begin(scope, head),
            Some(entry) => exchange.resume(scope, Asked::Request(head), entry),
        } {
            Next::Answer(answer) => {
                let lines = match answer.head {
                    Head::Prepared(representation) => representation.all_fields(),
                    Head::Composed(lines) => lines,
                };
                let text = [lines.text(), answer.more.text()].concat();
                return Some((answer.status.as_u16(), shown(&text)));
            }
            Next::Wait(work, _) => work,
            Next::Pass(_) => return None,
        };
        match work.try_now().unwrap_or_else(Job::run) {
            Done::Loaded(loaded) => entry = Some(exchange.found(cx, loaded)),
            Done::Read(_) | Done::Woken => return Some((500, Vec::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Source;

    fn server(text: &str) -> Server {
        let config = Config::from_toml(text, "w.toml").unwrap();
        let source = Source::Embedded {
            files: &[
                ("/index.html", b"<p>Home"),
                ("/digits.bin", b"0123456789"),
                ("/dir/index.html", b"<p>In a directory"),
                ("/errors/404.html", b"<p>Nothing here"),
                ("/app.html", b"<p>The application"),
            ],
            modified: UnixTime::from_secs(784_111_777),
        };
        Server::open(config, source, None, units::Seed(1)).unwrap()
    }

    fn explained(server: &Server, method: &str, target: &str, is_secured: bool) -> Explanation {
        let question = Question {
            method,
            host: "a.test",
            target,
            is_secured,
            peer: "192.0.2.7".parse().unwrap(),
            is_admitted: false,
            fields: &[],
        };
        server
            .explain(&question, Instant::ZERO, UnixTime::from_secs(1_000_000_000))
            .unwrap()
    }

    const CONFIG: &str = "spa-fallback = '/app.html'\nhealth = true\nheader = ['X-All: 1']\n\
        [error-pages]\n404 = '/errors/404.html'\n\
        [[access]]\npath = '/secret/*'\nallow = '10.0.0.0/8'\n\
        [[access]]\npath = '/dir/*'\nallow = '192.0.2.0/24'\n\
        [[proxy]]\npath = '/api/*'\nexcept = '/api/docs/*'\nupstreams = ['http://127.0.0.1:1']\n\
        [[proxy]]\npath = '/mixed/*'\nwhen = 'missing'\nupstreams = ['http://127.0.0.1:1']\n\
        [[redirect]]\nfrom = '/old/*'\nto = '/new/*'\n\
        [[respond]]\npath = '/api/up'\ntext = 'up'\n\
        [[respond]]\npath = '/old/gone'\nstatus = 410\n\
        [[respond]]\npath = '/gone'\nstatus = 404\ntext = 'gone'\n\
        [[respond]]\npath = '/api/beta'\ntext = 'beta'\nif = 'method PUT'\n\
        [[header-rule]]\npath = '*.html'\nheader = ['X-Page: 1']\n\
        [[host]]\nnames = ['*.b.test']\n";

    #[test]
    fn the_source_of_an_answer_is_named() {
        let server = server(CONFIG);
        for (method, target, status, source, subjects) in [
            (
                "GET",
                "/",
                Some(200),
                "the file `/index.html`",
                "host header-rule",
            ),
            ("HEAD", "/digits.bin", Some(200), "the file `/digits.bin`", "host"),
            (
                "GET",
                "/x/../%64igits.bin",
                Some(200),
                "the file `/digits.bin`",
                "host path",
            ),
            (
                "GET",
                "/dir",
                Some(301),
                "ends with a slash",
                "host access access",
            ),
            (
                "GET",
                "/dir/",
                Some(200),
                "the file `/dir/index.html`",
                "host access access header-rule",
            ),
            ("GET", "/old/a?b", Some(301), "redirect rule 1", "host redirect"),
            ("GET", "/api/x", None, "to 127.0.0.1:1", "host proxy cache"),
            (
                "POST",
                "/api/x",
                None,
                "proxy, rule 1 for `/api/*`",
                "host proxy cache",
            ),
            ("POST", "/api/up?x", Some(200), "respond rule 1", "host respond"),
            (
                "GET",
                "/old/gone",
                Some(301),
                "redirect rule 1",
                "host redirect respond",
            ),
            // Pages for errors do not replace a text.
            ("GET", "/gone", Some(404), "respond rule 3", "host respond"),
            (
                "GET",
                "/api/beta",
                None,
                "proxy, rule 1 for `/api/*`",
                "host if proxy cache",
            ),
            ("PUT", "/api/beta", Some(200), "respond rule 4", "host if respond"),
            ("GET", "/api/docs/x.js", Some(404), "no file", "host error-pages"),
            (
                "GET",
                "/mixed/x",
                None,
                "proxy, rule 2 for `/mixed/*`",
                "host proxy cache",
            ),
            (
                "PUT",
                "/mixed/x",
                None,
                "proxy, rule 2 for `/mixed/*`",
                "host proxy cache",
            ),
            (
                "GET",
                "/secret/x",
                Some(403),
                "the access rule",
                "host access access",
            ),
            (
                "GET",
                "/view",
                Some(200),
                "`/app.html`",
                "host header-rule spa-fallback",
            ),
            ("GET", "/none.css", Some(404), "no file", "host error-pages"),
            ("DELETE", "/", Some(405), "no file", "host"),
            ("OPTIONS", "/", Some(204), "methods", "host"),
            (
                "GET",
                "/healthz",
                Some(200),
                "the server itself",
                "host live, health",
            ),
            ("GET", "/%zz", Some(400), "the access rule", "host access"),
        ] {
            let explanation = explained(&server, method, target, false);
            let found: Vec<&str> = explanation.steps.iter().map(|step| step.subject).collect();
            assert_eq!(
                (explanation.status, found.join(" ").as_str()),
                (status, subjects),
                "{method} {target}: {explanation:?}"
            );
            assert!(explanation.source.contains(source), "{explanation:?}");
        }
    }

    #[test]
    fn the_lines_of_an_answer_are_those_that_are_sent() {
        let server = server(CONFIG);
        let explanation = explained(&server, "GET", "/", false);
        for line in ["X-All: 1", "X-Page: 1"] {
            assert!(
                explanation.fields.iter().any(|field| field == line),
                "{explanation:?}"
            );
        }
        let explanation = explained(&server, "GET", "/old/a?b", false);
        assert!(explanation.fields.contains(&"Location: /new/a?b".to_owned()));
    }

    #[test]
    fn a_header_rule_is_named_if_its_lines_are_sent() {
        let server = server(
            "spa-fallback = '/app.html'\n\
             [[try-files]]\npath = '/t/*'\nfiles = ['/digits.bin']\n\
             [[try-files]]\npath = '/index.html'\nfiles = ['/digits.bin']\n\
             [[try-files]]\npath = '/d*'\nfiles = ['$path', '$path.bin']\n\
             [[header-rule]]\npath = '/dir*'\nheader = ['R-Dir: 1']\n\
             [[header-rule]]\npath = '/dir'\nheader = ['R-Always: 1']\nalways = true\n\
             [[header-rule]]\npath = '/t/*'\nheader = ['R-Asked: 1']\n\
             [[header-rule]]\npath = '*.html'\nheader = ['R-Page: 1']\n\
             [[header-rule]]\npath = '*.bin'\nheader = ['R-File: 1']\n\
             [[header-rule]]\npath = '/view'\nheader = ['R-View: 1']\nalways = true\n\
             [[header-rule]]\npath = '/t/*'\nheader = ['R-If: 1']\nif = 'method GET'\n\
             [[header-rule]]\npath = '/text*'\nheader = ['R-Text: 1']\n\
             [[header-rule]]\npath = '/text*'\nheader = ['R-Text-Always: 1']\nalways = true\n\
             [[header-rule]]\npath = '/text*'\nheader = ['R-Text-If: 1']\nif = 'method GET'\n\
             [[respond]]\npath = '/text'\ntext = 'a'\n\
             [[respond]]\npath = '/text-gone'\ntext = 'a'\nstatus = 410\n",
        );
        for (target, status, lines) in [
            // Not the rules for files: the redirect has no content.
            ("/dir", 301, "R-Always: 1"),
            ("/dir/", 200, "R-Dir: 1; R-Page: 1"),
            // Not the rules for the path of the request: another file is sent.
            ("/t/x", 200, "R-File: 1; R-If: 1"),
            ("/index.html", 200, "R-File: 1"),
            ("/", 200, "R-Page: 1"),
            ("/digits", 200, "R-File: 1"),
            ("/digits.bin", 200, "R-File: 1"),
            ("/view", 200, "R-Page: 1"),
            ("/none.css", 404, ""),
            // A text is sent as a file is, or as an error is.
            ("/text", 200, "R-Text: 1; R-Text-Always: 1; R-Text-If: 1"),
            ("/text-gone", 410, "R-Text-Always: 1"),
        ] {
            let found = explained(&server, "GET", target, false);
            let steps = found.steps.iter().filter(|step| step.subject == "header-rule");
            let named: Vec<&str> = steps
                .map(|step| step.text.rsplit("`: ").next().unwrap_or_default())
                .collect();
            let sent = found.fields.iter().filter(|line| line.starts_with("R-"));
            let sent: Vec<&str> = sent.map(String::as_str).collect();
            assert_eq!(found.status, Some(status), "{target}: {found:?}");
            assert_eq!(named.join("; "), lines, "{target}: {found:?}");
            assert_eq!(sent.join("; "), lines, "{target}: {found:?}");
        }
    }

    #[test]
    fn rules_for_answers_of_every_kind_are_named_whoever_answers() {
        let server = server(
            "[[header-rule]]\npath = '/api/*'\nheader = ['R-Always: 1']\nalways = true\n\
             [[header-rule]]\nheader = ['R-File: 1']\n\
             [[header-rule]]\nheader = ['R-If: 1']\nalways = true\nif = 'method GET'\n\
             [[access]]\npath = '/api/asked/*'\nauth = 'http://127.0.0.1:1/'\n\
             [[access]]\npath = '/asked/*'\nauth = 'http://127.0.0.1:1/'\n\
             [[cors]]\npath = '/api/*'\norigins = ['https://a.test']\n\
             [[redirect]]\nfrom = '/api/*'\nto = '/'\n\
             [[redirect]]\nfrom = '/asked/old'\nto = '/'\n\
             [[proxy]]\npath = '/api/*'\nupstreams = ['http://127.0.0.1:1']\n\
             [[proxy]]\npath = '/mixed/*'\nwhen = 'missing'\nupstreams = ['http://127.0.0.1:1']\n",
        );
        for (method, target, status, source, subjects, lines) in [
            (
                "GET",
                "/api/x",
                None,
                "proxy, rule 1",
                "host cors proxy cache header-rule if header-rule",
                "R-Always: 1; R-If: 1",
            ),
            (
                "POST",
                "/api/x",
                None,
                "proxy, rule 1",
                "host cors proxy cache header-rule if",
                "R-Always: 1",
            ),
            (
                "GET",
                "/mixed/x",
                None,
                "proxy, rule 2",
                "host proxy cache if header-rule",
                "R-If: 1",
            ),
            (
                "GET",
                "/api/asked/x",
                None,
                "decides (auth)",
                "host cors access access proxy cache header-rule if header-rule",
                "R-Always: 1; R-If: 1",
            ),
            // The lines of an admitted client's file are not known.
            (
                "GET",
                "/asked/old",
                None,
                "decides (auth)",
                "host access access redirect if header-rule",
                "",
            ),
        ] {
            let found = explained(&server, method, target, false);
            let said: Vec<&str> = found.steps.iter().map(|step| step.subject).collect();
            assert_eq!(said.join(" "), subjects, "{target}: {found:?}");
            assert_eq!(found.status, status, "{target}: {found:?}");
            assert!(found.source.contains(source), "{target}: {found:?}");
            let added = found.fields.iter().filter(|line| line.starts_with("R-"));
            let added: Vec<&str> = added.map(String::as_str).collect();
            assert_eq!(added.join("; "), lines, "{target}: {found:?}");
            let varies = found.fields.iter().any(|line| line == "Vary: Origin");
            assert_eq!(varies, target.starts_with("/api/"), "{target}: {found:?}");
        }
        let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: GET"];
        let preflight = preflight.map(|line| line.parse::<FieldLine>().unwrap());
        let question = Question {
            method: "OPTIONS",
            host: "a.test",
            target: "/api/x",
            is_secured: false,
            peer: "192.0.2.7".parse().unwrap(),
            is_admitted: false,
            fields: &preflight,
        };
        let wall = UnixTime::from_secs(1_000_000_000);
        let found = server.explain(&question, Instant::ZERO, wall).unwrap();
        let said: Vec<&str> = found.steps.iter().map(|step| step.subject).collect();
        assert_eq!(said, ["host", "cors", "header-rule", "if"], "{found:?}");
        assert!(found.fields.iter().any(|line| line == "R-Always: 1"), "{found:?}");
    }

    #[test]
    fn an_admitted_client_gets_what_is_behind_the_checks() {
        let server = server(
            "https-redirect = 8443\ntrusted = '10.0.0.0/8'\ntls-cert = 'a'\ntls-key = 'a'\n\
             [[access]]\npath = '/dir/*'\nauth = 'http://127.0.0.1:1/v'\n\
             [[access]]\npath = '/digits.bin'\ncertificate = true\nallow = '192.0.2.0/24'\n\
             [[access]]\npath = '/none/*'\ncertificate = 'Ann'\nauth = 'http://127.0.0.1:1/v'\n\
             [[access]]\npath = '/any/*'\nauth = 'http://127.0.0.1:1/v'\nallow = '192.0.2.0/24'\nsatisfy = 'any'\n\
             [[access]]\npath = '/api/*'\nauth = 'http://127.0.0.1:1/v'\n\
             [[proxy]]\npath = '/api/*'\nupstreams = ['http://127.0.0.1:1']\n",
        );
        let near = "192.0.2.7";
        let far = "198.51.100.7";
        let consent = "the consent of http://127.0.0.1:1/v (auth)";
        let none = "a client certificate is needed, which requests in cleartext or of trusted peers do not have: 403";
        for (target, peer, status, source, text) in [
            (
                "/dir/",
                near,
                Some(200),
                "the file `/dir/index.html`",
                format!("{near} is admitted, assuming {consent}"),
            ),
            (
                "/digits.bin",
                near,
                Some(200),
                "the file `/digits.bin`",
                format!("{near} is admitted, assuming a client certificate"),
            ),
            (
                "/digits.bin",
                far,
                Some(403),
                "the access rule",
                format!("{far} is not admitted: 403"),
            ),
            (
                "/none/x",
                far,
                Some(404),
                "no file",
                format!("{far} is admitted, assuming a client certificate, {consent}"),
            ),
            // A client of a trusted proxy has none.
            (
                "/none/x",
                "10.0.0.1",
                Some(403),
                "the access rule",
                none.to_owned(),
            ),
            (
                "/any/x",
                near,
                Some(404),
                "no file",
                format!("{near} is admitted"),
            ),
            (
                "/any/x",
                far,
                Some(404),
                "no file",
                format!("{far} is admitted, assuming {consent}"),
            ),
            (
                "/api/x",
                far,
                None,
                "proxy, rule 1",
                format!("{far} is admitted, assuming {consent}"),
            ),
        ] {
            let question = Question {
                method: "GET",
                host: "a.test",
                target,
                is_secured: true,
                peer: peer.parse().unwrap(),
                is_admitted: true,
                fields: &[],
            };
            let wall = UnixTime::from_secs(1_000_000_000);
            let found = server.explain(&question, Instant::ZERO, wall).unwrap();
            assert_eq!(found.status, status, "{target} {peer}: {found:?}");
            assert!(found.source.contains(source), "{target} {peer}: {found:?}");
            let mut access = found.steps.iter().filter(|step| step.subject == "access");
            assert_eq!(access.next_back().unwrap().text, text, "{target} {peer}");
            // The redirect comes first.
            let question = Question {
                is_secured: false,
                ..question
            };
            let found = server.explain(&question, Instant::ZERO, wall).unwrap();
            assert_eq!(found.status, Some(308), "{target} {peer}: {found:?}");
        }
        let server = self::server("[[access]]\ncertificate = true\n");
        for (is_secured, status) in [(true, 200), (false, 403)] {
            let question = Question {
                method: "GET",
                host: "a.test",
                target: "/",
                is_secured,
                peer: near.parse().unwrap(),
                is_admitted: true,
                fields: &[],
            };
            let wall = UnixTime::from_secs(1_000_000_000);
            let found = server.explain(&question, Instant::ZERO, wall).unwrap();
            assert_eq!(found.status, Some(status), "{found:?}");
        }
    }

    #[test]
    fn limits_and_permissions_for_other_origins_come_before_access_rules() {
        let server = server(
            "[[limit]]\npath = '/dir/*'\nrate = '30/m'\nif = 'method GET'\n\
             [[limit]]\npath = '/dir/*'\nconcurrent = 2\nrate = 5\nexcept = '10.0.0.0/8'\n\
             [[limit]]\nrate = 5\nexcept = '192.0.2.0/24'\n\
             [[cors]]\npath = '/dir/*'\nif = 'query api'\norigins = ['https://a.test', 'https://b.test']\n\
             [[cors]]\npath = '/dir/*'\norigins = ['https://c.test']\n\
             [[access]]\npath = '/dir/*'\ndeny = 'all'\n\
             [[proxy]]\npath = '/dir/api/*'\nupstreams = ['http://127.0.0.1:1']\n",
        );
        let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: GET"];
        let preflight = preflight.map(|line| line.parse::<FieldLine>().unwrap());
        let ask = |method, target, fields| {
            let question = Question {
                method,
                host: "a.test",
                target,
                is_secured: false,
                peer: "192.0.2.7".parse().unwrap(),
                is_admitted: false,
                fields,
            };
            let wall = UnixTime::from_secs(1_000_000_000);
            server.explain(&question, Instant::ZERO, wall).unwrap()
        };
        let found = ask("GET", "/dir/api/x", &[][..]);
        let said: Vec<String> = found
            .steps
            .iter()
            .map(|step| format!("{} {}", step.subject, step.text))
            .collect();
        assert_eq!(
            said[1..8],
            [
                "if limit rule 1 for `/dir/*` applies: `method GET` holds",
                "limit rule 1 for `/dir/*`: each client 30/m, 1 at once",
                "limit rule 2 for `/dir/*`: each client 5/s, 5 at once, 2 under way",
                "limit rule 3 for `/*`: 192.0.2.7 is not limited (except)",
                "if cors rule 1 for `/dir/*` does not apply: `query api` does not hold",
                "cors rule 2 for `/dir/*`: pages of https://c.test",
                "access rule 1 for `/dir/*`",
            ],
            "{said:?}"
        );
        assert_eq!(found.status, Some(403));
        let found = ask("OPTIONS", "/dir/api/x?api", &preflight);
        assert_eq!(
            (found.status, &*found.source),
            (Some(204), "cors rule 1, for a preflight request"),
            "{found:?}"
        );
        for line in ["Access-Control-Allow-Origin: https://a.test", "Vary: Origin"] {
            assert!(found.fields.iter().any(|field| field == line), "{found:?}");
        }
        let first = "limit rule 1 for `/dir/*` does not apply: `method GET` does not hold";
        assert_eq!(found.steps[1].text, first);
    }

    #[test]
    fn https_comes_first() {
        let server = server(
            "https-redirect = 8443\ntls-cert = 'a'\ntls-key = 'a'\n[[access]]\npath = '/dir/*'\ndeny = 'all'",
        );
        for target in ["/", "/dir/"] {
            let explanation = explained(&server, "GET", target, false);
            assert_eq!(
                (explanation.status, &*explanation.source),
                (Some(308), "the redirect to https")
            );
        }
        assert_eq!(explained(&server, "GET", "/", true).status, Some(200));
        assert_eq!(explained(&server, "GET", "/dir/", true).status, Some(403));
    }

    #[test]
    fn a_trusted_peer_names_the_client_and_its_scheme() {
        let server = server(
            "https-redirect = 8443\ntrusted = '192.0.2.0/24'\n\
             [[access]]\npath = '/dir/*'\nallow = '203.0.113.0/24'\n\
             [[limit]]\nrate = 5\nexcept = '203.0.113.0/24'\n",
        );
        let secured = "X-Forwarded-Proto: https";
        for (peer, lines, status, client) in [
            ("192.0.2.7", &[][..], 308, None),
            (
                "192.0.2.7",
                &["X-Forwarded-For: 203.0.113.9"],
                308,
                Some("203.0.113.9 over http, through 192.0.2.7 (trusted)"),
            ),
            (
                "192.0.2.7",
                &["X-Forwarded-For: 203.0.113.9, 192.0.2.8", secured],
                200,
                Some("203.0.113.9 over https, through 192.0.2.8, 192.0.2.7 (trusted)"),
            ),
            (
                "192.0.2.7",
                &["X-Forwarded-For: 198.51.100.1", secured],
                403,
                Some("198.51.100.1 over https, through 192.0.2.7 (trusted)"),
            ),
            (
                "192.0.2.7",
                &["X-Forwarded-For: x", secured],
                403,
                Some("0.0.0.0 (unknown) over https, through 192.0.2.7 (trusted)"),
            ),
            (
                "192.0.2.7",
                &[secured],
                403,
                Some("192.0.2.7 over https, as it says itself (trusted)"),
            ),
            (
                "198.51.100.7",
                &["X-Forwarded-For: 203.0.113.9", secured],
                308,
                None,
            ),
        ] {
            let fields: Vec<FieldLine> = lines.iter().map(|line| line.parse().unwrap()).collect();
            let question = Question {
                method: "GET",
                host: "a.test",
                target: "/dir/",
                is_secured: false,
                peer: peer.parse().unwrap(),
                is_admitted: false,
                fields: &fields,
            };
            let wall = UnixTime::from_secs(1_000_000_000);
            let found = server.explain(&question, Instant::ZERO, wall).unwrap();
            let text = |subject: &str| {
                let step = found.steps.iter().find(|step| step.subject == subject);
                step.map(|step| step.text.as_str())
            };
            assert_eq!(found.status, Some(status), "{peer} {lines:?}: {found:?}");
            assert_eq!(text("client"), client, "{peer} {lines:?}");
            let is_limited = !client.is_some_and(|client| client.starts_with("203.0.113.9 "));
            let limit = text("limit").unwrap();
            assert_eq!(
                limit.contains("each client"),
                is_limited,
                "{peer} {lines:?}: {limit}"
            );
        }
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        let server = server("");
        let question = Question {
            method: "GET",
            host: "a.test",
            target: "/a b",
            is_secured: false,
            peer: "::1".parse().unwrap(),
            is_admitted: false,
            fields: &[],
        };
        let wall = UnixTime::from_secs(1_000_000_000);
        let outcome = server.explain(&question, Instant::ZERO, wall);
        assert!(outcome.is_err() || outcome.is_ok_and(|explanation| explanation.status >= Some(400)));
    }
}
