//! Tests that nobody gets more than from the original server without a word in the report.

use super::decided::{apache, caddy, decision, nginx};
use super::{check_fates, converted, fates, rule, site, tables};
use crate::Dialect;

/// A user of Caddy's `basic_auth`.
const USER: &str = "u $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";

/// Lines of Apache that ask for a password.
const ASKS: &str = "AuthType Basic\nAuthName x\nAuthUserFile /u\nRequire valid-user";

#[test]
fn a_password_does_not_replace_a_network_of_another_section() {
    let found = apache(&format!(
        "<Directory /srv/www>\nOrder deny,allow\nDeny from all\nAllow from 10.0.0.0/8\n</Directory>\n\
         <Directory /srv/www/sub>\n{ASKS}\nRequire ip 10.1.0.0/16\n</Directory>"
    ));
    let both = decision(&found, "/sub/a");
    assert!(
        both.contains("htpasswd") && both.contains("10.1.0.0/16") && !both.contains("satisfy"),
        "{both} {}",
        found.toml
    );
    // Lines `Allow` and `Deny` of a section replace `Satisfy`, too.
    let found = apache(&format!(
        "<Directory /srv/www>\nSatisfy any\nOrder deny,allow\nDeny from all\nAllow from 10.0.0.0/8\n{ASKS}\n\
         </Directory>\n<Directory /srv/www/sub>\nOrder allow,deny\nAllow from all\n</Directory>"
    ));
    assert!(decision(&found, "/a").contains("satisfy"), "{}", found.toml);
    let both = decision(&found, "/sub/a");
    assert!(
        both.contains("htpasswd") && !both.contains("satisfy"),
        "{both} {}",
        found.toml
    );
}

#[test]
fn a_named_route_is_no_site_with_its_checks() {
    let text = format!(
        "&(guard) {{\nbasic_auth {{\n{USER}\n}}\n}}\n\
         http://a.test {{\nroot * /srv\nroute /x/* {{\ninvoke guard\nfile_server\n}}\nfile_server\n}}\n"
    );
    let found = converted(Dialect::Caddy, &text);
    assert_eq!(decision(&found, "/x/a"), "deny = [\"all\"]", "{}", found.toml);
    let why = "the result denies the paths that `invoke`";
    check_fates(&found, &[(1, "missing", why), (2, "missing", why)]);
    // No file has its users, and the only site is that of all hosts.
    assert!(
        found.files.is_empty() && !found.toml.contains("[[host]]"),
        "{}",
        found.toml
    );
}

#[test]
fn paths_that_differ_in_case_alone_have_both_rules() {
    let found = nginx("location /Admin/ { allow all; }\nlocation /admin/ { deny all; }");
    assert_eq!(decision(&found, "/Admin/a"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(1, "changed", "must satisfy both rules")]);
    let found = apache(
        "<Location />\nRequire all denied\n</Location>\n<Location /Open>\nRequire all granted\n</Location>",
    );
    check_fates(&found, &[(1, "changed", "other spellings of these paths")]);
    let found = nginx("location /admin/ { deny all; }");
    let mut notes = found.report.notes().iter();
    assert!(!notes.any(|note| note.fate.why().contains("lower case")));
}

#[test]
fn paths_of_upstreams_and_mounts_of_caddy_have_one_spelling() {
    let found = caddy(
        "reverse_proxy /api/* app:80\nhandle_path /media/* {\nroot * /mnt/media\nfile_server\n}\nfile_server",
    );
    check_fates(
        &found,
        &[(1, "changed", "other spellings of `/api/*`, `/media/`")],
    );
    for lines in [
        "reverse_proxy app:80",
        "reverse_proxy /1/* app:80",
        "respond /a/* 403\nfile_server",
    ] {
        let found = caddy(lines);
        let mut notes = found.report.notes().iter();
        assert!(
            !notes.any(|note| note.fate.why().contains("spellings")),
            "{lines}: {:?}",
            found.report
        );
    }
}

#[test]
fn an_exception_for_a_folder_of_nginx_is_not_one_for_its_name() {
    let found = nginx(
        "auth_basic x; auth_basic_user_file /u;\nlocation / { proxy_pass http://app:80; }\n\
         location /pub/ { auth_basic off; proxy_pass http://app:80; }",
    );
    for path in ["/pub/", "/pub/a", "/pub/a/b"] {
        assert_eq!(
            decision(&found, path),
            "allow = [\"all\"]",
            "{path}: {}",
            found.toml
        );
    }
    for path in ["/pub", "/pubs", "/a"] {
        assert!(
            decision(&found, path).contains("htpasswd"),
            "{path}: {}",
            found.toml
        );
    }
}

#[test]
fn an_expression_opens_no_folder_that_it_leaves_out() {
    let ask = "auth_basic x; auth_basic_user_file /u;";
    for expression in ["^/pub/.+", "^/pub/(.+)$", "^/pub(/.+)?$"] {
        let found = nginx(&format!("{ask}\nlocation ~ {expression} {{ auth_basic off; }}"));
        let asked = decision(&found, "/pub/");
        assert!(asked.contains("htpasswd"), "{expression}: {asked} {}", found.toml);
        check_fates(&found, &[(3, "changed", "is also for `/pub/`")]);
    }
    // Nothing else is about the folder, or another alternative matches it.
    for lines in [
        "location ~ ^/pub/.+ { allow all; }",
        "deny all;\nlocation ~ ^/pub/(.+|.*)$ { allow all; }",
    ] {
        let found = nginx(lines);
        assert_eq!(
            decision(&found, "/pub/"),
            "allow = [\"all\"]",
            "{lines}: {}",
            found.toml
        );
    }
    // A weaker location decides about the folder, or one around the expression leaves it out.
    for lines in [
        "location ~ ^/pub/.+ { allow all; }\nlocation /pub/ { deny all; }",
        "deny all;\nlocation ~ ^/pub/.+ { location ~ ^/pub/ { allow all; } }",
    ] {
        let found = nginx(lines);
        assert_eq!(
            decision(&found, "/pub/"),
            "deny = [\"all\"]",
            "{lines}: {}",
            found.toml
        );
    }
    let found = nginx("location ~ ^/pub/.+ { root /data; }");
    assert!(!found.toml.contains("[[mount]]"), "{}", found.toml);
    check_fates(&found, &[(2, "missing", "the folder itself")]);

    let found = apache(
        "<Location />\nRequire all denied\n</Location>\n\
         <LocationMatch ^/pub/.+>\nRequire all granted\n</LocationMatch>",
    );
    assert_eq!(decision(&found, "/pub/"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(7, "changed", "is also for `/pub/`")]);
    // An earlier section is about the folder.
    let found = apache(
        "<Location /pub/>\nRequire all denied\n</Location>\n\
         <LocationMatch ^/pub/.+>\nRequire all granted\n</LocationMatch>",
    );
    assert_eq!(decision(&found, "/pub/"), "deny = [\"all\"]", "{}", found.toml);

    let found = caddy("@pub path_regexp ^/pub/.+\nhandle @pub {\nfile_server\n}\nhandle {\nrespond 404\n}");
    assert!(
        decision(&found, "/pub/").starts_with("deny = [\"all\"]"),
        "{}",
        found.toml
    );
    check_fates(
        &found,
        &[
            (3, "changed", "which the expression leaves out"),
            (5, "missing", "the folder itself"),
        ],
    );
}

#[test]
fn a_root_without_a_file_server_is_not_served() {
    let no_root = "no `file_server` of the result";
    for (body, line, word, reason) in [
        (
            "@lan remote_ip 10.0.0.0/8\nhandle @lan {\nfile_server\n}",
            5,
            "missing",
            "by network",
        ),
        (
            "@key header X-Key a\nfile_server @key",
            4,
            "missing",
            "no rule with conditions",
        ),
        (
            "@pub not path /private/*\nfile_server @pub",
            4,
            "missing",
            "`not path`",
        ),
        (
            "@pub not path /private/*\nhandle @pub {\nfile_server\n}",
            4,
            "missing",
            "`not path`",
        ),
        ("reverse_proxy /api/* app:80", 2, "changed", no_root),
    ] {
        let found = caddy(body);
        assert!(!found.toml.contains("root = \"/srv"), "{body}: {}", found.toml);
        check_fates(&found, &[(2, "changed", no_root), (line, word, reason)]);
    }
    // No path reaches its files.
    let found = caddy("redir /old /new\nreverse_proxy app:80");
    assert!(found.toml.contains("root = \"/srv\""), "{}", found.toml);
    // Scripts are found there.
    let found = caddy("php_fastcgi 127.0.0.1:9000");
    check_fates(&found, &[(2, "open", "because scripts are found there")]);
}

#[test]
fn files_for_some_clients_are_not_sent_to_all() {
    let rest = "handle {\nfile_server\n}";
    for some in ["header X-Key a", "remote_ip 10.0.0.0/8"] {
        let found = caddy(&format!(
            "@some {some}\nhandle /down/* {{\nroot * /srv/down\nfile_server @some\n}}\n{rest}"
        ));
        assert_eq!(decision(&found, "/down/a"), "deny = [\"all\"]", "{}", found.toml);
        assert_eq!(decision(&found, "/a"), "", "{}", found.toml);
        check_fates(&found, &[(6, "missing", "the result denies `/down/*`")]);
    }
    // An upstream answers these paths.
    let found = caddy(&format!(
        "@some header X-Key a\nhandle /down/* {{\nfile_server @some\nreverse_proxy app:80\n}}\n{rest}"
    ));
    assert_eq!(decision(&found, "/down/a"), "", "{}", found.toml);
}

#[test]
fn a_matcher_of_paths_in_a_block_is_about_the_paths_of_the_block() {
    let found = caddy(&format!(
        "handle /dev/* {{\nbasic_auth {{\n{USER}\n}}\n@json path *.json\nreverse_proxy @json dev:80\n}}\nfile_server"
    ));
    assert!(
        found.toml.contains("[[proxy]]\npath = \"/dev/*.json\"\n"),
        "{}",
        found.toml
    );
    assert!(!found.toml.contains("path = \"*.json\""), "{}", found.toml);
    let found = caddy("handle /a/* {\nreverse_proxy /b/* app:80\n}\nfile_server");
    assert!(!found.toml.contains("proxy]]"), "{}", found.toml);
    check_fates(
        &found,
        &[(4, "missing", "no path of the block around it matches")],
    );
    // A check that is lost so closes its paths.
    let found = caddy("handle /A/* {\nrespond /a/x 403\n}\nfile_server");
    assert_eq!(decision(&found, "/a/x"), "deny = [\"all\"]", "{}", found.toml);
}

#[test]
fn the_order_of_allow_and_deny_decides() {
    for (lines, decided) in [
        ("Order allow,deny", "deny = [\"all\"]"),
        ("Order allow,deny\nDeny from 192.0.2.1", "deny = [\"all\"]"),
        (
            "Order allow,deny\nAllow from 10.0.0.5\nDeny from 10.0.0.0/8",
            "deny = [\"all\"]",
        ),
        (
            "Order Allow,Deny\nAllow from 10.0.0.0/8\nDeny from all",
            "deny = [\"all\"]",
        ),
        ("Order mutual-failure\nDeny from 192.0.2.1", "deny = [\"all\"]"),
        (
            "Order allow,deny\nAllow from 10.0.0.0/8 192.0.2.1\nDeny from 192.0.2.0/24 10.1.0.0/16",
            "allow = [\"10.0.0.0/8\"]; deny = [\"192.0.2.0/24\", \"10.1.0.0/16\"]",
        ),
        (
            "Order allow,deny\nAllow from all\nDeny from 192.0.2.1",
            "deny = [\"192.0.2.1\"]",
        ),
        (
            "Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8",
            "allow = [\"10.0.0.0/8\"]",
        ),
    ] {
        let found = apache(&format!("<Directory /srv/www/a>\n{lines}\n</Directory>"));
        assert_eq!(decision(&found, "/a/x"), decided, "{lines}: {}", found.toml);
    }
    // A network of `Require` is no line `Allow`, and a password does not replace one that is lost.
    for lines in [
        "Require ip 10.0.0.0/8",
        "Allow from env=known\nRequire valid-user\nAuthType Basic\nAuthUserFile /u",
    ] {
        let found = apache(&format!("<Location /a>\nOrder allow,deny\n{lines}\n</Location>"));
        let closed = decision(&found, "/a/x");
        assert!(closed.starts_with("deny = [\"all\"]"), "{closed} {}", found.toml);
    }
}

#[test]
fn sections_limit_what_they_pass_on_themselves() {
    let pass = "RewriteRule ^(.*)$ http://127.0.0.1:8080/$1 [P]";
    let found = apache(&format!(
        "<Directory /srv/www>\n{ASKS}\nRewriteEngine On\n{pass}\n</Directory>"
    ));
    assert!(
        found.toml.contains("[[proxy]]\npath = \"/*\"\n"),
        "{}",
        found.toml
    );
    assert!(decision(&found, "/a").contains("htpasswd"), "{}", found.toml);
    // As in a `.htaccess`.
    let files = "<FilesMatch \"\\.bak$\">\nRequire all denied\n</FilesMatch>\n";
    let found = converted(Dialect::Apache, &format!("{files}{pass}\n"));
    assert_eq!(decision(&found, "/a.bak"), "deny = [\"all\"]", "{}", found.toml);
    // `ProxyPass` comes before them.
    let found = apache(&format!(
        "<Directory /srv/www>\n{ASKS}\n</Directory>\nProxyPass / http://127.0.0.1:8080/"
    ));
    assert!(!decision(&found, "/a").contains("htpasswd"), "{}", found.toml);
}

#[test]
fn what_an_upstream_would_answer_is_not_sent_as_a_file() {
    for (line, path, denied) in [
        (
            "ProxyPassMatch ^/(.*\\.php(/.*)?)$ fcgi://127.0.0.1:9000/srv/www/$1",
            "/a/x.php",
            "`*.php`",
        ),
        (
            "ProxyPassMatch ^/app/(.*)$ http://app:80/$1",
            "/app/x",
            "`/app/*`",
        ),
        (
            "RewriteRule ^/(.*\\.php)$ fcgi://127.0.0.1:9000/srv/www/$1 [P]",
            "/x.php",
            "`/*.php`",
        ),
        (
            "RewriteRule ^/app/(.*)$ http://app:80/base/$1 [P]",
            "/app/x",
            "`/app/*`",
        ),
        ("ProxyPass /a/ http://app:80/b", "/a/x", "these paths"),
    ] {
        let found = apache(line);
        assert_eq!(
            decision(&found, path),
            "deny = [\"all\"]",
            "{line}: {}",
            found.toml
        );
        check_fates(&found, &[(4, "missing", denied)]);
    }
    let found = apache("ProxyPass /a http://app:80/b");
    let passed = rule(site(&found, None), "proxy", "/a/*");
    assert!(passed.contains(&"rewrite = \"/b/*\""), "{}", found.toml);
    assert_eq!(decision(&found, "/a/x"), "", "{}", found.toml);
}

#[test]
fn upstreams_of_apache_may_be_sockets() {
    for (line, path, upstream) in [
        (
            "ProxyPass /a/ unix:/run/app.sock|http://localhost/a/",
            "/a/*",
            "unix:/run/app.sock",
        ),
        (
            "ProxyPass /a \"unix:/run/app.sock|h2c://localhost/\"",
            "/a/*",
            "h2c+unix:/run/app.sock",
        ),
        (
            "RewriteRule ^/a/(.*)$ unix:/run/app.sock|http://localhost/$1 [P]",
            "/a/*",
            "unix:/run/app.sock",
        ),
    ] {
        let found = apache(line);
        let passed = rule(site(&found, None), "proxy", path);
        let expected = format!("upstreams = [\"{upstream}\"]");
        assert!(passed.contains(&&*expected), "{line}: {}", found.toml);
    }
    let text = "<Proxy balancer://app>\nBalancerMember unix:/run/app.sock|http://one\n</Proxy>\n\
                DocumentRoot /srv/www\nProxyPass /a/ balancer://app/a/\n";
    let found = converted(Dialect::Apache, text);
    let passed = rule(site(&found, None), "proxy", "/a/*");
    assert!(
        passed.contains(&"upstreams = [\"unix:/run/app.sock\"]"),
        "{}",
        found.toml
    );
    let found = apache("ProxyPass /a/ unix:/run/php.sock|fcgi://localhost/srv/www/a/");
    assert_eq!(decision(&found, "/a/x"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(4, "missing", "`fcgi` is not a protocol")]);
}

#[test]
fn methods_are_limited_where_an_upstream_answers_without_a_file() {
    let limit = "limit_except GET { deny all; }";
    let refused = "path = \"/*\"; if = [\"not method GET\", \"not method HEAD\"]; deny = [\"all\"]";
    for (tried, other) in [
        ("$uri @app", "location @app { proxy_pass http://app:80; }"),
        (
            "$uri /index.php",
            "location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }",
        ),
    ] {
        let found = nginx(&format!("location / {{ {limit} try_files {tried}; }}\n{other}"));
        assert_eq!(tables(site(&found, None), "access")[0], refused, "{}", found.toml);
    }
    // Files have no other methods.
    let found = nginx(&format!("location / {{ {limit} try_files $uri =404; }}"));
    check_fates(&found, &[(2, "unneeded", "files have GET")]);
}

#[test]
fn a_lost_refusal_is_open_whatever_its_status() {
    for status in [400, 405, 429, 444] {
        let found = nginx(&format!("if ($odd) {{ return {status}; }}"));
        check_fates(&found, &[(2, "open", "no condition on `$odd`")]);
    }
    let found = nginx("if ($odd) { return 503; }");
    check_fates(&found, &[(2, "missing", "no condition on `$odd`")]);
    assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
}

#[test]
fn options_without_signs_end_the_listing_of_the_folder_around() {
    let found = apache(
        "<Directory /srv/www>\nOptions Indexes FollowSymLinks\n</Directory>\n\
         <Directory /srv/www/private>\nOptions FollowSymLinks\n</Directory>\n\
         <Directory /srv/www/more>\nOptions +FollowSymLinks\n</Directory>",
    );
    let top = site(&found, None);
    assert!(
        rule(top, "mount", "/private/").contains(&"listing = false"),
        "{}",
        found.toml
    );
    assert!(rule(top, "mount", "/more/").is_empty(), "{}", found.toml);
}

#[test]
fn sections_replace_the_options_around_them() {
    let alias = "Alias /icons/ /usr/share/icons/";
    let off = "<Directory /srv/www/private>\nOptions -Indexes\n</Directory>\n\
               <Directory /usr/share/icons>\nOptions None\n</Directory>";
    let of_main = format!(
        "{off}\n<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/www\n{alias}\nOptions Indexes\n</VirtualHost>\n"
    );
    for found in [
        apache(&format!("{alias}\n{off}\nOptions Indexes")),
        converted(Dialect::Apache, &of_main),
        converted(
            Dialect::Apache,
            &format!("DocumentRoot /srv/www\n{alias}\n{off}\nOptions Indexes\n"),
        ),
    ] {
        let top = site(&found, None);
        assert!(top.contains("\nlisting = true\n"), "{}", found.toml);
        for path in ["/private/", "/icons/"] {
            assert!(
                rule(top, "mount", path).contains(&"listing = false"),
                "{path}: {}",
                found.toml
            );
        }
    }
    let found = apache("<Directory /srv/www>\nOptions -Indexes\n</Directory>\nOptions Indexes");
    assert!(!found.toml.contains("listing = true"), "{}", found.toml);
    // A folder with an index of its own has the listing of the folder around it.
    let found = apache(
        "<Directory /srv/www/a>\nOptions -Indexes\n</Directory>\n\
         <Directory /srv/www/a/b>\nDirectoryIndex b.html\n</Directory>\n\
         <Directory /srv/www/c>\nDirectoryIndex c.html\n</Directory>\nOptions Indexes",
    );
    for (path, is_listed) in [("/a/b/", false), ("/c/", true)] {
        let lines = rule(site(&found, None), "mount", path);
        assert_eq!(
            !lines.contains(&"listing = false"),
            is_listed,
            "{path}: {}",
            found.toml
        );
        assert!(!lines.is_empty(), "{path}: {}", found.toml);
    }
}

#[test]
fn limits_on_other_methods_are_about_scripts() {
    let limit = "<Directory /srv/www>\n<Limit POST>\nRequire ip 10.0.0.0/8\n</Limit>\n</Directory>";
    let scripts = "<FilesMatch \"\\.php$\">\nSetHandler \"proxy:fcgi://127.0.0.1:9000\"\n</FilesMatch>";
    let found = apache(&format!("{limit}\n{scripts}"));
    check_fates(&found, &[(6, "open", "gets these requests")]);
    for other in ["", "ProxyPass / http://app:80/"] {
        let found = apache(&format!("{limit}\n{other}"));
        check_fates(&found, &[(6, "unneeded", "files have GET")]);
    }
    // A group of lines in a limit on GET is one.
    let found = apache(
        "<Directory /srv/www/a>\n<Limit GET>\n<RequireAll>\nRequire ip 10.0.0.0/8\nRequire valid-user\n</RequireAll>\n\
         </Limit>\n</Directory>",
    );
    assert_eq!(decision(&found, "/a/x"), "deny = [\"all\"]", "{}", found.toml);
}

#[test]
fn a_rewrite_that_refuses_in_a_folder_closes_it() {
    for (line, path) in [
        ("RewriteRule \\.bak$ - [F]", "/a/x"),
        ("RewriteRule ^old - [NC,R=404,L]", "/a/x"),
        (
            "RewriteRule ^(.*\\.php)$ fcgi://127.0.0.1:9000/srv/www/a/$1 [P]",
            "/b/x.php",
        ),
    ] {
        let found = apache(&format!("<Directory /srv/www/a>\n{line}\n</Directory>"));
        assert_eq!(
            decision(&found, path),
            "deny = [\"all\"]",
            "{line}: {}",
            found.toml
        );
        check_fates(&found, &[(5, "missing", "the result denies")]);
    }
    let found = apache("<Directory /srv/www/a>\nRewriteRule ^old /new [R]\n</Directory>");
    assert_eq!(decision(&found, "/a/x"), "", "{}", found.toml);
}

#[test]
fn wildcards_of_sections_are_patterns_or_lost() {
    let found = apache("<Directory /srv/www/a*>\nRequire all denied\n</Directory>");
    for path in ["/a/x", "/abc/x"] {
        assert_eq!(
            decision(&found, path),
            "deny = [\"all\"]",
            "{path}: {}",
            found.toml
        );
    }
    assert_eq!(decision(&found, "/b/x"), "", "{}", found.toml);
    // `/a*` is no wildcard of files.
    let found = apache(&format!(
        "<Directory /srv/www>\n{ASKS}\n</Directory>\n<Directory /srv/www/a*>\nRequire all granted\n</Directory>\n\
         <Directory /srv/www/b*>\nRequire all denied\n</Directory>"
    ));
    for path in ["/a.txt", "/abc/x", "/c"] {
        let asked = decision(&found, path);
        assert!(asked.contains("htpasswd"), "{path}: {asked} {}", found.toml);
    }
    assert_eq!(decision(&found, "/b/x"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(10, "changed", "the rules around it, too")]);
    let found = apache("<Location /[ab]>\nRequire ip 10.0.0.0/8\n</Location>");
    assert_eq!(decision(&found, "/a"), "deny = [\"all\"]", "{}", found.toml);
    let found = apache("<Directory /srv/www/[ab]>\nRequire all denied\n</Directory>");
    check_fates(&found, &[(5, "open", "no path pattern below the root")]);
}

#[test]
fn what_holds_without_a_definition_is_open() {
    let text = |section: &str| {
        format!(
            "DocumentRoot /srv/www\n<{section} !X>\n<Location />\nRequire ip 10.0.0.0/8\n</Location>\n</{section}>\n"
        )
    };
    let found = converted(Dialect::Apache, &text("IfDefine"));
    check_fates(&found, &[(4, "open", "for present")]);
    let found = converted(Dialect::Apache, &text("IfModule"));
    check_fates(&found, &[(4, "unneeded", "for present")]);
}

#[test]
fn the_block_of_an_import_is_read() {
    let text = format!(
        "(site) {{\nroot * /srv\nhandle /in/* {{\n{{block}}\n}}\n{{blocks.more}}\nfile_server\n}}\n(bare) {{\nencode\n}}\n\
         http://a.test {{\nimport site {{\nbasic_auth {{\n{USER}\n}}\nmore {{\nrespond /no/* 403\n}}\n}}\n\
         import bare {{\nabort\n}}\n}}\n"
    );
    let found = converted(Dialect::Caddy, &text);
    assert!(decision(&found, "/in/a").contains("htpasswd"), "{}", found.toml);
    assert_eq!(decision(&found, "/no/a"), "deny = [\"all\"]", "{}", found.toml);
    // One without a place for it: Caddy takes nothing of its block.
    check_fates(&found, &[(22, "unneeded", "no `{block}`")]);
    assert_eq!(decision(&found, "/a"), "", "{}", found.toml);
}

#[test]
fn the_usual_address_of_sites_is_that_of_the_result() {
    let site =
        |name: &str, lines: &str| format!("http://{name}.test {{\n{lines}root * /{name}\nfile_server\n}}\n");
    let text = format!(
        "{{\ndefault_bind 127.0.0.1\n}}\n{}{}",
        site("a", ""),
        site("b", "bind 192.0.2.1\n")
    );
    let found = converted(Dialect::Caddy, &text);
    assert!(
        found
            .toml
            .contains("listen = [\"127.0.0.1:80\", \"192.0.2.1:80\"]"),
        "{}",
        found.toml
    );
    check_fates(&found, &[(2, "carried", "")]);
    // The site of this machine is not public at the address of the other one.
    let limited = tables(super::site(&found, Some("a.test")), "host.access");
    assert!(limited[0].contains("allow = [\"127.0.0.0/8\""), "{limited:?}");
}

#[test]
fn firewalls_and_lost_rewrites_of_upstreams_are_open() {
    let found = caddy("crowdsec\nreverse_proxy app:80 {\nrewrite /public{uri}\n}");
    check_fates(
        &found,
        &[(3, "open", "refuses requests"), (5, "open", "what is beside it")],
    );
    let found = nginx("waf on;");
    check_fates(&found, &[(2, "open", "limits access by its name")]);
}

#[test]
fn a_site_of_private_addresses_is_open_beside_others() {
    let nginx = "server { listen 80; server_name a.test; root /a; }\n\
                 server { listen 10.0.0.1:80; listen [fd00::1]:80; server_name b.test; root /b; }\n\
                 server { listen 10.0.0.1:80; listen 81; server_name c.test; root /c; }\n";
    let apache = "<VirtualHost *:80>\nServerName a.test\n</VirtualHost>\n\
                  <VirtualHost 192.168.1.1:80>\nServerName b.test\n</VirtualHost>\n";
    let caddy = "http://a.test {\nfile_server\n}\nhttp://b.test {\nbind 10.0.0.1\nfile_server\n}\n";
    for (dialect, text, line) in [
        (Dialect::Nginx, nginx, 2),
        (Dialect::Apache, apache, 4),
        (Dialect::Caddy, caddy, 4),
    ] {
        let found = converted(dialect, text);
        check_fates(&found, &[(line, "open", "those of this site were private")]);
        assert_eq!(found.report.count("open"), 1, "{:?}", found.report);
    }
}

#[test]
fn a_site_of_another_port_is_open_at_the_usual_one() {
    let nginx = "server { listen 80; server_name a.test; root /a; }\n\
                 server { listen 8080; listen [::]:8080; server_name b.test; root /b; }\n";
    let apache = "<VirtualHost *:80>\nServerName a.test\n</VirtualHost>\n\
                  <VirtualHost *:8080>\nServerName b.test\n</VirtualHost>\n";
    let caddy = "http://a.test {\nfile_server\n}\nhttp://b.test:8080 {\nfile_server\n}\n";
    for (dialect, text, line) in [
        (Dialect::Nginx, nginx, 2),
        (Dialect::Apache, apache, 4),
        (Dialect::Caddy, caddy, 4),
    ] {
        let found = converted(dialect, text);
        check_fates(
            &found,
            &[
                (1, "changed", "at port 8080, the configuration only at 80"),
                (line, "open", "at port 80, the configuration only at 8080;"),
            ],
        );
        assert_eq!(found.report.count("open"), 1, "{:?}", found.report);
    }
    // Of two sites for one name, the first has it.
    let first = nginx.replace("b.test", "a.test");
    let found = converted(Dialect::Nginx, &first);
    check_fates(
        &found,
        &[(1, "changed", "at port 8080"), (2, "missing", "has these names")],
    );
    let lines: Vec<&str> = first.lines().rev().collect();
    let found = converted(Dialect::Nginx, &lines.join("\n"));
    check_fates(
        &found,
        &[(1, "open", "at port 80,"), (2, "missing", "has these names")],
    );
}

#[test]
fn ports_that_only_redirect_to_https_are_no_further_ports() {
    let tls = "ssl_certificate c.pem; ssl_certificate_key k.pem;";
    let lead = "server { listen 8080; server_name a.test; return 301 https://$host$request_uri; }\n";
    let secure = format!("server {{ listen 8443 ssl; server_name a.test; root /a; {tls} }}\n");
    let other = "server { listen 81; server_name b.test; root /b; }\n";
    for (text, expected) in [
        (format!("{lead}{secure}"), 0),
        // `b.test` answers at two more ports.
        (format!("{lead}{secure}{other}"), 1),
    ] {
        let found = converted(Dialect::Nginx, &text);
        let notes = found.report.notes().iter();
        let named = notes.filter(|note| note.fate.why().contains("also has this site"));
        assert_eq!(named.count(), expected, "{:?}", found.report);
    }
    // Its addresses are those of this machine.
    let local = "server { listen 127.0.0.1:80; server_name a.test; root /a; }\n\
                 server { listen 127.0.0.1:8080; server_name b.test; root /b; }\n";
    let found = converted(Dialect::Nginx, local);
    check_fates(&found, &[(2, "changed", "at port 80,")]);
    assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
}

#[test]
fn a_text_is_a_fixed_answer() {
    for (found, line, word, wanted) in [
        (
            nginx("location /x/ { return 200 \"ok\"; }"),
            2,
            "changed",
            "path = \"/x/*\"; text = \"ok\"; type = \"text/plain\"",
        ),
        (
            nginx("location = /x { return 202 '{\"a\":1}'; default_type application/json; }"),
            2,
            "carried",
            "path = \"/x\"; status = 202; text = \"{\\\"a\\\":1}\"; type = \"application/json\"",
        ),
        (
            nginx("location = /x {\nadd_header Content-Type text/html;\nreturn 200 ok;\n}"),
            3,
            "carried",
            "path = \"/x\"; text = \"ok\"; type = \"text/html\"",
        ),
        (
            nginx("location = /ping { return 204; }"),
            2,
            "carried",
            "path = \"/ping\"; status = 204",
        ),
        (
            nginx("location = / { return 200 ok; }"),
            2,
            "changed",
            "path = \"/\"; text = \"ok\"; type = \"text/plain\"",
        ),
        (
            nginx("return 200 ok;"),
            2,
            "changed",
            "path = \"*\"; text = \"ok\"; type = \"text/plain\"",
        ),
        (
            caddy("respond /x/* \"ok\" 200\nfile_server"),
            3,
            "carried",
            "path = \"/x/*\"; text = \"ok\"; type = \"text/plain; charset=utf-8\"",
        ),
        (
            caddy("handle /x/* {\nrespond `{\"a\": 1}`\n}\nhandle {\nfile_server\n}"),
            4,
            "carried",
            "path = \"/x/*\"; text = \"{\\\"a\\\": 1}\"; type = \"application/json\"",
        ),
        (
            caddy("respond /up 204\nfile_server"),
            3,
            "carried",
            "path = \"/up\"; status = 204",
        ),
        (
            caddy("respond / ok\nfile_server"),
            3,
            "carried",
            "path = \"/\"; text = \"ok\"; type = \"text/plain; charset=utf-8\"",
        ),
    ] {
        assert_eq!(tables(site(&found, None), "respond"), [wanted], "{}", found.toml);
        assert_eq!(tables(site(&found, None), "access").len(), 0, "{}", found.toml);
        check_fates(&found, &[(line, word, "")]);
        assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
    }
    let found = nginx("location ~ \\.(js|css)$ { return 200; }");
    let texts = tables(site(&found, None), "respond");
    assert_eq!(texts, ["path = \"*.js\"", "path = \"*.css\""], "{}", found.toml);
}

#[test]
fn a_text_leaves_other_rules_to_their_paths() {
    // Stronger locations, and weaker redirects.
    let found = nginx("location / { return 200 ok; }\nlocation /pub/ { expires 1d; }");
    let texts = tables(site(&found, None), "respond");
    assert_eq!(texts.len(), 1, "{}", found.toml);
    assert!(
        texts[0].starts_with("path = \"/*\"; except = [\"/pub/*\"]; "),
        "{texts:?}"
    );
    let found = nginx("location = /up { return 204; }\nlocation / { return 301 https://b.test/; }");
    let redirects = tables(site(&found, None), "redirect");
    assert!(redirects[0].contains("except = [\"/up\"]"), "{}", found.toml);
    let found = caddy("respond \"ok\"\nhandle /pub/* {\nfile_server\n}");
    let texts = tables(site(&found, None), "respond");
    assert!(
        texts[0].starts_with("path = \"*\"; except = [\"/pub/*\"]; "),
        "{}",
        found.toml
    );
    // Access rules come first in the result.
    let found = nginx("location / { deny all; }\nlocation /x/ { return 200 ok; }");
    check_fates(&found, &[(3, "changed", "clients must also satisfy")]);
}

#[test]
fn nobody_gets_files_in_place_of_a_text() {
    for (found, line, path) in [
        (nginx("location ~ ^/x/\\d+/ { return 200 ok; }"), 2, "/x/1/a"),
        (nginx("location /x/ { return 200 \"$host\"; }"), 2, "/x/a"),
        (nginx("location ~* \\.js$ { return 200 ok; }"), 2, "/a.js"),
        (nginx("location /x/ { return 300; }"), 2, "/x/a"),
        (caddy("respond /x/* \"{host}\"\nfile_server"), 3, "/x/a"),
        (caddy("respond /x/* {\nbody ok\n}\nfile_server"), 3, "/x/a"),
        (
            caddy("@x {\npath /x/*\nexpression true\n}\nrespond @x ok\nfile_server"),
            7,
            "/x/a",
        ),
    ] {
        assert_eq!(
            decision(&found, path),
            "deny = [\"all\"]",
            "{path}: {}",
            found.toml
        );
        assert!(tables(site(&found, None), "respond").is_empty(), "{}", found.toml);
        check_fates(&found, &[(line, "missing", "the result denies `")]);
    }
    // A rule for `/` would be one for all paths, and one for an expression without a beginning would be, too.
    let found = nginx("location = / { return 200 $host; }");
    assert_eq!(decision(&found, "/a"), "", "{}", found.toml);
    check_fates(&found, &[(2, "open", "the result answers `/`")]);
    let found = nginx("location ~ \\d+/x { return 200 ok; }");
    check_fates(&found, &[(2, "open", "no fixed answer")]);
    // Of those with a condition, other requests get the same.
    let found = nginx("if ($request_method = OPTIONS) { return 204; }");
    assert_eq!(decision(&found, "/a"), "", "{}", found.toml);
    check_fates(&found, &[(2, "missing", "answered as all others")]);
}

#[test]
fn fields_are_removed() {
    for (found, line, wanted) in [
        (
            nginx("location /x/ { proxy_pass http://a:80; proxy_hide_header X-Powered-By; }"),
            2,
            "path = \"/x/*\"; remove = [\"X-Powered-By\"]; always = true",
        ),
        (
            nginx("proxy_hide_header X-Powered-By;\nlocation /x/ { proxy_pass http://a:80; }"),
            2,
            "path = \"*\"; remove = [\"X-Powered-By\"]; always = true",
        ),
        (
            caddy("header -X-Powered-By\nreverse_proxy a:80"),
            3,
            "path = \"*\"; remove = [\"X-Powered-By\"]; always = true",
        ),
        (
            caddy("header /x/* {\n-X-A\nX-B 1\n}\nfile_server"),
            3,
            "path = \"/x/*\"; header = [\"X-B: 1\"]; remove = [\"X-A\"]; always = true",
        ),
        (
            caddy("reverse_proxy /x/* a:80 {\nheader_down -Server\n}"),
            4,
            "path = \"/x/*\"; remove = [\"Server\"]; always = true",
        ),
    ] {
        assert_eq!(
            tables(site(&found, None), "header-rule"),
            [wanted],
            "{}",
            found.toml
        );
        check_fates(&found, &[(line, "carried", "")]);
    }
    // Lines that the site sets stay.
    let found = nginx(
        "proxy_hide_header X-A;\nadd_header X-A 1;\nproxy_hide_header Cache-Control;\nexpires 1h;\n\
         location /x/ { proxy_pass http://a:80; }",
    );
    assert_eq!(
        tables(site(&found, None), "header-rule"),
        ["path = \"*\"; header = [\"X-A: 1\"]; remove = [\"X-A\"]; always = true"],
        "{}",
        found.toml
    );
    let kept = |note: &&crate::Note| note.directive.starts_with("removal of `Cache-Control`");
    assert_eq!(
        found.report.notes().iter().filter(kept).count(),
        1,
        "{:?}",
        found.report
    );
    let found = caddy("header -ETag\nheader -X-*\nheader -Server\nfile_server");
    check_fates(
        &found,
        &[
            (3, "missing", "`ETag`"),
            (4, "missing", "whole names"),
            (5, "unneeded", "sends no `Server`"),
        ],
    );
    assert!(
        tables(site(&found, None), "header-rule").is_empty(),
        "{}",
        found.toml
    );
}

#[test]
fn nobody_gets_files_in_place_of_a_lost_location_or_section() {
    let found = nginx("location ~ ^/api/\\d+/ { proxy_pass http://app:80; }");
    assert_eq!(decision(&found, "/api/1/x"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(2, "missing", "the result denies `/api/*`")]);
    // Those that may be anywhere are sent, unless another upstream is for all paths.
    for (lost, other, word) in [
        ("uwsgi_pass 127.0.0.1:9;", "expires 1d;", "open"),
        ("content_by_lua_file x.lua;", "expires 1d;", "open"),
        ("proxy_pass http://a:80;", "proxy_pass http://app:80;", "missing"),
    ] {
        let found = nginx(&format!(
            "location ~ ^/(?!static) {{ {lost} }}\nlocation / {{ {other} }}"
        ));
        check_fates(&found, &[(2, word, "no path pattern")]);
        let is_open = found.report.count("open") > 0;
        assert_eq!(is_open, word == "open", "{lost}: {:?}", found.report);
    }
    let found = nginx("disable_symlinks on;");
    check_fates(&found, &[(2, "open", "`symlinks = false`")]);
    let found = apache("<FilesMatch \"\\.php\\d?$\">\nSetHandler application/x-httpd-php\n</FilesMatch>");
    assert_eq!(decision(&found, "/a/x.php"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(5, "missing", "the result denies `*.php`")]);
    // These match within names, too.
    let found = apache("<FilesMatch \"\\.ht\">\nRequire all denied\n</FilesMatch>");
    check_fates(&found, &[(5, "changed", "`a.htpasswd`")]);
    let found = nginx("location ~ \\.ht { deny all; }");
    check_fates(&found, &[(2, "changed", "`a.htpasswd`")]);
}

#[test]
fn order_alone_refuses_all_clients_of_a_lost_section() {
    let section = |lines: &str| apache(&format!("<LocationMatch ^/in/\\d+/>\n{lines}\n</LocationMatch>"));
    let found = section("Order Allow,Deny");
    assert_eq!(decision(&found, "/in/1/x"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(5, "missing", "the result denies `/in/*`")]);
    for lines in ["Order allow,deny\nAllow from all", "Order deny,allow"] {
        let found = section(lines);
        assert_eq!(decision(&found, "/in/1/x"), "", "{lines}: {}", found.toml);
    }
    let text = "DocumentRoot /srv/www\n<Proxy *>\nOrder allow,deny\n</Proxy>\nProxyPass / http://app:80/\n";
    let found = converted(Dialect::Apache, text);
    assert_eq!(decision(&found, "/a"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(3, "missing", "denies the paths of all upstreams")]);
}

#[test]
fn upstreams_for_a_few_clients_are_closed() {
    let text = "DocumentRoot /srv/www\n<Proxy *>\nOrder allow,deny\nAllow from 10.0.0.0/8\n</Proxy>\n\
                ProxyPass / http://app:80/\n";
    let found = converted(Dialect::Apache, text);
    assert_eq!(decision(&found, "/a"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(4, "missing", "denies the paths of all upstreams")]);
}

#[test]
fn alternatives_that_have_patterns_are_denied() {
    for (dialect, text) in [
        (
            Dialect::Apache,
            "DocumentRoot /srv/a\n<FilesMatch \"(^#.*#|\\.(bak|sql)|~)$\">\nRequire all denied\n</FilesMatch>\n",
        ),
        (
            Dialect::Nginx,
            "server { listen 80; root /srv/a;\nlocation ~ (^/#.*#.*#|\\.(bak|sql)|~)$ {\ndeny all;\n} }\n",
        ),
        (
            Dialect::Nginx,
            "server { listen 80; root /srv/a;\nlocation ~ \\d(?!a)|\\.(bak|sql)$|~$ {\ndeny all;\n} }\n",
        ),
    ] {
        let found = converted(dialect, text);
        for path in ["*.bak", "*.sql", "*~"] {
            let denied = format!("[[access]]\npath = \"{path}\"\ndeny = [\"all\"]\n");
            assert!(found.toml.contains(&denied), "{path}: {}", found.toml);
        }
        // The first alternative is lost.
        check_fates(&found, &[(3, "open", "denies only `*.bak`, `*.sql`, `*~`")]);
    }
}

#[test]
fn alternatives_in_groups_are_denied_where_others_are_lost() {
    // As in Drupal: more than 64 patterns, and some that are none.
    let text = "DocumentRoot /srv/a\n<FilesMatch \"\\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|yml)\
                (~|\\.sw[op]|\\.bak|\\.orig|\\.save)?$|^(\\.(?!well-known).*|Entries.*)$|^Root$|^#.*#$\">\n\
                Require all denied\n</FilesMatch>\n";
    let found = converted(Dialect::Apache, text);
    for path in ["*.inc", "*.module~", "*.yml.swp", "*/Root"] {
        let denied = format!("[[access]]\npath = \"{path}\"\ndeny = [\"all\"]\n");
        assert!(found.toml.contains(&denied), "{path}: {}", found.toml);
    }
    // The report names the first ones.
    check_fates(
        &found,
        &[(3, "open", "the result denies only `"), (3, "open", " more")],
    );

    // As in Nextcloud.
    let rule = "RewriteRule ^(?:\\.(?!well-known)|autotest|occ|db_).* - [R=404,L]";
    let found = converted(Dialect::Apache, &format!("{rule}\n"));
    for path in ["/autotest*", "/occ*", "/db_*"] {
        let refused = super::rule(site(&found, None), "access", path);
        assert!(refused.contains(&"status = 404"), "{path}: {}", found.toml);
    }
    check_fates(
        &found,
        &[(1, "open", "denies only `/autotest*`, `/db_*`, `/occ*`")],
    );
    // A condition that the result does not have would leave some of the requests out.
    let found = converted(
        Dialect::Apache,
        &format!("RewriteCond %{{REMOTE_ADDR}} ^10\n{rule}\n"),
    );
    assert_eq!(decision(&found, "/occ"), "", "{}", found.toml);
    check_fates(&found, &[(2, "open", "has no form in Weir")]);
}

#[test]
fn conditions_of_rules_about_dot_names_only_narrow_them() {
    let text = "DocumentRoot /srv/a\nRewriteEngine on\nRewriteCond %{REQUEST_URI} !(^|/)\\.well-known/ [NC]\n\
                RewriteCond %{SCRIPT_FILENAME} -f\nRewriteRule (^|/)\\. - [F]\n";
    let found = converted(Dialect::Apache, text);
    check_fates(&found, &[(5, "unneeded", "begin with a dot")]);
    assert!(
        fates(&found, 3).iter().all(|fate| fate.word() != "open"),
        "{:?}",
        found.report
    );
}

#[test]
fn files_that_no_path_names_are_not_sent() {
    let check = |line: &str, word: &str, path: Option<&str>| {
        let found = nginx(&format!("location / {{ try_files $uri =404; }}\n{line}"));
        let said = fates(&found, 3);
        let words: Vec<&str> = said.iter().map(|fate| fate.word()).collect();
        assert!(words.contains(&word), "{line}: {said:?}");
        let denied = path.map(|path| format!("[[access]]\npath = \"{path}\"\ndeny = [\"all\"]\n"));
        assert!(
            denied.is_none_or(|rule| found.toml.contains(&rule)),
            "{line}: {}",
            found.toml
        );
    };
    // The front controller has no application here.
    check(
        "location ~ ^/vendor/ { try_files none.html /index.php?$args; }",
        "missing",
        Some("/vendor/*"),
    );
    check(
        "location /lib/ { try_files /none @app; }",
        "missing",
        Some("/lib/*"),
    );
    // The expression has no pattern, and some of its alternatives have one.
    check(
        "location ~ \\.(inc|sql)$|^/a.*b.*c$ { try_files /none /index.php; }",
        "open",
        Some("*.inc"),
    );
    // Those that name the path send its file.
    check(
        "location /img/ { try_files $uri.webp $uri /index.php; }",
        "missing",
        None,
    );
}

#[test]
fn a_lost_location_that_admits_all_is_not_open() {
    let found = nginx("location ~* ^/[a-z]+/pub$ { allow all; }");
    let words = |line| -> Vec<&str> { fates(&found, line).iter().map(|fate| fate.word()).collect() };
    assert_eq!(words(2), ["missing", "missing"], "{:?}", found.report);
}

#[test]
fn a_dot_without_a_backslash_narrows_no_limit() {
    let found = nginx("location ~ ^/favicon.ico$ { expires 1d; }\nlocation ~ ^/secret.yml$ { deny all; }");
    check_fates(
        &found,
        &[
            (2, "changed", "a dot in Weir's rule"),
            (3, "missing", "the result denies"),
        ],
    );
    for line in [
        "[[header-rule]]\npath = \"/favicon.ico\"\n",
        // In nginx, `/secret-yml` is refused, too.
        "[[access]]\npath = \"/secret*yml\"\ndeny = [\"all\"]\n",
    ] {
        assert!(found.toml.contains(line), "{line}: {}", found.toml);
    }
}

#[test]
fn files_are_no_answer_in_place_of_an_application() {
    for (found, line, path) in [
        (
            apache("WSGIScriptAlias / /srv/www/app.py\n<Location />\nRequire ip 10.0.0.0/8\n</Location>"),
            4,
            "/*",
        ),
        (apache("WSGIScriptAlias /app /srv/www/app.py"), 4, "/app/*"),
        (
            apache("WSGIScriptAliasMatch ^/v[0-9]+/ /srv/www/app.py"),
            4,
            "/v*",
        ),
        (
            nginx("location /run/ { content_by_lua_file run.lua; }"),
            2,
            "/run/*",
        ),
        (nginx("location /run/ { js_content main.run; }"), 2, "/run/*"),
    ] {
        let first = found.toml.split("[[access]]\n").nth(1).unwrap_or_default();
        assert!(
            first.starts_with(&format!("path = \"{path}\"\ndeny = [\"all\"]\n")),
            "{path}: {}",
            found.toml
        );
        check_fates(&found, &[(line, "missing", "the result denies")]);
    }
}
