//! A fetch as one JSON line: times in seconds from its start, sizes in bytes.

use super::Run;
use super::spread::Spread;
use client::explain::{Wait, explain, hints, streams, sums};
use client::plan::Manner;
use client::timeline::{Fate, Part, Timeline};
use repro::visit::Figures;
use serde_json::{Value, json};
use units::{Instant, Word as _};
use url::Url;

/// One fetch as a JSON object. `insecure` says whether certificates were accepted unchecked; `None` without TLS.
pub(super) fn of(
    page: &Url,
    manner: Manner,
    timeline: &Timeline,
    insecure: Option<bool>,
    with_causes: bool,
) -> Value {
    let at = |instant: Instant| instant.since(timeline.began).as_secs_f64();
    let maybe = |instant: Option<Instant>| instant.map(at);
    let totals = timeline.sums();
    let hints = hints(timeline);
    let is_hinted = |number: usize| hints.iter().any(|hint| hint.object == number);
    let objects: Vec<Value> = timeline
        .objects
        .iter()
        .enumerate()
        .map(|(number, object)| {
            let (fate, why) = match &object.fate {
                Fate::Pending => ("pending", None),
                Fate::Done(source) => (source.name(), None),
                Fate::Moved(_) => ("moved", None),
                Fate::Failed(why) => ("failed", Some(why)),
            };
            let requests: Vec<Value> = object
                .tries
                .iter()
                .map(|one| {
                    let (part, bytes) = match one.part {
                        Part::Whole => ("whole", None),
                        Part::First(bytes) => ("first", Some(bytes)),
                        Part::Rest(from) => ("rest", Some(from)),
                        Part::Head => ("head", None),
                    };
                    json!({
                        "connection": one.connection, "part": part, "part_bytes": bytes, "status": one.status,
                        "asked": at(one.asked), "sent": maybe(one.sent), "hinted": maybe(one.hinted), "first_byte": maybe(one.first),
                        "last_byte": maybe(one.last), "head_bytes": one.head_bytes, "body_bytes": one.body_bytes,
                        "repeated": one.is_repeated, "stream": one.stream, "priority": one.priority,
                    })
                })
                .collect();
            json!({
                "url": object.url, "role": object.role.name(), "parent": object.parent, "found": at(object.found),
                "initiator": object.initiator.word(), "named": maybe(object.named), "announced": is_hinted(number), "status": object.status, "fate": fate, "why": why, "content_bytes": object.content_bytes,
                "requests": requests,
            })
        })
        .collect();
    let connections: Vec<Value> = timeline
        .connections
        .iter()
        .map(|connection| {
            let tcp = connection.tcp.map(|tcp| {
                json!({
                    "rtt": tcp.rtt.as_secs_f64(), "rtt_min": tcp.rtt_min.map(|rtt| rtt.as_secs_f64()),
                    "delayed_ack": tcp.delayed_ack.as_secs_f64(), "mss": tcp.mss, "packets_in": tcp.segments_in,
                    "packets_out": tcp.segments_out, "retransmitted": tcp.retransmitted,
                    "out_of_order": tcp.out_of_order, "closing_counted": tcp.is_over,
                })
            });
            let quic = connection.quic.map(|quic| {
                json!({
                    "rtt": quic.rtt.as_secs_f64(), "rtt_min": quic.rtt_min.map(|rtt| rtt.as_secs_f64()),
                    "handshake_round_trips": connection.handshake_round_trips(), "handshake_again": connection.shaken_again,
                    "datagrams_in": quic.datagrams_in, "datagrams_out": quic.datagrams_out,
                    "datagram_bytes_in": quic.bytes_in, "datagram_bytes_out": quic.bytes_out,
                    "lost": quic.lost, "probes": quic.probes, "holes": quic.holes, "blocked": quic.blocked,
                    "challenges": quic.challenges, "mtu": quic.mtu,
                })
            });
            let tls = connection.secured.map(|(done, agreed)| {
                json!({
                    "done": at(done), "handshake": connection.handshake().map(|took| took.as_secs_f64()),
                    "version": agreed.version, "cipher_suite": agreed.suite, "resumed": agreed.resumed,
                })
            });
            json!({
                "tls": tls, "opened": at(connection.opened), "connected": maybe(connection.connected),
                "protocol": connection.protocol, "closed": maybe(connection.closed), "cut": connection.is_cut, "requests": connection.requests,
                "bytes_out": connection.bytes_out,
                "bytes_in": connection.arrivals.iter().map(|arrival| arrival.bytes).sum::<u64>(), "tcp": tcp,
                "quic": quic,
            })
        })
        .collect();
    let skipped: Vec<Value> = timeline
        .skipped
        .iter()
        .map(|(url, why)| json!({ "url": url, "why": why.to_string() }))
        .collect();
    let mut line = json!({
        "event": "fetch", "url": page.as_str(), "insecure": insecure, "mode": manner.to_string(),
        "seconds": at(timeline.ended), "connections": totals.connections, "requests": totals.requests,
        "repeated": totals.repeated, "bytes_in": totals.bytes_in, "bytes_out": totals.bytes_out,
        "bytes_again": totals.bytes_again, "packets": totals.packets, "closings_uncounted": totals.unclosed,
        "tcp_bytes": tcp_bytes(timeline), "failed": totals.failed,
        "from_cache": totals.from_cache, "objects": objects, "opened": connections, "skipped": skipped,
        "skipped_more": timeline.skipped_more, "left_out": timeline.left_out,
    });
    // Without a page there is no critical path.
    if with_causes && timeline.has_page() {
        let spans = explain(timeline);
        let causes: Vec<Value> = sums(&spans)
            .iter()
            .map(|(cause, took)| json!({ "cause": cause.name(), "seconds": took.as_secs_f64() }))
            .collect();
        let path: Vec<Value> = spans
            .iter()
            .map(|span| {
                json!({ "from": at(span.from), "to": at(span.to), "cause": span.cause.name(),
                    "object": span.object })
            })
            .collect();
        let streams: Vec<Value> = streams(timeline)
            .iter()
            .map(|one| {
                let waits = Wait::ALL.iter().zip(one.waits);
                let waits: Vec<Value> = waits
                    .map(|(wait, took)| json!({ "wait": wait.name(), "seconds": took.as_secs_f64() }))
                    .collect();
                json!({ "object": one.object, "request": one.one, "stream": one.stream, "waits": waits })
            })
            .collect();
        let early_hints: Vec<Value> = hints
            .iter()
            .map(|hint| {
                json!({ "object": hint.object, "before_head": hint.before_head.map(|took| took.as_secs_f64()),
                    "earlier": hint.earlier.map(|took| took.as_secs_f64()), "used": hint.is_used, "bytes": hint.bytes })
            })
            .collect();
        line["explain"] =
            json!({ "causes": causes, "path": path, "streams": streams, "early_hints": early_hints });
    }
    line
}

/// Packets of a simulated fetch as seen at the client, and their bytes, headers of IP, TCP and UDP included.
pub(super) fn wire(figures: &Figures) -> Value {
    // Counts of one fetch are whole numbers.
    let [up, down] = [figures.up, figures.down];
    json!({
        "packets": figures.packets() as u64, "packets_out": up.packets as u64, "packets_in": down.packets as u64,
        "bytes": figures.packet_bytes() as u64, "bytes_out": up.packet_bytes as u64, "bytes_in": down.packet_bytes as u64,
    })
}

/// Data bytes, known retransmissions included, plus 40 bytes per packet, as the W3C NOTE's tables count; `None` if
/// the kernel does not report packets, and for TLS, whose records are not counted.
pub(super) fn tcp_bytes(timeline: &Timeline) -> Option<u64> {
    if timeline.is_secured() {
        return None;
    }
    let totals = timeline.sums();
    let packets = totals.packets?;
    Some(totals.bytes_in + totals.bytes_out + totals.bytes_again + 40 * packets)
}

/// A summary of one mode: the fetches that received the page, and the number of those that did not.
pub(super) fn spread(page: &Url, manner: Manner, runs: &[Run]) -> Value {
    let all = || runs.iter().filter(|run| run.manner == manner);
    let of_mode = || all().map(|run| &run.timeline).filter(|one| one.has_page());
    let value = |of: &dyn Fn(&Timeline) -> Option<f64>| {
        let values: Option<Vec<f64>> = of_mode().map(of).collect();
        values.and_then(Spread::of).map(|spread| {
            json!({ "mean": spread.mean, "min": spread.least, "median": spread.median, "max": spread.most,
                "deviation": spread.deviation })
        })
    };
    json!({
        "event": "spread", "url": page.as_str(), "mode": manner.to_string(), "runs": of_mode().count(),
        "without_page": all().count() - of_mode().count(),
        "seconds": value(&|one| Some((one.ended - one.began).as_secs_f64())),
        "connections": value(&|one| Some(one.sums().connections as f64)),
        "requests": value(&|one| Some(one.sums().requests as f64)),
        "bytes_in": value(&|one| Some(one.sums().bytes_in as f64)),
        "bytes_out": value(&|one| Some(one.sums().bytes_out as f64)),
        "packets": value(&|one| one.sums().packets.map(|packets| packets as f64)),
        "closings_uncounted": of_mode().map(|one| one.sums().unclosed).sum::<u64>(),
        "tcp_bytes": value(&|one| tcp_bytes(one).map(|bytes| bytes as f64)),
    })
}
