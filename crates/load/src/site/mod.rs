//! stub
pub mod gif;
pub mod page;
pub mod prose;
