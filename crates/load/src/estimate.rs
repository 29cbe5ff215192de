//! From a log of requests to the parameters of Surge: what each of its streams looks like in this log, which
//! family fits it best, and how badly.
//!
//! Every stream is taken in the unit and from the population that the parameter of the same name has, so that
//! what is found can be given to Surge:
//!
//! - an *object* is a request for anything but a picture, style, script or font, with what the same client asks for of
//!   those until its next object; a page and what it embeds, or a file that stands alone;
//! - *sizes* are of the different files, by class: base files begin an object of several files, embedded ones come
//!   later in one, single ones are always alone. *Sizes of requests* are of all answers;
//! - *files per object* counts each different page that embeds something once, with the most it was asked for with:
//!   what a browser had in its cache is not asked for again;
//! - *stack distances* are of objects: how many different ones were asked for since this one was, over all clients;
//! - an *OFF time* is a client's pause of more than a second between objects (Barford and Crovella 1998) within a session: who
//!   comes back after hours was not OFF but gone. If there are longer pauses, OFF times are fitted as what was left of them;
//! - a *session* is over with a pause longer than a bound that the caller chooses. That is a convention, and only
//!   sessions that the log holds whole count, if the bound hardly matters: users as Surge's never pause long, and their
//!   sessions are the lives of connections, of which a log knows nothing.
//!
//! What a log cannot tell has a sentence that says why instead of a flag. A log knows no users, only addresses, so
//! everything that counts by client mixes those who share one. Refuses to know what a log looks like.

mod family;

use family::{Bounds, Family, Seen, candidates};
use serde::Serialize;
use std::collections::HashMap;

/// Values below which nothing is estimated.
const VALUES_MIN: usize = 20;
/// A pause longer than this is an OFF time, in nanoseconds.
const OFF_NS: i64 = SECOND_NS;
/// After a pause longer than this even a picture is an object of its own.
const APART_NS: i64 = 60 * SECOND_NS;
const SECOND_NS: i64 = 1_000_000_000;
/// A model with at most this distance fits, whatever its p-value: of many values every model is refuted.
pub const DISTANCE_MAX: f64 = 0.05;
/// A model with a p-value above this fits, whatever its distance.
pub const LEVEL: f64 = 0.01;
/// How much the mean length of a session may change if the bound is halved or doubled.
const SESSIONS_VARY: f64 = 0.25;
/// Why nothing is told of clients that are several users.
const MIXED: &str = "most objects are from clients that begin more than one per second: several users behind one address, or a robot";
/// The least file of each class that a site can have, in bytes.
const BASE_LOW: f64 = 32.0;
const EMBEDDED_LOW: f64 = crate::site::gif::LEAST as f64;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Who, by number.
    pub client: u32,
    /// When, in nanoseconds.
    pub at_ns: i64,
    /// Which file, by number.
    pub file: u32,
    /// How long it was; 0 if nothing was sent.
    pub bytes: u64,
    /// Whether it is of a kind that pages embed: a picture, style, script or font.
    pub embedded: bool,
}

/// A family fitted to a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// As a flag takes it.
    pub model: String,
    /// The largest difference of the distribution functions.
    pub distance: f64,
    /// Of the Kolmogorov-Smirnov test; too kind, as the parameters come from the same values.
    pub p_value: f64,
}

/// A stream of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// What it is.
    pub stream: &'static str,
    /// The flag of `weir site surge` that takes it, if one does and the log can tell it.
    pub flag: Option<&'static str>,
    /// Values there were.
    pub values: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub median: f64,
    /// Why the log cannot tell this stream, if it cannot.
    pub untold: Option<String>,
    /// Whether the best family fits: by its distance, or by its p-value.
    pub fits: bool,
    /// Families, best first; empty if there are too few values.
    pub candidates: Vec<Candidate>,
}

/// Different files by what they are to objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Classes {
    /// Files that begin an object of several.
    pub base: u64,
    /// Files that come later in one.
    pub embedded: u64,
    /// Files that are always alone.
    pub single: u64,
}

/// What a log says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimates {
    /// Requests.
    pub requests: u64,
    /// Objects they were for.
    pub objects: u64,
    /// Different files.
    pub files: u64,
    /// The same by class.
    pub classes: Classes,
    /// Clients.
    pub clients: u64,
    /// Whether most objects are of clients that begin more of them than one user does: what is counted by client, as
    /// which file was asked for because of which, is then not told.
    pub mixed: bool,
    /// Whether all times are whole seconds.
    #[serde(skip)]
    pub whole_seconds: bool,
    /// Pauses too long to be OFF times: between sessions.
    pub session_pauses: u64,
    /// `s` in references to files proportional to `1 / rank^s`; none with too few files.
    pub zipf_exponent: Option<f64>,
    /// Each stream.
    pub streams: Vec<Estimate>,
}

/// Estimates everything; a client that pauses for longer than `session_ns` begins another session.
pub fn estimate(mut visits: Vec<Visit>, session_ns: i64) -> Estimates {
    visits.sort_by_key(|visit| visit.at_ns);
    let whole_seconds = visits.iter().all(|visit| visit.at_ns % SECOND_NS == 0);
    let log = Log::read(&visits);
    let mixed = log.is_mixed(&visits);
    let by_client = |found: Estimate| if mixed { found.mixed() } else { found };
    let files = log.files(&visits);
    let mut classes = Classes::default();
    let mut sizes: [Vec<f64>; 3] = Default::default();
    for file in files.values() {
        let (count, sizes) = match (file.leads, file.follows) {
            (true, _) => (&mut classes.base, &mut sizes[0]),
            (false, true) => (&mut classes.embedded, &mut sizes[1]),
            (false, false) => (&mut classes.single, &mut sizes[2]),
        };
        *count += 1;
        sizes.extend((file.bytes > 0).then_some(file.bytes as f64));
    }
    let [base, embedded, single] = sizes;
    let sent = visits.iter().filter(|visit| visit.bytes > 0);
    let sent: Vec<f64> = sent.map(|visit| visit.bytes as f64).collect();
    let positive = [
        Family::Lognormal,
        Family::Pareto,
        Family::Weibull,
        Family::Exponential,
    ];
    let size = |stream, flag, values, low| {
        let seen = Seen::Exactly(Bounds::OfSizes { low });
        described(stream, flag, values, &positive, seen)
    };
    let (off, longer) = log.off_times(&visits, session_ns);
    let pauses = match (whole_seconds, longer) {
        (true, 0) => Seen::Seconds { upto: f64::INFINITY },
        (true, _) => Seen::Seconds {
            upto: seconds(session_ns).floor(),
        },
        (false, 0) => Seen::Exactly(Bounds::None),
        (false, _) => Seen::Exactly(Bounds::Upto(seconds(session_ns))),
    };
    let mut gaps = described(
        "gaps within an object, s",
        "active-off-time",
        if whole_seconds {
            Vec::new()
        } else {
            log.gaps(&visits)
        },
        &positive,
        Seen::Exactly(Bounds::None),
    );
    gaps.untell(if whole_seconds {
        "its times are whole seconds".to_owned()
    } else {
        "a gap includes the response time and the user's pause; if all of it were pause, use this for --active-off-time".to_owned()
    });
    Estimates {
        requests: visits.len() as u64,
        objects: log.objects.len() as u64,
        files: files.len() as u64,
        classes,
        clients: log.clients.len() as u64,
        mixed,
        whole_seconds,
        session_pauses: longer,
        zipf_exponent: zipf(files.values().map(|file| file.references).collect()),
        streams: vec![
            by_client(size("sizes of base files, bytes", "base-size", base, BASE_LOW)),
            size(
                "sizes of embedded files, bytes",
                "embedded-size",
                embedded,
                EMBEDDED_LOW,
            ),
            by_client(size("sizes of single files, bytes", "single-size", single, 1.0)),
            size("sizes of requests, bytes", "request-size", sent, 0.0),
            by_client(described(
                "files per base object",
                "files-per-object",
                log.embedding(),
                &positive,
                Seen::Down,
            )),
            described(
                "stack distances of objects",
                "stack-distance",
                depths(log.in_order(&visits)),
                &positive,
                Seen::Nearest,
            ),
            by_client(described("OFF times, s", "off-time", off, &positive, pauses)),
            by_client(gaps),
            by_client(sessions(&log, &visits, session_ns)),
        ],
    }
}

/// An object somebody asked for: a run of the client's requests.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// The client's requests from this on, as a place in [`Log::order`].
    from: usize,
    files: u32,
}

/// A file of the log.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    bytes: u64,
    references: u64,
    /// It began an object of several files.
    leads: bool,
    /// It came later in an object.
    follows: bool,
}

/// Requests put together into objects.
#[derive(Debug, Default)]
struct Log {
    /// Numbers of visits, client by client.
    order: Vec<u32>,
    /// Objects, client by client.
    objects: Vec<Object>,
    /// The objects of each client, as a range.
    clients: Vec<core::ops::Range<usize>>,
    /// By first file: the most files it was asked for with.
    most: HashMap<u32, u32>,
}

impl Log {
    /// Of visits in the order of their times.
    fn read(visits: &[Visit]) -> Log {
        let mut order: Vec<u32> = (0..visits.len() as u32).collect();
        order.sort_by_key(|&number| (visits[number as usize].client, number));
        let mut log = Log::default();
        for of_client in order.chunk_by(|&a, &b| visits[a as usize].client == visits[b as usize].client) {
            let first = log.objects.len();
            let mut before = i64::MIN;
            for (place, &number) in of_client.iter().enumerate() {
                let visit = &visits[number as usize];
                let apart = visit.at_ns.saturating_sub(before) > APART_NS;
                match log.objects[first..].last_mut() {
                    Some(object) if visit.embedded && !apart => object.files += 1,
                    _ => log.objects.push(Object {
                        from: log.order.len() + place,
                        files: 1,
                    }),
                }
                before = visit.at_ns;
            }
            log.clients.push(first..log.objects.len());
            log.order.extend_from_slice(of_client);
        }
        for object in &log.objects {
            let file = visits[log.order[object.from] as usize].file;
            let most = log.most.entry(file).or_default();
            *most = object.files.max(*most);
        }
        log
    }

    fn first<'a>(&self, object: &Object, visits: &'a [Visit]) -> &'a Visit {
        &visits[self.order[object.from] as usize]
    }

    fn last<'a>(&self, object: &Object, visits: &'a [Visit]) -> &'a Visit {
        &visits[self.order[object.from + object.files as usize - 1] as usize]
    }

    fn files(&self, visits: &[Visit]) -> HashMap<u32, File> {
        let mut files: HashMap<u32, File> = HashMap::new();
        for object in &self.objects {
            for place in 0..object.files {
                let visit = &visits[self.order[object.from + place as usize] as usize];
                let file = files.entry(visit.file).or_default();
                file.bytes = file.bytes.max(visit.bytes);
                file.references += 1;
                file.leads |= place == 0 && object.files > 1;
                file.follows |= place > 0;
            }
        }
        files
    }

    /// The files of each different page that embeds something.
    fn embedding(&self) -> Vec<f64> {
        let several = self.most.values().filter(|&&files| files > 1);
        several.map(|&files| f64::from(files)).collect()
    }

    /// The first files of all objects, in the order these began.
    fn in_order(&self, visits: &[Visit]) -> Vec<u32> {
        let mut begun: Vec<u32> = self
            .objects
            .iter()
            .map(|object| self.order[object.from])
            .collect();
        begun.sort_unstable();
        begun
            .into_iter()
            .map(|number| visits[number as usize].file)
            .collect()
    }

    /// Pauses between the objects of a client, in nanoseconds.
    fn pauses(&self, visits: &[Visit]) -> impl Iterator<Item = i64> {
        self.clients.iter().flat_map(move |objects| {
            self.objects[objects.clone()]
                .windows(2)
                .map(|pair| self.first(&pair[1], visits).at_ns - self.last(&pair[0], visits).at_ns)
        })
    }

    /// Whether most objects are of clients that begin more than one a second.
    fn is_mixed(&self, visits: &[Visit]) -> bool {
        let at = |object: &Object| self.first(object, visits).at_ns;
        let of_crowds = self.clients.iter().filter(|objects| {
            let objects = &self.objects[objects.start..objects.end];
            let ends = objects.first().zip(objects.last());
            let span_ns = ends.map_or(0, |(first, last)| at(last) - at(first));
            objects.len() >= VALUES_MIN && (objects.len() as f64 - 1.0) * SECOND_NS as f64 > span_ns as f64
        });
        of_crowds.map(|objects| objects.len()).sum::<usize>() * 2 > self.objects.len()
    }

    /// Pauses that are OFF times, and how many are too long for that.
    fn off_times(&self, visits: &[Visit], bound_ns: i64) -> (Vec<f64>, u64) {
        let whole = visits.iter().all(|visit| visit.at_ns % SECOND_NS == 0);
        // Of whole seconds one that is a second may have been less.
        let off = |pause: &i64| if whole { *pause >= OFF_NS } else { *pause > OFF_NS };
        let pauses = self.pauses(visits).filter(off);
        let (within, longer): (Vec<i64>, Vec<i64>) = pauses.partition(|&pause| pause <= bound_ns);
        (within.into_iter().map(seconds).collect(), longer.len() as u64)
    }

    fn gaps(&self, visits: &[Visit]) -> Vec<f64> {
        let objects = self.objects.iter();
        let at = |place: usize| visits[self.order[place] as usize].at_ns;
        objects
            .flat_map(|object| object.from + 1..object.from + object.files as usize)
            .map(|place| at(place) - at(place - 1))
            .filter(|&gap| gap > 0)
            .map(seconds)
            .collect()
    }

    /// Objects of each session that the log holds whole: a pause before it and after it, if only to its ends.
    fn sessions(&self, visits: &[Visit], bound_ns: i64) -> Vec<f64> {
        let ends = visits.first().zip(visits.last());
        let Some((begin, end)) = ends.map(|(first, last)| (first.at_ns, last.at_ns)) else {
            return Vec::new();
        };
        let mut lengths = Vec::new();
        for objects in &self.clients {
            let (mut length, mut before, mut whole) = (0u64, begin, false);
            for object in &self.objects[objects.clone()] {
                if self.first(object, visits).at_ns - before > bound_ns {
                    if whole && length > 0 {
                        lengths.push(length as f64);
                    }
                    (length, whole) = (0, true);
                }
                length += 1;
                before = self.last(object, visits).at_ns;
            }
            if whole && end - before > bound_ns {
                lengths.push(length as f64);
            }
        }
        lengths
    }
}

/// The sum of values; that of none would be -0 in floating point.
fn sum(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |sum, value| sum + value)
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

/// Session lengths, if the log can tell them.
fn sessions(log: &Log, visits: &[Visit], bound_ns: i64) -> Estimate {
    let lengths = log.sessions(visits, bound_ns);
    let families = [
        Family::InverseGaussian,
        Family::Lognormal,
        Family::Exponential,
        Family::Pareto,
    ];
    let whole = sum(&lengths);
    let mean = |lengths: &[f64]| sum(lengths) / lengths.len().max(1) as f64;
    let own = mean(&lengths);
    let others = [bound_ns / 2, bound_ns.saturating_mul(2)].map(|bound| mean(&log.sessions(visits, bound)));
    let untold = if lengths.len() < VALUES_MIN || whole * 2.0 < log.objects.len() as f64 {
        Some(format!(
            "{whole} of {} objects are in sessions that begin and end within it with a pause longer than --session-gap",
            log.objects.len()
        ))
    } else if others
        .iter()
        .any(|other| (other / own - 1.0).abs() > SESSIONS_VARY)
    {
        Some(format!(
            "their mean depends on --session-gap: {own:.1} objects with this one, {:.1} with half of it, {:.1} with twice",
            others[0], others[1]
        ))
    } else {
        None
    };
    let mut found = described(
        "session lengths, objects",
        "session-length",
        lengths,
        &families,
        Seen::Nearest,
    );
    if let Some(why) = untold {
        found.candidates.clear();
        found.untell(why);
    }
    found
}

/// How many different objects were asked for since an object was asked for last, itself among them. A tree of sums
/// (Fenwick 1994) over the last place of each makes it as fast for deep ones.
fn depths(objects: Vec<u32>) -> Vec<f64> {
    let mut tree = vec![0i64; objects.len() + 1];
    let add = |tree: &mut Vec<i64>, mut place: usize, what: i64| {
        while place < tree.len() {
            tree[place] += what;
            place += place & place.wrapping_neg();
        }
    };
    let sum = |tree: &[i64], mut place: usize| {
        let mut sum = 0;
        while place > 0 {
            sum += tree[place];
            place &= place - 1;
        }
        sum
    };
    let mut lasts: HashMap<u32, usize> = HashMap::new();
    let mut depths = Vec::new();
    for (place, object) in (1..).zip(objects) {
        if let Some(last) = lasts.insert(object, place) {
            // The object itself is one of those with a place from its last one on.
            depths.push((lasts.len() as i64 - sum(&tree, last - 1)) as f64);
            add(&mut tree, last, -1);
        }
        add(&mut tree, place, 1);
    }
    depths
}

/// The exponent of popularity by maximum likelihood over ranks, by bisection of its derivative.
fn zipf(mut references: Vec<u64>) -> Option<f64> {
    if references.len() < VALUES_MIN {
        return None;
    }
    references.sort_unstable_by(|a, b| b.cmp(a));
    let logs: Vec<f64> = (1..=references.len())
        .map(|rank| libm::log(rank as f64))
        .collect();
    let all: f64 = references.iter().map(|&count| count as f64).sum();
    let seen: f64 = references
        .iter()
        .zip(&logs)
        .map(|(&count, log)| count as f64 * log)
        .sum();
    let expected = |s: f64| {
        let weights = logs.iter().map(|log| libm::exp(-s * log));
        let (above, below) = weights
            .zip(&logs)
            .fold((0.0, 0.0), |(above, below), (weight, log)| {
                (above + weight * log, below + weight)
            });
        above / below
    };
    let (mut low, mut high) = (0.0, 5.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        // Steeper popularity has a lower mean rank.
        if expected(middle) > seen / all {
            low = middle
        } else {
            high = middle
        }
    }
    Some((low + high) / 2.0)
}

impl Estimate {
    /// Of clients that are several users.
    fn mixed(mut self) -> Estimate {
        self.candidates.clear();
        self.fits = false;
        self.untell(MIXED.to_owned());
        self
    }

    /// Takes the flag away and says why.
    fn untell(&mut self, why: String) {
        self.flag = None;
        self.untold = Some(why);
    }
}

fn described(
    stream: &'static str,
    flag: &'static str,
    mut values: Vec<f64>,
    families: &[Family],
    seen: Seen,
) -> Estimate {
    values.sort_unstable_by(f64::total_cmp);
    let candidates = candidates(&values, families, seen);
    let fits = |best: &Candidate| best.distance <= DISTANCE_MAX || best.p_value > LEVEL;
    Estimate {
        stream,
        flag: (!candidates.is_empty()).then_some(flag),
        values: values.len() as u64,
        mean: sum(&values) / values.len().max(1) as f64,
        median: values.get(values.len() / 2).copied().unwrap_or(0.0),
        untold: None,
        fits: candidates.first().is_some_and(fits),
        candidates,
    }
}

#[cfg(test)]
mod tests;
