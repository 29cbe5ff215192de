//! Valid and invalid configuration files, as data.

use super::*;

#[test]
fn the_number_of_hosts_is_bounded() {
    let of = |count: usize| {
        let hosts: Vec<String> = (0..count)
            .map(|n| format!("[[host]]\nnames = ['h{n}.test', '*.h{n}.test']\n"))
            .collect();
        Config::from_toml(&hosts.concat(), "w.toml")
    };
    assert_eq!(of(1_000).unwrap().sites().unwrap().len(), 1_001);
    let why = of(1_001).unwrap_err().to_string();
    assert!(
        why.contains("1001 hosts are too many, and the limit is 1000"),
        "{why}"
    );
}

#[test]
fn the_default_is_valid_and_equals_an_empty_file() {
    assert_eq!(Config::from_toml("", "weir.toml").unwrap(), Config::default());
    assert_eq!(Config::default().limits(), Limits::default());
}

#[test]
fn rules_without_a_path_are_for_all_paths() {
    let text = "[[header-rule]]\nheader = ['X-A: 1']\n[[access]]\nallow = ['10.0.0.0/8']\n\
                [[cors]]\norigins = ['https://a.test']\n[[limit]]\nrate = '5/s'\n";
    let config = Config::from_toml(text, "w.toml").expect("rules");
    for path in [
        &config.header_rule[0].path,
        &config.access[0].path,
        &config.cors[0].path,
        &config.limit[0].path,
    ] {
        assert_eq!(path.to_string(), "/*");
        assert!(path.matches(b"/") && path.matches(b"/a/b"));
    }
}

#[test]
fn limits_and_rules_for_other_origins_have_conditions_in_every_site() {
    let rules = |table: &str, conditions: &str| {
        format!(
            "[[{table}limit]]\nrate = 1\nif = {conditions}\n[[{table}cors]]\norigins = ['*']\nif = {conditions}\n"
        )
    };
    let host = "[[host]]\nnames = ['a.test']\n";
    let text = rules("", "'cookie a'") + host + &rules("host.", "['query b', 'not scheme http']");
    let config = Config::from_toml(&text, "w.toml").expect("rules");
    let shown: Vec<String> = config
        .sites()
        .expect("sites")
        .iter()
        .flat_map(|site| [&site.limit[0].conditions, &site.cors[0].conditions].map(ToString::to_string))
        .collect();
    let of_host = "query b, not scheme http";
    assert_eq!(shown, ["cookie a", "cookie a", of_host, of_host]);
    for (head, key, rule) in [
        ("[[limit]]", "limit", "rate = 1"),
        ("[[cors]]", "cors", "origins = ['*']"),
        (&*format!("{host}[[host.limit]]"), "limit", "rate = 1"),
        (&*format!("{host}[[host.cors]]"), "cors", "origins = ['*']"),
    ] {
        let text = format!("{head}\n{rule}\nif = ['scheme http', 'scheme https']\n");
        let error = Config::from_toml(&text, "w.toml").expect_err("no request meets both");
        let why = error.to_string();
        assert!(why.contains(key) && why.contains("never hold together"), "{why}");
    }
}

#[test]
fn every_kind_of_value_is_read() {
    let text = r#"
        root = "/srv/www"
        listen = ["0.0.0.0:80", "[::1]:8080", ":9000"]
        workers = 3
        concurrency = "pool"
        io = "blocking"
        cache-policy = "lru"
        cache-size = "1.5MiB"
        max-body-size = 4096
        idle-timeout = "1m30s"
        header-timeout = 5
        spa-fallback = "/index.html"
        access-log = "-"
        log-format = "json"
        header = ["X-Frame-Options: DENY"]
        max-requests-per-connection = 7
        [error-pages]
        404 = "/404.html"
        5xx = "/50x.html"
        [types]
        html = "text/html; charset=iso-8859-1"
    "#;
    let config = Config::from_toml(text, "weir.toml").unwrap();
    assert_eq!(config.listen.0.len(), 3);
    assert_eq!(config.workers.to_string(), "3");
    assert_eq!(
        (config.concurrency, config.io),
        (Concurrency::Pool, IoKind::Blocking)
    );
    assert_eq!(config.cache_size, Bytes(1_572_864));
    assert_eq!(config.limits().body_size, Bytes::kib(4));
    assert_eq!(config.limits().idle_timeout, Duration::from_secs(90));
    assert_eq!(config.limits().requests_per_connection, 7);
    assert_eq!(config.error_pages.page(404), Some("/404.html"));
    assert_eq!(config.error_pages.page(503), Some("/50x.html"));
    assert_eq!(config.error_pages.page(403), None);
    assert_eq!(config.header[0].to_string(), "X-Frame-Options: DENY");
    assert_eq!(config.types.get("HTML"), Some("text/html; charset=iso-8859-1"));
}

#[test]
fn errors_name_file_line_key_and_the_nearest_valid() {
    for (text, want) in [
        (
            "cache-sise = 5",
            "w.toml:1: unknown key `cache-sise`; did you mean `cache-size`?",
        ),
        (
            "\nlog-format = \"combind\"",
            "w.toml:2: `log-format`: unknown value `combind`; valid are `common`, `combined`, `json`; did you mean `combined`?",
        ),
        (
            "concurrency = \"zzz\"",
            "w.toml:1: `concurrency`: unknown value `zzz`; valid are `loops`, `loop`, `process-loops`, `pool`, `thread-per-connection`, `thread-per-request`, `processes`",
        ),
        (
            "\n\ncache-size = \"12Q\"",
            "w.toml:3: `cache-size`: `12Q` is not a size; write bytes or a unit, as in 4096, 64K, 1.5MiB, 10MB",
        ),
        (
            "idle-timeout = \"5 parsecs\"",
            "w.toml:1: `idle-timeout`: `5 parsecs` is not a time span; write a number and a unit, as in 500ms, 15s, 2m, 1h",
        ),
        (
            "[types]\ncss = 'text/css'\nhtml = 'html'",
            "w.toml:3: `html` is not a media type; write TYPE/SUBTYPE and parameters, as in text/html; charset=iso-8859-1",
        ),
        (
            "[types]\ncss = 'text/css'\n'.html' = 'text/html'",
            "w.toml:3: `.html` is not an extension; write the part of a name after its last dot, as in html, or \"\" for names without one",
        ),
        (
            "types = 'text/css'",
            "w.toml:1: `types`: invalid type: string \"text/css\", expected a table of EXTENSION = \"TYPE/SUBTYPE\"",
        ),
        (
            "workers = 0",
            "w.toml:1: `workers`: `0` is not a worker count; write `auto` or a number from 1 to 1024",
        ),
        (
            "max-connections = 5\nmax-fields = 4",
            "w.toml:2: `max-fields`: 4 is too small; it must be at least 8 (requests of browsers need as many)",
        ),
        (
            "[error-pages]\n5xx = \"/50x.html\"\n404 = \"404.html\"",
            "w.toml:3: `404`: `404.html` is not a path of the site; write it percent-encoded from the root, as in /404.html",
        ),
        (
            "header = [\"Content-Length: 5\"]",
            "w.toml:1: `header`: `Content-Length` is computed by the server for each response and cannot be set",
        ),
        (
            "header = [\"X: a\\r\\nSet-Cookie: b\"]",
            "w.toml:1: `header`: the value of `X` may contain only visible ASCII and spaces",
        ),
        (
            "spa-fallback = \"//evil\"",
            "w.toml:1: `spa-fallback`: `//evil` is not a path of the site; write it percent-encoded from the root, as in /404.html",
        ),
        (
            "[[proxy]]\npath = \"/a/*\"\nweights = [1]\nupstreams = [\"http://127.0.0.1:1\", \"unix:/a\"]",
            "w.toml:1: `proxy`: `weights` has 1 numbers for 2 upstreams; write one for each",
        ),
        (
            "listing = true\nspa-fallback = \"/%zz\"",
            "w.toml:2: `spa-fallback`: `/%zz` is not a path of the site; write it percent-encoded from the root, as in /404.html",
        ),
        (
            "[error-pages]\n404 = '/a%2fb'",
            "w.toml:2: `404`: `/a%2fb` is not a path of the site; write it percent-encoded from the root, as in /404.html",
        ),
        (
            "index = ['index.html', '..']",
            "w.toml:1: `index`: an index is a file name without `/`, as in \"index.html\"",
        ),
        (
            "[[host]]\nnames = [\"a.test\"]\nindx = []",
            "w.toml:3: unknown key `indx`; did you mean `index`?",
        ),
        (
            "[[host]]\nnames = [\"http://a.test\"]",
            "w.toml:2: `names`: `http://a.test` is not a host name; write it without scheme and port, as in example.org or *.example.org",
        ),
        (
            "[[host]]\nnames = [\"a.test\"]\n[[host]]\nnames = [\"A.test.\"]",
            "w.toml:4: `names`: `a.test` is listed twice among the names of hosts; list it once",
        ),
        (
            "[[host]]\nnames = ['*.b.test', 'b.test']\n[[host]]\nnames = [\n  'c.test',\n  '*.B.test',\n]",
            "w.toml:6: `names`: `*.b.test` is listed twice among the names of hosts; list it once",
        ),
        (
            "[[host]]\nnames = [\"a.test\", \"A.test\"]",
            "w.toml:2: `names`: `a.test` is listed twice among the names of hosts; list it once",
        ),
        (
            "listing = true\nearly-close = '1s'",
            "w.toml:2: unknown key `early-close` here; it belongs in the table `[behavior]`",
        ),
        (
            "[error-pages]\n404 = '/404.html'\n[behavior]\ncopies = true\nworkers = 3",
            "w.toml:5: unknown key `workers` here; it belongs at the top level, above all tables",
        ),
        (
            "[[access]]\npath = '/a/*'\nhtpasswd = 'u'\nuser = 'bob'",
            "w.toml:4: unknown key `user`; did you mean `users`?",
        ),
        (
            "tilde-min-uid = 500",
            "w.toml:1: unknown key `tilde-min-uid` here; write it as `min-uid` in the table `[tilde]`",
        ),
        (
            "[[redirect]]\nfrom = \"/a\"\nto = \"/b\"\n[[redirect]]\nfrom = \"/c\"\nto = \"/x\\r\\nSet-Cookie: a\"",
            "w.toml:6: `to`: `/x\\r\\nSet-Cookie: a` is not a redirect target; write a path or an http(s) address, with at most one `*`, and only if `from` has one, as in /new/* or https://example.org/*",
        ),
        (
            "cache-size = \"100KiB\"\n[[host]]\nnames = [\"a.test\"]",
            "w.toml:1: `cache-size`: 100 KiB is too little for 2 sites: 50 KiB would be left for each that sets no size of its own, and each needs at least 64 KiB",
        ),
        (
            "[[redirect]]\nfrom = \"/a\"\nto = \"/b/*\"",
            "w.toml:3: `to`: `/b/*` is not a redirect target; write a path or an http(s) address, with at most one `*`, and only if `from` has one, as in /new/* or https://example.org/*",
        ),
        (
            "[[redirect]]\nfrom = \"/a\"\nto = \"t\"",
            "w.toml:3: `to`: `t` is not a redirect target; write a path or an http(s) address, with at most one `*`, and only if `from` has one, as in /new/* or https://example.org/*",
        ),
        (
            "[[redirect]]\nfrom = \"/a\"\nto = \"/b\"\nstatus = 200",
            "w.toml:4: `status`: `200` is not a redirect status; write 301, 302, 303, 307 or 308",
        ),
        (
            "[[redirect]]\nfrom = '/x'\nto = '/y'\n\n[[redirect]]\nfrom = '/a'\nto = '/b'\n[[redirect]]\nfrom = '/b'\nto = '/a'",
            "w.toml:6: `redirect`: `/a` is redirected more than 20 times: /a to /b to /a to /b ...; let the redirects end at a path that no rule matches",
        ),
        (
            "listing = true\n[[host]]\nnames = ['a.test']\nredirect = [{ from = '/a', to = '/a' }]",
            "w.toml:4: `redirect`: `/a` is redirected more than 20 times: /a to /a to /a to /a ...; let the redirects end at a path that no rule matches",
        ),
        (
            "[[redirect]]\nfrom = '/old*'\nto = 'https://a.test*'",
            "w.toml:3: `to`: `https://a.test*` would let clients choose the host; write a `/` after the host, as in https://example.org/*",
        ),
        (
            "[[header-rule]]\npath = \"*.css\"\nheader = [\"Date: now\"]",
            "w.toml:3: `header`: `Date` is computed by the server for each response and cannot be set",
        ),
        (
            "listen = ['127.0.0.1:80', ':81', '127.0.0.1:80']",
            "w.toml:1: `listen`: 127.0.0.1:80 is listed twice; list it once",
        ),
        (
            "listen = ['0.0.0.0:80', '127.0.0.1:80']",
            "w.toml:1: `listen`: 0.0.0.0:80 and 127.0.0.1:80 have the same port, and one address includes the other; list one of them",
        ),
        (
            "listen = []",
            "w.toml:1: `listen`: no address; name at least one, as in \"127.0.0.1:8080\"",
        ),
    ] {
        let got = Config::from_toml(text, "w.toml").unwrap_err().to_string();
        assert_eq!(got, want, "for {text:?}");
    }
}

/// A key that is missing in one table may exist in the next.
#[test]
fn what_is_missing_is_missing_where_its_table_begins() {
    let text = "listing = true\n[[redirect]]\nto = '/b'\n\n[[redirect]]\nfrom = '/c'\nto = '/d'";
    let error = Config::from_toml(text, "w.toml").unwrap_err();
    assert_eq!(error.line, Some(2), "{error}");
    assert!(error.message.contains("missing field `from`"), "{error}");
}

#[test]
fn the_longest_silence_is_that_of_the_slowest_upstream() {
    assert_eq!(Config::default().longest_silence(), Duration::ZERO);
    assert_eq!(Config::default().silence_max(), Duration::from_secs(65));
    let text = "[[proxy]]\npath = '/a/*'\nupstreams = ['http://127.0.0.1:1']\n\
                [[host]]\nnames = ['b.test']\n\
                [[host.proxy]]\npath = '/b/*'\nupstreams = ['http://127.0.0.1:1']\nfirst-byte-timeout = '5m'\n";
    let config = Config::from_toml(text, "w.toml").expect("rules");
    assert_eq!(config.longest_silence(), Duration::from_secs(305));
    assert_eq!(config.silence_max(), Duration::from_secs(310));
}

#[test]
fn what_needs_a_restart_is_named() {
    let running = Config::default();
    let next = Config {
        workers: "2".parse().unwrap(),
        listing: true,
        ..Config::default()
    };
    assert_eq!(next.needs_restart(&running), ["workers"]);
    assert!(running.needs_restart(&running).is_empty());
}

#[test]
fn flags_read_the_same_values() {
    assert_eq!("s3-fifo".parse(), Ok(Policy::S3Fifo));
    assert_eq!(Policy::S3Fifo.to_string(), "s3-fifo");
    assert!(
        "no-such-policy"
            .parse::<Policy>()
            .unwrap_err()
            .contains("`s3-fifo`")
    );
    let pages: ErrorPages = "4xx=/e.html".parse().unwrap();
    assert_eq!(pages.page(451), Some("/e.html"));
    assert!("200=/e.html".parse::<ErrorPages>().is_err());
}

#[test]
fn a_user_is_a_name_and_perhaps_a_group() {
    let user = |text: &str| Config::from_toml(text, "weir.toml").map(|config| config.user);
    let named = |name: &str, group: Option<&str>| {
        Ok(Some(User {
            name: name.to_owned(),
            group: group.map(str::to_owned),
        }))
    };
    assert_eq!(user("user = 'www'"), named("www", None));
    assert_eq!(user("user = 'www:web'"), named("www", Some("web")));
    assert_eq!(user("user = 33"), named("33", None));
    for odd in ["user = ''", "user = ':web'", "user = 'www:'", "user = 'a:b:c'"] {
        let error = user(odd).expect_err("no user").to_string();
        assert!(error.contains("NAME:GROUP"), "{odd}: {error}");
    }
}

#[test]
fn a_value_of_another_type_names_the_nearest_that_is_valid() {
    for (text, want) in [
        (
            "live = true",
            "w.toml:1: `live`: unknown value `true`; valid are `nobody`, `local`, `all`; did you mean `local`?",
        ),
        (
            "listing = true\nlive = false",
            "w.toml:2: `live`: unknown value `false`; valid are `nobody`, `local`, `all`; did you mean `nobody`?",
        ),
        (
            "landlock = false",
            "w.toml:1: `landlock`: unknown value `false`; valid are `auto`, `root`, `off`; did you mean `off`?",
        ),
        (
            "cache-policy = 3",
            "w.toml:1: `cache-policy`: unknown value `3`; valid are `lru`, `lfu`, `s3-fifo`, `hinted`, `structured`",
        ),
    ] {
        let error = Config::from_toml(text, "w.toml").expect_err(text);
        assert_eq!(error.to_string(), want, "{text}");
    }
    for (text, parts) in [
        (
            "workers = true",
            &["w.toml:1: `workers`", "did you mean `auto`?"][..],
        ),
        (
            "max-turn = false",
            &["w.toml:1: `max-turn`", "did you mean `off`?"],
        ),
        (
            "[behavior]\nearly-close = false",
            &["w.toml:2: `early-close`", "did you mean `off`?"],
        ),
        (
            "tilde = 3",
            &["w.toml:1: `tilde`", "true, false or a table", "directory ="],
        ),
        (
            "spa-fallback = 3",
            &["w.toml:1: `spa-fallback`", "\"/index.html\"", "false"],
        ),
        ("access-log = true", &["w.toml:1: `access-log`"]),
    ] {
        let error = Config::from_toml(text, "w.toml").expect_err(text).to_string();
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("struct"), "{error}");
    }
    let error = Config::from_toml("access-log = true", "w.toml").expect_err("a text");
    assert_eq!(error.nearest, None, "any text is a path: {error}");
}

#[test]
fn a_host_can_switch_off_what_the_top_level_has() {
    let of_host = |text: &str| {
        let text = format!(
            "root = '/srv'\nspa-fallback = '/app.html'\ntilde = true\n[[host]]\nnames = ['a.test']\n{text}"
        );
        let config = Config::from_toml(&text, "w.toml").expect("a valid file");
        let mut sites = config.sites().expect("two sites");
        let host = sites.pop().expect("the host");
        (host.spa_fallback, host.tilde)
    };
    let page = |path: &str| Some(path.to_owned());
    assert_eq!(of_host(""), (page("/app.html"), Some(Tilde::default())));
    assert_eq!(of_host("spa-fallback = false\ntilde = false"), (None, None));
    let own = of_host("spa-fallback = '/own.html'\n[host.tilde]\nmin-uid = 7");
    let min_uid = own.1.map(|tilde| tilde.min_uid);
    assert_eq!((own.0, min_uid), (page("/own.html"), Some(7)));
    assert_eq!(of_host("spa-fallback = true").0, page("/index.html"));
    // An invalid path is an error of the host that sets it.
    let wrong = "root = '/srv'\n[[host]]\nnames = ['a.test']\nspa-fallback = 'app.html'";
    let error = Config::from_toml(wrong, "w.toml").expect_err("no path");
    assert!(error.to_string().contains("`app.html` is not a path"), "{error}");
}

#[test]
fn what_waits_for_the_next_start_is_compared_with_what_is_in_force() {
    let read = |text: &str| Config::from_toml(text, "w.toml").expect("a valid file");
    let running = read("listen = '127.0.0.1:1'\nadapt = 'off'\nidle-timeout = '1s'");
    let mut next = read("listen = '127.0.0.1:2'\nadapt = 'auto'\nidle-timeout = '2s'");
    assert_eq!(next.needs_restart(&running), ["listen", "adapt"]);
    next.keep_until_restart(&running);
    assert_eq!(next.idle_timeout, Duration::from_secs(2), "that is in force");
    let back = read("listen = '127.0.0.1:1'\nadapt = 'off'\nidle-timeout = '2s'");
    assert!(back.needs_restart(&next).is_empty());
    assert_eq!(back, next);
}

/// If an error gives an example, its own key accepts the example.
#[test]
fn examples_in_errors_are_valid() {
    let unknown = |table: &str| {
        let error = toml::from_str::<Config>(&format!("{table}no-such-key = 1")).expect_err("an unknown key");
        let keys = error.message().split('`').skip(3).step_by(2);
        keys.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut examples = 0;
    for (table, keys) in [("", unknown("")), ("[behavior]\n", unknown("[behavior]\n"))] {
        for key in keys {
            // Not a size, a time, a path or a name.
            let wrong = Config::from_toml(&format!("{table}{key} = \"?/ ?\""), "w.toml");
            let Err(wrong) = wrong else { continue };
            let Some((_, named)) = wrong.message.split_once("as in ") else {
                continue;
            };
            let named = named.split(';').next().unwrap_or_default();
            for example in named.split(", ").flat_map(|part| part.split(" or ")) {
                let example = example.trim_matches(['"', '`', ' ']);
                let quote = if example.starts_with('{') { "" } else { "\"" };
                let text = format!("{table}{key} = {quote}{example}{quote}");
                // The example may be too large for this key beside the defaults of others; the error is then about
                // that, without an example.
                if let Err(error) = Config::from_toml(&text, "w.toml") {
                    assert!(
                        !error.message.contains("as in "),
                        "{text}: {error}; after: {wrong}"
                    );
                }
                examples += 1;
            }
        }
    }
    assert!(examples > 20, "{examples}");
    let error = parse_line_rate("fast").expect_err("no rate");
    assert!(error.contains("as in 100Mbit"), "{error}");
    let slow = Config::from_toml("line-rate = '28.8k'", "w.toml").expect_err("too slow");
    assert!(slow.to_string().contains("as in 100Mbit"), "{slow}");
}

#[test]
fn early_close_has_a_word_for_never() {
    let read = |text: &str| Config::from_toml(&format!("[behavior]\nearly-close = {text}"), "w.toml");
    assert_eq!(read("'off'").expect("a word").limits().early_close, None);
    let second = read("'1s'").expect("a time").limits().early_close;
    assert_eq!(second, Some(Duration::from_secs(1)));
    let error = read("'never'").expect_err("no word of ours").to_string();
    assert!(error.contains("or off"), "{error}");
}

#[test]
fn a_least_rate_and_a_line_rate_exclude_each_other() {
    let both = "line-rate = '10Mbit'\nmin-send-rate = '1KiB'";
    let error = Config::from_toml(both, "w.toml").expect_err("both").to_string();
    assert!(error.starts_with("w.toml:2: `min-send-rate`: "), "{error}");
}

/// A reload that changes such a rule must make the listings anew.
#[test]
fn rules_that_keep_readmes_out_belong_to_a_site_with_listings() {
    let of = |text: &str| Config::from_toml(text, "w.toml").unwrap();
    for rule in [
        "[[access]]\npath = '*.md'\ndeny = 'all'\n",
        "[[redirect]]\nfrom = '/README.md'\nto = '/a'\n",
        "[[proxy]]\npath = '/README.md'\nupstreams = ['http://127.0.0.1:1']\n",
    ] {
        for (keys, is_same) in [
            ("listing = true\n", false),
            ("listing = true\nlisting-readme = false\n", true),
            ("", true),
        ] {
            let (without, with) = (of(keys), of(&format!("{keys}{rule}")));
            assert_eq!(without.same_site(&with), is_same, "{keys}{rule}");
        }
    }
    let themed = of("listing = true\nlisting-footer = '<p>'\n");
    assert!(!themed.same_site(&of("listing = true\n")));
}

/// A cache that was filled before may hold what is not sent any more.
#[test]
fn exceptions_from_compression_belong_to_a_site() {
    let of = |text: &str| Config::from_toml(text, "w.toml").unwrap();
    let host = "[[host]]\nnames = ['a']\n";
    let config = of(&format!("compress-except = ['/a/*', '*.js']\n{host}"));
    let sites = config.sites().unwrap();
    assert_eq!(sites[0].compress_except.len(), 2);
    assert_eq!(sites[0].compress_except, sites[1].compress_except);
    let config = of(&format!(
        "compress-except = '/a/*'\n{host}compress-except = '*.js'\n"
    ));
    let sites = config.sites().unwrap();
    assert_eq!(sites[1].compress_except[0].to_string(), "*.js");
    assert!(!of("").same_site(&of("compress-except = '*.js'")));
    assert!(of("compress-except = '*.js'").same_site(&of("compress-except = ['*.js']")));
    let many: Vec<String> = (0..1_001).map(|n| format!("'/{n}'")).collect();
    let text = |count: usize| format!("compress-except = [{}]", many[..count].join(","));
    assert!(Config::from_toml(&text(1_000), "w.toml").is_ok());
    let why = Config::from_toml(&text(1_001), "w.toml").unwrap_err();
    assert!(why.to_string().contains("more than 1000 patterns"), "{why}");
}

/// A cache that was filled before such a rule may hold the source of scripts.
#[test]
fn rules_for_scripts_belong_to_a_site() {
    let of = |text: &str| Config::from_toml(text, "w.toml").unwrap();
    let rule = "[[proxy]]\npath = '/*'\nupstreams = ['fastcgi://127.0.0.1:9000']\n";
    let other = format!("{rule}[proxy.fastcgi]\nextension = '.php8'\nindex = 'index.php8'\n");
    assert!(!of("").same_site(&of(rule)) && !of(rule).same_site(&of(&other)));
    assert!(of(rule).same_site(&of(&format!("{rule}keepalive = 1\n"))));
}

#[test]
fn scripts_are_no_files_to_try() {
    let rule = "[[proxy]]\npath = '/*'\nupstreams = ['fastcgi://127.0.0.1:9000']\n";
    let of = |path: &str, file: &str, rule: &str| {
        let tries = format!("[[try-files]]\npath = '{path}'\nfiles = ['$path', '{file}']\n");
        Config::from_toml(&format!("{tries}{rule}"), "w.toml").map_err(|error| error.to_string())
    };
    for (path, file, said) in [
        (
            "/remote/*",
            "/remote.php",
            "set `front = \"/remote.php\"` in `[proxy.fastcgi]` of a `[[proxy]]` rule for `/remote/*`",
        ),
        ("*", "$path.php", "under its own path"),
        ("/old/*", "/new/*.php", "under its own path"),
    ] {
        let why = of(path, file, rule).unwrap_err();
        assert!(
            why.contains(&format!("`{file}`, which is a script")) && why.contains(said),
            "{why}"
        );
        assert!(of(path, file, "").is_ok(), "{file}");
    }
    assert!(of("*", "/index.html", rule).is_ok());
    // Of a host with its own application.
    let host = rule.replace("proxy", "host.proxy");
    let why = of("*", "/x.php", &format!("[[host]]\nnames = ['a']\n{host}")).unwrap_err();
    assert!(why.contains("`/x.php`, which is a script"), "{why}");
    // The remedy.
    let remedy = rule.replace("/*", "/remote/*") + "[proxy.fastcgi]\nfront = '/remote.php'\n";
    assert!(of("*", "/index.html", &format!("{remedy}{rule}")).is_ok());
}

#[test]
fn the_first_upstream_waits_for_a_start_where_workers_keep_no_connections() {
    let uploads = "[[uploads]]\npath = '/dav/'\nopen = true\n";
    let read = |concurrency: &str, rules: &str| {
        let text = format!("root = '.'\nconcurrency = '{concurrency}'\n{uploads}{rules}");
        Config::from_toml(&text, "w.toml").expect("a valid file")
    };
    let proxy = "[[proxy]]\npath = '/api/*'\nupstreams = ['http://127.0.0.1:1']\n";
    for (concurrency, waits) in [("loops", false), ("pool", true)] {
        let running = read(concurrency, "");
        let mut next = read(concurrency, proxy);
        assert_eq!(next.needs_restart(&running) == ["proxy"], waits, "{concurrency}");
        next.keep_until_restart(&running);
        assert_eq!(
            (next.proxies().count(), next.uploads.len()),
            (usize::from(!waits), 1)
        );
    }
}
