//! A toy protocol over datagrams, on the contract alone: every line of a datagram comes back reversed, and a datagram that
//! does not end in a line break is answered with nothing.
//!
//! `cargo run -p runtime --example echo_udp -- 127.0.0.1:7777 [WORKERS]`, then `echo hello | nc -u -w1 127.0.0.1 7777`.
//! Ends after a minute.

use runtime::datagram::{Address, Datagram, Endpoint, Limits, Others, Outbox, Owner, bind, serve};
use units::{Duration, Instant};

/// Answers that found no room in the outbox wait here, bounded; later ones are dropped.
#[derive(Default)]
struct Echo {
    waiting: Vec<(Address, Vec<u8>)>,
}

const WAITING_MAX: usize = 1_000;

/// The answer to a datagram, if it ends in a line break.
fn reversed(bytes: &[u8]) -> Option<Vec<u8>> {
    let lines = bytes.strip_suffix(b"\n")?.split(|&b| b == b'\n');
    Some(
        lines
            .flat_map(|line| line.iter().rev().copied().chain([b'\n']))
            .collect(),
    )
}

impl Endpoint for Echo {
    type Job = runtime::NoJob;

    fn handle(&mut self, batch: &mut [Datagram<'_>], _: &mut Outbox, _: Instant) {
        for datagram in batch {
            if let Some(answer) = reversed(datagram.bytes)
                && self.waiting.len() < WAITING_MAX
            {
                let address = Address {
                    to: datagram.from,
                    local: datagram.local,
                    ecn: datagram.ecn,
                    segment: None,
                };
                self.waiting.push((address, answer));
            }
        }
    }

    fn poll(&mut self, out: &mut Outbox, _: Instant) -> bool {
        let mut sent = 0;
        while let Some((address, answer)) = self.waiting.get(sent)
            && out.push(|buffer| {
                buffer.extend_from_slice(answer);
                Some(*address)
            })
        {
            sent += 1;
        }
        self.waiting.drain(..sent);
        !self.waiting.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn owner(&self, _: &[u8]) -> Owner {
        Owner::Anyone
    }

    fn drain(&mut self, _: &mut Outbox, _: Instant) {}

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:7777".to_owned());
    let workers = words.next().map_or(Ok(2), |count| count.parse())?;
    let sockets = bind(address.parse()?, workers, false)?;
    println!("udp://{}, {} workers", sockets[0].local_addr()?, sockets.len());
    let handle = serve(sockets, Others::default(), |_| Echo::default(), Limits::default())?;
    std::thread::park_timeout(std::time::Duration::from_secs(60));
    println!("{:?}", handle.counts());
    handle.drain(Duration::from_secs(1));
    handle.join()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::datagram::Sim;

    #[test]
    fn lines_come_back_reversed() {
        let mut sim = Sim::new(Echo::default());
        let peer = ([192, 0, 2, 1], 7).into();
        sim.send_batch(&[(peer, b"abc\nde\n"), (peer, b"no end")]);
        assert_eq!(sim.take_sent(), [(peer, b"cba\ned\n".to_vec())]);
    }

    #[test]
    fn what_finds_no_room_waits_and_is_bounded() {
        let mut sim = Sim::new(Echo::default());
        let peer = ([192, 0, 2, 1], 7).into();
        let large = [vec![b'x'; 9_999], b"\n".to_vec()].concat();
        let batch = vec![(peer, &large[..]); WAITING_MAX + 1];
        sim.send_batch(&batch);
        assert_eq!(sim.take_sent().len(), WAITING_MAX);
    }
}
