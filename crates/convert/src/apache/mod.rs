//! Apache httpd: from virtual hosts or a `.htaccess` to the model. This file reads servers, virtual hosts and sections.

mod access;
mod condition;
mod expression;
mod files;
mod nested;
mod networks;
mod parse;
mod plain;
mod programs;
mod rewrite;
mod site;
mod upstream;

use crate::access::Access;
use crate::access_log::{self, Log};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::files::{Files, Text};
use crate::logs;
use crate::model::{Certificate, Cleartext, HOSTS_MAX, Lead, Proxy, Redirect, Server, Site};
use crate::report::{At, Report, Unreadable};
use crate::shared::TRUSTED;
use crate::to_https;
use crate::value::{is_host_name, is_private, network, quote, seconds};
use rewrite::Wishes;
use site::{Context, Folder};
use std::collections::BTreeMap;

/// Reads a configuration of Apache httpd. `root` is the document root of a `.htaccess`.
///
/// # Errors
/// A mistake of syntax.
pub(crate) fn convert(
    main: &Text,
    files: &dyn Files,
    root: Option<&str>,
    report: &mut Report,
) -> Result<Server, Unreadable> {
    let tree = parse::parse(main, files, report)?;
    let mut server = Server::default();
    let is_htaccess = !tree.iter().any(|one| {
        matches!(
            lower(one).as_str(),
            "<virtualhost" | "documentroot" | "listen" | "servername"
        )
    });
    let mut balancers = BTreeMap::new();
    let mut closes_upstreams = false;
    for section in tree.iter().filter(|one| lower(one) == "<proxy") {
        balancer(section, &mut balancers, report);
        closes_upstreams |= section.inner().iter().any(|one| limits_proxies(one, section));
    }
    let mut listens = Vec::new();
    let mut top = Host::default();
    top.site.closes_upstreams = closes_upstreams;
    let mut hosts = Vec::new();
    let (blocks, plain): (Vec<&Directive>, Vec<&Directive>) =
        tree.iter().partition(|one| lower(one) == "<virtualhost");
    let plain: Vec<Directive> = plain
        .into_iter()
        .filter(|one| lower(one) != "<proxy")
        .cloned()
        .collect();
    let is_whole = !blocks.is_empty();
    let mut cx = Context {
        report,
        balancers: &balancers,
        is_htaccess,
    };
    let shared = host(&plain, &mut top, &mut server, Some(&mut listens), &mut cx);
    let (rules, shared): (Vec<Directive>, Vec<Directive>) = shared
        .into_iter()
        .partition(|one| is_whole && matches!(lower(one).as_str(), "rewriterule" | "rewritecond"));
    if !is_whole {
        site::mounts(&shared, &mut top.site);
        site::options(&shared, &mut top.site, cx.report);
        site::read(&shared, &Folder::root(), &mut top.site, &mut top.wishes, &mut cx);
    }
    if is_htaccess && !tree.iter().any(nested::is_of_server) {
        nested::read(main, files, root, &mut top.site, &mut top.wishes, &mut cx);
    }
    // What the main server says, as each virtual host reads it: folders are compared with the root of the host.
    let mut readings = Vec::new();
    for block in blocks {
        cx.report.add(&block.at, &block.shown(), Fate::Carried);
        let mut one = Host {
            addresses: block.args.clone(),
            at: Some(block.at.clone()),
            ..Host::default()
        };
        let root = block.inner().iter().find(|one| lower(one) == "documentroot");
        one.site.root = root.map_or_else(|| top.site.root.clone(), |root| Some(folder(root)));
        one.site.closes_upstreams = closes_upstreams;
        one.site.tilde.clone_from(&top.site.tilde);
        one.site.certificate = top.site.certificate;
        one.site.authorities.clone_from(&top.site.authorities);
        site::mounts(block.inner(), &mut one.site);
        site::mounts(&shared, &mut one.site);
        let mut reading = Report::default();
        let mut main = Context {
            report: &mut reading,
            balancers: &balancers,
            is_htaccess,
        };
        // Sections of the main server replace those of the virtual host, too.
        site::options(&shared, &mut one.site, main.report);
        site::options(block.inner(), &mut one.site, cx.report);
        site::read(
            &shared,
            &Folder::root(),
            &mut one.site,
            &mut one.wishes,
            &mut main,
        );
        let is_inheriting = inherits(&plain, "inheritdown") || inherits(block.inner(), "inherit");
        for rule in &rules {
            let fate = Fate::missing(
                "virtual hosts inherit rules of the main server with `RewriteOptions` only, and the result has no main server",
            );
            if !is_inheriting {
                rule.note_all(&fate, main.report);
            }
        }
        if is_inheriting {
            site::read(&rules, &Folder::root(), &mut one.site, &mut one.wishes, &mut main);
        }
        readings.push(reading);
        // The first redirect of a path applies: that of the virtual host.
        let inherited = std::mem::take(&mut one.site.redirects);
        let rest = host(block.inner(), &mut one, &mut server, None, &mut cx);
        one.site.log = one.site.log.or_else(|| top.site.log.clone());
        if !one.is_secure {
            one.site.certificate = Certificate::NotAsked;
        }
        site::read(&rest, &Folder::root(), &mut one.site, &mut one.wishes, &mut cx);
        for rule in inherited {
            let is_known = |known: &Redirect| known.from == rule.from && known.conditions.is_empty();
            if !one.site.redirects.iter().any(is_known) {
                one.site.redirects.push(rule);
            }
        }
        hosts.push(one);
    }
    report.add_readings(readings, site::OUTSIDE);
    if let Some(sign) = programs::sign(&tree) {
        // Outside of virtual hosts is no site, but what they inherit. One that redirects all requests sends no files.
        let answers = |host: &&mut Host| match host.at {
            None => !is_whole,
            Some(_) => host.is_secure || host.wishes.lead.is_none(),
        };
        let hosts = core::iter::once(&mut top).chain(&mut hosts).filter(answers);
        let closed = hosts.map(|host| programs::close(&mut host.site));
        if closed.filter(|is_closed| *is_closed).count() > 0 {
            programs::note(sign, report);
        }
    }
    assemble(top, hosts, &listens, &mut server, report);
    Ok(server)
}

/// Whether a block has `RewriteOptions` with an option that begins with this word.
fn inherits(block: &[Directive], word: &str) -> bool {
    let options = block.iter().filter(|one| lower(one) == "rewriteoptions");
    options
        .flat_map(|one| &one.args)
        .any(|arg| arg.to_ascii_lowercase().starts_with(word))
}

/// The folder that `DocumentRoot` names.
fn folder(root: &Directive) -> String {
    root.arg(0).trim_end_matches('/').to_owned()
}

fn lower(directive: &Directive) -> String {
    directive.name.to_ascii_lowercase()
}

/// A virtual host, or what is outside of them.
#[derive(Debug, Default)]
struct Host {
    at: Option<At>,
    addresses: Vec<String>,
    site: Site,
    is_secure: bool,
    certificate: Option<String>,
    wishes: Wishes,
}

/// Whether a directive of `<Proxy>` limits access to upstreams. `Order` may refuse all clients without `Allow`, which may admit a few
/// only.
fn limits_proxies(directive: &Directive, section: &Directive) -> bool {
    match lower(directive).as_str() {
        "order" => access::refuses_by_order(section.inner()),
        "allow" => !directive.arg(1).eq_ignore_ascii_case("all"),
        _ => access::is_limit(directive),
    }
}

/// The fate of a directive in `<Proxy>`.
fn of_proxies(directive: &Directive, section: &Directive) -> Fate {
    match limits_proxies(directive, section) {
        true => Fate::missing(
            "Weir limits access by path, not by upstream; the result denies the paths of all upstreams",
        ),
        false => Fate::unneeded("Weir proxies the paths of its rules only"),
    }
}

/// The group of `<Proxy balancer://NAME>`.
fn balancer(section: &Directive, balancers: &mut BTreeMap<String, Proxy>, report: &mut Report) {
    let Some(name) = section.arg(0).strip_prefix("balancer://") else {
        report.add(
            &section.at,
            &section.shown(),
            Fate::unneeded("Weir proxies the paths of its rules only"),
        );
        for one in section.inner() {
            one.note_all(&of_proxies(one, section), report);
        }
        return;
    };
    let mut rule = Proxy::default();
    for one in section.inner() {
        let fate = match lower(one).as_str() {
            "balancermember" => match crate::upstream::address(one.arg(0)) {
                Ok((address, changed)) => {
                    let weighs = |arg: &&String| arg.starts_with("loadfactor=");
                    let (weight, others): (Vec<&String>, Vec<&String>) =
                        one.args.iter().skip(1).partition(weighs);
                    let weight = weight
                        .first()
                        .and_then(|arg| arg.strip_prefix("loadfactor=")?.parse::<u32>().ok());
                    rule.upstreams.push(address);
                    rule.weights.push(weight.unwrap_or(1).clamp(1, 100));
                    let others = others.into_iter().map(|arg| format!("without `{arg}`"));
                    let changes: Vec<String> = changed.into_iter().chain(others).collect();
                    match changes.is_empty() {
                        true => Fate::Carried,
                        false => Fate::changed(changes.join("; ")),
                    }
                }
                Err(why) => Fate::missing(why),
            },
            "proxyset" if one.arg(0) == "lbmethod=byrequests" => {
                crate::upstream::set(&mut rule, "balance", &quote("round-robin"));
                Fate::Carried
            }
            "proxyset" if one.arg(0) == "lbmethod=bybusyness" => {
                crate::upstream::set(&mut rule, "balance", &quote("least-connections"));
                Fate::Carried
            }
            _ if limits_proxies(one, section) => of_proxies(one, section),
            _ => Fate::missing("this setting of a balancer has no key"),
        };
        one.note_all(&fate, report);
    }
    report.add(&section.at, &section.shown(), Fate::Carried);
    balancers.insert(name.trim_end_matches('/').to_owned(), rule);
}

/// Reads what a virtual host says about itself, and returns the directives about its paths. `listens`: outside of one,
/// addresses of the server.
fn host(
    block: &[Directive],
    host: &mut Host,
    server: &mut Server,
    mut listens: Option<&mut Vec<String>>,
    cx: &mut Context<'_>,
) -> Vec<Directive> {
    // Sections by folder compare with the root, wherever it is named.
    if let Some(root) = block.iter().find(|one| lower(one) == "documentroot") {
        host.site.root = Some(folder(root));
    }
    let mut rest = Vec::new();
    let of_host = host.at.clone();
    for directive in block {
        let arg = directive.arg(0);
        let mut share = |key: &str, value: String| {
            server.share(of_host.as_ref(), directive, key, value);
            Fate::Carried
        };
        let fate = match lower(directive).as_str() {
            "documentroot" if arg.contains("${") => Fate::changed(
                "Weir's configuration has no variables of the environment; write the folder in place of the name",
            ),
            "documentroot" if arg.starts_with('/') => Fate::Carried,
            "documentroot" => {
                Fate::changed("Apache reads the path from its `ServerRoot`, Weir from the folder of its file")
            }
            "servername" | "serveralias" => {
                let mut others = Vec::new();
                for text in &directive.args {
                    let name = text.split("://").last().unwrap_or(text);
                    let name = name.split(':').next().unwrap_or(name).to_ascii_lowercase();
                    match is_host_name(&name)
                        && !name.trim_start_matches("*.").contains('*')
                        && name.parse::<std::net::IpAddr>().is_err()
                    {
                        true if host.site.names.contains(&name) => {}
                        true => host.site.names.push(name),
                        false => others.push(text.clone()),
                    }
                }
                match others.is_empty() {
                    true => Fate::Carried,
                    false => Fate::missing(format!(
                        "{} is no name in Weir: a name is literal or begins with `*.`",
                        others.join(", ")
                    )),
                }
            }
            "listen" => match (&mut listens, address(arg)) {
                (Some(listens), Some(address)) => {
                    listens.push(address);
                    Fate::Carried
                }
                _ => Fate::missing("Weir listens on IP addresses with ports"),
            },
            "remoteipheader" if arg.eq_ignore_ascii_case("x-forwarded-for") => {
                share("trusted-field", quote("X-Forwarded-For"))
            }
            "remoteipheader" => Fate::missing("Weir reads the client from `X-Forwarded-For` or `Forwarded`"),
            "remoteiptrustedproxy" | "remoteipinternalproxy" => {
                let (networks, others): (Vec<_>, Vec<_>) = directive
                    .args
                    .iter()
                    .map(|text| (text, network(text)))
                    .partition(|(_, network)| {
                        network
                            .as_ref()
                            .is_some_and(|network| network != "all" && !network.ends_with("/0"))
                    });
                for network in networks.into_iter().filter_map(|(_, network)| network) {
                    share(TRUSTED, network);
                }
                match others.as_slice() {
                    [] => Fate::Carried,
                    [(text, _), ..] => {
                        Fate::missing(format!("`{text}` is not a network that Weir can trust"))
                    }
                }
            }
            "sslengine" => {
                host.is_secure = arg.eq_ignore_ascii_case("on");
                Fate::Carried
            }
            "sslcertificatefile" => {
                host.certificate = Some(arg.to_owned());
                Fate::Carried
            }
            "sslcertificatekeyfile" => match host.certificate.take() {
                Some(certificate) => {
                    host.site.certificates.push((certificate, arg.to_owned()));
                    Fate::Carried
                }
                None => Fate::missing("its `SSLCertificateFile` is not before it"),
            },
            "sslcertificatechainfile" | "sslcacertificatefile"
                if directive.name.to_ascii_lowercase().contains("chain") =>
            {
                Fate::missing(
                    "`tls-cert` names one file with the certificate and its chain; append this file to it",
                )
            }
            "sslcacertificatefile" => {
                host.site.authorities = Some(arg.to_owned());
                Fate::changed("for all hosts: Weir asks for a certificate before it knows the host")
            }
            "sslverifyclient" => match arg.to_ascii_lowercase().as_str() {
                "none" => {
                    host.site.certificate = Certificate::NotAsked;
                    Fate::unneeded("clients are not asked for certificates")
                }
                "require" => {
                    host.site.certificate = Certificate::Needed;
                    Fate::Carried
                }
                "optional" => {
                    host.site.certificate = Certificate::Optional;
                    Fate::Carried
                }
                _ => Fate::open("Weir rejects certificates of authorities that it does not know"),
            },
            "sslprotocol" => {
                Fate::unneeded("Weir speaks TLS 1.2 and 1.3; `crypto = \"modern\"` leaves only 1.3")
            }
            name if name.starts_with("ssl") && !matches!(name, "sslrequire" | "sslrequiressl") => {
                Fate::unneeded("Weir's TLS settings are safe by default; `crypto` selects others")
            }
            "customlog" | "transferlog" => log(directive, &mut host.site.log),
            "errorlog" => logs::messages(directive, &named_log(arg), server),
            "timeout" => match seconds(arg) {
                Some(span) if span > 0 => share("write-timeout", quote(&format!("{span}s"))),
                _ => Fate::missing("this is not a time"),
            },
            "keepalivetimeout" => match seconds(arg) {
                Some(span) if span > 0 => share("idle-timeout", quote(&format!("{span}s"))),
                _ => Fate::missing("this is not a time"),
            },
            "maxkeepaliverequests" => match arg.parse::<u32>() {
                Ok(number) => share("max-requests-per-connection", number.to_string()),
                Err(_) => Fate::missing("this is not a number"),
            },
            "limitrequestbody" => match arg.parse::<u64>() {
                Ok(size) if size > 0 => share("max-body-size", size.to_string()),
                _ => Fate::missing("Weir has no unlimited size"),
            },
            "protocols" => Fate::unneeded("Weir speaks HTTP/2 over TLS"),
            "userdir" if arg.eq_ignore_ascii_case("disabled") => {
                host.site.tilde = None;
                Fate::unneeded("without `tilde`, there are no pages of logins")
            }
            "userdir" if directive.args.len() == 1 && !arg.starts_with('/') && !arg.contains('*') => {
                host.site.tilde = Some(format!("{{ directory = {} }}", quote(arg)));
                Fate::Carried
            }
            _ => {
                rest.push(directive.clone());
                continue;
            }
        };
        directive.note_all(&fate, cx.report);
    }
    rest
}

/// The file of a log. The scripts of Debian set the folder.
fn named_log(text: &str) -> String {
    text.replace("${APACHE_LOG_DIR}", "/var/log/apache2")
}

/// Reads `CustomLog`: the log of a virtual host.
fn log(directive: &Directive, log: &mut Option<Log>) -> Fate {
    let path = named_log(directive.arg(0));
    if path.starts_with('|') || path.contains(['$', '%']) || path.starts_with("syslog:") {
        return Fate::missing(format!(
            "`{path}` is no file of one name, and no `-` for standard output"
        ));
    }
    let (format, fate) = match directive.arg(1).to_ascii_lowercase().as_str() {
        "combined" => ("combined", Fate::Carried),
        "common" => ("common", Fate::Carried),
        _ => ("combined", Fate::changed("in the `combined` format")),
    };
    access_log::set(log, Log::of_format(&path, format), fate)
}

/// An address of `Listen` or of `<VirtualHost>` as Weir writes it.
fn address(text: &str) -> Option<String> {
    if let Ok(port) = text.parse::<u16>() {
        return Some(format!(":{port}"));
    }
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    match host {
        "*" | "_default_" => Some(format!(":{port}")),
        host => {
            let ip: std::net::IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
            Some(std::net::SocketAddr::new(ip, port).to_string())
        }
    }
}

/// The ports of a virtual host. Empty: an address names none, and the virtual host is at all of them.
fn ports(addresses: &[String]) -> Vec<u16> {
    let port = |text: &String| text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let ports = addresses.iter().map(port).collect::<Option<Vec<u16>>>();
    ports.unwrap_or_default()
}

fn assemble(top: Host, hosts: Vec<Host>, listens: &[String], server: &mut Server, report: &mut Report) {
    let the_result = At {
        file: "the result".into(),
        line: 0,
    };
    let secure_names: Vec<String> = hosts
        .iter()
        .filter(|host| host.is_secure)
        .flat_map(|host| host.site.names.clone())
        .collect();
    let mut all: Vec<String> = listens.to_vec();
    all.extend(
        hosts
            .iter()
            .flat_map(|host| host.addresses.iter().filter_map(|text| address(text))),
    );
    for at in all {
        let port = |text: &str| text.rsplit(':').next().map(str::to_owned);
        let is_secure = hosts
            .iter()
            .filter(|host| host.is_secure)
            .flat_map(|host| &host.addresses)
            .any(|text| address(text).is_some_and(|address| port(&address) == port(&at)));
        let list = if is_secure {
            &mut server.secure
        } else {
            &mut server.listen
        };
        // An address of all interfaces includes the others of its port.
        let has = list
            .iter()
            .any(|known| *known == at || (known.starts_with(':') && port(known) == port(&at)));
        if at.starts_with(':') {
            list.retain(|known| port(known) != port(&at) || *known == at);
        }
        if !has {
            list.push(at);
        }
    }
    // Whether an address of a virtual host is one of these.
    let is_of_kind = |text: &str, is_it: fn(std::net::IpAddr) -> bool| {
        let at = address(&text.replace("localhost", "127.0.0.1"))?;
        let is_one = |at: &str| at.parse::<std::net::SocketAddr>().ok().map(|at| is_it(at.ip()));
        // An address of all interfaces is that of `Listen`.
        let port = at.strip_prefix(':').map(|port| format!(":{port}"));
        match port {
            None => is_one(&at),
            Some(port) => {
                let mut said = listens.iter().filter(|listen| listen.ends_with(&port)).peekable();
                said.peek()?;
                Some(said.all(|listen| is_one(listen) == Some(true)))
            }
        }
    };
    let all_are = |host: &Host, is_it: fn(std::net::IpAddr) -> bool| {
        let mut addresses = host.addresses.iter();
        !host.addresses.is_empty() && addresses.all(|text| is_of_kind(text, is_it) == Some(true))
    };
    let is_alone = hosts.is_empty();
    let mut wished: Vec<Site> = Vec::new();
    wished.extend(top.wishes.hosts);
    let mut sites: Vec<(At, Site)> = Vec::new();
    if is_alone {
        if let Some(wish) = &top.wishes.lead {
            let why = "no address has TLS here; set `domain` or certificates, and `https-redirect = true`";
            report.replace(&wish.said.0, &wish.said.1, Fate::missing(why));
        }
        let mut site = top.site;
        site.names.clear();
        sites.push((the_result.clone(), site));
    }
    let has_secured = hosts.iter().any(|host| host.is_secure);
    for mut host in hosts {
        let at = host.at.clone().unwrap_or_else(|| the_result.clone());
        // A host that one rule redirects has the lines of every response of its virtual host, and its log.
        let always: Vec<_> = host
            .site
            .header_rules
            .iter()
            .filter(|rule| rule.always && rule.path == "/*")
            .cloned()
            .collect();
        let log = host.site.log.clone();
        wished.extend(
            std::mem::take(&mut host.wishes.hosts)
                .into_iter()
                .map(|site| Site {
                    header_rules: always.clone(),
                    log: log.clone(),
                    ..site
                }),
        );
        host.site.is_local = all_are(&host, |ip| ip.is_loopback());
        host.site.is_private = all_are(&host, is_private);
        host.site.ports = ports(&host.addresses);
        let lead = lead(&host, &secure_names, report);
        if let Some((lead, names)) = note_cleartext(&host, lead, &secure_names, server)
            && has_secured
        {
            // Names without TLS are redirected by their own virtual host.
            host.site.names.retain(|name| !names.contains(name));
            if !host.site.names.is_empty() && lead.to.is_some() {
                sites.push((at, host.site));
            }
            continue;
        }
        let mut site = host.site;
        // Of two virtual hosts for one name, that with TLS is its site, wherever it is in the file.
        if !host.is_secure {
            let twins = crate::twins::leave(&mut site.names, &secure_names);
            if !twins.is_empty() {
                let shown = format!("<VirtualHost {}>", host.addresses.join(" "));
                report.add(
                    &at,
                    &shown,
                    Fate::missing(crate::twins::why("virtual host", &twins)),
                );
                if site.names.is_empty() {
                    continue;
                }
            }
        }
        sites.push((at, site));
    }
    let has_default = server.cleartext.iter().any(|one| one.is_default);
    if let Some(first) = server.cleartext.first_mut().filter(|_| !has_default) {
        first.is_default = true;
    }
    for (at, site) in &mut sites {
        if site.closes_upstreams {
            let paths = site.proxies.iter().map(|rule| Access::nobody(&rule.path));
            let closed: Vec<Access> = paths.collect();
            site.access.extend(closed);
        }
        site.order_sections();
        // Apache applies `<If>` behind all other sections, and a later rule of Weir replaces the lines of an earlier one.
        site.header_rules.sort_by_key(|rule| !rule.conditions.is_empty());
        if let Err(why) = upstream::finish(site) {
            report.add(at, "RewriteRule", Fate::missing(why));
        }
    }
    place(sites, wished, server, report);
    let has_one =
        !server.top.certificates.is_empty() || server.hosts.iter().any(|host| !host.certificates.is_empty());
    if !server.secure.is_empty() && !has_one {
        let addresses = std::mem::take(&mut server.secure);
        server.keys.retain(|(key, _)| key != "https-redirect");
        let why = "no certificate is known for these addresses; set `domain`, or `tls-cert` and `tls-key`";
        report.add(
            &the_result,
            &format!("Listen {}", addresses.join(" ")),
            Fate::missing(why),
        );
    }
}

/// The redirect of a virtual host in cleartext to https, and the names that it is for.
fn lead(host: &Host, secured: &[String], report: &mut Report) -> Option<(Lead, Vec<String>)> {
    let at = host.at.clone()?;
    if let Some(wish) = &host.wishes.lead {
        let (said, shown) = &wish.said;
        if host.is_secure {
            let fate = match wish.is_conditional {
                true => Fate::unneeded("the virtual host has TLS"),
                false => Fate::missing("the virtual host redirects to itself"),
            };
            report.replace(said, shown, fate);
            return None;
        }
        let names = match wish.names.is_empty() {
            true => host.site.names.clone(),
            false => wish.names.clone(),
        };
        let mut lead = leaving(host, &wish.rule, wish.to.clone(), &at, report);
        lead.said.push((said.clone(), shown.clone()));
        lead.needs_field = wish.needs_field;
        return Some((lead, names));
    }
    let rule = host.site.redirects.iter().find(|rule| to_https::is_whole(rule))?;
    let name = rule.to.strip_prefix("https://")?.trim_end_matches(['*', '/']);
    let is_one = !host.is_secure && secured.iter().any(|known| known == name);
    is_one.then(|| {
        let lead = leaving(host, rule, Some(name.to_owned()), &at, report);
        let names = host.site.names.iter().filter(|name| secured.contains(name));
        (lead, names.cloned().collect())
    })
}

/// The redirect of a virtual host, with what it answers for the paths that the redirect leaves out.
fn leaving(host: &Host, rule: &Redirect, to: Option<String>, at: &At, report: &mut Report) -> Lead {
    let mut site = host.site.clone();
    site.order_sections();
    let (lead, lost) = to_https::lead_of(&site, rule, to, Vec::new());
    to_https::note_lost(at, &lost, report);
    lead
}

/// Notes what a virtual host answers in cleartext. Returns the redirect, and the names that are redirected to https.
fn note_cleartext(
    host: &Host,
    lead: Option<(Lead, Vec<String>)>,
    secured: &[String],
    server: &mut Server,
) -> Option<(Lead, Vec<String>)> {
    if host.is_secure {
        return None;
    }
    let names = lead.as_ref().map_or(&[][..], |(_, names)| names);
    let others = host.site.names.iter().filter(|name| !names.contains(name));
    let others: Vec<String> = others.cloned().collect();
    let is_default = !host.site.is_local && !server.cleartext.iter().any(|one| one.is_default);
    if let Some((lead, names)) = &lead {
        server.cleartext.push(Cleartext {
            names: names.clone(),
            is_default,
            lead: Some(lead.clone()),
        });
    }
    if !others.is_empty() || lead.is_none() {
        server.cleartext.push(Cleartext {
            is_default: is_default && lead.is_none(),
            names: others.clone(),
            lead: None,
        });
    }
    // Names that are answered as before stay with the virtual host.
    let is_lost = others.iter().any(|name| secured.contains(name));
    lead.filter(|_| !is_lost)
}

/// A virtual host, as reports show it.
fn shown(site: &Site) -> String {
    format!("<VirtualHost {}>", site.names.join(" "))
}

/// The first virtual host answers unknown hosts, as in Apache.
fn place(sites: Vec<(At, Site)>, wished: Vec<Site>, server: &mut Server, report: &mut Report) {
    let mut known: Vec<String> = Vec::new();
    let mut sites = sites.into_iter();
    if let Some((at, mut top)) = sites.next() {
        top.at = Some((at, shown(&top)));
        known.extend(top.names.iter().cloned());
        server.top = top;
    }
    let nowhere = At {
        file: "the result".into(),
        line: 0,
    };
    let others = wished
        .into_iter()
        .map(|site| (nowhere.clone(), site))
        .chain(sites);
    for (at, mut site) in others.collect::<Vec<_>>() {
        let is_redirect = site
            .redirects
            .first()
            .is_some_and(|rule| rule.conditions.is_empty() && rule.from == "*");
        // A host that is redirected as a whole may be a name of another one.
        if !is_redirect {
            site.names.retain(|name| !known.contains(name));
        }
        let shown = shown(&site);
        site.at = Some((at.clone(), shown.clone()));
        if site.names.is_empty() {
            for pair in site.certificates {
                if !server.top.certificates.contains(&pair) {
                    server.top.certificates.push(pair);
                }
            }
            report.add(&at, &shown, Fate::missing("another virtual host has these names, or it has none: Weir's hosts answer at all addresses alike"));
            continue;
        }
        if server.hosts.len() == HOSTS_MAX {
            report.add(
                &at,
                &shown,
                Fate::missing(format!("Weir has at most {HOSTS_MAX} hosts")),
            );
            continue;
        }
        for host in &mut server.hosts {
            host.names.retain(|name| !site.names.contains(name));
        }
        server.hosts.retain(|host| !host.names.is_empty());
        known.extend(site.names.iter().cloned());
        server.hosts.push(site);
    }
}
