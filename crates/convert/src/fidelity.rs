//! Tests that a conversion keeps what a configuration says, or reports the difference: whole configurations against the
//! lines of the result and the fates of their lines.

mod decided;
mod hosts;
mod tried;

use crate::{Conversion, Dialect, Fate, Files, Text, convert};

/// Configurations of these tests include no files.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str) -> Result<Vec<Text>, String> {
        Ok(Vec::new())
    }
}

fn converted(dialect: Dialect, text: &str) -> Conversion {
    let main = Text {
        name: "site".to_owned(),
        text: text.to_owned(),
    };
    convert(dialect, &main, &NoFiles, Some("/srv/www")).expect("a configuration")
}

/// The fates of a line, with what they say.
fn fates(found: &Conversion, line: usize) -> Vec<&Fate> {
    let notes = found.report.notes().iter().filter(|note| note.line == line);
    notes.map(|note| &note.fate).collect()
}

/// The table of the host with this name, up to the next host. `None`: the top level.
fn site<'t>(found: &'t Conversion, name: Option<&str>) -> &'t str {
    let mut parts = found.toml.split("\n[[host]]\n");
    let top = parts.next().unwrap_or_default();
    match name {
        None => top,
        Some(name) => parts
            .find(|part| {
                let names = part.lines().find(|line| line.starts_with("names"));
                names.is_some_and(|names| names.contains(&format!("\"{name}\"")))
            })
            .unwrap_or_else(|| panic!("no host {name}: {}", found.toml)),
    }
}

/// The lines of a table of a list, up to the next one: `path` or `from` has this value.
fn rule<'t>(site: &'t str, list: &str, path: &str) -> Vec<&'t str> {
    let head = format!("{list}]]\n");
    let tables = site.split("[[").filter_map(|table| {
        let at = table.find(&head)?;
        Some(table.get(at + head.len()..)?.lines().collect::<Vec<_>>())
    });
    let keys = ["path", "from"].map(|key| format!("{key} = \"{path}\""));
    let mut found = tables.filter(|lines| keys.iter().any(|key| lines.contains(&key.as_str())));
    found.next().unwrap_or_default()
}

#[test]
fn a_site_in_cleartext_takes_no_name_of_one_with_tls() {
    let text = "server { listen 80; server_name old.test a.test; root /srv/clear; }\n\
                server { listen 443 ssl; server_name a.test; root /srv/secure;\n\
                ssl_certificate c.pem; ssl_certificate_key k.pem; }\n";
    let found = converted(Dialect::Nginx, text);
    // The first block answers unknown hosts, `old.test` among them.
    assert!(
        site(&found, None).contains("root = \"/srv/clear\""),
        "{}",
        found.toml
    );
    assert!(site(&found, Some("a.test")).contains("root = \"/srv/secure\""));
    let named = |fate: &&&Fate| matches!(fate, Fate::Missing(why) if why.contains("names a.test:"));
    assert_eq!(fates(&found, 1).iter().filter(named).count(), 1);

    let text = "<VirtualHost *:80>\nServerName first.test\nDocumentRoot /srv/first\n</VirtualHost>\n\
                <VirtualHost *:80>\nServerName old.test\nServerAlias a.test\nDocumentRoot /srv/clear\n</VirtualHost>\n\
                <VirtualHost *:443>\nServerName a.test\nDocumentRoot /srv/secure\nSSLEngine on\n\
                SSLCertificateFile c.pem\nSSLCertificateKeyFile k.pem\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    assert!(site(&found, Some("a.test")).contains("root = \"/srv/secure\""));
    assert!(site(&found, Some("old.test")).contains("root = \"/srv/clear\""));
    assert_eq!(fates(&found, 5).iter().filter(named).count(), 1);
}

#[test]
fn a_twin_that_leads_to_https_keeps_the_redirect() {
    let twin = "http://a.test {\n redir https://a.test{uri} 308\n}\n\
                https://a.test {\n tls c.pem k.pem\n root * /srv/www\n file_server\n}\n";
    let found = converted(Dialect::Caddy, twin);
    assert!(found.toml.contains("https-redirect = true\n"), "{}", found.toml);
    assert!(
        fates(&found, 1)
            .iter()
            .any(|fate| matches!(fate, Fate::Changed(_)))
    );
    // Another site answers in cleartext, and is not redirected.
    let found = converted(
        Dialect::Caddy,
        &format!("{twin}http://b.test {{\n root * /srv/b\n file_server\n}}\n"),
    );
    assert!(found.toml.contains("https-redirect = false\n"), "{}", found.toml);
    let led = site(&found, Some("a.test"));
    assert_eq!(
        tables(led, "host.redirect"),
        ["from = \"*\"; if = [\"scheme http\"]; to = \"https://a.test*\"; status = 308"],
        "{}",
        found.toml
    );
    assert!(
        !site(&found, Some("b.test")).contains("redirect]]"),
        "{}",
        found.toml
    );
}

#[test]
fn dot_names_are_open_where_an_upstream_answers() {
    let is_open = |found: &Conversion, line: usize| {
        let open = |fate: &&Fate| matches!(fate, Fate::Open(why) if why.contains("the upstream of `"));
        let fates = fates(found, line);
        !fates.is_empty() && fates.iter().all(open)
    };
    let is_unneeded = |found: &Conversion, line: usize| {
        let fates = fates(found, line);
        !fates.is_empty() && fates.iter().all(|fate| matches!(fate, Fate::Unneeded(_)))
    };
    let nginx = |last: &str| {
        let text = format!(
            "server {{ listen 80; root /srv/www;\nlocation ~ /\\.git {{ deny all; }}\nlocation / {{ {last} }}\n}}\n"
        );
        converted(Dialect::Nginx, &text)
    };
    assert!(is_open(&nginx("proxy_pass http://app:80;"), 2));
    assert!(is_unneeded(&nginx("index index.html;"), 2));

    let caddy = |last: &str| {
        let text =
            format!("http://a.test {{\n@dots path */.*\nrespond @dots 404\nroot * /srv/www\n{last}\n}}\n");
        converted(Dialect::Caddy, &text)
    };
    let found = caddy("reverse_proxy app:80");
    assert!(is_open(&found, 2) && is_open(&found, 3), "{:?}", found.report);
    let found = caddy("file_server");
    assert!(is_unneeded(&found, 2) && is_unneeded(&found, 3));

    let apache = |last: &str| {
        let text = format!("DocumentRoot /srv/www\nRewriteRule /\\.git - [F]\n{last}\n");
        converted(Dialect::Apache, &text)
    };
    assert!(is_open(&apache("ProxyPass / http://app:80/"), 2));
    assert!(is_unneeded(&apache("Options None"), 2));
}

#[test]
fn methods_are_open_where_an_upstream_answers() {
    let text = "DocumentRoot /srv/www\nProxyPass / http://app:80/\n<Location />\n<LimitExcept GET>\nRequire all denied\n\
                </LimitExcept>\n</Location>\n";
    let found = converted(Dialect::Apache, text);
    assert!(
        matches!(fates(&found, 5)[..], [Fate::Open(_)]),
        "{:?}",
        found.report
    );
}

#[test]
fn expressions_about_pages_are_not_about_dot_names() {
    let text = "server { listen 80; root /srv/www;\nlocation ~ \\.html$ { deny all; }\n\
                location ~ /\\.git|\\.bak$ { deny all; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    let refused = rule(site(&found, None), "access", "*.html");
    assert!(refused.contains(&"deny = [\"all\"]"), "{}", found.toml);
    assert!(fates(&found, 3).iter().any(|fate| matches!(fate, Fate::Open(_))));
    let text = "DocumentRoot /srv/www\n<FilesMatch \"\\.html$\">\nRequire all denied\n</FilesMatch>\n";
    let found = converted(Dialect::Apache, text);
    let refused = rule(site(&found, None), "access", "*.html");
    assert!(refused.contains(&"deny = [\"all\"]"), "{}", found.toml);
}

#[test]
fn a_virtual_host_lifts_what_the_main_server_refuses() {
    let text = "DocumentRoot /srv/www\n<Location />\nRequire all denied\n</Location>\n\
                <VirtualHost *:80>\nServerName a.test\n<Location />\nRequire all granted\n</Location>\n</VirtualHost>\n\
                <VirtualHost *:80>\nServerName b.test\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    assert!(!site(&found, None).contains("deny"), "{}", found.toml);
    let refused = rule(site(&found, Some("b.test")), "access", "/*");
    assert!(refused.contains(&"deny = [\"all\"]"), "{}", found.toml);
}

#[test]
fn folders_are_those_of_the_root_of_a_virtual_host() {
    let text = "DocumentRoot /srv/www\n<Directory /srv/www/private>\nRequire all denied\n</Directory>\n\
                <Directory /srv/b/inner>\nRequire ip 10.0.0.0/8\n</Directory>\n\
                <VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/www\n</VirtualHost>\n\
                <VirtualHost *:80>\nServerName b.test\nDocumentRoot /srv/b\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    let (a, b) = (site(&found, None), site(&found, Some("b.test")));
    assert!(
        a.contains("/private/*") && !a.contains("/inner/*"),
        "{}",
        found.toml
    );
    assert!(
        b.contains("/inner/*") && !b.contains("/private/*"),
        "{}",
        found.toml
    );
    for line in [3, 6] {
        assert_eq!(fates(&found, line), [&Fate::Carried], "{:?}", found.report);
    }
    // A folder that is below no root.
    let found = converted(Dialect::Apache, &text.replace("/srv/b/inner", "/srv/www2"));
    assert!(
        matches!(fates(&found, 6)[..], [Fate::Open(_)]),
        "{:?}",
        found.report
    );
    // One above the root.
    let found = converted(
        Dialect::Apache,
        "DocumentRoot /srv/www\n<Directory /srv>\nRequire ip 10.0.0.0/8\n</Directory>\n",
    );
    let limited = rule(site(&found, None), "access", "/*");
    assert!(limited.contains(&"allow = [\"10.0.0.0/8\"]"), "{}", found.toml);
}

#[test]
fn files_of_a_folder_are_not_those_of_the_site() {
    let text = "DocumentRoot /srv/www\n<Directory /srv/www/pub>\n<Files \"*.txt\">\nRequire all granted\n</Files>\n\
                </Directory>\n<Directory /srv/www/secret>\nRequire all denied\n</Directory>\n";
    let found = converted(Dialect::Apache, text);
    let granted = rule(site(&found, None), "access", "/pub/*.txt");
    assert!(
        granted.is_empty() || granted.contains(&"allow = [\"all\"]"),
        "{}",
        found.toml
    );
    assert!(!found.toml.contains("path = \"*.txt\""), "{}", found.toml);
    let refused = rule(site(&found, None), "access", "/secret/*");
    assert!(refused.contains(&"deny = [\"all\"]"), "{}", found.toml);
}

#[test]
fn redirects_and_upstreams_of_the_main_server_are_inherited() {
    let text = "DocumentRoot /srv/www\nRedirect permanent /old /new\nProxyPass /api http://app:80/api\n\
                RewriteRule ^/x$ /y [R]\n\
                <VirtualHost *:80>\nServerName a.test\nRedirect permanent /old /own\n</VirtualHost>\n\
                <VirtualHost *:80>\nServerName b.test\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    for (host, to) in [(None, "/own"), (Some("b.test"), "/new")] {
        let site = site(&found, host);
        let redirect = rule(site, "redirect", "/old");
        assert!(redirect.contains(&&*format!("to = \"{to}\"")), "{}", found.toml);
        assert!(!rule(site, "proxy", "/api/*").is_empty(), "{}", found.toml);
        assert!(rule(site, "redirect", "/x").is_empty(), "{}", found.toml);
    }
    assert!(
        matches!(fates(&found, 4)[..], [Fate::Missing(why)] if why.contains("RewriteOptions")),
        "{:?}",
        found.report
    );
    let inheriting = text.replace(
        "ServerName b.test",
        "ServerName b.test\nRewriteOptions InheritBefore",
    );
    let found = converted(Dialect::Apache, &inheriting);
    assert!(!rule(site(&found, Some("b.test")), "redirect", "/x").is_empty());
}

#[test]
fn a_password_without_a_file_of_users_admits_nobody() {
    let text = "DocumentRoot /srv/www\n<Location /a>\nAuthType Basic\nRequire valid-user\n</Location>\n";
    let found = converted(Dialect::Apache, text);
    let refused = rule(site(&found, None), "access", "/a/*");
    assert!(refused.contains(&"deny = [\"all\"]"), "{}", found.toml);
    assert!(matches!(fates(&found, 4)[..], [Fate::Missing(_)]));
    // The file of the section around.
    let text = "DocumentRoot /srv/www\n<Directory /srv/www>\nAuthUserFile /etc/users\nAuthName Area\n\
                <Files secret.txt>\nRequire valid-user\n</Files>\n</Directory>\n";
    let found = converted(Dialect::Apache, text);
    let asked = rule(site(&found, None), "access", "*/secret.txt");
    assert!(asked.contains(&"htpasswd = \"/etc/users\""), "{}", found.toml);
}

#[test]
fn a_group_does_not_make_a_program_a_file() {
    let text = "DocumentRoot /srv/www\nRewriteRule ^/a/(index\\.php|page)$ /b/$1\n";
    let found = converted(Dialect::Apache, text);
    assert!(!found.toml.contains("files ="), "{}", found.toml);
    assert!(
        matches!(fates(&found, 2)[..], [Fate::Missing(why)] if why.contains("`/b/index.php` for `/a/index.php`")),
        "{:?}",
        found.report
    );
}

#[test]
fn the_name_of_the_upstream_is_that_of_the_only_one() {
    let host = "header_up Host {upstream_hostport}";
    let found = converted(
        Dialect::Caddy,
        &format!("http://a.test {{\nreverse_proxy {{\n{host}\nto one:80\n}}\n}}\n"),
    );
    assert!(found.toml.contains("Host: one"), "{}", found.toml);
    let found = converted(
        Dialect::Caddy,
        &format!("http://a.test {{\nreverse_proxy one:80 {{\n{host}\nto two:80\n}}\n}}\n"),
    );
    assert!(!found.toml.contains("Host: one"), "{}", found.toml);
    assert!(matches!(fates(&found, 3)[..], [Fate::Missing(_)]));
    // An upstream that is refused is named at its own line.
    let found = converted(
        Dialect::Caddy,
        "http://a.test {\nreverse_proxy one:80 {\nto two:80 {$OTHER}\n}\n}\n",
    );
    assert!(
        matches!(fates(&found, 3)[..], [Fate::Missing(why)] if why.contains("`{$OTHER}`")),
        "{:?}",
        found.report
    );
}

#[test]
fn reasons_name_what_they_are_about() {
    let text = "DocumentRoot /srv/www\nRedirectMatch ^/a(.*)(.*)$ /b$2\nRedirectMatch ^/(a+)b$ /c\n\
                RewriteCond %{QUERY_STRING} ^$\nRewriteRule ^/p$ /q [R]\n";
    let found = converted(Dialect::Apache, text);
    for (line, part) in [
        (2, "`$2` in `/b$2`"),
        (3, "`^/(a+)b$`"),
        (5, "`%{QUERY_STRING} ^$`"),
    ] {
        let named = |fate: &&Fate| matches!(fate, Fate::Missing(why) if why.contains(part));
        assert!(fates(&found, line).iter().all(named), "{:?}", found.report);
    }
    let text = "server { listen 80; root /srv/www;\nlocation ~ ^/(\\d+)$ { deny all; }\n\
                rewrite ^/a(.*)(.*)$ /b$2 permanent;\n}\n";
    let found = converted(Dialect::Nginx, text);
    for (line, part) in [(2, "the class `\\d` repeats"), (3, "`$2` in `/b$2`")] {
        let named = |fate: &&Fate| fate.why().contains(part);
        assert!(fates(&found, line).iter().all(named), "{:?}", found.report);
    }
}

#[test]
fn each_host_has_its_own_log() {
    let text = "log_format short '$remote_addr $status';\naccess_log /l/all.log;\n\
                server { listen 80; server_name a.test; root /a; }\n\
                server { listen 80; server_name b.test; root /b; access_log /l/b.log short; }\n\
                server { listen 80; server_name c.test; root /c; access_log off; }\n\
                server { listen 80; server_name d.test; root /d; }\n";
    let found = converted(Dialect::Nginx, text);
    let line = |host: Option<&str>, line: &str| site(&found, host).lines().any(|one| one == line);
    assert!(line(None, "access-log = \"/l/all.log\""), "{}", found.toml);
    assert!(
        line(Some("b.test"), "access-log = \"/l/b.log\""),
        "{}",
        found.toml
    );
    assert!(
        line(Some("b.test"), "log-template = \"$peer $status\""),
        "{}",
        found.toml
    );
    assert!(line(Some("c.test"), "access-log = false"), "{}", found.toml);
    assert!(
        !site(&found, Some("d.test")).contains("access-log"),
        "{}",
        found.toml
    );

    let text = "DocumentRoot /srv/www\nCustomLog /l/all.log combined\n\
                <VirtualHost *:80>\nServerName a.test\n</VirtualHost>\n\
                <VirtualHost *:80>\nServerName b.test\nCustomLog /l/b.log common\nCustomLog /l/c.log common\n\
                </VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    assert!(site(&found, None).contains("access-log = \"/l/all.log\"\nlog-format = \"combined\"\n"));
    let own = "access-log = \"/l/b.log\"\nlog-format = \"common\"\n";
    assert!(site(&found, Some("b.test")).contains(own), "{}", found.toml);
    assert!(matches!(fates(&found, 9)[..], [Fate::Missing(why)] if why.contains("`/l/b.log`")));

    let text = "http://a.test {\nlog {\noutput file /l/a.log\n}\nfile_server\n}\n\
                http://b.test {\nfile_server\n}\n";
    let found = converted(Dialect::Caddy, text);
    let own = "access-log = \"/l/a.log\"\nlog-format = \"json\"\n";
    assert!(site(&found, Some("a.test")).contains(own), "{}", found.toml);
    assert!(
        !site(&found, Some("b.test")).contains("access-log"),
        "{}",
        found.toml
    );
    assert!(!site(&found, None).contains("access-log = "), "{}", found.toml);
}

#[test]
fn upstreams_of_apache_get_fields_and_have_timeouts() {
    let text = "DocumentRoot /srv/www\nRequestHeader set X-Site one\n\
                <VirtualHost *:80>\nServerName a.test\nProxyTimeout 300\nRequestHeader unset X-Debug\n\
                ProxyPass /a http://app:80/a timeout=5 connectiontimeout=90 retry=0\n\
                ProxyPass /b http://app:80/b\nRequestHeader set X-User %{REMOTE_USER}s\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    let site = site(&found, None);
    let (a, b) = (rule(site, "proxy", "/a/*"), rule(site, "proxy", "/b/*"));
    for line in [
        "first-byte-timeout = \"5s\"",
        "connect-timeout = \"60s\"",
        "set = [\"X-Site: one\"]",
        "remove = [\"X-Debug\"]",
    ] {
        assert!(a.contains(&line), "{line}: {}", found.toml);
    }
    assert!(b.contains(&"first-byte-timeout = \"300s\""), "{}", found.toml);
    assert!(
        matches!(fates(&found, 7)[..], [Fate::Changed(why)] if why == "without `retry=0`"),
        "{:?}",
        found.report
    );
    assert!(matches!(fates(&found, 9)[..], [Fate::Missing(_)]));
}

#[test]
fn redirects_before_upstreams_keep_their_paths() {
    let nginx =
        "server { listen 80; rewrite ^/old$ /new permanent;\nlocation / { proxy_pass http://app:80; } }\n";
    let apache = "DocumentRoot /srv/www\nProxyPass / http://app:80/\nRewriteRule ^/old$ /new [R=301]\n";
    for (dialect, text) in [(Dialect::Nginx, nginx), (Dialect::Apache, apache)] {
        let found = converted(dialect, text);
        let passed = rule(site(&found, None), "proxy", "/*");
        assert!(passed.contains(&"except = [\"/old\"]"), "{}", found.toml);
        assert!(!rule(site(&found, None), "redirect", "/old").is_empty());
    }
    // Apache passes requests on before it reads `Redirect`.
    let found = converted(
        Dialect::Apache,
        "DocumentRoot /srv/www\nProxyPass / http://app:80/\nRedirect /old /new\n",
    );
    assert!(!found.toml.contains("except"), "{}", found.toml);
}

#[test]
fn limits_that_the_converter_does_not_know_are_closed() {
    let nginx = "server { listen 80; root /srv/www;\nauth_jwt area;\nlocation /a {\nauth_digest area;\n}\n\
                 location /b {\naccess_by_lua_file /x.lua;\n}\n}\n";
    let caddy = "http://a.test {\nauthorize with policy\nfile_server\n}\n";
    let apache = "DocumentRoot /srv/www\n<Proxy *>\nRequire ip 10.0.0.0/8\n</Proxy>\n\
                  <Location /a>\nOIDCProviderMetadataURL https://id.test\n</Location>\n";
    let balancer = "DocumentRoot /srv/www\n<Proxy balancer://app>\nBalancerMember http://one:80 retry=1\n\
                    Deny from 192.0.2.1\n</Proxy>\n";
    for (dialect, text, lines) in [
        (Dialect::Nginx, nginx, &[2, 4, 7][..]),
        (Dialect::Caddy, caddy, &[2]),
        (Dialect::Apache, apache, &[3]),
        (Dialect::Apache, balancer, &[4]),
    ] {
        let found = converted(dialect, text);
        for line in lines {
            assert!(
                matches!(fates(&found, *line)[..], [Fate::Missing(why)] if why.contains("the result denies")),
                "{line}: {:?}",
                found.report
            );
        }
    }
    // It may only configure a check.
    let found = converted(Dialect::Apache, apache);
    assert!(
        matches!(fates(&found, 6)[..], [Fate::Open(_)]),
        "{:?}",
        found.report
    );
    // What everyone may do is no limit.
    let text = "DocumentRoot /srv/www\n<Proxy *>\nOrder deny,allow\nAllow from all\n</Proxy>\n";
    let found = converted(Dialect::Apache, text);
    assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
}

#[test]
fn sites_of_several_names_lead_to_https_at_the_same_host() {
    let secure = "https://a.test, https://b.test {\n tls c.pem k.pem\n root * /srv/www\n file_server\n}\n";
    for addresses in [
        "http://a.test, http://b.test",
        "http://",
        "http://a.test, http://c.test",
    ] {
        let text = format!("{addresses} {{\n redir https://{{host}}{{uri}} permanent\n}}\n{secure}");
        let found = converted(Dialect::Caddy, &text);
        assert!(found.toml.contains("https-redirect = true\n"), "{}", found.toml);
        assert!(
            matches!(fates(&found, 2)[..], [Fate::Changed(_)]),
            "{:?}",
            found.report
        );
        assert!(found.toml.contains("root = \"/srv/www\""), "{}", found.toml);
    }
}

#[test]
fn sections_of_folders_are_not_about_upstreams() {
    let text = "DocumentRoot /srv/www\n<Directory />\nRequire all denied\n</Directory>\n\
                <Directory /srv/www/static/pub>\nRequire ip 10.0.0.0/8\n</Directory>\n\
                <Location /admin>\nRequire ip 192.0.2.0/24\n</Location>\n\
                ProxyPass /static !\nProxyPass / http://app:80/\n";
    let found = converted(Dialect::Apache, text);
    let paths: Vec<&str> = found
        .toml
        .split("[[access]]\n")
        .skip(1)
        .filter_map(|table| table.lines().next())
        .collect();
    // What the upstream answers is limited by address only; `/static` is files.
    assert_eq!(
        paths,
        [
            "path = \"/admin/*\"",
            "path = \"/static/pub/*\"",
            "path = \"/static/*\"",
        ],
        "{}",
        found.toml
    );
    for (path, line) in [
        ("/static/*", "deny = [\"all\"]"),
        ("/static/pub/*", "allow = [\"10.0.0.0/8\"]"),
    ] {
        let limited = rule(site(&found, None), "access", path);
        assert!(limited.contains(&line), "{path}: {}", found.toml);
    }
    // A path without a star would lift the rules of all paths below.
    let text = "DocumentRoot /srv/www\n<Directory />\nRequire all denied\n</Directory>\n\
                ProxyPass /api/files !\nProxyPass /api http://app:80/api\n";
    let found = converted(Dialect::Apache, text);
    let refused = rule(site(&found, None), "access", "/api/files/*");
    assert!(refused.contains(&"deny = [\"all\"]"), "{}", found.toml);
    let passed = rule(site(&found, None), "access", "/api/*");
    assert!(passed.contains(&"allow = [\"all\"]"), "{}", found.toml);
    assert!(
        rule(site(&found, None), "access", "/api").is_empty(),
        "{}",
        found.toml
    );
    let refused = rule(site(&found, None), "access", "/*");
    assert!(refused.contains(&"deny = [\"all\"]"), "{}", found.toml);
}

/// Lines of a configuration with what becomes of the line of each: its word and a part of its reason.
fn check_fates(found: &Conversion, wanted: &[(usize, &str, &str)]) {
    for &(line, word, reason) in wanted {
        let all = fates(found, line);
        let is_it = |fate: &&&Fate| fate.word() == word && fate.why().contains(reason);
        assert!(
            all.iter().any(|fate| is_it(&fate)),
            "{line}: {all:?}\n{}",
            found.toml
        );
    }
}

#[test]
fn roots_of_locations_are_mounts() {
    let text = "server {\nlisten 80;\nroot /srv/www;\nindex main.html;\nautoindex on;\n\
                location /static/ { alias /srv/assets/; }\n\
                location ^~ /media { root /mnt; autoindex off; }\n\
                location /down/ {\nroot /srv/files;\nindex list.html;\nlocation /down/new/ { autoindex off; }\n}\n\
                location /plain/ { autoindex off; }\n\
                location = /robots.txt { alias /srv/robots.txt; }\n\
                location ~ \\.pdf$ { root /srv/papers; }\n\
                location /odd/ { alias /srv/odd; }\n\
                # nothing\n\
                location /.hidden/ { alias /srv/hidden/; }\n\
                location /same/ { alias /srv/www/same/; }\n\
                location /.well-known/acme-challenge/ { root /var/acme; }\n\
                location /var/ { root $document_root/x; }\n\
                }\n";
    let found = converted(Dialect::Nginx, text);
    let top = site(&found, None);
    for (path, lines) in [
        ("/static/", &["root = \"/srv/assets\""][..]),
        (
            "/media/",
            &["root = \"/mnt\"", "strip = false", "listing = false"],
        ),
        (
            "/down/",
            &[
                "root = \"/srv/files\"",
                "strip = false",
                "index = [\"list.html\"]",
            ],
        ),
        (
            "/down/new/",
            &["root = \"/srv/files\"", "strip = false", "listing = false"],
        ),
        (
            "/plain/",
            &["root = \"/srv/www\"", "strip = false", "listing = false"],
        ),
        (
            "/.well-known/acme-challenge/",
            &["root = \"/var/acme\"", "strip = false"],
        ),
        ("/odd/", &[]),
        ("/same/", &[]),
        ("/.hidden/", &[]),
    ] {
        let written = rule(top, "mount", path);
        let keys: Vec<&str> = written
            .into_iter()
            .skip(1)
            .take_while(|line| !line.is_empty())
            .collect();
        assert_eq!(keys, lines, "{path}: {}", found.toml);
    }
    check_fates(
        &found,
        &[
            (6, "carried", ""),
            (7, "changed", "other paths that begin with `/media`"),
            (9, "carried", ""),
            (10, "carried", ""),
            (11, "carried", ""),
            (13, "carried", ""),
            (14, "missing", "`/robots.txt`"),
            (15, "missing", "`*.pdf`"),
            (16, "missing", "without a slash"),
            (18, "missing", "begin with a dot"),
            (19, "carried", ""),
            (21, "missing", "no variables"),
        ],
    );
}

#[test]
fn an_expression_beside_a_mount_is_reported() {
    let text = "server {\nlisten 80;\nroot /srv/www;\nlocation /a/ { alias /srv/a/; }\n\
                location ^~ /b/ { alias /srv/b/; }\nlocation ~ \\.css$ { expires 1d; }\n\
                location ~ \\.php$ { return 404; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    check_fates(
        &found,
        &[
            (4, "changed", "`location ~ \\.css$` from the root around them"),
            (5, "carried", ""),
        ],
    );
    let without = converted(Dialect::Nginx, &text.replace("expires 1d", "return 410"));
    check_fates(&without, &[(4, "carried", "")]);
}

#[test]
fn a_host_does_not_inherit_the_mounts_of_another() {
    let text = "server { listen 80 default_server; root /srv/a; location /x/ { alias /srv/x/; } }\n\
                server { listen 80; server_name b.test; root /srv/b; }\n";
    let found = converted(Dialect::Nginx, text);
    assert!(
        site(&found, Some("b.test")).contains("\nmount = []\n"),
        "{}",
        found.toml
    );
    let many: String = (0..=100)
        .map(|at| format!("location /{at}/ {{ alias /srv/{at}/; }}\n"))
        .collect();
    let found = converted(
        Dialect::Nginx,
        &format!("server {{ listen 80; root /srv/a;\n{many}}}\n"),
    );
    assert_eq!(found.toml.matches("[[mount]]").count(), 100);
    // The shortest path is the last one.
    check_fates(&found, &[(11, "missing", "at most 100 mounts")]);
    // Together, the sites have too many.
    let half: String = (0..60)
        .map(|at| format!("location /{at}/ {{ alias /srv/{at}/; }}\n"))
        .collect();
    let two = ["a.test", "b.test"]
        .map(|name| format!("server {{ listen 80; server_name {name}; root /srv/{name};\n{half}}}\n"));
    let found = converted(Dialect::Nginx, &two.concat());
    let (top, others) = (site(&found, None), site(&found, Some("b.test")));
    assert_eq!(
        (
            top.matches("[[mount]]").count(),
            others.matches("[[host.mount]]").count()
        ),
        (60, 40)
    );
    check_fates(&found, &[(0, "missing", "20 mounts")]);
}

#[test]
fn an_alias_of_apache_is_a_mount_with_its_access() {
    let text = "DocumentRoot /srv/www\nAlias /icons/ /usr/share/icons/\nAlias /private /srv/private\n\
                Alias /private/deep /srv/deep\nAlias /favicon.ico /srv/shared/favicon.ico\n\
                AliasMatch ^/u/(.*) /srv/u/$1\nAlias /odd/ /srv/odd\nAlias /in /srv/www/in\n\
                <Directory />\nRequire all denied\n</Directory>\n\
                <Directory /srv/www>\nOptions Indexes\nRequire all granted\n</Directory>\n\
                <Directory /srv/private>\nRequire ip 10.0.0.0/8\n</Directory>\n\
                <Directory /srv/private/open>\nOptions Indexes\nRequire all granted\n</Directory>\n";
    let found = converted(Dialect::Apache, text);
    let top = site(&found, None);
    for (path, root) in [("/icons/", "/usr/share/icons"), ("/private/", "/srv/private")] {
        let written = rule(top, "mount", path);
        assert!(
            written.contains(&&*format!("root = \"{root}\"")),
            "{path}: {}",
            found.toml
        );
        assert!(written.contains(&"listing = false"), "{path}: {}", found.toml);
    }
    assert_eq!(found.toml.matches("[[mount]]").count(), 2, "{}", found.toml);
    let position = |path: &str| {
        let table = format!("[[access]]\npath = \"{path}\"\n");
        found
            .toml
            .find(&table)
            .unwrap_or_else(|| panic!("{path}: {}", found.toml))
    };
    // The first rule that covers a path decides.
    assert!(position("/private/open/*") < position("/private/*"));
    assert!(rule(top, "access", "/private/*").contains(&"allow = [\"10.0.0.0/8\"]"));
    assert!(
        rule(top, "access", "/icons/*").contains(&"deny = [\"all\"]"),
        "{}",
        found.toml
    );
    check_fates(
        &found,
        &[
            (2, "carried", ""),
            (4, "unneeded", "covers its path"),
            (5, "missing", "name of a file"),
            (6, "missing", "expression"),
            (7, "missing", "without a slash"),
            (8, "carried", ""),
            (16, "carried", ""),
            (17, "carried", ""),
            (20, "missing", "one listing for the mount"),
        ],
    );
}

#[test]
fn an_alias_of_the_main_server_is_one_of_its_hosts() {
    let text = "Alias /icons/ /usr/share/icons/\n<Directory /usr/share/icons>\nOptions Indexes\n\
                Require all granted\n</Directory>\n\
                <VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\nAlias /own /srv/own\n\
                <Directory /srv/own>\nRequire all denied\n</Directory>\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    let top = site(&found, None);
    assert!(
        rule(top, "mount", "/icons/").contains(&"listing = true"),
        "{}",
        found.toml
    );
    assert!(rule(top, "mount", "/own/").contains(&"root = \"/srv/own\""));
    assert!(
        rule(top, "access", "/own/*").contains(&"deny = [\"all\"]"),
        "{}",
        found.toml
    );
}

#[test]
fn roots_of_caddy_with_paths_are_mounts() {
    let text = "a.test {\nroot * /srv/www\nroot /files/* /srv/files\nfile_server browse\n\
                handle_path /media/* {\nroot * /mnt/media\nfile_server\n}\n\
                handle /down/* {\nroot * /srv/down\nfile_server browse {\nindex list.html\n}\n}\n\
                handle_path /more/* {\nfile_server {\nroot /srv/more\n}\n}\n\
                handle_path /x* {\nroot * /srv/x\nfile_server\n}\n\
                root /var/* {$ROOT}\n}\n";
    let found = converted(Dialect::Caddy, text);
    let top = site(&found, None);
    for (path, lines) in [
        ("/files/", &["root = \"/srv/files\"", "strip = false"][..]),
        ("/media/", &["root = \"/mnt/media\"", "listing = false"]),
        (
            "/down/",
            &["root = \"/srv/down\"", "strip = false", "index = [\"list.html\"]"],
        ),
        ("/more/", &["root = \"/srv/more\"", "listing = false"]),
    ] {
        let written = rule(top, "mount", path);
        let keys: Vec<&str> = written
            .into_iter()
            .skip(1)
            .take_while(|line| !line.is_empty())
            .collect();
        assert_eq!(keys, lines, "{path}: {}", found.toml);
    }
    assert!(top.contains("listing = true"), "{}", found.toml);
    assert_eq!(found.toml.matches("mount]]").count(), 4, "{}", found.toml);
    check_fates(
        &found,
        &[
            (3, "carried", ""),
            (6, "carried", ""),
            (10, "carried", ""),
            (17, "carried", ""),
            (21, "missing", "`/x*`"),
        ],
    );
}

/// The tables of a list, in order, each as one line.
fn tables(site: &str, list: &str) -> Vec<String> {
    let head = format!("[[{list}]]\n");
    let parts = site.split("\n\n").filter_map(|part| part.strip_prefix(&head));
    parts.map(|table| table.trim().replace('\n', "; ")).collect()
}

#[test]
fn conditions_of_nginx_become_rules() {
    let text = "server { listen 80; server_name a.test; root /srv/www;\n\
                if ($http_user_agent ~* (crawler|spider)) { return 403; }\n\
                if ($cookie_beta = yes) { return 302 https://beta.a.test$request_uri; }\n\
                location /old/ { if ($arg_lang = de) { return 301 /de/; } }\n\
                location /secure/ { if ($scheme = http) { return 301 https://$host$request_uri; } }\n\
                location /api/ { proxy_pass http://127.0.0.1:8080; if ($request_method !~ ^(GET|HEAD)$) { return 404; } }\n\
                location /key/ { if ($http_x_key = \"\") { return 410; } }\n\
                if ($http_x ~ \"[0-9]+\") { return 403; }\n\
                if ($request_uri ~ x) { rewrite ^ /y permanent; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    let site = site(&found, None);
    assert_eq!(
        tables(site, "access"),
        [
            "path = \"*\"; if = [\"header user-agent~*crawler*\"]; deny = [\"all\"]",
            "path = \"*\"; if = [\"header user-agent~*spider*\"]; deny = [\"all\"]",
            "path = \"/api/*\"; if = [\"not method GET\", \"not method HEAD\"]; deny = [\"all\"]; status = 404",
            "path = \"/key/*\"; if = [\"header x-key=\"]; deny = [\"all\"]; status = 410",
            "path = \"/key/*\"; if = [\"not header x-key\"]; deny = [\"all\"]; status = 410",
            "path = \"*\"; allow = [\"all\"]",
        ],
        "{}",
        found.toml
    );
    assert_eq!(
        tables(site, "redirect"),
        [
            "from = \"*\"; if = [\"cookie beta=yes\"]; to = \"https://beta.a.test*\"; status = 302",
            "from = \"/secure/*\"; if = [\"scheme http\"]; to = \"https://a.test/secure/*\"; status = 301",
            "from = \"/old/*\"; if = [\"query lang=de\"]; to = \"/de/\"; status = 301",
        ],
        "{}",
        found.toml
    );
    // The upstream keeps its paths, as a redirect with a condition comes before it.
    assert!(!site.contains("except"), "{}", found.toml);
    for (line, word) in [(2, "carried"), (3, "changed"), (8, "open"), (9, "missing")] {
        assert!(
            fates(&found, line).iter().any(|fate| fate.word() == word),
            "{line}: {:?}",
            found.report
        );
    }
}

#[test]
fn conditions_of_apache_become_rules() {
    let text = "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/www\nRewriteEngine On\n\
                RewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_URI} !^/\\.well-known/\n\
                RewriteRule ^/app/(.*)$ https://%{HTTP_HOST}/app/$1 [R=301,L]\n\
                RewriteCond %{HTTP_USER_AGENT} badbot [NC,OR]\nRewriteCond %{HTTP_REFERER} ^http://spam\\.test/\n\
                RewriteRule ^ - [F]\n\
                RewriteCond %{QUERY_STRING} (^|&)v=1(&|$)\nRewriteRule ^/p$ /q [R,L]\n\
                RewriteCond %{REMOTE_ADDR} ^10\\.\nRewriteRule ^/x$ - [G]\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    let site = site(&found, None);
    assert_eq!(
        tables(site, "access"),
        [
            "path = \"*\"; if = [\"header User-Agent~*badbot*\"]; deny = [\"all\"]",
            "path = \"*\"; if = [\"header Referer=http://spam.test/*\"]; deny = [\"all\"]",
            // A refusal whose condition is lost.
            "path = \"/x\"; deny = [\"all\"]; status = 410",
            "path = \"*\"; allow = [\"all\"]",
        ],
        "{}",
        found.toml
    );
    assert_eq!(
        tables(site, "redirect"),
        [
            "from = \"/app/*\"; except = [\"/.well-known/*\"]; if = [\"scheme http\"]; to = \"https://a.test/app/*\"; status = 301",
            "from = \"/p\"; if = [\"query v=1\"]; to = \"/q\"; status = 302",
        ],
        "{}",
        found.toml
    );
    assert!(matches!(fates(&found, 14)[..], [Fate::Missing(why)] if why.contains("REMOTE_ADDR")));
}

#[test]
fn conditions_of_caddy_become_rules() {
    let text = "http://a.test {\nroot * /srv/www\n@bots header User-Agent *bot* *crawl*\nrespond @bots 403\n\
                @beta {\npath /app/*\nheader Cookie *beta=1*\nnot query plain=*\n}\n\
                reverse_proxy /app* 127.0.0.1:1\nreverse_proxy @beta 127.0.0.1:2\n\
                @old protocol http\nredir @old https://a.test{uri} permanent\n\
                @get method GET HEAD\nheader @get X-A b\n@who expression {http.x}\nbasic_auth @bots {\n}\n}\n";
    let found = converted(Dialect::Caddy, text);
    let site = site(&found, None);
    assert_eq!(
        tables(site, "access"),
        [
            "path = \"*\"; if = [\"header User-Agent=*bot*\"]; deny = [\"all\"]",
            "path = \"*\"; if = [\"header User-Agent=*crawl*\"]; deny = [\"all\"]",
            "path = \"*\"; allow = [\"all\"]",
        ],
        "{}",
        found.toml
    );
    assert_eq!(
        tables(site, "redirect"),
        ["from = \"*\"; if = [\"scheme http\"]; to = \"https://a.test*\"; status = 301"],
        "{}",
        found.toml
    );
    let proxies = tables(site, "proxy");
    assert!(
        proxies[0].contains("if = [\"not query plain\", \"header Cookie=*beta=1*\"]")
            && proxies[0].contains(":2")
            && proxies[1].contains(":1"),
        "{}",
        found.toml
    );
    assert_eq!(tables(site, "header-rule").len(), 2, "{}", found.toml);
    assert!(
        matches!(fates(&found, 17)[..], [Fate::Missing(why)] if why.contains("the result denies")),
        "{:?}",
        found.report
    );
}

#[test]
fn caddy_sorts_what_the_first_directive_decides() {
    let text = "http://a.test {\nroot * /srv/www\nreverse_proxy 127.0.0.1:4000\nroute /grafana/* {\n\
                reverse_proxy 127.0.0.1:3000\n}\nreverse_proxy /api/* 127.0.0.1:3001\nhandle /h/* {\n\
                reverse_proxy 127.0.0.1:3002\n}\n@ws header Upgrade websocket\nreverse_proxy @ws 127.0.0.1:3003\n\
                redir /foo* /x\nredir /foo/bar /y\n}\n";
    let found = converted(Dialect::Caddy, text);
    let ports = |site: &str| -> Vec<String> {
        let all = tables(site, "proxy");
        all.iter()
            .map(|rule| rule.split("127.0.0.1:").nth(1).unwrap_or_default()[..4].to_owned())
            .collect()
    };
    assert_eq!(
        ports(site(&found, None)),
        ["3002", "3000", "3001", "3003", "4000"],
        "{}",
        found.toml
    );
    let redirects = tables(site(&found, None), "redirect");
    assert!(redirects[0].starts_with("from = \"/foo/bar\""), "{redirects:?}");
    // In a `route`, the order of the file holds.
    let text = "http://a.test {\nroute {\nreverse_proxy /api/* 127.0.0.1:3001\nreverse_proxy 127.0.0.1:4000\n\
                reverse_proxy /late/* 127.0.0.1:3002\n}\n}\n";
    let found = converted(Dialect::Caddy, text);
    assert_eq!(
        ports(site(&found, None)),
        ["3001", "4000", "3002"],
        "{}",
        found.toml
    );
}

/// The lines of the rule for scripts, with the tables behind it.
fn scripts(found: &Conversion) -> &str {
    let rules = found
        .toml
        .split("[[")
        .filter(|table| table.contains("fastcgi://") || table.contains("fastcgi+unix:"));
    let rules: Vec<&str> = rules.collect();
    assert_eq!(rules.len(), 1, "{}", found.toml);
    rules[0]
}

#[test]
fn php_of_nginx_has_its_front_controller() {
    let text = "server { listen 80; server_name a.test; root /srv/a; index index.php index.html;\n\
                location / { try_files $uri $uri/ /index.php?$query_string; }\n\
                location ~ \\.php$ {\n\
                try_files $uri =404;\n\
                fastcgi_split_path_info ^(.+\\.php)(/.+)$;\n\
                fastcgi_pass unix:/run/php/php8.2-fpm.sock;\n\
                fastcgi_index index.php;\n\
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
                fastcgi_param APP_ENV prod;\n\
                fastcgi_param USER_ID $cookie_id;\n\
                fastcgi_read_timeout 300s;\n\
                } }\n";
    let found = converted(Dialect::Nginx, text);
    let rule = scripts(&found);
    for line in [
        "path = \"/*\"",
        "upstreams = [\"fastcgi+unix:/run/php/php8.2-fpm.sock\"]",
        "front = \"/index.php\"",
        "APP_ENV = \"prod\"",
        "first-byte-timeout = \"300s\"",
    ] {
        assert!(rule.lines().any(|one| one == line), "{line}: {rule}");
    }
    assert!(!found.toml.contains("deny"), "{}", found.toml);
    assert!(!rule.contains("except"), "{rule}");
    for (line, is_carried) in [
        (2, true),
        (3, true),
        (6, true),
        (9, true),
        (10, false),
        (11, true),
    ] {
        let is_missing = fates(&found, line)
            .iter()
            .any(|fate| matches!(fate, Fate::Missing(_)));
        assert_eq!(is_missing, !is_carried, "line {line}: {:?}", fates(&found, line));
    }
}

#[test]
fn scripts_that_are_not_carried_are_denied() {
    for (location, said) in [
        (
            "location ^~ /app/ { fastcgi_pass 127.0.0.1:9000; }",
            "one application",
        ),
        (
            "location ~ ^/index\\.php(/|$) { fastcgi_pass 127.0.0.1:9000; }",
            "",
        ),
        ("location ~ \\.php$ { fastcgi_pass $pool; }", "variables"),
        (
            "location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; } location ~* /(?:uploads|files)/.*\\.php$ { deny all; }",
            "refuses some scripts",
        ),
        (
            "location ~ \\.php$ { uwsgi_pass 127.0.0.1:9000; }",
            "over HTTP and FastCGI only",
        ),
    ] {
        let text = format!("server {{ listen 80; server_name a.test; root /srv/a;\n{location}\n}}\n");
        let found = converted(Dialect::Nginx, &text);
        assert!(!found.toml.contains("[[proxy]]"), "{}", found.toml);
        assert!(
            found.toml.contains("deny = [\"all\"]"),
            "{location}: {}",
            found.toml
        );
        let is_said = |fate: &&Fate| matches!(fate, Fate::Missing(why) if why.contains(said));
        assert!(
            fates(&found, 2).iter().any(is_said),
            "{location}: {:?}",
            fates(&found, 2)
        );
    }
    // A front controller without an application is a file like any other, and not served.
    let text = "server { listen 80; server_name a.test; root /srv/a;\nlocation / { try_files $uri /index.php?$args; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    assert!(!found.toml.contains("front"), "{}", found.toml);
}

#[test]
fn php_of_caddy_has_its_front_controller() {
    let text = "a.test {\nroot * /srv/a\nphp_fastcgi unix//run/php/php-fpm.sock {\nenv APP_ENV prod\nsplit .php\nroot /app\nresolve_root_symlink\n}\nfile_server\n}\n";
    let found = converted(Dialect::Caddy, text);
    let rule = scripts(&found);
    for line in [
        "upstreams = [\"fastcgi+unix:/run/php/php-fpm.sock\"]",
        "front = \"/index.php\"",
        "root = \"/app\"",
        "APP_ENV = \"prod\"",
    ] {
        assert!(rule.lines().any(|one| one == line), "{line}: {rule}");
    }
    assert!(
        matches!(fates(&found, 3)[..], [Fate::Carried]),
        "{:?}",
        fates(&found, 3)
    );
    assert!(
        matches!(fates(&found, 7)[..], [Fate::Missing(_)]),
        "{:?}",
        fates(&found, 7)
    );
    let text = "a.test {\nroot * /srv/a\nphp_fastcgi /blog/* 127.0.0.1:9000\nfile_server\n}\n";
    let found = converted(Dialect::Caddy, text);
    assert!(
        !found.toml.contains("[[proxy]]") && found.toml.contains("path = \"*.php\""),
        "{}",
        found.toml
    );
    assert!(matches!(fates(&found, 3)[..], [Fate::Missing(why)] if why.contains("denies `*.php`")));
}

#[test]
fn php_of_apache_is_a_handler() {
    let site = |handler: &str| {
        let text = format!(
            "DocumentRoot /srv/www\n<FilesMatch \"\\.php$\">\nSetHandler \"{handler}\"\n</FilesMatch>\nFallbackResource /index.php\n"
        );
        converted(Dialect::Apache, &text)
    };
    let found = site("proxy:unix:/run/php/php-fpm.sock|fcgi://localhost/");
    let rule = scripts(&found);
    assert!(
        rule.contains("upstreams = [\"fastcgi+unix:/run/php/php-fpm.sock\"]"),
        "{rule}"
    );
    assert!(rule.contains("front = \"/index.php\""), "{rule}");
    assert!(scripts(&site("proxy:fcgi://127.0.0.1:9000")).contains("\"fastcgi://127.0.0.1:9000\""));
    let found = site("application/x-httpd-php");
    assert!(
        !found.toml.contains("[[proxy]]") && found.toml.contains("deny = [\"all\"]"),
        "{}",
        found.toml
    );
}
