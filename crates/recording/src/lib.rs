//! Recordings of HTTP exchanges: the file of one exchange, and the search for the exchange that answers a request.
//!
//! `weir record` writes the files, and `weir serve --replay` answers from them. This crate opens no file and no socket.

pub mod exchange;
pub mod search;
