//! Test support: property tests with the same cases in every run.

/// Configures this many cases from a fixed seed, so that a failing test fails every time.
pub(crate) fn cases(count: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: count,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x1994_1106),
        ..proptest::test_runner::Config::default()
    }
}
