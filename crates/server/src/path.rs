//! Maps the path of a request to the name of a file, without asking the file system.
//!
//! - Percent-escapes are decoded once. An invalid escape, or an escaped NUL, makes the request malformed (400). An
//!   escaped slash is part of a segment, and file names contain no slash: 404.
//! - Dot segments are then removed as in RFC 3986 section 5.2.4, so `/%2e%2e/` is `/../` and both stop at the root. A
//!   path that ends in a dot segment names a directory.
//! - Empty segments are dropped: `//a` is `/a`, as in other common servers. The result begins with exactly one slash,
//!   so it can be put into a `Location` and stays on this host.
//! - Names that begin with a dot are not served unless configured; `/.well-known/` (RFC 8615) always is. Parts of uploads
//!   never are.
//! - A backslash is an ordinary byte, and so is every byte that is not UTF-8.

use runtime::fs::WriteFolder;

/// Longest path that the file system accepts (PATH_MAX without its NUL).
const PATH_MAX: usize = 4095;

/// Longest file name on common file systems (NAME_MAX).
const NAME_MAX: usize = 255;

/// Why a path names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// Malformed: 400.
    Malformed,
    /// Well-formed, but no file of this site can have this name: 404.
    Nothing,
}

/// Writes the decoded, normalized path into `out`.
pub(crate) fn resolve(raw: &[u8], hidden: bool, out: &mut Vec<u8>) -> Result<(), Unnamed> {
    out.clear();
    let Some(rest) = raw.strip_prefix(b"/") else {
        return Err(Unnamed::Malformed);
    };
    let mut slash_inside = false;
    let mut ends_in_directory = false;
    for segment in rest.split(|&b| b == b'/') {
        let start = out.len();
        out.push(b'/');
        slash_inside |= decode(segment, out)?;
        ends_in_directory = true;
        match &out[start + 1..] {
            b"" | b"." => out.truncate(start),
            b".." => {
                out.truncate(start);
                let parent = out.iter().rposition(|&b| b == b'/').unwrap_or(0);
                out.truncate(parent);
            }
            _ => ends_in_directory = false,
        }
    }
    if ends_in_directory {
        out.push(b'/');
    }
    let fits = out.len() <= PATH_MAX && segments(out).all(|name| name.len() <= NAME_MAX);
    if slash_inside
        || !fits
        || segments(out)
            .enumerate()
            .any(|(depth, name)| is_hidden(depth, name, hidden))
    {
        return Err(Unnamed::Nothing);
    }
    Ok(())
}

/// Writes the normalized spelling of a raw path, which is equal for all of its spellings: the parts that [`resolve`]
/// resolves are resolved, and bytes that need no escape are not escaped. An escaped slash stays escaped, and paths that
/// no file can have also have a spelling.
///
/// # Errors
/// [`Unnamed::Malformed`].
pub(crate) fn spell(raw: &[u8], out: &mut Vec<u8>) -> Result<(), Unnamed> {
    out.clear();
    let Some(rest) = raw.strip_prefix(b"/") else {
        return Err(Unnamed::Malformed);
    };
    if is_spelled(raw) {
        out.extend_from_slice(raw);
        return Ok(());
    }
    let mut decoded = Vec::new();
    let mut ends_in_directory = false;
    for segment in rest.split(|&b| b == b'/') {
        decoded.clear();
        let has_slash = decode_whole(segment, &mut decoded)?;
        ends_in_directory = matches!(&*decoded, b"" | b"." | b"..");
        if &*decoded == b".." {
            let parent = out.iter().rposition(|&b| b == b'/').unwrap_or(0);
            out.truncate(parent);
        } else if has_slash {
            for (index, piece) in decoded.split(|&b| b == b'/').enumerate() {
                out.extend_from_slice(if index == 0 { b"/" } else { b"%2F" });
                encode(piece, out);
            }
        } else if !ends_in_directory {
            out.push(b'/');
            encode(&decoded, out);
        }
    }
    if ends_in_directory {
        out.push(b'/');
    }
    Ok(())
}

/// Whether a path that begins with a slash is its own spelling. Most are: without escapes, bytes that need one, and empty or
/// hidden segments, which include dot segments.
fn is_spelled(raw: &[u8]) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~');
    let mut is_start = false;
    raw.iter().all(|&b| {
        let was_start = std::mem::replace(&mut is_start, b == b'/');
        is_plain(b) || (matches!(b, b'/' | b'.') && !was_start)
    })
}

/// Whether a resolved path has no percent sign, so that it is also a spelling of itself.
pub(crate) fn is_plain(path: &[u8]) -> bool {
    memchr::memchr(b'%', path).is_none()
}

/// Appends a segment, decoded and without slashes. Returns whether it contained an escaped slash.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<bool, Unnamed> {
    let start = out.len();
    let slash = decode_whole(segment, out)?;
    if slash {
        // Dot segments remove the text up to a slash, so a slash within a name must not be written.
        let mut at = 0;
        out.retain(|&b| {
            at += 1;
            at <= start || b != b'/'
        });
    }
    Ok(slash)
}

/// Appends a segment, decoded. Returns whether it contained an escaped slash.
fn decode_whole(segment: &[u8], out: &mut Vec<u8>) -> Result<bool, Unnamed> {
    let decoded = http_semantics::target::decode(segment).map_err(|_| Unnamed::Malformed)?;
    if memchr::memchr(0, &decoded).is_some() {
        return Err(Unnamed::Malformed);
    }
    out.extend_from_slice(&decoded);
    Ok(memchr::memchr(b'/', &decoded).is_some())
}

fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|name| !name.is_empty())
}

/// Whether a name at this depth is kept from readers, on a site that serves names with a leading dot or not.
pub(crate) fn is_hidden(depth: usize, name: &[u8], dots: bool) -> bool {
    match dots {
        true => WriteFolder::is_part(name),
        false => name[0] == b'.' && !(depth == 0 && name == b".well-known"),
    }
}

/// The directory of a resolved path, with its slash: `/a/b` and `/a/` both give `/a/`.
pub(crate) fn directory(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    &path[..end]
}

/// The name in a resolved path: empty if the path ends with a slash.
pub(crate) fn name(path: &[u8]) -> &[u8] {
    &path[directory(path).len()..]
}

/// Appends a path and escapes the bytes that a path must not contain (RFC 3986 section 3.3).
pub(crate) fn encode(path: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &b in path {
        if b.is_ascii_alphanumeric() || b"/-._~!$&()*+,;=:@".contains(&b) {
            out.push(b);
        } else {
            out.extend([b'%', HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
        }
    }
}

/// The normalized spelling of a raw path, in which rules match; `None` if the path is malformed.
pub(crate) fn spelling(raw: &[u8]) -> Option<Vec<u8>> {
    let mut spelled = Vec::new();
    spell(raw, &mut spelled).ok()?;
    Some(spelled)
}

/// The normalized spelling of a path whose escaped slashes and backslashes are slashes; `None` if it has none.
pub(crate) fn with_slashes(raw: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [first, behind @ ..] = rest {
        rest = behind;
        match (first, behind) {
            (b'\\', _) => decoded.push(b'/'),
            (b'%', [b'2', b'F' | b'f', after @ ..] | [b'5', b'C' | b'c', after @ ..]) => {
                decoded.push(b'/');
                rest = after;
            }
            _ => decoded.push(*first),
        }
    }
    (decoded != raw).then_some(())?;
    spelling(&decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolved(raw: &[u8]) -> Result<String, Unnamed> {
        let mut out = Vec::new();
        resolve(raw, false, &mut out).map(|()| String::from_utf8_lossy(&out).into_owned())
    }

    proptest! {
        #[test]
        fn a_spelling_is_the_same_whether_it_was_one_already(raw in "/[-a-cA./~_]{0,12}") {
            let spelled = |raw: &str| {
                let mut out = Vec::new();
                spell(raw.as_bytes(), &mut out).map(|()| out)
            };
            // Escapes are resolved, so these take the long way.
            prop_assert_eq!(spelled(&raw), spelled(&raw.replace('a', "%61").replace('/', "/./")));
        }
    }

    #[test]
    fn paths_become_names() {
        for (raw, want) in [
            ("/", "/"),
            ("/a/b.html", "/a/b.html"),
            ("/a/", "/a/"),
            ("/a%20b", "/a b"),
            ("/%41", "/A"),
            ("//a///b//", "/a/b/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/..", "/"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/%2e%2e/%2E./etc", "/etc"),
            ("/a/%2e%2e/%2e%2e/b", "/b"),
            ("/%252e%252e/x", "/%2e%2e/x"),
            ("/a\\..\\b", "/a\\..\\b"),
            ("/...", ""),
            ("/a/...b/c", ""),
            ("/.git/config", ""),
            ("/%2egit/config", ""),
            ("/.git/../x", "/x"),
            ("/.well-known/acme", "/.well-known/acme"),
            ("/a/.well-known/acme", ""),
            ("/.well-known/.secret", ""),
            ("/a%2fb", ""),
            ("/..%2f..%2fetc", ""),
            ("/a/b%2f..%2f..", ""),
        ] {
            let want = if want.is_empty() {
                Err(Unnamed::Nothing)
            } else {
                Ok(want.to_owned())
            };
            assert_eq!(resolved(raw.as_bytes()), want, "{raw}");
        }
        for raw in [
            "",
            "a",
            "*",
            "/%",
            "/%4",
            "/%zz",
            "/a%00.html",
            "/%00",
            "/a\0b",
            "/%u002e",
        ] {
            assert_eq!(resolved(raw.as_bytes()), Err(Unnamed::Malformed), "{raw}");
        }
        let long = [b"/".as_slice(), &[b'a'; 256]].concat();
        assert_eq!(resolved(&long), Err(Unnamed::Nothing));
        assert!(resolved(&long[..256]).is_ok());
        assert_eq!(resolved(&b"/abc".repeat(1024)), Err(Unnamed::Nothing));
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (raw, want) in [
            ("/", "/"),
            ("/old", "/old"),
            ("/%6fld", "/old"),
            ("/%6Fl%64/", "/old/"),
            ("//old///x", "/old/x"),
            ("/./a/../old", "/old"),
            ("/%2e%2e/old/%2E", "/old/"),
            ("/a b'", "/a%20b%27"),
            ("/a%2fb", "/a%2Fb"),
            ("/a/%2F/..", "/a/"),
            ("/%2e%2e%2fb", "/..%2Fb"),
            ("/.git", "/.git"),
            ("/a\\b", "/a%5Cb"),
            ("/%25%36f", "/%256f"),
            ("/a*b", "/a*b"),
        ] {
            let mut out = Vec::new();
            assert_eq!(spell(raw.as_bytes(), &mut out), Ok(()), "{raw}");
            assert_eq!(String::from_utf8_lossy(&out), want, "{raw}");
            let once = out.clone();
            assert_eq!(spell(&once, &mut out), Ok(()), "{raw}");
            assert_eq!(out, once, "the spelling of a spelling is itself");
        }
        for raw in ["", "a", "/%", "/%zz", "/a%00b"] {
            assert_eq!(
                spell(raw.as_bytes(), &mut Vec::new()),
                Err(Unnamed::Malformed),
                "{raw}"
            );
        }
    }

    #[test]
    fn hidden_names_are_served_when_asked() {
        let mut out = Vec::new();
        assert_eq!(resolve(b"/.git/config", true, &mut out), Ok(()));
        assert_eq!(out, b"/.git/config");
        for part in ["/.weir-upload-1-1", "/a/.weir-upload-1-1/b"] {
            assert_eq!(
                resolve(part.as_bytes(), true, &mut out),
                Err(Unnamed::Nothing),
                "{part}: files are shown once they are complete"
            );
        }
    }

    #[test]
    fn parts_and_escapes() {
        assert_eq!((directory(b"/a/b"), name(b"/a/b")), (&b"/a/"[..], &b"b"[..]));
        assert_eq!((directory(b"/a/"), name(b"/a/")), (&b"/a/"[..], &b""[..]));
        let mut out = Vec::new();
        encode("/ä b?#%\"<'>".as_bytes(), &mut out);
        assert_eq!(out, b"/%C3%A4%20b%3F%23%25%22%3C%27%3E");
    }

    proptest! {
        /// Two paths of one file have the same spelling, so rules apply to both.
        #[test]
        fn what_is_the_same_file_is_spelled_alike(raw in "/[a./%2eEfF0\\\\]{0,40}") {
            let (mut resolved, mut encoded, mut spelled) = (Vec::new(), Vec::new(), Vec::new());
            if resolve(raw.as_bytes(), true, &mut resolved).is_ok() {
                encode(&resolved, &mut encoded);
                prop_assert_eq!(spell(raw.as_bytes(), &mut spelled), Ok(()));
                prop_assert_eq!(spelled, encoded);
            }
        }

        /// Every result stays below the root, is stable, and has one spelling.
        #[test]
        fn nothing_leaves_the_root(raw in "/[a./%2eEfF0\\\\]{0,40}") {
            let mut out = Vec::new();
            if resolve(raw.as_bytes(), true, &mut out).is_ok() {
                prop_assert!(out.starts_with(b"/") && !out.starts_with(b"//"));
                let bad = |name: &[u8]| name == b".." || name == b"." || name.contains(&0);
                prop_assert!(!segments(&out).any(bad), "{:?}", out);
                let (mut encoded, mut again) = (Vec::new(), Vec::new());
                encode(&out, &mut encoded);
                prop_assert_eq!(resolve(&encoded, true, &mut again), Ok(()));
                prop_assert_eq!(out, again);
            }
        }
    }
}
