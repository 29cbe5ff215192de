//! TLS conversations of any kind; see `trace::fuzz_tls`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trace::fuzz_tls(data));
