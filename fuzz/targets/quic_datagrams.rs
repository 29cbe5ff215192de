//! Datagrams between two ends of QUIC; see `trace::fuzz_quic`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trace::fuzz_quic(data));
