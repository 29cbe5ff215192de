//! `Accept-Encoding` values of any kind; see `http_semantics::negotiate::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http_semantics::negotiate::fuzz(data));
