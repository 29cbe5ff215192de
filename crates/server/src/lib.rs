//! The file server: request steps, the cached virtual file system, cache policies.

pub mod cache;
pub mod coding;
pub mod entry;
mod listing;
mod media_type;
pub mod site;
