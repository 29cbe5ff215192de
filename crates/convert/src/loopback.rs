//! Sites that only this machine reaches, because they listen on loopback addresses or Unix sockets. Weir's hosts answer at all
//! addresses alike, so an access rule takes the place of the address. Whom private addresses and other ports serve is not known: such
//! sites are reported.

use crate::fate::Fate;
use crate::model::{Server, Site};
use crate::ports::Ports;
use crate::report::{At, Report};
use crate::value::is_private;
use std::net::SocketAddr;

/// The clients of this machine.
const NETWORKS: [&str; 3] = ["127.0.0.0/8", "::1", "unix"];

/// Limits such sites to clients of this machine, if the result listens on other addresses, too.
pub(crate) fn limit(server: &mut Server, file: &str, report: &mut Report) {
    let all_are = |is_it: fn(SocketAddr) -> bool| {
        let mut addresses = server.listen.iter().chain(&server.secure);
        // Only programs of this machine reach a Unix socket.
        let all =
            addresses.all(|text| text.starts_with("unix:/") || text.parse::<SocketAddr>().is_ok_and(is_it));
        all && !server.has("domain")
    };
    let is_local = all_are(|at| at.ip().is_loopback());
    let is_all_private = all_are(|at| is_private(at.ip()));
    let ports = Ports::of(server);
    // Names that are redirected to https are sites of their own by now.
    let mut noted: Vec<Option<(At, String)>> = Vec::new();
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        if site.is_local && !is_local {
            site.admit_only(&NETWORKS);
            let why = "Weir's hosts answer at all addresses alike; an access rule admits clients of this machine only";
            note(site, file, Fate::changed(why), report);
        } else if site.is_private && !is_all_private {
            let why = "Weir's hosts answer at all addresses alike, and those of this site were private; write an access rule with the \
                       networks of its clients";
            note(site, file, Fate::open(why), report);
        } else if let Some(fate) = ports.fate(site)
            && !noted.contains(&site.at)
        {
            noted.push(site.at.clone());
            note(site, file, fate, report);
        }
    }
}

fn note(site: &Site, file: &str, fate: Fate, report: &mut Report) {
    let (at, shown) = site.place(file);
    report.add(&at, &format!("addresses of {shown}"), fate);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, FixedText};

    #[test]
    fn a_site_of_this_machine_is_not_public() {
        let limited = |listen: &[&str], access: Vec<Access>| {
            let mut server = Server {
                listen: listen.iter().map(|one| (*one).to_owned()).collect(),
                hosts: vec![Site {
                    is_local: true,
                    access,
                    ..Site::default()
                }],
                ..Server::default()
            };
            limit(&mut server, "site", &mut Report::default());
            crate::texts::apply(&mut server, &mut Report::default());
            assert!(server.top.all_access().is_empty());
            server.hosts[0].all_access()
        };
        let rule = |path: &str, allow: &[&str]| Access {
            path: path.to_owned(),
            allow: allow.iter().map(|one| (*one).to_owned()).collect(),
            ..Access::default()
        };
        let only = rule("/*", &NETWORKS);
        assert_eq!(limited(&[":80"], Vec::new()), std::slice::from_ref(&only));
        assert!(limited(&["127.0.0.1:80", "[::1]:80"], Vec::new()).is_empty());
        let found = limited(
            &[":80"],
            vec![
                rule("/a/*", &["all"]),
                rule("/b/*", &["10.0.0.0/8"]),
                rule("/c/*", &["127.0.0.1"]),
            ],
        );
        let expected = [
            rule("/a/*", &NETWORKS),
            Access::nobody("/b/*"),
            rule("/c/*", &["127.0.0.1"]),
            only,
        ];
        assert_eq!(found, expected);
        let text = FixedText::new(200, "ok", "text/plain", Vec::new()).expect("a text");
        let answered = Access {
            text: Some(text),
            ..Access::nobody("*")
        };
        assert_eq!(limited(&[":80"], vec![answered]), [rule("/*", &NETWORKS)]);
    }

    #[test]
    fn a_site_of_private_addresses_is_open_beside_public_ones() {
        for (listen, word) in [
            (&["10.0.0.1:80", ":8080"][..], Some("open")),
            (&["10.0.0.1:80", "192.0.2.1:80"], Some("open")),
            (&["10.0.0.1:80", "127.0.0.1:80"], None),
        ] {
            let mut server = Server {
                listen: listen.iter().map(|one| (*one).to_owned()).collect(),
                hosts: vec![Site {
                    is_private: true,
                    ..Site::default()
                }],
                ..Server::default()
            };
            let mut report = Report::default();
            limit(&mut server, "site", &mut report);
            let words: Vec<&str> = report.notes().iter().map(|note| note.fate.word()).collect();
            assert_eq!(words, Vec::from_iter(word), "{listen:?}");
            assert!(server.hosts[0].all_access().is_empty());
        }
    }
}
