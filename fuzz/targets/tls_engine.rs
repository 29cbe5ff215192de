//! A TLS connection between two ends of ours, with bytes lost, changed and repeated; see `tls::engine::fuzzing::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tls::engine::fuzzing::fuzz(data));
