//! The flags of `weir serve` for https: certificates, ACME, client certificates, cryptography and redirects. Decides
//! nothing about them.

use super::offered::offered;
use clap::Args;
use runtime::listen::Address;
use server::config::{
    AcmeCa, AcmeChallenge, ClientAuth, Config, Crypto, Hsts, HttpsRedirect, Listen, TlsSource, parse_domain,
    parse_duration,
};
use std::path::PathBuf;
use units::{Bytes, Duration};

/// Flags for https. A flag that was not given is `None` or empty.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct HttpsFlags {
    /// Gets a certificate for this name by ACME, from Let's Encrypt; repeatable. Listens on 443 and 80, and redirects
    /// http to https [default: none]
    #[arg(
        long,
        value_name = "NAME",
        env = "WEIR_DOMAIN",
        value_delimiter = ',',
        value_parser = parse_domain
    )]
    domain: Vec<String>,

    /// Source of certificates: auto (--domain or --tls-cert), internal (a certificate authority made on this machine,
    /// for localhost and this machine's names) [default: auto]
    #[arg(long, value_name = "SOURCE", env = "WEIR_TLS", value_parser = offered::<TlsSource>(), hide_possible_values = true)]
    tls: Option<TlsSource>,

    /// Cleartext address, in addition to --listen; repeatable. With --domain, Weir listens on port 80 unless this flag
    /// is given [default: none]
    #[arg(long, value_name = "ADDR:PORT", env = "WEIR_HTTP_LISTEN", value_delimiter = ',',
          value_parser = Listen::parse_one)]
    http_listen: Vec<Address>,

    /// Folder for the account, certificates and keys of --domain and --tls=internal. Without this flag, Weir uses
    /// $STATE_DIRECTORY or, if it is not set, the folder weir in $XDG_DATA_HOME or ~/.local/share
    #[arg(long, value_name = "DIR", env = "WEIR_TLS_STATE")]
    tls_state: Option<PathBuf>,

    /// CA for --domain: letsencrypt, letsencrypt-staging (for trials), or the URL of an ACME directory
    /// [default: letsencrypt]
    #[arg(long, value_name = "CA", env = "WEIR_ACME_CA")]
    acme_ca: Option<AcmeCa>,

    /// PEM file with the roots that verify the CA's server, instead of the system's roots [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_ACME_CA_ROOT")]
    acme_ca_root: Option<PathBuf>,

    /// Address for messages of the CA [default: none]
    #[arg(long, value_name = "ADDRESS", env = "WEIR_ACME_EMAIL")]
    acme_email: Option<String>,

    /// File with the key ID and key of your account with the CA (external account binding) [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_ACME_EAB")]
    acme_eab: Option<PathBuf>,

    /// Certificate profile, such as shortlived, if the CA offers several; unless given, the CA chooses [default: none]
    #[arg(long, value_name = "NAME", env = "WEIR_ACME_PROFILE")]
    acme_profile: Option<String>,

    /// Challenge by which the CA verifies that you control a name: auto (any), http-01 (port 80), tls-alpn-01 (port
    /// 443), dns-01 (--acme-hook) [default: auto]
    #[arg(long, value_name = "KIND", env = "WEIR_ACME_CHALLENGE", value_parser = offered::<AcmeChallenge>(), hide_possible_values = true)]
    acme_challenge: Option<AcmeChallenge>,

    /// Program that writes DNS records for dns-01, which wildcards need. Arguments: `present` or `cleanup`, the
    /// record's name and its value, as for lego's exec provider [default: none]
    #[arg(long, value_name = "PROGRAM", env = "WEIR_ACME_HOOK")]
    acme_hook: Option<PathBuf>,

    /// Time that new DNS records need to reach all name servers; the CA checks after that [default: 30s]
    #[arg(long, value_name = "TIME", env = "WEIR_ACME_HOOK_WAIT", value_parser = parse_duration)]
    acme_hook_wait: Option<Duration>,

    /// PEM file with a certificate chain, for TLS at the addresses of --listen; repeatable, chosen by server name
    #[arg(long, value_name = "FILE", env = "WEIR_TLS_CERT", value_delimiter = ',')]
    tls_cert: Vec<PathBuf>,

    /// PEM file with the private key of the --tls-cert in the same position
    #[arg(long, value_name = "FILE", env = "WEIR_TLS_KEY", value_delimiter = ',')]
    tls_key: Vec<PathBuf>,

    /// PEM file with certificate authorities: clients of --listen must present a certificate from one of them [default:
    /// none]
    #[arg(long, value_name = "FILE", env = "WEIR_TLS_CLIENT_CA")]
    tls_client_ca: Option<PathBuf>,

    /// Whether clients must present a certificate: auto (if --tls-client-ca is set), off, optional, required [default:
    /// auto]
    #[arg(
        long,
        value_name = "WHEN",
        env = "WEIR_TLS_CLIENT_AUTH", value_parser = offered::<ClientAuth>(), hide_possible_values = true
    )]
    tls_client_auth: Option<ClientAuth>,

    /// TLS versions, key exchanges and ciphers: default (TLS 1.3 and 1.2, X25519MLKEM768 first), modern (TLS 1.3 only),
    /// classical (no post-quantum key exchange), nist (P-256, P-384 and AES only) [default: default]
    #[arg(
        long,
        value_name = "POLICY",
        env = "WEIR_CRYPTO", value_parser = offered::<Crypto>(), hide_possible_values = true
    )]
    crypto: Option<Crypto>,

    /// Redirects cleartext requests to https: true (to the port of the first address with TLS), false, a port, or auto
    /// (true with --domain, otherwise false) [default: auto]
    #[arg(
        long,
        value_name = "PORT",
        env = "WEIR_HTTPS_REDIRECT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    https_redirect: Option<HttpsRedirect>,

    /// Tells browsers to use only https for this long (Strict-Transport-Security), as in 365d or "365d subdomains
    /// preload"; off: sends no such field [default: that of --security-headers: one year with site and strict,
    /// otherwise off]
    #[arg(long, value_name = "TIME", env = "WEIR_HSTS")]
    hsts: Option<Hsts>,

    /// Appends the secrets of all TLS connections to this file, in the format of SSLKEYLOGFILE, for debugging. Anyone
    /// with the file can read all traffic [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_TLS_KEY_LOG")]
    tls_key_log: Option<PathBuf>,

    /// Writes the packets of each HTTP/3 connection to a file in this folder as qlog (version 0.3), for qvis and other
    /// viewers [default: none]
    #[arg(long, value_name = "DIR", env = "WEIR_QLOG")]
    qlog: Option<PathBuf>,

    /// Maximum number of files in the folder of --qlog; further connections are not logged [default: 100]
    #[arg(long, value_name = "N", env = "WEIR_QLOG_FILES")]
    qlog_files: Option<u32>,

    /// Maximum size of a file of --qlog; later packets are not logged [default: 16MiB]
    #[arg(long, value_name = "SIZE", env = "WEIR_QLOG_SIZE")]
    qlog_size: Option<Bytes>,
}

impl HttpsFlags {
    /// Whether this key names a file or folder and is set by a flag.
    pub(super) fn names_file(&self, key: &str) -> bool {
        match key {
            "tls-cert" => !self.tls_cert.is_empty(),
            "tls-key" => !self.tls_key.is_empty(),
            "tls-state" => self.tls_state.is_some(),
            "acme-ca-root" => self.acme_ca_root.is_some(),
            "acme-eab" => self.acme_eab.is_some(),
            "acme-hook" => self.acme_hook.is_some(),
            "tls-client-ca" => self.tls_client_ca.is_some(),
            "tls-key-log" => self.tls_key_log.is_some(),
            "qlog" => self.qlog.is_some(),
            _ => false,
        }
    }

    /// Overrides the configuration with the flags given.
    pub(super) fn override_in(&self, config: &mut Config) {
        macro_rules! take {
            ($($field:ident),* $(,)?) => {
                $(if let Some(value) = &self.$field { config.$field = value.clone(); })*
            };
        }
        macro_rules! take_set {
            ($($field:ident),* $(,)?) => {
                $(if self.$field.is_some() { config.$field.clone_from(&self.$field); })*
            };
        }
        macro_rules! take_listed {
            ($($field:ident),* $(,)?) => {
                $(if !self.$field.is_empty() { config.$field.clone_from(&self.$field); })*
            };
        }
        take!(
            tls,
            acme_ca,
            acme_challenge,
            acme_hook_wait,
            tls_client_auth,
            crypto,
            https_redirect,
            qlog_files,
            qlog_size,
        );
        take_set!(
            tls_state,
            acme_ca_root,
            acme_email,
            acme_eab,
            acme_profile,
            acme_hook,
            tls_client_ca,
            tls_key_log,
            qlog,
            hsts,
        );
        take_listed!(domain, tls_cert, tls_key);
        if !self.http_listen.is_empty() {
            config.http_listen = Some(Listen(self.http_listen.clone()));
        }
    }
}
