//! `weir profile --self`: profiles Weir's own server under its own load, so that one command shows where the time
//! goes. Document 002 used 15 connections that sent requests without pause.

use super::report::{Profile, Requests};
use crate::cli::profile::Flags;
use crate::failure::Failure;
use crate::testbed::workload::Workload;
use crate::testbed::{Load, Server};
use crate::voice::Voice;
use profiler::Target;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::Path;
use units::Duration;

/// Default duration.
const SPAN: Duration = Duration::from_secs(5);
/// Largest time beyond the load's duration: observation includes the start and end of the load.
const AROUND: Duration = Duration::from_secs(10);

pub(super) fn run(flags: &Flags, voice: &Voice) -> Result<Profile, Failure> {
    let span = flags.seconds.unwrap_or(SPAN);
    let root = flags.target.as_deref();
    // Check the root before the server starts, because the server's message would be misleading.
    let workload = root.map(|root| Workload::of(Path::new(root), None)).transpose()?;
    let mut serve: Vec<OsString> = root.map(OsString::from).into_iter().collect();
    serve.extend(flags.command.iter().cloned());
    let server = Server::start(&serve)?;
    if voice.reports() {
        tracing::info!(
            "profiling a server at {} under {} connections for {:.1} s",
            server.url(),
            flags.connections,
            span.as_secs_f64()
        );
    }
    let mut load = vec![
        "--clients".to_owned(),
        flags.connections.to_string(),
        "--duration".to_owned(),
        format!("{}ms", span.as_millis()),
        "--mode".to_owned(),
        "serial".to_owned(),
        "--seed".to_owned(),
        "1".to_owned(),
    ];
    // Request files, because the root may have no index page.
    load.extend(workload.iter().flat_map(Workload::options));
    let running = RefCell::new(None);
    let target = Target::Process(server.pid());
    let begin = || *running.borrow_mut() = Some(Load::start(server.url(), &load));
    let mut is_over = || match &mut *running.borrow_mut() {
        Some(Ok(load)) => load.has_ended(),
        Some(Err(_)) => true,
        None => false,
    };
    let (account, seen) = super::watch(&target, flags, Some(span + AROUND), begin, &mut is_over)?;
    let load = running
        .into_inner()
        .ok_or_else(|| Failure::System("profiling did not begin".to_owned()))??;
    let told = flags.requests.map(Requests::Told);
    if seen.is_interrupted {
        // A signal ends the load at once, so its responses are not counted.
        drop(load);
        return Ok(Profile::new(
            "weir serve".to_owned(),
            account.sum(seen.end),
            seen,
            told,
        ));
    }
    let result = load.result()?;
    let number = |key: &str| result[key].as_u64().unwrap_or(0);
    let (files, failed) = (number("files"), number("files_failed"));
    if failed > files / 100 {
        return Err(Failure::Invalid(format!(
            "{failed} of {} responses were errors, so this would be a profile of errors: {}",
            files + failed,
            result["errors"]
        )));
    }
    let requests = told.or((files > 0).then_some(Requests::Loaded(files)));
    let profile = Profile::new("weir serve".to_owned(), account.sum(seen.end), seen, requests);
    Ok(profile.under_load_for(span))
}
