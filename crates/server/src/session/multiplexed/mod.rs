//! What HTTP/2 and HTTP/3 have in common: requests on streams, their answers as field blocks, content a piece at a time.
//!
//! - [`ask`]: a request to its exchange, and what became of it
//! - [`answer`]: the head of an answer as a field block
//! - [`again`]: requests that are known, whose stored responses need no exchange
//! - [`content`]: the bytes behind it
//! - [`stream`]: a request that is not answered whole yet
//! - [`forward`]: requests that upstreams answer
//! - [`passed`]: one of them
//! - [`priority`]: the urgency of an answer by what it is
//!
//! How a connection lives, and in which frames these go out, is the business of each version.

pub(super) mod again;
pub(super) mod answer;
pub(super) mod ask;
pub(super) mod content;
pub(super) mod forward;
pub(super) mod passed;
pub(super) mod priority;
pub(super) mod stream;
