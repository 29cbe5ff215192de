//! Tests of HTTP/2 sessions alone: the rig plays the driver, the client's end of crate `http2` the peer.
//!
//! The tests: `abuse` is on floods, `again` on stored responses to known requests, `same` compares answers with those of HTTP/1, `bodies` is on requests with bodies, `ends` on how
//! connections end, `forward` on requests that upstreams answer, `idle` on what idle ones cost, `order` on whose bytes go first, `under_way` on what happens to answers that are not sent.

mod abuse;
mod again;
mod bodies;
mod ends;
mod floods;
mod forward;
mod idle;
mod order;
mod peer;
mod same;
mod under_way;
