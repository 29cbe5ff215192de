//! What a recording (`replay`) excludes: all that describes files, other answers, or other fields than those recorded.

use super::{Config, ConfigError};

impl Config {
    /// Refuses keys that would have no effect beside a recording, or change what was recorded.
    pub(super) fn validate_replay(&self) -> Result<(), ConfigError> {
        if self.replay.is_none() {
            return match self.replay_delays {
                false => Ok(()),
                true => Err(ConfigError::invalid(
                    "replay-delays",
                    "needs the recording whose times are replayed; set `replay`, too",
                )),
            };
        }
        let other = Config::default();
        let files = "the recording answers in place of files";
        let fields = "responses have the recorded fields";
        let idle = [
            ("root", self.root.is_some(), files),
            ("versions", self.versions.is_some(), files),
            ("mount", !self.mount.is_empty(), files),
            ("listing", self.listing != other.listing, files),
            ("early-hints", self.early_hints != other.early_hints, files),
            ("types", self.types != other.types, files),
            ("spa-fallback", self.spa_fallback.is_some(), files),
            ("error-pages", !self.error_pages.is_empty(), files),
            ("try-files", !self.try_files.is_empty(), files),
            ("tilde", self.tilde.is_some(), files),
            ("header", !self.header.is_empty(), fields),
            ("header-rule", !self.header_rule.is_empty(), fields),
            (
                "security-headers",
                self.security_headers != other.security_headers,
                fields,
            ),
            ("cors", !self.cors.is_empty(), fields),
            (
                "redirect",
                !self.redirect.is_empty(),
                "the recording has the redirects",
            ),
            ("respond", !self.respond.is_empty(), files),
            (
                "proxy",
                !self.proxy.is_empty(),
                "the recording answers in place of upstreams",
            ),
            (
                "uploads",
                !self.uploads.is_empty(),
                "the recording answers in place of files",
            ),
            (
                "host",
                !self.host.is_empty(),
                "the recording chooses by the host of the request itself; list certificates in `tls-cert`",
            ),
            ("http09", self.http09, "such requests name no host"),
        ];
        match idle.iter().find(|(_, is_set, _)| *is_set) {
            Some((key, _, why)) => Err(ConfigError::invalid(
                "replay",
                format!("cannot be combined with `{key}`: {why}; remove one of the two"),
            )),
            None => Ok(()),
        }
    }
}
