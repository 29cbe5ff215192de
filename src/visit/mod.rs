//! `weir visit`: a page in a real Chromium, alone or behind an emulated link. Handles flags and files. `dialog` talks with the
//! browser, `link` carries and captures packets, and `trace` joins the browser's archive with the capture.
//!
//! ```text
//!  weir visit --link ──▶ link, capture ──▶ weir visit --behind ──▶ browser
//!       │                     │                     │
//!       └── report ◀── visit.pcapng, keys.log, visit.har
//! ```

mod browser;
mod dialog;
mod har;
mod log;
mod messages;

use crate::cli::visit::Flags;
use crate::cli::{link as link_flags, trace as trace_flags};
use crate::failure::Failure;
use crate::fetch;
use crate::link::{self, Ran};
use crate::trace;
use crate::voice::Voice;
use browser::Start;
use dialog::Patience;
use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;
use units::Duration;
use url::Url;

/// Time for a browser to start and open an empty page.
const START: Duration = Duration::from_secs(30);

/// The files of a visit while it is made.
struct Scratch {
    har: PathBuf,
    pcap: PathBuf,
    keys: PathBuf,
    profile: PathBuf,
    /// Removed when this is dropped.
    _folder: TempDir,
}

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        // The browser lets everyone read the secrets that it writes.
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .prefix("weir-visit-")
            .permissions(mode)
            .tempdir();
        let folder = folder.map_err(|error| {
            Failure::System(format!(
                "cannot make a folder for the visit: {error}; free some space in $TMPDIR"
            ))
        })?;
        let path = |name: &str| folder.path().join(name);
        Ok(Scratch {
            har: path("visit.har"),
            pcap: path("visit.pcapng"),
            keys: path("keys.log"),
            profile: path("profile"),
            _folder: folder,
        })
    }
}

/// The files that the user wants. Dropped before the visit has succeeded, it removes those that it made and that stayed empty.
#[derive(Debug, Default)]
struct Wanted {
    made: Vec<PathBuf>,
}

impl Wanted {
    /// Fails now, not after the visit, if a file cannot be written. `mode` is that of a new one.
    fn add(&mut self, path: &Path, mode: u32) -> Result<(), Failure> {
        let mut options = std::fs::OpenOptions::new();
        options.append(true).mode(mode);
        let opened = match options.clone().create_new(true).open(path) {
            Ok(_) => {
                self.made.push(path.to_owned());
                Ok(())
            }
            // A file, a device, or a link to one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                options.create(true).open(path).map(drop)
            }
            Err(error) => Err(error),
        };
        opened.map_err(|error| {
            Failure::Usage(format!(
                "cannot write `{}`: {error}; name a file in a writable directory",
                path.display()
            ))
        })
    }

    /// Keeps also the files that stayed empty.
    fn succeeded(mut self) {
        self.made.clear();
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        for path in self.made.iter().filter(|path| !has_content(path)) {
            // The failure of the visit is told already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Runs the command.
///
/// # Errors
/// `Usage` for an invalid URL, link or browser; `Failed` if the page was not loaded; `Invalid` if the capture is incomplete;
/// `System` if the system refuses something.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<ExitCode, Failure> {
    voice.listen();
    let page = fetch::page(&flags.url)?;
    let mut wanted = Wanted::default();
    for file in [&flags.report, &flags.har, &flags.pcap].into_iter().flatten() {
        wanted.add(file, 0o666)?;
    }
    if let Some(keys) = &flags.keys {
        // Who opens it before the secrets are in it could read them later.
        wanted.add(keys, 0o600)?;
    }
    let scratch = Scratch::new()?;
    let code = match &flags.link {
        Some(link) => over_link(flags, &page, link, &scratch, voice)?,
        None => alone(flags, &page, &scratch, voice).map(|()| 0)?,
    };
    if code == 0 {
        wanted.succeeded();
    }
    Ok(ExitCode::from(code))
}

#[allow(
    clippy::disallowed_methods,
    reason = "a command writes the file it is told to"
)]
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| {
        // The part before a link takes an archive with content for a whole one.
        let _ = std::fs::write(path, "");
        Failure::System(format!(
            "cannot write `{}`: {error}; free some space or write elsewhere",
            path.display()
        ))
    })
}

/// The part behind a link opens its files before it knows whether it will write them.
fn has_content(file: &Path) -> bool {
    file.metadata().is_ok_and(|file| file.len() > 0)
}

/// Keeps a file of the visit, if it is wanted and there.
fn keep(from: &Path, to: Option<&PathBuf>) -> Result<(), Failure> {
    let Some(to) = to.filter(|_| has_content(from)) else {
        return Ok(());
    };
    std::fs::copy(from, to).map(drop).map_err(|error| {
        Failure::System(format!(
            "cannot write `{}`: {error}; free some space or write elsewhere",
            to.display()
        ))
    })
}

/// As [`keep`], for secrets: readable by the user alone.
fn keep_secrets(from: &Path, to: Option<&PathBuf>) -> Result<(), Failure> {
    if to.is_some() && has_content(from) {
        // A copy has the mode of its source before it has content, also where a file was.
        let mode = Permissions::from_mode(0o600);
        std::fs::set_permissions(from, mode).map_err(|error| {
            Failure::System(format!(
                "cannot protect the secrets in `{}`: {error}; name a folder of your own in $TMPDIR",
                from.display()
            ))
        })?;
    }
    keep(from, to)
}

/// The browser without a link; also the part behind one.
fn alone(flags: &Flags, page: &Url, scratch: &Scratch, voice: &Voice) -> Result<(), Failure> {
    let patience = Patience {
        start: START.min(flags.timeout),
        visit: flags.timeout,
        settle: flags.settle,
    };
    let start = Start {
        program: flags.browser.as_deref(),
        profile: &scratch.profile,
        keys: &scratch.keys,
        is_insecure: flags.insecure,
        arguments: &flags.browser_arg,
    };
    let dialog = browser::visit(&start, page.as_str(), patience)?;
    let log = &dialog.log;
    if log.left_out > 0 {
        tracing::warn!(
            "{} requests were left out: the page made more than {} requests, or longer ones than Weir keeps",
            log.left_out,
            log::REQUESTS_MAX
        );
    }
    let archive = har::of(page, log, &dialog.product).to_string();
    let is_empty = log.exchanges.is_empty();
    if !is_empty {
        let har = flags
            .har
            .as_ref()
            .filter(|_| flags.behind)
            .unwrap_or(&scratch.har);
        write(har, &archive)?;
    }
    keep_secrets(&scratch.keys, flags.keys.as_ref())?;
    let judged = browser::judged(page.as_str(), &dialog, patience);
    if flags.behind || is_empty {
        return judged;
    }
    keep(&scratch.har, flags.har.as_ref())?;
    trace::unobserved(&scratch.har, page.as_str(), flags.report.as_deref(), voice)?;
    judged
}

/// The browser behind a link, and what its packets explain. Returns the exit code of the part behind it.
fn over_link(flags: &Flags, page: &Url, link: &str, scratch: &Scratch, voice: &Voice) -> Result<u8, Failure> {
    let words = link_words(flags, page, link, scratch, voice)?;
    let behind = link_flags::Flags::of(words).map_err(|error| unfit(&error))?;
    let plan = link::plan(&behind)?;
    let advice = "visit without --link: the report then has the browser's times only";
    let ran = link::behind(&behind, &plan, advice)?;
    if !has_content(&scratch.har) {
        // The part behind the link has said why.
        return Ok(ran.code.max(1));
    }
    kept(flags, page, &plan.profile.name, scratch, &ran, voice)?;
    Ok(ran.code)
}

fn unfit(error: &clap::Error) -> Failure {
    Failure::Usage(format!("the link: {}", error.render()))
}

/// Keeps the files of a visit over a link and reports it. Each is useful without the others, so a failure skips none of them.
///
/// # Errors
/// All failures, and why the recording of packets is incomplete.
fn kept(
    flags: &Flags,
    page: &Url,
    link: &str,
    scratch: &Scratch,
    ran: &Ran,
    voice: &Voice,
) -> Result<(), Failure> {
    Failure::of_all([
        keep(&scratch.har, flags.har.as_ref()),
        keep(&scratch.pcap, flags.pcap.as_ref()),
        keep_secrets(&scratch.keys, flags.keys.as_ref()),
        ran.recorded(),
        explained(flags, page, link, scratch, voice),
    ])
}

/// Reports what the packets explain.
fn explained(flags: &Flags, page: &Url, link: &str, scratch: &Scratch, voice: &Voice) -> Result<(), Failure> {
    if !has_content(&scratch.pcap) {
        // The recording failed before its first byte.
        return trace::unobserved(&scratch.har, page.as_str(), flags.report.as_deref(), voice);
    }
    let mut words: Vec<OsString> = vec![
        scratch.pcap.clone().into(),
        "--har".into(),
        scratch.har.clone().into(),
    ];
    if has_content(&scratch.keys) {
        words.extend(["--keys".into(), scratch.keys.clone().into()]);
    }
    if let Some(report) = &flags.report {
        words.extend(["--report".into(), report.clone().into()]);
    }
    let joined = trace_flags::Flags::of(words).map_err(|error| unfit(&error))?;
    trace::visited(&joined, page.as_str(), link, voice)
}

/// The command line of the link.
fn link_words(
    flags: &Flags,
    page: &Url,
    link: &str,
    scratch: &Scratch,
    voice: &Voice,
) -> Result<Vec<OsString>, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::System(format!(
            "cannot find this program's own file: {error}; start it by its path"
        ))
    })?;
    let mut words: Vec<OsString> = vec![link.into(), "--pcap".into(), scratch.pcap.clone().into()];
    if let Some(far) = &flags.far {
        words.extend(["--far".into(), far.into()]);
    }
    if let Some(ready) = &flags.far_ready {
        words.extend(["--far-ready".into(), ready.into()]);
    }
    if let Some(seed) = flags.seed {
        words.extend(["--seed".into(), seed.to_string().into()]);
    }
    words.extend(["--".into(), own.into(), "visit".into(), page.as_str().into()]);
    words.extend(["--behind".into(), "--har".into(), scratch.har.clone().into()]);
    words.extend(["--keys".into(), scratch.keys.clone().into()]);
    if let Some(browser) = &flags.browser {
        words.extend(["--browser".into(), browser.clone().into()]);
    }
    for argument in &flags.browser_arg {
        let mut word = OsString::from("--browser-arg=");
        word.push(argument);
        words.push(word);
    }
    if flags.insecure {
        words.push("--insecure".into());
    }
    for (flag, time) in [("--timeout", flags.timeout), ("--settle", flags.settle)] {
        words.extend([flag.into(), format!("{}ms", time.as_millis()).into()]);
    }
    if voice.json {
        words.push("--json".into());
    }
    if !voice.reports() {
        words.push("-q".into());
    }
    if voice.is_detailed() {
        words.push("-v".into());
    }
    Ok(words)
}

#[cfg(feature = "measure")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, Measure};
    use ::trace::{LinkType, PcapngWriter};
    use clap::Parser as _;

    const ARCHIVE: &str = r#"{"log":{"entries":[{"startedDateTime":"1970-01-01T00:01:00Z",
        "request":{"method":"GET","url":"http://h/"},"timings":{}}]}}"#;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test writes what the browser would")]
    fn a_recording_that_failed_costs_no_other_file() {
        let mut cut = Vec::new();
        PcapngWriter::begin(&mut cut, "weir").interface(&mut cut, LinkType::RAW, 0, "weir0");
        // The beginning of a packet.
        cut.extend_from_slice(&[6, 0, 0, 0]);
        for capture in [Vec::new(), cut] {
            let folder = TempDir::new().expect("a folder");
            let path = |name: &str| folder.path().join(name);
            let mut words: Vec<OsString> = ["weir", "visit", "http://h/", "--link", "ppp"]
                .map(OsString::from)
                .into();
            let files = ["har", "keys", "report"];
            for file in files {
                words.extend([format!("--{file}").into(), path(file).into()]);
            }
            let Command::Measure(Measure::Visit(flags)) = Cli::try_parse_from(words).expect("flags").command
            else {
                panic!("another command");
            };
            let scratch = Scratch::new().expect("a folder");
            std::fs::write(&scratch.har, ARCHIVE).expect("is ours");
            std::fs::write(&scratch.keys, "secret").expect("is ours");
            std::fs::write(&scratch.pcap, &capture).expect("is ours");
            let ran = Ran {
                code: 0,
                incomplete: Some("the capture ends early".to_owned()),
            };
            let page = fetch::page(&flags.url).expect("a URL");
            let why = kept(&flags, &page, "ppp", &scratch, &ran, &Voice::silent()).expect_err("incomplete");
            assert_eq!(why.code(), 4, "{why}");
            assert!(why.to_string().starts_with("the capture ends early"), "{why}");
            for file in files {
                assert!(has_content(&path(file)), "{file}: {why}");
            }
        }
    }
}
