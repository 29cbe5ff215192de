//! Congestion windows of one server's connections, read from the kernel while other programs use them.
//!
//! Document 000 (section 3, Table 3) had Linux 2.0.30 modified for this. Today, any kernel reports it to any process
//! that asks for the connections of its own network namespace: sock_diag(7), `linux/inet_diag.h`. Decides which
//! connections count; changes none of them.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::SOCK_DIAG, recv, send, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;
use units::Duration;

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x301;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The attribute that holds `struct tcp_info`, and the offset of `tcpi_snd_cwnd` in it.
const INFO: u16 = 2;
const CWND_AT: usize = 80;
/// Layout of a message: `nlmsghdr`, then `inet_diag_msg`, whose local port follows family, state and two timers.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
const PORT_AT: usize = HEADER + 4;
/// States in which data may still be sent: ESTABLISHED, FIN-WAIT-1, CLOSE-WAIT, LAST-ACK, CLOSING (`net/tcp_states.h`).
/// A listening socket has no window, and neither has one in TIME-WAIT.
const ACTIVE: u32 = 1 << 1 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
/// Twice the size of the kernel's answers.
const ANSWER: usize = 64 << 10;

/// Reads the connections of a local port at this interval for this long, at least once, and passes each window to
/// `each`, in segments. Returns the number of readings.
///
/// # Errors
/// If the kernel has no `inet_diag`, or does not answer.
pub fn watch(port: u16, every: Duration, length: Duration, each: &mut dyn FnMut(u32)) -> io::Result<u64> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    let began = std::time::Instant::now();
    let mut looks = 0;
    loop {
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            look(&socket, family, port, each)?;
        }
        looks += 1;
        // A late reading does not delay later ones.
        let next = every.saturating_mul(looks.try_into().unwrap_or(u32::MAX));
        if next >= length || began.elapsed() >= length {
            return Ok(looks);
        }
        std::thread::sleep(next.saturating_sub(began.elapsed()));
    }
}

/// One dump of one family.
fn look(socket: &OwnedFd, family: AddressFamily, port: u16, each: &mut dyn FnMut(u32)) -> io::Result<()> {
    send(socket, &request(family, port), SendFlags::empty())?;
    let mut answer = vec![0_u8; ANSWER];
    loop {
        let (count, _) = recv(socket, &mut answer, RecvFlags::empty())?;
        if read(&answer[..count], port, each)? {
            return Ok(());
        }
    }
}

/// `nlmsghdr` and `inet_diag_req_v2`: connections of TCP with this local port, with their `tcp_info`.
fn request(family: AddressFamily, port: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(72);
    bytes.extend(72_u32.to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    // Of the extensions, number n is bit n - 1.
    bytes.extend([family.as_raw() as u8, 6, 1 << (INFO - 1), 0]);
    bytes.extend(ACTIVE.to_ne_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.resize(72, 0);
    bytes
}

/// Parses the messages of one answer; returns whether it was the last.
fn read(mut answer: &[u8], port: u16, each: &mut dyn FnMut(u32)) -> io::Result<bool> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer was truncated");
    while answer.len() >= HEADER {
        let length = word(answer, 0).ok_or_else(damaged)? as usize;
        let kind = half(answer, 4).ok_or_else(damaged)?;
        let message = answer
            .get(..length)
            .filter(|_| length >= HEADER)
            .ok_or_else(damaged)?;
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let code = word(message, HEADER).ok_or_else(damaged)? as i32;
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            BY_FAMILY => {
                let local = message.get(PORT_AT..PORT_AT + 2).ok_or_else(damaged)?;
                if local == port.to_be_bytes()
                    && let Some(window) = window(message.get(HEADER + MESSAGE..).unwrap_or_default())
                {
                    each(window);
                }
            }
            _ => {}
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The window in the attributes of a connection.
fn window(mut attributes: &[u8]) -> Option<u32> {
    loop {
        let length = half(attributes, 0)? as usize;
        if half(attributes, 2)? == INFO {
            return word(attributes.get(..length)?, 4 + CWND_AT);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_that_was_just_made_begins_with_the_windows_of_its_system() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let clients: Vec<TcpStream> = (0..3)
            .map(|_| TcpStream::connect(address).expect("a client"))
            .collect();
        let servers: Vec<TcpStream> = (0..3).map(|_| listener.accept().expect("a peer").0).collect();
        let mut seen = Vec::new();
        let once = Duration::from_nanos(1);
        match watch(address.port(), once, once, &mut |window| seen.push(window)) {
            // Only a system without the feature returns an errno.
            Err(why) if why.raw_os_error().is_some() => eprintln!("skipped: {why}"),
            looks => {
                assert_eq!(looks.expect("a look"), 1);
                // The server's end of each, not the client's, which has another local port.
                assert_eq!(seen.len(), servers.len(), "{seen:?}");
                assert!(seen.iter().all(|window| (1..=1000).contains(window)), "{seen:?}");
            }
        }
        drop(clients);
    }

    #[test]
    fn an_answer_that_is_cut_short_is_an_error_and_no_window() {
        let mut message = vec![0_u8; HEADER + MESSAGE + 4 + CWND_AT + 4];
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        message[PORT_AT..PORT_AT + 2].copy_from_slice(&80_u16.to_be_bytes());
        let info = HEADER + MESSAGE;
        message[info..info + 2].copy_from_slice(&(4 + CWND_AT as u16 + 4).to_ne_bytes());
        message[info + 2..info + 4].copy_from_slice(&INFO.to_ne_bytes());
        let end = message.len();
        message[end - 4..].copy_from_slice(&10_u32.to_ne_bytes());
        let windows = |bytes: &[u8], port: u16| {
            let mut found = Vec::new();
            read(bytes, port, &mut |window| found.push(window)).map(|is_last| (found, is_last))
        };
        assert_eq!(windows(&message, 80).expect("whole"), (vec![10], false));
        assert_eq!(windows(&message, 81).expect("another's"), (vec![], false));
        for cut in HEADER..end {
            assert!(windows(&message[..cut], 80).is_err(), "{cut}");
        }
        // Every length that a damaged message could claim ends in an error or an answer.
        for length in 0..=u8::MAX {
            let mut damaged = message.clone();
            damaged[info] = length;
            let _ = windows(&damaged, 80);
            damaged[0] = length;
            let _ = windows(&damaged, 80);
        }
    }
}
