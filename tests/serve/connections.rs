//! How long a connection lives and that no byte is lost at its end (RFC 9112 section 9).

use crate::serve::files::noise;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::tree::Tree;
use crate::serve::wire::{End, head};

fn a_connection_carries_many_requests(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a"), ("b.txt", "bb")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for _ in 0..50 {
        assert_eq!(connection.get("/a.txt").text(), "a");
        assert_eq!(connection.get("/b.txt").text(), "bb");
        assert_eq!(connection.get("/c.txt").status, 404);
    }
}

fn close_is_honored_and_announced(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    for value in ["close", "Close", "keep-alive, close"] {
        let mut connection = server.connect();
        let answer = connection.request("GET", "/a.txt", &[("Connection", value)]);
        assert_eq!(answer.text(), "a");
        assert!(answer.closes(), "{value}");
        connection.expect_close();
    }
}

fn the_old_version_closes_unless_asked(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    connection.send("GET /a.txt HTTP/1.0\r\n\r\n");
    let answer = connection.receive("GET");
    assert_eq!((answer.status, answer.text().as_str()), (200, "a"));
    assert!(answer.field("Transfer-Encoding").is_none());
    connection.expect_close();
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.send("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let answer = connection.receive("GET");
        assert_eq!(answer.text(), "a");
        assert!(
            answer.must("Connection").eq_ignore_ascii_case("keep-alive"),
            "an old client must be told"
        );
    }
}

fn sixteen_requests_in_one_packet(strategy: Strategy) {
    let tree = Tree::new();
    for i in 0..16 {
        tree.write(&format!("{i}.txt"), format!("number {i}").repeat(i + 1));
    }
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let batch: String = (0..16).map(|i| head("GET", &format!("/{i}.txt"), &[])).collect();
    // Once with nothing cached, then from the cache.
    for _ in 0..3 {
        connection.send(&batch);
        for i in 0..16 {
            assert_eq!(
                connection.receive("GET").text(),
                format!("number {i}").repeat(i + 1)
            );
        }
    }
}

fn pipelined_answers_keep_their_order(strategy: Strategy) {
    let tree = Tree::with(&[("small.txt", "small"), ("folder/index.html", "index")]);
    let large = noise(3 << 20);
    tree.write("large.bin", &large);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let mut batch = head("GET", "/small.txt", &[]);
    batch += &head("GET", "/large.bin", &[]);
    batch += &head("HEAD", "/large.bin", &[]);
    batch += &head("GET", "/missing", &[]);
    batch += &head("POST", "/small.txt", &[("Content-Length", "7")]);
    batch += "GET / H";
    batch += &head("GET", "/folder", &[]);
    batch += &head(
        "GET",
        "/small.txt",
        &[("Range", "bytes=1-2"), ("Connection", "close")],
    );
    batch += &head("GET", "/never-answered", &[]);
    connection.send(&batch);
    assert_eq!(connection.receive("GET").text(), "small");
    assert!(connection.receive("GET").body == large);
    assert_eq!(
        connection.receive("HEAD").must("Content-Length"),
        large.len().to_string()
    );
    assert_eq!(connection.receive("GET").status, 404);
    assert_eq!(connection.receive("POST").status, 405);
    assert_eq!(connection.receive("GET").status, 301);
    let last = connection.receive("GET");
    assert_eq!((last.status, last.text().as_str()), (206, "ma"));
    assert!(last.closes());
    connection.expect_close();
}

fn more_requests_than_any_buffer_holds(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let batch = head("GET", "/a.txt", &[]).repeat(2_000);
    let mut reader =
        crate::serve::wire::Connection::over(connection.stream().try_clone().expect("a second handle"));
    let writer = std::thread::spawn(move || connection.send(batch));
    for _ in 0..2_000 {
        assert_eq!(reader.receive("GET").text(), "a");
    }
    writer.join().expect("the writer");
}

fn requests_may_come_in_any_pieces(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let text = head("GET", "/a.txt", &[("Accept", "*/*")]);
    for byte in text.as_bytes() {
        connection.send([*byte]);
    }
    assert_eq!(connection.receive("GET").text(), "a");
    // The end of one and the beginning of the next together.
    let (front, back) = text.split_at(20);
    connection.send(format!("{text}{front}"));
    assert_eq!(connection.receive("GET").text(), "a");
    connection.send(back);
    assert_eq!(connection.receive("GET").text(), "a");
}

fn a_client_that_has_finished_gets_its_answers(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let large = noise(8 << 20);
    tree.write("large.bin", &large);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    connection
        .send(head("GET", "/a.txt", &[]) + &head("GET", "/large.bin", &[]) + &head("GET", "/a.txt", &[]));
    connection.finish();
    assert_eq!(connection.receive("GET").text(), "a");
    assert!(connection.receive("GET").body == large);
    assert_eq!(connection.receive("GET").text(), "a");
    connection.expect_close();
}

fn no_reset_eats_an_answer(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "answer")]);
    let server = Server::of(strategy, tree.path());
    // Bytes that the server will never read stand in its receive buffer when it closes.
    for request in [
        head("GET", "/a.txt", &[("Connection", "close")]) + &"junk ".repeat(40_000),
        "GET /a.txt HTTP/1.0\r\n\r\n".to_owned() + &"junk ".repeat(40_000),
        "BAD\u{1} REQUEST\r\n\r\n".to_owned() + &"junk ".repeat(40_000),
        head("POST", "/a.txt", &[("Content-Length", "99999999999")]) + &"body ".repeat(40_000),
    ] {
        let mut connection = server.connect();
        connection.send(&request);
        let answer = connection.receive("GET");
        assert!(answer.closes() || answer.version == "HTTP/1.0" || request.contains("HTTP/1.0"));
        connection.finish();
        let (_, end) = connection.rest();
        assert_eq!(end, End::Closed, "{:?}", &request[..30]);
    }
}

fn a_body_never_becomes_a_request(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a"), ("secret.txt", "secret")]);
    let server = Server::of(strategy, tree.path());
    let smuggled = head("GET", "/secret.txt", &[]);
    let length = smuggled.len().to_string();
    let chunked = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
    for (fields, body) in [
        (vec![("Content-Length", length.as_str())], smuggled.clone()),
        (vec![("Transfer-Encoding", "chunked")], chunked),
    ] {
        for method in ["GET", "POST"] {
            let mut connection = server.connect();
            connection.send(head(method, "/a.txt", &fields) + &body + &head("GET", "/a.txt", &[]));
            let first = connection.receive(method);
            assert_eq!(first.status, if method == "GET" { 200 } else { 405 });
            if let Some(second) = connection.try_receive("GET") {
                assert_eq!(second.text(), "a", "{method} {fields:?}");
            } else {
                assert!(first.closes(), "it may close, and must say so");
            }
        }
    }
}

fn a_client_may_wait_for_permission(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    connection.send(head(
        "GET",
        "/a.txt",
        &[("Expect", "100-continue"), ("Content-Length", "5")],
    ));
    let mut answer = connection.receive("GET");
    if answer.status == 100 {
        connection.send("12345");
        answer = connection.receive("GET");
    }
    assert_eq!((answer.status, answer.text().as_str()), (200, "a"));
    let answer = server
        .connect()
        .request("GET", "/a.txt", &[("Expect", "the-unexpected")]);
    assert_eq!(answer.status, 417);
}

fn the_last_request_of_a_connection_is_announced(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--max-requests-per-connection", "3"])
        .start();
    let mut connection = server.connect();
    assert!(!connection.get("/a.txt").closes());
    assert!(!connection.get("/a.txt").closes());
    assert!(connection.get("/a.txt").closes());
    connection.expect_close();
}

fn a_target_may_be_absolute(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    assert_eq!(connection.get("http://weir.test/a.txt").text(), "a");
    assert_eq!(connection.get("http://weir.test:80/a.txt?x").text(), "a");
}

on_every_strategy!(
    a_connection_carries_many_requests,
    close_is_honored_and_announced,
    the_old_version_closes_unless_asked,
    sixteen_requests_in_one_packet,
    pipelined_answers_keep_their_order,
    more_requests_than_any_buffer_holds,
    requests_may_come_in_any_pieces,
    a_client_that_has_finished_gets_its_answers,
    no_reset_eats_an_answer,
    a_body_never_becomes_a_request,
    a_client_may_wait_for_permission,
    the_last_request_of_a_connection_is_announced,
    a_target_may_be_absolute,
);
