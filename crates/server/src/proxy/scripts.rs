//! The scripts of a route to FastCGI applications: which script a request asks for, whether it exists, and the parameters that
//! describe the request (RFC 3875 section 4.1).
//!
//! ```text
//!   path ─▶ Scripts::asked ─▶ Scripted::find ─┬─ in the cache of the kernel ─▶ Call, or no script
//!                                             └─ a thread looks, and wakes the exchange ─┘
//! ```
//! An application gets the path of a file only if there is one: php-fpm with `cgi.fix_pathinfo` would otherwise run whichever
//! existing file comes first in the path, an uploaded picture for example. So the path is split here, and the first part
//! has to be a regular file below the root. `front` is the operator's own path, and a script that is missing there is what
//! the application reports. `fastcgi` has the records, and `head` the field lines that become parameters.

use super::cache::{Flights, Lead, Part, WaitGuard, Waiter};
use crate::client_address::{From, UNKNOWN};
use crate::config::FastCgi;
use crate::path;
use crate::site::Site;
use fastcgi::params::pair;
use http_semantics::request::RequestHead;
use runtime::background::Background;
use runtime::fs::Wait;
use runtime::listen::UNIX_PEER;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Lookups that wait for the disk. Further requests get 503.
const LOOKUPS_MAX: usize = 1_024;

/// Threads that look scripts up.
const THREADS_MAX: usize = 4;

/// What a request asks an application for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A script whose name is in the path, and the path behind it.
    Script { name: Vec<u8>, info: Vec<u8> },
    /// The script of a directory.
    Index(Vec<u8>),
    /// The script for paths of which nothing else is known.
    Front,
}

impl Asked {
    /// The script, in words. It is not looked up.
    pub(crate) fn explain(&self, rule: &FastCgi) -> String {
        let shown = |name: &[u8]| format!("script `{}`", name.escape_ascii());
        let front = rule.front.as_deref().unwrap_or_default();
        let text = match self {
            Asked::Script { name, info } if info.is_empty() => shown(name),
            Asked::Script { name, info } => {
                format!("{} with PATH_INFO `{}`", shown(name), info.escape_ascii())
            }
            Asked::Index(name) => shown(name),
            Asked::Front => return shown(front.as_bytes()),
        };
        match front.is_empty() {
            true => format!("{text}, or 404 without it"),
            false => format!("{text}, or `{front}` without it"),
        }
    }
}

/// The scripts of a route.
pub(crate) struct Scripts {
    rule: FastCgi,
    site: Arc<Site>,
    hidden: bool,
    /// The root as the application sees it, without a slash at its end.
    root: Vec<u8>,
    lookups: Background<Lookup>,
    flights: Arc<Flights>,
    /// The number of the next lookup.
    next: AtomicU64,
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripts")
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}

/// A lookup that may wait for the disk. Whoever waits is woken when it is dropped.
struct Lookup {
    site: Arc<Site>,
    name: Vec<u8>,
    found: Arc<OnceLock<bool>>,
    _lead: Lead,
}

impl Scripts {
    /// Those of a site with this root, by these rules. `hidden`: names that begin with a dot are served.
    pub(crate) fn new(rule: FastCgi, site: &Arc<Site>, root: &Path, hidden: bool) -> Scripts {
        let root = rule.root.as_deref().unwrap_or(root).as_os_str().as_bytes();
        let look = |lookup: Lookup, _| {
            // Only this thread writes.
            let _ = lookup
                .found
                .set(lookup.site.has_file(&lookup.name, Wait::Block).unwrap_or(false));
        };
        Scripts {
            root: root.strip_suffix(b"/").unwrap_or(root).to_vec(),
            rule,
            site: Arc::clone(site),
            hidden,
            lookups: Background::new("weir-scripts", LOOKUPS_MAX, look).with_threads(THREADS_MAX),
            flights: Arc::default(),
            next: AtomicU64::new(0),
        }
    }

    /// What a request for this path asks for; `None`: nothing that the application has.
    pub(crate) fn asked(&self, raw: &[u8]) -> Option<Asked> {
        let mut path = Vec::new();
        path::resolve(raw, self.hidden, &mut path).ok()?;
        match split(&path, self.rule.extension.as_bytes()) {
            Some(end) => Some(Asked::Script {
                info: path.split_off(end),
                name: path,
            }),
            None if path.ends_with(b"/") => {
                path.extend_from_slice(self.rule.index.as_bytes());
                Some(Asked::Index(path))
            }
            None => self.rule.front.as_ref().map(|_| Asked::Front),
        }
    }

    /// The paths of the scripts that a request for this path names, as they are spelled. Access rules for them apply to the
    /// request. Those for `front` do not: it answers for each path what the application decides about this path. Behind its name, it
    /// answers for the rest of the path.
    pub(crate) fn spelled(rule: &FastCgi, spelled: &[u8]) -> Vec<Vec<u8>> {
        let end = split(spelled, rule.extension.as_bytes());
        let named = end.map(|end| spelled[..end].to_vec());
        let is_front = |end: &usize| rule.front.as_deref().map(str::as_bytes) == Some(&spelled[..*end]);
        let info = end
            .filter(is_front)
            .map(|end| spelled[end..].to_vec())
            .filter(|info| !info.is_empty());
        let index = spelled
            .ends_with(b"/")
            .then(|| [spelled, rule.index.as_bytes()].concat());
        [named, index, info].into_iter().flatten().collect()
    }
}

/// Where the name of a script ends in a path: behind the first segment with this extension.
fn split(path: &[u8], extension: &[u8]) -> Option<usize> {
    let ends = path
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'/')
        .map(|(at, _)| at);
    let mut ends = ends.chain([path.len()]);
    ends.find(|end| {
        let segment = path[..*end].rsplit(|&b| b == b'/').next().unwrap_or_default();
        segment.len() > extension.len() && segment.ends_with(extension)
    })
}

/// The parameters of a request, but for those of its field lines.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) pairs: Vec<u8>,
    /// Whether the application is asked to keep the connection.
    pub(crate) keeps: bool,
}

/// A request for a script.
#[derive(Debug)]
pub(crate) struct Scripted {
    scripts: Arc<Scripts>,
    asked: Asked,
    /// The parameters that do not depend on the script.
    facts: Vec<u8>,
    keeps: bool,
    /// The path of the request, for logs.
    path: Box<[u8]>,
    state: State,
    /// The wait for the thread that looks for it.
    wait: Option<WaitGuard>,
}

/// How far the search for the script got.
#[derive(Debug)]
enum State {
    New,
    /// A thread looks for it.
    Looking(Arc<OnceLock<bool>>, Option<Waiter>),
    Found(Arc<Call>),
}

/// What a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    Found,
    /// There is no script.
    Nothing,
    /// The exchange is woken once it is known.
    Wait,
    /// The disk did not respond, or too many wait for it.
    Late,
}

impl Scripted {
    pub(crate) fn new(
        scripts: &Arc<Scripts>,
        asked: Asked,
        head: &RequestHead<'_, '_>,
        from: &From,
        keeps: bool,
        target: &[u8],
    ) -> Scripted {
        Scripted {
            facts: facts(head, from, &scripts.rule),
            scripts: Arc::clone(scripts),
            asked,
            keeps,
            path: target.split(|&b| b == b'?').next().unwrap_or_default().into(),
            state: State::New,
            wait: None,
        }
    }

    /// The path of the request.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Looks for the script. After [`Search::Wait`], a second call says what the search came to.
    pub(crate) fn find(&mut self) -> Search {
        self.wait = None;
        let name = match &self.asked {
            Asked::Script { name, .. } | Asked::Index(name) => name.strip_prefix(b"/").unwrap_or(name),
            Asked::Front => return self.found(true),
        };
        match &self.state {
            State::Found(_) => Search::Found,
            State::Looking(found, _) => match found.get().copied() {
                Some(exists) => self.found(exists),
                None => Search::Late,
            },
            State::New => match self.scripts.site.has_file(name, Wait::Cached) {
                Some(exists) => self.found(exists),
                None => self.look(name.to_vec()),
            },
        }
    }

    /// Has a thread look for the script.
    fn look(&mut self, name: Vec<u8>) -> Search {
        let scripts = &self.scripts;
        let number = scripts.next.fetch_add(1, Ordering::Relaxed);
        // Each request has a flight of its own.
        let Part::Lead(lead) = scripts.flights.enter(number.to_le_bytes().to_vec()) else {
            return Search::Late;
        };
        let (found, wait) = (Arc::default(), lead.wait());
        let lookup = Lookup {
            site: Arc::clone(&scripts.site),
            name,
            found: Arc::clone(&found),
            _lead: lead,
        };
        if !scripts.lookups.offer(lookup) {
            return Search::Late;
        }
        self.state = State::Looking(found, Some(Waiter::clone(&wait)));
        self.wait = Some(wait);
        Search::Wait
    }

    fn found(&mut self, exists: bool) -> Search {
        let rule = &self.scripts.rule;
        let (name, info) = match (&self.asked, &rule.front) {
            (Asked::Script { name, info }, _) if exists => (&name[..], &info[..]),
            (Asked::Index(name), _) if exists => (&name[..], &b""[..]),
            (_, Some(front)) => (front.as_bytes(), &b""[..]),
            (_, None) => return Search::Nothing,
        };
        let root = &self.scripts.root;
        let mut pairs = std::mem::take(&mut self.facts);
        pair(&mut pairs, b"SCRIPT_FILENAME", &[root, name].concat());
        pair(&mut pairs, b"SCRIPT_NAME", name);
        pair(&mut pairs, b"DOCUMENT_URI", &[name, info].concat());
        pair(&mut pairs, b"DOCUMENT_ROOT", root);
        pair(&mut pairs, b"PATH_INFO", info);
        if !info.is_empty() {
            pair(&mut pairs, b"PATH_TRANSLATED", &[root, info].concat());
        }
        self.state = State::Found(Arc::new(Call {
            pairs,
            keeps: self.keeps,
        }));
        Search::Found
    }

    /// What the driver is to be told of, if a thread looks for the script.
    pub(crate) fn waiter(&mut self) -> Option<Waiter> {
        match &mut self.state {
            State::Looking(_, waiter) => waiter.take(),
            State::New | State::Found(_) => None,
        }
    }

    /// Whether the search is over. The driver may report the end of an earlier wait late.
    pub(crate) fn is_woken(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.is_over())
    }

    /// The parameters, once the script is found.
    pub(crate) fn call(&self) -> Option<&Arc<Call>> {
        match &self.state {
            State::Found(call) => Some(call),
            State::New | State::Looking(..) => None,
        }
    }

    /// Bytes of memory held behind it.
    pub(crate) fn held(&self) -> usize {
        let asked = match &self.asked {
            Asked::Script { name, info } => name.capacity() + info.capacity(),
            Asked::Index(name) => name.capacity(),
            Asked::Front => 0,
        };
        let call = self.call().map_or(0, |call| call.pairs.capacity());
        size_of::<Scripted>() + asked + self.path.len() + self.facts.capacity() + call
    }
}

/// The parameters that describe server, connection and client. A request has those of the rule behind them.
fn facts(head: &RequestHead<'_, '_>, from: &From, rule: &FastCgi) -> Vec<u8> {
    let mut pairs = Vec::with_capacity(1024);
    let authority = head.authority().unwrap_or_default();
    let (host, port) = host_and_port(authority);
    let is_secured = rule.says_https().unwrap_or(from.is_secured);
    let (scheme, usual): (&[u8], &[u8]) = match is_secured {
        true => (b"https", b"443"),
        false => (b"http", b"80"),
    };
    pair(&mut pairs, b"GATEWAY_INTERFACE", b"CGI/1.1");
    pair(&mut pairs, b"SERVER_SOFTWARE", b"weir");
    pair(&mut pairs, b"SERVER_PROTOCOL", head.protocol.name().as_bytes());
    pair(
        &mut pairs,
        b"SERVER_NAME",
        if host.is_empty() { b"localhost" } else { host },
    );
    pair(&mut pairs, b"SERVER_PORT", port.unwrap_or(usual));
    pair(&mut pairs, b"REQUEST_SCHEME", scheme);
    if is_secured {
        pair(&mut pairs, b"HTTPS", b"on");
    }
    // PHP as a CGI program refuses requests without it (`cgi.force_redirect`).
    pair(&mut pairs, b"REDIRECT_STATUS", b"200");
    let client = match from.peer.to_canonical() {
        UNKNOWN => "unknown".to_owned(),
        address if address == UNIX_PEER.ip() => "unix:".to_owned(),
        address => address.to_string(),
    };
    pair(&mut pairs, b"REMOTE_ADDR", client.as_bytes());
    for (name, value) in rule.further_params() {
        pair(&mut pairs, name.as_bytes(), value.as_bytes());
    }
    pairs
}

/// The host of an authority, and its port if there is one.
fn host_and_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let colon = authority.iter().rposition(|&b| b == b':');
    match colon.map(|at| (&authority[..at], &authority[at + 1..])) {
        Some((host, port)) if !port.is_empty() && port.iter().all(u8::is_ascii_digit) => (host, Some(port)),
        // A colon of an IPv6 address in brackets.
        _ => (authority.strip_suffix(b":").unwrap_or(authority), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_segment_with_the_extension_is_the_script() {
        for (path, script, info) in [
            ("/a.php", "/a.php", ""),
            ("/a.php/b/c", "/a.php", "/b/c"),
            ("/a.php/", "/a.php", "/"),
            ("/a/b.php/c.php/d", "/a/b.php", "/c.php/d"),
            ("/uploads/x.jpg/y.php", "/uploads/x.jpg/y.php", ""),
        ] {
            let end = split(path.as_bytes(), b".php").unwrap();
            assert_eq!(path.split_at(end), (script, info));
        }
        for path in [
            "/",
            "/a",
            "/a.phpx",
            "/.php",
            "/a/.php/b",
            "/a.PHP",
            "/php",
            "/a.php5/b",
        ] {
            assert_eq!(split(path.as_bytes(), b".php"), None, "{path}");
        }
    }

    /// A search for a script of a site with the file `a.php`.
    fn search(root: &Path, name: &str, waiting_max: usize) -> Scripted {
        let config = crate::site::SiteConfig::new(crate::site::Source::Directory(root.to_owned()));
        let site = Arc::new(Site::open(config).unwrap());
        let mut scripts = Scripts::new(FastCgi::default(), &site, root, false);
        if waiting_max == 0 {
            scripts.lookups = Background::new("weir-scripts", 0, |_, _| {});
        }
        Scripted {
            scripts: Arc::new(scripts),
            asked: Asked::Script {
                name: name.as_bytes().to_vec(),
                info: Vec::new(),
            },
            facts: Vec::new(),
            wait: None,
            keeps: false,
            path: name.as_bytes().into(),
            state: State::New,
        }
    }

    #[test]
    fn a_search_waits_for_the_disk_or_is_too_late() {
        let root = tempfile::tempdir().unwrap();
        rustix::fs::open(
            root.path().join("a.php"),
            rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY,
            rustix::fs::Mode::RUSR,
        )
        .unwrap();
        // The kernel has the file in its cache, or a thread finds it.
        let mut known = search(root.path(), "/a.php", LOOKUPS_MAX);
        let mut found = known.find();
        if found == Search::Wait {
            let waiter = known.waiter().expect("a thread looks");
            while !waiter.is_over() {
                std::thread::yield_now();
            }
            found = known.find();
        }
        assert_eq!(found, Search::Found);
        assert!(
            known
                .call()
                .is_some_and(|call| call.pairs.windows(6).any(|part| part == b"/a.php"))
        );
        // It has no name that nobody asked for.
        let mut unknown = search(root.path(), "/cold.php", LOOKUPS_MAX);
        assert_eq!(unknown.find(), Search::Wait);
        let waiter = unknown.waiter().expect("a thread looks");
        assert!(unknown.waiter().is_none(), "the driver is told once");
        while !waiter.is_over() {
            std::thread::yield_now();
        }
        assert_eq!(unknown.find(), Search::Nothing);
        // At the bound of lookups, and when the time is over before the disk responds.
        assert_eq!(search(root.path(), "/colder.php", 0).find(), Search::Late);
        let mut slow = search(root.path(), "/slow.php", LOOKUPS_MAX);
        slow.state = State::Looking(Arc::default(), None);
        assert_eq!(slow.find(), Search::Late);
    }

    #[test]
    fn hosts_and_ports() {
        for (authority, host, port) in [
            ("a.test", "a.test", None),
            ("a.test:8080", "a.test", Some("8080")),
            ("a.test:", "a.test", None),
            ("[::1]", "[::1]", None),
            ("[::1]:80", "[::1]", Some("80")),
            ("", "", None),
        ] {
            let got = host_and_port(authority.as_bytes());
            assert_eq!(got, (host.as_bytes(), port.map(str::as_bytes)), "{authority}");
        }
    }

    #[test]
    fn access_rules_see_the_scripts_that_a_path_names() {
        let rule = FastCgi {
            front: Some("/front.php".to_owned()),
            ..FastCgi::default()
        };
        let of = |path: &str| -> Vec<String> {
            let all = Scripts::spelled(&rule, path.as_bytes()).into_iter();
            all.map(|path| String::from_utf8(path).unwrap()).collect()
        };
        assert_eq!(of("/a.php/b/"), ["/a.php", "/a.php/b/index.php"]);
        assert_eq!(of("/a/"), ["/a/index.php"]);
        assert!(of("/a").is_empty());
    }
}
