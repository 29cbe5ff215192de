//! Arbitrary streams from an HTTP/3 server; see `http3::cuts::client`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http3::cuts::client(data));
