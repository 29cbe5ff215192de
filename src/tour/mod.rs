//! `weir demo`: a site, a server, users and a memory squeeze on this machine, for a limited time, with nothing left
//! behind. Starts this binary three times and prints what the server recorded. Leaves all decisions to the server.
//!
//! ```text
//!   site ─▶ on the disk ─▶ server ─▶ users ─▶ squeeze ─▶ decisions ... ─▶ users end ─▶ summary
//! ```

mod squeeze;
mod story;

use crate::cli::demo::Flags;
use crate::failure::Failure;
use crate::output::print;
use crate::voice::Voice;
use runtime::clock;
use runtime::signal::{Signal, Signals};
use serde_json::{Value, json};
use server::adapt::Decided;
use squeeze::Group;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use story::Story;
use units::{Duration, Instant};

/// Time beyond its duration after which the load is killed.
const GRACE: Duration = Duration::from_secs(45);
/// Polling interval.
const EVERY: Duration = Duration::from_millis(200);
/// Time a server needs, at the least, to notice a squeeze: it samples once a second and ignores a single sample.
const NOTICE: Duration = Duration::from_secs(10);
/// Time limit for generating the site and for flushing it to the disk.
const MAKING: Duration = Duration::from_secs(120);
/// A site of 6,000 files and 167 MB with little temporal locality, and users with short think times. With more
/// locality, a quarter of the memory would be enough.
const SITE: [&str; 8] = [
    "--files",
    "6000",
    "--zipf-exponent",
    "0.6",
    "--stack-distance",
    "lognormal(6,1.5)",
    "--off-time",
    "pareto(1,1.4)@..60",
];

/// Runs the command.
///
/// # Errors
/// `Usage` for a squeeze too late to be noticed, `Failed` if the server decided nothing or could not serve the users,
/// `System` if something cannot be created or started.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    if flags.duration < flags.squeeze + NOTICE {
        return Err(Failure::Usage(format!(
            "the users end after {:.0} s: a squeeze after {:.0} s could not be noticed: that takes {:.0} s; \
             give a longer --duration or an earlier --squeeze",
            flags.duration.as_secs_f64(),
            flags.squeeze.as_secs_f64(),
            NOTICE.as_secs_f64()
        )));
    }
    let mut signals = Signals::take_over()
        .map_err(|error| Failure::System(format!("cannot install signal handlers: {error}")))?;
    let folder = Folder::make()?;
    let group = Group::make(&folder.0);
    if let Err(why) = &group {
        let text = format!("no memory squeeze, the server may decide nothing: {why}");
        say(voice, &text, "no-squeeze", why)?;
    }
    // Dropped in reverse order: users, server, group, files.
    let show = Show {
        flags,
        voice,
        folder: &folder.0,
        group: group.as_ref().map_err(String::as_str),
        weir: runtime::process::reexec::path()
            .map_err(|error| Failure::System(format!("cannot find the path of this program: {error}")))?,
    };
    show.make_site(&mut signals)?;
    let (mut server, url) = show.start_server()?;
    let text = format!("live page: {url}.weir/");
    say(voice, &text, "started", &url)?;
    let outcome = show.watch(&url, &mut signals);
    // SIGTERM lets the server end its workers; any left are killed with the group.
    server.ask_to_end(&mut signals);
    outcome
}

struct Show<'a> {
    flags: &'a Flags,
    voice: &'a Voice,
    folder: &'a Path,
    group: Result<&'a Group, &'a str>,
    weir: PathBuf,
}

impl Show<'_> {
    fn within(&self) -> Command {
        match self.group {
            Ok(group) => group.command(&self.weir),
            Err(_) => Command::new(&self.weir),
        }
    }

    fn site(&self) -> PathBuf {
        self.folder.join("site")
    }

    /// The server's own authority, with `--https`.
    fn tls_state(&self) -> Option<PathBuf> {
        self.flags.https.then(|| self.folder.join("tls"))
    }

    fn recording(&self) -> PathBuf {
        self.folder.join("sensors.jsonl")
    }

    fn make_site(&self, signals: &mut Signals) -> Result<(), Failure> {
        let mut made = start(
            self.within()
                .args(["site", "surge", "-q"])
                .arg(self.site())
                .args(SITE)
                .stdout(Stdio::null()),
        )?;
        await_end(&mut made, signals, "the site was not written")?;
        // Pages that are not on the disk yet cannot be evicted from memory.
        let mut kept = start(Command::new("sync").arg("-f").arg(self.folder))?;
        await_end(&mut kept, signals, "the site was not flushed to the disk")
    }

    /// Starts the server and returns its URL. One process per connection, as document 000 measured: there an idle
    /// connection costs memory.
    fn start_server(&self) -> Result<(Ours, String), Failure> {
        let mut server = start(
            self.within()
                .args(["--json", "-q", "serve"])
                .arg(self.site())
                .args([
                    "--listen",
                    &self.flags.listen.to_string(),
                    "--live",
                    "--grace",
                    "1s",
                ])
                // Users accept no codings, and decisions about compression would distract.
                .arg("--compress=false")
                .args(["--concurrency", "processes", "--workers"])
                .arg((2 * self.flags.users).to_string())
                .arg("--record")
                .arg(self.recording())
                .args(self.tls_state().map(|_| "--tls=internal"))
                .args(self.tls_state().map(|folder| option("--tls-state", &folder)))
                .stdout(Stdio::piped()),
        )?;
        let url = address(&mut server)?;
        Ok((server, url))
    }

    fn start_users(&self, url: &str) -> Result<Ours, Failure> {
        let result = create(&self.folder.join("result"))?;
        start(
            Command::new(&self.weir)
                .args(["--json", "-q", "load", url, "--site"])
                .arg(self.site())
                .args(["--users", &self.flags.users.to_string(), "--mode", "serial"])
                .args(["--duration", &format!("{}ms", self.flags.duration.as_millis())])
                .args(["--stagger", "10ms", "--timeout", "30s", "--lag-max", "1s"])
                .args(
                    self.tls_state()
                        .map(|folder| option("--ca", &folder.join("internal/root.pem"))),
                )
                .stdout(result),
        )
    }

    /// Waits for the users to end; starts the squeeze and prints decisions meanwhile.
    fn watch(&self, url: &str, signals: &mut Signals) -> Result<(), Failure> {
        let mut users = self.start_users(url)?;
        let mut story = Story::of(self.recording());
        let began = clock::now();
        let mut is_squeezed = false;
        loop {
            for decided in story.follow() {
                tell(self.voice, &decided)?;
            }
            if !matches!(users.0.try_wait(), Ok(None)) {
                return self.end(&story);
            }
            let signal = signals
                .wait(Some(EVERY))
                .map_err(|error| Failure::System(format!("cannot wait: {error}")))?;
            let passed = clock::now().since(began);
            if signal == Some(Signal::Stop) {
                return say(self.voice, "stopped", "stopped", "");
            }
            if passed > self.flags.duration + GRACE {
                return Err(Failure::Failed(format!(
                    "the load did not end within {:.0} s after its duration",
                    GRACE.as_secs_f64()
                )));
            }
            if !is_squeezed && passed >= self.flags.squeeze {
                is_squeezed = true;
                if let Ok(group) = self.group {
                    match group.squeeze(self.flags.users) {
                        Ok(squeezed) => {
                            story.squeezed();
                            let text = squeezed.words();
                            say(self.voice, &text, "squeeze", &text)?;
                        }
                        Err(why) => say(
                            self.voice,
                            &format!("no memory squeeze: {why}"),
                            "no-squeeze",
                            &why,
                        )?,
                    }
                }
            }
        }
    }

    /// Prints the summary and judges the outcome.
    fn end(&self, story: &Story) -> Result<(), Failure> {
        let text = std::fs::read_to_string(self.folder.join("result")).unwrap_or_default();
        let result: Value = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .find(|line: &Value| line["event"] == "result")
            .unwrap_or_default();
        let files = result["files"].as_u64().unwrap_or(0);
        if files == 0 {
            return Err(Failure::Failed("the users could not be served".to_owned()));
        }
        let decided = story.decisions.len();
        if self.voice.json {
            print(&format!("{result}\n"))?;
            print(&format!(
                "{}\n",
                json!({ "event": "ended", "decisions": decided })
            ))?;
        } else if self.voice.reports() {
            let number = |value: &Value| value.as_f64().unwrap_or(0.0);
            print(&format!(
                "\n{}\n{files} files, {} failed; {:.1} ms on average, {}; {decided} decisions\n",
                story.table(),
                result["files_failed"],
                number(&result["response_ms"]["mean"]),
                result["response_ms"]["p99"].as_f64().map_or_else(
                    || "more than 1 % got no response".to_owned(),
                    |p99| format!("99 % within {p99:.0} ms")
                ),
            ))?;
        }
        match (decided, self.group) {
            (1.., _) => Ok(()),
            (0, Ok(_)) => Err(Failure::Failed(
                "nothing was decided: the connections caused no memory pressure; try more --users or a longer --duration"
                    .to_owned(),
            )),
            (0, Err(why)) => Err(Failure::Failed(format!(
                "nothing was decided: memory could not be squeezed: {why}"
            ))),
        }
    }
}

/// A child process, killed when dropped.
struct Ours(Child);

impl Ours {
    /// Sends SIGTERM, then waits for a while.
    fn ask_to_end(&mut self, signals: &mut Signals) {
        // If `kill` fails, the drop kills the process.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        for _ in 0..25 {
            if !matches!(self.0.try_wait(), Ok(None)) || signals.wait(Some(EVERY)).is_err() {
                return;
            }
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    /// Creates the directory on a disk if possible: files of an in-memory file system are never evicted.
    fn make() -> Result<Folder, Failure> {
        let places = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let is_on_disk = |place: &&PathBuf| place.is_dir() && !is_in_memory(place, &mounts);
        let place = places.iter().find(is_on_disk).unwrap_or(&places[0]);
        let path = place.join(format!("weir-demo-{}", std::process::id()));
        std::fs::create_dir(&path)
            .map_err(|error| Failure::System(format!("cannot create `{}`: {error}", path.display())))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all::<&Path>(&self.0);
    }
}

/// Whether a folder is on a tmpfs or ramfs, according to this list of mounts.
fn is_in_memory(folder: &Path, mounts: &str) -> bool {
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((Path::new(fields.next()?), fields.next()?))
    });
    mounted
        .filter(|(place, _)| folder.starts_with(place))
        // The deepest mount point wins; of two on the same folder, the later.
        .max_by_key(|(place, _)| place.as_os_str().len())
        .is_some_and(|(_, kind)| matches!(kind, "tmpfs" | "ramfs"))
}

/// A flag and its value, as one argument.
fn option(flag: &str, value: &Path) -> OsString {
    let mut text = OsString::from(flag);
    text.push("=");
    text.push(value);
    text
}

fn start(command: &mut Command) -> Result<Ours, Failure> {
    command
        .stdin(Stdio::null())
        .spawn()
        .map(Ours)
        .map_err(|error| Failure::System(format!("cannot start this program again: {error}")))
}

#[allow(
    clippy::disallowed_methods,
    reason = "the folder is this command's own, and its child writes there"
)]
fn create(path: &Path) -> Result<std::fs::File, Failure> {
    std::fs::File::create(path)
        .map_err(|error| Failure::System(format!("cannot create `{}`: {error}", path.display())))
}

fn await_end(child: &mut Ours, signals: &mut Signals, what: &str) -> Result<(), Failure> {
    let began: Instant = clock::now();
    loop {
        match child.0.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) => return Err(Failure::System(what.to_owned())),
            _ => {}
        }
        let signal = signals
            .wait(Some(EVERY))
            .map_err(|error| Failure::System(format!("cannot wait: {error}")))?;
        if signal == Some(Signal::Stop) || clock::now().since(began) > MAKING {
            return Err(Failure::System(format!("{what} in time")));
        }
    }
}

/// The URL of the server. Its further output is read and dropped, so that it never blocks on a full pipe.
fn address(server: &mut Ours) -> Result<String, Failure> {
    let refused = || Failure::System("the server did not start".to_owned());
    let mut output = BufReader::new(server.0.stdout.take().ok_or_else(refused)?);
    let mut line = String::new();
    output.read_line(&mut line).map_err(|_| refused())?;
    let started: Value = serde_json::from_str(&line).map_err(|_| refused())?;
    let url = started["listeners"][0]["url"]
        .as_str()
        .ok_or_else(refused)?
        .to_owned();
    let drop_rest = move || {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    };
    std::thread::Builder::new()
        .spawn(drop_rest)
        .map_err(|error| Failure::System(format!("cannot start a thread: {error}")))?;
    Ok(url)
}

fn tell(voice: &Voice, decided: &Decided) -> Result<(), Failure> {
    let decision = &decided.decision;
    if voice.json {
        return print(&format!(
            "{}\n",
            json!({ "event": "decided", "at-ms": decided.at_ms, "decision": decision })
        ));
    }
    match voice.reports() {
        true => print(&format!(
            "decided: {} from {} to {}\n  {}\n",
            decision.knob.name(),
            decision.from,
            decision.to,
            decision.why
        )),
        false => Ok(()),
    }
}

fn say(voice: &Voice, text: &str, event: &str, what: &str) -> Result<(), Failure> {
    if voice.json {
        return print(&format!("{}\n", json!({ "event": event, "what": what })));
    }
    match voice.reports() {
        true => print(&format!("{text}\n")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_in_memory_is_no_disk() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/disk xfs rw 0 0\n";
        for (folder, is) in [
            ("/tmp", true),
            ("/tmp/x", true),
            ("/tmp/disk/x", false),
            ("/var/tmp", false),
        ] {
            assert_eq!(is_in_memory(Path::new(folder), mounts), is, "{folder}");
        }
        assert!(!is_in_memory(Path::new("/tmp"), ""));
    }
}
