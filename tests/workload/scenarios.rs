//! `weir load --scenario`: steps that depend on each other, data, cookies, captures, failures by step, and mistakes in the
//! file.

use crate::fixture::serving;
use crate::workload::{conforms, lines, printed, refused, weir};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use tempfile::TempDir;

/// A shop: `/login` sets a cookie and names a token if the password is right; `/cart` needs both.
fn shop() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (told, heads) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || sell(&mut BufReader::new(stream), &told));
        }
    });
    (url, heads)
}

fn sell(stream: &mut BufReader<TcpStream>, told: &Sender<String>) {
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match stream.read_line(&mut head) {
                Ok(1..) => {}
                _ => return,
            }
        }
        let length = head.lines().find_map(|line| {
            let line = line.to_ascii_lowercase();
            line.strip_prefix("content-length: ")?.parse::<usize>().ok()
        });
        let mut content = vec![0; length.unwrap_or(0)];
        if stream.read_exact(&mut content).is_err() {
            return;
        }
        let content = String::from_utf8_lossy(&content).into_owned();
        let name = content.split(['=', '&']).nth(1).unwrap_or_default().to_owned();
        let answer = if head.starts_with("POST /login ") {
            match content.ends_with("&password=wrong") {
                true => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned(),
                false => {
                    let page = format!("{{\"user\":{{\"token\":\"t-{name}\"}}}}");
                    format!(
                        "HTTP/1.1 200 OK\r\nSet-Cookie: sid=s-{name}; Path=/\r\nX-Next: /cart?of={name}\r\nContent-Length: {}\r\n\r\n{page}",
                        page.len()
                    )
                }
            }
        } else if head.starts_with("GET /cart?of=") {
            let name = head.split(['=', ' ']).nth(2).unwrap_or_default().to_owned();
            let is_right = head
                .to_ascii_lowercase()
                .contains(&format!("\r\ncookie: sid=s-{name}\r\n"))
                && head.contains(&format!("t-{name}\r\n"));
            match is_right {
                true => "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<b id=item-7>".to_owned(),
                false => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned(),
            }
        } else if head.starts_with("GET /item-7 ") {
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
        } else {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()
        };
        let _ = told.send(format!("{head}{content}"));
        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

const BUY: &str = r#"
[[feed]]
name = "users"
file = "users.csv"

[[scenario]]
name = "buy"

[[scenario.step]]
name = "login"
method = "POST"
url = "/login"
body = "user={{users.name|url}}&password={{users.password}}"
capture = [{ name = "token", json = "/user/token" }, { name = "next", header = "X-Next" }]
think = "1ms"

[[scenario.step]]
name = "cart"
url = "{{next}}"
headers = ["X-Token: {{token}}"]
expect = 200
capture = [{ name = "item", start = "id=", end = ">" }]

[[scenario.step]]
name = "item"
url = "/{{item}}"
expect = [204, "304"]
think = "exponential(0.001)"
"#;

/// The schema accepts what Weir accepts, and has all keys that the documentation shows.
#[test]
fn files_have_the_form_their_schema_says() {
    let read = |path: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        fs::read_to_string(path).expect("a file of the project")
    };
    let schema: Value = serde_json::from_str(&read("schemas/load-scenario.schema.json")).expect("JSON");
    let holds = |text: &str| {
        let value: toml::Table = text.parse().expect("TOML");
        let value = serde_json::to_value(value).expect("a value");
        std::panic::catch_unwind(|| crate::schema::check(&schema, &value, "scenario")).is_ok()
    };
    let shown = read("docs/load.md");
    let shown = shown.split("## Scenarios").nth(1).expect("a chapter");
    let shown = shown
        .split("```toml")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let shown = format!(
        "keep-cookies = true\nkeep-connections = false\n{}",
        shown.expect("an example")
    );
    assert!(holds(&shown) && holds(BUY));
    for (from, to) in [
        ("expect = 200", "expect = 20"),
        ("name = \"cart\"", "name = \"the cart\""),
        ("url = \"{{next}}\"", ""),
        ("start = ", "from = "),
        ("[[scenario.step]]", "[[scenario.steps]]"),
    ] {
        let wrong = BUY.replace(from, to);
        assert!(wrong != BUY && !holds(&wrong), "{to}");
        let (_dir, script) = folder(&wrong, TWO);
        let output = weir(&["load", "http://127.0.0.1:9/", "--scenario", &script]);
        assert_eq!(output.status.code(), Some(2), "{to}");
    }
}

/// A folder with a script, and a table of users.
fn folder(script: &str, users: &str) -> (TempDir, String) {
    let dir = TempDir::new().expect("a folder");
    fs::write(dir.path().join("users.csv"), users).expect("written");
    let file = dir.path().join("s.toml");
    fs::write(&file, script).expect("written");
    let name = file.to_str().expect("text").to_owned();
    (dir, name)
}

const TWO: &str = "name,password\nanna,a\nbert,b\n";

fn load(url: &str, script: &str, more: &[&str], code: i32) -> (Value, String) {
    let few = [
        "load",
        url,
        "--scenario",
        script,
        "--threads",
        "1",
        "--duration",
        "500ms",
        "--json",
        "--lag-max",
        "60s",
    ];
    crate::workload::result(&[&few[..], more].concat(), code)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn step<'r>(result: &'r Value, name: &str) -> &'r Value {
    let steps = result["steps"].as_array().expect("steps");
    steps
        .iter()
        .find(|step| step["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {result}"))
}

#[test]
fn steps_carry_values_and_cookies() {
    let (dir, script) = folder(BUY, TWO);
    let (url, heads) = shop();
    for load_of in [
        &["--users", "2"][..],
        &["--clients", "3"],
        &["--rate", "40"],
        &["--clients", "1", "--mode", "http10"],
    ] {
        let (result, _) = load(&url, &script, load_of, 0);
        assert_eq!(
            (&result["workload"], &result["files_failed"]),
            (&json!("scenario"), &json!(0)),
            "{result}"
        );
        let counts =
            ["login", "cart", "item"].map(|name| number(&step(&result, name)["response_ms"]["count"]));
        assert!(
            counts[2] > 0 && counts[0] >= counts[1] && counts[1] >= counts[2],
            "{load_of:?} {counts:?}"
        );
        assert_eq!(counts.iter().sum::<u64>(), number(&result["files"]));
        assert_eq!(step(&result, "login")["scenario"], "buy");
    }
    let heads: Vec<String> = heads.try_iter().collect();
    assert!(
        heads.iter().any(|head| head.ends_with("user=bert&password=b")),
        "both rows are used"
    );
    // Over HTTP/2, with a proxy between.
    let proxy = format!("--proxy=/={}", url.trim_end_matches('/'));
    let server = serving(TempDir::new().expect("a folder"), &[&proxy]);
    let (result, _) = load(&server.url, &script, &["--clients", "2", "--http2"], 0);
    assert!(
        number(&step(&result, "item")["response_ms"]["count"]) > 0,
        "{result}"
    );
    assert_eq!(result["files_failed"], 0, "{result}");
    let words = printed(&[
        "load",
        &url,
        "--scenario",
        &script,
        "--clients",
        "1",
        "--duration",
        "300ms",
        "--lag-max",
        "60s",
    ]);
    assert!(words.contains("scenario buy:\n  login "), "{words}");
    drop(dir);
}

/// The content of a step is that of a file beside the script, with its values; a mistake there is named.
#[test]
fn content_comes_from_a_file() {
    const TEMPLATE: &str = "user={{users.name|url}}&password={{users.password}}";
    let inline = format!("body = \"{TEMPLATE}\"");
    let beside = BUY.replace(&inline, "body-file = \"login.txt\"");
    assert_ne!(beside, BUY);
    let (dir, script) = folder(&beside, TWO);
    let missing = refused(&["load", "http://localhost:1/", "--scenario", &script], 2);
    assert!(
        missing.contains("s.toml:13: `body-file`: cannot read `"),
        "{missing}"
    );
    let content = dir.path().join("login.txt");
    fs::write(&content, TEMPLATE).expect("written");
    let (url, heads) = shop();
    let (result, _) = load(&url, &script, &["--clients", "2"], 0);
    assert!(
        number(&step(&result, "item")["response_ms"]["count"]) > 0 && result["files_failed"] == 0,
        "{result}"
    );
    let heads: Vec<String> = heads.try_iter().collect();
    // The length is that of the content with its values.
    for wanted in ["user=anna&password=a", "user=bert&password=b"] {
        let length = format!("content-length: {}\r\n", wanted.len());
        assert!(
            heads
                .iter()
                .any(|head| head.ends_with(wanted) && head.to_ascii_lowercase().contains(&length)),
            "{wanted}: {heads:?}"
        );
    }
    fs::write(&content, "user={{users.nam}}").expect("written");
    let unknown = refused(&["load", &url, "--scenario", &script], 2);
    assert!(
        unknown.contains("s.toml:13: `body-file`: `users.nam` is not known here"),
        "{unknown}"
    );
    let both = beside.replace("body-file", "body = \"a\"\nbody-file");
    let (_dir, script) = folder(&both, TWO);
    let error = refused(&["load", &url, "--scenario", &script], 2);
    assert!(
        error.contains("s.toml:14: `body-file`: the step has a `body`, too"),
        "{error}"
    );
}

/// A step that fails is counted by its kind, and the rest of its scenario is skipped, not failed.
#[test]
fn a_failed_step_skips_the_rest() {
    let (dir, script) = folder(BUY, "name,password\nanna,wrong\n");
    let (url, _) = shop();
    let page = dir.path().join("page.html");
    let html = page.display().to_string();
    let (result, why) = load(&url, &script, &["--clients", "1", "--html", &html], 3);
    let login = step(&result, "login");
    let failed = number(&login["failed"]);
    assert!(failed > 0, "{result}");
    assert_eq!(login["failures"], json!({"status": failed}));
    for name in ["cart", "item"] {
        let step = step(&result, name);
        assert_eq!(
            (number(&step["skipped"]), &step["failed"]),
            (failed, &json!(0)),
            "{result}"
        );
    }
    assert_eq!(result["record"]["skipped"], 2 * failed);
    assert_eq!(
        (number(&result["files_failed"]), &result["objects"]),
        (failed, &json!(0))
    );
    assert!(why.contains("responses were 403"), "{why}");
    let page = std::fs::read_to_string(page).expect("a page");
    for part in [
        format!(
            "<tr><td>buy: login<td data-of=\"count\">{}",
            login["response_ms"]["count"]
        ),
        format!("<li>buy: login: {failed} status"),
        format!("<li>buy: cart: {failed} skipped"),
        "<tr><td>buy: cart<td data-of=\"count\">0<td data-of=\"mean\">-".to_owned(),
    ] {
        assert!(page.contains(&part), "{part}: {page}");
    }
    // A value that is not there.
    let (_dir, script) = folder(&BUY.replace("/user/token", "/user/none"), TWO);
    let (result, _) = load(&url, &script, &["--clients", "1"], 3);
    let failed = number(&step(&result, "login")["failures"]["capture"]);
    assert!(
        failed > 0 && number(&result["errors"]["capture"]) == failed,
        "{result}"
    );
    // Values that make no request: a line break in a field.
    let broken = BUY.replace(
        "headers = [\"X-Token: {{token}}\"]",
        "headers = [\"X-Token: {{users.name}}\"]",
    );
    let (_dir, script) = folder(&broken, "name,password\n\"an\nna\",a\n");
    let (result, _) = load(&url, &script, &["--clients", "1", "--failures-max", "1"], 0);
    let cart = step(&result, "cart");
    assert!(number(&cart["failures"]["request"]) > 0, "{result}");
    assert_eq!(cart["response_ms"]["count"], 0);
}

/// Each row is used once, and the run ends with the last one; arrivals that need more rows are refused.
#[test]
fn rows_are_used_once() {
    let once = BUY.replace("file = \"users.csv\"", "file = \"users.csv\"\norder = \"once\"");
    let rows: String = (0..200).map(|n| format!("user{n},x\n")).collect();
    let (_dir, script) = folder(&once, &format!("name,password\n{rows}"));
    let (url, heads) = shop();
    let long = [
        "load",
        &url,
        "--scenario",
        &script,
        "--clients",
        "4",
        "--duration",
        "60s",
        "--json",
        "--lag-max",
        "60s",
    ];
    let (result, _) = crate::workload::result(&long, 0);
    assert_eq!(
        (&result["objects"], &result["files"]),
        (&json!(200), &json!(600)),
        "{result}"
    );
    assert!(result["duration_s"].as_f64().expect("a time") < 50.0, "{result}");
    let logins: Vec<String> = heads.try_iter().filter(|head| head.starts_with("POST")).collect();
    let different: BTreeSet<&str> = logins
        .iter()
        .filter_map(|head| head.split("\r\n\r\n").nth(1))
        .collect();
    assert_eq!((logins.len(), different.len()), (200, 200));
    let error = refused(
        &[
            "load",
            &url,
            "--scenario",
            &script,
            "--rate",
            "1000",
            "--duration",
            "1s",
        ],
        2,
    );
    assert!(
        error.contains("a feed with order = \"once\" has 200 rows"),
        "{error}"
    );
}

/// By default, a start has no cookies of the start before, and reuses its connection. Keys of the file reverse both defaults.
#[test]
fn starts_keep_cookies_and_connections_as_the_file_says() {
    let once = BUY.replace("file = \"users.csv\"", "file = \"users.csv\"\norder = \"once\"");
    let rows: String = (0..100).map(|n| format!("user{n},x\n")).collect();
    for (keys, with_cookie, connections) in [
        ("", 0, 1),
        ("keep-cookies = true\n", 99, 1),
        ("keep-connections = false\n", 0, 100),
        ("keep-cookies = true\nkeep-connections = false\n", 99, 100),
    ] {
        let (_dir, script) = folder(&format!("{keys}{once}"), &format!("name,password\n{rows}"));
        let (url, heads) = shop();
        // The run ends with the rows.
        let long = [
            "load",
            &url,
            "--scenario",
            &script,
            "--clients",
            "1",
            "--duration",
            "60s",
            "--json",
            "--lag-max",
            "60s",
        ];
        let (result, _) = crate::workload::result(&long, 0);
        let heads: Vec<String> = heads.try_iter().collect();
        let logins = heads.iter().filter(|head| head.starts_with("POST /login "));
        let has_cookie = |head: &&String| head.to_ascii_lowercase().contains("\r\ncookie: sid=s-user");
        assert_eq!(
            (logins.clone().count(), logins.filter(has_cookie).count()),
            (100, with_cookie),
            "{keys}"
        );
        assert_eq!(number(&result["connections"]), connections, "{keys}");
    }
}

/// A user who thinks when the run ends has neither completed nor failed its scenario.
#[test]
fn think_times_end_with_the_run() {
    let script = "[[scenario]]\nname = \"slow\"\n\
        step = [{ name = \"a\", url = \"/item-7\", think = \"1h\" }, { name = \"b\", url = \"/item-7\" }]\n";
    let (_dir, script) = folder(script, TWO);
    let (url, _) = shop();
    for flags in [
        &["--clients", "3"][..],
        &["--rate", "20", "--arrivals", "constant"],
    ] {
        let (result, _) = load(&url, &script, flags, 0);
        let begun = number(&result["objects_begun"]);
        assert!(begun > 0, "{result}");
        assert_eq!(number(&result["record"]["interrupted"]), begun, "{result}");
        let counts = ["objects", "files_failed", "unfinished"].map(|name| number(&result[name]));
        assert_eq!(
            (counts, &step(&result, "b")["skipped"]),
            ([0, 0, 0], &json!(0)),
            "{result}"
        );
        assert_eq!(step(&result, "a")["response_ms"]["count"], begun);
    }
}

/// Weights decide how often a scenario starts, and the seed decides which start is which.
#[test]
fn scenarios_are_weighted() {
    let script = "[[scenario]]\nname = \"often\"\nweight = 9\nstep = [{ name = \"a\", url = \"/item-7\" }]\n\
        [[scenario]]\nname = \"seldom\"\nstep = [{ name = \"b\", url = \"/item-7\" }]\n";
    let (_dir, script) = folder(script, TWO);
    let (url, _) = shop();
    let counts = || {
        let flags = ["--rate", "400", "--arrivals", "constant", "--seed", "3"];
        let (result, _) = load(&url, &script, &flags, 0);
        ["a", "b"].map(|name| number(&step(&result, name)["response_ms"]["count"]))
    };
    let [often, seldom] = counts();
    assert_eq!(often + seldom, 200);
    assert!((8..=35).contains(&seldom), "{seldom}");
    assert_eq!(counts(), [often, seldom]);
}

#[test]
fn requirements_name_steps() {
    let (_dir, script) = folder(BUY, TWO);
    let (url, _) = shop();
    let flags = [
        "--clients",
        "2",
        "--require",
        "login:p50<1h",
        "--require",
        "cart:failures<=0",
    ];
    let (result, _) = load(&url, &script, &flags, 0);
    let told = result["requirements"].as_array().expect("requirements");
    assert!(
        told.len() == 2 && told.iter().all(|one| one["outcome"] == "met"),
        "{result}"
    );
    let (result, why) = load(&url, &script, &["--clients", "2", "--require", "cart:p50<1us"], 1);
    assert_eq!(result["requirements"][0]["outcome"], "missed");
    assert!(why.contains("cart: p50"), "{why}");
    for (condition, fragment) in [
        (
            "basket:p99<1s",
            "there is no such step; there are login, cart, item",
        ),
        ("login:rate>5", "is not measured by step"),
    ] {
        let error = refused(&["load", &url, "--scenario", &script, "--require", condition], 2);
        assert!(error.contains(fragment), "{condition}: {error}");
    }
    let error = refused(&["load", &url, "--require", "login:p99<1s"], 2);
    assert!(error.contains("only --scenario has steps"), "{error}");
}

#[test]
fn mistakes_are_named_with_line_and_key() {
    let url = "http://localhost:1/";
    for (from, to, fragment) in [
        (
            "url = \"/login\"",
            "url = \"login\"",
            "s.toml:12: `url`: it must begin with /",
        ),
        (
            "url = \"/login\"",
            "ulr = \"/login\"",
            "s.toml:12: `ulr`: unknown field `ulr`",
        ),
        (
            "{{token}}",
            "{{tokn}}",
            "s.toml:20: `headers`: `tokn` is not known here; there are next, token, users.name",
        ),
        ("expect = 200", "expect = 99", "s.toml:21: `expect`"),
        (
            "think = \"1ms\"",
            "think = \"soon\"",
            "s.toml:15: `think`: `soon` is not a time span",
        ),
        (
            "think = \"1ms\"",
            "think = \"normal(1)\"",
            "s.toml:15: `think`: `normal(1)` is not a model",
        ),
        (
            "method = \"POST\"",
            "method = \"post\"",
            "s.toml:11: `method`: methods are case-sensitive; write POST",
        ),
        (
            "name = \"cart\"",
            "name = \"login\"",
            "s.toml:18: `name`: `login` is there twice",
        ),
        (
            "file = \"users.csv\"",
            "file = \"none.csv\"",
            "s.toml:4: `file`: cannot read",
        ),
        (
            "file = \"users.csv\"",
            "file = \"users.csv\"\norder = \"twice\"",
            "s.toml:5: `order`: `twice` is not an order",
        ),
        (
            "json = \"/user/token\"",
            "json = \"user\"",
            "s.toml:14: `json`: a JSON pointer begins with /",
        ),
        (
            "name = \"buy\"",
            "name = \"buy\"\nweight = 0",
            "s.toml:8: `weight`: it is 0",
        ),
    ] {
        let (_dir, script) = folder(&BUY.replacen(from, to, 1), TWO);
        let error = refused(&["load", url, "--scenario", &script], 2);
        assert!(error.contains(fragment), "{to}: {error}");
    }
    let (_dir, script) = folder(BUY, TWO);
    for (flags, fragment) in [
        (&["--body", "x"][..], "`--body` does not go with --scenario"),
        (&["--mode", "pipelined"], "a step waits for the one before"),
        (&["--slo", "p99<1s"], "`--slo` does not go with --scenario"),
    ] {
        let error = refused(&[&["load", url, "--scenario", &script], flags].concat(), 2);
        assert!(error.contains(fragment), "{flags:?}: {error}");
    }
    let error = refused(&["load", "plan", url, "--scenario", &script], 2);
    assert!(error.contains("depend on responses"), "{error}");
    let output = weir(&["load", "http://localhost:1/a", "--scenario", &script]);
    assert_eq!(output.status.code(), Some(2));
    let (_dir, script) = folder(
        "keep-cookies = true\n[[scenario]]\nname = \"a\"\nstep = [{ name = \"a\", url = \"/\" }]",
        TWO,
    );
    let error = refused(&["load", url, "--scenario", &script, "--rate", "1"], 2);
    assert!(error.contains("every start is another user"), "{error}");
}

/// Parts of two machines add up to one run, steps included.
#[test]
fn ranks_merge_by_step() {
    let (dir, script) = folder(BUY, TWO);
    let (url, _) = shop();
    let file = |rank: &str| {
        dir.path()
            .join(format!("{rank}.json"))
            .to_str()
            .expect("text")
            .to_owned()
    };
    let mut counts = 0;
    for rank in ["0", "1"] {
        let out = file(rank);
        let (result, _) = load(
            &url,
            &script,
            &["--clients", "2", "--rank", rank, "--size", "2", "--out", &out],
            0,
        );
        counts += number(&step(&result, "cart")["response_ms"]["count"]);
    }
    let output = weir(&["load", "merge", &file("0"), &file("1"), "--json"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let merged = lines(&said).remove(0);
    conforms("load-result.schema.json", std::slice::from_ref(&merged));
    assert_eq!(number(&step(&merged, "cart")["response_ms"]["count"]), counts);
}
