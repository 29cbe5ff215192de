//! A link made real: a command in a network namespace of its own, and everything it sends and receives carried through
//! a [`link::Path`].
//!
//! ```text
//!  near                      middle                        far                         outside
//!  the command ── weir0 ══ near ─ ferry thread ─ far ══ far0 ── relay's listeners ─ ─ relay thread
//!  198.18.0.2                  link::Path             198.18.0.1, and every other   where this was started
//! ```
//!
//! Needs no privilege where user namespaces are allowed: the process enters one, threads of it enter network namespaces
//! ([`room`]), and a veth pair leads from each end to packet sockets of the ferry ([`carry`]). Where `/dev/net/tun`
//! opens, TUN devices do as well. What lies outside is reached through the [`relay`]; a second command, run at the far
//! end, is reached directly. Namespaces, interfaces and routes go with the process, whatever ends it.
//!
//! Decides no parameter: profile and settings come from the caller.

pub mod calibrate;
mod carry;
mod child;
mod ground;
mod netlink;
mod port;
pub mod proxy;
mod ready;
mod relay;
mod room;

use core::fmt;
use link::{Counters, Direction, Profile};
use measure::{Duration, Instant, Seed};
use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::sync::mpsc::sync_channel;

/// The far end, and behind it the machine this was started on. RFC 2544 keeps these addresses for measurements.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The command's own address.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The command's interface.
pub const INTERFACE: &str = "weir0";

/// What carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Pairs of virtual Ethernet interfaces and packet sockets.
    Veth,
    /// TUN devices.
    Tun,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Veth => "veth + AF_PACKET",
            Backend::Tun => "TUN",
        })
    }
}

/// Settings of the two hosts' TCP, where they differ from the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Largest segment each side announces.
    pub mss: Option<u32>,
    /// Segments a sender begins with.
    pub initcwnd: Option<u32>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Whether a connection that was idle starts slowly again.
    pub idle_restart: Option<bool>,
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The link.
    pub profile: Profile,
    /// All chance of the link.
    pub seed: Seed,
    /// Bounds of the link.
    pub limits: link::Limits,
    /// TCP of both ends.
    pub hosts: HostSettings,
    /// The back end, if it must be this one.
    pub backend: Option<Backend>,
}

/// What passes, as it passes.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A packet at the command's end: on entering the link, or on leaving it.
    Frame {
        /// Nanoseconds since 1970.
        civil: u64,
        /// Which way it goes.
        direction: Direction,
        /// The packet, from its IP header.
        ip: Vec<u8>,
    },
    /// The counters, now and then.
    Tally(Box<Tally>),
}

/// What is late, as the tally counts.
pub const LATE: Duration = Duration::from_millis(1);

/// What has passed so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// As of when, by the machine's monotonic clock.
    pub at: Instant,
    /// Packets: up, down.
    pub ways: [Counters; 2],
    /// Bytes of IP packets that entered: up, down.
    pub bytes_in: [u64; 2],
    /// Bytes of IP packets that left: up, down.
    pub bytes_out: [u64; 2],
    /// Frames the kernel would not take at the end of the link.
    pub refused: u64,
    /// Frames lost before the link: they came faster than the ferry could look. Above zero the emulation is not the
    /// profile.
    pub overflowed: u64,
    /// Packets that left more than [`LATE`] after they were due. Many make a link that is slower than its profile.
    pub late: u64,
    /// By how much the latest packet left after it was due.
    pub late_max: Duration,
    /// Notices that nobody took in time.
    pub untold: u64,
    /// Processor time the ferry's one thread has used.
    pub cpu: Duration,
}

/// Who is told of [`Notice`]s, on a thread of their own.
pub struct Observer {
    /// Whether packets are told as well as counters.
    pub frames: bool,
    /// How often counters are.
    pub every: Duration,
    /// What to do with each.
    pub tell: Box<dyn FnMut(Notice) + Send>,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// When the far end is ready for the near command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FarReady {
    /// Always.
    AtOnce,
    /// As soon as somebody there listens or has bound a UDP port; after [`FarReady::PATIENCE`] without, with a warning.
    #[default]
    Anybody,
    /// As soon as this port is listened to; there is no run if that does not happen within [`FarReady::PATIENCE_PORT`].
    Port(u16),
}

impl FarReady {
    /// How long anybody is waited for.
    pub const PATIENCE: Duration = Duration::from_secs(5);
    /// How long a port is.
    pub const PATIENCE_PORT: Duration = Duration::from_secs(30);
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Behind the link; its words.
    pub near: Vec<OsString>,
    /// At the far end, to be reached at [`GATEWAY`] without the relay; it and all it started are ended when the other
    /// one ends.
    pub far: Option<Vec<OsString>>,
    /// What the near command waits for.
    pub far_ready: FarReady,
    /// Variables both get.
    pub environment: Vec<(String, String)>,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// As a shell says it: the command's exit code, or 128 and the number of the signal that ended it.
    pub code: u8,
    /// What passed.
    pub tally: Tally,
    /// From the start of the command to its end.
    pub took: Duration,
}

/// Why there is no link, and what could be done.
#[derive(Debug)]
pub enum Fault {
    /// The system refused a step of setting it up.
    Refused {
        /// What was tried.
        step: String,
        /// What the system said.
        error: io::Error,
    },
    /// The command cannot be started.
    Command {
        /// Its first word.
        name: String,
        /// Why not.
        error: io::Error,
    },
    /// The far end is not what was asked for.
    Far {
        /// What is missing.
        why: String,
    },
    /// The hosts cannot be what was asked for.
    Host {
        /// What this kernel has not got.
        why: String,
    },
}

impl Fault {
    pub(crate) fn at(step: impl Into<String>) -> impl FnOnce(io::Error) -> Fault {
        let step = step.into();
        move |error| Fault::Refused { step, error }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused { step, error } => write!(f, "{step}: {error}"),
            Fault::Command { name, error } => write!(f, "cannot run {name}: {error}"),
            Fault::Far { why } | Fault::Host { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

/// Two ends and what lies between, ready for a command.
pub struct Link {
    ground: ground::Ground,
    signals: child::Signals,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("backend", &self.backend())
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Makes namespaces, interfaces and routes. Must be called while the process has one thread; afterwards it may be
    /// in a user namespace.
    ///
    /// # Errors
    /// The step that was refused.
    pub fn make(plan: &Plan) -> Result<Link, Fault> {
        // Before any thread exists: one that does not hold them would swallow them.
        let signals = child::Signals::block().map_err(Fault::at("blocking signals"))?;
        Ok(Link {
            ground: ground::Ground::make(plan)?,
            signals,
        })
    }

    /// What carries the packets.
    pub fn backend(&self) -> Backend {
        self.ground.backend
    }

    /// Why it is this back end and these namespaces, a sentence each.
    pub fn reasons(&self) -> &[String] {
        &self.ground.reasons
    }

    /// Runs the command behind the link and waits for it; signals sent to this process go on to it.
    ///
    /// # Errors
    /// What cannot be started, or what the system refused.
    pub fn run(self, plan: &Plan, commands: &Commands, observer: Option<Observer>) -> Result<Outcome, Fault> {
        let Link { mut ground, signals } = self;
        let (watch, teller) = match observer {
            Some(mut observer) => {
                let (to, notices) = sync_channel(1 << 16);
                let watch = carry::Watch {
                    to,
                    frames: observer.frames,
                    every: observer.every,
                };
                let teller = std::thread::Builder::new()
                    .name("observer".to_owned())
                    .spawn(move || notices.into_iter().for_each(|notice| (observer.tell)(notice)))
                    .map_err(Fault::at("starting a thread"))?;
                (Some(watch), Some(teller))
            }
            None => (None, None),
        };
        // The link's time starts with the near command, so that a trace is not half over when it does.
        let far = match signals.start_far(&ground, commands)? {
            child::Far::Running(far) => Some(far),
            child::Far::None => None,
            child::Far::Interrupted(code) => {
                return Ok(Outcome {
                    code,
                    tally: Tally::default(),
                    took: Duration::ZERO,
                });
            }
        };
        let running = ground.start(plan, watch, true)?;
        let start = crate::clock::now();
        let outcome = signals.see_through(&ground, commands, far);
        let took = crate::clock::now().since(start);
        let tally = running.stop();
        if let Some(teller) = teller {
            // It ends once the ferry has let go of its end.
            let _ = teller.join();
        }
        Ok(Outcome {
            code: outcome?,
            tally,
            took,
        })
    }
}

/// Whether the calling process is behind a link already, whose gateway leads to the machine itself.
pub fn is_nested() -> bool {
    let devices = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    devices.lines().any(|line| {
        line.trim_start()
            .strip_prefix(INTERFACE)
            .is_some_and(|rest| rest.starts_with(':'))
    })
}
