//! Controls the idle timeout: as configured, or shorter under memory pressure.
//!
//! Document 000 found that persistent connections cost a server more than they save once memory or the disk is the
//! bottleneck. The memory of idle connections is taken from the file cache, and closing them early brings it back. So
//! while files are evicted and read again, and connections hold a substantial part of memory, the timeout is divided.
//! Once the pressure has passed, it is restored step by step.
//!
//! ```text
//!            pressed twice                       pressed twice: divide again, to the least
//!   Free ───────────────────▶ Short { bound } ◀──┐
//!     ▲                            │   │ └───────┘
//!     └── bound is as configured ──┘   calm: multiply; pressed after that: remember the time, and double the patience for it
//! ```
//! Two rules keep it from oscillating. Memory is freed only seconds after connections are closed, so the timeout falls
//! to the least meanwhile. From there it rises quickly, but only to below the timeout that brought the pressure back.
//! That timeout is tried again ever more rarely.

use super::{Decision, Knob, Window};
use crate::config::show_duration;
use units::Duration;

/// Factor of each step: four steps from a minute to a quarter of a second.
const STEP: u32 = 4;
/// Shortest timeout: the objects of a page still arrive over one connection.
const LEAST: Duration = Duration::from_millis(250);
/// Number of windows in a row under pressure before the timeout is shortened: a single one may be the copy of a large
/// file.
const PRESSED_MIN: u32 = 2;
/// Number of calm windows (of a second) before a longer timeout is tried. A disk of a hundred reads a second needs this
/// long to bring back some of the files that memory has room for again. Calm before that proves nothing.
const PATIENCE: u32 = 30;
/// Largest patience for a timeout that did harm. Pressure within this many windows of a longer timeout is attributed to
/// it.
const PATIENCE_MAX: u32 = 320;
/// File pages per second read again after eviction, or major faults where refaults are not counted. Fewer occur with
/// any full cache: a disk of a hundred reads a second is at its limit with some 300 of them, and a server on such a
/// disk without memory pressure had 30 to 60.
const REFAULTS_MIN: f64 = 100.0;
/// Share of the time stalled on memory or disk below which there is no pressure.
const STALLED_MIN: f64 = 0.1;
/// Share of the memory limit that is in use when memory is short.
const FULL: f64 = 0.9;
/// Share of the memory limit that must be used by anything but files; otherwise closing connections would free little.
const HELD_MIN: f64 = 0.1;
/// With fewer connections than this, connections are not the cause of the pressure.
const OPEN_MIN: u32 = 16;

#[derive(Debug)]
pub(super) struct KeepAlive {
    configured: Duration,
    state: State,
    /// The timeout under which pressure returned; `None` once it has proved harmless.
    harmful: Option<Duration>,
    /// Number of calm windows before the harmful timeout is tried again.
    patience: u32,
}

#[derive(Debug)]
enum State {
    Free {
        /// Number of windows in a row under pressure.
        pressed: u32,
        /// Number of windows since the timeout was last lengthened.
        since: u32,
    },
    Short {
        bound: Duration,
        pressed: u32,
        calm: u32,
        /// Number of the calm windows in which memory was short but not because of connections.
        without: u32,
        since: u32,
    },
}

/// Memory in one window.
#[derive(Clone, Debug, PartialEq)]
enum Want {
    /// Memory is not short.
    None,
    /// Memory is short, but closing connections would not help.
    Elsewhere,
    /// Memory is short, and connections hold enough of it that closing them helps. Contains the reason with its
    /// numbers.
    Pressed(String),
}

impl KeepAlive {
    pub(super) fn new(configured: Duration) -> KeepAlive {
        KeepAlive {
            configured,
            state: State::Free {
                pressed: 0,
                since: u32::MAX,
            },
            harmful: None,
            patience: PATIENCE,
        }
    }

    /// The configured timeout.
    pub(super) fn configured(&self) -> Duration {
        self.configured
    }

    /// The timeout in force, if it differs from the configured one.
    pub(super) fn bound(&self) -> Option<Duration> {
        match self.state {
            State::Free { .. } => None,
            State::Short { bound, .. } => Some(bound),
        }
    }

    pub(super) fn look(&mut self, window: &Window) -> Option<Decision> {
        let want = want(window);
        let current = self.bound().unwrap_or(self.configured);
        let needed = self.needed(current);
        match (&mut self.state, want) {
            (State::Free { pressed, since }, Want::None | Want::Elsewhere) => {
                *pressed = 0;
                *since = since.saturating_add(1);
                None
            }
            (
                State::Short {
                    pressed,
                    calm,
                    without,
                    since,
                    ..
                },
                want @ (Want::None | Want::Elsewhere),
            ) => {
                *pressed = 0;
                *calm += 1;
                *without += u32::from(want == Want::Elsewhere);
                *since = since.saturating_add(1);
                let why = reason(*calm, *without);
                (*calm >= needed).then(|| self.lengthen(current, why))
            }
            (State::Free { pressed, since } | State::Short { pressed, since, .. }, Want::Pressed(why)) => {
                *pressed += 1;
                *since = since.saturating_add(1);
                let (enough, since) = (*pressed >= PRESSED_MIN, *since);
                if let State::Short { calm, without, .. } = &mut self.state {
                    (*calm, *without) = (0, 0);
                }
                (enough && current > LEAST).then(|| self.shorten(current, since, why))
            }
        }
    }

    /// Number of calm windows before the current timeout is lengthened.
    fn needed(&self, current: Duration) -> u32 {
        match self.harmful {
            Some(harmful) if current * STEP >= harmful => self.patience,
            _ => PATIENCE,
        }
    }

    fn shorten(&mut self, current: Duration, since: u32, why: String) -> Decision {
        if since <= PATIENCE_MAX {
            self.harmful = Some(current);
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
        }
        let bound = (current / STEP).max(LEAST);
        self.state = State::Short {
            bound,
            pressed: 0,
            calm: 0,
            without: 0,
            since: u32::MAX,
        };
        decision(current, bound, why)
    }

    fn lengthen(&mut self, current: Duration, why: String) -> Decision {
        let longer = current * STEP;
        let to = longer.min(self.configured);
        if self.harmful.is_some_and(|harmful| current >= harmful) {
            self.harmful = None;
        }
        self.state = if longer >= self.configured {
            State::Free { pressed: 0, since: 0 }
        } else {
            State::Short {
                bound: longer,
                pressed: 0,
                calm: 0,
                without: 0,
                since: 0,
            }
        };
        decision(current, to, why)
    }
}

/// The reason for a longer timeout. It does not claim that memory was sufficient if it was short for other causes.
fn reason(calm: u32, without: u32) -> String {
    match without {
        0 => format!("{calm} windows without memory pressure"),
        _ => format!(
            "{calm} windows in which connections did not fill memory; in {without} of them memory was short anyway, \
             with fewer than {OPEN_MIN} connections or less than {:.0} % of the limit used by anything but files",
            HELD_MIN * 100.0
        ),
    }
}

fn decision(from: Duration, to: Duration, why: String) -> Decision {
    Decision {
        knob: Knob::IdleTimeout,
        from: show_duration(from),
        to: show_duration(to),
        why,
    }
}

/// Whether memory is short, and whether closing connections would help.
fn want(window: &Window) -> Want {
    let Some(memory) = window.memory.as_ref().filter(|memory| memory.limit > 0) else {
        return Want::None;
    };
    let share = |bytes: u64| bytes as f64 / memory.limit as f64;
    let stalled = [window.memory_stalled, window.io_stalled]
        .into_iter()
        .flatten()
        .fold(0.0, f64::max);
    let (again, what) = match memory.refaults {
        Some(refaults) => (refaults, "file pages a second were evicted and read again"),
        None => (window.major_faults, "page faults a second waited for a disk"),
    };
    let held = memory.used.saturating_sub(memory.files);
    if share(memory.used) < FULL || again < REFAULTS_MIN || stalled < STALLED_MIN {
        return Want::None;
    }
    if share(held) < HELD_MIN || window.open < OPEN_MIN {
        return Want::Elsewhere;
    }
    Want::Pressed(format!(
        "{again:.0} {what}, {:.0} % of the time stalled on memory or disk, {:.0} % of {} MiB used, {:.0} % by anything \
         but files, {} connections",
        stalled * 100.0,
        share(memory.used) * 100.0,
        memory.limit >> 20,
        share(held) * 100.0,
        window.open
    ))
}

#[cfg(test)]
mod tests {
    use super::super::MemoryState;
    use super::*;

    fn calm() -> Window {
        Window {
            memory: Some(MemoryState {
                limit: 100 << 20,
                used: 95 << 20,
                files: 60 << 20,
                refaults: Some(10.0),
            }),
            memory_stalled: Some(0.0),
            io_stalled: Some(0.3),
            open: 300,
            ..Window::default()
        }
    }

    fn short() -> Window {
        let mut window = calm();
        window.memory.as_mut().unwrap().refaults = Some(4000.0);
        window
    }

    const LONG: Duration = Duration::from_secs(65);

    #[test]
    fn pressed_it_divides_down_to_the_least_and_stays() {
        let mut keep_alive = KeepAlive::new(LONG);
        assert_eq!(keep_alive.look(&short()), None, "a single window is not enough");
        assert_eq!(keep_alive.look(&calm()), None);
        let bounds: Vec<_> = (0..20)
            .filter_map(|_| keep_alive.look(&short()))
            .map(|decision| (decision.from, decision.to))
            .collect();
        let expected = [
            ("65s", "16250ms"),
            ("16250ms", "4062ms"),
            ("4062ms", "1015ms"),
            ("1015ms", "253ms"),
            ("253ms", "250ms"),
        ];
        let bounds: Vec<_> = bounds
            .iter()
            .map(|(from, to)| (from.as_str(), to.as_str()))
            .collect();
        assert_eq!(bounds, expected);
        assert_eq!(keep_alive.bound(), Some(LEAST));
    }

    #[test]
    fn calm_it_comes_back_and_is_then_as_configured() {
        let mut keep_alive = KeepAlive::new(Duration::from_secs(10));
        for _ in 0..4 {
            keep_alive.look(&short());
        }
        assert_eq!(keep_alive.bound(), Some(Duration::from_millis(625)));
        let changes = (0..2 * PATIENCE)
            .filter(|_| keep_alive.look(&calm()).is_some())
            .count();
        assert_eq!((changes, keep_alive.bound()), (2, None));
    }

    /// Memory that stays short after the connections are gone is not called calm.
    #[test]
    fn the_reason_for_more_time_does_not_deny_a_want_that_lasts() {
        let mut keep_alive = KeepAlive::new(LONG);
        assert!((0..2).any(|_| keep_alive.look(&short()).is_some()));
        let mut few = short();
        few.open = 3;
        let mut windows = (0..PATIENCE).map(|place| if place < 3 { few.clone() } else { calm() });
        let longer = windows
            .find_map(|window| keep_alive.look(&window))
            .expect("a decision");
        assert_eq!(longer.to, "65s");
        let part = "in 3 of them memory was short anyway, with fewer than 16 connections";
        assert!(longer.why.contains(part), "{}", longer.why);
        assert!(!longer.why.contains("without want"), "{}", longer.why);
        assert!((0..2).any(|_| keep_alive.look(&short()).is_some()));
        let longer = (0..2 * PATIENCE)
            .find_map(|_| keep_alive.look(&calm()))
            .expect("a decision");
        assert_eq!(
            longer.why,
            format!("{} windows without memory pressure", 2 * PATIENCE)
        );
    }

    /// A load that causes pressure whenever the timeout exceeds two seconds, and for ten seconds after that. Returns
    /// the window and the new timeout of each change.
    fn pressing_again(seconds: u32) -> Vec<(u32, Duration)> {
        let mut keep_alive = KeepAlive::new(LONG);
        let mut changes = Vec::new();
        let mut pressed_until = 0;
        for second in 0..seconds {
            if keep_alive.bound().unwrap_or(LONG) > Duration::from_secs(2) {
                pressed_until = second + 10;
            }
            let window = if second < pressed_until { short() } else { calm() };
            if keep_alive.look(&window).is_some() {
                changes.push((second, keep_alive.bound().unwrap_or(LONG)));
            }
        }
        changes
    }

    #[test]
    fn a_load_that_presses_again_is_tried_ever_more_rarely() {
        let changes = pressing_again(2000);
        let in_the_end = changes.iter().filter(|(second, _)| *second >= 1000).count();
        assert!(
            in_the_end <= 16,
            "{in_the_end} changes in 1000 seconds: {changes:?}"
        );
        assert!(
            changes.iter().any(|(second, _)| *second >= 500),
            "it goes on trying: {changes:?}"
        );
    }

    /// Between tries, the timeout is the longest harmless one, not the least.
    #[test]
    fn what_does_no_harm_is_allowed_between_the_tries() {
        let changes = pressing_again(2000);
        let mut at_best = 0;
        for pair in changes.windows(2) {
            let ((from, bound), (to, _)) = (pair[0], pair[1]);
            if bound > LEAST * 2 && bound < Duration::from_secs(2) {
                at_best += to - from;
            }
        }
        assert!(
            at_best > 1333,
            "less than two thirds: {at_best} of 2000 seconds: {changes:?}"
        );
    }

    /// A timeout that did harm once may be harmless later.
    #[test]
    fn a_time_that_no_longer_does_harm_is_forgotten() {
        let mut keep_alive = KeepAlive::new(LONG);
        let mut look = |window: Window, windows: u32| {
            (0..windows).for_each(|_| drop(keep_alive.look(&window)));
            (keep_alive.bound(), keep_alive.harmful)
        };
        let tried = LEAST * STEP * STEP * STEP;
        look(short(), 10);
        assert_eq!(look(calm(), 3 * PATIENCE), (Some(tried), None));
        assert_eq!(look(short(), 2), (Some(tried / STEP), Some(tried)));
        assert_eq!(look(calm(), 2 * PATIENCE).0, Some(tried));
        assert_eq!(look(calm(), 2 * PATIENCE), (Some(tried * STEP), None));
    }

    /// Control groups of version 1 may not count refaults; the reason then speaks of faults.
    #[test]
    fn the_reason_names_what_was_counted() {
        let why = |window: &Window| match want(window) {
            Want::Pressed(why) => why,
            other => panic!("{other:?}"),
        };
        let counted = why(&short());
        assert!(
            counted.starts_with("4000 file pages a second were evicted"),
            "{counted}"
        );
        let mut window = short();
        window.memory.as_mut().unwrap().refaults = None;
        window.major_faults = 250.0;
        let faults = why(&window);
        assert!(
            faults.starts_with("250 page faults a second waited for a disk, 30 %"),
            "{faults}"
        );
        assert!(!faults.contains("evicted"), "{faults}");
    }

    #[test]
    fn nothing_is_done_where_it_would_not_help() {
        let spoilt: [fn(&mut Window); 6] = [
            |window| window.memory = None,
            |window| window.open = 3,
            |window| window.io_stalled = None,
            |window| window.memory.as_mut().unwrap().files = 90 << 20,
            |window| window.memory.as_mut().unwrap().used = 70 << 20,
            |window| window.memory.as_mut().unwrap().refaults = None,
        ];
        for (number, spoil) in spoilt.into_iter().enumerate() {
            let mut window = short();
            spoil(&mut window);
            let mut keep_alive = KeepAlive::new(LONG);
            assert!((0..10).all(|_| keep_alive.look(&window).is_none()), "{number}");
        }
    }
}
