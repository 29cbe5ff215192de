//! Namespaces, and the setup of a child between fork and exec.

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Gives the calling thread a network namespace of its own; with `user`, also gives the process a user namespace, which
/// requires that it has only one thread.
pub fn unshare(user: bool, network: bool) -> io::Result<()> {
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWUSER, user);
    flags.set(UnshareFlags::NEWNET, network);
    // SAFETY: neither flag is CLONE_FILES, the one that other threads could notice in descriptors they hold.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Gives the calling thread, and children it starts, a namespace of mounts of their own: what they mount is not seen
/// outside. Other threads are not affected.
///
/// # Errors
/// The system's, which requires the rights of an administrator of the user namespace.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: the flag is not CLONE_FILES; with it the kernel copies this thread's root and current folder, and leaves
    // those of others alone.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM,
    )?;
    Ok(())
}

/// Makes the kernel kill the child when the thread that spawns it ends for any reason, and unblocks these held signals
/// for the child.
pub fn dies_with_its_parent(command: &mut Command, held: Vec<i32>) {
    let founder = rustix::process::getpid();
    let tell = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the kernel was told.
        if rustix::process::getppid() == Some(founder) {
            super::unblock(&held)
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: three system calls and a comparison: nothing here allocates or takes a lock.
    unsafe { command.pre_exec(tell) };
}

/// Takes one of these blocked signals: its number, and whether a process sent it rather than the kernel. (A terminal
/// sends to the whole foreground group, so children have received it, too.)
pub fn next_signal_and_sender(signals: &[i32]) -> io::Result<(i32, bool)> {
    let set = super::process::set(signals);
    loop {
        // SAFETY: siginfo_t is made of integers and pointers, for which zero is a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live values.
        let number = unsafe { libc::sigwaitinfo(&raw const set, &raw mut info) };
        if number > 0 {
            return Ok((number, info.si_code <= 0));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Version of the kernel's Landlock ABI.
pub(crate) fn landlock_version() -> io::Result<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: asked for its version the call takes no attributes and makes nothing.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// Gives the calling thread priority over all threads that are not real-time (`SCHED_FIFO`, lowest priority). Its
/// children do not inherit that.
pub fn run_first() -> io::Result<()> {
    // SAFETY: sched_param is made of integers, for which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the pointer is to a live value; 0 means the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
