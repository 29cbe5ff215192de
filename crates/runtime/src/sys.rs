//! The few system calls no safe crate offers, each behind a safe function; the only `unsafe`.
//!
//! Decides nothing: every function is one call, its arguments in types, its errno as an `io::Error`. The
//! one thing with a life of its own is the ring, which owns the memory its operations use.
#![allow(
    unsafe_code,
    reason = "this module is the one home of unsafe; every block says why it is sound"
)]

mod accounts;
mod descriptors;
mod files;
mod memory;
mod process;
mod provided;
mod ring;
mod sockets;

pub(crate) use accounts::{become_user, find_group, find_user, groups_of, set_effective_user};
pub(crate) use descriptors::take_descriptor;
pub(crate) use files::cached_pages;
pub(crate) use memory::SharedWords;
pub(crate) use process::{block, fork, next_signal, unblock};
pub(crate) use ring::{Completion, Ring, Sizes, Ticket};
pub(crate) use sockets::{path_of, set_tcp_defer_accept, tcp_of};
