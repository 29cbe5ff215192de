//! What limits access in a configuration limits it in the result, or the result is closed: no host sends files of another one,
//! and a check of clients without a form in Weir admits nobody. `weir serve --explain` says who gets what.

use super::USERS;
use crate::cli::{text, weir};
use crate::serve::tree::Tree;
use std::path::{Path, PathBuf};

/// The dialects.
const DIALECTS: [&str; 3] = ["nginx", "apache", "caddy"];

/// Files of a site.
const FILES: [&str; 5] = [
    "config.ini",
    "secret/config.ini",
    "secret/1",
    "secret/x/config.ini",
    "1/secret",
];

/// A folder with the files of a site, `a`, and a file of users.
fn site() -> Tree {
    let tree = Tree::new();
    for name in FILES {
        tree.write(&format!("a/{name}"), "a secret");
    }
    tree.write("users", USERS);
    tree
}

/// Converts a configuration into a file beside it. `ROOT` and `USERS` in it are names of the tree.
fn convert(tree: &Tree, dialect: &str, config: &str) -> PathBuf {
    let folder = Tree::path(tree).display().to_string();
    let config = config
        .replace("ROOT", &format!("{folder}/a"))
        .replace("USERS", &format!("{folder}/users"));
    let (file, out) = (tree.write("site.conf", config), tree.join("weir.toml"));
    let words = ["convert", "--from", dialect, "--out"];
    let output = weir(&[&words[..], &[&*out.to_string_lossy(), &*file.to_string_lossy()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    out
}

/// The status of the answer to a client at a public address, and what decides it. `None`: an upstream answers.
fn answer(config: &Path, url: &str) -> (Option<u64>, String) {
    let request = format!("GET {url} from 192.0.2.200");
    let output = weir(&[
        "serve",
        "--config",
        &*config.to_string_lossy(),
        "--json",
        "--explain",
        &request,
    ]);
    let said = text(&output.stdout);
    let explained = said
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|value| value["event"] == "explained")
        .unwrap_or_else(|| panic!("{said}{}", text(&output.stderr)));
    let source = explained["source"].as_str().expect("a source");
    (explained["status"].as_u64(), source.to_owned())
}

fn shown(config: &Path) -> String {
    std::fs::read_to_string(config).expect("the result")
}

#[test]
fn a_host_without_a_root_has_no_files_of_another() {
    let nginx = "server { listen 80; server_name a.test; root ROOT; auth_basic x; auth_basic_user_file USERS; }\n\
                 server { listen 80; server_name b.test; location /v2/ { proxy_pass http://127.0.0.1:1; } }\n";
    let apache = "<VirtualHost *:80>\nServerName a.test\nDocumentRoot ROOT\n<Location />\nAuthType Basic\nAuthName x\n\
                  AuthUserFile USERS\nRequire valid-user\n</Location>\n</VirtualHost>\n\
                  <VirtualHost *:80>\nServerName b.test\nProxyPass /v2/ http://127.0.0.1:1/v2/\n</VirtualHost>\n";
    let caddy = format!(
        "http://a.test {{\nroot * ROOT\nbasic_auth {{\n{}\n}}\nfile_server\n}}\n\
         http://b.test {{\nreverse_proxy /v2/* 127.0.0.1:1\n}}\n",
        USERS.trim().replace(':', " ")
    );
    for (dialect, config, unknown) in [
        ("nginx", nginx, 401),
        ("apache", apache, 401),
        ("caddy", &*caddy, 403),
    ] {
        let tree = site();
        let result = convert(&tree, dialect, config);
        let status = |host: &str, path: &str| answer(&result, &format!("http://{host}{path}")).0;
        assert_eq!(status("a.test", "/config.ini"), Some(401), "{}", shown(&result));
        assert_eq!(status("b.test", "/config.ini"), Some(404), "{}", shown(&result));
        // The empty folder itself has neither an index nor a listing.
        assert_eq!(status("b.test", "/"), Some(403), "{}", shown(&result));
        assert_eq!(status("b.test", "/v2/x"), None, "{}", shown(&result));
        assert_eq!(
            status("c.test", "/config.ini"),
            Some(unknown),
            "{}",
            shown(&result)
        );
    }
}

#[test]
fn a_folder_that_is_not_empty_is_no_root() {
    let tree = site();
    tree.write("weir-empty/left", "behind");
    let config =
        "server { listen 80; server_name a.test; root /srv; }\nserver { listen 80; server_name b.test; }\n";
    let (file, out) = (tree.write("site.conf", config), tree.join("weir.toml"));
    let words = ["convert", "--from", "nginx", "--out"];
    let output = weir(&[&words[..], &[&*out.to_string_lossy(), &*file.to_string_lossy()]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("weir-empty` is not empty"),
        "{}",
        text(&output.stderr)
    );
}

/// A site of a dialect with these lines.
fn with(dialect: &str, lines: &str) -> String {
    match dialect {
        "nginx" => format!("server {{ listen 80; server_name a.test; root ROOT;\n{lines}\n}}\n"),
        "apache" => {
            format!("<VirtualHost *:80>\nServerName a.test\nDocumentRoot ROOT\n{lines}\n</VirtualHost>\n")
        }
        _ => format!("http://a.test {{\nroot * ROOT\nfile_server\n{lines}\n}}\n"),
    }
}

#[test]
fn a_check_that_is_lost_admits_nobody() {
    // Without a check, everyone gets the files.
    for dialect in DIALECTS {
        let tree = site();
        let result = convert(&tree, dialect, &with(dialect, ""));
        let (status, source) = answer(&result, "http://a.test/config.ini");
        assert_eq!(status, Some(200), "{dialect} {source}: {}", shown(&result));
    }
    for (dialect, lines, path) in [
        (
            "nginx",
            "auth_basic x; auth_basic_user_file /u/$host;",
            "/config.ini",
        ),
        (
            "nginx",
            "auth_basic $area; auth_basic_user_file USERS;",
            "/config.ini",
        ),
        ("nginx", "auth_request /nowhere;", "/config.ini"),
        ("nginx", "auth_jwt area;", "/config.ini"),
        ("nginx", "access_by_lua_file /x.lua;", "/config.ini"),
        ("nginx", "location ~ ^/(\\d+)/secret$ { deny all; }", "/1/secret"),
        (
            "nginx",
            "location ~ ^/secret/(\\d+)$ { auth_basic x; auth_basic_user_file USERS; }",
            "/secret/1",
        ),
        (
            "nginx",
            "location ~ (\\d+) { allow 10.0.0.0/8; deny all; }",
            "/secret/1",
        ),
        (
            "nginx",
            "location /secret/ { if ($remote_addr != 10.0.0.1) { return 403; } }",
            "/secret/1",
        ),
        (
            "nginx",
            "satisfy any; allow 10.0.0.0/8; auth_basic x; auth_basic_user_file USERS;",
            "/config.ini",
        ),
        ("nginx", "deny all; allow all;", "/config.ini"),
        (
            "nginx",
            "location /secret/ { allow all; location /secret/x/ { deny all; } }",
            "/secret/x/config.ini",
        ),
        (
            "nginx",
            "auth_basic x; auth_basic_user_file USERS; location /secret/ { auth_basic off; }\n\
             location /secret/x/ { autoindex on; }",
            "/secret/x/config.ini",
        ),
        (
            "nginx",
            "deny 192.0.2.0/24; allow 192.0.2.200; deny all;",
            "/config.ini",
        ),
        (
            "apache",
            "<Location />\nAuthType Digest\nAuthUserFile USERS\nRequire valid-user\n</Location>",
            "/config.ini",
        ),
        (
            "apache",
            "<Location />\nAuthType Basic\nAuthUserFile USERS\nRequire group staff\n</Location>",
            "/config.ini",
        ),
        (
            "apache",
            "<Location />\nAuthType Basic\nAuthBasicProvider ldap\nAuthUserFile USERS\nRequire valid-user\n</Location>",
            "/config.ini",
        ),
        (
            "apache",
            "<Location />\nAuthType Basic\nAuthUserFile USERS\nAllow from 192.0.2.0/24\nRequire valid-user\n</Location>",
            "/config.ini",
        ),
        (
            "apache",
            "<Location />\nRequire host a.test\n</Location>",
            "/config.ini",
        ),
        (
            "apache",
            "<Location />\nRequire ip 10.1 a.test\n</Location>",
            "/config.ini",
        ),
        (
            "apache",
            "<Directory ROOT>\n<RequireAll>\nRequire ip 192.0.2.0/24\nRequire valid-user\n</RequireAll>\n</Directory>",
            "/config.ini",
        ),
        (
            "apache",
            "<LocationMatch \"^/(\\d+)/secret$\">\nRequire all denied\n</LocationMatch>",
            "/1/secret",
        ),
        (
            "apache",
            "<LocationMatch \"(\\d+)\">\nRequire ip 10.0.0.0/8\n</LocationMatch>",
            "/secret/1",
        ),
        (
            "apache",
            "<DirectoryMatch \"secret\">\nRequire ip 10.0.0.0/8\n</DirectoryMatch>",
            "/secret/1",
        ),
        (
            "apache",
            "<Location /secret>\nSSLRequire %{SSL_CIPHER_USEKEYSIZE} >= 128\n</Location>",
            "/secret/1",
        ),
        (
            "apache",
            "<Location /secret>\nSSLRequireSSL\n</Location>",
            "/secret/1",
        ),
        (
            "apache",
            "RewriteCond %{REMOTE_ADDR} !^10\\.\nRewriteRule ^/secret - [F]",
            "/secret/1",
        ),
        ("apache", "RedirectMatch 404 ^/secret/(\\d+)$", "/secret/1"),
        (
            "apache",
            "<Proxy *>\nRequire ip 10.0.0.0/8\n</Proxy>\nProxyPass /secret http://127.0.0.1:1/secret",
            "/secret/1",
        ),
        ("caddy", "basic_auth {\nann plain\n}", "/config.ini"),
        (
            "caddy",
            "basicauth scrypt {\nann c2VjcmV0 c2FsdA==\n}",
            "/config.ini",
        ),
        (
            "caddy",
            "basicauth * {\nann JDJhJDE0JGFiY2RlZmdoaWprbG1ub3BxcnN0dXVPUWl5Q3hsZ2Yvb2V1VHFpeEttV2RjWVVoNEhqbDBh\n}",
            "/config.ini",
        ),
        (
            "caddy",
            "@who expression `true`\nbasic_auth @who {\nann plain\n}",
            "/config.ini",
        ),
        (
            "caddy",
            "@out not remote_ip 10.0.0.0/8\nbasic_auth @out {\nann plain\n}",
            "/config.ini",
        ),
        (
            "caddy",
            "forward_auth 127.0.0.1:1 {\nuri {path}\n}",
            "/config.ini",
        ),
        ("caddy", "authorize with policy", "/config.ini"),
        (
            "caddy",
            "@who {\npath /secret/*\nexpression `true`\n}\nrespond @who 403",
            "/secret/1",
        ),
        (
            "caddy",
            "@who path_regexp ^/secret/\\d+$\nhandle @who {\nbasic_auth {\nann plain\n}\nfile_server\n}",
            "/secret/1",
        ),
        (
            "caddy",
            "handle_path /secret/* {\n@x path /x/*\nrespond @x 403\nfile_server\n}",
            "/secret/x/config.ini",
        ),
        ("caddy", "respond /secret/* 405", "/secret/1"),
        (
            "caddy",
            "@two {\npath /secret/*\npath /x/*\n}\nrespond @two 403",
            "/secret/1",
        ),
        (
            "caddy",
            "@two {\nremote_ip 192.0.2.0/24\nremote_ip 10.0.0.0/8\n}\nrespond @two 403",
            "/secret/1",
        ),
        (
            "caddy",
            "@one remote_ip 192.0.2.0/24\n@two not remote_ip 192.0.2.0/24 10.0.0.0/8\n\
             @three not remote_ip 198.51.100.0/24\nrespond @two 403\nrespond @three 403",
            "/config.ini",
        ),
    ] {
        let tree = site();
        let result = convert(&tree, dialect, &with(dialect, lines));
        let (status, source) = answer(&result, &format!("http://a.test{path}"));
        assert!(
            matches!(status, Some(401 | 403 | 404)),
            "{dialect}\n{lines}\n{status:?} {source}\n{}",
            shown(&result)
        );
        // The report does not call it open.
        assert!(!shown(&result).contains("# OPEN:"), "{}", shown(&result));
    }
}

#[test]
fn a_site_of_this_machine_is_not_public() {
    let nginx = "server { listen 80; server_name open.test; root ROOT; }\n\
                 server { listen 127.0.0.1:8081; listen unix:/run/a.sock; server_name a.test; root ROOT; }\n\
                 server { listen unix:/run/b.sock; server_name b.test; root ROOT; }\n";
    let apache = "<VirtualHost *:80>\nServerName open.test\nDocumentRoot ROOT\n</VirtualHost>\n\
                  Listen 127.0.0.1:8082\n\
                  <VirtualHost 127.0.0.1:8081>\nServerName a.test\nDocumentRoot ROOT\n</VirtualHost>\n\
                  <VirtualHost *:8082>\nServerName b.test\nDocumentRoot ROOT\n</VirtualHost>\n";
    let caddy = "http://open.test {\nroot * ROOT\nfile_server\n}\n\
                 http://a.test {\nbind 127.0.0.1 ::1\nroot * ROOT\nfile_server\n}\n\
                 http://b.test {\nbind unix//run/b.sock\nroot * ROOT\nfile_server\n}\n";
    for (dialect, config) in DIALECTS.into_iter().zip([nginx, apache, caddy]) {
        let tree = site();
        let result = convert(&tree, dialect, config);
        for (host, status) in [("open.test", 200), ("a.test", 403), ("b.test", 403)] {
            let found = answer(&result, &format!("http://{host}/config.ini")).0;
            assert_eq!(found, Some(status), "{dialect} {host}: {}", shown(&result));
        }
    }
}

#[test]
fn a_user_of_one_site_is_none_of_another() {
    let hash = |name: &str| USERS.trim().replace("ann:", &format!("{name} "));
    let config = format!(
        "http://a.test {{\nroot * ROOT\nbasic_auth {{\n{}\n}}\nfile_server\n}}\n\
         http://b.test {{\nroot * ROOT\nbasic_auth {{\n{}\n}}\nfile_server\n}}\n",
        hash("ann"),
        hash("bob")
    );
    let tree = site();
    let result = convert(&tree, "caddy", &config);
    let written = |name: &str| std::fs::read_to_string(tree.join(name)).expect("a file of users");
    assert!(written("weir.htpasswd").starts_with("ann:") && !written("weir.htpasswd").contains("bob"));
    assert!(written("weir-2.htpasswd").starts_with("bob:"));
    let shown = shown(&result);
    let hosts: Vec<&str> = shown.split("[[host]]").collect();
    assert!(
        hosts[1].contains("\"weir.htpasswd\"") && hosts[2].contains("\"weir-2.htpasswd\""),
        "{shown}"
    );
}

#[test]
fn a_site_that_needs_client_certificates_is_closed_in_cleartext() {
    let keys = "ssl_certificate ROOT/cert.pem; ssl_certificate_key ROOT/key.pem;";
    let config = format!(
        "server {{ listen 80; server_name open.test; root ROOT; }}\n\
         server {{ listen 443 ssl; server_name a.test; root ROOT; {keys}\n\
         ssl_verify_client on; ssl_client_certificate ROOT/cert.pem; }}\n\
         server {{ listen 443 ssl; server_name b.test; root ROOT; {keys}\n\
         ssl_verify_client on; ssl_client_certificate ROOT/other.pem; }}\n"
    );
    let tree = site();
    for (name, content) in [
        ("cert.pem", include_str!("../../testdata/convert/cert.pem")),
        ("other.pem", include_str!("../../testdata/convert/cert.pem")),
        ("key.pem", include_str!("../../testdata/convert/key.pem")),
    ] {
        tree.write(&format!("a/{name}"), content);
    }
    let result = convert(&tree, "nginx", &config);
    for (url, status) in [
        ("http://open.test/config.ini", 200),
        ("http://a.test/config.ini", 403),
        ("https://a.test/config.ini", 200),
        ("https://b.test/config.ini", 403),
    ] {
        assert_eq!(answer(&result, url).0, Some(status), "{url}: {}", shown(&result));
    }
    assert!(shown(&result).contains("client-ca = "), "{}", shown(&result));
}
