//! The contract for a connection to an upstream that several sessions use at a time, because its protocol has streams.
//!
//! ```text
//!   session ── Ask::Share ─▶ the connection and its carrier belong to the event loop; the session has the first place
//!   others ─── Ask::Join ──▶ PeerEvent::Joined: a place each, as long as there is room
//!
//!   place ── Send, Read, Close ─▶ Carrier ── output ──▶ upstream
//!   place ◀─ Bytes, Sent, Lost ── Carrier ◀─ receive ── upstream
//! ```
//! A carrier is a state machine without I/O, as a session is. A session uses its place as it uses a peer of its own: what it
//! sends and reads are the bytes of one exchange, and the carrier puts them on a stream and takes them off it. The event
//! loop reads the connection without a pause, so a carrier bounds what it holds by the windows of its protocol.

use crate::peer::PeerLoss;
use units::Instant;

/// The place of one session on a connection. Never used twice on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u64);

/// What a carrier says to the session at a place.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// Bytes for a `Read`.
    Bytes(Vec<u8>),
    /// Everything of the last `Send` is on its way.
    Sent,
    /// Nothing follows. The session still has its place.
    Eof,
    /// The place is gone.
    Lost(PeerLoss),
}

/// The protocol of a connection with several places.
pub trait Carrier: Send {
    /// Whether one more session can have a place.
    fn has_room(&self) -> bool;

    /// A session has this place from now on.
    fn join(&mut self, place: Place);

    /// Takes output of a session. [`Told::Sent`] follows once it takes more.
    fn send(&mut self, place: Place, bytes: &[u8], now: Instant);

    /// The session takes input once: [`Told::Bytes`], [`Told::Eof`] or [`Told::Lost`] follows.
    fn read(&mut self, place: Place, now: Instant);

    /// The session gives its place up, at the end of its exchange or within it.
    fn leave(&mut self, place: Place, now: Instant);

    /// Takes bytes of the upstream, whatever the sessions read.
    fn receive(&mut self, bytes: &[u8], now: Instant);

    /// The upstream ended its half, and nothing more comes.
    fn end(&mut self);

    /// Output for the upstream; empty if there is none now. Called while none is under way.
    fn output(&mut self, now: Instant) -> Vec<u8>;

    /// Whether nothing of what the session at this place sent is in an output yet, so that the upstream cannot have processed its
    /// request: of use when the connection is lost.
    fn is_unsent(&self, _place: Place) -> bool {
        false
    }

    /// The next thing to tell.
    fn next(&mut self) -> Option<(Place, Told)>;

    /// Whether the connection is of no more use once the last session has left.
    fn is_over(&self) -> bool;

    /// Bytes of memory held.
    fn held(&self) -> usize;
}
