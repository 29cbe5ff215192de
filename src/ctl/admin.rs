//! Commands to the admin listener of a server over HTTP: `weir ctl --admin`. Decides where the token may go, which commands are
//! sent again, and what a user can do about each failure.

use crate::ask::{self, Request, Response};
use crate::cli::ctl::AdminFlags;
use crate::failure::Failure;
use crate::secure::{Secure, TlsFlags, host};
use runtime::clock;
use runtime::control::{ANSWER_PATIENCE, SUCCESSORS_MAX};
use std::path::Path;
use tls::refusal::Settings;
use units::Duration;
use url::{Host, Url};

/// Largest file of a token, in bytes.
const TOKEN_MAX: u64 = 4 << 10;

/// Longest pause before a command is sent again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What --token-file names.
const COPY: &str = "a copy of the server's `control-token-file` or, without one, of its `token-file`";

/// How errors of TLS name the flags.
const SETTINGS: Settings = Settings {
    ca: "--ca",
    insecure: None,
    certificate: "name one with --cert and --key",
    name: "use a name of the certificate in --admin, or install one for this name",
    clear: "an http URL in --admin",
    versions: "enable TLS 1.2 or 1.3 there",
    protocols: "enable HTTP/1.1 there",
};

/// Sends a command, and returns the answer: JSON, as the control socket gives it.
///
/// # Errors
/// `Usage` for flags that cannot be used and for missing rights, `System` if the server does not answer.
pub(super) fn ask(url: &Url, flags: &AdminFlags, command: &str) -> Result<String, Failure> {
    let secure = secure(url, flags)?;
    let token = flags.token_file.as_deref().map(token).transpose()?;
    let authorization = token.map(|token| format!("Bearer {token}"));
    let mut fields = vec![("Content-Type", "application/json")];
    fields.extend(authorization.as_deref().map(|value| ("Authorization", value)));
    let target = url
        .join("/control")
        .map_err(|error| Failure::Usage(format!("--admin: `{url}`: {error}; write https://HOST:PORT")))?;
    let request = Request {
        url: &target,
        method: "POST",
        fields: &fields,
        content: command.as_bytes(),
    };
    // The server gives up a little later than its answer is due, and says so.
    let patience = Duration::from_secs(ANSWER_PATIENCE.as_secs() + 30);
    let send = || {
        ask::ask(&request, secure.as_ref(), patience).map_err(|unanswered| {
            let advice = match unanswered.is_final {
                // The reason of TLS says what to do.
                true => "",
                false => {
                    "; check that the server runs, and that this is an address of `listen` in its table `[admin]`"
                }
            };
            Failure::System(format!("`{url}` does not answer: {}{advice}", unanswered.why))
        })
    };
    let response = until_read(send, clock::pause)?;
    if is_answer(&response.content) {
        return Ok(String::from_utf8_lossy(&response.content).into_owned());
    }
    Err(refusal(url, response.status, flags.token_file.as_deref()))
}

/// Sends a command, and sends it again as often as to the control socket while nobody reads it: the process stops, or another
/// one takes over. Returns the last response.
///
/// # Errors
/// That of the last attempt.
fn until_read(
    mut send: impl FnMut() -> Result<Response, Failure>,
    mut pause: impl FnMut(Duration),
) -> Result<Response, Failure> {
    let mut again = 0..SUCCESSORS_MAX;
    loop {
        let response = send()?;
        // Any other 503 may be that of a proxy, which may have passed the command on.
        let is_unread = response.status == 503 && is_answer(&response.content);
        if !is_unread || again.next().is_none() {
            return Ok(response);
        }
        let asked = response
            .field("Retry-After")
            .and_then(|secs| secs.parse().ok())
            .map(Duration::from_secs);
        pause(asked.unwrap_or(PAUSE_MAX).min(PAUSE_MAX));
    }
}

/// Whether content is the answer to a command. Everything between, a proxy for instance, answers otherwise.
fn is_answer(content: &[u8]) -> bool {
    let answer = serde_json::from_slice::<serde_json::Value>(content);
    answer.is_ok_and(|answer| answer["ok"].is_boolean())
}

/// What a response means that is no answer to a command.
fn refusal(url: &Url, status: u16, token: Option<&Path>) -> Failure {
    match (status, token) {
        (401, None) => Failure::Usage(format!(
            "`{url}` wants a token (status 401); name {COPY} with --token-file"
        )),
        (401, Some(file)) => Failure::Usage(format!(
            "`{url}` does not accept the token in `{}` (status 401); name {COPY}, and reload the server if that file has changed",
            file.display()
        )),
        (403, None) => Failure::Usage(format!(
            "`{url}` lets this client read and not send commands (status 403); name {COPY} with --token-file"
        )),
        (403, Some(file)) => Failure::Usage(format!(
            "`{url}` takes no commands with the token in `{}` (status 403), which may only read; name {COPY}, and reload the \
             server if that file has changed",
            file.display()
        )),
        (404 | 405, _) => Failure::Usage(format!(
            "`{url}` takes no commands (status {status}); set `control = true` in the table `[admin]` of the server and restart \
             it, or correct --admin: it is an address of `listen` in that table"
        )),
        (502 | 504, _) => Failure::System(format!(
            "`{url}` gave no answer (status {status}), and the command may still be executed; run `weir ctl status` and read the \
             server's log before you send it again"
        )),
        (429 | 503, _) => Failure::System(format!(
            "`{url}` rejected the command (status {status}): the server is overloaded or stops; send the command again"
        )),
        _ => Failure::System(format!(
            "`{url}` rejected the command (status {status}); check that --admin is the admin address of a weir, and read its log"
        )),
    }
}

/// TLS to the server; `None` in cleartext, which is for this machine only.
fn secure(url: &Url, flags: &AdminFlags) -> Result<Option<Secure>, Failure> {
    let tls = TlsFlags {
        ca: flags.ca.clone(),
        cert: flags.cert.clone(),
        key: flags.key.clone(),
        ..TlsFlags::default()
    };
    if url.scheme() == "https" {
        let name = host(url.host_str().unwrap_or_default());
        return Ok(Some(Secure::new(&tls, name)?.advising(&SETTINGS)));
    }
    if !is_this_machine(url) {
        return Err(Failure::Usage(format!(
            "--admin: `{url}` would send the command in cleartext to another machine; use https"
        )));
    }
    Secure::none(&tls)?;
    Ok(None)
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The token in a file.
fn token(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let content = runtime::fs::read_small(file, TOKEN_MAX)
        .map_err(|error| Failure::Usage(format!("--token-file: `{shown}`: {error}; name {COPY}")))?;
    let token = content.trim_ascii();
    match token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        true => Err(Failure::Usage(format!(
            "--token-file: `{shown}` has no token: it is one word of visible ASCII characters; name {COPY}"
        ))),
        false => Ok(String::from_utf8_lossy(token).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ctl::parse_url;

    #[test]
    fn a_command_is_sent_again_if_nobody_has_read_it() {
        let response = |status, retry_after: &str, content: &str| Response {
            status,
            fields: vec![("Retry-After".to_owned(), retry_after.to_owned())],
            content: content.into(),
        };
        let unread = r#"{"ok":false,"kind":"system","error":"it stops"}"#;
        let seconds = Duration::from_secs;
        for (responses, pauses) in [
            (vec![response(200, "", r#"{"ok":true}"#)], vec![]),
            (
                vec![response(503, "1", unread), response(200, "", r#"{"ok":true}"#)],
                vec![seconds(1)],
            ),
            (
                vec![
                    response(503, "0", unread),
                    response(503, "99", unread),
                    response(503, "soon", unread),
                    response(503, "1", unread),
                ],
                vec![seconds(0), seconds(1), seconds(1)],
            ),
            // An overloaded server, a proxy, and commands that were read.
            (vec![response(503, "0", "<p>busy")], vec![]),
            (vec![response(504, "0", unread)], vec![]),
            (vec![response(500, "0", unread)], vec![]),
        ] {
            let (mut sent, mut paused) = (0, Vec::new());
            let got = until_read(
                || {
                    sent += 1;
                    Ok(responses[sent - 1].clone())
                },
                |span| paused.push(span),
            );
            let last = responses.last().map(|response| response.status);
            assert_eq!(got.ok().map(|response| response.status), last);
            assert_eq!((sent, paused), (responses.len(), pauses));
        }
    }

    #[test]
    fn cleartext_stays_on_this_machine() {
        for (text, is_allowed) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost:1", true),
            ("http://192.0.2.1:1", false),
            ("http://localhost.a.test:1", false),
        ] {
            let url = parse_url(text).expect("a URL");
            let outcome = secure(&url, &AdminFlags::default());
            assert_eq!(outcome.is_ok(), is_allowed, "{text}");
        }
    }
}
