//! Packet traces: from capture bytes to packets, to connections, to findings that say where time went.
//!
//! Pure: bytes or frames come in, plain serializable values go out. No file is opened, no clock read. A file
//! of any size is read in chunks with memory bounded by [`Limits`]:
//!
//! ```
//! let mut analyzer = trace::Analyzer::new(trace::Options::default());
//! let file: &[u8] = &[]; // chunks of a pcap or pcapng file
//! let outcome = analyzer.feed(file).and_then(|()| analyzer.finish());
//! assert!(outcome.is_err(), "an empty file is no capture");
//! while let Some(event) = analyzer.next_event() {
//!     if let trace::Event::Finding(finding) = event {
//!         println!("{}: {:?}; {}", finding.kind.title(), finding.cost, finding.kind.remedy());
//!     }
//! }
//! println!("{:.1} % overhead", analyzer.summary().volume.overhead_40());
//! ```
//!
//! Terms follow RFC 9293 and the `tcp.analysis` vocabulary. Counters that tcptrace or tshark has too
//! mean the same here (`tests/tools.rs`).

mod analyzer;
mod budget;
mod capture;
mod clock;
mod connection;
mod context;
mod datagrams;
mod direction;
mod dns;
mod event;
mod exchange;
mod filter;
mod finding;
mod flow;
mod fragment;
mod h2;
mod http;
mod lookup;
mod packet;
mod quantity;
mod quic;
mod quic_facts;
mod seq;
mod series;
mod summary;
mod table;
mod times;
mod tls;
mod transaction;
mod udp;
mod volume;

pub use analyzer::{Analyzer, Limits, Options};
pub use capture::{Fault, Found, Frame, LinkType, PcapngWriter, ReadError, Reader, fuzz};
pub use connection::{ConnectionId, End, Side, Vantage};
pub use context::Thresholds;
pub use datagrams::{Carried, Datagrams, UdpTotals};
pub use direction::{Direction, Kinds, Level, Retransmissions, Spread, Volume};
pub use event::{Connection, Event};
pub use filter::{Filter, Network, ParseNetworkError};
pub use finding::{AckTimer, Finding, Kind, Undecodable};
pub use lookup::{DnsTotals, Lookup};
pub use packet::{Datagram, Endpoint, Flags, Fragment, Packet, Segment, TcpOptions};
pub use quic::fuzz_quic;
pub use quic_facts::{
    Close, ErrorSpace, Http3Frame, MessageStart, Quic, QuicDirection, QuicFrame, QuicPacket, QuicParameters,
    QuicStream, QuicSums, QuicTotals, StreamType, TransportParameters,
};
pub use seq::SeqNum;
pub use series::{Mark, Point, Series};
pub use summary::{
    Connections, CwndDistribution, DirectionTotals, FindingTotals, Frames, Summary, TimeSeries, TlsTotals,
};
pub use tls::{
    Alert, ClientHello, Decryption, HelloError, Opener, PacketOpener, Resumption, ServerHello, Suites, Tls,
    Unopened, fuzz_tls,
};
pub use transaction::{HttpCounts, Reset, TARGET_MAX, Transaction};
pub use volume::DatagramVolume;
