//! Values of keys about TLS: who may be a client, and how clients get from http to https.

use super::duration::parse_duration;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};

units::words! {
    /// Whether clients must show a certificate (RFC 8446 section 4.3.2).
    #[derive(Default)]
    pub enum ClientAuth {
        /// Clients are not asked, unless a file of authorities is named: then they must.
        #[default]
        Auto = "auto",
        /// Clients are not asked.
        Off = "off",
        /// Clients are asked. Those without a certificate are served too.
        Optional = "optional",
        /// Clients without a certificate are refused.
        Required = "required",
    }
}

units::words! {
    /// Which versions of TLS, key exchanges and ciphers the server agrees to. `tls::policy` says what each has.
    #[derive(Default)]
    pub enum Crypto {
        /// TLS 1.3 and 1.2, X25519MLKEM768 first.
        #[default]
        Default = "default",
        /// TLS 1.3 only.
        Modern = "modern",
        /// Without post-quantum key exchange.
        Classical = "classical",
        /// Algorithms of NIST only.
        Nist = "nist",
    }
}

/// Whether requests in cleartext are redirected to https.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpsRedirect {
    /// Only if there is a `domain`; to the port of the first address with TLS.
    #[default]
    Auto,
    /// No.
    Off,
    /// Yes, to the port of the first address with TLS.
    On,
    /// Yes, to this port.
    Port(u16),
}

impl FromStr for HttpsRedirect {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpsRedirect, String> {
        match text {
            "auto" => Ok(HttpsRedirect::Auto),
            "false" | "off" => Ok(HttpsRedirect::Off),
            "true" | "on" => Ok(HttpsRedirect::On),
            _ => match text.parse() {
                Ok(port) if port > 0 => Ok(HttpsRedirect::Port(port)),
                _ => Err(format!(
                    "`{text}` is not a port; write auto, true, false or a port, as in 443"
                )),
            },
        }
    }
}

impl<'de> Deserialize<'de> for HttpsRedirect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HttpsRedirect, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Switch(bool),
            Port(u16),
            Text(String),
        }
        let written = Written::deserialize(deserializer).map_err(|_| {
            de::Error::custom("this is not a port; write auto, true, false or a port, as in 443")
        })?;
        match written {
            Written::Switch(is_on) => is_on.to_string().parse(),
            Written::Port(port) => port.to_string().parse(),
            Written::Text(text) => text.parse(),
        }
        .map_err(de::Error::custom)
    }
}

/// Strict transport security (RFC 6797): browsers use https only, for this long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hsts {
    /// No such line.
    #[default]
    Off,
    /// `max-age` in seconds, and which further directives there are. 0 seconds end what was said before.
    On {
        /// Seconds.
        max_age: u64,
        /// Whether subdomains are meant too.
        subdomains: bool,
        /// Whether the site may be in the lists that browsers are shipped with.
        preload: bool,
    },
}

impl Hsts {
    /// The directives of the field value (RFC 6797 section 6.1); `None` if it is off.
    pub fn value(self) -> Option<String> {
        let Hsts::On {
            max_age,
            subdomains,
            preload,
        } = self
        else {
            return None;
        };
        let mut value = format!("max-age={max_age}");
        for (is_said, directive) in [(subdomains, "; includeSubDomains"), (preload, "; preload")] {
            if is_said {
                value.push_str(directive);
            }
        }
        Some(value)
    }
}

impl FromStr for Hsts {
    type Err = String;

    fn from_str(text: &str) -> Result<Hsts, String> {
        let mut words = text.split_whitespace();
        let span = match words.next() {
            Some("off") if words.next().is_none() => return Ok(Hsts::Off),
            Some(span) => parse_duration(span),
            None => Err("there is no time span".to_owned()),
        };
        let [mut subdomains, mut preload] = [false; 2];
        for word in words {
            match word {
                "subdomains" => subdomains = true,
                "preload" => preload = true,
                _ => {
                    return Err(format!(
                        "`{word}` is not known; the words after the time span are subdomains and preload"
                    ));
                }
            }
        }
        let max_age = span
            .map_err(|why| format!("{why}; a site that works over https takes 365d"))?
            .as_secs();
        Ok(Hsts::On {
            max_age,
            subdomains,
            preload,
        })
    }
}

impl<'de> Deserialize<'de> for Hsts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hsts, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl fmt::Display for Hsts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value().unwrap_or_else(|| "off".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_transport_security_is_written_as_the_rfc_says() {
        let value = |text: &str| text.parse::<Hsts>().map(Hsts::value);
        assert_eq!(value("365d"), Ok(Some("max-age=31536000".to_owned())));
        assert_eq!(
            value("365d preload subdomains"),
            Ok(Some("max-age=31536000; includeSubDomains; preload".to_owned()))
        );
        assert_eq!(value("0"), Ok(Some("max-age=0".to_owned())));
        assert_eq!(value("off"), Ok(None));
        for wrong in ["", "off preload", "soon", "365d includeSubDomains"] {
            assert!(value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_redirect_is_a_switch_or_a_port() {
        assert_eq!("true".parse(), Ok(HttpsRedirect::On));
        assert_eq!("false".parse(), Ok(HttpsRedirect::Off));
        assert_eq!("auto".parse(), Ok(HttpsRedirect::Auto));
        assert_eq!("8443".parse(), Ok(HttpsRedirect::Port(8443)));
        for wrong in ["0", "65536", "https", ""] {
            assert!(wrong.parse::<HttpsRedirect>().is_err(), "{wrong}");
        }
    }
}
