//! Who may have the files of a level: lines such as `Require`, `Allow` and `AuthUserFile`, as one access rule.

use super::networks;
use super::site::Folder;
use crate::access::Access;
use crate::condition::Sets;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Site;
use crate::report::Report;
use crate::value::contains;

/// What the lines of one level say, until its end.
#[derive(Default)]
pub(super) struct Level {
    realm: Option<String>,
    users: Option<String>,
    allow: Vec<String>,
    deny: Vec<String>,
    needs_user: bool,
    /// Whether a line `Require valid-user` of the level admits all users of the file.
    has_valid_user: bool,
    /// Users of the file whom lines `Require user` admit.
    named: Vec<String>,
    any: bool,
    is_said: bool,
    /// Whether there are lines `Require` or groups of them, and lines `Allow` or `Deny`.
    parts: (bool, bool),
    /// Whether the level is about the whole site.
    is_site: bool,
    /// Whether clients of networks in `Require` need no password.
    is_network_enough: bool,
    /// Whether `Require` and `Allow` admit everyone.
    is_granted: bool,
    allows_all: bool,
    /// Whether there are lines `Allow`, and whether those of `Deny` are stronger and also refuse all other clients.
    has_allow: bool,
    is_allow_first: bool,
    /// Whether a line `Require` or `Allow` is lost. Others of the level still admit their clients.
    is_lost: bool,
    has_lost_allow: bool,
    /// Whether a line that all clients must satisfy is lost, so that nobody is admitted.
    is_closed: bool,
    /// Whether users are known by something else than a file of passwords.
    is_foreign: bool,
    /// Whether clients in cleartext are refused.
    needs_tls: bool,
}

/// What follows the reason why a limit is lost.
const DENIED: &str = "the result denies these paths";

/// What the depth of a section about the folder of a mount counts more than one about the root. No path is as deep.
const MOUNTED: usize = 1 << 16;

/// Whether a directive limits access.
pub(super) fn is_limit(directive: &Directive) -> bool {
    let limits = ["require", "deny", "authtype", "authuserfile", "order"];
    let name = directive.name.to_ascii_lowercase();
    limits.contains(&name.as_str()) && !directive.shown().to_ascii_lowercase().contains("granted")
}

/// Whether `Order allow,deny` of a block refuses all clients: it has no line `Allow`.
pub(super) fn refuses_by_order(block: &[Directive]) -> bool {
    let is_allow_first = |one: &Directive| {
        let order = one.arg(0).to_ascii_lowercase();
        one.name.eq_ignore_ascii_case("order") && matches!(&*order, "allow,deny" | "mutual-failure")
    };
    let is_allow = |one: &Directive| one.name.eq_ignore_ascii_case("allow");
    block.iter().any(is_allow_first) && !block.iter().any(is_allow)
}

impl Level {
    /// Of a block, with the users of the folder around it if it names none. Users are read before the sections of the block.
    pub(super) fn begin(block: &[Directive], folder: &Folder) -> Level {
        Level {
            users: last(block, "authuserfile")
                .map(|one| one.arg(0).to_owned())
                .or_else(|| folder.users.clone()),
            realm: last(block, "authname")
                .map(|one| one.args.join(" "))
                .or_else(|| folder.realm.clone()),
            is_site: folder.is_root(),
            has_valid_user: admits_valid_user(block),
            ..Level::default()
        }
    }

    /// The folder for sections of the block.
    pub(super) fn inside(&self, folder: &Folder) -> Folder {
        Folder {
            users: self.users.clone(),
            realm: self.realm.clone(),
            ..folder.clone()
        }
    }

    /// Reads a group of lines `Require` at the top of a level, if it says what lines without a group do: alternatives, or clients
    /// that are left out of everyone. Others are lost.
    pub(super) fn group<'d>(
        &mut self,
        section: &'d Directive,
        rest: &mut Vec<&'d Directive>,
        report: &mut Report,
    ) {
        let begins = |one: &Directive, words: &[&str]| {
            let args = one.args.iter().map(|arg| arg.to_ascii_lowercase());
            one.name.eq_ignore_ascii_case("require")
                && args.clone().count() >= words.len()
                && args.zip(words).all(|(arg, word)| arg == *word)
        };
        self.parts.0 = true;
        let inner = section.inner();
        let is_plain = match section.name.to_ascii_lowercase().as_str() {
            "<requireany" => true,
            "<requireall" => inner
                .iter()
                .all(|one| begins(one, &["all", "granted"]) || begins(one, &["not"])),
            _ => false,
        };
        if !is_plain {
            self.is_said = true;
            self.is_closed = true;
            let why = format!("the converter reads `Require` without groups; {DENIED}");
            return section.note_all(&Fate::missing(why), report);
        }
        report.add(&section.at, &section.shown(), Fate::Carried);
        for one in inner {
            match is_group(one) {
                true => {
                    self.is_said = true;
                    self.is_lost = true;
                    let why = "the converter reads groups of `Require` that are not within each other; the result admits none of \
                               its clients";
                    one.note_all(&Fate::missing(why), report);
                }
                false => rest.push(one),
            }
        }
    }

    /// Reads a directive about access; `None` for any other.
    pub(super) fn read(&mut self, directive: &Directive, name: &str) -> Option<Fate> {
        let words: Vec<String> = directive
            .args
            .iter()
            .map(|arg| arg.to_ascii_lowercase())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let read = |texts: &[&str], list: &mut Vec<String>| -> Vec<String> {
            let (known, others): (Vec<_>, Vec<_>) = texts
                .iter()
                .map(|text| (text, networks::of(text)))
                .partition(|(_, found)| found.is_some());
            list.extend(known.into_iter().filter_map(|(_, network)| network));
            others.into_iter().map(|(text, _)| (*text).to_owned()).collect()
        };
        let lost = |why: &str| Fate::missing(format!("{why}; {DENIED}"));
        self.parts.0 |= name == "require";
        self.parts.1 |= matches!(name, "allow" | "deny");
        self.has_allow |= name == "allow";
        Some(match (name, words.as_slice()) {
            ("require", ["all", "granted"]) => {
                self.is_said = true;
                self.is_granted = true;
                Fate::Carried
            }
            ("require", ["all", "denied"]) | ("deny", ["from", "all"]) => {
                self.is_said = true;
                // Files for several versions of Apache say it twice.
                if !self.deny.iter().any(|known| known == "all") {
                    self.deny.push("all".to_owned());
                }
                Fate::Carried
            }
            ("require", ["ip", rest @ ..]) | ("allow", ["from", rest @ ..]) if rest != ["all"] => {
                self.is_said = true;
                let others = read(rest, &mut self.allow);
                match name {
                    "require" => {
                        self.is_network_enough = true;
                        self.is_lost |= !others.is_empty();
                    }
                    _ => self.has_lost_allow |= !others.is_empty(),
                }
                match others.is_empty() {
                    true => Fate::Carried,
                    false => Fate::missing(format!(
                        "{} is not a network in Weir; the result admits no client by it",
                        others.join(", ")
                    )),
                }
            }
            ("require", ["not", "ip", rest @ ..]) | ("deny", ["from", rest @ ..]) => {
                self.is_said = true;
                let others = read(rest, &mut self.deny);
                match others.is_empty() {
                    true => Fate::Carried,
                    false => self.refusal(&format!("{} is not a network in Weir", others.join(", "))),
                }
            }
            ("require", ["local"]) => {
                self.is_said = true;
                self.is_network_enough = true;
                self.allow.extend(["127.0.0.0/8".to_owned(), "::1".to_owned()]);
                Fate::Carried
            }
            ("require", ["valid-user"]) => {
                self.is_said = true;
                self.needs_user = true;
                match self.users {
                    Some(_) => Fate::Carried,
                    None => Fate::missing(
                        "no `AuthUserFile` is named here, so the result admits no client by a password",
                    ),
                }
            }
            ("require", ["user", _, ..]) => {
                self.is_said = true;
                let names = &directive.args[1..];
                let is_expression = names.iter().any(|name| name.contains("%{"));
                match self.users {
                    _ if is_expression => {
                        self.is_lost = true;
                        Fate::missing("Weir has no variables, so the result admits no client by this line")
                    }
                    // Lines `Require` are alternatives.
                    Some(_) if self.has_valid_user => {
                        self.needs_user = true;
                        Fate::Carried
                    }
                    Some(_) => {
                        self.named.extend_from_slice(names);
                        Fate::changed(
                            "Weir answers 403 to the other users of the file; Apache asks them for another password",
                        )
                    }
                    None => {
                        self.is_lost = true;
                        Fate::missing(
                            "no `AuthUserFile` is named here, so the result admits no client by a password",
                        )
                    }
                }
            }
            ("require", ["not", ..]) => {
                self.is_said = true;
                self.refusal("Weir admits clients by network and password only")
            }
            ("require", _) => {
                self.is_said = true;
                self.is_lost = true;
                Fate::missing(
                    "Weir admits clients by network and password only, so the result admits no client by this line",
                )
            }
            ("sslrequiressl", _) => {
                self.needs_tls = true;
                Fate::Carried
            }
            ("sslrequire", _) | ("sslverifyclient", ["require"]) => {
                self.is_said = true;
                self.is_closed = true;
                lost("Weir asks for certificates of clients before it knows host and path")
            }
            ("sslverifyclient", _) => Fate::unneeded("clients need no certificate here"),
            ("allow", ["from", "all"]) => {
                self.is_said = true;
                self.allows_all = true;
                Fate::Carried
            }
            ("order", ["allow,deny" | "mutual-failure"]) => {
                self.is_said = true;
                self.is_allow_first = true;
                Fate::Carried
            }
            ("order", _) => Fate::changed("the longest matching network decides, not the order"),
            ("satisfy", [word]) => {
                self.any = *word == "any";
                Fate::Carried
            }
            ("authtype", ["basic"]) => Fate::Carried,
            ("authtype", ["none"]) => Fate::Carried,
            ("authtype", _) => {
                self.is_foreign = true;
                Fate::missing(
                    "Weir asks for passwords with Basic authentication only, so the result admits no user here",
                )
            }
            // Read before the sections of the block.
            ("authname", _) => Fate::Carried,
            ("authuserfile", _) => Fate::changed(
                "Weir accepts bcrypt, SHA-256-crypt, SHA-512-crypt and `$apr1$`; it rejects other hashes and plain passwords at start",
            ),
            ("authbasicprovider", ["file"]) => Fate::Carried,
            ("authbasicprovider", words) if words.contains(&"file") => {
                Fate::missing("users are in a file of names and hashes; the result admits no others")
            }
            ("authbasicprovider" | "authdigestprovider" | "authldapurl", _) => {
                self.is_foreign = true;
                Fate::missing("users are in a file of names and hashes, so the result admits no user here")
            }
            ("authgroupfile", _) => Fate::missing("Weir has no groups of users"),
            _ => return None,
        })
    }

    /// The fate of a line that refuses some clients, and is lost. It closes its paths, but not a whole site.
    fn refusal(&mut self, why: &str) -> Fate {
        match self.is_site {
            true => Fate::open(why),
            false => {
                self.is_closed = true;
                Fate::missing(format!("{why}; {DENIED}"))
            }
        }
    }

    /// With `Order allow,deny`, no `Allow` lifts a `Deny`, and clients that no line names are refused.
    fn refuse_first(&mut self) {
        let (deny, had_networks) = (&self.deny, !self.allow.is_empty());
        let is_denied = |network: &String| deny.iter().any(|known| contains(known, network));
        self.allow.retain(|network| !is_denied(network));
        let admits_none = self.allow.is_empty() && (had_networks || !self.allows_all);
        if admits_none || !self.has_allow {
            self.allow.clear();
            self.deny = vec!["all".to_owned()];
        }
    }

    /// Puts the rule for this level into the site.
    pub(super) fn finish(mut self, folder: &Folder, site: &mut Site) {
        if self.needs_tls {
            for path in &folder.patterns {
                site.refuse(path, &Sets::one("scheme http"), 403);
            }
        }
        if !self.is_said {
            return;
        }
        if self.is_allow_first {
            self.refuse_first();
        }
        if !self.allow.is_empty() {
            self.deny.retain(|network| network != "all");
        }
        let needs_password = self.needs_user || !self.named.is_empty();
        let is_known = needs_password && !self.is_foreign;
        let htpasswd = if is_known { self.users } else { None };
        // With `Satisfy any`, the password is enough.
        if self.any && htpasswd.is_some() && self.allow.is_empty() {
            self.deny.clear();
        }
        let is_lost =
            self.is_lost && !self.is_granted || self.has_lost_allow && !self.allows_all || needs_password;
        if is_lost && htpasswd.is_none() && self.allow.is_empty() {
            self.deny = vec!["all".to_owned()];
        }
        let htpasswd = htpasswd.filter(|_| !self.is_closed);
        // Several lines `Require` are alternatives.
        let users = match (&htpasswd, self.needs_user) {
            (Some(_), false) => self.named,
            _ => Vec::new(),
        };
        if self.is_closed {
            self.allow.clear();
            self.deny = vec!["all".to_owned()];
        }
        // A rule that admits everyone lifts those of sections that Apache applies earlier.
        if self.allow.is_empty() && self.deny.is_empty() && htpasswd.is_none() {
            self.allow.push("all".to_owned());
        }
        // Several lines `Require` without a group are alternatives. `Allow` is none beside them without `Satisfy any`.
        let any = htpasswd.is_some() && !self.allow.is_empty() && (self.any || self.is_network_enough);
        let others = folder
            .mounted
            .iter()
            .filter(|path| !folder.patterns.contains(path));
        for path in folder.patterns.iter().chain(others) {
            let (kind, depth) = folder.rank;
            // A section about the root says nothing about a mount, whose rules therefore come first.
            let depth = match folder.mounted.contains(path) {
                true => depth.saturating_add(MOUNTED),
                false => depth,
            };
            site.access.push(Access {
                conditions: Vec::new(),
                path: path.clone(),
                allow: self.allow.clone(),
                deny: self.deny.clone(),
                status: None,
                realm: htpasswd.as_ref().and(self.realm.clone()),
                htpasswd: htpasswd.clone(),
                users: users.clone(),
                any,
                auth: None,
                is_filled: folder.filled.contains(path),
                rank: (kind, depth),
                parts: self.parts,
                text: None,
            });
        }
    }
}

/// Whether a section is a group of lines `Require`.
pub(super) fn is_group(section: &Directive) -> bool {
    let names = ["<requireany", "<requireall", "<requirenone"];
    names.iter().any(|name| section.name.eq_ignore_ascii_case(name))
}

/// Takes over the file of users and the name of the area that a block names. One whose users are known by something else names no file.
pub(super) fn take_users(block: &[Directive], folder: &mut Folder) {
    let is_foreign = |one: &Directive| {
        let arg = one.arg(0).to_ascii_lowercase();
        match one.name.to_ascii_lowercase().as_str() {
            "authtype" => !matches!(&*arg, "basic" | "none"),
            "authbasicprovider" => one.args.len() != 1 || arg != "file",
            "authdigestprovider" | "authldapurl" => true,
            _ => false,
        }
    };
    if block.iter().any(is_foreign) {
        folder.users = None;
        return;
    }
    if let Some(one) = last(block, "authuserfile") {
        folder.users = Some(one.arg(0).to_owned());
    }
    if let Some(one) = last(block, "authname") {
        folder.realm = Some(one.args.join(" "));
    }
}

/// Whether a line `Require valid-user` at the top of a block, or in a group of alternatives there, admits all users of the file.
fn admits_valid_user(block: &[Directive]) -> bool {
    let is_line = |one: &Directive| {
        one.name.eq_ignore_ascii_case("require") && one.arg(0).eq_ignore_ascii_case("valid-user")
    };
    block.iter().any(|one| {
        is_line(one) || (one.name.eq_ignore_ascii_case("<requireany") && one.inner().iter().any(is_line))
    })
}

/// The last directive of a name.
fn last<'d>(block: &'d [Directive], name: &str) -> Option<&'d Directive> {
    block.iter().rfind(|one| one.name.eq_ignore_ascii_case(name))
}
