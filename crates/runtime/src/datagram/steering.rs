//! Has the kernel put each datagram into the socket of the worker that it belongs to: a classic BPF program of the sockets
//! that share an address (`SO_ATTACH_REUSEPORT_CBPF`, socket(7), Linux 4.5).
//!
//! ```text
//!   datagram ─▶ program ── a form that it knows ─▶ process + worker × processes ─▶ the socket that joined as this number
//!                  └────── any other ────────────▶ no socket has the number ─────▶ the kernel's hash of the addresses
//! ```
//! The program sees the UDP payload from its first byte, and its result is an index into the group: sockets have theirs by
//! the order in which they were bound, from 0. When a socket is closed for good, the last one takes its index. Copies of a
//! descriptor, in another process as well, are the same socket, so the group stays while one process has it.
//!
//! The program is a shortcut and never decides what happens to a datagram: a worker that receives one of another worker passes
//! it on ([`Endpoint::owner`](super::Endpoint::owner)). So an index that is wrong for a while costs a copy and no datagram:
//! sockets of a server that drains leave the group one by one, and a successor may number its sockets in another way.
//!
//! Knows no protocol: callers say how a datagram names its worker. Which sockets are of one group is not known here, either.

use crate::sys::{self, Instruction};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

/// A kind of datagram that names its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// What tells the kind: offset of a byte, the bits that count, and their value.
    pub marks: Vec<(u8, u8, u8)>,
    /// Offset of a byte with the worker's number.
    pub worker: u8,
    /// Offset of a byte with the number of the worker's process among those that share the address.
    pub process: u8,
}

/// More sockets than a group can have: its index is a 16-bit number in the kernel (`struct sock_reuseport`).
const NOBODY: u32 = u32::MAX;

/// Has the kernel give datagrams of these forms to the socket of their worker: that of worker `w` of process `p` is the one that
/// was bound as number `p + w × processes`, from 0. The first form that fits decides; a datagram of none has a socket by the
/// kernel's hash of the addresses, and so has one that names a socket that does not exist. `socket` is any of the group. A
/// program that the group already had is replaced.
///
/// # Errors
/// `EINVAL` if the socket shares its address with none (see [`bind`](super::bind)), `ENOPROTOOPT` from a kernel without the
/// option, or whatever else the system says; `InvalidInput` for a form with more marks than a program can have. Sockets
/// receive as before then.
pub fn steer(socket: &UdpSocket, forms: &[Form], processes: usize) -> io::Result<()> {
    let program = program(forms, processes).ok_or(io::ErrorKind::InvalidInput)?;
    sys::attach_steering(socket.as_fd(), &program)
}

/// Takes a group's program away, as that of a predecessor: the kernel chooses by its hash of the addresses. Without effect if
/// there is none, or before Linux 5.3, which cannot take it away.
pub fn leave_to_hash(socket: &UdpSocket) {
    // Whoever receives a datagram passes it on, with the program or without.
    let _ = sys::detach_steering(socket.as_fd());
}

/// `None` if it does not fit.
fn program(forms: &[Form], processes: usize) -> Option<Vec<Instruction>> {
    let processes = u32::try_from(processes).ok()?;
    let mut program = Vec::new();
    for form in forms {
        program.extend(of_form(form, processes)?);
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, NOBODY));
    Some(program)
}

/// Ends with the index, if the datagram has this form; otherwise, what follows goes on.
fn of_form(form: &Form, processes: u32) -> Option<Vec<Instruction>> {
    let load = |offset: u8| step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, offset.into());
    let offsets = form.marks.iter().map(|(offset, ..)| *offset);
    let last = offsets.chain([form.worker, form.process]).max()?;
    // A load beyond the end would end the program with 0, which is somebody's socket.
    let mut program = vec![
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0),
        step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, last.into()),
    ];
    for &(offset, mask, value) in &form.marks {
        program.extend([
            load(offset),
            step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask.into()),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value.into()),
        ]);
    }
    program.extend([
        load(form.worker),
        step(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, processes),
        step(libc::BPF_MISC | libc::BPF_TAX, 0),
        load(form.process),
        step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ]);
    let end = program.len();
    for (at, instruction) in program.iter_mut().enumerate() {
        if u32::from(instruction.code) & 0x07 == libc::BPF_JMP {
            instruction.jf = u8::try_from(end - at - 1).ok()?;
        }
    }
    Some(program)
}

fn step(code: u32, k: u32) -> Instruction {
    Instruction {
        // All operation codes are below 256.
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bind;
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::collections::HashSet;
    use std::net::SocketAddr;

    /// `w`, then the worker's and the process's number; or `long`, any byte, the process's and the worker's.
    fn forms() -> Vec<Form> {
        let all = |text: &[u8]| (0_u8..).zip(text).map(|(at, byte)| (at, 0xff, *byte)).collect();
        vec![
            Form {
                marks: all(b"w"),
                worker: 1,
                process: 2,
            },
            Form {
                marks: all(b"long"),
                worker: 6,
                process: 5,
            },
        ]
    }

    fn client() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").expect("a port")
    }

    /// Which of the sockets gets a datagram; it is read.
    fn receiver(client: &UdpSocket, sockets: &[UdpSocket], datagram: &[u8]) -> usize {
        let address = sockets[0].local_addr().expect("an address");
        let to = SocketAddr::from(([127, 0, 0, 1], address.port()));
        client.send_to(datagram, to).expect("it is sent");
        let mut fds: Vec<PollFd<'_>> = sockets
            .iter()
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        let patience = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "one of them has it");
        let at = fds.iter().position(|fd| !fd.revents().is_empty());
        let at = at.expect("one of them has it");
        drop(fds);
        let mut buffer = [0; 64];
        let length = sockets[at].recv(&mut buffer).expect("a datagram");
        assert_eq!(&buffer[..length], datagram);
        at
    }

    /// Clients of which the kernel's hash gives some to each socket.
    fn spread_clients(sockets: &[UdpSocket]) -> Vec<(UdpSocket, usize)> {
        let clients = (0..64).map(|_| client());
        let clients: Vec<_> = clients
            .map(|client| {
                let at = receiver(&client, sockets, b"anything");
                (client, at)
            })
            .collect();
        let reached: HashSet<usize> = clients.iter().map(|(_, at)| *at).collect();
        assert_eq!(reached.len(), sockets.len(), "the hash spreads them");
        clients
    }

    #[test]
    fn a_datagram_reaches_the_socket_that_it_names_and_others_go_by_the_hash() {
        for (place, both_families) in [("127.0.0.1:0", false), ("[::]:0", true)] {
            let Ok(sockets) = bind(place.parse().expect("an address"), 3, both_families) else {
                println!("skipped {place}: no IPv6 on this machine");
                continue;
            };
            let clients = spread_clients(&sockets);
            for processes in [1, 2] {
                // The option is of the group, whichever socket it is set of.
                steer(&sockets[processes], &forms(), processes).expect("a program");
                for (client, by_hash) in &clients {
                    for (worker, process) in
                        [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (3, 0), (0, 9), (255, 255)]
                    {
                        let named = usize::from(process) + usize::from(worker) * processes;
                        let wanted = if named < 3 { named } else { *by_hash };
                        for datagram in [
                            &[b'w', worker, process][..],
                            &[b'l', b'o', b'n', b'g', 7, process, worker],
                        ] {
                            let got = receiver(client, &sockets, datagram);
                            assert_eq!(got, wanted, "{place} {processes} {datagram:?}");
                        }
                    }
                    // Too short, or of no form.
                    for datagram in [
                        &b"w"[..],
                        b"w\x01",
                        b"l",
                        b"long",
                        b"long\x07\x01",
                        b"lone\x07\0\0",
                        b"x\0\0\0",
                    ] {
                        assert_eq!(receiver(client, &sockets, datagram), *by_hash, "{datagram:?}");
                    }
                }
            }
            leave_to_hash(&sockets[0]);
            leave_to_hash(&sockets[0]);
            for (client, by_hash) in &clients {
                assert_eq!(receiver(client, &sockets, b"w\x01\0"), *by_hash);
            }
        }
    }

    #[test]
    fn the_last_socket_takes_the_index_of_one_that_is_closed() {
        let mut sockets = bind("127.0.0.1:0".parse().expect("an address"), 4, false).expect("a port");
        steer(&sockets[0], &forms(), 1).expect("a program");
        let client = client();
        let named = |sockets: &[UdpSocket], worker: u8| receiver(&client, sockets, &[b'w', worker, 0]);
        // A copy keeps it in the group.
        let copy = sockets[1].try_clone().expect("a descriptor");
        drop(std::mem::replace(&mut sockets[1], copy));
        assert_eq!([0, 1, 2, 3].map(|worker| named(&sockets, worker)), [0, 1, 2, 3]);
        // Those that are left were 0, 2 and 3.
        sockets.remove(1);
        assert_eq!([0, 1, 2].map(|worker| named(&sockets, worker)), [0, 2, 1]);
    }

    #[test]
    fn a_socket_of_its_own_has_no_group_and_programs_are_bounded() {
        let alone = client();
        let refused = steer(&alone, &forms(), 1).expect_err("it shares nothing");
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
        leave_to_hash(&alone);
        assert_eq!(receiver(&client(), &[alone], b"w\x01\0"), 0);
        let marks = (0..=u8::MAX).map(|at| (at, 0xff, at)).collect();
        let long = Form {
            marks,
            worker: 1,
            process: 2,
        };
        let refused = steer(&client(), &[long], 1).expect_err("a jump is too long");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
