//! The model as TOML: keys of the top level, its site, listeners, hosts. Decides order and spelling only.

use crate::access::Access;
use crate::fate::Fate;
use crate::logs;
use crate::model::{HeaderRule, Limit, Mount, Proxy, Removal, Respond, Server, Site};
use crate::report::{Group, LISTED_MAX, Report};
use crate::rootless;
use crate::value::{list, quote};
use core::fmt::Write as _;

/// The text of the file.
pub(crate) fn toml(server: &Server, report: &Report, origin: &str) -> String {
    let mut out = format!(
        "# Converted from {origin} by `weir convert`. Test it with `weir serve --config FILE --check`.\n"
    );
    for group in &report.groups() {
        let word = match group.fate {
            Fate::Open(_) => "OPEN",
            Fate::Missing(_) => "missing",
            _ => continue,
        };
        // A comment ends with its line.
        let text = format!("{word}: {}: {}", places(group), group.fate.why());
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let _ = writeln!(out, "# {text}");
    }
    out.push('\n');
    let managed = server.has("domain") || server.has("tls");
    if !server.listen.is_empty() && !managed {
        let _ = writeln!(out, "listen = {}", list(&server.listen));
    }
    if !server.secure.is_empty() && managed {
        let _ = writeln!(out, "listen = {}", list(&server.secure));
    }
    for (key, value) in &server.keys {
        let _ = writeln!(out, "{key} = {value}");
    }
    if let Some(messages) = &server.messages {
        let _ = writeln!(out, "server-log = {}", quote(&messages.file));
    }
    if !server.trusted.is_empty() {
        let _ = writeln!(out, "trusted = {}", list(&server.trusted));
        if server.proxy_protocol {
            out.push_str("proxy-protocol = true\n");
        }
    }
    logs::write(&mut out, &server.top, None);
    plain(&mut out, &server.top, None);
    tables(&mut out, &server.top, "");
    if !server.secure.is_empty() && !managed {
        listener(&mut out, server);
    }
    if !server.listen.is_empty() && managed {
        let _ = write!(out, "\n[[listener]]\naddress = {}\n", list(&server.listen));
    }
    for host in &server.hosts {
        let _ = write!(out, "\n[[host]]\nnames = {}\n", list(&host.names));
        let (certs, keys): (Vec<String>, Vec<String>) = host.certificates.iter().cloned().unzip();
        if !certs.is_empty() {
            let _ = write!(out, "tls-cert = {}\ntls-key = {}\n", list(&certs), list(&keys));
        }
        logs::write(&mut out, host, Some(&server.top));
        plain(&mut out, host, Some(&server.top));
        tables(&mut out, host, "host.");
    }
    out
}

/// The directives of a group with their places: the first ones, and how many more there are.
fn places(group: &Group<'_>) -> String {
    let listed = group.notes.iter().take(LISTED_MAX);
    let listed: Vec<String> = listed
        .map(|note| format!("{}:{}: {}", note.file, note.line, note.directive))
        .collect();
    match group.notes.len() - listed.len() {
        0 => listed.join("; "),
        more => format!("{}; and {more} more", listed.join("; ")),
    }
}

fn listener(out: &mut String, server: &Server) {
    let (certs, keys): (Vec<String>, Vec<String>) = server.top.certificates.iter().cloned().unzip();
    let mut tls = Vec::new();
    if !certs.is_empty() {
        tls.push(format!("cert = {}, key = {}", list(&certs), list(&keys)));
    }
    if let Some((file, is_optional)) = &server.client_ca {
        tls.push(format!("client-ca = {}", quote(file)));
        if *is_optional {
            tls.push("client-auth = \"optional\"".to_owned());
        }
    }
    if server.rejects_unknown {
        tls.push("unknown-name = \"reject\"".to_owned());
    }
    let tls = match tls.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", tls.join(", ")),
    };
    let _ = write!(
        out,
        "\n[[listener]]\naddress = {}\ntls = {tls}\n",
        list(&server.secure)
    );
    if server.proxy_protocol && !server.trusted.is_empty() {
        out.push_str("proxy-protocol = true\n");
    }
}

/// The keys of a site. A host inherits from `top`, so it also states that it lacks what the top level has.
fn plain(out: &mut String, site: &Site, top: Option<&Site>) {
    if let Some(root) = &site.root {
        let note = match root == rootless::FOLDER {
            true => " # an empty folder, so that no files of another host are sent",
            false => "",
        };
        let _ = writeln!(out, "root = {}{note}", quote(root));
    }
    let inherits = |is_set: bool| top.is_some() && is_set;
    if !site.index.is_empty() {
        let _ = writeln!(out, "index = {}", index(&site.index));
    } else if inherits(top.is_some_and(|top| !top.index.is_empty())) {
        out.push_str("index = [\"index.html\"]\n");
    }
    for (key, value, above, default) in [
        ("listing", site.listing, top.and_then(|top| top.listing), false),
        ("compress", site.compress, top.and_then(|top| top.compress), true),
        (
            "precompressed",
            site.precompressed,
            top.and_then(|top| top.precompressed),
            true,
        ),
    ] {
        let said = value.unwrap_or(default);
        if said != above.unwrap_or(default) {
            let _ = writeln!(out, "{key} = {said}");
        }
    }
    match (&site.spa, top.and_then(|top| top.spa.as_ref())) {
        (Some(page), _) => {
            let _ = writeln!(out, "spa-fallback = {}", quote(page));
        }
        (None, Some(_)) => out.push_str("spa-fallback = false\n"),
        (None, None) => {}
    }
    match (&site.tilde, top.and_then(|top| top.tilde.as_ref())) {
        (Some(own), above) if above != Some(own) => {
            let _ = writeln!(out, "tilde = {own}");
        }
        (None, Some(_)) => out.push_str("tilde = false\n"),
        _ => {}
    }
    if !site.uncompressed.is_empty() {
        let _ = writeln!(out, "compress-except = {}", list(&site.uncompressed));
    } else if inherits(top.is_some_and(|top| !top.uncompressed.is_empty())) {
        out.push_str("compress-except = []\n");
    }
    if !site.header.is_empty() {
        let _ = writeln!(out, "header = {}", list(&site.header));
    } else if inherits(top.is_some_and(|top| !top.header.is_empty())) {
        out.push_str("header = []\n");
    }
    // A list that is empty for the host alone must say so before the first table.
    for (key, own, above) in [
        (
            "mount",
            site.mounts.is_empty(),
            top.is_some_and(|top| !top.mounts.is_empty()),
        ),
        (
            "header-rule",
            site.all_header_rules().is_empty() && site.all_removals().is_empty(),
            top.is_some_and(|top| !top.all_header_rules().is_empty() || !top.all_removals().is_empty()),
        ),
        (
            "try-files",
            site.tried.is_empty(),
            top.is_some_and(|top| !top.tried.is_empty()),
        ),
        (
            "access",
            site.all_access().is_empty(),
            top.is_some_and(|top| !top.all_access().is_empty()),
        ),
        (
            "redirect",
            site.redirects.is_empty(),
            top.is_some_and(|top| !top.redirects.is_empty()),
        ),
        (
            "respond",
            site.responds.is_empty(),
            top.is_some_and(|top| !top.responds.is_empty()),
        ),
        (
            "proxy",
            site.proxies.is_empty(),
            top.is_some_and(|top| !top.proxies.is_empty()),
        ),
        (
            "limit",
            site.limits.is_empty(),
            top.is_some_and(|top| !top.limits.is_empty()),
        ),
    ] {
        if own && above {
            let _ = writeln!(out, "{key} = []");
        }
    }
    for (key, own, above) in [
        (
            "error-pages",
            site.error_pages.is_empty(),
            top.is_some_and(|top| !top.error_pages.is_empty()),
        ),
        (
            "types",
            site.types.is_empty(),
            top.is_some_and(|top| !top.types.is_empty()),
        ),
    ] {
        if own && above {
            let _ = writeln!(out, "{key} = {{}}");
        }
    }
}

/// The tables of a site. `prefix` is that of their names.
fn tables(out: &mut String, site: &Site, prefix: &str) {
    for (name, pairs) in [("error-pages", &site.error_pages), ("types", &site.types)] {
        if pairs.is_empty() {
            continue;
        }
        let _ = write!(out, "\n[{prefix}{name}]\n");
        for (key, value) in pairs {
            let _ = writeln!(out, "{} = {}", quote(key), quote(value));
        }
    }
    for one in &site.mounts {
        mount(out, one, site, prefix);
    }
    for rule in &site.all_access() {
        access(out, rule, prefix);
    }
    for rule in &site.limits {
        limit(out, rule, prefix);
    }
    for rule in &site.proxies {
        proxy(out, rule, site.front.as_deref(), prefix);
    }
    for rule in &site.redirects {
        let (from, to) = (quote(&rule.from), quote(&rule.to));
        let _ = write!(out, "\n[[{prefix}redirect]]\nfrom = {from}\n");
        if !rule.except.is_empty() {
            let _ = writeln!(out, "except = {}", list(&rule.except));
        }
        conditions(out, &rule.conditions);
        let _ = write!(out, "to = {to}\nstatus = {}\n", rule.status);
    }
    for rule in &site.responds {
        respond(out, rule, prefix);
    }
    for rule in &site.tried {
        let _ = write!(
            out,
            "\n[[{prefix}try-files]]\npath = {}\nfiles = {}\n",
            quote(&rule.path),
            list(&rule.files)
        );
        if let Some(slash) = rule.slash {
            let _ = writeln!(out, "trailing-slash = {}", quote(slash));
        }
    }
    header_rules(out, site, prefix);
}

/// The header rules of a site. One that removes fields has the lines for its path, too, or comes before all lines.
fn header_rules(out: &mut String, site: &Site, prefix: &str) {
    let rules = site.all_header_rules();
    let is_same = |removal: &Removal, rule: &HeaderRule| {
        rule.always && (&rule.path, &rule.conditions) == (&removal.path, &removal.conditions)
    };
    let removals = site.all_removals();
    let is_joined = |removal: &&Removal| rules.iter().any(|rule| is_same(removal, rule));
    let (mut joined, alone): (Vec<&Removal>, Vec<&Removal>) = removals.iter().partition(is_joined);
    for removal in alone {
        let (path, names) = (quote(&removal.path), list(&removal.names));
        let _ = write!(out, "\n[[{prefix}header-rule]]\npath = {path}\n");
        conditions(out, &removal.conditions);
        let _ = write!(out, "remove = {names}\nalways = true\n");
    }
    for rule in &rules {
        let (path, header) = (quote(&rule.path), list(&rule.header));
        let _ = write!(out, "\n[[{prefix}header-rule]]\npath = {path}\n");
        conditions(out, &rule.conditions);
        let _ = writeln!(out, "header = {header}");
        if let Some(at) = joined.iter().position(|removal| is_same(removal, rule)) {
            let _ = writeln!(out, "remove = {}", list(&joined.remove(at).names));
        }
        if rule.always {
            out.push_str("always = true\n");
        }
    }
}

fn respond(out: &mut String, rule: &Respond, prefix: &str) {
    let Respond { path, except, text } = rule;
    let _ = write!(out, "\n[[{prefix}respond]]\npath = {}\n", quote(path));
    if !except.is_empty() {
        let _ = writeln!(out, "except = {}", list(except));
    }
    if text.status != 200 {
        let _ = writeln!(out, "status = {}", text.status);
    }
    if !text.text.is_empty() {
        let (text, media_type) = (quote(&text.text), quote(&text.media_type));
        let _ = write!(out, "text = {text}\ntype = {media_type}\n");
    }
}

fn mount(out: &mut String, mount: &Mount, site: &Site, prefix: &str) {
    let (path, root) = (quote(&mount.path), quote(&mount.root));
    let _ = write!(out, "\n[[{prefix}mount]]\npath = {path}\nroot = {root}\n");
    if !mount.strip {
        out.push_str("strip = false\n");
    }
    let usual = vec!["index.html".to_owned()];
    let inherited = if site.index.is_empty() {
        &usual
    } else {
        &site.index
    };
    if !mount.index.is_empty() && mount.index != *inherited {
        let _ = writeln!(out, "index = {}", index(&mount.index));
    }
    if mount.listing != site.listing.unwrap_or(false) {
        let _ = writeln!(out, "listing = {}", mount.listing);
    }
}

/// The names of index files. `index ""` of Caddy names none, so that directories have no index.
fn index(names: &[String]) -> String {
    let is_name = |name: &&String| !matches!(name.as_str(), "" | "." | "..");
    let names: Vec<String> = names.iter().filter(is_name).cloned().collect();
    list(&names)
}

/// What requests must have for a rule to apply.
fn conditions(out: &mut String, conditions: &[String]) {
    if !conditions.is_empty() {
        let _ = writeln!(out, "if = {}", list(conditions));
    }
}

fn access(out: &mut String, rule: &Access, prefix: &str) {
    let _ = write!(out, "\n[[{prefix}access]]\npath = {}\n", quote(&rule.path));
    conditions(out, &rule.conditions);
    for (key, networks) in [("allow", &rule.allow), ("deny", &rule.deny)] {
        if !networks.is_empty() {
            let _ = writeln!(out, "{key} = {}", list(networks));
        }
    }
    if let Some(status) = rule.status {
        let _ = writeln!(out, "status = {status}");
    }
    for (key, value) in [("htpasswd", &rule.htpasswd), ("realm", &rule.realm)] {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {}", quote(value));
        }
    }
    if !rule.users.is_empty() {
        let _ = writeln!(out, "users = {}", list(&rule.users));
    }
    if let Some((url, copy)) = &rule.auth {
        let _ = writeln!(out, "auth = {}", quote(url));
        if !copy.is_empty() {
            let _ = writeln!(out, "copy = {}", list(copy));
        }
    }
    if rule.any {
        out.push_str("satisfy = \"any\"\n");
    }
}

fn limit(out: &mut String, rule: &Limit, prefix: &str) {
    let _ = write!(out, "\n[[{prefix}limit]]\npath = {}\n", quote(&rule.path));
    if let Some(rate) = &rule.rate {
        let _ = writeln!(out, "rate = {}", quote(rate));
    }
    for (key, number) in [("burst", rule.burst), ("concurrent", rule.concurrent)] {
        if let Some(number) = number {
            let _ = writeln!(out, "{key} = {number}");
        }
    }
}

fn proxy(out: &mut String, rule: &Proxy, front: Option<&str>, prefix: &str) {
    let _ = write!(out, "\n[[{prefix}proxy]]\npath = {}\n", quote(&rule.path));
    if !rule.except.is_empty() {
        let _ = writeln!(out, "except = {}", list(&rule.except));
    }
    let _ = writeln!(out, "upstreams = {}", list(&rule.upstreams));
    if rule.weights.iter().any(|weight| *weight != 1) {
        let _ = writeln!(out, "weights = {:?}", rule.weights);
    }
    if rule.strip {
        out.push_str("strip = true\n");
    }
    for (key, value) in &rule.keys {
        let _ = writeln!(out, "{key} = {value}");
    }
    let (set, remove) = &rule.request_header;
    if !set.is_empty() || !remove.is_empty() {
        let _ = write!(out, "\n[{prefix}proxy.request-header]\n");
        for (key, lines) in [("set", set), ("remove", remove)] {
            if !lines.is_empty() {
                let _ = writeln!(out, "{key} = {}", list(lines));
            }
        }
    }
    let front = front.filter(|_| rule.is_fastcgi);
    if front.is_some() || !rule.fastcgi.is_empty() {
        let _ = write!(out, "\n[{prefix}proxy.fastcgi]\n");
        if let Some(front) = front {
            let _ = writeln!(out, "front = {}", quote(front));
        }
        for (key, value) in &rule.fastcgi {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
    if !rule.params.is_empty() {
        let _ = write!(out, "\n[{prefix}proxy.fastcgi.params]\n");
        for (name, value) in &rule.params {
            let _ = writeln!(out, "{name} = {}", quote(value));
        }
    }
    if !rule.check.is_empty() {
        let _ = write!(out, "\n[{prefix}proxy.check]\n");
        for (key, value) in &rule.check {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
}
