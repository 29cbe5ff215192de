//! Access rules: which clients may request which paths, by network, by client certificate, by password and by the decision of
//! another server.
//!
//! Decides what a rule says and which clients its networks admit. Files with passwords are read elsewhere, and other servers
//! are asked elsewhere.

use super::auth::AuthUrl;
use super::condition::{Conditions, Facts};
use super::pattern::PathPattern;
use super::upstream::ProxyTls;
use super::values;
use crate::own_fields::is_reserved;
use core::fmt;
use core::str::FromStr;
use http_semantics::status::Status;
use runtime::listen::UNIX_PEER;
use serde::{Deserialize, Deserializer, de};
use std::net::IpAddr;
use std::path::PathBuf;
use toml::Spanned;
use units::Duration;

/// Maximum number of rules of a site. A request is compared with each of them.
const RULES_MAX: usize = 1_000;

/// Maximum number of networks of a rule.
const NETWORKS_MAX: usize = 10_000;

/// Maximum number of names in `certificate`: that of the client is compared with each of them.
const CERTIFICATES_MAX: usize = 1_000;

/// Maximum number of names in `users`: that of the client is compared with each of them.
const USERS_MAX: usize = 1_000;

/// Maximum number of names in `copy`: the fields of a request are compared with each of them.
const COPIES_MAX: usize = 32;

/// Limits of `auth-timeout`: clients wait that long.
const AUTH_TIMEOUT_MIN: Duration = Duration::from_millis(10);
const AUTH_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Most connections to a server of `auth` that are kept per rule and process.
const AUTH_KEEPALIVE_MAX: u32 = 1_024;

/// Shortest `auth-keepalive-time`.
const AUTH_KEEPALIVE_TIME_MIN: Duration = Duration::from_secs(1);

/// Statuses of a refusal: forbidden, hidden (RFC 9110 section 15.5.4), gone for good, and unavailable for legal reasons
/// (RFC 7725).
const REFUSALS: [Status; 4] = [
    Status::FORBIDDEN,
    Status::NOT_FOUND,
    Status::GONE,
    Status::UNAVAILABLE_FOR_LEGAL_REASONS,
];

/// A table `[[access]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Access {
    /// The rule applies to matching paths and to those below them.
    #[serde(default)]
    pub path: PathPattern,
    /// What requests must have for the rule to apply; the next rule that covers the path applies to others.
    #[serde(default, rename = "if")]
    pub conditions: Conditions,
    /// Networks whose clients are admitted; all others are not. Empty: all but `deny`.
    #[serde(default, deserialize_with = "networks")]
    pub allow: Vec<Network>,
    /// Networks whose clients are not admitted.
    #[serde(default, deserialize_with = "networks")]
    pub deny: Vec<Network>,
    /// Status for clients whose network is not admitted: one of [`REFUSALS`]. `None`: 403.
    pub status: Option<u16>,
    /// The client certificate that a request needs.
    #[serde(default)]
    pub certificate: ClientCertificate,
    /// File with users and their hashed passwords. `None`: no password is needed.
    pub htpasswd: Option<PathBuf>,
    /// The users of this file who are admitted. `None`: all of them.
    #[serde(default, deserialize_with = "users")]
    pub users: Option<Vec<String>>,
    /// Name of the protected area, which browsers show (RFC 9110 section 11.5).
    pub realm: Option<String>,
    /// Server that decides about each request. `None`: none is asked.
    #[serde(default, deserialize_with = "auth")]
    pub auth: Option<AuthUrl>,
    /// Fields of its answer that upstreams get, in place of fields of these names that the client sent.
    #[serde(default)]
    pub copy: Vec<String>,
    /// Time for its answer, the connection included.
    #[serde(default = "auth_timeout", deserialize_with = "values::duration")]
    pub auth_timeout: Duration,
    /// Connections to it that are kept for later requests, per process; 0: none.
    #[serde(default = "auth_keepalive")]
    pub auth_keepalive: u32,
    /// Time for which an unused connection to it is kept.
    #[serde(default = "auth_keepalive_time", deserialize_with = "values::duration")]
    pub auth_keepalive_time: Duration,
    /// TLS to it; `None`: the system's roots vouch for it.
    pub auth_tls: Option<ProxyTls>,
    /// Whether a client needs both an admitted network and what else the rule asks for.
    #[serde(default)]
    pub satisfy: Satisfy,
}

fn auth_timeout() -> Duration {
    Duration::from_secs(5)
}

/// As `keepalive` in `[[proxy]]`.
fn auth_keepalive() -> u32 {
    32
}

/// As `keepalive-time` in `[[proxy]]`.
fn auth_keepalive_time() -> Duration {
    Duration::from_secs(30)
}

fn users<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<String>>, D::Error> {
    let wrong = "these are no names of users; write a list, as in [\"ann\", \"bob\"]";
    values::one_or_several(d, wrong).map(Some)
}

fn auth<'de, D: Deserializer<'de>>(d: D) -> Result<Option<AuthUrl>, D::Error> {
    let text = String::deserialize(d)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// Which client certificates a rule admits: `true`, a name or a list of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificate {
    /// None is needed.
    #[default]
    Unneeded,
    /// Any that names somebody and that a listener has accepted.
    Any,
    /// One with one of these names.
    Named(Vec<String>),
}

impl ClientCertificate {
    /// Whether a request needs one.
    pub(crate) fn is_needed(&self) -> bool {
        *self != ClientCertificate::Unneeded
    }

    /// Whether a client is admitted whose certificate has this name; `None`: it has shown none.
    pub(crate) fn admits(&self, name: Option<&str>) -> bool {
        match self {
            ClientCertificate::Unneeded => true,
            ClientCertificate::Any => name.is_some(),
            ClientCertificate::Named(names) => names.iter().any(|known| Some(known.as_str()) == name),
        }
    }
}

/// The line of a configuration file, from 1, in which its first rule that needs a client certificate says so: rules of the top
/// level come first. `None`: no rule does, or the file is invalid.
pub(super) fn line_of_certificate(text: &str) -> Option<usize> {
    #[derive(Deserialize)]
    struct Rule {
        certificate: Option<Spanned<ClientCertificate>>,
    }
    #[derive(Deserialize)]
    struct Host {
        #[serde(default)]
        access: Vec<Rule>,
    }
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        access: Vec<Rule>,
        #[serde(default)]
        host: Vec<Host>,
    }
    let file: File = toml::from_str(text).ok()?;
    let rules = file.access.into_iter();
    let rules = rules.chain(file.host.into_iter().flat_map(|host| host.access));
    let mut certificates = rules.filter_map(|rule| rule.certificate);
    let first = certificates.find(|certificate| certificate.get_ref().is_needed())?;
    let before = text.get(..first.span().start)?;
    Some(before.matches('\n').count() + 1)
}

impl<'de> Deserialize<'de> for ClientCertificate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ClientCertificate, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Any(bool),
            One(String),
            Several(Vec<String>),
        }
        match Written::deserialize(d) {
            Ok(Written::Any(false)) => Ok(ClientCertificate::Unneeded),
            Ok(Written::Any(true)) => Ok(ClientCertificate::Any),
            Ok(Written::One(name)) => Ok(ClientCertificate::Named(vec![name])),
            Ok(Written::Several(names)) => Ok(ClientCertificate::Named(names)),
            Err(_) => Err(de::Error::custom(
                "this is no client certificate; write true for any, or the names of clients, as in [\"Ann\", \"Bob\"]",
            )),
        }
    }
}

units::words! {
    /// Which conditions of a rule a client must meet.
    #[derive(Default)]
    pub enum Satisfy {
        /// Its network is admitted, its certificate and password are correct, and the server that is asked agrees.
        #[default]
        All = "all",
        /// Its network is admitted, or all other conditions are met.
        Any = "any",
    }
}

/// A network of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// All addresses.
    All,
    /// The IPv4 addresses that begin with these bits.
    V4(u32, u8),
    /// The IPv6 addresses that begin with these bits.
    V6(u128, u8),
    /// Clients of Unix sockets.
    Unix,
}

impl Network {
    /// Whether the network contains an address, which must be canonical.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        self.matches(address).is_some()
    }

    /// Whether the network contains all addresses of a family.
    pub(super) fn is_everyone(self) -> bool {
        matches!(self, Network::All | Network::V4(_, 0) | Network::V6(_, 0))
    }

    /// Length of the matching prefix, plus one; 0 for [`Network::All`]. `None`: the address is outside. `address` must be
    /// canonical, not an IPv4 address mapped into IPv6.
    pub(super) fn matches(self, address: IpAddr) -> Option<u8> {
        match (self, address) {
            (Network::All, _) => Some(0),
            // More than any prefix.
            (Network::Unix, address) => (address == UNIX_PEER.ip()).then_some(u8::MAX),
            (_, address) if address == UNIX_PEER.ip() => None,
            (Network::V4(start, bits), IpAddr::V4(ip)) => {
                (u32::from(ip) & mask_v4(bits) == start).then_some(bits + 1)
            }
            (Network::V6(start, bits), IpAddr::V6(ip)) => {
                (u128::from(ip) & mask_v6(bits) == start).then_some(bits + 1)
            }
            (Network::V4(..), IpAddr::V6(_)) | (Network::V6(..), IpAddr::V4(_)) => None,
        }
    }
}

fn mask_v4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

fn mask_v6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Network::All => f.write_str("all"),
            Network::Unix => f.write_str("unix"),
            Network::V4(start, bits) => write!(f, "{}/{bits}", std::net::Ipv4Addr::from(start)),
            Network::V6(start, bits) => write!(f, "{}/{bits}", std::net::Ipv6Addr::from(start)),
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        if text == "all" {
            return Ok(Network::All);
        }
        if text == "unix" {
            return Ok(Network::Unix);
        }
        let wrong = || {
            format!(
                "`{}` is not a network; write an address, a prefix, unix or all, as in 192.0.2.0/24, 2001:db8::/32 or 127.0.0.1",
                text.escape_debug()
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let (address, bits): (IpAddr, Option<u8>) = (address.parse().map_err(|_| wrong())?, bits);
        let network = match (address, address.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(ip)) => {
                // An IPv4 network mapped into IPv6.
                let bits = bits
                    .map_or(Some(32), |bits| bits.checked_sub(96))
                    .ok_or_else(wrong)?;
                Network::V4(ip.into(), bits)
            }
            (IpAddr::V4(ip), _) => Network::V4(ip.into(), bits.unwrap_or(32)),
            (IpAddr::V6(ip), _) => Network::V6(ip.into(), bits.unwrap_or(128)),
        };
        let whole = match network {
            Network::V4(_, 33..) | Network::V6(_, 129..) => return Err(wrong()),
            Network::V4(start, bits) => Network::V4(start & mask_v4(bits), bits),
            Network::V6(start, bits) => Network::V6(start & mask_v6(bits), bits),
            Network::All | Network::Unix => network,
        };
        if whole != network {
            return Err(format!(
                "`{text}` has bits behind its prefix; write the network as `{whole}`, or one address without `/`"
            ));
        }
        Ok(network)
    }
}

/// One network or a list of them.
pub(super) fn networks<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Network>, D::Error> {
    values::one_or_several(
        d,
        "these are no networks; write a list, as in [\"192.0.2.0/24\", \"2001:db8::/32\"]",
    )
}

impl Access {
    /// Whether the rule applies to a request whose path, or another one that could answer it, is this one.
    pub(crate) fn applies(&self, path: &[u8], facts: Facts<'_, '_, '_>) -> bool {
        self.path.covers(path) && self.conditions.hold(facts)
    }

    /// Its paths and conditions, as reports show it.
    pub(crate) fn shown(&self) -> String {
        self.conditions.after(&self.path)
    }

    /// Whether the client's network is admitted: the longest matching prefix decides. `peer` must be canonical.
    pub(crate) fn admits(&self, peer: IpAddr) -> bool {
        let longest = |networks: &[Network]| networks.iter().filter_map(|one| one.matches(peer)).max();
        match (longest(&self.allow), longest(&self.deny)) {
            (allowed, Some(denied)) => allowed.is_some_and(|allowed| allowed > denied),
            (allowed, None) => allowed.is_some() || self.allow.is_empty(),
        }
    }

    /// Whether a user of the file with passwords is admitted.
    pub(crate) fn admits_user(&self, name: &[u8]) -> bool {
        let is_named = |names: &Vec<String>| names.iter().any(|known| known.as_bytes() == name);
        self.users.as_ref().is_none_or(is_named)
    }

    /// The status for clients whose network is not admitted.
    pub(crate) fn refusal(&self) -> Status {
        let said = REFUSALS.into_iter().find(|one| Some(one.as_u16()) == self.status);
        said.unwrap_or(Status::FORBIDDEN)
    }

    /// The realm that clients are told.
    pub(crate) fn realm(&self) -> &str {
        self.realm.as_deref().unwrap_or("Restricted")
    }

    /// Whether no other rule has an effect behind this one.
    fn covers_all(&self) -> bool {
        self.path.covers(b"/") && self.path.covers(b"/x") && self.path.covers(b"/x/y.z")
    }

    fn validate(&self) -> Result<(), String> {
        let Access {
            path, allow, deny, ..
        } = self;
        let is_open = self.htpasswd.is_none() && self.auth.is_none() && !self.certificate.is_needed();
        if allow.is_empty() && deny.is_empty() && is_open {
            return Err(format!(
                "the rule for `{path}` sets no requirement; set `allow`, `deny`, `certificate`, `htpasswd` or `auth`; \
                 `allow = \"all\"` admits everyone"
            ));
        }
        if let Some(status) = self.status {
            if REFUSALS.iter().all(|one| one.as_u16() != status) {
                return Err(format!(
                    "`{status}` of the rule for `{path}` is not a status of a refusal; write 403, 404, 410 or 451"
                ));
            }
            if allow.is_empty() && deny.is_empty() {
                return Err(format!(
                    "the rule for `{path}` has a `status` and refuses no network; set `deny = \"all\"`, or `allow`"
                ));
            }
        }
        if let ClientCertificate::Named(names) = &self.certificate {
            if names.is_empty() || names.iter().any(String::is_empty) {
                return Err(format!(
                    "`certificate` of the rule for `{path}` has no name; write the names of clients, or true for every certificate"
                ));
            }
            if names.len() > CERTIFICATES_MAX {
                return Err(format!(
                    "`certificate` of the rule for `{path}` has more than {CERTIFICATES_MAX} names; remove some, or write true \
                     and name an authority of these clients alone in `client-ca`"
                ));
            }
        }
        self.validate_auth()?;
        if let Some(both) = allow.iter().find(|one| deny.contains(one)) {
            return Err(format!(
                "the rule for `{path}` allows and denies `{both}`; remove one of the two"
            ));
        }
        if allow.len() + deny.len() > NETWORKS_MAX {
            return Err(format!(
                "the rule for `{path}` has more than {NETWORKS_MAX} networks; summarize them"
            ));
        }
        self.validate_users()?;
        if self.realm.is_some() && self.htpasswd.is_none() {
            return Err(format!(
                "the rule for `{path}` has a realm and no passwords; set `htpasswd`, too"
            ));
        }
        if self.satisfy == Satisfy::Any && (is_open || allow.is_empty()) {
            return Err(format!(
                "the rule for `{path}` has nothing to choose from; `satisfy = \"any\"` needs `allow`, and `certificate`, \
                 `htpasswd` or `auth`"
            ));
        }
        let is_plain = |b: u8| (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\';
        if !self.realm().bytes().all(is_plain) || self.realm().is_empty() {
            return Err(format!(
                "the realm of the rule for `{path}` is not plain text; write ASCII characters without quotes and backslashes"
            ));
        }
        Ok(())
    }
}

impl Access {
    /// Checks which users of the file are admitted. Whether it has them is checked when it is read.
    fn validate_users(&self) -> Result<(), String> {
        let path = &self.path;
        let Some(users) = &self.users else {
            return Ok(());
        };
        if self.htpasswd.is_none() {
            return Err(format!(
                "the rule for `{path}` has `users` and no passwords; set `htpasswd`, too"
            ));
        }
        if users.is_empty() || users.iter().any(String::is_empty) {
            return Err(format!(
                "`users` of the rule for `{path}` has no name; write names of the file, or remove `users` to admit all users \
                 of the file"
            ));
        }
        if users.len() > USERS_MAX {
            return Err(format!(
                "`users` of the rule for `{path}` has more than {USERS_MAX} names; write a file with these users, and name it in \
                 `htpasswd`"
            ));
        }
        Ok(())
    }

    /// Checks what is said of the server that is asked.
    fn validate_auth(&self) -> Result<(), String> {
        let path = &self.path;
        let Some(auth) = &self.auth else {
            let has_settings = !self.copy.is_empty()
                || self.auth_tls.is_some()
                || self.auth_timeout != auth_timeout()
                || self.auth_keepalive != auth_keepalive()
                || self.auth_keepalive_time != auth_keepalive_time();
            return match has_settings {
                true => Err(format!(
                    "the rule for `{path}` has settings of `auth` and asks no server; set `auth`, or remove `copy`, \
                     `auth-timeout`, `auth-keepalive`, `auth-keepalive-time` and `auth-tls`"
                )),
                false => Ok(()),
            };
        };
        if self.copy.len() > COPIES_MAX {
            return Err(format!(
                "`copy` of the rule for `{path}` names more than {COPIES_MAX} fields; remove some"
            ));
        }
        let is_token = |name: &str| {
            let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            !name.is_empty() && name.bytes().all(is_part)
        };
        if let Some(name) = self.copy.iter().find(|name| !is_token(name)) {
            return Err(format!(
                "`{}` in `copy` of the rule for `{path}` is no field name; write letters, digits and hyphens, as in \
                 [\"Remote-User\"]",
                name.escape_debug()
            ));
        }
        if let Some(name) = self.copy.iter().find(|name| is_reserved(name)) {
            return Err(format!(
                "`copy` of the rule for `{path}` cannot have `{name}`, which belongs to the connection or is written by Weir; \
                 remove it"
            ));
        }
        if !(AUTH_TIMEOUT_MIN..=AUTH_TIMEOUT_MAX).contains(&self.auth_timeout) {
            return Err(format!(
                "`auth-timeout` of the rule for `{path}` is out of range; write a time from 10ms to 60s"
            ));
        }
        if self.auth_keepalive > AUTH_KEEPALIVE_MAX {
            return Err(format!(
                "`auth-keepalive` of the rule for `{path}` keeps too many connections; the maximum is {AUTH_KEEPALIVE_MAX}"
            ));
        }
        if self.auth_keepalive_time < AUTH_KEEPALIVE_TIME_MIN {
            return Err(format!(
                "`auth-keepalive-time` of the rule for `{path}` is too short; the minimum is 1s, and `auth-keepalive = 0` \
                 keeps no connection"
            ));
        }
        if let Some(tls) = &self.auth_tls {
            tls.validate()?;
            if !auth.upstream().is_secured() {
                return Err(format!(
                    "`auth-tls` of the rule for `{path}` has no effect without https; write https in `auth`, or remove it"
                ));
            }
        }
        Ok(())
    }
}

/// Validates the rules of a site.
pub(super) fn validate(rules: &[Access]) -> Result<(), String> {
    if rules.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} rules; combine some"));
    }
    for (at, rule) in rules.iter().enumerate() {
        rule.validate()?;
        validate_conditions(rule, (&rules[..at], &rules[at + 1..]))?;
        if rule.conditions.is_empty()
            && rule.covers_all()
            && let Some(next) = rules.get(at + 1)
        {
            return Err(format!(
                "the rule for `{}` never applies, because `{}` before it covers every path; put it first",
                next.path, rule.path
            ));
        }
    }
    Ok(())
}

/// Checks that a rule with conditions is followed by one that says what holds without them: otherwise all paths of the rule would
/// be open to clients that leave out a field.
fn validate_conditions(rule: &Access, (before, behind): (&[Access], &[Access])) -> Result<(), String> {
    let is_always = |other: &&Access| other.conditions.is_empty() && other.path.covers_all_of(&rule.path);
    let Access { path, conditions, .. } = rule;
    if conditions.is_empty() {
        return Ok(());
    }
    if let Some(other) = before.iter().find(is_always) {
        return Err(format!(
            "the rule for `{path}` with `if` never applies, because `{}` before it has no `if` and covers its paths; put it first",
            other.path
        ));
    }
    match behind.iter().any(|other| is_always(&other)) {
        true => Ok(()),
        false => Err(format!(
            "no rule says who may request `{path}` if `{conditions}` does not hold; put a rule for `{path}` without `if` behind \
             this one: `deny = \"all\"`, or `allow = \"all\"` if everyone may"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Access, String> {
        toml::from_str::<Access>(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn networks_are_read_and_mistakes_explained() {
        for (text, shown) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::ffff:192.0.2.9", "192.0.2.9/32"),
            ("all", "all"),
            ("unix", "unix"),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.to_string(), shown);
        }
        for (text, advice) in [
            ("192.0.2.1/24", "192.0.2.0/24"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("192.0.2.0/33", "is not a network"),
            ("::/129", "is not a network"),
            ("::ffff:192.0.2.0/24", "is not a network"),
            ("192.0.2/24", "is not a network"),
            ("example.org", "is not a network"),
            ("", "is not a network"),
        ] {
            let why = text.parse::<Network>().unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        for (lists, peer, admitted) in [
            ("allow = '192.0.2.0/24'", "192.0.2.7", true),
            ("allow = '192.0.2.0/24'", "192.0.3.7", false),
            ("allow = '192.0.2.0/24'", "2001:db8::1", false),
            ("deny = '192.0.2.0/24'", "192.0.2.7", false),
            ("deny = '192.0.2.0/24'", "192.0.3.7", true),
            ("deny = '192.0.2.0/24'", "::1", true),
            ("allow = '192.0.2.0/24'\ndeny = '192.0.2.7'", "192.0.2.7", false),
            ("allow = '192.0.2.7'\ndeny = '192.0.2.0/24'", "192.0.2.7", true),
            ("allow = '192.0.2.7'\ndeny = '192.0.2.0/24'", "192.0.2.8", false),
            ("allow = 'all'\ndeny = '10.0.0.0/8'", "10.1.2.3", false),
            ("allow = '10.0.0.0/8'\ndeny = 'all'", "10.1.2.3", true),
            ("allow = '0.0.0.0/0'\ndeny = 'all'", "10.1.2.3", true),
            ("allow = '::/0'", "10.1.2.3", false),
            ("deny = 'all'", "::1", false),
            // `::` stands for clients of Unix sockets, which are in no network of addresses.
            ("allow = '::/0'", "::", false),
            ("allow = 'unix'\ndeny = 'all'", "::", true),
            ("allow = 'unix'\ndeny = 'all'", "::1", false),
            ("allow = 'all'\ndeny = 'unix'", "::", false),
            (
                "allow = '2001:db8::/32'\ndeny = '2001:db8:1::/48'",
                "2001:db8:1::9",
                false,
            ),
            (
                "allow = '2001:db8::/32'\ndeny = '2001:db8:1::/48'",
                "2001:db8:2::9",
                true,
            ),
        ] {
            let rule = read(&format!("path = '/a'\n{lists}")).unwrap();
            assert_eq!(rule.validate(), Ok(()));
            assert_eq!(rule.admits(peer.parse().unwrap()), admitted, "{lists} {peer}");
        }
    }

    #[test]
    fn a_certificate_is_any_or_has_a_name() {
        for (key, [none, ann, bob]) in [
            ("", [true, true, true]),
            ("certificate = false", [true, true, true]),
            ("certificate = true", [false, true, true]),
            ("certificate = 'Ann'", [false, true, false]),
            ("certificate = ['Bob', 'Ann']", [false, true, true]),
            ("certificate = ['ann', 'Bo', 'Bobby']", [false, false, false]),
        ] {
            let rule = read(&format!("path = '/a'\nallow = 'all'\n{key}")).unwrap();
            assert_eq!(rule.validate(), Ok(()));
            let admits = |name| rule.certificate.admits(name);
            assert_eq!(
                [admits(None), admits(Some("Ann")), admits(Some("Bob"))],
                [none, ann, bob],
                "{key}"
            );
        }
        for text in ["certificate = 1", "certificate = [true]"] {
            let why = read(text).unwrap_err();
            assert!(why.contains("write true for any"), "{why}");
        }
        let names = |count: usize| ClientCertificate::Named(vec!["Ann".to_owned(); count]);
        let rule = read("certificate = true").unwrap();
        for (count, is_valid) in [(CERTIFICATES_MAX, true), (CERTIFICATES_MAX + 1, false)] {
            let rule = Access {
                certificate: names(count),
                ..rule.clone()
            };
            assert_eq!(rule.validate().is_ok(), is_valid, "{count}");
        }
    }

    #[test]
    fn users_of_the_file_are_all_or_named() {
        for (key, [ann, bob]) in [
            ("", [true, true]),
            ("users = 'ann'", [true, false]),
            ("users = ['bob', 'ann']", [true, true]),
            ("users = ['Ann', 'an', 'ann ']", [false, false]),
        ] {
            let rule = read(&format!("path = '/a'\nhtpasswd = 'h'\n{key}")).unwrap();
            assert_eq!(rule.validate(), Ok(()));
            let admits = |name: &str| rule.admits_user(name.as_bytes());
            assert_eq!([admits("ann"), admits("bob")], [ann, bob], "{key}");
        }
        for text in ["users = 1", "users = [true]"] {
            let why = read(text).unwrap_err();
            assert!(why.contains("no names of users"), "{why}");
        }
        let rule = read("htpasswd = 'h'\nusers = 'ann'").unwrap();
        for (count, is_valid) in [(USERS_MAX, true), (USERS_MAX + 1, false)] {
            let rule = Access {
                users: Some(vec!["ann".to_owned(); count]),
                ..rule.clone()
            };
            assert_eq!(rule.validate().is_ok(), is_valid, "{count}");
        }
    }

    #[test]
    fn a_refusal_has_the_status_of_the_rule() {
        for (said, status) in [
            ("", 403),
            ("status = 403", 403),
            ("status = 404", 404),
            ("status = 410", 410),
            ("status = 451", 451),
        ] {
            let rule = read(&format!("deny = 'all'\n{said}")).unwrap();
            assert_eq!((rule.validate(), rule.refusal().as_u16()), (Ok(()), status));
        }
    }

    #[test]
    fn a_rule_says_what_holds_without_its_conditions() {
        let check = |rules: &[&str]| {
            let rules: Vec<Access> = rules.iter().map(|text| read(text).unwrap()).collect();
            validate(&rules)
        };
        let staff = "path = '/a/*'\nif = 'cookie staff'\nallow = 'all'";
        for (rules, advice) in [
            (&[staff][..], "without `if` behind"),
            (&[staff, "path = '/a/b/*'\ndeny = 'all'"], "without `if` behind"),
            (&[staff, "path = '*.html'\ndeny = 'all'"], "without `if` behind"),
            (
                &[staff, "if = 'not cookie staff'\ndeny = 'all'"],
                "without `if` behind",
            ),
            (&["deny = 'all'\npath = '/a'", staff], "never applies"),
            (
                &["path = '/A/*'\ndeny = 'all'", staff, "deny = 'all'"],
                "never applies",
            ),
        ] {
            let why = check(rules).unwrap_err();
            assert!(why.contains(advice) && why.contains("`/a/*`"), "{rules:?}: {why}");
        }
        for rules in [
            &[staff, "path = '/a/*'\ndeny = 'all'"][..],
            &[staff, "path = '/x'\ndeny = 'all'", "path = '/a'\nallow = 'all'"],
            // A rule for all paths with a condition does not hide the next ones.
            &["if = 'header X'\ndeny = 'all'", staff, "deny = 'all'"],
        ] {
            assert_eq!(check(rules), Ok(()), "{rules:?}");
        }
    }

    #[test]
    fn rules_without_effect_are_rejected() {
        for (text, advice) in [
            ("path = '/a'", "no requirement"),
            ("path = '/a'\nallow = []", "no requirement"),
            ("path = '/a'\ncertificate = false", "no requirement"),
            ("path = '/a'\ncertificate = []", "has no name"),
            ("path = '/a'\ncertificate = ''", "has no name"),
            ("path = '/a'\ncertificate = true\nsatisfy = 'any'", "`allow`"),
            (
                "path = '/a'\ncertificate = true\nstatus = 404",
                "refuses no network",
            ),
            (
                "path = '/a'\nallow = '::1'\ndeny = ['::1']",
                "allows and denies `::1/128`",
            ),
            (
                "path = '/a'\ndeny = 'all'\nstatus = 200",
                "write 403, 404, 410 or 451",
            ),
            ("path = '/a'\nhtpasswd = 'h'\nstatus = 404", "refuses no network"),
            ("path = '/a'\nallow = 'all'\nrealm = 'A'", "`htpasswd`"),
            ("path = '/a'\nallow = 'all'\nusers = ['A']", "`htpasswd`"),
            ("path = '/a'\nhtpasswd = 'h'\nusers = []", "has no name"),
            ("path = '/a'\nhtpasswd = 'h'\nusers = ['']", "has no name"),
            ("path = '/a'\nhtpasswd = 'h'\nsatisfy = 'any'", "`allow`"),
            ("path = '/a'\nauth = 'http://a/'\nsatisfy = 'any'", "`allow`"),
            ("path = '/a'\nallow = 'all'\ncopy = ['A']", "asks no server"),
            (
                "path = '/a'\nallow = 'all'\nauth-timeout = '1s'",
                "asks no server",
            ),
            ("path = '/a'\nauth = 'http://a/'\ncopy = ['A b']", "no field name"),
            ("path = '/a'\nauth = 'http://a/'\ncopy = ['Via']", "`Via`"),
            (
                "path = '/a'\nauth = 'http://a/'\nauth-timeout = '61s'",
                "10ms to 60s",
            ),
            ("path = '/a'\nallow = 'all'\nauth-keepalive = 1", "asks no server"),
            (
                "path = '/a'\nallow = 'all'\nauth-keepalive-time = '9s'",
                "asks no server",
            ),
            (
                "path = '/a'\nauth = 'http://a/'\nauth-keepalive = 1025",
                "the maximum is 1024",
            ),
            (
                "path = '/a'\nauth = 'http://a/'\nauth-keepalive-time = '999ms'",
                "the minimum is 1s",
            ),
            (
                "path = '/a'\nauth = 'http://a/'\n[auth-tls]\nca = 'c'",
                "without https",
            ),
            ("path = '/a'\nhtpasswd = 'h'\nrealm = 'a\"b'", "plain text"),
            ("path = '/a'\nhtpasswd = 'h'\nrealm = ''", "plain text"),
        ] {
            let why = read(text).unwrap().validate().unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
        let copies = |count: usize| {
            let names: Vec<String> = (0..count).map(|n| format!("'X-{n}'")).collect();
            let text = format!("path = '/a'\nauth = 'http://a/'\ncopy = [{}]", names.join(","));
            read(&text).unwrap().validate()
        };
        assert_eq!(copies(COPIES_MAX), Ok(()));
        assert!(copies(COPIES_MAX + 1).unwrap_err().contains("more than 32"));
        for first in ["/", "*", "/*"] {
            let rules = [first, "/a"].map(|path| read(&format!("path = '{path}'\ndeny = 'all'")).unwrap());
            let why = validate(&rules).unwrap_err();
            assert!(why.contains("`/a` never applies"), "{why}");
            assert_eq!(validate(&[rules[1].clone(), rules[0].clone()]), Ok(()));
        }
        let many = vec![read("path = '/a'\ndeny = 'all'").unwrap(); RULES_MAX];
        assert_eq!(validate(&many), Ok(()));
        let more = [&many[..], &many[..1]].concat();
        assert!(validate(&more).unwrap_err().contains("more than 1000"));
        let list: Vec<String> = (0..=NETWORKS_MAX)
            .map(|n| format!("'{}'", std::net::Ipv4Addr::from(n as u32)))
            .collect();
        let rule = read(&format!("path = '/a'\nallow = [{}]", list.join(","))).unwrap();
        assert!(rule.validate().unwrap_err().contains("more than 10000 networks"));
        let fewer = Access {
            allow: rule.allow[1..].to_vec(),
            ..rule
        };
        assert_eq!(fewer.validate(), Ok(()));
    }
}
