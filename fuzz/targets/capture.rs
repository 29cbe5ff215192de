//! Capture files of any kind; see `trace::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| trace::fuzz(data));
