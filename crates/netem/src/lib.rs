//! An emulated link: a command runs in a network namespace of its own, and everything it sends and receives passes
//! through a [`link::Path`].
//!
//! ```text
//!  near                      middle                        far                         outside
//!  the command ── weir0 ══ near ─ emulator ───── far ══ far0 ── relay's listeners ─ ─ relay thread
//!  198.18.0.2                  link::Path             198.18.0.1, and every other   where this was started
//! ```
//!
//! Needs no privileges where user namespaces are allowed. The process enters one, its threads enter network namespaces
//! ([`netns`]), and a veth pair leads from each end to packet sockets of the emulator ([`carry`]). TUN devices work as
//! well where `/dev/net/tun` can be opened. The outside is reached through the [`relay`]; a second command, run at the far
//! end, is reached directly. Namespaces, interfaces and routes disappear with the process, however it ends.
//!
//! With modeled TCP ([`Plan::tcp`]), the command's connections end beside it, and those of a [`Bridge`](netsim::Bridge) cross
//! the link in their place ([`stacked`]).
//!
//! The caller decides all parameters: profile and settings.

mod aged;
pub mod calibrate;
mod carry;
mod child;
mod control;
mod datagrams;
mod flows;
mod netlink;
mod netns;
pub mod packets;
mod port;
pub mod proxy;
mod ready;
mod relay;
mod resolver;
mod setup;
mod stacked;
mod udp;

use core::fmt;
use link::{Counters, Direction, Profile};
use netsim::BridgeHost;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::sync::mpsc::sync_channel;
use units::{Duration, Instant, Seed};

/// The far end, and behind it the machine this was started on. RFC 2544 reserves these addresses for measurements.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The command's own address.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The command's interface.
pub const INTERFACE: &str = "weir0";

/// The means of carrying packets.
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

/// TCP settings of the two hosts, where they differ from the system's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Largest segment each side announces, in bytes.
    pub mss: Option<u32>,
    /// Initial congestion window, in segments.
    pub initcwnd: Option<u32>,
    /// Congestion control algorithm.
    pub congestion: Option<String>,
    /// Whether a connection restarts with slow start after idling.
    pub idle_restart: Option<bool>,
    /// Whether the features that TCP did not have in 1997 are off, as far as the kernel allows ([`aged`]). The other
    /// settings override it.
    pub aged: bool,
}

/// How the relay of UDP behaves, as a NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSettings {
    /// Flows at a time. A further one replaces the flow that has been idle the longest. 0: UDP does not leave the far end.
    pub flows_max: usize,
    /// How long a flow stays without a datagram.
    pub idle: Duration,
    /// When a flow gets a new source port; `None`: never.
    pub rebind: Option<Rebind>,
}

impl Default for UdpSettings {
    /// Two minutes are the least that RFC 4787 (section 4.3) allows.
    fn default() -> UdpSettings {
        UdpSettings {
            flows_max: 1_024,
            idle: Duration::from_secs(120),
            rebind: None,
        }
    }
}

/// When a NAT gives a UDP flow a new source port. It does so with the next datagram of the client; what the server sends
/// to the old port afterwards is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebind {
    /// This long after the last change.
    After(Duration),
    /// After this many datagrams of the client.
    Every(u64),
}

/// What to emulate, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The link.
    pub profile: Profile,
    /// Seed of all random choices of the link.
    pub seed: Seed,
    /// Limits of the link.
    pub limits: link::Limits,
    /// TCP settings of both ends.
    pub hosts: HostSettings,
    /// The relay of UDP. Without effect on a link between modeled TCPs, which UDP does not cross.
    pub udp: UdpSettings,
    /// The required back end; `None`: choose.
    pub backend: Option<Backend>,
    /// Modeled TCP of the near and the far host, which replaces that of the kernel on the link; `hosts` is then without
    /// effect on it. `None`: the kernel's.
    pub tcp: Option<[BridgeHost; 2]>,
}

/// A report while the link runs.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A packet at the command's end, entering or leaving the link.
    Frame {
        /// Nanoseconds since 1970.
        civil: u64,
        /// Its direction.
        direction: Direction,
        /// The packet, from its IP header.
        ip: Vec<u8>,
    },
    /// The counters, at intervals.
    Tally(Box<Tally>),
}

/// A packet later than this counts as late.
pub const LATE: Duration = Duration::from_millis(1);

/// Counters of the UDP relay since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpTally {
    /// Flows that were opened.
    pub opened: u64,
    /// Flows that were replaced because there were [too many](UdpSettings::flows_max), or too few descriptors.
    pub evicted: u64,
    /// Those of them for want of a descriptor.
    pub evicted_for_descriptors: u64,
    /// Source ports that were changed ([`Rebind`]).
    pub rebound: u64,
    /// ICMP errors that the client was sent.
    pub unreachable: u64,
    /// Fragments of datagrams that were dropped: the relay does not join them.
    pub fragments: u64,
    /// Answers that were dropped because they are longer than the MTU of the link.
    pub too_large: u64,
    /// Datagrams lost because they arrived faster than they could be relayed.
    pub overflowed: u64,
    /// Datagrams that the system did not take, without a reason for the client.
    pub unsent: u64,
}

/// Counters since the start.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Time of the reading, on the machine's monotonic clock.
    pub at: Instant,
    /// Packets: up, down.
    pub ways: [Counters; 2],
    /// Bytes of IP packets that entered the link: up, down.
    pub bytes_in: [u64; 2],
    /// Bytes of IP packets that left the link: up, down.
    pub bytes_out: [u64; 2],
    /// Frames the kernel rejected at the end of the link.
    pub refused: u64,
    /// Frames lost before the link, because they arrived faster than the emulator could read. Above zero, the emulation
    /// does not match the profile.
    pub overflowed: u64,
    /// Packets that left more than [`LATE`] after they were due. Many of them make the link slower than its profile.
    pub late: u64,
    /// The largest such delay.
    pub late_max: Duration,
    /// The relay of UDP.
    pub udp: UdpTally,
    /// Notices dropped because the observer was too slow.
    pub untold: u64,
    /// Processor time used by the emulator's one thread.
    pub cpu: Duration,
}

/// Receives [`Notice`]s, on a thread of its own.
pub struct Observer {
    /// Whether to report packets as well as counters.
    pub frames: bool,
    /// Interval between reports of the counters.
    pub every: Duration,
    /// Called with each notice.
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
    /// As soon as a process there listens or has bound a UDP port; after [`FarReady::PATIENCE`] without one, the
    /// command starts with a warning.
    #[default]
    Anybody,
    /// As soon as a process listens on this port; if none does within [`FarReady::PATIENCE_PORT`], nothing runs.
    Port(u16),
}

impl FarReady {
    /// How long to wait for any listener.
    pub const PATIENCE: Duration = Duration::from_secs(5);
    /// How long to wait for a port.
    pub const PATIENCE_PORT: Duration = Duration::from_secs(30);
}

/// The commands to run.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Behind the link; its words.
    pub near: Vec<OsString>,
    /// At the far end, reachable at [`GATEWAY`] without the relay. It and everything it started are ended when the near
    /// command ends.
    pub far: Option<Vec<OsString>>,
    /// When to start the near command.
    pub far_ready: FarReady,
    /// Environment variables of both.
    pub environment: Vec<(String, String)>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit code as in a shell: the command's own, or 128 plus the signal that ended it.
    pub code: u8,
    /// The final counters.
    pub tally: Tally,
    /// From the start of the command to its end.
    pub took: Duration,
    /// TCP settings of the near and the far end when the command ended.
    pub settings: [Settings; 2],
}

/// TCP settings of a host by name: files below /proc/sys/net/ipv4, and `initcwnd` of its routes in segments, if set.
pub type Settings = BTreeMap<String, String>;

/// Why there is no link, and how to fix it.
#[derive(Debug)]
pub enum Fault {
    /// The system refused a step of the setup.
    Refused {
        /// The step.
        step: String,
        /// The system's error.
        error: io::Error,
    },
    /// The command cannot be started.
    Command {
        /// Its first word.
        name: String,
        /// Why not.
        error: io::Error,
    },
    /// The far end is not as requested.
    Far {
        /// What is missing.
        why: String,
    },
    /// The hosts cannot have the requested settings.
    Host {
        /// What this kernel lacks.
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

/// Two ends and the link between them, ready for a command.
pub struct Link {
    setup: setup::Setup,
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
    /// Creates namespaces, interfaces and routes. Must be called while the process has one thread; afterwards the
    /// process may be in a user namespace.
    ///
    /// # Errors
    /// The step that was refused.
    pub fn make(plan: &Plan) -> Result<Link, Fault> {
        // Before any other thread exists: a thread that does not block these signals would receive them.
        let signals = child::Signals::block().map_err(Fault::at("blocking signals"))?;
        Ok(Link {
            setup: setup::Setup::make(plan)?,
            signals,
        })
    }

    /// The back end in use.
    pub fn backend(&self) -> Backend {
        self.setup.backend
    }

    /// Why this back end and these namespaces were chosen, one sentence each.
    pub fn reasons(&self) -> &[String] {
        &self.setup.reasons
    }

    /// Runs the command behind the link and waits for it; forwards signals sent to this process.
    ///
    /// # Errors
    /// A command that cannot be started, or a step the system refused.
    pub fn run(self, plan: &Plan, commands: &Commands, observer: Option<Observer>) -> Result<Outcome, Fault> {
        let Link { mut setup, signals } = self;
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
        // The link's time starts with the near command, so that a trace has not already advanced by then.
        let far = match signals.start_far(&setup, commands)? {
            child::Far::Running(far) => Some(far),
            child::Far::None => None,
            child::Far::Interrupted(code) => {
                return Ok(Outcome {
                    code,
                    tally: Tally::default(),
                    took: Duration::ZERO,
                    settings: setup.settings(plan),
                });
            }
        };
        let running = setup.start(plan, watch, Some(far.is_some()))?;
        let start = runtime::clock::now();
        let outcome = signals.see_through(&setup, commands, far);
        let took = runtime::clock::now().since(start);
        let settings = setup.settings(plan);
        let tally = running.stop();
        if let Some(teller) = teller {
            // It ends once the emulator has dropped its end.
            let _ = teller.join();
        }
        Ok(Outcome {
            code: outcome?,
            tally,
            took,
            settings,
        })
    }
}

/// Whether the calling process is already behind a link whose gateway leads to the machine itself.
pub fn is_nested() -> bool {
    let devices = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    devices.lines().any(|line| {
        line.trim_start()
            .strip_prefix(INTERFACE)
            .is_some_and(|rest| rest.starts_with(':'))
    })
}
