//! The bytes that a connection has received, cut into what a server takes up at a time: a request of HTTP/1, or frames of
//! HTTP/2 up to the next request. Decides where a request ends and which path it names; the session parses it again.

use core::mem;
use http2::frame::{Frame, HEADER, PREFACE, Prelude, SIZE_MIN, WINDOW_INITIAL, parse, prelude};
use http2::hpack::{Bounds, Decoder, Fields};

/// Bytes of the dynamic table that HTTP/2 permits before SETTINGS (RFC 9113 section 6.5.2). Weir's server announces no other.
const TABLE: usize = 4096;
/// Limits of a head; those of the users' requests are far below.
const BOUNDS: Bounds = Bounds {
    fields: 100,
    bytes: WINDOW_INITIAL as usize,
};

/// The protocol of all connections of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    /// HTTP/2 without TLS, with prior knowledge (RFC 9113 section 3.3).
    Http2,
}

/// Received bytes that no session has been told yet.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// Of HTTP/2: the decoder of field sections.
    decoder: Option<Box<Decoder>>,
    /// Bytes of the preface of HTTP/2 that have not come yet.
    preface: usize,
}

/// What a session is told at once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// The path of the request at its end; `None` if there is none, or if it cannot be read.
    pub(crate) path: Option<String>,
}

impl Input {
    pub(crate) fn new(protocol: Protocol) -> Input {
        let (decoder, preface) = match protocol {
            Protocol::Http1 => (None, 0),
            Protocol::Http2 => (Some(Box::new(Decoder::new(TABLE))), PREFACE.len()),
        };
        Input {
            bytes: Vec::new(),
            decoder,
            preface,
        }
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes held.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is a whole request or frame.
    pub(crate) fn has_part(&self) -> bool {
        match self.decoder {
            None => self.bytes.windows(4).any(|four| four == b"\r\n\r\n"),
            Some(_) => self.bytes.len() > self.preface && frame(&self.bytes[self.preface..]) != Next::Partial,
        }
    }

    /// Takes a request of HTTP/1; or the frames of HTTP/2 that are there, up to and including the next request.
    pub(crate) fn take(&mut self) -> Part {
        match &mut self.decoder {
            None => {
                let end = self.bytes.windows(4).position(|four| four == b"\r\n\r\n");
                let end = end.map_or(self.bytes.len(), |at| at + 4);
                let bytes: Vec<u8> = self.bytes.drain(..end).collect();
                let text = core::str::from_utf8(&bytes).ok();
                let path = text.and_then(|text| text.split(' ').nth(1)).map(str::to_owned);
                Part { bytes, path }
            }
            Some(decoder) => {
                let (mut end, mut path) = (mem::take(&mut self.preface).min(self.bytes.len()), None);
                while path.is_none() {
                    match frame(&self.bytes[end..]) {
                        Next::Partial => break,
                        // The session answers with the error.
                        Next::Faulty => end = self.bytes.len(),
                        Next::Whole(length, fragment) => {
                            path = fragment.and_then(|fragment| path_of(decoder, fragment));
                            end += length;
                        }
                    }
                }
                let bytes = self.bytes.drain(..end).collect();
                Part { bytes, path }
            }
        }
    }
}

/// The frame at the front of some bytes.
#[derive(Debug, PartialEq, Eq)]
enum Next<'a> {
    Partial,
    Faulty,
    /// Its length and, of HEADERS, the field section: the users' heads fit into one frame.
    Whole(usize, Option<&'a [u8]>),
}

fn frame(bytes: &[u8]) -> Next<'_> {
    let header = match prelude(bytes, SIZE_MIN) {
        Err(_) => return Next::Faulty,
        Ok(Prelude::Partial) => return Next::Partial,
        Ok(Prelude::Data { header, .. } | Prelude::Other(header)) => header,
    };
    let length = HEADER + header.length as usize;
    let Some(payload) = bytes.get(HEADER..length) else {
        return Next::Partial;
    };
    let fragment = match header.kind {
        http2::frame::kind::HEADERS => match parse(header, payload) {
            Ok(Frame::Headers { fragment, .. }) => Some(fragment),
            _ => return Next::Faulty,
        },
        _ => None,
    };
    Next::Whole(length, fragment)
}

fn path_of(decoder: &mut Decoder, fragment: &[u8]) -> Option<String> {
    let mut fields = Fields::default();
    decoder.decode(fragment, BOUNDS, &mut fields).ok()?;
    let value = fields.iter().find(|(name, _)| *name == b":path")?.1;
    core::str::from_utf8(value).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http2::frame::write;
    use http2::hpack::Encoder;

    #[test]
    fn requests_of_http_1_are_taken_one_by_one() {
        let mut input = Input::new(Protocol::Http1);
        input.extend(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\n\r");
        let part = input.take();
        assert_eq!(part.path.as_deref(), Some("/a"));
        assert!(part.bytes.ends_with(b"\r\n\r\n"));
        assert!(!input.has_part());
        input.extend(b"\n");
        assert!(input.has_part());
        assert_eq!(input.take().path.as_deref(), Some("/b"));
        assert_eq!(input.len(), 0);
    }

    fn head(encoder: &mut Encoder, stream: u32, path: &str, out: &mut Vec<u8>) {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "server"),
            (":path", path),
        ] {
            encoder.field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        write::headers(out, stream, &block, true, SIZE_MIN);
    }

    /// The second request refers to entries of the dynamic table, and arrives byte by byte.
    #[test]
    fn requests_of_http_2_are_taken_with_the_frames_before_them() {
        let mut encoder = Encoder::new(TABLE);
        let mut first = PREFACE.to_vec();
        write::settings(&mut first, &[]);
        head(&mut encoder, 1, "/a", &mut first);
        let mut second = Vec::new();
        write::window_update(&mut second, 0, 10_000);
        head(&mut encoder, 3, "/a", &mut second);
        let mut input = Input::new(Protocol::Http2);
        input.extend(&PREFACE[..9]);
        assert!(!input.has_part());
        input.extend(&first[9..]);
        assert!(input.has_part());
        let part = input.take();
        assert_eq!((part.bytes, part.path.as_deref()), (first, Some("/a")));
        let (last, most) = second.split_last().expect("a frame");
        for byte in most {
            input.extend(&[*byte]);
        }
        // The update alone.
        assert_eq!(
            input.take(),
            Part {
                bytes: second[..13].to_vec(),
                path: None
            }
        );
        assert!(!input.has_part());
        input.extend(&[*last]);
        let part = input.take();
        assert_eq!(part.path.as_deref(), Some("/a"));
        assert_eq!(part.bytes, second[13..]);
        // Larger than any frame may be: the session is told, and says why not.
        input.extend(&[0xff; 12]);
        assert!(input.has_part());
        assert_eq!((input.take().bytes.len(), input.len()), (12, 0));
    }
}
