//! Reads a stream line by line into reused memory. A line longer than the limit is skipped and reported as a fault,
//! so a log never takes more memory than one line. The input without an access-log line is limited too, so that an
//! endless stream that is no log (a device) ends with an error.

use crate::{Fault, Record, parse};
use std::io::{self, BufRead};

/// Limits on memory and on useless input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one line.
    pub line_bytes_max: usize,
    /// Most bytes of one line beyond that, skipped to find its end.
    pub skipped_bytes_max: u64,
    /// Most lines before the first valid one.
    pub vain_lines_max: u64,
}

impl Limits {
    /// More than any server lets a client put into a line.
    pub const DEFAULT: Limits = Limits {
        line_bytes_max: 64 << 10,
        skipped_bytes_max: 64 << 20,
        vain_lines_max: 100_000,
    };
}

/// Reads the records of a log; owns the input and one line of memory.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    limits: Limits,
    line: Vec<u8>,
    number: u64,
    is_log: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader at the start of `input`.
    pub fn new(input: R, limits: Limits) -> Reader<R> {
        Reader {
            input,
            limits,
            line: Vec::new(),
            number: 0,
            is_log: false,
        }
    }

    /// Number of the line read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads and parses the next line; `None` at the end.
    ///
    /// # Errors
    /// Those of the stream. `InvalidData` if the input is not a log: a line has no end, or too many lines
    /// precede the first valid one. An invalid line is not a stream error.
    pub fn read(&mut self) -> Option<io::Result<Result<Record<'_>, Fault>>> {
        self.line.clear();
        let is_whole = match self.fill() {
            Ok(None) => return None,
            Ok(Some(is_whole)) => is_whole,
            Err(error) => return Some(Err(error)),
        };
        self.number += 1;
        let in_vain = self.limits.vain_lines_max;
        if !self.is_log && self.number > in_vain {
            return Some(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("none of its first {in_vain} lines is an access-log line"),
            )));
        }
        if !is_whole {
            return Some(Ok(Err(Fault {
                expected: "a line end within the longest line a server writes",
                at: self.limits.line_bytes_max,
            })));
        }
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let read = parse(line);
        self.is_log |= read.is_ok();
        Some(Ok(read))
    }

    /// Reads the next line; returns whether all of it fits, or `None` at the end.
    fn fill(&mut self) -> io::Result<Option<bool>> {
        let (mut is_any, mut is_whole) = (false, true);
        let mut skipped = 0;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok(is_any.then_some(is_whole));
            }
            is_any = true;
            let end = memchr::memchr(b'\n', available);
            let piece = &available[..end.unwrap_or(available.len())];
            let room = self.limits.line_bytes_max - self.line.len();
            is_whole &= piece.len() <= room;
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            skipped += piece.len().saturating_sub(room) as u64;
            let used = piece.len() + usize::from(end.is_some());
            self.input.consume(used);
            if skipped > self.limits.skipped_bytes_max {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("line {} has no end within {skipped} bytes", self.number + 1),
                ));
            }
            if end.is_some() {
                return Ok(Some(is_whole));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    #[test]
    fn lines_are_read_however_they_come() {
        let log = "a - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.0\" 200 1\n\nnonsense\r\n\
                   b - - [06/Nov/1994:08:49:38 +0000] \"GET /b HTTP/1.0\" 200 -";
        for size in [1, 7, 4096] {
            let mut reader = Reader::new(BufReader::with_capacity(size, log.as_bytes()), Limits::DEFAULT);
            let mut seen = Vec::new();
            while let Some(read) = reader.read() {
                seen.push(read.unwrap().map(|record| record.client.to_vec()).map_err(|_| ()));
            }
            assert_eq!(seen, [Ok(b"a".to_vec()), Err(()), Err(()), Ok(b"b".to_vec())]);
            assert_eq!(reader.number(), 4);
        }
    }

    #[test]
    fn a_line_without_end_takes_no_more_than_a_bound() {
        let endless = BufReader::new(std::io::repeat(b'x').take(5 << 20));
        let limits = Limits {
            line_bytes_max: 100,
            ..Limits::DEFAULT
        };
        let mut reader = Reader::new(endless, limits);
        assert!(reader.read().unwrap().unwrap().is_err());
        assert!(reader.line.capacity() <= 200);
        assert!(reader.read().is_none());
    }

    #[test]
    fn what_never_ends_and_is_no_log_is_given_up() {
        let limits = Limits {
            line_bytes_max: 100,
            skipped_bytes_max: 1 << 20,
            vain_lines_max: 3,
        };
        let mut reader = Reader::new(BufReader::new(std::io::repeat(0)), limits);
        let error = reader.read().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("line 1 has no end"), "{error}");
        let mut reader = Reader::new(BufReader::new(std::io::repeat(b'\n')), limits);
        for _ in 0..3 {
            assert!(reader.read().unwrap().unwrap().is_err());
        }
        let error = reader.read().unwrap().unwrap_err();
        assert!(error.to_string().contains("first 3 lines"), "{error}");
        // Any number of invalid lines may follow a valid one.
        let log = format!(
            "a - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.0\" 200 1\n{}",
            "x\n".repeat(9)
        );
        let mut reader = Reader::new(log.as_bytes(), limits);
        while let Some(read) = reader.read() {
            assert!(read.is_ok());
        }
        assert_eq!(reader.number(), 10);
    }

    #[test]
    fn a_stream_that_breaks_says_so() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk"))
            }
        }
        let mut reader = Reader::new(BufReader::new(Broken), Limits::DEFAULT);
        assert!(reader.read().unwrap().is_err());
    }
}
