//! Content codings (RFC 9110 section 8.4.1) by their registered names.

/// A content coding Weir can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// Identity: the content is not encoded.
    Identity,
    /// The zlib format (RFC 1950) around deflate (RFC 1951), per RFC 9110 section 8.4.1.2.
    Deflate,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
}

impl Coding {
    /// The registered name, as in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Deflate => "deflate",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
        }
    }

    /// The coding with this registered name, ignoring case; `x-gzip` is gzip (RFC 9110 section 8.4.1.3).
    pub fn of(name: &[u8]) -> Option<Coding> {
        Some(match name {
            _ if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") => Coding::Gzip,
            _ if name.eq_ignore_ascii_case(b"br") => Coding::Brotli,
            _ if name.eq_ignore_ascii_case(b"zstd") => Coding::Zstd,
            _ if name.eq_ignore_ascii_case(b"deflate") => Coding::Deflate,
            _ if name.eq_ignore_ascii_case(b"identity") => Coding::Identity,
            _ => return None,
        })
    }
}
