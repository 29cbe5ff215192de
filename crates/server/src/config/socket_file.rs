//! Who may connect to a Unix socket of `listen`: the keys `socket-mode` and `socket-owner` of a `[[listener]]`.
//!
//! Decides how the mode is spelled. `runtime::listen` applies it.

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

#[cfg(test)]
mod tests {
    use super::*;

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
