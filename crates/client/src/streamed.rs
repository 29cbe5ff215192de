//! Parts of responses that come on streams, the same for HTTP/2 and HTTP/3.

use crate::session::{Head, Said};
use http_semantics::compression;
use http_semantics::field::{Fields, Line, MAX_FIELDS};
use http_semantics::status::{Status, reason};

/// Most requests outstanding on a connection; servers usually permit 100 or more.
pub const STREAMS_MAX: usize = 100;

/// What came over a connection.
#[derive(Debug)]
pub enum Came<'a, 'b, 's> {
    /// A part of the response of this stream.
    Said(u32, Said<'a, 'b, 's>),
    /// Values of `Link` in an interim response (103, RFC 8297).
    Hints(u32, Vec<String>),
    /// The stream ended without a whole response.
    Reset(u32, Reset),
}

/// Why a stream ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The name of the error code.
    pub code: String,
    /// Whether the server has not looked at the request, so that it may be made again (RFC 9113 section 8.7, RFC 9114
    /// section 4.1.1).
    pub is_refused: bool,
}

/// Passes the head of a response to `hear`, interim ones included as far as they mean something to a request without
/// content. `used`: its bytes.
pub(crate) fn head(
    stream: u32,
    status: u16,
    fields: &compression::Fields,
    end: bool,
    used: usize,
    hear: &mut impl FnMut(Came<'_, '_, '_>),
) {
    if status == 103 {
        let links = fields.iter().filter(|(name, _)| *name == b"link");
        let links = links.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
        return hear(Came::Hints(stream, links.collect()));
    }
    if status < 200 {
        return;
    }
    let mut lines = [Line { name: "", value: b"" }; MAX_FIELDS];
    let regular = fields.iter().filter(|(name, _)| !name.starts_with(b":"));
    let mut count = 0;
    for (slot, (name, value)) in lines.iter_mut().zip(regular) {
        let Ok(name) = core::str::from_utf8(name) else {
            continue;
        };
        *slot = Line { name, value };
        count += 1;
    }
    let head = Head {
        status,
        reason: Status::from_u16(status).map_or("", reason),
        fields: Fields::new(&lines[..count]),
    };
    hear(Came::Said(stream, Said::Head(&head, used)));
    if end {
        hear(Came::Said(stream, Said::End(0)));
    }
}
