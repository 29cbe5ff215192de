//! Decides whether a client may have what it requests: by its network, and by its password (RFC 7617).
//!
//! ```text
//!   request ─▶ paths that could answer it ─▶ first rule that covers each ─┬─ admitted ──▶ Open
//!                                                                         ├─ network ───▶ Forbidden (403)
//!                                                                         ├─ password ──▶ Challenge (401)
//!                                                                         └─ not known ─▶ Check, a job ─▶ ask again
//! ```
//! A request must satisfy the rule of its own path and of each file that a lookup of this path could choose, so another
//! spelling or an index does not avoid a rule. This file knows neither sessions nor answers; [`users`] knows passwords.

mod credentials;
mod users;
mod verified;

use crate::config::{Access, Config, Satisfy, TryFiles, spelling};
use crate::connection_limit::Peers;
use crate::path;
use credentials::Credentials;
use http_semantics::request::RequestHead;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use users::Users;
use verified::{Digest, Verified};
use zeroize::Zeroizing;

/// Checks of passwords that wait or are under way, per process.
const CHECKS_MAX: u32 = 32;

/// The same for one address, so that one client cannot take all of them.
const CHECKS_OF_ADDRESS_MAX: u32 = 8;

/// Suffixes of precompressed siblings.
const SIBLINGS: [&[u8]; 3] = [b".br", b".zst", b".gz"];

/// The rules of all sites. By default there are none.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// By index of the site; empty if no site has a rule.
    sites: Vec<Gate>,
    checks: Option<Arc<Checks>>,
}

/// The rules of one site.
#[derive(Debug)]
struct Gate {
    rules: Vec<Rule>,
    /// Names of index files, as they are spelled in paths.
    index: Vec<Vec<u8>>,
    /// Rules by which other files answer a path.
    tries: Vec<TryFiles>,
}

#[derive(Debug)]
struct Rule {
    access: Access,
    /// Number of the file, and what it contains.
    users: Option<(u32, Arc<Users>)>,
}

/// What checks of passwords share.
#[derive(Debug)]
struct Checks {
    verified: Verified,
    under_way: Peers,
}

/// Whether a request is admitted.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is.
    Open(Admitted),
    /// The client's network is not admitted.
    Forbidden,
    /// The client must name a user and the right password, for the rule at this index.
    Challenge(u16),
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
    /// The user whose password was correct.
    pub(crate) user: Option<Box<[u8]>>,
}

/// The check of a password. Takes milliseconds to seconds of CPU time.
#[derive(Debug)]
pub(crate) struct Check {
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
    /// Whether the password is right; it is remembered then.
    pub(crate) fn run(self) -> bool {
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
    /// Reads the files that the rules of these sites name.
    ///
    /// # Errors
    /// The file, the line and what to do.
    pub(crate) fn open<'c>(sites: impl Iterator<Item = &'c Config> + Clone) -> Result<Gates, String> {
        if sites.clone().all(|config| config.access.is_empty()) {
            return Ok(Gates::default());
        }
        let mut files: HashMap<&Path, (u32, Arc<Users>)> = HashMap::new();
        let mut gates = Vec::new();
        for config in sites {
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
                rules.push(Rule {
                    access: access.clone(),
                    users,
                });
            }
            let index = config.index.iter().map(|name| {
                let mut spelled = Vec::new();
                path::encode(name.as_bytes(), &mut spelled);
                spelled
            });
            gates.push(Gate {
                rules,
                index: index.collect(),
                tries: config.try_files.clone(),
            });
        }
        let verified = Verified::new().ok_or("the system has no random numbers for the key of passwords")?;
        Ok(Gates {
            sites: gates,
            checks: Some(Arc::new(Checks {
                verified,
                under_way: Peers::default(),
            })),
        })
    }

    /// Whether no site has a rule.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Whether a request to the site at this index is admitted. `is_wrong`: a check has shown that its password is.
    #[cold]
    pub(crate) fn verdict(
        &self,
        site: usize,
        head: &RequestHead<'_, '_>,
        peer: IpAddr,
        is_wrong: bool,
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
        let rules = gate.covering(raw, &spelled);
        if rules.is_empty() {
            return open();
        }
        let peer = peer.to_canonical();
        let mut admitted = Admitted {
            is_ruled: true,
            user: None,
        };
        let credentials = Credentials::of(&head.fields);
        for at in rules {
            let Rule { access, users } = &gate.rules[at];
            let is_near = access.admits(peer);
            let Some((file, users)) = users else {
                match is_near {
                    true => continue,
                    false => return Verdict::Forbidden,
                }
            };
            match (access.satisfy, is_near) {
                (Satisfy::Any, true) => continue,
                (Satisfy::All, false) => return Verdict::Forbidden,
                (Satisfy::Any, false) | (Satisfy::All, true) => {}
            }
            let challenge = Verdict::Challenge(u16::try_from(at).unwrap_or(u16::MAX));
            let Some(Credentials { name, password }) = &credentials else {
                return challenge;
            };
            let digest = checks.verified.digest(*file, name, password);
            if checks.verified.contains(&digest) {
                admitted.user = Some(name.clone());
                continue;
            }
            if is_wrong {
                return challenge;
            }
            let Some(seat) = Seat::take(checks, peer) else {
                return Verdict::Busy;
            };
            return Verdict::Check(Check {
                users: Arc::clone(users),
                name: name.clone(),
                password: password.clone(),
                digest,
                seat,
            });
        }
        Verdict::Open(admitted)
    }
}

impl Gates {
    /// The rules that a request to the site at this index must satisfy, with their indexes.
    pub(crate) fn covering(&self, site: usize, head: &RequestHead<'_, '_>) -> Vec<(usize, &Access)> {
        let (Some(gate), Some(raw)) = (self.sites.get(site), head.target.path()) else {
            return Vec::new();
        };
        let Some(spelled) = spelling(raw) else {
            return Vec::new();
        };
        let rules = gate.covering(raw, &spelled).into_iter();
        rules.map(|at| (at, &gate.rules[at].access)).collect()
    }
}

impl Gate {
    /// Indexes of the rules that a request for this path must satisfy, in order.
    fn covering(&self, raw: &[u8], spelled: &[u8]) -> Vec<usize> {
        let first = |path: &[u8]| self.rules.iter().position(|rule| rule.access.path.covers(path));
        let mut rules: Vec<usize> = first(spelled).into_iter().collect();
        if raw != spelled {
            // Handlers are found by the path as received.
            rules.extend(first(raw));
        }
        // Some upstreams take an escaped slash for a slash.
        rules.extend(with_slashes(raw).as_deref().and_then(first));
        // The content of a precompressed sibling is that of its file.
        let original = SIBLINGS.iter().find_map(|suffix| {
            let end = spelled.len().checked_sub(suffix.len())?;
            spelled[end..]
                .eq_ignore_ascii_case(suffix)
                .then(|| &spelled[..end])
        });
        rules.extend(original.and_then(first));
        if spelled.ends_with(b"/") {
            let pages = self.index.iter().map(|name| [spelled, name].concat());
            rules.extend(pages.filter_map(|page| first(&page)));
        }
        let tries = self.tries.iter().find(|tries| tries.path.matches(spelled));
        if let Some(tries) = tries {
            rules.extend(tries.all(spelled).filter_map(|file| first(&file)));
        }
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

/// The normalized spelling of a path whose escaped slashes and backslashes are slashes; `None` if it has none.
fn with_slashes(raw: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'\\', _) => decoded.push(b'/'),
            (b'%', [b'2', b'F' | b'f', after @ ..] | [b'5', b'C' | b'c', after @ ..]) => {
                decoded.push(b'/');
                rest = after;
            }
            _ => decoded.push(*first),
        }
    }
    (decoded != raw).then_some(())?;
    spelling(&decoded)
}

#[cfg(test)]
mod tests;
