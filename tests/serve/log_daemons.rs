//! Logs that go to syslog and to the journal: sockets of the tests stand for the daemons, and rsyslog for itself.

use crate::serve::process::{Launch, PATIENCE, Strategy, eventually};
use crate::serve::rights::{USER, skipped};
use crate::serve::tree::Tree;
use crate::serve::where_connections_share_a_process;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command};

fn tree() -> Tree {
    Tree::with(&[("site/a.txt", "a file"), ("site/b.txt", "b")])
}

/// A daemon at a new socket in a folder.
fn daemon(folder: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(folder.join("log.sock")).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// The next datagram that contains this.
fn next(part: &str, mut receive: impl FnMut(&mut [u8]) -> std::io::Result<usize>) -> String {
    let mut got = vec![0; 1 << 18];
    loop {
        let len = receive(&mut got).unwrap_or_else(|error| panic!("no datagram with {part}: {error}"));
        let text = String::from_utf8_lossy(&got[..len]).into_owned();
        if text.contains(part) {
            return text;
        }
    }
}

fn syslog_gets_both_logs(strategy: Strategy) {
    let tree = tree();
    let daemon = daemon(tree.path());
    let target = format!("syslog:{}", tree.join("log.sock").display());
    let server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args([format!("--access-log={target}"), format!("--server-log={target}")])
        .start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/a.txt").text(), "a file");
    let line = next("/a.txt", |got| daemon.recv(got));
    let written = line
        .strip_prefix("<30>weir-access[")
        .and_then(|rest| rest.split_once("]: "));
    let (pid, text) = written.unwrap_or_else(|| panic!("{line}"));
    let pids: Vec<String> = server.pids().iter().map(u32::to_string).collect();
    assert!(pids.contains(&pid.to_owned()), "{line}");
    assert!(
        text.starts_with("127.0.0.1 - - [") && !text.contains('\n'),
        "{line}"
    );
    server.signal("HUP");
    let line = next("reloaded", |got| daemon.recv(got));
    assert!(line.contains(">weir-server["), "{line}");
    assert!(!server.stderr().contains("reloaded"), "{}", server.stderr());
}

fn the_journal_gets_fields(strategy: Strategy) {
    let tree = tree();
    let daemon = daemon(tree.path());
    let target = format!("journald:{}", tree.join("log.sock").display());
    let server = Launch::new(strategy)
        .root(&tree.join("site"))
        .args([&*format!("--access-log={target}"), "--log-format=json"])
        .start();
    assert_eq!(server.connect().get("/none").status, 404);
    let entry = next("/none", |got| daemon.recv(got));
    for line in [
        "PRIORITY=6",
        "SYSLOG_IDENTIFIER=weir",
        "WEIR_LOG=access",
        "WEIR_STATUS=404",
        "WEIR_METHOD=GET",
    ] {
        assert!(entry.lines().any(|known| known == line), "{line}: {entry}");
    }
    assert!(entry.starts_with("MESSAGE={"), "{entry}");
}

/// Another user, confined as it is by default, may send lines, and connects again to a daemon that has restarted.
#[test]
fn another_user_sends_lines() {
    let tree = tree();
    if skipped(&tree) {
        return;
    }
    let open = || {
        let daemon = daemon(tree.path());
        let everyone = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(tree.join("log.sock"), everyone).expect("our own socket");
        daemon
    };
    let first = open();
    let target = format!("syslog:{}", tree.join("log.sock").display());
    let server = Launch::new(Strategy::LOOPS)
        .root(&tree.join("site"))
        .args([
            format!("--access-log={target}"),
            format!("--server-log={target}"),
            format!("--user={USER}"),
        ])
        .start();
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    next("/a.txt", |got| first.recv(got));
    drop(first);
    std::fs::remove_file(tree.join("log.sock")).expect("our own socket");
    let second = open();
    assert_eq!(server.connect().get("/b.txt").text(), "b");
    next("/b.txt", |got| second.recv(got));
    server.signal("HUP");
    next("reloaded", |got| second.recv(got));
}

#[test]
fn syslog_over_udp_gets_lines() {
    let tree = tree();
    let daemon = UdpSocket::bind("127.0.0.1:0").expect("a port");
    daemon.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let port = daemon.local_addr().expect("its address").port();
    let server = Launch::new(Strategy::LOOPS)
        .root(&tree.join("site"))
        .args([format!("--access-log=syslog:udp://127.0.0.1:{port}")])
        .start();
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    assert!(next("/a.txt", |got| daemon.recv(got)).starts_with("<30>1 "));
}

/// rsyslogd, which ends with this.
struct Rsyslog(Child);

impl Drop for Rsyslog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What rsyslog takes for program, process, severity and message, over its socket and over UDP.
#[test]
fn rsyslog_understands_both_ways() {
    let Some(program) = ["/usr/sbin/rsyslogd", "/usr/bin/rsyslogd"]
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        eprintln!("skipped: rsyslogd is not installed");
        return;
    };
    let tree = tree();
    let place = |name: &str| tree.join(name).display().to_string();
    // It is free now.
    let port = UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port")
        .port();
    let config = format!(
        "module(load=\"imuxsock\" SysSock.Name=\"{}\")\nmodule(load=\"imudp\")\n\
         input(type=\"imudp\" address=\"127.0.0.1\" port=\"{port}\")\n\
         template(name=\"parts\" type=\"string\" string=\"%programname%|%procid%|%syslogseverity%|%msg%\\n\")\n\
         *.* action(type=\"omfile\" file=\"{}\" template=\"parts\")\n",
        place("log.sock"),
        place("written")
    );
    std::fs::write(tree.join("rsyslog.conf"), config).expect("a configuration");
    let daemon = Command::new(program)
        .args(["-n", "-f", &place("rsyslog.conf"), "-i", &place("pid")])
        .spawn()
        .expect("rsyslogd starts");
    let _daemon = Rsyslog(daemon);
    eventually("its socket", || tree.join("log.sock").exists().then_some(()));
    let server = Launch::new(Strategy::LOOPS)
        .root(&tree.join("site"))
        .args([
            format!("--access-log=syslog:{}", place("log.sock")),
            format!("--server-log=syslog:udp://127.0.0.1:{port}"),
        ])
        .start();
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    server.signal("HUP");
    let lines = eventually("both lines", || {
        let written = std::fs::read_to_string(tree.join("written")).unwrap_or_default();
        (written.contains("/a.txt") && written.contains("reloaded")).then_some(written)
    });
    let pid = server.pids()[0];
    for (program, part) in [("weir-access", "\"GET /a.txt HTTP/1.1\""), ("weir", "reloaded")] {
        let wanted = format!("{program}|{pid}|6|");
        let line = lines.lines().find(|line| line.contains(part)).expect("a line");
        assert!(line.starts_with(&wanted), "{line}");
    }
}

/// While a daemon is away, requests are answered; when it is back, it gets lines again, and the loss is told.
#[test]
fn a_daemon_that_is_away_delays_nobody() {
    let tree = tree();
    let first = daemon(tree.path());
    let target = format!("syslog:{}", tree.join("log.sock").display());
    let mut server = Launch::new(Strategy::LOOPS)
        .root(&tree.join("site"))
        .args([format!("--access-log={target}")])
        .start();
    drop(first);
    std::fs::remove_file(tree.join("log.sock")).expect("our own socket");
    let mut connection = server.connect();
    assert_eq!(connection.get("/a.txt").text(), "a file");
    eventually("that lines are lost", || {
        server.stderr().contains("lines are lost").then_some(())
    });
    let again = daemon(tree.path());
    assert_eq!(connection.get("/b.txt").text(), "b");
    next("/b.txt", |got| again.recv(got));
    eventually("how many were lost", || {
        server
            .stderr()
            .contains("accepts log lines again; lost: 1")
            .then_some(())
    });
    // A daemon that never reads holds up neither requests nor, beyond the grace, the stop.
    for _ in 0..2_000 {
        assert_eq!(connection.get("/a.txt").text(), "a file");
    }
    drop(connection);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_daemon_that_is_not_there_ends_the_start() {
    let tree = tree();
    let gone = tree.join("none.sock");
    for (flag, check, wanted) in [
        ("--access-log", &[][..], 4),
        ("--server-log", &[], 4),
        ("--access-log", &["--check"], 2),
        ("--server-log", &["--check"], 2),
    ] {
        let (code, said) = Launch::bare()
            .root(&tree.join("site"))
            .args([format!("{flag}=syslog:{}", gone.display())])
            .args(check)
            .fail();
        assert_eq!(code, wanted, "{said}");
        assert!(
            said.contains("none.sock") && said.contains("start the log daemon"),
            "{flag} {check:?}: {said}"
        );
    }
    let (code, said) = Launch::bare()
        .root(&tree.join("site"))
        .args(["--access-log=syslog:tcp://192.0.2.1"])
        .fail();
    assert_eq!(code, 2);
    assert!(said.contains("syslog:udp://"), "{said}");
}

where_connections_share_a_process!(syslog_gets_both_logs, the_journal_gets_fields,);
