//! The limits of connections that a configuration means, and how long the transport may be silent.

use super::Config;
use crate::limits::Limits;
use units::Duration;

/// What the transport of HTTP/3 waits beyond the longest wait for an upstream, so that this ends first, with an answer.
const SILENCE_MARGIN: Duration = Duration::from_secs(5);

impl Config {
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
            silence: self.silence_max(),
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
}
