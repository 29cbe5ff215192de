//! Installing a seccomp filter.

use std::io;

/// One instruction of a filter (classic BPF, `struct sock_filter`).
pub(crate) use libc::sock_filter as Instruction;

/// Makes each system call of this thread, and of all it starts, pass this program first.
///
/// # Errors
/// `EINVAL` from a kernel without seccomp or for an invalid program, `EPERM` if another filter forbids it, `EACCES`
/// without `no_new_privs`.
pub(crate) fn filter_calls(program: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    // Without the flag, kernels before 5.16 make every thread pay for a mitigation (speculative store bypass) that is
    // of use to programs that run code of others.
    // SAFETY: the kernel copies the program, which lives until the call returns and is not written to.
    let with_flag = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    };
    if with_flag == 0 {
        return Ok(());
    }
    // The older way in: for kernels before 4.17, and where a filter refuses the newer one.
    // SAFETY: as above.
    let done = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
