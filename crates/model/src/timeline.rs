//! The messages of one transaction in their order, with the times that document 004's formulas give them: what its Figures 1 and
//! 2 sketch. The sum is [`Transaction::t`] or [`Transaction::t_ttcp`]; `transaction` decides the terms.

use crate::Seconds;
use crate::transaction::Transaction;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SYN of TCP.
    Syn,
    /// The server's answer to it.
    SynAck,
    /// The request; over T/TCP, with SYN and FIN.
    Request,
    /// A packet of the file.
    Data,
}

/// A message between client and server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// When it is sent, from the start of the transaction.
    pub sent: Seconds,
    /// When it has arrived.
    pub arrived: Seconds,
}

impl Kind {
    /// Whether the client sends it.
    pub fn is_of_client(self) -> bool {
        matches!(self, Kind::Syn | Kind::Request)
    }
}

/// The messages over TCP, or over T/TCP, which needs no set-up.
///
/// A window of slow start is twice as large as the one before, from two packets on; after each of the first S windows, the server
/// waits for R, as `S` counts them. The packets of a window follow each other at the rate of the link.
pub fn timeline(transaction: &Transaction, is_ttcp: bool) -> Vec<Message> {
    let rtt = transaction.transfer.rtt;
    let way = Seconds(rtt.0 / 2.0);
    let mut messages = Vec::new();
    let mut small = |kind, sent: Seconds| {
        messages.push(Message {
            kind,
            sent,
            arrived: sent + way,
        });
        sent + way
    };
    let asked = if is_ttcp {
        small(Kind::Request, Seconds(0.0))
    } else {
        let syn = small(Kind::Syn, Seconds(0.0));
        let answer = small(Kind::SynAck, syn);
        small(Kind::Request, answer)
    };
    let packet = Seconds(transaction.tf.0 / transaction.n.max(1) as f64);
    let (mut window, mut ends, mut stalls) = (2, 2, 0);
    for number in 0..transaction.n {
        if number == ends && stalls < transaction.s {
            window *= 2;
            ends += window;
            stalls += 1;
        }
        let sent = asked + packet * number as f64 + rtt * f64::from(stalls);
        messages.push(Message {
            kind: Kind::Data,
            sent,
            arrived: sent + packet + way,
        });
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::{Mode, Transfer};
    use units::{Bytes, Rate};

    #[test]
    fn the_last_packet_arrives_when_the_formulas_say() {
        for (size, mode) in [
            (400, Mode::Exact),
            (1_500, Mode::Exact),
            (6_000, Mode::Paper),
            (1_048_576, Mode::Exact),
        ] {
            let transfer = Transfer {
                size: Bytes(size),
                rate: Rate(1_544_000),
                rtt: Seconds(0.1),
                mss: Bytes(512),
            };
            let transaction = transfer.transaction(mode).unwrap();
            for (is_ttcp, total) in [(false, transaction.t), (true, transaction.t_ttcp)] {
                let messages = timeline(&transaction, is_ttcp);
                let last = messages.last().unwrap().arrived;
                assert!((last.0 - total.0).abs() < 1e-9, "{size}: {last} and {total}");
                let data = messages
                    .iter()
                    .filter(|message| message.kind == Kind::Data)
                    .count();
                assert_eq!(data as u64, transaction.n);
                assert!(messages.windows(2).all(|pair| pair[0].sent.0 <= pair[1].sent.0));
            }
        }
    }

    #[test]
    fn slow_start_sends_two_packets_then_four() {
        let transfer = Transfer {
            size: Bytes(6_000),
            rate: Rate(1_544_000),
            rtt: Seconds(0.1),
            mss: Bytes(512),
        };
        let messages = timeline(&transfer.transaction(Mode::Exact).unwrap(), true);
        let data: Vec<f64> = messages[1..].iter().map(|message| message.sent.0).collect();
        let pauses: Vec<usize> = (1..data.len())
            .filter(|&place| data[place] - data[place - 1] > 0.1)
            .collect();
        assert_eq!(pauses, [2, 6]);
    }
}
