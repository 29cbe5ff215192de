//! The whole set against the document's targets.

use super::*;
use crate::parameters::Set;

fn surge(seed: u64) -> Surge {
    Surge::new(Parameters::published(Set::Table8), Seed(seed)).unwrap()
}

#[test]
fn explore() {
    for seed in 0..8 {
        let surge = surge(seed);
        let mut sizes: Vec<u64> = surge.files.iter().map(|f| f.size.0).collect();
        sizes.sort_unstable();
        let per: Vec<usize> = surge.objects.iter().map(|o| o.files.len()).collect();
        let requests = surge.requests();
        let total: u64 = requests.iter().sum();
        let bytes: u64 = requests.iter().zip(&surge.files).map(|(r, f)| r * f.size.0).sum();
        let dist = matching::distance(
            surge.files.iter().zip(&surge.references).map(|(f, &r)| (f.size.0, r)),
            &surge.parameters.request_size, 34_102);
        let dist2 = matching::distance(
            surge.files.iter().zip(&requests).map(|(f, &r)| (f.size.0, r)),
            &surge.parameters.request_size, 34_102);
        println!("seed {seed} bytes {} mean {} median {} max {} files/object {:.2} seq {} reqs {} files/req-object {:.3} bytes/get {:.0} exch {} match {:?} after {:?} zipf {:.4}",
            surge.bytes(), surge.bytes() / 2000, sizes[1000], sizes[1999],
            per.iter().sum::<usize>() as f64 / per.len() as f64,
            surge.sequence_length(), total, total as f64 / surge.sequence_length() as f64, bytes as f64 / total as f64, surge.exchanged, dist, dist2,
            popularity::distance(&requests.iter().copied().filter(|&r| r > 0).collect::<Vec<_>>(), 1.0));
    }
    for window in [1, 3, 5, 7, 9, 15, 25, 51, 101] {
        let mut p = Parameters::published(Set::Table8);
        p.stack_window = window;
        let surge = Surge::new(p, Seed(1)).unwrap();
        let seq: Vec<u32> = surge.sequence().collect();
        let mut d = crate::sequence::distances(seq.iter().copied());
        let n = seq.len();
        let tops: Vec<f64> = seq.chunks(n / 10).map(|c| { let mut m = std::collections::HashMap::new(); for &o in c { *m.entry(o).or_insert(0) += 1; } *m.values().max().unwrap() as f64 / c.len() as f64 }).collect();
        let distinct: Vec<usize> = seq.chunks(n / 10).map(|c| c.iter().collect::<std::collections::HashSet<_>>().len()).collect();
        let fit = crate::fit::kolmogorov_smirnov_whole(&mut d, |v| surge.parameters.stack_distance.cdf(v as f64 + 0.5));
        println!("window {window} D {:.4} tops {tops:.2?} distinct {distinct:?}", fit.statistic);
    }
    let p = Parameters::published(Set::Table8);
    println!("mean {}", p.mean_size());
}
