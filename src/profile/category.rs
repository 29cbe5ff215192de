//! Maps system calls to tasks: the categories of document 002's Table 2 for Linux, plus two that the document did not
//! need. Knows names of calls only.
//!
//! On Solaris 2.5, sockets were streams: today's `accept`, `setsockopt` and `shutdown` were `getmsg` and `ioctl`
//! there, and counted as reading requests and writing files. Here they are `Connections`. `AsynchronousIo` did not
//! exist.

use serde::Serialize;

/// A task of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Category {
    FileOperations,
    WritingFiles,
    ReadingRequests,
    Connections,
    SignalHandling,
    Synchronization,
    ProcessControl,
    AsynchronousIo,
    Miscellaneous,
}

impl Category {
    /// All categories, in the order of Table 2.
    pub(crate) const ALL: [Category; 9] = [
        Category::FileOperations,
        Category::WritingFiles,
        Category::ReadingRequests,
        Category::Connections,
        Category::SignalHandling,
        Category::Synchronization,
        Category::ProcessControl,
        Category::AsynchronousIo,
        Category::Miscellaneous,
    ];

    /// Name as in the document.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Category::FileOperations => "file operations",
            Category::WritingFiles => "writing files",
            Category::ReadingRequests => "reading requests",
            Category::Connections => "connections",
            Category::SignalHandling => "signal handling",
            Category::Synchronization => "synchronization",
            Category::ProcessControl => "process control",
            Category::AsynchronousIo => "asynchronous I/O",
            Category::Miscellaneous => "miscellaneous",
        }
    }

    /// Category of a call by its name. The command of `fcntl` matters, because some lock.
    pub(crate) fn of(name: &str, second: u64) -> Category {
        match name {
            // F_GETLK, F_SETLK, F_SETLKW and their variants for open file descriptions.
            "fcntl" if matches!(second, 5..=7 | 36..=38) => Category::Synchronization,
            "open" | "openat" | "openat2" | "creat" | "close" | "close_range" | "stat" | "lstat"
            | "fstat" | "newfstatat" | "statx" | "statfs" | "fstatfs" | "access" | "faccessat"
            | "faccessat2" | "readlink" | "readlinkat" | "lseek" | "fcntl" | "getdents" | "getdents64"
            | "pread64" | "preadv" | "preadv2" | "readahead" | "fadvise64" | "mincore" | "dup" | "dup2"
            | "dup3" | "truncate" | "ftruncate" | "fallocate" | "fsync" | "fdatasync" | "unlink"
            | "unlinkat" | "mkdir" | "mkdirat" | "rename" | "renameat2" | "linkat" | "symlinkat"
            | "chdir" | "fchdir" | "getcwd" | "fchmod" | "fchown" | "inotify_init" | "inotify_init1"
            | "inotify_add_watch" | "inotify_rm_watch" => Category::FileOperations,
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "ioctl" | "sendto" | "sendmsg"
            | "sendmmsg" | "sendfile" | "splice" | "tee" | "vmsplice" | "copy_file_range" => {
                Category::WritingFiles
            }
            "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg" | "poll" | "ppoll" | "select"
            | "pselect6" | "epoll_create" | "epoll_create1" | "epoll_ctl" | "epoll_wait" | "epoll_pwait"
            | "epoll_pwait2" => Category::ReadingRequests,
            "socket" | "socketpair" | "connect" | "bind" | "listen" | "accept" | "accept4"
            | "getsockname" | "getpeername" | "setsockopt" | "getsockopt" | "shutdown" => {
                Category::Connections
            }
            "rt_sigaction" | "rt_sigprocmask" | "rt_sigreturn" | "rt_sigtimedwait" | "rt_sigpending"
            | "rt_sigsuspend" | "sigaltstack" | "kill" | "tkill" | "tgkill" | "signalfd" | "signalfd4"
            | "setitimer" | "getitimer" | "alarm" | "pause" | "pidfd_send_signal" => Category::SignalHandling,
            "futex" | "futex_waitv" | "flock" | "semget" | "semop" | "semtimedop" | "semctl" | "msgget"
            | "msgsnd" | "msgrcv" | "sched_yield" | "eventfd" | "eventfd2" | "membarrier"
            | "set_robust_list" | "get_robust_list" => Category::Synchronization,
            "fork" | "vfork" | "clone" | "clone3" | "execve" | "execveat" | "wait4" | "waitid" | "exit"
            | "exit_group" | "set_tid_address" | "rseq" | "setpgid" | "setsid" | "prctl" | "prlimit64"
            | "ptrace" => Category::ProcessControl,
            "io_setup" | "io_destroy" | "io_submit" | "io_cancel" | "io_getevents" | "io_uring_setup"
            | "io_uring_enter" | "io_uring_register" => Category::AsynchronousIo,
            _ => Category::Miscellaneous,
        }
    }
}

/// Whether a call opens a file by name.
pub(crate) fn opens(name: &str) -> bool {
    matches!(name, "open" | "openat" | "openat2" | "creat")
}

/// Whether a call may receive a request or send a response.
pub(crate) fn direction(name: &str) -> Option<Direction> {
    match name {
        "read" | "readv" | "recvfrom" | "recvmsg" => Some(Direction::In),
        "write" | "writev" | "sendto" | "sendmsg" | "sendfile" => Some(Direction::Out),
        _ => None,
    }
}

/// Direction of bytes through the descriptor in a call's first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 2 of document 002; calls of Solaris that Linux has under another name or not at all left out.
    #[test]
    fn what_table_2_names_is_where_table_2_has_it() {
        use Category::*;
        for (category, names) in [
            (FileOperations, &["open", "close", "stat"][..]),
            (WritingFiles, &["write", "writev", "ioctl"]),
            (ReadingRequests, &["read", "poll"]),
            (SignalHandling, &["rt_sigaction", "rt_sigprocmask"]),
            (Synchronization, &["futex"]),
            (ProcessControl, &["fork", "execve", "waitid", "exit"]),
            (Miscellaneous, &["time", "getuid"]),
        ] {
            for name in names {
                assert_eq!(Category::of(name, 0), category, "{name}");
            }
        }
    }

    #[test]
    fn a_lock_of_a_file_is_a_lock() {
        for command in [6, 7, 37, 38] {
            assert_eq!(Category::of("fcntl", command), Category::Synchronization);
        }
        assert_eq!(Category::of("fcntl", 3), Category::FileOperations);
    }
}
