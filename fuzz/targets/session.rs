//! A file server's session fed any stream, with any events between; see `server::exercise`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::exercise::run(data));
