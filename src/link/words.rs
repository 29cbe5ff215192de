//! The link, the TCP settings of its hosts and the UDP relay behind it: preset, words, TOML file and flags become one
//! profile and the settings of the others.

use crate::cli::link::Flags;
use crate::failure::Failure;
use link::{Limits, Profile};
use netem::{HostSettings, Rebind, UdpSettings};
use server::config::parse_duration;
use units::Duration;

/// The keys that configure the hosts, not the link.
const HOST_KEYS: [&str; 5] = ["mss", "initcwnd", "congestion", "idle-restart", "aged"];

/// The keys that configure the relay of UDP.
const RELAY_KEYS: [&str; 3] = ["rebind", "udp-flows", "udp-idle"];

/// The most flows: each needs a port, and a machine has fewer for all of them.
const FLOWS_MAX: u32 = 65_536;
/// The longest idle time of a flow: longer than any run.
const IDLE_MAX: Duration = Duration::from_secs(86_400 * 365);

/// Settings that are not the link's.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Beside {
    pub(super) hosts: HostSettings,
    pub(super) udp: UdpSettings,
}

fn is_beside(key: &str) -> bool {
    HOST_KEYS.contains(&key) || RELAY_KEYS.contains(&key)
}

/// Reads the description of the link. Flags override words.
///
/// # Errors
/// Names the key that is wrong.
pub(super) fn read(flags: &Flags, limits: &Limits) -> Result<(Profile, Beside), Failure> {
    let mut files =
        |name: &str| std::fs::read_to_string(name).map_err(|error| format!("cannot read {name}: {error}"));
    let mut beside = Beside::default();
    let usage = |fault: link::SpecError| {
        let others = match fault.is_unknown_key {
            true => format!(
                "; for the hosts {}; for UDP {}",
                HOST_KEYS.join(", "),
                RELAY_KEYS.join(", ")
            ),
            false => String::new(),
        };
        Failure::Usage(format!("the link: {fault}{others}"))
    };
    let text = flags.link.as_deref().unwrap_or("").trim();
    let mut profile = if text.ends_with(".toml") {
        let document = files(text).map_err(Failure::Usage)?;
        let document = other_keys_of(&document, &mut beside)?;
        Profile::parse_toml(&document, limits, &mut files).map_err(usage)?
    } else {
        let mut of_link = Vec::new();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) if is_beside(key) => set(&mut beside, key, value)?,
                _ => of_link.push(word),
            }
        }
        Profile::parse(&of_link.join(" "), limits, &mut files).map_err(usage)?
    };
    let mut extra = Vec::new();
    for (key, value) in flags.words.given() {
        extra.push(format!("{key}={value}"));
        if is_beside(key) {
            set(&mut beside, key, value)?;
        } else {
            profile.set(key, value, limits, &mut files).map_err(usage)?;
        }
    }
    for (direction, words) in [("up", &flags.up), ("down", &flags.down)] {
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(Failure::Usage(format!("--{direction} {word}: write key=value")));
            };
            let key = format!("{direction}.{key}");
            extra.push(format!("{key}={value}"));
            profile.set(&key, value, limits, &mut files).map_err(usage)?;
        }
    }
    let name = [text.to_owned(), extra.join(" ")].join(" ");
    profile.name = match name.trim() {
        "" => "nothing at all".to_owned(),
        name => name.to_owned(),
    };
    Ok((profile, beside))
}

/// Removes the keys that are not the link's from a TOML document.
fn other_keys_of(document: &str, beside: &mut Beside) -> Result<String, Failure> {
    let mut rest = String::new();
    let mut is_top = true;
    for line in document.lines() {
        is_top &= !line.trim_start().starts_with('[');
        let key_value = line.split_once('=').map(|(key, value)| (key.trim(), value));
        match key_value {
            Some((key, value)) if is_top && is_beside(key) => {
                let value = value.split('#').next().unwrap_or_default().trim();
                set(beside, key, value.trim_matches(['"', '\'']))?;
                // Keeps line numbers in error messages right.
                rest.push('\n');
            }
            _ => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    Ok(rest)
}

fn set(beside: &mut Beside, key: &str, value: &str) -> Result<(), Failure> {
    let Beside { hosts, udp } = beside;
    let time = || match parse_duration(value) {
        Ok(_) if value.ends_with(|last: char| last.is_ascii_digit()) => Err(Failure::Usage(format!(
            "`{key}`: `{value}` has no unit; write it with one, as in {value}s or {value}ms"
        ))),
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err(Failure::Usage(format!("`{key}`: the time must be above zero"))),
        Err(why) => Err(Failure::Usage(format!("`{key}`: {why}"))),
    };
    let number = |least: u32, most: u32| match value.parse() {
        Ok(n) if (least..=most).contains(&n) => Ok(Some(n)),
        _ => Err(Failure::Usage(format!(
            "`{key}`: `{value}` is not a number from {least} to {most}"
        ))),
    };
    match key {
        // The smallest MSS that Linux accepts (TCP_MIN_MSS) and the largest of IPv4.
        "mss" => hosts.mss = number(88, 65_495)?,
        "initcwnd" => hosts.initcwnd = number(1, 1_000)?,
        "congestion" => hosts.congestion = Some(value.to_owned()),
        "rebind" => {
            udp.rebind = match value.strip_suffix('p').map(str::parse) {
                _ if value == "no" => None,
                Some(Ok(datagrams @ 1..)) => Some(Rebind::Every(datagrams)),
                Some(_) => {
                    return Err(Failure::Usage(format!(
                        "`{key}`: `{value}` is not a number of datagrams from 1; write a number and p, as in 200p"
                    )));
                }
                None if !value.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
                    return Err(Failure::Usage(format!(
                        "`{key}`: `{value}` is not known; write a time (2s), a number of datagrams (200p), or no"
                    )));
                }
                None => Some(Rebind::After(time()?)),
            };
        }
        "udp-flows" => udp.flows_max = number(0, FLOWS_MAX)?.unwrap_or(FLOWS_MAX) as usize,
        "udp-idle" => udp.idle = time()?.min(IDLE_MAX),
        _ => {
            let is_on = match value {
                "yes" | "true" | "on" => true,
                "no" | "false" | "off" => false,
                _ => {
                    return Err(Failure::Usage(format!(
                        "`{key}`: `{value}` is neither yes nor no"
                    )));
                }
            };
            match key {
                "aged" => hosts.aged = is_on,
                _ => hosts.idle_restart = Some(is_on),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_set_and_faults_name_the_key() {
        let mut beside = Beside::default();
        for (key, value) in [
            ("mss", "536"),
            ("initcwnd", "2"),
            ("congestion", "reno"),
            ("idle-restart", "no"),
            ("aged", "yes"),
            ("udp-flows", "7"),
            ("udp-idle", "30s"),
        ] {
            set(&mut beside, key, value).expect(key);
        }
        let want = Beside {
            hosts: HostSettings {
                mss: Some(536),
                initcwnd: Some(2),
                congestion: Some("reno".to_owned()),
                idle_restart: Some(false),
                aged: true,
            },
            udp: UdpSettings {
                flows_max: 7,
                idle: Duration::from_secs(30),
                rebind: None,
            },
        };
        assert_eq!(beside, want);
        for (value, rebind) in [
            ("1s", Some(Rebind::After(Duration::from_secs(1)))),
            ("250ms", Some(Rebind::After(Duration::from_millis(250)))),
            ("20p", Some(Rebind::Every(20))),
            ("no", None),
        ] {
            set(&mut beside, "rebind", value).expect(value);
            assert_eq!(beside.udp.rebind, rebind, "{value}");
        }
        for (key, value) in [
            ("mss", "40"),
            ("initcwnd", "0"),
            ("idle-restart", "maybe"),
            ("aged", "old"),
            ("rebind", "0p"),
            ("rebind", "p"),
            ("rebind", "0s"),
            ("rebind", "often"),
            ("udp-flows", "some"),
            ("udp-flows", "65537"),
            ("udp-idle", "0"),
        ] {
            let fault = set(&mut beside, key, value).expect_err(key);
            assert!(fault.to_string().contains(key), "{fault}");
        }
        for (key, value, part) in [
            ("rebind", "5", "no unit"),
            ("rebind", "200", "no unit"),
            ("udp-idle", "100", "no unit"),
            ("rebind", "yes", "datagrams (200p), or no"),
        ] {
            let fault = set(&mut beside, key, value).expect_err(key).to_string();
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn a_document_gives_up_the_keys_of_hosts_and_keeps_its_lines() {
        let mut beside = Beside::default();
        let text =
            "preset = 'wan'\nmss = 536 # small\ncongestion = \"reno\"\nrebind = '2s'\n[up]\nrate = '1M'\n";
        let rest = other_keys_of(text, &mut beside).expect("good keys");
        assert_eq!(rest, "preset = 'wan'\n\n\n\n[up]\nrate = '1M'\n");
        assert_eq!(
            (beside.hosts.mss, beside.hosts.congestion.as_deref()),
            (Some(536), Some("reno"))
        );
        assert_eq!(beside.udp.rebind, Some(Rebind::After(Duration::from_secs(2))));
    }
}
