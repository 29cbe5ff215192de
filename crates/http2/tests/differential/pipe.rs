//! Bytes between our end, which does no I/O, and a pipe in memory.

use core::pin::Pin;
use core::task::Poll;
use std::future::poll_fn;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use units::{Draw, Rng};

/// An end of a connection as the pipe sees it.
pub(crate) trait End {
    /// Adds output if there is little; whether all is done.
    fn fill(&mut self) -> bool;

    /// Takes input; returns the bytes used.
    fn take(&mut self, input: &[u8]) -> usize;

    /// Output not yet written.
    fn out(&mut self) -> &mut Vec<u8>;
}

/// Moves bytes between the pipe and our end in pieces of seeded sizes, until the peer closes.
/// Closes first if our end is done.
pub(crate) async fn drive<E: End>(mut io: DuplexStream, mut rng: Rng, end: &mut E) {
    let (mut input, mut done) = (Vec::new(), false);
    poll_fn(|cx| {
        loop {
            let mut moved = false;
            if end.fill() && !done {
                // What the peer still writes must find a reader: it closes once it has read our end.
                done = true;
                let _ = Pin::new(&mut io).poll_shutdown(cx);
            }
            let piece = 1 + (rng.next_u64() % 30_000) as usize;
            let out = end.out();
            if !out.is_empty() {
                let bytes = &out[..piece.min(out.len())];
                match Pin::new(&mut io).poll_write(cx, bytes) {
                    Poll::Ready(Ok(written)) => {
                        out.drain(..written);
                        moved = true;
                    }
                    // The peer has closed; what it wrote before is still to be read.
                    Poll::Ready(Err(_)) => out.clear(),
                    Poll::Pending => {}
                }
            }
            let mut space = vec![0; 1 + (rng.next_u64() % 30_000) as usize];
            let mut buffer = ReadBuf::new(&mut space);
            if let Poll::Ready(read) = Pin::new(&mut io).poll_read(cx, &mut buffer) {
                if read.is_err() || buffer.filled().is_empty() {
                    return Poll::Ready(());
                }
                input.extend_from_slice(buffer.filled());
                let used = end.take(&input);
                input.drain(..used);
                moved = true;
            }
            if !moved {
                return Poll::Pending;
            }
        }
    })
    .await;
}
