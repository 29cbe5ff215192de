//! Turns facts about a machine into findings: what works, what is missing, and the remedy. Pure: facts are passed in
//! as the system worded them, so that tests cover every refusal on any machine.

/// Facts about the machine.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) user_namespace: Result<(), String>,
    /// Result of creating and using a whole link.
    pub(super) veth: Result<(), String>,
    pub(super) tun: Result<(), String>,
    pub(super) io_uring: Result<(), String>,
    pub(super) capture: Result<(), String>,
    pub(super) landlock: Result<u32, String>,
    /// Descriptor limits: current (soft) and maximum (hard).
    pub(super) descriptors: (Option<u64>, Option<u64>),
    /// Contents of kernel files, if they exist.
    pub(super) max_user_namespaces: Option<String>,
    pub(super) unprivileged_clone: Option<String>,
    pub(super) apparmor: Option<String>,
    pub(super) controllers_v1: Option<String>,
    pub(super) controllers_v2: Option<String>,
    pub(super) own_groups: Option<String>,
    pub(super) perf_paranoid: Option<String>,
    pub(super) tracepoints: bool,
    pub(super) ptrace_scope: Option<String>,
    pub(super) congestion_available: Option<String>,
    pub(super) congestion_allowed: Option<String>,
    pub(super) congestion_default: Option<String>,
    pub(super) protocols_above: Option<String>,
    pub(super) is_root: bool,
}

/// State of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Works,
    /// Works in part, or at a cost.
    Limited,
    Missing,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Works => "yes",
            State::Limited => "part",
            State::Missing => "no",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) what: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    pub(super) remedy: Option<String>,
}

fn finding(what: &'static str, state: State, found: impl Into<String>, remedy: Option<&str>) -> Finding {
    Finding {
        what,
        state,
        found: found.into(),
        remedy: remedy.map(str::to_owned),
    }
}

/// With fewer descriptors, a test with ten thousand connections does not fit into one process.
const DESCRIPTORS_ENOUGH: u64 = 20_000;

/// All findings.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    vec![
        user_namespace(facts),
        tried(
            "link: veth",
            &facts.veth,
            "weir link works, its default back end",
            "see user namespaces; in a container, seccomp or a missing veth module may be the cause",
        ),
        tun(facts),
        finding(
            "link: proxy",
            State::Works,
            "weir link LINK --proxy LISTEN=TARGET; relays TCP bytes, does not emulate packets",
            None,
        ),
        tried(
            "io_uring",
            &facts.io_uring,
            "weir serve --io uring",
            "sysctl -w kernel.io_uring_disabled=0; in a container, a seccomp profile that allows io_uring_setup, _enter and _register",
        ),
        tried(
            "capture",
            &facts.capture,
            "this user may capture packets on this machine's interfaces",
            "as root: setcap cap_net_raw+ep on the program; weir link --pcap needs no privilege",
        ),
        controllers(facts),
        tracepoints(facts),
        ptrace(facts),
        descriptors(facts),
        congestion(facts),
        match &facts.landlock {
            Ok(version) => finding(
                "Landlock",
                State::Works,
                format!("interface version {version}"),
                None,
            ),
            Err(why) => finding(
                "Landlock",
                State::Missing,
                why.clone(),
                Some("a kernel with CONFIG_SECURITY_LANDLOCK, and landlock in its lsm= list"),
            ),
        },
        match facts.protocols_above.as_deref() {
            Some(list) if list.split_whitespace().any(|name| name == "tls") => finding(
                "kernel TLS",
                State::Works,
                "the kernel can encrypt TLS records",
                None,
            ),
            _ => finding(
                "kernel TLS",
                State::Missing,
                "no sendfile over TLS",
                Some("modprobe tls, on a kernel with CONFIG_TLS"),
            ),
        },
    ]
}

fn tried(what: &'static str, tried: &Result<(), String>, good: &str, remedy: &str) -> Finding {
    match tried {
        Ok(()) => finding(what, State::Works, good, None),
        Err(why) => finding(what, State::Missing, why.clone(), Some(remedy)),
    }
}

fn user_namespace(facts: &Facts) -> Finding {
    const WHAT: &str = "user namespaces";
    let Err(why) = &facts.user_namespace else {
        // AppArmor may grant root what it denies to other users.
        return match facts.apparmor.as_deref() {
            Some("1") if facts.is_root => finding(
                WHAT,
                State::Limited,
                "allowed for this user; AppArmor denies other users",
                Some(APPARMOR),
            ),
            _ => finding(WHAT, State::Works, "weir link needs no privilege", None),
        };
    };
    let remedy = if facts.apparmor.as_deref() == Some("1") {
        APPARMOR
    } else if facts.unprivileged_clone.as_deref() == Some("0") {
        "as root: sysctl -w kernel.unprivileged_userns_clone=1"
    } else if facts.max_user_namespaces.as_deref() == Some("0") {
        "as root: sysctl -w user.max_user_namespaces=10000"
    } else {
        "in a container: a seccomp profile that allows unshare (docker run --security-opt seccomp=unconfined), or run as root"
    };
    finding(WHAT, State::Missing, why.clone(), Some(remedy))
}

const APPARMOR: &str = "as root: a profile for this program in /etc/apparmor.d with `userns,` in it, or \
                        sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";

fn tun(facts: &Facts) -> Finding {
    let remedy = "as root: chmod 666 /dev/net/tun, or in a container --device /dev/net/tun; the veth back end works without it";
    match (&facts.tun, &facts.veth) {
        (Ok(()), _) => finding("link: TUN", State::Works, "weir link --backend tun", None),
        (Err(why), Ok(())) => finding(
            "link: TUN",
            State::Limited,
            format!("{why}; not needed"),
            Some(remedy),
        ),
        (Err(why), Err(_)) => finding("link: TUN", State::Missing, why.clone(), Some(remedy)),
    }
}

fn controllers(facts: &Facts) -> Finding {
    let first: Vec<&str> = facts
        .controllers_v1
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, hierarchy) = (words.next()?, words.next()?);
            // A hierarchy number other than 0 means version 1.
            (!name.starts_with('#') && hierarchy != "0").then_some(name)
        })
        .collect();
    let second: Vec<&str> = facts
        .controllers_v2
        .iter()
        .flat_map(|text| text.split_whitespace())
        .collect();
    let found = format!(
        "version 1: {}; version 2: {}",
        if first.is_empty() {
            "none".to_owned()
        } else {
            first.join(" ")
        },
        if second.is_empty() {
            "none".to_owned()
        } else {
            second.join(" ")
        }
    );
    let has = |name: &str| first.contains(&name) || second.contains(&name);
    let state = match (has("memory") && has("cpu"), facts.own_groups.is_some()) {
        (true, true) => State::Works,
        (false, false) => State::Missing,
        _ => State::Limited,
    };
    let remedy = "a container runtime or systemd unit that delegates cpu and memory (Delegate=yes)";
    finding(
        "control groups",
        state,
        found,
        (state != State::Works).then_some(remedy),
    )
}

fn tracepoints(facts: &Facts) -> Finding {
    let level = facts
        .perf_paranoid
        .as_deref()
        .and_then(|text| text.parse::<i32>().ok());
    let (state, found) = match (level, facts.tracepoints) {
        (None, _) => (State::Missing, "this kernel has no perf events".to_owned()),
        (Some(level), true) if facts.is_root || level < 0 => (
            State::Works,
            format!("perf_event_paranoid is {level}, tracing is readable"),
        ),
        (Some(level), readable) => (
            State::Limited,
            format!(
                "perf_event_paranoid is {level}, tracing is {}readable",
                if readable { "" } else { "not " }
            ),
        ),
    };
    let remedy =
        "as root: sysctl -w kernel.perf_event_paranoid=-1 and mount -t tracefs tracefs /sys/kernel/tracing";
    finding(
        "perf tracepoints",
        state,
        found,
        (state != State::Works).then_some(remedy),
    )
}

fn ptrace(facts: &Facts) -> Finding {
    const WHAT: &str = "ptrace";
    match facts.ptrace_scope.as_deref() {
        None | Some("0") => finding(
            WHAT,
            State::Works,
            "any process of the same user may be traced",
            None,
        ),
        Some(_) if facts.is_root => finding(WHAT, State::Works, "restricted, but not for root", None),
        Some("1") => finding(
            WHAT,
            State::Limited,
            "only descendants may be traced",
            Some("as root: sysctl -w kernel.yama.ptrace_scope=0"),
        ),
        Some(scope) => finding(
            WHAT,
            State::Missing,
            format!("yama.ptrace_scope is {scope}"),
            Some("as root: sysctl -w kernel.yama.ptrace_scope=0; if it is 3, only a reboot resets it"),
        ),
    }
}

fn descriptors(facts: &Facts) -> Finding {
    let show = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let (now, most) = facts.descriptors;
    let found = format!("{} now, at most {}", show(now), show(most));
    let remedy = "LimitNOFILE= of the systemd unit, nofile in /etc/security/limits.conf, or docker run --ulimit nofile=";
    if most.is_none_or(|most| most >= DESCRIPTORS_ENOUGH) {
        finding("descriptors", State::Works, found, None)
    } else {
        finding("descriptors", State::Limited, found, Some(remedy))
    }
}

fn congestion(facts: &Facts) -> Finding {
    let list = |text: &Option<String>| text.clone().unwrap_or_default();
    let (available, allowed) = (list(&facts.congestion_available), list(&facts.congestion_allowed));
    let forbidden: Vec<&str> = available
        .split_whitespace()
        .filter(|name| !facts.is_root && !allowed.split_whitespace().any(|other| other == *name))
        .collect();
    let found = format!("{available}; default {}", list(&facts.congestion_default));
    if available.is_empty() {
        return finding(
            "congestion control",
            State::Missing,
            "unknown",
            Some("mount /proc"),
        );
    }
    if forbidden.is_empty() {
        return finding("congestion control", State::Works, found, None);
    }
    let remedy = format!(
        "as root: sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{available}\" (not allowed now: {})",
        forbidden.join(" ")
    );
    finding("congestion control", State::Limited, found, Some(&remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        let some = |text: &str| Some(text.to_owned());
        Facts {
            user_namespace: Ok(()),
            veth: Ok(()),
            tun: Ok(()),
            io_uring: Ok(()),
            capture: Ok(()),
            landlock: Ok(7),
            descriptors: (Some(1_024), None),
            max_user_namespaces: some("1000"),
            unprivileged_clone: None,
            apparmor: None,
            controllers_v1: some("#subsys_name hierarchy num_cgroups enabled\ncpu 0 1 1\nmemory 3 1 1"),
            controllers_v2: some("cpu io"),
            own_groups: some("0::/"),
            perf_paranoid: some("-1"),
            tracepoints: true,
            ptrace_scope: some("0"),
            congestion_available: some("reno cubic"),
            congestion_allowed: some("reno cubic"),
            congestion_default: some("cubic"),
            protocols_above: some("mptcp tls"),
            is_root: false,
        }
    }

    fn check(what: &str, change: impl FnOnce(&mut Facts), state: State, part: &str) {
        let mut facts = good();
        change(&mut facts);
        let findings = judge(&facts);
        let finding = findings.iter().find(|finding| finding.what == what).expect(what);
        let said = format!("{} {}", finding.found, finding.remedy.as_deref().unwrap_or(""));
        assert_eq!(finding.state, state, "{what}: {said}");
        assert!(said.contains(part), "{what}: {said}");
        assert_eq!(finding.remedy.is_some(), state != State::Works, "{what}: {said}");
    }

    #[test]
    fn where_everything_works_nothing_is_advised() {
        for finding in judge(&good()) {
            assert_eq!(
                (finding.state, finding.remedy),
                (State::Works, None),
                "{}",
                finding.what
            );
        }
    }

    #[test]
    fn each_refusal_has_its_remedy() {
        use State::{Limited, Missing};
        let no = || Err("Operation not permitted".to_owned());
        let some = |text: &str| Some(text.to_owned());
        check("user namespaces", |f| f.user_namespace = no(), Missing, "seccomp");
        check(
            "user namespaces",
            |f| (f.user_namespace, f.apparmor) = (no(), some("1")),
            Missing,
            "apparmor.d",
        );
        check(
            "user namespaces",
            |f| (f.user_namespace, f.max_user_namespaces) = (no(), some("0")),
            Missing,
            "max_user_namespaces=1",
        );
        check(
            "user namespaces",
            |f| (f.user_namespace, f.unprivileged_clone) = (no(), some("0")),
            Missing,
            "userns_clone=1",
        );
        check(
            "user namespaces",
            |f| (f.apparmor, f.is_root) = (some("1"), true),
            Limited,
            "AppArmor",
        );
        check(
            "link: veth",
            |f| f.veth = no(),
            Missing,
            "Operation not permitted",
        );
        check("link: TUN", |f| f.tun = no(), Limited, "not needed");
        check(
            "link: TUN",
            |f| (f.tun, f.veth) = (no(), no()),
            Missing,
            "--device",
        );
        check("io_uring", |f| f.io_uring = no(), Missing, "io_uring_disabled");
        check("capture", |f| f.capture = no(), Missing, "cap_net_raw");
        check("control groups", |f| f.controllers_v1 = None, Limited, "Delegate");
        check(
            "control groups",
            |f| (f.controllers_v1, f.controllers_v2, f.own_groups) = (None, None, None),
            Missing,
            "none",
        );
        check(
            "perf tracepoints",
            |f| f.perf_paranoid = some("2"),
            Limited,
            "perf_event_paranoid is 2",
        );
        check("perf tracepoints", |f| f.perf_paranoid = None, Missing, "no perf");
        check("ptrace", |f| f.ptrace_scope = some("1"), Limited, "descendants");
        check("ptrace", |f| f.ptrace_scope = some("3"), Missing, "reboot");
        check(
            "descriptors",
            |f| f.descriptors = (Some(256), Some(4_096)),
            Limited,
            "LimitNOFILE",
        );
        check(
            "congestion control",
            |f| f.congestion_allowed = some("reno"),
            Limited,
            "not allowed now: cubic",
        );
        check(
            "congestion control",
            |f| f.congestion_available = None,
            Missing,
            "/proc",
        );
        check(
            "Landlock",
            |f| f.landlock = Err("ENOSYS".to_owned()),
            Missing,
            "lsm=",
        );
        check(
            "kernel TLS",
            |f| f.protocols_above = some("mptcp"),
            Missing,
            "modprobe tls",
        );
    }
}
