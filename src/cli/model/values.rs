//! Syntax of the values of `weir model`: times, shares, lines, groups, stations, distributions. Checks spelling only;
//! the formulas refuse impossible values and name them.

use ::model::closed::{Kind, Station};
use ::model::paper::LINKS;
use ::model::waiting::Group;
use ::model::{Quantity, Seconds, Sizes};
use std::str::FromStr;
use units::{Bytes, Rate};

/// Whole bytes.
pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text
        .parse()
        .map_err(|why: units::ParseBytesError| why.to_string())?;
    let number = text.trim().trim_end_matches('B').trim_end();
    match number.parse::<f64>() {
        Ok(bare) if bare.fract() != 0.0 => Err(format!("`{text}` is not a whole number of bytes")),
        _ => Ok(bytes),
    }
}

/// A time: a number and a unit, from nanoseconds to days; without a unit, seconds.
pub(crate) fn seconds(text: &str) -> Result<Seconds, String> {
    let error = || {
        format!(
            "`{text}` is not a time; write 250us, 0.5ms, 90ms, 2s or 1m; a number without a unit is seconds"
        )
    };
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| c.is_ascii_alphabetic() || c == 'µ')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let scale: f64 = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(error()),
    };
    let number: f64 = number.trim().parse().map_err(|_| error())?;
    // Dividing is exact; multiplying by 1e-3 is not.
    let value = if scale < 1.0 {
        number / (1.0 / scale).round()
    } else {
        number * scale
    };
    value.is_finite().then_some(Seconds(value)).ok_or_else(error)
}

/// A share: `1%` or `0.01`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let error = || format!("`{text}` is not a share; write 1% or 0.01");
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let value: f64 = number.trim().parse().map_err(|_| error())?;
    value.is_finite().then_some(value / scale).ok_or_else(error)
}

/// A share as an error limit.
pub(crate) fn tolerance(text: &str) -> Result<f64, String> {
    let value = share(text)?;
    (value >= 0.0)
        .then_some(value)
        .ok_or_else(|| format!("`{text}` is below 0; write a share of 0 or more, as in 2%"))
}

/// A line with optional settings of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LineOffer {
    /// Name in answers.
    pub(crate) name: String,
    pub(crate) rate: Rate,
    /// Round-trip time, if it differs from the common one.
    pub(crate) rtt: Option<Seconds>,
    /// Number of users, if given.
    pub(crate) users: Option<u64>,
}

impl FromStr for LineOffer {
    type Err = String;

    /// `T1`, `1.5M`, `far=45M`, each optionally followed by `@RTT` and `:USERS`.
    fn from_str(text: &str) -> Result<LineOffer, String> {
        let error = |what: &str| {
            format!("`{text}`: {what}; write a line as T1, 10M or far=45M@200ms, with :25 for its users")
        };
        let (rest, users) = match text.rsplit_once(':') {
            Some((rest, users)) => (
                rest,
                Some(
                    users
                        .parse()
                        .map_err(|_| error("the number of users is not a whole number"))?,
                ),
            ),
            None => (text, None),
        };
        let (rest, rtt) = match rest.split_once('@') {
            Some((rest, rtt)) => (rest, Some(seconds(rtt).map_err(|why| error(&why))?)),
            None => (rest, None),
        };
        let (name, rate) = rest.split_once('=').unwrap_or((rest, rest));
        if name.trim().is_empty() {
            return Err(error("the name before the = is missing"));
        }
        let known = LINKS.iter().find(|(link, _)| link.eq_ignore_ascii_case(rate));
        let rate = match known {
            Some(&(_, rate)) => rate,
            None => rate
                .parse()
                .map_err(|_| error("the rate is not T1, E1, T3, OC3 or a number as in 10M, 1.5Mbit/s"))?,
        };
        Ok(LineOffer {
            name: name.to_owned(),
            rate,
            rtt,
            users,
        })
    }
}

/// A group: `USERS:PACKET-TIME`.
pub(crate) fn group(text: &str) -> Result<Group, String> {
    let error = || format!("`{text}` is not a group; write users and packet time, as in 5:3.6ms");
    let (users, time) = text.split_once(':').ok_or_else(error)?;
    Ok(Group {
        users: users.parse().map_err(|_| error())?,
        packet_time: seconds(time).map_err(|_| error())?,
    })
}

/// A station: `NAME=DEMAND`, `NAME=DEMANDxSERVERS`.
pub(crate) fn station(text: &str) -> Result<Station, String> {
    let error =
        || format!("`{text}` is not a station; write its name and service time, as in cpu=5ms or app=40msx4");
    let (name, demand) = text.split_once('=').ok_or_else(error)?;
    let (demand, kind) = match demand.split_once('x') {
        Some((demand, servers)) => (demand, Kind::Servers(servers.parse().map_err(|_| error())?)),
        None => (demand, Kind::Queue),
    };
    Ok(Station {
        name: name.to_owned(),
        demand: seconds(demand).map_err(|_| error())?,
        kind,
    })
}

/// A delay: `NAME=TIME`.
pub(crate) fn delay(text: &str) -> Result<Station, String> {
    let found = station(text)?;
    match found.kind {
        Kind::Queue => Ok(Station::delay(&found.name, found.demand)),
        _ => Err(format!(
            "`{text}` gives servers to a delay, which has none; write its name and time, as in net=90ms"
        )),
    }
}

/// Unit of a distribution's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Numbers without a unit; the question decides.
    Bare,
    Bytes,
    Times,
}

/// A distribution and the unit of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution {
    /// The distribution, in bytes or seconds.
    pub(crate) sizes: Sizes,
    /// Unit of the numbers as written.
    pub(crate) unit: Unit,
}

/// A distribution: `fixed(6000)`, `pareto(1K,10M,1.2)`; all sizes are bytes or all are times.
pub(crate) fn sizes(text: &str) -> Result<Distribution, String> {
    let error = || {
        format!(
            "`{text}` is not a distribution; write fixed(X), uniform(LOW,HIGH), exponential(MEAN), \
             pareto(LOW,HIGH,ALPHA), lognormal(MU,SIGMA,HIGH) or values(X,X,...); sizes as 6000, 118KB, 10ms, \
             ALPHA, MU and SIGMA without a unit"
        )
    };
    let (name, rest) = text.trim().split_once('(').ok_or_else(error)?;
    let inner = rest.strip_suffix(')').ok_or_else(error)?;
    let numbers: Vec<(f64, Unit)> = inner
        .split(',')
        .map(|word| amount(word.trim()).ok_or_else(error))
        .collect::<Result<_, _>>()?;
    let pure = |at: usize| {
        (numbers[at].1 == Unit::Bare)
            .then_some(numbers[at].0)
            .ok_or_else(error)
    };
    let x = |at: usize| numbers[at].0;
    let (sizes, of) = match (name.trim(), numbers.len()) {
        ("fixed", 1) => (Sizes::Fixed(x(0)), 0..1),
        ("uniform", 2) => {
            let (low, high) = (x(0), x(1));
            (Sizes::Uniform { low, high }, 0..2)
        }
        ("exponential", 1) => (Sizes::Exponential { mean: x(0) }, 0..1),
        ("pareto", 3) => {
            let (low, high, alpha) = (x(0), x(1), pure(2)?);
            (Sizes::BoundedPareto { low, high, alpha }, 0..2)
        }
        ("lognormal", 3) => {
            let (mu, sigma, high) = (pure(0)?, pure(1)?, x(2));
            (Sizes::Lognormal { mu, sigma, high }, 2..3)
        }
        ("values", count) => {
            let points = numbers.iter().map(|&(x, _)| (x, 1.0));
            (Sizes::Empirical(points.collect()), 0..count)
        }
        _ => return Err(error()),
    };
    let units = || numbers[of.clone()].iter().map(|(_, unit)| *unit);
    let unit = units().find(|unit| *unit != Unit::Bare).unwrap_or(Unit::Bare);
    if units().any(|other| other != unit) {
        return Err(format!("`{text}`: its sizes have different units; use one unit"));
    }
    sizes.check().map_err(|why| format!("`{text}`: {why}"))?;
    Ok(Distribution { sizes, unit })
}

/// A distribution whose sizes must be bytes.
pub(crate) fn sizes_in_bytes(text: &str) -> Result<Sizes, String> {
    let Distribution { sizes, unit } = sizes(text)?;
    match unit {
        Unit::Bare | Unit::Bytes => Ok(sizes),
        Unit::Times => Err(format!("`{text}` are times; write bytes, as in 6000 or 118KB")),
    }
}

/// A bare number, bytes with a unit, or a time.
fn amount(word: &str) -> Option<(f64, Unit)> {
    let bare = word.parse().ok().filter(|number: &f64| number.is_finite());
    bare.map(|number| (number, Unit::Bare))
        .or_else(|| {
            word.parse::<Bytes>()
                .ok()
                .map(|bytes| (bytes.0 as f64, Unit::Bytes))
        })
        .or_else(|| seconds(word).ok().map(|span| (span.0, Unit::Times)))
}

/// A measured value as `QUANTITY=VALUE`.
pub(crate) fn measured(text: &str) -> Result<(Quantity, f64), String> {
    const NAMES: [(&str, Quantity); 7] = [
        ("size-scv", Quantity::SizeVariability),
        ("service-scv", Quantity::ServiceVariability),
        ("interarrival-scv", Quantity::InterarrivalVariability),
        ("think-scv", Quantity::ThinkVariability),
        ("rtt-scv", Quantity::RttVariability),
        ("loss", Quantity::Loss),
        ("utilization", Quantity::Utilization),
    ];
    let names = || NAMES.map(|(name, _)| name).join(", ");
    let error = || {
        format!(
            "`{text}` is not a measurement; write QUANTITY=VALUE with one of {}",
            names()
        )
    };
    let (name, value) = text.split_once('=').ok_or_else(error)?;
    let (_, quantity) = NAMES
        .into_iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(error)?;
    let value = share(value).map_err(|_| error())?;
    // None of these is ever negative, and the loss is at most 1.
    let most = if quantity == Quantity::Loss {
        1.0
    } else {
        f64::INFINITY
    };
    if !(0.0..=most).contains(&value) {
        return Err(format!("`{text}`: {} cannot be {value}", quantity.name()));
    }
    Ok((quantity, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_shares() {
        for (text, want) in [
            ("0.5ms", 0.0005),
            ("90ms", 0.09),
            ("2s", 2.0),
            ("2", 2.0),
            ("1.5m", 90.0),
            ("20 us", 2e-5),
            ("-1s", -1.0),
        ] {
            assert_eq!(seconds(text), Ok(Seconds(want)), "{text}");
        }
        for bad in ["", "ms", "2 parsecs", "nan", "1e400s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(
            seconds("soon")
                .expect_err("no time")
                .contains("without a unit is seconds")
        );
        assert_eq!(bytes("1.5KB"), Ok(Bytes(1500)));
        for bad in ["6000.5", "6000.5 B"] {
            assert!(
                bytes(bad).expect_err(bad).contains("not a whole number of bytes"),
                "{bad}"
            );
        }
        assert!(tolerance("-1").expect_err("below 0").contains("below 0"));
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0.01"), Ok(0.01));
        assert!(share("much").is_err());
    }

    #[test]
    fn lines_may_have_names_round_trips_and_users() {
        let line = |text: &str| text.parse::<LineOffer>();
        let t1 = line("T1").expect("a line");
        assert_eq!(
            (t1.name.as_str(), t1.rate, t1.rtt, t1.users),
            ("T1", Rate(1_544_000), None, None)
        );
        let far = line("far=45M@200ms:15").expect("a line");
        assert_eq!(
            (far.name.as_str(), far.rate, far.rtt, far.users),
            ("far", Rate::mbit(45), Some(Seconds(0.2)), Some(15))
        );
        for bad in ["T9", "10M:x", "10M@soon", "", "=T1"] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stations_may_have_servers() {
        assert_eq!(
            station("app=40msx4"),
            Ok(Station::servers("app", Seconds(0.04), 4))
        );
        assert_eq!(delay("net=90ms"), Ok(Station::delay("net", Seconds(0.09))));
        assert!(delay("net=90msx2").is_err() && station("cpu").is_err());
    }

    #[test]
    fn distributions_take_bytes_times_and_numbers() {
        assert_eq!(
            sizes("pareto(1KiB,1MiB,1.1)"),
            Ok(Distribution {
                sizes: Sizes::BoundedPareto {
                    low: 1024.0,
                    high: 1_048_576.0,
                    alpha: 1.1
                },
                unit: Unit::Bytes
            })
        );
        let known = |text: &str| sizes(text).map(|found| (found.sizes, found.unit));
        assert_eq!(
            known("exponential(10ms)"),
            Ok((Sizes::Exponential { mean: 0.01 }, Unit::Times))
        );
        assert_eq!(known("fixed(6000)"), Ok((Sizes::Fixed(6000.0), Unit::Bare)));
        assert_eq!(sizes_in_bytes("fixed(6KB)"), Ok(Sizes::Fixed(6000.0)));
        for (bad, why) in [
            ("fixed(0)", "above 0"),
            ("zipf(1)", "not a distribution"),
            ("fixed(1,2)", "not a distribution"),
            ("uniform(1KB,10ms)", "different units"),
            ("values(6000,6KB)", "different units"),
            ("pareto(1KB,10MB,2ms)", "ALPHA, MU and SIGMA without a unit"),
        ] {
            assert!(sizes(bad).expect_err(bad).contains(why), "{bad}");
        }
        assert!(
            sizes_in_bytes("exponential(10ms)")
                .expect_err("times")
                .contains("are times")
        );
    }

    #[test]
    fn measurements_are_named() {
        assert_eq!(measured("loss=1%"), Ok((Quantity::Loss, 0.01)));
        assert!(measured("color=3").expect_err("no such").contains("size-scv"));
        for bad in ["loss=-3", "loss=200%", "size-scv=-1"] {
            assert!(measured(bad).expect_err(bad).contains("cannot be"), "{bad}");
        }
    }
}
