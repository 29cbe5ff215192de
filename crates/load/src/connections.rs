//! Number of connections per protocol mode: the identities of document 000, Table "Protocol modes".
//!
//! Knows counts only; the client opens and closes connections.

use client::plan::Mode;

/// Connections of one session whose objects have these numbers of files, if the server closes none early: the sum of
/// the files (HTTP/1.0), 1 (serial, pipelined) or the number of objects (early close).
pub fn of_session(mode: Mode, files_by_object: &[u64]) -> u64 {
    match mode {
        Mode::Http10 => files_by_object.iter().sum(),
        Mode::Serial | Mode::Auto | Mode::Pipelined | Mode::Http2 | Mode::Http3 => {
            u64::from(!files_by_object.is_empty())
        }
        Mode::EarlyClose => files_by_object.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claim bc-11: F x N, N and 1 connections for N objects of F files each.
    #[test]
    fn connections_are_the_documents() {
        for files in 1..6 {
            for objects in 1..6usize {
                let session = vec![files; objects];
                let counts = Mode::ALL.map(|mode| of_session(mode, &session));
                assert_eq!(counts, [files * objects as u64, 1, 1, objects as u64]);
            }
        }
        assert_eq!(Mode::ALL.map(|mode| of_session(mode, &[])), [0; 4]);
    }
}
