//! Caddy, whose HTTP/3 is that of quic-go with a server of its own, as the server of `weir fetch`.

use super::as_client::{fetch, lines, many_and_large};
use super::matrix::LARGE;
use super::relay::{Path, Relay};
use super::{Site, number};
use crate::serve::acme::free_ports;
use crate::serve::process::eventually;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

/// A server, which ends with this.
struct Caddy(Child);

impl Drop for Caddy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves the site at this address; `None`, with the reason said, without Caddy.
fn caddy(site: &Site, address: SocketAddr) -> Option<Caddy> {
    let [file, cert, key, state] = ["Caddyfile", "cert.pem", "cert.key", "caddy"].map(|name| site.path(name));
    let folder = site.folder().display().to_string();
    let text = format!(
        "{{\n admin off\n persist_config off\n auto_https disable_redirects\n skip_install_trust\n}}\n\
         https://{address} {{\n bind {}\n tls {cert} {key}\n root * {folder}\n file_server\n}}\n",
        address.ip()
    );
    std::fs::write(&file, text).expect("a file");
    let started = Command::new("caddy")
        .args(["run", "--adapter", "caddyfile", "--config", &file])
        .env("XDG_DATA_HOME", &state)
        .env("XDG_CONFIG_HOME", &state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else {
        println!("skipped: caddy is not on this machine");
        return None;
    };
    let mut caddy = Caddy(child);
    eventually("Caddy", || {
        let ended = caddy.0.try_wait().expect("our own child");
        assert_eq!(ended, None, "Caddy ended: {}", site.path("Caddyfile"));
        TcpStream::connect(address).ok()
    });
    Some(caddy)
}

/// 100 images and one of 20 MiB, all at once over one connection.
fn whole(path: Path) {
    let site = many_and_large(LARGE);
    let [port] = free_ports();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Some(_caddy) = caddy(&site, address) else {
        return;
    };
    let relay = Relay::before(address, path);
    let line = lines(&site, &fetch(&site, &relay, &[])).remove(0);
    assert_eq!(number(&line, "connections"), 1, "{line}");
    let seen = relay.seen();
    assert!(seen.down.datagrams > 10_000, "{seen:?}");
}

#[test]
fn streams_and_20_mib() {
    whole(Path::clear());
}

#[test]
fn loss() {
    whole(Path {
        loss: 0.02,
        ..Path::clear()
    });
}

#[test]
fn reordering() {
    whole(Path {
        reorder: 0.02,
        ..Path::clear()
    });
}
