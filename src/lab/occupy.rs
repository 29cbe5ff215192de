//! `weir lab occupy`: slows a processor for all other processes. Checks the request and prints the result; `runtime`
//! takes the time.

use crate::cli::lab::OccupyFlags;
use crate::failure::Failure;
use crate::output::{line, print};
use crate::voice::Voice;
use runtime::cpu_hog::{SHARE_MAX, take};

/// Runs the command.
///
/// # Errors
/// `Usage` if the share is too large; `System` if the kernel refuses.
pub(super) fn run(flags: &OccupyFlags, voice: &Voice) -> Result<(), Failure> {
    if flags.share > SHARE_MAX {
        return Err(Failure::Usage(format!(
            "--share {}: take at most {SHARE_MAX} of a processor; the processes on it need the rest to end this command",
            flags.share
        )));
    }
    let processor = flags.processor;
    let taken = take(processor, flags.share, flags.seconds).map_err(|error| {
        Failure::System(format!(
            "cannot take time of processor {processor}: {error}; the processor must exist, and the command needs root (CAP_SYS_NICE)"
        ))
    })?;
    if voice.json {
        return line(serde_json::json!({
            "event": "occupied", "version": 1, "processor": processor, "share": taken,
        }));
    }
    print(&format!("took {:.1} % of processor {processor}\n", 100.0 * taken))
}
