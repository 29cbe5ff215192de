//! The file server: sessions that answer requests over HTTP/1 and HTTP/2, the cached virtual file system behind them,
//! eviction policies, and adaptation.
//!
//! Decides what the response to a request is, and what the cache keeps. It touches no socket; drivers of the `runtime`
//! crate move the bytes and run jobs that may block.

mod acceptor;
mod access;
pub mod access_log;
pub mod adapt;
mod admission;
mod ask;
pub mod cache;
mod checked;
mod client_address;
pub mod clock;
pub mod coding;
mod conditional;
pub mod config;
pub mod connection_limit;
mod context;
mod control;
pub mod counters;
mod credentials;
mod entity_tag;
pub mod entry;
pub mod error_page;
mod exchange;
mod explain;
mod field_block;
mod field_cache;
pub mod field_list;
mod field_rules;
pub mod filter;
mod head_cache;
mod histogram;
mod host_counts;
mod hosts;
pub mod latency;
pub mod limits;
mod listing;
mod live;
mod local;
mod media_type;
mod open;
mod own_fields;
mod path;
mod proxy;
pub mod proxy_protocol;
mod queue;
mod rate_limit;
mod recorded;
pub mod references;
pub mod replay;
mod request_id;
mod request_limit;
mod service;
mod session;
pub mod site;
pub mod store;
mod traced;
mod uploads;
mod waiting;
mod writers;

pub use context::{Cx, Work};
pub use explain::{Explanation, Question, Step};
pub use hosts::{MissingPage, NamedBy};
pub use proxy::cache::{Purge, Purges};
pub use service::handler;
pub use service::{About, Additions, Certificate, Interprocess, LogSink, Server};
pub use session::Session;
pub use traced::{Delivered, SpanSink, Trace};

#[cfg(fuzzing)]
pub use session::exercise;
