//! The session on its own: a rig plays driver and peer in memory, with time as it likes.
//!
//! The rig is the driver; `answers` says what answers hold, `persistence` when connections end,
//! `pipelining` what several requests at once mean, `framing` that no body becomes a request, `time`
//! every deadline, `overload` what a worker refuses that is behind, `log` what is written down, `properties` what holds for any bytes.

mod again;
mod answers;
mod framing;
mod log;
mod overload;
mod persistence;
mod pipelining;
mod properties;
mod time;

use super::rig;

/// An idle connection is this struct and the driver's slot; nothing else.
#[test]
fn an_idle_session_is_small() {
    assert!(
        size_of::<super::Session>() <= 88,
        "{}",
        size_of::<super::Session>()
    );
    assert_eq!(size_of::<super::Phase>(), 16);
}
