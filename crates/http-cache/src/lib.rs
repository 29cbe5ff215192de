//! What a shared cache may do (RFC 9111): which responses it stores, how long they are fresh, for which requests it reuses
//! them, how it validates them, and which it drops.
//!
//! ```text
//!   request  ─▶ RequestDirectives ─┐
//!   stored   ─▶ Stored ────────────┴▶ reuse::decide ─▶ serve, serve stale, validate
//!   response ─▶ ResponseDirectives ─▶ storing::decide ─▶ Stored, or why not
//!   304      ─▶ Stored::freshened
//! ```
//! Every function is pure: the time is an argument, and where responses are kept is the caller's. Besides, `Cache-Status`
//! (RFC 9211) and targeted control by `CDN-Cache-Control` (RFC 9213).

pub mod cache_status;
pub mod directives;
pub mod freshness;
pub mod invalidation;
pub mod partial;
pub mod reuse;
pub mod stored;
pub mod storing;
mod structured;
pub mod validation;
pub mod variant;

#[cfg(test)]
mod tests;
