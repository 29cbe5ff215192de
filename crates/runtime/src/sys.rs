//! The few system calls that no safe crate offers, each behind a safe function; the only `unsafe`.
//!
//! `netem` and `profiler` use some of these functions, too: those that are public.
//!
//! Decides nothing: every function is one call, with typed arguments and its errno as an `io::Error`. Only the ring has
//! a life cycle: it owns the memory its operations use.
#![allow(
    unsafe_code,
    reason = "this module is the one home of unsafe; every block says why it is sound"
)]

mod accounts;
mod capture;
mod datagrams;
mod descriptors;
mod environment;
mod files;
mod keeper;
mod memory;
mod namespaces;
mod options;
mod packets;
pub mod perf;
mod process;
mod provided;
pub mod ptrace;
mod ring;
mod seccomp;
mod sockets;

pub(crate) use accounts::{
    Person, become_user, each_user, find_group, find_user, groups_of, set_effective_user,
};
pub use capture::{
    Arrived, bind_packet_socket, capture_socket, make_promiscuous, packet_statistics, prepare_packet_socket,
    receive_packets,
};
#[cfg(test)]
pub(crate) use datagrams::leave_out_checksums;
pub use datagrams::{
    Address, Arrivals, Datagram, forbid_fragments, knows_segments, path_mtu, prepare_datagrams, probe_paths,
    send_datagrams,
};
pub(crate) use datagrams::{attach_steering, detach_steering};
pub(crate) use descriptors::{pass_descriptors, take_descriptor};
pub(crate) use environment::forget_variables;
pub(crate) use files::cached_pages;
pub use keeper::{Keeps, own_processes, under_a_keeper};
pub(crate) use memory::{Mapped, Run, let_go_of_program, memory_file, set_trim_threshold, trim};
pub(crate) use namespaces::landlock_version;
pub use namespaces::{dies_with_its_parent, next_signal_and_sender, own_mounts, run_first, unshare};
pub use packets::{
    BATCH, Batch, offloads_off, overflowed, packet_socket, receive_stamped, send_batch, stamp_arrivals, tun,
};
pub(crate) use process::signal_descriptor;
pub use process::{block, fork, next_signal, unblock};
pub(crate) use ring::{Completion, Ring, Sizes, Ticket};
pub(crate) use seccomp::{Instruction, filter_calls};
#[cfg(test)]
pub(crate) use sockets::is_paced;
pub(crate) use sockets::{
    acknowledged, bound_unsent, discard, drop_syns, pace, path_of, set_tcp_defer_accept, tcp_of, unsent_bound,
};
