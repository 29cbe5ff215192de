//! `listen`: addresses, and which of them have TLS.

use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Server;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// An address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listen {
    pub(super) address: SocketAddr,
    pub(super) is_secure: bool,
    pub(super) is_default: bool,
    /// Whether it is none: its server listens only on Unix sockets.
    pub(super) is_stand_in: bool,
}

impl Default for Listen {
    /// nginx's own default.
    fn default() -> Listen {
        Listen {
            address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80)),
            is_secure: false,
            is_default: false,
            is_stand_in: false,
        }
    }
}

impl Listen {
    /// For a server that listens only on Unix sockets. It counts as one in cleartext, and opens no port.
    pub(super) fn stand_in() -> Listen {
        Listen {
            is_stand_in: true,
            ..Listen::default()
        }
    }
}

/// Whether the addresses of all these servers are Unix sockets.
pub(super) fn are_all_sockets<'a>(mut servers: impl Iterator<Item = &'a Directive>) -> bool {
    servers.all(|server| {
        let listens = || server.inner().iter().filter(|one| one.name == "listen");
        // `ssl on` is TLS at all of them.
        let has_tls = server
            .inner()
            .iter()
            .any(|one| one.name == "ssl" && one.arg(0) == "on");
        !has_tls && listens().next().is_some() && listens().all(|one| is_socket(one.arg(0)))
    })
}

/// Whether an address is a Unix socket.
pub(super) fn is_socket(address: &str) -> bool {
    address.starts_with("unix:")
}

/// What becomes of a Unix socket. `is_only`: the configuration has no other addresses.
fn socket(text: &str, options: &[String], is_only: bool, server: &mut Server) -> Fate {
    let is_plain = |option: &String| matches!(option.as_str(), "default_server" | "default" | "http2");
    if !is_only {
        return Fate::missing(format!(
            "Unix sockets are carried over only if there are no other addresses; add this one by hand, as in listen = \"{text}\", \
             and name who may connect"
        ));
    }
    if !text.starts_with("unix:/") || !options.iter().all(is_plain) {
        return Fate::missing(
            "Unix sockets are carried over only with an absolute path and without options; without an address, Weir listens at \
             127.0.0.1:8080",
        );
    }
    if !server.listen.iter().any(|known| known == text) {
        server.listen.push(text.to_owned());
    }
    Fate::changed(
        "nginx lets all users of the machine connect, and Weir its own user and group: for others, set `socket-mode` in a \
         [[listener]]",
    )
}

/// Reads the arguments of `listen`. `is_only`: all addresses of the configuration are Unix sockets.
///
/// # Errors
/// The fate of an address without an IP address, or on which Weir cannot listen.
pub(super) fn read(args: &[String], is_only: bool, server: &mut Server) -> Result<(Listen, Fate), Fate> {
    let (text, options) = args
        .split_first()
        .ok_or_else(|| Fate::missing("an address is missing"))?;
    if is_socket(text) {
        return Err(socket(text, options, is_only, server));
    }
    let address = address(text)
        .ok_or_else(|| Fate::missing(format!("`{text}` is no address; Weir listens on IP addresses")))?;
    let has = |option: &str| options.iter().any(|known| known == option);
    if has("quic") {
        server.key("http3", "true");
        return Err(Fate::Carried);
    }
    server.proxy_protocol |= has("proxy_protocol");
    let known = [
        "ssl",
        "default_server",
        "default",
        "http2",
        "deferred",
        "bind",
        "reuseport",
        "proxy_protocol",
    ];
    let unneeded = [
        "backlog=",
        "ipv6only=",
        "so_keepalive=",
        "fastopen=",
        "rcvbuf=",
        "sndbuf=",
        "setfib=",
    ];
    let others: Vec<&str> = options
        .iter()
        .map(String::as_str)
        .filter(|option| !known.contains(option) && !unneeded.iter().any(|start| option.starts_with(start)))
        .collect();
    let listen = Listen {
        address,
        is_secure: has("ssl"),
        is_default: has("default_server") || has("default"),
        is_stand_in: false,
    };
    let fate = match others.is_empty() {
        true => Fate::Carried,
        false => Fate::missing(format!("{} has no meaning in Weir", others.join(", "))),
    };
    Ok((listen, fate))
}

fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
            (host, port.parse().ok()?)
        }
        _ => (text, 80),
    };
    let ip: IpAddr = match host {
        "*" => Ipv4Addr::UNSPECIFIED.into(),
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => host.trim_start_matches('[').trim_end_matches(']').parse().ok()?,
    };
    Some(SocketAddr::new(ip, port))
}

/// The addresses of the server: each once, and none that another one includes.
pub(super) fn assemble<'a>(listens: impl Iterator<Item = &'a Listen> + Clone, server: &mut Server) {
    let listens = listens.filter(|listen| !listen.is_stand_in);
    let all: Vec<SocketAddr> = listens.clone().map(|listen| listen.address).collect();
    let is_included = |address: &SocketAddr| {
        !address.ip().is_unspecified()
            && all.iter().any(|wide| {
                wide.ip().is_unspecified()
                    && wide.port() == address.port()
                    && wide.is_ipv4() == address.is_ipv4()
            })
    };
    let mut seen: Vec<SocketAddr> = Vec::new();
    for address in all.iter().filter(|address| !is_included(address)) {
        if seen.contains(address) {
            continue;
        }
        seen.push(*address);
        let is_secure = listens
            .clone()
            .any(|listen| listen.address == *address && listen.is_secure);
        match is_secure {
            true => server.secure.push(address.to_string()),
            false => server.listen.push(address.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_complete() {
        for (text, shown) in [
            ("80", Some("0.0.0.0:80")),
            ("*:8080", Some("0.0.0.0:8080")),
            ("[::]:443", Some("[::]:443")),
            ("127.0.0.1", Some("127.0.0.1:80")),
            ("localhost:3000", Some("127.0.0.1:3000")),
            ("example.org:80", None),
            ("99999", None),
        ] {
            assert_eq!(
                address(text).map(|address| address.to_string()).as_deref(),
                shown,
                "{text}"
            );
        }
    }

    #[test]
    fn an_address_that_another_includes_is_left_out() {
        let listen = |text: &str, is_secure| Listen {
            address: address(text).unwrap(),
            is_secure,
            ..Listen::default()
        };
        let mut server = Server::default();
        let all = [
            listen("80", false),
            listen("127.0.0.1:80", false),
            listen("[::]:80", false),
            listen("443", true),
            listen("80", false),
            Listen {
                address: address("8080").unwrap(),
                ..Listen::stand_in()
            },
        ];
        assemble(all.iter(), &mut server);
        assert_eq!(server.listen, ["0.0.0.0:80", "[::]:80"]);
        assert_eq!(server.secure, ["0.0.0.0:443"]);
    }
}
