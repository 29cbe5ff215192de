//! Request targets of any kind; see `http1::target::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1::target::fuzz(data));
