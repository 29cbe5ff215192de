//! Caddy: from a Caddyfile to the model. This file reads global options and sites; `routes` reads what a site does with
//! requests.

mod address;
mod exclusive;
mod matcher;
mod order;
mod parse;
mod php;
mod proxy;
mod routes;
mod users;

use crate::access::Access;
use crate::access_log::{self, Log};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::files::{Files, Text};
use crate::model::{Cleartext, HOSTS_MAX, Lead, Server, Site};
use crate::report::{At, Report, Unreadable};
use crate::to_https;
use crate::value::{bytes, is_private, network, quote, seconds};
use address::Address;
use parse::Block;
use users::Users;

/// Networks that Caddy means by `private_ranges`.
const PRIVATE: [&str; 6] = [
    "192.168.0.0/16",
    "172.16.0.0/12",
    "10.0.0.0/8",
    "127.0.0.0/8",
    "fd00::/8",
    "::1",
];

/// A site with its place in the file.
struct Draft {
    at: At,
    shown: String,
    site: Site,
    is_everyone: bool,
    is_secure: bool,
    /// Names of its addresses in cleartext, and whether one of these is for all hosts.
    plain: Vec<String>,
    is_plain_for_all: bool,
    /// Names of its addresses with https.
    secure: Vec<String>,
}

/// Reads a Caddyfile. The second part of the result are files that the configuration names.
///
/// # Errors
/// A mistake of syntax.
pub(crate) fn convert(
    main: &Text,
    files: &dyn Files,
    report: &mut Report,
) -> Result<(Server, Vec<(String, String)>), Unreadable> {
    let tree = parse::parse(main, files, report)?;
    let mut reading = Reading {
        server: Server::default(),
        domains: Vec::new(),
        has_internal: false,
        email: None,
        users: Users::default(),
        drafts: Vec::new(),
        log: None,
        default_bind: Vec::new(),
        has_twin: false,
    };
    for option in &tree.options {
        if option.name == "servers" {
            reading.servers(option, report);
            continue;
        }
        let fate = reading.option(option);
        option.note_all(&fate, report);
    }
    for block in &tree.sites {
        match block.addresses.iter().any(|name| name.starts_with("&(")) {
            true => note_route(block, report),
            false => reading.site(block, report),
        }
    }
    Ok(reading.assemble(report))
}

/// Reports a named route. It is no site, and what it checks is not in the result.
fn note_route(block: &Block, report: &mut Report) {
    let fate =
        Fate::missing("the converter reads no named routes; the result denies the paths that `invoke` one");
    report.add(&block.at, &block.addresses.join(" "), fate.clone());
    for directive in &block.inner {
        directive.note_all(&fate, report);
    }
}

struct Reading {
    server: Server,
    /// Names that Caddy gets certificates for.
    domains: Vec<String>,
    has_internal: bool,
    email: Option<String>,
    /// Files with users.
    users: Users,
    drafts: Vec<Draft>,
    /// Log of sites that name no output.
    log: Option<Log>,
    /// Addresses of sites that name none.
    default_bind: Vec<String>,
    /// Whether a site in cleartext is left out that redirects to one with https.
    has_twin: bool,
}

impl Reading {
    fn option(&mut self, option: &Directive) -> Fate {
        let arg = option.arg(0);
        match option.name.as_str() {
            "email" => {
                self.email = Some(arg.to_owned());
                Fate::Carried
            }
            "acme_ca" if arg.contains("acme-staging-v02.api.letsencrypt.org") => {
                self.server.key("acme-ca", quote("letsencrypt-staging"));
                Fate::Carried
            }
            "acme_ca" if arg.starts_with("https://") => {
                self.server.key("acme-ca", quote(arg));
                Fate::Carried
            }
            "auto_https" => Fate::missing("`https-redirect` and `domain` decide about https"),
            "admin" => Fate::unneeded("`control` is Weir's socket for `weir ctl`; it has none by default"),
            "debug" => Fate::unneeded("`-v` logs more"),
            "grace_period" => match seconds(arg) {
                Some(span) => {
                    self.server.key("grace", quote(&format!("{span}s")));
                    Fate::Carried
                }
                None => Fate::missing("this is not a time"),
            },
            "shutdown_delay" => match seconds(arg) {
                Some(span) => {
                    self.server.key("drain-delay", quote(&format!("{span}s")));
                    Fate::Carried
                }
                None => Fate::missing("this is not a time"),
            },
            "order" => {
                Fate::missing("the order of Weir's rules is fixed: access, https, proxy, redirects, files")
            }
            "storage" | "storage_clean_interval" => {
                Fate::missing("`tls-state` is the folder of certificates")
            }
            "metrics" => {
                self.server.key("live", quote("local"));
                Fate::changed("the metrics are at `/.weir/metrics`, for clients on this machine")
            }
            "log" => log(option, None, &mut self.log),
            "default_bind" => {
                self.default_bind.clone_from(&option.args);
                bound(option)
            }
            _ => Fate::missing("this option has no key in Weir"),
        }
    }

    /// The networks of trusted proxies. Other options of servers have keys of their own.
    fn servers(&mut self, option: &Directive, report: &mut Report) {
        report.add(&option.at, &option.shown(), Fate::Carried);
        for inner in option.inner() {
            let fate = match (inner.name.as_str(), inner.arg(0)) {
                ("trusted_proxies", "static") => self.trusted(&inner.args[1..]),
                ("trusted_proxies", _) => Fate::missing("Weir trusts networks that `trusted` names"),
                ("timeouts", "") => {
                    report.add(&inner.at, &inner.shown(), Fate::Carried);
                    for one in inner.inner() {
                        let fate = timeout(one, &mut self.server);
                        report.add(&one.at, &one.shown(), fate);
                    }
                    continue;
                }
                ("trusted_proxies_strict", _) => Fate::unneeded("Weir reads the field from its end"),
                _ => Fate::missing("limits have keys of their own, as `header-timeout` and `max-head-size`"),
            };
            inner.note_all(&fate, report);
        }
    }

    fn trusted(&mut self, texts: &[String]) -> Fate {
        let mut fate = Fate::Carried;
        for text in texts {
            match (text.as_str(), network(text)) {
                ("private_ranges", _) => self.server.trusted.extend(PRIVATE.map(str::to_owned)),
                (_, Some(network)) if network != "all" && !network.ends_with("/0") => {
                    self.server.trusted.push(network);
                }
                _ => fate = Fate::missing(format!("`{text}` is not a network that Weir can trust")),
            }
        }
        fate
    }

    fn site(&mut self, block: &Block, report: &mut Report) {
        let shown = block.addresses.join(" ");
        let tls = block.inner.iter().find(|directive| directive.name == "tls");
        let files = tls
            .filter(|tls| tls.args.len() == 2)
            .map(|tls| (tls.arg(0).to_owned(), tls.arg(1).to_owned()));
        let is_internal = tls.is_some_and(|tls| tls.arg(0) == "internal");
        let bind: Vec<&str> = block
            .inner
            .iter()
            .filter(|directive| directive.name == "bind")
            .flat_map(|directive| directive.args.iter().map(String::as_str))
            .collect();
        let usual = self.default_bind.clone();
        let bind: Vec<&str> = match bind.is_empty() {
            true => usual.iter().map(String::as_str).collect(),
            false => bind,
        };
        let is_machine = |at: &&str| {
            at.starts_with("unix/") || at.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        };
        let mut site = Site {
            is_local: !bind.is_empty() && bind.iter().all(is_machine),
            is_private: !bind.is_empty() && bind.iter().all(|at| at.parse().is_ok_and(is_private)),
            ..Site::default()
        };
        let (mut is_everyone, mut is_secure, mut is_plain_for_all) = (false, false, false);
        let (mut plain, mut secure) = (Vec::new(), Vec::new());
        let mut fate = Fate::Carried;
        for text in &block.addresses {
            let address = match Address::of(text) {
                Ok(address) => address,
                Err(why) => {
                    fate = Fate::missing(format!("`{text}`: {why}"));
                    continue;
                }
            };
            let has_tls = address.has_tls(files.is_some() || is_internal);
            let port = address.port(has_tls);
            if !site.ports.contains(&port) {
                site.ports.push(port);
            }
            for host in if bind.is_empty() { &[""][..] } else { &bind } {
                let at = match host.parse::<std::net::IpAddr>() {
                    Ok(ip) => std::net::SocketAddr::new(ip, port).to_string(),
                    Err(_) => format!(":{port}"),
                };
                let list = if has_tls {
                    &mut self.server.secure
                } else {
                    &mut self.server.listen
                };
                if !list.contains(&at) {
                    list.push(at);
                }
            }
            is_secure |= has_tls;
            match address.host.as_str() {
                "" => {
                    is_everyone = true;
                    is_plain_for_all |= !has_tls;
                }
                // Addresses are no names: such requests get the top level.
                host if host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') => {
                    is_everyone = true;
                    is_plain_for_all |= !has_tls;
                }
                host => {
                    site.names.push(host.to_owned());
                    match has_tls {
                        true => secure.push(host.to_owned()),
                        false => plain.push(host.to_owned()),
                    }
                }
            }
            if !has_tls || files.is_some() {
                continue;
            }
            if is_internal || address.is_internal() || address.host.is_empty() {
                self.has_internal = true;
            } else if address.host.starts_with("*.") {
                fate = Fate::missing(format!(
                    "`{}`: a certificate for a wildcard needs `acme-hook`; add the name to `domain` with it",
                    address.host
                ));
            } else if !self.domains.contains(&address.host) {
                self.domains.push(address.host.clone());
            }
        }
        site.certificates.extend(files);
        report.add(&block.at, &shown, fate);
        let mut rest = Vec::new();
        for directive in &block.inner {
            let fate = match directive.name.as_str() {
                "tls" if needs_certificate(directive) => {
                    site.access.push(Access::nobody("*"));
                    Fate::missing(
                        "`tls-client-ca` asks the clients of all hosts for certificates; the result denies this site",
                    )
                }
                "tls" => self.tls(directive),
                "bind" => bound(directive),
                "log" => log(directive, self.log.as_ref(), &mut site.log),
                "request_body" => match directive
                    .inner()
                    .iter()
                    .find(|one| one.name == "max_size")
                    .and_then(|one| bytes(one.arg(0)))
                {
                    Some(size) => {
                        let size = size.to_string();
                        self.server
                            .share(Some(&block.at), directive, "max-body-size", size);
                        Fate::changed(
                            "for all hosts; a `[[proxy]]` has a `max-body-size` of its own, 1 GiB by default",
                        )
                    }
                    None => Fate::missing("Weir bounds bodies by `max-body-size` only"),
                },
                _ => {
                    rest.push(directive.clone());
                    continue;
                }
            };
            directive.note_all(&fate, report);
        }
        // Caddy logs the requests of a site only if the site says so.
        site.log.get_or_insert(Log::Off);
        routes::site(&rest, &mut site, &mut self.users, report);
        self.drafts.push(Draft {
            at: block.at.clone(),
            shown,
            site,
            is_everyone,
            is_secure,
            plain,
            is_plain_for_all,
            secure,
        });
    }

    fn tls(&mut self, directive: &Directive) -> Fate {
        if !directive.inner().is_empty() {
            return Fate::missing("Weir's keys for TLS are `domain`, `acme-*`, `crypto` and `tls-client-ca`");
        }
        match directive.args.as_slice() {
            [email] if email.contains('@') => {
                self.email.get_or_insert_with(|| email.clone());
                Fate::Carried
            }
            [internal] if internal == "internal" => Fate::Carried,
            [_, _] => Fate::Carried,
            _ => Fate::missing("Weir reads certificates from files, or gets them by ACME"),
        }
    }

    fn assemble(mut self, report: &mut Report) -> (Server, Vec<(String, String)>) {
        let at = At {
            file: "the result".into(),
            line: 0,
        };
        self.note_cleartext(report);
        let has_files = self
            .drafts
            .iter()
            .any(|draft| !draft.site.certificates.is_empty());
        for list in [&mut self.server.listen, &mut self.server.secure] {
            without_included(list);
        }
        match (
            self.domains.is_empty(),
            self.has_internal,
            self.server.secure.is_empty(),
        ) {
            (false, is_both, _) => {
                let list = crate::value::list(&self.domains);
                self.server.key("domain", list);
                let plain = std::mem::take(&mut self.server.listen);
                let mut addresses = plain.clone();
                if !addresses.iter().any(|address| address == ":80") {
                    addresses.insert(0, ":80".to_owned());
                }
                self.server.key("http-listen", crate::value::list(&addresses));
                if let Some(email) = self.email.take() {
                    self.server.key("acme-email", quote(&email));
                }
                if is_both {
                    report.add(
                        &at,
                        "tls internal",
                        Fate::missing("Weir has certificates by ACME or an authority of its own, not both"),
                    );
                }
            }
            (true, true, _) => {
                self.server.key("tls", quote("internal"));
                // Without `domain`, one list has all addresses with TLS, and tables have those in cleartext.
                report.add(&at, "tls internal", Fate::changed("Weir's authority makes a certificate for this machine's names and loopback addresses"));
                self.server.keys.retain(|(key, _)| !key.starts_with("acme-"));
            }
            (true, false, false) if !has_files => {
                let addresses = std::mem::take(&mut self.server.secure);
                let why =
                    "no certificate is known for these addresses; set `domain`, or `tls-cert` and `tls-key`";
                report.add(
                    &at,
                    &format!("listen {}", addresses.join(" ")),
                    Fate::missing(why),
                );
                self.server.keys.retain(|(key, _)| !key.starts_with("acme-"));
            }
            (true, false, _) => self.server.keys.retain(|(key, _)| !key.starts_with("acme-")),
        }
        let is_own = has_files && self.domains.is_empty() && !self.has_internal;
        if is_own && !self.server.secure.is_empty() && self.server.listen.is_empty() {
            self.server.listen.push(":80".to_owned());
        }
        self.place(report);
        let files = self.users.files();
        (self.server, files)
    }

    /// Names of sites with https.
    fn secure_names(&self) -> Vec<String> {
        self.drafts
            .iter()
            .flat_map(|draft| draft.secure.clone())
            .collect()
    }

    /// Notes what sites answer in cleartext, and takes out those that only lead to https.
    fn note_cleartext(&mut self, report: &mut Report) {
        let secure = self.secure_names();
        let has_secured = self.drafts.iter().any(|draft| draft.is_secure);
        let mut kept = Vec::new();
        let mut plain: Vec<String> = Vec::new();
        for mut draft in std::mem::take(&mut self.drafts) {
            plain.extend(draft.plain.iter().cloned());
            let found = lead(&draft, &secure, report);
            for (_, at, shown) in draft.site.secured.drain(..).filter(|_| draft.is_secure) {
                report.replace(&at, &shown, Fate::missing("the site redirects to itself"));
            }
            let Some(lead) = found else {
                if !draft.plain.is_empty() || draft.is_plain_for_all {
                    self.server.cleartext.push(Cleartext {
                        names: draft.plain.clone(),
                        is_default: draft.is_plain_for_all,
                        lead: None,
                    });
                }
                kept.push(draft);
                continue;
            };
            let names = std::mem::take(&mut draft.site.names).into_iter();
            let (led, rest): (Vec<String>, Vec<String>) =
                names.partition(|name| has_secured && secure.contains(name));
            let is_dropped = has_secured && rest.is_empty();
            let to_other = lead.to.is_some();
            self.server.cleartext.push(Cleartext {
                names: led,
                is_default: draft.is_plain_for_all,
                lead: Some(lead.clone()),
            });
            if is_dropped {
                self.has_twin |= to_other;
                continue;
            }
            // The site has the rules for what is left out of the redirect, and that to another host.
            let lead = Lead {
                rules: Site::default(),
                ..lead
            };
            self.server.cleartext.push(Cleartext {
                names: rest.clone(),
                is_default: false,
                lead: (!to_other).then_some(lead),
            });
            draft.site.names = rest;
            kept.push(draft);
        }
        // Caddy redirects requests for the names of sites with https that nothing else answers.
        let alone = secure.into_iter().filter(|name| !plain.contains(name));
        let alone: Vec<String> = alone.collect();
        if !alone.is_empty() {
            self.server.cleartext.push(Cleartext {
                names: alone,
                is_default: false,
                lead: Some(Lead {
                    status: 308,
                    ..Lead::default()
                }),
            });
        }
        self.drafts = kept;
    }

    /// Chooses the site of unknown hosts: the one for everyone, or none, as in Caddy.
    fn place(&mut self, report: &mut Report) {
        let secure = self.secure_names();
        let mut drafts = std::mem::take(&mut self.drafts);
        for draft in &mut drafts {
            draft.site.at = Some((draft.at.clone(), draft.shown.clone()));
        }
        let only = drafts.len() == 1 && !self.has_twin;
        let mut known: Vec<String> = Vec::new();
        let mut has_top = false;
        for mut draft in drafts {
            if (draft.is_everyone || only) && !has_top {
                has_top = true;
                self.server.top = draft.site;
                continue;
            }
            // Of two sites with one name, that with TLS is in the result, wherever it is in the file.
            let mut twins = Vec::new();
            if !draft.is_secure {
                twins = crate::twins::leave(&mut draft.site.names, &secure);
            }
            draft.site.names.retain(|name| !known.contains(name));
            if !twins.is_empty() {
                let fate = Fate::missing(crate::twins::why("site", &twins));
                report.add(&draft.at, &draft.shown, fate);
                if draft.site.names.is_empty() {
                    continue;
                }
            }
            draft.site.names.dedup();
            if draft.site.names.is_empty() {
                let why = "another site has these names: Weir's hosts answer at all addresses alike";
                report.add(&draft.at, &draft.shown, Fate::missing(why));
                continue;
            }
            if self.server.hosts.len() == HOSTS_MAX {
                report.add(
                    &draft.at,
                    &draft.shown,
                    Fate::missing(format!("Weir has at most {HOSTS_MAX} hosts")),
                );
                continue;
            }
            known.extend(draft.site.names.iter().cloned());
            self.server.hosts.push(draft.site);
        }
        if !has_top {
            // Caddy answers unknown hosts with an empty response; Weir must have a site, and denies it.
            self.server.top.access.push(Access::nobody("*"));
        }
    }
}

/// The fate of `bind` and `default_bind`.
fn bound(directive: &Directive) -> Fate {
    let is_address = |arg: &String| arg.parse::<std::net::IpAddr>().is_ok();
    match directive.args.iter().all(is_address) {
        true => Fate::Carried,
        false => Fate::missing("Weir listens on IP addresses"),
    }
}

fn timeout(one: &Directive, server: &mut Server) -> Fate {
    let key = match one.name.as_str() {
        "read_header" => "header-timeout",
        "idle" => "idle-timeout",
        "read_body" => "body-timeout",
        _ => {
            return Fate::missing(
                "`write-timeout` and `min-send-rate` bound the time without an acknowledged byte, not the whole response",
            );
        }
    };
    match seconds(one.arg(0)) {
        Some(span @ 1..) => {
            server.key(key, quote(&format!("{span}s")));
            match key {
                "body-timeout" => Fate::changed("`min-body-rate` adds time for large bodies"),
                _ => Fate::Carried,
            }
        }
        _ => Fate::missing("this is not a time"),
    }
}

/// Whether clients need a certificate that `tls` asks for.
fn needs_certificate(tls: &Directive) -> bool {
    let is_lenient =
        |one: &Directive| one.name == "mode" && matches!(one.arg(0), "request" | "verify_if_given");
    let mut asks = tls.inner().iter().filter(|one| one.name == "client_auth");
    asks.any(|one| !one.inner().iter().any(is_lenient))
}

/// The redirect of a site in cleartext to https: at the host of the request, or at one of these names.
fn lead(draft: &Draft, secure: &[String], report: &mut Report) -> Option<Lead> {
    if draft.is_secure {
        return None;
    }
    let site = &draft.site;
    let (rule, to, said) = match site.secured.first() {
        Some((rule, at, shown)) => (rule, None, (at.clone(), shown.clone())),
        None => {
            let rule = site.redirects.iter().find(|rule| to_https::is_whole(rule))?;
            let host = rule.to.strip_prefix("https://")?.strip_suffix('*')?;
            if !secure.iter().any(|name| name == host) {
                return None;
            }
            (
                rule,
                Some(host.to_owned()),
                (draft.at.clone(), draft.shown.clone()),
            )
        }
    };
    let (lead, lost) = to_https::lead_of(site, rule, to, vec![said]);
    to_https::note_lost(&draft.at, &lost, report);
    Some(lead)
}

/// Reads `log` of a site. `usual`: the log that the global options name.
fn log(directive: &Directive, usual: Option<&Log>, log: &mut Option<Log>) -> Fate {
    let find = |name: &str| directive.inner().iter().find(|one| one.name == name);
    let output = find("output");
    if let (None, Some(usual)) = (output.or(find("format")), usual) {
        return access_log::set(log, usual.clone(), Fate::changed("in Weir's own format"));
    }
    let path = match output.map_or(("stdout", ""), |output| (output.arg(0), output.arg(1))) {
        ("file", path) if !path.is_empty() => path,
        ("stdout" | "stderr", _) => "-",
        ("discard", _) => return access_log::set(log, Log::Off, Fate::Carried),
        (other, _) => {
            return Fate::missing(format!(
                "`{other}` is no output of Weir: the access log is a file, or standard output"
            ));
        }
    };
    let is_plain = find("format").is_some_and(|format| format.arg(0) == "console");
    let new = Log::of_format(path, if is_plain { "combined" } else { "json" });
    let why = match output.is_some_and(|output| !output.inner().is_empty()) {
        true => "in Weir's own format; logrotate and SIGUSR1 rotate the file",
        false => "in Weir's own format",
    };
    access_log::set(log, new, Fate::changed(why))
}

/// Removes the addresses of ports at which all addresses are listened to: Weir refuses both.
fn without_included(list: &mut Vec<String>) {
    let whole: Vec<String> = list.iter().filter(|at| at.starts_with(':')).cloned().collect();
    list.retain(|at| {
        let port = at
            .parse::<std::net::SocketAddr>()
            .map(|at| format!(":{}", at.port()));
        !port.is_ok_and(|port| whole.contains(&port))
    });
}
