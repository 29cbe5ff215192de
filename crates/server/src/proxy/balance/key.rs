//! The key of a request for `balance = "hash"`.

use crate::config::HashKey;
use http_semantics::request::RequestHead;
use std::net::IpAddr;

/// The hash of the key of this request, whose path and query for the upstream are `target`.
pub(crate) fn of_request(key: &HashKey, head: &RequestHead<'_, '_>, target: &[u8], peer: IpAddr) -> u64 {
    let address = || match peer.to_canonical() {
        IpAddr::V4(address) => ::balance::of_bytes(&address.octets()),
        IpAddr::V6(address) => ::balance::of_bytes(&address.octets()),
    };
    match key {
        HashKey::Address => address(),
        HashKey::Path => ::balance::of_bytes(target.split(|&b| b == b'?').next().unwrap_or_default()),
        HashKey::Header(name) => head.fields.find(name).map_or_else(address, ::balance::of_bytes),
    }
}
