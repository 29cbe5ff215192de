//! Frames that carry no message: SETTINGS, PING, GOAWAY, WINDOW_UPDATE, RST_STREAM, priorities.

use super::stream::signed;
use super::{Drain, EARLY_MAX, ENDED, Engine, Role};
use crate::error::{Code, Fault};
use crate::flood::Kind;
use crate::frame::{Setting, Settings, WINDOW_INITIAL, WINDOW_MAX, write};
use http_semantics::priority::Priority;
use units::Instant;

/// The payload of the PING between the two GOAWAY of a graceful shutdown.
const DRAIN_PING: [u8; 8] = *b"weir end";

/// WINDOW_UPDATE below this many bytes is rationed.
const SMALL_UPDATE: u32 = 1024;

impl Engine {
    pub(super) fn charge(&mut self, kind: Kind, now: Instant) -> Result<(), Fault> {
        self.floods.charge(kind, &self.limits, now)
    }

    pub(super) fn settings(
        &mut self,
        settings: Settings<'_>,
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        self.charge(Kind::Settings, now)?;
        for setting in settings.iter() {
            match setting? {
                Setting::HeaderTableSize(size) => self.encoder.set_peer_limit(size as usize),
                Setting::EnablePush(true) if self.role == Role::Client => {
                    let text = "a server sent SETTINGS_ENABLE_PUSH 1";
                    return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
                }
                Setting::InitialWindowSize(size) => self.resize_windows(size)?,
                Setting::MaxFrameSize(size) => self.peer.frame_size = size,
                Setting::MaxConcurrentStreams(count) => self.peer.streams_max = count,
                _ => {}
            }
        }
        write::settings_ack(output);
        Ok(())
    }

    /// RFC 9113 section 6.9.2.
    fn resize_windows(&mut self, size: u32) -> Result<(), Fault> {
        let change = i64::from(size) - i64::from(self.peer.window);
        for stream in &mut self.streams {
            let window = i64::from(stream.send_window) + change;
            stream.send_window = i32::try_from(window).map_err(|_| {
                let text = "SETTINGS_INITIAL_WINDOW_SIZE makes a window exceed 2^31-1";
                Fault::Connection(Code::FLOW_CONTROL_ERROR, text)
            })?;
        }
        self.peer.window = size;
        Ok(())
    }

    pub(super) fn settings_ack(&mut self) {
        let whole = self.limits.table_bytes as usize;
        if self.settings_due.take().is_none() {
            match self.empty_acks {
                2 => self.decoder.set_table_limit(0),
                1 => self.decoder.set_table_limit(whole),
                _ => {}
            }
            self.empty_acks = self.empty_acks.saturating_sub(1);
        } else {
            self.decoder.set_table_limit(whole);
            let excess = WINDOW_INITIAL.saturating_sub(self.limits.stream_window);
            for stream in &mut self.streams {
                stream.receive_window -= signed(excess);
            }
        }
    }

    /// Asks the peer to empty its dynamic table, as the connection is idle: a size of 0, and then the whole size, for its
    /// next request. There is no timeout, because a client may sleep: if it never answers, the table stays.
    pub(super) fn empty_table(&mut self, output: &mut Vec<u8>) {
        self.empty_due = None;
        if self.may_empty() && self.settings_due.is_none() {
            for size in [0, self.limits.table_bytes] {
                write::settings(output, &[Setting::HeaderTableSize(size)]);
            }
            self.empty_acks = 2;
        }
    }

    /// The receive window of a new stream: until the peer has acknowledged ours, it may use the initial one
    /// (RFC 9113 section 6.9.2).
    pub(super) fn new_window(&self) -> u32 {
        match self.settings_due {
            Some(_) => self.limits.stream_window.max(WINDOW_INITIAL),
            None => self.limits.stream_window,
        }
    }

    pub(super) fn ping(&mut self, payload: [u8; 8], now: Instant, output: &mut Vec<u8>) -> Result<(), Fault> {
        self.charge(Kind::Ping, now)?;
        write::ping(output, true, payload);
        Ok(())
    }

    pub(super) fn ping_ack(
        &mut self,
        payload: [u8; 8],
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        self.charge(Kind::Ping, now)?;
        if payload == DRAIN_PING && matches!(self.drain, Drain::Announced(_)) {
            self.drain_finally(output);
        }
        Ok(())
    }

    /// Begins a graceful shutdown: requests under way are answered, and so are those the peer sent before it knew.
    pub(crate) fn shut_down(&mut self, now: Instant, output: &mut Vec<u8>) {
        if self.drain == Drain::No && self.failed.is_none() {
            write::go_away(output, WINDOW_MAX, Code::NO_ERROR, "");
            write::ping(output, false, DRAIN_PING);
            self.drain = Drain::Announced(now + self.limits.drain_time);
        }
    }

    /// Ends the connection for new streams at once.
    pub(crate) fn leave(&mut self, output: &mut Vec<u8>) {
        if !matches!(self.drain, Drain::Final(_)) && self.failed.is_none() {
            self.drain_finally(output);
        }
    }

    pub(super) fn drain_finally(&mut self, output: &mut Vec<u8>) {
        write::go_away(output, self.highest, Code::NO_ERROR, "");
        self.drain = Drain::Final(self.highest);
    }

    pub(super) fn window_update(&mut self, id: u32, increment: u32, now: Instant) -> Result<(), Fault> {
        if increment < SMALL_UPDATE {
            self.charge(Kind::SmallUpdate, now)?;
        }
        if id == 0 {
            if increment == 0 {
                let text = "WINDOW_UPDATE by 0 on the connection";
                return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
            }
            self.send_window = self.send_window.checked_add(signed(increment)).ok_or({
                let text = "the connection's window exceeds 2^31-1";
                Fault::Connection(Code::FLOW_CONTROL_ERROR, text)
            })?;
            return Ok(());
        }
        if self.is_idle(id) {
            let text = "WINDOW_UPDATE on an idle stream";
            return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
        }
        let Some(at) = self.live(id) else {
            return Ok(());
        };
        if increment == 0 {
            return Err(Fault::Stream(id, Code::PROTOCOL_ERROR, "WINDOW_UPDATE by 0"));
        }
        let stream = &mut self.streams[at];
        stream.send_window = stream.send_window.checked_add(signed(increment)).ok_or({
            let text = "the stream's window exceeds 2^31-1";
            Fault::Stream(id, Code::FLOW_CONTROL_ERROR, text)
        })?;
        Ok(())
    }

    /// Returns whether the stream was open.
    pub(super) fn reset_by_peer(
        &mut self,
        id: u32,
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        if self.is_idle(id) {
            let text = "RST_STREAM on an idle stream";
            return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
        }
        self.charge(Kind::Reset, now)?;
        let live = self.live(id);
        if let Some(at) = live {
            self.cancelled = id;
            // Not among the remembered ones: a frame of the peer behind its own reset is an error of the stream.
            self.close(at, None, output);
        }
        Ok(live.is_some())
    }

    pub(super) fn priority_update(&mut self, id: u32, value: &[u8], now: Instant) -> Result<(), Fault> {
        self.charge(Kind::Priority, now)?;
        if self.role == Role::Client {
            let text = "PRIORITY_UPDATE from a server";
            return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
        }
        if id.is_multiple_of(2) {
            let text = "PRIORITY_UPDATE names a stream the client cannot open";
            return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
        }
        if let Some(at) = self.live(id) {
            self.streams[at].priority = Priority::DEFAULT.updated(value);
        } else if self.is_idle(id) {
            self.early.retain(|(early, _)| *early != id);
            if self.early.len() < EARLY_MAX {
                self.early.push((id, Priority::DEFAULT.updated(value)));
            }
        }
        Ok(())
    }

    /// The answer to DATA or HEADERS on a closed stream (RFC 9113 section 5.1); `Ok` if the frame may be a late one.
    pub(super) fn late(&self, id: u32) -> Result<(), Fault> {
        let text = "a frame on a closed stream";
        if self.closed.contains(&(id | ENDED)) {
            Err(Fault::Connection(Code::STREAM_CLOSED, text))
        } else if self.closed.contains(&id) || self.role == Role::Client {
            Ok(())
        } else {
            Err(Fault::Stream(id, Code::STREAM_CLOSED, text))
        }
    }

    /// Returns bytes to the connection's receive window, announced once they are half of it.
    pub(super) fn return_credit(&mut self, bytes: u32, output: &mut Vec<u8>) {
        self.credit += bytes;
        let whole = self.limits.connection_window.max(WINDOW_INITIAL);
        if self.credit > whole / 2 && self.failed.is_none() {
            write::window_update(output, 0, self.credit);
            self.receive_window += signed(self.credit);
            self.credit = 0;
        }
    }
}
