//! Tests of the session alone: a rig plays driver and peer in memory, and controls time.
//!
//! The tests: `answers` on the content of responses, `persistence` on when connections end, `pipelining` on several
//! requests at once, `framing` on bodies that must not become requests, `time` on every deadline, `forward` on those of
//! requests for upstreams. `admin` is on requests at the admin addresses, `overload` on rejections by an overloaded worker,
//! `log` on log lines, `properties` on any bytes.

mod admin;
mod again;
mod answers;
mod forward;
mod framing;
mod log;
mod overload;
mod persistence;
mod pipelining;
mod properties;
mod time;

use super::rig;

/// An idle connection is this struct and the driver's slot.
#[test]
fn an_idle_session_is_small() {
    assert!(
        size_of::<super::Session>() <= 88,
        "{}",
        size_of::<super::Session>()
    );
}
