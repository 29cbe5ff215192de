//! Names of system calls by number, for this architecture.

/// The name of a call; `None` if it is not listed here.
pub fn name(number: u64) -> Option<&'static str> {
    let number = libc::c_long::try_from(number).ok()?;
    NAMES
        .iter()
        .find(|(one, _)| *one == number)
        .map(|(_, name)| *name)
}

macro_rules! names {
    ($($word:ident)*; $($old:ident)*) => {
        const NAMES: &[(libc::c_long, &str)] = &[
            $((libc::$word, call(stringify!($word))),)*
            // Calls that newer architectures lack.
            $(#[cfg(target_arch = "x86_64")] (libc::$old, call(stringify!($old))),)*
        ];
    };
}

/// Removes the prefix of its constant.
const fn call(constant: &str) -> &str {
    constant.split_at(4).1
}

names! {
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
    SYS_close SYS_fstat SYS_lseek SYS_mmap SYS_mprotect SYS_munmap SYS_mremap SYS_brk SYS_madvise SYS_msync SYS_mincore
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigtimedwait SYS_rt_sigpending SYS_rt_sigsuspend
    SYS_sigaltstack SYS_kill SYS_tkill SYS_tgkill SYS_signalfd4 SYS_setitimer SYS_getitimer SYS_ioctl SYS_fcntl
    SYS_flock SYS_fsync SYS_fdatasync SYS_truncate SYS_ftruncate SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir
    SYS_fchmod SYS_fchown SYS_umask SYS_openat SYS_openat2 SYS_newfstatat SYS_statx SYS_faccessat SYS_faccessat2
    SYS_readlinkat SYS_unlinkat SYS_mkdirat SYS_renameat2 SYS_linkat SYS_symlinkat SYS_statfs SYS_fstatfs
    SYS_fadvise64 SYS_readahead SYS_fallocate SYS_copy_file_range SYS_inotify_init1 SYS_inotify_add_watch
    SYS_inotify_rm_watch SYS_close_range SYS_dup SYS_dup3 SYS_pipe2 SYS_sendfile SYS_splice SYS_tee SYS_vmsplice
    SYS_socket SYS_socketpair SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_getsockname SYS_getpeername
    SYS_setsockopt SYS_getsockopt SYS_shutdown SYS_sendto SYS_sendmsg SYS_sendmmsg SYS_recvfrom SYS_recvmsg
    SYS_recvmmsg SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
    SYS_eventfd2 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime SYS_futex SYS_futex_waitv
    SYS_set_robust_list SYS_get_robust_list SYS_sched_yield SYS_semget SYS_semop SYS_semtimedop SYS_semctl SYS_msgget
    SYS_msgsnd SYS_msgrcv SYS_shmget SYS_shmat SYS_shmdt SYS_shmctl SYS_membarrier SYS_rseq SYS_clone SYS_clone3
    SYS_execve SYS_execveat SYS_wait4 SYS_waitid SYS_exit SYS_exit_group SYS_set_tid_address SYS_prctl SYS_prlimit64
    SYS_setpgid SYS_getpgid SYS_setsid SYS_getpid SYS_getppid SYS_gettid SYS_getuid SYS_geteuid SYS_getgid
    SYS_getegid SYS_setuid SYS_setgid SYS_setresuid SYS_setresgid SYS_setgroups SYS_getgroups SYS_capget SYS_capset
    SYS_getrusage SYS_times SYS_sysinfo SYS_uname SYS_getrandom SYS_gettimeofday SYS_clock_gettime SYS_clock_getres
    SYS_clock_nanosleep SYS_nanosleep SYS_sched_setaffinity SYS_sched_getaffinity SYS_sched_getparam
    SYS_sched_setscheduler SYS_sched_getscheduler SYS_getpriority SYS_setpriority SYS_getcpu SYS_ptrace SYS_seccomp
    SYS_bpf SYS_perf_event_open SYS_memfd_create SYS_io_setup SYS_io_destroy SYS_io_submit SYS_io_cancel
    SYS_io_getevents SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_pidfd_open
    SYS_pidfd_send_signal SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self SYS_syslog
    SYS_restart_syscall;
    SYS_open SYS_stat SYS_lstat SYS_access SYS_readlink SYS_unlink SYS_mkdir SYS_rename SYS_getdents SYS_creat SYS_poll
    SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_signalfd SYS_inotify_init SYS_pipe SYS_dup2 SYS_fork
    SYS_vfork SYS_alarm SYS_pause SYS_time SYS_getpgrp SYS_arch_prctl
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_name_and_it_is_theirs() {
        assert_eq!(name(libc::SYS_sendfile as u64), Some("sendfile"));
        assert_eq!(name(libc::SYS_futex as u64), Some("futex"));
        assert_eq!(name(u64::MAX), None);
        for (place, (number, name)) in NAMES.iter().enumerate() {
            assert!(
                NAMES[..place].iter().all(|(other, _)| other != number),
                "{name} twice"
            );
        }
    }
}
