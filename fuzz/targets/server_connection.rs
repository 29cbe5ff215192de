//! A server connection fed any stream in any pieces; see `http1::server::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1::server::fuzz(data));
