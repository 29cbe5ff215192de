//! How many connections a protocol mode needs: the identities of document 000, Table "Protocol modes".
//!
//! Knows counts only; who opens and closes them is the client's business.

use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// How a user equivalent speaks HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// A connection for each file, one after another.
    #[serde(rename = "http10")]
    Http10,
    /// One connection for a session, one request outstanding.
    #[serde(rename = "serial")]
    Serial,
    /// One connection for a session; the base file alone, then all others at once.
    #[serde(rename = "pipelined")]
    Pipelined,
    /// As pipelined, closed after each object, before the OFF time.
    #[serde(rename = "early-close")]
    EarlyClose,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Http10, Mode::Serial, Mode::Pipelined, Mode::EarlyClose];

    /// The name flags and results use.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Http10 => "http10",
            Mode::Serial => "serial",
            Mode::Pipelined => "pipelined",
            Mode::EarlyClose => "early-close",
        }
    }

    /// Connections of one session whose objects have these numbers of files, if no server closes early:
    /// the sum of the files, 1, 1, or the number of objects.
    pub fn connections(self, files_by_object: &[u64]) -> u64 {
        match self {
            Mode::Http10 => files_by_object.iter().sum(),
            Mode::Serial | Mode::Pipelined => u64::from(!files_by_object.is_empty()),
            Mode::EarlyClose => files_by_object.len() as u64,
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        Mode::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| {
                format!("`{text}` is no mode; there are http10, serial, pipelined and early-close")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claim bc-11: F x N, N and 1 for N objects of F files each.
    #[test]
    fn connections_are_the_documents() {
        for files in 1..6 {
            for objects in 1..6usize {
                let session = vec![files; objects];
                let counts = Mode::ALL.map(|mode| mode.connections(&session));
                assert_eq!(counts, [files * objects as u64, 1, 1, objects as u64]);
            }
        }
        assert_eq!(Mode::ALL.map(|mode| mode.connections(&[])), [0; 4]);
        assert_eq!(Mode::ALL.map(|mode| mode.name().parse()), Mode::ALL.map(Ok));
        assert!("quic".parse::<Mode>().is_err());
    }
}
