//! What the field compressions of HTTP/2 (HPACK, RFC 7541) and HTTP/3 (QPACK, RFC 9204) have in common: prefix integers,
//! strings in Huffman code, the entries of a dynamic table, decoded fields and their bounds.
//!
//! Static tables, indexes and instructions differ and belong to the crate of a version.

mod code;
mod fields;
pub mod huffman;
pub mod prefix;
pub mod table;

pub use fields::{Bounds, Decoded, Fields};
