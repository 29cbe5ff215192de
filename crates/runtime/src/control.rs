//! A socket in the file system through which a running program is asked: a line goes in, a line comes out.
//! Whoever may write the file may ask; that is the whole access rule (unix(7)).
//!
//! Decides how much one who asks may say and how many may be about to; refuses to know what is asked. Nobody is waited
//! for: whose line is there is heard, and who has said nothing yet holds up neither him nor the program.

use measure::Duration;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What is appended to the name of a socket that is to take another's place.
const BESIDE: &str = ".new";
/// Connections that wait to be accepted; the others wait to connect.
const BACKLOG: i32 = 128;
/// What a question may have in bytes.
const QUESTION_MAX: usize = 4096;
/// What an answer may have in bytes.
const ANSWER_MAX: u64 = 1 << 20;
/// How long one may take to take the answer: nobody else is heard meanwhile, and no signal.
const PATIENCE: Duration = Duration::from_millis(500);
/// Those connected who have not asked yet, at the most: beyond, who has waited longest is sent away.
const SILENT_MAX: usize = 32;
/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// The socket. Dropped, it takes its file along, unless that is another's by now.
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
    listener: UnixListener,
    /// Readable when somebody connects or says something.
    epoll: OwnedFd,
    /// Those who have not asked yet, the first one first.
    silent: Mutex<Vec<Silent>>,
    path: PathBuf,
    /// Where the file is until it has [appeared](Control::appear).
    beside: Option<PathBuf>,
    /// Device and number of the file; none in a copy of the process, whose file it is not.
    file: Option<(u64, u64)>,
}

impl Control {
    /// Listens at `path`, readable and writable for its owner alone. A socket there that nobody answers at is
    /// replaced. With `follows` this process is to take the place of the one that answers there: until
    /// [`Control::appear`] that one goes on answering, as this process may yet fail.
    ///
    /// # Errors
    /// `AddrInUse` if another process answers there, `AlreadyExists` if there is a file that is no socket, and what
    /// the system says.
    pub fn open(path: &Path, follows: bool) -> io::Result<Control> {
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
            // What was left by one that was to follow and was killed.
            std::fs::remove_file(place)?;
        }
        let listener = bind_for_owner(place)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(0), EventFlags::IN)?;
        let control = Control {
            listener,
            epoll,
            silent: Mutex::default(),
            path: path.to_owned(),
            file: Some(identity(place)?),
            beside,
        };
        control.listener.set_nonblocking(true)?;
        Ok(control)
    }

    /// Takes the name from whoever answers there. Nothing happens if it is this socket's already.
    ///
    /// # Errors
    /// What the system says; the name is as it was then.
    pub fn appear(&mut self) -> io::Result<()> {
        if let Some(beside) = &self.beside {
            std::fs::rename(beside, &self.path)?;
            self.beside = None;
        }
        Ok(())
    }

    /// Closes it in a copy of the process that listens. The file stays, as that process goes on.
    pub fn leave(mut self) {
        self.file = None;
    }

    fn place(&self) -> &Path {
        self.beside.as_deref().unwrap_or(&self.path)
    }

    /// What becomes readable when somebody asks.
    ///
    /// # Errors
    /// What the system says to a new descriptor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// The next question, if one is there. One who says nothing or too much is not heard; nobody is waited for.
    pub fn next(&self) -> Option<Question> {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok((stream, _)) = self.listener.accept() {
            let watched = || {
                stream.set_nonblocking(true)?;
                epoll::add(&self.epoll, &stream, EventData::new_u64(0), EventFlags::IN)?;
                io::Result::Ok(())
            };
            if watched().is_err() {
                continue;
            }
            if silent.len() == SILENT_MAX {
                silent.remove(0);
            }
            silent.push(Silent {
                stream,
                said: Vec::new(),
            });
        }
        let mut at = 0;
        while let Some(one) = silent.get_mut(at) {
            match one.hear() {
                Heard::Nothing => at += 1,
                Heard::Line(line) => {
                    let stream = silent.remove(at).stream;
                    // Whoever heeds the descriptor would come back for what is left to read in this one.
                    let _ = epoll::delete(&self.epoll, &stream);
                    stream.set_nonblocking(false).ok()?;
                    stream.set_write_timeout(Some(PATIENCE)).ok()?;
                    return Some(Question { line, stream });
                }
                // Closed, it leaves the epoll instance by itself.
                Heard::End => drop(silent.remove(at)),
            }
        }
        None
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A process that follows has put its own there, or somebody else something. (Between the look and the removal
        // nobody does: who follows appears before this one is told to go.)
        if self
            .file
            .is_some_and(|own| identity(self.place()).is_ok_and(|file| file == own))
        {
            let _ = std::fs::remove_file(self.place());
        }
    }
}

/// Listens at `path`, which is readable and writable for its owner alone from the moment it is there. The mode is set
/// before the name is made: Linux gives a socket's file the mode of the socket, less the umask (unix(7)). Setting it
/// afterwards would let others in who connect in between, and the umask belongs to all threads.
fn bind_for_owner(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// One who is connected and has not asked yet.
#[derive(Debug)]
struct Silent {
    /// Which does not block.
    stream: UnixStream,
    /// The beginning of a line.
    said: Vec<u8>,
}

/// What came of listening to somebody.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// Nothing yet, or half a line.
    Nothing,
    /// A line, without its end.
    Line(String),
    /// He is gone, or said what is no line, or too much.
    End,
}

impl Silent {
    /// Reads what is there.
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
    /// What is asked.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Answers with one line. Whoever asked may have gone: that is his affair.
    pub fn answer(mut self, line: &str) {
        let _ = self.stream.write_all(format!("{line}\n").as_bytes());
    }
}

/// Asks the program that listens at `path`.
///
/// # Errors
/// What the system says: nobody is there, or it may not be asked; `UnexpectedEof` if it does not answer.
pub fn ask(path: &Path, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
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
        let control = Control::open(&path, false).unwrap();
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

    /// Nobody else can connect at any moment: the mode is right once the name is there, whatever the umask is.
    #[test]
    fn the_file_is_its_owners_from_the_first_moment() {
        use std::os::unix::fs::PermissionsExt;
        let folder = place("mode");
        let path = folder.join("socket");
        let listener = bind_for_owner(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok(), "its owner can");
        drop(listener);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_says_too_much_or_nothing_is_not_heard() {
        let folder = place("bounds");
        let path = folder.join("socket");
        let control = Control::open(&path, false).unwrap();
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

    /// Nothing here waits: a server would not hear of anything else meanwhile.
    #[test]
    fn the_silent_hold_up_nobody_and_are_bounded() {
        let folder = place("silent");
        let path = folder.join("socket");
        let control = Control::open(&path, false).unwrap();
        let mut silent: Vec<UnixStream> = (0..SILENT_MAX)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        assert!(control.next().is_none());
        let mut quick = UnixStream::connect(&path).unwrap();
        quick.write_all(b"quick\n").unwrap();
        assert_eq!(heard(&control).line(), "quick");
        // The first of them had to go for it; the others may still ask.
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
        silent[1].write_all(b"late\n").unwrap();
        silent[2].write_all(b"later\n").unwrap();
        let late = heard(&control);
        assert_eq!(late.line(), "late");
        late.answer("heard");
        assert_eq!(heard(&control).line(), "later");
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Whoever waits for the descriptor is woken for each line, also by those who were silent at first.
    #[test]
    fn the_descriptor_is_readable_while_there_is_something_to_hear() {
        let folder = place("readable");
        let path = folder.join("socket");
        let control = Control::open(&path, false).unwrap();
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
        let error = Control::open(&path, true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        std::fs::remove_file(&path).unwrap();
        let first = Control::open(&path, false).unwrap();
        let error = Control::open(&path, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists(), "its file goes with it");
        let left = UnixListener::bind(&path).unwrap();
        drop(left);
        drop(Control::open(&path, false).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn who_follows_takes_the_name_when_all_is_well_and_not_before() {
        let folder = place("follows");
        let path = folder.join("socket");
        let is_of = |control: &Control| Some(identity(&path).unwrap()) == control.file;
        let files = || std::fs::read_dir(&folder).unwrap().count();
        let first = Control::open(&path, false).unwrap();
        let fails = Control::open(&path, true).unwrap();
        assert!(is_of(&first));
        drop(fails);
        assert!(is_of(&first) && files() == 1, "one that fails leaves nothing");
        std::mem::forget(Control::open(&path, true).unwrap());
        let mut second = Control::open(&path, true).unwrap();
        second.appear().unwrap();
        second.appear().unwrap();
        assert!(is_of(&second) && files() == 1);
        drop(first);
        assert!(is_of(&second), "what is another's stays");
        let copy = Control {
            listener: second.listener.try_clone().unwrap(),
            epoll: second.descriptor().unwrap(),
            silent: Mutex::default(),
            path: path.clone(),
            beside: None,
            file: second.file,
        };
        copy.leave();
        assert!(is_of(&second), "a copy takes nothing along");
        drop(second);
        assert_eq!(files(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
