//! `weir load plan`: prints the request stream of a run, or its totals, and sends nothing.

use crate::cli::load::PlanFlags;
use crate::failure::Failure;
use crate::load::task::{Task, Who};
use crate::voice::Voice;
use ::load::connections::of_session;
use ::load::fit::distance;
use ::load::limits::RANKS_MAX;
use ::load::plan::Request;
use client::plan::Mode;
use client::session::Verb;
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for flags that allow no plan, `System` if the system refuses something.
pub(crate) fn run(flags: &PlanFlags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let task = Task::planned(flags)?;
    check_place(flags, &task)?;
    let requests = task.requests(&flags.asked, flags.size, flags.nominal);
    let requests = requests.filter(|request| flags.rank.is_none_or(|rank| request.rank == rank));
    let printed = if flags.summary {
        let sums = Sums::of(requests);
        sums.print(&sums.taken(&task), flags, voice)
    } else {
        print(requests, flags, task.body_bytes())
    };
    match printed {
        // The reader has enough: `weir load plan | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::System(format!("cannot write to standard output: {error}"))),
    }
}

/// Checks `--size` and `--rank`.
fn check_place(flags: &PlanFlags, task: &Task) -> Result<(), Failure> {
    let usage = |why: String| Err(Failure::Usage(why));
    let most = match task.who {
        Who::Users(number) | Who::Clients(number) => number.min(RANKS_MAX),
        Who::Sessions(..) | Who::Rate(..) | Who::Replay => RANKS_MAX,
    };
    if flags.size == 0 || flags.size > most {
        return usage(format!(
            "`--size` is {}; it must be 1 to {most}, and each machine needs a user",
            flags.size
        ));
    }
    if let Some(rank) = flags.rank.filter(|&rank| rank >= flags.size) {
        return usage(format!(
            "`--rank` is {rank}; with --size {}, ranks are 0 to {}",
            flags.size,
            flags.size - 1
        ));
    }
    Ok(())
}

/// A request with what `--method` and `--header` add to it.
#[derive(serde::Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    request: Request,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    /// Bytes of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    headers: &'a [String],
}

fn print(
    requests: impl Iterator<Item = Request>,
    flags: &PlanFlags,
    body_bytes: Option<u64>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let verb = flags.how.verb();
    let method = Some(verb.name()).filter(|_| verb != Verb::GET);
    let headers: Vec<String> = flags.how.header.iter().map(ToString::to_string).collect();
    for request in requests {
        let line = Line {
            request,
            method,
            body_bytes,
            headers: &headers,
        };
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Totals of a request stream.
#[derive(Debug, Default)]
struct Sums {
    users: HashMap<u32, Vec<u64>>,
    sessions: u64,
    objects: u64,
    requests: u64,
    /// Content bytes; none if any length is unknown.
    bytes: Option<u64>,
    connections: [u64; 4],
    /// References to each object.
    of_object: HashMap<u32, u64>,
}

/// A stream compared with a whole pass: a run is only a part of one and can differ from it.
#[derive(Debug, Serialize)]
struct Taken {
    /// Different objects.
    distinct_objects: u64,
    /// Mean bytes of an object, weighted by references; none if any length is unknown.
    object_mean_bytes: Option<f64>,
    /// The whole pass that contains this stream, if there is one.
    pass: Option<Pass>,
}

/// A whole pass.
#[derive(Debug, Serialize)]
struct Pass {
    objects: u64,
    distinct_objects: u64,
    object_mean_bytes: f64,
    /// The largest distance between the distribution functions of the objects' sizes in the stream and in the pass.
    distance: f64,
}

/// Sizes with their counts; none if any size is unknown.
fn sizes(counts: impl Iterator<Item = (u32, u64)>, task: &Task) -> Option<Vec<(u64, u64)>> {
    counts
        .filter(|&(_, count)| count > 0)
        .map(|(object, count)| Some((task.object_bytes(object)?, count)))
        .collect()
}

fn mean(sizes: &[(u64, u64)]) -> f64 {
    let sum: u128 = sizes
        .iter()
        .map(|&(bytes, count)| u128::from(bytes) * u128::from(count))
        .sum();
    sum as f64 / sizes.iter().map(|&(_, count)| count).sum::<u64>().max(1) as f64
}

impl Sums {
    fn of(requests: impl Iterator<Item = Request>) -> Sums {
        let mut sums = Sums {
            bytes: Some(0),
            ..Sums::default()
        };
        for request in requests {
            sums.requests += 1;
            sums.bytes = sums.bytes.zip(request.size).map(|(sum, size)| sum + size);
            let session = sums.users.entry(request.user).or_default();
            match (request.intended_ns, session.last_mut()) {
                (None, Some(files)) => *files += 1,
                _ => {
                    sums.objects += 1;
                    *sums.of_object.entry(request.object).or_default() += 1;
                    session.push(1);
                }
            }
            if request.last {
                let session = std::mem::take(session);
                sums.close(&session);
            }
        }
        // Sessions that the end of the run truncates.
        for session in std::mem::take(&mut sums.users).into_values() {
            sums.users.insert(sums.users.len() as u32, Vec::new());
            sums.close(&session);
        }
        sums
    }

    fn close(&mut self, session: &[u64]) {
        if !session.is_empty() {
            self.sessions += 1;
            for (sum, mode) in self.connections.iter_mut().zip(Mode::ALL) {
                *sum += of_session(mode, session);
            }
        }
    }

    fn taken(&self, task: &Task) -> Taken {
        let own = sizes(
            self.of_object.iter().map(|(&object, &count)| (object, count)),
            task,
        );
        let pass = own.as_ref().zip(task.pass()).and_then(|(own, references)| {
            let whole = sizes((0..).zip(references), task)?;
            Some(Pass {
                objects: whole.iter().map(|&(_, count)| count).sum(),
                distinct_objects: whole.len() as u64,
                object_mean_bytes: mean(&whole),
                distance: distance(own.clone(), whole),
            })
        });
        Taken {
            distinct_objects: self.of_object.len() as u64,
            object_mean_bytes: own.map(|own| mean(&own)),
            pass,
        }
    }

    fn print(&self, taken: &Taken, flags: &PlanFlags, voice: &Voice) -> io::Result<()> {
        let seconds = flags.asked.span().as_secs_f64().max(1e-9);
        let mut out = io::stdout().lock();
        if voice.json {
            let connections: serde_json::Map<String, serde_json::Value> = Mode::ALL
                .into_iter()
                .zip(self.connections)
                .map(|(mode, count)| (mode.name().to_owned(), json!(count)))
                .collect();
            let line = json!({
                "event": "plan", "users": self.users.len(), "size": flags.size, "rank": flags.rank,
                "sessions": self.sessions, "objects": self.objects, "requests": self.requests, "bytes": self.bytes,
                "objects_per_second": self.objects as f64 / seconds, "connections": connections, "taken": taken,
            });
            return writeln!(out, "{line}");
        }
        writeln!(
            out,
            "{} users, {} sessions, {} objects ({:.1} a second), {} requests, {}",
            self.users.len(),
            self.sessions,
            self.objects,
            self.objects as f64 / seconds,
            self.requests,
            self.bytes
                .map_or("bytes unknown".to_owned(), |bytes| units::Bytes(bytes)
                    .to_string())
        )?;
        writeln!(out, "{}", taken.words())?;
        for (mode, count) in Mode::ALL.into_iter().zip(self.connections) {
            writeln!(out, "  {count:>10} connections {}", mode.name())?;
        }
        Ok(())
    }
}

impl Taken {
    fn words(&self) -> String {
        let mut words = format!("  {} different objects", self.distinct_objects);
        if let Some(mean) = self.object_mean_bytes {
            words += &format!(", {} on average", units::Bytes(mean.round() as u64));
        }
        if let Some(pass) = &self.pass {
            words += &format!(
                "; a whole pass: {} objects, {} different, {} on average; sizes differ by D = {:.3}",
                pass.objects,
                pass.distinct_objects,
                units::Bytes(pass.object_mean_bytes.round() as u64),
                pass.distance
            );
        }
        words
    }
}
