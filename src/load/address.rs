//! The server's address and paths on it: URLs and lists of paths as users type them. Uses only the resolver of this
//! machine.

use crate::failure::Failure;
use ::load::work::Work;
use std::net::{SocketAddr, ToSocketAddrs};

/// The paths in a file, one per line; empty lines and those that begin with `#` are skipped.
pub(super) fn paths(file: &std::path::Path) -> Result<Work, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read the paths in `{name}`: {error}")))?;
    let mut paths = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with('/') || line.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(Failure::Usage(format!(
                "`{name}` line {}: `{}` is not a path: a path begins with / and has no spaces",
                number + 1,
                line.escape_debug()
            )));
        }
        paths.push(line.to_owned());
    }
    if paths.is_empty() {
        return Err(Failure::Usage(format!("`{name}` contains no path")));
    }
    Ok(Work::of_paths(paths))
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
