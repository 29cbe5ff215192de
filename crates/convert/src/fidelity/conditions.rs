//! Tests about conditions of rules, and about the order in which Caddy applies its directives.

use super::{check_fates, converted, fates, site, tables};
use crate::{Dialect, Fate};

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

#[test]
fn sections_of_apache_with_a_parameter_are_conditions_of_field_lines() {
    let text = "DocumentRoot /srv/www\n<FilesMatch \"\\.css$\">\n\
                <If \"%{QUERY_STRING} =~ /(^|&)v=/\">\nHeader set Cache-Control a\nHeader always set X-A 1\n</If>\n\
                <Else>\nHeader set Cache-Control b\n</Else>\n</FilesMatch>\n\
                <FilesMatch \"\\.css$\">\nHeader set Cache-Control c\n</FilesMatch>\n\
                <If \"%{QUERY_STRING} =~ /(^|&)w=/\">\nRequire all denied\n</If>\n\
                <Else>\nHeader set X-B 1\n</Else>\n";
    let found = converted(Dialect::Apache, text);
    // Apache applies these sections behind all others.
    assert_eq!(
        tables(site(&found, None), "header-rule"),
        [
            "path = \"*.css\"; header = [\"Cache-Control: c\"]",
            "path = \"/*\"; if = [\"not query w\"]; header = [\"X-B: 1\"]",
            "path = \"*.css\"; if = [\"query v\"]; header = [\"Cache-Control: a\"]",
            "path = \"*.css\"; if = [\"query v\"]; header = [\"X-A: 1\"]; always = true",
            "path = \"*.css\"; if = [\"not query v\"]; header = [\"Cache-Control: b\"]",
        ],
        "{}",
        found.toml
    );
    check_fates(
        &found,
        &[
            (3, "carried", ""),
            (5, "carried", ""),
            (7, "carried", ""),
            (14, "missing", "only around `Header set`"),
            (15, "open", "only around `Header set`"),
        ],
    );
}
