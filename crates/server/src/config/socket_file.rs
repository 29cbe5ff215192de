//! Who may connect to a Unix socket: the keys `socket-mode` and `socket-owner` of a `[[listener]]`, and `control-mode` and
//! `control-group` of the control socket.
//!
//! Decides how modes are spelled, and which ones there are. `runtime` applies them.

use super::{Config, ConfigError};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer};

/// The permission bits of a socket's file, in octal. Connecting needs the right to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(pub u32);

impl Default for SocketMode {
    /// The user and the group of the file.
    fn default() -> SocketMode {
        SocketMode(0o660)
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03o}", self.0)
    }
}

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(text: &str) -> Result<SocketMode, String> {
        let is_octal = !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
        let mode = is_octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
        mode.filter(|mode| mode & !0o777 == 0 && mode & 0o222 != 0)
            .map(SocketMode)
            .ok_or_else(|| {
                format!(
                    "`{}` is not the mode of a socket; write octal digits that let somebody write, as in \"660\" or \"666\"",
                    text.escape_debug()
                )
            })
    }
}

impl<'de> Deserialize<'de> for SocketMode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<SocketMode, D::Error> {
        // A number would be a decimal one.
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The permission bits of the control socket's file, in octal. No mode admits all users of the machine: whoever may
/// connect can stop the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlMode(pub u32);

impl ControlMode {
    /// The user of the file.
    const OWNER: ControlMode = ControlMode(0o600);
    /// The user and the group of the file.
    const GROUP: ControlMode = ControlMode(0o660);

    /// Whether the group of the file may connect.
    pub fn admits_group(self) -> bool {
        self == ControlMode::GROUP
    }
}

impl FromStr for ControlMode {
    type Err = String;

    fn from_str(text: &str) -> Result<ControlMode, String> {
        match text.strip_prefix('0').unwrap_or(text) {
            "600" => Ok(ControlMode::OWNER),
            "660" => Ok(ControlMode::GROUP),
            _ => Err(format!(
                "`{}` is not a mode of the control socket; write \"600\" (the server's user) or \"660\" (its group, too); \
                 for users outside its group, set `control-group`",
                text.escape_debug()
            )),
        }
    }
}

impl<'de> Deserialize<'de> for ControlMode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ControlMode, D::Error> {
        // A number would be a decimal one.
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Config {
    /// The permission bits of the control socket in force: a configured group may use it.
    pub fn control_mode_in_force(&self) -> ControlMode {
        self.control_mode.unwrap_or(match self.control_group {
            Some(_) => ControlMode::GROUP,
            None => ControlMode::OWNER,
        })
    }

    /// Validates that there is a control socket if a key is about its rights, and that the mode admits a configured group.
    pub(super) fn validate_control(&self) -> Result<(), ConfigError> {
        let key = match (self.control_mode, &self.control_group) {
            (_, Some(_)) => "control-group",
            (Some(_), None) => "control-mode",
            (None, None) => return Ok(()),
        };
        if self.control.is_none() {
            return Err(ConfigError::invalid(
                key,
                "there is no control socket; set `control` beside it, or remove the key",
            ));
        }
        if self.control_group.is_some() && !self.control_mode_in_force().admits_group() {
            return Err(ConfigError::invalid(
                "control-mode",
                "\"600\" keeps the group of `control-group` out; set \"660\", or remove one of the two keys",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_socket_admits_a_group_and_never_all() {
        let config = |text: &str| Config::from_toml(text, "w.toml");
        for (text, mode) in [
            ("control = 'c'", 0o600),
            ("control = 'c'\ncontrol-mode = '600'", 0o600),
            ("control = 'c'\ncontrol-mode = '0660'", 0o660),
            ("control = 'c'\ncontrol-group = 'www'", 0o660),
            (
                "control = 'c'\ncontrol-mode = '660'\ncontrol-group = 'www'",
                0o660,
            ),
        ] {
            let read = config(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.control_mode_in_force(), ControlMode(mode), "{text}");
        }
        for (text, key, advice) in [
            ("control-mode = '660'", "`control-mode`", "set `control`"),
            ("control-group = 'www'", "`control-group`", "set `control`"),
            (
                "control = 'c'\ncontrol-mode = '600'\ncontrol-group = 'www'",
                "`control-mode`",
                "set \"660\"",
            ),
            (
                "control = 'c'\ncontrol-mode = '666'",
                "`control-mode`",
                "write \"600\"",
            ),
            (
                "control = 'c'\ncontrol-mode = ''",
                "`control-mode`",
                "write \"600\"",
            ),
        ] {
            let error = config(text).expect_err(text).to_string();
            assert!(error.contains(key) && error.contains(advice), "{text}: {error}");
        }
    }

    #[test]
    fn modes_are_octal_and_let_somebody_connect() {
        for (text, mode) in [("660", 0o660), ("0666", 0o666), ("200", 0o200)] {
            assert_eq!(text.parse(), Ok(SocketMode(mode)));
        }
        for text in ["", "444", "rw", "1777", "888", "+66", "99999999999"] {
            assert!(text.parse::<SocketMode>().is_err(), "{text}");
        }
        assert_eq!(SocketMode::default().to_string(), "660");
    }
}
