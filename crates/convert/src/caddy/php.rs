//! `php_fastcgi`: the scripts of a site, with its front controller.

use super::matcher::Matcher;
use super::proxy::upstream;
use crate::directive::Directive;
use crate::fastcgi;
use crate::fate::Fate;
use crate::model::{Proxy, Site};
use crate::report::Report;
use crate::upstream::set;
use crate::value::{quote, seconds};

/// Reads the directive behind its matcher. `strip`: the paths of the matcher lose their prefix.
///
/// # Errors
/// Why Weir cannot do the same.
pub(super) fn read(
    directive: &Directive,
    args: &[String],
    matcher: &Matcher,
    strip: bool,
    site: &mut Site,
    report: &mut Report,
) -> Result<Fate, String> {
    let refuse = |why: String, report: &mut Report| {
        for option in directive.inner() {
            option.note_all(&Fate::missing(why.clone()), report);
        }
        Err(why)
    };
    if !matcher.is_everything() || matcher.networks.is_some() || strip {
        let why = "Weir has one application for the scripts of a site, without a matcher";
        return refuse(why.to_owned(), report);
    }
    if site.proxies.iter().any(|rule| rule.is_fastcgi) {
        return refuse(
            "another directive has the scripts of this site".to_owned(),
            report,
        );
    }
    let mut upstreams = Vec::new();
    let mut changed = None;
    for text in args {
        match upstream(text) {
            Ok((address, change)) if address.starts_with("http://") || address.starts_with("unix:") => {
                upstreams.push(address);
                changed = changed.or(change);
            }
            Ok(_) => return refuse(format!("`{text}` is no address of FastCGI"), report),
            Err(why) => return refuse(format!("`{text}`: {why}"), report),
        }
    }
    if upstreams.is_empty() {
        return refuse("no upstream is named here".to_owned(), report);
    }
    let mut rule = fastcgi::rule(&upstreams);
    let mut front = Some("/index.php".to_owned());
    for option in directive.inner() {
        let fate = of_option(option, &mut rule, &mut front);
        option.note_all(&fate, report);
    }
    site.front = front;
    site.proxies.push(rule);
    Ok(changed.map_or(Fate::Carried, Fate::Changed))
}

fn of_option(option: &Directive, rule: &mut Proxy, front: &mut Option<String>) -> Fate {
    let arg = option.arg(0);
    let mut time = |keys: &[&str], most: u64| match seconds(arg) {
        Some(span) if (1..=most).contains(&span) => {
            for key in keys {
                set(rule, key, &quote(&format!("{span}s")));
            }
            Fate::Carried
        }
        _ => Fate::missing("Weir has no such time here"),
    };
    match option.name.as_str() {
        "dial_timeout" => time(&["connect-timeout"], 60),
        "read_timeout" => time(&["first-byte-timeout", "idle-timeout"], u64::MAX),
        "write_timeout" => Fate::unneeded("`idle-timeout` bounds both directions"),
        "split" if option.args == [".php"] => Fate::unneeded("it is the default"),
        "index" if arg == "index.php" => Fate::unneeded("it is the default"),
        "index" if arg == "off" => {
            *front = None;
            Fate::changed("scripts of directories still answer")
        }
        "env" if arg == fastcgi::HTTPS => match fastcgi::fixed_https(option.arg(1)) {
            Some(fixed) => {
                fastcgi::set_param(rule, arg, fixed);
                Fate::Carried
            }
            None => Fate::missing(fastcgi::NO_FIXED_SCHEME),
        },
        "env" if fastcgi::is_param(arg, option.arg(1)) => {
            fastcgi::set_param(rule, arg, option.arg(1));
            Fate::Carried
        }
        "env" if fastcgi::is_set(arg) => Fate::unneeded("Weir sets this parameter"),
        "root" if arg.starts_with('/') && !arg.contains('{') => {
            rule.fastcgi.push(("root".to_owned(), quote(arg)));
            Fate::Carried
        }
        "capture_stderr" => Fate::unneeded("error messages go to the log of the server"),
        _ => Fate::missing("Weir has no such setting for FastCGI"),
    }
}
