//! Output for other programs: xplot, CSV, JSON.

mod talk;

use talk::{GET, Seg, Talk, reply};
use trace::{Analyzer, ConnectionId, Event, Options, Side};

fn recorded() -> (Analyzer, trace::Series) {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100)
        .data(300, true, GET)
        .data(500, false, &reply(100));
    talk.push(
        500_000,
        Seg {
            from_client: false,
            flags: "PA",
            ack: talk.next[0],
            payload: &reply(100),
            ..Seg::default()
        },
    );
    talk.ack_all(600_000, true);
    let mut analyzer = Analyzer::new(Options {
        record: Some(ConnectionId(1)),
        ..Options::default()
    });
    analyzer.feed(&talk.pcapng()).unwrap();
    analyzer.finish().unwrap();
    let series = analyzer.take_series();
    (analyzer, series)
}

#[test]
fn xplot_shows_data_repetitions_and_acknowledgments() {
    let (_, series) = recorded();
    let plot = series.xplot(Side::Server, "server\nto client");
    assert!(
        plot.starts_with("timeval unsigned\ntitle\nservertoclient\nxlabel\ntime\n")
            || plot.contains("server")
    );
    assert!(plot.contains("white\ndarrow 0.000500 1\n"), "{plot}");
    assert!(plot.contains("red\ndarrow 0.500000 1\n"), "{plot}");
    assert!(plot.contains("atext 0.500000 141\nR\n"), "{plot}");
    assert!(plot.contains("green\nline 0.000300 1 0.600000 1\n"), "{plot}");
    assert!(plot.ends_with("go\n"));
}

#[test]
fn csv_has_one_row_for_each_point() {
    let (analyzer, series) = recorded();
    let csv = series.csv();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows.len(), series.points.len() + 1);
    let columns = rows[0].split(',').count();
    assert!(rows.iter().all(|r| r.split(',').count() == columns), "{csv}");
    assert!(csv.contains("0.500000000,6,server,data-again,1,141,,,"), "{csv}");
    let summary = analyzer.summary();
    assert_eq!(
        summary.kinds_csv(),
        "type,from_clients,from_servers\nSYN,1,1\nFIN,0,0\nRST,0,0\nDATA,1,2\nACK,2,0\n"
    );
    assert_eq!(summary.cwnd_distribution.csv(), "segments,share\n1,1.000000\n");
    assert!(
        summary.established.csv().starts_with("t_s,mean,max\n0,1.000,1\n"),
        "{}",
        summary.established.csv()
    );
}

#[test]
fn the_recorder_keeps_its_bound() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 100);
    for i in 0..100 {
        talk.data(300 + i, true, b"x");
    }
    let mut options = Options {
        record: Some(ConnectionId(1)),
        ..Options::default()
    };
    options.limits.points = 10;
    let mut analyzer = Analyzer::new(options);
    analyzer.feed(&talk.pcapng()).unwrap();
    let series = analyzer.take_series();
    assert_eq!(series.points.len(), 10);
    assert!(series.dropped > 90);
}

#[test]
fn results_are_json_with_units_in_their_names() {
    let (mut analyzer, series) = recorded();
    let mut kinds = Vec::new();
    while let Some(event) = analyzer.next_event() {
        let json = serde_json::to_value(&event).unwrap();
        kinds.push(json["event"].as_str().unwrap().to_owned());
        match event {
            Event::Finding(_) => {
                assert_eq!(json["kind"], "retransmission_timeout");
                assert_eq!(json["cost_ms"], 499.5);
                assert_eq!(json["packets"], serde_json::json!([5, 6]));
            }
            Event::Transaction(_) => {
                assert_eq!((&json["status"], &json["wait_ms"]), (&200.into(), &0.2.into()));
            }
            Event::Connection(_) => {
                assert_eq!(json["client"], "198.18.0.1:3199");
                assert_eq!(json["from_server"]["retransmissions"]["timeout"], 1);
                assert_eq!(json["from_server"]["volume"]["overhead_40_percent"], 30.0);
            }
            other => panic!("the capture has TCP only: {other:?}"),
        }
    }
    kinds.sort();
    assert_eq!(kinds, ["connection", "finding", "transaction"]);
    let json = serde_json::to_value(analyzer.summary()).unwrap();
    assert_eq!(json["findings"]["retransmission timeout"]["count"], 1);
    assert!(
        serde_json::to_string(&series)
            .unwrap()
            .contains("\"mark\":\"ack\"")
    );
}

/// An estimate is drawn where its flight was reached, not at the end of the round trip or the connection.
#[test]
fn congestion_windows_are_drawn_on_the_flights_they_are() {
    let mut talk = Talk::default();
    talk.handshake(0, 100, 50_000).data(51_000, true, GET);
    for i in 0..4 {
        talk.data(52_000 + i, false, &[b'.'; 1460]);
    }
    talk.ack_all(102_000, true);
    talk.segment(5_000_000, true, "FA", b"")
        .segment(5_050_000, false, "FA", b"");
    let mut analyzer = Analyzer::new(Options {
        record: Some(ConnectionId(1)),
        ..Options::default()
    });
    analyzer.feed(&talk.pcapng()).unwrap();
    analyzer.finish().unwrap();
    let points = analyzer.take_series().points;
    let flights: Vec<_> = points
        .iter()
        .filter_map(|p| match p.mark {
            trace::Mark::Data { flight, .. } => Some((p.at, p.side, flight)),
            _ => None,
        })
        .collect();
    let mut seen = 0;
    for point in &points {
        if let trace::Mark::Cwnd { bytes } = point.mark {
            assert!(flights.contains(&(point.at, point.side, bytes)), "{point:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 2, "one for each side");
}
