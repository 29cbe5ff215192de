//! The states of a connection and what moves it between them (RFC 9293, section 3.3.2).
//!
//! Only transitions stand here; what a segment means in a state is the endpoint's.

use measure::Instant;

/// ```text
///                Closed
///    open() |            | listen()
///        SynSent       Listen
///           | SYN+ACK     | SYN
///           |         SynReceived
///           +-----+ +-----+ ACK of SYN
///              Established
///     close() |           | FIN
///         FinWait1     CloseWait
///   ACK |   | FIN         | close()
///  FinWait2 Closing     LastAck
///   FIN |   | ACK         | ACK
///        TimeWait -------> Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection, and why there is none any more.
    Closed(Closed),
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// Data flows.
    Established,
    /// A FIN was sent, and not acknowledged.
    FinWait1,
    /// Our FIN was acknowledged; the peer goes on sending.
    FinWait2,
    /// The peer has sent its FIN; we go on sending.
    CloseWait,
    /// Both have sent a FIN, ours is not acknowledged.
    Closing,
    /// As `Closing`, and the peer's came first.
    LastAck,
    /// All is done; late segments are answered until then.
    TimeWait {
        /// When the connection may be forgotten.
        until: Instant,
    },
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Both sides said all they had to say.
    Orderly,
    /// The peer reset it.
    Reset,
    /// This side reset it.
    Aborted,
    /// Retransmissions were given up.
    TimedOut,
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The handshake is complete.
    Opened,
    /// Our FIN leaves.
    FinSent,
    /// Our FIN is acknowledged.
    FinAcked,
    /// The peer's FIN arrived in order; the instant is when `TimeWait` would end.
    FinReceived(Instant),
}

impl State {
    /// Whether data of the peer may still come.
    pub fn receives(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Whether data may still be sent for the first time.
    pub fn sends(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }

    /// The state after `step`; a step that means nothing in a state leaves it.
    pub(crate) fn after(self, step: Step, time_wait_ends: Instant) -> State {
        match (self, step) {
            (State::SynSent | State::SynReceived, Step::Opened) => State::Established,
            (State::Established | State::SynReceived, Step::FinSent) => State::FinWait1,
            (State::CloseWait, Step::FinSent) => State::LastAck,
            (State::FinWait1, Step::FinAcked) => State::FinWait2,
            (State::Closing, Step::FinAcked) => State::TimeWait {
                until: time_wait_ends,
            },
            (State::LastAck, Step::FinAcked) => State::Closed(Closed::Orderly),
            (State::Established | State::SynReceived, Step::FinReceived(_)) => State::CloseWait,
            (State::FinWait1, Step::FinReceived(_)) => State::Closing,
            (State::FinWait2 | State::TimeWait { .. }, Step::FinReceived(until)) => State::TimeWait { until },
            (state, _) => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state times every step, as a table.
    #[test]
    fn transitions() {
        let t = Instant::from_nanos(7);
        let steps = [Step::Opened, Step::FinSent, Step::FinAcked, Step::FinReceived(t)];
        let wait = State::TimeWait { until: t };
        use State::*;
        let table = [
            (Listen, [Listen, Listen, Listen, Listen]),
            (SynSent, [Established, SynSent, SynSent, SynSent]),
            (SynReceived, [Established, FinWait1, SynReceived, CloseWait]),
            (Established, [Established, FinWait1, Established, CloseWait]),
            (FinWait1, [FinWait1, FinWait1, FinWait2, Closing]),
            (FinWait2, [FinWait2, FinWait2, FinWait2, wait]),
            (CloseWait, [CloseWait, LastAck, CloseWait, CloseWait]),
            (Closing, [Closing, Closing, wait, Closing]),
            (
                LastAck,
                [LastAck, LastAck, Closed(super::Closed::Orderly), LastAck],
            ),
            (wait, [wait, wait, wait, wait]),
        ];
        for (from, want) in table {
            assert_eq!(steps.map(|step| from.after(step, t)), want, "{from:?}");
        }
    }
}
