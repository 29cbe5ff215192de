//! The control socket, a socket in the file system: a client sends one line and gets one line back. Whoever may write
//! the file may ask; that is the whole access rule (unix(7)). Threads of this process ask through an [`Inbox`], which needs no
//! file: they speak for clients that they have authorized.
//!
//! Decides how long a question may be and how many clients may be about to ask. What questions mean is not known here.
//! It never waits: complete lines are processed, and a silent client delays neither others nor the program.

use crate::listen::{FileRights, set_rights};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::Mode;
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Duration;

/// Suffix of a socket that is to replace another.
const BESIDE: &str = ".new";
/// Connections that wait to be accepted; others wait to connect.
const BACKLOG: i32 = 128;
/// Maximum bytes of a question.
pub const QUESTION_MAX: usize = 4096;
/// Maximum bytes of an answer.
const ANSWER_MAX: u64 = 1 << 20;
/// How long a client may take to receive the answer: meanwhile, no other question and no signal is processed.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum clients that have not been heard. Beyond it, the one that has waited longest without a whole question is
/// disconnected; if all have asked, the new one is.
const SILENT_MAX: usize = 32;
/// How many programs may take the name over, one after another, before a question counts as unanswered.
pub const SUCCESSORS_MAX: u32 = 3;
/// How long an answer may take.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// The socket. Dropping it removes its file, unless the file is another socket's by then.
///
/// ```text
///   open ─────────────────────▶ at its name ── dropped, and still this socket's ──▶ gone
///     │ follows: beside it           ▲
///     └────────── appear ────────────┘
/// ```
///
/// ```text
///   accepted ─▶ silent ── a line ────────────────▶ question ── answered ──▶ closed
///                 └── gone, too much, too many ──▶ closed
/// ```
#[derive(Debug)]
pub struct Control {
    /// `None`: only threads of this process ask.
    socket: Option<Named>,
    inbox: Inbox,
}

/// A socket with a name in the file system.
#[derive(Debug)]
struct Named {
    listener: UnixListener,
    path: PathBuf,
    /// The file's path until it has [appeared](Control::appear).
    beside: Option<PathBuf>,
    /// Device and inode of the file; `None` in a fork of the process, which does not own the file.
    file: Option<(u64, u64)>,
}

/// Where threads of this process ask. Clones lead to the same [`Control`].
#[derive(Clone, Debug)]
pub struct Inbox(Arc<Asking>);

#[derive(Debug)]
struct Asking {
    /// Readable when a client connects or sends something.
    epoll: OwnedFd,
    /// Clients that have not been heard yet, the first one first. `None`: nobody answers any more.
    silent: Mutex<Option<Vec<Silent>>>,
}

impl Control {
    /// Listens at `path`, for the users whom `rights` admit. A socket there without a listener is replaced. With
    /// `follows`, this process is to succeed the one that answers there: until [`Control::appear`], the predecessor
    /// keeps answering, because this process may still fail.
    ///
    /// # Errors
    /// `AddrInUse` if another process answers there, `AlreadyExists` if there is a file that is not a socket, or the
    /// system's.
    pub fn open(path: &Path, rights: FileRights, follows: bool) -> io::Result<Control> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(
                    ErrorKind::AlreadyExists,
                    "a file of this name exists and is no socket",
                ));
            }
            Ok(_) if follows => {}
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(io::Error::new(
                    ErrorKind::AddrInUse,
                    "another process answers at this socket",
                ));
            }
            Ok(_) => std::fs::remove_file(path)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let beside = follows.then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(BESIDE);
            PathBuf::from(name)
        });
        let place = beside.as_deref().unwrap_or(path);
        if beside.is_some() && place.symlink_metadata().is_ok() {
            // Left over by a successor that was killed.
            std::fs::remove_file(place)?;
        }
        let listener = bind(place, rights)?;
        let mut control = Control::without_file()?;
        epoll::add(
            &control.inbox.0.epoll,
            &listener,
            EventData::new_u64(0),
            EventFlags::IN,
        )?;
        listener.set_nonblocking(true)?;
        control.socket = Some(Named {
            file: Some(identity(place)?),
            listener,
            path: path.to_owned(),
            beside,
        });
        Ok(control)
    }

    /// Without a socket: only threads of this process ask ([`Control::inbox`]).
    ///
    /// # Errors
    /// The system's.
    pub fn without_file() -> io::Result<Control> {
        Ok(Control {
            socket: None,
            inbox: Inbox(Arc::new(Asking {
                epoll: epoll::create(CreateFlags::CLOEXEC)?,
                silent: Mutex::new(Some(Vec::new())),
            })),
        })
    }

    /// Where threads of this process ask.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Takes the name over from its predecessor. Has no effect if this socket already has it.
    ///
    /// # Errors
    /// The system's; the name is unchanged then.
    pub fn appear(&mut self) -> io::Result<()> {
        if let Some(Named { beside, path, .. }) = &mut self.socket
            && let Some(new) = beside
        {
            std::fs::rename(new, path)?;
            *beside = None;
        }
        Ok(())
    }

    /// Closes it in a fork of the listening process. The file stays, because that process continues.
    pub fn leave(mut self) {
        if let Some(socket) = &mut self.socket {
            socket.file = None;
        }
    }

    /// A descriptor that becomes readable when a client asks.
    ///
    /// # Errors
    /// The system's, if it refuses a descriptor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.inbox.0.epoll.try_clone()
    }

    /// The next question, if there is one. A client that sends nothing or too much is ignored; the call never blocks.
    pub fn next(&self) -> Option<Question> {
        let mut silent = self.inbox.lock();
        let silent = silent.as_mut()?;
        let listener = self.socket.as_ref().map(|socket| &socket.listener);
        while let Some(Ok((stream, _))) = listener.map(UnixListener::accept) {
            // A client that cannot be watched is disconnected.
            let _ = self.inbox.take(silent, stream);
        }
        let mut at = 0;
        while let Some(one) = silent.get_mut(at) {
            match one.hear() {
                Heard::Nothing => at += 1,
                Heard::Line(line) => {
                    let stream = silent.remove(at).stream;
                    // A caller that polls the descriptor would otherwise return for unread input of this one.
                    let _ = epoll::delete(&self.inbox.0.epoll, &stream);
                    stream.set_nonblocking(false).ok()?;
                    stream.set_write_timeout(Some(PATIENCE)).ok()?;
                    return Some(Question { line, stream });
                }
                // Closing removes it from the epoll instance.
                Heard::End => drop(silent.remove(at)),
            }
        }
        None
    }
}

impl Inbox {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// `InvalidInput` for more than a line of [`QUESTION_MAX`] bytes. `ConnectionRefused` or `ConnectionReset` if nobody has read
    /// the question: too many wait, the program stops, or another one takes over. `UnexpectedEof` if there was no answer.
    /// Otherwise the system's.
    pub fn ask(&self, line: &str) -> io::Result<String> {
        if line.len() >= QUESTION_MAX || line.contains('\n') {
            return Err(ErrorKind::InvalidInput.into());
        }
        let (mut own, other) = UnixStream::pair()?;
        // It fits into the buffer of any socket, so this does not block.
        own.write_all(format!("{line}\n").as_bytes())?;
        match self.lock().as_mut() {
            Some(silent) => self.take(silent, other)?,
            None => return Err(ErrorKind::ConnectionRefused.into()),
        }
        answer(own)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Silent>>> {
        self.0.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a client that has not been heard yet.
    ///
    /// # Errors
    /// `ConnectionRefused` if too many clients have asked and wait. Otherwise the system's.
    fn take(&self, silent: &mut Vec<Silent>, stream: UnixStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        if silent.len() == SILENT_MAX {
            // A question that has arrived is not lost for clients that say nothing.
            let Some(eldest) = silent.iter().position(|one| !one.has_asked()) else {
                return Err(ErrorKind::ConnectionRefused.into());
            };
            silent.remove(eldest);
        }
        epoll::add(&self.0.epoll, &stream, EventData::new_u64(0), EventFlags::IN)?;
        silent.push(Silent {
            stream,
            said: Vec::new(),
        });
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // First its file: whoever asks again is not to come back here.
        self.socket = None;
        // Whoever waits learns now that nobody will answer.
        *self.inbox.lock() = None;
    }
}

impl Named {
    fn place(&self) -> &Path {
        self.beside.as_deref().unwrap_or(&self.path)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        // A successor, or another program, may have placed its own file there. (None does so between the check and the
        // removal: a successor appears before this process is told to go.)
        if self
            .file
            .is_some_and(|own| identity(self.place()).is_ok_and(|file| file == own))
        {
            let _ = std::fs::remove_file(self.place());
        }
    }
}

/// Listens at `path`, which is readable and writable for its owner only from the moment it exists. The mode is set
/// before the name is created: Linux gives a socket's file the mode of the socket, without the umask's bits (unix(7)).
/// Group and mode of others are set afterwards, because the umask, which belongs to all threads, would remove their bits.
/// Nobody connects in between: the socket does not listen yet.
fn bind(path: &Path, rights: FileRights) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    if rights != FileRights::OWN {
        set_rights(path, rights).inspect_err(|_| {
            // Nobody listens on it.
            let _ = std::fs::remove_file(path);
        })?;
    }
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// A client that is connected and has not been heard yet.
#[derive(Debug)]
struct Silent {
    /// Non-blocking.
    stream: UnixStream,
    /// The beginning of a line.
    said: Vec<u8>,
}

/// The result of reading from a client.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// Nothing yet, or half a line.
    Nothing,
    /// A line, without its end.
    Line(String),
    /// The client is gone, or sent an invalid line or too much.
    End,
}

impl Silent {
    /// Whether the end of a line waits in the socket. The bytes stay there: they keep the [descriptor](Control::descriptor)
    /// readable.
    fn has_asked(&self) -> bool {
        let mut room = [0_u8; QUESTION_MAX];
        match recv(&self.stream, &mut room[..], RecvFlags::PEEK) {
            Ok((seen, _)) => room[..seen].contains(&b'\n'),
            Err(_) => false,
        }
    }

    /// Reads the available bytes.
    fn hear(&mut self) -> Heard {
        let mut room = [0; QUESTION_MAX];
        loop {
            match self.stream.read(&mut room[self.said.len()..]) {
                Ok(0) => return Heard::End,
                Ok(more) => {
                    let have = self.said.len();
                    self.said.extend_from_slice(&room[have..have + more]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Nothing,
                Err(_) => return Heard::End,
            }
            if let Some(end) = self.said.iter().position(|b| *b == b'\n') {
                self.said.truncate(end);
                let line = String::from_utf8(std::mem::take(&mut self.said));
                return line.map_or(Heard::End, Heard::Line);
            }
            if self.said.len() == QUESTION_MAX {
                return Heard::End;
            }
        }
    }
}

/// A question that waits for its answer.
#[derive(Debug)]
pub struct Question {
    line: String,
    stream: UnixStream,
}

impl Question {
    /// The question's text.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Answers with one line. An error is ignored: the client may have gone.
    pub fn answer(mut self, line: &str) {
        let _ = self.stream.write_all(format!("{line}\n").as_bytes());
    }
}

/// Asks the program that listens at `path`. If it went without having read the question, as the predecessor of a program
/// that takes its name over, whoever listens there then is asked.
///
/// # Errors
/// The system's: no process listens there, or access is denied; `UnexpectedEof` if it does not answer.
pub fn ask(path: &Path, line: &str) -> io::Result<String> {
    let mut again = 0..SUCCESSORS_MAX;
    loop {
        match ask_once(path, line) {
            // A Unix socket reports neither after the peer has read everything.
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
                    && again.next().is_some() => {}
            result => return result,
        }
    }
}

fn ask_once(path: &Path, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    answer(stream)
}

/// The line that comes back.
fn answer(stream: UnixStream) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    let mut answer = String::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut answer)?;
    match answer.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn place(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-control-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn heard(control: &Control) -> Question {
        loop {
            if let Some(question) = control.next() {
                return question;
            }
        }
    }

    #[test]
    fn a_line_goes_in_and_a_line_comes_out() {
        use std::os::unix::fs::PermissionsExt;
        let folder = place("lines");
        let path = folder.join("socket");
        let control = Control::open(&path, FileRights::OWN, false).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let asking = std::thread::spawn({
            let path = path.clone();
            move || ask(&path, "how are you?").unwrap()
        });
        let question = heard(&control);
        assert_eq!(question.line(), "how are you?");
        question.answer("well");
        assert_eq!(asking.join().unwrap(), "well");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_goes_without_reading_the_question_leaves_it_to_the_next() {
        let folder = place("successor");
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let asking = std::thread::spawn({
            let path = path.clone();
            move || ask(&path, "how are you?")
        });
        let (silent, _) = listener.accept().unwrap();
        let mut next = Control::open(&path, FileRights::OWN, true).unwrap();
        next.appear().unwrap();
        drop((silent, listener));
        heard(&next).answer("well");
        assert_eq!(asking.join().unwrap().unwrap(), "well");
        drop(next);
        // One that never reads is not asked for ever.
        let listener = UnixListener::bind(&path).unwrap();
        let asking = std::thread::spawn({
            let path = path.clone();
            move || ask(&path, "how are you?")
        });
        for _ in 0..=SUCCESSORS_MAX {
            drop(listener.accept().unwrap());
        }
        let error = asking.join().unwrap().unwrap_err().kind();
        assert!(
            matches!(error, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{error}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// No other user can connect at any moment: the mode is right as soon as the name exists, whatever the umask.
    #[test]
    fn the_file_is_its_owners_from_the_first_moment() {
        use std::os::unix::fs::PermissionsExt;
        let folder = place("mode");
        let path = folder.join("socket");
        let listener = bind(&path, FileRights::OWN).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok(), "its owner can");
        drop(listener);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A successor, too, admits whom it is told to admit, before it appears.
    #[test]
    fn others_are_admitted_whatever_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = place("group");
        let path = folder.join("socket");
        let rights = FileRights {
            mode: 0o660,
            owner: Some(crate::process::privilege::current()),
        };
        let mode = || {
            let found = std::fs::metadata(&path).unwrap();
            (
                found.permissions().mode() & 0o777,
                Some((found.uid(), found.gid())),
            )
        };
        let first = Control::open(&path, rights, false).unwrap();
        assert_eq!(mode(), (rights.mode, rights.owner));
        let mut second = Control::open(&path, FileRights::OWN, true).unwrap();
        assert_eq!(mode().0, 0o660, "the file is still the first one's");
        second.appear().unwrap();
        assert_eq!(mode().0, 0o600);
        drop((first, second));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_says_too_much_or_nothing_is_not_heard() {
        let folder = place("bounds");
        let path = folder.join("socket");
        let control = Control::open(&path, FileRights::OWN, false).unwrap();
        let mut long = UnixStream::connect(&path).unwrap();
        let _ = long.write_all(&vec![b'x'; 10_000]);
        assert!(control.next().is_none());
        let silent = UnixStream::connect(&path).unwrap();
        assert!(control.next().is_none());
        drop(silent);
        assert!(control.next().is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn threads_of_this_process_ask_without_a_file() {
        let control = Control::without_file().unwrap();
        let descriptor = control.descriptor().unwrap();
        let inbox = control.inbox();
        let asking = std::thread::spawn({
            let inbox = inbox.clone();
            move || inbox.ask("how are you?")
        });
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).unwrap();
        let question = heard(&control);
        assert_eq!(question.line(), "how are you?");
        question.answer("well");
        assert_eq!(asking.join().unwrap().unwrap(), "well");
        for line in ["two\nlines".to_owned(), "x".repeat(QUESTION_MAX)] {
            let error = inbox.ask(&line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        // Whoever waits when it goes is told, and so is whoever comes later.
        let asking = std::thread::spawn({
            let inbox = inbox.clone();
            move || inbox.ask("and now?")
        });
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).unwrap();
        drop(control);
        let error = asking.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let error = inbox.ask("and now?").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn half_a_line_is_kept_until_the_rest_comes() {
        let (mut asking, stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut asked = Silent {
            stream,
            said: Vec::new(),
        };
        assert_eq!(asked.hear(), Heard::Nothing);
        asking.write_all(b"half a li").unwrap();
        assert_eq!(asked.hear(), Heard::Nothing);
        asking.write_all(b"ne\nand more").unwrap();
        assert_eq!(asked.hear(), Heard::Line("half a line".to_owned()));
        drop(asking);
        assert_eq!(asked.hear(), Heard::End);
    }

    /// Nothing here blocks: a server could not process anything else meanwhile.
    #[test]
    fn the_silent_hold_up_nobody_and_are_bounded() {
        let folder = place("silent");
        let path = folder.join("socket");
        let control = Control::open(&path, FileRights::OWN, false).unwrap();
        let mut silent: Vec<UnixStream> = (0..SILENT_MAX)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        assert!(control.next().is_none());
        let mut quick = UnixStream::connect(&path).unwrap();
        quick.write_all(b"quick\n").unwrap();
        assert_eq!(heard(&control).line(), "quick");
        // The first of them was disconnected for it; the others may still ask.
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
        silent[1].write_all(b"late\n").unwrap();
        silent[2].write_all(b"later\n").unwrap();
        let late = heard(&control);
        assert_eq!(late.line(), "late");
        late.answer("heard");
        assert_eq!(heard(&control).line(), "later");
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Silent clients are disconnected first, whoever came first.
    #[test]
    fn the_silent_push_out_no_question() {
        let folder = place("pushed");
        let path = folder.join("socket");
        let control = Control::open(&path, FileRights::OWN, false).unwrap();
        let connect = || UnixStream::connect(&path).unwrap();
        let mut first = connect();
        first.write_all(b"first\n").unwrap();
        let mut silent: Vec<UnixStream> = (0..SILENT_MAX).map(|_| connect()).collect();
        assert_eq!(control.next().map(|one| one.line), Some("first".to_owned()));
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0, "the eldest of the silent");
        drop(silent);
        assert!(control.next().is_none());
        // Half of a question counts for nothing.
        let mut half = connect();
        half.write_all(b"ha").unwrap();
        assert!(control.next().is_none());
        let asking: Vec<UnixStream> = (0..SILENT_MAX)
            .map(|nth| {
                let mut one = connect();
                one.write_all(format!("{nth}\n").as_bytes()).unwrap();
                one
            })
            .collect();
        // All have asked by now, and wait: there is no place for another.
        let mut late = connect();
        for nth in 0..SILENT_MAX {
            assert_eq!(control.next().map(|one| one.line), Some(nth.to_string()));
        }
        assert_eq!(half.read(&mut [0]).unwrap(), 0);
        assert_eq!(late.read(&mut [0]).unwrap(), 0);
        assert!(control.next().is_none());
        drop(asking);
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// The descriptor wakes its poller for each line, including those of clients that were silent at first.
    #[test]
    fn the_descriptor_is_readable_while_there_is_something_to_hear() {
        let folder = place("readable");
        let path = folder.join("socket");
        let control = Control::open(&path, FileRights::OWN, false).unwrap();
        let descriptor = control.descriptor().unwrap();
        let is_readable = || {
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())).unwrap() > 0
        };
        assert!(!is_readable());
        let mut one = UnixStream::connect(&path).unwrap();
        assert!(is_readable());
        assert!(control.next().is_none());
        assert!(!is_readable(), "he says nothing");
        one.write_all(b"one\nand more").unwrap();
        let mut two = UnixStream::connect(&path).unwrap();
        two.write_all(b"two\n").unwrap();
        assert!(is_readable());
        let question = heard(&control);
        assert_eq!(question.line(), "one");
        assert!(is_readable(), "there is another");
        assert_eq!(heard(&control).line(), "two");
        assert!(!is_readable());
        drop(question);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_a_socket_that_nobody_answers_at_is_replaced() {
        let folder = place("stale");
        let path = folder.join("socket");
        std::fs::write(&path, "a file").unwrap();
        let error = Control::open(&path, FileRights::OWN, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        std::fs::remove_file(&path).unwrap();
        let first = Control::open(&path, FileRights::OWN, false).unwrap();
        let error = Control::open(&path, FileRights::OWN, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists(), "its file goes with it");
        let left = UnixListener::bind(&path).unwrap();
        drop(left);
        drop(Control::open(&path, FileRights::OWN, false).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_follows_takes_the_name_when_all_is_well_and_not_before() {
        let folder = place("follows");
        let path = folder.join("socket");
        let is_of = |control: &Control| {
            let socket = control.socket.as_ref().unwrap();
            Some(identity(&path).unwrap()) == socket.file
        };
        let files = || std::fs::read_dir(&folder).unwrap().count();
        let first = Control::open(&path, FileRights::OWN, false).unwrap();
        let fails = Control::open(&path, FileRights::OWN, true).unwrap();
        assert!(is_of(&first));
        drop(fails);
        assert!(is_of(&first) && files() == 1, "one that fails leaves nothing");
        std::mem::forget(Control::open(&path, FileRights::OWN, true).unwrap());
        let mut second = Control::open(&path, FileRights::OWN, true).unwrap();
        second.appear().unwrap();
        second.appear().unwrap();
        assert!(is_of(&second) && files() == 1);
        drop(first);
        assert!(is_of(&second), "what is another's stays");
        let named = second.socket.as_ref().unwrap();
        let mut copy = Control::without_file().unwrap();
        copy.socket = Some(Named {
            listener: named.listener.try_clone().unwrap(),
            path: path.clone(),
            beside: None,
            file: named.file,
        });
        copy.leave();
        assert!(is_of(&second), "a copy takes nothing along");
        drop(second);
        assert_eq!(files(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
