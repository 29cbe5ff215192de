//! Copies a range of a byte queue, as at most two blocks: simulations copy every byte they send several times.

use std::collections::VecDeque;

/// The bytes `from..to` of `queue`.
///
/// # Panics
/// If the queue is shorter than `to`, or `from` is behind `to`.
pub(crate) fn copied(queue: &VecDeque<u8>, from: usize, to: usize) -> Vec<u8> {
    let (front, back) = queue.as_slices();
    let mut bytes = Vec::with_capacity(to - from);
    let seam = front.len();
    if from < seam {
        bytes.extend_from_slice(&front[from..to.min(seam)]);
    }
    if to > seam {
        bytes.extend_from_slice(&back[from.saturating_sub(seam)..to - seam]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_is_that_of_the_queue() {
        let mut queue: VecDeque<u8> = VecDeque::with_capacity(8);
        queue.extend([0; 6]);
        queue.drain(..5);
        queue.extend(1..=7);
        assert!(!queue.as_slices().1.is_empty(), "the queue wraps");
        for from in 0..=queue.len() {
            for to in from..=queue.len() {
                let expected: Vec<u8> = queue.range(from..to).copied().collect();
                assert_eq!(copied(&queue, from, to), expected, "{from}..{to}");
            }
        }
    }
}
