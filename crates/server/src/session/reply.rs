//! Writes responses: composes them from blocks made with the cache entry, counts them, and gives them a log line.
//!
//! Field lines are ordered: those of the entry, `Content-Length`, those of this response, `Date`, and `Connection` if
//! needed. A connection persists without `Connection: close`. HTTP/0.9 gets content only.

use super::multipart::Multipart;
use super::resolve::{Asked, Failure, Subject};
use crate::access_log::{self, Journal, RequestLine, Slot};
use crate::clock::Clock;
use crate::config::Redirect;
use crate::counters::Counters;
use crate::entry::{Content, Representation, Resource};
use crate::error_page::{self, ErrorPage};
use crate::filter::Added;
use crate::handler::Made;
use crate::limits::Limits;
use http_semantics::range::{self, ByteRange};
use http_semantics::status::Status;
use http1::response;
use http1::server::{Connection, Persistence};
use measure::{Draw as _, Rng};
use runtime::{Body, FileRange, Tx};
use std::net::IpAddr;

/// The methods that this server answers.
const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";

/// Field lines that an error adds to its page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extra {
    None,
    /// `Allow`: the methods that this server answers.
    Allow,
    /// `Content-Range`: length of the representation that lacks the requested range.
    Whole(u64),
    /// `Retry-After`.
    RetryAfter,
    /// `Vary`: the response depends on `Accept-Encoding`.
    VaryCoding,
}

impl Extra {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Extra::None => {}
            Extra::Allow => out.extend_from_slice(ALLOW),
            Extra::Whole(len) => {
                out.extend_from_slice(b"Content-Range: ");
                range::unsatisfied_content_range(len, out);
                out.extend_from_slice(b"\r\n");
            }
            Extra::RetryAfter => out.extend_from_slice(b"Retry-After: 1\r\n"),
            Extra::VaryCoding => out.extend_from_slice(b"Vary: Accept-Encoding\r\n"),
        }
    }
}

/// A response about to be written, with the state that it changes.
pub(super) struct Reply<'x, 'a, 'b, 's> {
    pub(super) tx: &'x mut Tx,
    pub(super) http: &'x mut Connection,
    pub(super) clock: &'x Clock,
    pub(super) journal: &'x mut Journal,
    pub(super) counters: &'x Counters,
    pub(super) slot: &'x mut Slot,
    pub(super) peer: IpAddr,
    pub(super) rng: &'x mut Rng,
    pub(super) asked: &'x Asked<'a, 'b, 's>,
    /// Index of the representation sent with 200, if the same head gets it again as long as the entry lives.
    pub(super) settled: Option<usize>,
    /// Fields of the request that this response depends on, in addition to those its header block names.
    pub(super) varies: &'static [&'static str],
    /// Field lines added by filters.
    pub(super) added: Added,
    /// Content of up to this length is copied behind the header block.
    pub(super) copied_max: u64,
}

impl Reply<'_, '_, '_, '_> {
    /// 200 with the whole representation.
    #[inline]
    pub(super) fn whole(&mut self, resource: &Resource, representation: &Representation) {
        let (len, copied_max) = (representation.len, self.copied_max);
        let write = |out: &mut Vec<u8>| match &resource.recipe {
            None => out.extend_from_slice(&representation.head_200),
            Some(recipe) => recipe.head_200(representation, out),
        };
        self.answer(200, len, write, |tx| {
            content(tx, &representation.content, 0, len, copied_max);
        });
    }

    /// 304, with the fields of the 200 response that caches update (RFC 9110 section 15.4.5).
    #[inline]
    pub(super) fn not_modified(&mut self, representation: &Representation) {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n");
            out.extend_from_slice(&representation.fields[..representation.content_fields]);
        };
        self.answer(304, 0, write, |_| {});
    }

    /// 206 with one range.
    pub(super) fn one_range(&mut self, representation: &Representation, range: ByteRange) {
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"HTTP/1.1 206 Partial Content\r\n");
            out.extend_from_slice(&representation.fields);
            out.extend_from_slice(b"Content-Range: ");
            range::content_range(range, representation.len, out);
            out.extend_from_slice(b"\r\n");
            response::content_length(out, range.len());
        };
        let copied_max = self.copied_max;
        self.answer(206, range.len(), write, |tx| {
            content(tx, &representation.content, range.first, range.len(), copied_max);
        });
    }

    /// 206 with several ranges. Returns the parts that did not fit into this turn.
    pub(super) fn many_ranges(
        &mut self,
        representation: &Representation,
        ranges: Vec<ByteRange>,
    ) -> Option<Multipart> {
        let mut multipart = Multipart::new(
            self.rng.next_u64(),
            &representation.media_type,
            representation.len,
            &representation.content,
            ranges,
        );
        let len = multipart.content_length();
        let framing = multipart.framing();
        let write = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"HTTP/1.1 206 Partial Content\r\n");
            out.extend_from_slice(&representation.fields[..representation.content_fields]);
            out.extend_from_slice(b"Content-Type: ");
            framing.content_type(out);
            out.extend_from_slice(b"\r\n");
            response::content_length(out, len);
        };
        self.answer(206, len, write, |_| {});
        (!multipart.write(self.tx)).then_some(multipart)
    }

    /// 204 with the methods, which are the same for every target.
    pub(super) fn options(&mut self) {
        let write = |out: &mut Vec<u8>| {
            response::status_line(out, Status::NO_CONTENT);
            out.extend_from_slice(ALLOW);
        };
        self.answer(204, 0, write, |_| {});
    }

    /// 301 to a path of this site. The location always begins with exactly one slash, so it cannot name another host.
    pub(super) fn redirect(&mut self, location: &[u8]) {
        let page = ErrorPage::new(Status::MOVED_PERMANENTLY);
        let query = self.asked.head().and_then(|h| h.target.query());
        let write = |out: &mut Vec<u8>| {
            response::status_line(out, Status::MOVED_PERMANENTLY);
            out.extend_from_slice(b"Location: /");
            let start = location.iter().position(|&b| b != b'/' && b != b'\\');
            let visible = |b: &&u8| b.is_ascii_graphic();
            out.extend(location[start.unwrap_or(location.len())..].iter().filter(visible));
            if let Some(query) = query {
                out.push(b'?');
                escape(query, out);
            }
            out.extend_from_slice(b"\r\n");
            page_fields(out, &page);
        };
        self.answer(301, page.len() as u64, write, |tx| page.write(&mut tx.head));
    }

    /// The response of a handler.
    #[cold]
    pub(super) fn made(&mut self, made: &Made) {
        let len = made.content.len() as u64;
        let write = |out: &mut Vec<u8>| {
            response::status_line(out, made.status);
            out.extend_from_slice(b"Content-Type: ");
            out.extend_from_slice(made.media_type.as_bytes());
            out.extend_from_slice(b"\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
            response::content_length(out, len);
        };
        self.answer(made.status.as_u16(), len, write, |tx| {
            content(
                tx,
                &Content::Memory(made.content.clone()),
                0,
                len,
                Limits::COPIED_BODY,
            );
        });
    }

    /// The target of a configured redirect.
    #[cold]
    pub(super) fn moved(&mut self, redirect: &Redirect, status: Status, path: &[u8]) {
        let page = ErrorPage::new(status);
        let query = self.asked.head().and_then(|h| h.target.query());
        let write = |out: &mut Vec<u8>| {
            response::status_line(out, status);
            out.extend_from_slice(b"Location: ");
            redirect.location(path, query, out, escape);
            out.extend_from_slice(b"\r\n");
            page_fields(out, &page);
        };
        self.answer(status.as_u16(), page.len() as u64, write, |tx| {
            page.write(&mut tx.head)
        });
    }

    /// An error with the built-in page.
    #[cold]
    pub(super) fn page(&mut self, failure: Failure) {
        let page = match failure.fault {
            Some(fault) => ErrorPage::of_fault(fault),
            None => ErrorPage::new(failure.status),
        };
        let write = |out: &mut Vec<u8>| {
            response::status_line(out, failure.status);
            failure.extra.write(out);
            page_fields(out, &page);
        };
        self.answer(failure.status.as_u16(), page.len() as u64, write, |tx| {
            page.write(&mut tx.head);
        });
    }

    /// An error with a page of the site.
    pub(super) fn site_page(&mut self, failure: Failure, page: &Representation) {
        let write = |out: &mut Vec<u8>| {
            response::status_line(out, failure.status);
            failure.extra.write(out);
            out.extend_from_slice(&page.fields[page.content_fields..]);
            response::content_length(out, page.len);
        };
        let copied_max = self.copied_max;
        self.answer(failure.status.as_u16(), page.len, write, |tx| {
            content(tx, &page.content, 0, page.len, copied_max);
        });
    }

    /// Writes a response: its header block, and its content of `len` bytes unless the method is HEAD.
    #[inline]
    fn answer(
        &mut self,
        status: u16,
        len: u64,
        head: impl FnOnce(&mut Vec<u8>),
        content: impl FnOnce(&mut Tx),
    ) {
        let persistence = self.http.begin_response(true).unwrap_or_else(|_| {
            debug_assert!(false, "a response begins before the last one has ended");
            Persistence::Ends
        });
        let out = &mut self.tx.head;
        let start = out.len();
        // Room for a typical header block and copied content, so that appending does not reallocate.
        out.reserve(
            512 + if len <= Limits::COPIED_BODY {
                len as usize
            } else {
                0
            },
        );
        if persistence != Persistence::Headless {
            head(out);
            if !self.varies.is_empty() {
                vary(out, start, self.varies);
            }
            out.extend_from_slice(self.added.lines());
            out.extend_from_slice(self.clock.date_line());
            out.extend_from_slice(persistence.line());
            out.extend_from_slice(b"\r\n");
        }
        let head_len = (out.len() - start) as u32;
        let sends_content = !self.asked.is_head_method();
        if sends_content {
            content(self.tx);
        }
        self.counters.answered(status);
        if self.journal.is_on() {
            self.log(status, head_len, if sends_content { len } else { 0 });
        }
    }

    #[inline]
    fn log(&mut self, status: u16, head_len: u32, len: u64) {
        let bytes = self.asked.bytes();
        let request = match self.asked.head() {
            Some(head) => access_log::Request {
                peer: self.peer,
                started: self.asked.started(),
                line: RequestLine::Parsed {
                    method: head.method_name.as_bytes(),
                    target: head.target_raw,
                    version: head.version.name(),
                },
                host: head.authority(),
                referer: head.referer(),
                user_agent: head.user_agent(),
            },
            None => access_log::Request {
                peer: self.peer,
                started: self.asked.started(),
                line: RequestLine::Raw(first_line(bytes, self.asked.subject())),
                host: None,
                referer: None,
                user_agent: None,
            },
        };
        self.journal
            .compose(self.slot, self.clock, &request, status, head_len, len);
    }
}

/// Adds these fields to the `Vary` of the header block that begins at `start`, or adds one. A single line names all of
/// them, because some clients read only the first.
#[cold]
fn vary(out: &mut Vec<u8>, start: usize, names: &[&str]) {
    const NAME: &[u8] = b"\r\nVary: ";
    let Some(at) = memchr::memmem::find(&out[start..], NAME) else {
        out.extend_from_slice(b"Vary: ");
        out.extend_from_slice(names.join(", ").as_bytes());
        out.extend_from_slice(b"\r\n");
        return;
    };
    let value = start + at + NAME.len();
    let end = value + memchr::memchr(b'\r', &out[value..]).unwrap_or_default();
    let missing = |name: &&&str| {
        let mut named = out[value..end].split(|&b| b == b',');
        !named.any(|one| one.trim_ascii() == name.as_bytes())
    };
    let more: String = names
        .iter()
        .filter(missing)
        .flat_map(|name| [", ", *name])
        .collect();
    out.splice(end..end, more.into_bytes());
}

/// Escapes the bytes of a target that a URI must not contain (RFC 3986 section 2) and the client should have escaped.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &b in text {
        if b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b) {
            out.push(b);
        } else {
            let hex = |digit: u8| b"0123456789ABCDEF"[usize::from(digit)];
            out.extend([b'%', hex(b >> 4), hex(b & 15)]);
        }
    }
}

/// The bytes up to the end of the first line, limited in length: they may be anything.
fn first_line(bytes: &[u8], subject: Subject) -> &[u8] {
    const MOST: usize = 1024;
    debug_assert!(subject != Subject::Request, "a complete request has its own line");
    let bytes = &bytes[..bytes.len().min(MOST)];
    match bytes.iter().position(|&b| b == b'\n' || b == b'\r') {
        Some(0) | None => bytes,
        Some(end) => &bytes[..end],
    }
}

fn page_fields(out: &mut Vec<u8>, page: &ErrorPage) {
    out.extend_from_slice(b"Content-Type: ");
    out.extend_from_slice(error_page::MEDIA_TYPE.as_bytes());
    out.extend_from_slice(b"\r\n");
    response::content_length(out, page.len() as u64);
}

/// Appends `len` bytes of content from `offset` on: copied if they are in memory and no more than `copied_max`,
/// otherwise referenced.
#[inline]
pub(super) fn content(tx: &mut Tx, content: &Content, offset: u64, len: u64, copied_max: u64) {
    match content {
        _ if len == 0 => {}
        Content::Memory(bytes) => {
            let range = offset as usize..(offset + len) as usize;
            if len <= copied_max {
                tx.head.extend_from_slice(&bytes[range]);
            } else {
                tx.body = Some(Body::Bytes(bytes.slice(range)));
            }
        }
        Content::File(file) => {
            tx.body = Some(Body::File(FileRange {
                file: file.clone(),
                offset,
                len,
            }));
        }
    }
}
