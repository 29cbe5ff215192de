//! Sites at ports of their own. Weir binds no host to an address, so such a site also answers at the ports of the others. Decides
//! what the report says about that; [`crate::loopback`] has the addresses that only some clients reach.

use crate::access::Access;
use crate::fate::Fate;
use crate::model::{Server, Site};
use crate::pattern::covers_all;
use crate::rootless::redirects_all;
use std::net::SocketAddr;

/// The ports of URLs that name none.
const USUAL: [u16; 2] = [80, 443];

/// The ports at which the result answers.
pub(crate) struct Ports {
    clear: Vec<u16>,
    secure: Vec<u16>,
    /// The usual ones at which other machines reach it.
    public: Vec<u16>,
    /// Whether it redirects all requests in cleartext to https.
    leads_to_https: bool,
}

impl Ports {
    pub(crate) fn of(server: &Server) -> Ports {
        // With certificates by ACME, a key has the addresses in cleartext.
        let named = server.keys.iter().filter(|(key, _)| key == "http-listen");
        let named = named.flat_map(|(_, list)| list.split('"'));
        let clear: Vec<&str> = server.listen.iter().map(String::as_str).chain(named).collect();
        let secure: Vec<&str> = server.secure.iter().map(String::as_str).collect();
        let ports = |texts: &[&str]| texts.iter().filter_map(|text| port(text)).collect::<Vec<u16>>();
        let is_local = |text: &str| {
            let address = text.parse::<SocketAddr>();
            address.is_ok_and(|address| address.ip().is_loopback())
        };
        let mut public = [&clear[..], &secure[..]].concat();
        public.retain(|text| !is_local(text));
        let mut public = ports(&public);
        public.retain(|port| USUAL.contains(port));
        let said = server.keys.iter().find(|(key, _)| key == "https-redirect");
        Ports {
            clear: ports(&clear),
            secure: ports(&secure),
            public,
            leads_to_https: said.map_or_else(|| server.has("domain"), |(_, value)| value == "true"),
        }
    }

    /// What the report says about a site that the result has at more ports. `None`: nothing.
    pub(crate) fn fate(&self, site: &Site) -> Option<Fate> {
        let mut own = site.ports.clone();
        own.sort_unstable();
        own.dedup();
        if own.is_empty() {
            return None;
        }
        let mut gained = self.secure.clone();
        if !self.leads_to_https && !is_closed_in_cleartext(site) {
            gained.extend(&self.clear);
        }
        // Clients of https get no certificate for a site in cleartext.
        let is_usual_pair = |port: &u16| own.contains(&80) && USUAL.contains(port);
        gained.retain(|port| !own.contains(port) && !is_usual_pair(port));
        gained.sort_unstable();
        gained.dedup();
        if gained.is_empty() {
            return None;
        }
        let shown = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let why = format!(
            "Weir's hosts answer at all addresses alike: the result also has this site at port {}, the configuration only at {}",
            shown(&gained),
            shown(&own)
        );
        let is_published = gained.iter().any(|port| self.public.contains(port));
        let is_hidden = !own.iter().any(|port| USUAL.contains(port));
        Some(match is_hidden && is_published && !answers_nobody(site) {
            true => Fate::open(format!(
                "{why}; write an access rule, or serve the site with a Weir of its own"
            )),
            false => Fate::changed(why),
        })
    }
}

/// The port of an address in Weir's spelling.
fn port(address: &str) -> Option<u16> {
    address.rsplit(':').next()?.parse().ok()
}

/// Whether the site redirects or refuses all requests in cleartext, but for paths that it names.
fn is_closed_in_cleartext(site: &Site) -> bool {
    let is_clear = |conditions: &[String]| conditions == ["scheme http"];
    let mut redirects = site.redirects.iter();
    let mut rules = site.access.iter().chain(&site.refusals);
    redirects.any(|rule| covers_all(&rule.from) && is_clear(&rule.conditions))
        || rules.any(|rule| covers_all(&rule.path) && is_clear(&rule.conditions) && rule.is_for_nobody())
}

/// Whether the site answers every request with one redirect or one refusal.
fn answers_nobody(site: &Site) -> bool {
    let refuses =
        |rule: &Access| covers_all(&rule.path) && rule.conditions.is_empty() && rule.is_for_nobody();
    redirects_all(site) || site.access.first().is_some_and(refuses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Redirect;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|one| (*one).to_owned()).collect()
    }

    #[test]
    fn a_site_at_fewer_ports_than_the_result_is_reported() {
        for (own, listen, secure, expected) in [
            (&[80][..], &[":80"][..], &[][..], None),
            (&[80], &[":80", ":8080"], &[], Some(("changed", "at port 8080, "))),
            (&[8080], &[":80", ":8080"], &[], Some(("open", "at port 80, "))),
            (
                &[8080],
                &["0.0.0.0:80", ":8080"],
                &[":443"],
                Some(("open", "at port 80, 443, ")),
            ),
            (&[8443], &[], &[":443", ":8443"], Some(("open", "at port 443, "))),
            // Nobody reaches the usual port from elsewhere.
            (
                &[8080],
                &["127.0.0.1:80", ":8080"],
                &[],
                Some(("changed", "at port 80, ")),
            ),
            (
                &[9090],
                &[":8080", "[::]:9090"],
                &[],
                Some(("changed", "at port 8080, ")),
            ),
            (&[80], &[":80"], &[":443"], None),
            (&[443], &[":80"], &[":443"], Some(("changed", "at port 80, "))),
            (
                &[443],
                &[":80"],
                &[":443", ":8443"],
                Some(("changed", "at port 80, 8443, ")),
            ),
            (&[], &[":80", ":8080"], &[], None),
        ] {
            let server = Server {
                listen: texts(listen),
                secure: texts(secure),
                ..Server::default()
            };
            let site = Site {
                ports: own.to_vec(),
                ..Site::default()
            };
            let fate = Ports::of(&server).fate(&site);
            assert_eq!(
                fate.as_ref().map(Fate::word),
                expected.map(|(word, _)| word),
                "{own:?} {fate:?}"
            );
            let part = expected.map_or("", |(_, part)| part);
            assert!(
                fate.is_none_or(|fate| fate.why().contains(part)),
                "{own:?} {part}"
            );
        }
    }

    #[test]
    fn a_site_that_redirects_cleartext_is_at_no_port_of_it() {
        let mut server = Server {
            listen: texts(&[":80", ":8080"]),
            secure: texts(&[":443"]),
            ..Server::default()
        };
        let mut site = Site {
            ports: vec![443],
            ..Site::default()
        };
        assert!(Ports::of(&server).fate(&site).is_some());
        site.access.push(Access {
            conditions: texts(&["scheme http"]),
            ..Access::nobody("*")
        });
        assert_eq!(Ports::of(&server).fate(&site), None);
        site.access.clear();
        site.redirects.push(Redirect {
            from: "*".to_owned(),
            conditions: texts(&["scheme http"]),
            ..Redirect::default()
        });
        assert_eq!(Ports::of(&server).fate(&site), None);
        site.redirects.clear();
        server.key("https-redirect", "true");
        assert_eq!(Ports::of(&server).fate(&site), None);
    }

    #[test]
    fn addresses_that_a_key_names_count() {
        let mut server = Server {
            secure: texts(&[":443"]),
            ..Server::default()
        };
        server.key("domain", "[\"a.test\"]");
        server.key("http-listen", "[\":80\", \":8080\"]");
        server.key("https-redirect", "false");
        let site = |port: u16| Site {
            ports: vec![port],
            ..Site::default()
        };
        let fate = Ports::of(&server).fate(&site(8080)).expect("a fate");
        assert!(
            fate.word() == "open" && fate.why().contains("at port 80, 443, "),
            "{fate:?}"
        );
        // Nothing but a redirect is no secret.
        let redirect = Site {
            redirects: vec![Redirect {
                from: "*".to_owned(),
                ..Redirect::default()
            }],
            ..site(8080)
        };
        let fate = Ports::of(&server).fate(&redirect).expect("a fate");
        assert_eq!(fate.word(), "changed");
    }
}
