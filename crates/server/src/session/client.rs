//! Who is at the other end of a connection, whatever protocol it speaks, and whether its requests are answered at all.

use crate::context::Cx;
use crate::exchange::{Asked, Failure, Way};
use crate::rate_limit::Pace;
use crate::request_limit::Seats;
use http_semantics::request::RequestHead;
use runtime::session::Secured;
use std::net::IpAddr;
use units::Instant;

/// The client of a connection.
#[derive(Debug)]
pub(super) struct Client {
    address: IpAddr,
    layer: Layer,
    /// Whether it came to an admin address.
    is_admin: bool,
    /// Number of its requests so far, over this connection.
    pub(super) requests: u32,
    /// `None` in most connections.
    more: Option<Box<More>>,
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
    identity: Option<String>,
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
            is_admin: false,
            requests: 0,
            more: pace.map(|pace| {
                Box::new(More {
                    pace: Some(pace),
                    identity: None,
                })
            }),
        }
    }

    /// The client, for another protocol on the same connection.
    pub(super) fn take(&mut self) -> Client {
        Client {
            more: self.more.take(),
            ..*self
        }
    }

    #[inline]
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    #[inline]
    pub(super) fn is_secured(&self) -> bool {
        self.layer == Layer::Agreed
    }

    /// At an admin address.
    pub(super) fn at_admin(self, is_admin: bool) -> Client {
        Client { is_admin, ..self }
    }

    #[inline]
    pub(super) fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// How its requests come.
    #[inline]
    pub(super) fn way(&self) -> Way {
        Way {
            is_secured: self.is_secured(),
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
        self.more.as_ref()?.pace.as_ref()
    }

    /// Its name, as the access log shows it.
    #[inline]
    pub(super) fn user(&self) -> Option<&[u8]> {
        self.more.as_ref()?.identity.as_ref().map(String::as_bytes)
    }

    /// Takes over what TLS agreed on.
    pub(super) fn secured(&mut self, secured: Secured<'_>) {
        self.layer = Layer::Agreed;
        if let Some(name) = secured.identity {
            self.more.get_or_insert_default().identity = Some(name.to_owned());
        }
    }

    /// Admits a complete request. Returns what it holds until it is answered.
    ///
    /// # Errors
    /// The rejection: for lack of memory, or because this client asks too often.
    #[inline]
    pub(super) fn limit(&self, cx: &Cx, asked: Asked<'_, '_, '_>, now: Instant) -> Result<Seats, Refused> {
        let counts = || match asked {
            Asked::Request(head) => cx.state.mounts.is_rate_limited(head),
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
        match (self.pace(), cx.state.rate) {
            (Some(pace), Some(rate)) if counts() && !pace.admits(rate, now) => {
                cx.counters.too_many().add(1);
                return Err(Refused {
                    failure: Failure::TOO_MANY,
                    ends_connection: false,
                });
            }
            _ => {}
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
        let admitted = cx.state.request_limits.admit(site, head, self.address, now);
        admitted.map_err(|exceeded| {
            cx.counters.too_many().add(1);
            Refused {
                failure: Failure::too_many(exceeded.retry_after),
                ends_connection: false,
            }
        })
    }
}
