//! Writes frames as pcapng, for simulators and live captures: one section, nanosecond timestamps.
//!
//! Appends to a caller's buffer and stores no packet; the caller computes checksums inside frames.

use super::ng::{DSB, TLS_KEY_LOG};
use super::{Frame, LinkType};

/// Writes one pcapng section.
#[derive(Debug, Default)]
pub struct PcapngWriter {
    interfaces: u32,
}

impl PcapngWriter {
    /// Appends the section header to `out`.
    pub fn begin(out: &mut Vec<u8>, application: &str) -> PcapngWriter {
        let mut body = Vec::new();
        body.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
        body.extend_from_slice(&1u16.to_le_bytes());
        body.extend_from_slice(&0u16.to_le_bytes());
        body.extend_from_slice(&u64::MAX.to_le_bytes());
        option(&mut body, 4, application.as_bytes());
        option(&mut body, 0, &[]);
        block(out, 0x0a0d_0d0a, &body);
        PcapngWriter::default()
    }

    /// Appends an interface description and returns its number for the frames. `snaplen` 0 means that frames are
    /// complete.
    pub fn interface(&mut self, out: &mut Vec<u8>, link: LinkType, snaplen: u32, name: &str) -> u32 {
        let mut body = Vec::new();
        body.extend_from_slice(&link.0.to_le_bytes());
        body.extend_from_slice(&0u16.to_le_bytes());
        body.extend_from_slice(&snaplen.to_le_bytes());
        option(&mut body, 2, name.as_bytes());
        option(&mut body, 9, &[9]);
        option(&mut body, 0, &[]);
        block(out, 1, &body);
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Appends a key log of TLS (RFC 9850) as a Decryption Secrets Block, for the frames behind it.
    pub fn secrets(&self, out: &mut Vec<u8>, key_log: &[u8]) {
        let mut body = Vec::with_capacity(8 + key_log.len());
        body.extend_from_slice(&TLS_KEY_LOG.to_le_bytes());
        body.extend_from_slice(&(key_log.len() as u32).to_le_bytes());
        body.extend_from_slice(key_log);
        pad(&mut body, key_log.len());
        block(out, DSB, &body);
    }

    /// Appends one frame as seen on `interface`. The frame's own number and link type are not written.
    ///
    /// # Panics
    /// If `interface` was not returned by [`PcapngWriter::interface`].
    pub fn frame(&self, out: &mut Vec<u8>, interface: u32, frame: &Frame<'_>) {
        assert!(
            interface < self.interfaces,
            "the interface is described before its frames"
        );
        let captured = frame.data.len();
        let total = (32 + captured.next_multiple_of(4)) as u32;
        let nanos = frame.at.as_nanos();
        out.reserve(total as usize);
        for word in [
            6,
            total,
            interface,
            (nanos >> 32) as u32,
            nanos as u32,
            captured as u32,
            frame.wire_len.max(captured as u32),
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(frame.data);
        pad(out, captured);
        out.extend_from_slice(&total.to_le_bytes());
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // Longer than any name or comment written here; a truncated option is still valid.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body, value.len());
}

fn pad(out: &mut Vec<u8>, written: usize) {
    out.extend_from_slice(&[0; 3][..written.next_multiple_of(4) - written]);
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let total = (body.len() + 12) as u32;
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&total.to_le_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(&total.to_le_bytes());
}
