//! A `multipart/byteranges` response (RFC 9110 section 14.6), part by part: the text before each, and the range of the
//! content that follows it.

use crate::entry::Content;
use http_semantics::range::{self, ByteRange};

/// The parts not sent yet.
#[derive(Debug)]
pub(crate) struct Multipart {
    boundary: u64,
    media_type: Box<[u8]>,
    len: u64,
    content: Content,
    ranges: std::vec::IntoIter<ByteRange>,
}

impl Multipart {
    pub(crate) fn new(
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

    pub(crate) fn framing(&self) -> range::Multipart<'_> {
        range::Multipart {
            boundary: self.boundary,
            media_type: &self.media_type,
            len: self.len,
        }
    }

    /// Length of the parts not sent yet, in bytes.
    pub(crate) fn content_length(&self) -> u64 {
        self.framing().content_length(self.ranges.as_slice())
    }

    /// The content that the ranges are of.
    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// Appends the text before the next part, and returns the range to send behind it. Appends the end and returns
    /// `None` after the last part.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Option<ByteRange> {
        let range = self.ranges.next();
        match range {
            Some(range) => self.framing().part(range, out),
            None => self.framing().end(out),
        }
        range
    }
}
