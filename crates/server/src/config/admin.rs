//! The admin listener: addresses of their own for the live page, metrics, health checks and commands.
//!
//! Decides who may connect where, and whether commands are taken. The answers are made elsewhere.

use super::ConfigError;
use super::listener::Tls;
use super::values::Listen;
use runtime::listen::Address;
use serde::Deserialize;
use std::path::PathBuf;

/// Connections open at the admin addresses at a time.
pub(super) const CONNECTIONS_MAX: u32 = 64;

/// Connections of one address open there at a time: a quarter, as of all connections of a server.
pub(crate) const ADMIN_PER_ADDRESS_MAX: u32 = CONNECTIONS_MAX / 4;

/// The table `[admin]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Admin {
    /// Its addresses: one string or a list.
    pub listen: Listen,
    /// File with the token that every request must have. `None`: none is needed.
    pub token_file: Option<PathBuf>,
    /// File with the token that commands must have. It may read, too. `None`: all clients that may read may send commands.
    pub control_token_file: Option<PathBuf>,
    /// The certificates of its addresses. `None`: cleartext.
    pub tls: Option<Tls>,
    /// Whether its clients may send the commands of `weir ctl`.
    #[serde(default)]
    pub control: bool,
}

impl Admin {
    /// Validates that no stranger can read from other machines, or send commands.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.listen.0.is_empty() {
            return Err(ConfigError::invalid(
                "admin",
                "no address; name at least one, as in listen = \"127.0.0.1:9090\"",
            ));
        }
        if self.control_token_file.is_some() && !self.control {
            return Err(ConfigError::invalid(
                "control-token-file",
                "this token is for commands, and Weir takes none here; set `control = true`, or remove the key",
            ));
        }
        let needs_certificate = self.tls.as_ref().and_then(Tls::asks_clients) == Some(true);
        let is_open = self.token_file.is_none() && !needs_certificate;
        if self.control && self.control_token_file.is_none() && is_open {
            return Err(ConfigError::invalid(
                "admin",
                "`control = true` would let every user of this machine stop the server; set `token-file` or \
                 `control-token-file`, or `tls` with `client-ca`",
            ));
        }
        let is_remote = |address: &&Address| address.tcp().is_some_and(|address| !address.ip().is_loopback());
        let Some(remote) = self.listen.0.iter().find(is_remote) else {
            return Ok(());
        };
        if is_open {
            return Err(ConfigError::invalid(
                "admin",
                format!(
                    "other machines reach {remote}; set `token-file`, or `tls` with `client-ca`, or listen on 127.0.0.1"
                ),
            ));
        }
        if self.tls.is_none() {
            return Err(ConfigError::invalid(
                "admin",
                format!(
                    "the token would be sent to {remote} in cleartext; set `tls`, or listen on 127.0.0.1"
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn other_machines_need_a_key() {
        for (text, advice) in [
            ("listen = '127.0.0.1:9090'", None),
            (
                "listen = ['127.0.0.1:9090', '[::1]:9090']\ntoken-file = 't'",
                None,
            ),
            ("listen = []", Some("no address")),
            ("listen = ':9090'", Some("set `token-file`")),
            (
                "listen = '192.0.2.1:9090'\ntoken-file = 't'",
                Some("in cleartext"),
            ),
            (
                "listen = ':9090'\ntls = { cert = 'c', key = 'k' }",
                Some("set `token-file`"),
            ),
            (
                "listen = ':9090'\ntls = { cert = 'c', key = 'k' }\ntoken-file = 't'",
                None,
            ),
            (
                "listen = ':9090'\ntls = { cert = 'c', key = 'k', client-ca = 'a' }",
                None,
            ),
            (
                "listen = ':9090'\ntls = { cert = 'c', key = 'k', client-ca = 'a', client-auth = 'optional' }",
                Some("set `token-file`"),
            ),
            ("listen = '127.0.0.1:8080'", Some("is listed twice")),
            (
                "listen = '127.0.0.1:9090'\ncontrol = true",
                Some("set `token-file`"),
            ),
            ("listen = 'unix:/run/a'\ncontrol = true", Some("set `token-file`")),
            (
                "listen = '127.0.0.1:9090'\ncontrol = true\ntls = { cert = 'c', key = 'k', client-ca = 'a', client-auth = 'optional' }",
                Some("set `token-file`"),
            ),
            (
                "listen = ':9090'\ncontrol = true\ntoken-file = 't'",
                Some("in cleartext"),
            ),
            (
                "listen = '127.0.0.1:9090'\ncontrol = true\ntoken-file = 't'",
                None,
            ),
            (
                "listen = ':9090'\ncontrol = true\ntls = { cert = 'c', key = 'k', client-ca = 'a' }",
                None,
            ),
            (
                "listen = '127.0.0.1:9090'\ncontrol = true\ncontrol-token-file = 'c'",
                None,
            ),
            (
                "listen = '127.0.0.1:9090'\ntoken-file = 't'\ncontrol-token-file = 'c'",
                Some("set `control = true`"),
            ),
            (
                "listen = ':9090'\ncontrol = true\ncontrol-token-file = 'c'\ntls = { cert = 'c', key = 'k' }",
                Some("set `token-file`"),
            ),
            (
                "listen = ':9090'\ncontrol = true\ntoken-file = 't'\ncontrol-token-file = 'c'",
                Some("in cleartext"),
            ),
            (
                "listen = ':9090'\ncontrol = true\ncontrol-token-file = 'c'\n\
                 tls = { cert = 'c', key = 'k', client-ca = 'a' }",
                None,
            ),
        ] {
            let got = Config::from_toml(&format!("[admin]\n{text}\n"), "w.toml");
            match advice {
                None => assert!(got.is_ok(), "{text}: {got:?}"),
                Some(advice) => {
                    let why = got.expect_err(text).to_string();
                    assert!(why.contains(advice), "{text}: {why}");
                }
            }
        }
    }
}
