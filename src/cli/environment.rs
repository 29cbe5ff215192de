//! Variables that are nearly those of a flag. Decides what is a misspelling; the variables themselves
//! are read with the flags.
//!
//! An unknown name is no error: platforms set variables of that prefix for a service called weir
//! (Kubernetes: `WEIR_SERVICE_HOST`). One that nearly is a flag's was meant for it.

/// How alike two names are to be taken for the same, from 0 to 1.
const ALIKE: f64 = 0.95;

/// The misspelt among the variables set, each with what was meant.
pub(crate) fn misspelt<'a>(set: impl Iterator<Item = String>, known: &[&'a str]) -> Vec<(String, &'a str)> {
    let mut found: Vec<_> = set
        .filter(|name| name.starts_with("WEIR_") && !known.contains(&name.as_str()))
        .filter_map(|name| {
            let alike = |meant: &&str| strsim::jaro_winkler(&name, meant);
            let meant = known
                .iter()
                .max_by(|a, b| alike(a).total_cmp(&alike(b)))
                .copied()
                .filter(|meant| alike(meant) >= ALIKE)?;
            Some((name, meant))
        })
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::misspelt;

    #[test]
    fn only_near_misses_are_pointed_out() {
        let set = [
            "WEIR_CACHE_SISE",
            "WEIR_CACHE_SIZE",
            "WEIR_PORT_8080_TCP",
            "WEIR_SERVICE_HOST",
            "HOME",
        ];
        let known = ["WEIR_CACHE_SIZE", "WEIR_CACHE_POLICY", "WEIR_LISTEN"];
        assert_eq!(
            misspelt(set.into_iter().map(str::to_owned), &known),
            [("WEIR_CACHE_SISE".to_owned(), "WEIR_CACHE_SIZE")]
        );
    }
}
