//! A Chromium without a window: finds and starts it, carries the dialog, and ends it. Decides the command line; `dialog` decides
//! what is said.

use super::dialog::{Dialog, Ending, Patience};
use super::messages::{Decoder, command as message};
use crate::failure::Failure;
use runtime::clock;
use runtime::process::piped::{Heard, Piped};
use runtime::process::privilege;
use runtime::signal::{Signal, Signals};
use serde_json::json;
use server::config::show_duration;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use units::{Duration, Instant};

/// Programs to try, in this order.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];
/// Time for a browser to end by itself when it is told to.
const GOODBYE: Duration = Duration::from_secs(5);
/// How often signals and the browser's standard error are looked at while it is silent.
const LOOK: Duration = Duration::from_millis(100);
const CHUNK: usize = 64 << 10;

/// Requests of the browser itself, and what needs a window or takes time at the first start, are switched off.
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--disable-dev-shm-usage",
];

/// What to start.
pub(super) struct Start<'a> {
    /// The user's program, in place of those that are tried.
    pub(super) program: Option<&'a Path>,
    /// Folder for the profile, which is new.
    pub(super) profile: &'a Path,
    /// File for the secrets of TLS and QUIC.
    pub(super) keys: &'a Path,
    pub(super) is_insecure: bool,
    /// Further arguments.
    pub(super) arguments: &'a [OsString],
}

/// A browser that runs.
struct Browser {
    name: String,
    piped: Piped,
}

/// Makes the visit. The dialog holds the requests and how it ended.
///
/// # Errors
/// `Usage` if there is no browser, `Failed` if it cannot make the visit.
pub(super) fn visit(start: &Start<'_>, url: &str, patience: Patience) -> Result<Dialog, Failure> {
    let mut signals = Signals::take_over().map_err(|error| system("handling signals", &error))?;
    let mut browser = Browser::start(start)?;
    let readable = browser.piped.readable();
    signals.watch(readable.map_err(|error| system("watching the browser", &error))?);
    let mut dialog = Dialog::new(url.to_owned(), patience, clock::now());
    let told = browser.attend(&mut dialog, &mut signals);
    match told {
        Ok(()) => {
            browser.end();
            Ok(dialog)
        }
        Err(why) => Err(browser.blamed(&why)),
    }
}

fn system(step: &str, error: &io::Error) -> Failure {
    Failure::System(format!("{step}: {error}"))
}

impl Browser {
    fn start(start: &Start<'_>) -> Result<Browser, Failure> {
        let names: Vec<&Path> = match start.program {
            Some(program) => vec![program],
            None => NAMES.iter().map(Path::new).collect(),
        };
        for name in &names {
            match Piped::start(command(name, start)) {
                Ok(piped) => {
                    let name = name.display().to_string();
                    return Ok(Browser { name, piped });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Failure::Usage(format!(
                        "cannot start the browser `{}`: {error}; name an executable file with --browser",
                        name.display()
                    )));
                }
            }
        }
        let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.display())).collect();
        Err(Failure::Usage(format!(
            "there is no browser {}; install Chromium, or name its program with --browser",
            names.join(", ")
        )))
    }

    /// Carries messages until the visit is over.
    ///
    /// # Errors
    /// Why there is no visit.
    fn attend(&mut self, dialog: &mut Dialog, signals: &mut Signals) -> Result<(), String> {
        let mut decoder = Decoder::default();
        let mut messages = Vec::new();
        let mut chunk = vec![0; CHUNK];
        while dialog.ending().is_none() {
            let out = dialog.take_output();
            self.piped
                .send(&out, clock::now() + GOODBYE)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::BrokenPipe => String::new(),
                    _ => format!("it takes no commands: {error}"),
                })?;
            let now = clock::now();
            let heard = self
                .piped
                .hear(&mut chunk, now)
                .map_err(|error| error.to_string())?;
            match heard {
                Heard::Bytes(count) => {
                    let taken = decoder.take(&chunk[..count], &mut messages);
                    for message in messages.drain(..) {
                        dialog.handle(message, now).map_err(|fault| fault.to_string())?;
                    }
                    taken.map_err(|error| {
                        format!("it does not speak the DevTools protocol over its pipe: {error}")
                    })?;
                    let signal = signals
                        .wait(Some(Duration::ZERO))
                        .map_err(|error| error.to_string())?;
                    if signal == Some(Signal::Stop) {
                        dialog.interrupt();
                    }
                }
                Heard::Closed => return Err(String::new()),
                Heard::Nothing => {
                    let left = dialog.deadline().since(now).min(LOOK);
                    let signal = signals.wait(Some(left)).map_err(|error| error.to_string())?;
                    if signal == Some(Signal::Stop) {
                        dialog.interrupt();
                    }
                }
            }
            dialog.expire(clock::now()).map_err(|fault| fault.to_string())?;
        }
        dialog.log.unread = decoder.passed + decoder.unread;
        if dialog.log.unread > 0 {
            tracing::warn!(
                "{} messages of the browser were too long or could not be read, and were left out: the archive may lack requests",
                dialog.log.unread
            );
        }
        Ok(())
    }

    /// Lets it write its files and end.
    fn end(mut self) {
        let close = message(u64::from(u32::MAX), "Browser.close", &json!({}), None);
        // It may be gone already, or be stuck: then it is killed.
        let _ = self.piped.send(&close, clock::now());
        let until: Instant = clock::now() + GOODBYE;
        match self.piped.end(until) {
            Ok((Some(_), _)) => {}
            Ok((None, _)) => tracing::warn!(
                "`{}` did not end within {} s and was killed; the last secrets of TLS may be missing",
                self.name,
                GOODBYE.as_secs()
            ),
            Err(error) => tracing::warn!("`{}` cannot be waited for: {error}", self.name),
        }
    }

    /// The failure of a browser that made no visit. `why` is empty if it closed the pipe.
    fn blamed(self, why: &str) -> Failure {
        let Browser { name, piped } = self;
        let (status, said) =
            match piped.end(clock::now() + if why.is_empty() { GOODBYE } else { Duration::ZERO }) {
                Ok(end) => end,
                Err(error) => (None, error.to_string()),
            };
        let why = match (why, status) {
            ("", Some(status)) => format!("it ended before the page was loaded ({status})"),
            ("", None) => "it closed its pipe before the page was loaded".to_owned(),
            (why, _) => why.to_owned(),
        };
        let said = match said.as_str() {
            "" => String::new(),
            said => format!("; it said: {said}"),
        };
        Failure::Failed(format!(
            "the browser `{name}` made no visit: {why}{said}; check that it is a Chromium that starts with `{name} --headless`, or \
             name another with --browser"
        ))
    }
}

fn command(program: &Path, start: &Start<'_>) -> Command {
    let mut command = Command::new(program);
    let with = |flag: &str, path: &Path| {
        let mut argument = OsString::from(flag);
        argument.push(path);
        argument
    };
    command
        .args(ARGUMENTS)
        .arg(with("--user-data-dir=", start.profile))
        .arg(with("--ssl-key-log-file=", start.keys));
    // Chromium refuses to run as root in its sandbox.
    if privilege::current().0 == 0 {
        tracing::debug!("Weir runs as root, so the browser runs without its sandbox");
        command.arg("--no-sandbox");
    }
    if start.is_insecure {
        command.arg("--ignore-certificate-errors");
    }
    command.args(start.arguments).arg("about:blank");
    command
}

/// The failure of a visit whose requests are reported, if it is one.
pub(super) fn judged(url: &str, dialog: &Dialog, patience: Patience) -> Result<(), Failure> {
    let failed = |why: String| Err(Failure::Failed(format!("the page `{url}` {why}")));
    match dialog.ending() {
        Some(Ending::Unreachable(why)) => failed(format!(
            "could not be loaded: {why}; check that its server answers, and over a link that the URL names 198.18.0.1 or a name \
             that can be looked up"
        )),
        Some(Ending::Late(outstanding)) => failed(format!(
            "was not loaded within {} (outstanding requests: {outstanding}); the archive has the requests until then. Allow more \
             time with --timeout",
            show_duration(patience.visit)
        )),
        Some(Ending::TooMany) => failed("had more events than Weir keeps; the archive ends there".to_owned()),
        Some(Ending::Interrupted) => failed("was not loaded to its end: interrupted".to_owned()),
        Some(Ending::Busy(outstanding)) => {
            tracing::warn!(
                "requests outstanding {} after the page was loaded: {outstanding}; the archive has them as unfinished. Wait longer \
                 with --settle",
                show_duration(patience.settle)
            );
            answered(url, dialog)
        }
        Some(Ending::Complete) | None => answered(url, dialog),
    }
}

/// Whether the server had the page.
fn answered(url: &str, dialog: &Dialog) -> Result<(), Failure> {
    let page = dialog.log.page().and_then(|page| page.response.as_ref());
    match page {
        Some(response) if response.status >= 400 => Err(Failure::Failed(format!(
            "the server answered {} {} for the page `{url}`; check the path",
            response.status, response.status_text
        ))),
        _ => Ok(()),
    }
}
