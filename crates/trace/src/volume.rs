//! Datagrams and bytes of one direction.

use crate::packet::Datagram;
use serde::Serialize;

/// Length of a UDP header in bytes.
const HEADER: u64 = 8;

/// Datagrams and bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatagramVolume {
    /// Number of datagrams.
    pub datagrams: u64,
    /// Payload in bytes.
    #[serde(rename = "payload_bytes")]
    pub payload: u64,
    /// IP and UDP headers in bytes.
    #[serde(rename = "header_bytes")]
    pub headers: u64,
}

impl DatagramVolume {
    pub(crate) fn add(&mut self, datagram: &Datagram<'_>) {
        self.datagrams += 1;
        self.payload += u64::from(datagram.payload_len);
        self.headers += u64::from(datagram.ip_header) + HEADER;
    }

    pub(crate) fn merge(&mut self, other: DatagramVolume) {
        self.datagrams += other.datagrams;
        self.payload += other.payload;
        self.headers += other.headers;
    }
}
