//! A table `[proxy.fastcgi]`: which paths name scripts, where the application finds them, and what else it is told.
//!
//! Decides which values are valid. `crate::proxy::scripts` finds the script of a request.

use super::values::site_path;
use crate::path::spelling;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most parameters of a rule: each request carries all of them.
const PARAMS_MAX: usize = 64;

/// Longest extension, with its dot, in bytes.
const EXTENSION_MAX: usize = 16;

/// The parameter of requests over https, which a rule may fix: behind a balancer that ends TLS, only the operator may know it.
const HTTPS: &str = "HTTPS";

/// Parameters that describe the request or the server. A rule that could set them could contradict the request, and so could one
/// with such a name in lower case, because some applications ignore case.
const OWN: [&str; 24] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

/// A table `[proxy.fastcgi]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FastCgi {
    /// The root of the site as the application sees it; `None`: as this server does.
    pub root: Option<PathBuf>,
    /// End of the names of scripts, with its dot.
    pub extension: String,
    /// Script of a directory.
    pub index: String,
    /// Path of the script for requests for which there is neither a file nor a script; `None`: they get 404.
    pub front: Option<String>,
    /// Further parameters of each request.
    pub params: BTreeMap<String, String>,
}

impl Default for FastCgi {
    fn default() -> FastCgi {
        FastCgi {
            root: None,
            extension: ".php".to_owned(),
            index: "index.php".to_owned(),
            front: None,
            params: BTreeMap::new(),
        }
    }
}

impl FastCgi {
    /// Checks values that depend on each other.
    ///
    /// # Errors
    /// A sentence that names the mistake and a valid value.
    pub(super) fn validate(&self) -> Result<(), String> {
        let FastCgi {
            root,
            extension,
            index,
            front,
            params,
        } = self;
        let is_extension = extension
            .strip_prefix('.')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric()));
        if !is_extension || extension.len() > EXTENSION_MAX {
            return Err(format!(
                "`extension` of `fastcgi` is `{}`; write a dot and up to {} letters or digits, as in .php",
                extension.escape_debug(),
                EXTENSION_MAX - 1
            ));
        }
        if let Some(root) = root.as_ref().filter(|root| !root.is_absolute()) {
            return Err(format!(
                "`root` of `fastcgi` is `{}`, and the application may run in another directory; write an absolute path",
                root.display()
            ));
        }
        let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        if !index.ends_with(&**extension) || index.starts_with('.') || !index.bytes().all(is_name) {
            return Err(format!(
                "`index` of `fastcgi` is `{}`; write the name of a file that ends in `{extension}`",
                index.escape_debug()
            ));
        }
        if let Some(front) = front {
            let is_spelled = || spelling(front.as_bytes()).as_deref() == Some(front.as_bytes());
            if site_path(front).is_err()
                || !front.ends_with(&**extension)
                || front.contains('%')
                || !is_spelled()
            {
                return Err(format!(
                    "`front` of `fastcgi` is `{}`; write the path of a script of the site that ends in `{extension}`, as in \
                     /index{extension}",
                    front.escape_debug()
                ));
            }
        }
        if params.len() > PARAMS_MAX {
            return Err(format!(
                "`params` of `fastcgi` has {} names; the maximum is {PARAMS_MAX}",
                params.len()
            ));
        }
        for (name, value) in params {
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if name.is_empty() || !name.bytes().all(is_name) {
                return Err(format!(
                    "`{}` in `params` of `fastcgi` is no name of a parameter; write letters, digits and underscores, as in APP_ENV",
                    name.escape_debug()
                ));
            }
            if name == HTTPS {
                if !matches!(&**value, "on" | "off") {
                    return Err(format!(
                        "`HTTPS` in `params` of `fastcgi` is `{}`; write \"on\" if all requests of the rule are https for clients, or \"off\"",
                        value.escape_debug()
                    ));
                }
                continue;
            }
            let capital = name.to_ascii_uppercase();
            if OWN.contains(&&*capital) || capital.starts_with("HTTP_") {
                return Err(format!(
                    "Weir sets `{name}` for each request; remove it from `params` of `fastcgi`"
                ));
            }
            if value.contains('\0') {
                return Err(format!(
                    "`{name}` in `params` of `fastcgi` contains a zero byte; remove it"
                ));
            }
        }
        Ok(())
    }

    /// Whether the application is told https for all requests, or http for all. `None`: what the request has.
    pub(crate) fn says_https(&self) -> Option<bool> {
        self.params.get(HTTPS).map(|value| value == "on")
    }

    /// The parameters of each request, but `HTTPS`.
    pub(crate) fn further_params(&self) -> impl Iterator<Item = (&String, &String)> {
        self.params.iter().filter(|(name, _)| *name != HTTPS)
    }

    /// Whether a file of this name is a script, or a copy of one (`a.php.bak`, `a.PHP~`, `a.php.gz`). Its content is the source.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        let extension = self.extension.as_bytes();
        let starts = 0..=name.len().saturating_sub(extension.len());
        starts.into_iter().any(|at| {
            let Some(part) = name.get(at..at + extension.len()) else {
                return false;
            };
            let behind = name.get(at + extension.len());
            part.eq_ignore_ascii_case(extension) && !behind.is_some_and(u8::is_ascii_alphanumeric)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_and_mistakes_named() {
        let read = |text: &str| {
            let table: FastCgi = toml::from_str(text).map_err(|error| error.to_string())?;
            table.validate().map(|()| table)
        };
        assert_eq!(read("").unwrap(), FastCgi::default());
        let all = "root = '/srv/app'\nextension = '.php8'\nindex = 'start.php8'\nfront = '/a/index.php8'\n[params]\nAPP_ENV = 'prod'\nfront_controller_active = 'true'";
        assert_eq!(read(all).unwrap().params["APP_ENV"], "prod");
        assert_eq!(read(all).unwrap().params["front_controller_active"], "true");
        for (text, https) in [
            ("", None),
            ("[params]\nHTTPS = 'on'", Some(true)),
            ("[params]\nHTTPS = 'off'", Some(false)),
        ] {
            assert_eq!(read(text).unwrap().says_https(), https, "{text}");
        }
        let many: String = (0..=PARAMS_MAX).map(|at| format!("P{at} = ''\n")).collect();
        for (text, said) in [
            ("extension = 'php'", "as in .php"),
            ("extension = '.'", "as in .php"),
            ("extension = '.p/p'", "as in .php"),
            ("extension = '.abcdefghijklmnop'", "up to 15"),
            ("root = 'public'", "absolute path"),
            ("index = 'index.html'", "ends in `.php`"),
            ("index = 'a/index.php'", "name of a file"),
            ("index = '.php'", "name of a file"),
            ("front = 'index.php'", "as in /index.php"),
            ("front = '/index.html'", "as in /index.php"),
            ("front = '/a/../index.php'", "as in /index.php"),
            ("front = '/%61.php'", "as in /index.php"),
            ("[params]\na-b = ''", "as in APP_ENV"),
            ("[params]\n'' = ''", "as in APP_ENV"),
            ("[params]\nSCRIPT_FILENAME = '/x'", "Weir sets `SCRIPT_FILENAME`"),
            ("[params]\nHTTP_PROXY = 'x'", "Weir sets `HTTP_PROXY`"),
            ("[params]\nScript_Filename = '/x'", "Weir sets `Script_Filename`"),
            ("[params]\nhttps = 'on'", "Weir sets `https`"),
            ("[params]\nHTTPS = 'yes'", "is `yes`; write \"on\""),
            ("[params]\nhttp_proxy = 'x'", "Weir sets `http_proxy`"),
            ("[params]\nA = \"\\u0000\"", "zero byte"),
            (&format!("[params]\n{many}"), "maximum is 64"),
            ("split = '.php'", "unknown field"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn scripts_and_their_copies_are_hidden() {
        let rule = FastCgi::default();
        for name in [
            "a.php",
            "a.PHP",
            ".php",
            "a.php.bak",
            "a.php~",
            "a.pHp.gz",
            "a.php.txt",
            "x.phpx.php",
        ] {
            assert!(rule.hides(name.as_bytes()), "{name}");
        }
        for name in ["a.phps", "a.ph", "php", "aphp", "a.php5", "index.html", ""] {
            assert!(!rule.hides(name.as_bytes()), "{name}");
        }
    }
}
