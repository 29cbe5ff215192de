//! A client connection fed any stream in any pieces; see `http1::client::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1::client::fuzz(data));
