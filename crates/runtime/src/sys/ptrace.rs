//! Stopping threads of other processes at their system calls, `ptrace(2)`. Each function is one request; the caller
//! tracks each thread's state. The thread that seized must make all requests.

use std::io;

/// Why a thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// At the entry of or the exit from a system call.
    Call,
    /// It has created a thread or a process, which is seized as well.
    Made,
    /// It is new, was interrupted by the tracer, or executes another program now: it only has to be continued.
    Event,
    /// Its whole process is stopped, for example by SIGSTOP, and must stay so.
    Group,
    /// It is about to receive this signal.
    Signal(i32),
    /// It has ended; with the exit code of a process, or 128 plus the signal.
    Ended(i32),
}

/// The position of a thread that is stopped at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// About to enter this call.
    Entry {
        /// Number of the call.
        call: u64,
        /// Its first two arguments.
        arguments: [u64; 2],
    },
    /// Returning with this result.
    Exit {
        /// The call's value, or its negative errno.
        result: i64,
    },
    /// Neither.
    Elsewhere,
}

/// `PTRACE_GET_SYSCALL_INFO` of `linux/ptrace.h`, which `libc` has for glibc only.
const GET_SYSCALL_INFO: libc::c_uint = 0x420e;

/// `struct ptrace_syscall_info` of `linux/ptrace.h`.
#[repr(C)]
#[derive(Default)]
struct SyscallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// At an entry: the call and its six arguments. At an exit: the result.
    words: [u64; 8],
}

/// The values of `SyscallInfo::op`.
const ENTRY: u8 = 1;
const EXIT: u8 = 2;

fn request(what: libc::c_uint, thread: u32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: none of the requests made through here reads or writes our memory, but for the one of `at`, which
    // passes a pointer to a live value and its true size.
    let result = unsafe { libc::ptrace(what as _, thread as libc::pid_t, address, data) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        other => Ok(other),
    }
}

/// Seizes a thread, and all it will create, without stopping it.
pub fn seize(thread: u32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE as _, thread, 0, options as usize).map(drop)
}

/// Stops a seized thread soon.
pub fn interrupt(thread: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT as _, thread, 0, 0).map(drop)
}

/// Continues a stopped thread to the next entry or exit, with a signal if not 0.
pub fn go_on(thread: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL as _, thread, 0, signal as usize).map(drop)
}

/// Leaves a thread of a stopped process stopped.
pub fn stay(thread: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN as _, thread, 0, 0).map(drop)
}

/// Releases a stopped thread.
pub fn detach(thread: u32, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH as _, thread, 0, signal as usize).map(drop)
}

/// The position of a thread that is stopped at a call.
pub fn at(thread: u32) -> io::Result<At> {
    let mut info = SyscallInfo::default();
    let size = size_of::<SyscallInfo>();
    request(GET_SYSCALL_INFO, thread, size, &raw mut info as usize)?;
    Ok(match info.op {
        ENTRY => At::Entry {
            call: info.words[0],
            arguments: [info.words[1], info.words[2]],
        },
        EXIT => At::Exit {
            result: info.words[0].cast_signed(),
        },
        _ => At::Elsewhere,
    })
}

/// The next seized thread that stopped or ended; `None` if there is none now.
pub fn next_stop() -> io::Result<Option<(u32, Stop)>> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is to a live value.
        let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
        return match thread {
            0 => Ok(None),
            1.. => Ok(Some((thread as u32, reason(status)))),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => Err(error),
            },
        };
    }
}

fn reason(status: libc::c_int) -> Stop {
    if libc::WIFEXITED(status) {
        return Stop::Ended(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Stop::Ended(128 + libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => Stop::Made,
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Stop::Group,
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        _ => Stop::Event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_reason() {
        let stopped = |signal: i32, event: i32| (event << 16) | (signal << 8) | 0x7f;
        for (status, expected) in [
            (3 << 8, Stop::Ended(3)),
            (9, Stop::Ended(137)),
            (stopped(libc::SIGTRAP | 0x80, 0), Stop::Call),
            (stopped(libc::SIGTRAP, libc::PTRACE_EVENT_CLONE), Stop::Made),
            (stopped(libc::SIGTRAP, libc::PTRACE_EVENT_STOP), Stop::Event),
            (stopped(libc::SIGTRAP, libc::PTRACE_EVENT_EXEC), Stop::Event),
            (stopped(libc::SIGSTOP, libc::PTRACE_EVENT_STOP), Stop::Group),
            (stopped(libc::SIGUSR1, 0), Stop::Signal(libc::SIGUSR1)),
        ] {
            assert_eq!(reason(status), expected, "{status:#x}");
        }
    }
}
