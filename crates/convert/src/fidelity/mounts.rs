//! Tests about folders of their own for some paths: `alias` and `root` of nginx, `Alias` of Apache, `root` of Caddy.

use super::{check_fates, converted, rule, site};
use crate::Dialect;

/// The lines of the mount for a path, without the path.
fn mount<'t>(site: &'t str, path: &str) -> Vec<&'t str> {
    let lines = rule(site, "mount", path).into_iter();
    lines.skip(1).take_while(|line| !line.is_empty()).collect()
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
        assert_eq!(mount(top, path), lines, "{path}: {}", found.toml);
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
        assert_eq!(mount(top, path), lines, "{path}: {}", found.toml);
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
