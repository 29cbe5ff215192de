//! The media type of a file, by its name's extension, and what follows from it.
//!
//! The table is `mime_guess`'s. This module adds the `charset` of text, decides what is worth
//! compressing, and where a browser must not guess.

use std::borrow::Cow;

/// What is sent for a name that says nothing.
const UNKNOWN: &str = "application/octet-stream";

/// What a file's name says about its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// Value of `Content-Type`.
    pub(crate) value: Box<[u8]>,
    /// Whether a content coding is likely to make it smaller.
    pub(crate) compressible: bool,
    /// Whether to add `X-Content-Type-Options: nosniff`: browsers guess only where the type is
    /// unknown or plain text (WHATWG MIME Sniffing section 7), so only there it is needed.
    pub(crate) nosniff: bool,
    /// A coding the file has by its nature (`.svgz`), not by negotiation.
    pub(crate) inherent_coding: Option<&'static str>,
}

impl MediaType {
    /// The media type of a file of this name. `also` lists types to compress beyond those known to
    /// shrink, as `type/subtype` or `type/*`.
    pub(crate) fn of(name: &[u8], charset: Option<&str>, also: &[String]) -> MediaType {
        let extension = name
            .iter()
            .rposition(|&b| b == b'.')
            .and_then(|dot| core::str::from_utf8(&name[dot + 1..]).ok())
            .unwrap_or("");
        let essence = mime_guess::from_ext(extension).first_raw().unwrap_or(UNKNOWN);
        let inherent_coding = extension.eq_ignore_ascii_case("svgz").then_some("gzip");
        let mut media_type = MediaType::of_essence(essence, charset, also);
        media_type.compressible &= inherent_coding.is_none();
        media_type.inherent_coding = inherent_coding;
        media_type
    }

    /// The same for a type that is known.
    pub(crate) fn of_essence(essence: &str, charset: Option<&str>, also: &[String]) -> MediaType {
        let value = match charset {
            Some(charset) if essence.starts_with("text/") => {
                Cow::Owned(format!("{essence}; charset={charset}"))
            }
            _ => Cow::Borrowed(essence),
        };
        MediaType {
            value: value.as_bytes().into(),
            compressible: shrinks(essence) || also.iter().any(|pattern| matches(pattern, essence)),
            nosniff: essence == UNKNOWN || essence == "text/plain",
            inherent_coding: None,
        }
    }
}

/// Text, markup, and the few binary formats without compression of their own.
fn shrinks(essence: &str) -> bool {
    let (kind, subtype) = essence.split_once('/').unwrap_or((essence, ""));
    match kind {
        "text" => true,
        "font" => matches!(subtype, "ttf" | "otf" | "collection" | "sfnt"),
        "image" => matches!(
            subtype,
            "svg+xml" | "bmp" | "x-icon" | "vnd.microsoft.icon" | "x-ms-bmp"
        ),
        _ => {
            let known = [
                "javascript",
                "json",
                "xml",
                "wasm",
                "ecmascript",
                "x-javascript",
                "toml",
                "yaml",
                "x-yaml",
                "rtf",
                "sql",
                "graphql",
                "vnd.ms-fontobject",
                "x-font-ttf",
                "x-sh",
                "x-tex",
            ];
            known.contains(&subtype) || subtype.ends_with("+json") || subtype.ends_with("+xml")
        }
    }
}

fn matches(pattern: &str, essence: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(kind) => essence
            .split('/')
            .next()
            .is_some_and(|k| k.eq_ignore_ascii_case(kind)),
        None => pattern.eq_ignore_ascii_case(essence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_hold() {
        for (name, value, compressible, nosniff) in [
            ("index.html", "text/html; charset=utf-8", true, false),
            ("A.HTML", "text/html; charset=utf-8", true, false),
            ("style.css", "text/css; charset=utf-8", true, false),
            ("app.js", "text/javascript; charset=utf-8", true, false),
            ("app.mjs", "text/javascript; charset=utf-8", true, false),
            ("data.json", "application/json", true, false),
            ("site.webmanifest", "application/manifest+json", true, false),
            ("feed.atom", "application/atom+xml", true, false),
            ("logo.svg", "image/svg+xml", true, false),
            ("photo.jpeg", "image/jpeg", false, false),
            ("photo.avif", "image/avif", false, false),
            ("photo.webp", "image/webp", false, false),
            ("font.woff2", "font/woff2", false, false),
            ("code.wasm", "application/wasm", true, false),
            ("notes.txt", "text/plain; charset=utf-8", true, true),
            ("film.mp4", "video/mp4", false, false),
            ("book.pdf", "application/pdf", false, false),
            ("bundle.tar.gz", "application/gzip", false, false),
            ("README", UNKNOWN, false, true),
            ("name.", UNKNOWN, false, true),
            ("strange.zzzz", UNKNOWN, false, true),
        ] {
            let got = MediaType::of(name.as_bytes(), Some("utf-8"), &[]);
            let shown = String::from_utf8_lossy(&got.value).into_owned();
            assert_eq!(
                (shown.as_str(), got.compressible, got.nosniff),
                (value, compressible, nosniff),
                "{name}"
            );
        }
        assert_eq!(&*MediaType::of(b"a.html", None, &[]).value, b"text/html");
        assert_eq!(
            &*MediaType::of(b"a.\xff\xfe", None, &[]).value,
            UNKNOWN.as_bytes()
        );
    }

    #[test]
    fn more_types_can_be_compressed() {
        let also = ["application/pdf".to_owned(), "audio/*".to_owned()];
        assert!(MediaType::of(b"a.pdf", None, &also).compressible);
        assert!(MediaType::of(b"a.wav", None, &also).compressible);
        assert!(!MediaType::of(b"a.png", None, &also).compressible);
    }

    #[test]
    fn a_compressed_drawing_says_so() {
        let svgz = MediaType::of(b"a.svgz", None, &[]);
        assert_eq!((svgz.inherent_coding, svgz.compressible), (Some("gzip"), false));
    }
}
