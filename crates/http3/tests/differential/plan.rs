//! What both ends exchange, from a seed: both know the plan, so that each end can check what it receives.

use http3::Code;
use units::{Draw, Rng, Seed};

/// Which end resets its half of an exchange, after half of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Client,
    Server,
}

impl By {
    pub(crate) fn code(self) -> Code {
        match self {
            By::Client => Code::REQUEST_CANCELLED,
            By::Server => Code::INTERNAL_ERROR,
        }
    }
}

pub(crate) type Lines = Vec<(String, String)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) fields: Lines,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Lines,
}

#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Message,
    pub(crate) response: Message,
    pub(crate) status: u16,
    pub(crate) reset: Option<By>,
}

impl Exchange {
    pub(crate) fn message(&self, sender: By) -> &Message {
        match sender {
            By::Client => &self.request,
            By::Server => &self.response,
        }
    }
}

/// What one end saw of an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Status, or 0 for a request; fields without pseudo-fields.
    pub(crate) head: Option<(u16, Lines)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Lines,
    pub(crate) complete: bool,
    pub(crate) reset: Option<Code>,
}

pub(crate) fn below(rng: &mut Rng, bound: u64) -> u64 {
    rng.next_u64() % bound
}

pub(crate) fn one_of<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[below(rng, list.len() as u64) as usize]
}

fn lines(rng: &mut Rng) -> Lines {
    let known = [
        ("user-agent", "weir"),
        ("accept", "*/*"),
        ("cookie", "a=b"),
        ("authorization", "Basic eDp5"),
        ("content-type", "text/html; charset=utf-8"),
        (
            "strict-transport-security",
            "max-age=31536000; includesubdomains; preload",
        ),
        ("x-frame-options", "sameorigin"),
        ("date", "Mon, 23 Nov 2026 12:00:00 GMT"),
    ];
    let mut out = Lines::new();
    for _ in 0..below(rng, 9) {
        if below(rng, 3) > 0 {
            let (name, value) = one_of(rng, &known);
            out.push((name.to_owned(), value.to_owned()));
        } else {
            let length = below(rng, 60);
            let value = (0..length)
                .map(|_| char::from(b'!' + below(rng, 94) as u8))
                .collect();
            out.push((format!("x-{}", below(rng, 5)), value));
        }
    }
    out
}

fn message(rng: &mut Rng) -> Message {
    let most = one_of(rng, &[1, 2, 100, 20_000, 70_000]);
    let length = below(rng, most) as usize;
    let mut fields = lines(rng);
    if below(rng, 2) == 0 {
        fields.push(("content-length".to_owned(), length.to_string()));
    }
    let mark = rng.next_u64() as usize;
    Message {
        fields,
        body: (0..length).map(|at| (at / 7 + mark) as u8).collect(),
        trailers: match below(rng, 3) {
            0 => vec![("x-sum".to_owned(), length.to_string())],
            _ => Lines::new(),
        },
    }
}

/// The exchanges of a seed.
pub(crate) fn exchanges(seed: u64) -> Vec<Exchange> {
    let mut rng = Seed(seed).rng();
    let one = |_| {
        let (request, response) = (message(&mut rng), message(&mut rng));
        let by = one_of(&mut rng, &[None, None, None, Some(By::Client), Some(By::Server)]);
        // Only a body can be half sent.
        let reset = by.filter(|by| match by {
            By::Client => request.body.len() > 1,
            By::Server => response.body.len() > 1,
        });
        Exchange {
            request,
            response,
            status: one_of(&mut rng, &[200, 203, 404, 500]),
            reset,
        }
    };
    (0..24).map(one).collect()
}

/// Compares what the receiver saw of a message with the plan. Returns whether it was whole.
pub(crate) fn check(seen: &Seen, receiver: By, exchange: &Exchange, label: &str) -> bool {
    let (message, status) = match receiver {
        By::Client => (&exchange.response, exchange.status),
        By::Server => (&exchange.request, 0),
    };
    let sorted = |lines: &Lines| {
        let mut lines = lines.clone();
        // The order of values of one name matters; the order of names does not.
        lines.sort_by(|a, b| a.0.cmp(&b.0));
        lines
    };
    if let Some((code, fields)) = &seen.head {
        let expected = (status, sorted(&message.fields));
        assert_eq!((*code, sorted(fields)), expected, "{label}");
    }
    assert!(message.body.starts_with(&seen.body), "{label}: the body");
    if seen.complete {
        assert!(seen.head.is_some(), "{label}");
        assert_eq!(seen.body.len(), message.body.len(), "{label}");
        assert_eq!(seen.trailers, message.trailers, "{label}");
    }
    match exchange.reset {
        None => assert!(seen.complete && seen.reset.is_none(), "{label}: {:?}", seen.reset),
        // A server answers a whole request only, so that its client sees nothing of a response.
        Some(By::Client) if receiver == By::Client => assert!(!seen.complete, "{label}"),
        Some(By::Server) if receiver == By::Server => assert!(seen.complete, "{label}"),
        Some(by) => assert_eq!(seen.reset, Some(by.code()), "{label}"),
    }
    seen.complete
}
