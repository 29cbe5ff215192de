//! Upgrades in which a program dies: the new one before it serves or after, the old one before it is followed or after. Over
//! TCP and Unix sockets, with dropped rights, and at sockets of a service manager. HTTP/3 is in `http3::handover`.
//!
//! The configuration is a named pipe, from which a program reads after it has taken the sockets over. So the test decides
//! how long the new program starts, and either can die meanwhile.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually, signal, within};
use crate::serve::rights::{NOBODY, USER, skipped};
use crate::serve::tree::Tree;
use crate::serve::upgrade::{ENDING, Line, crash, has_ended, more, pid_of, under_load};
use crate::serve::wire::{Connection, head};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `O_NONBLOCK` of Linux: a pipe without a reader is an error.
const NONBLOCKING: i32 = 0o4000;

/// More than the kernel buffers for a connection whose client does not read.
const LARGE: usize = 24 << 20;

/// A configuration that programs read when the test lets them.
pub(crate) struct Gate {
    path: PathBuf,
    text: String,
}

impl Gate {
    pub(crate) fn new(tree: &Tree, text: &str) -> Gate {
        let path = tree.join("weir.toml");
        let made = Command::new("mkfifo").args(["-m", "644"]).arg(&path).status();
        assert!(made.expect("mkfifo(1)").success());
        Gate {
            path,
            text: text.to_owned(),
        }
    }

    /// Changes what programs read from now on.
    pub(crate) fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
    }

    /// Waits until a program is about to read its configuration. It waits as long as the result lives.
    pub(crate) fn hold(&self) -> File {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(NONBLOCKING);
        eventually("a program reads its configuration", || {
            options.open(&self.path).ok()
        })
    }

    /// Has a program that is held start.
    pub(crate) fn pass(&self, mut held: File) {
        held.write_all(self.text.as_bytes()).expect("room in a pipe");
    }

    /// Has the next program start as soon as it reads.
    pub(crate) fn open(&self) {
        self.pass(self.hold());
    }

    /// Starts a server with this configuration.
    pub(crate) fn start(&self, launch: Launch) -> Server {
        std::thread::scope(|scope| {
            scope.spawn(|| self.open());
            launch.args(["--config".as_ref(), self.path.as_os_str()]).start()
        })
    }

    /// The processes that have this configuration.
    fn processes(&self) -> BTreeSet<u32> {
        let named = self.path.as_os_str().as_encoded_bytes();
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            // Nobody's, once it is a zombie.
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|argument| argument == named)
        })
        .collect()
    }

    /// Waits until only this program and its worker processes are left.
    pub(crate) fn only(&self, founder: u32) {
        let what = format!("{founder} and its workers are alone");
        within(ENDING, &what, || {
            (self.processes() == family(founder)).then_some(())
        });
    }
}

impl Drop for Gate {
    /// Whoever has lost its parent is nobody's to end, also if the test has failed.
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    }
}

/// A process and those that it has made.
fn family(founder: u32) -> BTreeSet<u32> {
    let children = std::fs::read_to_string(format!("/proc/{founder}/task/{founder}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    std::iter::once(founder).chain(children).collect()
}

/// The program that the first of a line has started.
pub(crate) fn started_by_first(line: &Line) -> u32 {
    eventually("it says whom it has started", || {
        let said = line.first.stderr();
        let (_, rest) = said
            .rsplit_once("upgrading: process ")
            .or_else(|| said.rsplit_once("starting again: process "))?;
        rest.split_once(" runs")?.0.parse().ok()
    })
}

/// Has the newest program followed by another, and returns when the old one lets its connections end.
pub(crate) fn follow(line: &mut Line, gate: &Gate) {
    let before = line.first.stderr().matches("stopping:").count();
    signal(line.newest, "USR2");
    gate.open();
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        (line.first.stderr().matches("stopping:").count() > before).then_some(())
    });
}

/// A line of programs at a port and at a Unix socket.
struct Case {
    line: Line,
    gate: Gate,
    socket: PathBuf,
    inode: u64,
    _tree: Tree,
}

/// A configuration for a program that names itself in its responses.
fn text(program: &str, socket: &Path) -> String {
    format!(
        "root = 'site'\ngrace = '1h'\nheader = ['X-Program: {program}']\n[[listener]]\naddress = 'unix:{}'\n",
        socket.display()
    )
}

/// Whether programs give up the rights of root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    Kept,
    Dropped,
}

impl Case {
    /// `None` if this machine does not let it be, which it says.
    fn start(strategy: Strategy, rights: Rights) -> Option<Case> {
        let tree = Tree::with(&[("site/a.txt", "content")]);
        tree.write("site/large", vec![b'x'; LARGE]);
        if rights == Rights::Dropped && skipped(&tree) {
            return None;
        }
        let socket = tree.join("weir.sock");
        let gate = Gate::new(&tree, &text("first", &socket));
        let mut launch = Launch::new(strategy);
        if rights == Rights::Dropped {
            launch = launch.args(["--user", USER]);
        }
        let line = Line::of(gate.start(launch));
        let found = socket.metadata().expect("the socket");
        if rights == Rights::Dropped {
            assert_eq!(found.uid(), NOBODY);
        }
        Some(Case {
            line,
            gate,
            inode: found.ino(),
            socket,
            _tree: tree,
        })
    }

    fn connect_unix(&self) -> Connection {
        let stream = UnixStream::connect(&self.socket).expect("somebody has the socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Connection::over_unix(stream)
    }

    /// Clients that have asked at either address, and are not answered yet.
    fn ask_everywhere(&self) -> Vec<Connection> {
        let both = |_| [self.line.first.connect(), self.connect_unix()];
        let mut clients: Vec<Connection> = (0..4).flat_map(both).collect();
        for client in &mut clients {
            client.send(head("GET", "/a.txt", &[]));
        }
        clients
    }

    /// Both addresses lead to a program that serves, and the file is the one of the beginning.
    fn serves(&self) {
        for mut client in self.ask_everywhere() {
            assert_eq!(client.receive("GET").text(), "content");
        }
        assert_eq!(self.socket.metadata().expect("the socket").ino(), self.inode);
    }

    /// A further upgrade works, and then a stop and a new start.
    fn goes_on(mut self, strategy: Strategy) {
        self.serves();
        let Case { line, gate, .. } = &mut self;
        let old = line.newest;
        signal(old, "USR2");
        gate.open();
        line.newest = pid_of(&line.next_start());
        let is_first = old == line.first.pid();
        within(ENDING, "the old one ends", || match is_first {
            true => line.first.has_ended().map(drop),
            false => has_ended(old).then_some(()),
        });
        gate.only(line.newest);
        self.serves();
        self.line.stop();
        let Case { gate, socket, .. } = &mut self;
        UnixStream::connect(&*socket).expect_err("nobody listens");
        let mut again = gate.start(Launch::new(strategy));
        let stream = UnixStream::connect(&*socket).expect("a new start has the socket");
        assert_eq!(Connection::over_unix(stream).get("/a.txt").text(), "content");
        assert_eq!(again.stop(), 0);
    }
}

/// A client of the first program of a line, who does not read the large answer that he has asked for.
fn owed(case: &Case) -> Connection {
    let mut client = case.line.first.connect();
    client.send(head("GET", "/large", &[]));
    // The first bytes have come, so a worker has it.
    let mut byte = [0];
    client.stream().peek(&mut byte).expect("the beginning");
    client
}

/// The new program has the sockets, and dies before it serves. Nobody notices.
fn a_new_one_that_dies_before_it_serves_is_not_missed(strategy: Strategy, rights: Rights) {
    let Some(case) = Case::start(strategy, rights) else {
        return;
    };
    let old = case.line.newest;
    let mut kept = [case.line.first.connect(), case.connect_unix()];
    under_load(case.line.first.address, "content", |answered| {
        for attempts in 1..=2 {
            signal(old, "USR2");
            let held = case.gate.hold();
            let new = started_by_first(&case.line);
            assert!(case.gate.processes().contains(&new));
            signal(new, "KILL");
            eventually("the complaint", || {
                let said = case.line.first.stderr();
                (said.matches("not upgraded, this process keeps serving").count() == attempts).then_some(())
            });
            drop(held);
            assert!(!case.gate.processes().contains(&new));
            more(answered, 50);
            case.serves();
        }
        for client in &mut kept {
            let answer = client.get("/a.txt");
            assert_eq!(answer.text(), "content");
            assert!(!answer.closes());
        }
    });
    drop(kept);
    case.goes_on(strategy);
}

/// The old program dies while the new one starts. Whoever connects waits for that, and is not refused.
fn an_old_one_that_dies_before_it_is_followed_leaves_the_sockets(strategy: Strategy, rights: Rights) {
    let Some(mut case) = Case::start(strategy, rights) else {
        return;
    };
    let mut owed = owed(&case);
    case.line.first.signal("USR2");
    let held = case.gate.hold();
    let new = started_by_first(&case.line);
    case.line.first.signal("KILL");
    within(ENDING, "it is dead", || case.line.first.has_ended());
    let waiting = case.ask_everywhere();
    case.gate.pass(held);
    case.line.newest = pid_of(&case.line.next_start());
    assert_eq!(case.line.newest, new);
    for mut client in waiting {
        assert_eq!(client.receive("GET").text(), "content");
    }
    // Worker processes finish what they have begun.
    if strategy.is_of_processes() {
        assert!(owed.receive("GET").body.len() == LARGE);
    }
    drop(owed);
    case.gate.only(new);
    case.goes_on(strategy);
}

/// The old program dies while it finishes its responses. Who has a connection to the new one does not notice.
fn an_old_one_that_dies_after_it_was_followed_is_not_missed(strategy: Strategy, rights: Rights) {
    let Some(mut case) = Case::start(strategy, rights) else {
        return;
    };
    let mut owed = owed(&case);
    case.gate.set(&text("second", &case.socket));
    follow(&mut case.line, &case.gate);
    // Until its workers are told, the old one still takes some.
    let of_new = |connect: &dyn Fn() -> Connection| {
        eventually("a connection to the new one", || {
            let mut client = connect();
            let answer = client.get("/a.txt");
            (answer.field("x-program") == Some("second")).then_some(client)
        })
    };
    let mut kept = [
        of_new(&|| case.line.first.connect()),
        of_new(&|| case.connect_unix()),
    ];
    case.line.first.signal("KILL");
    within(ENDING, "it is dead", || case.line.first.has_ended());
    under_load(case.line.first.address, "content", |answered| more(answered, 50));
    for client in &mut kept {
        let answer = client.get("/a.txt");
        assert_eq!(answer.text(), "content");
    }
    if strategy.is_of_processes() {
        assert!(owed.receive("GET").body.len() == LARGE);
    }
    drop((owed, kept));
    case.gate.only(case.line.newest);
    case.goes_on(strategy);
}

/// The new program dies after it has served. Clients of the Unix socket wait until another is started, and the file stays.
fn a_new_one_that_dies_after_it_served_is_replaced(strategy: Strategy, rights: Rights) {
    let Some(mut case) = Case::start(strategy, rights) else {
        return;
    };
    let mut owed = owed(&case);
    follow(&mut case.line, &case.gate);
    for crashes in 1..=2 {
        crash(&case.line, crashes);
        case.gate.only(case.line.first.pid());
        let mut waiting = case.connect_unix();
        waiting.send(head("GET", "/a.txt", &[]));
        let text = format!("unix:{}", case.socket.display());
        let anew = Launch::file(env!("CARGO_BIN_EXE_weir").as_ref()).args(["--listen", &text]);
        let (code, why) = anew.fail();
        assert!(code != 0 && why.contains("stop the program"), "{why}");
        case.line.first.signal("USR2");
        case.gate.open();
        case.line.newest = pid_of(&case.line.next_start());
        assert_eq!(waiting.receive("GET").text(), "content");
        let said = format!("started again: process {} serves", case.line.newest);
        eventually("the old one knows", || {
            case.line.first.stderr().contains(&said).then_some(())
        });
        case.serves();
    }
    assert!(owed.receive("GET").body.len() == LARGE);
    drop(owed);
    let status = within(ENDING, "the old one ends", || case.line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", case.line.first.stderr());
    case.gate.only(case.line.newest);
    case.goes_on(strategy);
}

/// Sockets of a service manager: whoever dies, their clients wait for the next program.
fn sockets_of_a_service_manager_outlive_every_program(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "content")]);
    tree.write("site/large", vec![b'x'; LARGE]);
    let gate = Gate::new(&tree, "root = 'site'\ngrace = '1h'\n");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("an address");
    let start = "exec 3<&0 </dev/null && export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web";
    let activate = || {
        let passed = OwnedFd::from(socket.try_clone().expect("a descriptor"));
        gate.start(Launch::wrapped(strategy, start).stdin(passed))
    };
    let ask = || {
        let mut client = Connection::open(address);
        client.send(head("GET", "/a.txt", &[]));
        client
    };
    // The kernel takes the ring of a killed process apart after its death, and until then the ring accepts connections.
    let answered = |mut client: Connection| {
        let answer = client.try_receive("GET");
        match answer {
            None if strategy.io == "uring" => ask().receive("GET"),
            answer => answer.expect("an answer"),
        }
    };
    let mut line = Line::of(activate());
    assert_eq!(line.first.address, address);
    // The new one, before it serves.
    line.first.signal("USR2");
    let held = gate.hold();
    signal(started_by_first(&line), "KILL");
    eventually("the complaint", || {
        line.first.stderr().contains("not upgraded").then_some(())
    });
    drop(held);
    assert_eq!(answered(ask()).text(), "content");
    // The new one, after it has served.
    let mut owed = line.first.connect();
    owed.send(head("GET", "/large", &[]));
    owed.stream().peek(&mut [0]).expect("the beginning");
    follow(&mut line, &gate);
    crash(&line, 1);
    gate.only(line.first.pid());
    let waiting = ask();
    line.first.signal("USR2");
    gate.open();
    line.newest = pid_of(&line.next_start());
    assert_eq!(answered(waiting).text(), "content");
    // The old one, and then the last.
    line.first.signal("KILL");
    within(ENDING, "it is dead", || line.first.has_ended());
    assert_eq!(answered(ask()).text(), "content");
    drop(owed);
    gate.only(line.newest);
    signal(line.newest, "KILL");
    within(ENDING, "all are gone", || {
        gate.processes().is_empty().then_some(())
    });
    let waiting = ask();
    let mut last = activate();
    assert_eq!(answered(waiting).text(), "content");
    assert_eq!(last.stop(), 0);
}

mod with_rights {
    use super::*;

    fn new_before(strategy: Strategy) {
        a_new_one_that_dies_before_it_serves_is_not_missed(strategy, Rights::Kept);
    }

    fn new_after(strategy: Strategy) {
        a_new_one_that_dies_after_it_served_is_replaced(strategy, Rights::Kept);
    }

    fn old_before(strategy: Strategy) {
        an_old_one_that_dies_before_it_is_followed_leaves_the_sockets(strategy, Rights::Kept);
    }

    fn old_after(strategy: Strategy) {
        an_old_one_that_dies_after_it_was_followed_is_not_missed(strategy, Rights::Kept);
    }

    on_every_strategy!(new_before, new_after, old_before, old_after);
}

mod with_dropped_rights {
    use super::*;
    use crate::serve::on_strategy;

    fn new_before(strategy: Strategy) {
        a_new_one_that_dies_before_it_serves_is_not_missed(strategy, Rights::Dropped);
    }

    fn new_after(strategy: Strategy) {
        a_new_one_that_dies_after_it_served_is_replaced(strategy, Rights::Dropped);
    }

    fn old_before(strategy: Strategy) {
        an_old_one_that_dies_before_it_is_followed_leaves_the_sockets(strategy, Rights::Dropped);
    }

    fn old_after(strategy: Strategy) {
        an_old_one_that_dies_after_it_was_followed_is_not_missed(strategy, Rights::Dropped);
    }

    on_strategy!(loops, LOOPS: new_before, new_after, old_before, old_after);
    on_strategy!(process_loops, PROCESS_LOOPS: new_before, new_after, old_before, old_after);
}

on_every_strategy!(sockets_of_a_service_manager_outlive_every_program);
