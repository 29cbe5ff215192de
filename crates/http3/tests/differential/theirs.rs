//! The end of crate `h3`, in either role.

use crate::plan::{By, Exchange, Lines, Seen};
use crate::wire::Quic;
use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

/// What `h3` saw of each exchange.
pub(crate) type Log = Arc<Mutex<Vec<Seen>>>;

/// Work that the test polls.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks that others have begun.
pub(crate) type Tasks = Arc<Mutex<Vec<Task>>>;

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

fn note(log: &Log, at: usize, change: impl FnOnce(&mut Seen)) {
    change(&mut log.lock().expect("no test thread panicked")[at]);
}

/// Notes a reset by our end; anything else is a failure of the test.
fn failed(log: &Log, at: usize, error: &StreamError) {
    match error {
        StreamError::RemoteTerminate { code, .. } => {
            note(log, at, |seen| seen.reset = Some(http3::Code(code.value())));
        }
        other => panic!("exchange {at}: {other:?}"),
    }
}

/// Sends the rest of a message behind its head. `$stream` is a request stream of either role; their types share no trait.
macro_rules! send {
    ($stream:expr, $exchange:expr, $role:expr) => {{
        let message = $exchange.message($role);
        let is_reset = $exchange.reset == Some($role);
        let bytes = if is_reset {
            message.body.len() / 2
        } else {
            message.body.len()
        };
        for piece in message.body[..bytes].chunks(10_000) {
            $stream.send_data(Bytes::copy_from_slice(piece)).await?;
        }
        if is_reset {
            $stream.stop_stream(Code::from($role.code().0));
            return Ok(());
        }
        if !message.trailers.is_empty() {
            $stream.send_trailers(map(&message.trailers)).await?;
        }
        $stream.finish().await?;
    }};
}

/// Receives the rest of a message behind its head.
macro_rules! receive {
    ($stream:expr, $log:expr, $at:expr) => {{
        while let Some(mut data) = $stream.recv_data().await? {
            let bytes = data.copy_to_bytes(data.remaining());
            note($log, $at, |seen| seen.body.extend_from_slice(&bytes));
        }
        let trailers = $stream.recv_trailers().await?;
        note($log, $at, |seen| {
            (seen.trailers, seen.complete) = (trailers.as_ref().map(lines).unwrap_or_default(), true);
        });
    }};
}

/// Sends all requests of the plan at once.
pub(crate) async fn fetch(quic: Quic, plan: Arc<Vec<Exchange>>, log: Log, tasks: Tasks) {
    let built = h3::client::builder().build(quic).await;
    let (mut driver, send) = built.expect("the transport opens streams");
    for at in 0..plan.len() {
        let (mut send, plan, log) = (send.clone(), plan.clone(), log.clone());
        let seen = log.clone();
        let mut one = async move || -> Result<(), StreamError> {
            let exchange = &plan[at];
            let mut request = Request::post(format!("https://example.org/{at}"));
            *request.headers_mut().expect("a valid request") = map(&exchange.request.fields);
            let mut stream = send
                .send_request(request.body(()).expect("a valid request"))
                .await?;
            send!(stream, exchange, By::Client);
            let response = stream.recv_response().await?;
            note(&log, at, |seen| {
                seen.head = Some((response.status().as_u16(), lines(response.headers())));
            });
            receive!(stream, &log, at);
            Ok(())
        };
        let task = async move {
            if let Err(error) = one().await {
                failed(&seen, at, &error);
            }
        };
        tasks
            .lock()
            .expect("no test thread panicked")
            .push(Box::pin(task));
    }
    drop(send);
    // Ends when all requests have.
    let closed = poll_fn(|cx| driver.poll_close(cx)).await;
    assert!(closed.is_h3_no_error(), "{closed:?}");
}

/// Answers requests until the client has left.
pub(crate) async fn serve(quic: Quic, plan: Arc<Vec<Exchange>>, log: Log, tasks: Tasks) {
    let built = h3::server::builder().build::<_, Bytes>(quic).await;
    let mut connection = built.expect("the transport opens streams");
    while let Some(resolver) = connection.accept().await.expect("the connection has no error") {
        let (plan, log) = (plan.clone(), log.clone());
        let task = async move {
            let (request, mut stream) = resolver.resolve_request().await.expect("the head is never reset");
            let at: usize = request.uri().path()[1..].parse().expect("the path is a number");
            let seen = log.clone();
            let mut one = async move || -> Result<(), StreamError> {
                note(&log, at, |seen| seen.head = Some((0, lines(request.headers()))));
                receive!(stream, &log, at);
                let exchange = &plan[at];
                let mut response = Response::new(());
                *response.status_mut() = exchange.status.try_into().expect("a valid status");
                *response.headers_mut() = map(&exchange.response.fields);
                stream.send_response(response).await?;
                send!(stream, exchange, By::Server);
                Ok(())
            };
            if let Err(error) = one().await {
                failed(&seen, at, &error);
            }
        };
        tasks
            .lock()
            .expect("no test thread panicked")
            .push(Box::pin(task));
    }
}
