//! Links described as text: `key=value` words on a command line, or a TOML file with the same keys.
//!
//! Both forms share one table of keys. A key without prefix sets both directions, one with `up.` or `down.` (in
//! TOML: tables of these names) one direction; the last setting wins. The caller reads files named in a
//! description.

use crate::bottleneck::{Framing, Server};
use crate::codel::CodelParams;
use crate::delay::Jitter;
use crate::discipline::Discipline;
use crate::hold::HoldTimer;
use crate::limits::Limits;
use crate::loss::LossModel;
use crate::profile::{PRESETS, Profile, Way};
use crate::trace::Trace;
use core::fmt;
use std::sync::Arc;
use units::{Bytes, Duration, Rate};

/// Keys of one direction, each with examples.
const KEYS: &[(&str, &str)] = &[
    ("rate", "1.5M, none"),
    ("trace", "FILE in mm-link format"),
    ("delay", "45ms"),
    ("rtt", "90ms (half of it in each direction)"),
    ("jitter", "5ms, normal:5ms"),
    ("reorder", "yes"),
    ("loss", "1%, burst:p,r or burst:p,r,bad,good in percent"),
    ("queue", "100p, 64K, 100p/64K, codel, codel:5ms,100ms,1000p"),
    ("framing", "ip, ethernet, ppp, +BYTES"),
    ("mtu", "1500"),
    ("hold-acks", "200ms, beat:200ms, beat:200ms,30ms"),
    ("hold-mss", "1460"),
];

/// The only key that cannot have a direction.
const HALF_DUPLEX: &str = "half-duplex";

/// Why a description is invalid; always a user error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The key, with its direction if one was given.
    pub key: String,
    /// The fault and the remedy.
    pub reason: String,
    /// Whether the key is unknown. `reason` then ends with the keys of a link, to which a caller can append its
    /// own.
    pub is_unknown_key: bool,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "`{}`: {}", self.key, self.reason)
        }
    }
}

impl std::error::Error for SpecError {}

/// Returns the text of a file, or the reason it cannot be read.
type Files<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

impl Profile {
    /// Parses words such as `ppp loss=1% up.rate=9.6k`: a preset's name first, optionally, then keys. `files`
    /// returns the text of a trace file.
    ///
    /// # Errors
    /// Names the faulty key.
    pub fn parse(text: &str, limits: &Limits, files: Files<'_>) -> Result<Profile, SpecError> {
        let mut words = text.split_whitespace().peekable();
        let mut profile = match words.peek() {
            Some(word) if !word.contains('=') => {
                let word = words.next().unwrap_or_default();
                preset(word)?
            }
            _ => custom(),
        };
        profile.name = text.trim().to_owned();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(error(word, "write key=value"));
            };
            profile.set(key, value, limits, files)?;
        }
        Ok(profile)
    }

    /// Parses a TOML document: `preset`, `name`, `source`, `half-duplex`, the keys, and tables `up` and `down`.
    ///
    /// # Errors
    /// Names the faulty key, or the place of a TOML syntax error.
    pub fn parse_toml(text: &str, limits: &Limits, files: Files<'_>) -> Result<Profile, SpecError> {
        let table: toml::Table = text
            .parse()
            .map_err(|fault: toml::de::Error| error("", fault.to_string().trim_end()))?;
        let mut profile = match table.get("preset") {
            Some(toml::Value::String(name)) => preset(name)?,
            Some(_) => return Err(error("preset", "write a name in quotes")),
            None => custom(),
        };
        // Keys for both directions come first, wherever they stand in the file: a table refines them.
        for (key, value) in &table {
            match (key.as_str(), value) {
                ("preset", _) | ("up" | "down", toml::Value::Table(_)) => {}
                ("name", toml::Value::String(name)) => profile.name.clone_from(name),
                ("source", toml::Value::String(source)) => profile.source.clone_from(source),
                _ => profile.set(key, &scalar(key, value)?, limits, files)?,
            }
        }
        for direction in ["up", "down"] {
            if let Some(toml::Value::Table(way)) = table.get(direction) {
                for (key, value) in way {
                    let key = format!("{direction}.{key}");
                    profile.set(&key, &scalar(&key, value)?, limits, files)?;
                }
            }
        }
        Ok(profile)
    }

    /// Sets one key.
    ///
    /// # Errors
    /// The key is unknown or its value is invalid.
    pub fn set(
        &mut self,
        key: &str,
        value: &str,
        limits: &Limits,
        files: Files<'_>,
    ) -> Result<(), SpecError> {
        if key == HALF_DUPLEX {
            self.half_duplex = switch(value).map_err(|reason| error(key, &reason))?;
            return Ok(());
        }
        let name = key.split_once('.').map_or(key, |(_, name)| name);
        if name == HALF_DUPLEX {
            return Err(error(
                key,
                "both directions share the medium; write half-duplex without up or down",
            ));
        }
        if !KEYS.iter().any(|(known, _)| *known == name) {
            let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).chain([HALF_DUPLEX]).collect();
            return Err(SpecError {
                is_unknown_key: true,
                ..error(key, &format!("no such key; known keys are {}", known.join(", ")))
            });
        }
        let (ways, name): (Vec<&mut Way>, &str) = match key.split_once('.') {
            Some(("up", name)) => (vec![&mut self.up], name),
            Some(("down", name)) => (vec![&mut self.down], name),
            Some((other, _)) => return Err(error(key, &format!("`{other}` is neither up nor down"))),
            None => (vec![&mut self.up, &mut self.down], key),
        };
        for way in ways {
            way.set(name, value, limits, files)
                .map_err(|reason| error(key, &reason))?;
        }
        Ok(())
    }
}

impl Way {
    fn set(&mut self, key: &str, value: &str, limits: &Limits, files: Files<'_>) -> Result<(), String> {
        match key {
            "rate" if value == "none" => self.server = None,
            "rate" => match text::<Rate>(value)? {
                Rate(0) => {
                    return Err("a rate of zero passes nothing; write none for an unlimited rate".to_owned());
                }
                rate => self.server = Some(Server::Rate(rate)),
            },
            "trace" => {
                let trace = Trace::parse(&files(value)?, limits.opportunities_max)
                    .map_err(|fault| format!("{value}: {fault}"))?;
                self.server = Some(Server::Trace(Arc::new(trace)));
            }
            "delay" => self.delay = duration(value)?,
            "rtt" => self.delay = duration(value)? / 2,
            "jitter" => {
                self.jitter = match value.strip_prefix("normal:") {
                    Some(sd) => Jitter::Normal(duration(sd)?),
                    None => match duration(value)? {
                        Duration::ZERO => Jitter::None,
                        max => Jitter::Uniform(max),
                    },
                };
            }
            "reorder" => self.reorder = switch(value)?,
            "loss" => self.loss = loss(value)?,
            "queue" => self.discipline = queue(value, limits)?,
            "framing" => {
                self.framing = match value {
                    "ip" => Framing::IP,
                    "ethernet" => Framing::ETHERNET,
                    "ppp" => Framing::PPP,
                    _ => match value.strip_prefix('+') {
                        Some(bytes) => Framing {
                            per_packet: text(bytes)?,
                            padded_to: Bytes(0),
                        },
                        None => return Err("write ip, ethernet, ppp or +BYTES".to_owned()),
                    },
                };
            }
            "mtu" => {
                let mtu: Bytes = text(value)?;
                // RFC 791: every link carries 68 bytes, and the packet length field ends at 65,535.
                if !(Bytes(68)..=Bytes(65_535)).contains(&mtu) {
                    return Err(format!(
                        "`{value}` is not a valid IPv4 MTU; write 68 to 65535 bytes"
                    ));
                }
                self.mtu = Some(mtu);
            }
            "hold-acks" => self.hold_acks = Some(hold(value)?),
            "hold-mss" => self.hold_mss = text(value)?,
            _ => return Err("no such key".to_owned()),
        }
        Ok(())
    }
}

fn custom() -> Profile {
    Profile {
        name: "custom".to_owned(),
        source: "given by the user".to_owned(),
        ..Profile::default()
    }
}

fn preset(name: &str) -> Result<Profile, SpecError> {
    Profile::preset(name).ok_or_else(|| {
        error(
            name,
            &format!("no such preset; presets are {}", PRESETS.join(", ")),
        )
    })
}

fn error(key: &str, reason: &str) -> SpecError {
    SpecError {
        key: key.to_owned(),
        reason: reason.to_owned(),
        is_unknown_key: false,
    }
}

fn scalar(key: &str, value: &toml::Value) -> Result<String, SpecError> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(switch) => Ok(switch.to_string()),
        _ => Err(error(key, "write a string, a number or true/false")),
    }
}

fn text<T: core::str::FromStr>(value: &str) -> Result<T, String>
where
    T::Err: fmt::Display,
{
    value.parse().map_err(|fault: T::Err| fault.to_string())
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "yes" | "true" | "on" => Ok(true),
        "no" | "false" | "off" => Ok(false),
        _ => Err(format!("`{value}` is neither yes nor no")),
    }
}

/// Parses `200ms`, `0.25ms`, `1.5s`, `75us`, `0`.
fn duration(value: &str) -> Result<Duration, String> {
    let fault = || format!("`{value}` is not a time; write a unit, as in 200ms, 1.5s, 250us");
    let split = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(split);
    let scale = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if number == "0" => 1.0,
        _ => return Err(fault()),
    };
    let ns = number.parse::<f64>().map_err(|_| fault())? * scale;
    // An arbitrary limit, longer than any link's delay.
    if ns > 86_400e9 {
        return Err(format!("`{value}` is longer than a day; write at most 86400s"));
    }
    Ok(Duration::from_nanos(ns.round() as u64))
}

/// Parses a share: `1%` or `0.01`.
fn share(value: &str) -> Result<f64, String> {
    let (number, scale) = match value.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (value, 1.0),
    };
    match number.parse::<f64>() {
        Ok(x) if (0.0..=1.0).contains(&(x / scale)) => Ok(x / scale),
        _ => Err(format!("`{value}` is not a share; write 1% or 0.01")),
    }
}

fn loss(value: &str) -> Result<Option<LossModel>, String> {
    let Some(burst) = value.strip_prefix("burst:") else {
        let p = share(value)?;
        return Ok((p > 0.0).then_some(LossModel::Independent(p)));
    };
    let numbers: Vec<f64> = burst.split(',').map(share).collect::<Result<_, _>>()?;
    let (to_bad, to_good, loss_bad, loss_good) = match numbers[..] {
        [p, r] => (p, r, 1.0, 0.0),
        [p, r, bad, good] => (p, r, bad, good),
        _ => return Err("write burst:p,r or burst:p,r,bad,good".to_owned()),
    };
    Ok(Some(LossModel::GilbertElliott {
        to_bad,
        to_good,
        loss_bad,
        loss_good,
    }))
}

/// Parses a number of packets such as `100p`; `None` for other forms.
fn packets(value: &str) -> Result<Option<usize>, String> {
    match value.strip_suffix('p').map(str::parse) {
        Some(Ok(0)) => Err("a queue holds at least one packet".to_owned()),
        Some(Ok(n)) => Ok(Some(n)),
        _ => Ok(None),
    }
}

fn queue(value: &str, limits: &Limits) -> Result<Discipline, String> {
    if let Some(rest) = value.strip_prefix("codel") {
        let mut params = CodelParams::default();
        let mut most = limits.queue_packets_max;
        let parts: Vec<&str> = rest.trim_start_matches(':').split(',').collect();
        for (place, part) in parts.into_iter().filter(|part| !part.is_empty()).enumerate() {
            match (place, packets(part)?) {
                (_, Some(n)) => most = n,
                (0, None) => params.target = duration(part)?,
                (1, None) => params.interval = duration(part)?,
                _ => return Err("write codel or codel:TARGET,INTERVAL,PACKETSp".to_owned()),
            }
        }
        return Ok(Discipline::Codel {
            params,
            packets: most,
        });
    }
    let (mut most_packets, mut most_bytes) = (None, None);
    for part in value.split('/') {
        match packets(part)? {
            Some(n) => most_packets = Some(n),
            None => most_bytes = Some(text::<Bytes>(part)?),
        }
    }
    Ok(Discipline::DropTail {
        packets: most_packets,
        bytes: most_bytes,
    })
}

fn hold(value: &str) -> Result<HoldTimer, String> {
    let Some(beat) = value.strip_prefix("beat:") else {
        return Ok(HoldTimer::PerSegment(duration(value)?));
    };
    let (period, phase) = match beat.split_once(',') {
        Some((period, phase)) => (duration(period)?, duration(phase)?),
        None => (duration(beat)?, Duration::ZERO),
    };
    if period.is_zero() {
        return Err("the period must be above zero".to_owned());
    }
    Ok(HoldTimer::Heartbeat { period, phase })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Profile, SpecError> {
        let mut files = |name: &str| match name {
            "t" => Ok("1\n2\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        Profile::parse(text, &Limits::default(), &mut files)
    }

    #[test]
    fn words_refine_a_preset() {
        let profile = parse("ppp loss=1% up.rate=9.6k down.queue=codel:2ms,50p jitter=normal:3ms").unwrap();
        let Some(Server::Rate(rate)) = profile.up.server else {
            panic!("{profile:?}");
        };
        assert_eq!(rate, Rate(9_600));
        assert_eq!(profile.up.framing, Framing::PPP);
        assert_eq!(profile.down.loss, Some(LossModel::Independent(0.01)));
        assert_eq!(profile.up.jitter, Jitter::Normal(Duration::from_millis(3)));
        assert_eq!(
            profile.down.discipline,
            Discipline::Codel {
                params: CodelParams {
                    target: Duration::from_millis(2),
                    ..CodelParams::default()
                },
                packets: 50
            }
        );
        assert!(matches!(
            parse("trace=t").unwrap().up.server,
            Some(Server::Trace(_))
        ));
    }

    #[test]
    fn toml_says_the_same() {
        let text = "preset = 'wan'\nname = 'mine'\nloss = 0.02\nqueue = '20p/64K'\n\
                    'half-duplex' = false\n[up]\nrate = '1M'\n[down]\nmtu = 576\n";
        let profile = Profile::parse_toml(text, &Limits::default(), &mut |_| Err(String::new())).unwrap();
        let words = parse("wan loss=2% queue=20p/64K up.rate=1M down.mtu=576").unwrap();
        assert_eq!(profile.name, "mine");
        assert_eq!(format!("{:?}", profile.up), format!("{:?}", words.up));
        assert_eq!(format!("{:?}", profile.down), format!("{:?}", words.down));
    }

    #[test]
    fn every_fault_names_its_key() {
        for (text, key, part) in [
            ("pp", "pp", "no such preset"),
            ("lan rate", "rate", "key=value"),
            ("rate=fast", "rate", "not a rate"),
            ("delay=5", "delay", "write a unit"),
            ("left.delay=5ms", "left.delay", "neither up nor down"),
            ("up.speed=1", "up.speed", "no such key"),
            ("loss=200%", "loss", "not a share"),
            ("loss=burst:1%", "loss", "burst:p,r"),
            ("trace=u", "trace", "no such file"),
            ("mtu=60", "mtu", "68 to 65535"),
            ("mtu=65536", "mtu", "68 to 65535"),
            ("down.mtu=100000", "down.mtu", "68 to 65535"),
            ("up.half-duplex=yes", "up.half-duplex", "without up or down"),
            ("half=yes", "half", "half-duplex"),
            ("hold-acks=beat:0", "hold-acks", "above zero"),
            ("rate=0", "rate", "none for an unlimited rate"),
            ("queue=0p", "queue", "at least one packet"),
            ("queue=codel:0p", "queue", "at least one packet"),
            ("queue=?p", "queue", "not a size"),
        ] {
            let fault = parse(text).expect_err(text);
            assert_eq!(fault.key, key, "{text}");
            assert!(fault.reason.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn every_key_is_known_to_set() {
        let mut way = Way::default();
        for (key, _) in KEYS {
            let fault = way.set(key, "?", &Limits::default(), &mut |_| Err("no file".to_owned()));
            assert!(!fault.expect_err(key).contains("no such key"), "{key}");
        }
    }
}
