//! The flags that say how a sender opens its window and what precedes a request. Leaves what is possible to the formulas.

use super::values::bytes;
use ::model::tcp::Sender;
use ::model::tcp::setup::Setup;
use clap::{Args, ValueEnum};
use measure::Bytes;

/// Whose habits a sender has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SenderName {
    /// Ten segments first, doubling, timestamps (RFC 6928, 3465, 7323)
    Modern,
    /// 4.4BSD's age: one segment, delayed ACKs, 16 KiB window
    Bsd,
    /// Document 004's: one segment, doubling, no headers
    Document,
}

/// A sender and how connections are made.
#[derive(Debug, Args)]
pub(crate) struct SenderFlags {
    /// Whose habits the sender has
    #[arg(long, value_enum, default_value = "modern", help_heading = "TCP")]
    sender: SenderName,

    /// Largest segment, as the MSS option says; time stamps take 12 bytes of the modern sender's
    #[arg(long, value_name = "BYTES", value_parser = mss, default_value = "1460", help_heading = "TCP")]
    pub(crate) mss: Bytes,

    /// Initial window in segments [default: the sender's]
    #[arg(long, value_name = "SEGMENTS", help_heading = "TCP")]
    initial_window: Option<f64>,

    /// Growth of the window in a round trip of slow start, up to 2 [default: the sender's]
    #[arg(long, value_name = "FACTOR", help_heading = "TCP")]
    growth: Option<f64>,

    /// Segments an ACK covers; growth becomes 1 + 1/N unless given [default: the sender's]
    #[arg(long, value_name = "N", help_heading = "TCP")]
    delayed_acks: Option<f64>,

    /// Largest window: the receiver's, or the send buffer [default: the sender's]
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "TCP")]
    window: Option<Bytes>,

    /// What precedes the request: open, tcp, t-tcp, tfo, tls1.2, tls1.2-resumed, tls1.3, tls1.3-0rtt,
    /// tfo+tls1.3, tfo+tls1.3-0rtt, quic, quic-0rtt
    #[arg(long, value_name = "NAME", default_value = "tcp", value_parser = setup, help_heading = "TCP")]
    pub(crate) setup: Setup,
}

impl SenderFlags {
    /// The sender; whether its numbers make sense is for the formula to say.
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

/// What an MSS option may say: Linux refuses less than 88 bytes (TCP_MIN_MSS), and an IPv4 packet holds no more than 65,495.
fn mss(text: &str) -> Result<Bytes, String> {
    bytes(text)
        .ok()
        .filter(|mss| (88..=65_495).contains(&mss.0))
        .ok_or_else(|| format!("`{text}` is no MSS: write 88 to 65495, in bytes"))
}

fn setup(text: &str) -> Result<Setup, String> {
    let names = || Setup::ALL.map(Setup::name).join(", ");
    Setup::from_name(text)
        .ok_or_else(|| format!("`{text}` is no way to open a connection; there are {}", names()))
}
