//! Commands for the operator over HTTP: a POST to `/control` at an admin address holds one command, as `weir ctl` writes it to
//! the control socket.
//!
//! ```text
//!   session ── POST /control ──▶ Forward ──▶ Upstream::Local ──▶ crate::local ──▶ Inbox ──▶ the thread that obeys
//!                authorized        socket                          a thread
//! ```
//! `service::admin` decides who may send commands. This file decides how long they may be, and the status of each answer. The
//! program behind the inbox executes them.

use crate::config::{Proxy, UpstreamAddress};
use crate::local::reply::{Content, Reply};
use crate::local::{self, Body};
use crate::proxy::{Found, Route};
use http1::head::Request;
use runtime::control::{ANSWER_PATIENCE, Inbox, QUESTION_MAX};
use runtime::local::Local;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::sync::Arc;
use units::{Bytes, Duration};

/// The path of commands.
pub(crate) const PATH: &str = "/control";

/// Largest body of a command.
pub(crate) const BODY_MAX: usize = QUESTION_MAX - 1;

/// Commands under way at a time. One thread executes them, one after another.
const THREADS_MAX: usize = 4;

/// Bytes shown of a command's name in the log.
const NAME_MAX: usize = 32;

/// What passes commands on to the thread that obeys them.
#[derive(Debug)]
pub(crate) struct Control {
    local: Local,
    route: Arc<Route>,
}

impl Control {
    /// Commands go to this inbox.
    ///
    /// # Errors
    /// In words, what the system refused.
    pub(crate) fn open(inbox: Inbox) -> Result<Control, String> {
        let local = Local::bind("control", THREADS_MAX, move |stream| {
            local::serve(stream, |head, body| execute(&inbox, head, body));
        });
        let local = local.map_err(|error| format!("no socket for commands: {error}"))?;
        let rule = Proxy {
            // A command is executed once, and nobody else could execute it.
            retries: 0,
            max_failures: 0,
            keepalive: Some(0),
            websocket: false,
            // A little longer than the answer may take, so that it says what failed.
            first_byte_timeout: Duration::from_secs(ANSWER_PATIENCE.as_secs() + 15),
            max_body_size: Bytes(BODY_MAX as u64),
            ..Proxy::new(
                PATH.parse()?,
                vec![UpstreamAddress::at(Arc::clone(local.upstream()))],
            )
        };
        let route = Arc::new(Route::to_control(rule)?);
        Ok(Control { local, route })
    }

    /// Begins to pass commands on. A process calls this once it does not fork any more.
    pub(crate) fn awaken(&self) {
        self.local.awaken();
    }

    /// The route of a command.
    pub(crate) fn route(&self) -> Found {
        Found {
            route: Arc::clone(&self.route),
            target: PATH.into(),
            vouched: None,
            script: None,
        }
    }
}

/// Has a command executed, and logs who sent it and what came of it.
fn execute(inbox: &Inbox, head: &Request<'_, '_>, body: &mut Body<'_>) -> Reply {
    let command = match body.whole(BODY_MAX) {
        Ok(command) => one_line(command),
        Err(reply) => return reply,
    };
    let (status, answer) = answered(inbox, &command);
    // The session wrote this field: it names the peer, and clients that trusted peers name.
    let sender = head.fields.find("x-forwarded-for").unwrap_or_default();
    let sender = sender.escape_ascii();
    let name = name(&command);
    match status {
        200 => tracing::info!("control: {name} from {sender}: done"),
        _ => {
            let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
            // It may repeat what the client sent: no line of the log is the client's.
            let why = answer["error"]
                .as_str()
                .unwrap_or("no answer")
                .replace(char::is_control, " ");
            tracing::warn!("control: {name} from {sender} failed: {why}");
        }
    }
    let reply = Reply {
        content: Content::Text("application/json", format!("{answer}\n")),
        ..Reply::of(status)
    };
    let reply = reply.with("Cache-Control", "no-store");
    match status {
        503 => reply.with("Retry-After", "1"),
        _ => reply,
    }
}

/// The status, and the answer as JSON.
fn answered(inbox: &Inbox, command: &[u8]) -> (u16, String) {
    let failed = |status: u16, kind: &str, why: &str| {
        let answer = json!({ "ok": false, "kind": kind, "error": why });
        (status, answer.to_string())
    };
    let Ok(command) = std::str::from_utf8(command) else {
        return failed(400, "usage", "the command is not UTF-8; send one JSON object");
    };
    match inbox.ask(command) {
        Ok(answer) => {
            let read: Value = serde_json::from_str(&answer).unwrap_or_default();
            let status = match (&read["ok"], read["kind"].as_str()) {
                (Value::Bool(true), _) => 200,
                (_, Some("usage")) => 400,
                _ => 500,
            };
            (status, answer)
        }
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => failed(
                503,
                "system",
                "too many commands wait, this process stops, or another one takes over; send the command again",
            ),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => failed(
                504,
                "system",
                "there is no answer yet, and the command may still be executed; read the server's log",
            ),
            _ => failed(
                500,
                "system",
                &format!("the command was not answered: {error}; read the server's log"),
            ),
        },
    }
}

/// The same JSON in one line, as the inbox takes it: line breaks are white space there (RFC 8259 section 2).
fn one_line(mut command: Vec<u8>) -> Vec<u8> {
    for byte in &mut command {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    command
}

/// What a command is called, for the log.
fn name(command: &[u8]) -> String {
    let command: Value = serde_json::from_slice(command).unwrap_or_default();
    let name = command["do"].as_str().unwrap_or("unknown command");
    let shown: String = name.chars().take(NAME_MAX).collect();
    format!("`{}`", shown.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::control::Control as Answering;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a client waits in a test")]
    fn each_answer_has_its_status() {
        let answering = Answering::without_file().expect("an inbox");
        let inbox = answering.inbox();
        for (answer, status) in [
            (r#"{"ok":true}"#, 200),
            (r#"{"ok":false,"kind":"usage","error":"x"}"#, 400),
            (r#"{"ok":false,"kind":"system","error":"x"}"#, 500),
            ("nonsense", 500),
        ] {
            let asking = std::thread::spawn({
                let inbox = inbox.clone();
                move || answered(&inbox, &one_line(b"{\n \"do\": \"sing\"\r\n}".to_vec()))
            });
            let question = loop {
                match answering.next() {
                    Some(question) => break question,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(question.line(), "{  \"do\": \"sing\"  }");
            question.answer(answer);
            assert_eq!(asking.join().expect("no panic"), (status, answer.to_owned()));
        }
        assert_eq!(answered(&inbox, b"\xff").0, 400);
        drop(answering);
        let (status, answer) = answered(&inbox, b"{}");
        assert!(status == 503 && answer.contains("again"), "{status} {answer}");
    }

    #[test]
    fn names_of_commands_are_short_and_escaped() {
        for (command, wanted) in [
            (r#"{"do":"reload"}"#, "`reload`"),
            (r#"{"do":"a\nb"}"#, "`a\\nb`"),
            ("", "`unknown command`"),
        ] {
            assert_eq!(name(command.as_bytes()), wanted);
        }
        assert_eq!(
            name(format!(r#"{{"do":"{}"}}"#, "x".repeat(99)).as_bytes()).len(),
            34
        );
    }
}
