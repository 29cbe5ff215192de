//! Pages of any kind in pieces of any size; see `server::references::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::references::fuzz(data));
