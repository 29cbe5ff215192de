//! Explains how a request would be answered: each rule that applies, in the order in which a server applies them, and the
//! source of the answer.
//!
//! The answer comes from the same exchange as that of a session, so the explanation cannot differ from it. It knows no connection, and
//! passes nothing to upstreams. `looked_up` finds what answers, and `words` writes down the rules.

mod looked_up;
#[cfg(test)]
mod tests;
mod words;

use crate::access::{Sender, Verdict};
use crate::checked::{Assumed, Known};
use crate::config::{Facts, FieldLine, HeaderRule, Redirect, TrailingSlash, spelling};
use crate::context::Cx;
use crate::proxy::Found;
use crate::service::Server;
use http_semantics::field::{Fields, Line};
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use http_semantics::target::Target;
use looked_up::{LookedUp, answer, coding, file, ruled};
use runtime::Context as _;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Instant, UnixTime};
use words::{
    asked, cache, client, cors, decided, fixed_conditions, header_rules, host, limits, passing, rate,
    storing, verdict_in_words,
};

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
        if let Some(text) = rate(&state.config) {
            say("max-request-rate", text);
        }
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
    let is_ruled = !matches!(&verdict, Verdict::Open(admitted) if !admitted.is_ruled);
    let is_redirected = is_redirected && (is_ruled || !handled);
    // Whether a password, which is not checked here, or another server decides.
    let is_undecided = is_ruled && !is_redirected && matches!(verdict, Verdict::Check(_));
    if is_redirected {
        say("https-redirect", "requests in cleartext go to https".to_owned());
        source = Some("the redirect to https".to_owned());
    } else {
        let covering = state.gates.covering(site, facts);
        for (at, rule) in state.gates.conditional(site, head) {
            say("if", decided("access", at, &rule.path, &rule.conditions, facts));
        }
        for (at, rule) in &covering {
            say("access", format!("rule {} for `{}`", at + 1, rule.path));
        }
        if is_ruled {
            let text = verdict_in_words(&verdict, &covering, question);
            source = match verdict {
                Verdict::Open(_) => None,
                Verdict::Check(_) => Some(format!("access, {text}")),
                _ => Some("the access rule".to_owned()),
            };
            say("access", text);
        }
    }
    // Whether the request comes to what is said next, at least if its client proves to be admitted.
    let mut goes_on = source.is_none() || is_undecided;
    if handled && goes_on {
        say(
            "live, health",
            "this path belongs to the server itself".to_owned(),
        );
        goes_on = false;
    }
    if let Some(recorded) = &state.recorded
        && goes_on
    {
        say("replay", recorded.explain(head, question.is_secured));
        source.get_or_insert_with(|| "the recording".to_owned());
        goes_on = false;
    }
    // They come before upstreams, and the one that applies behind redirects.
    if fixed.is_none() && goes_on {
        fixed_conditions(config, (&spelled, facts), &mut say);
    }
    let passed = state.proxies.find(site, facts, false).filter(|_| fixed.is_none());
    let is_passed = passed.is_some();
    if let Some(text) = storing(config, &spelled)
        && is_passed
        && goes_on
    {
        say("uploads", text.clone());
        header_rules(config, facts, is_always, &mut say);
        return Explanation {
            steps,
            status: None,
            source: source.unwrap_or_else(|| format!("uploads, {text}")),
            fields: ruled(&state, site, facts),
        };
    }
    if goes_on {
        let covers = |at: usize| fixed.is_none() && config.proxy[at].covers(&spelled);
        let conditions: Vec<_> = config.proxy.iter().map(|rule| &rule.conditions).collect();
        for at in asked(&conditions, covers, facts) {
            let path = &config.proxy[at].path;
            say("if", decided("proxy", at, path, conditions[at], facts));
        }
    }
    let found = passed.or_else(|| state.proxies.without_file(site, facts));
    let found = found.filter(|_| fixed.is_none());
    let passing = found
        .as_ref()
        .and_then(|found| Some((found, passing(config, found)?)));
    let stored = |found: &Found| {
        let is_personal = state.gates.guarded(site, facts).is_personal;
        cache(&found.route, head, is_personal, from.is_secured, (wall, now))
    };
    if let Some((found, text)) = &passing
        && is_passed
        && goes_on
    {
        say("proxy", text.clone());
        for text in stored(found) {
            say("cache", text);
        }
        header_rules(config, facts, is_always, &mut say);
        return Explanation {
            steps,
            status: None,
            source: source.unwrap_or_else(|| format!("proxy, {text}")),
            fields: ruled(&state, site, facts),
        };
    }
    if goes_on {
        let covers = |at: usize| config.redirect[at].covers(&spelled);
        let conditions: Vec<_> = config.redirect.iter().map(Redirect::conditions).collect();
        for at in asked(&conditions, covers, facts) {
            let from = config.redirect[at].from();
            say("if", decided("redirect", at, from, conditions[at], facts));
        }
    }
    let redirects = config.redirect.iter().enumerate();
    let redirect = redirects
        .filter_map(|(at, rule)| Some((at, rule, rule.applies(&spelled, facts)?)))
        .next();
    if let Some((at, rule, status)) = redirect
        && goes_on
    {
        let mut location = Vec::new();
        rule.location(&spelled, head.target.query(), &mut location, |query, out| {
            out.extend_from_slice(query);
        });
        let location = location.escape_ascii();
        say(
            "redirect",
            format!("rule {}: {} to {location}", at + 1, status.as_u16()),
        );
        source.get_or_insert(format!("redirect rule {}", at + 1));
        goes_on = false;
    }
    // Whether a fixed answer is sent.
    let mut is_text = false;
    if let Some((at, rule)) = fixed
        && goes_on
    {
        fixed_conditions(config, (&spelled, facts), &mut say);
        let status = rule.status().as_u16();
        say(
            "respond",
            format!("rule {} for `{}`: {status}", at + 1, rule.path()),
        );
        is_text = source.is_none();
        source.get_or_insert(format!("respond rule {}", at + 1));
        goes_on = false;
    }
    let asks_for_file = goes_on && matches!(head.method, Method::Get | Method::Head);
    let mut tries = None;
    if asks_for_file {
        let covers = |at: usize| config.try_files[at].path.matches(&spelled);
        let conditions: Vec<_> = config.try_files.iter().map(|rule| &rule.conditions).collect();
        for at in asked(&conditions, covers, facts) {
            let path = &config.try_files[at].path;
            say("if", decided("try-files", at, path, conditions[at], facts));
        }
        let mut rules = config.try_files.iter().enumerate();
        tries = rules.find(|(_, rule)| rule.applies(&spelled, facts));
    }
    if let Some((at, rule)) = tries {
        let files: Vec<String> = rule.files.iter().map(ToString::to_string).collect();
        say(
            "try-files",
            format!("rule {} for `{}`: {}", at + 1, rule.path, files.join(", ")),
        );
    }
    if let Some((found, text)) = &passing
        && goes_on
    {
        say("proxy", format!("{text}, if there is no file"));
        for text in stored(found) {
            say("cache", text);
        }
    }
    let found = match source {
        None if asks_for_file => file(cx, (site, facts), raw, config),
        _ => None,
    };
    let of_file = found.as_ref().map_or(&spelled, |found| &found.file);
    if source.is_none()
        && asks_for_file
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
            source: source.unwrap_or_else(|| {
                let text = passing.map(|(_, text)| text);
                format!("proxy, {}", text.unwrap_or_default())
            }),
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
    if let Some(looked_up) = sent
        && status != 304
        && let Some((key, text)) = coding(cx, site, looked_up, &fields)
    {
        say(key, text);
    }
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
