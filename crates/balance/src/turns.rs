//! `round-robin`: upstreams take turns, and each has as many as its weight.

/// An order of turns, and whose turn is next.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    schedule: Vec<u8>,
    next: usize,
}

impl Turns {
    pub(crate) fn new(weights: &[u32]) -> Turns {
        Turns {
            schedule: schedule(weights),
            next: 0,
        }
    }

    /// The next in the schedule that is among these, which are not empty.
    pub(crate) fn take(&mut self, open: &[usize]) -> usize {
        for _ in 0..self.schedule.len() {
            let at = usize::from(self.schedule[self.next]);
            self.next = (self.next + 1) % self.schedule.len();
            if open.contains(&at) {
                return at;
            }
        }
        open[0]
    }
}

/// An order of turns in which each index occurs as often as its weight, spread evenly: each turn goes to the one that is
/// furthest behind its share.
fn schedule(weights: &[u32]) -> Vec<u8> {
    let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    let mut taken = vec![0; weights.len()];
    (1..=total)
        .map(|turn| {
            let behind = |at: &usize| (u64::from(weights[*at]) * turn) as i64 - (taken[*at] * total) as i64;
            // The first of equals.
            let next = (0..weights.len()).rev().max_by_key(behind).unwrap_or(0);
            taken[next] += 1;
            next as u8
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_the_weights_evenly() {
        assert_eq!(schedule(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(schedule(&[3, 1]), [0, 0, 1, 0]);
        assert_eq!(schedule(&[100, 100]).len(), 200);
    }

    #[test]
    fn closed_upstreams_lose_their_turns() {
        let mut turns = Turns::new(&[1, 1, 1]);
        let taken: Vec<usize> = (0..4).map(|_| turns.take(&[0, 2])).collect();
        assert_eq!(taken, [0, 2, 0, 2]);
    }
}
