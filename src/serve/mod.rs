//! `weir serve`: assembles configuration, site, listeners and workers, and reports the start. Then [`operator`] obeys
//! signals and the control socket until [`shutdown`]. Decides the order of start and stop; `runtime` and `server` know
//! strategies, protocol and files.
//!
//! ```text
//!   start ──▶ RUNNING ── HUP: reload, validate ────────▶ RUNNING (new configuration, or the old one and an error)
//!                │ ───── USR1: reopen the logs ────────▶ RUNNING
//!                │ ───── USR2: start the new program ──▶ RUNNING until the new program serves, then
//!                │                       RETIRING ── idle connections may send one more request ──▶ DRAINING
//!                │                                   (until a second before the grace ends, or TERM or INT)
//!                │                       meanwhile, if the new program has crashed, USR2: start it again
//!                │ TERM, INT
//!                ▼
//!            DRAINING ── all done, grace over, or a second TERM or INT ──▶ CLOSING THE LOG
//!                        all written, grace over, or a further TERM or INT ──▶ exit
//! ```

mod access_log;
mod adaptation;
mod cache_folder;
mod check;
mod choices;
mod control;
mod datagrams;
mod descriptors;
mod drivers;
mod embedded_site;
mod environment;
mod explain;
mod managed;
mod manager;
mod operator;
mod passwords;
mod process_limits;
mod processes;
mod qlog;
mod reload;
mod report;
mod rights;
mod server_log;
mod settings;
mod shutdown;
mod sockets;
mod strategy;
mod tls;
mod traces;
mod upgrade;
mod versions;

use crate::cli::Cli;
use crate::cli::serve::Flags;
use crate::failure::Failure;
use crate::voice::Voice;
use access_log::AccessLogs;
use adaptation::Adaptation;
pub(crate) use control::{Change, Wish};
use datagrams::Datagrams;
use descriptors::Shares;
use drivers::Drivers;
use embedded_site::{demo_size, embedded, is_demo};
use managed::Managed;
use manager::Heart;
use operator::{Operator, Role};
use process_limits::{bound, fit, memory_limit};
use qlog::Qlog;
use report::Started;
use rights::Rights;
use runtime::control::Control;
use runtime::diagnostics::Diagnostics;
use runtime::listen::{FileRights, Listening};
use runtime::memory::Budget;
use runtime::process::inherit::{Predecessor, Program};
use runtime::process::privilege::AccountError;
use runtime::process::{notify, privilege};
use runtime::shaping::Shaping;
use runtime::signal::Signals;
use runtime::strategy::Io;
use runtime::{clock, machine};
use server::config::{Config, Http3};
use server::site::OpenError;
use server::{About, Additions, Interprocess, Server};
use settings::{configuration, profile};
use sockets::Given;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use strategy::choose_all;
use tls::{Tls, Watch};
use traces::{Exporter, Target};
use units::Seed;
use upgrade::Upgrade;

/// Runs `weir serve` until it exits.
///
/// # Errors
/// `Usage` for an invalid configuration, `System` if a system call fails.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    // Before the first thread, and before anything copies the environment by reading all of it.
    let forgotten = environment::forget_the_rest();
    voice.listen();
    match forgotten {
        Ok(count) => tracing::debug!("erased {count} unused environment variables"),
        Err(error) => tracing::warn!(
            "unused environment variables stay in this process's memory: {error}; start it with a clean environment \
             (env -i) if they hold secrets"
        ),
    }
    Cli::warn_of_misspelt_variables();
    if flags.check {
        let config = configuration(flags)?;
        choose_all(&config, machine::usable_cores())?;
        return check::run(config, flags, voice);
    }
    if let Some(text) = &flags.explain {
        let config = configuration(flags)?;
        return explain::run(config, text, flags, voice);
    }
    let (mut predecessor, given) = Given::find()?;
    let outcome = serve(flags, voice, &mut predecessor, given);
    if let (Err(failure), Some(predecessor)) = (&outcome, predecessor) {
        predecessor.failed(&failure.to_string());
    }
    outcome
}

/// Serves until it exits. `predecessor` is taken once this process serves.
fn serve(
    flags: &Flags,
    voice: &Voice,
    predecessor: &mut Option<Predecessor>,
    mut given: Given,
) -> Result<(), Failure> {
    let began = clock::now();
    if !machine::keep_little_memory() {
        tracing::debug!("this allocator has no setting to return free memory early");
    }
    let mut config = configuration(flags)?;
    // Before any process is forked: each has the socket.
    server_log::connect(&config)?;
    let groups = choose_all(&config, machine::usable_cores())?;
    if let Some(group) = groups.iter().find(|group| group.choice.is_of_processes()) {
        if let Some(why) = datagrams::refusal(&group.choice) {
            match config.http3 {
                Http3::On => return Err(flags.blame("http3", why)),
                Http3::Auto if config.has_tls() => tracing::info!("serving without HTTP/3: {why}"),
                Http3::Auto | Http3::Off => {}
            }
        }
        return processes::run(flags, voice, config, group, predecessor, given, began);
    }
    let program = Program::of_this_process();
    let mut signals = Signals::take_over().map_err(|error| refused("signal handlers", &error))?;
    let shares = Shares::of(machine::raise_descriptor_limit(), &config, &groups);
    shares.refuse()?;
    fit(&mut config, &shares);
    let listeners = sockets::open(&config, &groups, &mut given)?;
    let managed = Managed::open(&config, flags)?;
    cache_folder::prepare(&config)?;
    let watch = Watch::new(&config, clock::now());
    let tls = Tls::open(&config, flags, managed.as_ref(), &given.secret)?.map(Arc::new);
    let qlog = Qlog::open(&config, flags)?;
    let datagrams = datagrams::bind(
        &config,
        tls.as_deref(),
        &listeners,
        &mut given,
        datagrams::threads(),
        qlog.as_ref(),
    )?;
    // Before the first thread, which would keep the rights dropped here; and before opening any file that the successor
    // of an upgrade must be able to open with these rights.
    let rights = Rights::give_up(&config, flags, &listeners.concat(), &program, given.bounds)?;
    server_log::open(&config).map_err(|failure| failure.with(|text| rights.hint(text)))?;
    let mut control = open_control(&config, flags, &rights, predecessor.is_some())?;
    if let Some(control) = &control {
        signals.watch(watched(control)?);
    }
    let adaptation = Adaptation::start(&config).map_err(|failure| failure.with(|text| rights.hint(text)))?;
    let prefork = Interprocess {
        budget: Arc::new(Budget::new(bound(&config, &shares))),
        knobs: adaptation::knobs(adaptation.is_some())?,
        ..Interprocess::default()
    };
    // Root may set up io_uring where the new user may not.
    let groups = match groups.iter().any(|group| group.choice.io == Io::Uring) {
        true => choose_all(&config, machine::usable_cores())?,
        false => groups,
    };
    let explained = |failure: Failure| failure.with(|text| rights.hint(text));
    rights.refuse(&config, flags).map_err(explained)?;
    let logs = AccessLogs::open(&config, &AccessLogs::default()).map_err(explained)?;
    if let Some(qlog) = &qlog {
        qlog.announce(&config, flags, !datagrams.is_empty())
            .map_err(explained)?;
    }
    let handed_on = datagrams::hand_on(&datagrams);
    let over_udp = datagrams::addresses(&datagrams);
    let exporter = Arc::new(Exporter::new(Target::of(&config).map_err(explained)?));
    let additions = Additions {
        control: control.as_ref().map(Control::inbox),
        ..additions(managed.as_ref(), datagrams::port(&datagrams), &exporter)
    };
    let server = open(config.clone(), prefork, additions, &logs, flags).map_err(explained)?;
    warn_of_mistakes(&server, flags);
    let server = Arc::new(server);
    let how = Listening {
        no_delay: !config.behavior.nagle,
        send_buffer: sockets::send_buffer(&config),
        paced: config.pacing,
        unsent: config.shaping().map(Shaping::unsent_max),
        ..Listening::default()
    };
    let mut workers = Drivers::start(&server, tls.clone(), None, &groups, &listeners, &shares, how)?;
    workers.add(Datagrams::start(&server, datagrams).inspect_err(|_| workers.stop())?);
    server.set_about(About {
        certificates: tls::shown(tls.as_deref()),
        ..about(workers.in_words(), None)
    });
    let mut upgrade = Upgrade::new(program, workers.sockets(), handed_on, rights.bounds());
    let served = workers
        .serving()
        .iter()
        .map(report::Served::of)
        .collect::<Vec<_>>();
    // From here on, only the workers hold the sockets; they close them when they drain.
    drop(listeners);
    let started = Started {
        config: &config,
        served: &served,
        embedded: is_demo(&config).then(demo_size),
        http3: &over_udp,
        shares,
        memory: memory_limit(&config, &shares),
        rights: &rights,
        profile: profile(flags)?,
        took: clock::now().since(began),
    };
    // Before the report, because readers of the report may use the socket at once.
    if let Some(Err(error)) = control.as_mut().map(Control::appear) {
        // Not fatal: the socket of the previous process stays until that process ends.
        tracing::error!("`weir ctl` cannot reach this process: {error}");
    }
    announce(&started, voice);
    match predecessor.take() {
        // The predecessor notifies the service manager, which does not accept messages of this process yet.
        Some(predecessor) => upgrade.follows(predecessor.ready(&over_udp)),
        None => manager::serves(None),
    }
    let mut operator = Operator {
        flags,
        server,
        logs,
        earlier_logs: Vec::new(),
        exporter,
        qlog,
        descriptors: shares.total,
        rights,
        watch,
        tls,
        tending: managed.as_ref().map(|managed| managed.tend(clock::now())),
        managed,
        role: Role::Whole {
            upgrade: Box::new(upgrade),
            control,
            adaptation: Box::new(adaptation),
            heart: Heart::start(notify::watchdog(), clock::now()),
        },
    };
    let until = operator.run(&mut signals, &mut workers)?;
    workers.join().map_err(|error| refused("a worker", &error))?;
    operator.close_logs(&mut signals, until)?;
    tracing::info!("stopped");
    Ok(())
}

/// Facts for the live page that the server itself does not know.
fn about(strategy: String, process: Option<u32>) -> About {
    About {
        strategy,
        started: clock::wall(),
        process,
        certificates: Vec::new(),
    }
}

fn open(
    config: Config,
    prefork: Interprocess,
    additions: Additions,
    logs: &AccessLogs,
    flags: &Flags,
) -> Result<Server, Failure> {
    let wall = clock::wall();
    let seed = Seed(u64::from(wall.nanos) << 32 ^ wall.secs.unsigned_abs() ^ u64::from(std::process::id()));
    Server::open_with(additions, prefork, config, embedded(), logs.sink(), seed)
        .map_err(|error| unservable(&error, flags))
}

/// What the server gets besides its configuration: answers for a CA that checks names, the port of HTTP/3, and where spans go.
fn additions(managed: Option<&Managed>, http3_port: Option<u16>, exporter: &Arc<Exporter>) -> Additions {
    let exporter = Arc::clone(exporter);
    let handlers = managed.map(|managed| (managed::ANSWERS_AT.to_owned(), managed.answers()));
    Additions {
        handlers: handlers.into_iter().collect(),
        http3_port,
        spans: Some(exporter),
        ..Additions::default()
    }
}

/// Warns of passwords in cleartext, of weak hashes, of admitted users who do not exist, and of configured pages that do not.
/// Not fatal: there may be a proxy with TLS, users have to choose new passwords, and users and pages may be created later.
fn warn_of_mistakes(server: &Server, flags: &Flags) {
    passwords::warn_of_cleartext(&server.config());
    for warning in server.password_warnings() {
        tracing::warn!("{warning}");
    }
    for missing in server.missing_pages(clock::now(), clock::wall()) {
        tracing::warn!("{}", flags.blame_page(&missing));
    }
}

/// Opens the control socket, if configured, after rights are dropped: the successor of an upgrade must be able to
/// create its own socket beside it and take over the name, and the file is removed at the end. Commands that come to the admin
/// addresses need no socket.
///
/// # Errors
/// As [`control_rights`]; `System`, naming the file and what to do.
fn open_control(
    config: &Config,
    flags: &Flags,
    rights: &Rights,
    follows: bool,
) -> Result<Option<Control>, Failure> {
    let Some(path) = &config.control else {
        let control = config.takes_commands().then(Control::without_file).transpose();
        return control.map_err(|error| refused("control of the admin addresses", &error));
    };
    let file = control_rights(config, flags)?;
    Control::open(path, file, follows).map(Some).map_err(|error| {
        let advice = match (error.kind(), &config.control_group) {
            (io::ErrorKind::PermissionDenied, None) => format!(
                "user {} creates it, so that an upgrade in place can replace it; name a file in a folder where this \
                 user may create files",
                rights.uid
            ),
            (io::ErrorKind::PermissionDenied, Some(group)) => format!(
                "user {} creates it, so that an upgrade in place can replace it; let this user create files in its \
                 folder, and belong to group `{group}` (`control-group`)",
                rights.uid
            ),
            _ => "its folder must exist and be writable, and no other server may use the file".to_owned(),
        };
        Failure::System(format!(
            "cannot open the control socket `{}`: {error}; {advice} (--control)",
            path.display()
        ))
    })
}

/// Who may use the control socket. Its owner is the user of this process.
///
/// # Errors
/// `Usage` for a group that does not exist or cannot be looked up.
fn control_rights(config: &Config, flags: &Flags) -> Result<FileRights, Failure> {
    let group = config.control_group.as_deref().map(privilege::find_group);
    let group = group.transpose().map_err(|error| {
        let advice = match error {
            AccountError::Database(_) => "; write the number of the group, or restart the server",
            _ => "",
        };
        flags.blame("control-group", format!("{error}{advice}"))
    })?;
    let (user, own) = privilege::current();
    let mode = config.control_mode_in_force();
    Ok(FileRights {
        mode: mode.0,
        // Also if it is the group of this process: a folder with the set-group-ID bit gives its own group to new files.
        owner: mode.admits_group().then_some((user, group.unwrap_or(own))),
    })
}

/// A descriptor that becomes readable when a `weir ctl` connects.
fn watched(control: &Control) -> Result<OwnedFd, Failure> {
    control
        .descriptor()
        .map_err(|error| refused("the control socket", &error))
}

/// Writes the start report: JSON to standard output, text to standard error.
fn announce(started: &Started<'_>, voice: &Voice) {
    if voice.json {
        let mut out = io::stdout().lock();
        // A closed standard output is no reason not to serve.
        let _ = writeln!(out, "{}", started.json()).and_then(|()| out.flush());
    }
    if voice.reports() {
        let _ = Diagnostics::default().write_all(started.text(voice.color()).as_bytes());
    }
}

fn unservable(error: &OpenError, flags: &Flags) -> Failure {
    match error {
        // No root is at fault.
        OpenError::Root(_, runtime::fs::OpenError::TooManyOpen)
        | OpenError::Mount {
            cause: runtime::fs::OpenError::TooManyOpen,
            ..
        } => Failure::System(format!(
            "{error}; each root of a host or a mount needs three descriptors"
        )),
        OpenError::Root(root, _) if root.is_file() => flags.blame_root(format!(
            "cannot serve `{}`: it is a file; name the directory that contains it",
            root.display()
        )),
        OpenError::Root(..) => flags.blame_root(format!("{error}; name a readable directory")),
        OpenError::Mount { host, root, path, .. } => {
            let why = match root.is_file() {
                true => format!(
                    "`{path}` cannot be served from `{}`: it is a file; name the directory that contains it",
                    root.display()
                ),
                false => format!("{error}; name a readable directory"),
            };
            match host {
                Some(number) => flags.blame_host(*number, "mount", why),
                None => flags.blame("mount", why),
            }
        }
        OpenError::Replay(why) => flags.blame("replay", why.clone()),
        OpenError::Version { host: None, cause } => flags.blame("versions", cause.to_string()),
        OpenError::Version {
            host: Some(number),
            cause,
        } => flags.blame_host(*number, "versions", cause.to_string()),
        OpenError::Hosts(_)
        | OpenError::NoRoot
        | OpenError::Users(_)
        | OpenError::Upstreams(_)
        | OpenError::Uploads(_)
        | OpenError::Token(_) => Failure::Usage(error.to_string()),
        OpenError::Control(_) => Failure::System(error.to_string()),
        OpenError::Logins(_) => Failure::System(format!("{error}; list logins and homes in `[tilde.users]`")),
        OpenError::Watch(_) => Failure::System(format!(
            "{error}; each root of a host or a mount needs a thread and three descriptors: raise the limits on them (TasksMax of \
             systemd, ulimit -u, ulimit -n)"
        )),
    }
}

fn refused(what: &str, error: &io::Error) -> Failure {
    let hint = match runtime::machine::is_out_of_descriptors(error) {
        true => "; the descriptor limit is too low: raise `ulimit -n` (LimitNOFILE= of a unit) to 64 or more",
        false => "",
    };
    Failure::System(format!("{what}: the system refused: {error}{hint}"))
}
