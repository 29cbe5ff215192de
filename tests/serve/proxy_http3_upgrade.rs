//! Bodies of HTTP/3 requests that are passed on, half of which have arrived when an operator reloads the configuration or
//! upgrades the server: they go on to and from the upstream at which they began, and arrive whole.
//!
//! `proxy_load` does the same over HTTP/1.1 and HTTP/2, `http3` for files.

use crate::serve::files::noise;
use crate::serve::http3::client::Client;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, signal, within};
use crate::serve::proxy_load::{HELD, Origin};
use crate::serve::tls::Pairs;
use crate::serve::upgrade::{ENDING, Line, pid_of};
use std::net::SocketAddr;

/// A site over HTTP/3 that passes everything to one upstream at a time.
struct Site {
    pairs: Pairs,
    /// Landlock allows the ports that were named at the start. These are of a rule without requests.
    others: String,
}

impl Site {
    /// The first of these upstreams has all requests.
    fn of(origins: [&Origin; 2]) -> Site {
        let mut pairs = Pairs::new();
        pairs.add("a", &["a.test"]);
        let site = Site {
            pairs,
            others: origins.map(|origin| format!("\"{}\"", origin.url)).join(", "),
        };
        site.set(origins[0]);
        site
    }

    fn set(&self, origin: &Origin) {
        let text = format!(
            "grace = \"60s\"\nbody-timeout = \"5m\"\n\
             [[proxy]]\npath = \"/unused/*\"\nupstreams = [{}]\n\
             [[proxy]]\npath = \"*\"\nupstreams = [\"{}\"]\nretries = 0\nfirst-byte-timeout = \"5m\"\n\
             idle-timeout = \"5m\"\n",
            self.others, origin.url
        );
        self.pairs.tree.replace("weir.toml", text);
    }

    fn start(&self, strategy: Strategy) -> Server {
        let file = self.pairs.tree.join("weir.toml");
        let launch: Launch = self.pairs.launch(strategy, &["a"]);
        launch
            .args(["--http3".as_ref(), "--config".as_ref(), file.as_os_str()])
            .start()
    }

    fn open(&self, address: SocketAddr) -> Client {
        Client::open(address, &self.pairs.client(), "a.test")
    }

    /// A connection whose requests reach the upstream with this name. Until it has given its sockets away, an old program still
    /// takes some.
    fn reaches(&self, address: SocketAddr, name: &str) -> Client {
        eventually("requests reach the new upstream", || {
            let mut client = self.open(address);
            let got = client.get("/a.txt", &[]);
            assert_eq!((got.status, got.text().as_str()), (200, "a"));
            let is_new = got.field("x-origin") == Some(name);
            match is_new {
                true => Some(client),
                false => {
                    client.leave();
                    None
                }
            }
        })
    }
}

/// A download and an upload on one connection: half of each has passed, and the rest waits.
struct UnderWay {
    client: Client,
    down: u64,
    up: u64,
    held: Vec<u8>,
}

impl UnderWay {
    fn begin(site: &Site, server: &Server, origin: &Origin) -> UnderWay {
        let (held, half) = (noise(HELD), HELD / 2);
        let mut client = site.open(server.address);
        let down = client.ask("/held");
        let post = [(":method", "POST"), ("content-length", &*HELD.to_string())];
        let up = client.open_request("/held", &post, false);
        assert!(client.send_body(up, &held[..half]), "{:?}", client.closed);
        let is_half =
            |client: &Client| client.got[&down].body.len() == half && origin.uploaded() == half as u64;
        assert!(client.run(is_half), "{:?}, {}", client.closed, origin.uploaded());
        UnderWay {
            client,
            down,
            up,
            held,
        }
    }

    /// Lets both go on, and expects them to arrive whole from the upstream at which they began.
    fn finish(mut self, origin: &Origin, name: &str) -> Client {
        origin.open_gate();
        let second = &self.held[HELD / 2..];
        assert!(self.client.send_body(self.up, second), "{:?}", self.client.closed);
        self.client.end(self.up, &[]);
        for stream in [self.down, self.up] {
            let got = self.client.end_of(stream);
            assert_eq!(
                (got.status, got.field("x-origin"), got.reset),
                (200, Some(name), None)
            );
            assert!(got.has_ended && got.body == self.held, "{} bytes", got.body.len());
        }
        self.client
    }
}

fn bodies_under_way_outlive_a_reload(strategy: Strategy) {
    let (first, second) = (Origin::new("first"), Origin::new("second"));
    let site = Site::of([&first, &second]);
    let mut server = site.start(strategy);
    let under_way = UnderWay::begin(&site, &server, &first);
    site.set(&second);
    server.signal("HUP");
    site.reaches(server.address, "second").leave();
    let mut client = under_way.finish(&first, "first");
    // The same connection follows the new configuration.
    eventually("the new upstream, in its process, too", || {
        (client.get("/a.txt", &[]).field("x-origin") == Some("second")).then_some(())
    });
    assert!(!client.is_leaving);
    client.leave();
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

fn bodies_under_way_outlive_two_upgrades(strategy: Strategy) {
    let (first, second) = (Origin::new("first"), Origin::new("second"));
    let site = Site::of([&first, &second]);
    let mut line = Line::of(site.start(strategy));
    let address = line.first.address;
    let under_way = UnderWay::begin(&site, &line.first, &first);
    let mut later = Vec::new();
    for (upgrades, (origin, name)) in [(1, (&second, "second")), (2, (&first, "first"))] {
        site.set(origin);
        signal(line.newest, "USR2");
        line.newest = pid_of(&line.next_start());
        eventually("the old one leaves", || {
            (line.first.stderr().matches("stopping:").count() == upgrades).then_some(())
        });
        later.push(site.reaches(address, name));
    }
    assert!(
        line.first.has_ended().is_none(),
        "the first one waits for its clients"
    );
    let mut client = under_way.finish(&first, "first");
    assert!(client.run(|client| client.is_leaving), "{:?}", client.closed);
    client.leave();
    // The program between them waits for its own client.
    let mut last = later.pop().expect("two");
    for mut client in later {
        client.run(|client| client.is_leaving);
        client.leave();
    }
    let status = within(ENDING, "the first one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    assert_eq!(last.get("/a.txt", &[]).field("x-origin"), Some("first"));
    assert!(!last.is_leaving);
    last.leave();
    line.stop();
}

macro_rules! where_sessions_dial {
    ($($name:ident),* $(,)?) => {
        on_strategy!(loops, LOOPS: $($name),*);
        on_strategy!(one_loop, ONE_LOOP: $($name),*);
        on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
        on_strategy!(loops_uring, LOOPS_URING: $($name),*);
    };
}

where_sessions_dial!(
    bodies_under_way_outlive_a_reload,
    bodies_under_way_outlive_two_upgrades,
);
