//! Chunked bodies read in any pieces and written anew; see `http1::body::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| http1::body::fuzz(data));
