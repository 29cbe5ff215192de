//! Arbitrary streams from an HTTP/3 client; see `http3::cuts::server`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http3::cuts::server(data));
