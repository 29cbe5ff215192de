//! The flags of `weir ctl`. Decides spelling and help; `serve::control` defines the commands.

use super::offered::{offered, offered_if};
use acme::order::Reason;
use clap::{Args, Subcommand};
use runtime::listen::Address;
use server::config::{Concurrency, IoKind, Listen, Workers};
use std::path::PathBuf;
use url::Url;

const EXAMPLES: &str = "\
Examples:
  weir serve ./public --control /run/weir.sock
  weir ctl --socket /run/weir.sock status
  weir ctl --socket /run/weir.sock strategy pool --workers 64
  weir ctl --socket /run/weir.sock strategy loops --io uring --listener 127.0.0.1:8080
  weir ctl --socket /run/weir.sock certificates
  weir ctl --socket /run/weir.sock certificates revoke key-compromise
  weir ctl --socket /run/weir.sock purge path '/api/*'
  weir ctl --socket /run/weir.sock purge tag product-17
  weir ctl --socket /run/weir.sock site switch v42
  weir ctl --socket /run/weir.sock site rollback
  weir ctl --admin https://www.example.com:9090 --token-file token reload
  weir ctl --admin https://www.example.com:9090 --cert me.pem --key me.key site switch v42

Users with write permission on the socket's file may send commands: its owner and, with
`control-mode` or `control-group`, a group. The admin listener takes commands if its table has
`control = true`; clients need the token in its `control-token-file` or, without this key, the right
to read.";

/// Flags of `weir ctl`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Control socket of the server: the file that `weir serve --control` names
    #[arg(
        long,
        short,
        value_name = "FILE",
        env = "WEIR_CONTROL",
        required_unless_present = "admin"
    )]
    pub(crate) socket: Option<PathBuf>,

    /// Admin listener of the server, as in https://HOST:PORT; takes precedence over --socket. http is for this machine
    /// only
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub(crate) admin: Option<Url>,

    /// How the admin listener is reached
    #[command(flatten)]
    pub(crate) access: AdminFlags,

    /// Command for the server
    #[command(subcommand)]
    pub(crate) what: Command,
}

/// Flags for the admin listener.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Admin listener")]
pub(crate) struct AdminFlags {
    /// File with the token of the admin listener: a copy of its `control-token-file` or, without one, of its `token-file`
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub(crate) token_file: Option<PathBuf>,

    /// Trusts only the CA certificates in this PEM file, in place of the system's
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub(crate) ca: Option<PathBuf>,

    /// Sends the certificate chain in this PEM file if the admin listener asks for one
    #[arg(long, value_name = "FILE", requires = "key", requires = "admin")]
    pub(crate) cert: Option<PathBuf>,

    /// PEM file with the private key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

/// Commands of `weir ctl`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the strategy and the open connections of each address
    Status,
    /// Switches new connections to another strategy; each open connection gets one more response from the old strategy
    Strategy {
        /// How connections map to workers: loops, loop, pool, thread-per-connection, thread-per-request. A switch to or
        /// from worker processes needs a restart; the error lists the steps
        #[arg(value_parser = offered_if::<Concurrency>(|one| !one.is_of_processes()), hide_possible_values = true)]
        concurrency: Concurrency,
        /// I/O back end: auto, epoll, uring, blocking
        #[arg(long, value_name = "BACKEND", default_value_t, value_parser = offered::<IoKind>(), hide_possible_values = true)]
        io: IoKind,
        /// Number of worker threads; auto: depends on the strategy
        #[arg(long, value_name = "N", default_value_t)]
        workers: Workers,
        /// Address to switch [default: all]
        #[arg(long, value_name = "ADDR:PORT", value_parser = Listen::parse_one)]
        listener: Option<Address>,
    },
    /// Lists the certificates in use, with their names and validity
    Certificates {
        /// What to do about the certificate of --domain [default: list]
        #[command(subcommand)]
        what: Option<OfCertificates>,
    },
    /// Drops responses that the cache of the proxy has stored
    Purge {
        /// Which of them
        #[command(subcommand)]
        what: OfPurge,
    },
    /// Switches a site to another version at once, back to the one before, or lists its versions
    Site {
        /// What to do
        #[command(subcommand)]
        what: OfSite,
    },
    /// Reloads the configuration, as SIGHUP does
    Reload,
    /// Reopens the files of logs, as SIGUSR1 does
    ReopenLogs,
    /// Stops gracefully: finishes responses, then exits, as SIGTERM does
    Stop,
}

/// Commands of `weir ctl purge`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum OfPurge {
    /// All responses
    All,
    /// Responses for a path as clients spell it, with any query; with a star at the end, all paths that begin with the
    /// text before the star
    Path {
        /// The path, as in /api/users or /api/*
        path: String,
    },
    /// Responses with a tag in Cache-Tag or Surrogate-Key
    Tag {
        /// The tag
        tag: String,
    },
}

/// Commands of `weir ctl site`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum OfSite {
    /// Lists the versions of each site
    List,
    /// Puts a version in force: a folder in the one that `versions` names
    Switch {
        /// Name of the folder, as in v42
        #[arg(value_name = "VERSION")]
        name: String,
        /// A name of the site's host [default: the top level, or the only site with versions]
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
    /// Puts the version in force again that was before the current one
    Rollback {
        /// A name of the site's host [default: the top level, or the only site with versions]
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
}

/// Commands of `weir ctl certificates`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum OfCertificates {
    /// Orders a new certificate now, with a new key
    Renew,
    /// Orders a new certificate, then has the CA revoke the one in use
    Revoke {
        /// Reason that the CA publishes: unspecified, key-compromise, affiliation-changed, superseded,
        /// cessation-of-operation
        #[arg(default_value = "unspecified", value_parser = offered::<Reason>(), hide_possible_values = true)]
        reason: Reason,
    },
}

/// Parses the URL of an admin listener.
///
/// # Errors
/// Why it is none.
pub(crate) fn parse_url(text: &str) -> Result<Url, String> {
    const ADVICE: &str = "write https://HOST:PORT";
    let url = Url::parse(text).map_err(|error| format!("{error}; {ADVICE}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("neither https nor http; {ADVICE}"));
    }
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !is_bare || !url.username().is_empty() || url.password().is_some() {
        return Err(format!("more than a host and a port; {ADVICE}"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_a_scheme_a_host_and_a_port() {
        for (text, wanted) in [
            ("https://a.test:9090", None),
            ("http://[::1]:9090/", None),
            ("a.test:9090", Some("neither https nor http")),
            ("a.test", Some("write https://HOST:PORT")),
            ("https://a.test/x", Some("more than")),
            ("https://a.test/?x", Some("more than")),
            ("https://user:word@a.test", Some("more than")),
        ] {
            match (parse_url(text), wanted) {
                (Ok(_), None) => {}
                (Err(why), Some(part)) => assert!(why.contains(part), "{text}: {why}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }
}
