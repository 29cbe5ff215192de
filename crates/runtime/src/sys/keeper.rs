//! A command in a process namespace of its own, so that all its processes end together.
//!
//! When the first process of such a namespace ends, the kernel kills all others (`pid_namespaces(7)`). But it receives
//! only the signals it asks for, and orphans become its children, so it should not be the command itself. Instead it is
//! a keeper, which only forwards signals and waits.
//!
//! ```text
//!  this process ── fork ── keeper, 1 in its namespace ── clone ── the command ── exec
//!       │                     ▲  ▲                                    │
//!       └── signals, or death ┘  └────────── ends, or orphans ────────┘
//! ```

use super::process;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// When a keeper ends, and everything with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// With the command. Signals go to the command.
    One,
    /// When no process is left, so that a command can leave a daemon behind. Signals go to all.
    All,
}

/// Puts the next child of the calling thread, and its descendants, into a process namespace of their own. There can be
/// one such child, and this thread can start no threads any more.
pub fn own_processes() -> io::Result<()> {
    // SAFETY: the flag changes where this thread's children are born, nothing of the thread itself.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWPID) }.map_err(io::Error::from)
}

/// Puts a keeper above the command; [`own_processes`] must have prepared this thread. The keeper's exit code is the
/// command's as in a shell: its code, or 128 plus the signal. The keeper dies with the thread that spawns it. `held`
/// are the signals blocked by this thread: the keeper forwards them, and the command gets them unblocked.
pub fn under_a_keeper(command: &mut Command, held: &[i32], keeps: Keeps) {
    let held = held.to_vec();
    let founder =
        rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
    // Without it (Linux before 5.3), the moment between two system calls is not covered.
    let founder = founder.ok();
    let signals = process::set(&held);
    let split = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // It may have died before the kernel was told.
        if founder.as_ref().is_some_and(has_ended) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        process::block(&held)?;
        see_own_processes();
        match copy()? {
            0 => process::unblock(&held),
            command => keep(command, &signals, keeps),
        }
    };
    // SAFETY: runs in a copy of this process that has one thread. Everything called there is a system call or plain
    // arithmetic: nothing allocates or takes a lock.
    unsafe { command.pre_exec(split) };
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut asked = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one live structure, and no waiting.
    unsafe { libc::poll(&raw mut asked, 1, 0) == 1 }
}

/// Shows the namespace's own processes in `/proc`, if allowed; otherwise `/proc` shows them with their outside numbers.
fn see_own_processes() {
    const ROOT: &CStr = c"/";
    const PROC: &CStr = c"proc";
    const AT: &CStr = c"/proc";
    let none = std::ptr::null();
    // SAFETY: every pointer leads to a constant text or is null where the call allows that; this process has one
    // thread, so that nobody else is moved to another namespace of mounts.
    unsafe {
        let is_own = libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                none,
                ROOT.as_ptr(),
                none,
                libc::MS_REC | libc::MS_SLAVE,
                none.cast(),
            ) == 0;
        if is_own {
            let safe = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            let _ = libc::mount(PROC.as_ptr(), AT.as_ptr(), PROC.as_ptr(), safe, none.cast());
        }
    }
}

/// Copies this process as fork does, but without the C library's extra work: 0 in the copy, its PID in the original.
fn copy() -> io::Result<libc::pid_t> {
    const NOTHING: libc::c_long = 0;
    let flags = libc::c_long::from(libc::SIGCHLD);
    // SAFETY: no stack, no pointers: with these flags the call is fork. The process has one thread.
    let number = unsafe { libc::syscall(libc::SYS_clone, flags, NOTHING, NOTHING, NOTHING, NOTHING) };
    match number {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(number as libc::pid_t),
    }
}

/// The main loop of a keeper.
fn keep(command: libc::pid_t, signals: &libc::sigset_t, keeps: Keeps) -> ! {
    // Descriptors left open here would keep readers waiting: pipes, and the one that reports a failed exec.
    close_everything();
    let mut code = 0;
    loop {
        loop {
            let mut status = 0;
            // SAFETY: the pointer is to a live value.
            let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            let is_alone = ended < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD);
            if ended == command {
                code = if libc::WIFSIGNALED(status) {
                    128 + libc::WTERMSIG(status)
                } else {
                    libc::WEXITSTATUS(status)
                };
            }
            if is_alone || (ended == command && keeps == Keeps::One) {
                // SAFETY: ends this process at once; there is nothing of it to be tidied.
                unsafe { libc::_exit(code) };
            }
            if ended <= 0 {
                break;
            }
        }
        // SAFETY: siginfo_t is made of integers and pointers, for which zero is a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live values.
        let signal = unsafe { libc::sigwaitinfo(signals, &raw mut info) };
        // A terminal's signal has already reached the command, which is in the same group.
        if signal > 0 && signal != libc::SIGCHLD && info.si_code <= 0 {
            let whom = match keeps {
                Keeps::One => command,
                Keeps::All => -1,
            };
            // SAFETY: plain numbers; -1 means all of this namespace but the caller.
            unsafe { libc::kill(whom, signal) };
        }
    }
}

fn close_everything() {
    // SAFETY: this process uses no descriptor from here on, and no thread of it is there to.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) != 0 {
            // Linux before 5.9.
            for descriptor in 0..65_536 {
                libc::close(descriptor);
            }
        }
    }
}
