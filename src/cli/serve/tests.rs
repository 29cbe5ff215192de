//! Flags of `weir serve`, alone and over a file, a preset and a profile.

use super::*;
use crate::cli::{Cli, Command};
use clap::{CommandFactory, Parser};
use server::adapt::Knob;

fn config(arguments: &[&str]) -> Result<Config, String> {
    let cli = Cli::try_parse_from(["weir", "serve"].iter().chain(arguments)).map_err(|e| e.to_string())?;
    let Command::Serve(flags) = cli.command else {
        return Err("another command".to_owned());
    };
    flags.configuration().map_err(|failure| failure.to_string())
}

#[test]
fn no_flags_make_the_default() {
    assert_eq!(config(&[]), Ok(Config::default()));
}

#[test]
fn flags_take_the_values_the_file_takes() {
    let made = config(&[
        "site",
        "--listen",
        ":80",
        "--listen",
        "[::1]:81",
        "--workers",
        "3",
        "--concurrency",
        "loops",
        "--io",
        "epoll",
        "--cache-policy",
        "lru",
        "--cache-size",
        "1.5MiB",
        "--listing",
        "--symlinks=false",
        "--spa",
        "--error-page",
        "404=/404.html",
        "--error-page",
        "5xx=/sorry.html",
        "--access-log",
        "-",
        "--log-format",
        "json",
        "--user",
        "www:web",
        "--adapt",
        "dry-run",
        "--record",
        "sensors.jsonl",
        "--max-turn",
        "20ms",
        "--memory",
        "200MiB",
        "--send-buffer",
        "64K",
        "--pacing",
        "--line-rate",
        "20Mbit",
        "--line-order",
        "shared",
        "--landlock",
        "root",
        "--http09",
        "--seccomp",
        "off",
        "--idle-timeout",
        "1m30s",
        "--security-headers",
        "site",
        "--header",
        "X-Frame-Options: DENY",
        "--compress-except",
        "/api/*,*.csv",
    ])
    .expect("valid flags");
    let file = Config::from_toml(
        "root = 'site'\nlisten = [':80', '[::1]:81']\nworkers = 3\nconcurrency = 'loops'\nio = 'epoll'\n\
         cache-policy = 'lru'\ncache-size = '1.5MiB'\nlisting = true\nsymlinks = false\n\
         spa-fallback = '/index.html'\naccess-log = '-'\nlog-format = 'json'\nuser = 'www:web'\n\
         adapt = 'dry-run'\nmax-turn = '20ms'\nmemory = '200MiB'\nsend-buffer = '64K'\npacing = true\nline-rate = '20M'\nline-order = 'shared'\nrecord = 'sensors.jsonl'\nlandlock = 'root'\nseccomp = 'off'\nhttp09 = true\nidle-timeout = '1m30s'\n\
         security-headers = 'site'\nheader = ['X-Frame-Options: DENY']\ncompress-except = ['/api/*', '*.csv']\n[error-pages]\n404 = '/404.html'\n5xx = '/sorry.html'\n",
        "weir.toml",
    )
    .expect("a valid file");
    assert_eq!(made, file);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
fn a_flag_switches_off_the_page_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, "spa-fallback = '/app.html'\n").expect("a file");
    let made = |flag: &str| config(&["--config", &file.display().to_string(), flag]).expect("valid");
    assert_eq!(made("--spa=false").spa_fallback, None);
    assert_eq!(made("--spa=true").spa_fallback.as_deref(), Some("/index.html"));
    assert_eq!(made("--spa").spa_fallback.as_deref(), Some("/index.html"));
    assert_eq!(made("--listing").spa_fallback.as_deref(), Some("/app.html"));
}

#[test]
fn any_flag_of_pages_makes_their_table() {
    for (arguments, table) in [
        (&["--tilde"][..], "[tilde]"),
        (&["--tilde=web/www"], "[tilde]\ndirectory = 'web/www'"),
        (
            &["--tilde", "--tilde-enabled", "a,b", "--tilde-disabled", "c"],
            "[tilde]\nenabled = ['a', 'b']\ndisabled = ['c']",
        ),
        (&["--tilde-min-uid", "500"], "[tilde]\nmin-uid = 500"),
    ] {
        let file = Config::from_toml(&format!("root = 'site'\n{table}"), "w.toml").expect("a valid file");
        assert_eq!(
            config(&[&["site"], arguments].concat()),
            Ok(file),
            "{arguments:?}"
        );
    }
}

#[test]
fn errors_say_what_would_be_right() {
    for (arguments, fragment) in [
        (&["--tilde=../all"][..], "not a directory in a home"),
        (&["--listen", "nonsense"], "write ADDR:PORT"),
        (&["--workers", "0"], "a number from 1 to 1024"),
        (&["--cache-policy", "no-such-policy"], "s3-fifo"),
        (&["--cache-size", "12Q"], "as in 4096, 64K"),
        (&["--memory", "1MiB"], "at least 16 MiB"),
        (&["--memory", "much"], "or auto, off"),
        (&["--idle-timeout", "5 parsecs"], "as in 500ms"),
        (&["--error-page", "200=/x"], "400 to 599"),
        (&["--error-page", "404"], "STATUS=PATH"),
        (&["--max-fields", "2"], "at least 8"),
        (&["--config", "/nonexistent/weir.toml"], "check the path"),
        (&["--cache-sise", "5"], "--cache-size"),
        (&["--line-rate", "fast"], "as in 100Mbit"),
        (&["--line-rate", "28.8k"], "as in 100Mbit"),
        (&["--early-close", "never"], "or off"),
        (&["--disk-timeout", "1ms"], "disk-timeout"),
        (&["--max-disk-queue", "0"], "at least 1"),
    ] {
        let error = config(arguments).expect_err("an invalid flag");
        assert!(error.contains(fragment), "{arguments:?}: {error}");
    }
}

#[test]
fn a_preset_makes_way_for_what_is_said_or_is_named() {
    let made = |arguments: &[&str]| config(arguments).expect("what is said beats the preset");
    let pool = made(&["--preset", "zeus", "--concurrency", "pool"]);
    assert_eq!((pool.concurrency, pool.io), (Concurrency::Pool, IoKind::Auto));
    let cached = made(&["--preset", "apache-1.3", "--lookup", "cached"]);
    assert_eq!(cached.behavior.ancestor_file, None);
    assert!(cached.behavior.copies, "the rest is the preset's");
    let looped = made(&["--preset", "jaws", "--concurrency", "loop"]);
    assert!(!looped.behavior.accept_lock);
    assert_eq!(looped.workers, Workers::Auto);
    let error = config(&["--preset", "jaws", "--io", "epoll"]).expect_err("a contradiction");
    for part in ["`--io epoll`", "of the preset jaws", "add `--concurrency loops`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
fn a_contradiction_in_a_file_is_shown_there_in_its_own_words() {
    let file = std::env::temp_dir().join(format!("weir-together-{}.toml", std::process::id()));
    std::fs::write(&file, "listing = true\nconcurrency = 'pool'\nio = 'epoll'\n").expect("a file");
    let name = file.display().to_string();
    let error = config(&["--config", &name]).expect_err("a contradiction");
    let begins = format!("{name}:3: `io`: `concurrency = \"pool\"` cannot use `io = \"epoll\"`: ");
    assert!(error.starts_with(&begins), "{error}");
    assert!(
        error.contains("use `io = \"blocking\"` or leave it out") && !error.contains("--"),
        "{error}"
    );
    let error = config(&["--config", &name, "--io", "uring"]).expect_err("a contradiction");
    let begins = format!("{name}:2: `concurrency`: `concurrency = \"pool\"` cannot use `--io uring`: ");
    assert!(error.starts_with(&begins), "{error}");
    std::fs::write(&file, "preset = 'zeus'\nconcurrency = 'pool'\n").expect("a file");
    assert_eq!(config(&["--config", &name]).map(|made| made.io), Ok(IoKind::Auto));
    std::fs::remove_file(&file).expect("our own file");
}

const PROFILE: &str =
    "version = 1\nworkload = 'none'\n[machine]\ncpu = 'x'\ncores = 1\nkernel = '1'\n[serve]\n";

#[test]
#[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
fn a_wrong_value_of_a_profile_is_named_with_its_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("p.toml");
    let name = file.display().to_string();
    for (key, value, part) in [
        ("workers", "'many'", "not a worker count"),
        ("workers", "0", "from 1 to 1024"),
        ("send-buffer", "'x'", "as in 4096"),
        ("cache-file-size", "-1", ""),
        ("io", "'epol'", "did you mean `epoll`"),
        ("concurrency", "3", "in quotes"),
    ] {
        std::fs::write(&file, format!("{PROFILE}{key} = {value}\n")).expect("a file");
        let error = config(&["--profile", &name]).expect_err(key);
        let begins = format!("{name}:8: ");
        assert!(error.starts_with(&begins), "{key} = {value}: {error}");
        assert!(
            error.contains(&format!("`{key}`")) && error.contains(part),
            "{error}"
        );
        assert!(!error.contains("preset"), "{error}");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
fn a_profile_may_stand_in_the_file_and_is_looked_for_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("a file");
        folder.path().join(name).display().to_string()
    };
    put(
        "p.toml",
        &format!("{PROFILE}concurrency = 'pool'\nworkers = 3\nsend-buffer = '64KiB'\n"),
    );
    let other = put("q.toml", &format!("{PROFILE}workers = 7\n"));
    let file = put(
        "weir.toml",
        "listing = true\nprofile = 'p.toml' # of here\n[behavior]\ncopies = true\n",
    );
    let made = config(&["--config", &file]).expect("a valid file");
    assert_eq!(
        (made.concurrency, made.workers.to_string()),
        (Concurrency::Pool, "3".to_owned())
    );
    assert!(made.listing && made.behavior.copies, "the rest is read");
    let made = config(&["--config", &file, "--profile", &other]).expect("valid");
    assert_eq!(made.workers.to_string(), "7", "a flag beats the file");
    for (text, parts) in [
        (
            "listing = true\nprofile = 3\n",
            [":2: ", "`profile`", "expected path string"],
        ),
        (
            "profile = 'r.toml'\n",
            ["r.toml`", "which the configuration names", "weir tune"],
        ),
        (
            "profile = 'p.toml'\n\nworkers = 'x'\n",
            [":3: ", "weir.toml", "`workers`"],
        ),
    ] {
        let error = config(&["--config", &put("weir.toml", text)]).expect_err(text);
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn what_goes_with_the_strategy_of_a_profile_is_said() {
    let text = format!("{PROFILE}concurrency = 'loop'\nio = 'epoll'\nsend-buffer = '64KiB'\n");
    let tuned = Tuned::parse(&text, "p.toml").expect("a profile");
    let source = |key: &str| match key {
        "concurrency" => Source::Command,
        _ if tuned.has(key) => Source::Profile,
        _ => Source::Default,
    };
    let said = not_taken(&tuned, Concurrency::Pool, &source).expect("something");
    assert!(
        said.contains("`io = \"epoll\"`") && said.contains("pool"),
        "{said}"
    );
    assert!(
        !said.contains("workers") && !said.contains("send-buffer"),
        "{said}"
    );
    assert_eq!(not_taken(&tuned, Concurrency::Loop, &source), None);
}

/// The help states the real defaults.
#[test]
fn defaults_in_the_help_are_true() {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").expect("a command");
    let mut arguments = Vec::new();
    for flag in serve.get_arguments() {
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        if let (Some(name), Some((_, value))) = (flag.get_long(), help.split_once("[default: "))
            && value != "none]"
            // Not a value, but a rule for one.
            && !["a quarter", "half", "that of"].iter().any(|share| value.starts_with(share))
        {
            arguments.push(format!("--{name}={}", value.trim_end_matches(']')));
        }
    }
    assert!(arguments.len() > 20, "{arguments:?}");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let made = config(&arguments).expect("valid flags");
    assert_eq!(made.said, Knob::ALL, "a default that is said is said");
    let said = Vec::new();
    assert_eq!(Config { said, ..made }, Config::default());
}

/// Any explicit value fixes a setting, the default too.
#[test]
fn a_knob_is_set_by_any_word_about_it() {
    for (arguments, expected) in [
        (&[][..], &[][..]),
        (&["--listing"], &[]),
        (&["--compress"], &[Knob::Compression]),
        (&["--idle-timeout", "65s"], &[Knob::IdleTimeout]),
        (&["--early-close", "0s"], &[Knob::IdleTimeout]),
        (&["--early-close", "off"], &[Knob::IdleTimeout]),
        (
            &["--preset", "apache-1.3"],
            &[Knob::IdleTimeout, Knob::Compression],
        ),
        (
            &["--preset", "zeus", "--idle-timeout", "65s"],
            &[Knob::IdleTimeout, Knob::Compression],
        ),
    ] {
        let made = config(arguments).expect("valid flags");
        assert_eq!(made.said, expected, "{arguments:?}");
    }
}

/// The example of the operator's guide is a valid file.
#[test]
fn the_documented_file_is_valid() {
    let text = include_str!("../../../docs/serve.md");
    let (_, rest) = text.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let config = Config::from_toml(example, "docs/serve.md").expect("a valid example");
    assert_eq!(config.error_pages.page(404), Some("/errors/404.html"));
}

/// Keys of the file and long names of flags are one vocabulary.
#[test]
fn every_key_is_a_flag_and_every_flag_a_key() {
    let known = |file: &str| {
        let error = toml::from_str::<Config>(file).expect_err("an unknown key");
        let keys = error.message().split('`').skip(3).step_by(2);
        keys.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut keys = known("no-such-key = 1");
    // The root is an argument, nested tables exist in files only, and three tables have flags of their own.
    keys.retain(|key| {
        ![
            "root",
            "types",
            "header-rule",
            "cors",
            "limit",
            "admin",
            "access",
            "try-files",
            "uploads",
            "redirect",
            "respond",
            "host",
            "listener",
            "behavior",
            "tilde",
            "otlp",
        ]
        .contains(&key.as_str())
    });
    keys.extend(known("[behavior]\nno-such-key = 1"));
    // The table of logins exists in files only, and the flag for the directory switches pages on.
    let tilde = known("[tilde]\nno-such-key = 1")
        .into_iter()
        .filter(|key| key != "users");
    keys.extend(tilde.map(|key| match &*key {
        "directory" => "tilde".to_owned(),
        key => format!("tilde-{key}"),
    }));
    keys.extend(known("[otlp]\nno-such-key = 1").iter().map(|key| match &**key {
        "endpoint" => "otlp".to_owned(),
        key => format!("otlp-{key}"),
    }));
    keys.sort_unstable();
    let command = Cli::command();
    let serve = command.find_subcommand("serve").expect("a command");
    let mut flags: Vec<&str> = serve
        .get_arguments()
        .filter_map(|flag| flag.get_long())
        // The key of `proxy-cache` is in the tables `[[proxy]]`.
        .filter(|name| {
            ![
                "config",
                "check",
                "explain",
                "explain-admitted",
                "explain-field",
                "help",
                "version",
                "proxy-cache",
            ]
            .contains(name)
        })
        .map(|name| if name == "error-page" { "error-pages" } else { name })
        .collect();
    flags.sort_unstable();
    assert_eq!(flags, keys);
}
