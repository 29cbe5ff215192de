//! The file server: request steps, the cached virtual file system, cache policies.

pub mod access_log;
pub mod cache;
pub mod clock;
pub mod coding;
pub mod config;
mod context;
pub mod counters;
pub mod entry;
pub mod error_page;
mod hosts;
pub mod limits;
mod listing;
mod media_type;
pub mod peers;
mod recall;
mod service;
mod session;
pub mod site;

pub use context::{Cx, Work};
pub use service::{LogSink, Server};
pub use session::Session;

#[cfg(fuzzing)]
pub use session::exercise;
