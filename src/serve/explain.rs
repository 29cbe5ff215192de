//! `weir serve --explain "GET /path"`: says which rules apply to a request and where its answer comes from, without serving.
//! Decides how a request is written; the server explains it.

use super::access_log::AccessLogs;
use super::open;
use crate::cli::serve::Flags;
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use runtime::clock;
use runtime::listen::UNIX_PEER;
use server::config::Config;
use server::{Additions, Explanation, Interprocess, Question};
use std::net::{IpAddr, Ipv4Addr};
use url::Url;

/// Explains the answer to the request in `text`.
///
/// # Errors
/// `Usage` if it is no request or the configuration cannot be served; `Failed` if the answer is an error.
pub(super) fn run(config: Config, text: &str, flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let asked = Asked::read(text).map_err(|why| flags.blame("explain", why))?;
    super::rights::try_user(&config, flags)?;
    let server = open(
        config,
        Interprocess::default(),
        Additions::default(),
        &AccessLogs::default(),
        flags,
    )?;
    if let Some(host) = flags
        .explain_field
        .iter()
        .find(|field| field.name().eq_ignore_ascii_case("host"))
    {
        return Err(flags.blame(
            "explain",
            format!(
                "`--explain-field` cannot set Host; write it in the URL: --explain \"GET http://{}/\"",
                host.value()
            ),
        ));
    }
    let explanation = server
        .explain(&asked.question(flags), clock::now(), clock::wall())
        .map_err(|why| flags.blame("explain", why))?;
    if voice.json {
        let steps = explanation
            .steps
            .iter()
            .map(|step| serde_json::json!({ "subject": step.subject, "text": step.text }));
        output::line(serde_json::json!({
            "event": "explained",
            "steps": steps.collect::<Vec<_>>(),
            "status": explanation.status,
            "source": explanation.source,
            "fields": explanation.fields,
        }))?;
    } else {
        output::line(shown(text, &explanation))?;
    }
    match explanation.status {
        Some(status @ 400..) => Err(Failure::Failed(format!(
            "the answer to `{text}` is an error: {status}; {} decides it",
            explanation.source
        ))),
        _ => Ok(()),
    }
}

fn shown(text: &str, explanation: &Explanation) -> String {
    let mut out = format!("{text}\n");
    for step in &explanation.steps {
        out += &format!("  {:<14} {}\n", step.subject, step.text);
    }
    match explanation.status {
        Some(status) => out += &format!("  {:<14} {status}, from {}", "answer", explanation.source),
        None => out += &format!("  {:<14} from {}", "answer", explanation.source),
    }
    for field in &explanation.fields {
        out += &format!("\n  {:<14} {field}", "field");
    }
    out
}

/// A request as it is written.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    method: String,
    host: String,
    target: String,
    is_secured: bool,
    peer: IpAddr,
}

impl Asked {
    /// Reads `METHOD TARGET` or `METHOD TARGET from ADDRESS`; `from unix` for a client of a Unix socket. The target is a path or a URL.
    fn read(text: &str) -> Result<Asked, String> {
        let wrong = || {
            format!(
                "`{text}` is not a request; write a method and a path or URL, as in \"GET /old/page\" or \"GET \
                 https://example.org/ from 192.0.2.1\""
            )
        };
        let no_address = |peer: &str| {
            format!(
                "`{peer}` is not an IP address; write one, or `unix` for a client of a Unix socket, as in \"GET /old/page from \
                 192.0.2.1\""
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (method, target, peer) = match words[..] {
            [method, target] => (method, target, IpAddr::V4(Ipv4Addr::LOCALHOST)),
            [method, target, "from", "unix"] => (method, target, UNIX_PEER.ip()),
            [method, target, "from", peer] => (method, target, peer.parse().map_err(|_| no_address(peer))?),
            _ => return Err(wrong()),
        };
        let (host, target, is_secured) = if target.starts_with('/') {
            ("localhost".to_owned(), target.to_owned(), false)
        } else {
            let url = Url::parse(target).map_err(|_| wrong())?;
            let (Some(host), "http" | "https") = (url.host_str(), url.scheme()) else {
                return Err(wrong());
            };
            // As it is written: a server sees spellings that browsers would have resolved.
            let behind = target.split_once("://").map_or("", |(_, rest)| rest);
            let path = behind.find(['/', '?']).map_or("", |at| &behind[at..]);
            let slash = if path.starts_with('/') { "" } else { "/" };
            (host.to_owned(), format!("{slash}{path}"), url.scheme() == "https")
        };
        Ok(Asked {
            method: method.to_owned(),
            host,
            target,
            is_secured,
            peer,
        })
    }

    fn question<'q>(&'q self, flags: &'q Flags) -> Question<'q> {
        Question {
            method: &self.method,
            host: &self.host,
            target: &self.target,
            is_secured: self.is_secured,
            peer: self.peer,
            is_admitted: flags.explain_admitted,
            fields: &flags.explain_field,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read() {
        for (text, host, target, is_secured, peer) in [
            ("GET /old/page?x", "localhost", "/old/page?x", false, "127.0.0.1"),
            (
                "HEAD https://a.test/x/../y from 192.0.2.1",
                "a.test",
                "/x/../y",
                true,
                "192.0.2.1",
            ),
            ("GET http://A.test:8080?q", "a.test", "/?q", false, "127.0.0.1"),
            ("GET //a/b from ::1", "localhost", "//a/b", false, "::1"),
            ("GET /a from unix", "localhost", "/a", false, "::"),
        ] {
            let asked = Asked::read(text).expect("a request");
            assert_eq!((&*asked.host, &*asked.target), (host, target), "{text}");
            assert_eq!(
                (asked.is_secured, asked.peer),
                (is_secured, peer.parse().expect("an address"))
            );
        }
        for text in [
            "",
            "GET",
            "/old/page",
            "GET old/page",
            "GET ftp://a.test/",
            "GET / 192.0.2.1",
            "GET / from ::1 now",
        ] {
            let why = Asked::read(text).expect_err("no request");
            assert!(why.contains("as in \"GET /old/page\""), "{why}");
        }
        for address in ["here", "1.2.3"] {
            let why = Asked::read(&format!("GET / from {address}")).expect_err("no address");
            assert!(
                why.contains(&format!("`{address}` is not an IP address")),
                "{why}"
            );
        }
    }
}
