//! A place for real measurements: a temporary folder, and this program started in other roles.
//!
//! Decides which failures mean that the system refused, which a caller may accept. Measures nothing itself: results
//! come from the files of `weir load`.

use crate::failure::Failure;
use crate::voice::Voice;
use ::load::run::Run;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runtime::process::reexec::{Again, Running};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Exit code of a command that the system refused.
const REFUSED: i32 = 4;
/// Exit code of a run that cannot be trusted; its result is still written.
const INVALID: i32 = 3;

/// Waits at most ten seconds for the server to respond, then starts the load.
const NEAR: &str = "n=0; until \"$STAGE_WEIR\" fetch \"${STAGE_URL}healthz\" >/dev/null 2>&1 || [ $n -ge 200 ]; \
                    do n=$((n + 1)); sleep 0.05; done; exec \"$STAGE_WEIR\" load \"$STAGE_URL\" \"$@\"";
/// Shell command of the server. Its site may have no index, so its health is what the client waits for.
const FAR: &str = "exec \"$STAGE_WEIR\" serve \"$STAGE_SITE\" --health --quiet --listen 0.0.0.0:8080";

/// The temporary folder.
#[derive(Debug)]
pub(super) struct Stage {
    folder: tempfile::TempDir,
}

/// Outcome of an attempt.
#[derive(Debug)]
pub(super) enum Tried {
    /// A result.
    Done(Box<Run>),
    /// The system refused, with the reason.
    Refused(String),
}

impl Stage {
    pub(super) fn new() -> Result<Stage, Failure> {
        let folder = tempfile::Builder::new().prefix("weir-model-").tempdir();
        let folder = folder
            .map_err(|error| Failure::System(format!("cannot create a folder for the run: {error}")))?;
        let stage = Stage { folder };
        std::fs::create_dir(stage.site()).map_err(|error| refused(&stage.site(), &error))?;
        Ok(stage)
    }

    /// The folder that is served.
    pub(super) fn site(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    /// Writes a file below the stage's folder.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.folder.path().join(name);
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let written = opened.and_then(|mut file| file.write_all(content));
        written.map_err(|error| refused(&path, &error))?;
        Ok(path)
    }

    /// Serves the site at the far end of `link` and loads it from the near end with `weir load`.
    pub(super) fn over_link(&self, link: &str, load: &[String]) -> Result<Tried, Failure> {
        let out = self.folder.path().join("result.json");
        let weir = runtime::process::reexec::path()
            .map_err(|error| Failure::System(format!("cannot find the path of this program: {error}")))?;
        let words = [
            "--quiet", "link", link, "--far", FAR, "--", "sh", "-c", NEAR, "sh",
        ];
        let words = words.iter().map(|word| (*word).to_owned());
        let load = load.iter().cloned();
        let result = [
            "--quiet".to_owned(),
            "--out".to_owned(),
            out.display().to_string(),
        ];
        let again = Again::with(words.chain(load).chain(result))
            .variable("STAGE_WEIR", weir)
            .variable("STAGE_SITE", self.site())
            .variable("STAGE_URL", format!("http://{}:8080/", netem::GATEWAY));
        self.result_of(&again, &out)
    }

    /// Serves the site on the loopback with one worker until the result is dropped; also returns its URL.
    pub(super) fn serve(&self) -> Result<(Running, String), Failure> {
        let words = ["--json", "serve", "--listen", "127.0.0.1:0", "--workers", "1"].map(OsString::from);
        let again = Again::with(words.into_iter().chain([self.site().into_os_string()]));
        let (running, line) = again
            .start()
            .map_err(|error| Failure::System(format!("cannot start a server on the loopback: {error}")))?;
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        match told["listeners"][0]["url"].as_str() {
            Some(url) => Ok((running, url.to_owned())),
            None => Err(Failure::System(format!(
                "the server on the loopback printed no address: {}",
                line.trim()
            ))),
        }
    }

    /// Runs `weir load` against a running server.
    pub(super) fn load(&self, url: &str, load: &[String]) -> Result<Tried, Failure> {
        let out = self.folder.path().join("result.json");
        let words = ["load".to_owned(), url.to_owned(), "--quiet".to_owned()].into_iter();
        let load = load.iter().cloned();
        let result = ["--out".to_owned(), out.display().to_string()];
        self.result_of(&Again::with(words.chain(load).chain(result)), &out)
    }

    fn result_of(&self, again: &Again, out: &Path) -> Result<Tried, Failure> {
        let _ = std::fs::remove_file(out);
        let ran = again
            .run()
            .map_err(|error| Failure::System(format!("cannot start this program again: {error}")))?;
        let said = String::from_utf8_lossy(&ran.stderr);
        let why = said.lines().last().unwrap_or("no output");
        match ran.status.code() {
            Some(0 | INVALID) if out.exists() => {
                let first = crate::load::read(out)?.into_iter().next();
                let run = first.ok_or_else(|| Failure::System("the run wrote no result".to_owned()))?;
                Ok(Tried::Done(Box::new(run)))
            }
            Some(REFUSED) => Ok(Tried::Refused(why.trim_start_matches("error: ").to_owned())),
            _ => Err(Failure::System(format!(
                "a run of this program ended with {}: {why}",
                ran.status
            ))),
        }
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::System(format!("cannot write `{}`: {error}", path.display()))
}

/// A progress bar on a terminal: `steps` of `what`.
pub(super) fn progress(steps: usize, what: &str, voice: &Voice) -> ProgressBar {
    let target = if voice.reports() && !voice.json {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
    if let Ok(style) =
        ProgressStyle::with_template(&format!("{{bar:24}} {{pos}}/{{len}} {what}, {{eta}} left"))
    {
        bar.set_style(style);
    }
    bar.tick();
    bar
}
