//! Tests about blocks of which one answers a request, `handle` of Caddy and `location` of nginx: what another one refuses or asks
//! for is not about its paths.

use super::{check_fates, converted, rule, site, tables};
use crate::pattern::matches;
use crate::{Conversion, Dialect};

/// What the first access rule that covers a path, or a path above it, says.
pub(super) fn decision(found: &Conversion, path: &str) -> String {
    let rules = tables(site(found, None), "access");
    let slashes = path.match_indices('/');
    let mut all: Vec<&str> = slashes.flat_map(|(at, _)| [&path[..at], &path[..=at]]).collect();
    all.push(path);
    let said = rules.iter().find_map(|rule| {
        let (pattern, rest) = rule.strip_prefix("path = \"")?.split_once('"')?;
        let covers = |path: &&str| matches(pattern, path) || pattern.strip_suffix("/*") == Some(*path);
        let covered = all.iter().any(covers);
        covered.then(|| rest.trim_start_matches("; ").to_owned())
    });
    said.unwrap_or_default()
}

pub(super) fn caddy(body: &str) -> Conversion {
    converted(
        Dialect::Caddy,
        &format!("http://a.test {{\nroot * /srv\n{body}\n}}\n"),
    )
}

#[test]
fn a_block_for_all_other_paths_refuses_only_these() {
    for refusal in [
        "handle {\nrespond 404\n}",
        "handle {\nrespond * 404\n}",
        "respond 404",
    ] {
        let found = caddy(&format!(
            "handle /pub/* {{\nfile_server\n}}\nhandle_path /api/* {{\nreverse_proxy app:80\n}}\n\
             handle /robots.txt {{\nfile_server\n}}\n{refusal}"
        ));
        for path in ["/pub/a", "/pub/b/c", "/api/x", "/robots.txt"] {
            assert_eq!(
                decision(&found, path),
                "allow = [\"all\"]",
                "{path}: {}",
                found.toml
            );
        }
        for path in ["/", "/a", "/pubs", "/robots.txt/a", "/robots.txts"] {
            assert_eq!(
                decision(&found, path),
                "deny = [\"all\"]; status = 404",
                "{path}: {}",
                found.toml
            );
        }
        check_fates(&found, &[(4, "carried", "")]);
    }
    let found = caddy("handle /pub/* {\nfile_server\n}\nhandle {\nabort\n}");
    assert_eq!(decision(&found, "/pub/a"), "allow = [\"all\"]", "{}", found.toml);
    assert_eq!(decision(&found, "/a"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(7, "changed", "not for `/pub`")]);
}

#[test]
fn checks_around_all_blocks_stay() {
    let found = caddy(
        "basic_auth {\nu $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n\
         handle /pub/* {\nfile_server\n}\nhandle /pub/in/* {\nrespond 403\n}\nhandle {\nrespond 404\n}",
    );
    let asked = decision(&found, "/pub/a");
    assert!(asked.contains("htpasswd"), "{asked} {}", found.toml);
    assert_eq!(
        decision(&found, "/pub/in/a"),
        "deny = [\"all\"]",
        "{}",
        found.toml
    );
    assert_eq!(
        decision(&found, "/a"),
        "deny = [\"all\"]; status = 404",
        "{}",
        found.toml
    );
    let found = caddy(
        "route {\nrespond /pub/old/* 410\nhandle /pub/* {\nfile_server\n}\nhandle {\nrespond 404\n}\n}\nerror /x/* 410",
    );
    assert_eq!(decision(&found, "/pub/a"), "allow = [\"all\"]", "{}", found.toml);
    assert_eq!(
        decision(&found, "/pub/old/a"),
        "deny = [\"all\"]; status = 410",
        "{}",
        found.toml
    );
    assert!(
        decision(&found, "/x/a").starts_with("deny = [\"all\"]"),
        "{}",
        found.toml
    );
}

#[test]
fn a_check_of_one_block_is_not_asked_in_another() {
    let user = "u $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";
    let found = caddy(&format!(
        "handle /pub/* {{\nfile_server\n}}\nhandle {{\nbasic_auth {{\n{user}\n}}\n\
         handle /in/* {{\nfile_server\n}}\nhandle {{\nrespond 404\n}}\n}}"
    ));
    assert_eq!(decision(&found, "/pub/a"), "allow = [\"all\"]", "{}", found.toml);
    assert!(decision(&found, "/in/a").contains("htpasswd"), "{}", found.toml);
    assert_eq!(
        decision(&found, "/a"),
        "deny = [\"all\"]; status = 404",
        "{}",
        found.toml
    );
}

#[test]
fn a_block_that_may_not_answer_leaves_nothing_out() {
    // The block sets a field only, so the refusal behind it is about its paths, too.
    let found = caddy("handle /pub/* {\nheader X-A 1\n}\nrespond 404");
    assert_eq!(
        decision(&found, "/pub/a"),
        "deny = [\"all\"]; status = 404",
        "{}",
        found.toml
    );
    // One for some clients, and one whose paths no rules of Weir leave out.
    for first in [
        "@lan remote_ip 10.0.0.0/8\nhandle @lan {\nfile_server\n}",
        "handle *.css {\nfile_server\n}",
        "@css path *.css\nhandle @css {\nfile_server\n}",
    ] {
        let found = caddy(&format!("{first}\nhandle {{\nrespond 404\n}}"));
        assert_eq!(
            decision(&found, "/a.css"),
            "deny = [\"all\"]; status = 404",
            "{}",
            found.toml
        );
    }
}

#[test]
fn a_block_that_removes_its_prefix_is_a_mount() {
    for (block, is_mount) in [
        (
            "handle /x/* {\nuri strip_prefix /x\nroot * /mnt/x\nfile_server\n}",
            true,
        ),
        (
            "handle /x/* {\nuri strip_prefix /y\nroot * /mnt/x\nfile_server\n}",
            false,
        ),
        (
            "handle /x/* {\nuri strip_prefix /x\nheader /x/a X-A 1\nroot * /mnt/x\nfile_server\n}",
            false,
        ),
    ] {
        let found = caddy(block);
        let mounts = tables(site(&found, None), "mount");
        // Weir takes the path off unless told otherwise.
        let is_stripped = mounts.iter().any(|mount| !mount.contains("strip = false"));
        assert_eq!(is_stripped, is_mount, "{block}: {}", found.toml);
    }
    let found = caddy("handle /x/* {\nuri strip_prefix /x\nroot * /mnt/x\nfile_server\n}");
    check_fates(&found, &[(4, "carried", "")]);
}

#[test]
fn a_block_that_removes_its_prefix_strips_the_paths_of_its_upstream() {
    let (uri, proxy) = ("uri strip_prefix /push", "reverse_proxy app:80");
    for (block, is_stripped) in [
        (format!("handle /push/* {{\n{proxy}\n{uri}\n}}"), true),
        (format!("route /push/* {{\n{uri}\n{proxy}\n}}"), true),
        (
            format!("route /push/* {{\nheader X-A 1\n{uri}\n{proxy}\n}}"),
            true,
        ),
        (
            format!("handle /push/* {{\nroute {{\n{uri}\n{proxy}\n}}\n}}"),
            true,
        ),
        // Caddy passes the whole path on, or redirects by it.
        (format!("route /push/* {{\n{proxy}\n{uri}\n}}"), false),
        (format!("route /push/* {{\nrewrite /x\n{uri}\n{proxy}\n}}"), false),
    ] {
        let found = caddy(&block);
        let passed = rule(site(&found, None), "proxy", "/push/*");
        assert_eq!(
            passed.contains(&"strip = true"),
            is_stripped,
            "{block}: {}",
            found.toml
        );
    }
    let found = caddy(&format!("route /push/* {{\nrewrite /x\n{uri}\n{proxy}\n}}"));
    check_fates(&found, &[(5, "missing", "with `/push` in the path")]);
}

pub(super) fn nginx(body: &str) -> Conversion {
    converted(
        Dialect::Nginx,
        &format!("server {{ listen 80; root /srv;\n{body}\n}}\n"),
    )
}

#[test]
fn a_location_that_only_auth_request_asks_is_carried_with_it() {
    let fate = |body: &str| {
        let found = nginx(body);
        let mut notes = found.report.notes().iter();
        let line = notes.find(|note| note.directive.starts_with("proxy_pass"));
        (line.map(|note| note.fate.word()), found)
    };
    let internal = "location = /auth { internal; proxy_pass http://127.0.0.1:2/v; }";
    let (word, found) = fate(&format!("location /in/ {{ auth_request /auth; }}\n{internal}"));
    assert_eq!(word, Some("carried"), "{:?}", found.report);
    assert_eq!(
        decision(&found, "/in/a"),
        "auth = \"http://127.0.0.1:2/v\"",
        "{}",
        found.toml
    );
    let refused = decision(&found, "/auth");
    assert!(refused.contains("404"), "{refused} {}", found.toml);
    // Nothing asks it, or clients may.
    assert_eq!(fate(internal).0, Some("missing"));
    let public = internal.replace("internal; ", "");
    let (word, _) = fate(&format!("location /in/ {{ auth_request /auth; }}\n{public}"));
    assert_eq!(word, Some("missing"));
}

#[test]
fn a_location_asks_for_nothing_that_only_a_wider_one_asks_for() {
    let found = nginx(
        "location / { auth_basic x; auth_basic_user_file /u; }\nlocation /pub/ { expires 1d; }\n\
         location ~ \\.zip$ { return 404; }\nlocation = /x.zip { expires 1d; }\n\
         location ^~ /all/ { expires 1d; }\nlocation ~ \\.gif$ { expires 1d; }",
    );
    for path in ["/pub/a", "/x.zip", "/all/a.zip", "/all/a"] {
        assert_eq!(
            decision(&found, path),
            "allow = [\"all\"]",
            "{path}: {}",
            found.toml
        );
    }
    for path in ["/a.zip", "/pub/a.zip", "/x.zip/a.zip"] {
        assert!(
            decision(&found, path).starts_with("deny = [\"all\"]"),
            "{path}: {}",
            found.toml
        );
    }
    assert!(decision(&found, "/a").contains("htpasswd"), "{}", found.toml);
    // The paths of expressions are patterns that may be wider: they stay closed.
    assert!(decision(&found, "/a.gif").contains("htpasswd"), "{}", found.toml);
    check_fates(&found, &[(7, "changed", "a wider location also holds here")]);
}

#[test]
fn an_exact_location_opens_nothing_below_it() {
    let found = nginx("location /in { deny all; }\nlocation = /in { expires 1d; }");
    assert_eq!(decision(&found, "/in"), "allow = [\"all\"]", "{}", found.toml);
    assert_eq!(decision(&found, "/in/a"), "deny = [\"all\"]", "{}", found.toml);
    let found = nginx(
        "auth_basic x; auth_basic_user_file /u;\nlocation = /index.php { auth_basic off; proxy_pass http://app:80; }\n\
         location / { proxy_pass http://app:80; }",
    );
    assert_eq!(
        decision(&found, "/index.php"),
        "allow = [\"all\"]",
        "{}",
        found.toml
    );
    let below = decision(&found, "/index.php/admin");
    assert!(below.contains("htpasswd"), "{below} {}", found.toml);
    // A rule for the start page would be one for all paths.
    let found = nginx("location / { deny all; }\nlocation = / { expires 1d; }");
    assert_eq!(decision(&found, "/"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(3, "changed", "a wider location also holds here")]);
}

#[test]
fn the_longest_prefix_decides_before_a_preferred_one() {
    let found = nginx("location ^~ /a/ { allow all; }\nlocation /a/in/ { deny all; }");
    assert_eq!(decision(&found, "/a/x"), "allow = [\"all\"]", "{}", found.toml);
    assert_eq!(decision(&found, "/a/in/x"), "deny = [\"all\"]", "{}", found.toml);
    let found = nginx(
        "location ^~ /a/ { allow all; }\nlocation /a/in/ { deny all; }\nlocation ~ \\.css$ { expires 1d; }",
    );
    assert_eq!(decision(&found, "/a/in/x"), "deny = [\"all\"]", "{}", found.toml);
    let found = nginx(
        "location ^~ /a/ { allow all; }\nlocation /a/in/ { deny all; }\nlocation ~ ^/\\d+/ { expires 1d; }",
    );
    check_fates(&found, &[(3, "open", "decides before this one")]);
    // One that says nothing opens none of its paths.
    let found = nginx(
        "location / { deny all; }\nlocation ^~ /a/ { expires 1d; }\nlocation /a/in/ { deny all; }\n\
         location ~ x { expires 2d; }",
    );
    assert_eq!(decision(&found, "/a/in/x"), "deny = [\"all\"]", "{}", found.toml);
}

/// A server that asks for a password, but not for `*.json` in `location /`.
const ASKS_BUT_FOR_JSON: &str =
    "auth_basic x; auth_basic_user_file /u;\nlocation / { location ~ \\.json$ { auth_basic off; } }\n";

#[test]
fn a_location_in_another_one_opens_no_stronger_location() {
    for (stronger, path) in [
        ("location /private/ { }", "/private/x.json"),
        ("location ^~ /private/ { }", "/private/x.json"),
        ("location = /x.json { }", "/x.json"),
        (
            "location /p/ { auth_basic off; location /p/in/ { auth_basic y; } }",
            "/p/in/x.json",
        ),
        (
            "location /q/ { location /q/a/ { location ~ \\.txt$ { auth_basic off; } } location /q/a/b/ { } }",
            "/q/a/b/x.txt",
        ),
        // The outer location has the longest prefix; the inner one would have a longer one.
        (
            "location /p/ { }\nlocation /p { location /p/in/ { auth_basic off; } }",
            "/p/in/x",
        ),
    ] {
        let found = nginx(&format!("{ASKS_BUT_FOR_JSON}{stronger}"));
        for path in [path, "/a"] {
            assert!(
                decision(&found, path).contains("htpasswd"),
                "{path}: {}",
                found.toml
            );
        }
        assert_eq!(
            decision(&found, "/a.json"),
            "allow = [\"all\"]",
            "{stronger}: {}",
            found.toml
        );
        assert_eq!(found.report.count("open"), 0, "{stronger}: {:?}", found.report);
    }
    // Of a prefix in another one, expressions beside this one are stronger.
    let found = nginx(
        "auth_basic x; auth_basic_user_file /u;\nlocation / { location /pub/ { auth_basic off; } }\n\
         location ~ \\.zip$ { expires 1d; }",
    );
    assert!(
        decision(&found, "/pub/a.zip").contains("htpasswd"),
        "{}",
        found.toml
    );
    assert_eq!(decision(&found, "/pub/a"), "allow = [\"all\"]", "{}", found.toml);
    // And so are they of a prefix beside them.
    let found = nginx(
        "auth_basic x; auth_basic_user_file /u;\nlocation /pub/ { auth_basic off; }\n\
         location ~ \\.zip$ { expires 1d; }",
    );
    assert!(
        decision(&found, "/pub/a.zip").contains("htpasswd"),
        "{}",
        found.toml
    );
}

#[test]
fn an_expression_in_a_location_decides_before_one_beside_it() {
    let found = nginx(
        "location / { location ~ \\.json$ { deny all; } }\nlocation ~ \\.(json|txt)$ { allow all; }\n\
         location /p/ { allow all; }",
    );
    assert_eq!(decision(&found, "/a.json"), "deny = [\"all\"]", "{}", found.toml);
    assert_eq!(decision(&found, "/a.txt"), "allow = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(3, "changed", "an expression decides about `*.json`")]);
}

#[test]
fn a_location_in_another_one_closes_no_stronger_location() {
    let found = nginx(
        "location / { location ~ \\.json$ { deny all; } }\nlocation /open/ { expires 1d; }\n\
         location ~ ^/open/.*\\.json$ { expires 2d; }",
    );
    assert_eq!(decision(&found, "/open/a"), "allow = [\"all\"]", "{}", found.toml);
    assert_eq!(
        decision(&found, "/open/a.json"),
        "allow = [\"all\"]",
        "{}",
        found.toml
    );
    assert_eq!(decision(&found, "/a.json"), "deny = [\"all\"]", "{}", found.toml);
}

#[test]
fn a_refusal_with_a_condition_reaches_no_stronger_location() {
    let access = |lines: &str| tables(site(&nginx(lines), None), "access");
    let nested = "location / { location ~ \\.json$ { if ($http_x = a) { return 403; } } }\n";
    assert_eq!(
        access(&format!("{nested}location /private/ {{ expires 1d; }}")),
        [
            "path = \"/private/*\"; allow = [\"all\"]",
            "path = \"*.json\"; if = [\"header x=a\"]; deny = [\"all\"]",
            "path = \"*.json\"; allow = [\"all\"]",
        ]
    );
    // One of the server is about all locations, and one of a location not about those in it.
    assert_eq!(
        access(
            "if ($http_y = b) { return 444; }\n\
             location / { if ($http_x = a) { return 403; } location /in/ { expires 1d; } }\n\
             location /pub/ { expires 1d; }"
        ),
        [
            "path = \"*\"; if = [\"header y=b\"]; deny = [\"all\"]",
            "path = \"/pub/\"; allow = [\"all\"]",
            "path = \"/in/\"; allow = [\"all\"]",
            "path = \"/*\"; if = [\"header x=a\"]; deny = [\"all\"]",
            "path = \"*\"; allow = [\"all\"]",
        ]
    );
    // A stronger location keeps what it asks for.
    let found = nginx(&format!(
        "auth_basic x; auth_basic_user_file /u;\n{nested}location /private/ {{ expires 1d; }}"
    ));
    let asked = decision(&found, "/private/a.json");
    assert!(asked.starts_with("htpasswd"), "{asked} {}", found.toml);
    // A refusal that is lost closes the paths of its location alone.
    let found = nginx(
        "location / { location ~ \\.json$ { if ($odd) { return 403; } } }\nlocation /private/ { expires 1d; }",
    );
    assert_eq!(
        decision(&found, "/private/a.json"),
        "allow = [\"all\"]",
        "{}",
        found.toml
    );
    assert_eq!(decision(&found, "/a.json"), "deny = [\"all\"]", "{}", found.toml);
    // Paths below a name are those of the weaker location.
    let rules = access("location ~ \\.css$ { allow all; }\nlocation / { if ($http_x = a) { return 403; } }");
    assert!(rules[0].starts_with("path = \"*.css/\"; if"), "{rules:?}");
    // Patterns of expressions may be wider than these: the refusal holds for them, too.
    let found = nginx("location / { if ($http_x = a) { return 403; } }\nlocation ~ \\.css$ { expires 1d; }");
    check_fates(&found, &[(3, "changed", "a wider location also holds here")]);
}

#[test]
fn a_limit_of_clients_that_reaches_a_stronger_location_is_reported() {
    let zone = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;";
    let found = |locations: &str| {
        converted(
            Dialect::Nginx,
            &format!("{zone}\nserver {{ listen 80; root /srv;\n{locations}\n}}\n"),
        )
    };
    let nested = "location / { location ~ \\.json$ { limit_req zone=a; } }\n";
    let text = format!("{nested}location /private/ {{ expires 1d; }}");
    check_fates(&found(&text), &[(3, "changed", "gives to `location /private/`")]);
    for locations in [
        "location /a/ { limit_req zone=a; }\nlocation /b/ { expires 1d; }",
        // nginx looks at the inner expression first.
        &*format!("{nested}location ~ \\.(json|txt)$ {{ expires 1d; }}"),
    ] {
        let found = found(locations);
        let mut notes = found.report.notes().iter();
        assert!(
            !notes.any(|note| note.fate.why().contains("Weir also limits")),
            "{locations}: {:?}",
            found.report
        );
    }
}

#[test]
fn a_location_that_another_one_opens_is_reported() {
    // A rule for the start page would be one for all paths, and the expression has no pattern.
    let ask = "auth_basic x; auth_basic_user_file /u;\n";
    let found = nginx(&format!(
        "{ask}location / {{ auth_basic off; }}\nlocation = / {{ }}"
    ));
    check_fates(&found, &[(4, "open", "for all paths")]);
    let found = nginx(&format!(
        "{ask}location /pub/ {{ auth_basic off; }}\nlocation ~ /\\d+/x {{ }}"
    ));
    check_fates(&found, &[(4, "open", "the access rule of another location")]);
    let found = nginx(&format!(
        "{ask}location /pub/ {{ auth_basic off; }}\nlocation ~ ^/in/\\d+/x {{ }}"
    ));
    assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
}

#[test]
fn an_exact_location_with_a_slash_opens_nothing_below_it() {
    let found = nginx("location /a/ { deny all; }\nlocation = /a/ { allow all; }");
    assert_eq!(decision(&found, "/a/x"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(3, "changed", "also for the paths below it")]);
    let found = nginx("location /a/ { deny all; }\nlocation = /a/ { expires 1d; }");
    assert_eq!(decision(&found, "/a/x"), "deny = [\"all\"]", "{}", found.toml);
}

#[test]
fn lines_of_a_location_replace_those_around_it() {
    // `deny all` would follow `allow all`, which decides about all clients.
    let found = nginx(
        "deny 192.0.2.1; allow all;\nlocation /in/ { deny all; location /in/a/ { allow all; }\n\
         location ^~ /in/a/b/ { expires 1d; } }",
    );
    assert_eq!(
        decision(&found, "/in/a/b/x"),
        "deny = [\"all\"]",
        "{}",
        found.toml
    );
}

#[test]
fn an_upstream_of_a_location_in_another_one_answers_no_stronger_location() {
    let found = nginx(
        "location / { location ~ \\.x$ { proxy_pass http://app:80; } }\nlocation /files/ { expires 1d; }",
    );
    let proxies = tables(site(&found, None), "proxy");
    assert!(
        proxies[0].starts_with("path = \"*.x\"; except = [\"/files/*.x\"]"),
        "{proxies:?}"
    );
    let found = nginx(
        "location / { location /files/x/ { proxy_pass http://app:80; } }\nlocation /files/ { expires 1d; }",
    );
    check_fates(&found, &[(2, "changed", "also answers `/files/x/*`")]);
}

#[test]
fn a_redirect_leaves_out_what_a_stronger_location_answers() {
    let found = nginx("location /old/ { return 301 /new/; }\nlocation ~ \\.css$ { expires 1d; }");
    let redirects = tables(site(&found, None), "redirect");
    assert!(
        redirects[0].contains("from = \"/old/*\"; except = [\"/old/*.css\"]"),
        "{redirects:?}"
    );
}

#[test]
fn a_named_location_that_asks_for_a_password_is_not_opened_by_the_one_before() {
    let found = nginx(
        "auth_basic x; auth_basic_user_file /u;\nlocation / { auth_basic off; try_files $uri @app; }\n\
         location @app { proxy_pass http://app:80; }",
    );
    assert!(decision(&found, "/a").contains("htpasswd"), "{}", found.toml);
    check_fates(&found, &[(4, "changed", "files of these paths")]);
}

#[test]
fn a_named_location_asks_for_more_than_a_wider_one() {
    let found = nginx(
        "location / { auth_basic x; auth_basic_user_file /u; }\nlocation ~ ^/app/ { try_files $uri @app; }\n\
         location @app { allow 10.0.0.0/8; deny all; proxy_pass http://app:80; }",
    );
    let both = decision(&found, "/app/x");
    assert!(
        both.contains("htpasswd") && both.contains("10.0.0.0/8"),
        "{both} {}",
        found.toml
    );
    assert!(decision(&found, "/a").contains("htpasswd"), "{}", found.toml);
    // No client asks for a named location, so `internal` says nothing there.
    let found = nginx(
        "location / { try_files $uri @app; }\nlocation @app { internal; proxy_pass http://app:80; }\n\
         location @other { internal; }",
    );
    assert_eq!(decision(&found, "/a"), "", "{}", found.toml);
    check_fates(
        &found,
        &[
            (3, "unneeded", "a named location"),
            (4, "unneeded", "a named location"),
        ],
    );
    assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
}

#[test]
fn a_named_location_answers_paths_of_locations_in_others() {
    let found = nginx(
        "location / {\nlocation /in/ { try_files $uri @app; }\n}\n\
         location @app { if ($http_x_bad) { return 403; } proxy_pass http://app:80; }",
    );
    let proxies = tables(site(&found, None), "proxy");
    assert_eq!(proxies.len(), 1, "{}", found.toml);
    assert!(
        proxies[0].starts_with("path = \"/in/*\"") && proxies[0].contains("when = \"missing\""),
        "{proxies:?}"
    );
    let refusal = decision(&found, "/in/a");
    assert!(
        refusal.contains("header x-bad") && refusal.contains("deny = [\"all\"]"),
        "{refusal}: {}",
        found.toml
    );
    assert_eq!(decision(&found, "/a"), "", "{}", found.toml);
    check_fates(&found, &[(3, "unneeded", "looks for the file")]);
    assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
    // Where two of them share paths, neither loses these.
    let found = nginx(
        "location / { location /in/ { try_files $uri @app; } location ~ \\.pdf$ { try_files $uri @app; } }\n\
         location @app { proxy_pass http://app:80; }",
    );
    let proxies = tables(site(&found, None), "proxy");
    for path in ["/in/*", "*.pdf"] {
        let start = format!("path = \"{path}\"");
        let is_whole = |table: &String| table.starts_with(&start) && !table.contains("except");
        assert!(proxies.iter().any(is_whole), "{path}: {proxies:?}");
    }
    // The upstream of the location around does not answer in its place.
    let found = nginx(
        "location /x/ { proxy_pass http://around:80; location /x/in/ { try_files $uri @app; } }\n\
         location @app { proxy_pass http://app:80; }",
    );
    let proxies = tables(site(&found, None), "proxy");
    assert!(
        proxies[0].starts_with("path = \"/x/*\"; except = [\"/x/in/*\"]"),
        "{proxies:?}"
    );
    assert!(proxies[1].starts_with("path = \"/x/in/*\""), "{proxies:?}");
}

#[test]
fn a_named_location_refuses_only_the_paths_that_lead_to_it() {
    let named = "location @app { if ($http_x_bad) { return 403; } proxy_pass http://app:80; }";
    for (around, own) in [
        ("", ""),
        // Whatever the rule of the path says.
        ("", "allow 10.0.0.0/8; deny all; "),
        ("auth_basic x; auth_basic_user_file /u; ", ""),
    ] {
        let found = nginx(&format!(
            "location /open/ {{ allow all; auth_basic off; }}\n\
             location / {{ {around}location /in/ {{ allow 192.0.2.0/24; deny all; }} {own}try_files $uri @app; }}\n\
             location /static/ {{ expires 1d; }}\n{named}"
        ));
        let refusal = decision(&found, "/a");
        assert!(
            refusal.contains("header x-bad") && refusal.contains("deny = [\"all\"]"),
            "{refusal}: {}",
            found.toml
        );
        for path in ["/open/a", "/in/a", "/static/a"] {
            let other = decision(&found, path);
            assert!(
                !other.is_empty() && !other.contains("x-bad"),
                "{path}: {}",
                found.toml
            );
        }
        check_fates(&found, &[(5, "changed", "files of these paths are refused")]);
        assert!(!found.toml.contains("path = \"@"), "{}", found.toml);
    }
    // For all paths, if the server itself leads to it.
    let found = nginx(&format!(
        "location /open/ {{ allow all; }}\ntry_files $uri @app;\n{named}"
    ));
    assert!(decision(&found, "/a").contains("header x-bad"), "{}", found.toml);
}

#[test]
fn an_upstream_leaves_out_what_an_expression_answers() {
    let found = nginx(
        "location /admin/ { auth_basic x; auth_basic_user_file /u; proxy_pass http://app:80; }\n\
         location ~* \\.(css|js)$ { allow all; }",
    );
    let proxies = tables(site(&found, None), "proxy");
    assert!(
        proxies[0].starts_with("path = \"/admin/*\"; except = [\"/admin/*.css\", \"/admin/*.js\"]"),
        "{proxies:?}"
    );
}

#[test]
fn an_expression_opens_no_folder_of_a_weaker_location() {
    let found = nginx("location /files/ { internal; alias /data/; }\nlocation ~ \\.jpg$ { allow all; }");
    assert_eq!(
        decision(&found, "/files/a.jpg"),
        "deny = [\"all\"]",
        "{}",
        found.toml
    );
    assert_eq!(decision(&found, "/a.jpg"), "allow = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(3, "changed", "in the folder of another one")]);
    // An upstream answers the paths, and not the folder.
    let found = nginx(
        "location /files/ { internal; alias /data/; }\n\
         location ~ \\.jpg$ { allow all; proxy_pass http://app:80; }",
    );
    assert_eq!(
        decision(&found, "/files/a.jpg"),
        "allow = [\"all\"]",
        "{}",
        found.toml
    );
}

#[test]
fn a_rule_for_names_is_none_for_paths_below_them() {
    let found = nginx(
        "auth_basic x; auth_basic_user_file /u;\nlocation / { proxy_pass http://app:80; }\n\
         location ~ \\.pdf$ { auth_basic off; proxy_pass http://app:80; }\n\
         location ~ \\.sql$ { deny all; }\nlocation /private/ { deny all; }",
    );
    assert_eq!(
        decision(&found, "/a/x.pdf"),
        "allow = [\"all\"]",
        "{}",
        found.toml
    );
    for path in ["/x.pdf/", "/x.pdf/y", "/a/x.pdf/y/z"] {
        assert!(
            decision(&found, path).contains("htpasswd"),
            "{path}: {}",
            found.toml
        );
    }
    for path in ["/private/x.pdf/y", "/x.pdf/y.sql"] {
        let refused = decision(&found, path);
        assert!(refused.starts_with("deny = [\"all\"]"), "{path}: {}", found.toml);
    }
    // Many refusals become one.
    let many: String = (0..9)
        .map(|at| format!("location /{at}/ {{ deny all; }}\n"))
        .collect();
    let found = nginx(&format!("location ~ \\.pdf$ {{ allow all; }}\n{many}"));
    assert_eq!(tables(site(&found, None), "access").len(), 11, "{}", found.toml);
    assert_eq!(
        decision(&found, "/8/x.pdf/y"),
        "deny = [\"all\"]",
        "{}",
        found.toml
    );
}

#[test]
fn a_rule_for_the_start_page_is_not_one_for_all_paths() {
    for inner in ["uwsgi_pass 127.0.0.1:9;", "if ($http_x) { return 403; }"] {
        let found = nginx(&format!(
            "location = / {{ {inner} }}\nlocation /a/ {{ allow 10.0.0.0/8; deny all; }}"
        ));
        assert_eq!(decision(&found, "/b"), "", "{inner}: {}", found.toml);
        assert_eq!(
            decision(&found, "/a/x"),
            "allow = [\"10.0.0.0/8\"]",
            "{inner}: {}",
            found.toml
        );
        check_fates(&found, &[(2, "open", "none for `/` alone")]);
    }
}

#[test]
fn names_that_begin_with_a_dot_decide_about_no_order() {
    let found = nginx(
        "location ~ /\\.git { deny all; }\nlocation ^~ /a/ { allow all; }\nlocation /a/in/ { deny all; }",
    );
    assert_eq!(decision(&found, "/a/in/x"), "deny = [\"all\"]", "{}", found.toml);
    assert_eq!(found.report.count("open"), 0, "{:?}", found.report);
}

/// The numbers are tested beside the bounds. Here, each of 64 patterns of two expressions needs a limit.
#[test]
fn lists_are_no_longer_than_weir_accepts() {
    let names = "(a|b)".repeat(6);
    let locations: String = (0..2)
        .map(|at| format!("location ~ ^/{at}{names}$ {{ limit_req zone=a; }}\n"))
        .collect();
    let text = format!(
        "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;\nserver {{ listen 80; root /srv;\n{locations}}}\n"
    );
    let found = converted(Dialect::Nginx, &text);
    assert_eq!(tables(site(&found, None), "limit").len(), 100, "{}", found.toml);
    check_fates(&found, &[(2, "missing", "at most 100 limits")]);
}

#[test]
fn nothing_is_sent_in_place_of_what_is_lost() {
    for lost in [
        "return 200 ok;",
        "content_by_lua_file x.lua;",
        "alias /data/$http_x/;",
        "alias /data;",
        "root $x;",
    ] {
        let found = nginx(&format!("location / {{ deny all; }}\nlocation /x/ {{ {lost} }}"));
        assert_eq!(
            decision(&found, "/x/a"),
            "deny = [\"all\"]",
            "{lost}: {}",
            found.toml
        );
    }
}

#[test]
fn a_rule_for_some_names_is_none_for_other_folders() {
    let found = caddy(
        "@doc path *.pdf\nbasic_auth @doc {\nu $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n\
         handle /pub/* {\nfile_server\n}\nhandle {\nrespond 404\n}",
    );
    assert!(
        decision(&found, "/pub/x.pdf").contains("htpasswd"),
        "{}",
        found.toml
    );
    assert!(
        decision(&found, "/secret/x.pdf").starts_with("deny = [\"all\"]"),
        "{}",
        found.toml
    );
}

#[test]
fn two_checks_hold_for_the_paths_that_they_share() {
    let found = caddy(
        "basic_auth /private/* {\nu $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n\
         @out {\npath *.pdf\nnot remote_ip 10.0.0.0/8\n}\nrespond @out 403\nfile_server",
    );
    let both = decision(&found, "/private/x.pdf");
    assert!(
        both.contains("htpasswd") && both.contains("10.0.0.0/8"),
        "{both} {}",
        found.toml
    );
}

#[test]
fn a_matcher_in_a_block_is_about_the_clients_of_the_block() {
    let found = caddy(
        "@lan remote_ip 10.0.0.0/8\nhandle @lan {\nreverse_proxy /admin/* app:80\n}\nhandle {\nfile_server\n}",
    );
    assert!(!found.toml.contains("proxy]]"), "{}", found.toml);
    check_fates(&found, &[(5, "missing", "network")]);
    let found = caddy(
        "@api path /api/*\n@secret header X-Key abc\nhandle @secret {\nreverse_proxy @api app:80\n}\nhandle {\nfile_server\n}",
    );
    assert!(found.toml.contains("header X-Key=abc"), "{}", found.toml);
    let found = caddy(
        "@admin path /admin/*\nhandle_path /app/* {\nbasic_auth @admin {\n\
         u $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\nfile_server\n}",
    );
    assert_eq!(
        decision(&found, "/app/admin/x"),
        "deny = [\"all\"]",
        "{}",
        found.toml
    );
}

pub(super) fn apache(body: &str) -> Conversion {
    converted(
        Dialect::Apache,
        &format!("<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/www\n{body}\n</VirtualHost>\n"),
    )
}

#[test]
fn sections_of_folders_hold_beside_scripts() {
    let found = apache(
        "<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/run/php/php-fpm.sock|fcgi://localhost/\"\n</FilesMatch>\n\
         <Directory /srv/www/private>\nRequire ip 10.0.0.0/8\n</Directory>\n\
         <FilesMatch \"\\.(sql|bak)$\">\nRequire all denied\n</FilesMatch>",
    );
    assert_eq!(
        decision(&found, "/private/a"),
        "allow = [\"10.0.0.0/8\"]",
        "{}",
        found.toml
    );
    assert_eq!(decision(&found, "/a.sql"), "deny = [\"all\"]", "{}", found.toml);
}

#[test]
fn a_limit_on_get_is_one_on_files() {
    for (section, is_asked) in [
        ("Limit GET POST", true),
        ("Limit POST PUT", false),
        ("LimitExcept POST", true),
        ("LimitExcept GET HEAD", false),
    ] {
        let name = section.split(' ').next().expect("a name");
        let found = apache(&format!(
            "<Directory /srv/www/private>\nAuthType Basic\nAuthName x\nAuthUserFile /u\n<{section}>\nRequire valid-user\n\
             </{name}>\n</Directory>"
        ));
        let is_found = decision(&found, "/private/a").contains("htpasswd");
        assert_eq!(is_found, is_asked, "{section}: {}", found.toml);
    }
}

#[test]
fn users_of_a_file_are_all_or_named() {
    let asked = |lines: &str| {
        let found = apache(&format!(
            "<Directory /srv/www/private>\nAuthType Basic\nAuthUserFile /u\n{lines}\n</Directory>"
        ));
        (decision(&found, "/private/a"), found)
    };
    let (one, found) = asked("Require user Ann bob\nRequire user \"eve x\"");
    assert_eq!(
        one, "htpasswd = \"/u\"; users = [\"Ann\", \"bob\", \"eve x\"]",
        "{}",
        found.toml
    );
    check_fates(&found, &[(7, "changed", "403"), (8, "changed", "403")]);
    // Alternatives.
    for lines in [
        "Require user ann\nRequire valid-user",
        "<RequireAny>\nRequire valid-user\n</RequireAny>\nRequire user ann",
    ] {
        let (all, found) = asked(lines);
        assert_eq!(all, "htpasswd = \"/u\"", "{lines}: {}", found.toml);
        let mut notes = found.report.notes().iter();
        let line = notes.find(|note| note.directive == "Require user ann");
        let fate = line.map(|note| note.fate.word());
        assert_eq!(fate, Some("carried"), "{lines}: {:?}", found.report);
    }
    let near = asked("Require user ann\nRequire ip 10.0.0.0/8").0;
    assert!(
        near.contains("10.0.0.0/8") && near.contains("users = [\"ann\"]") && near.contains("\"any\""),
        "{near}"
    );
    for lines in [
        "Require user %{env:NAME}",
        "Require user",
        "Require user ann\nAuthBasicProvider ldap",
        "<RequireAll>\nRequire user ann\nRequire ip 10.0.0.0/8\n</RequireAll>",
    ] {
        assert_eq!(asked(lines).0, "deny = [\"all\"]", "{lines}");
    }
    let found = apache("<Directory /srv/www/private>\nAuthType Basic\nRequire user ann\n</Directory>");
    assert_eq!(
        decision(&found, "/private/a"),
        "deny = [\"all\"]",
        "{}",
        found.toml
    );
}

#[test]
fn files_of_folders_that_may_limit_access_are_open() {
    let found = apache("<Directory /srv/www>\nAllowOverride All\nRequire all granted\n</Directory>");
    check_fates(&found, &[(5, "open", "`.htaccess`")]);
    let found = apache("<Directory /srv/www>\nAllowOverride None\nRequire all granted\n</Directory>");
    check_fates(&found, &[(5, "unneeded", "no files in folders")]);
}

#[test]
fn sections_inherit_passwords_and_networks_apart() {
    let user = "AuthType Basic\nAuthName x\nAuthUserFile /u\nRequire valid-user";
    let found = apache(&format!(
        "<Directory /srv/www>\n{user}\n</Directory>\n<Directory /srv/www/sub>\nOrder allow,deny\nAllow from all\n</Directory>"
    ));
    assert!(decision(&found, "/sub/a").contains("htpasswd"), "{}", found.toml);
    let found = apache(&format!(
        "<Directory /srv/www>\nOrder deny,allow\nDeny from all\nAllow from 10.0.0.0/8\n</Directory>\n\
         <Directory /srv/www/sub>\n{user}\n</Directory>"
    ));
    let both = decision(&found, "/sub/a");
    assert!(
        both.contains("htpasswd") && both.contains("10.0.0.0/8"),
        "{both} {}",
        found.toml
    );
    // `Require` replaces `Require`.
    let found = apache(&format!(
        "<Directory /srv/www>\n{user}\n</Directory>\n<Directory /srv/www/sub>\nRequire all granted\n</Directory>"
    ));
    assert_eq!(decision(&found, "/sub/a"), "allow = [\"all\"]", "{}", found.toml);
}

#[test]
fn a_named_route_may_limit_access() {
    let found = caddy("route /x/* {\ninvoke guard\nfile_server\n}\nfile_server");
    assert_eq!(decision(&found, "/x/a"), "deny = [\"all\"]", "{}", found.toml);
    check_fates(&found, &[(4, "missing", "named routes")]);
}

#[test]
fn a_password_opens_no_site_of_this_machine() {
    let text = "server { listen 80; server_name b.test; root /b; }\n\
                server { listen 127.0.0.1:80; server_name a.test; root /a;\n\
                satisfy any; allow 127.0.0.1; deny all; auth_basic x; auth_basic_user_file /u; }\n";
    let found = converted(Dialect::Nginx, text);
    let access = tables(site(&found, Some("a.test")), "host.access");
    assert!(
        access[0].contains("127.0.0.1") && !access[0].contains("any"),
        "{access:?}"
    );
}
