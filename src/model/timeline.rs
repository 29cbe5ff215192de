//! The messages of one transaction with their times: document 004's Figures 1 and 2 by its formulas, and a simulated connection
//! beside them. Decides what is simulated; `::model::timeline` and `simulate` compute the times.

use super::grid::{Cell, Grid};
use super::simulate::{Scene, stack};
use crate::failure::Failure;
use ::model::Seconds;
use ::model::timeline::{Kind, timeline};
use ::model::transaction::Transaction;
use link::Direction;
use netsim::Logged;
use units::Seed;

/// Most packets of a file that are listed.
const PACKETS_MAX: u64 = 1_000;
/// Stacks of the document's client and server, as `weir model experiment` has them by default.
const STACKS: [&str; 2] = ["solaris-2.5", "linux-2.0"];

/// A row for each message: by the formulas over TCP and T/TCP, and simulated over TCP.
pub(super) fn grid(transaction: &Transaction) -> Result<Grid, Failure> {
    if transaction.n > PACKETS_MAX {
        return Err(Failure::Usage(format!(
            "--timeline: the file has {} packets and at most {PACKETS_MAX} are listed; use a smaller file or a larger --mss",
            transaction.n
        )));
    }
    let columns = [
        ("by", ""),
        ("over", ""),
        ("message", ""),
        ("kind", ""),
        ("from", ""),
        ("sent", "ms"),
        ("arrived", "ms"),
    ];
    let mut grid = Grid::new("time line", &columns);
    for (over, is_ttcp) in [("TCP", false), ("T/TCP", true)] {
        for (number, message) in timeline(transaction, is_ttcp).into_iter().enumerate() {
            let from = if message.kind.is_of_client() {
                "client"
            } else {
                "server"
            };
            grid.row([
                "formulas".into(),
                over.into(),
                Cell::Count(number as u64 + 1),
                word(message.kind).into(),
                from.into(),
                Cell::Number(message.sent.as_millis()),
                Cell::Number(message.arrived.as_millis()),
            ]);
        }
    }
    for (number, segment) in simulated(transaction)?.iter().enumerate() {
        let from = match segment.direction {
            Direction::Up => "client",
            Direction::Down => "server",
        };
        let ms = |at: units::Instant| Seconds(at.as_nanos() as f64 / 1e9).as_millis();
        grid.row([
            "simulation".into(),
            "TCP".into(),
            Cell::Count(number as u64 + 1),
            kind(segment).into(),
            from.into(),
            Cell::Number(ms(segment.sent)),
            segment.arrived.map_or(Cell::Missing, |at| Cell::Number(ms(at))),
        ]);
    }
    Ok(grid)
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Syn => "SYN",
        Kind::SynAck => "SYN, ACK",
        Kind::Request => "request",
        Kind::Data => "data",
    }
}

/// The word for a segment. A FIN with data is data.
fn kind(segment: &Logged) -> &'static str {
    let (flags, is_up) = (segment.segment.flags, segment.direction == Direction::Up);
    match (flags.syn, segment.segment.payload.is_empty()) {
        (true, _) if is_up => word(Kind::Syn),
        (true, _) => word(Kind::SynAck),
        (false, false) if is_up => word(Kind::Request),
        (false, false) => word(Kind::Data),
        (false, true) if flags.fin => "FIN",
        (false, true) => "ACK",
    }
}

/// The segments of one simulated user.
fn simulated(transaction: &Transaction) -> Result<Vec<Logged>, Failure> {
    let transfer = transaction.transfer;
    let mss = u16::try_from(transfer.mss.0).unwrap_or(u16::MAX);
    let [client, server] = STACKS;
    let [mut client, mut server] = [stack(client)?, stack(server)?];
    // The line of the simulation takes packets of 1,500 bytes.
    client.mss = mss.min(1_460);
    server.mss = client.mss;
    let scene = Scene {
        rate: transfer.rate,
        rtt: transfer.rtt,
        local: false,
        client,
        server,
        users: 1,
        page: transfer.size,
        server_time: Seconds(0.0),
        seed: Seed(1),
    };
    // As many acknowledgments as packets, and the ends of the connection.
    scene.segments(4 * PACKETS_MAX as usize)
}
