//! The TLS flags that the clients share. Does nothing.

use clap::Args;
use std::path::PathBuf;
use tls::policy::Policy;
use tls::trust::Versions;

/// TLS of `weir fetch` and `weir load`.
#[derive(Debug, Default, Args)]
pub(crate) struct TlsFlags {
    /// Trusts only the CA certificates in this PEM file, in place of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "TLS")]
    pub(crate) ca: Option<PathBuf>,

    /// Accepts every certificate: the identity of the server is not verified
    #[arg(long, help_heading = "TLS")]
    pub(crate) insecure: bool,

    /// Sends the certificate chain in this PEM file to servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "TLS")]
    pub(crate) cert: Option<PathBuf>,

    /// PEM file with the private key of --cert
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub(crate) key: Option<PathBuf>,

    /// TLS versions to offer: 1.2, 1.3 or 1.2,1.3 [default: 1.2,1.3]
    #[arg(long, value_name = "VERSIONS", help_heading = "TLS")]
    pub(crate) tls_versions: Option<Versions>,

    /// Key exchanges and ciphers to offer: default (X25519MLKEM768 first), modern (TLS 1.3 only), classical (no
    /// post-quantum key exchange), nist (P-256, P-384 and AES only) [default: default]
    #[arg(long, value_name = "POLICY", help_heading = "TLS")]
    pub(crate) crypto: Option<Policy>,

    /// Makes a full handshake on every connection, instead of resuming earlier sessions
    #[arg(long, help_heading = "TLS")]
    pub(crate) no_resumption: bool,
}

impl TlsFlags {
    /// The first flag that was given.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let given = [
            ("--ca", self.ca.is_some()),
            ("--insecure", self.insecure),
            ("--cert", self.cert.is_some()),
            ("--key", self.key.is_some()),
            ("--tls-versions", self.tls_versions.is_some()),
            ("--crypto", self.crypto.is_some()),
            ("--no-resumption", self.no_resumption),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}
