//! What a reload takes over of a configuration: whether the cache of a site can serve on, which keys wait for the next
//! start, and how they keep their values until then.

use super::{Config, Listener};

impl Config {
    /// Whether both configurations describe the same site, so that the cache of one can serve the other.
    pub(crate) fn same_site(&self, other: &Config) -> bool {
        let parts = |c: &Config| {
            let flags = [
                c.listing,
                c.hidden,
                c.symlinks,
                c.compress,
                c.precompressed,
                c.early_hints,
            ];
            (
                flags,
                c.cache_policy,
                c.cache_size,
                c.cache_file_size,
                c.cache_files,
            )
        };
        parts(self) == parts(other)
            && (!self.lists() || self.same_listings(other))
            && (&self.root, &self.index, &self.types) == (&other.root, &other.index, &other.types)
            && (&self.header, &self.header_rule) == (&other.header, &other.header_rule)
            && self.security_headers == other.security_headers
            && self.compress_except == other.compress_except
            && (&self.mount, &self.tilde) == (&other.mount, &other.tilde)
            && self.scripts().eq(other.scripts())
            && self.behavior == other.behavior
    }

    /// Whether listings have the same theme, and the same rules keep READMEs out of them.
    fn same_listings(&self, other: &Config) -> bool {
        let theme = (
            &self.listing_stylesheet,
            &self.listing_header,
            &self.listing_footer,
        );
        let same_rules = (&self.access, &self.redirect) == (&other.access, &other.redirect)
            && (&self.respond, &self.proxy) == (&other.respond, &other.proxy);
        theme
            == (
                &other.listing_stylesheet,
                &other.listing_header,
                &other.listing_footer,
            )
            && self.listing_readme == other.listing_readme
            && (!self.listing_readme || same_rules)
    }

    /// Keys whose values differ from `running` and take effect only at the next start.
    pub fn needs_restart(&self, running: &Config) -> Vec<&'static str> {
        let differ = FIXED.iter().filter(|(_, fixed)| (fixed.differs)(self, running));
        let listeners = (!self.same_listeners(running)).then_some("listener");
        let key = match self.proxies().next() {
            Some(_) => "proxy",
            None => "uploads",
        };
        let proxies = (self.gains_proxies(running) || self.gains_upstreams(running)).then_some(key);
        let collector = self.changes_collector(running).then_some("otlp");
        differ
            .map(|(key, _)| *key)
            .chain(listeners)
            .chain(proxies)
            .chain(collector)
            .collect()
    }

    /// Keeps the values of `running` for keys that take effect only at the next start, so that the next reload compares
    /// with the values in force.
    pub fn keep_until_restart(&mut self, running: &Config) {
        for (_, fixed) in FIXED {
            (fixed.keep)(self, running);
        }
        if !self.same_listeners(running) {
            self.listener.clone_from(&running.listener);
            self.tls_cert.clone_from(&running.tls_cert);
            self.tls_key.clone_from(&running.tls_key);
            self.tls_client_ca.clone_from(&running.tls_client_ca);
            self.tls_client_auth = running.tls_client_auth;
        }
        if self.gains_proxies(running) {
            self.keep_proxies_out();
        }
        if self.gains_upstreams(running) {
            self.proxy.clear();
            for host in &mut self.host {
                host.proxy = None;
            }
        }
        if self.changes_collector(running) {
            self.keep_collector(running);
        }
    }

    /// Removes all rules for a proxy and for uploads.
    pub(crate) fn keep_proxies_out(&mut self) {
        self.proxy.clear();
        self.uploads.clear();
        for host in &mut self.host {
            host.proxy = None;
            host.uploads = None;
        }
    }

    /// Whether this is the first rule for a proxy or for uploads: a server decides at start whether it opens connections.
    fn gains_proxies(&self, running: &Config) -> bool {
        self.has_proxies() && !running.has_proxies()
    }

    /// Whether this is the first rule for a proxy, while the workers of some listener cannot keep connections to upstreams.
    fn gains_upstreams(&self, running: &Config) -> bool {
        let keeps = |listener: &Listener| listener.concurrency.unwrap_or(running.concurrency).keeps_peers();
        self.proxies().next().is_some()
            && running.proxies().next().is_none()
            && !running.listeners().iter().all(keeps)
    }
}

/// How to compare and keep a key that takes effect only at the next start.
struct Fixed {
    differs: fn(&Config, &Config) -> bool,
    keep: fn(&mut Config, &Config),
}

macro_rules! fixed {
    ($($key:literal $field:ident),* $(,)?) => {
        /// Every key that takes effect only at the next start.
        const FIXED: &[(&str, Fixed)] = &[$((
            $key,
            Fixed {
                differs: |one, other| one.$field != other.$field,
                keep: |next, running| next.$field.clone_from(&running.$field),
            },
        )),*];
    };
}

fixed!(
    "listen" listen,
    "send-buffer" send_buffer,
    "pacing" pacing,
    "line-rate" line_rate,
    "line-order" line_order,
    "profile" profile,
    "workers" workers,
    "concurrency" concurrency,
    "io" io,
    "proxy-protocol" proxy_protocol,
    "user" user,
    "landlock" landlock,
    "seccomp" seccomp,
    "adapt" adapt,
    "record" record,
    "server-log" server_log,
    "control" control,
    "control-mode" control_mode,
    "control-group" control_group,
    "admin" admin,
    "http3" http3,
    "http3-steering" http3_steering,
    "tls-key-log" tls_key_log,
    "qlog" qlog,
    "qlog-files" qlog_files,
    "qlog-size" qlog_size,
    "domain" domain,
    "tls" tls,
    "http-listen" http_listen,
    "tls-state" tls_state,
    "acme-ca" acme_ca,
    "acme-ca-root" acme_ca_root,
    "acme-email" acme_email,
    "acme-eab" acme_eab,
    "acme-profile" acme_profile,
    "acme-challenge" acme_challenge,
    "acme-hook" acme_hook,
    "acme-hook-wait" acme_hook_wait,
    "behavior" behavior,
);
