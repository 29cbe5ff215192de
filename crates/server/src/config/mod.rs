//! The configuration of `weir serve` as one value: every key of the file, every flag of the command.
//!
//! Keys of the file are the long names of the flags, so `--help` documents both. An unknown key or value is an error
//! that names it, its line and the nearest valid one. This module decides names, defaults and validity; it opens no
//! files and starts nothing.
//!
//! ```toml
//! root = "/srv/www"
//! listen = "0.0.0.0:8080"
//! cache-size = "256MiB"
//! idle-timeout = "65s"
//! access-log = "/var/log/weir/access.log"
//!
//! [error-pages]
//! 404 = "/errors/404.html"
//! 5xx = "/errors/sorry.html"
//! ```

mod access;
mod admin;
mod auth;
mod behavior;
mod condition;
mod content_type;
mod cors;
mod duration;
mod error;
mod fastcgi;
mod header_rule;
mod host;
mod knob;
mod limit;
mod listener;
mod log_template;
mod logs;
mod managed;
mod mount;
mod otlp;
mod own;
mod pattern;
mod preset;
mod proxy;
mod proxy_cache;
mod redirect;
mod replay;
mod request_header;
mod request_id;
mod resource_attribute;
mod secure;
mod security_headers;
mod socket_file;
mod tilde;
mod trusted;
mod try_files;
mod tuned;
mod uploads;
mod upstream;
mod values;
mod versions;

pub use self::otlp::{Otlp, OtlpCompression, OtlpEndpoint, Parents, SampledBy, Share};
pub(crate) use crate::path::spelling;
pub use access::{Access, Network, Satisfy};
pub use admin::Admin;
pub use auth::AuthUrl;
pub use behavior::{
    Behavior, CacheLock, ColdReads, FileName, LOCK_CALLS_MAX, LOCK_MICROS_MAX, LookupTime, WRITE_MICROS_MAX,
};
pub(crate) use condition::Facts;
pub use condition::{Condition, Conditions};
pub use content_type::ContentTypes;
pub use cors::Cors;
pub(crate) use cors::Grant;
pub use duration::{parse_duration, parse_duration_or_off, show_duration};
pub use error::ConfigError;
pub use fastcgi::FastCgi;
pub use header_rule::HeaderRule;
pub use host::{Host, HostName};
pub use knob::Knob;
pub use limit::{Limit, RequestRate};
pub use listener::{Listener, Tls, UnknownName};
pub(crate) use log_template::Piece;
pub use log_template::{LogTemplate, Variable};
pub use logs::AccessLog;
pub use managed::{AcmeCa, AcmeChallenge, TlsSource, parse_domain};
pub use mount::{Mount, MountFlag, MountPath};
pub use own::{Own, SPA_FALLBACK};
pub use pattern::PathPattern;
pub use preset::Preset;
pub(crate) use proxy::{CONNECT_TIMEOUT_MAX, STREAMS_MAX};
pub use proxy::{Check, HashKey, Proxy, ProxyFlag, Rewrite, When};
pub use proxy_cache::ProxyCache;
pub use redirect::Redirect;
pub use request_header::RequestHeader;
pub use request_id::RequestIdField;
pub use resource_attribute::ResourceAttribute;
/// A table of keys and values of a configuration file.
pub use runtime::strategy::Concurrency;
pub use secure::{ClientAuth, Crypto, Hsts, HttpsRedirect};
pub use security_headers::SecurityHeaders;
pub use socket_file::SocketMode;
pub use tilde::{HomeDirectory, Tilde};
pub use toml::Table as Keys;
pub use trusted::TrustedField;
pub use try_files::{TrailingSlash, Tried, TryFiles};
pub use tuned::{Machine, Probe, Tuned};
pub(crate) use uploads::LOCKS_MAX;
pub use uploads::{UploadPath, Uploads};
pub(crate) use upstream::UpstreamPlace;
pub use upstream::{ProxyTls, UpstreamAddress};
pub use values::{
    Adapt, ErrorPages, FieldLine, Http2, Http3, IoKind, Landlock, LineOrder, Listen, LiveFor, LogFormat,
    MaxTurn, MemoryBound, Seccomp, User, Workers, parse_line_rate,
};

use crate::cache::Policy;
use crate::limits::Limits;
use runtime::log_socket::LogSocket;
use runtime::shaping::{Precedence, Shaping};
use serde::{Deserialize, de};
use std::path::PathBuf;
use units::{Bytes, Duration, Rate};

/// All settings. `Config::default()` suits a small virtual machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Config {
    /// Historical server to imitate. Every other setting overrides it.
    pub preset: Option<Preset>,
    /// File with the profile that `weir tune` measured; every other setting overrides it. The caller reads this file
    /// and passes it to [`Config::from_toml_above`].
    pub profile: Option<PathBuf>,
    /// Document root. `None`: the embedded site.
    pub root: Option<PathBuf>,
    /// Folder of versions of the site, whose link `current` leads to the version in force, in place of `root`.
    pub versions: Option<PathBuf>,
    /// Folders of their own for paths of the site.
    pub mount: Vec<Mount>,
    /// Folder with a recording (`weir record`) that answers in place of files. `None`: files do.
    pub replay: Option<PathBuf>,
    /// Whether its responses wait for the recorded time to the first byte.
    pub replay_delays: bool,
    /// Addresses to listen on: one string or a list. Empty if there are only tables `[[listener]]`.
    pub listen: Listen,
    /// Addresses with settings of their own.
    pub listener: Vec<Listener>,
    /// PEM files with the certificate chains of the addresses in `listen`. Empty: cleartext.
    #[serde(deserialize_with = "values::paths")]
    pub tls_cert: Vec<PathBuf>,
    /// PEM files with their private keys, in the same order.
    #[serde(deserialize_with = "values::paths")]
    pub tls_key: Vec<PathBuf>,
    /// PEM file with the authorities of client certificates, for the addresses in `listen`.
    pub tls_client_ca: Option<PathBuf>,
    /// Whether clients of these addresses must show a certificate.
    pub tls_client_auth: ClientAuth,
    /// Versions, key exchanges and ciphers of all addresses with TLS.
    pub crypto: Crypto,
    /// File to which the secrets of all TLS connections are appended, for debugging. `None`: none.
    pub tls_key_log: Option<PathBuf>,
    /// Folder for the packets of HTTP/3 connections as qlog, a file per connection, for debugging. `None`: none.
    pub qlog: Option<PathBuf>,
    /// Maximum number of qlog files in the folder; further connections are not logged.
    pub qlog_files: u32,
    /// Maximum size of a qlog file; later packets of its connection are not logged.
    #[serde(deserialize_with = "values::bytes")]
    pub qlog_size: Bytes,
    /// Names to get a certificate for by ACME (RFC 8555): one string or a list.
    #[serde(deserialize_with = "managed::domains")]
    pub domain: Vec<String>,
    /// Where the certificate of the addresses in `listen` comes from.
    pub tls: TlsSource,
    /// Addresses in cleartext beside those in `listen`, if there is a `domain`. `None`: port 80.
    pub http_listen: Option<Listen>,
    /// Folder with the account, certificates and keys that Weir got or made. `None`: the caller chooses one.
    pub tls_state: Option<PathBuf>,
    /// The CA that certificates come from.
    pub acme_ca: AcmeCa,
    /// PEM file with the roots that the CA's own server is checked with. `None`: those of the system.
    pub acme_ca_root: Option<PathBuf>,
    /// An address for messages of the CA.
    pub acme_email: Option<String>,
    /// File with the key ID and the key of an account with the CA (RFC 8555 section 7.3.4).
    pub acme_eab: Option<PathBuf>,
    /// The kind of certificate, if the CA offers several.
    pub acme_profile: Option<String>,
    /// How the CA can check that a name is ours.
    pub acme_challenge: AcmeChallenge,
    /// Program that writes and removes DNS records for the CA's checks by dns-01. `None`: there is none.
    pub acme_hook: Option<PathBuf>,
    /// Time that a new record needs to reach all name servers.
    #[serde(deserialize_with = "values::duration")]
    pub acme_hook_wait: Duration,
    /// Whether requests in cleartext are redirected to https.
    pub https_redirect: HttpsRedirect,
    /// The line `Strict-Transport-Security` of responses over TLS. `None`: that of `security_headers`.
    pub hsts: Option<Hsts>,
    /// Number of workers, or `"auto"`.
    pub workers: Workers,
    /// Strategy: how connections map to threads and processes.
    pub concurrency: Concurrency,
    /// I/O back end.
    pub io: IoKind,

    /// Eviction policy of the cache.
    pub cache_policy: Policy,
    /// Byte budget of the cache.
    #[serde(deserialize_with = "values::bytes")]
    pub cache_size: Bytes,
    /// Files up to this size are held in memory, larger ones as an open descriptor.
    #[serde(deserialize_with = "values::bytes")]
    pub cache_file_size: Bytes,
    /// Maximum number of larger files kept open; each takes a descriptor.
    pub cache_files: u32,

    /// Size in bytes of each connection's send buffer; 0: the kernel decides (document 002 set 64 KiB).
    #[serde(deserialize_with = "values::bytes")]
    pub send_buffer: Bytes,
    /// Whether the kernel spreads sends over a round trip instead of sending bursts (document 001, after idling).
    pub pacing: bool,
    /// Rate of the slowest line to the clients, which the server has to itself. Weir sends no faster than that and
    /// orders responses by `line_order`. `None`: each connection sends as fast as it can.
    #[serde(deserialize_with = "values::line_rate")]
    pub line_rate: Option<Rate>,
    /// Which response leaves first if `line_rate` is set.
    pub line_order: LineOrder,

    /// Index file names of a directory, tried in this order.
    pub index: Vec<String>,
    /// Whether directories without an index are listed (HTML, or JSON if `Accept` prefers it).
    pub listing: bool,
    /// Whether a listing shows the README of its directory.
    pub listing_readme: bool,
    /// Path of a style sheet of the site for listings; empty: none.
    pub listing_stylesheet: String,
    /// HTML at the start of each listing; empty: none.
    pub listing_header: String,
    /// HTML at the end of each listing; empty: none.
    pub listing_footer: String,
    /// Whether names that begin with a dot are served (`.well-known` always is).
    pub hidden: bool,
    /// Whether symbolic links inside the root are followed. Links out of the root never are.
    pub symlinks: bool,
    /// Whether compressible files are compressed on first use and cached.
    pub compress: bool,
    /// Whether precompressed siblings (`.br`, `.zst`, `.gz`) are served in place of a file.
    pub precompressed: bool,
    /// Whether clients learn over HTTP/2 what a page embeds before the page is ready (103, RFC 8297).
    pub early_hints: bool,
    /// `Content-Type` by extension; overrides the built-in types.
    pub types: ContentTypes,
    /// Page sent with 200 for unknown paths to which a browser navigates.
    #[serde(deserialize_with = "own::page")]
    pub spa_fallback: Option<String>,
    /// Pages for errors, by status (`404`) or class (`5xx`).
    pub error_pages: ErrorPages,
    /// Field lines for every 200, 206 and 304 response, each as `Name: value`.
    pub header: Vec<FieldLine>,
    /// Field lines for certain paths.
    pub header_rule: Vec<HeaderRule>,
    /// Preset of field lines for every response, whose names `header` can give other values.
    pub security_headers: SecurityHeaders,
    /// Which pages of other origins may read which responses; the first rule that matches a path applies.
    pub cors: Vec<Cors>,
    /// Files that are tried for certain paths; the first rule that matches a path applies.
    pub try_files: Vec<TryFiles>,
    /// Which clients may request which paths; the first rule that covers a path applies.
    pub access: Vec<Access>,
    /// Networks of proxies and load balancers that are believed when they name their client.
    #[serde(deserialize_with = "access::networks")]
    pub trusted: Vec<Network>,
    /// The field in which they name it.
    pub trusted_field: TrustedField,
    /// Whether trusted peers begin each connection to the addresses in `listen` with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// Limits on the requests of each client for certain paths; all that cover a path apply.
    pub limit: Vec<Limit>,
    /// Redirects, tried in order.
    pub redirect: Vec<Redirect>,
    /// Paths whose requests are passed to other servers, tried in order, before redirects and files.
    pub proxy: Vec<Proxy>,
    /// Paths at which clients change files, before all other rules.
    pub uploads: Vec<Uploads>,
    /// Logins with pages at `/~login/`. `None`: such paths are ordinary ones.
    #[serde(deserialize_with = "own::tilde")]
    pub tilde: Option<Tilde>,
    /// Sites for requests that name their host; all others get the site of the top level.
    pub host: Vec<Host>,

    /// Which settings the server may change by itself.
    pub adapt: Adapt,
    /// Longest turn of a worker, or queue behind it, above which expensive requests get 503.
    pub max_turn: MaxTurn,
    /// File for recorded observations and decisions, one JSON line per second. `None`: no recording.
    pub record: Option<PathBuf>,
    /// Path of the socket for `weir ctl`. `None`: no socket.
    pub control: Option<PathBuf>,
    /// Addresses of their own for the live page, metrics and health checks. `None`: there are none.
    pub admin: Option<Admin>,
    /// Which clients may read the live page and the metrics under `/.weir/`.
    pub live: LiveFor,
    /// The field with the id of each request, for upstreams and logs.
    pub request_id: RequestIdField,
    /// Whether responses have that field, too.
    pub request_id_answer: bool,
    /// Traces for a collector of OpenTelemetry. `None`: there are none.
    pub otlp: Option<Otlp>,
    /// Whether the metrics have the responses of each host.
    pub host_metrics: bool,
    /// Whether `/healthz` and `/readyz` answer health checks instead of naming files.
    pub health: bool,

    /// Access log file; `-` is standard output, and a [`LogSocket`] may be named. None: no log.
    pub access_log: Option<PathBuf>,
    /// Where the server's own messages go. None: to standard error.
    #[serde(deserialize_with = "values::log_socket")]
    pub server_log: Option<LogSocket>,
    /// Format of the access log.
    pub log_format: LogFormat,
    /// Format of the access log that the operator wrote; used in place of `log_format`.
    pub log_template: Option<LogTemplate>,
    /// The access log has a line for each error, and for one of this many other responses.
    pub log_sample: u32,
    /// Size from which on the access log is rotated; 0: it is not, because of its size.
    #[serde(deserialize_with = "values::bytes")]
    pub log_rotate_size: Bytes,
    /// Length of the periods, in UTC, each of which has an access log of its own; 0: there are none.
    #[serde(deserialize_with = "values::duration_or_off")]
    pub log_rotate_time: Duration,
    /// Number of rotated access logs that are kept.
    pub log_keep: u32,
    /// Whether rotated access logs are compressed.
    pub log_compress: bool,
    /// Whether JSON log lines include the state of the TCP path to the client.
    pub log_tcp: bool,

    /// Where HTTP/2 is spoken.
    pub http2: Http2,
    /// Whether HTTP/3 is spoken, over UDP at each address with TLS.
    #[serde(deserialize_with = "values::http3")]
    pub http3: Http3,
    /// Whether the kernel gives datagrams of HTTP/3 to the thread or process of their connection.
    pub http3_steering: bool,
    /// Whether HTTP/0.9 requests (`GET /path` without a version) are answered, with content only.
    pub http09: bool,

    /// User that the process changes to after binding its addresses. `None`: no change.
    pub user: Option<User>,
    /// Landlock: which files the kernel lets the process use.
    pub landlock: Landlock,
    /// Whether system calls that a file server never makes are denied.
    pub seccomp: Seccomp,

    /// Limit on the server's memory.
    pub memory: MemoryBound,
    /// See [`Limits::connections`].
    pub max_connections: u32,
    /// See [`Limits::connections_per_address`]. `None`: a quarter of the possible connections, at least 16.
    pub max_connections_per_address: Option<u32>,
    /// See [`Limits::handshakes`].
    pub max_handshakes: Option<u32>,
    /// See [`Limits::handshakes_per_address`].
    pub max_handshakes_per_address: Option<u32>,
    /// See [`Limits::requests_per_connection`]; 0: no limit.
    pub max_requests_per_connection: u32,
    /// See [`Limits::request_rate`]; 0: no limit.
    pub max_request_rate: u32,
    /// See [`Limits::request_burst`].
    pub max_request_burst: u32,
    /// See [`Limits::pipeline_depth`].
    pub max_pipeline: u32,
    /// See [`Limits::streams`].
    pub max_streams: u32,
    /// See [`Limits::head_size`].
    #[serde(deserialize_with = "values::bytes")]
    pub max_head_size: Bytes,
    /// See [`Limits::fields`].
    pub max_fields: usize,
    /// See [`Limits::target_length`].
    #[serde(deserialize_with = "values::bytes")]
    pub max_target_length: Bytes,
    /// See [`Limits::body_size`].
    #[serde(deserialize_with = "values::bytes")]
    pub max_body_size: Bytes,
    /// See [`Limits::ranges`].
    pub max_ranges: usize,
    /// See [`Limits::body_rate`]; bytes per second.
    #[serde(deserialize_with = "values::bytes")]
    pub min_body_rate: Bytes,
    /// See [`Limits::header_timeout`].
    #[serde(deserialize_with = "values::duration")]
    pub header_timeout: Duration,
    /// See [`Limits::idle_timeout`].
    #[serde(deserialize_with = "values::duration")]
    pub idle_timeout: Duration,
    /// See [`Limits::body_timeout`].
    #[serde(deserialize_with = "values::duration")]
    pub body_timeout: Duration,
    /// See [`Limits::write_timeout`].
    #[serde(deserialize_with = "values::duration")]
    pub write_timeout: Duration,
    /// See [`Limits::send_rate`]; bytes per second, 0: no limit.
    #[serde(deserialize_with = "values::bytes")]
    pub min_send_rate: Bytes,
    /// See [`Limits::disk_timeout`].
    #[serde(deserialize_with = "values::duration")]
    pub disk_timeout: Duration,
    /// See [`Limits::disk_queue`].
    pub max_disk_queue: u32,
    /// See [`Limits::linger_timeout`].
    #[serde(deserialize_with = "values::duration")]
    pub linger_timeout: Duration,
    /// See [`Limits::grace`].
    #[serde(deserialize_with = "values::duration")]
    pub grace: Duration,
    /// Time between a stop request and the drain. `/readyz` answers 503 meanwhile, so that load balancers send requests
    /// elsewhere.
    #[serde(deserialize_with = "values::duration")]
    pub drain_delay: Duration,

    /// Behaviors of historical servers, for measurements.
    pub behavior: Behavior,

    /// Whether to use inotify. Not a key of the file: a strategy of many processes turns it off, because a user has few
    /// inotify instances.
    #[serde(skip)]
    pub change_events: bool,

    /// Knobs that were set explicitly, even to the default; adaptation leaves them alone. Not a key of the file:
    /// derived from its keys.
    #[serde(skip)]
    pub said: Vec<Knob>,

    /// See [`Limits::deferred`]. Not a key of the file: the code that listens sets it.
    #[serde(skip)]
    pub deferred: Duration,
}

impl Default for Config {
    fn default() -> Config {
        let limits = Limits::default();
        Config {
            preset: None,
            profile: None,
            root: None,
            versions: None,
            mount: Vec::new(),
            replay: None,
            replay_delays: false,
            listen: Listen::default(),
            listener: Vec::new(),
            tls_cert: Vec::new(),
            tls_key: Vec::new(),
            tls_client_ca: None,
            tls_client_auth: ClientAuth::default(),
            crypto: Crypto::default(),
            tls_key_log: None,
            qlog: None,
            qlog_files: 100,
            qlog_size: Bytes::mib(16),
            domain: Vec::new(),
            tls: TlsSource::default(),
            http_listen: None,
            tls_state: None,
            acme_ca: AcmeCa::default(),
            acme_ca_root: None,
            acme_email: None,
            acme_eab: None,
            acme_profile: None,
            acme_challenge: AcmeChallenge::default(),
            acme_hook: None,
            acme_hook_wait: Duration::from_secs(30),
            https_redirect: HttpsRedirect::default(),
            hsts: None,
            workers: Workers::Auto,
            concurrency: Concurrency::default(),
            io: IoKind::default(),
            cache_policy: Policy::default(),
            cache_size: Bytes::mib(64),
            cache_file_size: Bytes::kib(16),
            cache_files: 2048,
            send_buffer: Bytes(0),
            pacing: false,
            line_rate: None,
            line_order: LineOrder::default(),
            index: vec!["index.html".to_owned()],
            listing: false,
            listing_readme: true,
            listing_stylesheet: String::new(),
            listing_header: String::new(),
            listing_footer: String::new(),
            hidden: false,
            symlinks: true,
            compress: true,
            precompressed: true,
            early_hints: false,
            types: ContentTypes::default(),
            spa_fallback: None,
            error_pages: ErrorPages::default(),
            header: Vec::new(),
            header_rule: Vec::new(),
            security_headers: SecurityHeaders::default(),
            cors: Vec::new(),
            try_files: Vec::new(),
            uploads: Vec::new(),
            access: Vec::new(),
            trusted: Vec::new(),
            trusted_field: TrustedField::default(),
            proxy_protocol: false,
            limit: Vec::new(),
            redirect: Vec::new(),
            proxy: Vec::new(),
            tilde: None,
            host: Vec::new(),
            adapt: Adapt::default(),
            max_turn: MaxTurn::default(),
            record: None,
            control: None,
            admin: None,
            live: LiveFor::default(),
            request_id: RequestIdField::default(),
            request_id_answer: false,
            otlp: None,
            host_metrics: false,
            health: false,
            access_log: None,
            server_log: None,
            log_format: LogFormat::default(),
            log_template: None,
            log_sample: 1,
            log_rotate_size: Bytes(0),
            log_rotate_time: Duration::ZERO,
            log_keep: 14,
            log_compress: true,
            log_tcp: false,
            user: None,
            http2: Http2::default(),
            http3: Http3::default(),
            http3_steering: true,
            http09: false,
            landlock: Landlock::default(),
            seccomp: Seccomp::default(),
            memory: MemoryBound::default(),
            max_connections: limits.connections,
            max_connections_per_address: limits.connections_per_address,
            max_handshakes: limits.handshakes,
            max_handshakes_per_address: limits.handshakes_per_address,
            max_requests_per_connection: 0,
            max_request_rate: limits.request_rate,
            max_request_burst: limits.request_burst,
            max_pipeline: limits.pipeline_depth,
            max_streams: limits.streams,
            max_head_size: limits.head_size,
            max_fields: limits.fields,
            max_target_length: limits.target_length,
            max_body_size: limits.body_size,
            max_ranges: limits.ranges,
            min_body_rate: limits.body_rate,
            header_timeout: limits.header_timeout,
            idle_timeout: limits.idle_timeout,
            body_timeout: limits.body_timeout,
            write_timeout: limits.write_timeout,
            min_send_rate: limits.send_rate,
            disk_timeout: limits.disk_timeout,
            max_disk_queue: limits.disk_queue,
            linger_timeout: limits.linger_timeout,
            grace: limits.grace,
            drain_delay: Duration::ZERO,
            behavior: Behavior::default(),
            change_events: true,
            said: Vec::new(),
            deferred: Duration::ZERO,
        }
    }
}

impl Config {
    /// Reads and validates a configuration. `text` is the content of a TOML file, `name` its name in errors.
    ///
    /// # Errors
    /// The first mistake, with file, line, key and the nearest valid key or value.
    pub fn from_toml(text: &str, name: &str) -> Result<Config, ConfigError> {
        Config::from_toml_on(None, text, name)
    }

    /// As [`Config::from_toml`], on top of a preset: `preset`, or that of the file if it is `None`.
    ///
    /// # Errors
    /// As [`Config::from_toml`].
    pub fn from_toml_on(preset: Option<Preset>, text: &str, name: &str) -> Result<Config, ConfigError> {
        Config::from_toml_above(preset, None, &toml::Table::new(), text, name)
    }

    /// As [`Config::from_toml_on`], with a profile beneath everything. `said` holds the settings from flags and the
    /// environment, which override the file. They are not put into the result, but preset and profile lose the keys
    /// that conflict with them.
    ///
    /// # Errors
    /// As [`Config::from_toml`].
    pub fn from_toml_above(
        preset: Option<Preset>,
        tuned: Option<&Tuned>,
        said: &toml::Table,
        text: &str,
        name: &str,
    ) -> Result<Config, ConfigError> {
        let wrong = |e: &toml::de::Error| ConfigError::from_toml(e, text, name);
        let mut config: Config = toml::from_str(text).map_err(|e| wrong(&e))?;
        let mut table = text.parse::<toml::Table>().map_err(|e| wrong(&e))?;
        let preset = preset.or(config.preset);
        if preset.is_some() || tuned.is_some() {
            let mut merged = tuned.map_or_else(toml::Table::new, |tuned| tuned.serve.clone());
            if let Some(preset) = preset {
                let table = preset.text().parse::<toml::Table>().map_err(|e| wrong(&e))?;
                preset::make_way(&mut merged, &table);
                merged = preset::on_top(table, merged);
            }
            let above = table;
            preset::make_way(&mut merged, &preset::on_top(said.clone(), above.clone()));
            table = preset::on_top(above, merged);
            // By way of a text: reading from tables would be a second copy of all that reads from texts, a tenth of
            // this crate. Its lines are not those of the file, so an error names none.
            config =
                toml::from_str(&table.to_string()).map_err(|e| wrong(&de::Error::custom(e.message())))?;
            config.preset = preset;
        }
        config.say(|(within, key)| {
            let inner = match within {
                "" => Some(&table),
                name => table.get(name).and_then(toml::Value::as_table),
            };
            inner.is_some_and(|inner| inner.contains_key(key))
        });
        if table.contains_key("listener") && !table.contains_key("listen") {
            config.listen = Listen(Vec::new());
        }
        config.validate().map_err(|e| e.locate(text, name))?;
        Ok(config)
    }

    /// Marks a knob as set if `is_said` holds for one of its keys, given as (table, key).
    pub fn say(&mut self, is_said: impl Fn((&str, &str)) -> bool) {
        let said = |knob: &Knob| self.said.contains(knob) || knob.keys().iter().any(|key| is_said(*key));
        self.said = Knob::ALL.into_iter().filter(said).collect();
    }

    /// Validates values that depend on each other.
    ///
    /// # Errors
    /// The first key at fault and a valid value for it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_managed()?;
        self.validate_listeners()?;
        self.validate_replay()?;
        self.validate_versions()?;
        self.validate_site()
    }

    /// Validates all that a site can have of its own.
    fn validate_site(&self) -> Result<(), ConfigError> {
        let at_least = |key: &'static str, value: u64, least: u64, why: &str| {
            if value >= least {
                return Ok(());
            }
            Err(ConfigError::invalid(
                key,
                format!("{value} is too small; it must be at least {least} ({why})"),
            ))
        };
        let at_most = |key: &'static str, value: u64, most: u64, why: &str| {
            if value <= most {
                return Ok(());
            }
            Err(ConfigError::invalid(
                key,
                format!("{value} is too large; it must be at most {most} ({why})"),
            ))
        };
        if let Some(rate) = self.line_rate
            && !(Shaping::RATE_MIN..=Shaping::RATE_MAX).contains(&rate)
        {
            return Err(ConfigError::invalid(
                "line-rate",
                values::no_line_rate(&rate.to_string()),
            ));
        }
        if self.line_rate.is_none() && self.line_order != LineOrder::default() {
            return Err(ConfigError::invalid(
                "line-order",
                "the order has an effect only with a line rate; set `line-rate` (`--line-rate`), too",
            ));
        }
        at_least(
            "max-head-size",
            self.max_head_size.0,
            256,
            "requests of browsers need as much",
        )?;
        at_most(
            "max-head-size",
            self.max_head_size.0,
            1 << 20,
            "each slow client may hold as much memory",
        )?;
        at_least(
            "max-target-length",
            self.max_target_length.0,
            16,
            "no path is shorter",
        )?;
        at_most(
            "max-target-length",
            self.max_target_length.0,
            self.max_head_size.0,
            "the value of `max-head-size`",
        )?;
        at_least(
            "max-fields",
            self.max_fields as u64,
            8,
            "requests of browsers need as many",
        )?;
        at_most(
            "max-fields",
            self.max_fields as u64,
            100,
            "the parser has room for no more",
        )?;
        at_most(
            "max-ranges",
            self.max_ranges as u64,
            1_000,
            "each range costs a part of the response",
        )?;
        at_least(
            "max-connections",
            self.max_connections.into(),
            1,
            "otherwise nobody is served",
        )?;
        at_least(
            "max-connections-per-address",
            self.max_connections_per_address.unwrap_or(1).into(),
            1,
            "otherwise nobody is served",
        )?;
        at_least(
            "max-handshakes-per-address",
            self.max_handshakes_per_address.unwrap_or(1).into(),
            1,
            "otherwise nobody is served over TLS",
        )?;
        at_least(
            "max-disk-queue",
            self.max_disk_queue.into(),
            1,
            "otherwise no file is read",
        )?;
        if self.line_rate.is_some() && self.min_send_rate.0 > 0 {
            return Err(ConfigError::invalid(
                "min-send-rate",
                "cannot be combined with `line-rate`, because responses that wait for the line would count as slow clients; remove one of the two",
            ));
        }
        at_least(
            "max-request-burst",
            self.max_request_burst.into(),
            1,
            "otherwise no request is answered",
        )?;
        at_least(
            "max-pipeline",
            self.max_pipeline.into(),
            1,
            "otherwise no request is answered",
        )?;
        at_least(
            "max-streams",
            self.max_streams.into(),
            1,
            "otherwise no request over HTTP/2 is answered; `http2 = \"off\"` turns it off",
        )?;
        let cut_off = "the minimum is 100ms; a shorter timeout would disconnect well-behaved clients";
        let refused =
            "the minimum is 100ms; a shorter timeout would reject requests whose file is still being opened";
        for (key, span, why) in [
            ("header-timeout", self.header_timeout, cut_off),
            ("idle-timeout", self.idle_timeout, cut_off),
            ("body-timeout", self.body_timeout, cut_off),
            ("write-timeout", self.write_timeout, cut_off),
            ("disk-timeout", self.disk_timeout, refused),
        ] {
            if span < Duration::from_millis(100) {
                return Err(ConfigError::invalid(key, why));
            }
        }
        if !mount::are_file_names(&self.index) {
            return Err(ConfigError::invalid(
                "index",
                "an index is a file name without `/`, as in \"index.html\"",
            ));
        }
        self.behavior.validate()?;
        if let Some(tilde) = &self.tilde {
            tilde.validate()?;
        }
        if let Some(otlp) = &self.otlp {
            otlp.validate()?;
        }
        if self.http3 == Http3::On && !self.has_tls() {
            return Err(ConfigError::invalid(
                "http3",
                "HTTP/3 needs TLS: set a certificate (`tls-cert`, `tls-key`), a `domain`, or `tls = \"internal\"`",
            ));
        }
        at_least("qlog-files", self.qlog_files.into(), 1, "one file can be written")?;
        if self.qlog_size < QLOG_SIZE_MIN {
            return Err(ConfigError::invalid(
                "qlog-size",
                format!(
                    "{} is too small; it must be at least {QLOG_SIZE_MIN}",
                    self.qlog_size
                ),
            ));
        }
        at_least(
            "log-sample",
            self.log_sample.into(),
            1,
            "every response is logged",
        )?;
        if self.log_rotate_size.0 > 0 && self.log_rotate_size < LOG_SIZE_MIN {
            return Err(ConfigError::invalid(
                "log-rotate-size",
                format!(
                    "{} is too small; it must be at least {LOG_SIZE_MIN}, or 0 for none",
                    self.log_rotate_size
                ),
            ));
        }
        if !self.log_rotate_time.is_zero() && self.log_rotate_time < LOG_TIME_MIN {
            return Err(ConfigError::invalid(
                "log-rotate-time",
                "the minimum is one minute; `off` is none",
            ));
        }
        let shows_path = self.log_template.as_ref().is_some_and(LogTemplate::shows_path);
        if shows_path && !self.log_tcp {
            return Err(ConfigError::invalid(
                "log-template",
                "`$rtt_us`, `$cwnd` and `$retransmitted` need `log-tcp = true` (`--log-tcp`), which costs a system call per response",
            ));
        }
        if self.request_id.name().is_none() {
            let needs = |key, why| {
                Err(ConfigError::invalid(
                    key,
                    format!("{why} needs ids of requests; set `request-id = true` (`--request-id`), too"),
                ))
            };
            if self.log_template.as_ref().is_some_and(LogTemplate::shows_id) {
                return needs("log-template", "`$request_id`");
            }
            if self.request_id_answer {
                return needs("request-id-answer", "the field in responses");
            }
        }
        if self.otlp.is_none() && self.log_template.as_ref().is_some_and(LogTemplate::shows_trace) {
            return Err(ConfigError::invalid(
                "log-template",
                "`$trace_id` and `$span_id` need a collector of traces; set `endpoint` in `[otlp]` (`--otlp`), too",
            ));
        }
        if self.log_tcp && self.log_format != LogFormat::Json && !shows_path {
            return Err(ConfigError::invalid(
                "log-tcp",
                "only the JSON format has fields for it; set `log-format = \"json\"` (`--log-format json`), too",
            ));
        }
        let of_hosts = self
            .host
            .iter()
            .filter_map(|host| host.listing_stylesheet.as_deref());
        for sheet in of_hosts
            .chain([&*self.listing_stylesheet])
            .filter(|sheet| !sheet.is_empty())
        {
            values::site_path(sheet).map_err(|why| ConfigError::invalid("listing-stylesheet", why))?;
        }
        if let Some(page) = &self.spa_fallback {
            values::site_path(page).map_err(|why| ConfigError::invalid("spa-fallback", why))?;
        }
        mount::validate(&self.mount, self.hidden).map_err(|why| ConfigError::invalid("mount", why))?;
        try_files::validate(&self.try_files).map_err(|why| ConfigError::invalid("try-files", why))?;
        limit::validate(&self.limit).map_err(|why| ConfigError::invalid("limit", why))?;
        cors::validate(&self.cors).map_err(|why| ConfigError::invalid("cors", why))?;
        for log in self.access_logs() {
            log.socket()
                .map_err(|why| ConfigError::invalid("access-log", why))?;
        }
        access::validate(&self.access).map_err(|why| ConfigError::invalid("access", why))?;
        uploads::validate(&self.uploads, &self.access).map_err(|why| ConfigError::invalid("uploads", why))?;
        trusted::validate(&self.trusted).map_err(|why| ConfigError::invalid("trusted", why))?;
        if self.trusted.is_empty() && self.listeners().iter().any(|listener| listener.proxy_protocol) {
            return Err(ConfigError::invalid(
                "proxy-protocol",
                "takes the header from trusted peers only, and `trusted` names none; name the networks of your load balancers",
            ));
        }
        redirect::all_end(&self.redirect).map_err(|why| ConfigError::invalid("redirect", why))?;
        for proxy in &self.proxy {
            proxy
                .validate()
                .map_err(|why| ConfigError::invalid("proxy", why))?;
        }
        if !self.host.is_empty() {
            for site in self.sites()? {
                site.validate_site()?;
            }
        }
        Ok(())
    }

    /// The policy of strict transport security in force.
    pub fn hsts_in_force(&self) -> Hsts {
        self.hsts.unwrap_or(self.security_headers.hsts())
    }

    /// The lines of `security-headers`, with the values of `header` for names that it has.
    pub(crate) fn preset_lines(&self) -> Vec<FieldLine> {
        let is_same = |one: &FieldLine, other: &FieldLine| one.name().eq_ignore_ascii_case(other.name());
        let preset = self.security_headers.lines();
        let own = self.header.iter();
        let own = own.filter(|own| preset.iter().any(|line| is_same(line, own)));
        let is_kept = |line: &&FieldLine| !self.header.iter().any(|own| is_same(own, line));
        preset.iter().filter(is_kept).chain(own).cloned().collect()
    }

    /// The field lines of all responses with content of this site.
    pub(crate) fn general_lines(&self) -> Vec<FieldLine> {
        let preset = self.preset_lines();
        let own = self.header.iter().filter(|own| !preset.contains(own));
        own.chain(&preset).cloned().collect()
    }

    /// The access rules of the top level and of all hosts.
    pub fn access_rules(&self) -> impl Iterator<Item = &Access> {
        let own = self.host.iter().filter_map(|host| host.access.as_ref());
        self.access.iter().chain(own.flatten())
    }

    /// The rules by which requests are passed to other servers: of the top level and of all hosts.
    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        let own = self.host.iter().filter_map(|host| host.proxy.as_ref());
        self.proxy.iter().chain(own.flatten())
    }

    /// The rules by which names of files of this site are those of scripts, whose source is not served.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = FastCgi> {
        self.proxy.iter().filter_map(Proxy::scripts)
    }

    /// Whether any request is passed on: to another server, or to what stores uploads.
    pub fn has_proxies(&self) -> bool {
        self.proxies().next().is_some() || self.has_uploads()
    }

    /// The sockets that get lines of logs.
    pub fn log_sockets(&self) -> impl Iterator<Item = LogSocket> {
        let access = self.access_logs().into_iter();
        let access = access.filter_map(|log| log.socket().ok().flatten());
        access.chain(self.server_log.clone())
    }

    /// Servers that requests need: those that they are passed to, and those that decide about them.
    pub fn upstreams(&self) -> impl Iterator<Item = &UpstreamAddress> {
        let asked = self.access_rules().filter_map(|rule| rule.auth.as_ref());
        let passed = self.proxies().flat_map(|rule| &rule.upstreams);
        passed.chain(asked.map(AuthUrl::upstream))
    }

    /// Per-address limit if `connections` can be open in all.
    pub fn per_address(&self, connections: u32) -> u32 {
        self.max_connections_per_address
            .unwrap_or_else(|| Limits::share_of_address(connections))
    }

    /// The longest time for which an answer under way may be silent: that of the upstreams.
    pub fn longest_silence(&self) -> Duration {
        let of_hosts = self.host.iter().filter_map(|host| host.proxy.as_ref()).flatten();
        let rules = self.proxy.iter().chain(of_hosts);
        let silent = rules.map(|rule| rule.connect_timeout + rule.first_byte_timeout.max(rule.idle_timeout));
        silent.max().unwrap_or_default()
    }

    /// Time without a packet after which the transport of HTTP/3 drops a connection in silence. Sessions close idle connections
    /// themselves; the transport must not end one whose answer is still awaited.
    pub fn silence_max(&self) -> Duration {
        self.idle_timeout.max(self.longest_silence() + SILENCE_MARGIN)
    }

    /// The limits of a connection.
    pub fn limits(&self) -> Limits {
        Limits {
            head_size: self.max_head_size,
            fields: self.max_fields,
            target_length: self.max_target_length,
            body_size: self.max_body_size,
            body_rate: self.min_body_rate,
            pipeline_depth: self.max_pipeline,
            streams: self.max_streams,
            requests_per_connection: match self.max_requests_per_connection {
                0 => u32::MAX,
                n => n,
            },
            connections: self.max_connections,
            connections_per_address: self.max_connections_per_address,
            handshakes: self.max_handshakes,
            handshakes_per_address: self.max_handshakes_per_address,
            request_rate: self.max_request_rate,
            request_burst: self.max_request_burst,
            ranges: self.max_ranges,
            header_timeout: self.header_timeout,
            deferred: self.deferred,
            idle_timeout: self.idle_timeout,
            early_close: (!self.behavior.early_close.is_zero()).then_some(self.behavior.early_close),
            body_timeout: self.body_timeout,
            write_timeout: self.write_timeout,
            send_rate: self.min_send_rate,
            disk_timeout: self.disk_timeout,
            disk_queue: self.max_disk_queue,
            linger_timeout: self.linger_timeout,
            grace: self.grace,
        }
    }

    /// How sending is shaped to the line rate. `None` without `line_rate`.
    pub fn shaping(&self) -> Option<Shaping> {
        let precedence = match self.line_order {
            LineOrder::Smallest => Precedence::Smallest,
            LineOrder::Shared => Precedence::Shared,
        };
        self.line_rate.map(|rate| Shaping { rate, precedence })
    }

    /// Whether both configurations describe the same site, so that the cache of one can serve the other.
    pub(crate) fn same_site(&self, other: &Config) -> bool {
        let parts = |c: &Config| {
            let flags = [
                c.listing,
                c.hidden,
                c.symlinks,
                c.compress,
                c.precompressed,
                c.early_hints,
            ];
            (
                flags,
                c.cache_policy,
                c.cache_size,
                c.cache_file_size,
                c.cache_files,
            )
        };
        parts(self) == parts(other)
            && (!self.lists() || self.same_listings(other))
            && (&self.root, &self.index, &self.types) == (&other.root, &other.index, &other.types)
            && (&self.header, &self.header_rule) == (&other.header, &other.header_rule)
            && self.security_headers == other.security_headers
            && (&self.mount, &self.tilde) == (&other.mount, &other.tilde)
            && self.scripts().eq(other.scripts())
            && self.behavior == other.behavior
    }

    /// Whether listings have the same theme, and the same rules keep READMEs out of them.
    fn same_listings(&self, other: &Config) -> bool {
        let theme = (
            &self.listing_stylesheet,
            &self.listing_header,
            &self.listing_footer,
        );
        let same_rules =
            (&self.access, &self.redirect, &self.proxy) == (&other.access, &other.redirect, &other.proxy);
        theme
            == (
                &other.listing_stylesheet,
                &other.listing_header,
                &other.listing_footer,
            )
            && self.listing_readme == other.listing_readme
            && (!self.listing_readme || same_rules)
    }

    /// Keys whose values differ from `running` and take effect only at the next start.
    pub fn needs_restart(&self, running: &Config) -> Vec<&'static str> {
        let differ = FIXED.iter().filter(|(_, fixed)| (fixed.differs)(self, running));
        let listeners = (!self.same_listeners(running)).then_some("listener");
        let key = match self.proxies().next() {
            Some(_) => "proxy",
            None => "uploads",
        };
        let proxies = (self.gains_proxies(running) || self.gains_upstreams(running)).then_some(key);
        let collector = self.changes_collector(running).then_some("otlp");
        differ
            .map(|(key, _)| *key)
            .chain(listeners)
            .chain(proxies)
            .chain(collector)
            .collect()
    }

    /// Keeps the values of `running` for keys that take effect only at the next start, so that the next reload compares
    /// with the values in force.
    pub fn keep_until_restart(&mut self, running: &Config) {
        for (_, fixed) in FIXED {
            (fixed.keep)(self, running);
        }
        if !self.same_listeners(running) {
            self.listener.clone_from(&running.listener);
            self.tls_cert.clone_from(&running.tls_cert);
            self.tls_key.clone_from(&running.tls_key);
            self.tls_client_ca.clone_from(&running.tls_client_ca);
            self.tls_client_auth = running.tls_client_auth;
        }
        if self.gains_proxies(running) {
            self.keep_proxies_out();
        }
        if self.gains_upstreams(running) {
            self.proxy.clear();
            for host in &mut self.host {
                host.proxy = None;
            }
        }
        if self.changes_collector(running) {
            self.keep_collector(running);
        }
    }

    /// Removes all rules for a proxy and for uploads.
    pub(crate) fn keep_proxies_out(&mut self) {
        self.proxy.clear();
        self.uploads.clear();
        for host in &mut self.host {
            host.proxy = None;
            host.uploads = None;
        }
    }

    /// Whether this is the first rule for a proxy or for uploads: a server decides at start whether it opens connections.
    fn gains_proxies(&self, running: &Config) -> bool {
        self.has_proxies() && !running.has_proxies()
    }

    /// Whether this is the first rule for a proxy, while the workers of some listener cannot keep connections to upstreams.
    fn gains_upstreams(&self, running: &Config) -> bool {
        let keeps = |listener: &Listener| listener.concurrency.unwrap_or(running.concurrency).keeps_peers();
        self.proxies().next().is_some()
            && running.proxies().next().is_none()
            && !running.listeners().iter().all(keeps)
    }
}

/// What the transport of HTTP/3 waits beyond the longest wait for an upstream, so that this ends first, with an answer.
const SILENCE_MARGIN: Duration = Duration::from_secs(5);

/// Smallest limit on the size of a qlog file: a handshake fits.
const QLOG_SIZE_MIN: Bytes = Bytes::kib(64);

/// Smallest access log that is rotated.
const LOG_SIZE_MIN: Bytes = Bytes::kib(4);

/// Shortest period of an access log.
const LOG_TIME_MIN: Duration = Duration::from_secs(60);

/// How to compare and keep a key that takes effect only at the next start.
struct Fixed {
    differs: fn(&Config, &Config) -> bool,
    keep: fn(&mut Config, &Config),
}

macro_rules! fixed {
    ($($key:literal $field:ident),* $(,)?) => {
        /// Every key that takes effect only at the next start.
        const FIXED: &[(&str, Fixed)] = &[$((
            $key,
            Fixed {
                differs: |one, other| one.$field != other.$field,
                keep: |next, running| next.$field.clone_from(&running.$field),
            },
        )),*];
    };
}

fixed!(
    "listen" listen,
    "send-buffer" send_buffer,
    "pacing" pacing,
    "line-rate" line_rate,
    "line-order" line_order,
    "profile" profile,
    "workers" workers,
    "concurrency" concurrency,
    "io" io,
    "proxy-protocol" proxy_protocol,
    "user" user,
    "landlock" landlock,
    "seccomp" seccomp,
    "adapt" adapt,
    "record" record,
    "server-log" server_log,
    "control" control,
    "admin" admin,
    "http3" http3,
    "http3-steering" http3_steering,
    "tls-key-log" tls_key_log,
    "qlog" qlog,
    "qlog-files" qlog_files,
    "qlog-size" qlog_size,
    "domain" domain,
    "tls" tls,
    "http-listen" http_listen,
    "tls-state" tls_state,
    "acme-ca" acme_ca,
    "acme-ca-root" acme_ca_root,
    "acme-email" acme_email,
    "acme-eab" acme_eab,
    "acme-profile" acme_profile,
    "acme-challenge" acme_challenge,
    "acme-hook" acme_hook,
    "acme-hook-wait" acme_hook_wait,
    "behavior" behavior,
);

#[cfg(test)]
mod tests;
