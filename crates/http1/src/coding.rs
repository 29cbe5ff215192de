//! Content codings (RFC 9110 section 8.4.1) by their registered names.

/// A content coding this project can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// No coding.
    Identity,
    /// RFC 1950 zlib wrapper around RFC 1951, as RFC 9110 section 8.4.1.2 asks.
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
}
