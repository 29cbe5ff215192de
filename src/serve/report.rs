//! The start report: the settings in force and their reasons, as text for people and as JSON for programs. Decides
//! words and layout; others decide the settings.

use super::descriptors::Shares;
use super::drivers::Group;
use super::rights::Rights;
use super::strategy::Choice;
use runtime::fs::VersionFolder;
use runtime::listen::Address;
use serde_json::{Value, json};
use server::config::{AccessLog, Adapt, Config, LineOrder, MaxTurn, MemoryBound, show_duration};
use std::fmt::Write;
use std::net::SocketAddr;
use units::{Bytes, Duration};

/// The facts that a start report shows.
pub(crate) struct Started<'a> {
    pub(crate) config: &'a Config,
    /// The addresses with their strategies; those of the top level first.
    pub(crate) served: &'a [Served],
    /// Number of files and bytes of the embedded site, if it is served.
    pub(crate) embedded: Option<(usize, usize)>,
    /// The addresses where HTTP/3 is spoken, too.
    pub(crate) http3: &'a [SocketAddr],
    pub(crate) shares: Shares,
    /// The memory limit in force for all processes together.
    pub(crate) memory: Option<Bytes>,
    pub(crate) rights: &'a Rights,
    /// How this machine differs from the profile's machine; `None` without a profile.
    pub(crate) profile: Option<Vec<String>>,
    /// From the start of the command to the first possible accept.
    pub(crate) took: Duration,
}

/// Addresses with the same strategy.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) choice: Choice,
    /// Each bound address, with the port the kernel chose for port 0, and whether it speaks TLS.
    pub(crate) addresses: Vec<(Address, bool)>,
}

impl Served {
    /// The addresses of a running strategy.
    pub(super) fn of(group: &Group) -> Served {
        let addresses = group
            .addresses
            .iter()
            .map(|one| (one.clone(), group.is_secured(one)));
        Served {
            choice: group.choice.clone(),
            addresses: addresses.collect(),
        }
    }
}

impl Started<'_> {
    fn has_http3(&self, address: &Address) -> bool {
        address.tcp().is_some_and(|address| self.http3.contains(&address))
    }

    /// The report as one JSON object (`"event": "started"`).
    pub(crate) fn json(&self) -> Value {
        let listeners: Vec<Value> = self
            .served
            .iter()
            .flat_map(|served| {
                served.addresses.iter().map(|(address, is_secured)| {
                    json!({
                        "address": address.to_string(),
                        "url": url(address, *is_secured),
                        "http3": self.has_http3(address),
                        "concurrency": served.choice.concurrency.to_string(),
                        "io": served.choice.io.to_string(),
                        "workers": served.choice.workers,
                        "why": served.choice.why(),
                    })
                })
            })
            .collect();
        let config = self.config;
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        json!({
            "event": "started",
            "name": "weir",
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "listeners": listeners,
            "root": config.root,
            "versions": config.versions,
            "mounts": config.mount.iter().map(|mount| json!({
                "path": mount.path.to_string(),
                "root": mount.root,
            })).collect::<Vec<_>>(),
            "replay": config.replay,
            "preset": config.preset,
            "profile-differs": self.profile,
            "behavior": config.switched_on(),
            "line": config.line_rate.map(|rate| json!({
                "bits-per-second": rate.0,
                "order": config.line_order.to_string(),
            })),
            "cache": {
                "policy": config.cache_policy.to_string(),
                "bytes": config.cache_size.0,
                "file-bytes": config.cache_file_size.0,
                "files": self.shares.files,
            },
            "rights": {
                "user": self.rights.uid,
                "group": self.rights.gid,
                "name": self.rights.name,
                "no-new-privileges": true,
                "landlock": self.rights.landlock,
                "seccomp": self.rights.seccomp,
            },
            "access-log": config.access_log,
            "host-access-logs": host_logs(config).iter().map(|log| &log.target).collect::<Vec<_>>(),
            "server-log": config.server_log.as_ref().map(ToString::to_string),
            "log-format": config.log_format.to_string(),
            "log-template": config.log_template.as_ref().map(ToString::to_string),
            "limits": {
                "memory": self.memory.map(|bytes| bytes.0),
                "descriptors": self.shares.total,
                "max-connections": self.connections(),
                "max-connections-per-address": self.per_address(),
                "max-head-size": config.max_head_size.0,
                "max-body-size": config.max_body_size.0,
                "header-timeout-ms": ms(config.header_timeout),
                "idle-timeout-ms": ms(config.idle_timeout),
                "write-timeout-ms": ms(config.write_timeout),
                "grace-ms": ms(config.grace),
            },
        })
    }

    /// The connection limit in force.
    fn connections(&self) -> u64 {
        self.shares.can_be_open(self.config).into()
    }

    /// The per-address limit in force.
    fn per_address(&self) -> u32 {
        self.config.per_address(self.shares.can_be_open(self.config))
    }

    /// The report as a few lines of text. `color` adds ANSI escapes for labels and addresses.
    pub(crate) fn text(&self, color: bool) -> String {
        let config = self.config;
        let mut text = String::new();
        let (bold, dim, plain) = if color {
            ("\u{1b}[1m", "\u{1b}[36m", "\u{1b}[0m")
        } else {
            ("", "", "")
        };
        let serves = match (&config.replay, &config.versions, &config.root, self.embedded) {
            (Some(folder), ..) => format!("the recording in {}", folder.display()),
            (None, Some(folder), ..) => VersionFolder::at(folder).current().display().to_string(),
            (None, None, Some(root), _) => root.display().to_string(),
            (None, None, None, Some((files, bytes))) => {
                format!("the embedded site ({files} files, {} KiB)", bytes / 1024)
            }
            (None, None, None, None) => "nothing".to_owned(),
        };
        let _ = writeln!(
            text,
            "{bold}weir {}{plain} serves {serves}",
            env!("CARGO_PKG_VERSION")
        );
        let mut line = |label: &str, value: &str| {
            let _ = writeln!(text, "  {dim}{label:<9}{plain} {value}");
        };
        if let Some(mounts) = mounts(config) {
            line("mounts", &mounts);
        }
        let addresses = self.served.iter().flat_map(|served| &served.addresses);
        for (index, (address, is_secured)) in addresses.enumerate() {
            line(
                if index == 0 { "at" } else { "" },
                &match self.has_http3(address) {
                    true => format!("{bold}{}{plain} (HTTP/3: UDP, too)", url(address, *is_secured)),
                    false => format!("{bold}{}{plain}", url(address, *is_secured)),
                },
            );
        }
        let Some((Served { choice, .. }, others)) = self.served.split_first() else {
            return text;
        };
        let [why_concurrency, why_io, why_workers] = &choice.why;
        line(
            "strategy",
            &format!("{:<9} {why_concurrency}", choice.concurrency.to_string()),
        );
        line("", &format!("{:<9} {why_io}", choice.io.to_string()));
        let noun = if choice.workers == 1 { "worker" } else { "workers" };
        line(
            "",
            &format!("{:<9} {why_workers}", format!("{} {noun}", choice.workers)),
        );
        for other in others {
            let at: Vec<String> = other.addresses.iter().map(|(one, _)| one.to_string()).collect();
            line("", &format!("{}: {}", at.join(", "), other.choice.in_words()));
        }
        match self.profile.as_deref() {
            None => {}
            Some([]) => line("", "from a profile of this machine"),
            Some(differs) => line(
                "",
                &format!("from a profile of another machine: {}", differs.join(", ")),
            ),
        }
        if let Some(rate) = config.line_rate {
            let first = match config.line_order {
                LineOrder::Smallest => "response with the fewest bytes left first",
                LineOrder::Shared => "responses take turns",
            };
            line("line", &format!("{rate}, {first}"));
        }
        let on = config.switched_on();
        let preset = config.preset.map(|preset| format!("preset {preset}"));
        if let Some(first) = preset.or_else(|| (!on.is_empty()).then(|| "behaviors".to_owned())) {
            line("", &format!("{first}: {}", on.join(", ")));
        }
        line(
            "cache",
            &format!(
                "{}, at most {}; files up to {} in memory, larger ones as open descriptors",
                config.cache_policy, config.cache_size, config.cache_file_size
            ),
        );
        let short = match self.shares.are_short(config) {
            true => format!(
                " ({} configured, but ulimit -n is {})",
                grouped(config.max_connections.into()),
                grouped(self.shares.total)
            ),
            false => String::new(),
        };
        let connections = format!(
            "{} connections{short}, {} per address",
            grouped(self.connections()),
            grouped(self.per_address().into())
        );
        line("limits", &connections);
        line(
            "",
            &format!(
                "request head {} in {}, idle timeout {}, write timeout {}",
                config.max_head_size,
                show_duration(config.header_timeout),
                show_duration(config.idle_timeout),
                show_duration(config.write_timeout)
            ),
        );
        if let Some(memory) = self.memory {
            let whose = match config.memory {
                MemoryBound::At(told) if told <= memory => "--memory",
                _ => "control group; --memory",
            };
            line("", &format!("memory {memory} ({whose})"));
        }
        if let MaxTurn::At(span) = config.max_turn {
            let span = show_duration(span);
            line(
                "",
                &format!("503 for expensive requests above {span} of event-loop latency (--max-turn)"),
            );
        }
        match config.adapt {
            Adapt::Auto => {}
            Adapt::DryRun => line(
                "adapts",
                "nothing; reports what it would change (--adapt dry-run)",
            ),
            Adapt::Off => line("adapts", "nothing (--adapt off)"),
        }
        if let Some(path) = &config.record {
            line("record", &path.display().to_string());
        }
        match &config.access_log {
            None => line("log", "none (--access-log FILE)"),
            Some(path) => {
                let format = match &config.log_template {
                    Some(_) => "a template".to_owned(),
                    None => config.log_format.to_string(),
                };
                line("log", &format!("{} ({format})", path.display()))
            }
        }
        for log in host_logs(config) {
            let host = log.host.unwrap_or_default();
            line("", &format!("{} (host {host})", log.target.display()));
        }
        if let Some(log) = &config.server_log {
            line("", &format!("{log} (messages)"));
        }
        line("rights", &self.rights.user());
        line("", &self.rights.landlock);
        line("", &self.rights.seccomp);
        line(
            "ready",
            &format!(
                "in {} ms; Ctrl-C stops gracefully within {}",
                self.took.as_millis(),
                show_duration(config.grace)
            ),
        );
        text
    }
}

/// The mounts of the top level in a line; `None`: there are none.
fn mounts(config: &Config) -> Option<String> {
    /// Mounts that the line names.
    const NAMED: usize = 3;
    let named = config.mount.iter().take(NAMED);
    let mut words: Vec<String> = named
        .map(|mount| format!("{} from {}", mount.path, mount.folder().display()))
        .collect();
    if config.mount.len() > NAMED {
        words.push(format!("{} more", config.mount.len() - NAMED));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// The access logs that only hosts have.
fn host_logs(config: &Config) -> Vec<AccessLog> {
    let mut logs = config.access_logs();
    logs.retain(|log| log.host.is_some());
    logs
}

/// The URL to open in a browser; a wildcard address becomes `localhost`. For a Unix socket, its address, as it has no URL.
fn url(address: &Address, is_secured: bool) -> String {
    let Some(address) = address.tcp() else {
        return address.to_string();
    };
    let scheme = if is_secured { "https" } else { "http" };
    if address.ip().is_unspecified() {
        format!("{scheme}://localhost:{}/", address.port())
    } else {
        format!("{scheme}://{address}/")
    }
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::strategy::choose_all;
    use super::*;
    use crate::failure::Failure;

    fn report(config: &Config, color: bool) -> Result<String, Failure> {
        let groups = choose_all(config, 2)?;
        let addresses =
            ["127.0.0.1:8080".parse(), "[::]:80".parse()].map(|a| (a.expect("an address"), false));
        let served = [Served {
            choice: groups[0].choice.clone(),
            addresses: addresses.into(),
        }];
        let started = Started {
            config,
            served: &served,
            embedded: Some((16, 175_000)),
            http3: &[],
            shares: Shares::of(20_000, config, &groups),
            memory: None,
            rights: &Rights {
                uid: 33,
                gid: 33,
                name: Some("www".to_owned()),
                landlock: "Landlock 6: reads nothing; writes nothing; binds 80".to_owned(),
                is_confined: true,
                seccomp: "seccomp: opens TCP and UNIX sockets only".to_owned(),
                is_filtered: true,
            },
            profile: None,
            took: Duration::from_millis(3),
        };
        assert_eq!(started.json()["listeners"][1]["url"], "http://localhost:80/");
        Ok(started.text(color))
    }

    #[test]
    fn a_person_reads_what_was_chosen_and_why() {
        let text = report(&Config::default(), false).expect("a valid configuration");
        let wanted = format!(
            "\
weir {} serves the embedded site (16 files, 170 KiB)
  at        http://127.0.0.1:8080/
            http://localhost:80/
  strategy  loops     one event loop per worker: no shared connections, no locks
            epoll     event loops wait for many sockets at once
            2 workers one per usable core
  cache     s3-fifo, at most 64 MiB; files up to 16 KiB in memory, larger ones as open descriptors
  limits    17,920 connections (65,536 configured, but ulimit -n is 20,000), 4,480 per address
            request head 16 KiB in 20s, idle timeout 65s, write timeout 30s
  log       none (--access-log FILE)
  rights    user www (33:33); programs it starts gain no rights (no_new_privs)
            Landlock 6: reads nothing; writes nothing; binds 80
            seccomp: opens TCP and UNIX sockets only
  ready     in 3 ms; Ctrl-C stops gracefully within 10s
",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(text, wanted);
    }

    #[test]
    fn color_changes_nothing_but_color() {
        let colored = report(&Config::default(), true).expect("a valid configuration");
        assert!(colored.contains('\u{1b}'));
        let mut plain = String::new();
        for piece in colored.split('\u{1b}') {
            plain.push_str(
                piece
                    .split_once('m')
                    .filter(|(code, _)| code.starts_with('['))
                    .map_or(piece, |(_, rest)| rest),
            );
        }
        assert_eq!(
            plain,
            report(&Config::default(), false).expect("a valid configuration")
        );
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (65_536, "65,536"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
