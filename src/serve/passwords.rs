//! Warns of passwords that clients would send in cleartext.

use server::config::Config;

/// Warns if some address takes passwords without TLS.
pub(super) fn warn_of_cleartext(config: &Config) {
    if let Some(warning) = cleartext(config) {
        tracing::warn!("{warning}");
    }
}

/// The warning: access rules need passwords, and requests in cleartext are answered.
fn cleartext(config: &Config) -> Option<String> {
    let rule = config.access_rules().find(|rule| rule.htpasswd.is_some())?;
    if config.https_port().is_some() {
        return None;
    }
    let listeners = config.listeners();
    let address = listeners
        .iter()
        .filter(|listener| listener.tls.is_none() && !listener.is_admin)
        .find_map(|listener| listener.address.0.first())?;
    Some(format!(
        "passwords for `{}` are readable on the network: {address} has no TLS; set a certificate, or `https-redirect = true` \
         (a proxy with TLS in front of this server also protects them)",
        rule.path
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleartext_is_warned_of_where_passwords_are_needed() {
        const RULE: &str = "[[access]]\npath = '/a/*'\nhtpasswd = 'users'\n";
        const TLS: &str = "tls-cert = 'a.pem'\ntls-key = 'a.key'\n";
        for (text, warned) in [
            (RULE.to_owned(), Some("127.0.0.1:8080")),
            (format!("{TLS}{RULE}"), None),
            (
                format!("{TLS}{RULE}[[listener]]\naddress = '127.0.0.1:81'\n"),
                Some("127.0.0.1:81"),
            ),
            (
                format!(
                    "{TLS}listen = ['127.0.0.1:443']\nhttps-redirect = true\n{RULE}[[listener]]\naddress = '127.0.0.1:81'\n"
                ),
                None,
            ),
            ("[[access]]\npath = '/a/*'\ndeny = 'all'\n".to_owned(), None),
            (
                format!("[[host]]\nnames = ['a']\n{}", RULE.replace("[[", "[[host.")),
                Some("127.0.0.1:8080"),
            ),
        ] {
            let config = Config::from_toml(&text, "w.toml").expect("valid");
            let warning = cleartext(&config);
            assert_eq!(warning.is_some(), warned.is_some(), "{text}");
            if let (Some(warning), Some(address)) = (warning, warned) {
                assert!(
                    warning.contains(address) && warning.contains("`/a/*`"),
                    "{warning}"
                );
            }
        }
    }
}
