//! Logs of any kind; see `accesslog::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| accesslog::fuzz(data));
