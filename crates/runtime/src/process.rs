//! The server as processes: workers that are forked, what one process hands to the next, and what each may do.

pub mod inherit;
pub mod notify;
pub mod prefork;
pub mod privilege;
pub mod reexec;
