//! What a part of this process does that is an upstream of its sessions ([`runtime::local`]): it takes one request over the
//! connection that a session has opened, and replies. The session closes the connection after that.
//!
//! Decides how messages are read and written. [`crate::uploads`] and [`crate::control`] know what requests mean.

pub(crate) mod reply;

use http_semantics::field::MAX_LINES;
use http_semantics::status::Status;
use http1::framing::Framing;
use http1::head::Request;
use http1::response;
use http1::server::{Connection, Step};
use http1::slots::Slots;
use reply::{Content, Reply};
use std::io::{self, Read, Write};

/// Bytes that are read or sent at a time.
const PORTION: usize = 64 << 10;

/// Limits on requests, which have passed those of the server. Sessions add some lines.
const LIMITS: http1::Limits = http1::Limits {
    head_bytes_max: 2 << 20,
    target_bytes_max: 2 << 20,
    fields_max: MAX_LINES as u16,
    ..http1::Limits::DEFAULT
};

/// The body of a request.
pub(crate) struct Body<'s> {
    stream: &'s mut dyn Read,
    http: Connection,
    /// Input that is not decoded, from `at` on.
    input: Vec<u8>,
    at: usize,
    is_over: bool,
    /// Its length, if the client has announced it.
    pub(crate) length: Option<u64>,
}

impl Body<'_> {
    /// Calls `take` with one piece of the content after the other.
    ///
    /// # Errors
    /// Of `take`, or 400 if the content ends before it is complete.
    pub(crate) fn each(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), Reply>) -> Result<(), Reply> {
        let cut = || Reply::error(400, "The body ended before it was complete.");
        while !self.is_over {
            let mut slots = Slots::new();
            match self.http.receive(&self.input[self.at..], &mut slots, &LIMITS) {
                Ok(Step::Body { data, used }) => {
                    take(data)?;
                    self.at += used;
                }
                Ok(Step::Partial { used }) => {
                    self.input.drain(..self.at + used);
                    self.at = 0;
                    if read(self.stream, &mut self.input).map_err(|_| cut())? == 0 {
                        return Err(cut());
                    }
                }
                Ok(Step::End { .. }) => self.is_over = true,
                Ok(Step::Request { .. } | Step::Paused | Step::Closed) | Err(_) => return Err(cut()),
            }
        }
        Ok(())
    }

    /// The whole content, if it has at most `most` bytes.
    ///
    /// # Errors
    /// 413 for more, and as [`Body::each`].
    pub(crate) fn whole(&mut self, most: usize) -> Result<Vec<u8>, Reply> {
        let mut whole = Vec::new();
        self.each(|data| {
            whole.extend_from_slice(data);
            match whole.len() <= most {
                true => Ok(()),
                false => Err(Reply::error(413, format!("The body has more than {most} bytes."))),
            }
        })?;
        Ok(whole)
    }

    /// Whether the request has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_over && self.length.is_none_or(|length| length == 0)
    }
}

/// Appends what is there to read; 0 bytes at the end.
fn read(stream: &mut dyn Read, input: &mut Vec<u8>) -> io::Result<usize> {
    let start = input.len();
    input.resize(start + PORTION, 0);
    let outcome = loop {
        match stream.read(&mut input[start..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other,
        }
    };
    input.truncate(start + outcome.as_ref().copied().unwrap_or(0));
    outcome
}

/// Replies to the request of a connection with what `answer` makes of its head and its body.
pub(crate) fn serve(
    stream: &mut (impl Read + Write),
    answer: impl FnOnce(&Request<'_, '_>, &mut Body<'_>) -> Reply,
) {
    if let Some((reply, is_head)) = reply_to(stream, answer) {
        // If that fails, the session is gone, or reports a truncated response.
        let _ = write(stream, reply, is_head);
    }
}

/// The reply to the request that a stream has, and whether only its head is wanted. `None`: the session is gone.
pub(crate) fn reply_to(
    stream: &mut dyn Read,
    answer: impl FnOnce(&Request<'_, '_>, &mut Body<'_>) -> Reply,
) -> Option<(Reply, bool)> {
    let input = head(stream)?;
    let mut slots = Slots::new();
    let mut http = Connection::new();
    Some(match http.receive(&input, &mut slots, &LIMITS) {
        Ok(Step::Request { head, used }) => {
            let mut body = Body {
                stream,
                http,
                input: input[used..].to_vec(),
                at: 0,
                is_over: head.framing == Framing::Empty,
                length: match head.framing {
                    Framing::Length(length) => Some(length),
                    Framing::Empty => Some(0),
                    Framing::Chunked | Framing::UntilClose => None,
                },
            };
            (answer(&head, &mut body), head.method_name == "HEAD")
        }
        _ => (
            Reply::error(400, "The request has more fields than can be read."),
            false,
        ),
    })
}

/// The bytes up to the end of the head, at least. `None`: the session is gone.
fn head(stream: &mut dyn Read) -> Option<Vec<u8>> {
    const END: &[u8] = b"\r\n\r\n";
    let mut input = Vec::new();
    let mut searched: usize = 0;
    while memchr::memmem::find(&input[searched.saturating_sub(END.len())..], END).is_none() {
        searched = input.len();
        if searched > LIMITS.head_bytes_max as usize || read(stream, &mut input).ok()? == 0 {
            return None;
        }
    }
    Some(input)
}

fn write(stream: &mut dyn Write, reply: Reply, is_head: bool) -> io::Result<()> {
    let mut out = Vec::with_capacity(1024);
    let status = Status::from_u16(reply.status).unwrap_or(Status::INTERNAL_SERVER_ERROR);
    response::status_line(&mut out, status);
    let mut field = |name: &str, value: &str| {
        response::field(&mut out, name, value.as_bytes())
            .map_err(|_| io::Error::other("a field that cannot be written"))
    };
    for (name, value) in &reply.fields {
        field(name, value)?;
    }
    let length = match &reply.content {
        Content::Nothing => 0,
        Content::Text(kind, text) => {
            field("Content-Type", kind)?;
            text.len() as u64
        }
        Content::File(_, length, kind) => {
            field("Content-Type", kind)?;
            *length
        }
    };
    // RFC 9110 section 8.6: none for these.
    if !matches!(reply.status, 204 | 304) {
        response::content_length(&mut out, length);
    }
    out.extend_from_slice(b"Connection: close\r\n");
    response::end(&mut out);
    if is_head {
        return stream.write_all(&out);
    }
    match reply.content {
        Content::Nothing => stream.write_all(&out),
        Content::Text(_, text) => {
            out.extend_from_slice(text.as_bytes());
            stream.write_all(&out)
        }
        Content::File(file, length, _) => {
            stream.write_all(&out)?;
            // If the file has become shorter, the response is truncated, and its receiver sees that.
            io::copy(&mut file.take(length), stream).map(drop)
        }
    }
}
