//! Key logs for captures of TLS: files read whole, or followed while they grow, and the ciphers that use their secrets.
//! What a secret opens is decided in the crate `trace`; the ciphers are those of the crate `tls`.

use crate::failure::Failure;
use ::trace::{Analyzer, Opener, PacketOpener, Suites};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use tls::observed::quic::{self, PacketKey};
use tls::observed::{self, Key};

/// Bytes of a key log read at once.
const CHUNK: usize = 64 << 10;

/// The ciphers of the crate `tls`.
#[derive(Debug)]
struct Ciphers;

#[derive(Debug)]
struct Opened(Key);

impl Opener for Opened {
    fn open(&self, sequence: u64, header: [u8; 5], fragment: &mut Vec<u8>) -> bool {
        self.0.open(sequence, header, fragment)
    }

    fn expansion(&self) -> usize {
        self.0.expansion()
    }
}

#[derive(Debug)]
struct OpenedPackets(PacketKey);

impl PacketOpener for OpenedPackets {
    fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
        self.0.mask(sample)
    }

    fn open(&self, number: u64, header: &[u8], payload: &mut Vec<u8>) -> bool {
        self.0.open(number, header, payload)
    }
}

impl Suites for Ciphers {
    fn tls13(&self, suite: u16, secret: &[u8]) -> Option<Box<dyn Opener>> {
        Some(Box::new(Opened(Key::of_tls13(suite, secret)?)))
    }

    fn updated(&self, suite: u16, secret: &[u8]) -> Option<Vec<u8>> {
        observed::updated(suite, secret)
    }

    fn tls12(&self, suite: u16, master: &[u8], randoms: [&[u8; 32]; 2]) -> Option<[Box<dyn Opener>; 2]> {
        let [client, server] = Key::of_tls12(suite, master, randoms)?;
        Some([Box::new(Opened(client)), Box::new(Opened(server))])
    }

    fn quic_initial(&self, version: u32, destination: &[u8]) -> Option<[Box<dyn PacketOpener>; 2]> {
        let [client, server] = PacketKey::initial(version, destination)?;
        Some([Box::new(OpenedPackets(client)), Box::new(OpenedPackets(server))])
    }

    fn quic(&self, version: u32, suite: u16, secret: &[u8]) -> Option<Box<dyn PacketOpener>> {
        Some(Box::new(OpenedPackets(PacketKey::of_secret(
            version, suite, secret,
        )?)))
    }

    fn quic_updated(&self, version: u32, suite: u16, secret: &[u8]) -> Option<Vec<u8>> {
        quic::updated(version, suite, secret)
    }
}

/// Lets an analyzer open what it has secrets for.
pub(crate) fn equip(analyzer: &mut Analyzer) {
    analyzer.open_with(Box::new(Ciphers));
}

/// A key log that was opened.
pub(super) struct KeyLog {
    path: PathBuf,
    file: File,
    chunk: Box<[u8]>,
}

impl KeyLog {
    /// Opens the file, which need not hold anything yet.
    ///
    /// # Errors
    /// `Usage` if there is no such file, `System` if it cannot be read.
    #[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
    pub(super) fn open(path: &Path) -> Result<KeyLog, Failure> {
        let file = File::open(path).map_err(|error| failure(path, &error))?;
        Ok(KeyLog {
            path: path.to_owned(),
            file,
            chunk: vec![0; CHUNK].into_boxed_slice(),
        })
    }

    /// Gives the analyzer what was logged since the last call.
    ///
    /// # Errors
    /// `System` if the file cannot be read.
    pub(super) fn read_on(&mut self, analyzer: &mut Analyzer) -> Result<(), Failure> {
        loop {
            match self.file.read(&mut self.chunk) {
                Ok(0) => return Ok(()),
                Ok(n) => analyzer.add_secrets(&self.chunk[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failure(&self.path, &error)),
            }
        }
    }
}

/// Why a key log cannot be read, and what to do.
fn failure(path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot read the key log `{}`: {error}", path.display());
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::IsADirectory => Failure::Usage(format!(
            "{text}; name the file that the client or server writes its secrets to (SSLKEYLOGFILE, weir serve \
             --tls-key-log)"
        )),
        _ => Failure::System(format!("{text}; make it readable for the user of this command")),
    }
}
