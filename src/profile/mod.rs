//! `weir profile`: where a server's time goes, by the tasks of document 002's Table 2. `runtime` observes; this
//! module counts, prints, and decides what makes a profile invalid. [`category`] maps calls to tasks.

mod account;
mod category;
mod own;
mod report;

use crate::cli::profile::{Flags, Means};
use crate::cli::target::Target as Drawing;
use crate::failure::Failure;
use crate::output::print;
use crate::voice::Voice;
use account::Account;
use profiler::{Fault, Seen, Target};
use report::{Profile, Requests};
use units::Duration;

/// Default time for a running process.
const SPAN: Duration = Duration::from_secs(10);

/// Runs the command to its end.
///
/// # Errors
/// `Usage` if the target is no process or command, `Invalid` if records were lost or nothing was seen, `System` if the
/// kernel or a file refuses something.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let drawing = flags.svg.as_deref().map(Drawing::open).transpose()?;
    let profile = if flags.own {
        own::run(flags, voice)?
    } else {
        let target = target(flags)?;
        let span = match target {
            Target::Process(_) => Some(flags.seconds.unwrap_or(SPAN)),
            Target::Command(_) => flags.seconds,
        };
        let (account, seen) = watch(&target, flags, span, || (), &mut || false)?;
        let who = match &target {
            Target::Process(pid) => format!("{} ({pid})", program(*pid)),
            Target::Command(words) => words.first().map_or_else(String::new, shown),
        };
        let requests = flags.requests.map(Requests::Told);
        Profile::new(who, account.sum(seen.end), seen, requests)
    };
    if let Some(drawing) = drawing {
        drawing.write(&profile.svg())?;
    }
    let text = if voice.json {
        format!("{}\n", profile.json())
    } else {
        profile.table()
    };
    print(&text)?;
    profile.judged()
}

fn shown(word: &std::ffi::OsString) -> String {
    word.to_string_lossy().into_owned()
}

fn target(flags: &Flags) -> Result<Target, Failure> {
    match (&flags.target, flags.command.as_slice()) {
        (Some(_), [_, ..]) => Err(Failure::Usage(
            "a process or a command, not both: weir profile PID, or weir profile -- COMMAND".to_owned(),
        )),
        (None, []) => Err(Failure::Usage(
            "no process given; give a process id, --self, or a command after two dashes".to_owned(),
        )),
        (None, words) => Ok(Target::Command(words.to_vec())),
        (Some(pid), []) => match pid.parse() {
            Ok(pid @ 1..) if pid != std::process::id() => Ok(Target::Process(pid)),
            Ok(_) => Err(Failure::Usage(
                "this process cannot profile itself; use --self".to_owned(),
            )),
            Err(_) => Err(Failure::Usage(format!(
                "`{pid}` is not a process id; put a command after two dashes: weir profile -- {pid}"
            ))),
        },
    }
}

/// Observes and counts; calls `began` once observation has begun, and ends when `is_over` says so.
fn watch(
    target: &Target,
    flags: &Flags,
    span: Option<Duration>,
    began: impl FnOnce(),
    is_over: &mut dyn FnMut() -> bool,
) -> Result<(Account, Seen), Failure> {
    let means = flags.means.map(|means| match means {
        Means::Tracepoints => profiler::Means::Tracepoints,
        Means::Ptrace => profiler::Means::Ptrace,
    });
    let mut account = Account::new();
    let seen = profiler::watch(target, means, span, |_| began(), is_over, &mut |event| {
        account.take(&event);
    })
    .map_err(|fault| match fault {
        Fault::NoProcess(_) | Fault::Command(..) => Failure::Usage(fault.to_string()),
        Fault::Refused(_) | Fault::System(..) => Failure::System(fault.to_string()),
    })?;
    Ok((account, seen))
}

/// Name of a process.
fn program(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "process".to_owned(), |name| name.trim().to_owned())
}
