//! Certificates of clients. Weir asks for them at all addresses with TLS or at none, and never in cleartext. Decides which
//! authorities the result names, and closes a site whose clients would get in without the certificate that it needs.

use crate::condition::Sets;
use crate::fate::Fate;
use crate::model::{Certificate, Server, Site};
use crate::report::{At, Report};

/// Names the authorities in the result, and closes the sites that they do not protect.
pub(crate) fn apply(server: &mut Server, file: &str, report: &mut Report) {
    let sites = || core::iter::once(&server.top).chain(&server.hosts);
    let wanted =
        |how: Certificate| sites().find(move |site| site.certificate == how && site.authorities.is_some());
    let chosen = wanted(Certificate::Needed).or_else(|| wanted(Certificate::Optional));
    let authorities = chosen.and_then(|site| site.authorities.clone());
    let is_needed = sites().any(|site| site.certificate == Certificate::Needed);
    server.client_ca = authorities.clone().map(|authorities| (authorities, !is_needed));
    let is_asked = !server.secure.is_empty() && server.client_ca.is_some();
    let redirects = server
        .keys
        .iter()
        .any(|(key, value)| key == "https-redirect" && value == "true");
    let answers_clear = !server.listen.is_empty() && !redirects;
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        if site.certificate != Certificate::Needed {
            continue;
        }
        let why = match (is_asked, site.authorities == authorities) {
            (true, true) if !answers_clear => continue,
            (true, true) => {
                site.refuse("*", &Sets::one("scheme http"), 403);
                "Weir's hosts answer at all addresses alike; the result denies this site in cleartext, where clients have no certificate"
            }
            (true, false) => {
                site.close(&["/*".to_owned()]);
                "Weir has one file of authorities for all hosts, and this site names another one; the result denies the site"
            }
            (false, _) => {
                site.close(&["/*".to_owned()]);
                "no address with TLS asks for certificates; the result denies the site"
            }
        };
        note(site, file, why, report);
    }
}

fn note(site: &Site, file: &str, why: &str, report: &mut Report) {
    let at = || At {
        file: file.into(),
        line: 0,
    };
    let (at, shown) = site.at.clone().unwrap_or_else(|| (at(), "the site".to_owned()));
    report.add(
        &at,
        &format!("client certificates of {shown}"),
        Fate::missing(why),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;

    fn site(certificate: Certificate, authorities: &str) -> Site {
        Site {
            certificate,
            authorities: Some(authorities.to_owned()),
            ..Site::default()
        }
    }

    fn applied(sites: &[Site], listen: &[&str], secure: &[&str]) -> Server {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        let mut server = Server {
            listen: texts(listen),
            secure: texts(secure),
            top: sites[0].clone(),
            hosts: sites[1..].to_vec(),
            ..Server::default()
        };
        apply(&mut server, "site", &mut Report::default());
        server
    }

    #[test]
    fn a_certificate_that_one_site_needs_is_optional_for_none() {
        let (needed, optional) = (Certificate::Needed, Certificate::Optional);
        let found = applied(&[site(optional, "ca"), site(needed, "ca")], &[], &[":443"]);
        assert_eq!(found.client_ca, Some(("ca".to_owned(), false)));
        assert!(found.hosts[0].all_access().is_empty());
        let found = applied(&[site(optional, "ca"), site(optional, "ca")], &[], &[":443"]);
        assert_eq!(found.client_ca, Some(("ca".to_owned(), true)));
        // Named, and not asked for.
        let found = applied(&[site(Certificate::NotAsked, "ca")], &[], &[":443"]);
        assert_eq!(found.client_ca, None);
    }

    #[test]
    fn a_site_whose_certificate_is_not_asked_for_is_closed() {
        let needed = Certificate::Needed;
        let closed = [Access::nobody("/*")];
        // Other authorities.
        let found = applied(&[site(needed, "ca"), site(needed, "other")], &[], &[":443"]);
        assert!(found.top.all_access().is_empty());
        assert_eq!(found.hosts[0].all_access(), closed);
        // No TLS, and no file of authorities.
        assert_eq!(
            applied(&[site(needed, "ca")], &[":80"], &[]).top.all_access(),
            closed
        );
        let without = Site {
            certificate: needed,
            ..Site::default()
        };
        assert_eq!(applied(&[without], &[], &[":443"]).top.all_access(), closed);
        // Another site answers in cleartext.
        let found = applied(&[Site::default(), site(needed, "ca")], &[":80"], &[":443"]);
        let refused = &found.hosts[0].all_access()[0];
        assert!(refused.is_for_nobody() && refused.conditions == ["scheme http"]);
        assert!(found.top.all_access().is_empty());
    }
}
