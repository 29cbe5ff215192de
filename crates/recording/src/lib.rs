//! Recordings of HTTP exchanges: the file of one exchange, and the search for the exchange that answers a request.
//!
//! `weir record` writes the files, and `weir serve --replay` answers from them. This crate opens no file and no socket.

pub mod exchange;
pub mod search;

use bytes::Bytes;
use exchange::Exchange;
use search::{Match, Recording, Wanted};

/// Reads any bytes as the file of an exchange, and their lines as a recording from which requests are answered, and checks
/// invariants; for a fuzz target and a property test. A line that is no exchange is a request: `METHOD AUTHORITY TARGET`.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz(data: &[u8]) {
    let file = Bytes::copy_from_slice(data);
    if let Ok(exchange) = Exchange::parse(&file) {
        // What was read can be written and read again, unless its line grows too long.
        if let Ok(mut written) = exchange.head() {
            written.extend_from_slice(&exchange.body);
            assert_eq!(Exchange::parse(&written.into()).as_ref(), Ok(&exchange));
        }
        // A file that was cut short is never taken for an exchange.
        for cut in [0, file.len() / 2, file.len() - 1] {
            assert!(Exchange::parse(&file.slice(..cut)).is_err(), "cut at {cut}");
        }
    }
    let (mut exchanges, mut requests) = (Vec::new(), Vec::new());
    for line in data.split(|&b| b == b'\n') {
        match Exchange::parse(&[line, b"\n"].concat().into()) {
            Ok(exchange) => exchanges.push(exchange),
            Err(_) => requests.push(line),
        }
    }
    let recording = Recording::new(exchanges);
    for exchange in recording.exchanges() {
        let is_secured = exchange.url.scheme() == "https";
        let host = exchange.url.host_str().unwrap_or_default();
        let authority = match exchange.url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let found = recording.find(&Wanted {
            method: &exchange.method,
            authority: authority.as_bytes(),
            is_secured,
            path: Some(exchange.url.path().as_bytes()),
            query: exchange.url.query().map(str::as_bytes),
        });
        let (at, how) = found.expect("an exchange answers its own request");
        assert_eq!(how, Match::Exact);
        let found = &recording.exchanges()[at];
        let parts = |of: &Exchange| {
            (
                of.method.clone(),
                of.url.path().to_owned(),
                of.url.query().map(str::to_owned),
            )
        };
        assert_eq!(parts(found), parts(exchange));
        // Hosts with and without a final dot are the same.
        let is_same_host = found.url.host_str() == Some(host);
        assert!(
            !is_same_host || found.url == exchange.url,
            "{} for {}",
            found.url,
            exchange.url
        );
    }
    for request in requests {
        let mut words = request.splitn(3, |&b| b == b' ');
        let mut word = || words.next().unwrap_or_default();
        let (method, authority, target) = (String::from_utf8_lossy(word()), word(), word());
        let mut parts = target.splitn(2, |&b| b == b'?');
        let wanted = Wanted {
            method: &method,
            authority,
            is_secured: authority.ends_with(b"3"),
            path: parts.next(),
            query: parts.next(),
        };
        match recording.find(&wanted) {
            Some((at, _)) => {
                let url = &recording.exchanges()[at].url;
                assert_eq!(Some(url.path().as_bytes()), wanted.path);
            }
            None => assert!(!recording.missing(&wanted).is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first line of an exchange without a body.
    fn line(method: &str, url: &str) -> String {
        format!(
            r#"{{"format":"weir-exchange","version":1,"method":"{method}","url":"{url}","protocol":"h2","recorded":1,"first_byte_seconds":0.1,"request_fields":[],"status":200,"fields":[],"body_bytes":0}}"#
        )
    }

    proptest! {
        #[test]
        fn any_bytes_keep_the_invariants(data: Vec<u8>) {
            fuzz(&data);
        }

        #[test]
        fn any_recording_keeps_the_invariants(
            parts in prop::collection::vec(("(GET|POST|get)", "https?", "(a|b)\\.test\\.?(:8[01])?", "/[a%é/.]{0,3}(\\?[a=&]{0,4})?"), 0..8),
            request in "(GET|HEAD|POST) [ab]\\.TEST\\.?(:80)? /[a/]{0,2}(\\?[a=]{0,3})?",
        ) {
            let lines = parts.iter().map(|(method, scheme, host, target)| line(method, &format!("{scheme}://{host}{target}")));
            let lines: Vec<String> = lines.chain([request]).collect();
            fuzz(lines.join("\n").as_bytes());
        }
    }

    #[test]
    fn a_whole_file_keeps_the_invariants() {
        let file = line("GET", "http://a.test/").replace("\"body_bytes\":0", "\"body_bytes\":3") + "\na\nb";
        assert!(Exchange::parse(&Bytes::from(file.clone())).is_ok());
        fuzz(file.as_bytes());
    }
}
