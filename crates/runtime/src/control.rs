//! A socket in the file system through which a running program is asked: a line goes in, a line comes out.
//! Whoever may write the file may ask; that is the whole access rule (unix(7)).
//!
//! Decides how long one who asks may take and how much he may say; refuses to know what is asked.

use crate::clock;
use measure::Duration;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// What is appended to the name of a socket that is to take another's place.
const BESIDE: &str = ".new";
/// What a question may have in bytes.
const QUESTION_MAX: usize = 4096;
/// What an answer may have in bytes.
const ANSWER_MAX: u64 = 1 << 20;
/// How long one who is connected may take to ask in all, and how long to take the answer: nobody else is heard
/// meanwhile, and no signal.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// The socket. Dropped, it takes its file along, unless that is another's by now.
///
/// ```text
///   open ─────────────────────▶ at its name ── dropped, and still this socket's ──▶ gone
///     │ follows: beside it           ▲
///     └────────── appear ────────────┘
/// ```
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// Where the file is until it has [appeared](Control::appear).
    beside: Option<PathBuf>,
    /// Device and number of the file.
    file: (u64, u64),
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
                    "there is a file of this name that is no socket",
                ));
            }
            Ok(_) if follows => {}
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(io::Error::new(
                    ErrorKind::AddrInUse,
                    "another process answers there",
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
        let listener = UnixListener::bind(place)?;
        let control = Control {
            listener,
            path: path.to_owned(),
            file: identity(place)?,
            beside,
        };
        std::fs::set_permissions(control.place(), std::fs::Permissions::from_mode(0o600))?;
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

    fn place(&self) -> &Path {
        self.beside.as_deref().unwrap_or(&self.path)
    }

    /// What becomes readable when somebody asks.
    ///
    /// # Errors
    /// What the system says to a new descriptor.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }

    /// The next question, if somebody asks one now. One who connects and says nothing, or too much, is not heard.
    pub fn next(&self) -> Option<Question> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(false).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let line = line_within(&stream, PATIENCE)?;
        Some(Question { line, stream })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A process that follows has put its own there, or somebody else something. (Between the look and the removal
        // nobody does: who follows appears before this one is told to go.)
        if identity(self.place()).is_ok_and(|file| file == self.file) {
            // Where it was made by a user that this process gave up being it stays: whoever comes next replaces it.
            let _ = std::fs::remove_file(self.place());
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// What comes up to the first line's end; none if that takes longer in all, or is too much.
fn line_within(mut stream: &UnixStream, patience: Duration) -> Option<String> {
    let until = clock::now() + patience;
    let mut line = vec![0; QUESTION_MAX];
    let mut have = 0;
    while let Some(room) = line.get_mut(have..).filter(|room| !room.is_empty()) {
        let left = until.since(clock::now());
        if left.is_zero() {
            return None;
        }
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(room) {
            Ok(0) => return None,
            Ok(more) => have += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        if let Some(end) = line[..have].iter().position(|b| *b == b'\n') {
            line.truncate(end);
            return String::from_utf8(line).ok();
        }
    }
    None
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
    fn patience_is_for_the_whole_line() {
        let (mut asking, asked) = UnixStream::pair().unwrap();
        asking.write_all(b"half a li").unwrap();
        assert_eq!(line_within(&asked, Duration::from_millis(20)), None);
        asking.write_all(b"a line\n").unwrap();
        assert_eq!(line_within(&asked, PATIENCE).as_deref(), Some("a line"));
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
        let is_of = |control: &Control| identity(&path).unwrap() == control.file;
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
        drop(second);
        assert_eq!(files(), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
