//! Parses records of a perf ring: samples of the two tracepoints, context switches, ends of threads, losses. Pure.
//! Layout: perf_event_open(2); the tracepoints' own part as described by their `format` files.

use super::{Event, What};
use units::Instant;

const LOST: u32 = 2;
const EXIT: u32 = 4;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 14;
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// Type, flags, size.
const HEADER: usize = 8;
/// Process, thread, time: at the end of every record that is not a sample.
const TRAILER: usize = 16;

/// Numbers of the tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) enter: u64,
    pub(super) exit: u64,
}

/// Parses the whole records at the front of `bytes` and returns their length in bytes; adds dropped records to `lost`.
pub(super) fn read(bytes: &[u8], ids: Ids, events: &mut Vec<Event>, lost: &mut u64) -> usize {
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + HEADER) {
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let flags = u16::from_ne_bytes([header[4], header[5]]);
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        let Some(body) = bytes.get(at + HEADER..at + size) else {
            break;
        };
        match kind {
            SAMPLE => events.extend(sample(body, ids)),
            SWITCH => events.extend(trailer(body, switched(flags))),
            EXIT => events.extend(ended(body)),
            LOST => *lost += word(body, 8).unwrap_or(0),
            _ => {}
        }
        at += size.max(HEADER);
    }
    at
}

fn sample(body: &[u8], ids: Ids) -> Option<Event> {
    // Process, thread, time, size of the rest, the rest.
    let raw = body.get(20..)?;
    let kind = u64::from(u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?));
    let what = if kind == ids.enter {
        What::Enter {
            call: word(raw, 8)?,
            arguments: [word(raw, 16)?, word(raw, 24)?],
        }
    } else if kind == ids.exit {
        What::Exit {
            result: word(raw, 16)? as i64,
        }
    } else {
        return None;
    };
    event(body, what)
}

fn switched(flags: u16) -> What {
    match flags & SWITCH_OUT {
        0 => What::On,
        _ => What::Off {
            preempted: flags & SWITCH_OUT_PREEMPT != 0,
        },
    }
}

/// A thread's end: its process and thread come first, its time after two more numbers; the trailer describes the thread
/// that wrote the record.
fn ended(body: &[u8]) -> Option<Event> {
    Some(Event {
        process: half(body, 0)?,
        thread: half(body, 8)?,
        at: Instant::from_nanos(word(body, 16)?),
        ran: None,
        what: What::Gone,
    })
}

fn trailer(body: &[u8], what: What) -> Option<Event> {
    event(body.get(body.len().checked_sub(TRAILER)?..)?, what)
}

fn event(front: &[u8], what: What) -> Option<Event> {
    Some(Event {
        process: half(front, 0)?,
        thread: half(front, 4)?,
        at: Instant::from_nanos(word(front, 8)?),
        ran: None,
        what,
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: Ids = Ids {
        enter: 443,
        exit: 442,
    };

    fn record(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let size = (HEADER + body.len()) as u16;
        let header = [&kind.to_ne_bytes()[..], &flags.to_ne_bytes(), &size.to_ne_bytes()];
        [&header.concat(), body].concat()
    }

    fn front(process: u32, thread: u32, at: u64) -> Vec<u8> {
        [
            &process.to_ne_bytes()[..],
            &thread.to_ne_bytes(),
            &at.to_ne_bytes(),
        ]
        .concat()
    }

    fn raw(kind: u16, words: &[u64]) -> Vec<u8> {
        let mut raw = [&kind.to_ne_bytes()[..], &[0; 6]].concat();
        raw.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        [&(raw.len() as u32).to_ne_bytes()[..], &raw].concat()
    }

    fn all() -> Vec<u8> {
        let words = [front(9, 10, 80), vec![0; 8]].concat();
        [
            record(
                SAMPLE,
                0,
                &[front(7, 8, 50), raw(443, &[3, 11, 12, 0, 0, 0, 0])].concat(),
            ),
            record(
                SAMPLE,
                0,
                &[front(7, 8, 60), raw(442, &[3, -11i64 as u64])].concat(),
            ),
            record(SAMPLE, 0, &[front(7, 8, 60), raw(5, &[1, 1])].concat()),
            record(SWITCH, SWITCH_OUT | SWITCH_OUT_PREEMPT, &front(7, 8, 65)),
            record(SWITCH, SWITCH_OUT, &front(7, 8, 66)),
            record(SWITCH, 0, &front(7, 8, 70)),
            record(LOST, 0, &words),
            record(77, 0, &[1; 24]),
            record(
                EXIT,
                0,
                &[
                    &7u32.to_ne_bytes()[..],
                    &1u32.to_ne_bytes(),
                    &8u32.to_ne_bytes(),
                    &1u32.to_ne_bytes(),
                    &90u64.to_ne_bytes(),
                    &front(7, 8, 90),
                ]
                .concat(),
            ),
        ]
        .concat()
    }

    #[test]
    fn each_record_is_what_it_says() {
        let bytes = all();
        let (mut events, mut lost) = (Vec::new(), 0);
        assert_eq!(read(&bytes, IDS, &mut events, &mut lost), bytes.len());
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.at.as_nanos(), event.what))
            .collect();
        let enter = What::Enter {
            call: 3,
            arguments: [11, 12],
        };
        assert_eq!(
            seen,
            [
                (50, enter),
                (60, What::Exit { result: -11 }),
                (65, What::Off { preempted: true }),
                (66, What::Off { preempted: false }),
                (70, What::On),
                (90, What::Gone),
            ]
        );
        assert!(events.iter().all(|event| (event.process, event.thread) == (7, 8)));
        assert_eq!(lost, 80, "the second word of the record");
    }

    #[test]
    fn a_record_that_is_not_whole_waits_and_nonsense_ends() {
        let bytes = all();
        for cut in 0..bytes.len() {
            let (mut events, mut lost) = (Vec::new(), 0);
            let taken = read(&bytes[..cut], IDS, &mut events, &mut lost);
            assert!(taken <= cut);
            read(&bytes[taken..], IDS, &mut events, &mut lost);
            assert_eq!((events.len(), lost), (6, 80), "{cut}");
        }
        // A size of zero must not loop forever.
        let (mut events, mut lost) = (Vec::new(), 0);
        read(&[0; 64], IDS, &mut events, &mut lost);
        assert!(events.is_empty());
        for kind in [SAMPLE, SWITCH, EXIT, LOST] {
            read(&record(kind, 0, &[1, 2, 3]), IDS, &mut events, &mut lost);
        }
        assert!(events.is_empty());
    }
}
