//! An open stream of requests over several unequal servers: the split with the least mean turnaround, and what one more
//! server like one of them would change.
//!
//! Document 004 gives the next user to the line whose total turnaround grows least. Requests to a proxy arrive one by one,
//! so each server is a queue with processor sharing instead: the turnaround is `n + s / (1 - rho)` (Kleinrock 1967), and a
//! higher arrival rate costs `n + s / (1 - rho)^2` per request. The best split makes this cost equal for all servers in use
//! (Gallager 1977). Knows nothing of proxies and their records.

use crate::Seconds;
use crate::domain::{DomainError, non_negative, positive};
use crate::explain::{Explained, Quantity, Region, counted, significant};
use serde::Serialize;

/// A server as observed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Upstream {
    /// Name in answers.
    pub name: String,
    /// `lambda`, requests per second that it gets.
    pub arrivals: f64,
    /// `s`, time a request would take if it were alone there.
    pub service: Seconds,
    /// `n`, time in the network.
    pub network: Seconds,
}

/// A server with its part of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// `lambda`, requests per second.
    pub arrivals: f64,
    /// `rho`, busy fraction of the server.
    pub utilization: f64,
    /// Mean turnaround of its requests; absent if it gets more than it can serve.
    pub turnaround: Option<Seconds>,
    /// By how much one more request per second increases the sum of turnarounds of a second; absent as above.
    pub growth: Option<Seconds>,
}

/// A split of all requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// The part of each server, in the order of the servers.
    pub shares: Vec<Share>,
    /// Mean turnaround of all requests; absent if a server gets more than it can serve.
    pub turnaround: Option<Seconds>,
}

/// Further servers like one of the observed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Addition {
    /// Index of the server that they are like.
    pub like: usize,
    /// Their number.
    pub count: u32,
    /// Mean turnaround with them and the best split.
    pub turnaround: Seconds,
}

/// What the observation says of capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// The requests as they are distributed now.
    pub now: Split,
    /// The best split over the same servers; absent if there are more requests than all can serve.
    pub best: Option<Split>,
    /// For each server, in their order: the fewest further ones like it that serve all requests, and reach the objective if
    /// there is one; absent if [`ADDED_MAX`] do not.
    pub additions: Vec<Option<Addition>>,
}

/// Limit on the servers added of one kind.
pub const ADDED_MAX: u32 = 1_000;

/// What to add to `servers`, for a mean turnaround of at most `objective` if given. Fails without servers or requests, with
/// a service time of 0 s, and if no number of servers reaches the objective.
pub fn capacity(
    servers: &[Upstream],
    objective: Option<Seconds>,
) -> Result<Explained<Capacity>, DomainError> {
    if servers.is_empty() {
        return Err(DomainError::TooFew {
            what: "upstreams",
            got: 0,
            need: 1,
        });
    }
    for server in servers {
        non_negative("arrival rate", server.arrivals, "0 per second or more")?;
        positive("service time", server.service.0, "above 0 s")?;
        non_negative("network time", server.network.0, "0 s or more")?;
    }
    let all = servers.iter().map(|server| server.arrivals).sum();
    positive("arrival rate", all, "above 0 per second")?;
    let fastest = servers.iter().map(alone).fold(f64::INFINITY, f64::min);
    if let Some(Seconds(objective_s)) = objective.filter(|objective| objective.0 <= fastest) {
        return Err(DomainError::Unattainable {
            objective_s,
            floor_s: fastest,
            because: "service and network time of a request that is alone at the fastest upstream".to_owned(),
        });
    }
    let shares: Vec<Share> = servers
        .iter()
        .map(|server| share(server, server.arrivals))
        .collect();
    let now = Split {
        turnaround: mean(&shares, all),
        shares,
    };
    let best = split(servers, all);
    let additions = (0..servers.len())
        .map(|like| addition(servers, all, like, objective))
        .collect();
    Ok(explained(servers, all, Capacity { now, best, additions }))
}

/// Turnaround of a request that is alone at the server.
fn alone(server: &Upstream) -> f64 {
    server.network.0 + server.service.0
}

fn share(server: &Upstream, arrivals: f64) -> Share {
    let (s, n) = (server.service.0, server.network.0);
    let free = 1.0 - arrivals * s;
    let if_stable = |time: f64| (free > 0.0).then_some(Seconds(n + time));
    Share {
        arrivals,
        utilization: arrivals * s,
        turnaround: if_stable(s / free),
        growth: if_stable(s / (free * free)),
    }
}

fn mean(shares: &[Share], all: f64) -> Option<Seconds> {
    let used = shares.iter().filter(|share| share.arrivals > 0.0);
    let total: Option<f64> = used.map(|share| Some(share.arrivals * share.turnaround?.0)).sum();
    Some(Seconds(total? / all))
}

/// The split of `all` requests per second with the least mean turnaround.
fn split(servers: &[Upstream], all: f64) -> Option<Split> {
    let most: f64 = servers.iter().map(|server| 1.0 / server.service.0).sum();
    if all >= most {
        return None;
    }
    // Requests per second that a server gets if one more may cost `growth`.
    let at = |server: &Upstream, growth: f64| match growth - server.network.0 {
        left if left <= server.service.0 => 0.0,
        left => (1.0 - (server.service.0 / left).sqrt()) / server.service.0,
    };
    let taken = |growth: f64| servers.iter().map(|server| at(server, growth)).sum::<f64>();
    let mut low = servers.iter().map(alone).fold(f64::INFINITY, f64::min);
    let mut high = low * 2.0;
    while taken(high) < all {
        (low, high) = (high, high * 2.0);
        if !high.is_finite() {
            return None;
        }
    }
    // Until no number lies between the two.
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if taken(middle) < all {
            low = middle
        } else {
            high = middle
        }
    }
    // Rounding leaves a little too much; the last digits of every server pay for it.
    let scale = all / taken(high);
    let shares: Vec<Share> = servers
        .iter()
        .map(|server| share(server, at(server, high) * scale))
        .collect();
    let turnaround = mean(&shares, all)?;
    Some(Split {
        shares,
        turnaround: Some(turnaround),
    })
}

fn addition(servers: &[Upstream], all: f64, like: usize, objective: Option<Seconds>) -> Option<Addition> {
    let with = |count: u32| -> Option<Addition> {
        let more = std::iter::repeat_n(&servers[like], count as usize);
        let all_servers: Vec<Upstream> = servers.iter().chain(more).cloned().collect();
        let turnaround = split(&all_servers, all)?.turnaround?;
        let is_enough = objective.is_none_or(|objective| turnaround.0 <= objective.0);
        is_enough.then_some(Addition {
            like,
            count,
            turnaround,
        })
    };
    // More servers are never slower, so the fewest lie between two powers of two.
    let mut high = 1;
    while with(high).is_none() {
        if high >= ADDED_MAX {
            return None;
        }
        high = (high * 2).min(ADDED_MAX);
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if with(middle).is_some() {
            high = middle
        } else {
            low = middle
        }
    }
    with(high)
}

fn explained(servers: &[Upstream], all: f64, answer: Capacity) -> Explained<Capacity> {
    let shown =
        |time: Option<Seconds>| time.map_or("no end (overloaded)".to_owned(), |time| time.to_string());
    let best = match &answer.best {
        Some(best) => format!("{} with the best split", shown(best.turnaround)),
        None => "no split serves them all".to_owned(),
    };
    let first = answer.additions.iter().flatten().min_by(|a, b| {
        a.count
            .cmp(&b.count)
            .then(a.turnaround.0.total_cmp(&b.turnaround.0))
    });
    let add = match first {
        Some(addition) => format!(
            "add {} like {}: {}",
            counted(u64::from(addition.count), "upstream"),
            servers[addition.like].name,
            addition.turnaround
        ),
        None => format!("{ADDED_MAX} further upstreams of one kind do not suffice"),
    };
    let line = format!(
        "{} requests/s: mean turnaround {} now, {best}; {add}",
        significant(all),
        shown(answer.now.turnaround)
    );
    let mut e = Explained::new(answer, line);
    for (server, share) in servers.iter().zip(e.answer.now.shares.clone()) {
        let Some(turnaround) = share.turnaround else {
            e.warnings.push(format!(
                "{} gets {} requests/s and can serve {}: its queue grows, or the estimates are wrong",
                server.name,
                significant(share.arrivals),
                significant(1.0 / server.service.0)
            ));
            continue;
        };
        let numbers = format!(
            "{} + {} / (1 - {} x {})",
            significant(server.network.0),
            significant(server.service.0),
            significant(share.arrivals),
            significant(server.service.0)
        );
        e.step(
            "T",
            format!("mean turnaround at {}", server.name),
            "n + s / (1 - lambda s)",
            numbers,
            turnaround.0,
            "s",
            "Kleinrock 1967",
        );
    }
    e.assumptions.extend([
        "Poisson arrivals",
        "each upstream serves all its requests at once, in equal shares of one processor",
        "the best split has equal cost n + s / (1 - rho)^2 at all upstreams in use",
    ]);
    e.region.push(Region {
        quantity: Quantity::ServiceVariability,
        low: 0.0,
        high: f64::INFINITY,
        outside: "the mean is insensitive to it",
    });
    e
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(arrivals: f64, service: f64, network: f64) -> Upstream {
        Upstream {
            name: format!("{service}"),
            arrivals,
            service: Seconds(service),
            network: Seconds(network),
        }
    }

    fn found(servers: &[Upstream], objective: Option<f64>) -> Capacity {
        capacity(servers, objective.map(Seconds))
            .expect("a valid question")
            .answer
    }

    #[test]
    fn one_server_is_a_queue() {
        let answer = found(&[server(50.0, 0.01, 0.002)], None);
        let queue = crate::queue::mg1_ps(50.0, Seconds(0.01))
            .expect("below capacity")
            .answer;
        let turnaround = answer.now.turnaround.expect("below capacity").0;
        assert!(
            (turnaround - 0.002 - queue.response.0).abs() < 1e-12,
            "{turnaround}"
        );
        // Two such servers halve the load of each.
        let two = answer.additions[0].as_ref().expect("one more").turnaround.0;
        assert!((two - (0.002 + 0.01 / 0.75)).abs() < 1e-12, "{two}");
    }

    #[test]
    fn an_unused_slow_server_costs_nothing() {
        let answer = found(&[server(10.0, 0.001, 0.0), server(10.0, 1.0, 0.0)], None);
        // The slow one gets ten times what it can serve.
        assert_eq!(answer.now.turnaround, None);
        let best = answer.best.expect("the fast one can serve all");
        assert_eq!(best.shares[1].arrivals, 0.0);
    }

    #[test]
    fn overload_asks_for_the_servers_that_end_it() {
        // 250 requests/s of 10 ms need more than two and a half servers.
        let answer = found(&[server(250.0, 0.01, 0.0)], None);
        assert_eq!((answer.now.turnaround, answer.best), (None, None));
        assert_eq!(answer.additions[0].as_ref().map(|add| add.count), Some(2));
        // The requests of a hundred thousand servers.
        assert_eq!(found(&[server(1e5, 1.0, 0.0)], None).additions, [None]);
    }

    #[test]
    fn the_fewest_servers_reach_an_objective() {
        let servers = [server(80.0, 0.01, 0.001), server(20.0, 0.02, 0.001)];
        for objective in [0.03, 0.02, 0.013, 0.0115] {
            let answer = found(&servers, Some(objective));
            for addition in answer.additions.iter().flatten() {
                assert!(addition.turnaround.0 <= objective);
                let more = std::iter::repeat_n(servers[addition.like].clone(), addition.count as usize - 1);
                let fewer: Vec<Upstream> = servers.iter().cloned().chain(more).collect();
                let with_fewer = split(&fewer, 100.0).and_then(|split| split.turnaround);
                if addition.count > 1 {
                    assert!(with_fewer.is_none_or(|time| time.0 > objective), "{objective}");
                }
            }
        }
        let refused = capacity(&servers, Some(Seconds(0.011))).expect_err("a request alone takes as long");
        assert!(matches!(refused, DomainError::Unattainable { .. }), "{refused}");
    }

    #[test]
    fn meaningless_observations_are_refused() {
        for servers in [
            vec![],
            vec![server(0.0, 0.01, 0.0)],
            vec![server(1.0, 0.0, 0.0)],
            vec![server(1.0, f64::NAN, 0.0)],
            vec![server(-1.0, 0.01, 0.0), server(2.0, 0.01, 0.0)],
            vec![server(1.0, 0.01, -0.1)],
        ] {
            assert!(capacity(&servers, None).is_err(), "{servers:?}");
        }
    }

    proptest! {
        /// The best split serves all requests, costs the same at each server in use, and no other split is better.
        #[test]
        fn no_split_is_better(
            parts in prop::collection::vec((0.01_f64..1.0, 0.001_f64..0.1, 0.0_f64..0.05), 1..6),
            load in 0.01_f64..0.98,
        ) {
            let most: f64 = parts.iter().map(|part| 1.0 / part.1).sum();
            let weights: f64 = parts.iter().map(|part| part.0).sum();
            let all = load * most;
            let servers: Vec<Upstream> = parts
                .iter()
                .map(|&(weight, service, network)| server(weight / weights * all, service, network))
                .collect();
            let answer = found(&servers, None);
            let best = answer.best.expect("below capacity");
            let taken: f64 = best.shares.iter().map(|share| share.arrivals).sum();
            prop_assert!((taken / all - 1.0).abs() < 1e-9);
            let time = best.turnaround.expect("below capacity").0;
            if let Some(now) = answer.now.turnaround {
                prop_assert!(time <= now.0 * (1.0 + 1e-9), "{time} {now}");
            }
            let costs: Vec<f64> = best
                .shares
                .iter()
                .filter(|share| share.arrivals > 0.0)
                .map(|share| share.growth.expect("below capacity").0)
                .collect();
            let high = costs.iter().copied().fold(0.0, f64::max);
            let low = costs.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(high <= low * (1.0 + 1e-6), "{costs:?}");
            for addition in answer.additions.into_iter().flatten() {
                prop_assert!(addition.turnaround.0 <= time * (1.0 + 1e-9));
            }
        }
    }
}
