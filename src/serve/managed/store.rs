//! The folder with what Weir got or made: account, certificates with keys, answers to a CA's checks. Several processes
//! may use it, also of several servers: every file is replaced as a whole, and a lock keeps two from ordering at once.
//!
//! ```text
//!   acme/CA/account.json           the account with its key
//!   acme/CA/NAME.pem, NAME.json    chain and key; when to renew, and what failed
//!   acme/CA/NAME.wish              what an operator wants done about it; removed once it is noted
//!   acme/CA/lock
//!   acme/challenges/TOKEN          answers for http-01
//!   acme/challenges/NAME.pem       certificates for tls-alpn-01
//!   internal/root.pem, root.key    the authority of --tls=internal
//!   internal/NAME.pem              chain and key
//! ```
//! Folders belong to the user of the server alone, and so do files.

use acme::order::Reason;
use serde::{Deserialize, Serialize};
use server::config::{Config, TlsSource};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use units::UnixTime;

/// The folder, for one certificate.
#[derive(Clone, Debug)]
pub(super) struct Store {
    /// Of this CA.
    folder: PathBuf,
    challenges: PathBuf,
    /// The certificate's own part of file names.
    name: String,
}

/// What is remembered of a certificate besides itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Notes {
    /// When the CA wants it renewed.
    pub(super) window: Option<acme::renewal::Window>,
    /// When to ask the CA for that again, in Unix time.
    pub(super) ask_at: i64,
    /// How often in a row it did not answer that.
    pub(super) ask_failures: u32,
    /// When the certificate was ordered, in Unix time; 0 if that is not known.
    pub(super) ordered_at: i64,
    /// Failures in a row.
    pub(super) failures: u32,
    /// When to try again after a failure, in Unix time.
    pub(super) again_at: i64,
    /// What failed last.
    pub(super) trouble: Option<String>,
    /// Whether an operator wants a new one, whatever the date.
    pub(super) is_wanted: bool,
    /// A certificate that an operator wants revoked.
    pub(super) revocation: Option<Revocation>,
}

/// A certificate that must not be trusted any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Revocation {
    /// PEM.
    pub(super) certificate: String,
    pub(super) reason: Reason,
    /// Failures in a row.
    pub(super) failures: u32,
    /// When to try again after a failure, in Unix time.
    pub(super) again_at: i64,
    /// What failed last.
    pub(super) trouble: Option<String>,
    /// Whether that was the CA's last word.
    pub(super) is_refused: bool,
}

/// What an operator wants: a new certificate, and perhaps an old one revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wish {
    pub(super) revoke: Option<Revocation>,
}

/// Held while a certificate is ordered.
pub(super) struct Lock(File);

impl Store {
    /// The store of a configuration. `None` without managed certificates.
    pub(super) fn of(config: &Config) -> Option<Store> {
        let state = config.tls_state.as_deref()?;
        let challenges = state.join("acme/challenges");
        if config.tls == TlsSource::Internal {
            return Some(Store {
                folder: state.join("internal"),
                challenges,
                name: "localhost".to_owned(),
            });
        }
        let first = config.domain.first()?;
        let url = config.acme_ca.directory.trim_start_matches("https://");
        Some(Store {
            folder: state.join("acme").join(file_name(url)),
            challenges,
            name: match config.domain.len() {
                1 => file_name(first),
                count => format!(
                    "{}-and-{}-more-{:08x}",
                    file_name(first),
                    count - 1,
                    sum(&config.domain)
                ),
            },
        })
    }

    /// The folders, outer ones first.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let outer = self.challenges.ancestors().skip(1).take(2);
        let mut all: Vec<PathBuf> = outer.map(Path::to_owned).collect();
        all.reverse();
        all.extend([self.challenges.clone(), self.folder.clone()]);
        all
    }

    /// Creates the folders, for this user alone.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn create(&self) -> io::Result<()> {
        for folder in [&self.folder, &self.challenges] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(())
    }

    /// The file with chain and key.
    pub(super) fn pair(&self) -> PathBuf {
        self.folder.join(format!("{}.pem", self.name))
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("root.pem")
    }

    pub(super) fn root_key(&self) -> PathBuf {
        self.folder.join("root.key")
    }

    pub(super) fn account(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    fn notes_file(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }

    /// The notes; those of a beginning if there are none, or none that can be read.
    pub(super) fn notes(&self) -> Notes {
        let text = std::fs::read_to_string(self.notes_file()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// # Errors
    /// Of the system.
    pub(super) fn keep_notes(&self, notes: &Notes) -> io::Result<()> {
        replace(&self.notes_file(), &serde_json::to_vec(notes)?)
    }

    fn wish_file(&self) -> PathBuf {
        self.folder.join(format!("{}.wish", self.name))
    }

    /// Leaves a wish for the process that looks next.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn leave_wish(&self, wish: &Wish) -> io::Result<()> {
        replace(&self.wish_file(), &serde_json::to_vec(wish)?)
    }

    /// Whether there is a wish. It costs one system call.
    pub(super) fn has_wish(&self) -> bool {
        self.wish_file().exists()
    }

    /// Notes a wish, if there is one.
    ///
    /// # Errors
    /// Of the system; nothing is noted then.
    pub(super) fn note_wish(&self, notes: &mut Notes) -> io::Result<()> {
        let text = match std::fs::read_to_string(self.wish_file()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let noted = match serde_json::from_str::<Wish>(&text) {
            Ok(wish) => Notes {
                is_wanted: true,
                again_at: 0,
                revocation: wish.revoke.or_else(|| notes.revocation.take()),
                ..notes.clone()
            },
            // Of another version.
            Err(_) => notes.clone(),
        };
        // In this order, the end of this process in between loses no wish.
        self.keep_notes(&noted)?;
        std::fs::remove_file(self.wish_file())?;
        *notes = noted;
        Ok(())
    }

    /// Waits for nobody: `None` while another process orders.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn lock(&self) -> io::Result<Option<Lock>> {
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(self.folder.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// The file with the answer to a check by http-01. The token must be one.
    pub(super) fn answer(&self, token: &str) -> PathBuf {
        self.challenges.join(token)
    }

    /// The file with the certificate for a check by tls-alpn-01.
    pub(super) fn challenge_pair(&self, name: &str) -> PathBuf {
        self.challenges.join(format!("{}.pem", file_name(name)))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The end of the process would do it, too.
        let _ = self.0.unlock();
    }
}

/// Replaces a file as a whole; readable by this user alone.
///
/// # Errors
/// Of the system.
pub(super) fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let mut options = OpenOptions::new();
    let mut out = options
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&new)?;
    out.write_all(content)?;
    out.sync_all()?;
    std::fs::rename(&new, file)
}

/// The folder to use if none is configured: that of the service manager, else the user's.
pub(super) fn default_folder(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| value.starts_with('/'));
    if let Some(given) = set("STATE_DIRECTORY") {
        return given.split(':').next().map(PathBuf::from);
    }
    let data = set("XDG_DATA_HOME").map(PathBuf::from);
    let data = data.or_else(|| Some(Path::new(&set("HOME")?).join(".local/share")));
    Some(data?.join("weir"))
}

/// A text as a name of a file: nothing in it means something in a path. No host name has the underscore of a wildcard's.
fn file_name(text: &str) -> String {
    if let Some(base) = text.strip_prefix("*.") {
        return format!("wildcard_.{}", file_name(base));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let name: String = text.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    format!("_{}", name.trim_matches(['_', '.']))[1..].to_owned()
}

/// Tells sets of names apart (FNV-1a, 32 bits).
fn sum(names: &[String]) -> u32 {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    let bytes = sorted.into_iter().flat_map(|name| name.bytes().chain([0]));
    bytes.fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// When something stored falls due, as text for people.
pub(super) fn until(at: i64, now: UnixTime) -> String {
    match at.saturating_sub(now.secs) {
        ..=0 => "now".to_owned(),
        secs @ 1..120 => format!("in {secs} s"),
        secs @ 120..7_200 => format!("in {} minutes", secs / 60),
        secs @ 7_200..172_800 => format!("in {} hours", secs / 3_600),
        secs => format!("in {} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(domains: &[&str]) -> Config {
        Config {
            domain: domains.iter().map(|&name| name.to_owned()).collect(),
            tls_state: Some("/state".into()),
            ..Config::default()
        }
    }

    #[test]
    fn each_certificate_has_files_of_its_own() {
        let file = |domains: &[&str]| Store::of(&config(domains)).expect("a store").pair();
        let folder = "/state/acme/acme-v02.api.letsencrypt.org_directory";
        assert_eq!(file(&["a.test"]), Path::new(folder).join("a.test.pem"));
        assert_ne!(file(&["a.test", "b.test"]), file(&["a.test", "c.test"]));
        assert_eq!(
            file(&["*.a.test"]),
            Path::new(folder).join("wildcard_.a.test.pem")
        );
        assert_eq!(file(&["2001:db8::1"]), Path::new(folder).join("2001_db8__1.pem"));
        assert!(Store::of(&Config::default()).is_none());
        assert_eq!(file_name("../../etc"), "etc");
        let folders = Store::of(&config(&["a.test"])).expect("a store").folders();
        assert!(
            folders[..2] == [PathBuf::from("/state"), "/state/acme".into()]
                && folders.contains(&folder.into()),
            "{folders:?}"
        );
    }

    #[test]
    fn the_folder_is_that_of_the_service_or_the_user() {
        let of = |set: &[(&str, &str)]| {
            let found = |name: &str| {
                set.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            default_folder(found)
        };
        assert_eq!(
            of(&[("STATE_DIRECTORY", "/var/lib/weir:/x"), ("HOME", "/h")]),
            Some("/var/lib/weir".into())
        );
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.local/share/weir".into()));
        assert_eq!(
            of(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]),
            Some("/d/weir".into())
        );
        assert_eq!(of(&[("HOME", "relative")]), None);
    }

    #[test]
    fn files_are_replaced_as_a_whole_and_locked_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store {
            folder: folder.path().join("a/b"),
            challenges: folder.path().join("a/c"),
            name: "x".to_owned(),
        };
        store.create().expect("folders");
        assert_eq!(store.notes(), Notes::default());
        let notes = Notes {
            failures: 3,
            trouble: Some("why".to_owned()),
            ..Notes::default()
        };
        store.keep_notes(&notes).expect("notes");
        assert_eq!(store.notes(), notes);
        let count = std::fs::read_dir(&store.folder).expect("a folder").count();
        assert_eq!(count, 1, "no leftovers");
        let wish = Wish {
            revoke: Some(Revocation {
                certificate: "PEM".to_owned(),
                reason: Reason::KeyCompromise,
                ..Revocation::default()
            }),
        };
        assert!(!store.has_wish());
        store.leave_wish(&wish).expect("a wish");
        assert!(store.has_wish());
        let mut noted = store.notes();
        store.note_wish(&mut noted).expect("noted");
        assert!(noted.is_wanted && noted.revocation == wish.revoke && noted.failures == 3);
        assert_eq!((store.notes(), store.has_wish()), (noted.clone(), false));
        store.leave_wish(&Wish::default()).expect("another");
        store.note_wish(&mut noted).expect("noted");
        assert_eq!(noted.revocation, wish.revoke, "it stays wanted");
        let held = store.lock().expect("a lock");
        assert!(held.is_some());
        assert!(store.lock().expect("no error").is_none(), "another has it");
        drop(held);
        assert!(store.lock().expect("no error").is_some());
    }
}
