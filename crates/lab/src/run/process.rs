//! Child processes: started, read, waited for with a time limit, and always ended. Decides when a server is ready and
//! when a command has taken too long.

use super::peer;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Limit on the kept output of a program, in bytes.
const OUTPUT_MAX: u64 = 64 << 20;
/// Limit on the kept errors of a program, in bytes.
const ERRORS_MAX: u64 = 64 << 10;

/// Output of a program.
pub(super) struct Said {
    pub(super) code: Option<i32>,
    pub(super) output: String,
    errors: String,
    command: String,
}

impl Said {
    /// Command, exit code and last error line.
    pub(super) fn why(&self) -> String {
        let code = self
            .code
            .map_or("a signal".to_owned(), |code| format!("exit code {code}"));
        format!("`{}`: {code}: {}", self.command, self.last_words())
    }

    /// The last two lines of its errors.
    pub(super) fn last_words(&self) -> String {
        let mut last: Vec<&str> = self
            .errors
            .lines()
            .rev()
            .filter(|line| !line.trim().is_empty())
            .take(2)
            .collect();
        last.reverse();
        last.join(" ")
    }
}

/// A command that receives this signal when this process dies, where the system supports it. The words of `before`
/// set up its conditions and then exec it.
fn command(before: &[String], program: &Path, signal: &str) -> Command {
    let mut words: Vec<std::ffi::OsString> = Vec::new();
    if let Some(setpriv) = peer::program("setpriv") {
        words.push(setpriv.into());
        words.extend(["--pdeathsig", signal, "--"].map(Into::into));
    }
    words.extend(before.iter().map(Into::into));
    words.push(program.into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// A program that runs beside others, killed when dropped.
pub(super) struct Beside(Child);

impl Beside {
    /// Starts it; its output is dropped.
    pub(super) fn start(before: &[String], program: &Path, words: &[String]) -> Result<Beside, String> {
        command(before, program, "KILL")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Beside)
            .map_err(|error| format!("cannot start {}: {error}", program.display()))
    }

    /// Its exit status, if it has failed.
    pub(super) fn refusal(&mut self) -> Option<String> {
        let status = self.0.try_wait().ok()??;
        (!status.success()).then(|| format!("it ended early, with {status}"))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end, or kills it after `seconds_max`.
pub(super) fn run(
    before: &[String],
    program: &Path,
    words: &[String],
    seconds_max: f64,
) -> Result<Said, String> {
    let shown = format!("weir {}", words.join(" "));
    let mut child = command(before, program, "KILL")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let output = drain(child.stdout.take(), OUTPUT_MAX);
    let errors = drain(child.stderr.take(), ERRORS_MAX);
    let patience = Duration::from_secs_f64(seconds_max);
    let Ok(output) = output.recv_timeout(patience) else {
        // It may have ended by itself meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("`{shown}` took longer than {seconds_max:.0} s"));
    };
    let errors = errors.recv_timeout(patience).unwrap_or_default();
    let status = child.wait().map_err(|error| format!("`{shown}`: {error}"))?;
    Ok(Said {
        code: status.code(),
        output,
        errors,
        command: shown,
    })
}

/// Reads a pipe to its end on a thread; bytes beyond `bytes_max` are dropped.
fn drain(pipe: Option<impl Read + Send + 'static>, bytes_max: u64) -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::channel();
    let read = move || {
        let mut kept = Vec::new();
        if let Some(pipe) = pipe {
            let mut bounded = pipe.take(bytes_max);
            let _ = bounded.read_to_end(&mut kept);
            let _ = std::io::copy(&mut bounded.into_inner(), &mut std::io::sink());
        }
        // The receiver may be gone.
        let _ = tell.send(String::from_utf8_lossy(&kept).into_owned());
    };
    // Without a thread the channel closes, which the receiver treats as the end.
    let _ = std::thread::Builder::new().spawn(read);
    told
}

/// A server, stopped when dropped.
pub(super) struct Server {
    child: Child,
    /// The command that ends a forking server and its process group.
    stop: Option<Vec<String>>,
    pub(super) port: u16,
    pub(super) command: Vec<String>,
}

/// Environment of a server.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) weir: &'p Path,
    /// Document root.
    pub(super) root: &'p Path,
    /// Directory for its files.
    pub(super) scratch: &'p Path,
    pub(super) is_root: bool,
    /// See [`command`].
    pub(super) before: &'p [String],
}

impl Server {
    /// Starts `weir` with these words, or another server of this machine, and waits until it responds.
    pub(super) fn start(place: Place<'_>, words: &[String]) -> Result<Server, String> {
        if peer::is_known(&words[0]) {
            return Server::peer(place, words);
        }
        let mut full = words.to_vec();
        full.extend(["--listen", "127.0.0.1:0", "--json"].map(str::to_owned));
        let mut child = command(place.before, place.weir, "KILL")
            .args(&full)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start the server: {error}"))?;
        let (tell, told) = mpsc::channel();
        let pipe = child.stdout.take();
        let listen = move || {
            let Some(pipe) = pipe else { return };
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            let _ = pipe.read_line(&mut line);
            let _ = tell.send(line);
            // A server whose log pipe is closed would fail to log.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        };
        let _ = std::thread::Builder::new().spawn(listen);
        let line = told.recv_timeout(Duration::from_secs(30)).unwrap_or_default();
        let started: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let address = started["listeners"][0]["address"].as_str().unwrap_or_default();
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let mut server = Server {
            child,
            stop: None,
            port: 0,
            command: [vec!["weir".to_owned()], full.clone()].concat(),
        };
        match port {
            Some(port) => server.port = port,
            None => {
                return Err(format!(
                    "`weir {}` did not say where it listens: {}",
                    full.join(" "),
                    line.trim()
                ));
            }
        }
        Ok(server)
    }

    fn peer(place: Place<'_>, words: &[String]) -> Result<Server, String> {
        let name = &words[0];
        let (start, directives) = match words {
            [_, start, directives @ ..] if directives.is_empty() || name.starts_with("apache") => (
                Some(
                    start
                        .parse()
                        .map_err(|_| format!("`{start}` is no number of processes to begin with"))?,
                ),
                directives,
            ),
            [_, ..] if words.len() > 1 => return Err(format!("only Apache takes directives, not {name}")),
            _ => (None, &[][..]),
        };
        let port = peer::free_port()?;
        let mut peer = peer::prepare(name, start, port, place.root, place.scratch, place.is_root)?;
        // Read after the file, as if they were its last lines.
        let after = |directive: &String| ["-c".to_owned(), directive.clone()];
        peer.words.extend(directives.iter().flat_map(after));
        // Apache signals its whole process group, so it must not share ours; and only a signal that it can handle
        // lets it end its children.
        let child = command(place.before, &peer.program, "TERM")
            .process_group(0)
            .args(&peer.words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        let shown = [vec![peer.program.display().to_string()], peer.words.clone()].concat();
        let server = Server {
            child,
            stop: peer.stop,
            port,
            command: shown,
        };
        let ask = [
            "fetch",
            &server.url(),
            "--no-embedded",
            "--timeout",
            "2s",
            "--json",
        ]
        .map(str::to_owned);
        for _ in 0..50 {
            let answers = run(&[], place.weir, &ask, 10.0).is_ok_and(|said| {
                let line = said.output.lines().next().unwrap_or_default();
                let fetched: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
                // Any status will do: a site need not have a page at its root.
                fetched["objects"][0]["status"].is_u64()
            });
            if answers {
                return Ok(server);
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        let log = fs::read_to_string(place.scratch.join("error.log")).unwrap_or_default();
        Err(format!(
            "{name} does not answer: {}",
            log.lines().last().unwrap_or("it says nothing")
        ))
    }

    /// Process ID of the server, or of its first process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((program, words)) = self.stop.as_ref().and_then(|stop| stop.split_first()) {
            let _ = Command::new(program)
                .args(words)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            for _ in 0..30 {
                if matches!(self.child.try_wait(), Ok(Some(_))) {
                    return;
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
        }
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory, removed when dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Removes directories left by killed processes.
    pub(super) fn sweep(out: &Path) {
        for entry in fs::read_dir(out).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name
                .strip_prefix("scratch-")
                .and_then(|rest| rest.split('-').next());
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // The next call tries again.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    pub(super) fn new(out: &Path) -> Result<Scratch, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = out.join(format!("scratch-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        path.canonicalize()
            .map(Scratch)
            .map_err(|error| error.to_string())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover directory has a name that shows its owner.
        let _ = fs::remove_dir_all(&self.0);
    }
}
