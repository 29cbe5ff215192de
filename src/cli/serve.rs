//! The flags of `weir serve`, and how flags, environment and file make one configuration: a flag overrides its
//! variable (clap does that), which overrides the file, which overrides preset, profile and default. Decides which
//! source a setting comes from and names it in errors; knows nothing about what the settings do.

use super::Cli;
use super::behavior::BehaviorFlags;
use super::https::HttpsFlags;
use super::offered::offered;
use super::tilde::TildeFlags;
use super::together::{self, Source};
use crate::failure::Failure;
use clap::Args;
use server::cache::Policy;
use server::config::{
    Adapt, Behavior, Concurrency, Config, ConfigError, FieldLine, Http2, IoKind, Keys, Landlock, LineOrder,
    Listen, LiveFor, LogFormat, LogTemplate, MaxTurn, MemoryBound, Network, Preset, ProxyFlag, SPA_FALLBACK,
    Seccomp, SecurityHeaders, TrustedField, Tuned, User, Workers, parse_duration, parse_duration_or_off,
    parse_line_rate,
};
use server::{MissingPage, NamedBy};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use units::{Bytes, Duration, Rate};

const EXAMPLES: &str = "\
Examples:
  weir serve                                the embedded site on http://127.0.0.1:8080/
  weir serve ./public --listen :8080        a directory, on every address of this machine
  weir serve ./public --domain example.org  https with a certificate from Let's Encrypt
  weir serve ./public --tls=internal        https for development, with an authority of its own
  weir serve ./app --spa                    unknown paths get /index.html
  weir serve --config weir.toml --check     validates the configuration
  weir serve ./public --access-log - --log-format json
  weir serve /srv/www --tilde               /~alice/ is public_html in alice's home

Each flag is also a key of the configuration file, under its long name, and an environment
variable: WEIR_ and the name in capitals (WEIR_CACHE_SIZE=256MiB). A flag overrides the
environment, which overrides the file.

Signals:
  TERM, INT  finish the responses under way, then stop; a second signal stops at once
  HUP        reload the configuration; if it is invalid, keep the old one
  USR1       reopen the access log
  USR2       upgrade in place: start the program again, hand it the listening sockets, and stop
             once it serves";

/// Flags of `weir serve`. A flag that was not given is `None`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples and signals: weir serve --help")]
pub(crate) struct Flags {
    /// Document root: the directory to serve [default: the site embedded in this program]
    #[arg(env = "WEIR_ROOT")]
    root: Option<PathBuf>,

    /// Configuration file (TOML); its keys are the long names of these flags
    #[arg(long, short, value_name = "FILE", env = "WEIR_CONFIG")]
    config: Option<PathBuf>,

    /// Validates the configuration and exits
    #[arg(long)]
    pub(crate) check: bool,

    /// Says which rules apply to a request and where its answer comes from, and exits: `GET /old/page` or
    /// `GET https://example.org/ from 192.0.2.1`. Exit code 1 if the answer is an error
    #[arg(long, value_name = "REQUEST")]
    pub(crate) explain: Option<String>,

    /// Applies settings measured by `weir tune`; flags, environment, file and preset override them [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_PROFILE", help_heading = "Strategy")]
    profile: Option<PathBuf>,
    /// The parsed profile, read once: after privileges are dropped, the file may be out of reach.
    #[arg(skip)]
    tuned: OnceLock<Tuned>,

    /// Imitates a server measured in the 1990s: apache-1.3, phttpd, java-server, zeus, enterprise, jaws-baseline, jaws;
    /// flags, environment and file override it [default: none]
    #[arg(long, value_name = "SERVER", env = "WEIR_PRESET", value_parser = offered::<Preset>(), hide_possible_values = true, help_heading = "Strategy")]
    preset: Option<Preset>,

    /// Address to listen on; repeatable. Port 0 picks a free port [default: 127.0.0.1:8080]
    #[arg(long, short, value_name = "ADDR:PORT", env = "WEIR_LISTEN", value_delimiter = ',',
          value_parser = Listen::parse_one, help_heading = "Strategy")]
    listen: Vec<SocketAddr>,

    #[command(flatten)]
    https: HttpsFlags,

    /// Number of worker threads or processes; the maximum, for strategies that start workers on demand. auto depends on
    /// the strategy: one per usable core for event loops [default: auto]
    #[arg(long, value_name = "N", env = "WEIR_WORKERS", help_heading = "Strategy")]
    workers: Option<Workers>,

    /// How connections map to workers: loops (one event loop per worker thread), loop (a single event loop),
    /// process-loops (one event loop per worker process), pool (blocking threads, one connection each),
    /// thread-per-connection, thread-per-request, processes (blocking processes, one connection each)
    /// [default: loops]
    #[arg(
        long,
        value_name = "STRATEGY",
        env = "WEIR_CONCURRENCY", value_parser = offered::<Concurrency>(), hide_possible_values = true,
        help_heading = "Strategy"
    )]
    concurrency: Option<Concurrency>,

    /// I/O back end: auto, epoll, uring (io_uring; epoll if the system denies it), blocking [default: auto]
    #[arg(long, value_name = "STRATEGY", env = "WEIR_IO", value_parser = offered::<IoKind>(), hide_possible_values = true, help_heading = "Strategy")]
    io: Option<IoKind>,

    /// Eviction policy: s3-fifo, lru, lfu, hinted (lru that loads and keeps the files a page embeds with the page),
    /// structured (loads and evicts a page and the files it embeds together) [default: s3-fifo]
    #[arg(
        long,
        value_name = "POLICY",
        env = "WEIR_CACHE_POLICY", value_parser = offered::<Policy>(), hide_possible_values = true,
        help_heading = "Cache"
    )]
    cache_policy: Option<Policy>,

    /// Byte budget of the cache [default: 64MiB]
    #[arg(long, value_name = "BYTES", env = "WEIR_CACHE_SIZE", help_heading = "Cache")]
    cache_size: Option<Bytes>,

    /// Files up to this size are held in memory, larger ones as an open descriptor [default: 16KiB]
    #[arg(
        long,
        value_name = "BYTES",
        env = "WEIR_CACHE_FILE_SIZE",
        help_heading = "Cache"
    )]
    cache_file_size: Option<Bytes>,

    /// Limit on open files larger than --cache-file-size; lower if descriptors are scarce [default: 2048]
    #[arg(long, value_name = "N", env = "WEIR_CACHE_FILES", help_heading = "Cache")]
    cache_files: Option<u32>,

    /// Size of each connection's send buffer in the kernel; 0: the kernel decides [default: 0]
    #[arg(
        long,
        value_name = "BYTES",
        env = "WEIR_SEND_BUFFER",
        help_heading = "Strategy"
    )]
    send_buffer: Option<Bytes>,

    /// Spreads sends over a round trip instead of sending bursts, also after idle periods [default: false]
    #[arg(long, env = "WEIR_PACING", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Strategy")]
    pacing: Option<bool>,

    /// Rate of the slowest line to the clients, as in 100Mbit. No other server may use that line. Weir sends slightly
    /// slower and orders the responses (--line-order). Needs loops or loop. Unset: no shaping
    #[arg(long, value_name = "RATE", env = "WEIR_LINE_RATE", value_parser = parse_line_rate, help_heading = "Strategy")]
    line_rate: Option<Rate>,

    /// Order of responses with --line-rate: smallest (the response with the fewest bytes left, except one byte in eight
    /// for the oldest response), shared (all take turns) [default: smallest]
    #[arg(long, value_name = "ORDER", env = "WEIR_LINE_ORDER", value_parser = offered::<LineOrder>(),
          hide_possible_values = true, help_heading = "Strategy")]
    line_order: Option<LineOrder>,

    /// Index file name of a directory; repeatable [default: index.html]
    #[arg(
        long,
        value_name = "NAME",
        env = "WEIR_INDEX",
        value_delimiter = ',',
        help_heading = "Files"
    )]
    index: Vec<String>,

    /// Lists directories that have no index file (HTML, or JSON if the client prefers it)
    #[arg(long, env = "WEIR_LISTING", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    listing: Option<bool>,

    /// Serves names that begin with a dot (.well-known is always served)
    #[arg(long, env = "WEIR_HIDDEN", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    hidden: Option<bool>,

    /// Follows symbolic links inside the root; links out of it are never followed [default: true]
    #[arg(long, env = "WEIR_SYMLINKS", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    symlinks: Option<bool>,

    /// Compresses a file on its first use and caches the result [default: true]
    #[arg(long, env = "WEIR_COMPRESS", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    compress: Option<bool>,

    /// Serves precompressed siblings (.br, .zst, .gz) to clients that accept them [default: true]
    #[arg(long, env = "WEIR_PRECOMPRESSED", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL", help_heading = "Files")]
    precompressed: Option<bool>,

    /// Sends 103 (Early Hints) with a page's style sheets and scripts while the page is read or compressed, over HTTP/2
    /// and HTTP/3 [default: false]
    #[arg(long, env = "WEIR_EARLY_HINTS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL", help_heading = "Files")]
    early_hints: Option<bool>,

    /// Page to serve when a browser navigates to an unknown path; false: 404 [without a value: /index.html]
    #[arg(long, visible_alias = "spa", env = "WEIR_SPA_FALLBACK", num_args = 0..=1, require_equals = true,
          default_missing_value = SPA_FALLBACK, value_name = "PATH", help_heading = "Files")]
    spa_fallback: Option<String>,

    /// Page for an error status (404) or a class (5xx); repeatable. In the configuration file: the table [error-pages]
    #[arg(long, value_name = "STATUS=PATH", env = "WEIR_ERROR_PAGE", value_delimiter = ',',
          value_parser = error_page, help_heading = "Files")]
    error_page: Vec<(String, String)>,

    /// Field line added to responses; repeatable
    #[arg(long, value_name = "NAME: VALUE", help_heading = "Files")]
    header: Vec<FieldLine>,

    /// Field lines that protect users of the site: off, basic (blocks nothing that pages load), site (pages load from
    /// this site only), strict (the same, without frames and inline images) [default: off]
    #[arg(
        long,
        value_name = "PRESET",
        env = "WEIR_SECURITY_HEADERS",
        value_parser = offered::<SecurityHeaders>(),
        hide_possible_values = true,
        help_heading = "Files"
    )]
    security_headers: Option<SecurityHeaders>,

    /// Forwards requests for this path and paths below it to another server, as in /api=http://127.0.0.1:8080 or
    /// /app=unix:/run/app.sock; repeatable. In the configuration file: tables `[[proxy]]`
    #[arg(
        long,
        value_name = "PATH=URL",
        env = "WEIR_PROXY",
        value_delimiter = ',',
        help_heading = "Files"
    )]
    proxy: Vec<ProxyFlag>,

    /// Stores responses of upstreams for other clients, as far as their fields allow it (RFC 9111), in 64 MiB of memory. In
    /// the configuration file: `cache = true` or a table in `[[proxy]]`
    #[arg(long, env = "WEIR_PROXY_CACHE", help_heading = "Files")]
    proxy_cache: bool,

    /// Network of proxies or load balancers that are believed when they name their client, as in 10.0.0.0/8; repeatable
    /// [default: none]
    #[arg(
        long,
        value_name = "NETWORK",
        env = "WEIR_TRUSTED",
        value_delimiter = ',',
        help_heading = "Operation"
    )]
    trusted: Vec<Network>,

    /// Field in which they name it: X-Forwarded-For, Forwarded [default: X-Forwarded-For]
    #[arg(long, value_name = "FIELD", env = "WEIR_TRUSTED_FIELD", value_parser = offered::<TrustedField>(),
          hide_possible_values = true, help_heading = "Operation")]
    trusted_field: Option<TrustedField>,

    /// Connections of trusted load balancers begin with the PROXY protocol, version 1 or 2
    #[arg(long, env = "WEIR_PROXY_PROTOCOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Operation")]
    proxy_protocol: Option<bool>,

    /// Who may read the live page and metrics under /.weir/: nobody, local (clients that connect over loopback and name
    /// the server by address or as localhost), all. Without a document root: local [default: nobody]
    #[arg(long, value_name = "WHOM", env = "WEIR_LIVE", value_parser = offered::<LiveFor>(), hide_possible_values = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "local", help_heading = "Operation")]
    live: Option<LiveFor>,

    /// Socket for weir ctl; users with write permission on the socket control the server [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_CONTROL", help_heading = "Operation")]
    control: Option<PathBuf>,

    /// Serves health checks: /healthz, and /readyz. /readyz answers 503 while a root cannot be opened, and once the
    /// server is told to stop
    #[arg(long, env = "WEIR_HEALTH", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Operation")]
    health: Option<bool>,

    /// Adapts settings to the load: auto (only settings not set by a flag, the environment, a file or a preset),
    /// dry-run (reports changes without making them), off [default: auto]
    #[arg(long, value_name = "HOW", env = "WEIR_ADAPT", value_parser = offered::<Adapt>(), hide_possible_values = true, help_heading = "Operation")]
    adapt: Option<Adapt>,

    /// Target for event-loop latency, such as 20ms, or off. Above it, requests get 503 unless a small file in memory
    /// answers them [default: off]
    #[arg(long, value_name = "TIME", env = "WEIR_MAX_TURN", help_heading = "Limits")]
    max_turn: Option<MaxTurn>,

    /// Appends observations and decisions to this file, a JSON line a second, for `weir adapt replay` [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_RECORD", help_heading = "Operation")]
    record: Option<PathBuf>,

    /// File for the access log; - for standard output [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_ACCESS_LOG", help_heading = "Log")]
    access_log: Option<PathBuf>,

    /// Format of the access log: common, combined, json [default: combined]
    #[arg(long, value_name = "FORMAT", env = "WEIR_LOG_FORMAT", value_parser = offered::<LogFormat>(), hide_possible_values = true, help_heading = "Log")]
    log_format: Option<LogFormat>,

    /// Format of the access log as text with variables, as in '$time_ms $peer "$request" $status $duration_ms'; JSON if it
    /// begins with { [default: none]
    #[arg(
        long,
        value_name = "TEMPLATE",
        env = "WEIR_LOG_TEMPLATE",
        help_heading = "Log"
    )]
    log_template: Option<LogTemplate>,

    /// Rotates the access log at this size, as in 100MiB; 0: never for its size [default: 0]
    #[arg(long, value_name = "SIZE", env = "WEIR_LOG_ROTATE_SIZE", help_heading = "Log")]
    log_rotate_size: Option<Bytes>,

    /// Begins a new access log each period of this length in UTC, as in 24h; off: never [default: off]
    #[arg(long, value_name = "TIME", env = "WEIR_LOG_ROTATE_TIME", value_parser = parse_duration_or_off, help_heading = "Log")]
    log_rotate_time: Option<Duration>,

    /// Number of rotated access logs that are kept [default: 14]
    #[arg(long, value_name = "COUNT", env = "WEIR_LOG_KEEP", help_heading = "Log")]
    log_keep: Option<u32>,

    /// Compresses rotated access logs by gzip [default: true]
    #[arg(long, env = "WEIR_LOG_COMPRESS", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Log")]
    log_compress: Option<bool>,

    /// Adds round-trip time, congestion window and retransmissions to each line of a JSON log
    #[arg(long, env = "WEIR_LOG_TCP", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Log")]
    log_tcp: Option<bool>,

    /// Where to speak HTTP/2: off, tls (with clients that offer it), all (also in cleartext, with clients that start in
    /// HTTP/2) [default: tls]
    #[arg(long, value_name = "WHERE", env = "WEIR_HTTP2", value_parser = offered::<Http2>(), hide_possible_values = true, help_heading = "Files")]
    http2: Option<Http2>,

    /// Speaks HTTP/3 over UDP at each address with TLS, and advertises it (Alt-Svc)
    #[arg(long, env = "WEIR_HTTP3", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    http3: Option<bool>,

    /// Answers HTTP/0.9 requests (`GET /path` without a version) with the bare content
    #[arg(long, env = "WEIR_HTTP09", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    http09: Option<bool>,

    /// User to switch to after binding every address; needs root. Without GROUP, the user's own group [default: none]
    #[arg(long, value_name = "NAME[:GROUP]", env = "WEIR_USER", help_heading = "Rights")]
    user: Option<User>,

    /// Restricts file access (Landlock): auto (the folders that hold the roots, homes of logins with pages,
    /// configuration, log, recording and control socket), root (as auto, but only the roots and pages themselves; a
    /// replaced root needs a restart), off (any file the server's user may access) [default: auto]
    #[arg(long, value_name = "REACH", env = "WEIR_LANDLOCK", value_parser = offered::<Landlock>(), hide_possible_values = true, help_heading = "Rights")]
    landlock: Option<Landlock>,

    /// Denies system calls that a file server never makes (seccomp): auto (if the kernel supports it), off
    /// [default: auto]
    #[arg(long, value_name = "WHEN", env = "WEIR_SECCOMP", value_parser = offered::<Seccomp>(), hide_possible_values = true, help_heading = "Rights")]
    seccomp: Option<Seccomp>,

    /// Memory limit: BYTES, auto (the limit of the control group), off. As memory fills up, connections are read and
    /// answered in smaller portions, idle ones are closed, and at last requests get 503 [default: auto]
    #[arg(long, value_name = "BYTES", env = "WEIR_MEMORY", help_heading = "Limits")]
    memory: Option<MemoryBound>,

    /// Connection limit; at the limit, the connection idle longest is closed for a new one [default: 65536]
    #[arg(long, value_name = "N", env = "WEIR_MAX_CONNECTIONS", help_heading = "Limits")]
    max_connections: Option<u32>,

    /// Connection limit per address (IPv6: per /64) [default: a quarter of the possible connections, at least 16]
    #[arg(
        long,
        value_name = "N",
        env = "WEIR_MAX_CONNECTIONS_PER_ADDRESS",
        help_heading = "Limits"
    )]
    max_connections_per_address: Option<u32>,

    /// Limit on TLS handshakes under way; above it, a new handshake has only one second to complete [default: half of
    /// the possible connections]
    #[arg(long, value_name = "N", env = "WEIR_MAX_HANDSHAKES", help_heading = "Limits")]
    max_handshakes: Option<u32>,

    /// Limit on TLS handshakes under way per address (IPv6: per /64) [default: half of the address's connection limit]
    #[arg(
        long,
        value_name = "N",
        env = "WEIR_MAX_HANDSHAKES_PER_ADDRESS",
        help_heading = "Limits"
    )]
    max_handshakes_per_address: Option<u32>,

    /// Limit on requests per connection; 0: no limit [default: 0]
    #[arg(
        long,
        value_name = "N",
        env = "WEIR_MAX_REQUESTS_PER_CONNECTION",
        help_heading = "Limits"
    )]
    max_requests_per_connection: Option<u32>,

    /// Limit on pipelined requests of a connection answered in one pass of the event loop [default: 128]
    #[arg(long, value_name = "N", env = "WEIR_MAX_PIPELINE", help_heading = "Limits")]
    max_pipeline: Option<u32>,

    /// Limit on requests of an HTTP/2 or HTTP/3 connection at a time; over HTTP/2, further requests are refused in a
    /// way that lets clients repeat them [default: 128]
    #[arg(long, value_name = "N", env = "WEIR_MAX_STREAMS", help_heading = "Limits")]
    max_streams: Option<u32>,

    /// Limit on requests per second of one address, over all its connections; above it: 429; 0: no limit [default: 0]
    #[arg(
        long,
        value_name = "N",
        env = "WEIR_MAX_REQUEST_RATE",
        help_heading = "Limits"
    )]
    max_request_rate: Option<u32>,

    /// Requests that one address may send at once before --max-request-rate applies [default: 100]
    #[arg(
        long,
        value_name = "N",
        env = "WEIR_MAX_REQUEST_BURST",
        help_heading = "Limits"
    )]
    max_request_burst: Option<u32>,

    /// Limit on the size of a request head; above it: 431 [default: 16KiB]
    #[arg(
        long,
        value_name = "BYTES",
        env = "WEIR_MAX_HEAD_SIZE",
        help_heading = "Limits"
    )]
    max_head_size: Option<Bytes>,

    /// Limit on field lines of a request; above it: 431 [default: 100]
    #[arg(long, value_name = "N", env = "WEIR_MAX_FIELDS", help_heading = "Limits")]
    max_fields: Option<usize>,

    /// Limit on the length of a request target; above it: 414 [default: 8KiB]
    #[arg(
        long,
        value_name = "BYTES",
        env = "WEIR_MAX_TARGET_LENGTH",
        help_heading = "Limits"
    )]
    max_target_length: Option<Bytes>,

    /// Limit on the size of a request body, which is read and discarded; above it: 413 [default: 1MiB]
    #[arg(
        long,
        value_name = "BYTES",
        env = "WEIR_MAX_BODY_SIZE",
        help_heading = "Limits"
    )]
    max_body_size: Option<Bytes>,

    /// Limit on ranges of one request; above it, the whole file is sent [default: 16]
    #[arg(long, value_name = "N", env = "WEIR_MAX_RANGES", help_heading = "Limits")]
    max_ranges: Option<usize>,

    /// Minimum rate of a request body, in bytes per second [default: 500]
    #[arg(
        long,
        value_name = "BYTES",
        env = "WEIR_MIN_BODY_RATE",
        help_heading = "Limits"
    )]
    min_body_rate: Option<Bytes>,

    /// Time to receive a request head; then 408 [default: 20s]
    #[arg(long, value_name = "TIME", env = "WEIR_HEADER_TIMEOUT", value_parser = parse_duration,
          help_heading = "Limits")]
    header_timeout: Option<Duration>,

    /// Time a persistent connection may be idle between a response and the next request [default: 65s]
    #[arg(long, value_name = "TIME", env = "WEIR_IDLE_TIMEOUT", value_parser = parse_duration,
          help_heading = "Limits")]
    idle_timeout: Option<Duration>,

    /// Time to receive a request body, in addition to the time its size takes at --min-body-rate; then 408 [default:
    /// 20s]
    #[arg(long, value_name = "TIME", env = "WEIR_BODY_TIMEOUT", value_parser = parse_duration,
          help_heading = "Limits")]
    body_timeout: Option<Duration>,

    /// Time without an acknowledged byte of a response after which the connection is reset. Waiting for --line-rate
    /// does not count [default: 30s]
    #[arg(long, value_name = "TIME", env = "WEIR_WRITE_TIMEOUT", value_parser = parse_duration,
          help_heading = "Limits")]
    write_timeout: Option<Duration>,

    /// Minimum average rate at which a client acknowledges a response, in bytes per second, applied after
    /// --write-timeout; below it, the connection is reset; 0: no minimum [default: 0]
    #[arg(
        long,
        value_name = "BYTES",
        env = "WEIR_MIN_SEND_RATE",
        help_heading = "Limits"
    )]
    min_send_rate: Option<Bytes>,

    /// Time a request may wait for a file to be opened, read or compressed; then 503 [default: 20s]
    #[arg(long, value_name = "TIME", env = "WEIR_DISK_TIMEOUT", value_parser = parse_duration,
          help_heading = "Limits")]
    disk_timeout: Option<Duration>,

    /// Limit on requests waiting for the disk; above it: 503 [default: 1024]
    #[arg(long, value_name = "N", env = "WEIR_MAX_DISK_QUEUE", help_heading = "Limits")]
    max_disk_queue: Option<u32>,

    /// Time for the client to close the connection after the server has closed its side [default: 5s]
    #[arg(long, value_name = "TIME", env = "WEIR_LINGER_TIMEOUT", value_parser = parse_duration,
          help_heading = "Limits")]
    linger_timeout: Option<Duration>,

    /// Time for connections to finish their responses when the server stops [default: 10s]
    #[arg(long, value_name = "TIME", env = "WEIR_GRACE", value_parser = parse_duration, help_heading = "Limits")]
    grace: Option<Duration>,

    /// Time between a stop request and the last accept, during which /readyz answers 503 [default: 0s]
    #[arg(long, value_name = "TIME", env = "WEIR_DRAIN_DELAY", value_parser = parse_duration,
          help_heading = "Limits")]
    drain_delay: Option<Duration>,

    #[command(flatten)]
    tilde: TildeFlags,

    #[command(flatten)]
    behavior: BehaviorFlags,
}

/// Splits `STATUS=PATH`; the configuration validates both parts.
fn error_page(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(status, path)| (status.to_owned(), path.to_owned()))
        .ok_or_else(|| format!("`{text}` is not an error page; write STATUS=PATH, as in 404=/404.html"))
}

impl Flags {
    /// The validated configuration from flags, environment and file. A reload calls this again.
    ///
    /// # Errors
    /// `Usage`, naming file, line and key, or the flag.
    pub(crate) fn configuration(&self) -> Result<Config, Failure> {
        let (text, name) = match &self.config {
            None => (String::new(), "--preset".to_owned()),
            Some(path) => (read(path)?, path.display().to_string()),
        };
        let usage = |error: ConfigError| Failure::Usage(error.to_string());
        let folder = self
            .config
            .as_deref()
            .and_then(Path::parent)
            .unwrap_or(Path::new(""));
        let is_new = self.tuned.get().is_none();
        let tuned = self.tuned_or(named_profile(&text).map(|named| folder.join(named)).as_deref())?;
        let mut config =
            Config::from_toml_above(self.preset, tuned, &self.said(), &text, &name).map_err(usage)?;
        if self.config.is_some() {
            put_below(&mut config, folder);
        }
        self.override_in(&mut config).map_err(Failure::Usage)?;
        config.settle();
        config.validate().map_err(usage)?;
        let file = text.parse::<Keys>().unwrap_or_default();
        let source = |key: &str| self.source(key, &file, config.preset, tuned);
        together::check(&config, &source).map_err(|wrong| {
            let at = wrong.keys.into_iter().find(|key| source(key) == Source::File);
            Failure::Usage(match at {
                Some(key) => ConfigError::about(key, wrong.why, &text, &name).to_string(),
                None => wrong.why,
            })
        })?;
        if let Some(tuned) = tuned.filter(|_| is_new)
            && let Some(words) = not_taken(tuned, config.concurrency, &source)
        {
            tracing::info!("{words}");
        }
        Ok(config)
    }

    /// The flags that make some settings of a preset or profile invalid, as the keys of a file.
    fn said(&self) -> Keys {
        let mut said = Keys::new();
        if let Some(concurrency) = self.concurrency {
            said.insert("concurrency".to_owned(), concurrency.to_string().into());
        }
        if let Some(io) = self.io {
            said.insert("io".to_owned(), io.to_string().into());
        }
        said.insert("behavior".to_owned(), self.behavior.said().into());
        said
    }

    /// The source of a setting of the strategy.
    fn source(&self, key: &str, file: &Keys, preset: Option<Preset>, tuned: Option<&Tuned>) -> Source {
        let is_flag = match key {
            "concurrency" => self.concurrency.is_some(),
            "io" => self.io.is_some(),
            "workers" => self.workers.is_some(),
            "control" => self.control.is_some(),
            "line-rate" => self.line_rate.is_some(),
            "max-turn" => self.max_turn.is_some(),
            _ => false,
        };
        let of_preset = preset.filter(|preset| {
            let table = preset.text().parse::<Keys>();
            table.is_ok_and(|table| table.contains_key(key))
        });
        match of_preset {
            _ if is_flag => Source::Command,
            _ if file.contains_key(key) => Source::File,
            Some(preset) => Source::Preset(preset),
            None if tuned.is_some_and(|tuned| tuned.has(key)) => Source::Profile,
            None => Source::Default,
        }
    }

    /// The profile of the flag, or the one the configuration file names, once that file was read.
    ///
    /// # Errors
    /// `Usage` if it cannot be read, naming file, line and key.
    pub(crate) fn tuned(&self) -> Result<Option<&Tuned>, Failure> {
        self.tuned_or(None)
    }

    /// The profile: of the flag, otherwise `named`, the one in the configuration file.
    fn tuned_or(&self, named: Option<&Path>) -> Result<Option<&Tuned>, Failure> {
        if let Some(tuned) = self.tuned.get() {
            return Ok(Some(tuned));
        }
        let Some(path) = self.profile.as_deref().or(named) else {
            return Ok(None);
        };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let whose = if self.profile.is_none() {
                ", which the configuration names"
            } else {
                ""
            };
            Failure::Usage(format!(
                "cannot read the profile `{name}`{whose}: {error}; write one with `weir tune`"
            ))
        })?;
        let tuned = Tuned::parse(&text, &name)
            .and_then(|tuned| values_hold(&tuned, &text, &name).map(|()| tuned))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Some(self.tuned.get_or_init(|| tuned)))
    }

    /// An error about an unusable root, with file and line if a file named it.
    pub(crate) fn blame_root(&self, why: String) -> Failure {
        let advice = self.root.as_deref().and_then(Cli::advice_on_root);
        self.blame(
            "root",
            advice.map_or(why.clone(), |advice| format!("{why}; {advice}")),
        )
    }

    /// An error about a key whose value proved unusable, with file and line if a file set it.
    pub(crate) fn blame(&self, key: &str, why: String) -> Failure {
        let is_flag = match key {
            "root" => self.root.is_some(),
            "explain" => true,
            "access-log" => self.access_log.is_some(),
            "record" => self.record.is_some(),
            "control" => self.control.is_some(),
            "user" => self.user.is_some(),
            "http3" => self.http3.is_some(),
            "error-pages" => !self.error_page.is_empty(),
            "spa-fallback" => self.spa_fallback.is_some(),
            key => self.https.names_file(key),
        };
        let file = self.config.as_deref().filter(|_| !is_flag);
        Failure::Usage(match file.map(|path| (path, std::fs::read_to_string(path))) {
            Some((path, Ok(text))) => {
                ConfigError::about(key, why, &text, &path.display().to_string()).to_string()
            }
            _ if key == "root" => why,
            _ if key == "error-pages" => format!("`--error-page`: {why}"),
            _ => format!("`--{key}`: {why}"),
        })
    }

    /// An error about a missing page, with the part of the configuration that names it.
    pub(crate) fn blame_page(&self, missing: &MissingPage) -> Failure {
        let (NamedBy::Host { number, .. } | NamedBy::TopForHost { number, .. }) = missing.named_by else {
            return self.blame(missing.key, missing.to_string());
        };
        // Only a file can define hosts.
        let text = self
            .config
            .as_deref()
            .map(|path| (path, std::fs::read_to_string(path)));
        Failure::Usage(match text {
            Some((path, Ok(text))) => {
                let name = path.display().to_string();
                ConfigError::about_host(number, missing.key, missing.to_string(), &text, &name).to_string()
            }
            _ => missing.to_string(),
        })
    }

    /// The first of these settings of the strategy that the command line or the environment sets; both override the
    /// file.
    pub(crate) fn typed(&self, keys: &[&'static str]) -> Option<&'static str> {
        keys.iter()
            .copied()
            .find(|key| self.source(key, &Keys::new(), None, None) == Source::Command)
    }

    /// The configuration file, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Whether a flag sets `--early-close`; `off` counts too.
    fn says_early_close(&self) -> bool {
        // A time that the flag's syntax cannot express.
        let early_close = Duration::from_nanos(1);
        let mut behavior = Behavior {
            early_close,
            ..Behavior::default()
        };
        self.behavior.override_in(&mut behavior);
        behavior.early_close != early_close
    }

    fn override_in(&self, config: &mut Config) -> Result<(), String> {
        macro_rules! take {
            ($($field:ident),* $(,)?) => {
                $(if let Some(value) = &self.$field { config.$field = value.clone(); })*
            };
        }
        take!(
            workers,
            concurrency,
            io,
            cache_policy,
            cache_size,
            cache_file_size,
            cache_files,
            send_buffer,
            pacing,
            line_order,
            listing,
            hidden,
            symlinks,
            compress,
            precompressed,
            early_hints,
            trusted_field,
            proxy_protocol,
            security_headers,
            live,
            health,
            log_format,
            log_rotate_size,
            log_rotate_time,
            log_keep,
            log_compress,
            log_tcp,
            adapt,
            max_turn,
            http2,
            http3,
            http09,
            landlock,
            seccomp,
            memory,
            max_connections,
            max_requests_per_connection,
            max_request_rate,
            max_request_burst,
            max_pipeline,
            max_streams,
            max_head_size,
            max_fields,
            max_target_length,
            max_body_size,
            max_ranges,
            min_body_rate,
            header_timeout,
            idle_timeout,
            body_timeout,
            write_timeout,
            min_send_rate,
            disk_timeout,
            max_disk_queue,
            linger_timeout,
            grace,
            drain_delay,
        );
        self.behavior.override_in(&mut config.behavior);
        config.say(|(_, key)| match key {
            "idle-timeout" => self.idle_timeout.is_some(),
            "early-close" => self.says_early_close(),
            "compress" => self.compress.is_some(),
            _ => false,
        });
        self.tilde.override_in(&mut config.tilde);
        self.https.override_in(config);
        for (set, flag) in [
            (
                &mut config.max_connections_per_address,
                self.max_connections_per_address,
            ),
            (&mut config.max_handshakes, self.max_handshakes),
            (
                &mut config.max_handshakes_per_address,
                self.max_handshakes_per_address,
            ),
        ] {
            if flag.is_some() {
                *set = flag;
            }
        }
        if self.line_rate.is_some() {
            config.line_rate = self.line_rate;
        }
        if self.root.is_some() {
            config.root.clone_from(&self.root);
        }
        if self.control.is_some() {
            config.control.clone_from(&self.control);
        }
        if self.record.is_some() {
            config.record.clone_from(&self.record);
        }
        if self.access_log.is_some() {
            config.access_log.clone_from(&self.access_log);
        }
        if self.log_template.is_some() {
            config.log_template.clone_from(&self.log_template);
        }
        if self.user.is_some() {
            config.user.clone_from(&self.user);
        }
        match self.spa_fallback.as_deref() {
            None => {}
            Some("false") => config.spa_fallback = None,
            Some("true") => config.spa_fallback = Some(SPA_FALLBACK.to_owned()),
            Some(page) => config.spa_fallback = Some(page.to_owned()),
        }
        if !self.listen.is_empty() {
            config.listen = Listen(self.listen.clone());
        }
        if !self.index.is_empty() {
            config.index.clone_from(&self.index);
        }
        if !self.header.is_empty() {
            config.header.clone_from(&self.header);
        }
        if !self.trusted.is_empty() {
            config.trusted.clone_from(&self.trusted);
        }
        if !self.proxy.is_empty() {
            config.proxy = self.proxy.iter().flat_map(|flag| flag.0.clone()).collect();
        }
        if self.proxy_cache {
            for rule in &mut config.proxy {
                rule.cache.get_or_insert_default();
            }
        }
        for (status, path) in &self.error_page {
            config
                .error_pages
                .insert(status, path)
                .map_err(|why| format!("`--error-page`: {why}"))?;
        }
        Ok(())
    }
}

/// Validates each value of a profile alone: once merged, an invalid value could no longer be traced to the profile.
///
/// # Errors
/// The first invalid value, with file, line and key.
fn values_hold(tuned: &Tuned, text: &str, name: &str) -> Result<(), ConfigError> {
    for (key, value) in &tuned.serve {
        let alone = Keys::from_iter([(key.clone(), value.clone())]).to_string();
        Config::from_toml(&alone, name).map_err(|wrong| {
            let why = match (key.as_str(), value.as_str()) {
                // The deserializer would name its own types.
                ("concurrency" | "io", None) => {
                    format!("{value} is not a strategy; write its name in quotes")
                }
                _ => wrong.message,
            };
            let mut there = ConfigError::about(key, why, text, name);
            there.nearest = wrong.nearest;
            there
        })?;
    }
    Ok(())
}

/// The profile that a configuration file names. The rest of the file overrides the profile, so this is read first. A
/// value that is not a path is reported when the rest is read.
fn named_profile(text: &str) -> Option<PathBuf> {
    let keys = text.parse::<Keys>().ok()?;
    keys.get("profile")?.as_str().map(PathBuf::from)
}

/// A log line naming the profile's settings that are dropped because another source sets the strategy.
fn not_taken(tuned: &Tuned, said: Concurrency, source: &dyn Fn(&str) -> Source) -> Option<String> {
    let found = tuned.serve.get("concurrency").and_then(|value| value.as_str());
    let found = found.map_or_else(|| Concurrency::default().to_string(), str::to_owned);
    let left: Vec<String> = ["io", "workers"]
        .into_iter()
        .filter(|key| found != said.to_string() && source(key) == Source::Profile)
        .filter_map(|key| Some(format!("`{key} = {}`", tuned.serve.get(key)?)))
        .collect();
    (!left.is_empty()).then(|| {
        format!(
            "ignored {} of the profile: measured for the strategy {found}, and the configured strategy is {said}",
            left.join(" and ")
        )
    })
}

/// The text of the configuration file.
fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the configuration `{}`: {error}; check the path given with --config",
            path.display()
        ))
    })
}

/// Makes relative paths of a configuration file relative to the file's folder.
fn put_below(config: &mut Config, folder: &Path) {
    let hosts = config.host.iter_mut().map(|host| &mut host.root);
    let own = [
        &mut config.root,
        &mut config.access_log,
        &mut config.control,
        &mut config.record,
        &mut config.tls_client_ca,
        &mut config.tls_key_log,
        &mut config.tls_state,
        &mut config.acme_ca_root,
        &mut config.acme_eab,
        &mut config.acme_hook,
    ];
    for inner in own.into_iter().chain(hosts).flatten() {
        if inner.as_os_str() != "-" {
            *inner = folder.join(&*inner);
        }
    }
    let tables = config
        .listener
        .iter_mut()
        .filter_map(|listener| listener.tls.as_mut());
    let tables = tables.chain(config.admin.iter_mut().filter_map(|admin| admin.tls.as_mut()));
    let own = [&mut config.tls_cert, &mut config.tls_key];
    for file in own.into_iter().flatten() {
        *file = folder.join(&*file);
    }
    for tls in tables {
        let named = tls.cert.iter_mut().chain(&mut tls.key).chain(&mut tls.client_ca);
        named.for_each(|file| *file = folder.join(&*file));
    }
    let pairs = config
        .host
        .iter_mut()
        .flat_map(|host| [&mut host.tls_cert, &mut host.tls_key]);
    for file in pairs.flatten() {
        *file = folder.join(&*file);
    }
    let rules = config.host.iter_mut().filter_map(|host| host.access.as_mut());
    for rule in config.access.iter_mut().chain(rules.flatten()) {
        rule.htpasswd
            .iter_mut()
            .for_each(|file| *file = folder.join(&*file));
    }
    let token = config
        .admin
        .iter_mut()
        .filter_map(|admin| admin.token_file.as_mut());
    token.for_each(|file| *file = folder.join(&*file));
    let tildes = config.host.iter_mut().filter_map(|host| host.tilde.as_mut());
    for tilde in config.tilde.iter_mut().chain(tildes) {
        for home in tilde.users.iter_mut().flat_map(|users| users.values_mut()) {
            *home = folder.join(&*home);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;
    use clap::{CommandFactory, Parser};
    use server::adapt::Knob;

    fn config(arguments: &[&str]) -> Result<Config, String> {
        let cli =
            Cli::try_parse_from(["weir", "serve"].iter().chain(arguments)).map_err(|e| e.to_string())?;
        let Command::Serve(flags) = cli.command else {
            return Err("another command".to_owned());
        };
        flags.configuration().map_err(|failure| failure.to_string())
    }

    #[test]
    fn no_flags_make_the_default() {
        assert_eq!(config(&[]), Ok(Config::default()));
    }

    #[test]
    fn flags_take_the_values_the_file_takes() {
        let made = config(&[
            "site",
            "--listen",
            ":80",
            "--listen",
            "[::1]:81",
            "--workers",
            "3",
            "--concurrency",
            "loops",
            "--io",
            "epoll",
            "--cache-policy",
            "lru",
            "--cache-size",
            "1.5MiB",
            "--listing",
            "--symlinks=false",
            "--spa",
            "--error-page",
            "404=/404.html",
            "--error-page",
            "5xx=/sorry.html",
            "--access-log",
            "-",
            "--log-format",
            "json",
            "--user",
            "www:web",
            "--adapt",
            "dry-run",
            "--record",
            "sensors.jsonl",
            "--max-turn",
            "20ms",
            "--memory",
            "200MiB",
            "--send-buffer",
            "64K",
            "--pacing",
            "--line-rate",
            "20Mbit",
            "--line-order",
            "shared",
            "--landlock",
            "root",
            "--http09",
            "--seccomp",
            "off",
            "--idle-timeout",
            "1m30s",
            "--security-headers",
            "site",
            "--header",
            "X-Frame-Options: DENY",
        ])
        .expect("valid flags");
        let file = Config::from_toml(
            "root = 'site'\nlisten = [':80', '[::1]:81']\nworkers = 3\nconcurrency = 'loops'\nio = 'epoll'\n\
             cache-policy = 'lru'\ncache-size = '1.5MiB'\nlisting = true\nsymlinks = false\n\
             spa-fallback = '/index.html'\naccess-log = '-'\nlog-format = 'json'\nuser = 'www:web'\n\
             adapt = 'dry-run'\nmax-turn = '20ms'\nmemory = '200MiB'\nsend-buffer = '64K'\npacing = true\nline-rate = '20M'\nline-order = 'shared'\nrecord = 'sensors.jsonl'\nlandlock = 'root'\nseccomp = 'off'\nhttp09 = true\nidle-timeout = '1m30s'\n\
             security-headers = 'site'\nheader = ['X-Frame-Options: DENY']\n[error-pages]\n404 = '/404.html'\n5xx = '/sorry.html'\n",
            "weir.toml",
        )
        .expect("a valid file");
        assert_eq!(made, file);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
    fn a_flag_switches_off_the_page_of_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, "spa-fallback = '/app.html'\n").expect("a file");
        let made = |flag: &str| config(&["--config", &file.display().to_string(), flag]).expect("valid");
        assert_eq!(made("--spa=false").spa_fallback, None);
        assert_eq!(made("--spa=true").spa_fallback.as_deref(), Some("/index.html"));
        assert_eq!(made("--spa").spa_fallback.as_deref(), Some("/index.html"));
        assert_eq!(made("--listing").spa_fallback.as_deref(), Some("/app.html"));
    }

    #[test]
    fn any_flag_of_pages_makes_their_table() {
        for (arguments, table) in [
            (&["--tilde"][..], "[tilde]"),
            (&["--tilde=web/www"], "[tilde]\ndirectory = 'web/www'"),
            (
                &["--tilde", "--tilde-enabled", "a,b", "--tilde-disabled", "c"],
                "[tilde]\nenabled = ['a', 'b']\ndisabled = ['c']",
            ),
            (&["--tilde-min-uid", "500"], "[tilde]\nmin-uid = 500"),
        ] {
            let file = Config::from_toml(&format!("root = 'site'\n{table}"), "w.toml").expect("a valid file");
            assert_eq!(
                config(&[&["site"], arguments].concat()),
                Ok(file),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (arguments, fragment) in [
            (&["--tilde=../all"][..], "not a directory in a home"),
            (&["--listen", "nonsense"], "write ADDR:PORT"),
            (&["--workers", "0"], "a number from 1 to 1024"),
            (&["--cache-policy", "no-such-policy"], "s3-fifo"),
            (&["--cache-size", "12Q"], "as in 4096, 64K"),
            (&["--memory", "1MiB"], "at least 16 MiB"),
            (&["--memory", "much"], "or auto, off"),
            (&["--idle-timeout", "5 parsecs"], "as in 500ms"),
            (&["--error-page", "200=/x"], "400 to 599"),
            (&["--error-page", "404"], "STATUS=PATH"),
            (&["--max-fields", "2"], "at least 8"),
            (&["--config", "/nonexistent/weir.toml"], "check the path"),
            (&["--cache-sise", "5"], "--cache-size"),
            (&["--line-rate", "fast"], "as in 100Mbit"),
            (&["--line-rate", "28.8k"], "as in 100Mbit"),
            (&["--early-close", "never"], "or off"),
            (&["--disk-timeout", "1ms"], "disk-timeout"),
            (&["--max-disk-queue", "0"], "at least 1"),
        ] {
            let error = config(arguments).expect_err("an invalid flag");
            assert!(error.contains(fragment), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn a_preset_makes_way_for_what_is_said_or_is_named() {
        let made = |arguments: &[&str]| config(arguments).expect("what is said beats the preset");
        let pool = made(&["--preset", "zeus", "--concurrency", "pool"]);
        assert_eq!((pool.concurrency, pool.io), (Concurrency::Pool, IoKind::Auto));
        let cached = made(&["--preset", "apache-1.3", "--lookup", "cached"]);
        assert_eq!(cached.behavior.ancestor_file, None);
        assert!(cached.behavior.copies, "the rest is the preset's");
        let looped = made(&["--preset", "jaws", "--concurrency", "loop"]);
        assert!(!looped.behavior.accept_lock);
        assert_eq!(looped.workers, Workers::Auto);
        let error = config(&["--preset", "jaws", "--io", "epoll"]).expect_err("a contradiction");
        for part in ["`--io epoll`", "of the preset jaws", "add `--concurrency loops`"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
    fn a_contradiction_in_a_file_is_shown_there_in_its_own_words() {
        let file = std::env::temp_dir().join(format!("weir-together-{}.toml", std::process::id()));
        std::fs::write(&file, "listing = true\nconcurrency = 'pool'\nio = 'epoll'\n").expect("a file");
        let name = file.display().to_string();
        let error = config(&["--config", &name]).expect_err("a contradiction");
        let begins = format!("{name}:3: `io`: `concurrency = \"pool\"` cannot use `io = \"epoll\"`: ");
        assert!(error.starts_with(&begins), "{error}");
        assert!(
            error.contains("use `io = \"blocking\"` or leave it out") && !error.contains("--"),
            "{error}"
        );
        let error = config(&["--config", &name, "--io", "uring"]).expect_err("a contradiction");
        let begins = format!("{name}:2: `concurrency`: `concurrency = \"pool\"` cannot use `--io uring`: ");
        assert!(error.starts_with(&begins), "{error}");
        std::fs::write(&file, "preset = 'zeus'\nconcurrency = 'pool'\n").expect("a file");
        assert_eq!(config(&["--config", &name]).map(|made| made.io), Ok(IoKind::Auto));
        std::fs::remove_file(&file).expect("our own file");
    }

    const PROFILE: &str =
        "version = 1\nworkload = 'none'\n[machine]\ncpu = 'x'\ncores = 1\nkernel = '1'\n[serve]\n";

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
    fn a_wrong_value_of_a_profile_is_named_with_its_file_and_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("p.toml");
        let name = file.display().to_string();
        for (key, value, part) in [
            ("workers", "'many'", "not a worker count"),
            ("workers", "0", "from 1 to 1024"),
            ("send-buffer", "'x'", "as in 4096"),
            ("cache-file-size", "-1", ""),
            ("io", "'epol'", "did you mean `epoll`"),
            ("concurrency", "3", "in quotes"),
        ] {
            std::fs::write(&file, format!("{PROFILE}{key} = {value}\n")).expect("a file");
            let error = config(&["--profile", &name]).expect_err(key);
            let begins = format!("{name}:8: ");
            assert!(error.starts_with(&begins), "{key} = {value}: {error}");
            assert!(
                error.contains(&format!("`{key}`")) && error.contains(part),
                "{error}"
            );
            assert!(!error.contains("preset"), "{error}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test of reading a file writes one")]
    fn a_profile_may_stand_in_the_file_and_is_looked_for_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a file");
            folder.path().join(name).display().to_string()
        };
        put(
            "p.toml",
            &format!("{PROFILE}concurrency = 'pool'\nworkers = 3\nsend-buffer = '64KiB'\n"),
        );
        let other = put("q.toml", &format!("{PROFILE}workers = 7\n"));
        let file = put(
            "weir.toml",
            "listing = true\nprofile = 'p.toml' # of here\n[behavior]\ncopies = true\n",
        );
        let made = config(&["--config", &file]).expect("a valid file");
        assert_eq!(
            (made.concurrency, made.workers.to_string()),
            (Concurrency::Pool, "3".to_owned())
        );
        assert!(made.listing && made.behavior.copies, "the rest is read");
        let made = config(&["--config", &file, "--profile", &other]).expect("valid");
        assert_eq!(made.workers.to_string(), "7", "a flag beats the file");
        for (text, parts) in [
            (
                "listing = true\nprofile = 3\n",
                [":2: ", "`profile`", "expected path string"],
            ),
            (
                "profile = 'r.toml'\n",
                ["r.toml`", "which the configuration names", "weir tune"],
            ),
            (
                "profile = 'p.toml'\n\nworkers = 'x'\n",
                [":3: ", "weir.toml", "`workers`"],
            ),
        ] {
            let error = config(&["--config", &put("weir.toml", text)]).expect_err(text);
            for part in parts {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }

    #[test]
    fn what_goes_with_the_strategy_of_a_profile_is_said() {
        let text = format!("{PROFILE}concurrency = 'loop'\nio = 'epoll'\nsend-buffer = '64KiB'\n");
        let tuned = Tuned::parse(&text, "p.toml").expect("a profile");
        let source = |key: &str| match key {
            "concurrency" => Source::Command,
            _ if tuned.has(key) => Source::Profile,
            _ => Source::Default,
        };
        let said = not_taken(&tuned, Concurrency::Pool, &source).expect("something");
        assert!(
            said.contains("`io = \"epoll\"`") && said.contains("pool"),
            "{said}"
        );
        assert!(
            !said.contains("workers") && !said.contains("send-buffer"),
            "{said}"
        );
        assert_eq!(not_taken(&tuned, Concurrency::Loop, &source), None);
    }

    /// The help states the real defaults.
    #[test]
    fn defaults_in_the_help_are_true() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").expect("a command");
        let mut arguments = Vec::new();
        for flag in serve.get_arguments() {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            if let (Some(name), Some((_, value))) = (flag.get_long(), help.split_once("[default: "))
                && value != "none]"
                // Not a value, but a rule for one.
                && !["a quarter", "half"].iter().any(|share| value.starts_with(share))
            {
                arguments.push(format!("--{name}={}", value.trim_end_matches(']')));
            }
        }
        assert!(arguments.len() > 20, "{arguments:?}");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let made = config(&arguments).expect("valid flags");
        assert_eq!(made.said, Knob::ALL, "a default that is said is said");
        let said = Vec::new();
        assert_eq!(Config { said, ..made }, Config::default());
    }

    /// Any explicit value fixes a setting, the default too.
    #[test]
    fn a_knob_is_set_by_any_word_about_it() {
        for (arguments, expected) in [
            (&[][..], &[][..]),
            (&["--listing"], &[]),
            (&["--compress"], &[Knob::Compression]),
            (&["--idle-timeout", "65s"], &[Knob::IdleTimeout]),
            (&["--early-close", "0s"], &[Knob::IdleTimeout]),
            (&["--early-close", "off"], &[Knob::IdleTimeout]),
            (
                &["--preset", "apache-1.3"],
                &[Knob::IdleTimeout, Knob::Compression],
            ),
            (
                &["--preset", "zeus", "--idle-timeout", "65s"],
                &[Knob::IdleTimeout, Knob::Compression],
            ),
        ] {
            let made = config(arguments).expect("valid flags");
            assert_eq!(made.said, expected, "{arguments:?}");
        }
    }

    /// The example of the operator's guide is a valid file.
    #[test]
    fn the_documented_file_is_valid() {
        let text = include_str!("../../docs/serve.md");
        let (_, rest) = text.split_once("```toml\n").expect("an example");
        let (example, _) = rest.split_once("```").expect("its end");
        let config = Config::from_toml(example, "docs/serve.md").expect("a valid example");
        assert_eq!(config.error_pages.page(404), Some("/errors/404.html"));
    }

    /// Keys of the file and long names of flags are one vocabulary.
    #[test]
    fn every_key_is_a_flag_and_every_flag_a_key() {
        let known = |file: &str| {
            let error = toml::from_str::<Config>(file).expect_err("an unknown key");
            let keys = error.message().split('`').skip(3).step_by(2);
            keys.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut keys = known("no-such-key = 1");
        // The root is an argument, nested tables exist in files only, and two tables have flags of their own.
        keys.retain(|key| {
            ![
                "root",
                "types",
                "header-rule",
                "cors",
                "limit",
                "admin",
                "access",
                "try-files",
                "redirect",
                "host",
                "listener",
                "behavior",
                "tilde",
            ]
            .contains(&key.as_str())
        });
        keys.extend(known("[behavior]\nno-such-key = 1"));
        // The table of logins exists in files only, and the flag for the directory switches pages on.
        let tilde = known("[tilde]\nno-such-key = 1")
            .into_iter()
            .filter(|key| key != "users");
        keys.extend(tilde.map(|key| match &*key {
            "directory" => "tilde".to_owned(),
            key => format!("tilde-{key}"),
        }));
        keys.sort_unstable();
        let command = Cli::command();
        let serve = command.find_subcommand("serve").expect("a command");
        let mut flags: Vec<&str> = serve
            .get_arguments()
            .filter_map(|flag| flag.get_long())
            // The key of `proxy-cache` is in the tables `[[proxy]]`.
            .filter(|name| !["config", "check", "explain", "help", "version", "proxy-cache"].contains(name))
            .map(|name| if name == "error-page" { "error-pages" } else { name })
            .collect();
        flags.sort_unstable();
        assert_eq!(flags, keys);
    }
}
