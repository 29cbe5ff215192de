//! Arbitrary HTTP/2 frames; see `http2::cuts::server`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http2::cuts::server(data));
