//! The bytes of an answer, on their way into DATA frames: what is in memory, and what a job has to read first.
//!
//! ```text
//!   now ──▶ frames        then: the rest of a file, of which a job reads a piece at a time;
//!    ▲                          further parts of several ranges
//!    └── then
//! ```
//! A file is read a piece ahead, one job a stream: the page cache holds the rest.

use crate::context::{Cx, Task, Work};
use crate::entry;
use crate::exchange::{Multipart, Source};
use bytes::Bytes;
use runtime::FileRange;
use units::Instant;

/// Bytes of a file read at a time at least: what a stream costs in memory while its peer reads slowly.
const PIECE: u64 = 64 << 10;

/// Answers of a connection beyond which the first piece of a further one is short: its peer may read none of them.
const ANSWERS_CALM: usize = 8;

/// Bytes of a first piece then.
const PIECE_FIRST: u64 = 8 << 10;

/// Content that is being sent.
#[derive(Debug)]
pub(in crate::session) struct Content {
    /// The next bytes.
    now: Bytes,
    then: Option<Box<Then>>,
    /// The protocol knows the end: nothing more becomes ready.
    is_announced: bool,
}

/// What follows.
#[derive(Debug, Default)]
struct Then {
    /// Bytes in memory, before all else.
    next: Bytes,
    /// A file, or the rest of it.
    file: Option<FileRange>,
    /// A job reads a piece; it has until then.
    reading_until: Option<Instant>,
    /// Bytes of the longest piece so far.
    longest: u64,
    /// The parts after that.
    parts: Option<Multipart>,
}

/// What became ready to be sent, to be told to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) struct Fresh {
    pub(in crate::session) bytes: u64,
    /// Nothing follows.
    pub(in crate::session) is_last: bool,
}

impl Content {
    /// The content of an answer of `len` bytes, at least one, and what of it can be sent at once.
    pub(in crate::session) fn new(source: Source<'_>, len: u64) -> (Content, Fresh) {
        let (now, then) = match source {
            Source::Empty => (Bytes::new(), None),
            Source::Made(bytes) => (bytes, None),
            Source::Page(page) => {
                let mut text = Vec::with_capacity(page.len());
                page.write(&mut text);
                (text.into(), None)
            }
            Source::Entry(entry::Content::Memory(bytes), from) => {
                (bytes.slice(from as usize..(from + len) as usize), None)
            }
            Source::Entry(entry::Content::File(file), offset) => {
                let file = FileRange {
                    file: file.clone(),
                    offset,
                    len,
                };
                let then = Then {
                    file: Some(file),
                    ..Then::default()
                };
                (Bytes::new(), Some(then))
            }
            Source::Parts(parts) => {
                let then = Then {
                    parts: Some(parts),
                    ..Then::default()
                };
                (Bytes::new(), Some(then))
            }
        };
        let is_in_memory = then.as_ref().is_none_or(Then::is_in_memory);
        let mut content = Content {
            now,
            then: then.map(Box::new),
            is_announced: is_in_memory,
        };
        let bytes = content.advance();
        let fresh = match is_in_memory {
            true => Fresh {
                bytes: len,
                is_last: true,
            },
            false => Fresh {
                bytes,
                is_last: false,
            },
        };
        (content, fresh)
    }

    /// Makes the next bytes those to send, if none are and no job is needed. Returns how many became ready.
    fn advance(&mut self) -> u64 {
        let mut ready = 0;
        while self.now.is_empty()
            && let Some(then) = &mut self.then
        {
            if !then.next.is_empty() {
                self.now = std::mem::take(&mut then.next);
                continue;
            }
            if then.file.is_some() {
                break;
            }
            let Some(parts) = &mut then.parts else {
                self.then = None;
                break;
            };
            let mut text = Vec::new();
            match (parts.next(&mut text), parts.content()) {
                (None, _) => then.parts = None,
                (Some(range), entry::Content::Memory(bytes)) => {
                    then.next = bytes.slice(range.first as usize..(range.first + range.len()) as usize);
                    ready += range.len();
                }
                (Some(range), entry::Content::File(file)) => {
                    then.file = Some(FileRange {
                        file: file.clone(),
                        offset: range.first,
                        len: range.len(),
                    });
                }
            }
            ready += text.len() as u64;
            self.now = text.into();
        }
        ready
    }

    /// What the protocol has to be told: nothing if it knows the end already.
    fn tell(&mut self, bytes: u64) -> Option<Fresh> {
        if self.is_announced {
            return None;
        }
        let ends = |then: &Then| then.file.is_none() && then.parts.is_none();
        self.is_announced = self.then.as_deref().is_none_or(ends);
        Some(Fresh {
            bytes,
            is_last: self.is_announced,
        })
    }

    /// Appends `bytes` of the content, which are ready. Returns what became ready by that.
    pub(in crate::session) fn take(&mut self, mut bytes: usize, out: &mut Vec<u8>) -> Option<Fresh> {
        let mut ready = 0;
        while bytes > 0 {
            let some = bytes.min(self.now.len());
            if some == 0 {
                debug_assert!(false, "more is taken than is ready");
                break;
            }
            out.extend_from_slice(&self.now.split_to(some));
            bytes -= some;
            ready += self.advance();
        }
        self.tell(ready)
    }

    /// The next bytes, as far as they are in one piece; never empty while some are ready.
    pub(in crate::session) fn front(&self) -> &Bytes {
        &self.now
    }

    /// Drops that many of [`Content::front`], which were sent. Returns what became ready by that.
    pub(in crate::session) fn drop_front(&mut self, bytes: usize) -> Option<Fresh> {
        bytes::Buf::advance(&mut self.now, bytes);
        let ready = self.advance();
        self.tell(ready)
    }

    /// The job that reads the next piece of the file, if less than this stream's share of a `turn` waits to be sent, which it
    /// has with all `answers` of the connection. A piece is no shorter than that share, but the first one may be. The job has to
    /// end by `until`.
    pub(in crate::session) fn next_job(
        &mut self,
        cx: &Cx,
        turn: usize,
        answers: usize,
        until: Instant,
    ) -> Option<Work> {
        let share = turn / answers.max(1);
        let then = self.then.as_mut()?;
        if then.reading_until.is_some() || self.now.len() + then.next.len() >= share {
            return None;
        }
        let rest = then.file.as_mut()?;
        let most = match answers > ANSWERS_CALM && then.longest == 0 {
            true => PIECE_FIRST,
            false => PIECE.max(share as u64),
        };
        let len = rest.len.min(most);
        then.longest = then.longest.max(len);
        let piece = FileRange { len, ..rest.clone() };
        (rest.offset, rest.len) = (rest.offset + len, rest.len - len);
        let is_last = rest.len == 0;
        then.reading_until = Some(until);
        Some(Work::new(Task::Read(piece, is_last), &cx.hub, &cx.state))
    }

    /// A piece was read. Returns what became ready by that.
    pub(in crate::session) fn was_read(&mut self, bytes: Vec<u8>) -> Option<Fresh> {
        let ready = bytes.len() as u64;
        if let Some(then) = &mut self.then {
            then.reading_until = None;
            then.file.take_if(|rest| rest.len == 0);
            then.next = match then.next.is_empty() {
                true => bytes.into(),
                false => [&then.next, &bytes[..]].concat().into(),
            };
        }
        let more = self.advance();
        self.tell(ready + more)
    }

    /// When the job that reads has to be done.
    pub(in crate::session) fn deadline(&self) -> Option<Instant> {
        self.then.as_ref()?.reading_until
    }

    /// Bytes of memory held, besides those of the cache: up to two pieces of a file.
    pub(in crate::session) fn memory(&self) -> usize {
        match &self.then {
            Some(then) if !then.is_in_memory() => {
                size_of::<Then>() + 2 * then.longest.max(PIECE_FIRST) as usize
            }
            _ => 0,
        }
    }
}

impl Then {
    fn is_in_memory(&self) -> bool {
        let content = self.parts.as_ref().map(Multipart::content);
        self.file.is_none() && !matches!(content, Some(entry::Content::File(_)))
    }
}
