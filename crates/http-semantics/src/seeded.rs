//! Test support: property tests whose cases are the same in every run.

/// So many cases from a fixed seed: a test that fails once fails always.
pub(crate) fn cases(count: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: count,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x1994_1106),
        ..proptest::test_runner::Config::default()
    }
}
