//! Arbitrary bytes of an application; see `fastcgi::exercise`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ::fastcgi::exercise(data));
