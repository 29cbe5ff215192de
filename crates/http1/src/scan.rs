//! Finds the end of a head or trailer section without reading any byte twice.
//!
//! The tokenizer runs only on a complete section. Until the empty line arrives, this scan remembers its
//! position, so slow input costs linear work. It reports the first fault in the order the bytes arrived,
//! which makes the outcome independent of how the input was split. It does not interpret lines, except for
//! the length of the target.

use crate::error::Fault;
use crate::limits::Limits;
use http_semantics::field::{MAX_LINES, is_token_byte};

/// The longest method name; the registered ones have at most 17 bytes.
pub(crate) const METHOD_BYTES_MAX: usize = 32;

/// What kind of section is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// Request line and field lines.
    Request,
    /// Status line and field lines.
    Response,
    /// Field lines after the last chunk.
    Trailer,
}

/// Progress of a scan: bytes scanned, and complete lines in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    at: u32,
    lines: u16,
}

/// Result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No end yet.
    Partial,
    /// The section, including its empty line, ends before this offset.
    Complete(usize),
    /// A request line without version ends before this offset (HTTP/0.9).
    Simple(usize),
}

impl Scan {
    /// A section of which nothing was scanned.
    pub(crate) const FRESH: Scan = Scan { at: 0, lines: 0 };

    /// Whether nothing was searched yet.
    #[inline]
    pub(crate) fn is_fresh(self) -> bool {
        self.at == 0
    }

    /// Continues in `block`, which begins where the section begins and has only grown since.
    ///
    /// # Errors
    /// The first fault, in byte order, that can be found without interpreting the lines.
    pub(crate) fn advance(
        &mut self,
        block: &[u8],
        section: Section,
        limits: &Limits,
    ) -> Result<Found, Fault> {
        let bytes_max = match section {
            Section::Request | Section::Response => limits.head_bytes_max,
            Section::Trailer => limits.trailer_bytes_max,
        } as usize;
        let window = &block[..block.len().min(bytes_max)];
        let mut at = self.at as usize;
        while let Some(found) = memchr::memchr2(b'\r', b'\n', &window[at..]) {
            let end = at + found;
            if self.lines == 0 && section == Section::Request {
                check_request_line(&window[..end], limits)?;
            }
            match window[end..] {
                [b'\r', b'\n', ..] => {}
                [b'\r'] => return self.pause(end, window, bytes_max, section),
                [b'\r', ..] => return Err(Fault::BareCr),
                _ => return Err(Fault::BareLf),
            }
            at = end + 2;
            let line_is_empty = end == 0 || window[..end].ends_with(b"\r\n");
            if line_is_empty {
                return Ok(Found::Complete(at));
            }
            self.lines += 1;
            if self.lines == 1 && section == Section::Request && is_simple(&window[..end]) {
                return Ok(Found::Simple(at));
            }
            if self.lines == 1 && section == Section::Request && !ends_in_version(&window[..end]) {
                return Err(Fault::RequestLine);
            }
            let start_lines = u16::from(section != Section::Trailer);
            if self.lines > limits.fields_max.min(MAX_LINES as u16) + start_lines {
                return Err(Fault::TooManyFields);
            }
        }
        if self.lines == 0 && section == Section::Request {
            check_request_line(window, limits)?;
        }
        self.pause(window.len(), window, bytes_max, section)
    }

    fn pause(
        &mut self,
        at: usize,
        window: &[u8],
        bytes_max: usize,
        section: Section,
    ) -> Result<Found, Fault> {
        if window.len() == bytes_max {
            return Err(match section {
                Section::Request | Section::Response => Fault::HeadTooLarge,
                Section::Trailer => Fault::TrailerTooLarge,
            });
        }
        // The window is never longer than a u32 limit.
        self.at = at as u32;
        Ok(Found::Partial)
    }
}

/// Checks the limits of a request line, complete or not: method and target.
fn check_request_line(line: &[u8], limits: &Limits) -> Result<(), Fault> {
    let Some(space) = memchr::memchr(b' ', &line[..line.len().min(METHOD_BYTES_MAX + 1)]) else {
        let method = &line[..line.len().min(METHOD_BYTES_MAX + 1)];
        return match () {
            () if line.len() <= METHOD_BYTES_MAX => Ok(()),
            () if method.iter().all(|&b| is_token_byte(b)) => Err(Fault::MethodTooLong),
            () => Err(Fault::RequestLine),
        };
    };
    let target = &line[space + 1..];
    let max = limits.target_bytes_max as usize;
    if target.len() > max && memchr::memchr(b' ', &target[..=max]).is_none() {
        return Err(Fault::TargetTooLong);
    }
    Ok(())
}

/// Whether a complete request line has only two parts: `method SP target`, the form of HTTP/0.9.
fn is_simple(line: &[u8]) -> bool {
    memchr::memchr_iter(b' ', line).count() == 1
}

/// Whether a complete request line ends in something like a version. If not, it is invalid whatever follows,
/// and the parser need not wait.
fn ends_in_version(line: &[u8]) -> bool {
    let version = line.rsplit(|&b| b == b' ').next().unwrap_or_default();
    matches!(
        version,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9']
    )
}
