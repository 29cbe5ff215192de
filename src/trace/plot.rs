//! Pictures of a capture as SVG: time-sequence diagrams (also in xplot's language), flights and congestion windows,
//! distributions, packet types. Decides what is drawn, and thins points that no eye could tell apart.

use super::report::Report;
use super::source::create;
use crate::failure::Failure;
use crate::voice::Voice;
use ::trace::{Mark, Point, Series, Side, Summary, TimeSeries};
use chart::{Axis, Bars, Chart, Series as Curve, Stroke, document, page};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Resolution of a picture: four columns per pixel.
const COLUMNS: usize = 2000;

/// Creates the directory before any packet is read.
///
/// # Errors
/// `Usage` if it cannot be created.
pub(super) fn prepare(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::Usage(format!(
            "cannot create the directory `{}`: {error}; name a writable one",
            directory.display()
        ))
    })
}

/// Writes every picture that has data.
///
/// # Errors
/// `Usage` or `System` if a file cannot be written.
pub(super) fn write(
    directory: &Path,
    summary: &Summary,
    series: &Series,
    report: &Report,
    voice: &Voice,
) -> Result<(), Failure> {
    let mut files = vec![
        ("packet-types.svg", page(&[packet_types(summary).body()])),
        ("established.svg", document(&[established(&summary.established)])),
        (
            "cwnd-distribution.svg",
            document(&[distribution(summary, series)]),
        ),
    ];
    let name = report
        .candidate()
        .map_or(String::new(), |id| format!("connection {id}"));
    if series.points.is_empty() {
        tracing::warn!(
            "no time-sequence diagram: no connection was recorded; name one with --connection, or save the packets with --write"
        );
    } else {
        let sides = sides(&series.points);
        let charts: Vec<Chart> = sides
            .iter()
            .map(|side| time_sequence(&series.points, *side, &name))
            .collect();
        files.push(("time-sequence.svg", document(&charts)));
        let charts: Vec<Chart> = sides
            .iter()
            .map(|side| flight(&series.points, *side, &name))
            .collect();
        files.push(("flight.svg", document(&charts)));
        files.push(("round-trips.svg", document(&[round_trips(&series.points, &name)])));
        for side in sides {
            let (file, title) = match side {
                Side::Client => ("client.xpl", format!("{name}, client to server")),
                Side::Server => ("server.xpl", format!("{name}, server to client")),
            };
            files.push((file, series.xplot(side, &title)));
        }
        files.push(("points.csv", series.csv()));
    }
    if series.dropped > 0 {
        tracing::warn!(
            "{} points beyond the limit were dropped; raise --points-max",
            series.dropped
        );
    }
    for (file, text) in &files {
        let path = directory.join(file);
        create(&path)?
            .write_all(text.as_bytes())
            .map_err(|error| Failure::System(format!("cannot write `{}`: {error}", path.display())))?;
    }
    if voice.reports() {
        let names: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
        tracing::info!("{}: {}", directory.display(), names.join(", "));
    }
    Ok(())
}

fn direction(side: Side) -> &'static str {
    match side {
        Side::Client => "client to server",
        Side::Server => "server to client",
    }
}

/// The sides that sent data, the busier one first.
fn sides(points: &[Point]) -> Vec<Side> {
    let sent = |side: Side| {
        let ends = points.iter().filter_map(|point| match point.mark {
            Mark::Data { end, .. } if point.side == side => Some(end),
            _ => None,
        });
        ends.max().unwrap_or(0)
    };
    let mut sides = vec![Side::Server, Side::Client];
    // SYN and FIN alone reach 2.
    sides.retain(|side| sent(*side) > 2);
    sides.sort_by_key(|side| std::cmp::Reverse(sent(*side)));
    sides
}

/// Origin of the time axis: the connection's first point.
fn since(points: &[Point]) -> f64 {
    points.first().map_or(0.0, |point| point.at.as_secs_f64())
}

fn time_sequence(points: &[Point], side: Side, name: &str) -> Chart {
    let start = since(points);
    let (mut fresh, mut again) = (Vec::new(), Vec::new());
    let (mut acks, mut edges) = (Vec::new(), Vec::new());
    let mut resets = Vec::new();
    let mut highest = 0.0f64;
    for point in points {
        let at = point.at.as_secs_f64() - start;
        match point.mark {
            Mark::Data {
                start: from,
                end,
                again: repeated,
                ..
            } if point.side == side => {
                if repeated {
                    again.push((at, from.midpoint(end) as f64));
                } else {
                    fresh.push((at, from as f64, end as f64));
                }
                highest = highest.max(end as f64);
            }
            Mark::Ack { ack, edge, .. } if point.side != side => {
                acks.push((at, ack as f64));
                edges.push((at, edge as f64));
            }
            Mark::Reset => resets.push((at, highest)),
            _ => {}
        }
    }
    // A window far above the data would squeeze the data into a line at the bottom.
    let near = |edge: f64| if edge <= 1.3 * highest { edge } else { f64::NAN };
    let edges: Vec<(f64, f64)> = thin(&edges)
        .into_iter()
        .map(|(at, edge)| (at, near(edge)))
        .collect();
    // Data is drawn above acknowledgments, so that it stays visible where they arrived at once. All diagrams have the
    // same colors, so a series without retransmissions is kept.
    let mut series = vec![
        curve("acknowledged", Stroke::Steps, thin(&acks)),
        curve("sent", Stroke::Spans, thin_spans(&fresh)),
        // A segment is a pixel or two wide: rare, important marks must be larger.
        curve("sent again", Stroke::Dots, thin(&again)),
    ];
    if edges.iter().any(|(_, edge)| edge.is_finite()) {
        series.push(curve("edge of the receive window", Stroke::Steps, edges));
    }
    if !resets.is_empty() {
        series.push(curve("reset", Stroke::Dots, resets));
    }
    Chart {
        title: format!("Time and sequence: {name}, {}", direction(side)),
        x: Axis::linear("seconds since the connection's first packet"),
        y: Axis::linear("sequence number (bytes)"),
        series,
    }
}

fn flight(points: &[Point], side: Side, name: &str) -> Chart {
    let start = since(points);
    let (mut flights, mut windows) = (Vec::new(), Vec::new());
    for point in points {
        let at = point.at.as_secs_f64() - start;
        match point.mark {
            Mark::Data { flight, .. } if point.side == side => flights.push((at, flight as f64)),
            Mark::Ack { flight, .. } if point.side != side => flights.push((at, flight as f64)),
            Mark::Cwnd { bytes } if point.side == side => windows.push((at, bytes as f64)),
            _ => {}
        }
    }
    Chart {
        title: format!("Flight and congestion window: {name}, {}", direction(side)),
        x: Axis::linear("seconds since the connection's first packet"),
        y: Axis::linear("bytes under way"),
        series: vec![
            curve("flight", Stroke::Steps, thin(&flights)),
            curve("cwnd, estimated", Stroke::Dots, thin(&windows)),
        ],
    }
}

fn round_trips(points: &[Point], name: &str) -> Chart {
    let start = since(points);
    let of = |side: Side| {
        let samples = points.iter().filter_map(|point| match point.mark {
            Mark::Rtt { rtt } if point.side == side => {
                Some((point.at.as_secs_f64() - start, rtt.as_secs_f64() * 1e3))
            }
            _ => None,
        });
        thin(&samples.collect::<Vec<_>>())
    };
    let both = [Side::Server, Side::Client].map(|side| curve(direction(side), Stroke::Dots, of(side)));
    Chart {
        title: format!("Round trips at the capture point: {name}"),
        x: Axis::linear("seconds since the connection's first packet"),
        y: Axis::linear("milliseconds from data to acknowledgment"),
        series: both
            .into_iter()
            .filter(|curve| !curve.points.is_empty())
            .collect(),
    }
}

fn packet_types(summary: &Summary) -> Bars {
    let values = |kinds: &::trace::Kinds| {
        [kinds.syn, kinds.data, kinds.ack, kinds.fin, kinds.rst]
            .map(|n| n as f64)
            .to_vec()
    };
    Bars {
        title: "Packets by type".to_owned(),
        label: "packets".to_owned(),
        groups: ["SYN", "DATA", "ACK", "FIN", "RST"].map(str::to_owned).to_vec(),
        series: vec![
            ("from clients".to_owned(), values(&summary.from_clients.kinds)),
            ("from servers".to_owned(), values(&summary.from_servers.kinds)),
        ],
        reach: None,
    }
}

fn established(series: &TimeSeries) -> Chart {
    let points = |values: &[f64]| {
        let width = series.interval.as_secs_f64();
        let mut points: Vec<(f64, f64)> = values
            .iter()
            .enumerate()
            .map(|(i, value)| (i as f64 * width, *value))
            .collect();
        // The last interval has a width, too.
        points.extend(values.last().map(|last| (values.len() as f64 * width, *last)));
        points
    };
    Chart {
        title: "Established connections".to_owned(),
        x: Axis::linear("seconds since the first frame"),
        y: Axis::linear("connections"),
        series: vec![
            curve("most at once", Stroke::Steps, points(&series.max)),
            curve("on average", Stroke::Steps, points(&series.mean)),
        ],
    }
}

fn distribution(summary: &Summary, series: &Series) -> Chart {
    let staircase = |cdf: &[(u32, f64)]| {
        let mut points = vec![(0.0, 0.0)];
        points.extend(cdf.iter().map(|(segments, share)| (f64::from(*segments), *share)));
        points
    };
    let mut curves = vec![curve(
        "all connections",
        Stroke::Steps,
        staircase(&summary.cwnd_distribution.cdf),
    )];
    for side in sides(&series.points) {
        let cdf = own_distribution(&series.points, side);
        if !cdf.is_empty() {
            curves.push(curve(direction(side), Stroke::Steps, staircase(&cdf)));
        }
    }
    Chart {
        title: "Distribution of congestion windows".to_owned(),
        x: Axis::linear("segments (one estimate for each round trip with data)"),
        y: Axis::linear("share of round trips, not above"),
        series: curves,
    }
}

/// Distribution of one side's estimates, in units of its largest segment.
fn own_distribution(points: &[Point], side: Side) -> Vec<(u32, f64)> {
    let of_side = || points.iter().filter(|point| point.side == side);
    let segment = of_side()
        .filter_map(|point| match point.mark {
            Mark::Data { start, end, .. } => Some((end - start).unsigned_abs()),
            _ => None,
        })
        .max()
        .unwrap_or(0)
        .max(1);
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for point in of_side() {
        if let Mark::Cwnd { bytes } = point.mark {
            let segments = u32::try_from(bytes.div_ceil(segment)).unwrap_or(u32::MAX);
            *counts.entry(segments).or_default() += 1;
        }
    }
    let all: u64 = counts.values().sum();
    let mut below = 0;
    counts
        .into_iter()
        .map(|(segments, count)| {
            below += count;
            (segments, below as f64 / all as f64)
        })
        .collect()
}

fn curve(name: &str, stroke: Stroke, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        name: name.to_owned(),
        stroke,
        points,
    }
}

/// Maps a time to a column of the picture.
fn column(first: f64, last: f64) -> impl Fn(f64) -> usize {
    move |at| ((at - first) / (last - first).max(1e-12) * COLUMNS as f64) as usize
}

/// The curve thinned to at most four points per column: first, lowest, highest and last.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if points.len() <= 4 * COLUMNS {
        return points.to_vec();
    }
    let column = column(first.0, last.0);
    points
        .chunk_by(|a, b| column(a.0) == column(b.0))
        .flat_map(|chunk| {
            let extreme = |sign: f64| {
                let by = |a: &&(f64, f64), b: &&(f64, f64)| (sign * a.1).total_cmp(&(sign * b.1));
                chunk.iter().max_by(by).copied()
            };
            let mut kept = vec![
                chunk.first().copied(),
                extreme(-1.0),
                extreme(1.0),
                chunk.last().copied(),
            ];
            kept.sort_by(|a, b| {
                a.map(|p| p.0)
                    .partial_cmp(&b.map(|p| p.0))
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
            kept.dedup();
            kept.into_iter().flatten()
        })
        .collect()
}

/// Spans as pairs of points; touching spans of one column are merged.
fn thin_spans(spans: &[(f64, f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return Vec::new();
    };
    let is_dense = spans.len() > COLUMNS;
    let column = column(first.0, last.0);
    let mut merged: Vec<(f64, f64, f64)> = Vec::new();
    for &(at, from, to) in spans {
        match merged.last_mut() {
            Some(before)
                if is_dense && column(before.0) == column(at) && from <= before.2 && to >= before.1 =>
            {
                before.1 = before.1.min(from);
                before.2 = before.2.max(to);
            }
            _ => merged.push((at, from, to)),
        }
    }
    merged
        .into_iter()
        .flat_map(|(at, from, to)| [(at, from), (at, to)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_thinned_and_keep_their_extremes() {
        let long: Vec<(f64, f64)> = (0..200_000)
            .map(|i| (f64::from(i), if i == 77_777 { 1e6 } else { f64::from(i % 100) }))
            .collect();
        let thinned = thin(&long);
        assert!(thinned.len() <= 4 * (COLUMNS + 1), "{}", thinned.len());
        assert!(thinned.contains(&(77_777.0, 1e6)));
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thinned.last(), long.last());
        let short = &long[..100];
        assert_eq!(thin(short), short);
        assert!(thin(&[]).is_empty());
    }

    #[test]
    fn strokes_that_touch_become_one() {
        let spans: Vec<(f64, f64, f64)> = (0..100_000)
            .map(|i| (f64::from(i), f64::from(i) * 10.0, f64::from(i + 1) * 10.0))
            .collect();
        let thinned = thin_spans(&spans);
        assert!(thinned.len() <= 2 * (COLUMNS + 1), "{}", thinned.len());
        assert_eq!(thinned.last().map(|p| p.1), Some(1e6));
        assert_eq!(thin_spans(&spans[..3]).len(), 6);
    }
}
