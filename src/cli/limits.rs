//! The flags of `weir serve` for limits: connections, requests, times and memory. Decides nothing about them.

use clap::Args;
use server::config::{Config, MaxTurn, MemoryBound, parse_duration};
use units::{Bytes, Duration};

/// Flags for limits. A flag that was not given is `None`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitFlags {
    /// Target for event-loop latency, such as 20ms, or off. Above it, requests get 503 unless a small file in memory
    /// answers them [default: off]
    #[arg(long, value_name = "TIME", env = "WEIR_MAX_TURN")]
    pub(super) max_turn: Option<MaxTurn>,

    /// Memory limit: BYTES, auto (the limit of the control group), off. As memory fills up, connections are read and
    /// answered in smaller portions, idle ones are closed, and at last requests get 503 [default: auto]
    #[arg(long, value_name = "BYTES", env = "WEIR_MEMORY")]
    memory: Option<MemoryBound>,

    /// Connection limit; at the limit, the connection idle longest is closed for a new one [default: 65536]
    #[arg(long, value_name = "N", env = "WEIR_MAX_CONNECTIONS")]
    max_connections: Option<u32>,

    /// Connection limit per address (IPv6: per /64) [default: a quarter of the connection limit, at least 16]
    #[arg(long, value_name = "N", env = "WEIR_MAX_CONNECTIONS_PER_ADDRESS")]
    max_connections_per_address: Option<u32>,

    /// Limit on TLS handshakes under way; above it, a new handshake has only one second to complete [default: half of
    /// the connection limit]
    #[arg(long, value_name = "N", env = "WEIR_MAX_HANDSHAKES")]
    max_handshakes: Option<u32>,

    /// Limit on TLS handshakes under way per address (IPv6: per /64) [default: half of the address's connection limit]
    #[arg(long, value_name = "N", env = "WEIR_MAX_HANDSHAKES_PER_ADDRESS")]
    max_handshakes_per_address: Option<u32>,

    /// Limit on requests per connection; 0: no limit [default: 0]
    #[arg(long, value_name = "N", env = "WEIR_MAX_REQUESTS_PER_CONNECTION")]
    max_requests_per_connection: Option<u32>,

    /// Limit on pipelined requests of a connection answered in one pass of the event loop [default: 128]
    #[arg(long, value_name = "N", env = "WEIR_MAX_PIPELINE")]
    max_pipeline: Option<u32>,

    /// Limit on requests of an HTTP/2 or HTTP/3 connection at a time; over HTTP/2, further requests are refused in a
    /// way that lets clients repeat them [default: 128]
    #[arg(long, value_name = "N", env = "WEIR_MAX_STREAMS")]
    max_streams: Option<u32>,

    /// Limit on requests per second of one address, over all its connections; above it: 429; 0: no limit [default: 0]
    #[arg(long, value_name = "N", env = "WEIR_MAX_REQUEST_RATE")]
    max_request_rate: Option<u32>,

    /// Requests that one address may send at once before --max-request-rate applies [default: 100]
    #[arg(long, value_name = "N", env = "WEIR_MAX_REQUEST_BURST")]
    max_request_burst: Option<u32>,

    /// Limit on the size of a request head; above it: 431 [default: 16KiB]
    #[arg(long, value_name = "BYTES", env = "WEIR_MAX_HEAD_SIZE")]
    max_head_size: Option<Bytes>,

    /// Limit on field lines of a request; above it: 431 [default: 100]
    #[arg(long, value_name = "N", env = "WEIR_MAX_FIELDS")]
    max_fields: Option<usize>,

    /// Limit on the length of a request target; above it: 414 [default: 8KiB]
    #[arg(long, value_name = "BYTES", env = "WEIR_MAX_TARGET_LENGTH")]
    max_target_length: Option<Bytes>,

    /// Limit on the size of a request body, which is read and discarded; above it: 413 [default: 1MiB]
    #[arg(long, value_name = "BYTES", env = "WEIR_MAX_BODY_SIZE")]
    max_body_size: Option<Bytes>,

    /// Limit on ranges of one request; above it, the whole file is sent [default: 16]
    #[arg(long, value_name = "N", env = "WEIR_MAX_RANGES")]
    max_ranges: Option<usize>,

    /// Minimum rate of a request body, in bytes per second [default: 500]
    #[arg(long, value_name = "BYTES", env = "WEIR_MIN_BODY_RATE")]
    min_body_rate: Option<Bytes>,

    /// Time to receive a request head; then 408 [default: 20s]
    #[arg(long, value_name = "TIME", env = "WEIR_HEADER_TIMEOUT", value_parser = parse_duration)]
    header_timeout: Option<Duration>,

    /// Time a persistent connection may be idle between a response and the next request [default: 65s]
    #[arg(long, value_name = "TIME", env = "WEIR_IDLE_TIMEOUT", value_parser = parse_duration)]
    pub(super) idle_timeout: Option<Duration>,

    /// Time to receive a request body, in addition to the time its size takes at --min-body-rate; then 408 [default:
    /// 20s]
    #[arg(long, value_name = "TIME", env = "WEIR_BODY_TIMEOUT", value_parser = parse_duration)]
    body_timeout: Option<Duration>,

    /// Longest time in which a client acknowledges no byte of a response; then the connection is reset. Waiting for
    /// --line-rate does not count [default: 30s]
    #[arg(long, value_name = "TIME", env = "WEIR_WRITE_TIMEOUT", value_parser = parse_duration)]
    write_timeout: Option<Duration>,

    /// Minimum average rate at which a client acknowledges a response, in bytes per second, applied after
    /// --write-timeout; below it, the connection is reset; 0: no minimum [default: 0]
    #[arg(long, value_name = "BYTES", env = "WEIR_MIN_SEND_RATE")]
    min_send_rate: Option<Bytes>,

    /// Time a request may wait for a file to be opened, read or compressed; then 503 [default: 20s]
    #[arg(long, value_name = "TIME", env = "WEIR_DISK_TIMEOUT", value_parser = parse_duration)]
    disk_timeout: Option<Duration>,

    /// Limit on requests waiting for the disk; above it: 503 [default: 1024]
    #[arg(long, value_name = "N", env = "WEIR_MAX_DISK_QUEUE")]
    max_disk_queue: Option<u32>,

    /// Time for the client to close the connection after the server has closed its side [default: 5s]
    #[arg(long, value_name = "TIME", env = "WEIR_LINGER_TIMEOUT", value_parser = parse_duration)]
    linger_timeout: Option<Duration>,

    /// Time for connections to finish their responses when the server stops [default: 10s]
    #[arg(long, value_name = "TIME", env = "WEIR_GRACE", value_parser = parse_duration)]
    grace: Option<Duration>,

    /// Time for which Weir still accepts connections after a stop request; /readyz answers 503 meanwhile [default: 0s]
    #[arg(long, value_name = "TIME", env = "WEIR_DRAIN_DELAY", value_parser = parse_duration)]
    drain_delay: Option<Duration>,
}

impl LimitFlags {
    /// Overrides the configuration with the flags given.
    pub(super) fn override_in(&self, config: &mut Config) {
        macro_rules! take {
            ($($field:ident),* $(,)?) => {
                $(if let Some(value) = &self.$field { config.$field = value.clone(); })*
            };
        }
        macro_rules! take_set {
            ($($field:ident),* $(,)?) => {
                $(if self.$field.is_some() { config.$field = self.$field; })*
            };
        }
        take!(
            max_turn,
            memory,
            max_connections,
            max_requests_per_connection,
            max_pipeline,
            max_streams,
            max_request_rate,
            max_request_burst,
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
            drain_delay
        );
        take_set!(
            max_connections_per_address,
            max_handshakes,
            max_handshakes_per_address
        );
    }
}
