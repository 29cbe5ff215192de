//! The flags of `weir serve`, and how flags, environment and file make one configuration: a flag overrides its
//! variable (clap does that), which overrides the file, which overrides preset, profile and default. Decides which
//! source a setting comes from and names it in errors; knows nothing about what the settings do.

use super::Cli;
use super::behavior::BehaviorFlags;
use super::https::HttpsFlags;
use super::limits::LimitFlags;
use super::offered::offered;
use super::otel;
use super::otlp::OtlpFlags;
use super::tilde::TildeFlags;
use super::together::{self, Source};
use crate::failure::Failure;
use clap::Args;
use runtime::listen::Address;
use runtime::log_socket::LogSocket;
use server::cache::Policy;
use server::config::{
    Adapt, Behavior, Concurrency, Config, ConfigError, ControlMode, FieldLine, Http2, Http3, IoKind, Keys,
    Landlock, LineOrder, Listen, LiveFor, LogFormat, LogTemplate, MountFlag, Network, PathPattern, Preset,
    Proxy, ProxyFlag, RequestIdField, SPA_FALLBACK, Seccomp, SecurityHeaders, ServerLog, TrustedField, Tuned,
    UpstreamAddress, User, Workers, parse_duration_or_off, parse_line_rate,
};
use server::{MissingPage, NamedBy};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use units::{Bytes, Duration, Rate};

const EXAMPLES: &str = "\
Examples:
  weir serve                                the embedded site on http://127.0.0.1:8080/
  weir serve ./public --listen :8080        a directory, on every address of this machine
  weir serve ./public --domain example.org  https with a certificate from Let's Encrypt; HTTP/3, too
  weir serve ./public --domain example.org --http3=false   over TCP alone
  weir serve ./public --tls=internal --qlog /tmp   logs the packets of each HTTP/3 connection
  weir serve ./public --tls=internal        https for development, with an authority of its own
  weir serve ./app --spa                    unknown paths get /index.html
  weir serve ./public --proxy /api=http://127.0.0.1:9000   an application for paths below /api
  weir serve --config weir.toml --check     validates the configuration
  weir serve ./public --access-log - --log-format json
  weir serve ./public --mount /static/=./assets   another directory for paths below /static/
  weir serve /srv/www --tilde               /~alice/ is public_html in alice's home
  weir serve --versions /srv/www            the version to which /srv/www/current leads
  weir serve --replay ./recording           the responses that `weir record` stored

Each flag is also a key of the configuration file, under its long name, and an environment
variable: WEIR_ and the name in capitals (WEIR_CACHE_SIZE=256MiB). A flag overrides the
environment, which overrides the file.

Signals:
  TERM, INT  finish the responses under way, then stop; a second signal stops at once
  HUP        reload the configuration; if it is invalid, keep the old one
  USR1       reopen the files of logs
  USR2       upgrade in place: start the program again, hand it the listening sockets, and stop
             once it serves";

/// Flags of `weir serve`. A flag that was not given is `None`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples and signals: weir serve --help")]
pub(crate) struct Flags {
    /// Document root: the directory to serve [default: the site embedded in this program]
    #[arg(env = "WEIR_ROOT")]
    root: Option<PathBuf>,

    /// Serves a version of a site: a folder in DIR, to which the link `current` in DIR leads. `weir ctl site switch`
    /// switches to another [default: none]
    #[arg(long, value_name = "DIR", env = "WEIR_VERSIONS", help_heading = "Files")]
    versions: Option<PathBuf>,

    /// Serves another directory for this path and paths below it, without this path in the names of files, as in
    /// /static/=/srv/assets; repeatable. In the configuration file: tables `[[mount]]`
    #[arg(
        long,
        value_name = "PATH=DIR",
        env = "WEIR_MOUNT",
        value_delimiter = ',',
        help_heading = "Files"
    )]
    mount: Vec<MountFlag>,

    /// Serves a recording of `weir record` instead of files: each request gets the recorded response that matches it best
    /// [default: none]
    #[arg(long, value_name = "DIR", env = "WEIR_REPLAY", help_heading = "Files")]
    replay: Option<PathBuf>,

    /// Waits before each recorded response as long as the recorded server took to its first byte
    #[arg(long, env = "WEIR_REPLAY_DELAYS", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    replay_delays: Option<bool>,

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

    /// Field line of the request that --explain explains, as `Authorization: Basic eDp5` or `Range: bytes=0-9`; repeatable
    #[arg(long, value_name = "NAME: VALUE", requires = "explain", value_parser = FieldLine::of_request)]
    pub(crate) explain_field: Vec<FieldLine>,

    /// Assumes that the client of --explain has the certificate and the password that access rules ask for, and that the
    /// server of `auth` admits it: says what it gets then
    #[arg(long, requires = "explain")]
    pub(crate) explain_admitted: bool,

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

    /// Address to listen on, or unix:/PATH for a Unix socket; repeatable. Port 0 picks a free port [default: 127.0.0.1:8080]
    #[arg(long, short, value_name = "ADDR:PORT", env = "WEIR_LISTEN", value_delimiter = ',',
          value_parser = Listen::parse_one, help_heading = "Strategy")]
    listen: Vec<Address>,

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
    #[arg(long, value_name = "BACKEND", env = "WEIR_IO", value_parser = offered::<IoKind>(), hide_possible_values = true, help_heading = "Strategy")]
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

    /// Limit on open files larger than --cache-file-size; Weir lowers it if descriptors are scarce [default: 2048]
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

    /// Lists directories that have no index file (HTML, or JSON if the client prefers it), with search, sorting and pages. To
    /// list only one folder, set it in a `[[mount]]` of the configuration file
    #[arg(long, env = "WEIR_LISTING", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    listing: Option<bool>,

    /// Shows README.md or README.txt of a directory below its listing [default: true]
    #[arg(long, env = "WEIR_LISTING_README", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    listing_readme: Option<bool>,

    /// Path on this site of a style sheet for listings, as in /listing.css
    #[arg(
        long,
        value_name = "PATH",
        env = "WEIR_LISTING_STYLESHEET",
        help_heading = "Files"
    )]
    listing_stylesheet: Option<String>,

    /// HTML at the start of each listing, not escaped
    #[arg(
        long,
        value_name = "HTML",
        env = "WEIR_LISTING_HEADER",
        help_heading = "Files"
    )]
    listing_header: Option<String>,

    /// HTML at the end of each listing, not escaped
    #[arg(
        long,
        value_name = "HTML",
        env = "WEIR_LISTING_FOOTER",
        help_heading = "Files"
    )]
    listing_footer: Option<String>,

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

    /// Paths whose files and listings are sent uncompressed, as in /api/* or *.csv; repeatable [default: none]
    #[arg(
        long,
        value_name = "PATTERN",
        env = "WEIR_COMPRESS_EXCEPT",
        value_delimiter = ',',
        help_heading = "Files"
    )]
    compress_except: Vec<PathPattern>,

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

    /// Field lines that protect users of the site: off, basic (no plug-ins; other sites may not frame pages), site (as
    /// basic; pages load files only from this site), strict (as site; no site may frame pages, no inline images)
    /// [default: off]
    #[arg(
        long,
        value_name = "PRESET",
        env = "WEIR_SECURITY_HEADERS",
        value_parser = offered::<SecurityHeaders>(),
        hide_possible_values = true,
        help_heading = "Files"
    )]
    security_headers: Option<SecurityHeaders>,

    /// Forwards requests for this path and paths below it to another server, as in /api=http://127.0.0.1:8080,
    /// /app=unix:/run/app.sock, /shop.Cart=h2c://127.0.0.1:50051, /cart=h2c+unix:/run/cart.sock or
    /// /=fastcgi+unix:/run/php/php-fpm.sock; repeatable. In the configuration file: tables `[[proxy]]`
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

    /// Network of proxies or load balancers that Weir trusts to name their client, as in 10.0.0.0/8; repeatable
    /// [default: none]
    #[arg(
        long,
        value_name = "NETWORK",
        env = "WEIR_TRUSTED",
        value_delimiter = ',',
        help_heading = "Operation"
    )]
    trusted: Vec<Network>,

    /// Field in which trusted proxies name their client: X-Forwarded-For, Forwarded [default: X-Forwarded-For]
    #[arg(long, value_name = "FIELD", env = "WEIR_TRUSTED_FIELD", value_parser = offered::<TrustedField>(),
          hide_possible_values = true, help_heading = "Operation")]
    trusted_field: Option<TrustedField>,

    /// Connections of trusted load balancers begin with the PROXY protocol, version 1 or 2
    #[arg(long, env = "WEIR_PROXY_PROTOCOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Operation")]
    proxy_protocol: Option<bool>,

    /// Who may read the live page and metrics under /.weir/: nobody, local (clients that connect over loopback and name
    /// the server by address or as localhost), all. With the embedded site: local [default: nobody]
    #[arg(long, value_name = "WHOM", env = "WEIR_LIVE", value_parser = offered::<LiveFor>(), hide_possible_values = true, num_args = 0..=1, require_equals = true,
          default_missing_value = "local", help_heading = "Operation")]
    live: Option<LiveFor>,

    /// Counts responses, bytes and durations of each host for the metrics
    #[arg(long, env = "WEIR_HOST_METRICS", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Operation")]
    host_metrics: Option<bool>,

    /// Socket for weir ctl; users with write permission on the socket control the server [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_CONTROL", help_heading = "Operation")]
    control: Option<PathBuf>,

    /// Mode of the socket for weir ctl: 600 (the server's user), 660 (its group, too). Unset: 660 with --control-group,
    /// otherwise 600
    #[arg(
        long,
        value_name = "MODE",
        env = "WEIR_CONTROL_MODE",
        help_heading = "Operation"
    )]
    control_mode: Option<ControlMode>,

    /// Group of the socket for weir ctl; without root, a group that the server's user belongs to [default: that of the
    /// server]
    #[arg(
        long,
        value_name = "GROUP",
        env = "WEIR_CONTROL_GROUP",
        help_heading = "Operation"
    )]
    control_group: Option<String>,

    /// Serves health checks: /healthz, and /readyz. /readyz answers 503 while a root cannot be opened, and once the
    /// server is told to stop
    #[arg(long, env = "WEIR_HEALTH", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Operation")]
    health: Option<bool>,

    /// Adapts settings to the load: auto (only settings not set by a flag, the environment, a file or a preset),
    /// dry-run (reports changes without making them), off [default: auto]
    #[arg(long, value_name = "HOW", env = "WEIR_ADAPT", value_parser = offered::<Adapt>(), hide_possible_values = true, help_heading = "Operation")]
    adapt: Option<Adapt>,

    /// Appends sensor readings and decisions to this file, a JSON line a second, for `weir adapt replay` [default:
    /// none]
    #[arg(long, value_name = "FILE", env = "WEIR_RECORD", help_heading = "Operation")]
    record: Option<PathBuf>,

    /// File for the access log; - for standard output, syslog:, syslog:udp://HOST:PORT or journald: for a log daemon [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_ACCESS_LOG", help_heading = "Log")]
    access_log: Option<PathBuf>,

    /// File for the server's own messages; syslog:, syslog:udp://HOST:PORT or journald: for a log daemon; without it, standard error [default: none]
    #[arg(long, value_name = "FILE", env = "WEIR_SERVER_LOG", help_heading = "Log")]
    server_log: Option<ServerLog>,

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

    /// Logs one response of this many, and every error [default: 1]
    #[arg(long, value_name = "COUNT", env = "WEIR_LOG_SAMPLE", help_heading = "Log")]
    log_sample: Option<u32>,

    /// Field with the id of each request, for upstreams and logs: that of a trusted peer, or a new one. Without a value:
    /// X-Request-Id [default: off]
    #[arg(long, value_name = "FIELD", env = "WEIR_REQUEST_ID", num_args = 0..=1, require_equals = true,
          default_missing_value = "X-Request-Id", help_heading = "Log")]
    request_id: Option<RequestIdField>,

    /// Sends the id of a request in its response, too
    #[arg(long, value_name = "BOOL", env = "WEIR_REQUEST_ID_ANSWER", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", help_heading = "Log")]
    request_id_answer: Option<bool>,

    /// Rotates the access log at this size, as in 100MiB; 0: never for its size [default: 0]
    #[arg(long, value_name = "SIZE", env = "WEIR_LOG_ROTATE_SIZE", help_heading = "Log")]
    log_rotate_size: Option<Bytes>,

    /// Rotates the access log when a period of this length ends, counted in UTC, as in 24h; off: never for its age
    /// [default: off]
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

    /// Where to speak HTTP/2: off, tls (with clients that offer it), all (also in cleartext, with clients that begin in
    /// HTTP/2: prior knowledge) [default: tls]
    #[arg(long, value_name = "WHERE", env = "WEIR_HTTP2", value_parser = offered::<Http2>(), hide_possible_values = true, help_heading = "Files")]
    http2: Option<Http2>,

    /// Speaks HTTP/3 over UDP at each address with TLS, and advertises it (Alt-Svc): true, false, auto (where it is
    /// possible) [default: auto]
    #[arg(long, env = "WEIR_HTTP3", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "WHETHER", value_parser = offered::<Http3>(), hide_possible_values = true, help_heading = "Files")]
    http3: Option<Http3>,

    /// Has the kernel give each packet of HTTP/3 to the thread or worker process of its connection
    /// (SO_ATTACH_REUSEPORT_CBPF), also after a client's address has changed [default: true]
    #[arg(long, env = "WEIR_HTTP3_STEERING", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL", help_heading = "Files")]
    http3_steering: Option<bool>,

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

    #[command(flatten)]
    limits: LimitFlags,

    #[command(flatten)]
    tilde: TildeFlags,

    #[command(flatten)]
    otlp: OtlpFlags,

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
        let file = text.parse::<Keys>().unwrap_or_default();
        self.add_environment(&mut config, &file);
        config.settle();
        config.validate().map_err(usage)?;
        if let Err(error) = config.validate_collector() {
            return Err(usage(match file.contains_key("otlp") {
                true => ConfigError::about("otlp", error.message, &text, &name),
                false => error,
            }));
        }
        config.validate_certificates(&text, &name).map_err(usage)?;
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

    /// Adds what the standard variables of OpenTelemetry say, where neither flags nor the file say anything.
    fn add_environment(&self, config: &mut Config, file: &Keys) {
        let table = file.get("otlp").and_then(|table| table.as_table());
        let is_set = |key: &str| self.otlp.says(key) || table.is_some_and(|table| table.contains_key(key));
        let filled = otel::fill(&mut config.otlp, &is_set, &|name| std::env::var(name).ok());
        let otlp = config.otlp.as_ref();
        filled.log(otlp.and_then(|otlp| otlp.endpoint.as_ref()));
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
            "max-turn" => self.limits.max_turn.is_some(),
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
            "versions" => self.versions.is_some(),
            "mount" => !self.mount.is_empty(),
            "replay" => self.replay.is_some(),
            "explain" => true,
            "access-log" => self.access_log.is_some(),
            "server-log" => self.server_log.is_some(),
            "record" => self.record.is_some(),
            "control" => self.control.is_some(),
            "control-group" => self.control_group.is_some(),
            "user" => self.user.is_some(),
            "http3" => self.http3.is_some(),
            "error-pages" => !self.error_page.is_empty(),
            "spa-fallback" => self.spa_fallback.is_some(),
            key => self.https.names_file(key),
        };
        let in_file = match is_flag {
            true => None,
            false => self.in_file(|text, name| ConfigError::about(key, why.clone(), text, name)),
        };
        Failure::Usage(in_file.unwrap_or_else(|| match key {
            "root" => why,
            "error-pages" => format!("`--error-page`: {why}"),
            _ => format!("`--{key}`: {why}"),
        }))
    }

    /// The same for a key that only the file can have set.
    pub(crate) fn blame_file(&self, key: &str, why: String) -> Failure {
        let in_file = self.in_file(|text, name| ConfigError::about(key, why.clone(), text, name));
        Failure::Usage(in_file.unwrap_or(why))
    }

    /// An error about a part of the configuration file, given its text and name. `None`: there is no file, or it cannot be read.
    fn in_file(&self, about: impl FnOnce(&str, &str) -> ConfigError) -> Option<String> {
        let path = self.config.as_deref()?;
        let text = std::fs::read_to_string(path).ok()?;
        Some(about(&text, &path.display().to_string()).to_string())
    }

    /// An error about a missing page, with the part of the configuration that names it.
    pub(crate) fn blame_page(&self, missing: &MissingPage) -> Failure {
        match missing.named_by {
            NamedBy::Host { number, .. } | NamedBy::TopForHost { number, .. } => {
                self.blame_host(number, missing.key, missing.to_string())
            }
            NamedBy::Top => self.blame(missing.key, missing.to_string()),
        }
    }

    /// An error about a key of the host at index `number`.
    pub(crate) fn blame_host(&self, number: usize, key: &str, why: String) -> Failure {
        // Only a file can define hosts.
        let about = |text: &str, name: &str| ConfigError::about_host(number, key, why.clone(), text, name);
        Failure::Usage(self.in_file(about).unwrap_or(why))
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
        // Keys that may be absent.
        macro_rules! take_some {
            ($($field:ident),* $(,)?) => {
                $(if self.$field.is_some() { config.$field.clone_from(&self.$field); })*
            };
        }
        // Lists, which replace those of the file.
        macro_rules! take_list {
            ($($field:ident),* $(,)?) => {
                $(if !self.$field.is_empty() { config.$field.clone_from(&self.$field); })*
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
            replay_delays,
            listing,
            listing_readme,
            listing_stylesheet,
            listing_header,
            listing_footer,
            hidden,
            symlinks,
            compress,
            precompressed,
            early_hints,
            trusted_field,
            proxy_protocol,
            security_headers,
            live,
            request_id,
            request_id_answer,
            host_metrics,
            health,
            log_format,
            log_sample,
            log_rotate_size,
            log_rotate_time,
            log_keep,
            log_compress,
            log_tcp,
            adapt,
            http2,
            http3,
            http3_steering,
            http09,
            landlock,
            seccomp,
        );
        self.behavior.override_in(&mut config.behavior);
        config.say(|(_, key)| match key {
            "idle-timeout" => self.limits.idle_timeout.is_some(),
            "early-close" => self.says_early_close(),
            "compress" => self.compress.is_some(),
            _ => false,
        });
        self.tilde.override_in(&mut config.tilde);
        self.otlp.override_in(&mut config.otlp);
        self.https.override_in(config);
        self.limits.override_in(config);
        take_some!(
            line_rate,
            replay,
            control,
            control_mode,
            control_group,
            record,
            access_log,
            server_log,
            log_template,
            user,
        );
        take_list!(index, compress_except, header, trusted);
        // Each replaces the other's value in the file.
        if self.root.is_some() || self.versions.is_some() {
            config.root.clone_from(&self.root);
            config.versions.clone_from(&self.versions);
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
        if !self.mount.is_empty() {
            config.mount = self.mount.iter().map(|flag| flag.0.clone()).collect();
        }
        if !self.proxy.is_empty() {
            config.proxy = self.proxy.iter().flat_map(|flag| flag.0.clone()).collect();
        }
        if self.proxy_cache {
            let is_fastcgi = |rule: &Proxy| rule.upstreams.iter().any(UpstreamAddress::is_fastcgi);
            for rule in config.proxy.iter_mut().filter(|rule| !is_fastcgi(rule)) {
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
    let hosts = config.host.iter_mut().flat_map(|host| {
        [
            host.root.as_mut(),
            host.versions.as_mut(),
            host.access_log.as_mut(),
        ]
    });
    let own = [
        &mut config.root,
        &mut config.versions,
        &mut config.replay,
        &mut config.access_log,
        &mut config.control,
        &mut config.record,
        &mut config.tls_client_ca,
        &mut config.tls_key_log,
        &mut config.qlog,
        &mut config.tls_state,
        &mut config.acme_ca_root,
        &mut config.acme_eab,
        &mut config.acme_hook,
    ];
    for inner in own.into_iter().map(Option::as_mut).chain(hosts).flatten() {
        if inner.as_os_str() != "-" && !LogSocket::is_meant(inner) {
            *inner = folder.join(&*inner);
        }
    }
    if let Some(ServerLog::File(file)) = &mut config.server_log {
        *file = folder.join(&*file);
    }
    for root in config.mount_roots_mut() {
        // An empty one is refused, and would be the folder itself here.
        if !root.as_os_str().is_empty() {
            *root = folder.join(&*root);
        }
    }
    if let Some(ca) = config.otlp.as_mut().and_then(|otlp| otlp.ca.as_mut()) {
        *ca = folder.join(&*ca);
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
        let tls = rule.auth_tls.iter_mut();
        let files = tls.flat_map(|tls| [&mut tls.ca, &mut tls.cert, &mut tls.key]);
        let files = files.chain([&mut rule.htpasswd]).flatten();
        files.for_each(|file| *file = folder.join(&*file));
    }
    let uploads = config.host.iter_mut().filter_map(|host| host.uploads.as_mut());
    for rule in config.uploads.iter_mut().chain(uploads.flatten()) {
        if let Some(tree) = &mut rule.folder {
            *tree = folder.join(&*tree);
        }
    }
    let tokens = config
        .admin
        .iter_mut()
        .flat_map(|admin| [&mut admin.token_file, &mut admin.control_token_file]);
    tokens.flatten().for_each(|file| *file = folder.join(&*file));
    let tildes = config.host.iter_mut().filter_map(|host| host.tilde.as_mut());
    for tilde in config.tilde.iter_mut().chain(tildes) {
        for home in tilde.users.iter_mut().flat_map(|users| users.values_mut()) {
            *home = folder.join(&*home);
        }
    }
}

#[cfg(test)]
mod tests;
