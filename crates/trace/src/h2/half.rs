//! One direction of an HTTP/2 connection: its reader, its field compression and the field block being collected.

use super::reader::Reader;
use super::{Cause, Stamp};
use crate::budget::Budget;
use http2::frame::{Setting, Settings};
use http2::hpack::{Bounds, Decoder, Fields};
use std::collections::VecDeque;

/// Dynamic table without SETTINGS_HEADER_TABLE_SIZE, in bytes (RFC 9113, section 6.5.2).
const TABLE_INITIAL: usize = 4096;
/// Largest dynamic table that is followed, in bytes. Browsers announce as much.
const TABLE_MAX: usize = 64 << 10;
/// Limit on the bytes of a collected field block.
const BLOCK_MAX: usize = 64 << 10;
/// Limits on a decoded list. Fields beyond them are dropped; pseudo-fields come first.
const LIST: Bounds = Bounds {
    fields: 256,
    bytes: 64 << 10,
};
/// Limit on SETTINGS without acknowledgment that are remembered.
const UNACKNOWLEDGED_MAX: usize = 64;

/// What a field block belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The stream of the frames.
    pub(super) stream: u32,
    /// The stream that a PUSH_PROMISE reserves.
    pub(super) promised: Option<u32>,
    /// Whether the stream ends with it.
    pub(super) ends: bool,
    /// Bytes of its frames with their headers.
    pub(super) bytes: u64,
    /// When its first byte came.
    pub(super) begun: Stamp,
}

/// What is known of one end's frames.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) reader: Reader,
    /// Why this direction is no longer decoded.
    pub(super) is_lost: bool,
    decoder: Decoder,
    block: Option<Block>,
    /// The compressed bytes of `block` so far.
    compressed: Vec<u8>,
    /// SETTINGS_HEADER_TABLE_SIZE of each SETTINGS that this end sent and the peer has not acknowledged.
    announced: VecDeque<Option<u32>>,
    /// Share of the common budget in bytes.
    held: usize,
}

impl Half {
    pub(super) fn new() -> Half {
        Half {
            reader: Reader::default(),
            is_lost: false,
            decoder: Decoder::new(TABLE_INITIAL),
            block: None,
            compressed: Vec::new(),
            announced: VecDeque::new(),
            held: 0,
        }
    }

    /// Charges the memory held to the common budget.
    ///
    /// # Errors
    /// The budget is used up.
    pub(super) fn charge(&mut self, budget: &mut Budget) -> Result<(), Cause> {
        let now = self.reader.memory() + self.decoder.memory() + self.compressed.capacity();
        if now > self.held {
            if !budget.hold(now - self.held) {
                return Err(Cause::Memory);
            }
        } else {
            budget.release(self.held - now);
        }
        self.held = now;
        Ok(())
    }

    /// Gives up this direction and returns its memory.
    pub(super) fn drop_state(&mut self, budget: &mut Budget) {
        budget.release(self.held);
        *self = Half {
            is_lost: true,
            ..Half::new()
        };
    }

    /// Whether a field block is incomplete: only CONTINUATION on its stream may follow (RFC 9113, section 4.3).
    pub(super) fn is_in_block(&self) -> bool {
        self.block.is_some()
    }

    /// Begins a field block.
    pub(super) fn begin(&mut self, block: Block) {
        self.block = Some(block);
        self.compressed.clear();
    }

    /// Adds a fragment; after the last one, decodes the block into `fields`.
    ///
    /// # Errors
    /// There is no block of `stream`, it is too long, or it does not decompress.
    pub(super) fn fragment(
        &mut self,
        stream: u32,
        wire: u64,
        fragment: &[u8],
        is_last: bool,
        fields: &mut Fields,
    ) -> Result<Option<Block>, Cause> {
        let block = self
            .block
            .as_mut()
            .filter(|block| block.stream == stream)
            .ok_or(Cause::Malformed)?;
        if self.compressed.len() + fragment.len() > BLOCK_MAX {
            return Err(Cause::Memory);
        }
        block.bytes += wire;
        self.compressed.extend_from_slice(fragment);
        if !is_last {
            return Ok(None);
        }
        fields.clear();
        self.decoder
            .decode(&self.compressed, LIST, fields)
            .map_err(|_| Cause::Compression)?;
        self.compressed = Vec::new();
        Ok(self.block.take())
    }

    /// Remembers what this end's SETTINGS say about the table; returns the size if they do.
    pub(super) fn announce(&mut self, settings: Settings<'_>) -> Option<u32> {
        let size = settings.iter().fold(None, |size, setting| match setting {
            Ok(Setting::HeaderTableSize(n)) => Some(n),
            _ => size,
        });
        if self.announced.len() < UNACKNOWLEDGED_MAX {
            self.announced.push_back(size);
        }
        size
    }

    /// The peer acknowledged this end's oldest SETTINGS; returns the table size they hold.
    pub(super) fn settle(&mut self) -> Option<u32> {
        self.announced.pop_front().flatten()
    }

    /// Sets the limit of the table that this end's field blocks use.
    pub(super) fn limit_table(&mut self, size: u32) {
        self.decoder.set_table_limit((size as usize).min(TABLE_MAX));
    }

    /// Permits a larger table. A smaller one takes effect only with the acknowledgment, as blocks under way still use the
    /// larger.
    pub(super) fn raise_table(&mut self, size: u32) {
        if size as usize > self.decoder.table_limit() {
            self.limit_table(size);
        }
    }
}
