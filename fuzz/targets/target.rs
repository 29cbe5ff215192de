//! Request targets of any kind; see `http_semantics::target::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http_semantics::target::fuzz(data));
