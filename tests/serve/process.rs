//! Starts the built binary, learns its address from what it prints, and makes sure that it is gone
//! afterwards. Decides nothing about HTTP.

use crate::serve::wire::Connection;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing here takes this long unless it is broken, on a machine that is busy with other work as well. A bound for what
/// hangs: a test that is about a shorter time says which.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A way to spread connections over threads and to move bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strategy {
    pub(crate) concurrency: &'static str,
    pub(crate) io: &'static str,
    /// Workers that suit it on a small machine: a blocking worker holds one connection at a time.
    pub(crate) workers: usize,
}

impl Strategy {
    pub(crate) const LOOPS: Strategy = Strategy {
        concurrency: "loops",
        io: "epoll",
        workers: 2,
    };
    pub(crate) const ONE_LOOP: Strategy = Strategy {
        concurrency: "loop",
        io: "epoll",
        workers: 1,
    };
    pub(crate) const PROCESS_LOOPS: Strategy = Strategy {
        concurrency: "process-loops",
        io: "epoll",
        workers: 2,
    };
    pub(crate) const LOOPS_URING: Strategy = Strategy {
        io: "uring",
        ..Strategy::LOOPS
    };
    pub(crate) const ONE_LOOP_URING: Strategy = Strategy {
        io: "uring",
        ..Strategy::ONE_LOOP
    };
    pub(crate) const POOL: Strategy = Strategy {
        concurrency: "pool",
        io: "blocking",
        workers: 24,
    };
    pub(crate) const PER_CONNECTION: Strategy = Strategy {
        concurrency: "thread-per-connection",
        io: "blocking",
        workers: 24,
    };
    pub(crate) const PER_REQUEST: Strategy = Strategy {
        concurrency: "thread-per-request",
        io: "blocking",
        workers: 24,
    };
    pub(crate) const PROCESSES: Strategy = Strategy {
        concurrency: "processes",
        io: "blocking",
        workers: 24,
    };

    /// Whether connections are with processes that the started one makes.
    pub(crate) fn is_of_processes(self) -> bool {
        self.concurrency.starts_with("process")
    }

    /// Whether processes come and go with the load.
    pub(crate) fn grows(self) -> bool {
        self.concurrency == "processes"
    }

    /// Whether this machine lets it be; prints why if not. A server that is refused io_uring uses epoll,
    /// which other tests look at already.
    pub(crate) fn is_possible(self) -> bool {
        static REFUSED: OnceLock<Option<String>> = OnceLock::new();
        if self.io != "uring" {
            return true;
        }
        let refused = REFUSED.get_or_init(|| {
            let listener = &Launch::new(Strategy::LOOPS_URING).start().started["listeners"][0];
            (listener["io"] != "uring").then(|| listener["why"].to_string())
        });
        match refused {
            Some(why) => {
                println!("skipped: {why}");
                false
            }
            None => true,
        }
    }
}

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    /// The first address it listens on.
    pub(crate) address: SocketAddr,
    /// The start-up line of `--json`.
    pub(crate) started: Value,
    stderr: Arc<Mutex<String>>,
    stdout: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

/// `weir serve` with everything a test wants, before it starts.
pub(crate) struct Launch {
    command: Command,
    stdin: Stdio,
    stderr: Option<Stdio>,
}

impl Launch {
    /// `weir serve` of this strategy on a free port of loopback. Add a root and flags with `args`.
    pub(crate) fn new(strategy: Strategy) -> Launch {
        Launch::wrapped(strategy, "")
    }

    /// `weir serve` on a free port of loopback, with nothing said of its strategy.
    pub(crate) fn bare() -> Launch {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]);
        Launch {
            command,
            stdin: Stdio::null(),
            stderr: None,
        }
    }

    /// The same, started by a shell after `before` (`ulimit -n 64`, say).
    pub(crate) fn wrapped(strategy: Strategy, before: &str) -> Launch {
        let binary = env!("CARGO_BIN_EXE_weir");
        let mut command = if before.is_empty() {
            Command::new(binary)
        } else {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{before} && exec \"$0\" \"$@\""), binary]);
            shell
        };
        command
            .args(["serve", "--json", "--listen", "127.0.0.1:0"])
            .args(["--concurrency", strategy.concurrency, "--io", strategy.io])
            .args(["--workers", &strategy.workers.to_string()]);
        Launch {
            command,
            stdin: Stdio::null(),
            stderr: None,
        }
    }

    /// `weir serve` of this strategy at this address.
    pub(crate) fn at(strategy: Strategy, address: &str) -> Launch {
        Launch::file(env!("CARGO_BIN_EXE_weir").as_ref())
            .args(["--listen", address])
            .args(["--concurrency", strategy.concurrency, "--io", strategy.io])
            .args(["--workers", &strategy.workers.to_string()])
    }

    /// `weir serve` started as this file, of whatever strategy its configuration says.
    pub(crate) fn file(binary: &Path) -> Launch {
        let mut command = Command::new(binary);
        command.args(["serve", "--json"]);
        Launch {
            command,
            stdin: Stdio::null(),
            stderr: None,
        }
    }

    /// Lets everybody execute a file.
    pub(crate) fn executable(file: &Path) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    }

    /// With this as its standard input.
    pub(crate) fn stdin(mut self, stdin: impl Into<Stdio>) -> Launch {
        self.stdin = stdin.into();
        self
    }

    /// With this as its standard error, which the test then does not read.
    pub(crate) fn stderr(mut self, stderr: impl Into<Stdio>) -> Launch {
        self.stderr = Some(stderr.into());
        self
    }

    pub(crate) fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Launch {
        self.command.args(args);
        self
    }

    pub(crate) fn root(self, root: &Path) -> Launch {
        self.args([root])
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Launch {
        self.command.env(name, value);
        self
    }

    /// Starts it and waits for its start-up line.
    pub(crate) fn start(mut self) -> Server {
        let mut child = self
            .command
            .env("NO_COLOR", "1")
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .stderr(self.stderr.unwrap_or_else(Stdio::piped))
            .spawn()
            .expect("the binary cargo just built");
        // It holds a copy of what the child has, and a pipe ends with its last holder.
        drop(self.command);
        let stderr = Arc::new(Mutex::new(String::new()));
        let stdout = Arc::new(Mutex::new(String::new()));
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let err = child.stderr.take();
        let mut readers: Vec<_> = err
            .map(|err| collect(err, Arc::clone(&stderr)))
            .into_iter()
            .collect();
        let mut line = String::new();
        out.read_line(&mut line).expect("the start-up line");
        let Ok(started) = serde_json::from_str::<Value>(&line) else {
            let status = child.wait();
            for reader in readers {
                reader.join().expect("a reader of stderr");
            }
            panic!(
                "no start-up line but `{line}`; {status:?}; stderr: {}",
                stderr.lock().expect("no reader panics")
            );
        };
        readers.push(collect(out, Arc::clone(&stdout)));
        let address = started["listeners"][0]["address"]
            .as_str()
            .and_then(|text| match text.strip_prefix("unix:") {
                // Tests of Unix sockets connect by path.
                Some(_) => Some(SocketAddr::from(([0; 4], 0))),
                None => text.parse().ok(),
            })
            .unwrap_or_else(|| panic!("no listeners[0].address in {started}"));
        Server {
            child,
            address,
            started,
            stderr,
            stdout,
            readers,
        }
    }

    /// Runs it where it is expected not to stay: its exit status and what it printed.
    pub(crate) fn fail(mut self) -> (i32, String) {
        let output = self
            .command
            .stdin(Stdio::null())
            .output()
            .expect("the binary cargo just built");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().expect("an exit code"), printed)
    }
}

/// Reads a stream to its end on its own thread, so that the server never blocks on a full pipe.
fn collect(mut from: impl Read + Send + 'static, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            into.lock()
                .expect("no reader panics")
                .push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    })
}

impl Server {
    /// A server of `root` with nothing else said.
    pub(crate) fn of(strategy: Strategy, root: &Path) -> Server {
        Launch::new(strategy).root(root).start()
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// It and the processes it made.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let pid = self.pid();
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        std::iter::once(pid).chain(children).collect()
    }

    /// What it printed to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("no reader panics").clone()
    }

    /// What it printed to standard output after the start-up line.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().expect("no reader panics").clone()
    }

    /// Sends a signal by name (`TERM`, `HUP`).
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Whether it ended already.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child")
    }

    /// Waits for it to end by itself; everything it printed is collected when this returns.
    pub(crate) fn wait(&mut self) -> i32 {
        let status = eventually("the server ends", || {
            self.child.try_wait().expect("our own child")
        });
        for reader in self.readers.drain(..) {
            reader.join().expect("readers do not panic");
        }
        status.code().unwrap_or(-1)
    }

    /// SIGTERM and its exit code.
    pub(crate) fn stop(&mut self) -> i32 {
        self.signal("TERM");
        self.wait()
    }

    /// A count from `/proc`: open descriptors of its processes.
    pub(crate) fn descriptors(&self) -> usize {
        let of = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        self.pids().into_iter().map(of).sum()
    }

    /// Processor time its processes used so far.
    pub(crate) fn cpu(&self) -> Duration {
        self.pids().into_iter().map(cpu).sum()
    }
}

fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- stderr of the server:\n{}", self.stderr());
        }
    }
}

/// Sends a signal by name to a process.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status()
        .expect("kill(1)");
    assert!(status.success(), "kill -{name} {pid}");
}

/// Asks again and again until there is an answer; the one place where tests wait for a condition.
pub(crate) fn eventually<T>(what: &str, answer: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, answer)
}

/// The same with a bound that is part of the promise under test. It is held against the time at which was asked: how long
/// an answer took says how busy the machine is.
pub(crate) fn within<T>(bound: Duration, what: &str, answer: impl FnMut() -> Option<T>) -> T {
    within_or(bound, answer, || what.to_owned())
}

/// The same with words that are found when the time is over, such as the end of a log.
pub(crate) fn within_or<T>(
    bound: Duration,
    mut answer: impl FnMut() -> Option<T>,
    missing: impl Fn() -> String,
) -> T {
    let began = Instant::now();
    loop {
        let asked = began.elapsed();
        if let Some(found) = answer() {
            return found;
        }
        assert!(asked < bound, "not within {bound:?}: {}", missing());
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
