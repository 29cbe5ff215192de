//! nginx: from the tree of directives to the model. This file reads `main`, `http` and `server`, and decides which server
//! answers unknown hosts.

mod access;
mod admission;
mod closed;
mod condition;
mod goal;
mod level;
mod limits;
mod lines;
mod listen;
mod location;
mod log;
mod parse;
mod place;
mod plain;
mod reach;
mod redirect;
mod scripts;
mod trusted;
mod upstream;

use crate::directive::Directive;
use crate::fate::Fate;
use crate::files::{Files, Text};
use crate::logs;
use crate::model::{Certificate, Cleartext, HOSTS_MAX, Lead, Redirect, Server, Site};
use crate::regex::Match;
use crate::report::{At, Report, Unreadable};
use crate::to_https;
use crate::value::{is_host_name, is_private};
use goal::{Goal, Variables};
use level::Level;
use listen::Listen;
use location::Context;
use upstream::Groups;

/// Reads a configuration of nginx.
///
/// # Errors
/// A mistake of syntax.
pub(crate) fn convert(main: &Text, files: &dyn Files, report: &mut Report) -> Result<Server, Unreadable> {
    let tree = parse::parse(main, files, report)?;
    let mut server = Server::default();
    let mut drafts = Vec::new();
    let is_whole = tree.iter().any(|directive| directive.name == "http");
    let (inside, main): (Vec<Directive>, Vec<Directive>) = match is_whole {
        true => {
            let (http, main): (Vec<Directive>, Vec<Directive>) =
                tree.into_iter().partition(|one| one.name == "http");
            let inside = http.into_iter().flat_map(|http| {
                report.add(&http.at, "http", Fate::Carried);
                http.block.unwrap_or_default()
            });
            (inside.collect(), main)
        }
        false => (tree, Vec::new()),
    };
    for directive in &main {
        let fate = match directive.name.as_str() {
            "error_log" => logs::messages(directive, directive.arg(0), &mut server),
            _ => of_main(directive, report),
        };
        report.add(&directive.at, &directive.shown(), fate);
    }
    http(&inside, &mut server, &mut drafts, report);
    assemble(drafts, &mut server, report);
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        site.leave_names_of_folders();
    }
    Ok(server)
}

fn of_main(directive: &Directive, report: &mut Report) -> Fate {
    for inner in directive.inner() {
        let fate = of_main(inner, report);
        report.add(&inner.at, &inner.shown(), fate);
    }
    match directive.name.as_str() {
        "user" => {
            Fate::missing("the unit of Weir's packages sets the user; add `user` if you start Weir as root")
        }
        "worker_processes" if directive.arg(0) == "auto" => {
            Fate::unneeded("Weir starts a worker for each core")
        }
        "worker_processes" => {
            Fate::missing("`workers` sets the number of threads; by default, Weir starts one for each core")
        }
        name => {
            plain::fate(name).unwrap_or_else(|| Fate::missing("the converter does not know this directive"))
        }
    }
}

fn http(block: &[Directive], server: &mut Server, drafts: &mut Vec<Draft>, report: &mut Report) {
    let mut level = Level::default();
    let mut groups = Groups::new();
    for directive in block {
        let fate = match directive.name.as_str() {
            "server" => continue,
            "upstream" => {
                upstream::group(directive, &mut groups, report);
                continue;
            }
            "user" | "worker_processes" => of_main(directive, report),
            "fastcgi_param" => scripts::param_around(directive, block, &mut level.params, true),
            // Every example of WebSocket has it, for the field `Connection`.
            "map" if directive.arg(0) == "$http_upgrade" => {
                Fate::unneeded("Weir keeps connections, and lets clients switch to WebSocket (`websocket`)")
            }
            name if name != "types" && directive.block.is_some() && !access::is_check(name) => {
                location::refuse(
                    directive,
                    plain::fate(&directive.name)
                        .as_ref()
                        .map_or("the converter does not know this block", Fate::why),
                    report,
                );
                continue;
            }
            _ => of_http(directive, &mut level, server),
        };
        directive.note_all(&fate, report);
    }
    let servers = || block.iter().filter(|directive| directive.name == "server");
    let has_only_sockets = listen::are_all_sockets(servers());
    for directive in servers() {
        report.add(&directive.at, "server", Fate::Carried);
        let around = (&level, has_only_sockets);
        drafts.extend(self::server(directive, around, &groups, server, report));
    }
}

fn of_http(directive: &Directive, level: &mut Level, server: &mut Server) -> Fate {
    if directive.name == "client_max_body_size" {
        // For upstreams, and for the bodies that Weir discards.
        return level.read(directive).unwrap_or(Fate::Carried);
    }
    if directive.name == "access_log" {
        return log::access(directive, &mut level.site.log, server);
    }
    if directive.name == "error_log" {
        return logs::messages(directive, directive.arg(0), server);
    }
    if let Some(fate) = certificate(directive, &mut level.site) {
        return fate;
    }
    level
        .read(directive)
        .or_else(|| level::global(directive, level.server.as_ref(), server))
        .or_else(|| plain::fate(&directive.name))
        .unwrap_or_else(|| plain::unknown(&directive.name))
}

/// Reads a directive about certificates of clients. `None`: it is none.
fn certificate(directive: &Directive, site: &mut Site) -> Option<Fate> {
    Some(match (directive.name.as_str(), directive.arg(0)) {
        ("ssl_client_certificate", file) => {
            site.authorities = Some(file.to_owned());
            Fate::changed("for all hosts: Weir asks for a certificate before it knows the host")
        }
        ("ssl_verify_client", "off") => {
            site.certificate = Certificate::NotAsked;
            Fate::unneeded("clients are not asked for certificates")
        }
        ("ssl_verify_client", "on") => {
            site.certificate = Certificate::Needed;
            Fate::Carried
        }
        ("ssl_verify_client", "optional") => {
            site.certificate = Certificate::Optional;
            Fate::Carried
        }
        ("ssl_verify_client", _) => {
            Fate::open("Weir rejects certificates of authorities that it does not know")
        }
        _ => return None,
    })
}

/// A `server` block.
struct Draft {
    at: At,
    site: Site,
    listens: Vec<Listen>,
    /// Whether the block answers hosts that no other block names.
    is_default: bool,
    /// The redirect of all requests to https at the host of the request.
    lead: Option<Lead>,
    /// Names whose requests are redirected to https, and the directives that say so.
    led: Vec<(String, Lead)>,
    /// Whether the block refuses handshakes.
    rejects: bool,
    /// Whether this is a host of a block whose other hosts are another draft.
    is_part: bool,
}

impl Draft {
    fn is_clear(&self) -> bool {
        self.listens.iter().any(|listen| !listen.is_secure)
    }

    fn is_secure(&self) -> bool {
        self.listens.iter().any(|listen| listen.is_secure)
    }
}

/// Reads a `server` block; each `if ($host = NAME)` that redirects is a site of its own, before it.
fn server(
    block: &Directive,
    (around, has_only_sockets): (&Level, bool),
    groups: &Groups,
    server: &mut Server,
    report: &mut Report,
) -> Vec<Draft> {
    let mut level = around.inside(block.inner());
    level.access.note_servers(block.inner());
    level.server = Some(block.at.clone());
    let mut draft = Draft {
        at: block.at.clone(),
        site: Site::default(),
        listens: Vec::new(),
        is_default: false,
        lead: None,
        led: Vec::new(),
        rejects: block
            .inner()
            .iter()
            .any(|one| one.name == "ssl_reject_handshake" && one.arg(0) == "on"),
        is_part: false,
    };
    let mut has_ssl = false;
    // Whether each address is one of this machine.
    let mut local: Vec<bool> = Vec::new();
    for directive in block.inner() {
        match directive.name.as_str() {
            "listen" => {
                if listen::is_socket(directive.arg(0)) {
                    local.push(true);
                }
                let fate = match listen::read(&directive.args, has_only_sockets, server) {
                    Ok((listen, fate)) => {
                        draft.is_default |= listen.is_default;
                        local.push(listen.address.ip().is_loopback());
                        draft.listens.push(listen);
                        fate
                    }
                    Err(fate) => fate,
                };
                report.add(&directive.at, &directive.shown(), fate);
            }
            "server_name" => {
                let fate = names(directive, &mut draft.site.names);
                report.add(&directive.at, &directive.shown(), fate);
            }
            "ssl" => {
                has_ssl = directive.arg(0) == "on";
                report.add(&directive.at, &directive.shown(), Fate::Carried);
            }
            _ => {}
        }
    }
    if draft.listens.is_empty() {
        draft.listens.push(match local.is_empty() {
            true => Listen::default(),
            false => Listen::stand_in(),
        });
    }
    if has_ssl {
        draft
            .listens
            .iter_mut()
            .for_each(|listen| listen.is_secure = true);
    }
    let variables = Variables {
        host: match draft.site.names.as_slice() {
            [one] if !one.starts_with('*') => Some(one.clone()),
            _ => None,
        },
        is_secure: draft.is_secure(),
    };
    let skipped = [
        "listen",
        "server_name",
        "ssl",
        "location",
        "if",
        "return",
        "rewrite",
        "try_files",
    ];
    for directive in block
        .inner()
        .iter()
        .filter(|one| !skipped.contains(&one.name.as_str()))
    {
        let fate = match directive.name.as_str() {
            "fastcgi_param" => {
                scripts::param_around(directive, block.inner(), &mut level.params, draft.is_clear())
            }
            _ => of_server(directive, &mut level, server),
        };
        directive.note_all(&fate, report);
    }
    let names = std::mem::take(&mut draft.site.names);
    let is_private = draft.listens.iter().all(|listen| is_private(listen.address.ip()));
    let is_secure = draft.is_secure();
    if !is_secure {
        level.site.certificate = Certificate::NotAsked;
    }
    let ports = draft.listens.iter().filter(|listen| !listen.is_stand_in);
    let ports = ports.map(|listen| listen.address.port());
    draft.site = Site {
        names,
        is_local: !local.is_empty() && !local.contains(&false),
        is_private,
        ports: ports.collect(),
        ..level.site.clone()
    };
    let mut drafts = Vec::new();
    for directive in block.inner() {
        let fate = match directive.name.as_str() {
            "if" => {
                drafts.extend(conditional(directive, &mut draft, &variables, report));
                continue;
            }
            "return" => match goal::of_return(directive.args.last().map_or("", |text| text), "*", &variables)
            {
                _ if draft.lead.is_some() && !is_secure => {
                    Fate::unneeded("all requests in cleartext are redirected to https")
                }
                Ok(Goal::Secure(host)) if !is_secure => {
                    draft.lead = Some(leading(directive, host));
                    Fate::Carried
                }
                Ok(Goal::Secure(_)) => Fate::missing("the server redirects to itself"),
                Ok(Goal::To(_)) | Err(_) => {
                    redirect::returns(directive, &Match::plain("*"), &mut draft.site, &variables)
                }
            },
            "rewrite" => match goal::of_rewrite(directive.arg(0), directive.arg(1), &variables)
                .as_ref()
                .map(|(rules, differs)| (&rules[..], differs))
            {
                Ok(([(from, Goal::Secure(host))], _)) if from == "*" && !is_secure => {
                    draft.lead = Some(leading(directive, host.clone()));
                    Fate::Carried
                }
                _ => redirect::inside(directive, block.inner(), &mut draft.site).unwrap_or_else(|| {
                    redirect::rewrite(directive, &["*".to_owned()], &mut draft.site, &variables)
                }),
            },
            "try_files" => location::try_files(directive, &["*".to_owned()], block.inner(), &mut draft.site),
            _ => continue,
        };
        report.add(&directive.at, &directive.shown(), fate);
    }
    // nginx redirects by the server's own rules before it chooses a location.
    let early: Vec<String> = draft.site.redirected();
    let mut cx = Context {
        said: Vec::new(),
        refused: Vec::new(),
        folders: Vec::new(),
        header_rules: Vec::new(),
        groups,
        around: block.inner(),
        variables,
        is_clear: draft.is_clear(),
        report,
        server,
    };
    let everything = ["/*".to_owned()];
    location::locations(
        block.inner(),
        (&everything, &[]),
        &level,
        &mut draft.site,
        &mut cx,
    );
    location::mount_folders(&mut draft.site, &mut cx);
    scripts::leave_upstreams(&mut draft.site);
    // A later rule of Weir replaces the lines of an earlier one.
    cx.header_rules.reverse();
    draft.site.header_rules.append(&mut cx.header_rules);
    if let Err(why) = draft.site.keep_from_upstreams(&early) {
        report.add(&block.at, "rewrite", Fate::missing(why));
    }
    if level.access.is_said() {
        draft.site.access.push(level.access.rule("/*"));
    }
    location::close_scripts(block.inner(), &mut draft.site);
    reach::leave_start(&mut draft.site, block, report);
    draft.site.fence();
    reach::fence_names(&mut draft.site);
    reach::keep_shortest(&mut draft.site, block, report);
    reach::keep_answers(&mut draft.site, &block.at, report);
    draft.site.limits.extend(around.limits.of("/*"));
    draft.site.limits.extend(level.limits.of("/*"));
    reach::bound(&mut draft.site, &block.at, report);
    // nginx sends the lines of a server with redirects, too; Weir sends only those of rules with `always`.
    let site = &mut draft.site;
    if site.redirected().iter().any(|from| from == "*") {
        site.header_always.append(&mut site.header);
    } else if !site.header.is_empty() && !site.redirects.is_empty() {
        let why = "Weir sends them with files, not with redirects; a `[[header-rule]]` with `always = true` is for both";
        report.add(&block.at, "add_header and expires", Fate::changed(why));
    }
    secured(&mut draft, report);
    // Names of their own, if others of the block are answered.
    if draft.lead.is_none() {
        let led = std::mem::take(&mut draft.led);
        draft
            .site
            .names
            .retain(|name| !led.iter().any(|(known, _)| known == name));
        if draft.site.names.is_empty() && !draft.is_default {
            draft.lead = led.first().map(|(_, lead)| lead.clone());
        }
        for (name, lead) in led {
            drafts.push(Draft {
                at: block.at.clone(),
                site: Site {
                    names: vec![name],
                    ..Site::default()
                },
                listens: draft.listens.clone(),
                is_default: false,
                lead: Some(lead),
                led: Vec::new(),
                rejects: false,
                is_part: true,
            });
        }
    }
    drafts.push(draft);
    drafts
}

/// The redirect to https of all requests that a directive means.
fn leading(directive: &Directive, to: Option<String>) -> Lead {
    let is_status = |arg: &String| {
        arg.parse::<u16>()
            .ok()
            .filter(|status| (301..=308).contains(status))
    };
    let status = directive.args.iter().find_map(is_status).unwrap_or_else(|| {
        match directive.args.iter().any(|arg| arg == "permanent") {
            true => 301,
            false => 302,
        }
    });
    Lead {
        to,
        status,
        said: vec![(directive.at.clone(), directive.shown())],
        ..Lead::default()
    }
}

/// Reads the redirects to https of locations: of the whole server in cleartext, or of some paths.
fn secured(draft: &mut Draft, report: &mut Report) {
    let secured = std::mem::take(&mut draft.site.secured);
    let is_secure = draft.is_secure();
    let whole = secured.iter().find(|(rule, ..)| to_https::is_whole(rule));
    if let (Some((rule, ..)), false) = (whole, is_secure || draft.lead.is_some()) {
        let said = secured.iter().map(|(_, at, shown)| (at.clone(), shown.clone()));
        let (lead, lost) = to_https::lead_of(&draft.site, rule, None, said.collect());
        to_https::note_lost(&draft.at, &lost, report);
        draft.lead = Some(lead);
        return;
    }
    let host = match draft.site.names.as_slice() {
        [one] if !one.starts_with('*') => Some(one.clone()),
        _ => None,
    };
    for (rule, at, shown) in secured {
        let why = match (&host, is_secure) {
            (_, true) => "the server redirects to itself",
            (None, false) => "`$host` has several values here; write a `[[host]]` for each name",
            (Some(host), false) => {
                draft.site.redirects.push(Redirect {
                    to: format!("https://{host}{}", rule.from),
                    conditions: vec!["scheme http".to_owned()],
                    ..rule
                });
                continue;
            }
        };
        report.replace(&at, &shown, Fate::missing(why));
    }
}

fn of_server(directive: &Directive, level: &mut Level, server: &mut Server) -> Fate {
    match directive.name.as_str() {
        "ssl_reject_handshake" => {
            server.rejects_unknown |= directive.arg(0) == "on";
            Fate::changed("for all addresses with TLS")
        }
        name if name != "types" && directive.block.is_some() && !access::is_check(name) => {
            plain::fate(&directive.name).unwrap_or_else(|| plain::unknown(&directive.name))
        }
        _ => of_http(directive, level, server),
    }
}

fn names(directive: &Directive, names: &mut Vec<String>) -> Fate {
    let mut others = Vec::new();
    for text in &directive.args {
        let name = text.to_ascii_lowercase();
        match name.as_str() {
            "_" | "" => {}
            name if name.starts_with('.') && is_host_name(&name[1..]) => {
                names.extend([name[1..].to_owned(), format!("*{name}")]);
            }
            name if is_host_name(name) && !name.trim_start_matches("*.").contains('*') => {
                names.push(name.to_owned())
            }
            _ => others.push(text.as_str()),
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

/// Reads `if (CONDITION) { return ... }` of a server.
fn conditional(
    block: &Directive,
    draft: &mut Draft,
    variables: &Variables,
    report: &mut Report,
) -> Option<Draft> {
    let words: Vec<&str> = block
        .args
        .iter()
        .map(|word| word.trim_matches(['(', ')']))
        .filter(|word| !word.is_empty())
        .collect();
    let is_redirect =
        |one: &Directive| one.name == "return" || (one.name == "rewrite" && one.arg(1).contains("://"));
    let inner: Vec<&Directive> = block.inner().iter().filter(|one| one.name != "break").collect();
    let host = match words.as_slice() {
        ["$host" | "$http_host", "=", name] if is_host_name(name) => Some((*name).to_owned()),
        _ => None,
    };
    let is_scheme = matches!(
        words.as_slice(),
        ["$scheme", "=", "http"] | ["$scheme", "!=", "https"] | ["$https", "=", ""]
    );
    let mut as_rule = |report: &mut Report| {
        let everything = [Match::plain("*")];
        if let Err(why) = condition::apply(block, &everything, &mut draft.site, variables, report) {
            location::refuse(block, &why, report);
        }
    };
    let ([one], true) = (inner.as_slice(), host.is_some() || is_scheme) else {
        as_rule(report);
        return None;
    };
    if !is_redirect(one) {
        as_rule(report);
        return None;
    }
    let all_paths = variables;
    let variables = Variables {
        host: host.clone().or_else(|| variables.host.clone()),
        is_secure: variables.is_secure,
    };
    let text = one
        .args
        .iter()
        .find(|text| text.contains("://"))
        .map_or("", |text| text);
    let text = text.replace("$1", "$request_uri");
    let is_secured = matches!(goal::of_return(&text, "*", &variables), Ok(Goal::Secure(_)));
    let fates = match (host, is_secured) {
        (Some(_), true) if draft.is_secure() => (Fate::missing("the server redirects to itself"), None),
        (Some(name), true) => {
            draft.led.push((name, leading(one, None)));
            (Fate::Carried, None)
        }
        (None, true) if !draft.is_clear() => {
            (Fate::unneeded("the server has TLS at all its addresses"), None)
        }
        (None, true) => {
            draft.lead.get_or_insert_with(|| leading(one, None));
            (Fate::Carried, None)
        }
        (Some(name), false) => {
            let mut site = Site {
                names: vec![name.clone()],
                root: None,
                certificates: draft.site.certificates.clone(),
                log: draft.site.log.clone(),
                ..Site::default()
            };
            let fate = redirect::returns(
                &Directive {
                    args: vec![
                        one.args
                            .iter()
                            .find(|arg| arg.parse::<u16>().is_ok())
                            .cloned()
                            .unwrap_or_else(|| "301".to_owned()),
                        text,
                    ],
                    ..(*one).clone()
                },
                &Match::plain("*"),
                &mut site,
                &variables,
            );
            draft.site.names.retain(|known| *known != name);
            let host = Draft {
                at: block.at.clone(),
                site,
                listens: draft.listens.clone(),
                is_default: false,
                lead: None,
                led: Vec::new(),
                rejects: false,
                is_part: true,
            };
            (fate, Some(host))
        }
        (None, false) => {
            let everything = [Match::plain("*")];
            if let Err(why) = condition::apply(block, &everything, &mut draft.site, all_paths, report) {
                location::refuse(block, &why, report);
            }
            return None;
        }
    };
    let (fate, host) = fates;
    report.add(
        &block.at,
        &block.shown(),
        if matches!(fate, Fate::Missing(_)) {
            fate.clone()
        } else {
            Fate::Carried
        },
    );
    report.add(&one.at, &one.shown(), fate);
    for inner in block.inner().iter().filter(|one| one.name == "break") {
        report.add(&inner.at, &inner.shown(), Fate::unneeded("nothing follows it"));
    }
    host
}

/// Makes sites of the blocks: names the site of unknown hosts, joins blocks for the same names, and turns blocks that
/// only redirect to https into `https-redirect`.
fn assemble(mut drafts: Vec<Draft>, server: &mut Server, report: &mut Report) {
    listen::assemble(drafts.iter().flat_map(|draft| &draft.listens), server);
    let secured: Vec<String> = drafts
        .iter()
        .filter(|draft| draft.is_secure())
        .flat_map(|draft| draft.site.names.clone())
        .collect();
    let has_secured = drafts.iter().any(Draft::is_secure);
    for draft in drafts
        .iter_mut()
        .filter(|draft| !draft.is_secure() && draft.lead.is_none())
    {
        let Some((host, rule)) = leads(&draft.site).filter(|(host, _)| secured.contains(host)) else {
            continue;
        };
        let (lead, lost) = to_https::lead_of(&draft.site, &rule, Some(host), Vec::new());
        to_https::note_lost(&draft.at, &lost, report);
        draft.lead = Some(lead);
    }
    // Without TLS, they stay what they are.
    for draft in drafts.iter_mut().filter(|_| !has_secured) {
        if let Some(lead) = &mut draft.lead {
            draft.site.mounts = std::mem::take(&mut lead.rules).mounts;
        }
    }
    note_cleartext(&drafts, server);
    let mut sites: Vec<(At, bool, Site)> = Vec::new();
    for mut draft in drafts {
        // A site with TLS of the same names has the redirect, or the server that nothing else answers.
        if let Some(lead) = draft.lead.as_ref().filter(|_| !draft.is_secure() && has_secured) {
            // Names without a server of their own over TLS are redirected to the one named.
            let names = draft.site.names.iter();
            let strangers: Vec<String> = names.filter(|name| !secured.contains(name)).cloned().collect();
            if let Some(to) = lead.to.clone().filter(|_| !strangers.is_empty()) {
                let site = Site {
                    names: strangers,
                    redirects: vec![Redirect {
                        from: "*".to_owned(),
                        to: format!("https://{to}*"),
                        status: lead.status,
                        except: lead.kept.clone(),
                        ..Redirect::default()
                    }],
                    mounts: lead.rules.mounts.clone(),
                    proxies: lead.rules.proxies.clone(),
                    access: lead.rules.access.clone(),
                    refusals: lead.rules.refusals.clone(),
                    log: draft.site.log.clone(),
                    ..Site::default()
                };
                sites.push((draft.at.clone(), false, site));
            }
            continue;
        }
        if draft.rejects && !draft.site.names.is_empty() {
            draft.site.close(&["/*".to_owned()]);
        }
        // Of two blocks for one name, that with TLS is its site, wherever it is in the file.
        if !draft.is_secure() {
            let twins = crate::twins::leave(&mut draft.site.names, &secured);
            if !twins.is_empty() {
                let fate = Fate::missing(crate::twins::why("server block", &twins));
                report.add(&draft.at, &format!("server {}", twins.join(" ")), fate);
                if draft.site.names.is_empty() {
                    continue;
                }
            }
        }
        draft.site.certificates.dedup();
        sites.push((draft.at, draft.is_default, draft.site));
    }
    place(sites, server, report);
    certificates(server, report);
    let is_asked = |(key, value): &(String, String)| key == "http3" && value == "true";
    if server.keys.iter().any(is_asked) && server.secure.is_empty() {
        server.keys.retain(|key| !is_asked(key));
        let at = At {
            file: "the result".into(),
            line: 0,
        };
        report.add(
            &at,
            "http3",
            Fate::missing("no address has TLS, so `http3` is off"),
        );
    }
}

/// The host that a site redirects everything to, over https, and the redirect.
fn leads(site: &Site) -> Option<(String, Redirect)> {
    // What these files are for is more than a redirect.
    if !site.tried.is_empty() {
        return None;
    }
    let rule = site.redirects.iter().find(|rule| to_https::is_whole(rule))?;
    let to = rule.to.strip_prefix("https://")?;
    let host = match rule.from.as_str() {
        "*" => to.strip_suffix('*'),
        _ => to.strip_suffix("/*"),
    };
    let host = host.filter(|host| is_host_name(host))?;
    Some((host.to_owned(), rule.clone()))
}

/// Notes what answers in cleartext, for the redirects to https.
fn note_cleartext(drafts: &[Draft], server: &mut Server) {
    let clear = || drafts.iter().filter(|draft| draft.is_clear());
    let named = |draft: &Draft| draft.listens.iter().any(|one| !one.is_secure && one.is_default);
    let whole = |draft: &&Draft| !draft.is_part;
    // Few clients reach the addresses of this machine.
    let public = |draft: &Draft| !draft.is_part && !draft.site.is_local;
    let default = clear()
        .position(|draft| named(draft) && public(draft))
        .or_else(|| clear().position(public))
        .or_else(|| clear().position(|draft| whole(&draft)));
    for (at, draft) in clear().enumerate() {
        let secured = |name: &&String| {
            let other = |other: &&Draft| other.is_secure() && other.site.names.contains(name);
            drafts.iter().any(|one| other(&one))
        };
        // Names without TLS have a redirect of their own, to another host.
        let to_other = draft.lead.as_ref().is_some_and(|lead| lead.to.is_some()) && !draft.is_secure();
        let names = draft.site.names.iter().cloned();
        let (strangers, names): (Vec<String>, Vec<String>) =
            names.partition(|name| to_other && !secured(&name));
        server.cleartext.push(Cleartext {
            names,
            is_default: Some(at) == default,
            lead: draft.lead.clone(),
        });
        if !strangers.is_empty() {
            server.cleartext.push(Cleartext {
                names: strangers,
                ..Cleartext::default()
            });
        }
    }
}

/// Chooses the site of unknown hosts and names the others.
fn place(sites: Vec<(At, bool, Site)>, server: &mut Server, report: &mut Report) {
    let default = sites.iter().position(|(_, is_default, _)| *is_default);
    let top = default.or_else(|| (!sites.is_empty()).then_some(0));
    let mut known: Vec<String> = Vec::new();
    for (index, (at, _, mut site)) in sites.into_iter().enumerate() {
        let wanted = site.names.len();
        site.names.retain(|name| !known.contains(name));
        let shown = format!("server {}", site.names.join(" "));
        site.at = Some((at.clone(), shown.clone()));
        if Some(index) == top {
            known.extend(site.names.iter().cloned());
            server.top = site;
            continue;
        }
        let twins = wanted > site.names.len();
        let mut names = Vec::new();
        for name in site.names {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        site.names = names;
        if site.names.is_empty() {
            let why = match twins {
                true => "another server block has these names: Weir's hosts answer at all addresses alike",
                false => {
                    "it has no name, and another server block answers unknown hosts: Weir's hosts answer at all addresses alike"
                }
            };
            // Certificates of a block for the same names belong to the site that is kept.
            join_certificates(server, &site);
            report.add(&at, &shown, Fate::missing(why));
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
        known.extend(site.names.iter().cloned());
        server.hosts.push(site);
    }
}

fn join_certificates(server: &mut Server, site: &Site) {
    for pair in &site.certificates {
        let has = server.top.certificates.contains(pair)
            || server.hosts.iter().any(|host| host.certificates.contains(pair));
        if !has {
            server.top.certificates.push(pair.clone());
        }
    }
}

/// Keeps addresses with TLS only if there is a certificate.
fn certificates(server: &mut Server, report: &mut Report) {
    let has_one =
        !server.top.certificates.is_empty() || server.hosts.iter().any(|host| !host.certificates.is_empty());
    if server.secure.is_empty() || has_one {
        return;
    }
    let addresses = std::mem::take(&mut server.secure);
    server.keys.retain(|(key, _)| key != "https-redirect");
    let at = At {
        file: "the result".into(),
        line: 0,
    };
    let why = "no certificate is known for these addresses; set `domain` for one by ACME, or `tls-cert` and `tls-key`";
    report.add(
        &at,
        &format!("listen {}", addresses.join(" ")),
        Fate::missing(why),
    );
}
