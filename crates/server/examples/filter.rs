//! A server of your own: the file server of this library with two filters, one of which runs for each response, and a
//! handler.
//!
//! ```console
//! $ cargo run -p server --example filter -- ./public 127.0.0.1:8080
//! ```
//!
//! A filter changes an entity when it enters the cache, so a page costs its footer once and not per request. Only text
//! that differs between responses is made for each of them.

use bytes::Bytes;
use http_semantics::status::Status;
use runtime::listen::{Listener, Listening};
use runtime::strategy::{Concurrency, Io, Limits, Strategy, serve};
use server::config::Config;
use server::filter::{Added, Entity, Filter};
use server::handler::{Ask, Handler, Made};
use server::site::Source;
use server::{Additions, Interprocess, Server};
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use units::{Seed, UnixTime};

/// Adds a line at the end of each page, and lets browsers keep files with a version in their name (`app.v3.js`).
#[derive(Debug)]
struct Footer;

impl Filter for Footer {
    fn wants_content(&self, _path: &[u8], media_type: &str) -> bool {
        media_type == "text/html"
    }

    fn entity(&self, entity: &mut Entity<'_>) {
        if let Some(page) = entity.content() {
            let end = page
                .windows(7)
                .rposition(|tag| tag.eq_ignore_ascii_case(b"</body>"));
            let (before, after) = page.split_at(end.unwrap_or(page.len()));
            entity.set_content([before, b"<footer>Served by an example.</footer>", after].concat());
        }
        let mut parts = entity.file().rsplit(|b| *b == b'.').skip(1);
        let is_version =
            |part: &[u8]| part.len() > 1 && part[0] == b'v' && part[1..].iter().all(u8::is_ascii_digit);
        if parts.next().is_some_and(is_version)
            && let Ok(line) = "Cache-Control: max-age=31536000, immutable".parse()
        {
            entity.set_field(&line);
        }
    }
}

/// Adds the time of each response.
#[derive(Debug)]
struct Stamp;

impl Filter for Stamp {
    fn entity(&self, _: &mut Entity<'_>) {}

    fn is_for_each_answer(&self) -> bool {
        true
    }

    fn answer(&self, ask: &Ask<'_>, fields: &mut Added) {
        if let Ok(line) = format!("X-Answered-At: {}", ask.wall.secs).parse() {
            fields.add_field(&line);
        }
    }
}

/// Answers with the client's own address.
#[derive(Debug)]
struct WhoAmI;

impl Handler for WhoAmI {
    fn answer(&self, ask: &Ask<'_>, _: &Server) -> Option<Made> {
        Some(Made {
            status: Status::OK,
            media_type: "text/plain; charset=utf-8",
            content: Bytes::from(format!("{}\n", ask.peer)),
        })
    }
}

fn additions() -> Additions {
    Additions {
        filters: vec![Arc::new(Footer), Arc::new(Stamp)],
        handlers: vec![("/who-am-i".to_owned(), Arc::new(WhoAmI))],
        ..Additions::default()
    }
}

const WELCOME: Source = Source::Embedded {
    files: &[
        ("/index.html", b"<body><p>Welcome.</body>"),
        ("/app.v3.js", b"let a"),
        ("/app.js", b"let a"),
    ],
    modified: UnixTime {
        secs: 784_111_777,
        nanos: 0,
    },
};

fn open(config: Config) -> Result<Server, Box<dyn Error>> {
    let server = Server::open_with(
        additions(),
        Interprocess::default(),
        config,
        WELCOME,
        None,
        Seed(1),
    )?;
    Ok(server)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let config = Config {
        root: words.next().map(Into::into),
        ..Config::default()
    };
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = Listener::bind(address.parse()?, Listening::default())?;
    println!("http://{}/", listener.address());
    let strategy = Strategy::new(Concurrency::Loop, Io::Epoll, NonZeroUsize::MIN)?;
    serve(strategy, &[listener], &Arc::new(open(config)?), Limits::default())?.join()?;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test creates the files it serves")]
mod tests {
    use super::*;
    use runtime::sim::Sim;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use units::Duration;

    /// The response to a GET on a connection of its own, as text.
    fn get(sim: &mut Sim<Server>, path: &str, more: &str) -> String {
        let client = sim.connect_local();
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n");
        sim.send(client, head.as_bytes());
        String::from_utf8_lossy(sim.received(client)).into_owned()
    }

    fn sim(config: Config) -> Sim<Server> {
        Sim::new(open(config).unwrap())
    }

    #[test]
    fn pages_have_a_footer_and_nothing_else_has() {
        let mut sim = sim(Config::default());
        for _ in 0..2 {
            let page = get(&mut sim, "/", "");
            let body = "<body><p>Welcome.<footer>Served by an example.</footer></body>";
            assert!(page.ends_with(body), "{page}");
            assert!(page.contains(&format!("Content-Length: {}\r\n", body.len())));
        }
        assert!(get(&mut sim, "/app.js", "").ends_with("\r\nlet a"));
        assert!(
            get(&mut sim, "/app.v3.js", "").contains("\r\nCache-Control: max-age=31536000, immutable\r\n")
        );
        assert!(!get(&mut sim, "/app.js", "").contains("Cache-Control"));
        // The entity tag is that of the content sent.
        let page = get(&mut sim, "/", "");
        let tag = page
            .split("ETag: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next())
            .unwrap();
        let again = get(&mut sim, "/", &format!("If-None-Match: {tag}\r\n"));
        assert!(again.starts_with("HTTP/1.1 304 "), "{again}");
    }

    #[test]
    fn each_answer_says_when_it_was_made() {
        let mut sim = sim(Config::default());
        let stamp = |answer: String| -> u64 {
            let (_, rest) = answer
                .split_once("X-Answered-At: ")
                .unwrap_or_else(|| panic!("{answer}"));
            rest.split("\r\n")
                .next()
                .and_then(|secs| secs.parse().ok())
                .unwrap()
        };
        let first = stamp(get(&mut sim, "/app.js", ""));
        sim.advance(Duration::from_secs(5));
        assert_eq!(stamp(get(&mut sim, "/app.js", "")), first + 5);
        assert_eq!(stamp(get(&mut sim, "/missing", "")), first + 5);
        let me = get(&mut sim, "/who-am-i", "");
        assert!(me.ends_with("\r\n127.0.0.1\n"), "{me}");
        assert_eq!(stamp(me), first + 5);
    }

    #[test]
    fn a_filter_acts_once_for_as_long_as_the_entry_lives() {
        #[derive(Debug, Default)]
        struct Counting(AtomicUsize);
        impl Filter for Counting {
            fn entity(&self, _: &mut Entity<'_>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let counting = Arc::new(Counting::default());
        let additions = Additions {
            filters: vec![counting.clone()],
            ..Additions::default()
        };
        let config = Config::default();
        let server =
            Server::open_with(additions, Interprocess::default(), config, WELCOME, None, Seed(1)).unwrap();
        let mut sim = Sim::new(server.clone());
        for _ in 0..10 {
            get(&mut sim, "/app.js", "");
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        let changed = Config {
            header: vec!["X-New: yes".parse().unwrap()],
            ..Config::default()
        };
        server.reload(changed, None).unwrap();
        assert!(get(&mut sim, "/app.js", "").contains("X-New: yes"));
        assert_eq!(counting.0.load(Ordering::Relaxed), 2, "it stays at a reload");
    }

    #[test]
    fn files_of_every_size_are_what_the_filter_made_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let filler = |len: usize| format!("<body>{}</body>", "x".repeat(len));
        for (name, content) in [
            ("small.html", filler(10)),
            ("middle.html", filler(100_000)),
            ("large.html", filler(2 << 20)),
            ("small.html.gz", "not what is served".to_owned()),
        ] {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let mut sim = sim(Config {
            root: Some(dir.path().to_owned()),
            ..Config::default()
        });
        let footer = "</footer></body>";
        for name in ["/small.html", "/middle.html"] {
            for _ in 0..2 {
                assert!(get(&mut sim, name, "").ends_with(footer), "{name}");
            }
        }
        assert!(get(&mut sim, "/small.html", "Accept-Encoding: gzip\r\n").ends_with(footer));
        let large = get(&mut sim, "/large.html", "");
        assert!(large.ends_with("xx</body>"), "more than a filter is given");
    }
}
