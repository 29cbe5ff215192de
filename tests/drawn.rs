//! What the diagrams of qvis look up in a log of packets in qlog 0.3, for tests of the commands that write it.

use serde_json::Value;
use std::collections::BTreeMap;

/// Asserts that a log whose packets were all opened has what qvis draws: sizes that fill each packet, limits of flow control of
/// both ends, and frames of HTTP/3 of this many requests that fill the streams.
pub(crate) fn whole(events: &[Value], requests: usize) {
    for event in events {
        let (raw, header) = (&event["data"]["raw"], &event["data"]["header"]);
        let Some(frames) = event["data"]["frames"].as_array() else {
            continue;
        };
        assert!(!frames.is_empty(), "{event}");
        let sizes = frames
            .iter()
            .map(|frame| frame["frame_size"].as_u64().expect("a size"));
        let around = raw["length"].as_u64().expect("a length") - sizes.sum::<u64>();
        let id = header["dcid"].as_str().expect("an ID").len() as u64 / 2;
        if header["packet_type"] == "1RTT" {
            // The first byte, the number and the authentication tag.
            assert!((1 + 1 + 16..=1 + 4 + 16).contains(&(around - id)), "{event}");
        }
    }
    for owner in ["local", "remote"] {
        let parameters = parameters(events, owner);
        for name in [
            "initial_max_data",
            "initial_max_stream_data_bidi_local",
            "initial_max_stream_data_bidi_remote",
            "initial_max_stream_data_uni",
        ] {
            assert!(parameters[name].is_u64(), "{parameters}");
        }
    }
    let mut messages = 0;
    for (frame, packet) in [
        ("http:frame_created", "transport:packet_sent"),
        ("http:frame_parsed", "transport:packet_received"),
    ] {
        let mut carried: BTreeMap<u64, u64> = BTreeMap::new();
        let mut filled: BTreeMap<u64, u64> = BTreeMap::new();
        for event in events {
            let data = &event["data"];
            if event["name"] == packet {
                for frame in data["frames"].as_array().into_iter().flatten() {
                    let id = frame["stream_id"].as_u64().unwrap_or(1);
                    if frame["frame_type"] == "stream" && id % 4 == 0 {
                        let end = frame["offset"].as_u64().zip(frame["length"].as_u64());
                        let end = end.map(|(offset, length)| offset + length).expect("numbers");
                        let known = carried.entry(id).or_default();
                        *known = end.max(*known);
                    }
                }
            } else if event["name"] == frame {
                let id = data["stream_id"].as_u64().expect("a stream");
                assert!(
                    carried.contains_key(&id),
                    "a packet is ahead of the frames in it: {event}"
                );
                assert_eq!(data["length"], data["byte_length"]);
                let length = data["length"].as_u64().expect("a length");
                // Weir and its peers here write type and length in the shortest form.
                let header = 1 + match length {
                    0..64 => 1,
                    64..16_384 => 2,
                    _ => 4,
                };
                *filled.entry(id).or_default() += header + length;
                if data["frame"]["frame_type"] == "headers" {
                    messages += 1;
                    let field = &data["frame"]["headers"][0]["name"];
                    assert!(field == ":method" || field == ":status", "{event}");
                }
            }
        }
        assert_eq!(filled, carried, "{frame}");
    }
    assert!(messages >= 2 * requests, "{messages} of {requests} requests");
}

/// The transport parameters of an end.
pub(crate) fn parameters<'e>(events: &'e [Value], owner: &str) -> &'e Value {
    let mut of_owner = events
        .iter()
        .filter(|event| event["name"] == "transport:parameters_set" && event["data"]["owner"] == owner);
    let found = of_owner.next().expect("parameters of each end");
    assert!(of_owner.next().is_none(), "{owner}: once");
    &found["data"]
}

/// Asserts that the log of an end has what it knows of loss recovery: round trips, and at some time more than so many bytes in
/// flight. Each lost packet is one that was sent.
pub(crate) fn recovery(events: &[Value], in_flight: u64) {
    let of = |name: &'static str| {
        let of_name = events.iter().filter(move |event| event["name"] == name);
        of_name.map(|event| &event["data"]).collect::<Vec<_>>()
    };
    let metrics = of("recovery:metrics_updated");
    let most = metrics
        .iter()
        .filter_map(|data| data["bytes_in_flight"].as_u64())
        .max();
    assert!(most.is_some_and(|most| most > in_flight), "{most:?}");
    let last = metrics.last().expect("metrics");
    for name in ["latest_rtt", "smoothed_rtt", "min_rtt", "congestion_window"] {
        assert!(last[name].as_f64().is_some_and(|value| value > 0.0), "{last}");
    }
    // The library writes the latest one with a precision of 24 bits.
    let [latest, least] = ["latest_rtt", "min_rtt"].map(|name| last[name].as_f64().expect("a number"));
    assert!(latest > least * 0.999_999, "{last}");
    let name = |data: &&Value| {
        let header = &data["header"];
        (
            header["packet_type"].to_string(),
            header["packet_number"].as_u64(),
        )
    };
    let sent = of("transport:packet_sent");
    let sent: BTreeMap<_, _> = sent
        .iter()
        .map(|data| (name(data), &data["raw"]["length"]))
        .collect();
    let lost = of("recovery:packet_lost");
    assert_eq!(last["packets_lost"], lost.len());
    for loss in &lost {
        let length = sent.get(&name(loss)).expect("a packet that was sent");
        let known = &loss["raw"]["length"];
        assert!(known.is_null() || known == *length, "{loss}: {length}");
    }
}
