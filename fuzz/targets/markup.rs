//! Pages and style sheets in pieces of any size; see `markup::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| markup::fuzz(data));
