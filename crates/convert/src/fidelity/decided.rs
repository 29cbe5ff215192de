//! Tests about blocks of which one answers a request, `handle` of Caddy and `location` of nginx: what another one refuses or asks
//! for is not about its paths.

use super::{check_fates, converted, site, tables};
use crate::pattern::matches;
use crate::{Conversion, Dialect};

/// What the first access rule that covers a path says.
fn decision(found: &Conversion, path: &str) -> String {
    let rules = tables(site(found, None), "access");
    let said = rules.iter().find_map(|rule| {
        let (pattern, rest) = rule.strip_prefix("path = \"")?.split_once('"')?;
        let covers = matches(pattern, path)
            || (!pattern.contains('*') && path.starts_with(&format!("{pattern}/")))
            || pattern.strip_suffix("/*") == Some(path);
        covers.then(|| rest.trim_start_matches("; ").to_owned())
    });
    said.unwrap_or_default()
}

fn caddy(body: &str) -> Conversion {
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

fn nginx(body: &str) -> Conversion {
    converted(
        Dialect::Nginx,
        &format!("server {{ listen 80; root /srv;\n{body}\n}}\n"),
    )
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
    for path in ["/in", "/in/a"] {
        assert_eq!(
            decision(&found, path),
            "deny = [\"all\"]",
            "{path}: {}",
            found.toml
        );
    }
    check_fates(&found, &[(3, "changed", "a wider location also holds here")]);
}

#[test]
fn the_longest_prefix_decides_before_a_preferred_one() {
    let found = nginx("location ^~ /a/ { allow all; }\nlocation /a/in/ { deny all; }");
    assert_eq!(decision(&found, "/a/x"), "allow = [\"all\"]", "{}", found.toml);
    assert_eq!(decision(&found, "/a/in/x"), "deny = [\"all\"]", "{}", found.toml);
    // One that says nothing opens none of its paths.
    let found = nginx(
        "location / { deny all; }\nlocation ^~ /a/ { expires 1d; }\nlocation /a/in/ { deny all; }\n\
         location ~ x { expires 2d; }",
    );
    assert_eq!(decision(&found, "/a/in/x"), "deny = [\"all\"]", "{}", found.toml);
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
