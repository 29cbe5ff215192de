//! The end of crate `h2`, in either role.

use crate::plan::{By, Exchange, HINT, Lines, Seen};
use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, client, server};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http2::Code;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

/// What `h2` saw of each exchange.
pub(crate) type Log = Arc<Mutex<Vec<Seen>>>;

/// The settings of `h2` that vary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) window: u32,
    pub(crate) frame: u32,
    pub(crate) table: u32,
}

fn map(lines: &Lines) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a valid name");
        map.append(name, HeaderValue::from_str(value).expect("a valid value"));
    }
    map
}

fn lines(map: &HeaderMap) -> Lines {
    let text = |value: &HeaderValue| value.to_str().expect("the plan is ASCII").to_owned();
    map.iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

fn code(error: &h2::Error) -> Option<Code> {
    error.reason().map(|reason| Code(reason.into()))
}

fn note(log: &Log, at: usize, change: impl FnOnce(&mut Seen)) {
    change(&mut log.lock().expect("no test thread panicked")[at]);
}

/// Sends the body of `exchange` in pieces, then its trailers, or the reset. Fails if the peer has reset the stream.
fn send(mut stream: SendStream<Bytes>, exchange: &Exchange, role: By) -> Result<(), h2::Error> {
    let message = match role {
        By::Client => &exchange.request,
        By::Server => &exchange.response,
    };
    if message.is_head_only() {
        return Ok(());
    }
    let reset = exchange.reset == Some(role);
    let bytes = if reset {
        message.body.len() / 2
    } else {
        message.body.len()
    };
    let end = message.trailers.is_empty() && !reset;
    let mut pieces = message.body[..bytes].chunks(10_000).peekable();
    if pieces.peek().is_none() && end {
        stream.send_data(Bytes::new(), true)?;
    }
    while let Some(piece) = pieces.next() {
        stream.send_data(Bytes::copy_from_slice(piece), end && pieces.peek().is_none())?;
    }
    if reset {
        stream.send_reset(Reason::from(role.code().0));
    } else if !end {
        stream.send_trailers(map(&message.trailers))?;
    }
    Ok(())
}

/// Receives a body and its trailers.
async fn receive(mut body: RecvStream, log: Log, at: usize) {
    loop {
        match body.data().await {
            Some(Ok(bytes)) => {
                let released = body.flow_control().release_capacity(bytes.len());
                released.expect("these bytes were received");
                note(&log, at, |seen| seen.body.extend_from_slice(&bytes));
            }
            Some(Err(error)) => return note(&log, at, |seen| seen.reset = code(&error)),
            None => break,
        }
    }
    match body.trailers().await {
        Ok(trailers) => note(&log, at, |seen| {
            (seen.trailers, seen.complete) = (trailers.as_ref().map(lines).unwrap_or_default(), true);
        }),
        Err(error) => note(&log, at, |seen| seen.reset = code(&error)),
    }
}

/// Answers requests until the client closes.
pub(crate) async fn serve(io: DuplexStream, settings: Settings, plan: Arc<Vec<Exchange>>, log: Log) {
    let builder = server::Builder::new()
        .initial_window_size(settings.window)
        .max_frame_size(settings.frame)
        .header_table_size(settings.table)
        .clone();
    let mut connection = builder.handshake(io).await.expect("a valid beginning");
    let mut tasks = JoinSet::new();
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted.expect("the connection has no error");
        tasks.spawn(answer(request, respond, plan.clone(), log.clone()));
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no answer panicked");
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: server::SendResponse<Bytes>,
    plan: Arc<Vec<Exchange>>,
    log: Log,
) {
    let at: usize = request.uri().path()[1..]
        .parse()
        .expect("the index of the exchange");
    let exchange = &plan[at];
    note(&log, at, |seen| seen.head = Some((0, lines(request.headers()))));
    let mut body = Some(request.into_body());
    if !exchange.early {
        receive(body.take().expect("just made"), log.clone(), at).await;
    }
    // Fails if the client has reset the stream: `receive` notes why.
    let _ = begin(&mut respond, exchange).and_then(|stream| send(stream, exchange, By::Server));
    if let Some(body) = body {
        receive(body, log, at).await;
    }
}

fn begin(
    respond: &mut server::SendResponse<Bytes>,
    exchange: &Exchange,
) -> Result<SendStream<Bytes>, h2::Error> {
    for _ in 0..exchange.hints {
        let hint = Response::builder().status(103).header(HINT.0, HINT.1);
        respond.send_informational(hint.body(()).expect("a valid head"))?;
    }
    let mut response = Response::builder()
        .status(exchange.status)
        .body(())
        .expect("a valid head");
    *response.headers_mut() = map(&exchange.response.fields);
    respond.send_response(response, exchange.response.is_head_only())
}

/// Sends every request and receives the responses.
pub(crate) async fn fetch(io: DuplexStream, settings: Settings, plan: Arc<Vec<Exchange>>, log: Log) {
    let (requests, connection) = client::Builder::new()
        .initial_window_size(settings.window)
        .max_frame_size(settings.frame)
        .header_table_size(settings.table)
        // Before the first SETTINGS of our server, which may permit fewer than `h2` assumes.
        .initial_max_send_streams(1)
        .handshake(io)
        .await
        .expect("a valid beginning");
    let mut tasks = JoinSet::new();
    let connection = tokio::spawn(connection);
    for at in 0..plan.len() {
        tasks.spawn(ask(requests.clone(), at, plan.clone(), log.clone()));
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no request panicked");
    }
    drop(requests);
    connection
        .await
        .expect("it did not panic")
        .expect("the connection has no error");
}

async fn ask(mut requests: client::SendRequest<Bytes>, at: usize, plan: Arc<Vec<Exchange>>, log: Log) {
    let exchange = &plan[at];
    let uri = format!("http://a/{at}");
    let mut request = Request::builder()
        .method("POST")
        .uri(uri)
        .body(())
        .expect("a valid head");
    *request.headers_mut() = map(&exchange.request.fields);
    let sent = requests.send_request(request, exchange.request.is_head_only());
    let (mut response, stream) = sent.expect("the connection has no error");
    // Fails if the server has reset the stream: the response says why.
    let _ = send(stream, exchange, By::Client);
    while let Some(hint) = poll_fn(|cx| response.poll_informational(cx)).await {
        match hint {
            Ok(hint) => {
                assert_eq!(
                    (hint.status().as_u16(), lines(hint.headers())),
                    (103, vec![(HINT.0.to_owned(), HINT.1.to_owned())])
                );
                note(&log, at, |seen| seen.hints += 1);
            }
            Err(error) => return note(&log, at, |seen| seen.reset = code(&error)),
        }
    }
    match response.await {
        Ok(response) => {
            let head = (response.status().as_u16(), lines(response.headers()));
            note(&log, at, |seen| seen.head = Some(head));
            receive(response.into_body(), log, at).await;
        }
        Err(error) => note(&log, at, |seen| seen.reset = code(&error)),
    }
}
