//! Decides whether a client may have what it requests: by its network, by its certificate, by its password (RFC 7617), and by
//! the decision of another server.
//!
//! ```text
//!   request ─▶ paths that could answer it ─▶ first rule that covers each ─┬─ admitted ────▶ Open
//!                                                                         ├─ network, user ▶ Refused (403)
//!                                                                         ├─ certificate ─▶ Uncertified (403)
//!                                                                         ├─ password ────▶ Challenge (401)
//!                                                                         ├─ server ──────▶ Answered, Unanswered
//!                                                                         └─ not known ───▶ Check, a job ─▶ ask again
//! ```
//! A request must satisfy the rule of its own path and of each file that a lookup of this path could choose, so another
//! spelling or an index does not avoid a rule. This file knows neither sessions nor answers; [`users`] knows passwords, and
//! [`authority`] asks other servers.

mod apr1;
mod authority;
mod decisions;
mod users;
mod verified;

use crate::checked::{Answered, Checked, Guarded, Known, Unanswered, Vouched};
use crate::config::{Access, Config, Facts, FastCgi, Satisfy, TryFiles, spelling};
use crate::connection_limit::Peers;
use crate::credentials::Credentials;
use crate::own_fields::is_among;
use crate::path;
use crate::proxy::direct::Pool;
use crate::proxy::places::Names;
use crate::proxy::scripts::Scripts;
pub(crate) use authority::Sender;
use authority::{Authority, Desk, Question};
pub(crate) use decisions::DecisionReport;
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use units::Duration;
use users::Users;
use verified::{Digest, Verified};
use zeroize::Zeroizing;

/// Checks of passwords that wait or are under way, per process.
const CHECKS_MAX: u32 = 32;

/// The same for one address, so that one client cannot take all of them.
const CHECKS_OF_ADDRESS_MAX: u32 = 8;

/// Most unknown users that a warning names.
const UNKNOWN_SHOWN_MAX: usize = 10;

/// Suffixes of precompressed siblings.
const SIBLINGS: [&[u8]; 3] = [b".br", b".zst", b".gz"];

/// Fields in which a client names itself.
const CREDENTIALS: [&str; 2] = ["authorization", "cookie"];

/// The rules of all sites. By default there are none.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// By index of the site; empty if no site has a rule.
    sites: Vec<Gate>,
    checks: Option<Arc<Checks>>,
    /// Host names of the servers that are asked.
    names: Names,
    /// Idle connections to these servers.
    pool: Arc<Pool>,
}

/// The rules of one site.
#[derive(Debug)]
struct Gate {
    rules: Vec<Rule>,
    /// Names of index files, as they are spelled in paths.
    index: Vec<Vec<u8>>,
    /// Rules by which other files answer a path.
    tries: Vec<TryFiles>,
    /// Rules by which scripts answer a path.
    scripts: Vec<FastCgi>,
    /// Whether a rule asks another server.
    asks: bool,
    /// Names of fields that only such servers may set for upstreams: everywhere, and of requests about which one is asked.
    copied: [Arc<[String]>; 2],
}

#[derive(Debug)]
struct Rule {
    access: Access,
    /// Number of the file, and what it contains.
    users: Option<(u32, Arc<Users>)>,
    authority: Option<Arc<Authority>>,
}

/// What checks share.
#[derive(Debug)]
struct Checks {
    verified: Verified,
    under_way: Peers,
    desk: Desk,
}

/// Whether a request is admitted.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is.
    Open(Admitted),
    /// The client's network is not admitted, or its user, whose password is right; it gets this status.
    Refused(Status),
    /// The client has shown no certificate that is admitted: 403.
    Uncertified,
    /// The client must name a user and the right password, for the rule at this index.
    Challenge(u16),
    /// A server that was asked does not admit it: the client gets this answer.
    Answered(Arc<Answered>),
    /// A server that has to be asked did not answer.
    Unanswered(Unanswered),
    /// Run this, then ask again.
    Check(Check),
    /// Too many checks are under way.
    Busy,
    /// The path has no meaning: 400.
    Malformed,
}

/// An admitted request.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// Whether a rule covers its path. Its answer then depends on the client.
    pub(crate) is_ruled: bool,
    /// The user whose password was correct, or whom a server that was asked names.
    pub(crate) user: Option<Box<[u8]>>,
    /// What servers that were asked say of it; `None`: none was asked.
    pub(crate) vouched: Option<Arc<Vouched>>,
}

/// A check that takes time.
#[derive(Debug)]
pub(crate) enum Check {
    /// Of a password: milliseconds to seconds of CPU time.
    Password(Password),
    /// By another server, with the threads that ask it.
    Asked(Question, Desk),
}

/// The check of a password.
#[derive(Debug)]
pub(crate) struct Password {
    users: Arc<Users>,
    name: Box<[u8]>,
    password: Zeroizing<Vec<u8>>,
    digest: Digest,
    seat: Seat,
}

/// The place of one check; released when dropped.
#[derive(Debug)]
struct Seat(Arc<Checks>, IpAddr);

impl Seat {
    fn take(checks: &Arc<Checks>, peer: IpAddr) -> Option<Seat> {
        let entered = checks.under_way.enter(peer, CHECKS_MAX, CHECKS_OF_ADDRESS_MAX);
        entered.is_ok().then(|| Seat(Arc::clone(checks), peer))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.under_way.leave(self.1);
    }
}

impl Check {
    /// Makes the check and blocks this thread.
    pub(crate) fn run(self) -> Checked {
        match self {
            Check::Password(password) => Checked::Password(password.run()),
            Check::Asked(question, _) => question.run(),
        }
    }

    /// Makes the check on another thread, and calls `reply` with its result.
    ///
    /// # Errors
    /// The check and `reply`, if it takes CPU time.
    pub(crate) fn defer<F: FnOnce(Checked) + Send + 'static>(self, reply: F) -> Result<(), (Check, F)> {
        match self {
            Check::Password(_) => Err((self, reply)),
            Check::Asked(question, desk) => {
                question.ask(&desk, Box::new(reply));
                Ok(())
            }
        }
    }

    /// Time for which its result is awaited; `None`: it depends on this machine alone.
    pub(crate) fn patience(&self) -> Option<Duration> {
        match self {
            Check::Password(_) => None,
            Check::Asked(question, _) => Some(question.patience()),
        }
    }
}

impl Password {
    /// Whether the password is right; it is remembered then.
    fn run(self) -> bool {
        let verified = &self.seat.0.verified;
        // A check of the same credentials may have ended meanwhile.
        let is_right = verified.contains(&self.digest) || self.users.verify(&self.name, &self.password);
        if is_right {
            verified.insert(self.digest);
        }
        is_right
    }
}

impl Gates {
    /// Reads the files that the rules of these sites name. Of servers that are asked, what `before` knows stays known.
    ///
    /// # Errors
    /// The file, the line and what to do.
    pub(crate) fn open<'c>(
        sites: impl Iterator<Item = &'c Config> + Clone,
        before: Option<&Gates>,
    ) -> Result<Gates, String> {
        if sites.clone().all(|config| config.access.is_empty()) {
            return Ok(Gates::default());
        }
        let mut files: HashMap<&Path, (u32, Arc<Users>)> = HashMap::new();
        let mut names = Names::default();
        let mut gates = Vec::new();
        // Connections of other settings are not used again.
        let pool = Arc::<Pool>::default();
        for (site, config) in sites.enumerate() {
            let mut rules = Vec::with_capacity(config.access.len());
            for access in &config.access {
                let users = match access.htpasswd.as_deref() {
                    None => None,
                    Some(file) => Some(match files.get(file) {
                        Some(users) => users.clone(),
                        None => {
                            let users = (files.len() as u32, Arc::new(Users::read(file)?));
                            files.insert(file, users.clone());
                            users
                        }
                    }),
                };
                let known = before.map(|before| &before.names);
                let older = before.and_then(|before| before.authority_of(site, access));
                rules.push(Rule {
                    access: access.clone(),
                    users,
                    authority: Authority::of(access, &mut names, known, &pool, older)?,
                });
            }
            // Those of mounts, too: a rule for an index covers its directory.
            let index_names = config.all_index_names();
            let index = index_names.iter().map(|name| {
                let mut spelled = Vec::new();
                path::encode(name.as_bytes(), &mut spelled);
                spelled
            });
            let mut copied: Vec<String> = config
                .access
                .iter()
                .flat_map(|access| &access.copy)
                .map(|name| name.to_ascii_lowercase())
                .collect();
            copied.sort_unstable();
            copied.dedup();
            let everywhere = copied.iter().filter(|name| !is_among(name, &CREDENTIALS));
            gates.push(Gate {
                asks: config.access.iter().any(|access| access.auth.is_some()),
                copied: [everywhere.cloned().collect(), copied.into()],
                rules,
                index: index.collect(),
                tries: config.try_files.clone(),
                scripts: config.scripts().collect(),
            });
        }
        let verified = Verified::new().ok_or("the system has no random numbers for the key of passwords")?;
        // Requests that wait for an answer keep their place.
        let desk = before.and_then(|before| Some(before.checks.as_ref()?.desk.clone()));
        Ok(Gates {
            sites: gates,
            names,
            pool,
            checks: Some(Arc::new(Checks {
                verified,
                under_way: Peers::default(),
                desk: desk.unwrap_or_else(Desk::new),
            })),
        })
    }

    /// The server that decides about requests for the path of this rule, if it was the same before.
    fn authority_of(&self, site: usize, access: &Access) -> Option<&Authority> {
        let url = access.auth.as_ref()?;
        let rules = self.sites.get(site)?.rules.iter();
        let mut rules = rules
            .filter(|rule| rule.access.path == access.path && rule.access.conditions == access.conditions);
        let is_it = |authority: &&Arc<Authority>| authority.is_at(url);
        rules.find_map(|rule| rule.authority.as_ref().filter(is_it).map(Arc::as_ref))
    }

    /// What the servers of `auth` have answered, by site and rule, in this process.
    pub(crate) fn decisions(&self) -> Vec<DecisionReport> {
        let sites = self.sites.iter().enumerate();
        let rules = sites.flat_map(|(site, gate)| gate.rules.iter().map(move |rule| (site, rule)));
        rules
            .filter_map(|(site, rule)| Some(rule.authority.as_ref()?.report(site, &rule.access)))
            .collect()
    }

    /// Warnings of passwords that are quick to guess for those who have the file, one for each file; and of users that a rule
    /// names and its file does not have.
    pub(crate) fn password_warnings(&self) -> Vec<String> {
        let mut files: BTreeMap<u32, (&Path, &Users)> = BTreeMap::new();
        // Sites that inherit a rule would repeat its warning.
        let mut unknown = BTreeSet::new();
        for rule in self.sites.iter().flat_map(|gate| &gate.rules) {
            let (Some((file, users)), Some(path)) = (&rule.users, &rule.access.htpasswd) else {
                continue;
            };
            files.insert(*file, (path.as_path(), &**users));
            let named = rule.access.users.iter().flatten();
            let lacking = named.filter(|name| !users.has(name.as_bytes()));
            let lacking: Vec<String> = lacking
                .take(UNKNOWN_SHOWN_MAX)
                .map(|name| format!("`{}`", name.escape_debug()))
                .collect();
            if !lacking.is_empty() {
                unknown.insert(format!(
                    "the access rule for `{}` admits users that `{}` does not have: {}; add them with `htpasswd -B`, or remove \
                     them from `users`",
                    rule.access.path,
                    path.display(),
                    lacking.join(", ")
                ));
            }
        }
        let weak = files.into_values().filter_map(|(path, users)| {
            let (weak, all) = (users.count_weak(), users.count());
            (weak > 0).then(|| {
                format!(
                    "`{}`: the passwords of {weak} of {all} users are hashed by MD5 (`$apr1$`), so those who get the file can \
                     guess them quickly; set them again with `htpasswd -B`",
                    path.display()
                )
            })
        });
        weak.chain(unknown).collect()
    }

    /// Closes the idle connections to servers that are asked. Returns whether there were any.
    pub(crate) fn close_idle(&self) -> bool {
        self.pool.try_close_all()
    }

    /// Begins to look host names up. A process calls this once it does not fork any more.
    pub(crate) fn awaken(&self) {
        self.names.awaken();
    }

    /// What the rules of the site at this index mean for a request on its way to an upstream. Fields that servers set are
    /// kept back from every path of the site, as an application may believe them anywhere; credentials only if a server is
    /// asked about this path, as others may need those of the client.
    pub(crate) fn guarded(&self, site: usize, facts: Facts<'_, '_, '_>) -> Guarded {
        let Some(gate) = self.sites.get(site).filter(|gate| gate.asks) else {
            return Guarded::default();
        };
        let rules = self.covering(site, facts);
        let is_personal = rules.iter().any(|(_, access)| access.auth.is_some());
        let [everywhere, asked] = &gate.copied;
        let kept_back = if is_personal { asked } else { everywhere };
        Guarded {
            is_personal,
            kept_back: Some(Arc::clone(kept_back)),
        }
    }

    /// Whether no site has a rule.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Whether a request to the site at this index is admitted. `known`: what checks have shown.
    #[cold]
    pub(crate) fn verdict(
        &self,
        site: usize,
        head: &RequestHead<'_, '_>,
        sender: Sender<'_>,
        known: &Known,
    ) -> Verdict {
        let open = || Verdict::Open(Admitted::default());
        let (Some(gate), Some(checks)) = (self.sites.get(site), &self.checks) else {
            return open();
        };
        if gate.rules.is_empty() {
            return open();
        }
        let Some(raw) = head.target.path() else {
            return open();
        };
        let Some(spelled) = spelling(raw) else {
            return Verdict::Malformed;
        };
        let facts = Facts {
            head,
            is_secured: sender.is_secured,
        };
        let rules = gate.covering(raw, &spelled, facts);
        if rules.is_empty() {
            return open();
        }
        let peer = sender.peer.to_canonical();
        let mut admitted = Admitted {
            is_ruled: true,
            ..Admitted::default()
        };
        let mut vouched: Option<Vouched> = None;
        let credentials = Credentials::of(&head.fields);
        for at in rules {
            let Rule {
                access,
                users,
                authority,
            } = &gate.rules[at];
            let is_near = access.admits(peer);
            let asks_more = users.is_some() || authority.is_some() || access.certificate.is_needed();
            match (access.satisfy, is_near, asks_more) {
                (_, true, false) | (Satisfy::Any, true, _) => continue,
                (_, false, false) | (Satisfy::All, false, _) => return Verdict::Refused(access.refusal()),
                (Satisfy::Any, false, true) | (Satisfy::All, true, true) => {}
            }
            let assumed = known.assumed();
            if !access.certificate.admits(sender.certificate)
                && !assumed.is_some_and(|assumed| assumed.has_certificate)
            {
                return Verdict::Uncertified;
            }
            if assumed.is_some() {
                continue;
            }
            if let Some((file, users)) = users {
                let challenge = Verdict::Challenge(u16::try_from(at).unwrap_or(u16::MAX));
                let Some(Credentials { name, password }) = &credentials else {
                    return challenge;
                };
                let digest = checks.verified.digest(*file, name, password);
                if !checks.verified.contains(&digest) {
                    if known.is_wrong() {
                        return challenge;
                    }
                    let Some(seat) = Seat::take(checks, peer) else {
                        return Verdict::Busy;
                    };
                    return Verdict::Check(Check::Password(Password {
                        users: Arc::clone(users),
                        name: name.clone(),
                        password: password.clone(),
                        digest,
                        seat,
                    }));
                }
                if !access.admits_user(name) {
                    return Verdict::Refused(Status::FORBIDDEN);
                }
                admitted.user = Some(name.clone());
            }
            let Some(authority) = authority else { continue };
            match known.answer_of(authority.number()) {
                Some(Ok(answered)) if answered.admits() => {
                    let all = vouched.get_or_insert_default();
                    all.lines.extend_from_slice(&answered.vouched.lines);
                    if let Some(user) = &answered.vouched.user {
                        admitted.user = Some(user.clone());
                    }
                }
                Some(Ok(answered)) => return Verdict::Answered(Arc::clone(answered)),
                Some(Err(why)) => return Verdict::Unanswered(why),
                None => {
                    return match authority.question(head, sender) {
                        Ok(question) => Verdict::Check(Check::Asked(question, checks.desk.clone())),
                        Err(why) => Verdict::Unanswered(why),
                    };
                }
            }
        }
        admitted.vouched = vouched.map(|vouched| {
            Arc::new(Vouched {
                user: admitted.user.clone(),
                ..vouched
            })
        });
        Verdict::Open(admitted)
    }
}

impl Gates {
    /// The rules that a request to the site at this index must satisfy, with their indexes.
    pub(crate) fn covering(&self, site: usize, facts: Facts<'_, '_, '_>) -> Vec<(usize, &Access)> {
        let (Some(gate), Some(raw)) = (self.sites.get(site), facts.head.target.path()) else {
            return Vec::new();
        };
        let Some(spelled) = spelling(raw) else {
            return Vec::new();
        };
        let rules = gate.covering(raw, &spelled, facts).into_iter();
        rules.map(|at| (at, &gate.rules[at].access)).collect()
    }

    /// The rules with conditions, and their indexes, that may apply to requests for this path to the site at this index.
    pub(crate) fn conditional(&self, site: usize, head: &RequestHead<'_, '_>) -> Vec<(usize, &Access)> {
        let (Some(gate), Some(raw)) = (self.sites.get(site), head.target.path()) else {
            return Vec::new();
        };
        let Some(spelled) = spelling(raw) else {
            return Vec::new();
        };
        // Whatever file answers.
        let tried = gate.tries.iter().filter(|tries| tries.path.matches(&spelled));
        let mut paths: Vec<Vec<u8>> = tried.flat_map(|tries| tries.all(&spelled)).collect();
        gate.each_path(raw, &spelled, |path| paths.push(path.to_vec()));
        let rules = gate.rules.iter().map(|rule| &rule.access).enumerate();
        let may_apply = |(_, access): &(usize, &Access)| {
            !access.conditions.is_empty() && paths.iter().any(|path| access.path.covers(path))
        };
        rules.filter(may_apply).collect()
    }
}

impl Gate {
    /// Indexes of the rules that a request for this path must satisfy, in order.
    fn covering(&self, raw: &[u8], spelled: &[u8], facts: Facts<'_, '_, '_>) -> Vec<usize> {
        let first = |path: &[u8]| {
            self.rules
                .iter()
                .position(|rule| rule.access.applies(path, facts))
        };
        let mut rules = Vec::new();
        self.each_path(raw, spelled, |path| rules.extend(first(path)));
        let tries = self.tries.iter().find(|tries| tries.applies(spelled, facts));
        if let Some(tries) = tries {
            rules.extend(tries.all(spelled).filter_map(|file| first(&file)));
        }
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// Visits the path of a request, and others that could answer it in any case.
    fn each_path(&self, raw: &[u8], spelled: &[u8], mut visit: impl FnMut(&[u8])) {
        visit(spelled);
        if raw != spelled {
            // Handlers are found by the path as received.
            visit(raw);
        }
        // Some upstreams take an escaped slash for a slash.
        if let Some(path) = path::with_slashes(raw) {
            visit(&path);
        }
        // The content of a precompressed sibling is that of its file.
        let original = SIBLINGS.iter().find_map(|suffix| {
            let end = spelled.len().checked_sub(suffix.len())?;
            spelled[end..]
                .eq_ignore_ascii_case(suffix)
                .then(|| &spelled[..end])
        });
        if let Some(path) = original {
            visit(path);
        }
        if spelled.ends_with(b"/") {
            for name in &self.index {
                visit(&[spelled, name].concat());
            }
        }
        for scripts in &self.scripts {
            for script in &Scripts::spelled(scripts, spelled) {
                visit(script);
            }
        }
    }
}

#[cfg(test)]
mod tests;
