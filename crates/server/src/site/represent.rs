//! Builds the representations of a file: field blocks and entity tags, made once per load.
//!
//! Up to [`HASHED_MAX`] bytes, an entity tag is a 96-bit hash of the content, so it is equal on every server and after
//! every restart. For larger content, it is a hash of device, inode, length, modification time and change time.
//!
//! A tag is strong (RFC 9110 section 8.8.1) if no client can get other bytes under it. The bytes that an entry holds in
//! memory are the bytes that were hashed. A file is sent from its descriptor, and its times show writes. But two writes
//! within one tick of the clock leave the same times. So do two writes through a memory map to a page that was not
//! written back in between. So the tag is weak until the file has not changed for [two](crate::entity_tag) seconds and is on disk.
//! [`Representation::is_current`] compares the times before each response, and the driver compares them after the last
//! byte.

use crate::entry::{Content, Part, Recipe, Representation};
use crate::field_list::{FieldList, write_line as line};
use crate::media_type::MediaType;
use bytes::Bytes;
use http_semantics::coding::Coding;
use runtime::fs::Meta;
use std::sync::Arc;
use units::UnixTime;

/// Content up to this length is read at load, so that its tag is a hash of it. Reading takes some tenths of a
/// millisecond, once, and leaves the content in the page cache for sending.
pub(super) const HASHED_MAX: u64 = 1 << 20;

/// Field lines shared by the representations of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) last_modified: Option<UnixTime>,
    pub(crate) vary: Option<&'static str>,
    /// Configured field lines, each with its CRLF.
    pub(crate) configured: &'a [u8],
    pub(crate) media_type: &'a MediaType,
}

/// The value of `Vary` for a part. `coded`: it has more than one coding.
pub(crate) fn vary(part: Part, coded: bool) -> Option<&'static str> {
    match (part, coded) {
        (Part::File, false) => None,
        (Part::File, true) => Some("Accept-Encoding"),
        (Part::Html | Part::Json, false) => Some("Accept"),
        (Part::Html | Part::Json, true) => Some("Accept, Accept-Encoding"),
    }
}

/// A representation with its field blocks.
pub(crate) fn representation(
    lines: &Lines<'_>,
    coding: Coding,
    etag: Box<[u8]>,
    content: Content,
    len: u64,
) -> Representation {
    let mut fields = Vec::with_capacity(256);
    let content_fields = lines.write(coding, &etag, &mut fields);
    let mut head = Vec::with_capacity(fields.len() + 48);
    head.extend_from_slice(OK);
    head.extend_from_slice(&fields);
    content_length(&mut head, len);
    Representation {
        coding,
        etag,
        len,
        fields: fields.into(),
        content_fields,
        head_200: head.into(),
        blocks_200: Default::default(),
        media_type: lines.media_type.value.clone(),
        content,
    }
}

impl Lines<'_> {
    /// Appends the field lines of a representation with this coding and tag. Returns where the lines about the content
    /// begin.
    fn write(&self, coding: Coding, etag: &[u8], fields: &mut Vec<u8>) -> usize {
        line(fields, "ETag", etag);
        if let Some(modified) = self.last_modified {
            line(fields, "Last-Modified", &http_semantics::date::format(modified));
        }
        if let Some(vary) = self.vary {
            line(fields, "Vary", vary.as_bytes());
        }
        line(fields, "Accept-Ranges", b"bytes");
        fields.extend_from_slice(self.configured);
        let content_fields = fields.len();
        line(fields, "Content-Type", &self.media_type.value);
        match (coding, self.media_type.inherent_coding) {
            (Coding::Identity, None) => {}
            (Coding::Identity, Some(inherent)) => line(fields, "Content-Encoding", inherent.as_bytes()),
            (coding, _) => line(fields, "Content-Encoding", coding.name().as_bytes()),
        }
        if self.media_type.nosniff && !FieldList::of(self.configured).has(NOSNIFF) {
            line(fields, NOSNIFF, b"nosniff");
        }
        content_fields
    }
}

impl Recipe {
    pub(crate) fn of(lines: &Lines<'_>, configured: &Bytes) -> Recipe {
        Recipe {
            last_modified: lines.last_modified,
            vary: lines.vary,
            configured: configured.clone(),
            media_type: lines.media_type.clone(),
        }
    }

    /// Appends the lines of [`Representation::all_fields`], formatted anew.
    pub(crate) fn write(&self, representation: &Representation, out: &mut Vec<u8>) {
        let lines = Lines {
            last_modified: self.last_modified,
            vary: self.vary,
            configured: &self.configured,
            media_type: &self.media_type,
        };
        lines.write(representation.coding, &representation.etag, out);
    }
}

/// Keeps browsers from guessing a type.
const NOSNIFF: &str = "X-Content-Type-Options";

/// Status line of a 200 response.
const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";

fn content_length(out: &mut Vec<u8>, len: u64) {
    line(out, "Content-Length", itoa::Buffer::new().format(len).as_bytes());
}

/// The entity tag of these bytes in this coding.
pub(crate) fn etag_of_bytes(bytes: &[u8], coding: Coding) -> Box<[u8]> {
    tag("", twox_hash::XxHash3_128::oneshot(bytes), coding)
}

/// The entity tag of a file that is too large to hash; weak unless `is_strong`.
pub(crate) fn etag_of_meta(meta: &Meta, coding: Coding, is_strong: bool) -> Box<[u8]> {
    let mut facts = [0; 48];
    for (place, fact) in facts.chunks_exact_mut(8).zip([
        meta.device.to_le_bytes(),
        meta.inode.to_le_bytes(),
        meta.len.to_le_bytes(),
        meta.modified.secs.to_le_bytes(),
        meta.changed.secs.to_le_bytes(),
        (u64::from(meta.modified.nanos) << 32 | u64::from(meta.changed.nanos)).to_le_bytes(),
    ]) {
        place.copy_from_slice(&fact);
    }
    let prefix = if is_strong { "" } else { "W/" };
    tag(prefix, twox_hash::XxHash3_128::oneshot(&facts), coding)
}

/// This entity tag as a weak one (RFC 9110 section 8.8.1).
pub(crate) fn weak(etag: &[u8]) -> Box<[u8]> {
    [b"W/", etag].concat().into()
}

fn tag(prefix: &str, hash: u128, coding: Coding) -> Box<[u8]> {
    let text = match coding {
        Coding::Identity => format!("{prefix}\"{:024x}\"", hash >> 32),
        coding => format!("{prefix}\"{:024x}-{}\"", hash >> 32, coding.name()),
    };
    text.into_bytes().into()
}

/// `Last-Modified` of a file: never later than the response's own `Date` (RFC 9110 section 8.8.2.1).
pub(crate) fn last_modified(modified: UnixTime, wall: UnixTime) -> UnixTime {
    UnixTime::from_secs(modified.secs.min(wall.secs))
}

/// Bytes of an answer without its content, including the overhead of allocations.
pub(crate) fn footprint(representations: &[Representation]) -> u64 {
    const GRANULE: usize = 16;
    let texts = |r: &Representation| {
        // The head twice: that for HTTP/2 is no longer.
        let blocks = [&r.etag, &r.fields, &r.head_200, &r.head_200, &r.media_type];
        blocks.iter().map(|b| b.len() + GRANULE).sum::<usize>() + size_of::<Representation>()
    };
    representations.iter().map(texts).sum::<usize>() as u64
}

/// Content in memory or in a file, with its reservation.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) content: Content,
    pub(crate) len: u64,
    pub(crate) etag: Box<[u8]>,
    /// Bytes reserved by the content.
    pub(crate) reserved: u64,
    /// The file, if it stays open and counts as a descriptor.
    pub(crate) file: Option<Arc<runtime::fs::File>>,
    /// Whether it may be cached.
    pub(crate) keep: bool,
}

impl Body {
    /// Content in memory.
    pub(crate) fn memory(bytes: Bytes, coding: Coding, reserved: u64, keep: bool) -> Body {
        Body {
            len: bytes.len() as u64,
            etag: etag_of_bytes(&bytes, coding),
            content: Content::Memory(bytes),
            reserved,
            file: None,
            keep,
        }
    }

    /// Content in a file that stays open.
    pub(crate) fn file(file: runtime::fs::File, etag: Box<[u8]>, keep: bool) -> Body {
        let file = Arc::new(file);
        Body {
            len: file.meta().len,
            etag,
            content: Content::File(Arc::clone(&file)),
            reserved: 0,
            file: Some(file),
            keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity_tag::{is_settled, is_weak};
    use runtime::fs::Kind;

    fn blocks(media: &str, coding: Coding) -> Representation {
        let media_type = MediaType::of(media.as_bytes(), Some("utf-8"), &[]);
        let lines = Lines {
            last_modified: Some(UnixTime::from_secs(784_111_777)),
            vary: Some("Accept-Encoding"),
            configured: b"Cache-Control: no-cache\r\n",
            media_type: &media_type,
        };
        let body = Body::memory(Bytes::from_static(b"hello"), coding, 0, true);
        representation(&lines, coding, body.etag, body.content, body.len)
    }

    #[test]
    fn blocks_are_what_the_contract_says() {
        let r = blocks("a.html", Coding::Gzip);
        let fields = String::from_utf8_lossy(&r.fields).into_owned();
        insta::assert_snapshot!(fields.replace("\r\n", "\n"));
        assert_eq!(&r.fields[r.content_fields..][..13], b"Content-Type:");
        let head = [b"HTTP/1.1 200 OK\r\n", &r.fields[..], b"Content-Length: 5\r\n"].concat();
        assert_eq!(*r.head_200, head[..]);
    }

    #[test]
    fn lines_composed_anew_are_those_that_were_kept() {
        for (name, coding) in [
            ("a.html", Coding::Gzip),
            ("a.svgz", Coding::Identity),
            ("a.txt", Coding::Identity),
        ] {
            let media_type = MediaType::of(name.as_bytes(), Some("utf-8"), &[]);
            let configured = Bytes::from_static(b"Cache-Control: no-cache\r\n");
            let lines = Lines {
                last_modified: Some(UnixTime::from_secs(784_111_777)),
                vary: Some("Accept-Encoding"),
                configured: &configured,
                media_type: &media_type,
            };
            let body = Body::memory(Bytes::from_static(b"hello"), coding, 0, true);
            let kept = representation(&lines, coding, body.etag, body.content, body.len);
            let mut anew = Vec::new();
            Recipe::of(&lines, &configured).write(&kept, &mut anew);
            assert_eq!(anew, *kept.fields);
        }
    }

    #[test]
    fn browsers_may_guess_only_where_the_type_is_certain() {
        let has = |name| String::from_utf8_lossy(&blocks(name, Coding::Identity).fields).contains("nosniff");
        assert!(has("a.txt") && has("unknown") && !has("a.html") && !has("a.png"));
        let svgz = blocks("a.svgz", Coding::Identity);
        assert!(String::from_utf8_lossy(&svgz.fields).contains("Content-Encoding: gzip\r\n"));
    }

    #[test]
    fn a_configured_line_takes_the_place_of_a_built_in_one() {
        for (configured, want) in [
            (
                &b"X-Content-Type-Options: nosniff\r\n"[..],
                "X-Content-Type-Options: nosniff",
            ),
            (
                b"A: b\r\nx-content-type-options: none\r\n",
                "x-content-type-options: none",
            ),
            (
                b"X-Content-Type-Options-Too: a\r\n",
                "X-Content-Type-Options: nosniff",
            ),
            (
                b"A: X-Content-Type-Options: b\r\n",
                "X-Content-Type-Options: nosniff",
            ),
        ] {
            let media_type = MediaType::of(b"a.txt", Some("utf-8"), &[]);
            let lines = Lines {
                last_modified: None,
                vary: None,
                configured,
                media_type: &media_type,
            };
            let body = Body::memory(Bytes::from_static(b"hello"), Coding::Identity, 0, true);
            let r = representation(&lines, Coding::Identity, body.etag, body.content, body.len);
            let head = String::from_utf8_lossy(&r.head_200).into_owned();
            let is_it = |line: &&str| line.to_ascii_lowercase().starts_with("x-content-type-options:");
            assert_eq!(head.lines().filter(is_it).collect::<Vec<_>>(), [want], "{head}");
        }
    }

    #[test]
    fn tags_tell_versions_and_codings_apart() {
        assert_eq!(
            etag_of_bytes(b"a", Coding::Identity),
            etag_of_bytes(b"a", Coding::Identity)
        );
        assert_ne!(
            etag_of_bytes(b"a", Coding::Identity),
            etag_of_bytes(b"b", Coding::Identity)
        );
        assert_ne!(
            etag_of_bytes(b"a", Coding::Identity),
            etag_of_bytes(b"a", Coding::Brotli)
        );
        let meta = Meta {
            kind: Kind::File,
            len: 1 << 30,
            modified: UnixTime {
                secs: 1_000,
                nanos: 5,
            },
            changed: UnixTime {
                secs: 1_000,
                nanos: 5,
            },
            inode: 7,
            device: 1,
            names: 1,
        };
        let now = UnixTime::from_secs(1_100);
        let tag = etag_of_meta(&meta, Coding::Identity, is_settled(&meta, now));
        assert!(!is_weak(&tag) && tag.starts_with(b"\""));
        let later = Meta {
            changed: UnixTime {
                secs: 1_000,
                nanos: 6,
            },
            ..meta
        };
        assert_ne!(etag_of_meta(&later, Coding::Identity, true), tag);
        let young = etag_of_meta(
            &meta,
            Coding::Identity,
            is_settled(&meta, UnixTime::from_secs(1_001)),
        );
        assert!(is_weak(&young) && young.starts_with(b"W/\""));
        assert_eq!(&young[2..], &tag[..]);
        assert_eq!(weak(&tag), young);
    }

    #[test]
    fn last_modified_is_never_in_the_future() {
        let wall = UnixTime { secs: 50, nanos: 1 };
        assert_eq!(
            last_modified(UnixTime::from_secs(60), wall),
            UnixTime::from_secs(50)
        );
        assert_eq!(
            last_modified(UnixTime { secs: 40, nanos: 9 }, wall),
            UnixTime::from_secs(40)
        );
    }
}
