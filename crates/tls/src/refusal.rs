//! Failed handshakes in words: what is wrong, and what the user of a client can do about it.

use crate::engine::Fault;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// The reason in one line: `<what happened>: <cause>; <what to do>`.
pub fn text(fault: &Fault, name: &ServerName<'_>) -> String {
    let name = name.to_str();
    let cause = match fault {
        Fault::PlainHttp => {
            "the server speaks plain HTTP on this port; use an http URL, or the port of its TLS listener"
                .to_owned()
        }
        Fault::Tls(Error::InvalidCertificate(error)) => return certificate(error, &name),
        Fault::Tls(Error::AlertReceived(alert)) => alerted(*alert, &name),
        Fault::Tls(Error::PeerIncompatible(why)) => incompatible(why),
        Fault::Tls(Error::NoApplicationProtocol) => no_protocol(),
        Fault::Tls(Error::InvalidMessage(why)) => {
            format!("the server's bytes are not TLS ({why:?}); use an http URL if the port speaks plain HTTP")
        }
        Fault::Tls(error) => error.to_string(),
    };
    format!("TLS failed: {cause}")
}

/// The reason for a handshake of QUIC, which carries alerts as error codes (RFC 9001 section 4.8): the server's, or our own
/// with the library's reason.
pub fn of_alert(alert: u8, ours: Option<&str>, name: &str) -> String {
    let alert = AlertDescription::from(alert);
    match (alert, ours) {
        (AlertDescription::UnknownCA, Some(_)) => certificate(&CertificateError::UnknownIssuer, name),
        (AlertDescription::CertificateExpired, Some(_)) => certificate(&CertificateError::Expired, name),
        (_, Some(reason)) if reason.contains("not valid for name") => {
            certificate(&CertificateError::NotValidForName, name)
        }
        (_, Some(reason)) => format!("TLS failed: {reason}"),
        (alert, None) => format!("TLS failed: {}", alerted(alert, name)),
    }
}

/// The reason for a connection that the server closed before the handshake was complete.
pub fn closed() -> &'static str {
    "TLS failed: the server closed the connection during the handshake; check that the port speaks TLS, and the server's log"
}

fn certificate(error: &CertificateError, name: &str) -> String {
    let (cause, advice) = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "has expired".to_owned(),
            "renew it on the server, or check this machine's clock",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("is not valid yet".to_owned(), "check the clocks of both machines")
        }
        CertificateError::NotValidForName => (
            format!("is not for `{name}`"),
            "use a name of the certificate, or install one for this name",
        ),
        CertificateError::NotValidForNameContext { presented, .. } => (
            match presented.as_slice() {
                [] => format!("has no names, so it is not for `{name}`"),
                names => format!("is not for `{name}` but for {}", names.join(", ")),
            },
            "use a name of the certificate, or install one for this name",
        ),
        CertificateError::UnknownIssuer => (
            "has an unknown issuer".to_owned(),
            "name the issuer's certificate with --ca, or have the server send its intermediate certificates",
        ),
        CertificateError::BadSignature => (
            "has a bad signature".to_owned(),
            "check --ca: another issuer may have the same name",
        ),
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => (
            "is a CA certificate, used as the server's own".to_owned(),
            "issue a server certificate with it",
        ),
        CertificateError::Revoked => ("is revoked".to_owned(), "replace it on the server"),
        other => (
            format!("is not acceptable ({other:?})"),
            "replace it on the server",
        ),
    };
    format!("TLS failed: the server's certificate {cause}; {advice}, or skip this check with --insecure")
}

fn alerted(alert: AlertDescription, name: &str) -> String {
    match alert {
        AlertDescription::UnrecognisedName => {
            format!("the server has no certificate for `{name}`; check the host name")
        }
        AlertDescription::ProtocolVersion => {
            "the server accepts none of the offered TLS versions; change --tls-versions".to_owned()
        }
        AlertDescription::NoApplicationProtocol => no_protocol(),
        AlertDescription::CertificateRequired => {
            "the server requires a client certificate; name one with --cert and --key".to_owned()
        }
        AlertDescription::HandshakeFailure => format!(
            "the server rejected the handshake (alert handshake_failure): it may lack a certificate for `{name}` or a common \
             cipher suite; see its log"
        ),
        other => format!("the server rejected the handshake (alert {other:?}); see its log"),
    }
}

fn incompatible(why: &PeerIncompatible) -> String {
    match why {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => {
            "the server offers none of the enabled TLS versions; change --tls-versions".to_owned()
        }
        other => format!("the server has no TLS settings in common with this program ({other:?})"),
    }
}

fn no_protocol() -> String {
    "the server speaks none of the HTTP versions offered (ALPN); choose another --mode".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_of_quic_say_the_same() {
        let by_code = of_alert(48, Some("invalid peer certificate: UnknownIssuer"), "a.test");
        assert!(
            by_code.contains("unknown issuer") && by_code.contains("--ca"),
            "{by_code}"
        );
        let by_reason = of_alert(42, Some("certificate not valid for name \"a.test\""), "a.test");
        assert!(by_reason.contains("not for `a.test`"), "{by_reason}");
        let theirs = of_alert(120, None, "a.test");
        assert!(theirs.contains("ALPN"), "{theirs}");
    }

    #[test]
    fn every_reason_says_what_to_do() {
        let name = ServerName::try_from("a.test").expect("a name");
        let of = |error| text(&Fault::Tls(Error::InvalidCertificate(error)), &name);
        for (error, cause, advice) in [
            (CertificateError::Expired, "has expired", "renew"),
            (CertificateError::UnknownIssuer, "unknown issuer", "--ca"),
            (
                CertificateError::NotValidForName,
                "not for `a.test`",
                "use a name",
            ),
        ] {
            let said = of(error);
            assert!(said.contains(cause) && said.contains(advice), "{said}");
            assert!(said.ends_with("--insecure"), "{said}");
        }
        assert!(text(&Fault::PlainHttp, &name).contains("http URL"));
    }
}
