//! Content codings made on first use: which, of what, how hard.
use measure::Bytes;

/// What is compressed, and how hard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressConfig {
    /// Smaller content is sent as it is.
    pub size_min: Bytes,
    /// Larger content is sent as it is.
    pub size_max: Bytes,
    /// Brotli quality, 0 to 11; `None` does not make this coding.
    pub brotli: Option<u8>,
    /// Zstandard level, 1 to 19.
    pub zstd: Option<u8>,
    /// Deflate level for gzip, 1 to 9.
    pub gzip: Option<u8>,
    /// Deflate level for deflate, 1 to 9.
    pub deflate: Option<u8>,
    /// How many may be made at once in the process.
    pub concurrent_max: usize,
}

impl Default for CompressConfig {
    fn default() -> CompressConfig {
        CompressConfig {
            size_min: Bytes(256),
            size_max: Bytes::mib(1),
            brotli: Some(5),
            zstd: Some(9),
            gzip: Some(6),
            deflate: Some(6),
            concurrent_max: 2,
        }
    }
}
