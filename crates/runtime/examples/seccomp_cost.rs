//! The cost of the seccomp filter per system call: the same calls by threads with and without it, in turn. Prints the
//! fastest of many short runs, which other load on the machine disturbs least.

use runtime::process::privilege;
use runtime::seccomp;
use rustix::net::{RecvFlags, SendFlags};
use std::hint::black_box;
use std::os::unix::net::UnixStream;
use std::time::Instant;

const RUNS: usize = 20_000;
const CALLS: u32 = 40;

/// Nanoseconds per call, of the fastest run.
fn fastest(mut call: impl FnMut()) -> f64 {
    let run = |_| {
        let began = Instant::now();
        (0..CALLS).for_each(|_| call());
        began.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}

fn measure(what: &str) {
    let (one, other) = UnixStream::pair().expect("two descriptors");
    let mut room = [0; 64];
    let number = fastest(|| {
        black_box(rustix::process::getppid());
    });
    let pair = fastest(|| {
        rustix::net::send(&one, b"hello", SendFlags::NOSIGNAL).expect("room for five bytes");
        rustix::net::recv(&other, &mut room[..], RecvFlags::empty()).expect("five bytes");
    });
    println!("{what}: getppid {number:.0} ns, send and receive {pair:.0} ns");
}

fn main() {
    for _ in 0..3 {
        measure("without");
        let filtered = std::thread::spawn(|| {
            privilege::no_new_privileges().expect("Linux 3.5");
            seccomp::restrict(seccomp::Needs::default()).expect("a kernel with seccomp");
            measure("with   ");
        });
        filtered.join().expect("it only measures");
    }
}
