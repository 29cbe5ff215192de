//! Times the flow simulation at scale: a million users on a thousand lines, against mean value analysis.
//!
//! `cargo run --release -p model --example flow [USERS [LINES [SECONDS]]]`; exits with 1 when the simulated
//! response leaves the analytical one by more than 2 %.

use model::closed::{Network, Station};
use model::flow::{Discipline, Dispatch, Limits, Plan, Source, alone, run};
use model::{DomainError, Seconds, Sizes};
use std::process::ExitCode;
use units::{Bytes, Rate, Seed};

fn main() -> Result<ExitCode, DomainError> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<f64>().ok());
    let mut next = |default: f64| arguments.next().flatten().unwrap_or(default);
    let (users, lines, seconds) = (next(1e6) as u32, next(1e3) as usize, next(60.0));
    // 125 KB pages over 100 Mbit/s, 10 s of thought: each line at about 95 % with a thousand users.
    let sizes = Sizes::Exponential {
        mean: Bytes(118_750).0 as f64,
    };
    let rate = Rate::mbit(100);
    let service = alone(&sizes, rate);
    let plan = Plan {
        source: Source::Closed {
            users,
            think: Sizes::Exponential { mean: 10.0 },
        },
        sizes,
        lines: vec![rate; lines],
        discipline: Discipline::Sharing,
        dispatch: Dispatch::Fixed,
        latency: Seconds(0.09),
        warmup: Seconds(30.0),
        measured: Seconds(seconds),
        seed: Seed(1),
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "an example that times itself is its own driver"
    )]
    let begun = std::time::Instant::now();
    let outcome = run(&plan, &Limits::DEFAULT)?;
    let took = begun.elapsed().as_secs_f64();
    print!("{outcome}");
    let o = outcome.answer;
    println!(
        "{users} users, {lines} lines, {} s simulated: {} events in {took:.2} s, {:.0} ns each",
        30.0 + seconds,
        o.events,
        1e9 * took / o.events as f64
    );
    let stations = vec![
        Station::queue("line", service),
        Station::delay("latency", plan.latency),
    ];
    let exact = Network::new(stations, Seconds(10.0))?.exact(u64::from(users) / lines as u64)?;
    let apart = o.response.0 / exact.response.0 - 1.0;
    println!(
        "mean value analysis: {} ({:+.2} % apart)",
        exact.response,
        100.0 * apart
    );
    Ok(if apart.abs() < 0.02 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
