//! Numbers on the wire by their names in RFC 8446 and its registries.

use rustls::{AlertDescription, CipherSuite, NamedGroup};

/// The name of an alert as in RFC 8446, section 6; unknown ones by number.
pub fn alert(description: u8) -> String {
    let Some(name) = AlertDescription::from(description).as_str() else {
        return format!("alert {description}");
    };
    let mut out = String::new();
    let mut before = true;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !before {
            out.push('_');
        }
        before = letter.is_ascii_uppercase();
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// The version of TLS by its number on the wire.
pub fn version(number: u16) -> String {
    match number {
        0x0304 => "TLS 1.3".to_owned(),
        0x0303 => "TLS 1.2".to_owned(),
        0x0302 => "TLS 1.1".to_owned(),
        0x0301 => "TLS 1.0".to_owned(),
        0x0300 => "SSL 3.0".to_owned(),
        other => format!("TLS {other:#06x}"),
    }
}

/// The name of a cipher suite; unknown ones by number.
pub fn suite(number: u16) -> String {
    known_suite(CipherSuite::from(number)).map_or(format!("suite {number:#06x}"), str::to_owned)
}

/// The name of a cipher suite; `None` if it is not known. The library's names of TLS 1.3 begin with the version, those of
/// RFC 8446, appendix B.4, do not.
pub fn known_suite(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
        CipherSuite::TLS13_AES_128_CCM_SHA256 => Some("TLS_AES_128_CCM_SHA256"),
        CipherSuite::TLS13_AES_128_CCM_8_SHA256 => Some("TLS_AES_128_CCM_8_SHA256"),
        other => other.as_str(),
    }
}

/// The name of a key exchange group; unknown ones by number.
pub fn group(number: u16) -> String {
    NamedGroup::from(number)
        .as_str()
        .map_or(format!("group {number:#06x}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registries() {
        assert_eq!(suite(0x1302), "TLS_AES_256_GCM_SHA384");
        assert_eq!(suite(0xc02f), "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        assert_eq!(suite(0xfafa), "suite 0xfafa");
        assert_eq!(group(0x11ec), "X25519MLKEM768");
        assert_eq!(
            [alert(0), alert(48), alert(70), alert(255)],
            ["close_notify", "unknown_ca", "protocol_version", "alert 255"]
        );
        assert_eq!([version(0x0304), version(0x7f1c)], ["TLS 1.3", "TLS 0x7f1c"]);
    }
}
