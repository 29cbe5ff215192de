//! A service manager, played by the test: sockets are passed, news comes back.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::tree::Tree;
use crate::serve::upgrade::Line;
use crate::serve::wire::Connection;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

/// The socket that `NOTIFY_SOCKET` names.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(tree: &Tree) -> Manager {
        let path = tree.join("notify").display().to_string();
        let socket = UnixDatagram::bind(&path).expect("a socket in a folder of ours");
        socket
            .set_read_timeout(Some(crate::serve::process::PATIENCE))
            .expect("a timeout");
        Manager { socket, path }
    }

    /// The next message, as lines.
    fn hears(&self) -> Vec<String> {
        let mut room = [0; 4096];
        let count = self.socket.recv(&mut room).expect("news in time");
        let text = String::from_utf8_lossy(&room[..count]);
        text.lines().map(str::to_owned).collect()
    }
}

fn launch(strategy: Strategy, tree: &Tree, manager: &Manager) -> Launch {
    Launch::new(strategy)
        .root(&tree.join("site"))
        .env("NOTIFY_SOCKET", &manager.path)
}

fn it_is_told_of_start_reload_and_stop(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let manager = Manager::new(&tree);
    let config = tree.write("weir.toml", "listing = false\n");
    let mut server = launch(strategy, &tree, &manager)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    assert_eq!(manager.hears(), ["READY=1", "STATUS=serving"]);
    server.signal("HUP");
    let lines = manager.hears();
    let [time, reloading] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(reloading, "RELOADING=1");
    let time = time.strip_prefix("MONOTONIC_USEC=").expect("the time");
    assert!(time.parse::<u64>().is_ok_and(|time| time > 0), "{time}");
    assert_eq!(manager.hears(), ["READY=1", "STATUS=serving"]);
    tree.replace("weir.toml", "no-such-key = 1\n");
    server.signal("HUP");
    assert_eq!(manager.hears()[1], "RELOADING=1");
    let lines = manager.hears();
    assert_eq!(lines[0], "READY=1", "the old configuration serves");
    assert!(
        lines[1].contains("not reloaded") && lines[1].contains("no-such-key"),
        "{lines:?}"
    );
    server.signal("TERM");
    assert_eq!(manager.hears(), ["STOPPING=1"]);
    assert_eq!(server.wait(), 0);
}

#[test]
fn it_is_told_who_serves_after_an_upgrade() {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let manager = Manager::new(&tree);
    let mut line = Line::of(launch(Strategy::LOOPS, &tree, &manager).start());
    assert_eq!(manager.hears(), ["READY=1", "STATUS=serving"]);
    line.upgrade();
    assert_eq!(
        manager.hears(),
        [format!("MAINPID={}", line.newest), "READY=1".to_owned()]
    );
    line.stop();
    assert_eq!(
        manager.hears(),
        ["STOPPING=1"],
        "of the new one; the old one said nothing"
    );
}

#[test]
fn signs_of_life_are_given_and_outlive_an_upgrade() {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let manager = Manager::new(&tree);
    let start = "export WATCHDOG_USEC=100000 WATCHDOG_PID=$$";
    let launch = Launch::wrapped(Strategy::LOOPS, start)
        .root(&tree.join("site"))
        .env("NOTIFY_SOCKET", &manager.path);
    let mut line = Line::of(launch.start());
    assert_eq!(manager.hears()[0], "READY=1");
    for _ in 0..3 {
        assert_eq!(manager.hears(), ["WATCHDOG=1"]);
    }
    line.upgrade();
    let mut heard = manager.hears();
    while heard == ["WATCHDOG=1"] {
        heard = manager.hears();
    }
    assert!(heard[0].starts_with("MAINPID="), "{heard:?}");
    for _ in 0..3 {
        assert_eq!(manager.hears(), ["WATCHDOG=1"]);
    }
    line.stop();
}

fn signs_of_life_are_given_while_it_serves_and_while_it_waits_to_stop(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let manager = Manager::new(&tree);
    let start = "export WATCHDOG_USEC=100000 WATCHDOG_PID=$$";
    let mut server = Launch::wrapped(strategy, start)
        .root(&tree.join("site"))
        .args(["--drain-delay", "1h"])
        .env("NOTIFY_SOCKET", &manager.path)
        .start();
    assert_eq!(manager.hears()[0], "READY=1");
    let three = || {
        for _ in 0..3 {
            assert_eq!(manager.hears(), ["WATCHDOG=1"]);
        }
    };
    three();
    server.signal("TERM");
    while manager.hears() != ["STOPPING=1"] {}
    three();
    assert_eq!(server.stop(), 0, "a second signal ends the delay");
}

/// A server on this socket, passed as systemd does. The shell puts it in its place and has the number of
/// the process before there is one.
fn activated(strategy: Strategy, socket: &TcpListener, tree: &Tree) -> Server {
    let start = "exec 3<&0 </dev/null && export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";
    let socket = OwnedFd::from(socket.try_clone().expect("a descriptor"));
    Launch::wrapped(strategy, start)
        .root(tree.path())
        .stdin(socket)
        .start()
}

fn passed_sockets_are_served_and_outlive_the_process(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content")]);
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address");
    let mut server = activated(strategy, &socket, &tree);
    assert_eq!(server.address, address, "not where --listen says");
    for _ in 0..20 {
        assert_eq!(Connection::open(address).get("/a.txt").text(), "content");
    }
    assert_eq!(server.stop(), 0);
    // Nobody serves now, and still nobody is refused: the socket belongs to the manager.
    let early = TcpStream::connect(address).expect("not refused");
    let mut line = Line::of(activated(strategy, &socket, &tree));
    assert_eq!(Connection::over(early).get("/a.txt").text(), "content");
    if !strategy.is_of_processes() {
        line.upgrade();
        assert_eq!(Connection::open(address).get("/a.txt").text(), "content");
    }
    line.stop();
}

on_every_strategy!(
    it_is_told_of_start_reload_and_stop,
    signs_of_life_are_given_while_it_serves_and_while_it_waits_to_stop,
    passed_sockets_are_served_and_outlive_the_process,
);

#[test]
fn what_was_passed_to_another_process_is_left_alone() {
    let tree = Tree::with(&[("a.txt", "content")]);
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .env("LISTEN_PID", "1")
        .env("LISTEN_FDS", "1")
        .env("WEIR_UPGRADE_FROM", "1")
        .start();
    assert_eq!(server.connect().get("/a.txt").text(), "content");
}

#[test]
fn what_is_no_listening_socket_is_refused() {
    let tree = Tree::with(&[("a.txt", "content")]);
    let start = "exec 3</dev/null && export LISTEN_PID=$$ LISTEN_FDS=1";
    let (code, err) = Launch::wrapped(Strategy::LOOPS, start).root(tree.path()).fail();
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("ListenStream="), "{err}");
    let gone = "export LISTEN_PID=$$ LISTEN_FDS=1";
    let (code, err) = Launch::wrapped(Strategy::LOOPS, gone).root(tree.path()).fail();
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("LISTEN_FDS"), "{err}");
}
