//! `weir lab occupy`: a processor that is slower for everybody else. Judges what is asked for, and prints what came of it;
//! `runtime` takes the time.

use crate::cli::lab::OccupyFlags;
use crate::cli::output::{line, print};
use crate::cli::{Failure, Voice};
use runtime::occupy::{SHARE_MAX, take};

/// Runs the command to its end.
///
/// # Errors
/// `Usage` if more is asked for than may be taken; `System` if the kernel refuses.
pub(super) fn run(flags: &OccupyFlags, voice: &Voice) -> Result<(), Failure> {
    if flags.share > SHARE_MAX {
        return Err(Failure::Usage(format!(
            "--share {}: at most {SHARE_MAX} of a processor may be taken, for whoever is on it needs the rest to end this",
            flags.share
        )));
    }
    let processor = flags.processor;
    let taken = take(processor, flags.share, flags.seconds).map_err(|error| {
        Failure::System(format!(
            "cannot take time of processor {processor}: {error}; it must be there, and this needs root (CAP_SYS_NICE)"
        ))
    })?;
    if voice.json {
        return line(serde_json::json!({
            "event": "occupied", "version": 1, "processor": processor, "share": taken,
        }));
    }
    print(&format!("took {:.1} % of processor {processor}\n", 100.0 * taken))
}
