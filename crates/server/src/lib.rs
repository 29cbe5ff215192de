//! The file server: request steps, the cached virtual file system, cache policies.

pub mod access_log;
pub mod cache;
pub mod clock;
pub mod coding;
pub mod config;
pub mod counters;
pub mod entry;
pub mod limits;
pub mod peers;
pub mod site;
