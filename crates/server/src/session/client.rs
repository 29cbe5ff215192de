//! Who is at the other end of a connection, whatever protocol it speaks, and whether its requests are answered at all.

use crate::client_address::{From, Trusted};
use crate::config::{Facts, Parents};
use crate::connection_limit::unit;
use crate::context::Cx;
use crate::exchange::{Asked, Failure, Way};
use crate::rate_limit::Pace;
use crate::request_id::{Nth, RequestId};
use crate::request_limit::Seats;
use crate::traced::{Trace, Tracing};
use http_semantics::request::RequestHead;
use runtime::session::{Secured, TlsVersion};
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;
use std::sync::Arc;
use units::{Duration, Instant};

/// The client of a connection.
#[derive(Debug)]
pub(super) struct Client {
    address: IpAddr,
    layer: Layer,
    /// Version of TLS, once client and layer have agreed.
    tls: Option<TlsVersion>,
    /// Whether it came to an admin address.
    is_admin: bool,
    /// Number of its requests so far, over this connection.
    pub(super) requests: u32,
    /// Empty in most connections.
    more: OnceCell<Box<More>>,
}

/// The layer around the connection that encrypts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// There is none.
    None,
    /// Client and layer have not agreed yet. `hurried`: they have less time for it than the first request head.
    Agreeing { hurried: bool },
    /// They have.
    Agreed,
}

/// What is rarely known of a client.
#[derive(Debug, Default)]
struct More {
    /// The address's state in the request rate limit, if there is one.
    pace: Option<Pace>,
    /// Who the client is, as its certificate says.
    identity: Option<Arc<str>>,
    /// Number of the connection, for the ids of its requests and traces; 0: it has none yet.
    connection: Cell<u64>,
    /// Exchanges with upstreams so far.
    upstreams: Cell<u32>,
}

/// The rejection of a request by a limit.
pub(super) struct Refused {
    pub(super) failure: Failure,
    /// Whether no further request of this connection should be awaited.
    pub(super) ends_connection: bool,
}

impl Client {
    /// A client at this address, with its state in the request rate limit.
    pub(super) fn new(address: IpAddr, layer: Layer, pace: Option<Pace>) -> Client {
        Client {
            address,
            layer,
            tls: None,
            is_admin: false,
            requests: 0,
            more: match pace {
                None => OnceCell::new(),
                pace => OnceCell::from(Box::new(More {
                    pace,
                    ..More::default()
                })),
            },
        }
    }

    /// The client, for another protocol on the same connection.
    pub(super) fn take(&mut self) -> Client {
        Client {
            more: self.more.take().map_or_else(OnceCell::new, OnceCell::from),
            ..*self
        }
    }

    /// The address at the other end of the connection.
    #[inline]
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// The address of the client that a request is from: the one that a trusted peer names, or that of the peer.
    #[inline]
    pub(super) fn sender(&self, cx: &Cx, asked: Asked<'_, '_, '_>) -> IpAddr {
        match asked {
            Asked::Request(head) => cx.state.trusted.client(self.address, head),
            Asked::Input(_) => self.address,
        }
    }

    /// Whether the client that a request is from used https: to this server, or to a trusted peer.
    #[inline]
    pub(super) fn used_https(&self, cx: &Cx, asked: Asked<'_, '_, '_>) -> bool {
        match asked {
            Asked::Request(head) => {
                let trusted = &cx.state.trusted;
                trusted.used_https(self.address, self.is_secured(), head)
            }
            Asked::Input(_) => self.is_secured(),
        }
    }

    /// What conditions of rules read of a request. The scheme is known only if a rule has a condition; limits find it out.
    #[inline]
    pub(super) fn facts<'a, 'b, 's>(&self, cx: &Cx, head: &'a RequestHead<'b, 's>) -> Facts<'a, 'b, 's> {
        Facts {
            head,
            is_secured: !cx.state.conditional.is_empty() && self.used_https(cx, Asked::Request(head)),
        }
    }

    /// The number of an exchange with an upstream that begins: none of the connection has the same.
    pub(super) fn next_upstream(&self) -> u32 {
        let upstreams = &self.more.get_or_init(Box::default).upstreams;
        upstreams.replace(upstreams.get().saturating_add(1))
    }

    /// Exchanges with upstreams so far.
    pub(super) fn upstreams(&self) -> u32 {
        self.more.get().map_or(0, |more| more.upstreams.get())
    }

    /// The request of HTTP/1 that was counted last.
    #[inline]
    pub(super) fn current(&self) -> Nth {
        Nth::Request(self.requests)
    }

    /// The request of HTTP/1 that is counted next.
    pub(super) fn next(&self) -> Nth {
        Nth::Request(self.requests.saturating_add(1))
    }

    /// The id of a request: the one that a trusted peer sent, or one of this server. `None`: requests have no ids.
    #[inline]
    pub(super) fn request_id(&self, cx: &Cx, asked: Asked<'_, '_, '_>, nth: Nth) -> Option<RequestId> {
        let field = cx.state.config.request_id.name()?;
        Some(self.identify(cx, asked, nth, field))
    }

    #[inline(never)]
    fn identify(&self, cx: &Cx, asked: Asked<'_, '_, '_>, nth: Nth, field: &Arc<str>) -> RequestId {
        if let Asked::Request(head) = asked
            && self.is_trusted(&cx.state.trusted)
            && let Some(id) = RequestId::received(field, head)
        {
            return id;
        }
        cx.hub.ids.make(field, self.number(cx), nth)
    }

    /// The number of the connection, which no other has.
    fn number(&self, cx: &Cx) -> u64 {
        let connection = &self.more.get_or_init(Box::default).connection;
        if connection.get() == 0 {
            connection.set(cx.hub.ids.connection());
        }
        connection.get()
    }

    /// The part of a request in its trace. `None`: requests are not traced.
    #[inline]
    pub(super) fn trace(&self, cx: &Cx, asked: Asked<'_, '_, '_>, nth: Nth) -> Option<Arc<Trace>> {
        let tracing = cx.state.tracing.as_ref()?;
        Some(self.part(cx, asked, nth, tracing))
    }

    #[inline(never)]
    fn part(&self, cx: &Cx, asked: Asked<'_, '_, '_>, nth: Nth, tracing: &Tracing) -> Arc<Trace> {
        let is_believed = match tracing.parents {
            Parents::All => true,
            Parents::Trusted => self.is_trusted(&cx.state.trusted),
            Parents::None => false,
        };
        let head = match asked {
            Asked::Request(head) if is_believed => Some(head),
            _ => None,
        };
        let place = (self.number(cx), nth);
        Arc::new(tracing.trace(&cx.hub.ids, place, head, self.used_https(cx, asked)))
    }

    /// Who a request is from, for an upstream.
    pub(super) fn from(&self, cx: &Cx, head: &RequestHead<'_, '_>, nth: Nth) -> From {
        let from = From {
            id: self.request_id(cx, Asked::Request(head), nth),
            trace: self.trace(cx, Asked::Request(head), nth),
            ..cx.state.trusted.from(self.address, self.is_secured(), head)
        };
        match cx.state.gates.is_empty() {
            true => from,
            false => From {
                guarded: cx
                    .state
                    .gates
                    .guarded(cx.state.hosts.index_of(head.authority()), self.facts(cx, head)),
                ..from
            },
        }
    }

    /// Whether its requests may be those of others.
    #[inline]
    pub(super) fn is_trusted(&self, trusted: &Trusted) -> bool {
        trusted.includes(self.address)
    }

    #[inline]
    pub(super) fn is_secured(&self) -> bool {
        self.layer == Layer::Agreed
    }

    /// The version of TLS, if the connection is encrypted.
    #[inline]
    pub(super) fn tls(&self) -> Option<TlsVersion> {
        self.tls
    }

    /// At an admin address.
    pub(super) fn at_admin(self, is_admin: bool) -> Client {
        Client { is_admin, ..self }
    }

    #[inline]
    pub(super) fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// How a request comes.
    #[inline]
    pub(super) fn way(&self, cx: &Cx, asked: Asked<'_, '_, '_>) -> Way {
        Way {
            is_secured: self.used_https(cx, asked),
            tls: self.tls,
            is_admin: self.is_admin,
        }
    }

    #[inline]
    pub(super) fn layer(&self) -> Layer {
        self.layer
    }

    /// Whether its requests are answered otherwise than those of most clients: their rate is limited, or they came to an
    /// admin address.
    #[inline]
    pub(super) fn is_special(&self) -> bool {
        self.is_admin || self.pace().is_some()
    }

    #[inline]
    fn pace(&self) -> Option<&Pace> {
        self.more.get()?.pace.as_ref()
    }

    /// Its name, as the access log shows it.
    #[inline]
    pub(super) fn user(&self) -> Option<&[u8]> {
        self.more.get()?.identity.as_deref().map(str::as_bytes)
    }

    /// Whom its certificate names, if access rules may ask. The certificate of a trusted peer is that of a proxy: it says
    /// nothing about the clients for whom the proxy sends requests.
    #[inline]
    pub(super) fn certificate(&self, cx: &Cx) -> Option<Arc<str>> {
        // Most clients have none, so this is asked first.
        let identity = self.more.get()?.identity.as_ref()?;
        let may_ask = !cx.state.gates.is_empty() && !self.is_trusted(&cx.state.trusted);
        may_ask.then(|| Arc::clone(identity))
    }

    /// Takes over what TLS agreed on.
    pub(super) fn secured(&mut self, secured: Secured<'_>) {
        self.layer = Layer::Agreed;
        self.tls = secured.version;
        if let Some(name) = secured.identity {
            let mut more = self.more.take().unwrap_or_default();
            more.identity = Some(Arc::from(name));
            self.more = OnceCell::from(more);
        }
    }

    /// Admits a complete request, after the time that each is configured to take. Returns what it holds until it is
    /// answered. Called once for each request of every version of HTTP, unless the head cache answers it.
    ///
    /// # Errors
    /// The rejection: for lack of memory, or because this client asks too often.
    #[inline]
    pub(super) fn limit(&self, cx: &Cx, asked: Asked<'_, '_, '_>, now: Instant) -> Result<Seats, Refused> {
        let micros = cx.state.config.behavior.request_micros;
        runtime::lock_calls::spend_for(Duration::from_micros(micros.into()));
        let counts = || match asked {
            Asked::Request(head) => cx.state.handlers.is_rate_limited(head),
            Asked::Input(_) => true,
        };
        if cx.is_out_of_memory() && counts() {
            cx.counters.out_of_memory().add(1);
            // An open connection would request again.
            return Err(Refused {
                failure: Failure::BEHIND,
                ends_connection: true,
            });
        }
        if let Some(rate) = cx.state.rate
            && counts()
        {
            let is_within = match self.is_trusted(&cx.state.trusted) {
                true => {
                    let sender = self.sender(cx, asked);
                    cx.hub.paces.of(unit(sender), now).admits(rate, now)
                }
                false => self.pace().is_none_or(|pace| pace.admits(rate, now)),
            };
            if !is_within {
                cx.counters.too_many().add(1);
                return Err(Refused {
                    failure: Failure::TOO_MANY,
                    ends_connection: false,
                });
            }
        }
        match asked {
            Asked::Request(head) if !cx.state.request_limits.is_empty() && !self.is_admin && counts() => {
                self.limit_path(cx, head, now)
            }
            _ => Ok(Seats::default()),
        }
    }

    /// Applies the limits for the path of a request.
    #[cold]
    fn limit_path(&self, cx: &Cx, head: &RequestHead<'_, '_>, now: Instant) -> Result<Seats, Refused> {
        let site = cx.state.hosts.index_of(head.authority());
        let sender = self.sender(cx, Asked::Request(head));
        let facts = Facts {
            head,
            is_secured: self.used_https(cx, Asked::Request(head)),
        };
        let admitted = cx.state.request_limits.admit(site, facts, sender, now);
        admitted.map_err(|exceeded| {
            cx.counters.too_many().add(1);
            Refused {
                failure: Failure::too_many(exceeded.retry_after),
                ends_connection: false,
            }
        })
    }
}
