//! The configuration of `weir serve` as one value: every key of the file, every flag of the command.
//!
//! Keys of the file are the long names of the flags, so `--help` documents both. An unknown key or value is an error
//! that names it, its line and the nearest valid one. This file decides names and defaults. `file` reads the keys,
//! `validity` decides which values go together, and `reload` what a running server takes over. None of them opens a
//! file or starts anything.
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
mod connection_limits;
mod content_type;
mod cors;
mod duration;
mod error;
mod fastcgi;
mod file;
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
mod reload;
mod replay;
mod request_header;
mod request_id;
mod resource_attribute;
mod respond;
mod secure;
mod security_headers;
mod socket_file;
mod tilde;
mod trusted;
mod try_files;
mod tuned;
mod uploads;
mod upstream;
mod validity;
mod values;
mod versions;

pub use self::otlp::{Otlp, OtlpCompression, OtlpEndpoint, Parents, SampledBy, Share};
pub(crate) use crate::path::spelling;
pub use access::{Access, ClientCertificate, Network, Satisfy};
pub(crate) use admin::ADMIN_PER_ADDRESS_MAX;
pub use admin::Admin;
pub use auth::AuthUrl;
pub use behavior::{
    Behavior, CONNECTION_MICROS_MAX, CacheLock, ColdReads, FileName, LOCK_CALLS_MAX, LOCK_MICROS_MAX,
    LookupTime, REQUEST_MICROS_MAX, WRITE_MICROS_MAX,
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
pub use logs::{AccessLog, ServerLog};
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
pub(crate) use request_header::is_host;
pub use request_id::RequestIdField;
pub use resource_attribute::ResourceAttribute;
pub use respond::Respond;
pub use runtime::strategy::Concurrency;
pub use secure::{ClientAuth, Crypto, Hsts, HttpsRedirect};
pub use security_headers::SecurityHeaders;
pub use socket_file::{ControlMode, SocketMode};
pub use tilde::{HomeDirectory, Tilde};
/// A table of keys and values of a configuration file.
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
use serde::Deserialize;
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
    /// Paths whose files and listings are sent uncompressed, whatever `compress` and `precompressed` say.
    #[serde(deserialize_with = "pattern::several")]
    pub compress_except: Vec<PathPattern>,
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
    /// Fixed answers, tried in order: behind redirects, before upstreams and files.
    pub respond: Vec<Respond>,
    /// Paths whose requests are passed to other servers, tried in order, before redirects and files.
    pub proxy: Vec<Proxy>,
    /// Paths at which clients change files, before rules for upstreams.
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
    /// Permission bits of this socket. `None`: see [`Config::control_mode_in_force`].
    pub control_mode: Option<ControlMode>,
    /// Group of this socket: a name or a number. `None`: that of the process.
    pub control_group: Option<String>,
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
    pub server_log: Option<ServerLog>,
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
            compress_except: Vec::new(),
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
            respond: Vec::new(),
            proxy: Vec::new(),
            tilde: None,
            host: Vec::new(),
            adapt: Adapt::default(),
            max_turn: MaxTurn::default(),
            record: None,
            control: None,
            control_mode: None,
            control_group: None,
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

    /// Whether a running server takes commands: at its control socket, or at the admin addresses.
    pub fn takes_commands(&self) -> bool {
        self.control.is_some() || self.admin.as_ref().is_some_and(|admin| admin.control)
    }

    /// Whether any request is passed on: to another server, or to what stores uploads.
    pub fn has_proxies(&self) -> bool {
        self.proxies().next().is_some() || self.has_uploads()
    }

    /// The sockets that get lines of logs.
    pub fn log_sockets(&self) -> impl Iterator<Item = LogSocket> {
        let access = self.access_logs().into_iter();
        let access = access.filter_map(|log| log.socket().ok().flatten());
        access.chain(self.server_log.as_ref().and_then(|log| log.socket().cloned()))
    }

    /// Servers that requests need: those that they are passed to, and those that decide about them.
    pub fn upstreams(&self) -> impl Iterator<Item = &UpstreamAddress> {
        let asked = self.access_rules().filter_map(|rule| rule.auth.as_ref());
        let passed = self.proxies().flat_map(|rule| &rule.upstreams);
        passed.chain(asked.map(AuthUrl::upstream))
    }

    /// How sending is shaped to the line rate. `None` without `line_rate`.
    pub fn shaping(&self) -> Option<Shaping> {
        let precedence = match self.line_order {
            LineOrder::Smallest => Precedence::Smallest,
            LineOrder::Shared => Precedence::Shared,
        };
        self.line_rate.map(|rate| Shaping { rate, precedence })
    }
}

#[cfg(test)]
mod tests;
