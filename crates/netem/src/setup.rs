//! The environment of a link: namespaces, two ends with addresses and routes, the emulator's ports, the relay.
//!
//! Decides which back end to use and whether a user namespace is needed, and gives the reasons. Addresses are equal for
//! all links: each link has namespaces of its own, so none can see another's.

use crate::aged;
use crate::carry::{Emulator, Watch};
use crate::control::Control;
use crate::datagrams::{self, DatagramRelay};
use crate::netlink::{Mac, Metrics, Netlink};
use crate::netns::Netns;
use crate::port::{Frame, Port};
use crate::relay::{Door, Outside, Relay};
use crate::resolver::Resolver;
use crate::stacked::{Ends, Stacked};
use crate::{ADDRESS, Backend, Fault, GATEWAY, HostSettings, INTERFACE, Plan, Settings, Tally, is_nested};
use link::{LossModel, Path, Profile, Way};
use netsim::{Bridge, BridgeHost, BridgeLimits};
use runtime::bell::Bell;
use runtime::{clock, sys};
use rustix::thread::CapabilitySet;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use units::{Bytes, Duration, Instant};

/// Locally administered; there is no other host on the cable.
const NEAR_MAC: Mac = [2, 0, 0, 0, 0, 2];
const FAR_MAC: Mac = [2, 0, 0, 0, 0, 1];
const FAR_INTERFACE: &str = "far0";
/// Ethernet's MTU, used for a link without an MTU of its own.
const USUAL_MTU: u32 = 1_500;
/// The smallest MTU with which Linux keeps IPv4 on an interface; the largest follows.
const MTU_MIN: u32 = 68;
const MTU_MAX: u32 = 65_535;
/// The largest MTU of a TUN device: Linux keeps room for an Ethernet header (`drivers/net/tun.c`).
const TUN_MTU_MAX: u32 = MTU_MAX - 14;
/// Smallest, initial and largest kernel buffer of a program's sockets beside modeled TCP, in bytes. Small, because bytes
/// that wait in them are not in the model's buffers.
const PROGRAM_BUFFERS: &str = "4096 16384 16384";

/// Everything but the emulator, which starts with the command.
pub(super) struct Setup {
    pub(super) near: Netns,
    pub(super) far: Netns,
    /// Where the command's cable ends if TCP is modeled. Otherwise it ends at the far host.
    desk: Option<Netns>,
    pub(super) backend: Backend,
    pub(super) reasons: Vec<String>,
    ports: Option<[Port; 2]>,
    /// Whether segments longer than a wire's packets pass.
    offload: bool,
    /// The largest packet that the near end's interface takes, in bytes.
    mtu: u32,
    /// Whether UDP, and so DNS, leaves the far end. It does not cross modeled TCP.
    has_udp: bool,
    resolver: Resolver,
}

/// A thread that runs until told to stop.
type Worker = JoinHandle<io::Result<()>>;

/// A relay's thread, its name, its bell and what tells it to stop.
struct Helper {
    name: &'static str,
    thread: Worker,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
}

/// A running emulator with its relays.
pub(super) struct Running {
    pub(super) control: Arc<Control>,
    /// When the link's time began.
    pub(super) origin: Instant,
    emulator: Worker,
    relays: Vec<Helper>,
    /// The counters of a link between modeled TCPs. The emulator then carries only the command's cable.
    modeled: Option<Arc<Mutex<Tally>>>,
}

impl Setup {
    pub(super) fn make(plan: &Plan) -> Result<Setup, Fault> {
        let mtu = mtu_of(&plan.profile);
        possible(mtu.unwrap_or(USUAL_MTU), plan.backend)?;
        let mut reasons = vec![enter_user_namespace()?];
        let hosts = aged::completed(&plan.hosts);
        let near = Netns::new("near").map_err(no_namespace)?;
        let far = Netns::new("far").map_err(no_namespace)?;
        let desk = match &plan.tcp {
            Some(tcp) => {
                reasons.push(stacks_of(tcp));
                Some(Netns::new("desk").map_err(no_namespace)?)
            }
            None => None,
        };
        // With modeled TCP, the cable shapes nothing: the link is between the models.
        let offload = desk.is_some() || mtu.is_none() && is_unshaped(&plan.profile);
        let mtu = mtu.filter(|_| desk.is_none()).unwrap_or(USUAL_MTU);
        let other = desk.as_ref().unwrap_or(&far);
        let try_veth = || veth(&near, other, mtu, offload, &hosts);
        let try_tun = || tun(&near, other, mtu, &hosts);
        let (ports, backend) = match plan.backend {
            Some(Backend::Tun) => {
                reasons.push("TUN was requested".to_owned());
                (try_tun()?, Backend::Tun)
            }
            Some(Backend::Veth) => {
                reasons.push("veth was requested".to_owned());
                (try_veth()?, Backend::Veth)
            }
            None => match try_veth() {
                Ok(ports) => {
                    reasons.push("veth + AF_PACKET works here and needs no device file".to_owned());
                    (ports, Backend::Veth)
                }
                Err(fault @ Fault::Refused { .. }) if !fault.is_of_hosts() => {
                    reasons.push(format!("TUN, because veth was refused ({fault})"));
                    (
                        try_tun().map_err(|second| first_and(fault, &second))?,
                        Backend::Tun,
                    )
                }
                Err(fault) => return Err(fault),
            },
        };
        if let Some(desk) = &desk {
            beside_models(&near, desk, &far)?;
        }
        let offload = offload && backend == Backend::Veth;
        if offload && desk.is_none() {
            reasons.push(
                "the profile shapes nothing per packet, so segments of up to 64 KiB pass whole".to_owned(),
            );
        }
        let resolver = Resolver::of_machine();
        let has_udp = desk.is_none() && plan.udp.flows_max > 0;
        reasons.extend(resolver.reason().filter(|_| has_udp));
        Ok(Setup {
            near,
            far,
            desk,
            backend,
            reasons,
            ports: Some(ports),
            offload,
            mtu,
            has_udp,
            resolver,
        })
    }

    /// What the near command must see as the configuration of its name servers, if not the machine's.
    pub(super) fn name_servers(&self) -> Option<&str> {
        self.resolver.text().filter(|_| self.has_udp)
    }

    /// TCP settings of the near and the far end as they are now. A command may have changed them.
    pub(super) fn settings(&self, plan: &Plan) -> [Settings; 2] {
        [&self.near, &self.far].map(|end| {
            let hosts = plan.hosts.clone();
            // An end that is gone has no settings.
            end.call(move || aged::read(&hosts)).unwrap_or_default()
        })
    }

    /// Starts the emulator and, if requested, the relays: `relays` says whether a command runs at the far end.
    pub(super) fn start(
        &mut self,
        plan: &Plan,
        mut watch: Option<Watch>,
        relays: Option<bool>,
    ) -> Result<Running, Fault> {
        let mut profile = plan.profile.clone();
        if self.desk.is_some() {
            profile = Profile::default();
        }
        if self.offload {
            profile.up.mtu = None;
            profile.down.mtu = None;
        }
        let bell = || Bell::new().map_err(Fault::at("eventfd"));
        let control = Arc::new(Control {
            bell: bell()?,
            stop: AtomicBool::new(false),
            tally: Mutex::new(Tally::default()),
        });
        let mut door = None;
        let mut helpers = Vec::new();
        let mut modeled = None;
        let mut datagram_door = None;
        let ports = self.ports.take().ok_or_else(|| Fault::Refused {
            step: "starting an emulator a second time".to_owned(),
            error: io::Error::from(io::ErrorKind::AlreadyExists),
        })?;
        if let Some(has_far) = relays {
            let (to, news) = channel();
            let (back, returned) = channel();
            let bell = Arc::new(bell()?);
            let stop = Arc::new(AtomicBool::new(false));
            let outside = Outside {
                gateway: GATEWAY,
                host: if is_nested() { GATEWAY } else { Ipv4Addr::LOCALHOST },
                resolver: self.resolver.server,
            };
            let thread = if let (Some(tcp), Some(desk)) = (&plan.tcp, &self.desk) {
                let tally = Arc::new(Mutex::new(Tally::default()));
                modeled = Some(Arc::clone(&tally));
                let watch = watch.take();
                let captures = watch.as_ref().is_some_and(|watch| watch.frames);
                let limits = BridgeLimits {
                    link: plan.limits.clone(),
                    ..BridgeLimits::default()
                };
                let [near, far] = tcp;
                let bridge = Bridge::new(&plan.profile, [near, far], plan.seed, limits, captures);
                let ends = Ends {
                    desk: desk.clone(),
                    far: self.far.clone(),
                    outside,
                    news,
                    bell: Arc::clone(&bell),
                    back,
                    cable: Arc::clone(&control),
                    stop: Arc::clone(&stop),
                    tally,
                    watch,
                };
                let stacked = Stacked::new(bridge, ends).map_err(Fault::at("epoll"))?;
                thread("modeled TCP", move || stacked.run())?
            } else {
                if plan.udp.flows_max > 0 {
                    let far = has_far.then(|| self.far.clone());
                    let prefix = ports[0].prefix(FAR_MAC, NEAR_MAC);
                    let (helper, door) = self.datagrams(plan, far, prefix, outside, &back, &control)?;
                    helpers.push(helper);
                    datagram_door = Some(door);
                }
                let relaying = Relay::new(
                    self.far.clone(),
                    outside,
                    news,
                    Arc::clone(&bell),
                    back,
                    Arc::clone(&control),
                    Arc::clone(&stop),
                );
                thread("relay", move || relaying.run())?
            };
            door = Some((
                Door {
                    to,
                    bell: Arc::clone(&bell),
                },
                returned,
            ));
            helpers.push(Helper {
                name: "the relay",
                thread,
                bell,
                stop,
            });
        }
        let origin = clock::now();
        let emulator = Emulator {
            ports,
            origin,
            path: Path::new(&profile, plan.seed, &plan.limits),
            door,
            datagrams: datagram_door,
            watch,
            control: Arc::clone(&control),
        };
        Ok(Running {
            control,
            origin,
            emulator: thread("emulator", move || emulator.run())?,
            relays: helpers,
            modeled,
        })
    }

    /// Starts the relay of UDP. `far` is the namespace of the command at the far end, if there is one.
    fn datagrams(
        &self,
        plan: &Plan,
        far: Option<Netns>,
        prefix: Vec<u8>,
        outside: Outside,
        back: &Sender<Frame>,
        control: &Arc<Control>,
    ) -> Result<(Helper, datagrams::Door), Fault> {
        let bell = Arc::new(Bell::new().map_err(Fault::at("eventfd"))?);
        let stop = Arc::new(AtomicBool::new(false));
        let (to, news) = sync_channel(datagrams::WAITING_MAX);
        let (answer, answers) = sync_channel(datagrams::WAITING_MAX);
        let direct = Arc::new(datagrams::Ports::new());
        let counts = Arc::new(datagrams::Counts::default());
        let door = datagrams::Door {
            to,
            bell: Arc::clone(&bell),
            answers,
            direct: Arc::clone(&direct),
            has_far: far.is_some(),
            counts: Arc::clone(&counts),
            is_news: false,
        };
        let ends = datagrams::Ends {
            settings: plan.udp,
            prefix,
            mtu: self.mtu as usize,
            outside,
            news,
            bell: Arc::clone(&bell),
            back: back.clone(),
            answers: answer,
            emulator: Arc::clone(control),
            stop: Arc::clone(&stop),
            far,
            direct,
            counts,
        };
        let relay = DatagramRelay::new(ends).map_err(Fault::at("epoll"))?;
        let helper = Helper {
            name: "the relay of UDP",
            thread: thread("UDP relay", move || relay.run())?,
            bell,
            stop,
        };
        Ok((helper, door))
    }
}

impl Running {
    /// Stops both and returns the final counters.
    pub(super) fn stop(self) -> Tally {
        for helper in self.relays {
            helper.stop.store(true, Ordering::Release);
            helper.bell.ring();
            report(helper.thread, helper.name);
        }
        self.control.stop.store(true, Ordering::Release);
        self.control.bell.ring();
        report(self.emulator, "the emulator");
        let carried = latest(&self.control.tally);
        let Some(modeled) = self.modeled else {
            return carried;
        };
        // Packets that the cable loses or delays falsify the run as those of the link do.
        let mut tally = latest(&modeled);
        tally.refused += carried.refused;
        tally.overflowed += carried.overflowed;
        tally.late += carried.late;
        tally.late_max = tally.late_max.max(carried.late_max);
        tally.cpu += carried.cpu;
        tally
    }
}

fn latest(tally: &Mutex<Tally>) -> Tally {
    let tally = tally.lock();
    tally.map_or_else(|poisoned| poisoned.into_inner().clone(), |tally| tally.clone())
}

fn report(thread: Worker, who: &str) {
    match thread.join() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("{who} stopped early: {error}"),
        Err(_) => tracing::warn!("{who} panicked"),
    }
}

fn thread(name: &str, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<Worker, Fault> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(Fault::at("starting a thread"))
}

/// Obtains the right to create network namespaces; says how.
fn enter_user_namespace() -> Result<String, Fault> {
    let capabilities =
        rustix::thread::capabilities(None).map_err(|error| Fault::at("capget")(error.into()))?;
    let wanted = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    if capabilities.effective.contains(wanted) {
        return Ok("no user namespace: this process may make network namespaces".to_owned());
    }
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    sys::unshare(true, false).map_err(Fault::at(
        "entering a user namespace (for a remedy, see `weir lab doctor`)",
    ))?;
    let write =
        |file: &str, text: String| std::fs::write(file, text).map_err(Fault::at(format!("writing {file}")));
    // Missing before Linux 3.19, and not needed then.
    let _ = write("/proc/self/setgroups", "deny".to_owned());
    write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    Ok("a user namespace, because this process may not create network namespaces without one".to_owned())
}

fn no_namespace(error: io::Error) -> Fault {
    Fault::Refused {
        step: "creating a network namespace (for a remedy, see `weir lab doctor`)".to_owned(),
        error,
    }
}

impl Fault {
    /// Whether the cause is a setting of the user, which no other back end would change.
    fn is_of_hosts(&self) -> bool {
        matches!(self, Fault::Refused { step, .. } if step.contains("sysctl"))
    }
}

fn first_and(first: Fault, second: &Fault) -> Fault {
    match first {
        Fault::Refused { step, error } => Fault::Refused {
            step: format!("{step}, and then {second}"),
            error,
        },
        other => other,
    }
}

/// The larger of both directions' MTUs, if one is set: hosts must be able to send what the link carries.
fn mtu_of(profile: &Profile) -> Option<u32> {
    let both = [profile.up.mtu, profile.down.mtu];
    both.iter()
        .flatten()
        .max()
        .map(|Bytes(mtu)| u32::try_from(*mtu).unwrap_or(u32::MAX))
}

/// Whether interfaces of this back end can have this MTU.
fn possible(mtu: u32, backend: Option<Backend>) -> Result<(), Fault> {
    let most = match backend {
        Some(Backend::Tun) => TUN_MTU_MAX,
        Some(Backend::Veth) | None => MTU_MAX,
    };
    if (MTU_MIN..=most).contains(&mtu) {
        return Ok(());
    }
    let device = match backend {
        Some(Backend::Tun) => "a TUN device",
        Some(Backend::Veth) | None => "an interface",
    };
    Err(Fault::Host {
        why: format!("`mtu`: {device} with IPv4 has {MTU_MIN} to {most} bytes, not {mtu}"),
    })
}

/// Whether no part of the profile handles single packets.
fn is_unshaped(profile: &Profile) -> bool {
    let plain = |way: &Way| {
        let is_lossless = match way.loss {
            None => true,
            Some(LossModel::Independent(p)) => p == 0.0,
            Some(LossModel::GilbertElliott { .. }) => false,
        };
        way.server.is_none() && is_lossless && way.hold_acks.is_none() && way.jitter == link::Jitter::None
    };
    plain(&profile.up) && plain(&profile.down)
}

/// Creates both ends as veth pairs, their other halves in a namespace of the emulator.
fn veth(
    near: &Netns,
    far: &Netns,
    mtu: u32,
    offload: bool,
    hosts: &HostSettings,
) -> Result<[Port; 2], Fault> {
    let middle = Netns::new("middle").map_err(no_namespace)?;
    let middle_namespace = Arc::new(middle.namespace().map_err(Fault::at("opening a namespace"))?);
    middle.call(no_ipv6).map_err(Fault::at("a thread"))?;
    let ends = [
        (
            near,
            End {
                name: INTERFACE,
                cable: "near",
                own: ADDRESS,
                peer: GATEWAY,
                mac: NEAR_MAC,
                peer_mac: FAR_MAC,
            },
        ),
        (
            far,
            End {
                name: FAR_INTERFACE,
                cable: "far",
                own: GATEWAY,
                peer: ADDRESS,
                mac: FAR_MAC,
                peer_mac: NEAR_MAC,
            },
        ),
    ];
    let mut ports = Vec::new();
    for (netns, end) in ends {
        let namespace = Arc::clone(&middle_namespace);
        let hosts = hosts.clone();
        netns
            .call(move || {
                prepare(&hosts, end.own == GATEWAY)?;
                let kernel = Netlink::open().map_err(Fault::at("opening rtnetlink"))?;
                kernel
                    .add_pair((end.name, end.mac), (end.cable, namespace.fd()), mtu)
                    .map_err(Fault::at("creating a veth pair"))?;
                if !offload {
                    let socket = any_socket()?;
                    sys::offloads_off(std::os::fd::AsFd::as_fd(&socket), end.name)
                        .map_err(Fault::at("disabling offloads"))?;
                }
                settle(&kernel, &end, true, &hosts)
            })
            .map_err(Fault::at("a thread"))??;
        let socket = middle
            .call(move || {
                let kernel = Netlink::open()?;
                let index = kernel.index(end.cable)?;
                let socket = sys::packet_socket(index, offload)?;
                kernel.up(index)?;
                io::Result::Ok(socket)
            })
            .and_then(|socket| socket)
            .map_err(Fault::at("opening a packet socket"))?;
        for (netns, name) in [(netns, end.name), (&middle, end.cable)] {
            netns
                .call(move || wait_until_it_transmits(name))
                .and_then(|waited| waited)
                .map_err(Fault::at(format!("waiting until {name} transmits")))?;
        }
        ports.push(Port::packets(socket, offload, mtu));
    }
    <[Port; 2]>::try_from(ports).map_err(|_| no_namespace(io::Error::other("expected two ports")))
}

/// How long an interface may take to transmit once both ends of its cable are on. The kernel's link watch runs at once,
/// or a second later if it has just run.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the state is checked.
const LOOK: Duration = Duration::from_millis(1);

/// Before this returns, the interface drops packets silently, and a SYN would be repeated only after a second.
fn wait_until_it_transmits(name: &str) -> io::Result<()> {
    let kernel = Netlink::open()?;
    let index = kernel.index(name)?;
    let start = clock::now();
    while !kernel.transmits(index)? {
        if clock::now().since(start) > PATIENCE {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Creates both ends as TUN devices. They have a carrier when opened, so they transmit once they are up.
fn tun(near: &Netns, far: &Netns, mtu: u32, hosts: &HostSettings) -> Result<[Port; 2], Fault> {
    possible(mtu, Some(Backend::Tun))?;
    let mut ports = Vec::new();
    let ends = [
        (
            near,
            End {
                name: INTERFACE,
                cable: "",
                own: ADDRESS,
                peer: GATEWAY,
                mac: NEAR_MAC,
                peer_mac: FAR_MAC,
            },
        ),
        (
            far,
            End {
                name: FAR_INTERFACE,
                cable: "",
                own: GATEWAY,
                peer: ADDRESS,
                mac: FAR_MAC,
                peer_mac: NEAR_MAC,
            },
        ),
    ];
    for (netns, end) in ends {
        let hosts = hosts.clone();
        let device = netns
            .call(move || {
                prepare(&hosts, end.own == GATEWAY)?;
                let device = sys::tun(end.name).map_err(Fault::at("opening /dev/net/tun"))?;
                let kernel = Netlink::open().map_err(Fault::at("opening rtnetlink"))?;
                kernel
                    .index(end.name)
                    .and_then(|index| kernel.mtu(index, mtu))
                    .map_err(Fault::at("setting the MTU"))?;
                settle(&kernel, &end, false, &hosts)?;
                Ok(device)
            })
            .map_err(Fault::at("a thread"))??;
        ports.push(Port::tun(device, mtu));
    }
    <[Port; 2]>::try_from(ports).map_err(|_| no_namespace(io::Error::other("expected two ports")))
}

/// One end of the link.
#[derive(Clone, Copy)]
struct End {
    name: &'static str,
    /// Name of the pair's other half.
    cable: &'static str,
    own: Ipv4Addr,
    peer: Ipv4Addr,
    mac: Mac,
    peer_mac: Mac,
}

/// Gives an end its address and routes. With Ethernet, the neighbor entry is fixed, so no ARP request crosses the link.
fn settle(kernel: &Netlink, end: &End, ethernet: bool, hosts: &HostSettings) -> Result<(), Fault> {
    let step = |what: &str| Fault::at(format!("{what} of {}", end.name));
    let index = kernel.index(end.name).map_err(step("looking up the index"))?;
    let loopback = kernel.index("lo").map_err(step("looking up the loopback"))?;
    kernel.up(loopback).map_err(step("switching on the loopback"))?;
    kernel.up(index).map_err(step("switching on the interface"))?;
    kernel
        .address(index, end.own)
        .map_err(step("setting the address"))?;
    if ethernet {
        kernel
            .neighbor(index, end.peer, end.peer_mac)
            .map_err(step("setting the neighbor entry"))?;
    }
    let metrics = Metrics {
        mss: hosts.mss,
        initcwnd: hosts.initcwnd,
        congestion: hosts.congestion.clone(),
    };
    kernel
        .route(index, Some(end.peer), None, &metrics)
        .map_err(step("setting the route to the other end"))?;
    if end.own == GATEWAY {
        return kernel
            .everybody_is_here(loopback)
            .map_err(step("setting the catch-all route"));
    }
    kernel
        .route(index, None, Some(end.peer), &metrics)
        .map_err(step("setting the default route"))
}

/// What `-v` says of modeled TCP.
fn stacks_of([near, far]: &[BridgeHost; 2]) -> String {
    format!(
        "TCP on the link is modeled: {} at the near end, {} at the far end",
        near.stack.name, far.stack.name
    )
}

/// Prepares the namespaces of a link between modeled TCPs: that of the command, that where its cable ends, and that of the
/// far host, which has no cable.
fn beside_models(near: &Netns, desk: &Netns, far: &Netns) -> Result<(), Fault> {
    let thread = || Fault::at("a thread");
    near.call(small_buffers).map_err(thread())??;
    // An answer to a ping would have crossed no link.
    desk.call(|| set("icmp_echo_ignore_all", "1"))
        .map_err(thread())??;
    far.call(|| {
        prepare(&HostSettings::default(), true)?;
        small_buffers()?;
        let kernel = Netlink::open().map_err(Fault::at("opening rtnetlink"))?;
        let settle = || {
            let loopback = kernel.index("lo")?;
            // Segments as on a wire: a kernel waits long before it sends segments of 64 KiB into small buffers.
            kernel.mtu(loopback, USUAL_MTU)?;
            kernel.up(loopback)?;
            kernel.address(loopback, GATEWAY)?;
            kernel.everybody_is_here(loopback)
        };
        settle().map_err(Fault::at("setting up the loopback of the far host"))
    })
    .map_err(thread())?
}

/// Gives the programs of a namespace small kernel buffers.
fn small_buffers() -> Result<(), Fault> {
    set("tcp_rmem", PROGRAM_BUFFERS)?;
    set("tcp_wmem", PROGRAM_BUFFERS)
}

/// Writes a file below /proc/sys/net/ipv4 of the calling thread's namespace.
fn set(name: &str, value: &str) -> Result<(), Fault> {
    let file = format!("/proc/sys/net/ipv4/{name}");
    std::fs::write(&file, value).map_err(Fault::at(format!("sysctl net.ipv4.{name} = {value}")))
}

fn no_ipv6() {
    // Without IPv6 in the kernel there is nothing to disable.
    for which in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
    }
}

/// Sets the TCP options of a namespace.
fn prepare(hosts: &HostSettings, is_far: bool) -> Result<(), Fault> {
    no_ipv6();
    if hosts.aged {
        for (name, value) in aged::OFF {
            match set(name, value) {
                // A kernel without the file lacks the feature.
                Err(Fault::Refused { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
    }
    if let Some(name) = &hosts.congestion {
        match set("tcp_congestion_control", name) {
            // tcp(7): the kernel has no such module, or this process may not load it.
            Err(Fault::Refused { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
                return Err(Fault::Host {
                    why: format!(
                        "`congestion`: this kernel has no `{}` loaded; available: {}",
                        name.escape_debug(),
                        known.unwrap_or_default().trim()
                    ),
                });
            }
            // Outside the initial namespace, the sysctl accepts only names from tcp_allowed_congestion_control. The
            // routes carry the setting too, and accept any.
            Err(Fault::Refused { error, .. }) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            other => other?,
        }
    }
    if let Some(restarts) = hosts.idle_restart {
        set("tcp_slow_start_after_idle", if restarts { "1" } else { "0" })?;
    }
    // Conveniences: ping without privileges, and servers on well-known ports at the far end.
    let gid = rustix::process::getegid().as_raw();
    let _ = set("ping_group_range", &format!("{gid} {gid}"));
    if is_far {
        let _ = set("ip_unprivileged_port_start", "0");
    }
    Ok(())
}

/// Any socket can be used to query interfaces.
fn any_socket() -> Result<std::os::fd::OwnedFd, Fault> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| Fault::at("opening a socket")(error.into()))
}
