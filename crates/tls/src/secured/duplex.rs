//! TLS around a session that works both ways at once.
//!
//! Two may write: the session, and TLS itself when a peer updates its keys or ends. The driver takes one output at a time.
//! What comes meanwhile is kept in `pending` and goes next, in the order in which it was encrypted. A job under a ticket
//! of this layer reads a body in a file, one chunk after the other.

use super::{Done, Output, Secured, SecuredCx, Work, unwrapped, wrapped};
use runtime::session::JobOf;
use runtime::{Action, Event, Session, Ticket, Tx};
use units::{Duration, Instant};

/// The job that reads a chunk of a file. There is one at a time.
const READ: Ticket = Ticket(u32::MAX - 1);

/// How long a peer may take for what is under way when the session has ended.
const GOODBYE: Duration = Duration::from_secs(5);

/// What a connection that works both ways has besides.
#[derive(Debug, Default)]
pub(super) struct Duplex {
    /// Output of this layer is under way.
    is_sending: bool,
    /// Records that go out after it: at most one output of the session, and what TLS says by itself.
    pending: Vec<u8>,
    /// The session has ended; what is under way has this long.
    pub(super) ends_by: Option<Instant>,
}

impl<S: Session> Secured<S> {
    /// Gives `write` the place for records: the driver's, or what waits for it.
    fn with_output<R>(&mut self, tx: &mut Tx, write: impl FnOnce(&mut Secured<S>, &mut Tx) -> R) -> R {
        let Some(duplex) = self.duplex().filter(|duplex| duplex.is_sending) else {
            return write(self, tx);
        };
        let mut kept = Tx {
            head: std::mem::take(&mut duplex.pending),
            body: None,
            ..Tx::default()
        };
        let result = write(self, &mut kept);
        if let Some(duplex) = self.duplex() {
            duplex.pending = kept.head;
        }
        result
    }

    pub(super) fn handle_duplex(
        &mut self,
        cx: &mut SecuredCx<S::Cx>,
        event: Event<'_, Work<JobOf<S>>>,
        tx: &mut Tx,
        now: Instant,
    ) {
        match event {
            Event::Bytes(cipher) => self.with_output(tx, |own, tx| own.decrypt(cx, cipher, tx, now)),
            Event::Done(_, Done::Read(read)) => {
                self.with_output(tx, |own, tx| own.send_chunk(cx, read, tx, now));
            }
            Event::Sent => {
                let Some(duplex) = self.duplex() else { return };
                duplex.is_sending = false;
                match duplex.pending.is_empty() {
                    true => self.sent(cx, tx, now),
                    // The session's output may be in it.
                    false => tx.head.append(&mut duplex.pending),
                }
            }
            event => {
                if let (Event::Lost(_), Some(tls)) = (&event, &mut self.tls) {
                    tls.is_closing = true;
                }
                if let Some(event) = unwrapped(event) {
                    self.inner.handle(&mut cx.inner, event, &mut cx.tx, now);
                }
            }
        }
    }

    pub(super) fn poll_duplex(
        &mut self,
        cx: &mut SecuredCx<S::Cx>,
        tx: &mut Tx,
        now: Instant,
    ) -> Action<Work<JobOf<S>>> {
        if self.tls.as_ref().is_none_or(|tls| tls.has_failed) {
            return self.end(Action::Close, tx, now);
        }
        let action = self.inner.poll(&mut cx.inner, &mut cx.tx, now);
        self.carry_out(action, cx, tx, now)
    }

    /// Encrypts what the session wrote and passes its action on.
    pub(super) fn carry_out(
        &mut self,
        action: Action<JobOf<S>>,
        cx: &mut SecuredCx<S::Cx>,
        tx: &mut Tx,
        now: Instant,
    ) -> Action<Work<JobOf<S>>> {
        let busy = |own: &Secured<S>| {
            let tls = own.tls.as_ref();
            tls.is_some_and(|tls| !matches!(tls.output, Output::None))
        };
        if matches!(action, Action::Close) && busy(self) {
            // It gives up on what is under way.
            if let Some(tls) = &mut self.tls {
                tls.is_closing = true;
            }
            return Action::Close;
        }
        tx.asked = cx.tx.asked.take();
        self.with_output(tx, |own, tx| {
            if let Some(tls) = &mut own.tls {
                tls.encrypt(&mut cx.tx, tx);
            }
        });
        match wrapped(action) {
            action @ (Action::Start(..) | Action::Peer | Action::Abort) => action,
            Action::End => {
                self.say_goodbye(tx);
                self.poll_duplex(cx, tx, now)
            }
            action @ (Action::HalfClose | Action::Close) => self.end(action, tx, now),
            Action::Duplex { read, patient } => self.go_on(read, patient, tx),
            Action::Read => self.go_on(true, false, tx),
            Action::Write | Action::Stay => self.go_on(false, false, tx),
            Action::Wait(_) => unreachable!("a session that works both ways starts its jobs"),
        }
    }

    /// Sends and reads; fetches the next chunk of a file if nothing else is to be sent.
    fn go_on(&mut self, read: bool, patient: bool, tx: &Tx) -> Action<Work<JobOf<S>>> {
        let Some(duplex) = self.duplex() else {
            return Action::Duplex { read, patient };
        };
        duplex.is_sending |= !tx.is_empty();
        if !duplex.is_sending
            && let Some(tls) = &mut self.tls
            && matches!(tls.output, Output::File(_))
            && let Some(chunk) = tls.next_chunk()
        {
            return Action::Start(READ, Work::Read(chunk));
        }
        Action::Duplex { read, patient }
    }

    /// Ends the connection, or its sending half, once `close_notify` is sent or the time for that is over.
    fn end(&mut self, action: Action<Work<JobOf<S>>>, tx: &mut Tx, now: Instant) -> Action<Work<JobOf<S>>> {
        self.say_goodbye(tx);
        let Some(duplex) = self.duplex() else {
            return action;
        };
        let ends_by = *duplex.ends_by.get_or_insert(now + GOODBYE);
        if (tx.is_empty() && !duplex.is_sending) || now >= ends_by {
            return action;
        }
        self.go_on(false, false, tx)
    }

    /// Adds `close_notify`, once. It ends this side's half only (RFC 8446 section 6.1), and the socket stays open for what
    /// the peer still sends.
    fn say_goodbye(&mut self, tx: &mut Tx) {
        self.with_output(tx, |own, tx| {
            if let Some(tls) = &mut own.tls {
                tls.say_goodbye(tx);
            }
        });
    }

    fn duplex(&mut self) -> Option<&mut Duplex> {
        self.tls.as_mut()?.duplex.as_mut()
    }
}
