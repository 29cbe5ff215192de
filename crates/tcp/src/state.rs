//! The states of a connection and the steps between them (RFC 9293, section 3.3.2).
//!
//! Knows only transitions; the endpoint decides the meaning of a segment in each state.

use units::Instant;

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
    /// No connection, with the reason it ended.
    Closed(Closed),
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// The handshake is complete and neither side has sent a FIN.
    Established,
    /// Our FIN was sent and not acknowledged.
    FinWait1,
    /// Our FIN was acknowledged; the peer may still send.
    FinWait2,
    /// The peer has sent its FIN; we may still send.
    CloseWait,
    /// Both sides have sent a FIN, ours first; ours is not acknowledged.
    Closing,
    /// Both sides have sent a FIN, the peer's first; ours is not acknowledged.
    LastAck,
    /// Both FINs are acknowledged; late segments are still answered until the wait ends.
    TimeWait {
        /// When the connection can be discarded.
        until: Instant,
    },
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Both sides sent a FIN.
    Orderly,
    /// The peer reset it.
    Reset,
    /// This side reset it.
    Aborted,
    /// The retransmission limit was reached.
    TimedOut,
}

/// An event that can change the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The handshake is complete.
    Opened,
    /// Our FIN is sent.
    FinSent,
    /// Our FIN is acknowledged.
    FinAcked,
    /// The peer's FIN arrived in order; the instant is the end of `TimeWait`, if that follows.
    FinReceived(Instant),
}

impl State {
    /// Whether the peer may still send data.
    pub fn receives(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Whether new data may still be sent.
    pub fn sends(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }

    /// The state after `step`; steps without meaning in a state leave it unchanged.
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

    /// All states times all steps.
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
