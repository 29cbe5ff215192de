//! Arbitrary bytes in front of a connection; see `server::proxy_protocol::exercise`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::proxy_protocol::exercise(data));
