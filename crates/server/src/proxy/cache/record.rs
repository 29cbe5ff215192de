//! A stored response as bytes on a disk. Bytes that were cut or changed are no record.
//!
//! ```text
//!   magic 8 │ length of the head 4 │ length of the content 8 │ CRC of the content 4 │ CRC of all before and the head 4 │ head │ content
//! ```
//! All numbers are little-endian. The number in the magic changes with the format. Format 1 is read, too: its heads have no
//! version of HTTP. A Weir that does not know the format finds no records and removes the files.

use super::TARGETS;
use super::object::Object;
use flate2::Crc;
use http_cache::directives::ResponseDirectives;
use http_cache::freshness::{Age, Lifetime};
use http_cache::stored::{Stored, lines};
use http_semantics::field::Fields;
use http_semantics::request::Protocol;
use std::ops::Range;
use units::UnixTime;

const MAGIC: &[u8; 8] = b"weircch2";

/// That of format 1.
const MAGIC_1: &[u8; 8] = b"weircch1";

/// Bytes before the head.
const PREFIX: usize = 28;

/// Longest head: more than any target and head of a response together.
const HEAD_MAX: usize = 1 << 20;

/// Most names of request fields that choose a response.
const NAMES_MAX: usize = 64;

/// Everything of a stored response but its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: Vec<u8>,
    pub(super) head: Stored,
    pub(super) names: Vec<String>,
    pub(super) variant: Vec<u8>,
    /// The version in which the upstream sent the head. In format 1, it is not known and taken for HTTP/1.1.
    pub(super) received: Protocol,
    /// Where the content is in the file.
    pub(super) body: Range<usize>,
    body_crc: u32,
}

/// What goes before the content of a whole response. `None`: it is too long.
pub(super) fn start_of(object: &Object) -> Option<Vec<u8>> {
    let mut head = Vec::with_capacity(512);
    let Stored {
        status,
        text,
        lifetime,
        age,
        ..
    } = &object.head;
    head.push(code_of(object.received));
    head.extend_from_slice(&status.to_le_bytes());
    head.push(lifetime.is_explicit.into());
    head.extend_from_slice(&lifetime.seconds.to_le_bytes());
    head.extend_from_slice(&age.initial.to_le_bytes());
    head.extend_from_slice(&age.received.secs.to_le_bytes());
    put(&mut head, &object.key);
    put(&mut head, text);
    put(&mut head, &object.variant);
    for name in &object.names {
        put(&mut head, name.as_bytes());
    }
    if head.len() > HEAD_MAX || object.names.len() > NAMES_MAX {
        return None;
    }
    let mut start = Vec::with_capacity(PREFIX + head.len());
    start.extend_from_slice(MAGIC);
    start.extend_from_slice(&u32::try_from(head.len()).ok()?.to_le_bytes());
    start.extend_from_slice(&(object.body.len() as u64).to_le_bytes());
    start.extend_from_slice(&crc(&[&object.body]).to_le_bytes());
    let sum = crc(&[&start, &head]);
    start.extend_from_slice(&sum.to_le_bytes());
    start.extend_from_slice(&head);
    Some(start)
}

/// Length of the part before the content, if these bytes begin a record.
pub(super) fn start_len(bytes: &[u8]) -> Option<usize> {
    let head = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?) as usize;
    let is_known = bytes.starts_with(MAGIC) || bytes.starts_with(MAGIC_1);
    (is_known && head <= HEAD_MAX).then_some(PREFIX + head)
}

impl Record {
    /// Reads a file of this length from its start. `None`: it is no record, or not whole.
    pub(super) fn parse(bytes: &[u8], file_len: u64) -> Option<Record> {
        let start = start_len(bytes)?;
        let head = bytes.get(PREFIX..start)?;
        let body_len = u64::from_le_bytes(bytes.get(12..20)?.try_into().ok()?);
        let word =
            |at: usize| -> Option<u32> { Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)) };
        let body_crc = word(20)?;
        let is_whole = (start as u64).checked_add(body_len) == Some(file_len);
        if !is_whole || crc(&[&bytes[..24], head]) != word(24)? {
            return None;
        }
        let mut reader = Reader(head);
        let protocol = match bytes.starts_with(MAGIC_1) {
            true => Protocol::Http11,
            false => protocol_of(reader.array()?)?,
        };
        let status = u16::from_le_bytes(reader.array()?);
        let is_explicit = reader.array::<1>()? != [0];
        let seconds = u64::from_le_bytes(reader.array()?);
        let initial = u64::from_le_bytes(reader.array()?);
        let received = UnixTime::from_secs(i64::from_le_bytes(reader.array()?));
        let key = reader.text()?.to_vec();
        let text = reader.text()?;
        let variant = reader.text()?.to_vec();
        let mut names = Vec::new();
        while !reader.0.is_empty() {
            names.push(String::from_utf8(reader.text()?.to_vec()).ok()?);
        }
        let directives = ResponseDirectives::of(&Fields::new(&lines(text)), TARGETS);
        Some(Record {
            key,
            head: Stored {
                status,
                text: text.into(),
                directives,
                lifetime: Lifetime { seconds, is_explicit },
                age: Age { initial, received },
            },
            names,
            variant,
            received: protocol,
            body: start..usize::try_from(file_len).ok()?,
            body_crc,
        })
    }

    /// Whether the content of the file is what was written.
    pub(super) fn has_intact_body(&self, file: &[u8]) -> bool {
        file.get(self.body.clone())
            .is_some_and(|body| crc(&[body]) == self.body_crc)
    }
}

/// A version of HTTP as a byte of a head.
fn code_of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Http09 => 9,
        Protocol::Http10 => 10,
        Protocol::Http11 => 11,
        Protocol::Http2 => 20,
        Protocol::Http3 => 30,
    }
}

/// The inverse of [`code_of`].
fn protocol_of([code]: [u8; 1]) -> Option<Protocol> {
    let all = [
        Protocol::Http09,
        Protocol::Http10,
        Protocol::Http11,
        Protocol::Http2,
        Protocol::Http3,
    ];
    all.into_iter().find(|protocol| code_of(*protocol) == code)
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    // Longer ones exceed the length of a head, and are not written.
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut crc = Crc::new();
    for part in parts {
        crc.update(part);
    }
    crc.sum()
}

/// What is left of a head.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_le_bytes(self.array()?);
        self.take(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Budget;
    use crate::proxy::cache::object::Standing;
    use bytes::Bytes;
    use http_cache::stored::Terms;
    use http_semantics::field::Line;

    fn object(names: &[&str]) -> Object {
        let lines = [
            Line {
                name: "Cache-Control",
                value: b"max-age=60, must-revalidate",
            },
            Line {
                name: "ETag",
                value: b"\"\xff\"",
            },
        ];
        let terms = Terms {
            asked: UnixTime::from_secs(5),
            received: UnixTime::from_secs(7),
            targets: TARGETS,
            negative: 0,
        };
        Object {
            key: b"p\0host\0/a?b"[..].into(),
            head: Stored::of(404, &Fields::new(&lines), &terms),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            variant: b"some\0values".to_vec(),
            body: Bytes::from_static(b"content"),
            file: None,
            part: None,
            received: Protocol::Http2,
            is_from_disk: false,
            standing: Standing::default(),
            _charge: Budget::new(0, 0).reserve(0, 0).unwrap(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for names in [&[][..], &["accept"], &["accept", "x"]] {
            let object = object(names);
            let mut file = start_of(&object).unwrap();
            file.extend_from_slice(&object.body);
            let len = file.len() as u64;
            let record = Record::parse(&file, len).unwrap();
            assert_eq!((&record.key[..], &record.head), (&object.key[..], &object.head));
            assert_eq!((&record.names, &record.variant), (&object.names, &object.variant));
            assert_eq!(record.received, object.received);
            assert_eq!(&file[record.body.clone()], b"content");
            assert!(record.has_intact_body(&file));
            // The head is enough to know what it is.
            assert_eq!(
                Record::parse(&file[..start_len(&file).unwrap()], len).unwrap(),
                record
            );
            for at in 0..file.len() {
                let cut = &file[..at];
                assert!(Record::parse(cut, at as u64).is_none(), "cut at {at}");
                let mut changed = file.clone();
                changed[at] ^= 0x10;
                let is_found =
                    Record::parse(&changed, len).is_some_and(|record| record.has_intact_body(&changed));
                assert!(!is_found, "changed at {at}");
            }
        }
    }

    #[test]
    fn a_version_survives() {
        for received in [
            Protocol::Http10,
            Protocol::Http11,
            Protocol::Http2,
            Protocol::Http3,
        ] {
            let object = Object {
                received,
                ..object(&[])
            };
            let start = start_of(&object).unwrap();
            let len = (start.len() + object.body.len()) as u64;
            assert_eq!(Record::parse(&start, len).unwrap().received, received);
        }
        assert_eq!(protocol_of([0]), None);
    }

    #[test]
    fn files_of_format_1_are_read() {
        let object = object(&["accept"]);
        let new = start_of(&object).unwrap();
        // Its head has no version.
        let head = &new[PREFIX + 1..];
        let mut file = MAGIC_1.to_vec();
        file.extend_from_slice(&u32::try_from(head.len()).unwrap().to_le_bytes());
        file.extend_from_slice(&new[12..24]);
        let sum = crc(&[&file, head]);
        file.extend_from_slice(&sum.to_le_bytes());
        file.extend_from_slice(head);
        file.extend_from_slice(&object.body);
        let record = Record::parse(&file, file.len() as u64).unwrap();
        assert_eq!((&record.key[..], &record.head), (&object.key[..], &object.head));
        assert_eq!((&record.names, &record.variant), (&object.names, &object.variant));
        assert_eq!(record.received, Protocol::Http11);
        assert!(record.has_intact_body(&file));
        // A format that nobody knows yet.
        file[7] = b'3';
        assert_eq!(start_len(&file), None);
    }
}
