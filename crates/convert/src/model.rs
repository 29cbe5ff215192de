//! The configuration of Weir as the converters build it. `write` turns it into TOML.

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    /// Keys of the top level that belong to no site: key and TOML value.
    pub(crate) keys: Vec<(String, String)>,
    /// Addresses in cleartext.
    pub(crate) listen: Vec<String>,
    /// Addresses with TLS.
    pub(crate) secure: Vec<String>,
    /// Whether clients that name no known host in the handshake are rejected.
    pub(crate) rejects_unknown: bool,
    /// File of the authorities of client certificates, and whether certificates are optional.
    pub(crate) client_ca: Option<(String, bool)>,
    /// The site of unknown hosts.
    pub(crate) top: Site,
    /// Sites of named hosts.
    pub(crate) hosts: Vec<Site>,
}

impl Server {
    /// Sets a key of the top level; the first value stays.
    pub(crate) fn key(&mut self, key: &str, value: impl Into<String>) {
        if !self.has(key) {
            self.keys.push((key.to_owned(), value.into()));
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| known == key)
    }
}

/// What a site says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) names: Vec<String>,
    pub(crate) root: Option<String>,
    /// Files with certificates and their keys.
    pub(crate) certificates: Vec<(String, String)>,
    pub(crate) index: Vec<String>,
    pub(crate) listing: Option<bool>,
    pub(crate) compress: Option<bool>,
    pub(crate) precompressed: Option<bool>,
    pub(crate) spa: Option<String>,
    pub(crate) error_pages: Vec<(String, String)>,
    pub(crate) types: Vec<(String, String)>,
    pub(crate) header: Vec<String>,
    pub(crate) header_rules: Vec<HeaderRule>,
    pub(crate) tried: Vec<Tried>,
    pub(crate) access: Vec<Access>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) proxies: Vec<Proxy>,
}

impl Site {
    /// Sets the page of a status; the last one stays.
    pub(crate) fn error_page(&mut self, status: &str, page: &str) {
        self.error_pages.retain(|(known, _)| known != status);
        self.error_pages.push((status.to_owned(), page.to_owned()));
    }

    /// Sets the type of an extension; the last one stays.
    pub(crate) fn media_type(&mut self, extension: &str, value: &str) {
        let extension = extension.trim_start_matches('.').to_ascii_lowercase();
        self.types.retain(|(known, _)| *known != extension);
        self.types.push((extension, value.to_owned()));
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderRule {
    pub(crate) path: String,
    pub(crate) header: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) path: String,
    pub(crate) files: Vec<String>,
    /// `remove` or `add`.
    pub(crate) slash: Option<&'static str>,
}

/// Who may request a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) path: String,
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) htpasswd: Option<String>,
    pub(crate) realm: Option<String>,
    pub(crate) any: bool,
}

impl Access {
    /// Nobody may request the path.
    pub(crate) fn nobody(path: &str) -> Access {
        Access {
            path: path.to_owned(),
            deny: vec!["all".to_owned()],
            ..Access::default()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) status: u16,
}

/// Requests that upstreams answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) path: String,
    pub(crate) upstreams: Vec<String>,
    pub(crate) weights: Vec<u32>,
    pub(crate) strip: bool,
    /// Further keys and their TOML values.
    pub(crate) keys: Vec<(String, String)>,
    /// Keys and TOML values of active checks.
    pub(crate) check: Vec<(String, String)>,
}
