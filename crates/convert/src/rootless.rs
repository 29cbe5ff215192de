//! Sites that name no root. A host of Weir inherits the root of the top level, which is the folder of another site and may be
//! behind a password there. So such a host gets an empty folder: paths without a rule get 404. Decides which sites get it.

use crate::fate::Fate;
use crate::model::{Server, Site};
use crate::pattern::{covers, covers_all};
use crate::report::{At, Report};
use crate::value::is_site_path;

/// Name of the empty folder, beside the result.
pub(crate) const FOLDER: &str = "weir-empty";

/// Gives roots to sites that name none. `usual`: the folder for configurations that name no root at all. `has_files`: whether
/// every site serves files, as in nginx and Apache, where the server has a folder of its own. Returns whether the result needs
/// the empty folder.
pub(crate) fn fill(
    server: &mut Server,
    usual: Option<&str>,
    has_files: bool,
    file: &str,
    report: &mut Report,
) -> bool {
    let at = |site: &Site| {
        let nowhere = At {
            file: file.into(),
            line: 0,
        };
        site.at
            .clone()
            .unwrap_or((nowhere, "the site of unknown hosts".to_owned()))
    };
    let is_named = server.hosts.iter().any(|site| site.root.is_some());
    let is_named = is_named || server.top.root.is_some();
    if let Some(usual) = usual {
        let serves = |site: &&mut Site| site.root.is_none() && (has_files || site.has_file_server);
        if let Some(top) = Some(&mut server.top).filter(serves) {
            top.root = Some(usual.to_owned());
        }
        for host in server.hosts.iter_mut().filter(serves).filter(|_| !is_named) {
            host.root = Some(usual.to_owned());
        }
    }
    let top = &server.top;
    let others = server
        .hosts
        .iter()
        .any(|host| host.root.is_some() || !answers_all(host));
    let is_open = top.root.is_none() && !answers_all(top);
    if top.root.is_none() && (others || (is_open && !has_files && !top.has_file_server)) {
        server.top.root = Some(FOLDER.to_owned());
    }
    let top = server.top.root.clone();
    let mut is_used = top.as_deref() == Some(FOLDER);
    if is_open {
        let why = match is_used {
            true => EMPTY,
            false => "no root is named for unknown hosts; set `root`, or Weir serves a site of its own",
        };
        let (at, shown) = at(&server.top);
        report.add(&at, &shown, Fate::missing(why));
    }
    if is_used {
        lose_pages(&mut server.top, &at, report);
    }
    for host in server.hosts.iter_mut().filter(|host| host.root.is_none()) {
        if top.is_some() && top.as_deref() != Some(FOLDER) && !redirects_all(host) {
            host.root = Some(FOLDER.to_owned());
            is_used = true;
        }
        if !answers_all(host) {
            let (at, shown) = at(host);
            report.add(&at, &shown, Fate::changed(EMPTY));
        }
        lose_pages(host, &at, report);
    }
    is_used
}

/// Why a site has the empty folder.
const EMPTY: &str = "it names no root, so paths without a rule get 404 (`weir-empty` is an empty folder); set `root` if it has files";

/// Takes away the pages that are files of the root, and reports them: an empty folder has none.
fn lose_pages(site: &mut Site, at: &dyn Fn(&Site) -> (At, String), report: &mut Report) {
    let mounts = &site.mounts;
    let is_lost = |page: &String| !mounts.iter().any(|mount| page.starts_with(&*mount.path));
    let mut lost: Vec<String> = site.spa.iter().filter(|page| is_lost(page)).cloned().collect();
    let pages = site.error_pages.iter().map(|(_, page)| page);
    lost.extend(pages.filter(|page| is_lost(page) && is_site_path(page)).cloned());
    lost.dedup();
    if site.spa.as_ref().is_some_and(|page| lost.contains(page)) {
        site.spa = None;
    }
    site.error_pages.retain(|(_, page)| !lost.contains(page));
    for page in lost {
        let (at, _) = at(site);
        let why = "the site names no root, so it has no such page";
        report.add(&at, &format!("page {page}"), Fate::missing(why));
    }
}

/// Whether a rule of the site redirects every request but those that texts answer, so that files are never sent.
pub(crate) fn redirects_all(site: &Site) -> bool {
    let has_text = |path: &String| {
        let mut texts = site.access.iter().filter(|rule| rule.text.is_some());
        (path == "/" && !site.starts.is_empty()) || texts.any(|rule| covers(&rule.path, path))
    };
    let rules = site.redirects.iter();
    rules
        .filter(|rule| rule.conditions.is_empty() && rule.except.iter().all(has_text))
        .any(|rule| covers_all(&rule.from))
}

/// Whether the rules of the site answer every request, so that no path is left to files.
fn answers_all(site: &Site) -> bool {
    let refuses_all = site
        .access
        .iter()
        .any(|rule| covers_all(&rule.path) && rule.conditions.is_empty() && rule.is_for_nobody());
    let redirected = |path: &String| {
        let rules = site.redirects.iter().filter(|rule| rule.conditions.is_empty());
        rules
            .clone()
            .any(|rule| covers(&rule.from, path) && rule.except.is_empty())
            || site.mounts.iter().any(|mount| path.starts_with(&*mount.path))
    };
    let passes_all = site.proxies.iter().any(|rule| {
        let is_behind_files = |(key, _): &(String, String)| matches!(&**key, "when" | "if");
        covers_all(&rule.path)
            && !rule.is_fastcgi
            && !rule.keys.iter().any(is_behind_files)
            && rule.except.iter().all(redirected)
    });
    refuses_all || passes_all || redirects_all(site)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::model::{Proxy, Redirect};

    fn proxy(path: &str, keys: &[(&str, &str)], except: &[&str]) -> Site {
        let keys = keys
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Site {
            proxies: vec![Proxy {
                path: path.to_owned(),
                except: except.iter().map(|path| (*path).to_owned()).collect(),
                keys: keys.collect(),
                ..Proxy::default()
            }],
            ..Site::default()
        }
    }

    fn redirect(from: &str, conditions: &[&str]) -> Site {
        Site {
            redirects: vec![Redirect {
                from: from.to_owned(),
                conditions: conditions.iter().map(|one| (*one).to_owned()).collect(),
                to: "https://a.test*".to_owned(),
                status: 301,
                ..Redirect::default()
            }],
            ..Site::default()
        }
    }

    #[test]
    fn files_are_left_where_no_rule_answers() {
        let fastcgi = Site {
            proxies: vec![crate::fastcgi::rule(&["http://127.0.0.1:9000".to_owned()])],
            ..Site::default()
        };
        let both = Site {
            redirects: redirect("/old", &[]).redirects,
            ..proxy("/*", &[], &["/old"])
        };
        let refused = Site {
            access: vec![Access::nobody("*")],
            ..Site::default()
        };
        for (site, expected) in [
            (proxy("/*", &[], &[]), true),
            (proxy("/v2/*", &[], &[]), false),
            (proxy("/*", &[], &["/old"]), false),
            (proxy("/*", &[("when", "\"missing\"")], &[]), false),
            (proxy("/*", &[("if", "[\"scheme http\"]")], &[]), false),
            (both, true),
            (fastcgi, false),
            (redirect("*", &[]), true),
            (redirect("/a/*", &[]), false),
            (redirect("*", &["scheme http"]), false),
            (refused, true),
            (Site::default(), false),
        ] {
            assert_eq!(answers_all(&site), expected, "{site:?}");
        }
    }

    /// The roots of the top level and of a host after [`fill`], and whether the empty folder is needed.
    fn filled(top: Site, host: Site, usual: Option<&str>, has_files: bool) -> (String, String, bool) {
        let mut server = Server {
            top,
            hosts: vec![host],
            ..Server::default()
        };
        let is_used = fill(&mut server, usual, has_files, "site", &mut Report::default());
        let text = |root: &Option<String>| root.clone().unwrap_or_default();
        (text(&server.top.root), text(&server.hosts[0].root), is_used)
    }

    #[test]
    fn no_host_has_the_root_of_another() {
        let rooted = |root: &str| Site {
            root: Some(root.to_owned()),
            ..Site::default()
        };
        let (all, part) = (|| proxy("/*", &[], &[]), || proxy("/v2/*", &[], &[]));
        let served = || Site {
            has_file_server: true,
            ..Site::default()
        };
        for (top, host, usual, has_files, expected) in [
            (rooted("/a"), part(), None, true, ("/a", FOLDER, true)),
            // It would be public with the first rule that is removed.
            (rooted("/a"), all(), None, true, ("/a", FOLDER, true)),
            (rooted("/a"), part(), Some("/usual"), true, ("/a", FOLDER, true)),
            (rooted("/a"), redirect("*", &[]), None, true, ("/a", "", false)),
            (rooted("/a"), rooted("/b"), None, true, ("/a", "/b", false)),
            // The host inherits the empty folder.
            (Site::default(), part(), None, true, (FOLDER, "", true)),
            (all(), part(), None, true, (FOLDER, "", true)),
            (all(), rooted("/b"), None, true, (FOLDER, "/b", true)),
            (all(), all(), None, true, ("", "", false)),
            // The folder of the server itself.
            (
                Site::default(),
                part(),
                Some("/usual"),
                true,
                ("/usual", "/usual", false),
            ),
            (served(), part(), Some("/usual"), false, ("/usual", FOLDER, true)),
            (part(), part(), Some("/usual"), false, (FOLDER, "", true)),
        ] {
            let shown = format!("{top:?}\n{host:?}\n{usual:?} {has_files}");
            let (root, own, is_used) = filled(top, host, usual, has_files);
            assert_eq!((&*root, &*own, is_used), expected, "{shown}");
        }
    }

    #[test]
    fn an_empty_folder_has_no_pages() {
        let pages = |site: &mut Site| {
            site.error_page("404", "/missing.html");
            site.error_page("502", "/static/502.html");
            site.spa = Some("/index.html".to_owned());
        };
        let mut host = proxy("/v2/*", &[], &[]);
        pages(&mut host);
        assert!(host.mount("/static/*", "/srv/static", true).is_ok());
        let mut server = Server {
            top: Site {
                root: Some("/a".to_owned()),
                ..Site::default()
            },
            hosts: vec![host],
            ..Server::default()
        };
        let mut report = Report::default();
        assert!(fill(&mut server, None, true, "site", &mut report));
        let host = &server.hosts[0];
        assert_eq!(host.spa, None);
        assert_eq!(
            host.error_pages,
            [("502".to_owned(), "/static/502.html".to_owned())]
        );
        assert_eq!(report.count("missing"), 2);
        assert_eq!(report.count("changed"), 1);
    }
}
