//! Connections to a collector of traces: batches share one, and a collector that closes it at any moment costs no spans and no
//! line in the log. The collector here follows a script for each connection.

use crate::serve::otlp::{Sent, TAKEN, counted};
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::head;
use crate::serve::tree::Tree;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the collector does after it has read a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Answer,
    AnswerAndClose,
    /// Without an answer.
    Close,
}

/// Number of a connection, and the content of a request that came on it.
type Heard = (usize, Vec<u8>);

/// A collector, and the requests that it has read.
struct Collector {
    url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Collector {
    /// Each connection has a line of acts; after the last one, requests are answered.
    fn following(script: &'static [&'static [Act]]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let log = Arc::clone(&heard);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.expect("a connection");
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let mut acts = script.get(number).copied().unwrap_or_default().iter();
                while let Some(sent) = request(&mut stream) {
                    log.lock()
                        .expect("no test panics here")
                        .push((number, sent.content));
                    let act = acts.next().copied().unwrap_or(Act::Answer);
                    if act != Act::Close {
                        stream.write_all(TAKEN).expect("the server waits for it");
                    }
                    if act != Act::Answer {
                        break;
                    }
                }
            }
        });
        Collector { url, heard }
    }

    fn heard(&self) -> Vec<Heard> {
        self.heard.lock().expect("no collector panics").clone()
    }

    /// The connections of the requests, once there are so many.
    fn connections(&self, count: usize) -> Vec<usize> {
        eventually("requests to the collector", || {
            let heard = self.heard();
            (heard.len() >= count).then(|| heard.iter().map(|(connection, _)| *connection).collect())
        })
    }
}

/// The next request of a connection; `None`: it was closed.
fn request(stream: &mut TcpStream) -> Option<Sent> {
    let head = head(stream);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok())?;
    let mut content = vec![0; length];
    stream.read_exact(&mut content).ok()?;
    assert!(!head.contains("Connection: close"), "{head}");
    Some(Sent { head, content })
}

fn launch(collector: &Collector) -> (Tree, Server) {
    let tree = Tree::with(&[("a.txt", "a file")]);
    let server = Launch::new(Strategy::ONE_LOOP)
        .root(tree.path())
        .args(["--otlp", &collector.url, "--otlp-interval=100ms", "--live"])
        .start();
    (tree, server)
}

/// Makes a span, and waits until the collector has had so many requests.
fn trace(server: &Server, collector: &Collector, count: usize) -> Vec<usize> {
    assert_eq!(server.connect().get("/a.txt").status, 200);
    collector.connections(count)
}

#[test]
fn batches_share_a_connection() {
    let collector = Collector::following(&[]);
    let (_tree, mut server) = launch(&collector);
    for count in 1..=4 {
        assert_eq!(trace(&server, &collector, count), vec![0; count]);
    }
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_connection_that_the_collector_closed_is_opened_anew() {
    let collector = Collector::following(&[&[Act::AnswerAndClose], &[Act::Answer, Act::AnswerAndClose]]);
    let (_tree, server) = launch(&collector);
    for (count, connections) in [(1, &[0][..]), (2, &[0, 1]), (3, &[0, 1, 1]), (4, &[0, 1, 1, 2])] {
        assert_eq!(trace(&server, &collector, count), connections);
    }
    eventually("all spans are taken", || {
        (counted(&server, "weir_spans_sent_total") >= 4).then_some(())
    });
    assert_eq!(counted(&server, "weir_spans_dropped_total"), 0);
    assert!(!server.stderr().contains("takes no spans"), "{}", server.stderr());
}

/// The collector closes a connection while a request is on its way.
#[test]
fn a_request_that_crosses_a_close_is_sent_once_more() {
    let collector = Collector::following(&[&[Act::Answer, Act::Close]]);
    let (_tree, server) = launch(&collector);
    assert_eq!(trace(&server, &collector, 1), [0]);
    assert_eq!(trace(&server, &collector, 3), [0, 0, 1]);
    let heard = collector.heard();
    assert_eq!(heard[1].1, heard[2].1, "the same batch");
    assert_eq!(trace(&server, &collector, 4), [0, 0, 1, 1]);
    assert!(!server.stderr().contains("takes no spans"), "{}", server.stderr());
}

/// A second close is a failure of the collector, and is logged and retried as one.
#[test]
fn a_request_is_sent_once_more_and_then_it_has_failed() {
    let collector = Collector::following(&[&[Act::Answer, Act::Close], &[Act::Close]]);
    let (_tree, server) = launch(&collector);
    assert_eq!(trace(&server, &collector, 1), [0]);
    assert_eq!(trace(&server, &collector, 4), [0, 0, 1, 2]);
    eventually("the log tells the failure and its end", || {
        let log = server.stderr();
        let is_told = log.contains("takes no spans: it closed the connection before its response was whole")
            && log.contains("takes spans again; lost: 0");
        is_told.then_some(())
    });
}
