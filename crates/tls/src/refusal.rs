//! Failed handshakes in words: what is wrong, and what the user of a client can do about it. How the client's settings are
//! called, only the caller knows ([`Settings`]).

use crate::engine::Fault;
use crate::trust::Rejected;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// What the settings of a client are called in advice.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The file of roots.
    pub ca: &'static str,
    /// Accepts any certificate; `None`: no setting does.
    pub insecure: Option<&'static str>,
    /// What to do if the server requires a certificate of the client.
    pub certificate: &'static str,
    /// What to do about a certificate for another name.
    pub name: &'static str,
    /// An address without TLS, as in "use …".
    pub clear: &'static str,
    /// What to do if the versions of TLS differ.
    pub versions: &'static str,
    /// What to do if the server speaks none of the offered protocols.
    pub protocols: &'static str,
}

/// The flags of this program's own clients.
pub const FLAGS: Settings = Settings {
    ca: "--ca",
    insecure: Some("--insecure"),
    certificate: "name one with --cert and --key",
    name: "use a name of the certificate, or install one for this name",
    clear: "an http URL",
    versions: "change --tls-versions",
    protocols: "choose another --mode",
};

/// The reason in one line: `<what happened>: <cause>; <what to do>`, for a client whose settings have these names.
pub fn text_with(fault: &Fault, name: &ServerName<'_>, settings: &Settings) -> String {
    let name = name.to_str();
    let clear = settings.clear;
    let cause = match fault {
        Fault::PlainHttp => {
            format!("the server speaks plain HTTP on this port; use {clear}, or the port of its TLS listener")
        }
        Fault::Tls(Error::InvalidCertificate(error)) => return certificate(error, &name, settings),
        Fault::Tls(Error::AlertReceived(alert)) => alerted(*alert, &name, settings),
        Fault::Tls(Error::PeerIncompatible(why)) => incompatible(why, settings),
        Fault::Tls(Error::NoApplicationProtocol) => no_protocol(settings),
        Fault::Tls(Error::InvalidMessage(why)) => {
            format!("the server's bytes are not TLS ({why:?}); use {clear} if the port speaks plain HTTP")
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
        (AlertDescription::UnknownCA, Some(_)) => certificate(&CertificateError::UnknownIssuer, name, &FLAGS),
        (AlertDescription::CertificateExpired, Some(_)) => {
            certificate(&CertificateError::Expired, name, &FLAGS)
        }
        (_, Some(reason)) if reason.contains("not valid for name") => {
            certificate(&CertificateError::NotValidForName, name, &FLAGS)
        }
        (_, Some(reason)) if reason.contains("invalid peer certificate: ") => of_reason(reason, name),
        (_, Some(reason)) => format!("TLS failed: {reason}"),
        (alert, None) => format!("TLS failed: {}", alerted(alert, name, &FLAGS)),
    }
}

/// The same for a rejected certificate of which only the library's words are left: `quinn-proto` passes on no errors.
fn of_reason(reason: &str, name: &str) -> String {
    let why = reason
        .rsplit("invalid peer certificate: ")
        .next()
        .unwrap_or(reason);
    // Text has no issuer and no dates: what is left of it is which of the errors it was.
    let is = |error: &CertificateError| why.contains(&format!("{error:?}"));
    let known = [
        CertificateError::UnknownIssuer,
        CertificateError::Expired,
        CertificateError::NotValidYet,
        CertificateError::BadSignature,
        CertificateError::Revoked,
    ];
    let (cause, advice) = match known.iter().find(|error| is(error)) {
        Some(error) => return certificate(error, name, &FLAGS),
        None if why.contains("CaUsedAsEndEntity") => CA_AS_SERVER,
        None => return unacceptable(why),
    };
    rejected("", cause, advice, &FLAGS)
}

/// What is wrong with a CA certificate that a server has as its own, and what to do.
const CA_AS_SERVER: (&str, &str) = (
    "is a CA certificate, used as the server's own",
    "issue a server certificate with it",
);

/// A certificate that is refused for a reason without a sentence of its own.
fn unacceptable(why: &str) -> String {
    rejected(
        "",
        &format!("is not acceptable ({why})"),
        "replace it on the server",
        &FLAGS,
    )
}

fn rejected(about: &str, cause: &str, advice: &str, settings: &Settings) -> String {
    let skip = settings
        .insecure
        .map(|insecure| format!(", or skip this check with {insecure}"));
    format!(
        "TLS failed: the server's certificate{about} {cause}; {advice}{}",
        skip.unwrap_or_default()
    )
}

/// The reason for a connection that the server closed before the handshake was complete.
pub fn closed() -> &'static str {
    "TLS failed: the server closed the connection during the handshake; check that the port speaks TLS, and the server's log"
}

fn certificate(error: &CertificateError, name: &str, settings: &Settings) -> String {
    let rejected = match error {
        CertificateError::Other(other) => other.0.downcast_ref::<Rejected>(),
        _ => None,
    };
    let (error, about) = match rejected {
        Some(rejected) => (&rejected.why, format!(" ({})", rejected.about)),
        None => (error, String::new()),
    };
    let (ca, for_name) = (settings.ca, settings.name.to_owned());
    let (cause, advice) = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            "has expired".to_owned(),
            "renew it on the server, or check this machine's clock".to_owned(),
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            "is not valid yet".to_owned(),
            "check the clocks of both machines".to_owned(),
        ),
        CertificateError::NotValidForName => (format!("is not for `{name}`"), for_name),
        CertificateError::NotValidForNameContext { presented, .. } => (
            match presented.as_slice() {
                [] => format!("has no names, so it is not for `{name}`"),
                names => format!("is not for `{name}` but for {}", names.join(", ")),
            },
            for_name,
        ),
        CertificateError::UnknownIssuer => (
            "has an unknown issuer".to_owned(),
            format!(
                "name the issuer's certificate with {ca}, or have the server send its intermediate certificates"
            ),
        ),
        CertificateError::BadSignature => (
            "has a bad signature".to_owned(),
            format!("check {ca}: another issuer may have the same name"),
        ),
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            (CA_AS_SERVER.0.to_owned(), CA_AS_SERVER.1.to_owned())
        }
        CertificateError::Revoked => ("is revoked".to_owned(), "replace it on the server".to_owned()),
        other => (
            format!("is not acceptable ({other:?})"),
            "replace it on the server".to_owned(),
        ),
    };
    self::rejected(&about, &cause, &advice, settings)
}

fn alerted(alert: AlertDescription, name: &str, settings: &Settings) -> String {
    match alert {
        AlertDescription::UnrecognisedName => {
            format!("the server has no certificate for `{name}`; check the host name")
        }
        AlertDescription::ProtocolVersion => {
            let advice = settings.versions;
            format!("the server accepts none of the offered TLS versions; {advice}")
        }
        AlertDescription::NoApplicationProtocol => no_protocol(settings),
        AlertDescription::CertificateRequired => {
            let advice = settings.certificate;
            format!("the server requires a client certificate; {advice}")
        }
        AlertDescription::HandshakeFailure => format!(
            "the server rejected the handshake (alert handshake_failure): it may lack a certificate for `{name}` or a common \
             cipher suite; see its log"
        ),
        other => format!("the server rejected the handshake (alert {other:?}); see its log"),
    }
}

fn incompatible(why: &PeerIncompatible, settings: &Settings) -> String {
    match why {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => {
            let advice = settings.versions;
            format!("the server offers none of the enabled TLS versions; {advice}")
        }
        other => format!("the server has no TLS settings in common with this program ({other:?})"),
    }
}

fn no_protocol(settings: &Settings) -> String {
    let advice = settings.protocols;
    format!("the server speaks none of the HTTP versions offered (ALPN); {advice}")
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
        for (words, cause) in [
            ("Other(OtherError(CaUsedAsEndEntity))", "is a CA certificate"),
            ("NotValidYet", "is not valid yet"),
            ("BadEncoding", "is not acceptable (BadEncoding)"),
        ] {
            let said = of_alert(42, Some(&format!("invalid peer certificate: {words}")), "a.test");
            assert!(said.contains(cause) && said.ends_with("--insecure"), "{said}");
        }
        let theirs = of_alert(120, None, "a.test");
        assert!(theirs.contains("ALPN"), "{theirs}");
    }

    #[test]
    fn every_reason_says_what_to_do() {
        let name = ServerName::try_from("a.test").expect("a name");
        let of = |error| text_with(&Fault::Tls(Error::InvalidCertificate(error)), &name, &FLAGS);
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
        assert!(text_with(&Fault::PlainHttp, &name, &FLAGS).contains("http URL"));
        let strict = Settings {
            ca: "--otlp-ca",
            insecure: None,
            ..FLAGS
        };
        let unknown = Fault::Tls(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        let said = text_with(&unknown, &name, &strict);
        assert!(said.contains("--otlp-ca") && !said.contains("skip"), "{said}");
        let required = Fault::Tls(Error::AlertReceived(AlertDescription::CertificateRequired));
        let said = text_with(&required, &name, &FLAGS);
        assert!(
            said.ends_with("certificate; name one with --cert and --key"),
            "{said}"
        );
    }
}
