//! The server's address and paths on it: URLs and lists of paths as users type them, with weights if they have some. Uses
//! only the resolver of this machine.

use crate::failure::Failure;
use ::load::weights::Weights;
use ::load::work::Work;
use std::net::{SocketAddr, ToSocketAddrs};

/// Largest weight of a path.
const WEIGHT_MAX: f64 = 1e6;
/// Parts of a weight of 1: weights have six decimals.
const WEIGHT_PARTS: f64 = 1e6;

/// The paths in a file, one per line, and their weights if at least one line has a weight behind its path. Empty lines and
/// those that begin with `#` are skipped.
///
/// # Errors
/// `Usage` with the file, and the line at fault.
pub(super) fn paths(file: &std::path::Path) -> Result<(Work, Option<Weights>), Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read the paths in `{name}`: {error}")))?;
    let (paths, weights) = listed(&text).map_err(|why| Failure::Usage(format!("`{name}` {why}")))?;
    Ok((Work::of_paths(paths), weights))
}

/// The paths in a text, with their weights. A line without a weight has weight 1 if another line has one.
///
/// # Errors
/// Why the text is no list, with the line.
fn listed(text: &str) -> Result<(Vec<String>, Option<Weights>), String> {
    let (mut paths, mut weights, mut is_weighted) = (Vec::new(), Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = |why: String| format!("line {}: {why}", number + 1);
        let (path, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        if !path.starts_with('/') || path.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(fault(format!(
                "`{}` is not a path: a path begins with / and has visible ASCII characters only; write others as %XX",
                path.escape_debug()
            )));
        }
        paths.push(path.to_owned());
        let weight = match rest {
            "" => WEIGHT_PARTS as u64,
            word => weight(word.trim()).map_err(fault)?,
        };
        weights.push(weight);
        is_weighted |= !rest.is_empty();
    }
    if paths.is_empty() {
        return Err("contains no path".to_owned());
    }
    let weights = match is_weighted {
        true => Some(Weights::of(weights).ok_or("has weights whose sum is too large; write smaller ones")?),
        false => None,
    };
    Ok((paths, weights))
}

/// A weight in its smallest parts.
fn weight(word: &str) -> Result<u64, String> {
    let parts = word.parse::<f64>().map(|weight| (weight * WEIGHT_PARTS).round());
    match parts {
        Ok(parts) if (1.0..=WEIGHT_MAX * WEIGHT_PARTS).contains(&parts) => Ok(parts as u64),
        _ => Err(format!(
            "`{}` is not a weight: write a number from 0.000001 to {WEIGHT_MAX} after the path, or nothing; a space in a path \
             is %20",
            word.escape_debug()
        )),
    }
}

/// The URL of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// Whether its scheme is https.
    pub(super) is_secure: bool,
    /// Value of the `Host` field.
    pub(super) authority: String,
    pub(super) path: String,
}

impl Url {
    pub(super) fn read(text: &str) -> Result<Url, Failure> {
        let fault = |why: &str| Failure::Usage(format!("`{}`: {why}", text.escape_debug()));
        let is_secure = text
            .split_once("://")
            .is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"));
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((_, rest)) if is_secure => rest,
            Some(_) => return Err(fault("not an http or https URL")),
            None => text,
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(fault("contains a name and a password, which Weir does not send"));
        }
        if authority.is_empty() || rest.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(fault("not an http URL; write one as in http://localhost:8080/"));
        }
        let path = path.split('#').next().unwrap_or(path);
        // An empty path is requested as `/` (RFC 9112 section 3.2.1), also before a query.
        let root = if path.starts_with('/') { "" } else { "/" };
        Ok(Url {
            is_secure,
            authority: authority.to_owned(),
            path: format!("{root}{path}"),
        })
    }

    /// The path up to its last slash.
    pub(super) fn folder(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let end = path.rfind('/').map_or(0, |at| at + 1);
        path[..end].to_owned()
    }

    /// The address of the host; of several, the first that accepts a connection.
    pub(super) fn resolve(&self) -> Result<SocketAddr, Failure> {
        let host = &self.authority;
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
        let name = if has_port {
            host.clone()
        } else {
            format!("{host}:{}", if self.is_secure { 443 } else { 80 })
        };
        let addresses: Vec<SocketAddr> = name
            .to_socket_addrs()
            .map_err(|error| Failure::Usage(format!("cannot find the host `{host}`: {error}")))?
            .collect();
        runtime::dial::answering(&addresses)
            .ok_or_else(|| Failure::Usage(format!("the host `{host}` has no address")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_paths_and_perhaps_weights() {
        let weights = |parts: &[u64]| Weights::of(parts.iter().copied());
        for (text, paths, wanted) in [
            ("# a list\n\n /a \n/b?x=1\n", ["/a", "/b?x=1"], None),
            ("/a 3\n/b\n", ["/a", "/b"], weights(&[3_000_000, 1_000_000])),
            (
                "/a\t0.000001\n/b   1e6\n",
                ["/a", "/b"],
                weights(&[1, 1_000_000_000_000]),
            ),
            ("/a 1\n/a 1\n", ["/a", "/a"], weights(&[1_000_000, 1_000_000])),
        ] {
            let (found, weights) = listed(text).expect(text);
            assert_eq!(
                (found, weights),
                (paths.map(str::to_owned).to_vec(), wanted),
                "{text}"
            );
        }
        for (text, fragment) in [
            ("# nothing\n", "contains no path"),
            ("/a\nb 2\n", "line 2: `b` is not a path"),
            ("/\u{e4}\n", "line 1: `/\u{e4}` is not a path"),
            ("/a 0\n", "line 1: `0` is not a weight"),
            ("/a\n\n/b -1\n", "line 3: `-1` is not a weight"),
            ("/a 0.0000001\n", "is not a weight"),
            ("/a 1000001\n", "a number from 0.000001 to 1000000"),
            ("/a NaN\n", "is not a weight"),
            ("/a inf\n", "is not a weight"),
            ("/a b c\n", "`b c` is not a weight"),
            ("/a 1 2\n", "`1 2` is not a weight"),
        ] {
            let error = listed(text).expect_err(text);
            assert!(error.contains(fragment), "{text}: {error}");
        }
    }

    #[test]
    fn urls_are_read() {
        for (text, authority, path, folder) in [
            ("http://localhost:8080", "localhost:8080", "/", "/"),
            ("http://h/a/b.html?x=1#y", "h", "/a/b.html?x=1", "/a/"),
            ("127.0.0.1:80/x", "127.0.0.1:80", "/x", "/"),
            ("http://h/a/?x=/b/", "h", "/a/?x=/b/", "/a/"),
            ("HTTP://h?x=1", "h", "/?x=1", "/"),
            ("http://h#y", "h", "/", "/"),
            ("http://[::1]:9/", "[::1]:9", "/", "/"),
        ] {
            let url = Url::read(text).expect(text);
            assert_eq!(
                (url.authority.as_str(), url.path.as_str(), url.folder().as_str()),
                (authority, path, folder)
            );
        }
        assert_eq!(
            Url::read("[::1]")
                .expect("fine")
                .resolve()
                .expect("an address")
                .port(),
            80
        );
        assert!(Url::read("HTTPS://h/").expect("fine").is_secure);
        for (text, fragment) in [
            ("ftp://h/", "not an http or https URL"),
            ("http:///x", "write one as in"),
            ("http://me:word@h/", "password"),
            ("http://h/a b", "write one as in"),
        ] {
            let error = Url::read(text).expect_err(text).to_string();
            assert!(error.contains(fragment), "{error}");
        }
    }
}
