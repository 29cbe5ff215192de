//! Programs people use, over HTTP/2 and TLS, and h2spec: what they make of our answers is the test.
//! A program that is not on this machine says `skipped`.

use crate::serve::clients::{ended, run};
use crate::serve::files::noise;
use crate::serve::on_every_strategy;
use crate::serve::process::{Server, Strategy, eventually};
use crate::serve::tls::Pairs;

/// A server with TLS and three files.
fn secure(strategy: Strategy) -> (Pairs, Server) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs
        .tree
        .write("site/index.html", "<!DOCTYPE html><img src=large.bin>");
    pairs.tree.write("site/style.css", noise(1_000));
    pairs.tree.write("site/large.bin", noise(1 << 20));
    let server = pairs.launch(strategy, &["a"]).start();
    (pairs, server)
}

fn curl(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let url = |path: &str| format!("https://{}{path}", server.address);
    let format = "%{http_version} %{http_code} %{size_download} %{num_connects}\\n";
    let quiet = [
        "--silent",
        "--show-error",
        "--insecure",
        "--http2",
        "--max-time",
        "20",
    ];
    let told = ["--output", "/dev/null", "--write-out", format];
    let fetch = |more: &[&str]| run("curl", &[&quiet[..], &told, more].concat());
    let Some(large) = fetch(&[&url("/large.bin")]) else {
        return;
    };
    if large.starts_with("1.1") {
        println!("skipped: this curl speaks no HTTP/2");
        return;
    }
    assert_eq!(large, "2 200 1048576 1\n");
    let again = fetch(&[&url("/"), "--output", "/dev/null", &url("/style.css")]).expect("curl");
    assert!(
        again.lines().nth(1).is_some_and(|line| line == "2 200 1000 0"),
        "{again}"
    );
    for (flags, wanted) in [
        (&["--head"][..], "2 200 0"),
        (&["--range", "0-9"], "2 206 10"),
        (&["--data", "a=b"], "2 405"),
        (&["--request", "DELETE"], "2 405"),
    ] {
        let said = fetch(&[flags, &[&url("/style.css")]].concat()).expect("curl");
        assert!(said.starts_with(wanted), "{flags:?}: {said}");
    }
}

fn node_http2(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let script = r#"
const http2 = require("node:http2");
const session = http2.connect(process.argv[1], { rejectUnauthorized: false });
const get = (path, more) => new Promise((done, failed) => {
  const stream = session.request({ ":path": path, ...more });
  let status = 0, bytes = 0;
  stream.on("response", (head) => { status = head[":status"]; });
  stream.on("data", (data) => { bytes += data.length; });
  stream.on("end", () => done(status + " " + bytes));
  stream.on("error", failed);
  stream.end(more && more.body);
});
(async () => {
  const paths = ["/large.bin", "/style.css", "/", "/missing", "/large.bin"];
  const said = await Promise.all(paths.map((path) => get(path)));
  for (let n = 0; n < 100; n += 1) await get("/style.css");
  const stream = session.request({ ":path": "/large.bin" });
  stream.on("response", () => stream.close(http2.constants.NGHTTP2_CANCEL));
  await new Promise((done) => stream.on("close", done));
  said.push(await get("/style.css", { range: "bytes=-3" }));
  session.close();
  console.log(said.map((one) => one.replace(/^404 .*/, "404")).join(", "));
})().catch((error) => { console.error(error); process.exit(1); });
"#;
    let url = format!("https://{}", server.address);
    let Some(printed) = run("node", &["-e", script, &url]) else {
        return;
    };
    assert_eq!(
        printed.trim(),
        "200 1048576, 200 1000, 200 34, 404, 200 1048576, 206 3"
    );
}

fn nghttp(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let url = format!("https://{}/", server.address);
    // With the page's references: a style sheet and an image, on streams of their own.
    let Some(printed) = run(
        "nghttp",
        &["--null-out", "--stat", "--get-assets", "--no-verify-peer", &url],
    ) else {
        return;
    };
    let answers = printed.lines().filter(|line| line.contains(" 200 ")).count();
    assert_eq!(answers, 2, "{printed}");
}

/// 145 cases of RFC 9113 and 7541.
fn h2spec(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let flags = [
        "--tls",
        "--insecure",
        "--host",
        &host,
        "--port",
        &port,
        "--timeout",
        "10",
    ];
    let Some(output) = ended("h2spec", &flags) else {
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.trim().lines().last().unwrap_or_default();
    assert_eq!(last, "145 tests, 145 passed, 0 skipped, 0 failed", "{printed}");
}

/// Go's net/http: what most programs written in Go speak.
#[test]
fn go_http2() {
    let (pairs, server) = secure(Strategy::LOOPS);
    let program = r#"
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

func main() {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2: true,
	}
	client := &http.Client{Transport: transport}
	get := func(path, byteRange string) (string, error) {
		request, _ := http.NewRequest("GET", os.Args[1]+path, nil)
		if byteRange != "" {
			request.Header.Set("Range", byteRange)
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		n, err := io.Copy(io.Discard, response.Body)
		return fmt.Sprintf("%s %d %d", response.Proto, response.StatusCode, n), err
	}
	var all sync.WaitGroup
	var lock sync.Mutex
	counts := map[string]int{}
	for i := 0; i < 120; i++ {
		path := "/style.css"
		if i%10 == 0 {
			path = "/large.bin"
		}
		all.Add(1)
		go func() {
			defer all.Done()
			said, err := get(path, "")
			if err != nil {
				said = err.Error()
			}
			lock.Lock()
			counts[said]++
			lock.Unlock()
		}()
	}
	all.Wait()
	// Given up in the middle: the connection goes on.
	context, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(context, "GET", os.Args[1]+"/large.bin", nil)
	response, err := client.Do(request)
	if err != nil {
		panic(err)
	}
	io.ReadFull(response.Body, make([]byte, 1000))
	cancel()
	response.Body.Close()
	part, err := get("/style.css", "bytes=-3")
	if err != nil {
		panic(err)
	}
	fmt.Println(counts, part)
}
"#;
    let source = pairs.tree.write("client.go", program);
    let source = source.to_str().expect("text");
    let url = format!("https://{}", server.address);
    let Some(printed) = run("go", &["run", source, &url]) else {
        return;
    };
    assert_eq!(
        printed.trim(),
        "map[HTTP/2.0 200 1000:108 HTTP/2.0 200 1048576:12] HTTP/2.0 206 3"
    );
}

/// Java's HttpClient.
#[test]
fn java_http2() {
    let (pairs, server) = secure(Strategy::LOOPS);
    let program = r#"
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.SecureRandom;
import java.security.cert.X509Certificate;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

class Client {
    static String said(HttpResponse<byte[]> answer) {
        return answer.version() + " " + answer.statusCode() + " " + answer.body().length;
    }

    public static void main(String[] arguments) throws Exception {
        TrustManager everyone = new X509TrustManager() {
            public void checkClientTrusted(X509Certificate[] chain, String kind) { }
            public void checkServerTrusted(X509Certificate[] chain, String kind) { }
            public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        };
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] { everyone }, new SecureRandom());
        HttpClient client = HttpClient.newBuilder().sslContext(context).build();
        Function<String, HttpRequest.Builder> to =
            path -> HttpRequest.newBuilder(URI.create(arguments[0] + path));
        List<CompletableFuture<HttpResponse<byte[]>>> under = IntStream.range(0, 60)
            .mapToObj(n -> n % 10 == 0 ? "/large.bin" : "/style.css")
            .map(path -> client.sendAsync(to.apply(path).build(), BodyHandlers.ofByteArray()))
            .collect(Collectors.toList());
        TreeMap<String, Integer> counts = new TreeMap<>();
        for (var one : under) counts.merge(said(one.get()), 1, Integer::sum);
        // Given up in the middle: the connection goes on.
        try (var body = client.send(to.apply("/large.bin").build(), BodyHandlers.ofInputStream()).body()) {
            body.readNBytes(1000);
        }
        HttpRequest part = to.apply("/style.css").header("Range", "bytes=-3").build();
        System.out.println(counts + " " + said(client.send(part, BodyHandlers.ofByteArray())));
        System.exit(0);
    }
}
"#;
    let source = pairs.tree.write("Client.java", program);
    let source = source.to_str().expect("text");
    let url = format!("https://{}", server.address);
    let flags = [
        "-Djdk.internal.httpclient.disableHostnameVerification=true",
        source,
        &url,
    ];
    if run("javac", &["-version"]).is_none() {
        return;
    }
    let printed = run("java", &flags).expect("java");
    assert_eq!(
        printed.trim(),
        "{HTTP_2 200 1000=54, HTTP_2 200 1048576=6} HTTP_2 206 3"
    );
}

/// Python's httpx, over the library h2.
#[test]
fn python_httpx() {
    let (_pairs, server) = secure(Strategy::LOOPS);
    let knows = run(
        "python3",
        &[
            "-c",
            "try: import httpx, h2; print('yes')\nexcept ImportError: pass",
        ],
    );
    if knows.is_none_or(|said| said.trim() != "yes") {
        return println!("skipped: no python3 with httpx and h2 on this machine");
    }
    let script = r#"
import asyncio, collections, httpx, sys
async def main():
    async with httpx.AsyncClient(http2=True, verify=False, trust_env=False, timeout=20) as client:
        paths = ["/large.bin" if n % 10 == 0 else "/style.css" for n in range(60)]
        answers = await asyncio.gather(*(client.get(sys.argv[1] + path) for path in paths))
        print(dict(sorted(collections.Counter((a.http_version, a.status_code, len(a.content)) for a in answers).items())))
        async with client.stream("GET", sys.argv[1] + "/large.bin") as answer:
            async for _ in answer.aiter_bytes(1000):
                break
        part = await client.get(sys.argv[1] + "/style.css", headers={"Range": "bytes=-3"})
        print(part.http_version, part.status_code, len(part.content))
asyncio.run(main())
"#;
    let url = format!("https://{}", server.address);
    let printed = run("python3", &["-c", script, &url]).expect("python3");
    assert_eq!(
        printed.trim(),
        "{('HTTP/2', 200, 1000): 54, ('HTTP/2', 200, 1048576): 6}\nHTTP/2 206 3"
    );
}

/// Chromium, which tells its page what it spoke.
#[test]
fn chromium() {
    let (pairs, server) = secure(Strategy::LOOPS);
    let page = "<!DOCTYPE html><title>-</title><img src=style.css><script>\
                onload = () => { document.title = performance.getEntries().filter((e) => e.nextHopProtocol) \
                .map((e) => e.nextHopProtocol + ' ' + e.decodedBodySize).join(', '); }</script><script src=large.bin></script>";
    pairs.tree.write("site/index.html", page);
    let profile = pairs.tree.path().join("profile");
    let profile = format!("--user-data-dir={}", profile.display());
    let url = format!("https://{}/", server.address);
    let flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--ignore-certificate-errors",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--virtual-time-budget=20000",
        "--dump-dom",
        &profile,
        &url,
    ];
    let Some(printed) = run("chromium", &flags) else {
        return;
    };
    let title = printed
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    let wanted = format!("h2 {}, h2 1000, h2 1048576", page.len());
    let mut said: Vec<&str> = title.map_or("", |(title, _)| title).split(", ").collect();
    // The order of what was found in the page is the browser's.
    said[1..].sort_unstable();
    assert_eq!(said.join(", "), wanted, "{printed}");
}

/// What a program prints of a page that is announced (103) before its answer, over TLS; `None` if it is not here. `ask`
/// runs it once. The page is scanned beside its answer, so it takes a few changes of the page until one is announced.
fn announced(ask: impl Fn(&str) -> Option<String>, is_told: impl Fn(&str) -> bool) -> Option<String> {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/a.css", "a {}");
    let version = |n: usize| format!("<!DOCTYPE html><link rel=stylesheet href=a.css><p>{n:06}");
    pairs.tree.write("site/index.html", version(0));
    let server = pairs
        .launch(Strategy::LOOPS, &["a"])
        .args(["--early-hints"])
        .start();
    let url = format!("https://{}/", server.address);
    ask(&url)?;
    let mut count = 0;
    Some(eventually("a hint", || {
        count += 1;
        pairs.tree.write("site/index.html", version(count));
        let said = ask(&url)?;
        is_told(&said).then_some(said)
    }))
}

#[test]
fn curl_takes_103_for_no_answer() {
    let ask = |url: &str| {
        let flags = [
            "--silent",
            "--show-error",
            "--insecure",
            "--http2",
            "--include",
            "--max-time",
            "20",
            url,
        ];
        run("curl", &flags)
    };
    let Some(said) = announced(ask, |said| said.starts_with("HTTP/2 103")) else {
        return;
    };
    let (hint, answer) = said.split_once("\r\n\r\n").expect("a head");
    assert_eq!(
        hint, "HTTP/2 103 \r\nlink: </a.css>; rel=preload; as=style",
        "{said}"
    );
    assert!(
        answer.starts_with("HTTP/2 200") && answer.contains("<p>0"),
        "{said}"
    );
}

#[test]
fn node_takes_103_for_no_answer() {
    let script = r#"
const http2 = require("node:http2");
const session = http2.connect(process.argv[1], { rejectUnauthorized: false });
const stream = session.request({ ":path": "/" });
let said = "", bytes = 0;
stream.on("headers", (head) => { said += head[":status"] + " " + head.link + ", "; });
stream.on("response", (head) => { said += head[":status"]; });
stream.on("data", (data) => { bytes += data.length; });
stream.on("end", () => { console.log(said + " " + bytes); session.close(); });
"#;
    let ask = |url: &str| run("node", &["-e", script, url]);
    let Some(said) = announced(ask, |said| said.starts_with("103")) else {
        return;
    };
    assert_eq!(said.trim(), "103 </a.css>; rel=preload; as=style, 200 56");
}

#[test]
fn httpx_takes_103_for_no_answer() {
    // httpx drops interim responses, so its library h2 is asked whether one came.
    let script = r#"
import sys
try:
    import httpx, h2.connection, h2.events
except ImportError:
    sys.exit()
receive = h2.connection.H2Connection.receive_data
def told(connection, data):
    events = receive(connection, data)
    if any(isinstance(event, h2.events.InformationalResponseReceived) for event in events):
        print("103", end=" ")
    return events
h2.connection.H2Connection.receive_data = told
answer = httpx.Client(http2=True, verify=False, trust_env=False, timeout=20).get(sys.argv[1])
print(answer.http_version, answer.status_code, len(answer.content))
"#;
    let ask = |url: &str| run("python3", &["-c", script, url]).filter(|said| !said.is_empty());
    match announced(ask, |said| said.starts_with("103")) {
        Some(said) => assert_eq!(said.trim(), "103 HTTP/2 200 56"),
        None => println!("skipped: no python3 with httpx and h2 on this machine"),
    }
}

on_every_strategy!(curl, node_http2, nghttp, h2spec);
