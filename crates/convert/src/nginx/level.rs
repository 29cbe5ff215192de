//! What `http`, a `server` and a `location` say, each over the level around it: root, index, headers, pages, access,
//! settings of the proxy. Knows no paths.

use super::access::Access;
use super::limits::Limits;
use super::upstream::Settings;
use super::{log, scripts, trusted};
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::{Server, Site};
use crate::report::At;
use crate::value::{NO_PAGE, bytes, field, is_page, quote, removable, seconds};

/// A level.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    pub(super) site: Site,
    pub(super) access: Access,
    pub(super) proxy: Settings,
    pub(super) limits: Limits,
    /// The `server` block; `None` outside of one.
    pub(super) server: Option<At>,
    /// The path of the location whose `alias` holds, and the folder.
    pub(super) alias: Option<(String, String)>,
    /// Parameters of requests to applications of FastCGI.
    pub(super) params: Vec<(String, String)>,
    /// Whether `index` names a script of PHP. The index of `site` has no scripts.
    pub(super) is_index_script: bool,
    certificate: Option<String>,
}

impl Level {
    /// The level inside this one, before it says anything: it inherits all but field lines and parameters that it replaces.
    pub(super) fn inside(&self, block: &[Directive]) -> Level {
        let mut level = self.clone();
        if block.iter().any(|directive| directive.name == "add_header") {
            level.site.header.retain(|line| is_lifetime(line));
            level.site.header_always.clear();
        }
        if block.iter().any(|directive| directive.name == "proxy_set_header") {
            level.proxy.clear_fields();
        }
        if scripts::has_params(block) {
            level.params.clear();
        }
        if block.iter().any(|directive| directive.name == "access_log") {
            level.site.log = None;
        }
        level.limits = self.limits.inside();
        level
    }

    /// Reads a directive. `None`: it is none of a level.
    pub(super) fn read(&mut self, directive: &Directive) -> Option<Fate> {
        let is_zone = matches!(directive.name.as_str(), "limit_req_zone" | "limit_conn_zone");
        if is_zone && self.server.is_some() {
            return Some(Fate::missing(
                "nginx accepts it in `http` only, and rejects this configuration",
            ));
        }
        let read = self.access.read(directive).or_else(|| self.proxy.read(directive));
        if let Some(fate) = read.or_else(|| self.limits.read(directive)) {
            return Some(fate);
        }
        let arg = directive.arg(0);
        let site = &mut self.site;
        Some(match directive.name.as_str() {
            "root" => match root(arg) {
                Ok(path) => {
                    site.root = Some(path);
                    is_relative(arg)
                }
                Err(why) => Fate::missing(why),
            },
            "index" => {
                let (names, others): (Vec<&String>, Vec<&String>) = directive
                    .args
                    .iter()
                    .partition(|name| !name.contains(['/', '$']) && !name.ends_with(".php"));
                site.index = names.into_iter().cloned().collect();
                self.is_index_script = is_index_script(directive);
                match others.as_slice() {
                    [] => Fate::Carried,
                    others => Fate::changed(format!(
                        "without {}",
                        others
                            .iter()
                            .map(|name| name.as_str())
                            .collect::<Vec<_>>()
                            .join(", ")
                    )),
                }
            }
            "autoindex" => {
                site.listing = Some(arg == "on");
                Fate::Carried
            }
            "gzip" | "brotli" | "zstd" => {
                site.compress = Some(arg == "on" || site.compress == Some(true) && directive.name != "gzip");
                Fate::Carried
            }
            "gzip_static" | "brotli_static" | "zstd_static" => {
                site.precompressed =
                    Some(arg != "off" || site.precompressed == Some(true) && directive.name != "gzip_static");
                Fate::Carried
            }
            "gunzip" => Fate::unneeded("Weir keeps the uncompressed file and compresses it itself"),
            "charset" if matches!(arg.to_ascii_lowercase().as_str(), "utf-8" | "utf8") => {
                Fate::unneeded("Weir sends `charset=utf-8` with text types")
            }
            "charset" => Fate::missing(
                "Weir sends `charset=utf-8` with text types; `[types]` sets others by extension",
            ),
            "default_type" if arg.contains('/') && arg != "application/octet-stream" => {
                site.media_type("", arg);
                Fate::changed(
                    "for names without an extension; those of unknown extensions are `application/octet-stream`",
                )
            }
            "default_type" => Fate::unneeded(
                "files of unknown extensions are `application/octet-stream`; `[types]` sets the type of an extension",
            ),
            "types" => types(directive, site),
            "error_page" => error_page(directive, site),
            "proxy_hide_header" | "fastcgi_hide_header" => match removable(arg) {
                Ok(()) => {
                    site.remove_field("*", &[], arg);
                    Fate::Carried
                }
                Err(why) => Fate::missing(why),
            },
            "add_header" => match header(directive) {
                Ok(line) if directive.arg(2) == "always" => {
                    site.header_always.push(line);
                    Fate::Carried
                }
                Ok(line) => {
                    site.header.push(line);
                    Fate::Carried
                }
                Err(fate) => fate,
            },
            "expires" => match expires(directive) {
                Ok(Some(line)) => {
                    site.header.push(line);
                    Fate::Carried
                }
                Ok(None) => Fate::unneeded("without `Cache-Control`, nothing is sent"),
                Err(why) => Fate::missing(why),
            },
            "disable_symlinks" => match arg {
                "off" => Fate::unneeded("Weir follows links that stay in the root"),
                _ => Fate::open(
                    "the result follows links that stay in the root; `symlinks = false` rejects all of them",
                ),
            },
            "ssl_certificate" if arg.contains('$') || arg.starts_with("data:") => {
                Fate::missing("Weir reads certificates from files")
            }
            "ssl_certificate" => {
                self.certificate = Some(arg.to_owned());
                Fate::Carried
            }
            "ssl_certificate_key" => match self.certificate.take() {
                Some(certificate) if !arg.contains(['$', ':']) => {
                    site.certificates.push((certificate, arg.to_owned()));
                    Fate::Carried
                }
                Some(_) => Fate::missing("Weir reads keys from files"),
                None => Fate::missing("its `ssl_certificate` is not in the line before it"),
            },
            "ssl_protocols"
                if directive
                    .args
                    .iter()
                    .any(|arg| matches!(arg.as_str(), "TLSv1" | "TLSv1.1" | "SSLv3")) =>
            {
                Fate::changed("Weir speaks TLS 1.2 and 1.3 only")
            }
            "ssl_protocols" => {
                Fate::unneeded("Weir speaks TLS 1.2 and 1.3; `crypto = \"modern\"` leaves only 1.3")
            }
            _ => return None,
        })
    }
}

/// Whether an `index` names a script of PHP.
pub(super) fn is_index_script(directive: &Directive) -> bool {
    directive.args.iter().any(|name| name.ends_with(".php"))
}

/// The document root of an argument.
///
/// # Errors
/// Why there is none.
pub(super) fn root(text: &str) -> Result<String, String> {
    match text.contains('$') {
        true => Err("Weir has no variables: a root is a fixed folder".to_owned()),
        false => Ok(match text.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        }),
    }
}

/// The fate of a root: a relative one is below another folder in Weir.
pub(super) fn is_relative(path: &str) -> Fate {
    match path.starts_with('/') {
        true => Fate::Carried,
        false => Fate::changed("nginx reads the path from its prefix, Weir from the folder of its file"),
    }
}

fn types(block: &Directive, site: &mut Site) -> Fate {
    for line in block.inner() {
        for extension in &line.args {
            site.media_type(extension, &line.name);
        }
    }
    Fate::Carried
}

/// Reads `error_page STATUS... [=STATUS] PAGE`.
fn error_page(directive: &Directive, site: &mut Site) -> Fate {
    let Some((page, statuses)) = directive.args.split_last() else {
        return Fate::missing("a page is missing");
    };
    let answer = statuses.iter().find_map(|arg| arg.strip_prefix('='));
    let statuses: Vec<&str> = statuses
        .iter()
        .map(String::as_str)
        .filter(|arg| !arg.starts_with('='))
        .collect();
    if !is_page(page) {
        return Fate::missing(NO_PAGE);
    }
    match answer {
        Some("200") if statuses == ["404"] => {
            site.spa = Some(page.clone());
            return Fate::changed(
                "Weir sends the page with 200 only to browsers that navigate, and not for names with a dot",
            );
        }
        Some(_) => return Fate::missing("Weir keeps the status of an error"),
        None => {}
    }
    let mut others = Vec::new();
    for status in &statuses {
        match status.parse::<u16>() {
            Ok(400..=599) => site.error_page(status, page),
            _ => others.push(*status),
        }
    }
    match others.is_empty() {
        true => Fate::Carried,
        false => Fate::missing(format!("{} is no status of an error", others.join(", "))),
    }
}

/// The field line of `add_header`.
///
/// # Errors
/// The fate of a directive that becomes none.
pub(super) fn header(directive: &Directive) -> Result<String, Fate> {
    let (name, value) = (directive.arg(0), directive.arg(1));
    if value.contains('$') {
        return Err(Fate::missing("Weir has no variables: the value is a fixed text"));
    }
    field(name, value).map_err(|why| match name.to_ascii_lowercase().as_str() {
        "vary" | "etag" => Fate::unneeded(why),
        _ => Fate::missing(why),
    })
}

/// The line of `expires`; `Ok(None)` for `off`.
///
/// # Errors
/// Why there is none.
pub(super) fn expires(directive: &Directive) -> Result<Option<String>, String> {
    match directive.args.as_slice() {
        [time] => match time.as_str() {
            "off" => Ok(None),
            "epoch" => Ok(Some("Cache-Control: no-cache".to_owned())),
            "max" => Ok(Some("Cache-Control: max-age=315360000".to_owned())),
            time if time.starts_with('-') => Ok(Some("Cache-Control: no-cache".to_owned())),
            time => match seconds(time.trim_start_matches('+')) {
                Some(span) => Ok(Some(format!("Cache-Control: max-age={span}"))),
                None => Err(
                    "Weir has no variables and no times of day: the lifetime is a number of seconds"
                        .to_owned(),
                ),
            },
        },
        _ => Err("Weir knows no lifetime from the modification time".to_owned()),
    }
}

/// Whether a field line is one of `expires`, as far as its text shows. These stay where `add_header` replaces all others.
pub(super) fn is_lifetime(line: &str) -> bool {
    line.strip_prefix("Cache-Control: ").is_some_and(|value| {
        let seconds = value.strip_prefix("max-age=");
        value == "no-cache" || seconds.is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Reads a directive that Weir has for the whole server, and nginx for each block. `None`: it is none. `site`: the block.
pub(super) fn global(directive: &Directive, site: Option<&At>, server: &mut Server) -> Option<Fate> {
    let arg = directive.arg(0);
    let mut share = |key: &str, value: String| {
        server.share(site, directive, key, value);
        Fate::Carried
    };
    let mut time = |key: &str| match seconds(arg) {
        Some(0) => Fate::missing(format!("`{key}` of Weir is at least 100 ms")),
        Some(span) => share(key, quote(&format!("{span}s"))),
        None => Fate::missing("this is not a time"),
    };
    Some(match directive.name.as_str() {
        "keepalive_timeout" => time("idle-timeout"),
        "client_header_timeout" => time("header-timeout"),
        "client_body_timeout" => time("body-timeout"),
        "send_timeout" => time("write-timeout"),
        "keepalive_requests" => match arg.parse::<u32>() {
            Ok(number) => share("max-requests-per-connection", number.to_string()),
            Err(_) => Fate::missing("this is not a number"),
        },
        "large_client_header_buffers" => match bytes(directive.arg(1)) {
            Some(size) => {
                let size = size
                    .saturating_mul(arg.parse().unwrap_or(4))
                    .clamp(16 << 10, 1 << 20);
                share("max-head-size", size.to_string());
                Fate::changed("Weir bounds the whole head of a request")
            }
            None => Fate::missing("this is not a size"),
        },
        "http2" if arg == "off" => share("http2", "\"off\"".to_owned()),
        "http2" => Fate::unneeded("Weir speaks HTTP/2 over TLS"),
        "http3" => share("http3", (arg == "on").to_string()),
        "log_format" => log::format(directive, server),
        _ => return trusted::read(directive, site, server),
    })
}

/// Whether a directive is one that Weir has for the whole server.
pub(super) fn is_global(name: &str) -> bool {
    matches!(
        name,
        "keepalive_timeout"
            | "client_header_timeout"
            | "client_body_timeout"
            | "send_timeout"
            | "keepalive_requests"
            | "set_real_ip_from"
            | "real_ip_header"
            | "real_ip_recursive"
    )
}
