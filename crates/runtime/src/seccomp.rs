//! A seccomp filter: makes system calls fail that a file server never makes.
//!
//! ```text
//!   another architecture, x32 ────────────────────────────▶ EPERM
//!   sendto, sendmsg, sendmmsg ── MSG_FASTOPEN ────────────▶ EPERM
//!   socket ── neither UNIX nor TCP ───────────────────────▶ EPERM
//!   clone ── makes a namespace ───────────────────────────▶ EPERM
//!   ioctl ── types into a terminal ───────────────────────▶ EPERM
//!   clone3, whose flags no filter can see ────────────────▶ ENOSYS: the C library uses clone
//!   DENIED, and io_uring where it is not used ────────────▶ EPERM
//!   everything else ──────────────────────────────────────▶ allowed
//! ```
//! It is a deny list on purpose. A filter is inherited across fork and exec and can only be narrowed, and an in-place
//! upgrade executes a program that is not written yet: an allow list for today's program could keep that one from
//! starting. For the same reason, no process is killed: a denied call fails with an errno.
//!
//! Decides which calls are denied. What a server's configuration needs is not known here; callers pass it as [`Needs`].
//! The program is assembled here rather than by a crate: seccompiler kills on another architecture and does not know
//! x32. The kernel answers calls that are judged by number alone from a bitmap (Linux 5.11) without running the filter;
//! the few whose arguments matter come first. <https://docs.kernel.org/userspace-api/seccomp_filter.html>

use crate::sys::{self, Instruction};
use std::io;

/// What a process needs beyond the needs of every file server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// It uses io_uring, or may be told to. No filter sees operations made through a ring.
    pub uring: bool,
    /// It opens connections to other hosts and queries name servers: TCP Fast Open and UDP are allowed. Whether it can
    /// connect over TCP is decided by [`crate::process::privilege::Reach`].
    pub connects: bool,
}

/// Denies the calls listed above to this thread, and to all threads and programs it starts. Requires
/// [`crate::process::privilege::no_new_privileges`] first.
///
/// # Errors
/// `Unsupported` on an architecture whose calls are not listed here, or the kernel's: it has no seccomp (`EINVAL`), or
/// another filter forbids installing one (`EPERM`).
pub fn restrict(needs: Needs) -> io::Result<()> {
    let Some(arch) = ARCH else {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "Weir has no list of system calls for this architecture",
        ));
    };
    sys::filter_calls(&program(arch, needs))
}

/// The `AUDIT_ARCH_*` of the architecture this is compiled for.
const ARCH: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
    Some(0xc000_003e)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(0xc000_00b7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xc000_00f3)
} else {
    None
};

/// Bit set in the numbers of x32, which differ from those of the list.
const X32: u32 = 0x4000_0000;

/// Calls that a file server never makes: inspecting other processes, loading kernel programs and modules, mounts and
/// namespaces, keys, clocks, devices.
const DENIED: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_mknodat,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// The calls of io_uring.
const URING: [libc::c_long; 3] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The clone flags that create a namespace.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// The low half of `type`, without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const TYPE_MASK: u32 = 0xf;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// Offset of the low half of an argument, which is all of an `int` or a set of flags.
const fn argument(index: u32) -> u32 {
    let at = 16 + 8 * index;
    if cfg!(target_endian = "big") { at + 4 } else { at }
}

fn program(arch: u32, needs: Needs) -> Vec<Instruction> {
    let mut code = Assembly::default();
    code.load(ARCHITECTURE);
    code.unless_equal(arch, Goal::Denied);
    code.load(NUMBER);
    code.if_at_least(X32, Goal::Denied);
    if !needs.connects {
        // This flag connects without asking Landlock.
        let fast_open = libc::MSG_FASTOPEN as u32;
        for (call, flags) in [
            (libc::SYS_sendto, 3),
            (libc::SYS_sendmsg, 2),
            (libc::SYS_sendmmsg, 3),
        ] {
            code.of(call, |code| {
                code.load(argument(flags));
                code.if_any(fast_open, Goal::Denied);
                code.end(Goal::Allowed);
            });
        }
    }
    code.of(libc::SYS_socket, |code| {
        code.load(argument(0));
        code.if_equal(libc::AF_UNIX as u32, Goal::Allowed);
        code.if_equal_skip(libc::AF_INET as u32, 1);
        code.unless_equal(libc::AF_INET6 as u32, Goal::Denied);
        // Stream protocols other than TCP, such as MPTCP and SCTP, bypass Landlock.
        code.load(argument(1));
        code.and(TYPE_MASK);
        if needs.connects {
            code.if_equal_skip(libc::SOCK_DGRAM as u32, 1);
        }
        code.unless_equal(libc::SOCK_STREAM as u32, Goal::Denied);
        code.load(argument(2));
        if needs.connects {
            code.if_equal(libc::IPPROTO_UDP as u32, Goal::Allowed);
        }
        code.if_equal(libc::IPPROTO_IP as u32, Goal::Allowed);
        code.if_equal(libc::IPPROTO_TCP as u32, Goal::Allowed);
        code.end(Goal::Denied);
    });
    code.of(libc::SYS_clone, |code| {
        code.load(argument(0));
        code.if_any(NAMESPACES as u32, Goal::Denied);
        code.end(Goal::Allowed);
    });
    code.of(libc::SYS_ioctl, |code| {
        code.load(argument(1));
        code.if_equal(libc::TIOCSTI as u32, Goal::Denied);
        code.if_equal(TIOCLINUX, Goal::Denied);
        code.end(Goal::Allowed);
    });
    code.if_equal(libc::SYS_clone3 as u32, Goal::Unknown);
    let uring = URING.iter().filter(|_| !needs.uring);
    for &call in DENIED.iter().chain(uring) {
        code.if_equal(call as u32, Goal::Denied);
    }
    code.end(Goal::Allowed);
    code.finish()
}

/// Types into a console; not defined in libc.
const TIOCLINUX: u32 = 0x541c;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Allowed,
    /// Fails with `EPERM`.
    Denied,
    /// Fails with `ENOSYS`, as if the kernel did not have it.
    Unknown,
}

impl Goal {
    const ALL: [Goal; 3] = [Goal::Allowed, Goal::Denied, Goal::Unknown];

    fn verdict(self) -> u32 {
        match self {
            Goal::Allowed => libc::SECCOMP_RET_ALLOW,
            Goal::Denied => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            Goal::Unknown => libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        }
    }
}

/// Instructions whose jumps to a [`Goal`] are still open: the goals come at the end.
#[derive(Default)]
struct Assembly {
    code: Vec<(Instruction, Option<Branch>)>,
}

/// Which of the two branches of a jump leads to the goal.
#[derive(Clone, Copy)]
enum Branch {
    IfTrue(Goal),
    IfFalse(Goal),
}

impl Assembly {
    fn push(&mut self, code: u32, k: u32, branch: Option<Branch>) {
        let instruction = Instruction {
            // All operation codes are below 256.
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        };
        self.code.push((instruction, branch));
    }

    fn load(&mut self, offset: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, None);
    }

    fn and(&mut self, mask: u32) {
        self.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, None);
    }

    fn jump(&mut self, test: u32, k: u32, branch: Branch) {
        self.push(libc::BPF_JMP | test | libc::BPF_K, k, Some(branch));
    }

    fn if_equal(&mut self, k: u32, goal: Goal) {
        self.jump(libc::BPF_JEQ, k, Branch::IfTrue(goal));
    }

    fn unless_equal(&mut self, k: u32, goal: Goal) {
        self.jump(libc::BPF_JEQ, k, Branch::IfFalse(goal));
    }

    fn if_at_least(&mut self, k: u32, goal: Goal) {
        self.jump(libc::BPF_JGE, k, Branch::IfTrue(goal));
    }

    fn if_any(&mut self, bits: u32, goal: Goal) {
        self.jump(libc::BPF_JSET, bits, Branch::IfTrue(goal));
    }

    /// Skips the next `count` instructions.
    fn if_equal_skip(&mut self, k: u32, count: u8) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, None);
        if let Some((instruction, _)) = self.code.last_mut() {
            instruction.jt = count;
        }
    }

    fn end(&mut self, goal: Goal) {
        self.push(libc::BPF_RET | libc::BPF_K, goal.verdict(), None);
    }

    /// The rules for one call. `body` must end with an outcome, because it loads something other than the number.
    fn of(&mut self, call: libc::c_long, body: impl FnOnce(&mut Assembly)) {
        let at = self.code.len();
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, None);
        body(self);
        let over = u8::try_from(self.code.len() - at - 1).expect("a call takes a few instructions");
        self.code[at].0.jf = over;
    }

    fn finish(mut self) -> Vec<Instruction> {
        let goals = self.code.len();
        for goal in Goal::ALL {
            self.end(goal);
        }
        let resolved = self.code.iter().enumerate().map(|(at, &(instruction, branch))| {
            let to = |goal: Goal| {
                let goal = goals + goal as usize;
                u8::try_from(goal - at - 1).expect("a jump reaches 255 instructions, and there are fewer")
            };
            match branch {
                None => instruction,
                Some(Branch::IfTrue(goal)) => Instruction {
                    jt: to(goal),
                    ..instruction
                },
                Some(Branch::IfFalse(goal)) => Instruction {
                    jf: to(goal),
                    ..instruction
                },
            }
        });
        resolved.collect()
    }
}

#[cfg(test)]
mod tests;
