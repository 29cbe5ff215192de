//! Users against a simulated server in virtual time: the bytes they send, and what the record counts.

mod carrier;
mod rehearsal;

use super::*;
use crate::arrivals::{Arrivals, Process, Schedule};
use crate::connections::of_session;
use crate::record::LeftOut;
use crate::request_source::{RequestSource, Step};
use crate::times::Times;
use crate::work::Work;
use client::plan::Mode;
use client::session::OUTSTANDING_MAX;
use rehearsal::{
    GOOD, Rehearsal, Server, rehearse, rehearse_as, rehearse_still, rehearse_stopped, rehearse_unseen,
    rehearse_with, setup,
};
use units::Seed;

/// Skipped content counts like inspected content, in every mode.
#[test]
fn content_that_is_not_looked_at_is_counted() {
    for mode in [Mode::Http10, Mode::Serial, Mode::Pipelined, Mode::EarlyClose] {
        let play = |unseen_from| rehearse_unseen(unseen_from, 1, mode, script(&[3, 12, 1], 2), GOOD);
        let (seen, unseen) = (play(u64::MAX), play(1));
        assert_eq!((seen.skipped, unseen.skipped > 0), (0, true), "{mode:?}");
        assert_eq!(unseen.sent, seen.sent, "{mode:?}");
        assert_eq!(unseen.closed, seen.closed, "{mode:?}");
        let counted = |played: &Rehearsal| {
            let record = played.crew.ledger.measured();
            (
                record.files,
                record.bytes,
                record.bytes_received,
                record.files_failed,
            )
        };
        assert_eq!(counted(&unseen), counted(&seen), "{mode:?}");
        assert!(seen.crew.ledger.measured().files > 10);
    }
}

/// A user with objects of these numbers of files, in sessions of `session` objects, OFF for 100 ms after each.
fn script(objects: &[u32], session: usize) -> Model {
    let mut file = 0;
    let mut steps = Vec::new();
    for (number, &files) in objects.iter().enumerate() {
        for position in 0..files {
            let ends = position + 1 == files;
            steps.push(Step {
                file: file % 100,
                begins: position == 0,
                last: ends && (number + 1).is_multiple_of(session),
                off: if ends {
                    Duration::from_millis(100)
                } else {
                    Duration::ZERO
                },
            });
            file += 1;
        }
    }
    let steps = steps.into();
    Model::Closed(vec![(
        Duration::from_millis(10),
        RequestSource::Script { steps, next: 0 },
    )])
}

fn pieces(rehearsal: &Rehearsal) -> Vec<(u64, String)> {
    rehearsal
        .sent
        .iter()
        .map(|(_, _, number, targets)| (*number, targets.join(" ")))
        .collect()
}

fn wanted(pieces: &[(u64, &str)]) -> Vec<(u64, String)> {
    pieces
        .iter()
        .map(|&(number, text)| (number, text.to_owned()))
        .collect()
}

/// The table of protocol modes, byte for byte: two objects of 3 files and one of 1, in sessions of 2 objects.
#[test]
fn modes_send_what_the_document_says() {
    for (mode, expected) in [
        (
            Mode::Http10,
            &[
                (1, "/0"),
                (2, "/1"),
                (3, "/2"),
                (4, "/3"),
                (5, "/4"),
                (6, "/5"),
                (7, "/6"),
            ][..],
        ),
        (
            Mode::Serial,
            &[
                (1, "/0"),
                (1, "/1"),
                (1, "/2"),
                (1, "/3"),
                (1, "/4"),
                (1, "/5"),
                (2, "/6"),
            ],
        ),
        (
            Mode::Pipelined,
            &[(1, "/0"), (1, "/1 /2"), (1, "/3"), (1, "/4 /5"), (2, "/6")],
        ),
        (
            Mode::EarlyClose,
            &[(1, "/0"), (1, "/1 /2"), (2, "/3"), (2, "/4 /5"), (3, "/6")],
        ),
    ] {
        let server = Server {
            answers: if mode == Mode::Http10 { 1 } else { usize::MAX },
            ..GOOD
        };
        let played = rehearse(mode, script(&[3, 3, 1], 2), server);
        assert_eq!(pieces(&played), wanted(expected), "{mode:?}");
        let record = played.crew.ledger.measured();
        assert_eq!(
            (record.objects, record.files, record.errors()),
            (3, 7, 0),
            "{mode:?}"
        );
        assert_eq!(
            record.connections,
            of_session(mode, &[3, 3]) + of_session(mode, &[1]),
            "{mode:?}"
        );
    }
}

/// With two connections the page comes alone, and its embedded files alternate between both.
#[test]
fn several_connections_share_what_a_page_embeds() {
    for (mode, expected, connections) in [
        (
            Mode::Serial,
            &[
                (1, "/0"),
                (1, "/1"),
                (2, "/2"),
                (1, "/3"),
                (2, "/4"),
                (1, "/5"),
                (1, "/6"),
                (2, "/7"),
                (3, "/8"),
            ][..],
            3,
        ),
        (
            Mode::Pipelined,
            &[
                (1, "/0"),
                (1, "/1 /3"),
                (2, "/2 /4"),
                (1, "/5"),
                (1, "/6"),
                (2, "/7"),
                (3, "/8"),
            ],
            3,
        ),
        (
            Mode::EarlyClose,
            &[
                (1, "/0"),
                (2, "/1 /3"),
                (3, "/2 /4"),
                (4, "/5"),
                (5, "/6"),
                (6, "/7"),
                (7, "/8"),
            ],
            7,
        ),
    ] {
        let played = rehearse_with(2, mode, script(&[5, 3, 1], 2), GOOD);
        assert_eq!(pieces(&played), wanted(expected), "{mode:?}");
        let record = played.crew.ledger.measured();
        assert_eq!(
            (record.objects, record.files, record.errors()),
            (3, 9, 0),
            "{mode:?}"
        );
        assert_eq!(record.connections, connections, "{mode:?}");
        assert_eq!(played.crew.active, 0);
    }
    let server = Server { answers: 1, ..GOOD };
    let played = rehearse_with(2, Mode::Http10, script(&[5], 1), server);
    assert_eq!(
        (
            played.crew.ledger.measured().connections,
            played.crew.ledger.measured().files
        ),
        (5, 5)
    );
    // One connection behaves as without lanes; two are faster.
    let time = |lanes| {
        let played = rehearse_with(lanes, Mode::Serial, script(&[9], 1), GOOD);
        played.recorded().object.summary().max.expect("a time")
    };
    assert!(time(2) < 0.7 * time(1), "{} {}", time(2), time(1));
}

/// Nothing hangs and everything is counted once, whatever fails.
#[test]
fn several_connections_survive_a_bad_server() {
    for server in [
        Server { answers: 2, ..GOOD },
        Server {
            answers: 2,
            says: true,
            ..GOOD
        },
        Server {
            refuses: true,
            ..GOOD
        },
        Server { hangs: 0, ..GOOD },
    ] {
        for mode in [Mode::Serial, Mode::Pipelined, Mode::EarlyClose] {
            for lanes in 1..5 {
                let played = rehearse_with(lanes, mode, script(&[5, 1, 4], 2), server);
                let record = played.crew.ledger.measured();
                let all = record.files + record.files_failed;
                assert!(all <= 10, "{mode:?} {lanes}: {all}");
                assert_eq!(record.objects_begun, 3, "{mode:?} {lanes}");
                if !server.refuses && server.hangs > 0 {
                    assert_eq!((record.files, record.objects), (10, 3), "{mode:?} {lanes}");
                } else {
                    assert_eq!((record.files_failed, record.objects), (10, 0), "{mode:?} {lanes}");
                }
            }
        }
    }
}

/// Early close closes the connection before the OFF time; a session keeps it until after its last OFF time.
#[test]
fn connections_close_before_or_after_the_off_time() {
    let early = rehearse(Mode::EarlyClose, script(&[1, 1], 2), GOOD);
    // Begun at 10 ms of second 5, answered 2 ms later.
    assert_eq!(early.closed[0], (5_012, 1));
    let kept = rehearse(Mode::Serial, script(&[1, 1], 1), GOOD);
    assert_eq!(kept.closed[0], (5_112, 1));
}

#[test]
fn times_begin_where_the_original_looks_at_its_clock() {
    let record = rehearse(Mode::Pipelined, script(&[3], 1), GOOD).recorded();
    // The base file from before the connect, the others from the end of the file before: 2 ms each.
    let ms = |times: &crate::times::Times| (times.summary().max.expect("a time") * 10.0).round() / 10.0;
    assert_eq!((ms(&record.service), record.service.count()), (2.0, 3));
    assert_eq!(ms(&record.object), 6.0);
    assert_eq!((ms(&record.connect), record.connect.count()), (1.0, 1));
    assert_eq!(ms(&record.lag), 0.0);
}

#[test]
fn what_a_closing_server_left_is_asked_for_again() {
    for says in [false, true] {
        let server = Server {
            answers: 3,
            says,
            ..GOOD
        };
        let played = rehearse(Mode::Pipelined, script(&[6], 1), server);
        let expected = [(1, "/0"), (1, "/1 /2 /3 /4 /5"), (2, "/3 /4 /5")];
        assert_eq!(pieces(&played), wanted(&expected), "says: {says}");
        let record = played.crew.ledger.measured();
        assert_eq!(
            (record.files, record.files_failed, record.resent, record.errors()),
            (6, 0, 3, 0)
        );
        assert_eq!(
            (record.connections, record.closed_by_server),
            // The second connection has its three responses as well, and is closed while the user sleeps.
            (2, 2),
            "says: {says}"
        );
    }
}

/// A truncated response is one failed file, whether the server closes or resets; requests behind it are repeated; all counts agree.
#[test]
fn a_reply_cut_short_is_a_file_that_failed() {
    for resets in [false, true] {
        let server = Server {
            cuts: 3,
            resets,
            ..GOOD
        };
        let played = rehearse(Mode::Pipelined, script(&[6], 1), server);
        let expected = [(1, "/0"), (1, "/1 /2 /3 /4 /5"), (2, "/3 /4 /5")];
        assert_eq!(pieces(&played), wanted(&expected));
        let counted = |record: &Record| {
            [
                record.files,
                record.files_failed,
                record.count(Trouble::Truncated),
                record.closed_by_server,
                record.resent,
                record.connections,
                record.objects,
            ]
        };
        assert_eq!(
            counted(played.crew.ledger.measured()),
            [4, 2, 2, 2, 3, 2, 0],
            "{resets}"
        );
        assert_eq!(played.crew.ledger.measured().errors(), 2);
        let held = played.crew.ledger.measured().held.count();
        assert_eq!(held, 2, "both kept their client from sending");
        for mode in [Mode::Http10, Mode::Serial, Mode::EarlyClose] {
            let server = Server {
                cuts: 1,
                resets,
                ..GOOD
            };
            let played = rehearse(mode, script(&[2, 1], 1), server);
            assert_eq!(
                counted(played.crew.ledger.measured()),
                [0, 3, 3, 3, 0, 3, 0],
                "{mode:?} {resets}"
            );
        }
    }
}

/// At the end of the grace period, each request under way counts as longer than all others, not each object.
#[test]
fn all_requests_of_an_object_that_never_completed_count() {
    let server = Server { hangs: 2, ..GOOD };
    let patient = Setup {
        timeout: Duration::from_secs(60),
        ..setup(Mode::Pipelined)
    };
    let record = rehearse_as(patient, script(&[6], 1), server).recorded();
    assert_eq!((record.files, record.files_failed, record.unfinished), (2, 0, 1));
    assert_eq!(record.lost_files(Duration::ZERO).count, 4);
}

/// An object that is pending at the end is in the decile of its size, as one that failed.
#[test]
fn objects_that_never_completed_are_in_their_decile() {
    let mut work = Work::of_paths((0..100).map(|n| format!("/{n}")));
    for file in &mut work.files {
        file.bytes = Some(file.path.len() as u64);
    }
    work.deciles = (1..=10).map(|n| 4 * n).collect();
    let work = Arc::new(work);
    for lanes in [1, 2] {
        let patient = Setup {
            work: Arc::clone(&work),
            timeout: Duration::from_secs(60),
            lanes,
            ..setup(Mode::Serial)
        };
        // The object of six files has 12 bytes and its page only.
        let server = Server { hangs: 2, ..GOOD };
        let record = rehearse_as(patient, script(&[1, 6], 2), server).recorded();
        assert_eq!((record.objects, record.unfinished), (1, 1), "{lanes}");
        assert_eq!(record.deciles[0].count(), 1, "{lanes}");
        assert_eq!(record.deciles_failed, [0, 0, 1, 0, 0, 0, 0, 0, 0, 0], "{lanes}");
    }
}

/// Unrequested data breaks HTTP, unless it announces a close.
#[test]
fn what_nobody_asked_for_is_no_good_reply() {
    let played = |babbles| rehearse(Mode::Serial, script(&[1, 1], 2), Server { babbles, ..GOOD }).recorded();
    let record = played(b"EXTRA");
    assert_eq!((record.files, record.count(Trouble::Protocol)), (2, 2));
    assert_eq!((record.connections, record.closed_by_server), (2, 0));
    let breach = record.breach.expect("what was seen");
    assert_eq!(&*breach.seen, "EXT");
    assert_eq!(breach.at_ns, 13_000_000, "a millisecond after the first answer");
    let record = played(b"HTTP/1.1 408 Request Timeout\r\n\r\n");
    assert_eq!(
        (record.files, record.errors(), record.closed_by_server),
        (2, 0, 2)
    );
    assert_eq!(record.breach, None);
}

#[test]
fn a_batch_beyond_the_bound_is_topped_up() {
    let played = rehearse(Mode::Pipelined, script(&[90], 1), GOOD);
    assert_eq!(played.crew.ledger.measured().files, 90);
    assert_eq!(played.sent[1].3.len(), OUTSTANDING_MAX);
    let all: usize = played.sent.iter().map(|sent| sent.3.len()).sum();
    assert_eq!(all, 90);
}

#[test]
fn a_server_that_answers_nothing_costs_a_bounded_number_of_tries() {
    let refused = rehearse(
        Mode::Serial,
        script(&[2, 2], 1),
        Server {
            refuses: true,
            ..GOOD
        },
    );
    let record = refused.crew.ledger.measured();
    assert_eq!(
        (record.count(Trouble::Connect), record.files_failed, record.files),
        (2, 4, 0)
    );
    assert_eq!(
        (record.connections, record.established),
        (0, 0),
        "none was opened"
    );
    assert_eq!(record.connects_failed, 2);
    let silent = rehearse(Mode::Serial, script(&[2, 2], 1), Server { hangs: 0, ..GOOD });
    let record = silent.crew.ledger.measured();
    assert_eq!((record.count(Trouble::Timeout), record.files_failed), (2, 4));
    assert_eq!(record.connects_failed, 0, "they were open");
    let deaf = Server { drops: true, ..GOOD };
    let record = rehearse(Mode::Serial, script(&[2, 2], 1), deaf).recorded();
    assert_eq!((record.count(Trouble::Timeout), record.connects_failed), (2, 2));
    // One that is still opening at the end.
    let patient = Setup {
        timeout: Duration::from_secs(60),
        ..setup(Mode::Serial)
    };
    let mut played = rehearse_as(patient, script(&[1], 1), deaf);
    // Events of the turn that ended the run count nothing again: the user's own timer, and a request to stop.
    let late = played.now + Duration::from_secs(60);
    let woken = Happened::Woken(late);
    dial::Crew::handle(&mut played.crew, FIRST, woken, &mut played.port, late);
    dial::Crew::stop(&mut played.crew, &mut played.port, late);
    let record = played.recorded();
    assert_eq!((record.unfinished, record.connects_failed), (1, 1));
    assert_eq!((record.files_failed, record.errors()), (0, 0));
    // Closed before every response: one error, when the file is given up. Reset every time: one error each time.
    for (resets, counts) in [(false, [0, 1]), (true, [4, 0])] {
        let closing = Server {
            shuts: Some(resets),
            ..GOOD
        };
        let closing = rehearse(Mode::Serial, script(&[1], 1), closing);
        let record = closing.crew.ledger.measured();
        let counted = [Trouble::Lost, Trouble::Unanswered].map(|trouble| record.count(trouble));
        assert_eq!((counted, record.errors()), (counts, counts[0] + counts[1]));
        assert_eq!(
            (record.files_failed, record.resent, record.connections),
            (1, 3, 4)
        );
        assert_eq!((record.closed_by_server, record.in_time.errors), (4, 4));
    }
}

#[test]
fn clients_never_sleep() {
    let turn = RequestSource::Turn {
        order: [0, 1, 2].into(),
        next: 1,
        stride: 1,
    };
    let played = rehearse(Mode::Serial, Model::Closed(vec![(Duration::ZERO, turn)]), GOOD);
    let record = played.crew.ledger.measured();
    // 2 s at 2 ms per file.
    assert_eq!((record.files, record.connections), (1000, 1));
    assert_eq!(played.sent[0].3, ["/1"]);
    assert_eq!(played.sent[2].3, ["/0"]);
    // One timer every 500 ms checks for progress, not one per request.
    assert!(played.set <= 8, "{} alarms", played.set);
}

/// A stopped thread is late in every model: users without think time set no timer that would show it.
#[test]
fn a_thread_that_stands_still_is_late_in_every_model() {
    let clients = || Model::Closed(vec![(Duration::ZERO, one_object())]);
    let users = || script(&[1; 30], 30);
    let arrivals = || Model::Open {
        arrivals: Arrivals::new(Process::Constant, &Schedule::constant(1000.0), Seed(1), 0, 1),
        source: one_object(),
        lines_max: 10,
    };
    for (name, model) in [
        ("clients", &clients as &dyn Fn() -> Model),
        ("users", &users),
        ("arrivals", &arrivals),
    ] {
        let ticks = |still| {
            let played = rehearse_still(still, setup(Mode::Serial), model(), GOOD);
            played.recorded().tick.summary()
        };
        // Two seconds have 199 ticks after their start.
        let (punctual, late) = (ticks(None), ticks(Some((701, 900))));
        assert_eq!((punctual.count, punctual.max), (199, Some(0.0)), "{name}");
        // Ticks due at 710 to 890 ms are late by their distance to 900 ms.
        assert_eq!(
            (late.count, late.max.map(f64::round)),
            (199, Some(190.0)),
            "{name}"
        );
        assert!(
            (late.mean * 199.0 / 1900.0 - 1.0).abs() < 0.01,
            "{name}: {late:?}"
        );
        // No lateness is lost if the run ends meanwhile, and no tick after the end counts.
        let late = ticks(Some((1801, 2500)));
        assert_eq!(
            (late.count, late.max.map(f64::round)),
            (199, Some(690.0)),
            "{name}"
        );
    }
}

/// A request times out when it should, even if no timer was set for it.
#[test]
fn a_connection_that_falls_silent_is_given_up_in_time() {
    let turn = RequestSource::Turn {
        order: [0].into(),
        next: 0,
        stride: 1,
    };
    // The 101st request is sent 200 ms after the start, while the timer of the first is still set.
    let server = Server { hangs: 100, ..GOOD };
    let played = rehearse(Mode::Serial, Model::Closed(vec![(Duration::ZERO, turn)]), server);
    let second: Vec<u64> = played
        .sent
        .iter()
        .filter(|sent| sent.2 == 2)
        .map(|sent| sent.0)
        .collect();
    assert_eq!(second[0], 5_000 + 200 + 500 + 100, "patience, then a pause");
    let record = played.recorded();
    assert_eq!(record.count(Trouble::Timeout), 3);
    // Each failure is recorded with its time, in its second, and with its path.
    assert_eq!((record.files_failed, record.failed.count()), (3, 3));
    assert_eq!(record.failed.quantile(0.3).as_millis(), 500);
    assert_eq!(record.seconds.iter().map(|second| second.failed).sum::<u64>(), 3);
    // Nothing completes in the last second.
    assert!(record.seconds[2].failed == 1 && record.seconds[2].files == 0);
    assert!(record.examples.contains_key(&Trouble::Timeout));
    // It was pending when the second began.
    assert_eq!(record.seconds[1].under_way, 1);
    // It kept its client from sending for that time and the pause after it, but not beyond the end of the run.
    assert_eq!(
        (record.held.count(), record.unfinished, record.waited.count()),
        (3, 0, 0)
    );
    assert_eq!(record.held.quantile(0.6).as_millis(), 600);
    let total = record.held.total_ns() / 1e6;
    // 600 ms twice, and the last 200 ms of the run.
    assert!((total - 1400.0).abs() < 3.0, "{total}");
}

/// Objects pending at the end of the grace period count with the time they waited, and with the part of it in which
/// their clients would have sent requests.
#[test]
fn what_is_never_complete_was_awaited_until_patience_ended() {
    let turn = || RequestSource::Turn {
        order: [0].into(),
        next: 0,
        stride: 1,
    };
    let clients = || Model::Closed(vec![(Duration::ZERO, turn()), (Duration::ZERO, turn())]);
    for (warmup, held_ms) in [(0, 1799), (400, 1600)] {
        let patient = Setup {
            timeout: Duration::from_secs(60),
            warmup: Duration::from_millis(warmup),
            ..setup(Mode::Serial)
        };
        // No response from 200 ms on; the run ends after 2 s and the grace period after 3 s.
        let server = Server { hangs: 100, ..GOOD };
        let record = rehearse_as(patient, clients(), server).recorded();
        assert_eq!(
            (record.unfinished, record.waited.count(), record.held.count()),
            (2, 2, 2)
        );
        let near =
            |time: Duration, ms: u64| assert!(time.as_millis().abs_diff(ms.into()) <= 3, "{time:?} {ms}");
        near(record.held.quantile(1.0), held_ms);
        near(record.waited.quantile(1.0), held_ms + 1000);
    }
    // Several connections of a user have one object in progress.
    let server = Server { hangs: 2, ..GOOD };
    let patient = Setup {
        timeout: Duration::from_secs(60),
        lanes: 2,
        ..setup(Mode::Serial)
    };
    let played = rehearse_as(patient, script(&[9], 1), server);
    let active = played.crew.active;
    let record = played.recorded();
    assert_eq!((active, record.unfinished, record.waited.count()), (1, 1, 1));
}

#[test]
fn arrivals_do_not_wait_for_answers() {
    let open = |lines_max| Model::Open {
        arrivals: Arrivals::new(Process::Constant, &Schedule::constant(1000.0), Seed(1), 0, 1),
        source: RequestSource::Turn {
            order: [0].into(),
            next: 0,
            stride: 1,
        },
        lines_max,
    };
    let enough = rehearse(Mode::Serial, open(10), GOOD).recorded();
    assert_eq!((enough.objects, enough.dropped), (2000, 0));
    assert!(enough.connections <= 4, "{}", enough.connections);
    assert!(
        enough.response.summary().max < Some(3.1),
        "{:?}",
        enough.response.summary()
    );
    // One connection serves 500 requests a second: the rest waits, which shows in response times, not in service times.
    let few = rehearse(Mode::Serial, open(1), GOOD).recorded();
    assert!(few.service.summary().max < Some(3.1));
    assert!(
        few.response.summary().max > Some(900.0),
        "{:?}",
        few.response.summary()
    );
    assert!(
        (999..=1001).contains(&few.objects) && few.objects + few.dropped == 2000,
        "{} {}",
        few.objects,
        few.dropped
    );
}

/// Object 0, repeated.
fn one_object() -> RequestSource {
    RequestSource::Turn {
        order: [0].into(),
        next: 0,
        stride: 1,
    }
}

/// Events due in the warm-up are left out and counted, whenever they end.
#[test]
fn a_warm_up_is_left_out_of_every_figure() {
    let warm = |ms| Setup {
        warmup: Duration::from_millis(ms),
        ..setup(Mode::Serial)
    };
    let open = || Model::Open {
        arrivals: Arrivals::new(Process::Constant, &Schedule::constant(1000.0), Seed(1), 0, 1),
        source: one_object(),
        lines_max: 10,
    };
    let whole = rehearse_as(warm(0), open(), GOOD).recorded();
    let later = rehearse_as(warm(500), open(), GOOD).recorded();
    assert_eq!((whole.files, whole.left_out), (2000, LeftOut::default()));
    assert_eq!((later.files, later.left_out.files), (1500, 500));
    assert_eq!((later.objects_begun, later.left_out.objects_begun), (1500, 500));
    assert_eq!((later.objects, later.left_out.objects), (1500, 500));
    for times in [
        &later.response,
        &later.service,
        &later.object,
        &later.lag,
        &later.transfer,
    ] {
        assert_eq!(times.count(), 1500);
    }
    // The connections were opened earlier, and stay open through the rest of the run.
    assert_eq!((later.connect.count(), later.connections), (0, 0));
    assert!(later.established > 0 && later.established <= whole.connections);
    assert_eq!(
        later.seconds[0].begun, 1000,
        "the series begins where measuring does"
    );
    assert_eq!(later.seconds[1].begun, 500);
    // One connection for 500 requests a second: requests due in the warm-up are sent long after it, and still left out.
    let few = Model::Open {
        arrivals: Arrivals::new(Process::Constant, &Schedule::constant(1000.0), Seed(1), 0, 1),
        source: one_object(),
        lines_max: 1,
    };
    let few = rehearse_as(warm(500), few, GOOD).recorded();
    assert_eq!(few.left_out.files, 500);
    // Rates are of all that completes, 500 a second: half of those due in the warm-up are among them.
    let near = |count: u64, wanted: u64| assert!(count.abs_diff(wanted) <= 2, "{count} {wanted}");
    near(few.files_in_time, 750);
    near(few.left_out.files_in_time, 250);
    near(few.seconds[0].files, 500);
    near(few.seconds[0].response.count(), 250);
    assert!(
        few.response.quantile(0.0) >= Duration::from_millis(500),
        "{:?}",
        few.response.summary()
    );
}

/// Users count when they begin, and the start of the last one is known.
#[test]
fn users_who_never_begin_are_not_counted() {
    let users = |gap: u64| {
        let user = |n| (Duration::from_millis(gap * n), one_object());
        let played = rehearse(Mode::Serial, Model::Closed((0..5).map(user).collect()), GOOD);
        let record = played.recorded();
        (record.users_begun, record.last_begun.as_millis())
    };
    assert_eq!(users(100), (5, 400));
    assert_eq!(users(900), (3, 1800));
}

/// A log ends the run when it is complete; the run's end cuts off the rest of a log; a rate of 0 does not end a run.
#[test]
fn a_log_ends_the_run_when_it_is_answered() {
    let model = |arrivals: Arrivals| Model::Open {
        arrivals,
        source: one_object(),
        lines_max: 1,
    };
    let log = |ms: &[u64]| {
        let times = ms.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        model(Arrivals::given(times.into(), 0, 1))
    };
    let ended = |model, server| {
        let played = rehearse(Mode::Serial, model, server);
        let at = played.now.as_nanos() / 1_000_000 - 5_000;
        (at, played.crew.ledger.measured().files)
    };
    // The first response comes after 1 ms for the connect; then 2 ms each, one after the other.
    let (at, files) = ended(log(&[0, 100, 100, 101]), GOOD);
    assert!((104..=110).contains(&at), "{at}");
    assert_eq!(files, 4);
    assert_eq!(ended(log(&[0, 100, 2500]), GOOD).0, 2_000, "the bell ends it");
    let silent = Server { hangs: 0, ..GOOD };
    assert_eq!(
        ended(log(&[0]), silent),
        (500, 0),
        "the grace period ends pending requests"
    );
    let stops: Schedule = "100,0@1s".parse().expect("a schedule");
    let stops = Arrivals::new(Process::Constant, &stops, Seed(1), 0, 1);
    assert_eq!(ended(model(stops), GOOD).0, 2_000);
    // One shard's part of a log may be empty.
    assert_eq!(ended(log(&[]), GOOD), (0, 0));
}

/// Rates count only completions in time.
#[test]
fn what_ends_after_the_time_that_counts_is_no_part_of_rates() {
    let slow = Server {
        needs: Duration::from_millis(300),
        ..GOOD
    };
    let client = || Model::Closed(vec![(Duration::ZERO, one_object())]);
    let record = rehearse(Mode::Serial, client(), slow).recorded();
    // 300 ms each: the seventh is pending when the two seconds end.
    assert_eq!((record.files, record.files_in_time), (7, 6));
    let counted = Setup {
        counted: Duration::from_millis(700),
        ..setup(Mode::Serial)
    };
    let record = rehearse_as(counted, client(), slow).recorded();
    assert_eq!((record.files, record.files_in_time), (7, 2));
}

/// The last second may be a part of one. What completes after that part is in the second behind it.
#[test]
fn a_part_of_a_second_contains_what_completed_in_time() {
    let slow = Server {
        needs: Duration::from_millis(300),
        ..GOOD
    };
    let part = Setup {
        duration: Duration::from_millis(1400),
        counted: Duration::from_millis(1400),
        ..setup(Mode::Serial)
    };
    let client = Model::Closed(vec![(Duration::ZERO, one_object())]);
    let record = rehearse_as(part, client, slow).recorded();
    // The fifth completes after 1.5 s.
    assert_eq!((record.files, record.files_in_time), (5, 4));
    let files = record.seconds.iter().map(|second| second.files);
    assert_eq!(files.collect::<Vec<_>>(), [3, 1, 1]);
    let times = record.seconds.iter().map(|second| second.response.count());
    assert_eq!(times.collect::<Vec<_>>(), [3, 1, 1]);
}

/// Nothing begins after the end, even if its timer is late and other events come first.
#[test]
fn nothing_begins_after_the_end() {
    let clients = || Model::Closed((0..4).map(|_| (Duration::ZERO, one_object())).collect());
    // One connection, and twice as many arrivals as it serves: waiting arrivals have none.
    let arrivals = || Model::Open {
        arrivals: Arrivals::new(Process::Constant, &Schedule::constant(1000.0), Seed(1), 0, 1),
        source: one_object(),
        lines_max: 1,
    };
    for (name, model) in [
        ("clients", &clients as &dyn Fn() -> Model),
        ("arrivals", &arrivals),
    ] {
        for mode in [Mode::Http10, Mode::Serial] {
            // A response just before the end is reported after it.
            let still = Some((1990, 2050));
            let played = rehearse_still(still, setup(mode), model(), GOOD);
            let last = played.sent.iter().map(|sent| sent.0).max();
            assert!(last < Some(5_000 + 2_000), "{name} {mode:?}: {last:?}");
            let record = played.recorded();
            assert_eq!(
                record.seconds.get(2).map_or(0, |second| second.begun),
                0,
                "{name} {mode:?}"
            );
            if name == "arrivals" {
                assert_eq!(record.objects_begun + record.dropped, 2000, "{mode:?}");
            }
        }
    }
}

/// All times of files are those of successful files; connections count whatever is received on them.
#[test]
fn a_failure_is_in_no_histogram_of_files() {
    for (accept, wanted) in [("200", [4, 4, 4, 4, 2, 1]), ("404", [0, 0, 0, 0, 0, 1])] {
        let setup = Setup {
            accept: accept.parse().expect("a status"),
            ..setup(Mode::Serial)
        };
        let record = rehearse_as(setup, script(&[3, 1], 2), GOOD).recorded();
        assert_eq!((record.files, record.files_failed), (wanted[0], 4 - wanted[0]));
        let counted = [
            &record.service,
            &record.response,
            &record.first_byte,
            &record.transfer,
            &record.object,
            &record.connect,
        ]
        .map(Times::count);
        assert_eq!(counted, wanted, "{accept}");
    }
}

/// However early a run is stopped, the mean number of open connections is at most their total number.
#[test]
fn no_more_connections_stand_than_there_are() {
    let client = || Model::Closed(vec![(Duration::ZERO, one_object())]);
    for warmup in [0, 300] {
        let setup = Setup {
            warmup: Duration::from_millis(warmup),
            ..setup(Mode::Serial)
        };
        for stopped in [Some(100), Some(302), Some(778), None] {
            let played = rehearse_stopped(stopped, setup.clone(), client(), GOOD);
            let counted = played.crew.counted();
            let wanted = stopped.unwrap_or(2000).saturating_sub(warmup);
            assert_eq!(counted.as_millis(), u128::from(wanted), "{warmup} {stopped:?}");
            let record = played.recorded();
            assert!(record.standing <= counted, "{warmup} {stopped:?}: {record:?}");
            assert_eq!(record.established, u64::from(wanted > 0), "{warmup} {stopped:?}");
        }
    }
}

/// WebStone counts requests that ended in time, successful or not, and their times.
#[test]
fn webstone_counts_what_ended_in_time() {
    let client = || Model::Closed(vec![(Duration::ZERO, one_object())]);
    let slow = Server {
        needs: Duration::from_millis(300),
        answers: 1,
        ..GOOD
    };
    let counted = |server| {
        let record = rehearse(Mode::Http10, client(), server).recorded();
        let counts = record.in_time;
        (
            counts.connects,
            counts.errors,
            counts.bytes.0,
            counts.response_time.as_millis(),
            record.files,
        )
    };
    // 300 ms each: the seventh is pending when the two seconds end, and is a file like the others.
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n/0".len() as u64;
    assert_eq!(counted(slow), (6, 0, 6 * reply, 1800, 7));
    // A truncated response ends a millisecond later and failed: its bytes do not count, its time does.
    assert_eq!(counted(Server { cuts: 1, ..slow }), (6, 6, 0, 1806, 0));
    // No response for half a second, then the timeout and a pause.
    assert_eq!(counted(Server { hangs: 0, ..slow }), (3, 3, 0, 1500, 0));
    // A refused connection is an error and no connection: one per 101 ms.
    assert_eq!(
        counted(Server {
            refuses: true,
            ..slow
        }),
        (0, 20, 0, 0, 0)
    );
}

#[test]
fn a_sleeping_user_is_small() {
    assert!(size_of::<User>() <= 200, "{}", size_of::<User>());
}
