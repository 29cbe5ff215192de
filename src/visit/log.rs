//! The requests of a visit, from the browser's events. Decides which requests and how much of them is kept; `har` decides how they
//! are written. Times are the browser's: seconds of its monotonic clock.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Limit on requests, as that of an archive that Weir reads; later ones are counted.
pub(super) const REQUESTS_MAX: usize = 10_000;
/// Limit on bytes of URLs and fields, all requests together: beyond it, requests are kept without fields.
pub(super) const KEPT_MAX: usize = 64 << 20;
/// Limit on the bytes of a URL; requests with longer ones are counted.
pub(super) const URL_MAX: usize = 64 << 10;
/// Limit on the bytes of a short text, such as a media type; longer ones are cut.
const WORD_MAX: usize = 256;

/// Limit on redirects of a request whose fields are known before the request.
const WAITING_MAX: usize = 32;

/// Requests in the order in which the browser made them.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) exchanges: Vec<Exchange>,
    /// By request identifier: the latest one, as each redirect has the same.
    open: HashMap<String, usize>,
    /// Fields as they were sent, by request identifier, in the order of redirects.
    sent: HashMap<String, Vec<Fields>>,
    /// DOMContentLoaded.
    pub(super) content: Option<f64>,
    /// The load event.
    pub(super) load: Option<f64>,
    kept: usize,
    /// Requests whose response is outstanding.
    pub(super) outstanding: usize,
    /// Requests beyond a limit.
    pub(super) left_out: u64,
    /// Messages of the browser that were too long or could not be read: their events are missing.
    pub(super) unread: u64,
}

/// Name and value of each field.
pub(super) type Fields = Map<String, Value>;

/// A request, and what came of it.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) url: String,
    pub(super) method: String,
    pub(super) fields: Fields,
    /// Whether these are the fields as they were sent. They come in an event of their own.
    is_as_sent: bool,
    /// Seconds since 1970 when the browser decided to make it.
    pub(super) wall: f64,
    /// The same instant on the monotonic clock.
    pub(super) issued: f64,
    /// The session that reported the latest event about it: a navigation may begin in one and end in another.
    session: String,
    pub(super) kind: String,
    pub(super) priority: String,
    /// Kind and URL of its cause.
    pub(super) initiator: (String, Option<String>),
    pub(super) response: Option<Response>,
    /// Time of the latest event about it.
    pub(super) latest: f64,
    pub(super) fate: Fate,
    /// Bytes of the response as they came, with its head.
    pub(super) transferred: Option<f64>,
    /// Bytes of the content after decoding.
    pub(super) content: f64,
    /// Cache that answered it.
    pub(super) cache: Option<&'static str>,
}

/// State of an exchange.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fate {
    /// The response is outstanding, or a part of it.
    Open,
    /// The response is complete.
    Done,
    /// The browser's reason.
    Failed(String),
    /// The document or worker that made it went away, and nothing more was reported.
    Abandoned,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) status_text: String,
    pub(super) headers: Fields,
    pub(super) mime_type: String,
    pub(super) protocol: String,
    pub(super) connection_id: f64,
    #[serde(rename = "remoteIPAddress")]
    pub(super) address: String,
    from_disk_cache: bool,
    from_prefetch_cache: bool,
    from_service_worker: bool,
    /// Bytes so far: those of the head.
    pub(super) encoded_data_length: f64,
    pub(super) timing: Option<Timing>,
}

/// Milliseconds after `request_time`, negative if a phase does not apply.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Timing {
    /// Seconds of the monotonic clock.
    pub(super) request_time: f64,
    pub(super) dns_start: f64,
    pub(super) dns_end: f64,
    pub(super) connect_start: f64,
    pub(super) connect_end: f64,
    pub(super) ssl_start: f64,
    pub(super) ssl_end: f64,
    pub(super) send_start: f64,
    pub(super) send_end: f64,
    /// The first byte of the response.
    #[serde(default)]
    pub(super) receive_headers_start: f64,
    pub(super) receive_headers_end: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WillBeSent {
    request_id: String,
    request: Asked,
    timestamp: f64,
    wall_time: f64,
    #[serde(default)]
    initiator: Initiator,
    #[serde(rename = "type", default)]
    kind: String,
    redirect_response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    url: String,
    method: String,
    #[serde(default)]
    headers: Fields,
    #[serde(default)]
    initial_priority: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Initiator {
    #[serde(rename = "type")]
    kind: String,
    url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentExtra {
    request_id: String,
    headers: Fields,
}

/// Any further event about a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    request_id: String,
    #[serde(default)]
    timestamp: f64,
    #[serde(default)]
    response: Option<Response>,
    #[serde(default)]
    data_length: f64,
    #[serde(default)]
    encoded_data_length: f64,
    #[serde(default)]
    error_text: String,
    #[serde(default)]
    blocked_reason: Option<String>,
}

/// The parameters, if they are as expected: newer browsers may have others.
fn read<T: DeserializeOwned>(method: &str, params: Value) -> Option<T> {
    let read = serde_json::from_value(params);
    read.inspect_err(|error| tracing::debug!("{method} of the browser: {error}"))
        .ok()
}

/// A short text, cut if it is long.
fn word(mut text: String) -> String {
    if text.len() > WORD_MAX {
        text.truncate(text.floor_char_boundary(WORD_MAX));
        text.shrink_to_fit();
    }
    text
}

impl Log {
    /// Takes an event of the domain `Network` from a session. Whether it was one about a request.
    pub(super) fn take(&mut self, session: &str, method: &str, params: Value) -> bool {
        match method {
            "Network.requestWillBeSent" => {
                if let Some(event) = read(method, params) {
                    self.will_be_sent(session, event);
                }
            }
            "Network.requestWillBeSentExtraInfo" => {
                if let Some(event) = read(method, params) {
                    self.sent_extra(event);
                }
            }
            "Network.requestServedFromCache"
            | "Network.responseReceived"
            | "Network.dataReceived"
            | "Network.loadingFinished"
            | "Network.loadingFailed" => {
                if let Some(event) = read(method, params) {
                    self.about(session, method, event);
                }
            }
            _ => return false,
        }
        true
    }

    /// Expects no further event of a session, so that none of its requests is outstanding. Whether any was.
    pub(super) fn detached(&mut self, session: &str) -> bool {
        let before = self.outstanding;
        let open = self.exchanges.iter_mut().filter(|one| one.fate == Fate::Open);
        for one in open.filter(|one| one.session == session) {
            one.fate = Fate::Abandoned;
            self.outstanding -= 1;
        }
        self.outstanding < before
    }

    /// The request for the page, after redirects.
    pub(super) fn page(&self) -> Option<&Exchange> {
        // Nothing else is requested until the page is known, so each redirect stands behind the one before.
        let redirects = self.exchanges.windows(2).take_while(|pair| pair[0].is_redirect());
        self.exchanges.get(redirects.count())
    }

    /// Whether so many bytes may be kept; counts them.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.kept + bytes <= KEPT_MAX;
        if fits {
            self.kept += bytes;
        }
        fits
    }

    /// The fields, or none if there is no room for them.
    fn kept(&mut self, fields: Fields) -> Fields {
        let bytes = fields
            .iter()
            .map(|(name, value)| name.len() + value.as_str().map_or(0, str::len))
            .sum();
        match self.has_room(bytes) {
            true => fields,
            false => Fields::new(),
        }
    }

    fn will_be_sent(&mut self, session: &str, event: WillBeSent) {
        let WillBeSent { request, .. } = event;
        if let Some(response) = event.redirect_response {
            let bytes = response.encoded_data_length;
            let mut response = response;
            response.headers = self.kept(std::mem::take(&mut response.headers));
            if let Some(one) = self.of(&event.request_id) {
                one.answered(response, event.timestamp);
                one.transferred = Some(bytes);
                self.ended(&event.request_id, Fate::Done);
            }
        }
        self.open.remove(&event.request_id);
        // Others, such as data:, need no network.
        if !request.url.starts_with("http:") && !request.url.starts_with("https:") {
            return;
        }
        let is_long = request.url.len() > URL_MAX || request.method.len() > WORD_MAX;
        if is_long || self.exchanges.len() >= REQUESTS_MAX || !self.has_room(request.url.len()) {
            self.left_out += 1;
            return;
        }
        let earlier = self.sent.get_mut(&event.request_id);
        let sent = earlier.filter(|all| !all.is_empty()).map(|all| all.remove(0));
        let is_as_sent = sent.is_some();
        let fields = match sent {
            Some(sent) => sent,
            None => self.kept(request.headers),
        };
        let url = event.initiator.url.filter(|url| url.len() <= URL_MAX);
        let url = url.filter(|url| self.has_room(url.len()));
        self.open.insert(event.request_id, self.exchanges.len());
        self.outstanding += 1;
        self.exchanges.push(Exchange {
            url: request.url,
            method: request.method,
            fields,
            is_as_sent,
            wall: event.wall_time,
            issued: event.timestamp,
            session: session.to_owned(),
            kind: word(event.kind),
            priority: word(request.initial_priority),
            initiator: (word(event.initiator.kind), url),
            response: None,
            latest: event.timestamp,
            fate: Fate::Open,
            transferred: None,
            content: 0.0,
            cache: None,
        });
    }

    /// The fields come before or after the request that they belong to.
    fn sent_extra(&mut self, event: SentExtra) {
        let fields = self.kept(event.headers);
        if let Some(one) = self.of(&event.request_id).filter(|one| !one.is_as_sent) {
            one.fields = fields;
            one.is_as_sent = true;
        } else if self.sent.len() < REQUESTS_MAX {
            let waiting = self.sent.entry(event.request_id).or_default();
            if waiting.len() < WAITING_MAX {
                waiting.push(fields);
            }
        }
    }

    fn about(&mut self, session: &str, method: &str, event: About) {
        let response = event.response.map(|mut response| {
            response.headers = self.kept(std::mem::take(&mut response.headers));
            response.status_text = word(response.status_text);
            response.mime_type = word(response.mime_type);
            response.protocol = word(response.protocol);
            response
        });
        let Some(one) = self.of(&event.request_id) else {
            return;
        };
        if one.session != session {
            session.clone_into(&mut one.session);
        }
        match (method, response) {
            ("Network.requestServedFromCache", _) => one.cache = Some("memory"),
            ("Network.responseReceived", Some(response)) => one.answered(response, event.timestamp),
            ("Network.dataReceived", _) => {
                one.content += event.data_length;
                one.latest = event.timestamp;
            }
            ("Network.loadingFinished", _) => {
                one.latest = event.timestamp;
                one.transferred = Some(event.encoded_data_length);
                self.ended(&event.request_id, Fate::Done);
            }
            ("Network.loadingFailed", _) => {
                let why = match event.blocked_reason {
                    Some(reason) => format!("{} ({reason})", event.error_text),
                    None => event.error_text,
                };
                one.latest = event.timestamp;
                self.ended(&event.request_id, Fate::Failed(word(why)));
            }
            _ => {}
        }
    }

    fn ended(&mut self, request: &str, fate: Fate) {
        let Some(one) = self.of(request) else { return };
        if std::mem::replace(&mut one.fate, fate) == Fate::Open {
            self.outstanding -= 1;
        }
    }

    fn of(&mut self, request: &str) -> Option<&mut Exchange> {
        let number = self.open.get(request)?;
        self.exchanges.get_mut(*number)
    }
}

impl Exchange {
    fn answered(&mut self, response: Response, at: f64) {
        if response.from_disk_cache {
            self.cache = Some("disk");
        } else if response.from_prefetch_cache {
            self.cache = Some("prefetch");
        } else if response.from_service_worker {
            self.cache = Some("service worker");
        }
        self.latest = at;
        self.response = Some(response);
    }

    fn is_redirect(&self) -> bool {
        self.fate == Fate::Done
            && self
                .response
                .as_ref()
                .is_some_and(|response| (300..400).contains(&response.status) && response.status != 304)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(log: &mut Log, id: &str, url: &str, more: &Value) {
        let mut params = json!({ "requestId": id, "timestamp": 1.0, "wallTime": 2.0, "type": "Document",
            "request": { "url": url, "method": "GET", "headers": { "Accept": "*/*" } } });
        for (name, value) in more.as_object().expect("an object") {
            params[name] = value.clone();
        }
        assert!(log.take("S", "Network.requestWillBeSent", params));
    }

    fn extra(log: &mut Log, id: &str, cookie: &str) {
        let params = json!({ "requestId": id, "headers": { "Cookie": cookie } });
        log.take("S", "Network.requestWillBeSentExtraInfo", params);
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        assert_eq!(word("text/html".to_owned()), "text/html");
        let cut = word("ä".repeat(WORD_MAX) + "b");
        assert_eq!(cut, "ä".repeat(WORD_MAX / 2));
        let cut = word("a".to_owned() + &"ä".repeat(WORD_MAX));
        assert_eq!(cut.len(), WORD_MAX - 1);
    }

    #[test]
    fn each_redirect_is_an_exchange_with_the_fields_it_was_sent_with() {
        let mut log = Log::default();
        request(&mut log, "1", "http://h/a", &json!({}));
        extra(&mut log, "1", "first");
        // The fields of the next request come before it.
        extra(&mut log, "1", "second");
        let response = json!({ "status": 302, "headers": { "Location": "/b" }, "encodedDataLength": 80 });
        request(
            &mut log,
            "1",
            "http://h/b",
            &json!({ "redirectResponse": response, "timestamp": 1.5 }),
        );
        let cookies: Vec<Option<&str>> = log
            .exchanges
            .iter()
            .map(|one| one.fields["Cookie"].as_str())
            .collect();
        assert_eq!(cookies, [Some("first"), Some("second")]);
        let first = &log.exchanges[0];
        assert_eq!(
            (first.fate.clone(), first.transferred, first.latest),
            (Fate::Done, Some(80.0), 1.5)
        );
        assert_eq!(
            (log.page().map(|page| page.url.as_str()), log.outstanding),
            (Some("http://h/b"), 1)
        );
        let finished = json!({ "requestId": "1", "timestamp": 2.0, "encodedDataLength": 100 });
        log.take("S", "Network.loadingFinished", finished.clone());
        // Once is enough.
        log.take("S", "Network.loadingFinished", finished);
        assert_eq!(log.outstanding, 0);
    }

    #[test]
    fn requests_of_a_session_that_is_gone_are_not_outstanding() {
        let mut log = Log::default();
        for id in ["1", "2", "3"] {
            request(&mut log, id, "http://h/", &json!({}));
        }
        let finished = |id: &str| json!({ "requestId": id, "timestamp": 2.0, "encodedDataLength": 9 });
        log.take("S", "Network.loadingFinished", finished("1"));
        // Another session goes on with the request.
        log.take(
            "F",
            "Network.dataReceived",
            json!({ "requestId": "2", "timestamp": 1.5 }),
        );
        assert!(log.detached("S"));
        let fates = |log: &Log| {
            log.exchanges
                .iter()
                .map(|one| one.fate.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(fates(&log), [Fate::Done, Fate::Open, Fate::Abandoned]);
        assert_eq!(log.outstanding, 1);
        assert!(!log.detached("S"), "nothing more");
        // Events that come nevertheless are about the response, and end nothing twice.
        log.take("F", "Network.loadingFinished", finished("3"));
        log.take("F", "Network.loadingFinished", finished("2"));
        assert_eq!(fates(&log), [Fate::Done, Fate::Done, Fate::Done]);
        assert_eq!(log.outstanding, 0);
    }

    #[test]
    fn data_urls_and_foreign_events_are_none_of_the_log() {
        let mut log = Log::default();
        request(&mut log, "1", "data:,x", &json!({}));
        log.take("S", "Network.loadingFinished", json!({ "requestId": "1" }));
        log.take("S", "Network.loadingFinished", json!({ "requestId": "unknown" }));
        log.take("S", "Network.requestWillBeSent", json!({ "requestId": 7 }));
        log.take("S", "Network.responseReceived", Value::Null);
        assert!(!log.take("S", "Page.frameNavigated", json!({})));
        assert_eq!((log.exchanges.len(), log.left_out, log.outstanding), (0, 0, 0));
        assert!(log.page().is_none());
    }

    #[test]
    fn requests_urls_and_fields_are_bounded() {
        let mut log = Log::default();
        let long = |size: usize| format!("http://h/{}", "x".repeat(size));
        request(&mut log, "1", &long(URL_MAX), &json!({}));
        assert_eq!((log.exchanges.len(), log.left_out), (0, 1));
        for number in 0..=REQUESTS_MAX {
            request(&mut log, &number.to_string(), "http://h/", &json!({}));
        }
        assert_eq!((log.exchanges.len(), log.left_out), (REQUESTS_MAX, 2));
        // With no room left, fields are dropped first, then requests.
        let mut log = Log {
            kept: KEPT_MAX - 10,
            ..Log::default()
        };
        request(&mut log, "1", "http://h/", &json!({}));
        assert_eq!((log.exchanges.len(), log.exchanges[0].fields.len()), (1, 0));
        request(&mut log, "2", "http://h/", &json!({}));
        assert_eq!(
            (log.exchanges.len(), log.left_out, log.kept),
            (1, 1, KEPT_MAX - 1)
        );
        // Fields without a request.
        let mut log = Log::default();
        for number in 0..100 {
            extra(&mut log, "1", &number.to_string());
        }
        assert_eq!(log.sent["1"].len(), WAITING_MAX);
    }
}
