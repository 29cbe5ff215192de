//! How other threads control a running emulator: they stop it, wake it and read its counters. What it does then is
//! its own affair.

use crate::Tally;
use runtime::bell::Bell;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Control over a running emulator, from other threads.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) bell: Bell,
    pub(crate) stop: AtomicBool,
    /// The counters, as of a moment ago.
    pub(crate) tally: Mutex<Tally>,
}
