//! The contract for connections that a session opens itself: to an upstream server, for example.
//!
//! ```text
//!   Tx::ask(ticket, Ask), Action::Peer                      Event::Peer(ticket, PeerEvent)
//!
//!   Dial(upstream) ──▶ opening ─┬───────────────────────▶ Connected
//!                               └─ refused, no answer ──▶ Lost
//!   Read ──▶ one receive ───────┬───────────────────────▶ Bytes
//!                               ├─ its end came ────────▶ Eof
//!                               └─ reset ───────────────▶ Lost
//!   Send(bytes) ────────────────┬─ the kernel has all ──▶ Sent
//!                               └─ reset ───────────────▶ Lost
//!   End, Close, Abort           no event
//!   Park ──▶ idle, of no session ── Reuse(upstream) ────▶ Reused; Dial's events if none is idle
//!   Share ─▶ of several sessions ── Join(upstream) ─────▶ Joined; Dial's events if none has room
//! ```
//! A peer belongs to one session and ends with it. The driver carries out each [`Ask`] and polls the session again at
//! once, as it does for jobs. A session that has dialed works both ways ([`crate::Action::Duplex`]), and its peers are
//! told apart by its tickets.
//!
//! Back-pressure goes both ways. A peer is read only when asked, one receive at a time, so the rest waits in the kernel
//! and then at the peer. (With io_uring, a receive that is armed brings at most 16 KiB and one more receive unasked.) Output is given in portions of at most [`Dialing::buffered_max`], and the next one after
//! `Sent`.
//!
//! A connection outlives its session only if the session parks it, and if the strategy can keep it
//! ([`crate::strategy::Concurrency::keeps_peers`]); otherwise the driver closes it. It then belongs to the driver's event loop, and the next
//! session there that asks to reuse one to the same upstream in the same realm gets it, with the state that a layer such as
//! TLS has ([`Parcel`]). A realm is a number of the sessions': connections with other settings are in other ones. The driver closes a parked connection that
//! receives anything, its end included, and looks for that once more before it gives one to a session. A session can still
//! lose a reused connection at any time: the upstream may have closed it a moment ago.
//!
//! If the protocol of a connection has streams, a session can share it: [`crate::carrier`] has that contract. Sessions
//! that ask to join one while it is being opened wait for it. Whoever dials because of [`Ask::Join`] therefore answers
//! with [`Ask::Share`] or [`Ask::Keep`] once the connection is open. A place on a shared connection is used as a peer is,
//! and does not count as one.
//!
//! With one thread per request, a session has a thread only from its first input until it waits for input with no peer and no
//! job. Without a thread it cannot dial: [`PeerLoss::Here`] with `EOPNOTSUPP`.
//!
//! A session that breaks the order of the picture panics and loses its connection, as any session that panics does: a
//! ticket with two peers, a second `Read` or `Send` under way, anything but `Close` and `Abort` before `Connected`, a `Park` with a `Read` or `Send` under way. Asks
//! to a peer that is gone are ignored.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use units::{Bytes, Duration};

/// Where a peer listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
    /// The abstract name of a Unix stream socket of this process ([`crate::local`]).
    Local(Arc<str>),
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Upstream::Tcp(address) => address.fmt(f),
            Upstream::Unix(path) => write!(f, "unix:{}", path.display()),
            Upstream::Local(name) => write!(f, "unix:@{name}"),
        }
    }
}

/// What a session asks of the driver for one of its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Open a connection. The outcome is [`PeerEvent::Connected`] or [`PeerEvent::Lost`], within
    /// [`Dialing::connect_time_max`]. Nothing blocks meanwhile.
    Dial(Arc<Upstream>),
    /// Take a parked connection to this upstream in this realm, the one parked last: [`PeerEvent::Reused`]. If there is none,
    /// this is [`Ask::Dial`].
    Reuse(Arc<Upstream>, u64),
    /// Take a place on a shared connection to this upstream in this realm: [`PeerEvent::Joined`]. If one is being opened for
    /// this, wait for it; if there is none with room, this is [`Ask::Dial`]. `Close` and `Abort` end the wait.
    Join(Arc<Upstream>, u64),
    /// Share the open connection, with nothing under way. The parcel has a `Box<dyn Carrier>`, which has sent and received all that
    /// the session did before. The session has a place under its ticket at once; no event follows. The other settings
    /// are those of the connection once no session has a place.
    Share(Parking),
    /// Use a connection that was opened for [`Ask::Join`] alone. No event follows.
    Keep,
    /// Receive once: [`PeerEvent::Bytes`], [`PeerEvent::Eof`] or [`PeerEvent::Lost`].
    Read,
    /// Send all of these bytes, then report [`PeerEvent::Sent`]. At most [`Dialing::buffered_max`].
    Send(Vec<u8>),
    /// Close the sending half, with no output under way. The peer may still send.
    End,
    /// Give the connection to the driver, to be reused. Nothing may be under way, and the protocol must allow the upstream's
    /// next input to be an answer to what another session sends. No event follows.
    Park(Parking),
    /// Close the connection; output under way is given up, and the peer is then reset. No event follows.
    Close,
    /// Reset the connection, so that the peer does not take what it received for complete. No event follows.
    Abort,
}

/// How long the driver keeps a connection that no session uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parking {
    /// Parked connections to the same upstream, this one included, per event loop. If there are more, the driver closes those
    /// that have been parked longest, one second after they became too many.
    pub most: usize,
    /// Time after which the driver closes it, within one tick of the driver's timer (250 ms).
    pub time: Duration,
    /// Only requests of this realm get it.
    pub realm: u64,
    /// For the session that gets it.
    pub parcel: Parcel,
}

/// What a session leaves with a connection that it parks, for the session that reuses it. Dropped with the connection
/// otherwise.
#[derive(Clone, Default)]
pub struct Parcel(Option<Arc<Mutex<Content>>>);

/// What is in a parcel; `None`: it was taken.
type Content = Option<Box<dyn Any + Send>>;

impl Parcel {
    /// A parcel with this content.
    pub fn of<T: Any + Send>(content: T) -> Parcel {
        Parcel(Some(Arc::new(Mutex::new(Some(Box::new(content))))))
    }

    /// Takes the content; `None` if there is none of this type, or if it was taken.
    pub fn take<T: Any + Send>(&self) -> Option<Box<T>> {
        let mut content = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        match content.take()?.downcast() {
            Ok(content) => Some(content),
            Err(other) => {
                *content = Some(other);
                None
            }
        }
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Parcel(..)" } else { "Parcel" })
    }
}

/// Parcels are equal if they are the same one, or both empty.
impl PartialEq for Parcel {
    fn eq(&self, other: &Parcel) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Parcel {}

/// What happened to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent<'a> {
    /// The connection is open.
    Connected,
    /// The connection is open, and has been in use before; the session that parked it left this.
    Reused(&'a Parcel),
    /// The session has a place on a connection that is shared.
    Joined,
    /// Bytes arrived. The session must consume or store all of them.
    Bytes(&'a [u8]),
    /// All output of the last [`Ask::Send`] was handed to the kernel.
    Sent,
    /// The peer closed its sending half; it may still read. A later `Read` reports this again.
    Eof,
    /// The peer is gone, and its ticket is free again.
    Lost(PeerLoss),
}

/// Why a peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerLoss {
    /// The connection could not be opened: errno (`ECONNREFUSED`, `EHOSTUNREACH`, `ENOENT` for a path without a socket,
    /// `EAGAIN` for a Unix socket with a full accept queue).
    Opening(i32),
    /// The connection was not open within [`Dialing::connect_time_max`].
    TimedOut,
    /// The open connection failed: errno (`ECONNRESET`, `EPIPE`, `ETIMEDOUT`).
    Open(i32),
    /// The upstream did not process what was sent from this place of a shared connection, which may go on for others.
    Unprocessed,
    /// This machine has no descriptor, port or memory left for it: errno.
    Here(i32),
    /// The session already has [`Dialing::peers_max`] peers.
    TooMany,
    /// The session asked to send more than [`Dialing::buffered_max`] at a time. The peer was reset.
    TooMuch,
}

impl PeerLoss {
    /// Whether the kernel forbids this process to connect there (`EACCES`, `EPERM`): Landlock, the permissions of a Unix socket, or
    /// a firewall.
    pub fn is_forbidden(self) -> bool {
        matches!(self, PeerLoss::Opening(libc::EACCES | libc::EPERM))
    }
}

impl fmt::Display for PeerLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = |errno: &i32| std::io::Error::from_raw_os_error(*errno);
        match self {
            PeerLoss::Opening(errno) => write!(f, "cannot connect: {}", system(errno)),
            PeerLoss::TimedOut => f.write_str("cannot connect: no answer within the connect timeout"),
            PeerLoss::Open(errno) => write!(f, "the connection failed: {}", system(errno)),
            PeerLoss::Unprocessed => f.write_str("the upstream did not process the request"),
            PeerLoss::Here(errno) => write!(f, "this machine cannot open a connection: {}", system(errno)),
            PeerLoss::TooMany => f.write_str("the limit of peers per connection is reached"),
            PeerLoss::TooMuch => f.write_str("more output at a time than the limit allows"),
        }
    }
}

/// Limits of the peers of one session. A service that has them dials ([`crate::Service::dialing`]).
///
/// Each peer also takes a descriptor. Without one left, dialing fails with [`PeerLoss::Here`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialing {
    /// Peers of one session at a time. Default: 8.
    pub peers_max: usize,
    /// Parked connections of one event loop, to all upstreams. Above it, connections are closed instead. Without a
    /// descriptor left, or if memory is short, the driver closes parked connections first. Default: 1,024.
    pub parked_max: usize,
    /// Bytes of output that the driver holds for one peer. Default: 256 KiB.
    pub buffered_max: Bytes,
    /// Time for a connection to open, within one tick of the driver's timer (250 ms). Default: 5 s.
    pub connect_time_max: Duration,
}

impl Default for Dialing {
    fn default() -> Dialing {
        Dialing {
            peers_max: 8,
            parked_max: 1_024,
            buffered_max: Bytes::kib(256),
            connect_time_max: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_is_taken_once_and_as_what_it_is() {
        let parcel = Parcel::of(7_u8);
        assert_eq!(parcel.take::<u16>(), None);
        assert_eq!(
            (parcel.take::<u8>(), parcel.take::<u8>()),
            (Some(Box::new(7)), None)
        );
        assert_eq!(Parcel::default().take::<u8>(), None);
        assert_eq!(parcel, parcel.clone());
        assert!(parcel != Parcel::default() && parcel != Parcel::of(7_u8));
    }
}
