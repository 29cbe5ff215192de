//! The live page, its figures for programs, and the health checks.
//!
//! Decides which figures are shown, and to which clients. Workers count for themselves; readers take no lock that
//! would delay a worker, except the lock of each route to upstreams while its state is copied.

mod figures;
mod metrics;
mod page;

use crate::config::{Config, LiveFor};
use crate::hosts::without_port;
use crate::service::handler::{Ask, Handler, Made};
use crate::service::{Own, Server};
use bytes::Bytes;
use figures::Figures;
use http_semantics::status::Status;
use std::net::IpAddr;
use std::sync::Arc;

/// The handlers that a server has with this configuration, by path. With admin addresses, the live page is there only.
pub(crate) fn handlers(config: &Config) -> Own {
    let health = || -> [(&'static str, Arc<dyn Handler>); 2] {
        [
            ("/healthz", Arc::new(Health::Alive)),
            ("/readyz", Arc::new(Health::Ready)),
        ]
    };
    let mut own = Own::default();
    if config.health {
        own.public.extend(health());
    }
    let shown_to = config.live;
    if config.admin.is_some() {
        let live = Arc::new(Live {
            shown_to: LiveFor::All,
        });
        own.admin.extend(health());
        own.admin.push(("/.weir/", Arc::clone(&live) as Arc<dyn Handler>));
        own.admin.push(("/", live));
    } else if shown_to != LiveFor::Nobody {
        own.public.push(("/.weir/", Arc::new(Live { shown_to })));
    }
    own
}

/// Answers below `/.weir/`: the page, `live.json` and `metrics`.
#[derive(Debug)]
pub(crate) struct Live {
    /// The clients that may read it; others get no answer from this handler.
    pub(crate) shown_to: LiveFor,
}

impl Handler for Live {
    fn answer(&self, ask: &Ask<'_>, server: &Server) -> Option<Made> {
        let may_see = match self.shown_to {
            LiveFor::Nobody => false,
            LiveFor::Local => is_local(ask.peer) && ask.authority.is_none_or(names_this_machine),
            LiveFor::All => true,
        };
        if !may_see {
            return None;
        }
        let (media_type, content) = match ask.path {
            b"" => (
                "text/html; charset=utf-8",
                page::html(&Figures::of(server, ask.wall)),
            ),
            b"live.js" => ("text/javascript; charset=utf-8", page::SCRIPT.to_owned()),
            b"live.json" => ("application/json", Figures::of(server, ask.wall).json()),
            b"metrics" => (metrics::MEDIA_TYPE, metrics::text(server, ask.wall)),
            _ => return None,
        };
        Some(Made {
            status: Status::OK,
            media_type,
            content: Bytes::from(content),
        })
    }
}

fn is_local(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

/// Whether this authority can only mean the machine that it names: an IP address, or a name under `localhost`. The owner of
/// any other name could let it resolve to this machine, and his pages could then read the figures (DNS rebinding).
fn names_this_machine(authority: &[u8]) -> bool {
    let Ok(name) = core::str::from_utf8(without_port(authority)) else {
        return false;
    };
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    // RFC 6761 section 6.3: resolvers must not send these names to DNS servers.
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    is_localhost || literal.unwrap_or(&name).parse::<IpAddr>().is_ok()
}

/// The health checks `/healthz` and `/readyz`.
#[derive(Debug)]
pub(crate) enum Health {
    /// `/healthz`: always 200.
    Alive,
    /// `/readyz`: 200, or 503 once the server is told to stop or while a root cannot be opened.
    Ready,
}

impl Handler for Health {
    fn answer(&self, _: &Ask<'_>, server: &Server) -> Option<Made> {
        let (status, content) = match self {
            Health::Alive => (Status::OK, "alive\n"),
            Health::Ready if server.is_ready() => (Status::OK, "ready\n"),
            Health::Ready if server.is_stopping() => (Status::SERVICE_UNAVAILABLE, "stopping\n"),
            // The log names the root; clients need not learn paths.
            Health::Ready => (Status::SERVICE_UNAVAILABLE, "a root cannot be reached\n"),
        };
        Some(Made {
            status,
            media_type: "text/plain; charset=utf-8",
            content: Bytes::from_static(content.as_bytes()),
        })
    }

    fn is_rate_limited(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::names_this_machine;

    #[test]
    fn only_names_that_nobody_else_resolves_are_this_machine() {
        for name in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "192.168.1.7:80",
            "localhost",
            "LocalHost.:8080",
            "weir.localhost:8080",
        ] {
            assert!(names_this_machine(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "rebind.example",
            "localhost.example:8080",
            "127.0.0.1.example",
            "notlocalhost",
        ] {
            assert!(!names_this_machine(name.as_bytes()), "{name}");
        }
    }
}
