//! WebSocket by the package `websockets` of PyPI, which is both the client and the upstream: messages, fragments, pings, closes and
//! compression, in cleartext and with TLS. Where Python or the package is missing, a test says `skipped`.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, Strategy};
use crate::serve::proxy_http2::line_with;
use crate::serve::tls::Pairs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Serves at a port that it prints; reads a scheme and the proxy's port; then connects there, and prints what it finds.
const BOTH_ENDS: &str = r#"
import asyncio, hashlib, os, ssl, sys
try:
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve
    from websockets.exceptions import ConnectionClosed, InvalidStatus
except ImportError:
    sys.exit()

CERTIFICATE, KEY = sys.argv[1:3]
LARGE = 8 << 20
# How each connection ended at the server, by its path.
ends = {}

async def converse(ws):
    path = ws.request.path
    try:
        if path == "/api/ping":
            await (await ws.ping(b"from the server"))
            await ws.send("ponged")
        if path == "/api/leave":
            await ws.close(4001, "the server leaves")
        if path == "/api/drop":
            await ws.recv()
            ws.transport.abort()
        while True:
            parts = [part async for part in ws.recv_streaming()]
            await ws.send(parts if len(parts) > 1 else parts[0])
    except ConnectionClosed:
        ends[path].set_result((ws.close_code, ws.close_reason))

async def main():
    upstream_tls = None
    if "tls-upstream" in sys.argv:
        upstream_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        upstream_tls.load_cert_chain(CERTIFICATE, KEY)
    more = {"max_size": None, "subprotocols": ["chat.v2"], "ping_interval": None}
    # Compression is on by default, at both ends.
    async with serve(converse, "127.0.0.1", 0, ssl=upstream_tls, **more) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        scheme, port = (await asyncio.to_thread(sys.stdin.readline)).split()
        tls = ssl.create_default_context(cafile=CERTIFICATE) if scheme == "wss" else None
        if tls:
            # The certificate signs itself, and names no authority.
            tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        def opened(path, **given):
            ends[path] = asyncio.get_running_loop().create_future()
            url = f"{scheme}://a.test:{port}{path}"
            return connect(url, host="127.0.0.1", port=int(port), ssl=tls, proxy=None, **(more | given))
        async def said(path):
            code, reason = await ends[path]
            return f"{code} {reason}".strip()

        for compression in ["deflate", None]:
            path = f"/api/{compression}"
            async with opened(path, compression=compression) as ws:
                print("agreed:", [one.name for one in ws.protocol.extensions], ws.subprotocol)
                got = []
                for message in ["text: \u00e4\u20ac\U0001f600", b"\x00\xff binary", "", b"", "x" * 125, "x" * 126, b"x" * 65_535, b"x" * 65_536]:
                    await ws.send(message)
                    got.append(await ws.recv() == message)
                print("messages:", all(got), len(got))
                await ws.send(["one ", "two ", "three"])
                print("fragments:", [part async for part in ws.recv_streaming()])
                await ws.send([b"\x00" * 70_000, b"\x01" * 70_000, b"\x02"])
                print("fragments:", [len(part) async for part in ws.recv_streaming()])
                # Many messages under way, which come back in order.
                sender = asyncio.create_task(asyncio.wait_for(send_all(ws, 500), 30))
                print("in order:", [int(await ws.recv()) for _ in range(500)] == list(range(500)))
                await sender
                for message in [b"\x00" * LARGE, "z" * LARGE]:
                    await ws.send(message)
                    print("large:", await ws.recv() == message)
                await ws.close(4321, "the client leaves")
            print("ended:", await said(path), "/", ws.close_code, ws.close_reason)
        async with opened("/api/noise") as ws:
            noise = os.urandom(LARGE)
            await ws.send(noise)
            print("large noise:", await ws.recv() == noise)
        # Leaving the block closes it.
        print("ended:", await said("/api/noise"))
        async with opened("/api/ping") as ws:
            print("ping:", await ws.recv())
            latency = await (await ws.ping(b"from the client"))
            print("ping:", latency > 0)
            await ws.close()
        print("ended:", await said("/api/ping"))
        for path in ["/api/leave", "/api/drop"]:
            async with opened(path) as ws:
                if path == "/api/drop":
                    await ws.send("go on")
                await ws.wait_closed()
                print("left:", path, ws.close_code, ws.close_reason)
            print("ended:", await said(path))
        async with opened("/api/lost") as ws:
            await ws.send("here")
            await ws.recv()
            ws.transport.abort()
        print("ended:", await said("/api/lost"))
        try:
            async with opened("/missing") as ws:
                print("no WebSocket was expected")
        except InvalidStatus as error:
            print("refused:", error.response.status_code)
        # Many at the same time.
        async def one(number):
            async with opened(f"/api/{number}") as ws:
                for turn in range(20):
                    await ws.send(f"{number} {turn}")
                    if await ws.recv() != f"{number} {turn}":
                        return False
            return await said(f"/api/{number}") == "1000"
        print("at once:", sum(await asyncio.gather(*(one(number) for number in range(60)))))

async def send_all(ws, count):
    for number in range(count):
        await ws.send(str(number))

asyncio.run(main())
"#;

/// What both ends find of connections that agreed on these extensions.
fn conversation(extensions: &str) -> String {
    format!(
        "agreed: [{extensions}] chat.v2\n\
         messages: True 8\n\
         fragments: ['one ', 'two ', 'three', '', '']\n\
         fragments: [70000, 70000, 1, 0, 0]\n\
         in order: True\n\
         large: True\n\
         large: True\n\
         ended: 4321 the client leaves / 4321 the client leaves\n"
    )
}

/// What both ends find of the connections after those.
const REST: &str = "large noise: True\n\
    ended: 1000\n\
    ping: ponged\n\
    ping: True\n\
    ended: 1000\n\
    left: /api/leave 4001 the server leaves\n\
    ended: 4001 the server leaves\n\
    left: /api/drop 1006 \n\
    ended: 1006\n\
    ended: 1006\n\
    refused: 404\n\
    at once: 60\n";

/// Bytes that the log has for the responses of this path.
fn logged_bytes(line: &str) -> u64 {
    let (_, rest) = line
        .split_once("\"body_bytes\":")
        .unwrap_or_else(|| panic!("{line}"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).expect("a number")
}

/// Clients with this scheme, and an upstream with or without TLS.
fn conversations(strategy: Strategy, scheme: &str, is_upstream_secure: bool) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let path = |name: &str| pairs.tree.join(name).display().to_string();
    let upstream_tls = if is_upstream_secure { "tls-upstream" } else { "" };
    let mut python = Command::new("timeout")
        .args(["--kill-after=5", "120", "python3", "-c", BOTH_ENDS])
        .args([&path("a.pem"), &path("a.key"), upstream_tls])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("timeout(1)");
    let mut output = BufReader::new(python.stdout.take().expect("piped"));
    let mut errors = python.stderr.take().expect("piped");
    let mut port = String::new();
    output.read_line(&mut port).expect("text");
    let said = |from: &mut dyn Read| {
        let mut text = String::new();
        from.read_to_string(&mut text).expect("text");
        text
    };
    if port.is_empty() {
        let (status, errors) = (python.wait().expect("our own child"), said(&mut errors));
        // 127 is timeout(1)'s for a program that is not there.
        let is_missing = status.success() || status.code() == Some(127);
        assert!(is_missing, "{status}: {errors}");
        return println!("skipped: no python3 with websockets");
    }
    let (upstream_scheme, trust) = match is_upstream_secure {
        true => {
            let trust = format!(
                "[proxy.tls]\nca = \"{}\"\nserver-name = \"a.test\"\n",
                path("a.pem")
            );
            ("https", trust)
        }
        false => ("http", String::new()),
    };
    let text = format!(
        "[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{upstream_scheme}://127.0.0.1:{}\"]\n{trust}",
        port.trim()
    );
    let config = pairs.tree.write("weir.toml", text);
    let launch: Launch = match scheme {
        "wss" => pairs.launch(strategy, &["a"]),
        _ => Launch::new(strategy).root(&pairs.tree.join("site")),
    };
    let server = launch
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--access-log=-", "--log-format=json"])
        .start();
    let mut input = python.stdin.take().expect("piped");
    writeln!(input, "{scheme} {}", server.address.port()).expect("it reads");
    let (printed, errors) = (said(&mut output), said(&mut errors));
    let status = python.wait().expect("our own child");
    assert!(status.success(), "{status}: {printed}\n{errors}");
    let expected = [&conversation("'permessage-deflate'"), &conversation(""), REST].concat();
    assert_eq!(printed, expected, "{errors}");
    // The ends agreed on compression with each other, and what passes is what they compressed.
    let compressed = logged_bytes(&line_with(&server, "/api/deflate"));
    let plain = logged_bytes(&line_with(&server, "/api/None"));
    assert!(compressed < 1 << 20 && plain > 16 << 20, "{compressed}, {plain}");
}

fn in_cleartext(strategy: Strategy) {
    conversations(strategy, "ws", false);
}

fn with_tls_to_the_client(strategy: Strategy) {
    conversations(strategy, "wss", false);
}

fn with_tls_on_both_sides(strategy: Strategy) {
    conversations(strategy, "wss", true);
}

on_strategy!(loops, LOOPS: in_cleartext, with_tls_to_the_client, with_tls_on_both_sides);
on_strategy!(process_loops, PROCESS_LOOPS: with_tls_on_both_sides);
on_strategy!(loops_uring, LOOPS_URING: in_cleartext, with_tls_on_both_sides);
