//! Weir's own server and load as child processes, for the commands that measure. Decides how they are started, reads
//! the load's result, and makes sure that none outlives its owner. Does not know the purpose of the measurement.

pub(crate) mod workload;

use crate::failure::Failure;
use runtime::process::reexec::Again;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that listens on a free port of the loopback, until dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// Starts the process.
    ///
    /// # Errors
    /// `System` with the message of the process if it does not start.
    pub(crate) fn start<S: AsRef<OsStr>>(options: impl IntoIterator<Item = S>) -> Result<Server, Failure> {
        let mut child = again(["--json", "-q", "serve", "--listen", "127.0.0.1:0"], options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::System(format!("the server: {error}")))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            // An unreadable line counts as a failed start, as below.
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = told["listeners"][0]["url"].as_str().map(str::to_owned);
        let mut server = Server {
            child,
            url: String::new(),
        };
        match url {
            Some(url) => {
                server.url = url;
                Ok(server)
            }
            None => Err(Failure::System(format!(
                "the server did not start: {}",
                server.last_words()
            ))),
        }
    }

    fn last_words(&mut self) -> String {
        let mut text = String::new();
        if let Some(err) = self.child.stderr.as_mut() {
            // Its words are for a sentence; without them it is shorter.
            let _ = err.take(4096).read_to_string(&mut text);
        }
        reason(&text).to_owned()
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// URL, with a trailing slash.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// The line that gives the reason in a program's last output; lines after the error are advice.
fn reason(text: &str) -> &str {
    let is_error = |line: &&str| line.starts_with("error");
    let line = text.lines().find(is_error).or_else(|| text.lines().last());
    line.map_or("no message", |line| line.trim_start_matches("error: "))
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A load that runs, until dropped.
#[derive(Debug)]
pub(crate) struct Load {
    child: Child,
}

impl Load {
    /// Starts the process.
    ///
    /// # Errors
    /// `System` if the process does not start.
    pub(crate) fn start<S: AsRef<OsStr>>(
        url: &str,
        options: impl IntoIterator<Item = S>,
    ) -> Result<Load, Failure> {
        let child = again(["--json", "-q", "load", url], options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Failure::System(format!("the load: {error}")))?;
        Ok(Load { child })
    }

    /// Whether it has ended by now.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for the end and returns the result. An invalid run is returned too; its verdict says so.
    ///
    /// # Errors
    /// `System` if there is no result.
    pub(crate) fn result(mut self) -> Result<Value, Failure> {
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text)
                .map_err(|error| Failure::System(format!("the load: {error}")))?;
        }
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let result = lines.into_iter().find(|line| line["event"] == "result");
        result.ok_or_else(|| Failure::System(format!("the load measured nothing: {}", text.trim())))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A command that runs this program with the arguments `first`, then `then`.
fn again<const N: usize, S: AsRef<OsStr>>(first: [&str; N], then: impl IntoIterator<Item = S>) -> Command {
    let first = first.into_iter().map(OsString::from);
    Again::with(first.chain(then.into_iter().map(|option| option.as_ref().to_owned()))).command()
}

fn end(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        // The process holds no data worth waiting for.
        let _ = child.kill();
    }
    let _ = child.wait();
}

/// Whether the folder is a site of `weir site`, by its manifest.
pub(crate) fn is_site(folder: &Path) -> bool {
    folder.join(::load::site::MANIFEST).exists()
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_reason_is_the_error_and_not_the_advice_below_it() {
        for (text, expected) in [
            (
                "error: unexpected argument '--bogus' found\n\nFor more information, try '--help'.\n",
                "unexpected argument '--bogus' found",
            ),
            ("refused\nnothing is served\n", "nothing is served"),
            ("", "no message"),
        ] {
            assert_eq!(reason(text), expected);
        }
    }
}
