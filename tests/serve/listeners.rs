//! Tables `[[listener]]`: addresses with a strategy, a connection limit and TLS of their own.

use crate::serve::process::{Launch, PATIENCE, Server, eventually};
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) fn address(server: &Server, at: usize) -> SocketAddr {
    let text = server.started["listeners"][at]["address"]
        .as_str()
        .expect("an address");
    text.parse().expect("an address")
}

fn start(tree: &Tree, text: &str) -> Server {
    let file = tree.write("weir.toml", format!("root = 'site'\n{text}"));
    Launch::file(env!("CARGO_BIN_EXE_weir").as_ref())
        .args(["--config".as_ref(), file.as_os_str()])
        .start()
}

#[test]
fn each_has_its_strategy_and_all_have_one_site() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let server = start(
        &tree,
        "listen = '127.0.0.1:0'\n\n[[listener]]\naddress = '127.0.0.1:0'\nconcurrency = 'pool'\nworkers = 3\n\
         [[listener]]\naddress = ['127.0.0.1:0', '[::1]:0']\nconcurrency = 'thread-per-request'\n",
    );
    let listeners = server.started["listeners"].as_array().expect("listeners");
    let strategies: Vec<_> = listeners.iter().map(|one| one["concurrency"].as_str()).collect();
    let per_request = Some("thread-per-request");
    assert_eq!(
        strategies,
        [Some("loops"), Some("pool"), per_request, per_request]
    );
    assert_eq!(listeners[1]["workers"], 3);
    for at in 0..4 {
        assert_eq!(Connection::open(address(&server, at)).get("/").text(), "hello");
    }
}

#[test]
fn a_connection_limit_is_that_of_its_addresses() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let server = start(
        &tree,
        "listen = '127.0.0.1:0'\n[[listener]]\naddress = '127.0.0.1:0'\nmax-connections = 2\n",
    );
    let (open, limited) = (address(&server, 0), address(&server, 1));
    let mut held: Vec<Connection> = (0..3).map(|_| Connection::open(open)).collect();
    for connection in &mut held {
        assert_eq!(connection.get("/").text(), "hello");
    }
    let mut few: Vec<Connection> = (0..3)
        .map(|_| {
            let mut connection = Connection::open(limited);
            assert_eq!(connection.get("/").text(), "hello");
            connection
        })
        .collect();
    // The third takes the place of one of the others: of which depends on the worker that accepts it (docs/serve.md).
    eventually("one of two is closed", || {
        let open = few[..2].iter_mut().filter_map(|connection| {
            connection.patience(Duration::from_millis(1));
            connection.is_silent().then_some(())
        });
        (open.count() == 1).then_some(())
    });
    few[2].patience(PATIENCE);
    assert_eq!(few[2].get("/").text(), "hello", "the third stays");
    for connection in &mut held {
        assert_eq!(
            connection.get("/").text(),
            "hello",
            "the other listener is not concerned"
        );
    }
}

#[test]
fn a_reload_says_that_new_listeners_need_a_restart() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let server = start(&tree, "[[listener]]\naddress = '127.0.0.1:0'\n");
    tree.write(
        "weir.toml",
        "root = 'site'\n[[listener]]\naddress = '127.0.0.1:0'\nconcurrency = 'pool'\n",
    );
    server.signal("HUP");
    eventually("a reload", || {
        server
            .stderr()
            .contains("listener will change at the next start only")
            .then_some(())
    });
    assert_eq!(Connection::open(address(&server, 0)).get("/").text(), "hello");
}

#[test]
fn processes_serve_all_addresses_or_none() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let mixed = "root = 'site'\nlisten = '127.0.0.1:0'\n[[listener]]\naddress = '127.0.0.1:0'\n\
                 concurrency = 'processes'\n";
    let file = tree.write("weir.toml", mixed);
    let (code, printed) = Launch::file(env!("CARGO_BIN_EXE_weir").as_ref())
        .args(["--config".as_ref(), file.as_os_str()])
        .fail();
    assert_eq!(code, 2);
    assert!(printed.contains("every `[[listener]]`"), "{printed}");
}
