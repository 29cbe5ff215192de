//! What a server finds for a request: the file and its codings, and the answer of its exchange.

use crate::checked::Known;
use crate::config::{Config, Facts, HeaderRule, TrailingSlash, spelling};
use crate::context::{Cx, Done};
use crate::entry::{Answer as Kind, Entry, Missing};
use crate::exchange::{Asked, Exchange, Head, Step as Next, Way};
use crate::explain::Question;
use crate::service::State;
use crate::site::Lookup;
use http_semantics::coding::Coding;
use http_semantics::request::RequestHead;
use runtime::session::Job;
use std::sync::Arc;
use units::Instant;

/// What answers a request: a file, a listing, or the redirect of a directory.
pub(super) struct LookedUp {
    /// The path that was looked up, in normalized spelling.
    path: Vec<u8>,
    /// The path of the file; of a directory with an index, that of the index.
    pub(super) file: Vec<u8>,
    /// What it is, in words.
    pub(super) text: String,
}

impl LookedUp {
    /// The file at a path for which there is one.
    pub(super) fn of(cx: &mut Cx, site: usize, config: &Config, path: Vec<u8>) -> LookedUp {
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
    pub(super) fn has(&self, rule: &HeaderRule, asked: &[u8]) -> bool {
        let path: &[u8] = match rule.conditions.is_empty() {
            true => &self.path,
            false => asked,
        };
        rule.path.matches(path) || rule.path.matches(&self.file)
    }
}

/// What a lookup of `raw` finds: the path itself, or the first file of the rule in `try-files` that applies.
pub(super) fn file(
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

/// Why content is sent uncompressed, or which codings clients get it in, by the key of the configuration that says so. `None`: it
/// has no coding, whatever a client accepts.
pub(super) fn coding(
    cx: &mut Cx,
    site: usize,
    sent: &LookedUp,
    fields: &[String],
) -> Option<(&'static str, String)> {
    let state = Arc::clone(&cx.state);
    let mut except = state.hosts.place(site).config.compress_except.iter();
    if let Some(pattern) = except.find(|pattern| pattern.matches(&sent.path) || pattern.matches(&sent.file)) {
        return Some(("compress-except", format!("`{pattern}`: sent uncompressed")));
    }
    let entry = look_up(cx, site, &sent.path)?;
    let codings = entry.answer.resources().next()?.codings();
    let codings: Vec<&str> = codings
        .filter(|&coding| coding != Coding::Identity)
        .map(Coding::name)
        .collect();
    if codings.is_empty() {
        return None;
    }
    let coded = fields
        .iter()
        .find_map(|line| line.strip_prefix("Content-Encoding: "));
    let text = format!(
        "sent {}; Accept-Encoding chooses among {}",
        coded.map_or("uncompressed".to_owned(), |coding| format!("with {coding}")),
        codings.join(", ")
    );
    Some(("compress", text))
}

/// Field lines that rules add to the answer of an upstream.
pub(super) fn ruled(state: &State, site: usize, facts: Facts<'_, '_, '_>) -> Vec<String> {
    shown(state.ruled(site, facts).list().text())
}

/// Field lines as text.
fn shown(lines: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(lines);
    text.lines().map(str::to_owned).collect()
}

/// Status and field lines of the answer; `None`: an upstream answers.
pub(super) fn answer(
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
