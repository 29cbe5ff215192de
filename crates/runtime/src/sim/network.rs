//! The simulated network: its clients, the bytes they sent, and how much they take.

use crate::buffer::Outgoing;
use crate::fs::Wait;
use crate::io::table::Table;
use crate::io::{Backend, Buf, Done, Id, Op, Out};
use crate::peer::{PeerLoss, Upstream};
use crate::session::{Body, Loss};
use std::collections::VecDeque;
use std::net::SocketAddr;
use units::{Duration, Instant, UnixTime};

/// The far end of a simulated connection: a client, or a peer that a session dialed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(usize);

/// What arrives at the server.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    Eof,
}

/// State of the server's side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// In the accept queue.
    Waiting,
    /// Dialed, and not answered yet.
    Dialing(Id),
    /// Dialed, and refused with this errno.
    Refused(i32),
    /// Accepted.
    Open(Id),
    /// The server closed its sending half.
    HalfClosed(Id),
    /// Closed; `reset` if input was left unread.
    Closed { reset: bool },
}

#[derive(Debug)]
struct Wire {
    peer: SocketAddr,
    server: Server,
    arriving: VecDeque<Piece>,
    received: Vec<u8>,
    /// Bytes the client will still accept.
    room: usize,
    /// Whether the client has reset the connection.
    gone: bool,
    /// Bytes the client has acknowledged; `None` if the test never set it.
    acknowledged: Option<u64>,
}

impl Wire {
    fn new(peer: SocketAddr, server: Server) -> Wire {
        Wire {
            peer,
            server,
            arriving: VecDeque::new(),
            received: Vec::new(),
            room: usize::MAX,
            gone: false,
            acknowledged: None,
        }
    }
}

#[derive(Debug)]
struct Socket {
    client: usize,
    /// It was dialed, and nobody has answered.
    opening: bool,
    /// A receive is under way.
    receiving: bool,
    /// Output the client does not take yet.
    sending: Option<Box<Out>>,
}

/// The back end of a simulation.
#[derive(Debug)]
pub(crate) struct Network {
    pub(super) now: Instant,
    pub(super) wall_at_zero: UnixTime,
    wires: Vec<Wire>,
    sockets: Table<Socket>,
    backlog: VecDeque<usize>,
    /// Dials that the test has not seen.
    dials: VecDeque<(Client, Upstream)>,
    listening: bool,
    incoming: bool,
    ready: Vec<Id>,
    buf: Option<Buf>,
    /// Memory of output that clients do not take, in bytes.
    held: usize,
}

impl Network {
    pub(super) fn new() -> Network {
        Network {
            now: Instant::ZERO,
            wall_at_zero: UnixTime::from_secs(1_767_225_600),
            wires: Vec::new(),
            sockets: Table::new(),
            backlog: VecDeque::new(),
            dials: VecDeque::new(),
            listening: true,
            incoming: false,
            ready: Vec::new(),
            buf: None,
            held: 0,
        }
    }

    pub(super) fn connect(&mut self, peer: SocketAddr) -> Client {
        let client = self.wires.len();
        let server = if self.listening {
            Server::Waiting
        } else {
            Server::Closed { reset: true }
        };
        self.wires.push(Wire::new(peer, server));
        if self.listening {
            self.backlog.push_back(client);
            self.incoming = true;
        }
        Client(client)
    }

    pub(super) fn next_dial(&mut self) -> Option<(Client, Upstream)> {
        self.dials.pop_front()
    }

    /// Answers a dial, unless the session has given it up.
    pub(super) fn answer(&mut self, client: Client, outcome: Result<(), i32>) {
        let Server::Dialing(id) = self.wires[client.0].server else {
            return;
        };
        self.wires[client.0].server = match outcome {
            Ok(()) => Server::Open(id),
            Err(errno) => Server::Refused(errno),
        };
        self.ready.push(id);
    }

    pub(super) fn arrive(&mut self, client: Client, piece: Piece) {
        self.wires[client.0].arriving.push_back(piece);
        self.stir(client);
    }

    pub(super) fn reset(&mut self, client: Client) {
        self.wires[client.0].gone = true;
        self.stir(client);
    }

    pub(super) fn set_room(&mut self, client: Client, room: usize) {
        self.wires[client.0].room = room;
        self.stir(client);
    }

    pub(super) fn acknowledge(&mut self, client: Client, bytes: u64) {
        *self.wires[client.0].acknowledged.get_or_insert(0) += bytes;
    }

    fn stir(&mut self, client: Client) {
        if let Server::Open(id) | Server::HalfClosed(id) = self.wires[client.0].server {
            self.ready.push(id);
        }
    }

    pub(super) fn received(&self, client: Client) -> &[u8] {
        &self.wires[client.0].received
    }

    pub(super) fn take_received(&mut self, client: Client) -> Vec<u8> {
        std::mem::take(&mut self.wires[client.0].received)
    }

    pub(super) fn is_finished(&self, client: Client) -> bool {
        matches!(
            self.wires[client.0].server,
            Server::HalfClosed(_) | Server::Closed { .. }
        )
    }

    pub(super) fn is_closed(&self, client: Client) -> bool {
        matches!(self.wires[client.0].server, Server::Closed { .. })
    }

    pub(super) fn was_reset(&self, client: Client) -> bool {
        self.wires[client.0].server == Server::Closed { reset: true }
    }

    /// Pieces that the client has sent and the server has not received.
    pub(super) fn unreceived(&self, client: Client) -> usize {
        self.wires[client.0].arriving.len()
    }

    /// Whether something has happened that the worker has not seen yet.
    pub(super) fn has_news(&self) -> bool {
        self.incoming || !self.ready.is_empty()
    }

    fn accept(&mut self) -> Option<Done> {
        let client = self.backlog.pop_front()?;
        let id = self.sockets.insert(Socket {
            client,
            opening: false,
            receiving: false,
            sending: None,
        });
        self.wires[client].server = Server::Open(id);
        Some(Done::Accepted {
            id,
            peer: self.wires[client].peer,
        })
    }

    fn receive(&mut self, id: Id) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        let wire = &mut self.wires[socket.client];
        if wire.gone {
            return Some(Done::Failed {
                id,
                loss: Loss::Socket(libc::ECONNRESET),
            });
        }
        match wire.arriving.pop_front() {
            None => {
                socket.receiving = true;
                None
            }
            Some(Piece::Eof) => {
                socket.receiving = false;
                // Every later receive reports it again.
                wire.arriving.push_front(Piece::Eof);
                Some(Done::Eof { id })
            }
            Some(Piece::Bytes(bytes)) => {
                socket.receiving = false;
                let mut buf = self.buf.take().unwrap_or_else(Buf::new);
                buf.bytes[..bytes.len()].copy_from_slice(&bytes);
                buf.len = bytes.len();
                Some(Done::Recv { id, buf })
            }
        }
    }

    fn send(&mut self, id: Id, mut out: Box<Out>) -> Option<Done> {
        let socket = self.sockets.get_mut(id)?;
        let wire = &mut self.wires[socket.client];
        if wire.gone {
            return Some(Done::Failed {
                id,
                loss: Loss::Socket(libc::EPIPE),
            });
        }
        loop {
            if out.is_sent() {
                return Some(Done::Sent { id, out });
            }
            if wire.room == 0 {
                let bytes = std::mem::take(&mut out.unreported);
                self.held += out.cost();
                socket.sending = Some(out);
                return (bytes > 0).then_some(Done::Progress { id, bytes });
            }
            let head = out.head_left();
            let sent = if !head.is_empty() {
                let n = head.len().min(wire.room);
                wire.received.extend_from_slice(&head[..n]);
                n
            } else {
                match &out.tx.body {
                    Some(Body::Bytes(bytes)) => {
                        let n = bytes.len().min(wire.room);
                        wire.received.extend_from_slice(&bytes[..n]);
                        n
                    }
                    Some(Body::File(range)) => {
                        let want = (range.len.min(64 << 10) as usize).min(wire.room);
                        match range.file.read_all(range.offset, want, Wait::Block) {
                            Ok(bytes) if bytes.is_empty() => {
                                return Some(Done::Failed {
                                    id,
                                    loss: Loss::File(0),
                                });
                            }
                            Ok(bytes) => {
                                wire.received.extend_from_slice(&bytes);
                                bytes.len()
                            }
                            Err(_) => {
                                return Some(Done::Failed {
                                    id,
                                    loss: Loss::File(libc::EIO),
                                });
                            }
                        }
                    }
                    None => 0,
                }
            };
            wire.room -= if wire.room == usize::MAX { 0 } else { sent };
            out.advance(sent);
        }
    }

    fn close(&mut self, id: Id) {
        let Some(socket) = self.sockets.remove(id) else {
            return;
        };
        self.held -= socket.sending.as_ref().map_or(0, |out| out.cost());
        let wire = &mut self.wires[socket.client];
        let unread = wire.arriving.iter().any(|piece| matches!(piece, Piece::Bytes(_)));
        wire.server = Server::Closed { reset: unread };
    }
}

impl Backend for Network {
    fn is_awaited(&mut self, _listener: usize) -> bool {
        !self.backlog.is_empty()
    }

    fn submit(&mut self, op: Op) -> Option<Done> {
        match op {
            Op::Accept { .. } => self.accept(),
            Op::StopListening => {
                self.listening = false;
                for client in std::mem::take(&mut self.backlog) {
                    self.wires[client].server = Server::Closed { reset: true };
                }
                None
            }
            Op::Recv { id } => self.receive(id),
            Op::Send { id, out } => self.send(id, out),
            Op::Resume { id, warmed } => {
                let out = self.sockets.get_mut(id)?.sending.take()?;
                self.held -= out.cost();
                match warmed {
                    Err(loss) => Some(Done::Failed { id, loss }),
                    Ok(()) => self.send(id, out),
                }
            }
            Op::Pause { id } => {
                self.sockets.get_mut(id)?.receiving = false;
                None
            }
            Op::ShutdownWrite { id } => {
                let socket = self.sockets.get_mut(id)?;
                self.wires[socket.client].server = Server::HalfClosed(id);
                None
            }
            Op::Close { id } => {
                self.close(id);
                None
            }
            Op::Abort { id } => {
                let client = self.sockets.get_mut(id)?.client;
                self.close(id);
                self.wires[client].server = Server::Closed { reset: true };
                None
            }
        }
    }

    fn wait(&mut self, _: Option<Instant>, done: &mut Vec<Done>) -> std::io::Result<Instant> {
        if std::mem::take(&mut self.incoming) {
            done.push(Done::Incoming { listener: 0 });
        }
        for id in self.ready.drain(..) {
            let Some(socket) = self.sockets.get_mut(id) else {
                continue;
            };
            if std::mem::take(&mut socket.opening) || socket.sending.is_some() {
                done.push(Done::Ready { id });
            }
            if std::mem::take(&mut socket.receiving) {
                done.push(Done::Input { id });
            }
        }
        Ok(self.now)
    }

    fn held(&self) -> usize {
        self.held
    }

    fn recycle(&mut self, buf: Buf) {
        self.buf = Some(buf);
    }

    fn dial(&mut self, to: &Upstream) -> Result<Id, PeerLoss> {
        let client = self.wires.len();
        let id = self.sockets.insert(Socket {
            client,
            opening: true,
            receiving: false,
            sending: None,
        });
        let peer = match to {
            Upstream::Tcp(address) => *address,
            Upstream::Unix(_) | Upstream::Local(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        self.wires.push(Wire::new(peer, Server::Dialing(id)));
        self.dials.push_back((Client(client), to.clone()));
        Ok(id)
    }

    fn opened(&mut self, id: Id) -> Option<Result<(), i32>> {
        let client = self.sockets.get_mut(id)?.client;
        match self.wires[client].server {
            Server::Dialing(_) | Server::Waiting => None,
            Server::Refused(errno) => Some(Err(errno)),
            Server::Open(_) | Server::HalfClosed(_) | Server::Closed { .. } => Some(Ok(())),
        }
    }

    fn is_quiet(&mut self, id: Id) -> bool {
        let client = self.sockets.get_mut(id).map(|socket| socket.client);
        client.is_some_and(|client| {
            let wire = &self.wires[client];
            wire.arriving.is_empty() && !wire.gone
        })
    }

    fn has_hung_up(&mut self, id: Id) -> bool {
        let client = self.sockets.get_mut(id).map(|socket| socket.client);
        client.is_some_and(|client| {
            let wire = &self.wires[client];
            wire.gone || wire.arriving.iter().any(|piece| matches!(piece, Piece::Eof))
        })
    }

    fn acknowledged(&mut self, id: Id) -> Option<u64> {
        let client = self.sockets.get_mut(id)?.client;
        self.wires[client].acknowledged
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn wall(&self) -> UnixTime {
        let passed: Duration = self.now - Instant::ZERO;
        let nanos = u64::from(self.wall_at_zero.nanos) + u64::from(passed.subsec_nanos());
        UnixTime {
            secs: self.wall_at_zero.secs + passed.as_secs() as i64 + (nanos / 1_000_000_000) as i64,
            nanos: (nanos % 1_000_000_000) as u32,
        }
    }
}
