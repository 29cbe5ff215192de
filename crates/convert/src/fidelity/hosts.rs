//! Tests about what one site of a configuration must not do to another one, or a location to another: redirects to https,
//! settings for all hosts, folders, field lines.

use super::{check_fates, converted, fates, rule, site, tables};
use crate::{Dialect, Fate};

/// A server of nginx with TLS.
const TLS: &str = "listen 443 ssl; ssl_certificate c.pem; ssl_certificate_key k.pem;";

/// The redirect to https of a host, with the paths that it leaves out.
fn to_https(host: &str, except: &str) -> String {
    format!("from = \"*\"; {except}if = [\"scheme http\"]; to = \"https://{host}*\"; status = 301")
}

#[test]
fn only_hosts_that_redirect_are_redirected() {
    let text = format!(
        "server {{ listen 80; server_name a.test www.a.test; return 301 https://$host$request_uri; }}\n\
         server {{ {TLS} server_name a.test www.a.test; root /a; location /in/ {{ auth_basic x; auth_basic_user_file /u; }} }}\n\
         server {{ listen 80; server_name b.test; root /b;\n\
         location /account/ {{ return 301 https://$host$request_uri; }} }}\n\
         server {{ {TLS} server_name c.test; root /c; }}\n"
    );
    let found = converted(Dialect::Nginx, &text);
    assert!(found.toml.contains("https-redirect = false\n"), "{}", found.toml);
    for (host, list) in [(None, "redirect"), (Some("www.a.test"), "host.redirect")] {
        let name = host.unwrap_or("a.test");
        assert_eq!(
            tables(site(&found, host), list),
            [to_https(name, "")],
            "{}",
            found.toml
        );
    }
    let b = tables(site(&found, Some("b.test")), "host.redirect");
    assert_eq!(
        b,
        ["from = \"/account/*\"; if = [\"scheme http\"]; to = \"https://b.test/account/*\"; status = 301"],
        "{}",
        found.toml
    );
    // Of the first server in cleartext, which answers hosts without one.
    assert_eq!(
        tables(site(&found, Some("c.test")), "host.redirect"),
        [to_https("c.test", "")]
    );
    // Nobody is asked for a password in cleartext.
    let access = tables(site(&found, None), "access");
    assert_eq!(
        access[0], "path = \"/in/*\"; if = [\"scheme http\"]; allow = [\"all\"]",
        "{access:?}"
    );
    check_fates(&found, &[(1, "carried", ""), (4, "carried", "")]);
    // All servers in cleartext redirect.
    let all = text.lines().take(2).collect::<String>();
    let found = converted(Dialect::Nginx, &all);
    assert!(found.toml.contains("https-redirect = true\n"), "{}", found.toml);
    check_fates(&found, &[(1, "changed", "308")]);
    // A server with TLS cannot redirect to itself, and no other is redirected because of it.
    let text = format!(
        "server {{ {TLS} server_name a.test; root /a;\nlocation /x/ {{ return 301 https://$host$request_uri; }} }}\n\
         server {{ listen 80; server_name b.test; root /b; }}\n"
    );
    let found = converted(Dialect::Nginx, &text);
    assert!(!found.toml.contains("https-redirect"), "{}", found.toml);
    check_fates(&found, &[(2, "missing", "redirects to itself")]);
}

#[test]
fn names_without_a_redirect_of_weir_are_refused_in_cleartext() {
    let text = format!(
        "server {{ listen 80 default_server; server_name _; return 301 https://$host$request_uri; }}\n\
         server {{ {TLS} server_name *.a.test; root /a; }}\n\
         server {{ listen 80; server_name b.test; root /b; }}\n"
    );
    let found = converted(Dialect::Nginx, &text);
    for (host, list) in [(None, "access"), (Some("*.a.test"), "host.access")] {
        let access = tables(site(&found, host), list);
        assert_eq!(
            access,
            [
                "path = \"*\"; if = [\"scheme http\"]; deny = [\"all\"]",
                "path = \"*\"; allow = [\"all\"]"
            ],
            "{}",
            found.toml
        );
    }
    check_fates(&found, &[(2, "missing", "denies it in cleartext")]);
    assert!(
        tables(site(&found, Some("b.test")), "host.access").is_empty(),
        "{}",
        found.toml
    );
}

#[test]
fn certbot_redirects_the_names_that_it_has() {
    let text = format!(
        "server {{ if ($host = a.test) {{ return 301 https://$host$request_uri; }}\n\
         listen 80; server_name a.test old.test; root /old; }}\n\
         server {{ {TLS} server_name a.test; root /a; }}\n"
    );
    let found = converted(Dialect::Nginx, &text);
    let led = tables(site(&found, Some("a.test")), "host.redirect");
    assert_eq!(led, [to_https("a.test", "")], "{}", found.toml);
    assert!(site(&found, None).contains("root = \"/old\""), "{}", found.toml);
    assert!(
        tables(site(&found, None), "redirect").is_empty(),
        "{}",
        found.toml
    );

    let text = "<VirtualHost *:80>\nServerName a.test\nServerAlias www.a.test\nRewriteEngine on\n\
                RewriteCond %{SERVER_NAME} =www.a.test [OR]\nRewriteCond %{SERVER_NAME} =a.test\n\
                RewriteRule ^ https://%{SERVER_NAME}%{REQUEST_URI} [END,NE,R=permanent]\n</VirtualHost>\n\
                <VirtualHost *:443>\nServerName a.test\nServerAlias www.a.test\nDocumentRoot /a\nSSLEngine on\n\
                SSLCertificateFile c.pem\nSSLCertificateKeyFile k.pem\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, text);
    assert!(found.toml.contains("https-redirect = true\n"), "{}", found.toml);
    check_fates(&found, &[(7, "changed", "308")]);
    let plain = "<VirtualHost *:80>\nServerName b.test\nDocumentRoot /b\n</VirtualHost>\n";
    let found = converted(Dialect::Apache, &format!("{text}{plain}"));
    let led = tables(site(&found, Some("www.a.test")), "host.redirect");
    assert_eq!(led, [to_https("www.a.test", "")], "{}", found.toml);
    assert!(
        tables(site(&found, Some("b.test")), "host.redirect").is_empty(),
        "{}",
        found.toml
    );
    check_fates(&found, &[(7, "carried", "")]);
}

#[test]
fn folders_of_challenges_are_answered_in_cleartext() {
    let except = "except = [\"/.well-known/acme-challenge/*\"]; ";
    let nginx = |locations: &str| {
        format!(
            "server {{ listen 80; server_name a.test; root /clear;\n{locations}\n}}\n\
             server {{ {TLS} server_name a.test; root /a; auth_basic x; auth_basic_user_file /u;\n\
             location / {{ try_files $uri /index.html; }} }}\n"
        )
    };
    let lead = "location / { return 301 https://$host$request_uri; }";
    for (locations, mount) in [
        (
            "location /.well-known/acme-challenge/ { root /acme; }",
            "root = \"/acme\"; strip = false",
        ),
        (
            "location ^~ /.well-known/acme-challenge { alias /acme; }",
            "root = \"/acme\"",
        ),
        // The root of the server in cleartext.
        (
            "location /.well-known/acme-challenge/ { try_files $uri =404; }",
            "root = \"/clear\"; strip = false",
        ),
    ] {
        for lead in [
            lead,
            "location / { return 301 https://a.test$request_uri; }",
            "location / { rewrite ^ https://$host$request_uri permanent; }",
        ] {
            let found = converted(Dialect::Nginx, &nginx(&format!("{locations} {lead}")));
            let top = site(&found, None);
            assert!(
                tables(top, "mount").contains(&format!("path = \"/.well-known/acme-challenge/\"; {mount}")),
                "{lead}: {}",
                found.toml
            );
            assert_eq!(
                tables(top, "redirect"),
                [to_https("a.test", except)],
                "{}",
                found.toml
            );
            // Without the password and the files that https has.
            assert_eq!(
                tables(top, "access")[0],
                "path = \"/.well-known/acme-challenge/*\"; if = [\"scheme http\"]; allow = [\"all\"]",
                "{}",
                found.toml
            );
            assert_eq!(
                tables(top, "try-files")[0],
                "path = \"/.well-known/acme-challenge/*\"; files = [\"$path\"]",
                "{}",
                found.toml
            );
        }
    }
    // An upstream answers them; a file of its own has no mount.
    let found = converted(
        Dialect::Nginx,
        &nginx(&format!(
            "location /.well-known/acme-challenge/ {{ proxy_pass http://10.0.0.1; }} location = /robots.txt {{ }}\n{lead}"
        )),
    );
    let passed = rule(site(&found, None), "proxy", "/.well-known/acme-challenge/*");
    assert!(passed.contains(&"if = [\"scheme http\"]"), "{}", found.toml);
    check_fates(&found, &[(1, "missing", "the result redirects these paths, too")]);

    let apache = "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /clear\nAlias /.well-known/acme-challenge/ /acme/\n\
                  RewriteEngine on\nRewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_URI} !acme-challenge\n\
                  RewriteRule (.*) https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]\n</VirtualHost>\n\
                  <VirtualHost *:443>\nServerName a.test\nDocumentRoot /a\nSSLEngine on\n\
                  SSLCertificateFile c.pem\nSSLCertificateKeyFile k.pem\n</VirtualHost>\n";
    let caddy = "http://a.test {\nhandle /.well-known/acme-challenge/* {\nroot * /acme\nfile_server\n}\nhandle {\n\
                 redir https://a.test{uri} permanent\n}\n}\nhttps://a.test {\ntls c.pem k.pem\nroot * /a\nfile_server\n}\n";
    let look_ahead = apache
        .replace(
            "RewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_URI} !acme-challenge\n",
            "",
        )
        .replace(
            "RewriteRule (.*) https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]",
            "RedirectMatch 301 ^/(?!\\.well-known/acme-challenge/)(.*)$ https://a.test/$1",
        );
    for (dialect, text, mount) in [
        (Dialect::Apache, apache, "root = \"/acme\""),
        (Dialect::Apache, &look_ahead, "root = \"/acme\""),
        (Dialect::Caddy, caddy, "root = \"/acme\"; strip = false"),
    ] {
        let found = converted(dialect, text);
        let (top, prefix) = match dialect {
            Dialect::Caddy if found.toml.contains("[[host]]") => (site(&found, Some("a.test")), "host."),
            _ => (site(&found, None), ""),
        };
        assert_eq!(
            tables(top, &format!("{prefix}mount")),
            [format!("path = \"/.well-known/acme-challenge/\"; {mount}")],
            "{}",
            found.toml
        );
        let redirect = tables(top, &format!("{prefix}redirect"));
        assert_eq!(redirect, [to_https("a.test", except)], "{}", found.toml);
    }
}

#[test]
fn a_folder_of_cleartext_is_limited_over_https_too() {
    let text = format!(
        "server {{ listen 80; server_name a.test; root /clear;\n\
         location /hook/ {{ root /hook; allow 10.0.0.0/8; deny all; }}\n\
         location /.well-known/acme-challenge/ {{ root /acme; }}\n\
         location / {{ return 301 https://$host$request_uri; }} }}\n\
         server {{ {TLS} server_name a.test; root /a; deny 192.0.2.0/24; }}\n"
    );
    let found = converted(Dialect::Nginx, &text);
    assert_eq!(
        tables(site(&found, None), "access"),
        [
            "path = \"/hook/*\"; allow = [\"10.0.0.0/8\"]",
            "path = \"/.well-known/acme-challenge/*\"; if = [\"scheme http\"]; allow = [\"all\"]",
            "path = \"/*\"; deny = [\"192.0.2.0/24\"]",
        ],
        "{}",
        found.toml
    );
}

#[test]
fn a_location_in_another_one_decides_first() {
    let text = "server { listen 80; root /srv;\nlocation / { proxy_pass http://10.0.0.1;\n\
                location /static/ { alias /srv/assets/; }\n\
                location /api/ { proxy_pass http://10.0.0.2; location /api/docs/ { root /docs; } } }\n\
                location /old/ { return 301 /new/; location /old/kept/ { return 302 /kept/; } }\n}\n";
    let found = converted(Dialect::Nginx, text);
    let top = site(&found, None);
    assert_eq!(
        tables(top, "mount"),
        [
            "path = \"/static/\"; root = \"/srv/assets\"",
            "path = \"/api/docs/\"; root = \"/docs\"; strip = false"
        ],
        "{}",
        found.toml
    );
    let proxies = tables(top, "proxy");
    assert!(
        proxies[0].starts_with("path = \"/api/*\"; except = [\"/api/docs/*\"]")
            && proxies[0].contains("10.0.0.2"),
        "{proxies:?}"
    );
    assert!(proxies[1].starts_with("path = \"/*\"; except = ["), "{proxies:?}");
    for path in ["/static/*", "/api/docs/*", "/old/*"] {
        assert!(proxies[1].contains(&format!("\"{path}\"")), "{path}: {proxies:?}");
    }
    let redirects = tables(top, "redirect");
    assert!(
        redirects[0].starts_with("from = \"/old/kept/*\""),
        "{redirects:?}"
    );
}

#[test]
fn an_expression_in_a_location_is_for_its_paths_alone() {
    let text = "server { listen 80; root /srv; deny all;\n\
                location /pub/ { location ~ \\.txt$ { allow all; } }\n\
                location /up/ { location ~ /secret { return 403; } location ~ \\.js$ { add_header X-A 1; } }\n}\n";
    let found = converted(Dialect::Nginx, text);
    let top = site(&found, None);
    let open = tables(top, "access");
    assert!(open[0].starts_with("path = \"/pub/*.txt/\"; deny"), "{open:?}");
    assert!(open[1].starts_with("path = \"/pub/*.txt\"; allow"), "{open:?}");
    assert!(!found.toml.contains("path = \"*.txt\""), "{}", found.toml);
    assert!(!found.toml.contains("path = \"*.js\""), "{}", found.toml);
    assert!(!rule(top, "header-rule", "/up/*.js").is_empty(), "{}", found.toml);
}

#[test]
fn folders_in_mounts_of_other_locations_are_mounts() {
    let text = "server { listen 80; root /srv;\n\
                location /a/ { alias /x/; location /a/b/ { alias /srv/a/b/; } location /a/c/ { root /srv; }\n\
                location /a/d/ { expires 1d; } }\n\
                location /a/e/ { autoindex on; }\nlocation = /a/f.txt { expires 1h; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    let top = site(&found, None);
    for (path, root) in [
        ("/a/", "/x"),
        ("/a/b/", "/srv/a/b"),
        ("/a/c/", "/srv"),
        ("/a/e/", "/srv"),
    ] {
        let mount = rule(top, "mount", path);
        assert!(
            mount.contains(&&*format!("root = \"{root}\"")),
            "{path}: {}",
            found.toml
        );
    }
    assert!(rule(top, "mount", "/a/d/").is_empty(), "{}", found.toml);
    check_fates(
        &found,
        &[(5, "missing", "nginx looks for its files in `/srv/a/f.txt`")],
    );
}

#[test]
fn a_redirect_leaves_out_stronger_locations() {
    let text = "server { listen 80; server_name a.test; root /srv;\n\
                location / { return 301 https://other.test$request_uri; }\n\
                location /files/ { autoindex on; }\nlocation = /ping { return 403; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    let redirects = tables(site(&found, None), "redirect");
    assert_eq!(
        redirects,
        ["from = \"/*\"; except = [\"/files/*\"]; to = \"https://other.test/*\"; status = 301"],
        "{}",
        found.toml
    );
}

#[test]
fn a_location_without_an_upstream_has_files() {
    let text = "server { listen 80; root /srv;\nlocation / { proxy_pass http://10.0.0.1; }\n\
                location = /favicon.ico { access_log off; }\nlocation /files/ { autoindex on; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    let passed = rule(site(&found, None), "proxy", "/*");
    assert!(
        passed.contains(&"except = [\"/favicon.ico\", \"/files/*\"]"),
        "{}",
        found.toml
    );
}

#[test]
fn field_lines_of_other_paths_are_reported() {
    let text = "server { listen 80; root /srv; add_header X-Server 1;\n\
                location / { add_header X-Root 1; try_files $uri $uri.html =404; }\n\
                location = /page { add_header X-Page 1; try_files /other.html =404; }\n\
                location ~ \\.html$ { expires 1h; }\n\
                location /api/ { proxy_pass http://10.0.0.1; }\n\
                location /in/ { add_header X-In 1; try_files $uri /in/index.html; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    check_fates(
        &found,
        &[
            (
                2,
                "changed",
                "the lines of the block around this location: X-Server",
            ),
            (2, "changed", "sends X-Root also for paths of"),
            (
                3,
                "missing",
                "`try_files` sends `/other.html`, without these lines",
            ),
            // `$uri.html` of another location is in its paths.
            (4, "changed", "sends Cache-Control also for paths of"),
        ],
    );
    let lost = |fate: &&&Fate| matches!(fate, Fate::Missing(_));
    assert_eq!(
        fates(&found, 6).iter().filter(lost).count(),
        0,
        "{:?}",
        found.report
    );

    let text = "http://a.test {\nroot * /srv\nheader /app/* X-App 1\nheader /index.html X-Page 1\nheader X-All 1\n\
                header /in/* X-In 1\ntry_files {path} {path}.html /index.html\nfile_server\n}\n";
    let found = converted(Dialect::Caddy, text);
    check_fates(
        &found,
        &[
            (3, "missing", "`try_files` sends `/index.html`"),
            (4, "changed", "requests for `*` have these lines, too"),
            (5, "carried", ""),
        ],
    );
    assert_eq!(fates(&found, 5).len(), 1, "{:?}", found.report);
}

#[test]
fn field_lines_of_locations_in_others_are_reported() {
    let of = |stronger: &str| {
        let text = format!(
            "server {{ listen 80; root /srv;\nlocation / {{ location ~ \\.json$ {{ add_header X-In 1; }} }}\n{stronger}\n}}\n"
        );
        converted(Dialect::Nginx, &text)
    };
    for stronger in [
        "location /private/ { }",
        "location ^~ /private/ { }",
        "location = /x.json { }",
    ] {
        let why = format!(
            "sends X-In also for paths of `{}`",
            stronger.trim_end_matches(" { }")
        );
        check_fates(&of(stronger), &[(2, "changed", &*why)]);
    }
    // nginx takes the location inside, does not look inside, or sends the same field.
    for other in [
        "location ~ ^/private/ { }",
        "location /private/ { add_header X-In 2; }",
        "location = /x.txt { }",
    ] {
        let found = of(other);
        assert_eq!(found.report.count("changed"), 0, "{other}: {:?}", found.report);
    }
}

#[test]
fn field_lines_that_a_location_replaces_are_reported() {
    let text = "server { listen 80; root /srv; add_header Cache-Control no-store; add_header X-A 1;\n\
                location /v/ { add_header X-V $time_local; }\n\
                location /e/ { expires 1h; add_header X-E 1; }\n\
                location /p/ { add_header X-P 1; location /p/q/ { location ~ \\.json$ { add_header X-Q 1; } } }\n\
                location /n/ { expires 1h; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    check_fates(
        &found,
        &[
            (2, "changed", "around this location: Cache-Control, X-A;"),
            (3, "changed", "around this location: X-A;"),
            (4, "changed", "around this location: Cache-Control, X-A;"),
            (4, "changed", "around this location: X-P;"),
        ],
    );
    let is_noted = |fate: &&Fate| fate.why().contains("around this location");
    assert!(!fates(&found, 5).iter().any(is_noted), "{:?}", found.report);
    // A server replaces the lines around it, but for those of `expires`.
    let text = "http { expires 1h; add_header Cache-Control no-store; add_header X-A 1;\n\
                server { listen 80; root /srv; add_header X-B 1; } }\n";
    let found = converted(Dialect::Nginx, text);
    assert!(
        found
            .toml
            .contains("header = [\"Cache-Control: max-age=3600\", \"X-B: 1\"]"),
        "{}",
        found.toml
    );
}

#[test]
fn a_zone_of_limits_belongs_to_the_http_block() {
    let zone = "limit_conn_zone $binary_remote_addr zone=a:1m;";
    let text = format!("server {{ listen 80; root /srv;\n{zone}\nlimit_conn a 1;\n}}\n");
    check_fates(
        &converted(Dialect::Nginx, &text),
        &[
            (2, "missing", "in `http` only"),
            (3, "missing", "its zone was not carried over"),
        ],
    );
    let text = format!("http {{\n{zone}\nserver {{ listen 80; root /srv;\nlimit_conn a 1;\n}} }}\n");
    check_fates(
        &converted(Dialect::Nginx, &text),
        &[(2, "carried", ""), (4, "changed", "429")],
    );
}

#[test]
fn settings_for_all_hosts_are_those_on_which_all_agree() {
    let two = |first: &str, second: &str| {
        let text = format!(
            "keepalive_timeout 30;\nserver {{ listen 80; server_name a.test; root /a;\n{first}\n}}\n\
             server {{ listen 80; server_name b.test; root /b;\n{second}\n}}\n\
             server {{ listen 80; server_name c.test; return 301 http://a.test$request_uri; }}\n"
        );
        converted(Dialect::Nginx, &text)
    };
    let found = two("client_body_timeout 10s;", "client_body_timeout 10s;");
    assert!(found.toml.contains("body-timeout = \"10s\"\n"), "{}", found.toml);
    assert!(found.toml.contains("idle-timeout = \"30s\"\n"), "{}", found.toml);
    check_fates(
        &found,
        &[(1, "carried", ""), (3, "carried", ""), (6, "carried", "")],
    );
    for (first, second, key, parts) in [
        (
            "client_body_timeout 10s;",
            "client_body_timeout 60s;",
            "body-timeout",
            &["server a.test has \"10s\"", "server b.test has \"60s\""][..],
        ),
        (
            "send_timeout 10s;",
            "",
            "write-timeout",
            &["server a.test has \"10s\"", "server b.test names none"],
        ),
        (
            "",
            "keepalive_timeout 5;",
            "idle-timeout",
            &["server a.test has \"30s\"", "server b.test has \"5s\""],
        ),
        (
            "large_client_header_buffers 4 32k;",
            "",
            "max-head-size",
            &["server a.test has 131072", "server b.test names none"],
        ),
        ("http2 off;", "", "http2", &["server b.test names none"]),
    ] {
        let found = two(first, second);
        assert!(
            !found.toml.contains(&format!("\n{key} = ")),
            "{key}: {}",
            found.toml
        );
        let line = if first.is_empty() { 6 } else { 3 };
        for part in parts {
            check_fates(&found, &[(line, "missing", part)]);
        }
    }
    // A location is less than a server.
    let found = two("location /up/ { client_body_timeout 300s; }", "");
    assert!(!found.toml.contains("body-timeout"), "{}", found.toml);
    check_fates(&found, &[(3, "missing", "for all hosts and paths")]);

    let apache = |first: &str, second: &str| {
        let host = |name: &str, line: &str| {
            format!("<VirtualHost *:80>\nServerName {name}\nDocumentRoot /{name}\n{line}\n</VirtualHost>\n")
        };
        let text = host("a.test", first) + &host("b.test", second);
        converted(Dialect::Apache, &text)
    };
    let found = apache("LimitRequestBody 1000", "LimitRequestBody 2000");
    assert!(!found.toml.contains("\nmax-body-size"), "{}", found.toml);
    check_fates(
        &found,
        &[
            (4, "missing", "a.test> has 1000, and"),
            (9, "missing", "b.test> has 2000"),
        ],
    );
    let found = apache("LimitRequestBody 1000", "LimitRequestBody 1000");
    assert!(found.toml.contains("max-body-size = 1000\n"), "{}", found.toml);

    let caddy =
        "http://a.test {\nrequest_body {\nmax_size 1KB\n}\nfile_server\n}\nhttp://b.test {\nfile_server\n}\n";
    let found = converted(Dialect::Caddy, caddy);
    assert!(!found.toml.contains("\nmax-body-size"), "{}", found.toml);
    check_fates(&found, &[(2, "missing", "http://b.test names none")]);
}

#[test]
fn a_proxy_of_one_host_is_trusted_by_no_other() {
    let text = "server { listen 80; server_name a.test; root /a;\nset_real_ip_from 10.0.0.0/8;\nallow 10.0.0.0/8;\ndeny all; }\n\
                server { listen 80; server_name b.test; root /b;\nallow 192.0.2.0/24;\ndeny all; }\n";
    let found = converted(Dialect::Nginx, text);
    assert!(!found.toml.contains("\ntrusted = "), "{}", found.toml);
    // All clients would have the address of the proxy.
    assert_eq!(
        tables(site(&found, None), "access"),
        ["path = \"/*\"; deny = [\"all\"]"],
        "{}",
        found.toml
    );
    let kept = rule(site(&found, Some("b.test")), "access", "/*");
    assert!(kept.contains(&"allow = [\"192.0.2.0/24\"]"), "{}", found.toml);
    check_fates(&found, &[(2, "missing", "server b.test names none")]);
    let both = text.replace("root /b;", "root /b; set_real_ip_from 10.0.0.0/8;");
    let found = converted(Dialect::Nginx, &both);
    assert!(
        found.toml.contains("\ntrusted = [\"10.0.0.0/8\"]\n"),
        "{}",
        found.toml
    );
    assert!(!rule(site(&found, None), "access", "/*").contains(&"deny = [\"all\"]"));
}

#[test]
fn a_host_does_not_write_into_the_log_of_another() {
    let nginx = "server { listen 80; server_name a.test; root /a; access_log /l/a.log; }\n\
                 server { listen 80; server_name b.test; root /b; }\n";
    let apache = "<VirtualHost *:80>\nServerName a.test\nCustomLog /l/a.log combined\n</VirtualHost>\n\
                  <VirtualHost *:80>\nServerName b.test\n</VirtualHost>\n";
    for (dialect, text, line) in [(Dialect::Nginx, nginx, 2), (Dialect::Apache, apache, 5)] {
        let found = converted(dialect, text);
        assert!(
            site(&found, Some("b.test")).contains("access-log = false\n"),
            "{}",
            found.toml
        );
        check_fates(&found, &[(line, "changed", "`/l/a.log` is that of another site")]);
    }
}

#[test]
fn a_handshake_that_one_server_refuses_is_no_site() {
    let text = format!(
        "server {{ {TLS} server_name a.test; ssl_reject_handshake on; }}\n\
         server {{ {TLS} server_name b.test; root /b; ssl_reject_handshake off; }}\n"
    );
    let found = converted(Dialect::Nginx, &text);
    assert!(found.toml.contains("unknown-name = \"reject\""), "{}", found.toml);
    assert!(
        tables(site(&found, None), "access").contains(&"path = \"/*\"; deny = [\"all\"]".to_owned()),
        "{}",
        found.toml
    );
}

#[test]
fn a_file_server_for_some_paths_serves_no_others() {
    let of = |site: &str| converted(Dialect::Caddy, &format!("http://a.test {{\n{site}\n}}\n"));
    for text in [
        "handle /kali/* {\nfile_server browse {\nroot /mnt\n}\n}",
        "file_server /kali/* browse {\nroot /mnt\n}",
        "root * /mnt\nfile_server /kali/* browse",
        "root * /mnt\nhandle /kali/* {\nfile_server browse\n}\nhandle /api/* {\nreverse_proxy b.test\n}",
    ] {
        let found = of(text);
        let toml = &found.toml;
        assert!(toml.contains("\nroot = \"weir-empty\""), "{text}: {toml}");
        assert_eq!(
            tables(site(&found, None), "mount"),
            ["path = \"/kali/\"; root = \"/mnt\"; strip = false; listing = true"],
            "{toml}"
        );
    }
    // One for all other paths serves the whole root.
    let found = of("root * /mnt\nhandle /kali/* {\nfile_server browse\n}\nhandle {\nfile_server\n}");
    assert!(found.toml.contains("\nroot = \"/mnt\""), "{}", found.toml);
    // What has no form of a mount is served by nobody.
    let found = of("root * /mnt\n@jpg path *.jpg\nfile_server @jpg");
    assert!(found.toml.contains("weir-empty"), "{}", found.toml);
    check_fates(&found, &[(4, "missing", "a mount of Weir")]);
    // Scripts are found in the root, which is therefore served.
    let found = of("root * /mnt\nphp_fastcgi 127.0.0.1:9000\nfile_server /kali/*");
    check_fates(&found, &[(4, "open", "scripts")]);
}

#[test]
fn a_lost_rewrite_into_a_folder_is_open() {
    for (dialect, text, line) in [
        (
            Dialect::Caddy,
            "http://a.test {\nroot * /srv\nrewrite * /public{uri}\nfile_server\n}\n",
            3,
        ),
        (
            Dialect::Nginx,
            "server { listen 80; root /srv;\nrewrite ^/(.*)$ /public/$1 last;\n}\n",
            2,
        ),
        (
            Dialect::Nginx,
            "server { listen 80;\nlocation / {\nrewrite ^/(.*)$ /tenant/$1 break;\nproxy_pass http://127.0.0.1:8000;\n}\n}\n",
            3,
        ),
        (
            Dialect::Apache,
            "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv\nRewriteEngine On\n\
             RewriteRule ^/(.*)$ /public/$1 [L]\n</VirtualHost>\n",
            5,
        ),
    ] {
        let found = converted(dialect, text);
        check_fates(&found, &[(line, "open", "what is beside it")]);
    }
}

#[test]
fn a_server_of_unix_sockets_opens_no_port() {
    let at = |address: &str, host: &str| {
        format!("server {{ listen {address}; server_name {host}; root /srv/{host}; }}\n")
    };
    // Alone, the sockets are the addresses of the result.
    let text = format!(
        "{}{}",
        at("unix:/run/a.sock", "a.test"),
        at("unix:/run/b.sock default_server", "b.test")
    );
    let found = converted(Dialect::Nginx, &text);
    assert!(
        found
            .toml
            .contains("listen = [\"unix:/run/a.sock\", \"unix:/run/b.sock\"]\n"),
        "{}",
        found.toml
    );
    assert!(!found.toml.contains("access]]"), "{}", found.toml);
    check_fates(
        &found,
        &[(1, "changed", "`socket-mode`"), (2, "changed", "`socket-mode`")],
    );
    // Beside other addresses, they are left out, and the site is for this machine only. No port is added.
    let text = format!("{}{}", at("8080", "b.test"), at("unix:/run/a.sock", "a.test"));
    let found = converted(Dialect::Nginx, &text);
    assert!(
        found.toml.contains("listen = [\"0.0.0.0:8080\"]\n"),
        "{}",
        found.toml
    );
    let rule = tables(site(&found, Some("a.test")), "host.access");
    assert!(rule.len() == 1 && rule[0].contains("127.0.0.0/8"), "{rule:?}");
    check_fates(
        &found,
        &[
            (2, "missing", "add this one by hand"),
            (2, "changed", "this machine only"),
        ],
    );
    // Without an address, Weir listens on this machine only.
    for address in [
        "unix:/run/a.sock ssl",
        "unix:/run/a.sock proxy_protocol",
        "unix:a.sock",
    ] {
        let found = converted(Dialect::Nginx, &at(address, "a.test"));
        assert!(!found.toml.contains("listen ="), "{address}: {}", found.toml);
        check_fates(&found, &[(1, "missing", "127.0.0.1:8080")]);
    }
}
