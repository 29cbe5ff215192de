//! The media type of a file by its extension, and its consequences.
//!
//! The table is that of `mime_guess`, corrected where it names another format or an obsolete type. This module adds the
//! `charset` of text types. It also decides which types are compressed, and where browsers must not guess.

use crate::config::ContentTypes;
use std::borrow::Cow;

/// The type for unknown extensions.
const UNKNOWN: &str = "application/octet-stream";

/// Extensions, in order, whose type in `mime_guess` is missing, obsolete or of another format. The types are those of
/// the IANA registry; where it has none, those of nginx and of Debian's `media-types`.
const CORRECTED: [(&str, &str); 37] = [
    // RFC 9239 registers .js and .mjs; Node.js uses .cjs for CommonJS modules.
    ("cjs", "text/javascript"),
    ("class", "application/java-vm"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/x-diff"),
    ("emf", "image/emf"),
    ("ipynb", "application/x-ipynb+json"),
    ("java", "text/x-java"),
    ("jsonl", "application/x-ndjson"),
    // Segments of a video stream; `mime_guess` has DLNA's type for them.
    ("m2t", "video/mp2t"),
    ("m2ts", "video/mp2t"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    // Source maps are JSON (ECMA-426).
    ("map", "application/json"),
    ("mid", "audio/midi"),
    ("midi", "audio/midi"),
    ("mts", "video/mp2t"),
    ("ndjson", "application/x-ndjson"),
    ("obj", "model/obj"),
    ("otf", "font/otf"),
    ("patch", "text/x-diff"),
    ("psd", "image/vnd.adobe.photoshop"),
    ("rpm", "application/x-redhat-package-manager"),
    ("sql", "application/sql"),
    ("sqlite", "application/vnd.sqlite3"),
    ("sqlite3", "application/vnd.sqlite3"),
    ("step", "model/step"),
    ("stl", "model/stl"),
    ("stp", "model/step"),
    ("tgz", "application/gzip"),
    ("ts", "video/mp2t"),
    ("udeb", "application/vnd.debian.binary-package"),
    ("vcf", "text/vcard"),
    ("wmf", "image/wmf"),
    ("woff", "font/woff"),
    ("xsd", "application/xml"),
    ("zst", "application/zstd"),
];

/// What the name of a file says about its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// Value of `Content-Type`.
    pub(crate) value: Box<[u8]>,
    /// Whether compression probably makes it smaller.
    pub(crate) compressible: bool,
    /// Whether to add `X-Content-Type-Options: nosniff`. Browsers guess only unknown types and plain text (WHATWG MIME
    /// Sniffing section 7), so only these need it.
    pub(crate) nosniff: bool,
    /// The content coding of the format itself (`.svgz`), which is not negotiated.
    pub(crate) inherent_coding: Option<&'static str>,
}

impl MediaType {
    /// The media type of a file of this name. `also` lists further types to compress, as `type/subtype` or `type/*`.
    pub(crate) fn of(name: &[u8], charset: Option<&str>, also: &[String]) -> MediaType {
        MediaType::of_file(name, &ContentTypes::default(), charset, also)
    }

    /// As [`MediaType::of`], with configured types for some extensions.
    pub(crate) fn of_file(
        name: &[u8],
        types: &ContentTypes,
        charset: Option<&str>,
        also: &[String],
    ) -> MediaType {
        let extension = name
            .iter()
            .rposition(|&b| b == b'.')
            .map_or(Some(""), |dot| core::str::from_utf8(&name[dot + 1..]).ok());
        // An extension that is no text is unknown, but it is one.
        let configured = extension.and_then(|extension| types.get(extension));
        let extension = extension.unwrap_or("");
        let mut media_type = match configured {
            Some(value) => MediaType::of_value(value, also),
            None => MediaType::of_essence(known(extension), charset, also),
        };
        let inherent_coding = extension.eq_ignore_ascii_case("svgz").then_some("gzip");
        media_type.compressible &= inherent_coding.is_none();
        media_type.inherent_coding = inherent_coding;
        media_type
    }

    /// As [`MediaType::of`], for a complete `Content-Type` value, which is sent as written.
    pub(crate) fn of_value(value: &str, also: &[String]) -> MediaType {
        let essence = value.split(';').next().unwrap_or_default().trim();
        MediaType {
            value: value.as_bytes().into(),
            ..MediaType::of_essence(essence, None, also)
        }
    }

    /// As [`MediaType::of`], for a known type.
    pub(crate) fn of_essence(essence: &str, charset: Option<&str>, also: &[String]) -> MediaType {
        // In XML, a `charset` parameter overrides the encoding that the document declares (RFC 7303 section 3).
        let takes_charset = essence.starts_with("text/") && essence != "text/xml";
        let value = match charset {
            Some(charset) if takes_charset => Cow::Owned(format!("{essence}; charset={charset}")),
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

/// The built-in type of an extension.
fn known(extension: &str) -> &'static str {
    let lower = extension.to_ascii_lowercase();
    if let Ok(at) = CORRECTED.binary_search_by_key(&&*lower, |(extension, _)| extension) {
        return CORRECTED[at].1;
    }
    match mime_guess::from_ext(extension).first_raw() {
        // RFC 9239 made the older JavaScript types aliases of this one.
        Some("application/javascript" | "application/x-javascript") => "text/javascript",
        Some(essence) => essence,
        None => UNKNOWN,
    }
}

/// Text, markup, and the few binary formats without their own compression.
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
                "vnd.apple.mpegurl",
                "vnd.ms-fontobject",
                "x-ndjson",
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
            ("feed.xml", "text/xml", true, false),
            ("module.cjs", "text/javascript; charset=utf-8", true, false),
            ("app.js.map", "application/json", true, false),
            ("segment.ts", "video/mp2t", false, false),
            ("weir.rpm", "application/x-redhat-package-manager", false, false),
            ("WEIR.RPM", "application/x-redhat-package-manager", false, false),
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
    fn corrections_are_in_order_and_correct_something() {
        assert!(CORRECTED.is_sorted_by(|a, b| a.0 < b.0));
        for (extension, corrected) in CORRECTED {
            assert_ne!(
                mime_guess::from_ext(extension).first_raw(),
                Some(corrected),
                "{extension}"
            );
        }
    }

    /// The types of nginx's `mime.types`, which most web servers send. Each difference has its reason.
    #[test]
    fn types_are_those_of_nginx_but_for_reasons() {
        const NGINX: &str = "\
            text/html html htm shtml\n text/css css\n text/xml xml\n image/gif gif\n image/jpeg jpeg jpg\n\
            application/javascript js\n application/atom+xml atom\n application/rss+xml rss\n text/mathml mml\n\
            text/plain txt\n text/vnd.sun.j2me.app-descriptor jad\n text/vnd.wap.wml wml\n text/x-component htc\n\
            image/avif avif\n image/png png\n image/svg+xml svg svgz\n image/tiff tif tiff\n\
            image/vnd.wap.wbmp wbmp\n image/webp webp\n image/x-icon ico\n image/x-jng jng\n image/x-ms-bmp bmp\n\
            font/woff woff\n font/woff2 woff2\n application/java-archive jar war ear\n application/json json\n\
            application/mac-binhex40 hqx\n application/msword doc\n application/pdf pdf\n\
            application/postscript ps eps ai\n application/rtf rtf\n application/vnd.apple.mpegurl m3u8\n\
            application/vnd.google-earth.kml+xml kml\n application/vnd.google-earth.kmz kmz\n\
            application/vnd.ms-excel xls\n application/vnd.ms-fontobject eot\n application/vnd.ms-powerpoint ppt\n\
            application/vnd.oasis.opendocument.graphics odg\n application/vnd.oasis.opendocument.presentation odp\n\
            application/vnd.oasis.opendocument.spreadsheet ods\n application/vnd.oasis.opendocument.text odt\n\
            application/vnd.openxmlformats-officedocument.presentationml.presentation pptx\n\
            application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx\n\
            application/vnd.openxmlformats-officedocument.wordprocessingml.document docx\n\
            application/vnd.wap.wmlc wmlc\n application/wasm wasm\n application/x-7z-compressed 7z\n\
            application/x-cocoa cco\n application/x-java-archive-diff jardiff\n application/x-java-jnlp-file jnlp\n\
            application/x-makeself run\n application/x-perl pl pm\n application/x-pilot prc pdb\n\
            application/x-rar-compressed rar\n application/x-redhat-package-manager rpm\n application/x-sea sea\n\
            application/x-shockwave-flash swf\n application/x-stuffit sit\n application/x-tcl tcl tk\n\
            application/x-x509-ca-cert der pem crt\n application/x-xpinstall xpi\n application/xhtml+xml xhtml\n\
            application/xspf+xml xspf\n application/zip zip\n\
            application/octet-stream bin exe dll deb dmg iso img msi msp msm\n\
            audio/midi mid midi kar\n audio/mpeg mp3\n audio/ogg ogg\n audio/x-m4a m4a\n audio/x-realaudio ra\n\
            video/3gpp 3gpp 3gp\n video/mp2t ts\n video/mp4 mp4\n video/mpeg mpeg mpg\n video/quicktime mov\n\
            video/webm webm\n video/x-flv flv\n video/x-m4v m4v\n video/x-mng mng\n video/x-ms-asf asx asf\n\
            video/x-ms-wmv wmv\n video/x-msvideo avi";
        const OTHERS: [(&str, &str); 9] = [
            ("bmp", "image/bmp"),                             // registered since RFC 7903
            ("deb", "application/vnd.debian.binary-package"), // registered
            ("dll", "application/x-msdownload"),              // more specific, and still a download
            ("js", "text/javascript"),                        // RFC 9239
            ("m4a", "audio/mp4"),                             // RFC 4337
            ("pdb", "application/vnd.palm"),                  // registered
            ("prc", "application/x-mobipocket-ebook"),        // the format of such files today
            ("ra", "audio/x-pn-realaudio"),                   // the maker's own name
            ("sea", UNKNOWN),                                 // a download, like `application/x-sea`
        ];
        let mut seen = 0;
        for line in NGINX.lines() {
            let mut words = line.split_whitespace();
            let theirs = words.next().expect("a type");
            for extension in words {
                let other = OTHERS.iter().find(|(other, _)| *other == extension);
                assert_eq!(
                    known(extension),
                    other.map_or(theirs, |(_, ours)| ours),
                    "{extension}"
                );
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
    }

    #[test]
    fn a_configured_type_is_sent_as_it_stands() {
        let mut types = ContentTypes::default();
        for (extension, value) in [
            ("html", "text/html; charset=iso-8859-1"),
            ("css", "text/css"),
            ("dat", "text/plain ;charset=utf-8"),
            ("svgz", "image/x-drawing"),
            ("txt", "application/x-secret"),
            ("", "text/plain"),
        ] {
            types.insert(extension, value).expect("a valid type");
        }
        for (name, value, compressible, nosniff) in [
            ("a.html", "text/html; charset=iso-8859-1", true, false),
            ("A.HTML", "text/html; charset=iso-8859-1", true, false),
            ("a.css", "text/css", true, false),
            ("a.dat", "text/plain ;charset=utf-8", true, true),
            ("a.svgz", "image/x-drawing", false, false),
            ("a.txt", "application/x-secret", false, false),
            ("a.js", "text/javascript; charset=utf-8", true, false),
            ("README", "text/plain", true, true),
            ("ends.", "text/plain", true, true),
            ("a.unknown", "application/octet-stream", false, true),
        ] {
            let got = MediaType::of_file(name.as_bytes(), &types, Some("utf-8"), &[]);
            let shown = String::from_utf8_lossy(&got.value).into_owned();
            let all = (shown.as_str(), got.compressible, got.nosniff);
            assert_eq!(all, (value, compressible, nosniff), "{name}");
        }
        let binary = MediaType::of_file(b"a.\xff", &types, None, &[]);
        assert_eq!(&*binary.value, UNKNOWN.as_bytes(), "an extension, though no text");
        let svgz = MediaType::of_file(b"a.svgz", &types, None, &[]);
        assert_eq!(svgz.inherent_coding, Some("gzip"));
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
