//! Arbitrary field blocks and conversations of an encoder; see `http2::cuts::hpack`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http2::cuts::hpack(data));
