//! Field compression (RFC 7541): a decoder, an encoder, and blocks that need no state.

pub mod block;
mod decode;
mod dynamic;
mod encode;
mod fields;
mod huffman;
mod tables;

pub use decode::{Bounds, Decoded, Decoder, Error};
pub use encode::Encoder;
pub use fields::Fields;

#[cfg(test)]
mod tests;
