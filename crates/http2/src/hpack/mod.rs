//! Field compression (RFC 7541): a decoder, and blocks that need no state.

pub mod block;
mod decode;
mod fields;
mod huffman;
mod tables;

pub use decode::{Bounds, Decoded, Decoder, Error};
pub use fields::Fields;

#[cfg(test)]
mod tests;
