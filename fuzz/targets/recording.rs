//! Files of recorded exchanges, and requests that a recording answers; see `recording::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| recording::fuzz(data));
