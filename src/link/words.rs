//! The link and the TCP settings of its hosts: preset, words, TOML file and flags become one profile and the settings
//! of two TCPs.

use crate::cli::link::Flags;
use crate::failure::Failure;
use link::{Limits, Profile};
use netem::HostSettings;

/// The keys that configure the hosts, not the link.
const HOST_KEYS: [&str; 5] = ["mss", "initcwnd", "congestion", "idle-restart", "aged"];

/// Reads the description of the link. Flags override words.
///
/// # Errors
/// Names the key that is wrong.
pub(super) fn read(flags: &Flags, limits: &Limits) -> Result<(Profile, HostSettings), Failure> {
    let mut files =
        |name: &str| std::fs::read_to_string(name).map_err(|error| format!("cannot read {name}: {error}"));
    let mut hosts = HostSettings::default();
    let usage = |fault: link::SpecError| {
        let hosts = match fault.is_unknown_key {
            true => format!("; for the hosts {}", HOST_KEYS.join(", ")),
            false => String::new(),
        };
        Failure::Usage(format!("the link: {fault}{hosts}"))
    };
    let text = flags.link.as_deref().unwrap_or("").trim();
    let mut profile = if text.ends_with(".toml") {
        let document = files(text).map_err(Failure::Usage)?;
        let document = host_keys_of(&document, &mut hosts)?;
        Profile::parse_toml(&document, limits, &mut files).map_err(usage)?
    } else {
        let mut of_link = Vec::new();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) if HOST_KEYS.contains(&key) => set(&mut hosts, key, value)?,
                _ => of_link.push(word),
            }
        }
        Profile::parse(&of_link.join(" "), limits, &mut files).map_err(usage)?
    };
    let mut extra = Vec::new();
    for (key, value) in flags.words.given() {
        extra.push(format!("{key}={value}"));
        if HOST_KEYS.contains(&key) {
            set(&mut hosts, key, value)?;
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
    Ok((profile, hosts))
}

/// Removes the hosts' keys from a TOML document.
fn host_keys_of(document: &str, hosts: &mut HostSettings) -> Result<String, Failure> {
    let mut rest = String::new();
    let mut is_top = true;
    for line in document.lines() {
        is_top &= !line.trim_start().starts_with('[');
        let key_value = line.split_once('=').map(|(key, value)| (key.trim(), value));
        match key_value {
            Some((key, value)) if is_top && HOST_KEYS.contains(&key) => {
                let value = value.split('#').next().unwrap_or_default().trim();
                set(hosts, key, value.trim_matches(['"', '\'']))?;
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

fn set(hosts: &mut HostSettings, key: &str, value: &str) -> Result<(), Failure> {
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
        let mut hosts = HostSettings::default();
        for (key, value) in [
            ("mss", "536"),
            ("initcwnd", "2"),
            ("congestion", "reno"),
            ("idle-restart", "no"),
            ("aged", "yes"),
        ] {
            set(&mut hosts, key, value).expect(key);
        }
        let want = HostSettings {
            mss: Some(536),
            initcwnd: Some(2),
            congestion: Some("reno".to_owned()),
            idle_restart: Some(false),
            aged: true,
        };
        assert_eq!(hosts, want);
        for (key, value) in [
            ("mss", "40"),
            ("initcwnd", "0"),
            ("idle-restart", "maybe"),
            ("aged", "old"),
        ] {
            let fault = set(&mut hosts, key, value).expect_err(key);
            assert!(fault.to_string().contains(key), "{fault}");
        }
    }

    #[test]
    fn a_document_gives_up_the_keys_of_hosts_and_keeps_its_lines() {
        let mut hosts = HostSettings::default();
        let text = "preset = 'wan'\nmss = 536 # small\ncongestion = \"reno\"\n[up]\nrate = '1M'\n";
        let rest = host_keys_of(text, &mut hosts).expect("good keys");
        assert_eq!(rest, "preset = 'wan'\n\n\n[up]\nrate = '1M'\n");
        assert_eq!(
            (hosts.mss, hosts.congestion.as_deref()),
            (Some(536), Some("reno"))
        );
    }
}
