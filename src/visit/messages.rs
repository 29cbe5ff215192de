//! Messages of the DevTools protocol over a pipe: JSON objects that each end with a NUL byte. Decides how long a message may be,
//! and which bytes are no messages; `dialog` decides what messages mean.

use serde::Deserialize;
use serde_json::{Value, json};

/// Limit on the bytes of a message. A longer one is passed over: no message that a visit needs is that long.
pub(super) const MESSAGE_MAX: usize = 4 << 20;

/// A message of the browser: a reply, which has an `id`, or an event, which has a `method`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: Option<u64>,
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) result: Value,
    pub(super) error: Option<Refusal>,
    /// The target that it is about; `None` for the browser itself.
    #[serde(rename = "sessionId")]
    pub(super) session: Option<String>,
}

/// Why the browser does not do what it was told.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct Refusal {
    pub(super) message: String,
}

/// Cuts bytes into messages.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The beginning of a message.
    pending: Vec<u8>,
    /// The rest of a message is passed over: it is too long.
    is_passing: bool,
    /// Messages that were too long.
    pub(super) passed: u64,
    /// Messages that could not be read.
    pub(super) unread: u64,
    /// Whether a message could be read, so that the other end speaks this protocol.
    has_read: bool,
}

impl Decoder {
    /// Takes bytes as they come, and adds the messages that they complete. Counts messages that cannot be read: a page can put half
    /// of a surrogate pair into a URL, which Chromium passes on and JSON for Unicode text does not have.
    ///
    /// # Errors
    /// Bytes that are no message, if no message came before them.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        messages: &mut Vec<Message>,
    ) -> Result<(), serde_json::Error> {
        while let Some(end) = memchr::memchr(0, bytes) {
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let whole = std::mem::take(&mut self.pending);
            if std::mem::take(&mut self.is_passing) {
                continue;
            }
            match serde_json::from_slice(&whole) {
                Ok(message) => {
                    self.has_read = true;
                    messages.push(message);
                }
                Err(error) if self.has_read => {
                    tracing::debug!("a message of the browser cannot be read: {error}");
                    self.unread += 1;
                }
                Err(error) => return Err(error),
            }
        }
        self.keep(bytes);
        Ok(())
    }

    fn keep(&mut self, part: &[u8]) {
        if self.is_passing {
            return;
        }
        if self.pending.len() + part.len() > MESSAGE_MAX {
            self.pending = Vec::new();
            self.is_passing = true;
            self.passed += 1;
            return;
        }
        self.pending.extend_from_slice(part);
    }
}

/// A command as the browser reads it.
pub(super) fn command(id: u64, method: &str, params: &Value, session: Option<&str>) -> Vec<u8> {
    let mut command = json!({ "id": id, "method": method, "params": params });
    if let Some(session) = session {
        command["sessionId"] = json!(session);
    }
    let mut bytes = command.to_string().into_bytes();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"{\"id\":1,\"result\":{\"a\":\"\\u0000\"}}\0{\"method\":\"Page.x\",\"params\":{\"b\":2},\"sessionId\":\"S\"}\0\
          {\"id\":2,\"error\":{\"code\":-1,\"message\":\"no\"}}\0";

    #[test]
    fn messages_are_the_same_however_the_bytes_are_cut() {
        let mut whole = Vec::new();
        Decoder::default().take(STREAM, &mut whole).expect("messages");
        assert_eq!(whole.len(), 3);
        assert_eq!((whole[0].id, &whole[0].result["a"]), (Some(1), &json!("\0")));
        assert_eq!(
            (whole[1].method.as_str(), &whole[1].params["b"]),
            ("Page.x", &json!(2))
        );
        assert_eq!(whole[1].session.as_deref(), Some("S"));
        assert_eq!(
            whole[2].error.as_ref().map(|error| error.message.as_str()),
            Some("no")
        );
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let (mut decoder, mut cut) = (Decoder::default(), Vec::new());
                for part in [&STREAM[..first], &STREAM[first..second], &STREAM[second..]] {
                    decoder.take(part, &mut cut).expect("messages");
                }
                assert_eq!(cut, whole, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_message_over_the_limit_is_passed_over_and_the_next_one_read() {
        for size in [MESSAGE_MAX - 20, MESSAGE_MAX + 1, 3 * MESSAGE_MAX] {
            let long = format!("{{\"method\":\"{}\"}}\0", "x".repeat(size));
            let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
            for part in long.as_bytes().chunks(1 << 16).chain([STREAM]) {
                decoder.take(part, &mut messages).expect("messages");
                assert!(decoder.pending.len() <= MESSAGE_MAX);
            }
            let is_long = size > MESSAGE_MAX;
            assert_eq!(
                (decoder.passed, messages.len()),
                if is_long { (1, 3) } else { (0, 4) }
            );
        }
    }

    #[test]
    fn a_message_that_cannot_be_read_is_counted_and_the_next_one_read() {
        for unreadable in [&b"{\"method\":\"\\ud800\"}"[..], b"\xff", b"", b"{\"id\":-1}"] {
            let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
            for part in [STREAM, unreadable, b"\0", STREAM] {
                decoder.take(part, &mut messages).expect("messages");
            }
            assert_eq!((decoder.unread, messages.len()), (1, 6), "{unreadable:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_message_are_an_error() {
        for bytes in [&b"\0"[..], b"HTTP/1.1 200 OK\0", b"{\"id\":-1}\0"] {
            assert!(Decoder::default().take(bytes, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn a_command_is_one_message() {
        let bytes = command(7, "Page.navigate", &json!({ "url": "http://h/" }), Some("S"));
        let (rest, end) = bytes.split_at(bytes.len() - 1);
        assert_eq!(end, [0]);
        let read: Value = serde_json::from_slice(rest).expect("JSON");
        let want =
            json!({ "id": 7, "method": "Page.navigate", "params": { "url": "http://h/" }, "sessionId": "S" });
        assert_eq!(read, want);
    }
}
