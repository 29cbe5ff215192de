//! Upstreams with host names: which addresses a request tries, what a change of them changes, and what a resolver that fails
//! does not. Each server has a hosts file of its own, in a mount namespace.

use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{HELLO, Upstream, request};
use crate::serve::tree::Tree;
use crate::serve::{frames, on_strategy};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;

/// Whether a process may have a hosts file of its own here; prints why if not.
fn is_possible() -> bool {
    let tried = Command::new("unshare")
        .args(["--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"])
        .output();
    match tried {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            println!(
                "skipped: no mount namespace: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            false
        }
        Err(error) => {
            println!("skipped: no unshare: {error}");
            false
        }
    }
}

/// A server and its hosts file.
struct Named {
    server: Server,
    hosts: PathBuf,
    _tree: Tree,
}

impl Named {
    fn start(strategy: Strategy, hosts: &str, table: &str) -> Named {
        let tree = Tree::with(&[("a.txt", "a file")]);
        let hosts = tree.write("hosts", hosts);
        let text = format!(
            "root = \"{}\"\nhttp2 = \"all\"\nlive = \"local\"\n[[proxy]]\npath = \"/api/*\"\n{table}\n",
            tree.path().display()
        );
        let config = tree.write("weir.toml", text);
        let before = format!(
            "exec unshare --mount sh -c 'mount --bind {} /etc/hosts && exec \"$0\" \"$@\"' \"$0\" \"$@\"; false",
            hosts.display()
        );
        let server = Launch::wrapped(strategy, &before)
            .args(["--config".as_ref(), config.as_os_str()])
            .args(["--access-log=-", "--log-format=json"])
            .start();
        Named {
            server,
            hosts,
            _tree: tree,
        }
    }

    /// Another content for the same file: what is mounted is the file, not its name.
    fn write(&self, hosts: &str) {
        std::fs::write(&self.hosts, hosts).expect("our own file");
    }

    fn eventually_says(&self, what: &str) {
        eventually(what, || self.server.stderr().contains(what).then_some(()));
    }
}

fn port(upstream: &Upstream) -> &str {
    upstream.url.rsplit(':').next().expect("a port")
}

fn each_address_is_tried(strategy: Strategy) {
    if !is_possible() {
        return;
    }
    let upstream = Upstream::answering(HELLO);
    let port = port(&upstream);
    // Nobody listens at the first two, whatever the order in which they come.
    let named = Named::start(
        strategy,
        "127.0.0.8 app.test\n127.0.0.9 app.test\n127.0.0.1 app.test\n",
        &format!("upstreams = [\"http://app.test:{port}\"]\nmax-failures = 1"),
    );
    let mut connection = named.server.connect();
    let mut client = frames::connect(&named.server);
    for _ in 0..6 {
        for method in ["GET", "POST"] {
            let got = connection.request(method, "/api/x", &[("Content-Length", "0")]);
            assert_eq!((got.status, got.text().as_str()), (200, "hello"), "{method}");
        }
        assert_eq!(client.get("/api/x", &[]).status, 200);
    }
    // The log names the address that answered, and both for one that did not.
    let line = eventually("the line in the log", || {
        let log = named.server.stdout();
        log.lines()
            .find(|line| line.contains("/api/x"))
            .map(str::to_owned)
    });
    assert!(
        line.contains(&format!("\"upstream\":\"127.0.0.1:{port}\"")),
        "{line}"
    );
    named.eventually_says(&format!("upstream app.test:{port} (127.0.0."));
}

fn a_name_without_an_address_is_told(strategy: Strategy) {
    if !is_possible() {
        return;
    }
    let good = Upstream::answering(HELLO);
    let table = "upstreams = [\"http://none.invalid:80\"]\nconnect-timeout = \"20s\"";
    let named = Named::start(strategy, "127.0.0.1 localhost\n", table);
    let got = named.server.connect().get("/api/x");
    assert_eq!(got.status, 502, "{}", got.text());
    assert!(got.text().contains("address"), "{}", got.text());
    assert_eq!(frames::connect(&named.server).get("/api/x", &[]).status, 502);
    named.eventually_says("host name none.invalid: cannot be resolved");
    named.eventually_says("upstream none.invalid:80: its host name has no known address");
    let metrics = named.server.connect().get("/.weir/metrics").text();
    let labels = "{site=\"0\",rule=\"/api/*\",upstream=\"none.invalid:80\"}";
    assert!(
        metrics.contains(&format!("weir_upstream_addresses{labels} 0")),
        "{metrics}"
    );
    assert!(
        metrics.contains(&format!("weir_upstream_lookup_failures_total{labels} ")),
        "{metrics}"
    );
    // Another upstream stands in, whichever is chosen first.
    let table = format!("upstreams = [\"http://none.invalid:80\", \"{}\"]", good.url);
    let named = Named::start(strategy, "127.0.0.1 localhost\n", &table);
    for _ in 0..4 {
        assert_eq!(
            named
                .server
                .connect()
                .request("POST", "/api/x", &[("Content-Length", "0")])
                .status,
            200
        );
    }
}

on_strategy!(loops, LOOPS: each_address_is_tried, a_name_without_an_address_is_told);
on_strategy!(process_loops, PROCESS_LOOPS: each_address_is_tried);
on_strategy!(loops_uring, LOOPS_URING: each_address_is_tried);

#[test]
fn a_change_leaves_requests_under_way_alone_and_a_failure_changes_nothing() {
    if !is_possible() {
        return;
    }
    // The old address answers half, and the rest when told to.
    let old = TcpListener::bind("127.0.0.8:0").expect("a free port");
    let port = old.local_addr().expect("its address").port();
    let new = match TcpListener::bind(("127.0.0.9", port)) {
        Ok(new) => new,
        Err(error) => {
            println!("skipped: the port is taken at the other address: {error}");
            return;
        }
    };
    let (go_on, told) = channel::<()>();
    let (came, asked) = channel::<()>();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = old.accept().expect("a request");
        request(&mut stream);
        came.send(()).expect("the test waits");
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nold");
        let _ = told.recv();
        let _ = stream.write_all(b"old");
    });
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = new.accept() {
            request(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew");
        }
    });
    let table = format!("upstreams = [\"http://app.test:{port}\"]\nresolve-interval = \"100ms\"");
    let named = Named::start(Strategy::LOOPS, "127.0.0.8 app.test\n", &table);
    let mut under_way = named.server.connect();
    under_way.send("GET /api/x HTTP/1.1\r\nHost: x\r\n\r\n");
    named.eventually_says("host name app.test: resolves to 127.0.0.8");
    // The server may have connected later than it found the address.
    asked.recv().expect("the request at the old address");
    named.write("127.0.0.9 app.test\n");
    named.eventually_says("host name app.test: resolves to 127.0.0.9");
    assert_eq!(named.server.connect().get("/api/x").text(), "new");
    go_on.send(()).expect("the upstream waits");
    assert_eq!(under_way.receive("GET").text(), "oldold");
    answering.join().expect("the upstream ends");
    named.write("127.0.0.1 localhost\n");
    named.eventually_says("host name app.test: cannot be resolved");
    named.eventually_says("keeps 127.0.0.9");
    assert_eq!(named.server.connect().get("/api/x").text(), "new");
    let metrics = named.server.connect().get("/.weir/metrics").text();
    let labels = format!("{{site=\"0\",rule=\"/api/*\",upstream=\"app.test:{port}\"}}");
    assert!(
        metrics.contains(&format!("weir_upstream_addresses{labels} 1")),
        "{metrics}"
    );
}

#[test]
fn a_slow_resolver_delays_neither_the_start_nor_files() {
    if !is_possible() {
        return;
    }
    // A name server that says nothing: the C library waits five seconds and asks again.
    let tree = Tree::with(&[("a.txt", "a file")]);
    let resolv = tree.write(
        "resolv.conf",
        "nameserver 127.0.0.77\noptions timeout:30 attempts:2\n",
    );
    let silent = std::net::UdpSocket::bind("127.0.0.77:53");
    if let Err(error) = &silent {
        println!("skipped: no name server of our own: {error}");
        return;
    }
    let before = format!(
        "exec unshare --mount sh -c 'mount --bind {} /etc/resolv.conf && exec \"$0\" \"$@\"' \"$0\" \"$@\"; false",
        resolv.display()
    );
    let text = format!(
        "root = \"{}\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"http://slow.example:80\"]\nconnect-timeout = \"300ms\"\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    let server = Launch::wrapped(Strategy::LOOPS, &before)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    // The resolver still waits, and the request does not wait for longer than for a connection.
    let got = server.connect().get("/api/x");
    assert_eq!(got.status, 502, "{}", got.text());
    let mut query = [0; 512];
    let silent = silent.expect("it was bound");
    silent.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert!(silent.recv(&mut query).is_ok(), "the name server was asked");
}
