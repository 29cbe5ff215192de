//! The load that an open loop plans for each rank, from the arrivals of all ranks. Does not send them.

use crate::arrivals::Arrivals;
use crate::request_source::Dealt;
use crate::run::Share;
use crate::scenario::Script;
use crate::work::Work;
use units::Duration;

/// What the arrivals of all ranks request.
#[derive(Debug)]
pub struct Expected {
    /// The share of each rank, warm-up included.
    pub shares: Vec<Share>,
    /// Number of arrivals after the warm-up, over all ranks.
    pub drawn: u64,
}

/// Adds up the arrivals of the whole process before `until`; `from` is the end of the warm-up. Rank `r` of `size` owns
/// every `size`-th arrival, from the `r`-th on. Both times count from the start of the run.
pub fn expected(
    arrivals: Option<Arrivals>,
    mut dealt: Dealt,
    work: &Work,
    script: Option<&Script>,
    [from, until]: [Duration; 2],
    size: u32,
) -> Expected {
    let each: Vec<Share> = work.objects.iter().map(|files| of(work, files)).collect();
    let mut expected = Expected {
        shares: vec![Share::NONE; size as usize],
        drawn: 0,
    };
    let all = arrivals.into_iter().flatten();
    for (number, at) in all.take_while(|&(_, at)| at < until) {
        expected.drawn += u64::from(at >= from);
        let object = dealt.object(work, number);
        let object = match script {
            Some(script) => script.scenario_of(object.into()),
            None => object as usize,
        };
        expected.shares[(number % u64::from(size)) as usize].add(&each[object]);
    }
    expected
}

/// The share of one object.
fn of(work: &Work, files: &[u32]) -> Share {
    Share {
        users: 0,
        objects: Some(1),
        files: Some(files.len() as u64),
        bytes: files.iter().map(|&file| work.files[file as usize].bytes).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::{Process, Schedule};
    use crate::request_source::RequestSource;
    use std::sync::Arc;
    use units::Seed;

    /// Two objects in turn, the first of two files: ranks own arrivals in turn, too.
    #[test]
    fn ranks_share_the_arrivals_and_the_warm_up_is_not_drawn() {
        let mut work = Work::of_paths(["/a", "/b", "/c"].map(str::to_owned));
        work.objects = vec![[0, 1].into(), [2].into()];
        for (file, bytes) in work.files.iter_mut().zip([10, 20, 400]) {
            file.bytes = Some(bytes);
        }
        let times: Arc<[Duration]> = (0..7).map(Duration::from_secs).collect();
        let dealt = || {
            Dealt::new(RequestSource::Turn {
                order: [0, 1].into(),
                next: 0,
                stride: 1,
            })
        };
        let share = |objects, files, bytes| Share {
            users: 0,
            objects: Some(objects),
            files: Some(files),
            bytes: Some(bytes),
        };
        let of = |work: &Work, size, from, until| {
            let arrivals = Arrivals::given(Arc::clone(&times), 0, 1);
            let span = [from, until].map(Duration::from_secs);
            expected(Some(arrivals), dealt(), work, None, span, size)
        };
        // Arrivals 0 to 4; the one at the end is not among them.
        let alone = of(&work, 1, 0, 5);
        assert_eq!((alone.shares, alone.drawn), (vec![share(5, 8, 890)], 5));
        // Rank 0 has arrivals 0 and 3, rank 1 has 1 and 4, rank 2 has 2.
        let three = of(&work, 3, 2, 5);
        let wanted = vec![share(2, 3, 430), share(2, 3, 430), share(1, 2, 30)];
        assert_eq!((three.shares, three.drawn), (wanted, 3));
        work.files[1].bytes = None;
        assert_eq!(of(&work, 1, 0, 5).shares[0].bytes, None, "a length is unknown");
        let none = expected(None, dealt(), &work, None, [Duration::ZERO, Duration::MAX], 2);
        assert_eq!((none.shares, none.drawn), (vec![Share::NONE; 2], 0));
    }

    #[test]
    fn drawn_arrivals_are_those_of_the_process() {
        let work = Work::of_paths(["/".to_owned()]);
        let process = || Arrivals::new(Process::Poisson, &Schedule::constant(50.0), Seed(4), 0, 1);
        let dealt = Dealt::new(RequestSource::Turn {
            order: [0].into(),
            next: 0,
            stride: 1,
        });
        let span = [3, 10].map(Duration::from_secs);
        let found = expected(Some(process()), dealt, &work, None, span, 4);
        let all: Vec<Duration> = process()
            .map(|(_, at)| at)
            .take_while(|&at| at < span[1])
            .collect();
        let objects: u64 = found.shares.iter().filter_map(|share| share.objects).sum();
        assert_eq!(objects, all.len() as u64);
        assert_eq!(
            found.drawn,
            all.iter().filter(|&&at| at >= span[0]).count() as u64
        );
    }
}
