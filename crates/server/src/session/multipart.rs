//! The rest of a `multipart/byteranges` response (RFC 9110 section 14.6): one part per turn, because the output of a
//! turn refers to one body.

use crate::entry::Content;
use crate::limits::Limits;
use crate::session::reply;
use http_semantics::range::{self, ByteRange};
use runtime::Tx;

/// The parts not sent yet.
#[derive(Debug)]
pub(super) struct Multipart {
    boundary: u64,
    media_type: Box<[u8]>,
    len: u64,
    content: Content,
    ranges: std::vec::IntoIter<ByteRange>,
}

impl Multipart {
    pub(super) fn new(
        boundary: u64,
        media_type: &[u8],
        len: u64,
        content: &Content,
        ranges: Vec<ByteRange>,
    ) -> Multipart {
        Multipart {
            boundary,
            media_type: media_type.into(),
            len,
            content: content.clone(),
            ranges: ranges.into_iter(),
        }
    }

    pub(super) fn framing(&self) -> range::Multipart<'_> {
        range::Multipart {
            boundary: self.boundary,
            media_type: &self.media_type,
            len: self.len,
        }
    }

    /// Length of the parts not sent yet, in bytes.
    pub(super) fn content_length(&self) -> u64 {
        self.framing().content_length(self.ranges.as_slice())
    }

    /// Appends parts until one refers to a body or all are written. Returns whether all are.
    pub(super) fn write(&mut self, tx: &mut Tx) -> bool {
        while let Some(range) = self.ranges.next() {
            self.framing().part(range, &mut tx.head);
            reply::content(tx, &self.content, range.first, range.len(), Limits::COPIED_BODY);
            if tx.body.is_some() {
                return false;
            }
        }
        self.framing().end(&mut tx.head);
        true
    }
}
