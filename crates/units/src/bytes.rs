//! A byte count that parses and prints the usual spellings, such as `64K` and `1.5MiB`.
//!
//! Knows no meaning of a size; limits belong to its users.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A number of bytes.
///
/// Parses `4096`, `64K`, `64KiB`, `1.5MiB`, `2G` (powers of 1024) and `10kB`, `5MB` (powers of 1000).
/// Prints with the largest binary unit that keeps at least one digit before the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` KiB (units of 1,024 bytes).
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }

    /// `n` MiB (units of 1,048,576 bytes).
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit < UNITS.len() - 1 {
            value /= 1024.0;
            unit += 1;
        }
        if unit == 0 || value.fract() == 0.0 {
            write!(f, "{value:.0} {}", UNITS[unit])
        } else {
            write!(f, "{value:.1} {}", UNITS[unit])
        }
    }
}

/// The text is not a byte count; holds the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseBytesError {
    text: String,
}

impl fmt::Display for ParseBytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a size; write bytes or a unit, as in 4096, 64K, 1.5MiB, 10MB",
            self.text
        )
    }
}

impl std::error::Error for ParseBytesError {}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Bytes, ParseBytesError> {
        let error = || ParseBytesError {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
        let scale: u64 = match unit {
            "" | "B" => 1,
            "k" | "K" | "Ki" | "KiB" => 1 << 10,
            "m" | "M" | "Mi" | "MiB" => 1 << 20,
            "g" | "G" | "Gi" | "GiB" => 1 << 30,
            "t" | "T" | "Ti" | "TiB" => 1 << 40,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            _ => return Err(error()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).map(Bytes).ok_or_else(error);
        }
        let value: f64 = number.parse().map_err(|_| error())?;
        let scaled = value * scale as f64;
        if !scaled.is_finite() || scaled >= u64::MAX as f64 {
            return Err(error());
        }
        Ok(Bytes(scaled.round() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_print() {
        for (text, want, shown) in [
            ("0", 0, "0 B"),
            ("4096", 4096, "4 KiB"),
            ("64K", 65_536, "64 KiB"),
            ("1.5MiB", 1_572_864, "1.5 MiB"),
            ("10MB", 10_000_000, "9.5 MiB"),
            ("2G", 2 << 30, "2 GiB"),
        ] {
            let got: Bytes = text.parse().unwrap();
            assert_eq!(got, Bytes(want), "{text}");
            assert_eq!(got.to_string(), shown);
        }
        for bad in ["", "K", "12Q", "1.2.3", "-5", "99999999999999999999", "99999999T"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
    }
}
