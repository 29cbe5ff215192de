//! Field compression (RFC 9204): a decoder with a dynamic table, and blocks that need no state.
//!
//! There is no encoder with a dynamic table: its entries make a section wait for another stream, and a block that refers
//! to them is valid on one connection only. Blocks of static references and literals are a copy on every connection.

pub mod block;
mod decode;
mod feedback;
mod tables;

pub use decode::{Decoder, Error, Section};
pub(crate) use feedback::Feedback;
pub use http_semantics::compression::{Bounds, Decoded, Fields};

#[cfg(test)]
mod tests;
