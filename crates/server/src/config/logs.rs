//! The logs of a configuration: the access logs of the top level and of hosts, and that of the server's own messages.

use super::host::Host;
use super::{Config, ConfigError, LogFormat, LogTemplate};
use core::fmt;
use core::str::FromStr;
use runtime::log_socket::LogSocket;
use serde::{Deserialize, Deserializer, de};
use std::path::{Component, Path, PathBuf};

/// Maximum number of access logs: each has a descriptor, a thread, and up to 16 MiB of lines that its disk or reader does
/// not take.
const LOGS_MAX: usize = 64;

/// An access log, of one site or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// File; `-` is standard output, and a [`LogSocket`] may be named.
    pub target: PathBuf,
    /// Whether lines of any of its sites are JSON.
    pub is_json: bool,
    /// First name of the first host that has this log; `None`: the top level has it.
    pub host: Option<String>,
}

/// Where the server's own messages go in place of standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerLog {
    /// To a log daemon.
    Socket(LogSocket),
    /// To the end of this file, which is created if it does not exist.
    File(PathBuf),
}

impl ServerLog {
    /// The log, if it is a file, a pipe or a device.
    pub fn file(&self) -> Option<&Path> {
        match self {
            ServerLog::Socket(_) => None,
            ServerLog::File(path) => Some(path),
        }
    }

    /// The log, if it is a socket.
    pub fn socket(&self) -> Option<&LogSocket> {
        match self {
            ServerLog::Socket(socket) => Some(socket),
            ServerLog::File(_) => None,
        }
    }
}

impl FromStr for ServerLog {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerLog, String> {
        if matches!(text, "" | "-") {
            return Err(format!(
                "`{text}` is no place for messages of the server; name a file or a log daemon, as in /var/log/weir/server.log or \
                 journald:, or leave `server-log` out for standard error"
            ));
        }
        if matches!(text, "journald" | "syslog") {
            return Err(format!(
                "`{text}` has no colon; did you mean `{text}:`? A file of this name is `./{text}`"
            ));
        }
        match LogSocket::is_meant(Path::new(text)) {
            true => text.parse().map(ServerLog::Socket),
            false => Ok(ServerLog::File(text.into())),
        }
    }
}

impl fmt::Display for ServerLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerLog::Socket(socket) => write!(f, "{socket}"),
            ServerLog::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for ServerLog {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ServerLog, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

impl AccessLog {
    /// The log, if it is a file, a pipe or a device.
    pub fn file(&self) -> Option<&Path> {
        (self.target != Path::new("-") && !LogSocket::is_meant(&self.target)).then_some(&self.target)
    }

    /// The log, if it is a socket.
    ///
    /// # Errors
    /// Why the socket cannot be one.
    pub fn socket(&self) -> Result<Option<LogSocket>, String> {
        match LogSocket::is_meant(&self.target) {
            true => self.target.to_string_lossy().parse().map(Some),
            false => Ok(None),
        }
    }

    /// The log in words, with the host that has it.
    pub fn name(&self) -> String {
        match &self.host {
            None => format!("the access log `{}`", self.target.display()),
            Some(host) => format!("the access log `{}` of host `{host}`", self.target.display()),
        }
    }
}

impl Config {
    /// The access logs: that of the top level, if it has one, then those of hosts in order. Hosts with the same file or
    /// socket share one.
    pub fn access_logs(&self) -> Vec<AccessLog> {
        let top = self.access_log.iter();
        let top = top.map(|target| (target, None, self.writes_json()));
        let own = self.host.iter().filter_map(|host| {
            let name = host.names.first().map(ToString::to_string);
            Some((host.access_log.as_ref()?, name, host.writes_json(self)))
        });
        let mut logs: Vec<AccessLog> = Vec::new();
        for (target, host, is_json) in top.chain(own) {
            match logs.iter_mut().find(|log| log.target == *target) {
                Some(log) => log.is_json |= is_json,
                None => logs.push(AccessLog {
                    target: target.clone(),
                    is_json,
                    host,
                }),
            }
        }
        logs
    }

    /// Whether the lines of this site are JSON.
    fn writes_json(&self) -> bool {
        is_json(self.log_format, self.log_template.as_ref())
    }

    /// Whether a log shows fields of requests that the built-in formats do not have.
    pub(crate) fn logs_fields(&self) -> bool {
        let hosts = self.host.iter().map(|host| &host.log_template);
        let mut templates = hosts.chain([&self.log_template]).flatten();
        templates.any(LogTemplate::shows_fields)
    }

    /// Whether the lines of this site can show the state of the TCP path.
    fn can_show_path(&self) -> bool {
        match &self.log_template {
            Some(template) => template.shows_path(),
            None => self.log_format == LogFormat::Json,
        }
    }

    /// Validates the logs of all sites together.
    ///
    /// # Errors
    /// Too many logs, a format of a host that has no log of its own, or one file for requests and messages.
    pub(super) fn validate_logs(&self) -> Result<(), ConfigError> {
        for host in &self.host {
            let key = match (&host.log_format, &host.log_template) {
                _ if host.access_log.as_ref().is_some() => continue,
                (Some(_), _) => "log-format",
                (None, Some(_)) => "log-template",
                (None, None) => continue,
            };
            let name = host.names.first().map(ToString::to_string).unwrap_or_default();
            return Err(ConfigError::invalid(
                key,
                format!(
                    "host `{name}` has a format, but no log of its own; set its `access-log`, or the format at the top level"
                ),
            ));
        }
        let logs = self.access_logs();
        let messages = self.server_log.as_ref().and_then(ServerLog::file);
        if let Some(file) = messages.filter(|file| is_named(file, &logs)) {
            return Err(ConfigError::invalid(
                "server-log",
                format!(
                    "`{}` is also an access log; name a file of its own for the server's messages",
                    file.display()
                ),
            ));
        }
        let logs = logs.len();
        if logs > LOGS_MAX {
            return Err(ConfigError::invalid(
                "access-log",
                format!(
                    "{logs} access logs are too many; hosts may share logs, of which there are at most {LOGS_MAX}"
                ),
            ));
        }
        Ok(())
    }
}

impl Host {
    /// Whether the lines of this host are JSON.
    fn writes_json(&self, top: &Config) -> bool {
        match (self.log_format, &self.log_template) {
            (None, None) => top.writes_json(),
            (format, template) => is_json(format.unwrap_or(top.log_format), template.as_ref()),
        }
    }

    /// Sets the log of this host, and how its lines are written.
    pub(super) fn log_over(&self, config: &mut Config) {
        config.access_log = self.access_log.over(&config.access_log);
        if let Some(format) = self.log_format {
            // A format of the host replaces the template of the top level.
            (config.log_format, config.log_template) = (format, None);
        }
        if self.log_template.is_some() {
            config.log_template.clone_from(&self.log_template);
        }
        config.log_tcp &= config.can_show_path();
    }
}

/// Whether one of the logs has the name of this file, perhaps in other words. Links are not followed: files may not exist yet.
fn is_named(file: &Path, logs: &[AccessLog]) -> bool {
    let file = plain(file);
    let mut files = logs.iter().filter_map(AccessLog::file);
    files.any(|log| plain(log) == file)
}

/// The absolute path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut plain = PathBuf::new();
    for component in whole.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

fn is_json(format: LogFormat, template: Option<&LogTemplate>) -> bool {
    template.map_or(format == LogFormat::Json, LogTemplate::is_json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_a_daemon_or_a_file() {
        for (text, file) in [
            ("journald:", None),
            ("syslog:udp://192.0.2.1:514", None),
            ("/var/log/weir/server.log", Some("/var/log/weir/server.log")),
            ("server.log", Some("server.log")),
            ("./syslog", Some("./syslog")),
        ] {
            let log: ServerLog = text.parse().unwrap();
            assert_eq!(log.file(), file.map(Path::new), "{text}");
            assert_eq!(log.socket().is_some(), file.is_none(), "{text}");
        }
        for (text, advice) in [
            ("", "name a file"),
            ("-", "standard error"),
            ("journald", "did you mean `journald:`?"),
            ("syslog", "did you mean `syslog:`?"),
            ("syslog:tcp://a", "syslog:udp://"),
        ] {
            let why = text.parse::<ServerLog>().unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
    }

    #[test]
    fn requests_and_messages_have_files_of_their_own() {
        let check =
            |text: &str| Config::from_toml(text, "w.toml").and_then(|config| config.sites().map(drop));
        let host = "[[host]]\nnames = ['a']\naccess-log = 'a.log'";
        assert!(check(&format!("server-log = 'b.log'\naccess-log = 'c.log'\n{host}")).is_ok());
        assert!(check("server-log = 'journald:'\naccess-log = 'journald:'").is_ok());
        for text in [
            "server-log = 'a.log'\naccess-log = 'a.log'",
            "server-log = 'a.log'\naccess-log = './a.log'",
            "server-log = 'a.log'\naccess-log = 'b/.././/a.log'",
            &format!("server-log = 'a.log'\n{host}"),
            &format!(
                "server-log = 'a.log'\naccess-log = '{}'",
                plain(Path::new("a.log")).display()
            ),
        ] {
            let why = check(text).unwrap_err().to_string();
            assert!(why.contains("`a.log` is also an access log"), "{text}: {why}");
        }
        assert!(check("server-log = 'a.log'\naccess-log = 'b/a.log'").is_ok());
    }
}
