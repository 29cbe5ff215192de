//! `Range` values of any kind; see `http_semantics::range::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http_semantics::range::fuzz(data));
