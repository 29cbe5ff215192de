//! The server as processes: workers that are forked, what one process hands to the next, what each may do, and programs
//! that it runs. Also a program that a command talks with.

pub mod hook;
pub mod inherit;
pub mod notify;
pub mod piped;
pub mod prefork;
pub mod privilege;
pub mod reexec;
