//! `Accept-Encoding` values of any kind; see `http1::negotiate::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1::negotiate::fuzz(data));
