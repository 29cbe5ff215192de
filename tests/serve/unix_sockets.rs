//! Listeners that are Unix sockets: both versions of HTTP over them, the names of their clients, trust, handover to another
//! process, and files that are in the way.

use crate::serve::frames;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use crate::serve::upgrade::Line;
use crate::serve::wire::Connection;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A server at a port of loopback and at a Unix socket, with these settings.
fn launch(strategy: Strategy, tree: &Tree, settings: &str, of_listener: &str) -> (Server, PathBuf) {
    let path = tree.path().join("weir.sock");
    let file = tree.write(
        "weir.toml",
        format!(
            "root = \"site\"\n{settings}\n[[listener]]\naddress = \"unix:{}\"\n{of_listener}\n",
            path.display()
        ),
    );
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), file.as_os_str()])
        .start();
    (server, path)
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("a connection to the server");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn open(path: &Path) -> Connection {
    Connection::over_unix(connect(path))
}

const LOG: &str = "access-log = \"-\"\nlog-format = \"json\"";

fn both_versions_of_http_are_served(strategy: Strategy) {
    let big = "x".repeat(300_000);
    let tree = Tree::with(&[("site/a.txt", "a file"), ("site/big.txt", &big)]);
    let (server, path) = launch(
        strategy,
        &tree,
        &format!("http2 = \"all\"\n{LOG}"),
        "socket-mode = \"600\"",
    );
    let mode = path.metadata().expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut connection = open(&path);
    assert_eq!(connection.get("/a.txt").text(), "a file");
    assert_eq!(connection.get("/big.txt").text(), big);
    assert_eq!(connection.get("/none").status, 404);
    let mut client = frames::Client::new(connect(&path));
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    assert_eq!(client.get("/big.txt", &[]).text(), big);
    // The listeners beside it are ordinary ones.
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    eventually("the client in the log", || {
        server.stdout().contains("\"unix:\"").then_some(())
    });
}

fn a_client_is_trusted_if_the_configuration_says_so(strategy: Strategy) {
    let rules = "[[access]]\npath = \"/near/*\"\nallow = \"192.0.2.0/24\"\n[[access]]\npath = \"/unix/*\"\nallow = \"unix\"\n\
                 [[access]]\npath = \"/six/*\"\nallow = \"::/0\"\n";
    let tree = Tree::with(&[
        ("site/near/a.txt", "near"),
        ("site/unix/a.txt", "unix"),
        ("site/six/a.txt", "six"),
    ]);
    for (settings, near) in [("", 403), ("trusted = \"unix\"\n", 200)] {
        let (server, path) = launch(strategy, &tree, &format!("{settings}{LOG}\n{rules}"), "");
        let mut connection = open(&path);
        let forwarded = [("X-Forwarded-For", "192.0.2.7")];
        assert_eq!(connection.request("GET", "/near/a.txt", &forwarded).status, near);
        assert_eq!(connection.get("/near/a.txt").status, 403);
        assert_eq!(connection.get("/unix/a.txt").status, 200);
        assert_eq!(connection.get("/six/a.txt").status, 403);
        // Nobody who comes over TCP is such a client, whatever a field says.
        let forged = [("X-Forwarded-For", "::")];
        assert_eq!(
            server.connect().request("GET", "/unix/a.txt", &forged).status,
            403
        );
        let expected = if near == 200 { 403 } else { 200 };
        let forged = connection.request("GET", "/unix/a.txt", &forged);
        assert_eq!(forged.status, expected, "{settings}");
    }
}

fn a_trusted_peer_announces_its_client(strategy: Strategy) {
    let rules =
        format!("trusted = \"unix\"\n{LOG}\n[[access]]\npath = \"/near/*\"\nallow = \"192.0.2.0/24\"\n");
    let tree = Tree::with(&[("site/near/a.txt", "near")]);
    let (_server, path) = launch(strategy, &tree, &rules, "proxy-protocol = true");
    let mut connection = open(&path);
    connection.send(b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n");
    assert_eq!(connection.get("/near/a.txt").text(), "near");
    let mut connection = open(&path);
    connection.send(b"PROXY UNKNOWN\r\n");
    assert_eq!(connection.get("/near/a.txt").status, 403);
}

fn a_socket_outlives_its_process(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a file")]);
    let (server, path) = launch(strategy, &tree, "", "");
    let mut line = Line::of(server);
    if !strategy.is_of_processes() {
        let mut held = open(&path);
        assert_eq!(held.get("/a.txt").text(), "a file");
        line.upgrade();
        assert_eq!(open(&path).get("/a.txt").text(), "a file");
    }
    line.stop();
    // The file is still there, nobody listens, and the next server takes its place.
    assert!(UnixStream::connect(&path).is_err());
    let (_server, path) = launch(strategy, &tree, "", "");
    assert_eq!(open(&path).get("/a.txt").text(), "a file");
}

fn a_socket_of_a_service_manager_is_served(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let path = tree.path().join("passed.sock");
    let socket = UnixListener::bind(&path).expect("a socket");
    let start = "exec 3<&0 </dev/null && export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";
    let mut server = Launch::wrapped(strategy, start)
        .root(tree.path())
        .stdin(OwnedFd::from(socket.try_clone().expect("a descriptor")))
        .start();
    assert_eq!(
        server.started["listeners"][0]["address"],
        format!("unix:{}", path.display())
    );
    assert_eq!(open(&path).get("/a.txt").text(), "content");
    assert_eq!(server.stop(), 0);
    // The socket belongs to the manager, whose clients wait for the next process.
    let mut early = open(&path);
    early.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
}

on_every_strategy!(
    both_versions_of_http_are_served,
    a_client_is_trusted_if_the_configuration_says_so,
    a_trusted_peer_announces_its_client,
    a_socket_outlives_its_process,
    a_socket_of_a_service_manager_is_served,
);

#[test]
fn what_is_in_the_way_is_not_removed() {
    let tree = Tree::with(&[("site/a.txt", "a file"), ("file", "precious")]);
    let refused = |path: &Path| {
        let address = format!("unix:{}", path.display());
        Launch::file(env!("CARGO_BIN_EXE_weir").as_ref())
            .args(["--listen", &address])
            .root(&tree.path().join("site"))
            .fail()
    };
    let (code, why) = refused(&tree.path().join("file"));
    assert!(code != 0 && why.contains("no socket"), "{why}");
    assert_eq!(
        std::fs::read(tree.path().join("file")).expect("the file"),
        b"precious"
    );
    let used = tree.path().join("used");
    let _other = UnixListener::bind(&used).expect("a socket");
    let (code, why) = refused(&used);
    assert!(code != 0 && why.contains("stop the program"), "{why}");
    let (code, why) = refused(&tree.path().join("nowhere/weir.sock"));
    assert!(code != 0 && why.contains("make the directory"), "{why}");
}
