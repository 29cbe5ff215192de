//! Detects spurious retransmission timeouts: the data was late, not lost.
//!
//! With timestamps the first ACK decides: if it echoes a segment sent before the retransmission, the original
//! has arrived (Eifel, RFC 3522). Without them two ACKs decide, with new data sent in between instead of old
//! (F-RTO, RFC 5682, section 2.1). Decides only whether the timeout was spurious; the endpoint sends data and
//! restores windows.
//!
//! ```text
//!   Quiet --timeout--> Asking --ACK of all, or nothing new to send--> Quiet (taken as loss)
//!     ^                  |  \--ACK with stamps--> Quiet (spurious if of an older segment)
//!     |                  | ACK of some: two new segments
//!     |                  v
//!     +----ACK----- Probing        another ACK of new data: spurious; a duplicate: loss
//! ```

/// The state of the detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// No timeout is in doubt.
    Quiet,
    /// After a timeout, the first unacknowledged segment was sent again.
    Asking(Doubt),
    /// New data was sent instead of retransmitting the rest.
    Probing(Doubt),
}

/// State saved at the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// The highest position sent before the timeout.
    pub(crate) recover: u64,
    /// Congestion window and threshold before the timeout.
    pub(crate) saved: (u64, u64),
    /// Clock when the segment was sent again, in ms.
    pub(crate) again_at: u32,
}

/// The conclusion from an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgment {
    /// None: nothing is known yet, or no timeout is in doubt.
    Open,
    /// Send up to two segments of new data instead of old.
    Probe,
    /// The data was late; holds the window and threshold to restore.
    Spurious((u64, u64)),
    /// The data was lost.
    Lost,
}

impl Suspicion {
    /// Judges an ACK of new data up to `una`; `echo` is the timestamp it echoes, if timestamps are in use.
    pub(crate) fn advanced(&mut self, una: u64, echo: Option<u32>) -> Judgment {
        let (Suspicion::Asking(doubt) | Suspicion::Probing(doubt)) = *self else {
            return Judgment::Open;
        };
        if let Some(echo) = echo {
            *self = Suspicion::Quiet;
            return if (echo.wrapping_sub(doubt.again_at) as i32) < 0 {
                Judgment::Spurious(doubt.saved)
            } else {
                Judgment::Open
            };
        }
        match *self {
            Suspicion::Asking(_) if una < doubt.recover => {
                *self = Suspicion::Probing(doubt);
                Judgment::Probe
            }
            Suspicion::Asking(_) => {
                *self = Suspicion::Quiet;
                Judgment::Open
            }
            _ => {
                *self = Suspicion::Quiet;
                Judgment::Spurious(doubt.saved)
            }
        }
    }

    /// Judges a duplicate ACK.
    pub(crate) fn duplicate(&mut self) -> Judgment {
        match std::mem::replace(self, Suspicion::Quiet) {
            Suspicion::Probing(_) => Judgment::Lost,
            _ => Judgment::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBT: Doubt = Doubt {
        recover: 9_000,
        saved: (7, 8),
        again_at: 500,
    };

    #[test]
    fn stamps_tell_at_once() {
        for (echo, want) in [
            (499, Judgment::Spurious((7, 8))),
            (500, Judgment::Open),
            (501, Judgment::Open),
        ] {
            let mut suspicion = Suspicion::Asking(DOUBT);
            assert_eq!(suspicion.advanced(3_000, Some(echo)), want);
            assert_eq!(suspicion, Suspicion::Quiet);
        }
    }

    #[test]
    fn without_stamps_two_acks_do() {
        let mut suspicion = Suspicion::Asking(DOUBT);
        assert_eq!(suspicion.advanced(3_000, None), Judgment::Probe);
        assert_eq!(suspicion.advanced(4_500, None), Judgment::Spurious((7, 8)));
        let mut suspicion = Suspicion::Asking(DOUBT);
        assert_eq!(suspicion.advanced(9_000, None), Judgment::Open);
        assert_eq!(suspicion, Suspicion::Quiet);
        let mut suspicion = Suspicion::Probing(DOUBT);
        assert_eq!(suspicion.duplicate(), Judgment::Lost);
        let mut suspicion = Suspicion::Asking(DOUBT);
        assert_eq!(suspicion.duplicate(), Judgment::Open);
        assert_eq!(suspicion.advanced(3_000, None), Judgment::Open);
    }
}
