//! A file server's session fed frames of HTTP/2 and noise, with any events between; see `server::exercise`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::exercise::run_http2(data));
