//! Tests about scripts of PHP: their application and front controller, and what happens to those without one.

use super::decided::nginx;
use super::{Lost, check_fates, converted, fates, rule, site, tables};
use crate::{Conversion, Dialect, Fate, Text, convert};

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
fn applications_behind_a_balancer_hear_of_https() {
    let php = |listen: &str, value: &str| {
        let text = format!(
            "server {{ listen {listen}; root /srv/a; ssl_certificate c.pem; ssl_certificate_key k.pem;\n\
             location ~ \\.php$ {{ fastcgi_pass 127.0.0.1:9000;\nfastcgi_param HTTPS {value};\n}} }}\n"
        );
        converted(Dialect::Nginx, &text)
    };
    for (listen, value, line, word) in [
        ("80", "on", Some("HTTPS = \"on\""), "carried"),
        ("80", "on if_not_empty", Some("HTTPS = \"on\""), "carried"),
        ("80", "off", Some("HTTPS = \"off\""), "carried"),
        ("80", "$https if_not_empty", None, "unneeded"),
        ("80", "$fe_https", None, "missing"),
        // Requests over TLS have it anyway.
        ("443 ssl", "on", None, "unneeded"),
    ] {
        let found = php(listen, value);
        let set = scripts(&found).lines().find(|one| one.starts_with("HTTPS"));
        assert_eq!(set, line, "{listen} {value}: {}", found.toml);
        check_fates(&found, &[(3, word, "")]);
    }
    let found = converted(
        Dialect::Caddy,
        "http://a.test {\nroot * /srv\nphp_fastcgi 127.0.0.1:9000 {\nenv HTTPS on\n}\nfile_server\n}\n",
    );
    assert!(scripts(&found).contains("HTTPS = \"on\""), "{}", found.toml);
    check_fates(&found, &[(4, "carried", "")]);
}

#[test]
fn parameters_of_the_blocks_around_are_inherited_if_a_location_has_none() {
    for (server, location, params, fates) in [
        ("", "", &["APP_ENV = \"prod\""][..], &[(1, "carried", "")][..]),
        (
            "fastcgi_param APP_KEY a;\nfastcgi_param APP_ID $id;",
            "fastcgi_read_timeout 9s;",
            &["APP_KEY = \"a\""],
            &[
                (1, "unneeded", "no location"),
                (3, "carried", ""),
                (4, "missing", "variables"),
            ],
        ),
        (
            "",
            "fastcgi_param APP_KEY a;",
            &["APP_KEY = \"a\""],
            &[(1, "unneeded", "no location"), (5, "carried", "")],
        ),
        // The file has parameters, whether it can be read or not.
        (
            "",
            "include /etc/nginx/fastcgi_params;",
            &[],
            &[
                (1, "unneeded", "no location"),
                (5, "unneeded", "the usual parameters"),
            ],
        ),
    ] {
        let main = Text {
            name: "site".to_owned(),
            text: format!(
                "fastcgi_param APP_ENV prod;\nserver {{ listen 80; server_name a.test; root /srv/a;\n{server}\n\
                 location ~ \\.php$ {{ fastcgi_pass 127.0.0.1:9000;\n{location}\n}} }}\n"
            ),
        };
        let found = convert(Dialect::Nginx, &main, &Lost, None).expect("a configuration");
        let set: Vec<&str> = scripts(&found)
            .lines()
            .filter(|line| line.starts_with("APP_"))
            .collect();
        assert_eq!(set, params, "{server} {location}: {}", found.toml);
        check_fates(&found, fates);
    }
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
                fastcgi_param front_controller_active true;\n\
                } }\n";
    let found = converted(Dialect::Nginx, text);
    let rule = scripts(&found);
    for line in [
        "path = \"/*\"",
        "upstreams = [\"fastcgi+unix:/run/php/php8.2-fpm.sock\"]",
        "front = \"/index.php\"",
        "APP_ENV = \"prod\"",
        "front_controller_active = \"true\"",
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
        (12, true),
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

#[test]
fn scripts_are_denied_where_a_lost_file_may_pass_them_on() {
    for (lines, is_closed) in [
        ("location ~ \\.php$ { include php.conf; }", true),
        ("location ~ ^/[a-z]+\\.php(/|$) { include php.conf; }", true),
        ("index index.php;\ninclude php.conf;", true),
        (
            "location / { try_files $uri /index.php; }\ninclude php.conf;",
            true,
        ),
        ("include other.conf;", false),
        ("index index.php;\ninclude fastcgi_params;", false),
        (
            "include other.conf;\nindex index.php;\nlocation ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }",
            false,
        ),
    ] {
        let main = Text {
            name: "site".to_owned(),
            text: format!("server {{ listen 80; server_name a.test; root /srv/a;\n{lines}\n}}\n"),
        };
        let found = convert(Dialect::Nginx, &main, &Lost, None).expect("a configuration");
        let first = found.toml.split("[[access]]").nth(1);
        let is_first = first.is_some_and(|rule| rule.starts_with("\npath = \"*.php\"\ndeny = [\"all\"]"));
        assert_eq!(is_first, is_closed, "{lines}: {}", found.toml);
    }
}

#[test]
fn a_lost_front_controller_that_hides_files_is_open() {
    let file = "RewriteCond %{REQUEST_FILENAME} !-f";
    for (conditions, rule, is_open) in [
        (&[][..], "RewriteRule . index.php [PT]", true),
        (&[][..], "RewriteRule ^remote/(.*) remote.php?a=$1 [L]", true),
        (
            &["RewriteCond %{REQUEST_URI} !\\.(css|js)$"],
            "RewriteRule . index.php [PT]",
            true,
        ),
        (
            &["RewriteCond %{REQUEST_FILENAME} !-d"],
            "RewriteRule ^ /index.php",
            true,
        ),
        // One of two.
        (
            &["RewriteCond %{REQUEST_URI} ^/a [OR]", file],
            "RewriteRule ^ /index.php",
            true,
        ),
        // A path on disk, which no URL is.
        (
            &["RewriteCond %{REQUEST_URI} !-f"],
            "RewriteRule ^ index.php",
            true,
        ),
        (&[file], "RewriteRule ^ index.php", false),
        (
            &["RewriteCond %{REQUEST_URI} !^/a/", file],
            "RewriteRule ^ /index.php",
            false,
        ),
        (
            &["RewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} !-f"],
            "RewriteRule ^ /index.php",
            false,
        ),
        (
            &["RewriteCond %{DOCUMENT_ROOT}%{REQUEST_FILENAME}.php -f"],
            "RewriteRule (.*) $1.php",
            false,
        ),
        (&[][..], "RewriteRule ^a$ /b.html", false),
    ] {
        let lines = [conditions, &[rule]].concat().join("\n");
        for text in [
            format!("DocumentRoot /srv/www\n{lines}\n"),
            format!("DocumentRoot /srv/www\n<Directory /srv/www/app>\n{lines}\n</Directory>\n"),
        ] {
            let found = converted(Dialect::Apache, &text);
            assert_eq!(
                found.report.count("open") > 0,
                is_open,
                "{text}: {:?}",
                found.report
            );
        }
    }
}

#[test]
fn a_lost_rewrite_of_nginx_to_a_script_is_open() {
    let rewrite = "rewrite ^/(?!index|remote) /index.php$request_uri;";
    for (lines, is_open) in [
        (format!("location / {{ {rewrite} }}"), true),
        (
            format!("location ~ \\.php$ {{ {rewrite} fastcgi_pass 127.0.0.1:9000; }}"),
            true,
        ),
        // No path has a file here.
        (
            format!(
                "location / {{ try_files $uri @app; }}\nlocation @app {{ {rewrite} proxy_pass http://app:80; }}"
            ),
            false,
        ),
        ("location / { rewrite ^/a$ /b.html; }".to_owned(), false),
    ] {
        let text = format!("server {{ listen 80; server_name a.test; root /srv/a;\n{lines}\n}}\n");
        let found = converted(Dialect::Nginx, &text);
        assert_eq!(
            found.report.count("open") > 0,
            is_open,
            "{lines}: {:?}",
            found.report
        );
    }
}

#[test]
fn the_index_of_an_exact_location_is_a_script() {
    let of = |index: &str| {
        let text = format!(
            "server {{ listen 80; root /srv; index {index};\n\
             location = / {{ if ($http_x = a) {{ return 302 /a; }} }}\nlocation = /info/ {{ access_log off; }}\n\
             location = /own/ {{ index index.html; }}\nlocation = /x {{ access_log off; }}\n\
             location ~ \\.php$ {{ fastcgi_pass 127.0.0.1:9000; }}\n\
             location / {{ try_files $uri $uri/ /index.php?$args; }}\n}}\n"
        );
        converted(Dialect::Nginx, &text)
    };
    for (index, except) in [
        ("index.php index.html", "except = [\"/own/\", \"/x\"]"),
        ("index.html", "except = [\"/\", \"/info/\", \"/own/\", \"/x\"]"),
    ] {
        let found = of(index);
        let passed = rule(site(&found, None), "proxy", "/*");
        assert!(passed.contains(&except), "{}", found.toml);
    }
}

/// The front controller of a site, and its application.
const FRONT: &str = "location / { try_files $uri $uri/ /index.php?$args; }\n";
const PASS: &str = "fastcgi_pass 127.0.0.1:9000;";

#[test]
fn the_front_controller_answers_nobody_whom_its_script_refuses() {
    let found = nginx(&format!(
        "auth_basic x; auth_basic_user_file /u;\n{FRONT}location ~ \\.php$ {{ {PASS} }}\n\
         location ~ \\.(css|js)$ {{ auth_basic off; }}\nlocation /pub/ {{ auth_basic off; }}"
    ));
    let passed = scripts(&found);
    assert!(
        passed.contains("except = [\"*.css\", \"*.js\", \"/pub/*\"]") && passed.contains("front = "),
        "{}",
        found.toml
    );
    check_fates(&found, &[(1, "changed", "the application gets no paths of")]);
    // One name, and the paths below it.
    let found = nginx(&format!(
        "deny 192.0.2.1;\n{FRONT}location ~ \\.php$ {{ {PASS} }}\nlocation = /a {{ allow all; }}"
    ));
    assert!(
        scripts(&found).contains("except = [\"/a\", \"/a/*\"]"),
        "{}",
        found.toml
    );
    // All paths lead to it.
    for scripts_of in [
        format!("location ~ \\.php$ {{ allow 10.0.0.0/8; deny all; {PASS} }}"),
        format!("location ~ \\.php$ {{ {PASS} }}\nlocation = /index.php {{ {PASS} }}"),
    ] {
        let found = nginx(&format!("{FRONT}{scripts_of}"));
        assert!(!scripts(&found).contains("front = "), "{}", found.toml);
        check_fates(&found, &[(1, "missing", "asks for more at `/index.php`")]);
    }
    // Clients cannot ask for it, and paths without a file lead there.
    for scripts_of in [
        format!("location ~ \\.php$ {{ {PASS} }}"),
        format!("location ~ \\.php$ {{ internal; {PASS} }}"),
    ] {
        let found = nginx(&format!("{FRONT}{scripts_of}"));
        assert!(scripts(&found).contains("front = "), "{}", found.toml);
    }
}

#[test]
fn a_page_for_all_paths_is_sent_to_nobody_whom_its_rule_refuses() {
    for (says, is_kept) in [
        ("allow 10.0.0.0/8; deny all;", false),
        ("internal;", true),
        ("expires 1d;", true),
    ] {
        let found = nginx(&format!(
            "location / {{ try_files $uri /index.html; }}\nlocation = /index.html {{ {says} }}"
        ));
        assert_eq!(
            found.toml.contains("spa-fallback = "),
            is_kept,
            "{says}: {}",
            found.toml
        );
        if !is_kept {
            check_fates(&found, &[(1, "missing", "`spa-fallback` of Weir sends it")]);
        }
    }
}

#[test]
fn scripts_come_behind_other_upstreams() {
    let proxies = |locations: &str| {
        let found = nginx(&format!(
            "{locations}location ~ \\.php$ {{ {PASS} }}\nlocation /api/ {{ proxy_pass http://app:80; }}"
        ));
        tables(site(&found, None), "proxy")
    };
    let found = proxies(FRONT);
    assert!(
        found[0].starts_with("path = \"/api/*\"; except = [\"/api/*.php\"]; upstreams = [\"http://")
            && found[1].starts_with("path = \"/*\"; upstreams = [\"fastcgi://"),
        "{found:?}"
    );
    // Another upstream is for all paths.
    let found = proxies("location / { proxy_pass http://app:80; }\n");
    assert!(
        found[0].starts_with("path = \"*.php\"; upstreams = [\"fastcgi://"),
        "{found:?}"
    );
    assert_eq!(found.len(), 3, "{found:?}");
}
