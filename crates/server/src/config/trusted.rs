//! Networks whose servers tell for which client they send a request, and the field in which they do.
//!
//! Decides which networks can be trusted; `crate::client_address` finds the client.

use super::access::Network;

/// Maximum number of networks: each request of a trusted peer is compared with all of them.
const NETWORKS_MAX: usize = 1_000;

units::words! {
    /// The field in which trusted peers name their client. Field names have no case.
    #[derive(Default)]
    pub enum TrustedField {
        /// A list of addresses.
        #[default]
        XForwardedFor = "X-Forwarded-For",
        /// RFC 7239.
        Forwarded = "Forwarded",
    }
}

/// Validates the networks.
pub(super) fn validate(networks: &[Network]) -> Result<(), String> {
    if networks.len() > NETWORKS_MAX {
        return Err(format!("more than {NETWORKS_MAX} networks; summarize them"));
    }
    match networks.iter().find(|one| one.is_everyone()) {
        Some(all) => Err(format!(
            "`{all}` would let every client choose its address; name the networks of your own proxies, as in 10.0.0.0/8"
        )),
        None => Ok(()),
    }
}
