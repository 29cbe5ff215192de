//! The location of the scripts of PHP, which an application of FastCGI answers: `fastcgi_pass` and its settings, as one rule of
//! a site.

use super::place::{Place, passes_to_fastcgi};
use super::plain;
use super::upstream::{self, Groups};
use crate::access::Access;
use crate::directive::Directive;
use crate::fastcgi;
use crate::fate::Fate;
use crate::model::{Proxy, Site};
use crate::pattern::{covers_all, meet};
use crate::upstream::set;
use crate::value::{is_site_path, quote, seconds};

/// The pattern of scripts.
const NAMES: &str = "*.php";

/// Reads `fastcgi_pass` of a location. `said`: what its other directives say of the rule.
pub(super) fn pass_to_fastcgi(
    directive: &Directive,
    place: &Place,
    siblings: &[Directive],
    said: Proxy,
    site: &mut Site,
    groups: &Groups,
) -> Fate {
    let passed = match place.is_php {
        true => upstream::pass(directive.arg(0), None, groups),
        false => Err(
            "Weir passes all scripts of a site to one application, in a location as `~ \\.php$`".to_owned(),
        ),
    };
    let passed = match (passed, lost_refusal(siblings)) {
        (Ok(_), Some(refusal)) => Err(format!(
            "`{}` refuses some scripts, and Weir has no pattern for it; write a rule for FastCGI with these folders in `except`",
            refusal.shown()
        )),
        (passed, _) => passed,
    };
    let passed = match passed {
        Ok(_) if site.proxies.iter().any(|rule| rule.is_fastcgi) => {
            Err("another location has the scripts of this site".to_owned())
        }
        passed => passed,
    };
    match passed {
        Ok((rule, changed)) => {
            let keys = [rule.keys, said.keys].concat();
            site.proxies.push(Proxy {
                keys,
                fastcgi: said.fastcgi,
                params: said.params,
                ..fastcgi::rule(&rule.upstreams)
            });
            let weights = rule.weights;
            if let Some(rule) = site.proxies.last_mut() {
                rule.weights = weights;
            }
            changed.map_or(Fate::Carried, Fate::Changed)
        }
        Err(why) => {
            site.access
                .extend(place.patterns.iter().map(|path| Access::nobody(path)));
            Fate::missing(format!(
                "{why}; the result denies these paths, because Weir would send the text of programs"
            ))
        }
    }
}

/// Puts the rule for scripts behind those of other upstreams, which leave them out: it is for all paths, and the first rule that covers a
/// path decides. If another one is for all paths, too, that for scripts is for their names alone.
pub(super) fn leave_upstreams(site: &mut Site) {
    let Some(at) = site.proxies.iter().position(|rule| rule.is_fastcgi) else {
        return;
    };
    let is_for_all = |rule: &Proxy| !rule.is_fastcgi && covers_all(&rule.path);
    if site.proxies.iter().any(is_for_all) {
        if site.front.is_none() {
            site.proxies[at].path = NAMES.to_owned();
        }
        return;
    }
    // nginx prefers expressions, as that of scripts, to the locations of later rules.
    for rule in site.proxies.iter_mut().skip(at + 1) {
        for path in meet(&rule.path, NAMES) {
            if path != rule.path && rule.leave_out(&path).is_err() {
                return;
            }
        }
    }
    let rule = site.proxies.remove(at);
    site.proxies.push(rule);
}

/// Reads a setting of FastCGI into a rule; `None`: the converter does not know it. `is_clear`: the server has an address without TLS.
pub(super) fn of_fastcgi(directive: &Directive, rule: &mut Proxy, is_clear: bool) -> Option<Fate> {
    let time = || seconds(directive.arg(0)).map(|span| quote(&format!("{}s", span.max(1))));
    let (name, value) = (directive.arg(0), directive.arg(1));
    Some(match directive.name.as_str() {
        "fastcgi_param" if name == fastcgi::HTTPS && value != "$https" => match fastcgi::fixed_https(value) {
            Some("on") if !is_clear => Fate::unneeded("Weir sets this parameter for requests over TLS"),
            Some(fixed) => {
                fastcgi::set_param(rule, name, fixed);
                Fate::Carried
            }
            None => Fate::missing(fastcgi::NO_FIXED_SCHEME),
        },
        "fastcgi_param" if fastcgi::is_set(name) => Fate::unneeded("Weir sets this parameter"),
        "fastcgi_param" if ["REMOTE_PORT", "SERVER_ADDR", "REMOTE_USER"].contains(&name) => {
            Fate::missing("Weir does not set this parameter")
        }
        "fastcgi_param" if fastcgi::is_param(name, value) => {
            fastcgi::set_param(rule, name, value);
            Fate::Carried
        }
        "fastcgi_param" if value.contains(['$', '{']) => {
            Fate::missing("Weir has no variables: parameters are fixed texts without `$` and `{`")
        }
        "fastcgi_param" => Fate::missing(
            "names of parameters in Weir have letters, digits and underscores, and are none of those that Weir sets",
        ),
        "fastcgi_index" if name == "index.php" => Fate::unneeded("it is the default"),
        "fastcgi_index"
            if name.ends_with(".php") && is_site_path(&format!("/{name}")) && !name.contains('/') =>
        {
            rule.fastcgi.push(("index".to_owned(), quote(name)));
            Fate::Carried
        }
        "fastcgi_split_path_info" => Fate::unneeded("Weir splits a path behind the first name of a script"),
        "fastcgi_buffers"
        | "fastcgi_buffer_size"
        | "fastcgi_busy_buffers_size"
        | "fastcgi_buffering"
        | "fastcgi_max_temp_file_size"
        | "fastcgi_temp_file_write_size"
        | "fastcgi_temp_path"
        | "fastcgi_request_buffering" => {
            Fate::unneeded("Weir passes requests and responses on as they arrive")
        }
        "fastcgi_connect_timeout" => match seconds(name) {
            Some(span @ 1..=60) => {
                set(rule, "connect-timeout", &quote(&format!("{span}s")));
                Fate::Carried
            }
            _ => Fate::missing("`connect-timeout` is from 10ms to 60s"),
        },
        "fastcgi_read_timeout" => match time() {
            Some(span) => {
                set(rule, "first-byte-timeout", &span);
                set(rule, "idle-timeout", &span);
                Fate::Carried
            }
            None => Fate::missing("this is not a time"),
        },
        "fastcgi_send_timeout" => Fate::unneeded("`idle-timeout` bounds both directions"),
        "fastcgi_keep_conn" if name == "off" => Fate::unneeded("it is the default"),
        "fastcgi_keep_conn" => {
            Fate::missing("`keepalive` keeps connections; each takes a process of php-fpm")
        }
        "fastcgi_intercept_errors" if name == "off" => Fate::unneeded("Weir passes errors on"),
        // Weir looks the script up.
        "try_files" if directive.args.last().is_some_and(|last| last == "=404") => {
            Fate::unneeded("Weir passes no path on whose script does not exist")
        }
        "set" if name == "$path_info" => Fate::unneeded("Weir sets `PATH_INFO`"),
        "if" if directive
            .args
            .concat()
            .contains("$document_root$fastcgi_script_name") =>
        {
            Fate::unneeded("Weir passes no path on whose script does not exist")
        }
        _ => return None,
    })
}

/// Whether this is the name of a directive that stands for a file of the usual parameters, which cannot be read: the text of its
/// `include`.
pub(super) fn is_lost_params(name: &str) -> bool {
    name.starts_with("include ")
}

/// Whether a block sets parameters. These replace all those of the blocks around it.
pub(super) fn has_params(block: &[Directive]) -> bool {
    block
        .iter()
        .any(|one| one.name == "fastcgi_param" || is_lost_params(&one.name))
}

/// Whether a location in this block passes requests to an application with the parameters of the block.
fn hands_on_params(block: &[Directive]) -> bool {
    let inner = block
        .iter()
        .filter(|one| matches!(one.name.as_str(), "server" | "location"));
    inner
        .filter(|one| !has_params(one.inner()))
        .any(|one| passes_to_fastcgi(one) || hands_on_params(one.inner()))
}

/// Reads `fastcgi_param` of a block around locations into the parameters that these inherit. `is_clear`: a server of the block has an
/// address without TLS.
pub(super) fn param_around(
    directive: &Directive,
    block: &[Directive],
    params: &mut Vec<(String, String)>,
    is_clear: bool,
) -> Fate {
    if !hands_on_params(block) {
        return Fate::unneeded(
            "no location inherits it: those with `fastcgi_pass` set parameters of their own",
        );
    }
    let mut rule = Proxy {
        params: std::mem::take(params),
        ..Proxy::default()
    };
    let fate = of_fastcgi(directive, &mut rule, is_clear);
    *params = rule.params;
    fate.unwrap_or_else(|| plain::unknown(&directive.name))
}

/// Whether a location of this block passes the scripts of PHP to an application.
pub(super) fn has_php(block: &[Directive]) -> bool {
    let mut locations = block.iter().filter(|one| one.name == "location");
    locations.any(|one| Place::of(one).is_php) && lost_refusal(block).is_none()
}

/// A location of this block that refuses scripts, in folders of uploads for example, and has no patterns. Without it, they would
/// run.
fn lost_refusal(block: &[Directive]) -> Option<&Directive> {
    let refuses = |one: &Directive| {
        (one.name == "deny" && one.arg(0) == "all")
            || (one.name == "return" && one.arg(0).starts_with('4'))
            || one.name == "internal"
    };
    block.iter().find(|one| {
        one.name == "location"
            && one.args.iter().any(|arg| arg.contains("php"))
            && one.inner().iter().any(refuses)
            && Place::of(one).patterns.is_empty()
    })
}
