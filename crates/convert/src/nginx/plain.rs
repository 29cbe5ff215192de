//! Directives of nginx whose fate does not depend on their arguments.

use super::scripts;
use crate::fate::Fate;
use crate::files;

const NO_EFFECT: &str = "it has no effect in Weir";
const TLS: &str = "Weir's TLS settings are safe by default; `crypto` selects others";
const CACHE: &str = "`[proxy.cache]` has sizes, `disk` and times; the converter carries none of them";
const OTHER_PROTOCOL: &str =
    "Weir passes requests on over HTTP and FastCGI only; put an HTTP server before the application";

/// The directive that is left in the tree if the file that it names cannot be read.
pub(super) const UNREAD: &str = "include";

/// Whether a directive limits access by its name: one of nginx, or of a module that the converter does not know.
pub(super) fn limits(name: &str) -> bool {
    let starts = ["auth_", "access_by_", "modsecurity", "waf", "SecRules"];
    matches!(name, "allow" | "deny" | "internal" | UNREAD)
        || starts.iter().any(|start| name.starts_with(start))
}

/// The fate of a directive that the converter does not know.
pub(super) fn unknown(name: &str) -> Fate {
    match limits(name) {
        true => Fate::open("the converter does not know this directive, which limits access by its name"),
        false => Fate::missing("the converter does not know this directive"),
    }
}

/// Names, separated by spaces; whether Weir needs no line for them; the reason.
const PLAIN: &[(&str, bool, &str)] = &[
    (
        "sendfile tcp_nopush tcp_nodelay sendfile_max_chunk directio aio aio_write output_buffers postpone_output reset_timedout_connection \
         open_file_cache open_file_cache_valid open_file_cache_min_uses open_file_cache_errors",
        true,
        "Weir chooses how it reads and sends files; `cache-size` and `cache-files` bound its cache",
    ),
    (
        "events multi_accept use accept_mutex accept_mutex_delay worker_rlimit_nofile worker_cpu_affinity worker_priority worker_shutdown_timeout \
         worker_aio_requests pcre_jit thread_pool timer_resolution lock_file variables_hash_max_size variables_hash_bucket_size map_hash_max_size \
         map_hash_bucket_size",
        true,
        NO_EFFECT,
    ),
    (
        "worker_connections",
        true,
        "Weir bounds all connections with `max-connections` (65,536) and `max-connections-per-address`",
    ),
    (
        "types_hash_max_size types_hash_bucket_size server_names_hash_bucket_size server_names_hash_max_size",
        true,
        NO_EFFECT,
    ),
    (
        "pid daemon master_process",
        true,
        "Weir runs in the foreground, under a service manager",
    ),
    (
        "error_log debug_connection",
        true,
        "Weir writes its messages about all paths to one log: `server-log`, or standard error",
    ),
    (
        "log_not_found log_subrequest open_log_file_cache",
        true,
        "Weir does not log missing files as errors",
    ),
    ("server_tokens", true, "Weir sends no `Server` field"),
    (
        "gzip_types gzip_vary gzip_proxied gzip_comp_level gzip_min_length gzip_buffers gzip_http_version gzip_disable brotli_types \
         brotli_comp_level brotli_min_length brotli_buffers zstd_types zstd_comp_level zstd_min_length",
        true,
        "Weir compresses types that shrink, from 256 B to 1 MiB, and caches the result",
    ),
    (
        "ssl_ciphers ssl_prefer_server_ciphers ssl_ecdh_curve ssl_conf_command ssl_dhparam ssl_session_cache ssl_session_timeout \
         ssl_session_tickets ssl_session_ticket_key ssl_buffer_size ssl_early_data",
        true,
        TLS,
    ),
    (
        "ssl_stapling ssl_stapling_verify ssl_stapling_file ssl_trusted_certificate resolver resolver_timeout",
        true,
        "Weir staples no OCSP responses; Let's Encrypt ended OCSP in 2025",
    ),
    (
        "http2_max_concurrent_streams",
        true,
        "`max-streams` bounds the requests of a connection",
    ),
    (
        "http2_recv_buffer_size http2_chunk_size http2_max_field_size http2_max_header_size http2_idle_timeout http2_push http2_push_preload \
         http3_hq http3_stream_buffer_size quic_retry quic_gso ssl_quic",
        true,
        "Weir sets the bounds of HTTP/2 and HTTP/3 itself",
    ),
    ("charset_types source_charset override_charset", true, NO_EFFECT),
    (
        "underscores_in_headers ignore_invalid_headers merge_slashes msie_padding msie_refresh port_in_redirect server_name_in_redirect \
         absolute_redirect recursive_error_pages lingering_close lingering_time lingering_timeout client_body_buffer_size \
         client_body_temp_path client_body_in_file_only client_body_in_single_buffer client_header_buffer_size request_pool_size \
         connection_pool_size keepalive_disable chunked_transfer_encoding",
        true,
        NO_EFFECT,
    ),
    (
        "proxy_buffering proxy_request_buffering proxy_buffers proxy_buffer_size proxy_busy_buffers_size proxy_temp_path \
         proxy_temp_file_write_size proxy_max_temp_file_size proxy_headers_hash_max_size proxy_headers_hash_bucket_size proxy_limit_rate \
         proxy_socket_keepalive proxy_send_lowat",
        true,
        "Weir streams bodies in both directions",
    ),
    ("proxy_http_version", true, "Weir speaks HTTP/1.1 to upstreams"),
    (
        "proxy_send_timeout",
        true,
        "`idle-timeout` of the proxy bounds the time without a byte",
    ),
    (
        "proxy_ssl_server_name proxy_ssl_protocols proxy_ssl_session_reuse proxy_ssl_ciphers",
        true,
        "Weir chooses TLS for upstreams itself",
    ),
    (
        "proxy_pass_header proxy_pass_request_headers proxy_pass_request_body",
        true,
        "Weir passes all fields but those of one hop",
    ),
    (
        "if_modified_since etag max_ranges",
        true,
        "Weir answers conditional and range requests by RFC 9110",
    ),
    (
        "zone",
        true,
        "all workers of a Weir process share the state of upstreams",
    ),
    (
        "autoindex_exact_size autoindex_localtime autoindex_format",
        true,
        "Weir's listings are HTML or JSON, as the client prefers",
    ),
    ("uwsgi_pass scgi_pass memcached_pass", false, OTHER_PROTOCOL),
    ("map geo split_clients map_hash", false, "Weir has no variables"),
    ("set", false, "Weir has no variables"),
    (
        "proxy_cache_path proxy_cache_key proxy_cache_valid proxy_cache_use_stale proxy_cache_bypass proxy_no_cache \
         proxy_cache_lock proxy_cache_revalidate proxy_cache_methods proxy_cache_min_uses proxy_cache_background_update \
         proxy_ignore_headers proxy_cache_lock_timeout",
        false,
        CACHE,
    ),
    (
        "limit_rate limit_rate_after",
        false,
        "`line-rate` bounds all responses together, not one",
    ),
    (
        "secure_link secure_link_md5 secure_link_secret",
        false,
        "Weir checks no signed links",
    ),
    (
        "sub_filter sub_filter_once sub_filter_types ssi addition_types add_before_body add_after_body xslt_stylesheet",
        false,
        "Weir does not change content",
    ),
    ("mirror mirror_request_body", false, "Weir copies no requests"),
    (
        "dav_methods dav_access create_full_put_path dav_ext_methods",
        false,
        "Weir stores no files",
    ),
    (
        "image_filter image_filter_jpeg_quality image_filter_buffer",
        false,
        "Weir does not change content",
    ),
    (
        "mp4 flv mp4_buffer_size hls",
        false,
        "Weir answers range requests; it does not cut videos",
    ),
    ("stream mail", false, "Weir speaks HTTP only"),
    ("load_module", false, "Weir loads no modules"),
    ("env", false, "Weir passes no variables on"),
    (
        "proxy_protocol",
        false,
        "write `proxy-protocol` in the `[[proxy]]`",
    ),
    (
        "proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_trusted_certificate proxy_ssl_verify proxy_ssl_name proxy_ssl_verify_depth",
        false,
        "write `[proxy.tls]`; the converter carries no certificates of upstreams",
    ),
    (
        "proxy_hide_header proxy_cookie_path proxy_cookie_domain proxy_cookie_flags proxy_set_body proxy_method",
        false,
        "Weir passes the messages of upstreams on unchanged",
    ),
    (
        "proxy_bind proxy_next_upstream_timeout proxy_ignore_client_abort proxy_force_ranges proxy_store",
        false,
        "this setting of the proxy has no key",
    ),
    (
        "ssl_crl ssl_verify_depth ssl_ocsp ssl_password_file",
        false,
        "Weir reads no revocation lists, and no encrypted keys",
    ),
    (
        "random_index empty_gif perl js_content js_import js_set",
        false,
        "Weir runs no code for a path",
    ),
];

/// The fate of a directive by its name. `None`: it needs more than its name.
pub(super) fn fate(name: &str) -> Option<Fate> {
    if name == UNREAD {
        return Some(files::unread("the file cannot be read"));
    }
    if scripts::is_lost_params(name) {
        return Some(Fate::unneeded("Weir sets the usual parameters itself"));
    }
    if let Some((_, is_unneeded, why)) = PLAIN
        .iter()
        .find(|(names, ..)| names.split_whitespace().any(|known| known == name))
    {
        return Some(match is_unneeded {
            true => Fate::unneeded(*why),
            false => Fate::missing(*why),
        });
    }
    if name.starts_with("fastcgi_") {
        return Some(Fate::missing(
            "the converter carries settings of FastCGI from the location of the scripts, and not all of them",
        ));
    }
    let families = ["uwsgi_", "scgi_", "grpc_", "memcached_"];
    families
        .iter()
        .any(|family| name.starts_with(family))
        .then(|| Fate::missing(OTHER_PROTOCOL))
}
