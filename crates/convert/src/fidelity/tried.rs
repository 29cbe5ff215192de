//! Tests about the files that are tried for a path or are the index of a directory, about pages of errors, and about expressions for
//! paths.

use super::{check_fates, converted, rule, site};
use crate::Dialect;

#[test]
fn a_directory_is_tried_if_nginx_tries_it() {
    let of = |files: &str| {
        let text = format!("server {{ listen 80; root /srv;\nlocation / {{ try_files {files}; }}\n}}\n");
        converted(Dialect::Nginx, &text)
    };
    check_fates(
        &of("$uri $uri/ =404"),
        &[(2, "unneeded", "the index of the directory")],
    );
    check_fates(
        &of("$uri $uri/"),
        &[(2, "unneeded", "the index of the directory")],
    );
    check_fates(
        &of("$uri $uri.html =404"),
        &[(2, "changed", "no directory in nginx")],
    );
    let found = of("$uri.html $uri/");
    let tried = rule(site(&found, None), "try-files", "*");
    assert!(tried.contains(&"files = [\"$path.html\"]"), "{}", found.toml);
}

#[test]
fn a_directory_may_have_no_index() {
    for (options, index) in [
        ("index \"\"", "index = []"),
        ("index home.html", "index = [\"home.html\"]"),
    ] {
        let text = format!(
            "http://a.test {{\nroot * /srv\nroot /x/* /mnt\nfile_server {{\n{options}\n}}\nfile_server /x/* {{\nindex \"\"\n}}\n}}\n"
        );
        let found = converted(Dialect::Caddy, &text);
        let own = site(&found, None).lines().find(|line| line.starts_with("index"));
        assert_eq!(own, Some(index), "{}", found.toml);
        assert!(!found.toml.contains("[\"\"]"), "{}", found.toml);
    }
}

#[test]
fn a_page_of_errors_is_for_the_statuses_of_its_matcher() {
    for (lines, pages) in [
        (
            "@404 expression {http.error.status_code} == 404\nrewrite @404 /404/index.html",
            &["\"404\" = \"/404/index.html\""][..],
        ),
        (
            "@gone `{err.status_code} in [404, 410]`\nrewrite @gone /gone.html\nrewrite * /error.html",
            &[
                "\"404\" = \"/gone.html\"",
                "\"410\" = \"/gone.html\"",
                "\"4xx\" = \"/error.html\"",
                "\"5xx\" = \"/error.html\"",
            ],
        ),
        ("@x expression {path} == 404\nrewrite @x /x.html", &[]),
        ("rewrite * /{err.status_code}.html", &[]),
        ("rewrite * /error.php", &[]),
        ("rewrite @none /x.html", &[]),
    ] {
        let text = format!(
            "http://a.test {{\nroot * /srv\nfile_server\nhandle_errors {{\n{lines}\nfile_server\n}}\n}}\n"
        );
        let found = converted(Dialect::Caddy, &text);
        let of_table = found
            .toml
            .lines()
            .skip_while(|line| *line != "[error-pages]")
            .skip(1);
        let table: Vec<&str> = of_table.take_while(|line| !line.is_empty()).collect();
        assert_eq!(table, pages, "{}", found.toml);
        let word = if pages.is_empty() { "missing" } else { "carried" };
        check_fates(&found, &[(4, word, ""), (5, word, "")]);
    }
    // Of a block for some statuses, those of both.
    let text = "http://a.test {\nroot * /srv\nfile_server\nhandle_errors 5xx {\n@some `{err.status_code} in [404, 503]`\n\
                rewrite @some /busy.html\nfile_server\n}\n}\n";
    let found = converted(Dialect::Caddy, text);
    assert!(
        found.toml.contains("[error-pages]\n\"503\" = \"/busy.html\"\n") && !found.toml.contains("\"404\""),
        "{}",
        found.toml
    );
}

#[test]
fn an_option_of_a_file_server_is_lost_alone() {
    let text = "http://a.test {\nroot * /srv\nfile_server {\ndisable_canonical_uris\nindex home.html\n}\n}\n";
    let found = converted(Dialect::Caddy, text);
    assert!(found.toml.contains("index = [\"home.html\"]"), "{}", found.toml);
    check_fates(
        &found,
        &[
            (3, "carried", ""),
            (4, "missing", "with a slash at its end"),
            (5, "carried", ""),
        ],
    );
}

#[test]
fn a_front_controller_with_parameters_is_named() {
    let text = "server { listen 80; root /srv;\nlocation / { try_files $uri /index.php?q=$uri&$args; }\n\
                location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }\n}\n";
    let found = converted(Dialect::Nginx, text);
    assert!(!found.toml.contains("\nfront = "), "{}", found.toml);
    check_fates(&found, &[(2, "missing", "`REQUEST_URI`")]);
}

#[test]
fn an_expression_of_caddy_becomes_patterns() {
    let text = "http://a.test {\nroot * /srv\n@img path_regexp img \\.(png|gif)$\nheader @img X-A 1\n\
                @two {\npath_regexp ^/a/\npath_regexp b$\n}\nrespond @two 403\n\
                @digit path_regexp ^/\\d+$\nheader @digit X-B 1\nfile_server\n}\n";
    let found = converted(Dialect::Caddy, text);
    for path in ["*.png", "*.gif"] {
        assert!(
            !rule(site(&found, None), "header-rule", path).is_empty(),
            "{}",
            found.toml
        );
    }
    // Two expressions at once, and one without a pattern.
    check_fates(
        &found,
        &[(5, "missing", "`path_regexp`"), (10, "missing", "the class")],
    );
    assert!(
        rule(site(&found, None), "access", "/a/*").contains(&"deny = [\"all\"]"),
        "{}",
        found.toml
    );
}
