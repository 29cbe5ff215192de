//! Rank of this machine, number of machines and their common start, from flags or from the variables of Slurm, Open
//! MPI or Kubernetes. Knows nothing of the load.

use crate::cli::load::PlaceFlags;
use crate::failure::Failure;
use ::load::limits::RANKS_MAX;
use std::path::PathBuf;
use units::Duration;

/// Default of `--start-timeout`: a cluster may have to fetch an image first.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Variables for rank and number of ranks, with the launcher that sets them. Kubernetes sets only the rank.
const TOLD: [(&str, &str, Option<&str>); 3] = [
    ("Slurm", "SLURM_PROCID", Some("SLURM_STEP_NUM_TASKS")),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
    ("Kubernetes", "JOB_COMPLETION_INDEX", None),
];

/// When a rank starts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Start {
    /// At once.
    Now,
    /// At a time in seconds since 1970.
    At(f64),
    /// Soon after all ranks have come to a folder.
    With {
        /// Folder that the ranks share.
        folder: PathBuf,
        /// Longest time to wait for the others.
        timeout: Duration,
    },
}

/// Rank, number of ranks and common start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) size: u32,
    /// Source of rank and size, for the log.
    pub(super) told_by: &'static str,
    pub(super) start: Start,
}

impl Place {
    /// From flags and variables; flags take precedence.
    pub(super) fn of(
        flags: &PlaceFlags,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Place, Failure> {
        let usage = |why: String| Failure::Usage(why);
        let number = |name: &str| -> Result<Option<u32>, Failure> {
            let Some(text) = variable(name) else {
                return Ok(None);
            };
            let read = text.trim().parse();
            read.map(Some).map_err(|_| {
                usage(format!(
                    "the variable {name} is `{}`, which is not a number",
                    text.escape_debug()
                ))
            })
        };
        let (mut rank, mut size, mut told_by) = (flags.rank, flags.size, "flags");
        for (who, rank_name, size_name) in TOLD {
            if rank.is_some() {
                break;
            }
            let Some(told) = number(rank_name)? else { continue };
            let told_size = match size_name {
                Some(name) => number(name)?,
                None => None,
            };
            // Slurm gives the batch script a rank too, although it runs alone; only a step has a number of tasks.
            if size_name.is_some() && told_size.is_none() {
                continue;
            }
            (rank, size, told_by) = (Some(told), size.or(told_size), who);
            if size.is_none() {
                return Err(usage(format!(
                    "{who} gives rank {told} ({rank_name}) but no number of ranks: say --size"
                )));
            }
        }
        let (rank, size) = match (rank, size) {
            (None, None) => (0, 1),
            (Some(rank), Some(size)) => (rank, size),
            (Some(_), None) => {
                return Err(usage(
                    "`--rank` needs `--size`, the number of machines".to_owned(),
                ));
            }
            (None, Some(1)) => (0, 1),
            (None, Some(_)) => {
                return Err(usage(
                    "`--size` needs `--rank`, the number of this machine".to_owned(),
                ));
            }
        };
        if size == 0 || size > RANKS_MAX {
            return Err(usage(format!("`--size` is {size}; it must be 1 to {RANKS_MAX}")));
        }
        if rank >= size {
            return Err(usage(format!(
                "rank {rank} of {size}; ranks are 0 to {}",
                size - 1
            )));
        }
        if flags
            .start_at
            .is_some_and(|start| !start.is_finite() || start < 0.0)
        {
            return Err(usage(
                "`--start-at` takes seconds since 1970, as `date +%s` prints them".to_owned(),
            ));
        }
        let start = match (flags.start_at, &flags.start_with) {
            (Some(at), _) => Start::At(at),
            (None, Some(folder)) => Start::With {
                folder: folder.clone(),
                timeout: flags.start_timeout.unwrap_or(START_TIMEOUT),
            },
            (None, None) => Start::Now,
        };
        Ok(Place {
            rank,
            size,
            told_by,
            start,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        rank: Option<u32>,
        size: Option<u32>,
        variables: &[(&str, &str)],
        want: Result<(u32, u32), &str>,
    ) {
        let flags = PlaceFlags {
            rank,
            size,
            start_at: None,
            start_with: None,
            start_timeout: None,
        };
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match (Place::of(&flags, variable), want) {
            (Ok(place), Ok(want)) => assert_eq!((place.rank, place.size), want, "{variables:?}"),
            (Err(error), Err(fragment)) => assert!(error.to_string().contains(fragment), "{error}"),
            (got, want) => panic!("{variables:?}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn starts_come_from_flags() {
        let of = |start_at, start_with: Option<&str>, start_timeout| {
            let flags = PlaceFlags {
                rank: None,
                size: None,
                start_at,
                start_with: start_with.map(PathBuf::from),
                start_timeout,
            };
            Place::of(&flags, |_| None).expect("a place").start
        };
        let with = |seconds| Start::With {
            folder: PathBuf::from("shared"),
            timeout: Duration::from_secs(seconds),
        };
        assert_eq!(of(None, None, None), Start::Now);
        assert_eq!(of(Some(7.5), None, None), Start::At(7.5));
        assert_eq!(of(None, Some("shared"), None), with(300));
        assert_eq!(of(None, Some("shared"), Some(Duration::from_secs(2))), with(2));
    }

    #[test]
    fn places_come_from_flags_then_from_who_started_it() {
        check(None, None, &[], Ok((0, 1)));
        check(
            Some(1),
            Some(3),
            &[("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "3")],
            Ok((1, 3)),
        );
        check(
            None,
            None,
            &[("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "3")],
            Ok((2, 3)),
        );
        check(
            None,
            None,
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "3")],
            Ok((0, 1)),
        );
        check(
            None,
            None,
            &[("OMPI_COMM_WORLD_RANK", "4"), ("OMPI_COMM_WORLD_SIZE", "8")],
            Ok((4, 8)),
        );
        check(None, Some(5), &[("JOB_COMPLETION_INDEX", "3")], Ok((3, 5)));
        check(None, None, &[("JOB_COMPLETION_INDEX", "3")], Err("say --size"));
        check(Some(3), Some(3), &[], Err("ranks are 0 to 2"));
        check(Some(3), None, &[], Err("needs `--size`"));
        check(None, Some(3), &[], Err("needs `--rank`"));
        check(Some(0), Some(9999), &[], Err("1 to 4096"));
        check(None, None, &[("SLURM_PROCID", "x")], Err("SLURM_PROCID"));
    }
}
