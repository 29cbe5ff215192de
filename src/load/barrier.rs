//! The common start of ranks that share a folder (`--start-with`): each rank says in it that it has come, and rank 0 gives
//! the start once all have. Decides when a rank may start, and what it says if it may not. [`Place`] has its number; nothing
//! here knows of the load.
//!
//! ```text
//!   rank 0        NEW ── announces its run ──▶ JOINED ── all ranks have come: gives the start ──┐
//!   other ranks   NEW ── run announced ──────▶ JOINED ── start given ───────────────────────────┴──▶ start
//!                  │                             │
//!                  └─ used folder, other plan    └─ timeout, or rank 0 has given up ────────────────▶ failure
//! ```
//!
//! Rank 0 gives each run a name that no other run has, and announces it in `run.json`, which must not exist before. All
//! further files begin with this name: `NAME.rank-N` and `NAME.start`. So a file of an earlier run cannot start a rank.
//!
//! A rank that waits writes its file anew before each look. Clients of NFS otherwise remember for up to a minute that a file
//! is missing; they forget it when they change the folder themselves.

use super::export;
use super::place::Place;
use super::{civil, refused};
use crate::failure::Failure;
use runtime::clock;
use runtime::signal::{Signal, Signals};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use units::Duration;

/// File that announces a run.
const RUN: &str = "run.json";
/// Shortest pause of a rank between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Pause for each rank of the run: all ranks together change the folder at most a thousand times per second.
const LOOK_PER_RANK: Duration = Duration::from_millis(1);
/// Time between the start and its announcement, besides two looks: the storage may be slow.
const LEAD: Duration = Duration::from_secs(3);
/// Largest number of ranks that a message names.
const NAMED_MAX: usize = 20;
/// What to do if a rank is missing.
const REMEDY: &str = "start all ranks of a run, or set a longer --start-timeout";

/// A run as rank 0 announces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Announced {
    /// Unique name of the run.
    run: String,
    /// Digest of its plan.
    plan: String,
    /// Number of its ranks.
    size: u32,
}

/// State of this rank.
#[derive(Clone, Debug, PartialEq)]
enum State {
    New,
    /// The name of the run.
    Joined(String),
}

/// What one look finds in the folder.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    announced: Option<Announced>,
    /// Ranks that have come and not gone.
    ranks: BTreeSet<u32>,
    /// The start of the run, in seconds since 1970.
    start: Option<f64>,
}

/// What a rank does after a look.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Announce,
    Join(String),
    Wait,
    /// Gives the start of the run with this name.
    Give(String),
    Start(f64),
    /// Gives up, as rank 0 has done.
    Leave,
}

/// Waits until all ranks have come to the folder. Returns the common start, in seconds since 1970.
///
/// # Errors
/// `Usage` for a folder of another run, `Invalid` if a rank does not come in time or a signal stops this one, `System` if
/// the folder cannot be used.
pub(super) fn meet(
    place: &Place,
    folder: &Path,
    timeout: Duration,
    plan: &str,
    signals: &mut Signals,
) -> Result<f64, Failure> {
    let rank = Rank {
        number: place.rank,
        size: place.size,
        plan,
        folder,
    };
    std::fs::create_dir_all(folder).map_err(|error| rank.refused(&error))?;
    let mut state = State::New;
    let met = rank.wait(&mut state, timeout, signals);
    if met.is_err() {
        rank.leave(&state);
    }
    met
}

/// One rank of a run.
#[derive(Debug)]
struct Rank<'a> {
    number: u32,
    size: u32,
    plan: &'a str,
    folder: &'a Path,
}

impl Rank<'_> {
    /// Looks and acts until the start is known.
    fn wait(&self, state: &mut State, timeout: Duration, signals: &mut Signals) -> Result<f64, Failure> {
        let until = clock::now() + timeout;
        // Ranks that came, even if they have gone since.
        let mut seen = BTreeSet::new();
        loop {
            if let State::Joined(run) = &*state {
                export::whole(&self.own_file(run), b"").map_err(|error| self.refused(&error))?;
            }
            let found = self.look(state).map_err(|error| self.refused(&error))?;
            seen.extend(found.ranks.iter().copied());
            match self.decide(state, &found)? {
                Step::Announce => {
                    let run = self.announce()?;
                    tracing::info!("waiting for {} ranks in `{}`", self.size, self.folder.display());
                    *state = State::Joined(run);
                    continue;
                }
                Step::Join(run) => {
                    *state = State::Joined(run);
                    continue;
                }
                Step::Give(run) => {
                    let now = civil(clock::wall());
                    return self.give(&run, now).map_err(|error| self.refused(&error));
                }
                Step::Start(start) => return Ok(start),
                Step::Leave => {
                    return Err(Failure::Invalid(format!(
                        "rank 0 has given up waiting in `{}`: {}; {REMEDY}",
                        self.folder.display(),
                        self.absent(&found, &seen)
                    )));
                }
                Step::Wait => {}
            }
            let left = until.since(clock::now());
            if left.is_zero() {
                return Err(self.too_late(state, &found, &seen, timeout));
            }
            let signal = signals
                .wait(Some(pause(self.size).min(left)))
                .map_err(|error| refused("signals", &error))?;
            if signal == Some(Signal::Stop) {
                return Err(Failure::Invalid("stopped before the common start".to_owned()));
            }
        }
    }

    /// What to do next.
    ///
    /// # Errors
    /// `Usage` if the folder belongs to another run.
    fn decide(&self, state: &State, found: &Found) -> Result<Step, Failure> {
        let own = match (state, &found.announced) {
            (State::New, None) if self.number == 0 => return Ok(Step::Announce),
            (State::New, None) => return Ok(Step::Wait),
            (State::New, Some(run)) => {
                // A new rank has announced nothing and written no file, and its run cannot have started without it.
                if self.number == 0 || found.start.is_some() || found.ranks.contains(&self.number) {
                    return Err(self.used());
                }
                if (run.plan.as_str(), run.size) != (self.plan, self.size) {
                    return Err(Failure::Usage(format!(
                        "rank 0 announces another run in `{}`, of {} ranks; give all ranks the same flags and the same --size, and \
                         each run a new folder",
                        self.folder.display(),
                        run.size
                    )));
                }
                return Ok(Step::Join(run.run.clone()));
            }
            (State::Joined(own), _) => own,
        };
        if let Some(start) = found.start {
            return Ok(Step::Start(start));
        }
        if found.announced.as_ref().is_none_or(|run| run.run != *own) {
            return Ok(Step::Leave);
        }
        let all_came = (0..self.size).all(|rank| found.ranks.contains(&rank));
        Ok(match self.number == 0 && all_came {
            true => Step::Give(own.clone()),
            false => Step::Wait,
        })
    }

    /// Reads the folder.
    fn look(&self, state: &State) -> io::Result<Found> {
        let announced = self.announced()?;
        let run = match (state, &announced) {
            (State::Joined(run), _) => run,
            (State::New, Some(announced)) => &announced.run,
            (State::New, None) => return Ok(Found::default()),
        };
        let mut ranks = BTreeSet::new();
        for entry in std::fs::read_dir(self.folder)? {
            let name = entry?.file_name();
            let rank = name
                .to_str()
                .and_then(|name| name.strip_prefix(run.as_str())?.strip_prefix(".rank-"));
            ranks.extend(rank.and_then(|rank| rank.parse::<u32>().ok()));
        }
        let start = text_of(&self.start_file(run))?.and_then(|text| text.trim().parse::<f64>().ok());
        Ok(Found {
            announced,
            ranks,
            start,
        })
    }

    /// The announced run. A file that is not whole is none.
    fn announced(&self) -> io::Result<Option<Announced>> {
        let text = text_of(&self.folder.join(RUN))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Announces a run and returns its name.
    fn announce(&self) -> Result<String, Failure> {
        let now = clock::wall();
        // The name must differ from that of every earlier run whose files remain.
        let run = format!("{}-{:09}-{}", now.secs, now.nanos, std::process::id());
        let announced = Announced {
            run: run.clone(),
            plan: self.plan.to_owned(),
            size: self.size,
        };
        let text = serde_json::to_string(&announced).expect("words and a number have a form in JSON");
        match export::fresh(&self.folder.join(RUN), text.as_bytes()) {
            Ok(()) => Ok(run),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(self.used()),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Writes the start. Every rank reads the same digits, so that all results name the same start.
    fn give(&self, run: &str, now: f64) -> io::Result<f64> {
        let text = format!("{:.3}", now + lead(self.size).as_secs_f64());
        export::whole(&self.start_file(run), format!("{text}\n").as_bytes())?;
        text.parse().map_err(io::Error::other)
    }

    /// Removes what a rank that gives up has written: another rank must not count it, and the folder can be used again.
    fn leave(&self, state: &State) {
        let State::Joined(run) = state else {
            return;
        };
        let is_announced = || matches!(self.announced(), Ok(Some(announced)) if announced.run == *run);
        // If a file cannot be removed, the next run needs another folder.
        if self.number == 0 && is_announced() {
            let _ = std::fs::remove_file(self.folder.join(RUN));
        }
        let _ = std::fs::remove_file(self.own_file(run));
    }

    fn own_file(&self, run: &str) -> PathBuf {
        self.folder.join(format!("{run}.rank-{}", self.number))
    }

    fn start_file(&self, run: &str) -> PathBuf {
        self.folder.join(format!("{run}.start"))
    }

    fn refused(&self, error: &io::Error) -> Failure {
        refused(&format!("--start-with `{}`", self.folder.display()), error)
    }

    fn used(&self) -> Failure {
        Failure::Usage(format!(
            "`{}` was used by an earlier run, or by another rank {}; give --start-with a new folder for each run, and each rank a \
             number of its own",
            self.folder.display(),
            self.number
        ))
    }

    /// The failure of a rank that has waited for `timeout`.
    fn too_late(&self, state: &State, found: &Found, seen: &BTreeSet<u32>, timeout: Duration) -> Failure {
        let why = match state {
            State::New => "rank 0 has not come".to_owned(),
            State::Joined(_) => self.absent(found, seen),
        };
        Failure::Invalid(format!(
            "rank {} waited {timeout:?} in `{}`: {why}; {REMEDY}",
            self.number,
            self.folder.display()
        ))
    }

    /// The ranks that keep the others from starting, in words.
    fn absent(&self, found: &Found, seen: &BTreeSet<u32>) -> String {
        let without = |there: &BTreeSet<u32>| -> Vec<u32> {
            (0..self.size).filter(|rank| !there.contains(rank)).collect()
        };
        let (never, gone) = (without(seen), without(&found.ranks));
        if !never.is_empty() {
            let has = if never.len() == 1 { "has" } else { "have" };
            let named = named(&never);
            return format!("{} of {} ranks {has} not come ({named})", never.len(), self.size);
        }
        match gone.is_empty() {
            true => "all ranks have come, but rank 0 has given no start".to_owned(),
            false => format!(
                "all ranks have come, but not all have waited ({} gave up)",
                named(&gone)
            ),
        }
    }
}

/// The first of some ranks.
fn named(ranks: &[u32]) -> String {
    let named: Vec<String> = ranks.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let named = named.join(", ");
    match ranks.len().checked_sub(NAMED_MAX) {
        None | Some(0) => named,
        Some(more) => format!("{named} and {more} more"),
    }
}

/// Pause between two looks of one of `size` ranks.
fn pause(size: u32) -> Duration {
    LOOK_EVERY.max(LOOK_PER_RANK * size)
}

/// Time from the look that finds all of `size` ranks to the start.
fn lead(size: u32) -> Duration {
    LEAD + pause(size) * 2
}

/// The text of a file, if it exists.
fn text_of(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::load::limits::RANKS_MAX;

    fn rank(number: u32, folder: &Path) -> Rank<'_> {
        Rank {
            number,
            size: 3,
            plan: "p",
            folder,
        }
    }

    fn announced(run: &str, plan: &str, size: u32) -> Option<Announced> {
        Some(Announced {
            run: run.to_owned(),
            plan: plan.to_owned(),
            size,
        })
    }

    fn found(announced: Option<Announced>, ranks: &[u32], start: Option<f64>) -> Found {
        Found {
            announced,
            ranks: ranks.iter().copied().collect(),
            start,
        }
    }

    fn check(number: u32, state: &State, found: &Found, want: Result<Step, &str>) {
        let rank = rank(number, Path::new("shared"));
        match (rank.decide(state, found), want) {
            (Ok(step), Ok(want)) => assert_eq!(step, want, "rank {number}: {state:?} {found:?}"),
            (Err(Failure::Usage(error)), Err(fragment)) => assert!(error.contains(fragment), "{error}"),
            (got, want) => panic!("rank {number}: {state:?} {found:?}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn all_ranks_start_once_all_have_come() {
        let joined = State::Joined("a".to_owned());
        let run = || announced("a", "p", 3);
        check(0, &State::New, &Found::default(), Ok(Step::Announce));
        check(1, &State::New, &Found::default(), Ok(Step::Wait));
        let join = Ok(Step::Join("a".to_owned()));
        check(1, &State::New, &found(run(), &[0, 2], None), join);
        for number in 0..3 {
            check(number, &joined, &found(run(), &[0, 1], None), Ok(Step::Wait));
        }
        // Numbers beyond the run do not replace one of its ranks.
        check(0, &joined, &found(run(), &[0, 1, 7], None), Ok(Step::Wait));
        let all = found(run(), &[0, 1, 2], None);
        check(0, &joined, &all, Ok(Step::Give("a".to_owned())));
        check(2, &joined, &all, Ok(Step::Wait));
        check(
            2,
            &joined,
            &found(run(), &[0, 1, 2], Some(7.5)),
            Ok(Step::Start(7.5)),
        );
    }

    #[test]
    fn an_earlier_run_starts_nobody() {
        let run = || announced("a", "p", 3);
        check(
            0,
            &State::New,
            &found(run(), &[], None),
            Err("was used by an earlier run"),
        );
        for used in [found(run(), &[0, 1], None), found(run(), &[0], Some(7.5))] {
            check(1, &State::New, &used, Err("was used by an earlier run"));
        }
        for other in [announced("a", "q", 3), announced("a", "p", 2)] {
            check(
                1,
                &State::New,
                &found(other, &[0], None),
                Err("announces another run"),
            );
        }
        // Rank 0 has given up, and perhaps begun anew.
        let joined = State::Joined("a".to_owned());
        check(1, &joined, &found(None, &[1], None), Ok(Step::Leave));
        check(
            1,
            &joined,
            &found(announced("b", "p", 3), &[1], None),
            Ok(Step::Leave),
        );
    }

    #[test]
    fn only_files_of_the_run_count() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let (zero, one) = (rank(0, dir.path()), rank(1, dir.path()));
        assert_eq!(zero.look(&State::New).expect("a look"), Found::default());
        let put =
            |name: &str, text: &str| export::whole(&dir.path().join(name), text.as_bytes()).expect("written");
        for (name, text) in [
            ("old.rank-0", ""),
            ("old.rank-1", ""),
            ("old.rank-2", ""),
            ("old.start", "9\n"),
        ] {
            put(name, text);
        }
        put(RUN, "{\"run\":\"old");
        assert_eq!(
            one.look(&State::New).expect("a look"),
            Found::default(),
            "incomplete"
        );
        assert!(
            zero.announce()
                .expect_err("it exists")
                .to_string()
                .contains("earlier run")
        );
        std::fs::remove_file(dir.path().join(RUN)).expect("removed");

        let run = zero.announce().expect("announced");
        let joined = State::Joined(run.clone());
        put(&format!("{run}.rank-1"), "");
        put(&format!("{run}.rank-2.12.part"), "");
        assert_eq!(
            one.look(&State::New).expect("a look"),
            found(announced(&run, "p", 3), &[1], None)
        );
        let start = zero.give(&run, 1000.0).expect("given");
        assert!(start >= 1003.0, "{start}");
        assert_eq!(one.look(&joined).expect("a look").start, Some(start));

        // A rank that gives up removes its file, and rank 0 also the announcement.
        one.leave(&joined);
        let rest = one.look(&joined).expect("a look");
        assert_eq!((rest.announced.is_some(), rest.ranks.len()), (true, 0));
        rank(0, dir.path()).leave(&State::Joined("old".to_owned()));
        assert!(
            one.look(&joined).expect("a look").announced.is_some(),
            "that of another run"
        );
        zero.leave(&joined);
        assert_eq!(one.look(&joined).expect("a look").announced, None);
    }

    /// On a full disk, for instance: a file without content would keep the next run out of the folder.
    #[test]
    fn an_announcement_that_cannot_be_written_leaves_no_file() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let zero = rank(0, dir.path());
        let beside = export::beside(&dir.path().join(RUN));
        std::fs::create_dir(&beside).expect("a folder in its way");
        let why = zero.announce().expect_err("it cannot be written").to_string();
        assert!(why.contains("--start-with"), "{why}");
        assert!(!dir.path().join(RUN).exists());
        std::fs::remove_dir(&beside).expect("removed");
        zero.announce().expect("announced");
        let names = std::fs::read_dir(dir.path()).expect("a folder");
        assert_eq!(names.count(), 1, "no temporary file");
    }

    /// On another machine, whose process has the same number.
    #[test]
    fn an_announcement_by_another_rank_0_is_not_taken_for_its_own() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let announcement = dir.path().join(RUN);
        let theirs = dir.path().join(format!("{RUN}.{}.part", std::process::id()));
        export::whole(&theirs, b"theirs").expect("written");
        std::fs::hard_link(&theirs, &announcement).expect("a second name");
        let why = rank(0, dir.path()).announce().expect_err("it exists");
        assert!(why.to_string().contains("or by another rank 0"), "{why}");
        assert_eq!(text_of(&announcement).expect("a file").as_deref(), Some("theirs"));
    }

    #[test]
    fn who_is_missing_is_named() {
        let rank = rank(0, Path::new("shared"));
        let of = |ranks: &[u32]| ranks.iter().copied().collect::<BTreeSet<u32>>();
        for (there, seen, words) in [
            (&[0, 1][..], &[0, 1][..], "1 of 3 ranks has not come (2)"),
            (&[0], &[0], "2 of 3 ranks have not come (1, 2)"),
            (&[0, 2], &[0, 1, 2], "not all have waited (1 gave up)"),
            (&[0, 1, 2], &[0, 1, 2], "rank 0 has given no start"),
        ] {
            let said = rank.absent(&found(None, there, None), &of(seen));
            assert!(said.contains(words), "{said}");
        }
        let late = rank.too_late(&State::New, &Found::default(), &of(&[]), Duration::from_secs(300));
        assert_eq!(
            (late.code(), late.to_string().as_str()),
            (
                3,
                "rank 0 waited 300s in `shared`: rank 0 has not come; start all ranks of a run, or set a longer --start-timeout"
            )
        );
        let many: Vec<u32> = (0..25).collect();
        assert!(named(&many).ends_with("18, 19 and 5 more"));
        assert!(named(&many[..20]).ends_with("18, 19"));
    }

    /// The looks of all ranks together stay rare, and the start stays behind the next look of every rank.
    #[test]
    fn many_ranks_look_rarely() {
        for size in [1, 3, 200, 1000, RANKS_MAX] {
            let pause = pause(size);
            assert!(
                f64::from(size) / pause.as_secs_f64() < 1000.5,
                "{size}: {pause:?}"
            );
            assert!(lead(size) >= pause * 2 + Duration::from_secs(1), "{size}");
        }
        assert_eq!(pause(3), LOOK_EVERY);
    }
}
