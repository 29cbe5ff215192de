//! The flags for the sender's TCP and for the set-up before a request. Leaves checks of their values to the formulas.

use super::values::bytes;
use ::model::tcp::Sender;
use ::model::tcp::setup::Setup;
use clap::{Args, ValueEnum};
use units::Bytes;

/// A set of sender defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SenderName {
    /// Ten segments first, doubling, timestamps (RFC 6928, 3465, 7323)
    Modern,
    /// 4.4BSD: one segment first, delayed ACKs, 16 KiB window
    Bsd,
    /// As in document 004: one segment first, doubling, no headers
    Document,
}

/// The flags of a sender and of its connection set-up.
#[derive(Debug, Args)]
pub(crate) struct SenderFlags {
    /// Defaults for the sender's TCP
    #[arg(long, value_enum, default_value = "modern", help_heading = "TCP")]
    sender: SenderName,

    /// Maximum segment size, as in the MSS option; with --sender modern, timestamps take 12 of these bytes
    #[arg(long, value_name = "BYTES", value_parser = mss, default_value = "1460", help_heading = "TCP")]
    pub(crate) mss: Bytes,

    /// Initial window in segments [default: the sender's]
    #[arg(long, value_name = "SEGMENTS", help_heading = "TCP")]
    initial_window: Option<f64>,

    /// Growth factor of the window per round trip in slow start, at most 2 [default: the sender's]
    #[arg(long, value_name = "FACTOR", help_heading = "TCP")]
    growth: Option<f64>,

    /// Segments that one ACK covers; sets the growth factor to 1 + 1/N unless --growth is given [default: the sender's]
    #[arg(long, value_name = "N", help_heading = "TCP")]
    delayed_acks: Option<f64>,

    /// Largest window: the receive window or the send buffer [default: the sender's]
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "TCP")]
    window: Option<Bytes>,

    /// Connection set-up before the request: open, tcp, t-tcp, tfo, tls1.2, tls1.2-resumed, tls1.3, tls1.3-resumed,
    /// tls1.3-0rtt, tfo+tls1.3, tfo+tls1.3-0rtt, quic, quic-0rtt
    #[arg(long, value_name = "NAME", default_value = "tcp", value_parser = setup, help_heading = "TCP")]
    pub(crate) setup: Setup,
}

impl SenderFlags {
    /// The sender, unchecked: the formulas refuse impossible values.
    pub(crate) fn sender(&self) -> Sender {
        let mut sender = match self.sender {
            SenderName::Modern => Sender::modern(self.mss),
            SenderName::Bsd => Sender::bsd(self.mss),
            SenderName::Document => Sender::document(self.mss),
        };
        if let Some(b) = self.delayed_acks {
            sender = sender.with_delayed_acks(b);
        }
        if let Some(growth) = self.growth {
            sender.growth = growth;
        }
        if let Some(segments) = self.initial_window {
            sender = sender.with_initial_window(segments);
        }
        if let Some(cap) = self.window {
            sender = sender.with_window_max(cap);
        }
        sender
    }
}

/// An MSS that Linux and IPv4 allow: at least 88 bytes (TCP_MIN_MSS), at most 65,495 (largest IPv4 packet).
fn mss(text: &str) -> Result<Bytes, String> {
    bytes(text)
        .ok()
        .filter(|mss| (88..=65_495).contains(&mss.0))
        .ok_or_else(|| format!("`{text}` is not an MSS: write 88 to 65495, in bytes"))
}

fn setup(text: &str) -> Result<Setup, String> {
    let names = || Setup::ALL.map(Setup::name).join(", ");
    Setup::from_name(text)
        .ok_or_else(|| format!("`{text}` is not a connection set-up: write one of {}", names()))
}
