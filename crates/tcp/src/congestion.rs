//! The congestion window: slow start, congestion avoidance, loss, and restart after idle time (RFC 5681).
//!
//! Counts bytes and grows per ACK, as the stacks of the 1990s did. Decides how many bytes may be outstanding;
//! does not know which.

use crate::stack::{IdleRestart, Stack};
use units::Duration;

/// ```text
///   SlowStart --cwnd >= ssthresh--> Avoidance --duplicate ACKs--> Recovery --new ACK--> Avoidance
///       ^                               |                            |
///       +----------- timeout -----------+------- timeout ------------+
/// ```
/// The condition `cwnd < ssthresh` separates slow start from avoidance; recovery needs its own flag because it
/// inflates the window.
#[derive(Clone, Debug)]
pub struct Congestion {
    cwnd: u64,
    ssthresh: u64,
    mss: u64,
    initial: u64,
    in_recovery: bool,
    reno: bool,
    restart: IdleRestart,
    /// A window larger than any the peer can offer, so that it never limits.
    unlimited: u64,
}

/// Larger than any window without scaling (64 KiB).
const UNSCALED: u64 = 1 << 20;
/// The largest window with scaling (RFC 7323, section 2.3).
const SCALED: u64 = 1 << 30;

impl Congestion {
    /// The window at the start of a connection. `slow` is false where a stack skips slow start on its own
    /// network.
    pub fn new(stack: &Stack, mss: u16, slow: bool) -> Congestion {
        let mss = u64::from(mss);
        let initial = u64::from(stack.initial_cwnd_segments) * mss;
        let unlimited = if stack.window_scale.is_some() {
            SCALED
        } else {
            UNSCALED
        };
        Congestion {
            cwnd: if slow { initial } else { unlimited },
            ssthresh: unlimited,
            unlimited,
            mss,
            initial,
            in_recovery: false,
            reno: stack.fast_recovery,
            restart: stack.idle_restart,
        }
    }

    /// The congestion window (cwnd): bytes that may be outstanding.
    pub fn window(&self) -> u64 {
        self.cwnd
    }

    /// The slow-start threshold (ssthresh), in bytes.
    pub fn threshold(&self) -> u64 {
        self.ssthresh
    }

    /// Changes the segment size once the peer's MSS is known; the window keeps its number of segments.
    pub fn set_mss(&mut self, mss: u16) {
        let mss = u64::from(mss);
        self.initial = self.initial / self.mss * mss;
        if self.cwnd < self.unlimited {
            self.cwnd = self.cwnd / self.mss * mss;
        }
        self.mss = mss;
    }

    /// Grows the window for an ACK of new data, or ends recovery.
    pub fn acked(&mut self) {
        if self.in_recovery {
            self.in_recovery = false;
            self.cwnd = self.ssthresh;
        } else if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + self.mss).min(self.unlimited);
        } else {
            self.cwnd = (self.cwnd + (self.mss * self.mss / self.cwnd).max(1)).min(self.unlimited);
        }
    }

    /// Enters loss recovery after `duplicates` duplicate ACKs with `flight` bytes outstanding: Reno's fast
    /// recovery, or Tahoe's slow start.
    pub fn fast_retransmit(&mut self, flight: u64, duplicates: u32) {
        self.halve(flight);
        if self.reno {
            self.in_recovery = true;
            self.cwnd = self.ssthresh + u64::from(duplicates) * self.mss;
        } else {
            self.cwnd = self.mss;
        }
    }

    /// Enters recovery after selective acknowledgments reported a loss with `flight` bytes outstanding. The
    /// window is not inflated, because the sender estimates the bytes in the network (RFC 6675's pipe). The
    /// next [`Congestion::acked`] ends recovery (RFC 6675, section 5).
    pub fn recover_selectively(&mut self, flight: u64) {
        self.halve(flight);
        self.in_recovery = true;
        self.cwnd = self.ssthresh;
    }

    /// A further duplicate ACK: during recovery it means that one more segment has left the network.
    pub fn duplicate(&mut self) {
        if self.in_recovery {
            self.cwnd += self.mss;
        }
    }

    /// The retransmission timer expired with `flight` bytes outstanding; `again` if it had expired for this
    /// data before.
    pub fn timed_out(&mut self, flight: u64, again: bool) {
        if !again {
            self.halve(flight);
        }
        self.in_recovery = false;
        self.cwnd = self.mss;
    }

    /// Window and threshold, for [`Congestion::restore`] after a spurious timeout.
    pub(crate) fn saved(&self) -> (u64, u64) {
        (self.cwnd, self.ssthresh)
    }

    /// Undoes the reduction by a spurious timeout, which lost nothing.
    pub(crate) fn restore(&mut self, (cwnd, ssthresh): (u64, u64)) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    /// The timeout was a real loss, found by the second ACK after it: the window becomes three segments (RFC
    /// 5682, section 2.1, step 3a).
    pub(crate) fn confirm_loss(&mut self) {
        self.cwnd = 3 * self.mss;
    }

    /// Applies the restart policy after sending nothing for `idle`, longer than `rto`. Returns the interval
    /// between segments if they are to be paced. Heidemann paces n packets seen in time t one per t/n; here n
    /// is the window and t the round-trip time.
    pub fn restart(&mut self, idle: Duration, rto: Duration, rtt: Option<Duration>) -> Option<Duration> {
        match self.restart {
            IdleRestart::Keep => {}
            IdleRestart::One => self.cwnd = self.cwnd.min(self.mss),
            IdleRestart::Initial => self.cwnd = self.cwnd.min(self.initial),
            IdleRestart::Decay => {
                self.ssthresh = self.ssthresh.max(self.cwnd * 3 / 4);
                let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(63) as u32;
                let floor = self.initial.min(self.cwnd);
                self.cwnd = (self.cwnd >> halvings).max(floor);
            }
            IdleRestart::Pace => {
                let segments = (self.cwnd / self.mss).max(1) as u32;
                return Some(rtt? / segments);
            }
        }
        None
    }

    fn halve(&mut self, flight: u64) {
        self.ssthresh = (flight / 2).max(2 * self.mss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bsd(restart: IdleRestart) -> Congestion {
        let mut stack = Stack::preset("4.4bsd").unwrap();
        stack.idle_restart = restart;
        Congestion::new(&stack, 1_000, true)
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one_segment_a_round() {
        let mut cc = bsd(IdleRestart::Keep);
        let round = |cc: &mut Congestion| (0..cc.window() / 1_000).for_each(|_| cc.acked());
        for want in [2_000, 4_000, 8_000] {
            round(&mut cc);
            assert_eq!(cc.window(), want);
        }
        cc.timed_out(8_000, false);
        assert_eq!((cc.window(), cc.threshold()), (1_000, 4_000));
        round(&mut cc);
        round(&mut cc);
        assert_eq!(cc.window(), 4_000);
        round(&mut cc);
        assert!((4_850..=5_000).contains(&cc.window()), "{}", cc.window());
    }

    #[test]
    fn recovery_inflates_and_deflates() {
        let mut cc = bsd(IdleRestart::Keep);
        (0..9).for_each(|_| cc.acked());
        cc.fast_retransmit(10_000, 3);
        assert_eq!(cc.window(), 8_000);
        cc.duplicate();
        assert_eq!(cc.window(), 9_000);
        cc.acked();
        assert_eq!(cc.window(), 5_000);
    }

    #[test]
    fn each_restart_policy_does_what_it_says() {
        let ms = Duration::from_millis;
        for (policy, want, pace) in [
            (IdleRestart::Keep, 16_000, None),
            (IdleRestart::One, 1_000, None),
            (IdleRestart::Initial, 1_000, None),
            (IdleRestart::Decay, 4_000, None),
            (IdleRestart::Pace, 16_000, Some(ms(5))),
        ] {
            let mut cc = bsd(policy);
            (0..15).for_each(|_| cc.acked());
            assert_eq!(cc.restart(ms(500), ms(200), Some(ms(80))), pace);
            assert_eq!(cc.window(), want, "{policy:?}");
        }
    }
}
