//! Which versions of TLS, key exchanges and ciphers both ends may agree on, as a choice of few names.
//!
//! Every policy is made of what rustls with aws-lc-rs considers safe: there is no way to weaken it. Decides nothing about
//! certificates.

use core::fmt;
use core::str::FromStr;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, NamedGroup, SupportedProtocolVersion};

/// A choice of versions, key exchanges and ciphers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// TLS 1.3 and 1.2, X25519MLKEM768 first.
    #[default]
    Default,
    /// The same with TLS 1.3 only.
    Modern,
    /// Without post-quantum key exchange: for clients or middleboxes that fail on the longer messages.
    Classical,
    /// Algorithms of NIST only: P-256 (with ML-KEM-768 and alone), P-384, AES-GCM. It is not a validated module (FIPS 140).
    Nist,
}

impl Policy {
    /// Every policy, with its name.
    pub const ALL: [(&'static str, Policy); 4] = [
        ("default", Policy::Default),
        ("modern", Policy::Modern),
        ("classical", Policy::Classical),
        ("nist", Policy::Nist),
    ];

    /// Key exchanges, the preferred one first, and ciphers.
    pub fn provider(self) -> CryptoProvider {
        let mut provider = default_provider();
        match self {
            Policy::Default | Policy::Modern => {}
            Policy::Classical => provider.kx_groups.retain(|group| {
                let hybrids = [NamedGroup::X25519MLKEM768, NamedGroup::secp256r1MLKEM768];
                !hybrids.contains(&group.name())
            }),
            Policy::Nist => {
                provider.kx_groups = vec![
                    kx_group::SECP256R1MLKEM768,
                    kx_group::SECP256R1,
                    kx_group::SECP384R1,
                ];
                provider.cipher_suites.retain(|suite| {
                    ![
                        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
                        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
                    ]
                    .contains(&suite.suite())
                });
            }
        }
        provider
    }

    /// Versions of TLS, the newest first.
    pub fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        static ALL: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Policy::Modern => &ALL[..1],
            Policy::Default | Policy::Classical | Policy::Nist => &ALL,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Policy::ALL.iter().find(|(_, policy)| policy == self);
        f.pad(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let named = Policy::ALL.iter().find(|(name, _)| *name == text);
        named.map(|(_, policy)| *policy).ok_or_else(|| {
            format!("`{text}` is no cryptography policy; write default, modern, classical or nist")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(policy: Policy) -> Vec<NamedGroup> {
        policy
            .provider()
            .kx_groups
            .iter()
            .map(|group| group.name())
            .collect()
    }

    #[test]
    fn names_and_policies_match() {
        for (name, policy) in Policy::ALL {
            assert_eq!(name.parse(), Ok(policy));
            assert_eq!(policy.to_string(), name);
        }
        assert!("fips".parse::<Policy>().unwrap_err().contains("nist"));
    }

    #[test]
    fn each_policy_has_what_it_says() {
        use NamedGroup::{X25519, X25519MLKEM768, secp256r1, secp256r1MLKEM768, secp384r1};
        let usual = [X25519MLKEM768, X25519, secp256r1, secp384r1];
        assert_eq!(groups(Policy::Default), usual);
        assert_eq!(groups(Policy::Modern), usual);
        assert_eq!(groups(Policy::Classical), usual[1..]);
        assert_eq!(groups(Policy::Nist), [secp256r1MLKEM768, secp256r1, secp384r1]);
        assert_eq!(Policy::Default.provider().cipher_suites.len(), 9);
        let nist = Policy::Nist.provider().cipher_suites;
        assert_eq!(nist.len(), 6);
        assert!(nist.iter().all(|suite| format!("{suite:?}").contains("AES")));
        assert_eq!(Policy::Modern.versions().len(), 1);
    }
}
