//! Pressure stall information (the kernel's `Documentation/accounting/psi.rst`): the running total of the line `some`.

use std::path::Path;
use units::Duration;

/// The total of this file, if it can be read.
pub(super) fn total(file: &Path) -> Option<Duration> {
    parse(&std::fs::read_to_string(file).ok()?)
}

fn parse(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let micros = line
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    micros.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_some_is_taken() {
        let text = "some avg10=1.50 avg60=0.10 avg300=0.00 total=12345\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse(text), Some(Duration::from_micros(12_345)));
        for nonsense in [
            "",
            "full avg10=0 total=1\n",
            "some total=many\n",
            "some avg10=0\n",
        ] {
            assert_eq!(parse(nonsense), None, "{nonsense:?}");
        }
    }
}
