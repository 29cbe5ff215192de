//! The program, run by an interpreter for every number there is, and by the kernel where that is safe.

use super::*;
use crate::process::privilege::no_new_privileges;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};

const NATIVE: u32 = match ARCH {
    Some(arch) => arch,
    None => 0,
};
/// Above every number that any kernel has assigned.
const NUMBERS: libc::c_long = 600;

/// The kernel's verdict on this call.
fn run(program: &[Instruction], arch: u32, call: u32, arguments: [u32; 6]) -> u32 {
    let word = |offset: u32| match offset {
        NUMBER => call,
        ARCHITECTURE => arch,
        _ => {
            let index = (0..6).find(|&index| argument(index) == offset);
            arguments[index.expect("an argument's low half") as usize]
        }
    };
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let code = u32::from(code);
        let holds = match code & 0xf0 {
            libc::BPF_JEQ => accumulator == k,
            libc::BPF_JGE => accumulator >= k,
            libc::BPF_JSET => accumulator & k != 0,
            _ => false,
        };
        match code & 0x07 {
            libc::BPF_LD => accumulator = word(k),
            libc::BPF_ALU => accumulator &= k,
            libc::BPF_RET => return k,
            libc::BPF_JMP => at += usize::from(if holds { jt } else { jf }),
            other => panic!("class {other} is not used"),
        }
    }
}

fn verdict(needs: Needs, call: libc::c_long, arguments: [u32; 6]) -> u32 {
    run(&program(NATIVE, needs), NATIVE, call as u32, arguments)
}

const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const DENIED_BY: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const USUAL: Needs = Needs {
    uring: false,
    connects: false,
};
const RING: Needs = Needs {
    uring: true,
    connects: false,
};
const CLIENT: Needs = Needs {
    uring: false,
    connects: true,
};

#[test]
fn every_number_has_the_verdict_of_its_list() {
    let unix_stream = [libc::AF_UNIX as u32, libc::SOCK_STREAM as u32, 0, 0, 0, 0];
    for needs in [USUAL, RING, CLIENT] {
        for call in 0..NUMBERS {
            let arguments = match call {
                libc::SYS_socket => unix_stream,
                _ => [0; 6],
            };
            let wanted = match call {
                libc::SYS_clone3 => libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
                _ if DENIED.contains(&call) => DENIED_BY,
                _ if URING.contains(&call) && !needs.uring => DENIED_BY,
                _ => ALLOWED,
            };
            assert_eq!(verdict(needs, call, arguments), wanted, "{call} with {needs:?}");
        }
    }
}

/// A call with another architecture's number is another call.
#[test]
fn other_architectures_and_x32_are_denied_and_nothing_is_killed() {
    let program = program(NATIVE, USUAL);
    for arch in [0x4000_0003, 0x4000_0028, 0xc000_003e, 0xc000_00b7, 0xc000_00f3] {
        let wanted = if arch == NATIVE { ALLOWED } else { DENIED_BY };
        assert_eq!(
            run(&program, arch, libc::SYS_read as u32, [0; 6]),
            wanted,
            "{arch:x}"
        );
    }
    for call in [0, 521, u32::MAX - X32] {
        assert_eq!(run(&program, NATIVE, X32 | call, [0; 6]), DENIED_BY);
    }
    for instruction in program
        .iter()
        .filter(|one| u32::from(one.code) & 7 == libc::BPF_RET)
    {
        let action = instruction.k & 0x7fff_0000;
        assert!(action == libc::SECCOMP_RET_ALLOW || action == libc::SECCOMP_RET_ERRNO);
    }
}

#[test]
fn arguments_decide_where_they_matter() {
    let socket = |needs, family: i32, kind: i32, protocol: i32| {
        let arguments = [family as u32, kind as u32, protocol as u32, 0, 0, 0];
        verdict(needs, libc::SYS_socket, arguments) == ALLOWED
    };
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    for needs in [USUAL, RING, CLIENT] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            for protocol in [0, libc::IPPROTO_TCP] {
                assert!(socket(needs, family, libc::SOCK_STREAM | flags, protocol));
            }
            for protocol in [libc::IPPROTO_SCTP, libc::IPPROTO_MPTCP, 256] {
                assert!(!socket(needs, family, libc::SOCK_STREAM | flags, protocol));
            }
            let udp = socket(needs, family, libc::SOCK_DGRAM | flags, 0)
                && socket(needs, family, libc::SOCK_DGRAM, libc::IPPROTO_UDP);
            assert_eq!(udp, needs.connects);
            assert!(!socket(needs, family, libc::SOCK_RAW | flags, libc::IPPROTO_TCP));
            assert!(!socket(needs, family, libc::SOCK_DGRAM, libc::IPPROTO_ICMP));
        }
        assert!(socket(needs, libc::AF_UNIX, libc::SOCK_DGRAM | flags, 0));
        for family in [
            libc::AF_NETLINK,
            libc::AF_PACKET,
            libc::AF_ALG,
            libc::AF_VSOCK,
            45,
        ] {
            assert!(!socket(needs, family, libc::SOCK_STREAM, 0), "{family}");
        }
    }
    let at = |index: usize, value: u32| {
        let mut arguments = [0; 6];
        arguments[index] = value;
        arguments
    };
    for (call, index) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        let usual = libc::MSG_NOSIGNAL as u32 | libc::MSG_MORE as u32;
        let fast = usual | libc::MSG_FASTOPEN as u32;
        assert_eq!(verdict(USUAL, call, at(index, usual)), ALLOWED);
        assert_eq!(verdict(USUAL, call, at(index, fast)), DENIED_BY);
        assert_eq!(verdict(CLIENT, call, at(index, fast)), ALLOWED);
    }
    let thread =
        libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    assert_eq!(verdict(USUAL, libc::SYS_clone, at(0, thread as u32)), ALLOWED);
    assert_eq!(
        verdict(USUAL, libc::SYS_clone, at(0, libc::SIGCHLD as u32)),
        ALLOWED
    );
    for namespace in [libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWNS] {
        let flags = (namespace | libc::SIGCHLD) as u32;
        assert_eq!(verdict(USUAL, libc::SYS_clone, at(0, flags)), DENIED_BY);
    }
    assert_eq!(
        verdict(USUAL, libc::SYS_ioctl, at(1, libc::TIOCSTI as u32)),
        DENIED_BY
    );
    assert_eq!(verdict(USUAL, libc::SYS_ioctl, at(1, TIOCLINUX)), DENIED_BY);
    assert_eq!(
        verdict(USUAL, libc::SYS_ioctl, at(1, libc::TIOCGWINSZ as u32)),
        ALLOWED
    );
}

/// Runs the check in a thread of its own, because a filter applies to a thread and its children.
fn filtered(needs: Needs, check: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        no_new_privileges().unwrap();
        match restrict(needs) {
            Ok(()) => check(),
            Err(error) => println!("skipped: {error}"),
        }
    });
    thread.join().unwrap();
}

fn is_denied<T>(outcome: io::Result<T>) -> bool {
    outcome.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn the_kernel_denies_what_the_list_names_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = outside.local_addr().unwrap();
    filtered(USUAL, move || {
        assert!(is_denied(UdpSocket::bind("127.0.0.1:0")));
        assert!(is_denied(sys::unshare(true, false)));
        assert!(is_denied(
            crate::strategy::try_uring().map_err(|_| ErrorKind::PermissionDenied.into())
        ));
        let fast_open = rustix::net::SendFlags::from_bits_retain(libc::MSG_FASTOPEN as u32);
        let stream = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        assert!(is_denied(
            rustix::net::sendto(&stream, b"x", fast_open, &address).map_err(io::Error::from)
        ));
        // A server's calls: listen, start threads and programs, pass sockets on.
        TcpListener::bind("[::1]:0")
            .or_else(|_| TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        UnixListener::bind(place.path().join("socket")).unwrap();
        UnixDatagram::pair().unwrap().0.send(b"x").unwrap();
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        assert!(std::process::Command::new("true").status().unwrap().success());
        // A second time, as a successor does: filters add up.
        restrict(USUAL).unwrap();
    });
    filtered(CLIENT, || drop(UdpSocket::bind("127.0.0.1:0").unwrap()));
    if crate::strategy::try_uring().is_ok() {
        filtered(RING, || assert!(crate::strategy::try_uring().is_ok()));
    }
}
