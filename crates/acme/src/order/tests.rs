//! The way to a certificate against a CA in memory, with every step cut.

use super::*;
use crate::renewal;
use crate::world::Request;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use units::UnixTime;

const DIRECTORY: &str = "https://ca.test/dir";
const CHAIN: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";

/// A CA that issues to everyone who presents what it asked for.
struct Mock {
    now: i64,
    /// Requests so far: method and path.
    asked: Vec<String>,
    /// Identifiers of the order.
    names: Vec<&'static str>,
    presented: Vec<Challenge>,
    /// Challenges presented so far, withdrawn ones too.
    all_presented: usize,
    /// By name: whether it was told to look, and whether it has found what it asked for.
    is_told: Vec<bool>,
    is_valid: Vec<bool>,
    is_finalized: bool,
    knows_account: bool,
    nonce: u64,
    /// Nonces that it will refuse.
    bad_nonces: u32,
    /// Answers the request of this number with that.
    cut: Option<(usize, Cut)>,
    /// How often it says `processing`.
    processing: u32,
    /// What the check of the name comes to.
    verdict: &'static str,
    /// How it refuses an order that replaces a certificate: status and problem.
    on_replacing: Option<(u16, &'static str)>,
    /// Reasons of what was revoked.
    revoked: Vec<Value>,
}

#[derive(Clone)]
enum Cut {
    Unreachable,
    Answer(Response),
}

impl Mock {
    fn new() -> Mock {
        Mock {
            now: 1_800_000_000,
            asked: Vec::new(),
            names: vec!["a.test"],
            presented: Vec::new(),
            all_presented: 0,
            is_told: vec![false],
            is_valid: vec![false],
            is_finalized: false,
            knows_account: true,
            nonce: 0,
            bad_nonces: 0,
            cut: None,
            processing: 2,
            verdict: "valid",
            on_replacing: None,
            revoked: Vec::new(),
        }
    }

    fn with(names: &[&'static str]) -> Mock {
        Mock {
            names: names.to_vec(),
            is_told: vec![false; names.len()],
            is_valid: vec![false; names.len()],
            ..Mock::new()
        }
    }

    fn obtain(&mut self) -> Result<Issued, Error> {
        let mut account = Account::new().expect("a key");
        self.obtain_for(&mut account, &wanted())
    }

    fn obtain_for(&mut self, account: &mut Account, wanted: &Wanted) -> Result<Issued, Error> {
        let ca = Ca {
            directory: DIRECTORY.to_owned(),
            ..Ca::default()
        };
        obtain(self, &ca, account, wanted)
    }

    fn order(&mut self) -> Value {
        let are_valid = self.is_valid.iter().all(|&is_valid| is_valid);
        let status = match (are_valid, self.is_finalized) {
            (false, _) => "pending",
            (true, false) => "ready",
            (true, true) if self.processing > 0 => {
                self.processing -= 1;
                "processing"
            }
            (true, true) => "valid",
        };
        json!({
            "status": status,
            "authorizations": (0..self.names.len())
                .map(|at| format!("https://ca.test/authz/{at}"))
                .collect::<Vec<_>>(),
            "finalize": "https://ca.test/finalize",
            "certificate": (status == "valid").then_some("https://ca.test/cert"),
        })
    }

    fn authorization(&mut self, at: usize) -> Value {
        let status = match (self.is_told[at], self.is_valid[at]) {
            (_, true) => "valid",
            (false, false) => "pending",
            (true, false) => self.verdict,
        };
        self.is_valid[at] = status == "valid";
        let name = self.names[at];
        let base = name.trim_start_matches("*.");
        let mut offered = vec![
            json!({ "type": "dns-01", "url": format!("https://ca.test/chall/{at}/d"),
            "token": format!("d{at}") }),
        ];
        if base == name {
            offered.extend([
                json!({ "type": "http-01", "url": format!("https://ca.test/chall/{at}/h"), "token": format!("h-{at}"),
                  "error": { "type": "urn:ietf:params:acme:error:connection", "detail": "timed out" } }),
                json!({ "type": "tls-alpn-01", "url": format!("https://ca.test/chall/{at}/t"),
                  "token": format!("t_{at}") }),
            ]);
        }
        json!({
            "status": status,
            "identifier": { "type": "dns", "value": base },
            "wildcard": base != name,
            "challenges": offered,
        })
    }

    fn answer(&mut self, request: &Request) -> Response {
        let path = request.url.strip_prefix("https://ca.test/").expect("its own URL");
        let problem = |status, kind: &str| Response {
            status,
            body: json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": "no" })
                .to_string()
                .into(),
            ..Response::default()
        };
        let mut payload = Value::Null;
        if request.method == "POST" {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            let part = |name: &str| {
                let text = body[name].as_str().expect("text");
                URL_SAFE_NO_PAD.decode(text).expect("base64url")
            };
            let protected: Value = serde_json::from_slice(&part("protected")).expect("JSON");
            assert_eq!(protected["url"], request.url);
            assert_eq!(
                protected["nonce"],
                self.nonce.to_string(),
                "the newest nonce, once"
            );
            if self.bad_nonces > 0 {
                self.bad_nonces -= 1;
                return problem(400, "badNonce");
            }
            if path != "account" && !self.knows_account {
                return problem(400, "accountDoesNotExist");
            }
            assert_eq!(protected["jwk"].is_object(), path == "account");
            payload = serde_json::from_slice(&part("payload")).unwrap_or_default();
        }
        let (status, body) = match path {
            "dir" => (
                200,
                json!({
                    "newNonce": "https://ca.test/nonce",
                    "newAccount": "https://ca.test/account",
                    "newOrder": "https://ca.test/order/new",
                    "renewalInfo": "https://ca.test/ari",
                    "revokeCert": "https://ca.test/revoke",
                    "meta": { "profiles": { "short": "for days" } },
                }),
            ),
            "nonce" => (200, Value::Null),
            "account" => {
                self.knows_account = true;
                (201, json!({ "status": "valid" }))
            }
            "order/new"
                if let Some((status, kind)) =
                    self.on_replacing.filter(|_| payload["replaces"].is_string()) =>
            {
                return problem(status, kind);
            }
            "order/new" => (201, self.order()),
            "order/1" => (200, self.order()),
            "revoke" if payload["certificate"] == URL_SAFE_NO_PAD.encode("old") => {
                return problem(400, "alreadyRevoked");
            }
            "revoke" => {
                self.revoked.push(payload["reason"].clone());
                (200, Value::Null)
            }
            path if path.starts_with("authz/") => {
                let at: usize = path["authz/".len()..].parse().expect("a number");
                (200, self.authorization(at))
            }
            path if path.starts_with("chall/") => {
                let of_all = self.names.len();
                assert_eq!(
                    self.presented.len(),
                    of_all,
                    "all is presented before the CA is told"
                );
                let at = path["chall/".len()..].split('/').next().expect("a number");
                self.is_told[at.parse::<usize>().expect("a number")] = true;
                (200, json!({ "status": "processing" }))
            }
            "finalize" => {
                self.is_finalized = true;
                (200, self.order())
            }
            "cert" => {
                return Response {
                    status: 200,
                    body: CHAIN.into(),
                    ..Response::default()
                };
            }
            other => panic!("no such place: {other}"),
        };
        let place = match path {
            "account" => Some("https://ca.test/account/1"),
            "order/new" => Some("https://ca.test/order/1"),
            _ => None,
        };
        Response {
            status,
            fields: place
                .map(|place| ("location".to_owned(), place.to_owned()))
                .into_iter()
                .collect(),
            body: body.to_string().into(),
        }
    }
}

impl World for Mock {
    fn send(&mut self, request: &Request) -> Result<Response, String> {
        let number = self.asked.len();
        let path = request.url.trim_start_matches("https://ca.test/");
        self.asked.push(format!("{} {path}", request.method));
        match &self.cut {
            Some((at, Cut::Unreachable)) if *at == number => return Err("connection refused".to_owned()),
            Some((at, Cut::Answer(answer))) if *at == number => return Ok(answer.clone()),
            _ => {}
        }
        let mut answer = self.answer(request);
        self.nonce += 1;
        answer
            .fields
            .push(("Replay-Nonce".to_owned(), self.nonce.to_string()));
        Ok(answer)
    }

    fn present(&mut self, challenge: &Challenge) -> Result<(), String> {
        self.presented.push(challenge.clone());
        self.all_presented += 1;
        Ok(())
    }

    fn withdraw(&mut self, challenge: &Challenge) {
        self.presented.retain(|other| other != challenge);
    }

    fn now(&self) -> UnixTime {
        UnixTime::from_secs(self.now)
    }

    fn wait(&mut self, span: Duration) {
        assert!(span > Duration::ZERO && span <= PAUSE_MOST, "{span:?}");
        self.now += i64::try_from(span.as_secs()).expect("seconds");
    }
}

fn wanted() -> Wanted {
    Wanted {
        names: vec!["a.test".to_owned()],
        kinds: vec![Kind::TlsAlpn, Kind::Http],
        ..Wanted::default()
    }
}

#[test]
fn a_certificate_is_issued_and_nothing_stays_presented() {
    let mut mock = Mock::new();
    let issued = mock.obtain().expect("a certificate");
    assert_eq!(issued.chain, CHAIN);
    assert!(issued.key.contains("PRIVATE KEY"));
    assert!(!format!("{issued:?}").contains("PRIVATE"));
    assert!(mock.presented.is_empty() && mock.all_presented == 1);
    assert!(
        mock.asked.contains(&"POST chall/0/t".to_owned()),
        "{:?}",
        mock.asked
    );
}

#[test]
fn a_name_and_its_wildcard_are_shown_together() {
    let mut mock = Mock::with(&["a.test", "*.a.test"]);
    let mut account = Account::new().expect("a key");
    let by_dns = Wanted {
        names: vec!["a.test".to_owned(), "*.a.test".to_owned()],
        kinds: vec![Kind::Dns, Kind::Http],
        dns_wait: Duration::from_secs(17),
        ..Wanted::default()
    };
    mock.obtain_for(&mut account, &by_dns).expect("a certificate");
    assert!(mock.presented.is_empty() && mock.all_presented == 2);
    let told = |path: &str| mock.asked.contains(&format!("POST {path}"));
    assert!(told("chall/0/d") && told("chall/1/d"), "{:?}", mock.asked);
    let waited = mock.now - 1_800_000_000;
    let mut at_once = Mock::with(&["a.test", "*.a.test"]);
    let wanted = Wanted {
        dns_wait: Duration::ZERO,
        ..by_dns.clone()
    };
    at_once.obtain_for(&mut account, &wanted).expect("a certificate");
    assert_eq!(at_once.now - 1_800_000_000 + 17, waited);
    // By http-01 alone, a wildcard cannot be had, and what was presented for the other name is withdrawn.
    let mut mock = Mock::with(&["a.test", "*.a.test"]);
    let by_http = Wanted {
        kinds: vec![Kind::Http],
        ..by_dns
    };
    let why = mock.obtain_for(&mut account, &by_http).expect_err("no wildcard");
    assert!(why.to_string().contains("--acme-hook"), "{why}");
    assert!(mock.presented.is_empty() && mock.all_presented == 1);
}

#[test]
fn certificates_are_revoked_once() {
    let mut mock = Mock::new();
    let mut account = Account::new().expect("a key");
    let ca = Ca {
        directory: DIRECTORY.to_owned(),
        ..Ca::default()
    };
    for (certificate, reason) in [("new", Reason::KeyCompromise), ("old", Reason::Unspecified)] {
        let done = revoke(&mut mock, &ca, &mut account, certificate.as_bytes(), reason);
        assert!(done.is_ok(), "{done:?}");
    }
    assert_eq!(mock.revoked, [json!(1)]);
    mock.cut = Some((mock.asked.len() + 1, Cut::Unreachable));
    let refused = revoke(&mut mock, &ca, &mut account, b"new", Reason::Superseded);
    assert!(matches!(refused, Err(Error::Unreachable(_))), "{refused:?}");
}

#[test]
fn refused_nonces_are_replaced() {
    let mut mock = Mock::new();
    mock.bad_nonces = 7;
    assert!(mock.obtain().is_ok());
    mock = Mock::new();
    mock.bad_nonces = 1_000;
    assert!(matches!(mock.obtain(), Err(Error::Unexpected(_))));
    assert!(mock.asked.len() < 20, "it gives up");
}

#[test]
fn an_account_that_the_ca_forgot_is_registered_again() {
    let mut account = Account::new().expect("a key");
    account.url = Some("https://ca.test/account/0".to_owned());
    let mut mock = Mock::new();
    mock.knows_account = false;
    assert!(mock.obtain_for(&mut account, &wanted()).is_ok());
    assert_eq!(account.url.as_deref(), Some("https://ca.test/account/1"));
    let mut mock = Mock::new();
    assert!(mock.obtain_for(&mut account, &wanted()).is_ok());
    assert!(
        !mock.asked.contains(&"POST account".to_owned()),
        "{:?}",
        mock.asked
    );
}

#[test]
fn a_failed_check_names_the_name_and_what_to_do() {
    let mut mock = Mock::new();
    mock.verdict = "invalid";
    let mut account = Account::new().expect("a key");
    let http = Wanted {
        kinds: vec![Kind::Http],
        ..wanted()
    };
    let why = mock
        .obtain_for(&mut account, &http)
        .expect_err("refused")
        .to_string();
    for part in ["for a.test", "timed out", "(connection)", "port 80"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(mock.presented.is_empty(), "withdrawn");
    mock = Mock::new();
    mock.verdict = "pending";
    let why = mock.obtain().expect_err("never checked").to_string();
    assert!(why.contains("is pending"), "{why}");
    let waited = mock.now - 1_800_000_000;
    assert!((300..=330).contains(&waited), "{waited} s");
}

#[test]
fn what_cannot_be_is_said_before_anything_is_ordered() {
    let mut account = Account::new().expect("a key");
    let mut mock = Mock::new();
    let profile = Wanted {
        profile: Some("long".to_owned()),
        ..wanted()
    };
    let why = mock
        .obtain_for(&mut account, &profile)
        .expect_err("no such profile");
    assert!(why.to_string().contains("offers: short"), "{why}");
    assert_eq!(mock.asked.len(), 1);
    let none = Wanted {
        kinds: Vec::new(),
        ..wanted()
    };
    let why = mock.obtain_for(&mut account, &none).expect_err("no way");
    assert!(why.to_string().contains("dns-01, http-01, tls-alpn-01"), "{why}");
}

#[test]
fn a_certificate_that_was_replaced_already_is_no_obstacle() {
    let mut account = Account::new().expect("a key");
    let replacing = Wanted {
        replaces: Some("aki.serial".to_owned()),
        ..wanted()
    };
    let refusals = [
        (409, "alreadyReplaced"),
        (404, "malformed"),
        (500, "serverInternal"),
    ];
    for refusal in refusals.into_iter().map(Some).chain([None]) {
        let mut mock = Mock::new();
        mock.on_replacing = refusal;
        account.url = None;
        assert!(mock.obtain_for(&mut account, &replacing).is_ok(), "{refusal:?}");
    }
    // A limit is not tried again.
    let mut mock = Mock::new();
    mock.on_replacing = Some((429, "rateLimited"));
    account.url = None;
    let error = mock.obtain_for(&mut account, &replacing).expect_err("a limit");
    assert!(error.is("rateLimited"), "{error}");
}

#[test]
fn a_limit_says_how_long_to_wait() {
    let mut mock = Mock::new();
    let body = json!({ "type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many certificates" });
    let limited = Response {
        status: 429,
        fields: vec![("Retry-After".to_owned(), "3600".to_owned())],
        body: body.to_string().into(),
    };
    mock.cut = Some((3, Cut::Answer(limited)));
    let error = mock.obtain().expect_err("a limit");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3_600)));
    assert!(error.to_string().contains("too many certificates"), "{error}");
}

#[test]
fn every_step_may_fail_and_nothing_stays_presented() {
    let mut whole = Mock::new();
    whole.obtain().expect("a certificate");
    let steps = whole.asked.len();
    assert!(steps >= 10);
    let answer = |status, body: &str| {
        Cut::Answer(Response {
            status,
            body: body.into(),
            ..Response::default()
        })
    };
    let cuts = [
        Cut::Unreachable,
        answer(500, ""),
        answer(503, "<html>"),
        answer(200, ""),
        answer(200, "{}"),
        answer(200, "[]"),
        answer(404, "{\"type\":7}"),
    ];
    for step in 0..steps {
        for cut in &cuts {
            let mut mock = Mock::new();
            mock.cut = Some((step, cut.clone()));
            // An empty answer to a step whose content does not matter is no failure.
            if let Err(error) = mock.obtain() {
                assert!(!error.to_string().is_empty());
            }
            assert!(mock.presented.is_empty(), "step {step}");
            assert!(mock.now - 1_800_000_000 < 700, "step {step}");
        }
    }
}

#[test]
fn a_clock_that_jumps_ends_no_wait_and_makes_none_endless() {
    struct Jumping(Mock, i64);
    impl World for Jumping {
        fn send(&mut self, request: &Request) -> Result<Response, String> {
            self.0.send(request)
        }
        fn present(&mut self, challenge: &Challenge) -> Result<(), String> {
            self.0.present(challenge)
        }
        fn withdraw(&mut self, challenge: &Challenge) {
            self.0.withdraw(challenge);
        }
        fn now(&self) -> UnixTime {
            self.0.now()
        }
        fn wait(&mut self, span: Duration) {
            self.0.wait(span);
            self.0.now += self.1;
        }
    }
    for jump in [-5, 200] {
        let ca = Ca {
            directory: DIRECTORY.to_owned(),
            ..Ca::default()
        };
        let mut account = Account::new().expect("a key");
        let mut world = Jumping(Mock::new(), jump);
        assert!(obtain(&mut world, &ca, &mut account, &wanted()).is_ok(), "{jump}");
        world.0 = Mock::new();
        world.0.verdict = "pending";
        account.url = None;
        assert!(
            obtain(&mut world, &ca, &mut account, &wanted()).is_err(),
            "{jump}"
        );
    }
}

#[test]
fn the_window_of_the_ca_is_asked_for() {
    let mut mock = Mock::new();
    let body =
        json!({ "suggestedWindow": { "start": "2027-01-02T04:00:00Z", "end": "2027-01-03T04:00:00Z" } });
    let window = |body: String, after: &str| {
        Cut::Answer(Response {
            status: 200,
            fields: vec![("Retry-After".to_owned(), after.to_owned())],
            body: body.into(),
        })
    };
    mock.cut = Some((1, window(body.to_string(), "21600")));
    let found = renewal::ask(&mut mock, DIRECTORY, "a.b").expect("a window");
    assert_eq!(mock.asked[1], "GET ari/a.b");
    assert_eq!(found.again, Duration::from_secs(21_600));
    assert_eq!(found.window.map(|window| window.end - window.start), Some(86_400));
    let mut mock = Mock::new();
    let turned =
        json!({ "suggestedWindow": { "start": "2027-01-03T04:00:00Z", "end": "2027-01-02T04:00:00Z" } });
    mock.cut = Some((1, window(turned.to_string(), "1")));
    assert!(renewal::ask(&mut mock, DIRECTORY, "a.b").is_err());
}

proptest! {
    #[test]
    fn a_ca_may_say_anything(step in 0_usize..14, status in 100_u16..600, body in ".{0,80}", field in ".{0,20}") {
        let mut mock = Mock::new();
        let fields = ["Retry-After", "Location", "Replay-Nonce"].map(|name| (name.to_owned(), field.clone()));
        // A nonce of its own making would rightly fail this test's own check.
        let fields = fields[..2].to_vec();
        mock.cut = Some((step, Cut::Answer(Response { status, fields, body: body.into() })));
        let wild = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(mock.obtain())));
        // The CA in memory panics for URLs that it does not have; only those are its own fault.
        if let Err(panic) = wild {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            prop_assert!(text.contains("its own URL") || text.contains("no such place"), "{text}");
        }
    }
}
