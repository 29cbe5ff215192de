//! Field compression (RFC 7541): a decoder, an encoder, and blocks that need no state.

pub mod block;
mod decode;
mod dynamic;
mod encode;
mod tables;

pub use decode::{Decoder, Error};
pub use encode::Encoder;
pub use http_semantics::compression::{Bounds, Decoded, Fields};

#[cfg(test)]
mod tests;
