//! Tests about the files that are tried for a path or are the index of a directory, about pages of errors, and about expressions for
//! paths.

use super::decided::nginx;
use super::{check_fates, converted, rule, site, tables};
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
    // Of a block for some statuses, those of both. A line for all of them is the last, wherever it is.
    let text = "http://a.test {\nroot * /srv\nfile_server\nhandle_errors 404 5xx {\nrewrite * /error.html\n\
                @some `{err.status_code} in [403, 404, 503]`\nrewrite @some /busy.html\nfile_server\n}\n}\n";
    let found = converted(Dialect::Caddy, text);
    let pages =
        "[error-pages]\n\"404\" = \"/busy.html\"\n\"503\" = \"/busy.html\"\n\"5xx\" = \"/error.html\"\n";
    assert!(
        found.toml.contains(pages) && !found.toml.contains("\"403\""),
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

#[test]
fn files_that_one_location_tries_are_not_those_of_stronger_ones() {
    let found = nginx(
        "location / { rewrite ^/(.*)/$ /$1 permanent; try_files $uri $uri.html =404; }\n\
         location /dist/ { alias /dist/; autoindex on; }\nlocation ^~ /img/ { }\nlocation ~ \\.css$ { expires 1d; }\n\
         location = /x { expires 1d; }\nlocation /api/ { proxy_pass http://app:80; }\n\
         location /own/ { try_files $uri /own/index.html; }\nlocation /gone/ { return 410; }",
    );
    assert_eq!(
        tables(site(&found, None), "try-files"),
        [
            "path = \"/own/*\"; files = [\"$path\", \"/own/index.html\"]",
            "path = \"/x\"; files = [\"$path\"]",
            "path = \"/img/*\"; files = [\"$path\"]",
            "path = \"*.css\"; files = [\"$path\"]",
            "path = \"/dist/*\"; files = [\"$path\"]",
            "path = \"*\"; files = [\"$path\", \"$path/index.html\", \"$path.html\"]; trailing-slash = \"remove\"",
        ],
        "{}",
        found.toml
    );
    // What the server itself says holds in all locations.
    let found = nginx(
        "rewrite ^/(.*)/$ /$1 permanent;\nlocation / { try_files $uri $uri.html =404; }\n\
         location /dist/ { expires 1d; }",
    );
    assert_eq!(
        tables(site(&found, None), "try-files")[0],
        "path = \"/dist/*\"; files = [\"$path\", \"$path/index.html\"]; trailing-slash = \"remove\"",
        "{}",
        found.toml
    );
    let found = nginx("rewrite ^/(.*)/$ /$1 permanent;\nlocation /dist/ { expires 1d; }");
    assert_eq!(tables(site(&found, None), "try-files").len(), 1, "{}", found.toml);
}

#[test]
fn a_rewrite_in_a_location_is_for_its_paths_alone() {
    let found = nginx("location /docs/ { rewrite ^/(.*)/$ /$1 permanent; }");
    assert_eq!(
        tables(site(&found, None), "try-files"),
        ["path = \"/docs/*\"; files = [\"$path\", \"$path/index.html\"]; trailing-slash = \"remove\""],
        "{}",
        found.toml
    );
    let found = nginx(
        "location /a/ { rewrite ^/(.*)\\.php$ /$1 permanent;\nrewrite ^/b$ /c permanent;\n\
         rewrite ^/a/x$ /y permanent; }",
    );
    assert_eq!(
        tables(site(&found, None), "redirect"),
        [
            "from = \"/a/*.php\"; to = \"/a/*\"; status = 301",
            "from = \"/a/x\"; to = \"/y\"; status = 301",
        ],
        "{}",
        found.toml
    );
    check_fates(&found, &[(3, "unneeded", "no path of the location")]);
}

#[test]
fn a_rewrite_of_one_path_is_a_redirect_of_this_path() {
    let found =
        nginx("location = / { rewrite ^ /en permanent; }\nlocation = /a { rewrite ^/b /c redirect; }");
    assert_eq!(
        tables(site(&found, None), "redirect"),
        ["from = \"/\"; to = \"/en\"; status = 301"],
        "{}",
        found.toml
    );
    check_fates(
        &found,
        &[(2, "carried", ""), (3, "unneeded", "no path of the location")],
    );
}

#[test]
fn a_rewrite_of_one_path_within_a_server_is_a_file() {
    let of = |location: &str| {
        nginx(&format!(
            "rewrite ^/old\\.html$ /new.html last;\nlocation / {{ {location} }}"
        ))
    };
    let found = of("try_files $uri $uri.html =404;");
    assert_eq!(
        tables(site(&found, None), "try-files")[0],
        "path = \"/old.html\"; files = [\"/new.html\"]",
        "{}",
        found.toml
    );
    check_fates(&found, &[(2, "changed", "redirects of `/old.html` hold, too")]);
    // Weir passes requests on before it looks for files.
    let found = of("proxy_pass http://app:80;");
    assert!(!found.toml.contains("/new.html\""), "{}", found.toml);
    check_fates(&found, &[(2, "missing", "does not change paths inside")]);
}
