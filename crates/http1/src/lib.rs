//! HTTP/1.x without I/O: bytes in, events out, for both roles (RFC 9110, RFC 9112).

pub mod coding;
