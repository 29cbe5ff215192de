//! How files are sent, and where they are: field lines, types, indexes, scripts and redirects of a level.

use super::site::{self, Folder};
use crate::access::Access;
use crate::directive::Directive;
use crate::fastcgi;
use crate::fate::Fate;
use crate::model::{HeaderRule, Mount, Proxy, Redirect, Site};
use crate::pattern::{is_target, pattern};
use crate::regex::{self, Read};
use crate::upstream::address;
use crate::value::{NO_PAGE, field, is_extension, is_media_type, is_page, is_program, is_site_path, seconds};

/// Reads a directive about field lines; `None` for any other.
pub(super) fn fields(directive: &Directive, name: &str, folder: &Folder, site: &mut Site) -> Option<Fate> {
    let put = |line: String, paths: &[String], site: &mut Site| match paths == ["/*"] {
        true => site.header.push(line),
        false => {
            for path in paths {
                match site
                    .header_rules
                    .iter_mut()
                    .find(|rule| rule.path == *path && !rule.always && rule.conditions.is_empty())
                {
                    // Two types may have one extension.
                    Some(rule) if rule.header.contains(&line) => {}
                    Some(rule) => rule.header.push(line.clone()),
                    None => site.header_rules.push(HeaderRule {
                        path: path.clone(),
                        conditions: Vec::new(),
                        header: vec![line.clone()],
                        always: false,
                    }),
                }
            }
        }
    };
    Some(match name {
        "header" => {
            let (condition, args) = match directive.args.split_first() {
                Some((first, rest))
                    if matches!(first.to_ascii_lowercase().as_str(), "always" | "onsuccess") =>
                {
                    (first.to_ascii_lowercase(), rest)
                }
                _ => (String::new(), &directive.args[..]),
            };
            match (
                args.first().map(|action| action.to_ascii_lowercase()).as_deref(),
                args.get(1),
                args.get(2),
            ) {
                (Some("set" | "append" | "add" | "merge" | "setifempty"), Some(field_name), Some(value)) => {
                    if value.contains("%{") || args.len() > 3 {
                        return Some(Fate::missing(
                            "Weir has no variables and no conditions for fields",
                        ));
                    }
                    match field(field_name, value) {
                        Ok(line) if condition == "always" => {
                            for path in &folder.patterns {
                                site.header_rules.push(HeaderRule {
                                    path: path.clone(),
                                    conditions: Vec::new(),
                                    header: vec![line.clone()],
                                    always: true,
                                });
                            }
                            Fate::Carried
                        }
                        Ok(line) => {
                            put(line, &folder.patterns, site);
                            Fate::Carried
                        }
                        Err(why) if field_name.eq_ignore_ascii_case("vary") => Fate::unneeded(why),
                        Err(why) => Fate::missing(why),
                    }
                }
                (Some("unset"), Some(field_name), _)
                    if ["etag", "x-powered-by", "server"]
                        .contains(&field_name.to_ascii_lowercase().as_str()) =>
                {
                    Fate::unneeded(
                        "Weir's own entity tags are equal on every server, and it sends neither `Server` nor `X-Powered-By`",
                    )
                }
                _ => Fate::missing("Weir sets fields, and removes none"),
            }
        }
        "expiresactive" => Fate::Carried,
        "expiresdefault" => match lifetime(&directive.args) {
            Some(span) => {
                put(format!("Cache-Control: max-age={span}"), &folder.patterns, site);
                Fate::Carried
            }
            None => Fate::missing("Weir knows no lifetime from the modification time"),
        },
        "expiresbytype" => {
            // Those that the converter knows, and those of `AddType`.
            let known = extensions(directive.arg(0)).iter().copied();
            let added = site
                .types
                .iter()
                .filter(|(_, media_type)| media_type == directive.arg(0));
            let mut paths: Vec<String> = known
                .chain(added.map(|(extension, _)| extension.as_str()))
                .map(|extension| format!("*.{extension}"))
                .collect();
            paths.sort();
            paths.dedup();
            let has_default = site
                .header
                .iter()
                .any(|line| line.starts_with("Cache-Control: max-age="));
            let lost = |why: &str| {
                let rest = "; the lifetime of `ExpiresDefault` holds for it in the result";
                Fate::missing(format!("{why}{}", if has_default { rest } else { "" }))
            };
            match (
                directive.args.get(1..).and_then(lifetime),
                paths.is_empty() || !folder.is_root(),
            ) {
                (Some(span), false) => {
                    put(format!("Cache-Control: max-age={span}"), &paths, site);
                    Fate::changed("by extension, not by type")
                }
                (None, _) => lost("Weir knows no lifetime from the modification time"),
                _ => lost("the converter knows no extensions of this type; write a `[[header-rule]]`"),
            }
        }
        _ => return None,
    })
}

/// Whether a directive only removes a field that another one of the block sets in every response.
pub(super) fn is_set_again(directive: &Directive, block: &[Directive]) -> bool {
    let words = |one: &Directive| -> Vec<String> {
        let words = one.args.iter().map(|arg| arg.to_ascii_lowercase());
        words.collect()
    };
    let said = words(directive);
    let removed = match said.iter().map(String::as_str).collect::<Vec<&str>>()[..] {
        ["unset", name] | ["onsuccess", "unset", name] => name,
        _ => return false,
    };
    block.iter().any(|one| {
        let is_always = one.name.eq_ignore_ascii_case("header") && one.args.len() == 4;
        is_always && words(one)[..3] == ["always", "set", removed]
    })
}

/// The lifetime of `"access plus 1 month"` or `A2592000`; `"access"` alone is none.
fn lifetime(args: &[String]) -> Option<u64> {
    let text = args.join(" ").to_ascii_lowercase();
    if let Some(span) = text.strip_prefix('a').and_then(|rest| rest.parse().ok()) {
        return Some(span);
    }
    let rest = text
        .strip_prefix("access")
        .or_else(|| text.strip_prefix("now"))?
        .trim();
    let rest = rest.strip_prefix("plus").unwrap_or(rest).trim();
    let mut total = 0_u64;
    let words: Vec<&str> = rest.split_whitespace().collect();
    for pair in words.chunks(2) {
        let [number, unit] = pair else { return None };
        let unit = match unit.trim_end_matches('s') {
            "second" => "s",
            "minute" => "m",
            "hour" => "h",
            "day" => "d",
            "week" => "w",
            "month" => "M",
            "year" => "y",
            _ => return None,
        };
        total = total.checked_add(seconds(&format!("{number}{unit}"))?)?;
    }
    Some(total)
}

/// Extensions of the types that sites name.
fn extensions(media_type: &str) -> &'static [&'static str] {
    match media_type {
        "text/html" => &["html", "htm"],
        "text/css" => &["css"],
        "text/javascript" | "application/javascript" | "application/x-javascript" => &["js", "mjs"],
        "image/png" => &["png"],
        "image/jpeg" | "image/jpg" => &["jpg", "jpeg"],
        "image/gif" => &["gif"],
        "image/webp" => &["webp"],
        "image/avif" => &["avif"],
        "image/svg+xml" => &["svg"],
        "image/x-icon" | "image/vnd.microsoft.icon" => &["ico"],
        "font/woff2" | "application/font-woff2" => &["woff2"],
        "font/woff" | "application/font-woff" | "application/x-font-woff" => &["woff"],
        "font/ttf" | "application/x-font-ttf" => &["ttf"],
        "application/pdf" => &["pdf"],
        "application/json" => &["json"],
        "video/mp4" => &["mp4"],
        "video/webm" => &["webm"],
        "audio/mpeg" => &["mp3"],
        _ => &[],
    }
}

/// Reads a directive about files; `None` for any other.
pub(super) fn read(directive: &Directive, name: &str, folder: &Folder, site: &mut Site) -> Option<Fate> {
    let args = &directive.args;
    let arg = directive.arg(0);
    Some(match name {
        "directoryindex" => {
            let (names, others): (Vec<&String>, Vec<&String>) = args
                .iter()
                .partition(|name| !name.contains('/') && !is_program(name));
            if !folder.is_root() {
                let index: Vec<String> = names.into_iter().cloned().collect();
                let fate = of_folder(folder, site, |mount| mount.index.clone_from(&index));
                return Some(match others.is_empty() {
                    true => fate,
                    false => fate.min(Fate::changed("without programs and paths")),
                });
            }
            if !names.is_empty() {
                site.index = names
                    .into_iter()
                    .filter(|name| *name != "disabled")
                    .cloned()
                    .collect();
            }
            match others.is_empty() {
                true => Fate::Carried,
                false => Fate::changed("without programs and paths"),
            }
        }
        "options" => {
            let has = |word: &str| {
                args.iter()
                    .any(|arg| arg.trim_start_matches('+').eq_ignore_ascii_case(word))
            };
            // A list without signs replaces the options of the folders around.
            let replaces = !args.is_empty() && !args.iter().any(|arg| arg.starts_with(['+', '-']));
            let lacks = (replaces && !has("Indexes") && !has("All"))
                || args.iter().any(|arg| arg.eq_ignore_ascii_case("-indexes"));
            let others: Vec<&str> = args
                .iter()
                .map(String::as_str)
                .filter(|arg| {
                    let known = [
                        "indexes",
                        "followsymlinks",
                        "symlinksifownermatch",
                        "none",
                        "all",
                        "multiviews",
                    ];
                    let bare = arg.trim_start_matches(['+', '-']).to_ascii_lowercase();
                    !known.contains(&bare.as_str()) && !arg.starts_with('-')
                })
                .collect();
            // Outside of sections, options are those of every folder.
            if folder.rank.0 == Access::SERVER && (has("Indexes") || lacks) {
                let is_listed = has("Indexes");
                site.mounts.iter_mut().for_each(|mount| mount.listing = is_listed);
            }
            match folder.is_root() {
                true if has("Indexes") => site.listing = Some(true),
                true if lacks => site.listing = Some(false),
                false if has("Indexes") || (lacks && site.listing == Some(true)) => {
                    let fate = of_folder(folder, site, |mount| mount.listing = has("Indexes"));
                    if fate != Fate::Carried {
                        return Some(fate);
                    }
                }
                _ => {}
            }
            if has("MultiViews") && folder.is_root() {
                site.try_files("*", &["$path".to_owned(), "$path.html".to_owned()]);
                return Some(Fate::changed(
                    "`MultiViews` became `$path.html`: Weir does not choose among languages",
                ));
            }
            match others.is_empty() {
                true => Fate::Carried,
                false => Fate::missing(format!("{} has no meaning in Weir", others.join(", "))),
            }
        }
        "errordocument" => {
            let page = directive.arg(1);
            match (arg.parse::<u16>(), is_page(page), folder.is_root()) {
                (Ok(400..=599), true, true) => {
                    site.error_page(arg, page);
                    Fate::Carried
                }
                (_, false, _) => Fate::missing(NO_PAGE),
                _ => Fate::missing("an error page of Weir is for an error, and for the whole host"),
            }
        }
        "fallbackresource" if is_site_path(arg) && !arg.ends_with(".php") && folder.is_root() => {
            site.spa = Some(arg.to_owned());
            site.try_files("*", &["$path".to_owned(), arg.to_owned()]);
            Fate::Carried
        }
        "fallbackresource"
            if folder.is_root()
                && fastcgi::front(arg) == Some(arg)
                && site.proxies.iter().any(|rule| rule.is_fastcgi) =>
        {
            site.front = Some(arg.to_owned());
            Fate::Carried
        }
        "fallbackresource" if arg == "disabled" => Fate::unneeded("there is none by default"),
        "fallbackresource" => {
            Fate::missing("the page of unknown paths is a file of the site, for the whole host")
        }
        "addtype" if arg.contains("httpd-php") || arg.contains("cgi") => {
            deny_programs(args.iter().skip(1), site)
        }
        "addtype" if !is_media_type(arg) => Fate::missing(format!("`{arg}` is no media type in Weir")),
        "addtype" => {
            let extensions = args.iter().skip(1).map(|one| one.trim_start_matches('.'));
            let (known, others): (Vec<&str>, Vec<&str>) = extensions.partition(|one| is_extension(one));
            for extension in known {
                site.media_type(extension, arg);
            }
            match others.is_empty() {
                true => Fate::Carried,
                false => Fate::missing(format!(
                    "`{}` is no extension: that is the part of a name behind a dot, without another dot",
                    others.join("`, `")
                )),
            }
        }
        "addencoding" => {
            // The only files that Weir sends with a coding which is not negotiated.
            let is_gzip = arg.eq_ignore_ascii_case("gzip") || arg.eq_ignore_ascii_case("x-gzip");
            let extensions = args.iter().skip(1).map(|one| one.trim_start_matches('.'));
            let others: Vec<&str> = extensions
                .filter(|one| !is_gzip || !one.eq_ignore_ascii_case("svgz"))
                .collect();
            match others.is_empty() {
                true => Fate::unneeded("Weir sends `.svgz` with `Content-Encoding: gzip`"),
                false => Fate::missing(format!(
                    "Weir sends `*.{}` without `Content-Encoding`, so clients cannot read them; it has siblings such as `a.js.gz` for `a.js`",
                    others.join("`, `*.")
                )),
            }
        }
        "sethandler" if folder.patterns == ["*.php"] && fcgi(arg).is_some() => {
            let rule = fcgi(arg).filter(|_| !site.proxies.iter().any(|rule| rule.is_fastcgi));
            match rule {
                Some(rule) => {
                    site.proxies.push(rule);
                    Fate::changed(
                        "Weir splits paths behind the name of a script, and runs scripts in any folder",
                    )
                }
                None => Fate::missing("another directive has the scripts of this site"),
            }
        }
        "addhandler" | "sethandler" => match name {
            "addhandler" => deny_programs(args.iter().skip(1), site),
            _ => {
                site.access
                    .extend(folder.patterns.iter().map(|path| Access::nobody(path)));
                Fate::missing(
                    "Weir runs no programs; the result denies these paths, because Weir would send their text",
                )
            }
        },
        "adddefaultcharset" if arg.eq_ignore_ascii_case("utf-8") || arg.eq_ignore_ascii_case("off") => {
            Fate::unneeded("Weir sends `charset=utf-8` with text types")
        }
        "adddefaultcharset" | "addcharset" => match args
            .iter()
            .skip(usize::from(name == "addcharset"))
            .all(|_| arg.eq_ignore_ascii_case("utf-8"))
        {
            true => Fate::unneeded("Weir sends `charset=utf-8` with text types"),
            false => Fate::missing(
                "Weir sends `charset=utf-8` with text types; `[types]` sets others by extension",
            ),
        },
        "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" => {
            redirect(directive, name, site)
        }
        "wsgiscriptalias" | "wsgiscriptaliasmatch" => {
            // Files at its path are the application's own.
            let around = match name.ends_with("match") {
                true => regex::around(arg),
                false => pattern(&format!("{}/*", arg.trim_end_matches('/')))
                    .into_iter()
                    .collect(),
            };
            let paths = if around.is_empty() {
                vec!["/*".to_owned()]
            } else {
                around
            };
            site.access.extend(paths.iter().map(|path| Access::nobody(path)));
            Fate::missing(format!(
                "Weir runs no programs; put an HTTP server before the application; the result denies `{}`",
                paths.join("`, `")
            ))
        }
        "alias" | "scriptalias" | "aliasmatch" | "scriptaliasmatch" => {
            if name.starts_with("script") {
                site.access
                    .extend(pattern(&format!("{}*", arg)).map(|path| Access::nobody(&path)));
                return Some(Fate::missing("Weir runs no programs"));
            }
            match name {
                "alias" => site::alias(directive, site),
                _ => Fate::missing("a mount of Weir is for a folder, and not for an expression"),
            }
        }
        _ => return None,
    })
}

/// Gives the mounts of a section's folders an index or a listing of their own.
fn of_folder(folder: &Folder, site: &mut Site, set: impl Fn(&mut Mount)) -> Fate {
    let Some(root) = site.root.clone() else {
        return Fate::missing("no root is named for this folder");
    };
    for path in &folder.patterns {
        let around = site.mounts.iter().filter(|mount| path.starts_with(&*mount.path));
        let around = around.max_by_key(|mount| mount.path.len());
        let listing = around.map(|mount| mount.listing).or(site.listing);
        match site.mount_of_root(path, &root) {
            Ok(mount) => {
                mount.listing = listing.unwrap_or(false);
                set(mount);
            }
            Err(why) => return Fate::missing(why),
        }
    }
    Fate::Carried
}

/// The rule for scripts at the application of a handler, as in `proxy:unix:/run/php.sock|fcgi://localhost`.
fn fcgi(handler: &str) -> Option<Proxy> {
    let target = handler.strip_prefix("proxy:")?;
    let upstream = match target.split_once('|') {
        Some((socket, far)) if socket.starts_with("unix:") && far.starts_with("fcgi://") => socket.to_owned(),
        Some(_) => return None,
        None => format!("http://{}", target.strip_prefix("fcgi://")?.trim_end_matches('/')),
    };
    let (upstream, _) = address(&upstream).ok()?;
    Some(fastcgi::rule(&[upstream]))
}

fn deny_programs<'a>(extensions: impl Iterator<Item = &'a String>, site: &mut Site) -> Fate {
    for extension in extensions {
        site.access.extend(
            pattern(&format!("*.{}", extension.trim_start_matches('.'))).map(|path| Access::nobody(&path)),
        );
    }
    Fate::missing("Weir runs no programs; the result denies these paths, because Weir would send their text")
}

fn redirect(directive: &Directive, name: &str, site: &mut Site) -> Fate {
    let (status, args) = match (name, directive.args.split_first()) {
        ("redirectpermanent", _) => ("301", &directive.args[..]),
        ("redirecttemp", _) => ("302", &directive.args[..]),
        (_, Some((first, rest)))
            if !first.starts_with(['/', '^', '('])
                && !first.contains("://")
                && (rest.len() > 1 || first.eq_ignore_ascii_case("gone") || first.parse::<u16>().is_ok()) =>
        {
            (first.as_str(), rest)
        }
        _ => ("302", &directive.args[..]),
    };
    let status = match status.to_ascii_lowercase().as_str() {
        "permanent" => 301,
        "temp" => 302,
        "seeother" => 303,
        "gone" => 410,
        other => other.parse::<u16>().unwrap_or(0),
    };
    let from = args.first().map_or("", |from| from);
    if matches!(status, 400..=599) {
        let patterns = match name {
            "redirectmatch" => regex::read(from).map(Read::patterns),
            // A rule also covers all paths below its own.
            _ => pattern(from)
                .map(|path| vec![path])
                .ok_or_else(|| format!("`{from}` is no path pattern of Weir")),
        };
        let (patterns, fate) = match (patterns, regex::around(from)) {
            (Ok(patterns), _) => (patterns, Access::fate_of_refusal(status)),
            (Err(why), around) if around.is_empty() || name != "redirectmatch" => return Fate::open(why),
            (Err(why), around) => {
                let why = format!("{why}; the result denies `{}`", around.join("`, `"));
                (around, Fate::missing(why))
            }
        };
        site.access
            .extend(patterns.iter().map(|path| Access::refusal(path, status)));
        return fate;
    }
    let Some(to) = args.get(1) else {
        return Fate::missing("a target is missing");
    };
    let mut rules = Vec::new();
    let mut differs = None;
    let (rest, except) = regex::without_ahead(from)
        .filter(|_| name == "redirectmatch")
        .unwrap_or((from.to_owned(), Vec::new()));
    match name {
        "redirectmatch" => {
            let read = match regex::read_redirect(&rest) {
                Ok(read) => read,
                Err(why) => return Fate::missing(why),
            };
            differs = read.differs;
            for one in read.matches {
                let to = match one.fill(to) {
                    Ok(to) => to,
                    Err(why) => return Fate::missing(why),
                };
                rules.push((one.pattern, to));
            }
        }
        // `Redirect` carries over what follows the path.
        _ if from == "/" => rules.push(("/*".to_owned(), format!("{}/*", to.trim_end_matches('/')))),
        _ if from.ends_with('/') => rules.push((format!("{from}*"), format!("{to}*"))),
        _ => rules.extend([
            (from.to_owned(), to.clone()),
            (format!("{from}/*"), format!("{}/*", to.trim_end_matches('/'))),
        ]),
    }
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Fate::missing("the status of a redirect is 301, 302, 303, 307 or 308");
    }
    let refused = rules
        .iter()
        .find(|(from, to)| pattern(from).is_none() || !is_target(from, to));
    if let Some((from, to)) = refused {
        return Fate::missing(format!("`{to}` is no target of a redirect for `{from}` in Weir"));
    }
    site.redirects
        .extend(rules.into_iter().map(|(from, to)| Redirect {
            from,
            to,
            status,
            except: except.clone(),
            ..Redirect::default()
        }));
    differs.map_or(Fate::Carried, Fate::changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;
    use crate::fidelity::{check_fates, converted};

    #[test]
    fn lifetimes_are_seconds() {
        for (text, span) in [
            ("access plus 1 month", Some(2_592_000)),
            ("now plus 1 day 2 hours", Some(93_600)),
            ("A60", Some(60)),
            ("access", Some(0)),
            ("access plus 0 seconds", Some(0)),
            ("modification plus 1 day", None),
            ("M60", None),
            ("access plus x", None),
        ] {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            assert_eq!(lifetime(&words), span, "{text}");
        }
    }

    #[test]
    fn types_have_the_extensions_that_the_site_adds() {
        let text = "AddType application/rss+xml rss feed\nExpiresDefault \"access plus 1 year\"\n\
                    ExpiresByType text/html \"access\"\nExpiresByType application/rss+xml \"access plus 1 hour\"\n\
                    ExpiresByType text/x-none \"access\"\nExpiresByType text/css\n";
        let found = converted(Dialect::Apache, text);
        for (extension, span) in [("html", 0), ("rss", 3600), ("feed", 3600)] {
            let rule = format!("path = \"*.{extension}\"\nheader = [\"Cache-Control: max-age={span}\"]\n");
            assert!(found.toml.contains(&rule), "{extension}: {}", found.toml);
        }
        let lost = found
            .report
            .notes()
            .iter()
            .filter(|note| note.fate.why().contains("`ExpiresDefault` holds"));
        assert_eq!(lost.map(|note| note.line).collect::<Vec<_>>(), [5, 6]);
    }

    #[test]
    fn codings_of_files_that_are_compressed_already_are_lost() {
        let text = "AddEncoding gzip svgz\nAddEncoding x-gzip .svgz .jgz\nAddEncoding br .unityweb .svgz\n";
        let found = converted(Dialect::Apache, text);
        check_fates(
            &found,
            &[
                (1, "unneeded", "`.svgz`"),
                (2, "missing", "`*.jgz` without"),
                (3, "missing", "`*.unityweb`, `*.svgz` without"),
            ],
        );
    }

    #[test]
    fn only_types_that_weir_accepts_are_in_the_table() {
        let text = "AddType application/wasm .wasm.gz .WASM\nAddType wasm .a\nAddType \"text/html; charset=utf-8\" .b\n\
                    AddType text/plain .\nAddType application/x-httpd-php .php5\n";
        let found = converted(Dialect::Apache, text);
        let table = "[types]\n\"wasm\" = \"application/wasm\"\n\"b\" = \"text/html; charset=utf-8\"\n\n";
        assert!(found.toml.contains(table), "{}", found.toml);
        assert!(found.toml.contains("path = \"*.php5\"\ndeny = [\"all\"]\n"));
        check_fates(
            &found,
            &[
                (1, "missing", "`wasm.gz` is no extension"),
                (2, "missing", "`wasm` is no media type"),
                (3, "carried", ""),
                (4, "missing", "is no extension"),
                (5, "missing", "runs no programs"),
            ],
        );
    }

    #[test]
    fn a_field_that_is_set_again_needs_no_removal() {
        let text = "Header onsuccess unset X-A\nHeader always set x-a 1\nHeader unset X-B\nHeader set X-B 1\n\
                    <If \"%{QUERY_STRING} =~ /a/\">\nHeader set X-C 1\n</If>\n<Else>\nHeader set X-C 2\n</Else>\n";
        let found = converted(Dialect::Apache, text);
        check_fates(
            &found,
            &[
                (1, "unneeded", "`Header always set`"),
                (2, "carried", ""),
                (3, "missing", "removes none"),
                (5, "missing", "only around `Header set`"),
                (8, "missing", "only around `Header set`"),
                (9, "missing", "only around `Header set`"),
            ],
        );
    }
}
