//! Parameters of Surge from a request log: for each stream, the family that fits best and its distance.
//!
//! Each stream uses the unit and population of the parameter with the same name, so that Surge accepts the results:
//!
//! - an *object* is a request for anything except an image, style sheet, script or font, together with the client's
//!   requests for those until its next object: a page with its embedded files, or a single file;
//! - *sizes* are those of distinct files by class. Base files begin an object of several files, embedded files come
//!   later in one, single files are always alone. *Sizes of requests* cover all responses;
//! - *files per object* counts each distinct page with embedded files once, with its largest number of files: files in
//!   a browser's cache are not requested again;
//! - *stack distances* are those of objects: the number of distinct objects requested since the last request for this
//!   one, over all clients;
//! - an *OFF time* is a client's pause of more than a second between objects (Barford and Crovella 1998) within a
//!   session. A client that returns after hours had left. If there are longer pauses, OFF times are fitted as a
//!   truncated distribution;
//! - a *session* ends with a pause longer than a bound that the caller chooses. That is a convention. Only sessions
//!   that the log holds completely count, and only if the bound hardly matters: users like Surge's never pause long,
//!   and their sessions are the lifetimes of connections, which a log does not show.
//!
//! A stream that a log cannot show gets a reason instead of a flag. A log has addresses, not users, so everything
//! counted by client mixes the users who share an address. Does not know log formats.

mod family;

use family::{Bounds, Family, Seen, candidates};
use serde::Serialize;
use std::collections::HashMap;

/// Minimum number of values for an estimate.
const VALUES_MIN: usize = 20;
/// Minimum pause, in nanoseconds, that counts as an OFF time.
const OFF_NS: i64 = SECOND_NS;
/// After a longer pause, in nanoseconds, even an image is an object of its own.
const APART_NS: i64 = 60 * SECOND_NS;
const SECOND_NS: i64 = 1_000_000_000;
/// A model within this distance fits, whatever its p-value: with many values, every model is rejected.
pub const DISTANCE_MAX: f64 = 0.05;
/// A model with a p-value above this fits, whatever its distance.
pub const LEVEL: f64 = 0.01;
/// Largest acceptable change of the mean session length when the bound is halved or doubled.
const SESSIONS_VARY: f64 = 0.25;
/// Reason given for streams by client if clients are several users each.
const MIXED: &str = "most objects are from clients that begin more than one per second: several users behind one address, or a robot";
/// Smallest possible file of each class, in bytes.
const BASE_LOW: f64 = 32.0;
const EMBEDDED_LOW: f64 = crate::gif::LEAST as f64;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Number of the client.
    pub client: u32,
    /// Time of the request in nanoseconds.
    pub at_ns: i64,
    /// Number of the file.
    pub file: u32,
    /// Length of the response in bytes; 0 if nothing was sent.
    pub bytes: u64,
    /// Whether pages embed this kind of file: image, style sheet, script or font.
    pub embedded: bool,
}

/// A distribution family fitted to a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Fitted model in the flag's syntax.
    pub model: String,
    /// Largest difference of the distribution functions.
    pub distance: f64,
    /// p-value of the Kolmogorov-Smirnov test; too high, because the parameters come from the same values.
    pub p_value: f64,
}

/// Estimate of one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Name of the stream.
    pub stream: &'static str,
    /// Flag of `weir site surge` that takes the model; `None` if there is none or the log cannot show the stream.
    pub flag: Option<&'static str>,
    /// Number of values.
    pub values: u64,
    /// Mean of the values.
    pub mean: f64,
    /// Median of the values.
    pub median: f64,
    /// Reason why the log cannot show this stream, if so.
    pub untold: Option<String>,
    /// Whether the best family fits, by distance or p-value.
    pub fits: bool,
    /// Fitted families, best first; empty with too few values.
    pub candidates: Vec<Candidate>,
}

/// Number of distinct files by their role in objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Classes {
    /// Files that begin an object of several files.
    pub base: u64,
    /// Files that come later in an object.
    pub embedded: u64,
    /// Files that are always alone.
    pub single: u64,
}

/// All estimates from a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimates {
    /// Number of requests.
    pub requests: u64,
    /// Number of objects.
    pub objects: u64,
    /// Number of distinct files.
    pub files: u64,
    /// Number of distinct files by class.
    pub classes: Classes,
    /// Number of clients.
    pub clients: u64,
    /// Whether most objects come from clients that begin more of them than a single user does. Streams by client, which
    /// depend on which request led to another, are then left out.
    pub mixed: bool,
    /// Whether all times are whole seconds.
    #[serde(skip)]
    pub whole_seconds: bool,
    /// Number of pauses between sessions, too long to be OFF times.
    pub session_pauses: u64,
    /// Exponent `s` of references to files, proportional to `1 / rank^s`; `None` with too few files.
    pub zipf_exponent: Option<f64>,
    /// Estimates of all streams.
    pub streams: Vec<Estimate>,
}

/// Estimates all streams. A client's pause longer than `session_ns` begins another session.
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
        "a gap includes the response time and the user's pause; if response times are negligible, use this for --active-off-time".to_owned()
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

/// A requested object: consecutive requests of a client.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// Index of its first request in [`Log::order`].
    from: usize,
    files: u32,
}

/// A file in the log.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    bytes: u64,
    references: u64,
    /// Whether it began an object of several files.
    leads: bool,
    /// Whether it came later in an object.
    follows: bool,
}

/// Requests grouped into objects.
#[derive(Debug, Default)]
struct Log {
    /// Indices of visits, client by client.
    order: Vec<u32>,
    /// Objects, client by client.
    objects: Vec<Object>,
    /// Range of each client's objects.
    clients: Vec<core::ops::Range<usize>>,
    /// Largest number of files of an object, by its first file.
    most: HashMap<u32, u32>,
}

impl Log {
    /// Groups visits, which must be in order of time.
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

    /// Number of files of each distinct page with embedded files.
    fn embedding(&self) -> Vec<f64> {
        let several = self.most.values().filter(|&&files| files > 1);
        several.map(|&files| f64::from(files)).collect()
    }

    /// First files of all objects, in the order in which the objects began.
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

    /// Pauses between a client's objects, in nanoseconds.
    fn pauses(&self, visits: &[Visit]) -> impl Iterator<Item = i64> {
        self.clients.iter().flat_map(move |objects| {
            self.objects[objects.clone()]
                .windows(2)
                .map(|pair| self.first(&pair[1], visits).at_ns - self.last(&pair[0], visits).at_ns)
        })
    }

    /// Whether most objects come from clients that begin more than one per second.
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

    /// OFF times in seconds, and the number of pauses too long for an OFF time.
    fn off_times(&self, visits: &[Visit], bound_ns: i64) -> (Vec<f64>, u64) {
        let whole = visits.iter().all(|visit| visit.at_ns % SECOND_NS == 0);
        // A difference of one in whole seconds may have been less than a second.
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

    /// Number of objects in each complete session: a long pause, or the log's end, before and after it.
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

/// Sum that is 0, not -0, for no values.
fn sum(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |sum, value| sum + value)
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / SECOND_NS as f64
}

/// Session lengths, or the reason why the log cannot show them.
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
            "{whole} of {} objects are in sessions that the log holds completely, between pauses longer than --session-gap",
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

/// Number of distinct objects requested since the previous request for the same object, including itself. A Fenwick
/// tree (1994) over the last position of each object keeps deep ones fast.
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
            // Counted are all objects whose last position is at or after this object's.
            depths.push((lasts.len() as i64 - sum(&tree, last - 1)) as f64);
            add(&mut tree, last, -1);
        }
        add(&mut tree, place, 1);
    }
    depths
}

/// Maximum-likelihood exponent of Zipf's law over ranks, by bisection of the derivative.
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
        // A steeper law has a lower mean rank.
        if expected(middle) > seen / all {
            low = middle
        } else {
            high = middle
        }
    }
    Some((low + high) / 2.0)
}

impl Estimate {
    /// The estimate if clients are several users each.
    fn mixed(mut self) -> Estimate {
        self.candidates.clear();
        self.fits = false;
        self.untell(MIXED.to_owned());
        self
    }

    /// Removes the flag and gives the reason.
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
