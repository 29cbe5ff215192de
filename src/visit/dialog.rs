//! A visit as a dialog with a browser over the DevTools protocol: which command follows which event, and when the visit is over.
//! Pure: messages and the time come in, commands and a deadline go out. `log` keeps the requests.
//!
//! ```text
//!  Greeting ──version──▶ Opening ──target──▶ Attaching ──session──▶ Preparing ──all replies──▶ Loading ──load event──▶ Settling
//!                                                                                                │                        │
//!                                                                      page unreachable, timeout │   nothing outstanding  │
//!                                                                                                ▼   for 500 ms, timeout  ▼
//!                                                                                              Over ◀───────────────────┘
//! ```
//! Documents of other sites within the page, and workers, are targets of their own: the browser holds each until its requests are
//! reported, too.

use super::log::Log;
use super::messages::{Message, command};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt;
use units::{Duration, Instant};

/// Time without a request outstanding after which a loaded page is complete, as in Chromium's `networkIdle`.
const QUIET: Duration = Duration::from_millis(500);
/// Limit on events of a visit.
const EVENTS_MAX: u64 = 1 << 20;
/// Limit on targets within the page; later ones are not observed.
const TARGETS_MAX: usize = 256;

/// How long a visit may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Until the browser has opened an empty page.
    pub(super) start: Duration,
    /// From then until the page is loaded and complete.
    pub(super) visit: Duration,
    /// From the load event until it is complete.
    pub(super) settle: Duration,
}

#[derive(Debug)]
enum Stage {
    Greeting,
    Opening,
    Attaching,
    /// The page is opened only when its events are on: the browser may put it into another process, which reports what the one
    /// before had confirmed.
    Preparing,
    Loading,
    Settling {
        loaded: Instant,
        active: Instant,
    },
    Over(Ending),
}

/// Why a visit is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Loaded, and nothing outstanding.
    Complete,
    /// Loaded, but requests never ceased: so many were outstanding.
    Busy(usize),
    /// Not loaded in time: so many requests were outstanding.
    Late(usize),
    /// More events than the limit.
    TooMany,
    /// The browser's reason why there is no page.
    Unreachable(String),
    /// The user ended it.
    Interrupted,
}

/// Why there is no visit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No answer until the limit on the start.
    Silent,
    /// The command was not understood; the reason.
    Refused(&'static str, String),
    /// The page's process ended.
    Crashed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Silent => f.write_str("it does not answer over the pipe"),
            Fault::Refused(method, why) => write!(f, "it refused {method}: {why}"),
            Fault::Crashed => f.write_str("the page crashed in it"),
        }
    }
}

/// The dialog.
#[derive(Debug)]
pub(super) struct Dialog {
    url: String,
    patience: Patience,
    stage: Stage,
    /// Time limit of the stage before the load event, and of the whole visit.
    until: Instant,
    /// The page's session.
    page: Option<String>,
    /// Sessions within the page, each with the one that it was attached through.
    within: HashMap<String, Option<String>>,
    last_id: u64,
    /// Commands without a reply, by identifier; whether they concern the page itself.
    asked: HashMap<u64, (&'static str, bool)>,
    out: Vec<u8>,
    events: u64,
    /// Name and version of the browser.
    pub(super) product: String,
    pub(super) log: Log,
}

impl Dialog {
    /// Begins with the first command.
    pub(super) fn new(url: String, patience: Patience, now: Instant) -> Dialog {
        let mut dialog = Dialog {
            url,
            patience,
            stage: Stage::Greeting,
            until: now + patience.start,
            page: None,
            within: HashMap::new(),
            last_id: 0,
            asked: HashMap::new(),
            out: Vec::new(),
            events: 0,
            product: String::new(),
            log: Log::default(),
        };
        dialog.tell("Browser.getVersion", &json!({}), None);
        dialog
    }

    fn tell(&mut self, method: &'static str, params: &Value, session: Option<&str>) {
        self.last_id += 1;
        let is_page = session.is_none() || session == self.page.as_deref();
        self.asked.insert(self.last_id, (method, is_page));
        self.out
            .extend_from_slice(&command(self.last_id, method, params, session));
    }

    /// Bytes for the browser.
    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// How the visit ended, if it has.
    pub(super) fn ending(&self) -> Option<&Ending> {
        match &self.stage {
            Stage::Over(ending) => Some(ending),
            _ => None,
        }
    }

    /// When [`Dialog::expire`] has something to do.
    pub(super) fn deadline(&self) -> Instant {
        let Stage::Settling { loaded, active } = self.stage else {
            return self.until;
        };
        let latest = self.until.min(loaded + self.patience.settle);
        match self.log.outstanding {
            0 => latest.min(active + QUIET),
            _ => latest,
        }
    }

    /// Ends what has lasted too long.
    ///
    /// # Errors
    /// The browser did not open a page in time.
    pub(super) fn expire(&mut self, now: Instant) -> Result<(), Fault> {
        if now < self.deadline() {
            return Ok(());
        }
        let outstanding = self.log.outstanding;
        let ending = match self.stage {
            Stage::Greeting | Stage::Opening | Stage::Attaching | Stage::Preparing => {
                return Err(Fault::Silent);
            }
            Stage::Loading => Ending::Late(outstanding),
            Stage::Settling { .. } if outstanding == 0 => Ending::Complete,
            Stage::Settling { .. } => Ending::Busy(outstanding),
            Stage::Over(_) => return Ok(()),
        };
        self.stage = Stage::Over(ending);
        Ok(())
    }

    /// Ends the visit because the user wants it.
    pub(super) fn interrupt(&mut self) {
        self.stage = Stage::Over(Ending::Interrupted);
    }

    /// Takes a message.
    ///
    /// # Errors
    /// The browser cannot make the visit.
    pub(super) fn handle(&mut self, message: Message, now: Instant) -> Result<(), Fault> {
        if matches!(self.stage, Stage::Over(_)) {
            return Ok(());
        }
        match message.id {
            Some(id) => self.reply(id, message, now),
            None => self.event(message, now),
        }
    }

    fn reply(&mut self, id: u64, message: Message, now: Instant) -> Result<(), Fault> {
        let Some((method, is_page)) = self.asked.remove(&id) else {
            return Ok(());
        };
        if let Some(refusal) = message.error {
            // A target within the page may be gone already.
            return match is_page && method != "Page.handleJavaScriptDialog" {
                true => Err(Fault::Refused(method, refusal.message)),
                false => Ok(()),
            };
        }
        let text = |name: &str| message.result[name].as_str().unwrap_or_default().to_owned();
        match method {
            "Browser.getVersion" => {
                self.product = text("product");
                self.tell("Target.createTarget", &json!({ "url": "about:blank" }), None);
                self.stage = Stage::Opening;
            }
            "Target.createTarget" => {
                let params = json!({ "targetId": text("targetId"), "flatten": true });
                self.tell("Target.attachToTarget", &params, None);
                self.stage = Stage::Attaching;
            }
            "Target.attachToTarget" => {
                let session = text("sessionId");
                self.page = Some(session.clone());
                let session = Some(session.as_str());
                self.observe(session);
                self.tell("Page.enable", &json!({}), session);
                self.tell("Inspector.enable", &json!({}), session);
                self.stage = Stage::Preparing;
            }
            "Page.navigate" => {
                let why = text("errorText");
                if !why.is_empty() {
                    self.stage = Stage::Over(Ending::Unreachable(why));
                }
            }
            _ => {}
        }
        let is_waiting = self.asked.values().any(|(_, is_page)| *is_page);
        if matches!(self.stage, Stage::Preparing) && !is_waiting {
            let url = json!({ "url": self.url });
            let session = self.page.clone();
            self.tell("Page.navigate", &url, session.as_deref());
            self.stage = Stage::Loading;
            self.until = now + self.patience.visit;
        }
        Ok(())
    }

    /// Has the requests of a target reported, and those of targets within it.
    fn observe(&mut self, session: Option<&str>) {
        self.tell("Network.enable", &json!({}), session);
        let within = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
        self.tell("Target.setAutoAttach", &within, session);
    }

    fn event(&mut self, message: Message, now: Instant) -> Result<(), Fault> {
        self.events += 1;
        if self.events > EVENTS_MAX {
            self.stage = Stage::Over(Ending::TooMany);
            return Ok(());
        }
        let Message {
            method,
            params,
            session,
            ..
        } = message;
        let is_page = session.is_some() && session == self.page;
        if !is_page
            && !session
                .as_ref()
                .is_some_and(|session| self.within.contains_key(session))
        {
            return Ok(());
        }
        let at = params["timestamp"].as_f64();
        // The empty page may have events, too.
        let is_ours = is_page && !self.log.exchanges.is_empty();
        match method.as_str() {
            "Page.domContentEventFired" if is_ours => self.log.content = self.log.content.or(at),
            "Page.loadEventFired" if is_ours => {
                self.log.load = self.log.load.or(at);
                if matches!(self.stage, Stage::Loading) {
                    self.stage = Stage::Settling {
                        loaded: now,
                        active: now,
                    };
                }
            }
            "Page.javascriptDialogOpening" => {
                self.tell(
                    "Page.handleJavaScriptDialog",
                    &json!({ "accept": false }),
                    session.as_deref(),
                );
            }
            "Target.attachedToTarget" => {
                let child = params["sessionId"].as_str().unwrap_or_default();
                if self.within.len() < TARGETS_MAX {
                    self.within.insert(child.to_owned(), session);
                    self.observe(Some(child));
                }
                self.tell("Runtime.runIfWaitingForDebugger", &json!({}), Some(child));
            }
            "Target.detachedFromTarget" => {
                let child = params["sessionId"].as_str().unwrap_or_default();
                self.detached(child.to_owned(), now);
            }
            "Inspector.targetCrashed" if is_page => return Err(Fault::Crashed),
            _ => {
                let session = session.unwrap_or_default();
                if self.log.take(&session, &method, params) {
                    self.acted(now);
                }
            }
        }
        Ok(())
    }

    /// Forgets a session, and those that were attached through it: their requests end without further events.
    fn detached(&mut self, session: String, now: Instant) {
        let mut gone = vec![session];
        while let Some(session) = gone.pop() {
            self.within.remove(&session);
            if self.log.detached(&session) {
                self.acted(now);
            }
            let through = self
                .within
                .iter()
                .filter(|(_, by)| by.as_deref() == Some(session.as_str()));
            gone.extend(through.map(|(child, _)| child.clone()));
        }
    }

    /// A request began, went on or ended.
    fn acted(&mut self, now: Instant) {
        if let Stage::Settling { active, .. } = &mut self.stage {
            *active = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        start: Duration::from_secs(30),
        visit: Duration::from_secs(60),
        settle: Duration::from_secs(5),
    };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn message(value: Value) -> Message {
        serde_json::from_value(value).expect("a message")
    }

    fn event(session: &str, method: &str, params: &Value) -> Message {
        message(json!({ "method": method, "params": params, "sessionId": session }))
    }

    /// Methods and sessions of the commands that were told.
    fn told(dialog: &mut Dialog) -> Vec<(String, Option<String>)> {
        let out = dialog.take_output();
        let all = out.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        all.map(|part| {
            let command: Value = serde_json::from_slice(part).expect("JSON");
            let session = command["sessionId"].as_str().map(str::to_owned);
            (command["method"].as_str().expect("a method").to_owned(), session)
        })
        .collect()
    }

    fn methods(dialog: &mut Dialog) -> Vec<String> {
        told(dialog).into_iter().map(|(method, _)| method).collect()
    }

    /// A dialog that has told the browser to open the page, at 100 ms.
    fn loading() -> Dialog {
        let mut dialog = Dialog::new("http://h/".to_owned(), PATIENCE, at(0));
        assert_eq!(methods(&mut dialog), ["Browser.getVersion"]);
        for (id, result, next) in [
            (1, json!({ "product": "Chrome/156" }), "Target.createTarget"),
            (2, json!({ "targetId": "T" }), "Target.attachToTarget"),
        ] {
            let reply = message(json!({ "id": id, "result": result }));
            dialog.handle(reply, at(50)).expect("a reply");
            assert_eq!(methods(&mut dialog), [next]);
        }
        let reply = message(json!({ "id": 3, "result": { "sessionId": "S" } }));
        dialog.handle(reply, at(60)).expect("a reply");
        let session = Some("S".to_owned());
        let prepared = [
            "Network.enable",
            "Target.setAutoAttach",
            "Page.enable",
            "Inspector.enable",
        ];
        let wanted = prepared.map(|method| (method.to_owned(), session.clone()));
        assert_eq!(told(&mut dialog), wanted);
        for id in 4..=7 {
            assert!(told(&mut dialog).is_empty(), "before the reply to {id}");
            dialog
                .handle(message(json!({ "id": id, "result": {} })), at(100))
                .expect("a reply");
        }
        assert_eq!(told(&mut dialog), [("Page.navigate".to_owned(), session)]);
        assert_eq!(dialog.product, "Chrome/156");
        dialog
    }

    fn request(dialog: &mut Dialog, session: &str, id: &str, now: Instant) {
        let params = json!({ "requestId": id, "request": { "url": format!("http://h/{id}"), "method": "GET" },
            "timestamp": 1.0, "wallTime": 5.0 });
        let event = event(session, "Network.requestWillBeSent", &params);
        dialog.handle(event, now).expect("an event");
    }

    fn finished(dialog: &mut Dialog, id: &str, now: Instant) {
        let params = json!({ "requestId": id, "timestamp": 2.0, "encodedDataLength": 9 });
        let event = event("S", "Network.loadingFinished", &params);
        dialog.handle(event, now).expect("an event");
    }

    fn loaded(dialog: &mut Dialog, now: Instant) {
        let event = event("S", "Page.loadEventFired", &json!({ "timestamp": 3.0 }));
        dialog.handle(event, now).expect("an event");
    }

    #[test]
    fn a_visit_is_over_when_the_page_is_loaded_and_nothing_is_outstanding() {
        let mut dialog = loading();
        // The load event of the empty page is none of the page.
        loaded(&mut dialog, at(110));
        assert_eq!(dialog.deadline(), at(60_100));
        request(&mut dialog, "S", "a", at(120));
        finished(&mut dialog, "a", at(300));
        loaded(&mut dialog, at(400));
        assert_eq!((dialog.log.load, dialog.deadline()), (Some(3.0), at(900)));
        // A further request starts the quiet time again.
        request(&mut dialog, "S", "b", at(800));
        assert_eq!(dialog.deadline(), at(5_400));
        finished(&mut dialog, "b", at(850));
        dialog.expire(at(1_349)).expect("no fault");
        assert_eq!(dialog.ending(), None);
        dialog.expire(at(1_350)).expect("no fault");
        assert_eq!(dialog.ending(), Some(&Ending::Complete));
        assert_eq!(dialog.log.exchanges.len(), 2);
    }

    #[test]
    fn each_wait_has_its_end() {
        let mut dialog = Dialog::new("http://h/".to_owned(), PATIENCE, at(0));
        assert_eq!(dialog.deadline(), at(30_000));
        assert_eq!(dialog.expire(at(29_999)), Ok(()));
        assert_eq!(dialog.expire(at(30_000)), Err(Fault::Silent));
        let mut dialog = loading();
        request(&mut dialog, "S", "a", at(200));
        dialog.expire(at(60_100)).expect("no fault");
        assert_eq!(dialog.ending(), Some(&Ending::Late(1)));
        let mut dialog = loading();
        request(&mut dialog, "S", "a", at(200));
        loaded(&mut dialog, at(1_000));
        dialog.expire(at(6_000)).expect("no fault");
        assert_eq!(dialog.ending(), Some(&Ending::Busy(1)));
        let mut dialog = loading();
        dialog.interrupt();
        assert_eq!(dialog.ending(), Some(&Ending::Interrupted));
    }

    #[test]
    fn a_page_that_cannot_be_reached_and_a_browser_that_refuses_are_told() {
        let mut dialog = loading();
        let id = dialog.last_id;
        let reply = json!({ "id": id, "result": { "errorText": "net::ERR_CONNECTION_REFUSED" } });
        dialog.handle(message(reply), at(200)).expect("a reply");
        let why = Ending::Unreachable("net::ERR_CONNECTION_REFUSED".to_owned());
        assert_eq!(dialog.ending(), Some(&why));
        let mut dialog = loading();
        let reply = json!({ "id": id, "error": { "message": "invalid URL" } });
        let fault = dialog.handle(message(reply), at(200));
        assert_eq!(
            fault,
            Err(Fault::Refused("Page.navigate", "invalid URL".to_owned()))
        );
        let crashed = event("S", "Inspector.targetCrashed", &json!({}));
        assert_eq!(loading().handle(crashed, at(200)), Err(Fault::Crashed));
    }

    #[test]
    fn targets_within_the_page_are_observed_and_others_are_not() {
        let mut dialog = loading();
        request(&mut dialog, "S", "a", at(200));
        let frame = event("S", "Target.attachedToTarget", &json!({ "sessionId": "F" }));
        dialog.handle(frame, at(210)).expect("an event");
        let told = told(&mut dialog);
        let told: Vec<&str> = told.iter().map(|(method, _)| method.as_str()).collect();
        assert_eq!(
            told,
            [
                "Network.enable",
                "Target.setAutoAttach",
                "Runtime.runIfWaitingForDebugger"
            ]
        );
        // What a frame refuses is no fault of the page.
        let refused = json!({ "id": dialog.last_id, "error": { "message": "gone" } });
        dialog.handle(message(refused), at(215)).expect("no fault");
        request(&mut dialog, "F", "b", at(220));
        request(&mut dialog, "other", "c", at(230));
        // The load event of a frame is none of the page.
        let event = event("F", "Page.loadEventFired", &json!({ "timestamp": 1.0 }));
        dialog.handle(event, at(240)).expect("an event");
        assert_eq!((dialog.log.exchanges.len(), dialog.log.load), (2, None));
    }

    #[test]
    fn requests_of_a_frame_that_goes_away_are_not_waited_for() {
        let mut dialog = loading();
        request(&mut dialog, "S", "a", at(200));
        // A worker of a frame of the page, and another frame.
        for (by, session) in [("S", "F"), ("F", "W"), ("S", "G")] {
            let attached = event(by, "Target.attachedToTarget", &json!({ "sessionId": session }));
            dialog.handle(attached, at(210)).expect("an event");
            request(&mut dialog, session, session, at(220));
        }
        finished(&mut dialog, "a", at(300));
        loaded(&mut dialog, at(400));
        assert_eq!((dialog.log.outstanding, dialog.deadline()), (3, at(5_400)));
        let detached =
            |session: &str| event("S", "Target.detachedFromTarget", &json!({ "sessionId": session }));
        dialog.handle(detached("F"), at(1_000)).expect("an event");
        assert_eq!((dialog.log.outstanding, dialog.deadline()), (1, at(5_400)));
        dialog.handle(detached("G"), at(2_000)).expect("an event");
        assert!(dialog.within.is_empty());
        assert_eq!((dialog.log.outstanding, dialog.deadline()), (0, at(2_500)));
        dialog.expire(at(2_500)).expect("no fault");
        assert_eq!(dialog.ending(), Some(&Ending::Complete));
    }

    #[test]
    fn a_dialog_of_the_page_is_closed() {
        let mut dialog = loading();
        let event = event(
            "S",
            "Page.javascriptDialogOpening",
            &json!({ "message": "hello" }),
        );
        dialog.handle(event, at(200)).expect("an event");
        assert_eq!(methods(&mut dialog), ["Page.handleJavaScriptDialog"]);
    }

    #[test]
    fn events_and_targets_are_bounded() {
        let mut dialog = loading();
        for number in 0..TARGETS_MAX + 3 {
            let params = json!({ "sessionId": number.to_string() });
            let event = event("S", "Target.attachedToTarget", &params);
            dialog.handle(event, at(200)).expect("an event");
        }
        assert_eq!(dialog.within.len(), TARGETS_MAX);
        let resumed = methods(&mut dialog);
        let resumed = resumed
            .iter()
            .filter(|method| *method == "Runtime.runIfWaitingForDebugger");
        assert_eq!(resumed.count(), TARGETS_MAX + 3);
        dialog.events = EVENTS_MAX;
        request(&mut dialog, "S", "a", at(300));
        assert_eq!(dialog.ending(), Some(&Ending::TooMany));
        assert!(dialog.log.exchanges.is_empty());
    }
}
