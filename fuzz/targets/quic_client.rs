//! A client of QUIC with any transport parameters and frames, against our endpoint; see `quic::fuzzing::client`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quic::fuzzing::client(data));
