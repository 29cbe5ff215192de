//! What the server shows of itself: a page for people, the same figures for programs, and whether it is
//! well and wants requests.
//!
//! Decides what is shown and to whom. Figures come from counters that workers write for themselves and
//! anybody reads without a lock that a worker would feel.

mod figures;
mod metrics;
mod page;

use crate::config::LiveFor;
use crate::handler::{Ask, Handler, Made};
use crate::hosts::without_port;
use crate::service::Server;
use bytes::Bytes;
use figures::Figures;
use http_semantics::status::Status;
use std::net::IpAddr;

/// `/.weir/`: the page, `live.json` and `metrics`.
#[derive(Debug)]
pub(crate) struct Live {
    /// Who may see it.
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
            b"metrics" => (metrics::MEDIA_TYPE, metrics::text(server)),
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

/// Whether a browser that names the server like this can only mean the machine it runs on. Any other name is for its
/// owner to resolve, to this machine as well: his pages would be let read what is shown here (DNS rebinding).
fn names_this_machine(authority: &[u8]) -> bool {
    let Ok(name) = core::str::from_utf8(without_port(authority)) else {
        return false;
    };
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    // RFC 6761 section 6.3: no resolver may look these up elsewhere.
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    is_localhost || literal.unwrap_or(&name).parse::<IpAddr>().is_ok()
}

/// `/healthz`: answered, so the server is alive. `/readyz`: whether it wants requests.
#[derive(Debug)]
pub(crate) enum Health {
    /// Alive.
    Alive,
    /// Ready, until it is told to stop, and while every root can be opened.
    Ready,
}

impl Handler for Health {
    fn answer(&self, _: &Ask<'_>, server: &Server) -> Option<Made> {
        let (status, content) = match self {
            Health::Alive => (Status::OK, "alive\n"),
            Health::Ready if server.is_ready() => (Status::OK, "ready\n"),
            Health::Ready if server.is_stopping() => (Status::SERVICE_UNAVAILABLE, "stopping\n"),
            // The log names it; whoever asks here need not know paths.
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
