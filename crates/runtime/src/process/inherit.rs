//! Upgrade without downtime: the running process starts its successor and hands its listening sockets over. It ends
//! only when the successor reports that it serves.
//!
//! ```text
//!   old                                                new
//!    │ socketpair; spawn with one end as its stdin      │
//!    ├── socket ADDRESS + descriptors (SCM_RIGHTS) ────▶│ adopts them, starts its workers
//!    ├── datagram ADDRESS + descriptors, if there are ▶ │
//!    ├── confined WORDS, if it is ────────────────────▶ │
//!    ├── filtered WORDS, if it is ────────────────────▶ │
//!    ├── end + a pipe with its secret, if it has one ─▶ │
//!    │     + a pipe with a list of channels, and these  │
//!    │◀─────────────────────────── ready | failed WHY ──┤
//!    │◀────── standby ADDRESSES (UDP that it serves) ───┤
//!    │ drains, and keeps the sockets                    │ serves
//!    │◀──────────────────────────────────── released ───┤ is told to stop, or starts a successor
//!    ├── closes the sockets, then the channel ─────────▶│ goes on
//! ```
//! While the new program serves, the old one keeps the sockets, in case the new one crashes. It must not touch them once a
//! third process may have them, so the new program says so in time. An older program says nothing after `ready`, and the
//! old one keeps nothing then.
//!
//! The sockets themselves are handed over, each with its queue and unfinished handshakes, so no connection is lost with
//! `SO_REUSEPORT` either. They travel over a socketpair and not as inherited numbers (`LISTEN_FDS`), for three reasons.
//! Every descriptor stays close-on-exec, so a different program gets none. No code has to run between fork and exec,
//! where hardly anything is allowed. And the same channel carries the answer, and shows when the peer dies. The channel
//! is the new process's standard input. It trusts the channel only if the kernel confirms that the process named in its
//! environment made it (`SO_PEERCRED`): a variable that leaks to a grandchild has no effect.
//!
//! A secret travels in a pipe. A program quotes a message that it does not know in its error, but ignores descriptors
//! that come with `end`, so an older one never shows the secret. Channels for datagrams of connections that stay in
//! earlier processes come the same way, so that an older program starts without them.
//!
//! Decides how sockets travel and when the new process counts as started. What is served, and when to upgrade, is not
//! known here.

use crate::listen::{Address, Origin, Sockets};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::ffi::OsString;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use zeroize::Zeroize as _;

/// The variable that names a process's predecessor.
const VARIABLE: &str = "WEIR_UPGRADE_FROM";
/// Descriptors per message; the kernel accepts 253.
const DESCRIPTORS_MAX: usize = 64;
/// Bytes of one message: an address or a sentence.
const MESSAGE_MAX: usize = 4096;
/// Bytes of a list of channels.
const LIST_MAX: usize = 2 * MESSAGE_MAX;
/// Begins a line of such a list that names no channel.
const PASSED: &str = "passed ";
/// How long each side waits for the other during the handover.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a successor waits for its predecessor to close the sockets.
const RELEASED_WITHIN: Duration = Duration::from_secs(1);
/// What a successor says after `ready`, before its UDP addresses.
const STANDBY: &str = "standby";
/// How often a process that has closed its channel without ending is checked before it is given up.
const SILENT_LOOKS_MAX: u32 = 100;
/// A service manager's messages to the predecessor, which are not meant for this process.
const NOT_INHERITED: [&str; 4] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID"];

/// The program of this process as it was started, to be resolved again for the next start.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// Must be called at start, while the file is still the running one.
    pub fn of_this_process() -> Program {
        let mut arguments = std::env::args_os();
        let typed = arguments.next().map(PathBuf::from).unwrap_or_default();
        let running = std::env::current_exe().unwrap_or_else(|_| typed.clone());
        let folders = std::env::var_os("PATH").unwrap_or_default();
        Program {
            path: as_started(&typed, &running, std::env::split_paths(&folders)),
            arguments: arguments.collect(),
        }
    }

    /// The path from which the next process will be started.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The path that was typed, made absolute with its links unresolved, if it names the running file; otherwise the path
/// of that file.
fn as_started(typed: &Path, running: &Path, mut folders: impl Iterator<Item = PathBuf>) -> PathBuf {
    let is_it = |path: &Path| {
        let identity = |path: &Path| path.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
        identity(path).is_some_and(|found| Some(found) == identity(running))
    };
    let found = if typed.components().count() > 1 || typed.is_absolute() {
        std::path::absolute(typed).ok().filter(|path| is_it(path))
    } else {
        folders.find_map(|folder| Some(folder.join(typed)).filter(|path| is_it(path)))
    };
    found.unwrap_or_else(|| running.to_owned())
}

/// Why there is no successor.
#[derive(Debug)]
pub enum UpgradeError {
    /// The first process of a container or machine: when it ends, all others are killed.
    FirstProcess,
    /// The program could not be started.
    Start(PathBuf, io::Error),
    /// It was started, but the handover of the sockets failed.
    HandOver(io::Error),
}

impl std::fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            UpgradeError::FirstProcess => f.write_str(
                "this is process 1, and its container ends with it; replace the container instead",
            ),
            UpgradeError::Start(path, error) => {
                write!(
                    f,
                    "cannot start `{}`: {error}; is the new program in its place?",
                    path.display()
                )
            }
            UpgradeError::HandOver(error) => write!(f, "cannot hand the sockets to the new program: {error}"),
        }
    }
}

impl std::error::Error for UpgradeError {}

/// The process that is to succeed this one. Dropping it before it is ready kills it.
#[derive(Debug)]
pub struct Successor {
    child: Child,
    channel: OwnedFd,
    is_ready: bool,
    /// Checks since it closed the channel.
    silent_looks: u32,
    /// Whether others than the two programs may have the sockets.
    is_released: bool,
}

/// The state of a successor that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs, and only the two programs have the sockets.
    Alone,
    /// It runs, or has ended in order. Another process may have the sockets.
    Released,
    /// It has crashed. If the flag is set, nobody else has the sockets.
    Crashed(ExitStatus, bool),
}

/// The state of a successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No message yet.
    Starting,
    /// It serves.
    Ready,
    /// It will not serve; why.
    Failed(String),
}

impl Successor {
    /// Starts the program with these sockets. `bounds` are this process's, which the new one inherits; `secret` is for the
    /// new one alone.
    ///
    /// # Errors
    /// Why it was not started or did not take the sockets; it is killed then.
    pub fn start(
        program: &Program,
        sockets: &[Sockets],
        datagrams: &[Datagrams],
        forwarding: &Forwarding,
        bounds: &Bounds,
        secret: &Secret,
    ) -> Result<Successor, UpgradeError> {
        if std::process::id() == 1 {
            return Err(UpgradeError::FirstProcess);
        }
        let start = |error: io::Error| UpgradeError::Start(program.path.clone(), error);
        let (channel, theirs) = pair().map_err(start)?;
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .env(VARIABLE, std::process::id().to_string());
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        let child = command.stdin(Stdio::from(theirs)).spawn().map_err(start)?;
        // The command still holds the other end of the channel, which must close when the new process ends.
        drop(command);
        let successor = Successor {
            child,
            channel,
            is_ready: false,
            silent_looks: 0,
            is_released: false,
        };
        match successor.hand_over(sockets, datagrams, forwarding, bounds, secret) {
            // It has already ended, and its exit status says more.
            Err(error) if is_end(&error) => Ok(successor),
            Err(error) => Err(UpgradeError::HandOver(error)),
            Ok(()) => Ok(successor),
        }
    }

    fn hand_over(
        &self,
        sockets: &[Sockets],
        datagrams: &[Datagrams],
        forwarding: &Forwarding,
        bounds: &Bounds,
        secret: &Secret,
    ) -> io::Result<()> {
        for of_one in sockets {
            let line = match of_one.origin() {
                Origin::Bound(address) | Origin::Surplus(address) => format!("socket {address}"),
                Origin::Passed => "passed".to_owned(),
            };
            // One that is reserved and was never used does not listen, and is no socket for others.
            let mut living = of_one.living();
            living.retain(|fd| sockopt::socket_acceptconn(fd).unwrap_or(false));
            for some in living.chunks(DESCRIPTORS_MAX) {
                let fds: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
                send(&self.channel, &line, &fds)?;
            }
        }
        for (address, of_one) in datagrams {
            for some in of_one.chunks(DESCRIPTORS_MAX) {
                let fds: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
                send(&self.channel, &format!("datagram {address}"), &fds)?;
            }
        }
        for (kind, words) in [("confined", &bounds.confined), ("filtered", &bounds.filtered)] {
            if let Some(words) = words {
                send(&self.channel, &format!("{kind} {words}"), &[])?;
            }
        }
        if secret.0.is_empty() && forwarding.channels.is_empty() && forwarding.passed.is_empty() {
            return send(&self.channel, "end", &[]);
        }
        let (pipe, (list, channels)) = (secret.pipe()?, forwarding.list()?);
        let mut fds = vec![pipe.as_fd(), list.as_fd()];
        fds.extend(channels.iter().map(|channel| channel.2.as_fd()));
        send(&self.channel, "end", &fds)
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets go of it without killing it: for a fork of this process, which does not own the successor.
    pub fn leave(mut self) {
        self.is_ready = true;
    }

    /// Right after it is [`Progress::Ready`]: the UDP addresses at which it serves, if it says when others have the sockets;
    /// `None` for an older program.
    pub fn standby(&mut self) -> Option<Vec<SocketAddr>> {
        // It follows at once, or the channel is closed.
        let said = receive(&self.channel, RecvFlags::empty()).ok().flatten();
        let addresses = said.as_ref().and_then(|(line, _)| line.strip_prefix(STANDBY));
        let addresses = addresses.map(|list| list.split_whitespace().filter_map(|one| one.parse().ok()));
        self.is_released = addresses.is_none();
        addresses.map(Iterator::collect)
    }

    /// What has become of it since it was ready. Does not block.
    pub fn standing(&mut self) -> Standing {
        // In this order: what it wrote before its end is read.
        let ended = self.child.try_wait().ok().flatten();
        if !self.is_released {
            let said = receive(&self.channel, RecvFlags::DONTWAIT);
            self.is_released = matches!(said, Ok(Some(_)));
        }
        match ended {
            Some(status) if !status.success() => Standing::Crashed(status, !self.is_released),
            Some(_) => Standing::Released,
            None if self.is_released => Standing::Released,
            None => Standing::Alone,
        }
    }

    /// Tells it that this process has closed the sockets that it released.
    pub fn have_closed(&self) {
        // It may have ended.
        let _ = rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Both);
    }

    /// Its state, without blocking.
    pub fn look(&mut self) -> Progress {
        let flags = RecvFlags::DONTWAIT;
        match receive(&self.channel, flags) {
            Ok(Some((line, _))) => match line.split_once(' ') {
                None if line == "ready" => {
                    self.is_ready = true;
                    Progress::Ready
                }
                Some(("failed", why)) => Progress::Failed(why.to_owned()),
                _ => Progress::Failed(format!("it is not Weir: it wrote `{line}`")),
            },
            Ok(None) => self.look_at_the_silent(),
            Err(error) if is_end(&error) => self.look_at_the_silent(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Progress::Starting,
            Err(error) => Progress::Failed(format!("cannot read its answer: {error}")),
        }
    }
}

impl Successor {
    /// It has closed the channel: it has ended, is about to, or is another program.
    fn look_at_the_silent(&mut self) -> Progress {
        self.silent_looks += 1;
        match self.child.try_wait() {
            Ok(Some(status)) => {
                Progress::Failed(format!("it ended ({status}) before it served; see its output"))
            }
            Ok(None) if self.silent_looks < SILENT_LOOKS_MAX => Progress::Starting,
            _ => Progress::Failed("it is not Weir: it closed its standard input".to_owned()),
        }
    }
}

/// Whether the peer is gone, before or after the message was sent.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.is_ready {
            // It may have ended already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The predecessor, which waits for this process to serve.
#[derive(Debug)]
pub struct Predecessor {
    channel: OwnedFd,
}

/// Restrictions the kernel enforces on a process and its successors, as text. They can be narrowed and never widened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The files and ports it can access, if it is confined ([`crate::process::privilege::confine`]).
    pub confined: Option<String>,
    /// The system calls it cannot make, if there is a filter ([`crate::seccomp::restrict`]).
    pub filtered: Option<String>,
}

/// Bytes for the successor alone, at most 4,096. Debug output does not show them, and they are overwritten at the end.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

impl Secret {
    /// A pipe from which the bytes can be read once. They fit into its buffer, so that writing does not wait.
    fn pipe(&self) -> io::Result<io::PipeReader> {
        if self.0.len() > MESSAGE_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        let (reader, mut writer) = io::pipe()?;
        writer.write_all(&self.0)?;
        Ok(reader)
    }

    /// What was written into a pipe.
    fn read(pipe: OwnedFd) -> io::Result<Secret> {
        let mut bytes = Vec::new();
        io::PipeReader::from(pipe)
            .take(MESSAGE_MAX as u64)
            .read_to_end(&mut bytes)?;
        Ok(Secret(bytes))
    }
}

/// UDP sockets of one address.
pub type Datagrams = (SocketAddr, Vec<OwnedFd>);

/// A channel for datagrams that arrive at this address for the program whose last process has this number.
pub type Channel = (SocketAddr, u16, OwnedFd);

/// How datagrams reach connections of earlier processes that go on over the UDP sockets handed over.
#[derive(Debug, Default)]
pub struct Forwarding {
    /// The number of the successor's first process, which its connections name.
    pub process: u16,
    /// Channels to earlier programs. Of more than [`Forwarding::CHANNELS_MAX`], the first are left out.
    pub channels: Vec<Channel>,
    /// The addresses whose UDP sockets a service manager passed to the first of the programs, so that other programs may have
    /// more there. An older program names none.
    pub passed: Vec<SocketAddr>,
}

impl Forwarding {
    /// Channels that fit beside two pipes into one message.
    pub const CHANNELS_MAX: usize = DESCRIPTORS_MAX - 2;

    /// A pipe with the successor's number, a line for each channel and one for each passed address, and these channels. An
    /// older program reads as many lines as there are channels.
    fn list(&self) -> io::Result<(io::PipeReader, &[Channel])> {
        let surplus = self.channels.len().saturating_sub(Forwarding::CHANNELS_MAX);
        let channels = self.channels.get(surplus..).unwrap_or_default();
        let mut text = format!("{}\n", self.process);
        for (address, process, _) in channels {
            text += &format!("{address} {process}\n");
        }
        for address in &self.passed {
            let line = format!("{PASSED}{address}\n");
            if text.len() + line.len() <= LIST_MAX {
                text += &line;
            }
        }
        let (reader, mut writer) = io::pipe()?;
        // Some 70 bytes a line: it fits into the pipe's buffer.
        writer.write_all(text.as_bytes())?;
        Ok((reader, channels))
    }

    /// What was written into a pipe, with the descriptors that came with it.
    fn read(pipe: OwnedFd, fds: impl Iterator<Item = OwnedFd>) -> io::Result<Forwarding> {
        let mut text = String::new();
        let odd = || io::Error::new(ErrorKind::InvalidData, "its list of channels is no list");
        io::PipeReader::from(pipe)
            .take(LIST_MAX as u64)
            .read_to_string(&mut text)?;
        let mut lines = text.lines();
        let process = lines.next().and_then(|line| line.parse().ok()).ok_or_else(odd)?;
        let channel = |(line, fd): (&str, OwnedFd)| {
            let (address, process) = line.split_once(' ')?;
            Some((address.parse().ok()?, process.parse().ok()?, fd))
        };
        // In this order: a line without a descriptor is one of those that follow.
        let channels = fds.zip(&mut lines);
        let channels = channels.map(|(fd, line)| channel((line, fd)).ok_or_else(odd));
        let channels = channels.collect::<io::Result<_>>()?;
        let passed = lines.filter_map(|line| line.strip_prefix(PASSED)?.parse().ok());
        Ok(Forwarding {
            process,
            channels,
            passed: passed.collect(),
        })
    }
}

/// State that a predecessor leaves.
#[derive(Debug, Default)]
pub struct Legacy {
    /// Sockets by address. No address for those of a service manager.
    pub sockets: Vec<(Option<Address>, Vec<OwnedFd>)>,
    /// UDP sockets, which the predecessor reads until it drains.
    pub datagrams: Vec<Datagrams>,
    /// Where datagrams of earlier processes' connections go. An older program leaves none.
    pub forwarding: Forwarding,
    /// Restrictions inherited from the predecessor.
    pub bounds: Bounds,
    /// The predecessor's secret; empty if it has none, or is an older program.
    pub secret: Secret,
}

/// The predecessor, which keeps the sockets in case this process dies.
#[derive(Debug)]
pub struct Standby {
    channel: OwnedFd,
}

impl Standby {
    /// Has the predecessor close the sockets, because a third process gets them or they are to be closed, and waits a second
    /// for that at most. It may already have ended.
    pub fn release(self) {
        let limit = Some(RELEASED_WITHIN);
        let is_limited = sockopt::set_socket_timeout(&self.channel, Timeout::Recv, limit).is_ok();
        if send(&self.channel, "released", &[]).is_ok() && is_limited {
            // Nothing is written: it closes its end.
            let _ = receive(&self.channel, RecvFlags::empty());
        }
    }
}

impl Predecessor {
    /// The process that started this one as its successor, if there is one, and the state it leaves. Call this first of
    /// all: until then standard input is the channel, and afterwards it is empty.
    ///
    /// # Errors
    /// If there is a predecessor but it does not send its state.
    pub fn find() -> io::Result<Option<(Predecessor, Legacy)>> {
        let named = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        let Some(pid) = named else { return Ok(None) };
        let stdin = rustix::stdio::stdin();
        let made_by = sockopt::socket_peercred(stdin).map(|peer| peer.pid.as_raw_nonzero().get());
        if made_by != Ok(pid) {
            return Ok(None);
        }
        let channel = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
        let nothing = std::fs::File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        let legacy = legacy(&channel)?;
        Ok(Some((Predecessor { channel }, legacy)))
    }

    /// Reports that this process serves, over UDP at these addresses, and the predecessor may end. It may already have ended.
    /// The result must be [released](Standby::release) before anybody else gets the sockets, and before they are closed
    /// for good.
    pub fn ready(self, over_udp: &[SocketAddr]) -> Standby {
        let mut line = STANDBY.to_owned();
        for address in over_udp {
            // The predecessor closes the channels of those that do not fit.
            let word = format!(" {address}");
            if line.len() + word.len() <= MESSAGE_MAX {
                line += &word;
            }
        }
        let _ = send(&self.channel, "ready", &[]).and_then(|()| send(&self.channel, &line, &[]));
        Standby {
            channel: self.channel,
        }
    }

    /// Reports that this process gives up, and why; the predecessor continues.
    pub fn failed(self, why: &str) {
        let mut line = format!("failed {why}");
        let end = line.floor_char_boundary(MESSAGE_MAX);
        line.truncate(end);
        let _ = send(&self.channel, &line, &[]);
    }
}

fn legacy(channel: &OwnedFd) -> io::Result<Legacy> {
    let mut legacy = Legacy::default();
    loop {
        let Some((line, fds)) = receive(channel, RecvFlags::empty())? else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        let odd = || io::Error::new(ErrorKind::InvalidData, format!("it said `{line}`"));
        match line.split_once(' ') {
            None if line == "end" => {
                let mut fds = fds.into_iter();
                if let Some(pipe) = fds.next() {
                    legacy.secret = Secret::read(pipe)?;
                }
                if let Some(list) = fds.next() {
                    legacy.forwarding = Forwarding::read(list, fds)?;
                }
                return Ok(legacy);
            }
            None if line == "passed" => legacy.sockets.push((None, fds)),
            Some(("socket", address)) => {
                let address = Some(address.parse().map_err(|_| odd())?);
                // Port 0 may have been requested twice: these are two addresses, which stay separate.
                let place = |fds: &[OwnedFd]| Address::of(&rustix::net::getsockname(fds.first()?).ok()?);
                let same = |of_one: &&mut (_, Vec<_>)| of_one.0 == address && place(&of_one.1) == place(&fds);
                match legacy.sockets.iter_mut().find(same) {
                    Some((_, more)) => more.extend(fds),
                    None => legacy.sockets.push((address, fds)),
                }
            }
            Some(("datagram", address)) => {
                let address = address.parse().map_err(|_| odd())?;
                match legacy.datagrams.iter_mut().find(|(known, _)| *known == address) {
                    Some((_, more)) => more.extend(fds),
                    None => legacy.datagrams.push((address, fds)),
                }
            }
            Some(("confined", words)) => legacy.bounds.confined = Some(words.to_owned()),
            Some(("filtered", words)) => legacy.bounds.filtered = Some(words.to_owned()),
            _ => return Err(odd()),
        }
    }
}

/// A channel that preserves message boundaries and has a timeout for a stuck peer.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    for end in [&one, &other] {
        sockopt::set_socket_timeout(end, Timeout::Send, Some(PATIENCE))?;
        sockopt::set_socket_timeout(end, Timeout::Recv, Some(PATIENCE))?;
    }
    Ok((one, other))
}

fn send(channel: &OwnedFd, line: &str, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        debug_assert!(fits, "no more than DESCRIPTORS_MAX");
    }
    loop {
        match sendmsg(
            channel,
            &[IoSlice::new(line.as_bytes())],
            &mut control,
            SendFlags::NOSIGNAL,
        ) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// A message and its descriptors; `None` when the peer has closed.
fn receive(channel: &OwnedFd, flags: RecvFlags) -> io::Result<Option<(String, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MESSAGE_MAX];
    let message = loop {
        match recvmsg(
            channel,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            flags | RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            fds.extend(some);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "descriptors were lost during the handover; is the limit (ulimit -n) reached?",
        ));
    }
    if message.bytes == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes[..message.bytes]).into_owned();
    Ok(Some((text, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::{Listener, Listening};

    #[test]
    fn sockets_arrive_with_their_addresses() {
        let bind = |address: &str| Listener::bind(address.parse().unwrap(), Listening::default()).unwrap();
        let (one, two, three) = (bind("127.0.0.1:0"), bind("127.0.0.2:0"), bind("127.0.0.1:0"));
        let dir = tempfile::tempdir().unwrap();
        let path = format!("unix:{}", dir.path().join("a socket").display());
        let four = bind(&path);
        let _used = one.shards(DESCRIPTORS_MAX + 3).unwrap();
        // It does not listen yet.
        two.reserve(2).unwrap();
        let (ours, theirs) = pair().unwrap();
        let successor = Successor {
            child: Command::new("true").spawn().unwrap(),
            channel: ours,
            is_ready: false,
            silent_looks: 0,
            is_released: false,
        };
        let bounds = Bounds {
            confined: Some("to little".to_owned()),
            filtered: Some("of much".to_owned()),
        };
        let secret = Secret(b"for you alone".to_vec());
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let place = datagrams.local_addr().unwrap();
        let sockets = [one.sockets(), two.sockets(), three.sockets(), four.sockets()];
        let surplus = 3;
        let channel = |number| {
            let (reader, _) = io::pipe().unwrap();
            (place, number, OwnedFd::from(reader))
        };
        let numbers = 0..u16::try_from(Forwarding::CHANNELS_MAX).unwrap() + surplus;
        let forwarding = Forwarding {
            process: 513,
            channels: numbers.clone().map(channel).collect(),
            passed: vec![place, "[2001:db8::1]:443".parse().unwrap()],
        };
        successor
            .hand_over(
                &sockets,
                &[(place, vec![datagrams.into()])],
                &forwarding,
                &bounds,
                &secret,
            )
            .unwrap();
        let legacy = legacy(&theirs).unwrap();
        // The latest channels, each with its label.
        assert_eq!(legacy.forwarding.process, 513);
        let labels = legacy.forwarding.channels.iter();
        let labels: Vec<_> = labels.map(|(address, number, _)| (*address, *number)).collect();
        let newest: Vec<_> = numbers
            .skip(surplus.into())
            .map(|number| (place, number))
            .collect();
        assert_eq!(labels, newest);
        assert_eq!(legacy.forwarding.passed, forwarding.passed);
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        for (got, sent) in legacy.forwarding.channels.iter().zip(&forwarding.channels[3..]) {
            assert_eq!(inode(&got.2), inode(&sent.2));
        }
        let adopted = legacy.datagrams.iter().map(|(address, fds)| {
            let socket = std::net::UdpSocket::from(fds[0].try_clone().unwrap());
            (*address, fds.len(), socket.local_addr().unwrap())
        });
        assert_eq!(adopted.collect::<Vec<_>>(), [(place, 1, place)]);
        let counts: Vec<_> = legacy
            .sockets
            .iter()
            .map(|(address, fds)| (address.as_ref().unwrap().to_string(), fds.len()))
            .collect();
        assert_eq!(
            counts,
            [
                ("127.0.0.1:0".to_owned(), DESCRIPTORS_MAX + 3),
                ("127.0.0.2:0".to_owned(), 1),
                ("127.0.0.1:0".to_owned(), 1),
                (path, 1),
            ]
        );
        assert_eq!(legacy.bounds, bounds);
        assert_eq!(legacy.secret, secret);
        assert_eq!(format!("{secret:?}"), "Secret(13 bytes)");
        let (asked, fds) = legacy.sockets.into_iter().next().unwrap();
        let adopted = Listener::adopt(Origin::Bound(asked.unwrap()), fds, Listening::default()).unwrap();
        assert_eq!(adopted.address(), one.address());
    }

    #[test]
    fn a_successor_is_ready_or_says_why_not() {
        let look = |said: Option<&str>| {
            let (ours, theirs) = pair().unwrap();
            let mut successor = Successor {
                child: Command::new("true").spawn().unwrap(),
                channel: ours,
                is_ready: false,
                silent_looks: 0,
                is_released: false,
            };
            assert_eq!(successor.look(), Progress::Starting);
            let predecessor = Predecessor { channel: theirs };
            match said {
                Some("ready") => drop(predecessor.ready(&[])),
                Some(why) => predecessor.failed(why),
                None => {
                    successor.child.wait().unwrap();
                    drop(predecessor);
                }
            }
            successor.look()
        };
        assert_eq!(look(Some("ready")), Progress::Ready);
        assert_eq!(
            look(Some("no such root")),
            Progress::Failed("no such root".to_owned())
        );
        let Progress::Failed(why) = look(None) else {
            panic!("it ended")
        };
        assert!(why.contains("exit status: 0"), "{why}");
        let long = "ö".repeat(MESSAGE_MAX);
        let Progress::Failed(why) = look(Some(&long)) else {
            panic!("it failed")
        };
        assert!(long.starts_with(&why));
    }

    /// A successor that runs `command`, and its end of the channel, which says that it is ready.
    fn ready(command: &str) -> (Successor, Predecessor) {
        let (ours, theirs) = pair().unwrap();
        let successor = Successor {
            child: Command::new("sh")
                .args(["-c", command])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap(),
            channel: ours,
            is_ready: false,
            silent_looks: 0,
            is_released: false,
        };
        (successor, Predecessor { channel: theirs })
    }

    #[test]
    fn a_successor_says_when_others_have_the_sockets() {
        let places: [SocketAddr; 2] = ["127.0.0.1:443".parse().unwrap(), "[::1]:443".parse().unwrap()];
        // It ends when its standard input does.
        let (mut successor, predecessor) = ready("cat; exit 3");
        let standby = predecessor.ready(&places);
        assert_eq!(successor.look(), Progress::Ready);
        assert_eq!(successor.standby(), Some(places.to_vec()));
        assert_eq!(successor.standing(), Standing::Alone);
        let released = std::thread::spawn(|| standby.release());
        while successor.standing() == Standing::Alone {
            std::thread::yield_now();
        }
        assert_eq!(successor.standing(), Standing::Released);
        drop(successor.child.stdin.take());
        let status = successor.child.wait().unwrap();
        assert_eq!(successor.standing(), Standing::Crashed(status, false));
        successor.have_closed();
        released.join().unwrap();
    }

    #[test]
    fn a_crash_leaves_the_sockets_to_the_predecessor_unless_the_successor_is_older() {
        for is_older in [false, true] {
            let (mut successor, predecessor) = ready("exit 3");
            match is_older {
                false => drop(predecessor.ready(&[])),
                true => {
                    send(&predecessor.channel, "ready", &[]).unwrap();
                    drop(predecessor);
                }
            }
            assert_eq!(successor.look(), Progress::Ready);
            assert_eq!(successor.standby().is_none(), is_older);
            let status = successor.child.wait().unwrap();
            assert_eq!(successor.standing(), Standing::Crashed(status, !is_older));
        }
        let (mut successor, predecessor) = ready("exit 0");
        drop(predecessor.ready(&[]));
        assert_eq!(successor.look(), Progress::Ready);
        assert_eq!(successor.standby(), Some(Vec::new()));
        successor.child.wait().unwrap();
        assert_eq!(successor.standing(), Standing::Released, "it has ended in order");
    }

    #[test]
    fn the_path_that_was_typed_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("weir-1"), "one").unwrap();
        std::os::unix::fs::symlink("weir-1", at("weir")).unwrap();
        let folders = || [at("nowhere"), dir.path().to_owned()].into_iter();
        let running = at("weir-1");
        assert_eq!(as_started(&at("weir"), &running, folders()), at("weir"));
        assert_eq!(as_started(Path::new("weir"), &running, folders()), at("weir"));
        assert_eq!(as_started(Path::new("a lie"), &running, folders()), running);
        assert_eq!(as_started(Path::new("/bin/sh"), &running, folders()), running);
    }
}
