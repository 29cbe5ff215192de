//! `Range` values of any kind; see `http1::range::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1::range::fuzz(data));
