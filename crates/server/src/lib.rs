//! The file server: request steps, the cached virtual file system, cache policies.

pub mod entry;
