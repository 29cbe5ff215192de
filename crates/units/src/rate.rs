//! Transmission rates in bits per second that parse and print the usual spellings, such as `1.5 Mbit/s`.
//!
//! Prefixes are powers of 1000, as in every networking document: 1 Mbit/s is 1,000,000 bit/s.

use crate::Bytes;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A transmission rate in bits per second.
///
/// Parses a number with an optional prefix `k`, `M`, `G`, `T` (powers of 1000, either case) and an
/// optional unit: `bit/s`, `bit`, `bps`, `b/s` or nothing for bits, `B/s` for bytes per second.
/// So `10M`, `1.5Mbit/s`, `28.8k`, `155 Mbps` and `1.25MB/s` are rates. Prints as `1.5 Mbit/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

impl Rate {
    /// `n` kbit/s (units of 1,000 bits per second).
    pub const fn kbit(n: u64) -> Rate {
        Rate(n * 1_000)
    }

    /// `n` Mbit/s (units of 1,000,000 bits per second).
    pub const fn mbit(n: u64) -> Rate {
        Rate(n * 1_000_000)
    }

    /// The rate in bits per second as a floating-point number.
    pub const fn bits_per_second(self) -> f64 {
        self.0 as f64
    }

    /// Seconds to transmit `size` at this rate; infinite at rate zero.
    pub fn seconds_for(self, size: Bytes) -> f64 {
        size.0 as f64 * 8.0 / self.bits_per_second()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1_000_000_000_000, "T"),
            (1_000_000_000, "G"),
            (1_000_000, "M"),
            (1_000, "k"),
        ];
        let (scale, prefix) = UNITS
            .into_iter()
            .find(|&(scale, _)| self.0 >= scale)
            .unwrap_or((1, ""));
        let value = self.0 as f64 / scale as f64;
        // Three decimals distinguish the common rates (1.544 Mbit/s); trailing zeros are cut.
        let digits = format!("{value:.3}");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{digits} {prefix}bit/s")
    }
}

/// The text is not a rate; holds the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRateError {
    text: String,
}

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a rate; write bits per second or a unit, as in 28.8k, 10M, 1.5Mbit/s, 1.25MB/s",
            self.text
        )
    }
}

impl std::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Rate, ParseRateError> {
        let error = || ParseRateError {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        let prefix = unit.chars().next().unwrap_or('-');
        let (scale, unit) = match prefix {
            'k' | 'K' => (1e3, &unit[1..]),
            'm' | 'M' => (1e6, &unit[1..]),
            'g' | 'G' => (1e9, &unit[1..]),
            't' | 'T' => (1e12, &unit[1..]),
            _ => (1.0, unit),
        };
        let bits = match unit {
            "" | "bit/s" | "bit" | "bps" | "b/s" => 1.0,
            "B/s" => 8.0,
            _ => return Err(error()),
        };
        let value: f64 = number.parse().map_err(|_| error())?;
        let scaled = (value * scale * bits).round();
        if scaled < u64::MAX as f64 {
            Ok(Rate(scaled as u64))
        } else {
            Err(error())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_and_print() {
        for (text, want, shown) in [
            ("0", 0, "0 bit/s"),
            ("300", 300, "300 bit/s"),
            ("28.8k", 28_800, "28.8 kbit/s"),
            ("1.544M", 1_544_000, "1.544 Mbit/s"),
            ("1.5Mbit/s", 1_500_000, "1.5 Mbit/s"),
            ("10 Mbps", 10_000_000, "10 Mbit/s"),
            ("10mbit", 10_000_000, "10 Mbit/s"),
            ("1.25MB/s", 10_000_000, "10 Mbit/s"),
            ("2G", 2_000_000_000, "2 Gbit/s"),
        ] {
            let got: Rate = text.parse().unwrap();
            assert_eq!(got, Rate(want), "{text}");
            assert_eq!(got.to_string(), shown);
        }
        for bad in ["", "M", "12Q", "1.2.3", "-5", "10Mbyte", "99999999999T", "1e3"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_byte_takes_eight_bits() {
        assert_eq!(Rate::mbit(8).seconds_for(Bytes(1_000_000)), 1.0);
        assert!(Rate(0).seconds_for(Bytes(1)).is_infinite());
    }
}
