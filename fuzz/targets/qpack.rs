//! Arbitrary encoder streams and field sections; see `http3::cuts::qpack`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http3::cuts::qpack(data));
