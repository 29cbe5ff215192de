//! A stored response, and the responses that clients get from it: the whole, a part of it, several parts, its head, or 304.

use super::repeat::Settled;
use crate::cache::{Charge, Slot};
use crate::field_list::write_line;
use bytes::Bytes;
use http_cache::cache_status::CacheStatus;
use http_cache::freshness::http_date;
use http_cache::partial::Part;
use http_cache::stored::{Stored, lines};
use http_semantics::conditional::{Validators, Verdict, evaluate};
use http_semantics::field::{Fields, Name};
use http_semantics::method::Method;
use http_semantics::range::{
    ByteRange, Multipart, Selection, content_range, select, unsatisfied_content_range,
};
use http_semantics::request::Protocol;
use runtime::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use units::UnixTime;

/// Bytes that an object costs beyond its head, key and content: itself, and its records in the index and the policy.
pub(super) const OVERHEAD: u64 = 512;

/// Most ranges of one response.
const RANGES_MAX: u16 = 16;

/// Fields that a 304 need not repeat (RFC 9110 section 15.4.5).
const NOT_IN_304: [&str; 4] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-range",
];

/// What the store says of a response that it has, or had.
#[derive(Debug, Default)]
pub(super) struct Standing {
    slot: AtomicU32,
    is_outdated: AtomicBool,
}

impl Standing {
    /// Its slot, as long as the store has it.
    pub(super) fn slot(&self) -> Slot {
        self.slot.load(Ordering::Relaxed)
    }

    /// The store has it in this slot.
    pub(super) fn enter(&self, slot: Slot) {
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// Whether it is stored no more, or another response may be the answer to a request that it has answered.
    #[inline]
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated.load(Ordering::Acquire)
    }

    /// From now on, only a lookup tells whether it answers a request.
    pub(super) fn outdate(&self) {
        self.is_outdated.store(true, Ordering::Release);
    }
}

/// A stored response. Only its standing in the store changes; a validated one is another object with the same content.
#[derive(Debug)]
pub(crate) struct Object {
    /// The target, and what else every request for it has in common.
    pub(super) key: Arc<[u8]>,
    pub(super) head: Stored,
    /// Names of the request fields that chose it.
    pub(super) names: Vec<String>,
    /// Their values.
    pub(super) variant: Vec<u8>,
    /// The content.
    pub(super) body: Bytes,
    /// The same content, if it is in a file in memory.
    pub(super) file: Option<Arc<File>>,
    /// The bytes that it has; `None`: all.
    pub(super) part: Option<Part>,
    /// The version in which the upstream sent its head.
    pub(super) received: Protocol,
    /// It was read from the disk.
    pub(super) is_from_disk: bool,
    /// What the store says of it.
    pub(super) standing: Standing,
    /// For all but the content, which holds its own.
    pub(super) _charge: Charge,
}

/// A response from the cache.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Field lines.
    pub(crate) text: Vec<u8>,
    pub(crate) body: Bytes,
    /// The version in which the upstream sent it.
    pub(crate) received: Protocol,
    /// It is whole, and equal requests get it again.
    pub(crate) settled: Option<Settled>,
}

impl Object {
    /// Bytes that an object with this head takes, without its content.
    pub(super) fn cost(key: &[u8], head: &Stored, variant: &[u8]) -> u64 {
        // The variant's names are in its values, too.
        OVERHEAD + (key.len() + head.held() + variant.len() * 2) as u64
    }

    /// Whether it is this response, perhaps with its content elsewhere.
    pub(super) fn is_like(&self, other: &Object) -> bool {
        self.names == other.names
            && self.variant == other.variant
            && self.part == other.part
            && self.head == other.head
    }

    /// The response with its content in a file in memory, which `charge` pays for.
    ///
    /// # Errors
    /// The errno of the system if it makes no such file.
    pub(super) fn in_file(&self, mut charge: Charge, for_head: Charge) -> std::io::Result<Object> {
        let (file, bytes) = File::in_memory(&self.body)?;
        charge.attach(&[Arc::clone(&file)]);
        Ok(Object {
            key: Arc::clone(&self.key),
            head: self.head.clone(),
            names: self.names.clone(),
            variant: self.variant.clone(),
            body: charge.hold_bytes(bytes),
            file: Some(file),
            part: self.part,
            received: self.received,
            is_from_disk: self.is_from_disk,
            standing: Standing::default(),
            _charge: for_head,
        })
    }

    /// Whether it can answer this range, or needs none: it is whole.
    pub(super) fn answers(&self, request: &Fields<'_, '_>) -> bool {
        let Some(part) = self.part else { return true };
        let range = request.single(Name::Range);
        range.is_some_and(|range| part.covers(range).is_some()) && !request.has(Name::IfRange)
    }

    /// The response to a request with this method and these fields. `seed`: for the boundary of several parts.
    pub(super) fn reply(
        &self,
        method: Method,
        request: &Fields<'_, '_>,
        now: UnixTime,
        status: &CacheStatus,
        seed: u64,
    ) -> Reply {
        let stored = self.head.lines();
        let fields = Fields::new(&stored);
        let mut reply = Reply {
            status: self.head.status,
            text: Vec::with_capacity(self.head.text.len() + 128),
            body: Bytes::new(),
            received: self.received,
            settled: None,
        };
        let verdict = self.verdict(method, request, &fields, now);
        let mut left_out: &[&str] = &[];
        let mut added = Vec::new();
        let mut length = self.body.len() as u64;
        match (verdict, self.part) {
            (Verdict::NotModified, _) => {
                reply.status = 304;
                left_out = &NOT_IN_304;
            }
            (Verdict::Failed, _) => {
                reply.status = 412;
                left_out = &NOT_IN_304;
                length = 0;
            }
            (_, Some(part)) => {
                if let Some(asked) = request.single(Name::Range).and_then(|range| part.covers(range)) {
                    left_out = &["content-range"];
                    let range = ByteRange {
                        first: asked.first,
                        last: asked.last,
                    };
                    write_with(&mut added, "Content-Range", |out| {
                        content_range(range, part.length, out)
                    });
                    let (from, to) = (asked.first - part.first, asked.last - part.first + 1);
                    reply.body = self.body.slice(from as usize..to as usize);
                    length = reply.body.len() as u64;
                }
            }
            (Verdict::Proceed { range: true }, None) if self.head.status == 200 && method == Method::Get => {
                left_out = self.select(request, &fields, &mut reply, &mut added, seed);
                length = reply.body.len() as u64;
            }
            _ => reply.body = self.body.clone(),
        }
        for line in &stored {
            if !left_out.iter().any(|name| line.name.eq_ignore_ascii_case(name)) {
                write_line(&mut reply.text, line.name, line.value);
            }
        }
        reply.text.extend_from_slice(&added);
        write_line(
            &mut reply.text,
            "Age",
            self.head.age.now(now).to_string().as_bytes(),
        );
        write_line(&mut reply.text, "Cache-Status", &status.value());
        if method == Method::Head && reply.status != 304 {
            write_line(&mut reply.text, "Content-Length", length.to_string().as_bytes());
            reply.body = Bytes::new();
        }
        reply
    }

    /// Applies the range of a request. Returns the names of lines that are left out.
    fn select(
        &self,
        request: &Fields<'_, '_>,
        fields: &Fields<'_, '_>,
        reply: &mut Reply,
        added: &mut Vec<u8>,
        seed: u64,
    ) -> &'static [&'static str] {
        let len = self.body.len() as u64;
        let asked = request.single(Name::Range);
        match asked.map_or(Selection::Whole, |value| select(value, len, RANGES_MAX)) {
            Selection::Whole => {
                reply.body = self.body.clone();
                &[]
            }
            Selection::One(range) => {
                reply.status = 206;
                write_with(added, "Content-Range", |out| content_range(range, len, out));
                reply.body = self.body.slice(range.first as usize..=range.last as usize);
                &[]
            }
            Selection::Many(ranges) => {
                let multipart = Multipart {
                    boundary: seed,
                    media_type: fields.get(Name::ContentType).unwrap_or_default(),
                    len,
                };
                if multipart.content_length(&ranges) >= len {
                    reply.body = self.body.clone();
                    return &[];
                }
                reply.status = 206;
                let mut body = Vec::new();
                for &range in &ranges {
                    multipart.part(range, &mut body);
                    body.extend_from_slice(&self.body[range.first as usize..=range.last as usize]);
                }
                multipart.end(&mut body);
                reply.body = body.into();
                write_with(added, "Content-Type", |out| multipart.content_type(out));
                &["content-type"]
            }
            Selection::Unsatisfiable => {
                reply.status = 416;
                write_with(added, "Content-Range", |out| unsatisfied_content_range(len, out));
                &NOT_IN_304
            }
        }
    }

    fn verdict(
        &self,
        method: Method,
        request: &Fields<'_, '_>,
        fields: &Fields<'_, '_>,
        now: UnixTime,
    ) -> Verdict {
        // Preconditions are for successful responses (RFC 9110 section 13.2.1).
        if !matches!(self.head.status, 200 | 206) {
            return Verdict::Proceed { range: false };
        }
        let date = |name| fields.single(name).and_then(http_date).map(UnixTime::from_secs);
        // Without a date of modification, that of the response (RFC 9111 section 4.3.2).
        let validators = Validators {
            etag: fields.single(Name::ETag),
            last_modified: date(Name::LastModified).or(date(Name::Date)),
        };
        let generated = date(Name::Date).unwrap_or(now);
        evaluate(method, request, &validators, generated)
    }
}

impl Reply {
    /// A response without content that no object has.
    pub(super) fn of(status: u16, cache: &CacheStatus) -> Reply {
        let mut text = Vec::new();
        write_line(&mut text, "Cache-Status", &cache.value());
        Reply {
            status,
            text,
            body: Bytes::new(),
            received: Protocol::Http11,
            settled: None,
        }
    }

    /// Calls `then` with the field lines.
    pub(crate) fn with_fields<T>(&self, then: impl FnOnce(&Fields<'_, '_>) -> T) -> T {
        let lines = lines(&self.text);
        then(&Fields::new(&lines))
    }
}

fn write_with(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    let mut value = Vec::new();
    write(&mut value);
    write_line(out, name, &value);
}
