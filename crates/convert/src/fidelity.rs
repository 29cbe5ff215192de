//! Tests that a conversion keeps what a configuration says, or reports the difference: whole configurations against the
//! lines of the result and the fates of their lines.

mod conditions;
mod decided;
mod hosts;
mod mounts;
mod scripts;
mod tried;
mod widened;

use crate::{Conversion, Dialect, Fate, Files, Nested, Text, convert};

/// Configurations of these tests include no files.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &str) -> Result<Vec<Text>, String> {
        Ok(Vec::new())
    }

    fn nested(&self, _: &str) -> Nested {
        Nested::default()
    }
}

/// No included file can be read.
struct Lost;

impl Files for Lost {
    fn read(&self, pattern: &str) -> Result<Vec<Text>, String> {
        Err(format!("cannot read `{pattern}`"))
    }

    fn nested(&self, root: &str) -> Nested {
        Nested {
            files: Vec::new(),
            lost: vec![format!("cannot read `{root}`")],
        }
    }
}

pub(crate) fn converted(dialect: Dialect, text: &str) -> Conversion {
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
fn imports_have_a_bound() {
    let (places, block) = ("{block}\n".repeat(400), "encode\n".repeat(400));
    let main = Text {
        name: "site".to_owned(),
        text: format!("(many) {{\n{places}}}\nhttp://a.test {{\nimport many {{\n{block}}}\n}}\n"),
    };
    let why = convert(Dialect::Caddy, &main, &NoFiles, None).unwrap_err();
    assert!(
        why.to_string()
            .contains("site:404: imports that make more than 100000 directives"),
        "{why}"
    );
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
    // The file of the folder above, wherever its section is.
    let above =
        "<Directory /srv/www>\nAuthUserFile /etc/users\nAuthName Area\nRequire valid-user\n</Directory>\n";
    let below = "<Directory /srv/www/data>\nRequire user six\n</Directory>\n";
    for sections in [format!("{above}{below}"), format!("{below}{above}")] {
        let found = converted(Dialect::Apache, &format!("DocumentRoot /srv/www\n{sections}"));
        let asked = rule(site(&found, None), "access", "/data/*");
        for line in [
            "htpasswd = \"/etc/users\"",
            "realm = \"Area\"",
            "users = [\"six\"]",
        ] {
            assert!(asked.contains(&line), "{line}: {}", found.toml);
        }
    }
    // A folder beside it has none, nor is a file for another kind of authentication one of passwords.
    for (name, line) in [("/srv/www/d", ""), ("/srv/www", "AuthType Digest\n")] {
        let above =
            format!("<Directory {name}>\n{line}AuthUserFile /etc/users\nRequire valid-user\n</Directory>\n");
        let found = converted(Dialect::Apache, &format!("DocumentRoot /srv/www\n{above}{below}"));
        let asked = rule(site(&found, None), "access", "/data/*");
        let is_file = |line: &&str| line.starts_with("htpasswd");
        assert!(!asked.iter().any(is_file), "{name}: {}", found.toml);
    }
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
fn locations_without_compression_are_exceptions() {
    let text = "server {\nlisten 80;\nroot /srv/www;\ngzip on;\n\
                location / { index main.html; }\n\
                location /raw/ {\ngzip off;\n}\n\
                location = /one.html {\ngzip off;\n}\n\
                location ~ \\.(csv|tsv)$ {\ngzip off;\n}\n\
                location ^~ /app/ {\ngzip off;\n}\n\
                location /app/open/ { expires 1h; }\n\
                location /deep/ {\ngzip off;\nlocation /deep/er/ { expires 1h; }\n}\n\
                location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; }\n\
                }\n\
                server {\nlisten 80;\nserver_name b.test;\nroot /srv/b;\ngzip on;\ngzip_static on;\n\
                location /raw/ {\ngzip off;\n}\n\
                }\n\
                server {\nlisten 80;\nserver_name c.test;\nroot /srv/c;\ngzip on;\n}\n";
    let found = converted(Dialect::Nginx, text);
    for (name, line) in [
        (
            None,
            "compress-except = [\"/one.html\", \"*.csv\", \"*.tsv\", \"/raw/*\"]\n",
        ),
        (Some("b.test"), "compress-except = [\"/raw/*\"]\n"),
        (Some("c.test"), "compress-except = []\n"),
    ] {
        assert!(site(&found, name).contains(line), "{name:?}: {}", found.toml);
    }
    check_fates(
        &found,
        &[
            (7, "carried", ""),
            (10, "carried", ""),
            (13, "carried", ""),
            // Another location answers a part of its paths.
            (16, "missing", "one `gzip` for each host"),
            (20, "missing", "one `gzip` for each host"),
            (32, "changed", "no siblings"),
        ],
    );
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
pub(crate) fn check_fates(found: &Conversion, wanted: &[(usize, &str, &str)]) {
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

/// The tables of a list, in order, each as one line.
fn tables(site: &str, list: &str) -> Vec<String> {
    let head = format!("[[{list}]]\n");
    let parts = site.split("\n\n").filter_map(|part| part.strip_prefix(&head));
    parts.map(|table| table.trim().replace('\n', "; ")).collect()
}

#[test]
fn a_file_that_cannot_be_read_may_limit_access() {
    for (dialect, text, word) in [
        (
            Dialect::Nginx,
            "server { root /srv/a;\ninclude deny.conf;\n}\n",
            "open",
        ),
        (
            Dialect::Nginx,
            "server { root /srv/a; location /a/ {\ninclude deny.conf;\n} }\n",
            "open",
        ),
        (
            Dialect::Nginx,
            "server { root /srv/a;\ninclude fastcgi_params;\n}\n",
            "unneeded",
        ),
        (
            Dialect::Nginx,
            "server { root /srv/a;\ninclude /etc/nginx/mime.types;\n}\n",
            "unneeded",
        ),
        (
            Dialect::Apache,
            "DocumentRoot /srv/a\nInclude deny.conf\n",
            "open",
        ),
        // Apache, too, goes on without it.
        (
            Dialect::Apache,
            "DocumentRoot /srv/a\nIncludeOptional deny.conf\n",
            "missing",
        ),
        (Dialect::Caddy, "a.test {\nimport deny.conf\n}\n", "open"),
    ] {
        let main = Text {
            name: "site".to_owned(),
            text: text.to_owned(),
        };
        let found = convert(dialect, &main, &Lost, Some("/srv/www")).expect("a configuration");
        let words: Vec<&str> = fates(&found, 2).iter().map(|fate| fate.word()).collect();
        assert_eq!(words, [word], "{text}");
    }
}
