//! Directives that say nothing about files, or that Weir has no form for.

use crate::fate::Fate;

/// Names, separated by spaces, and the reason for their fate.
type Table = &'static [(&'static str, &'static str)];

/// Directives whose fate does not depend on their arguments.
pub(super) fn fate(name: &str) -> Fate {
    let unneeded: Table = &[
        (
            "rewriteengine rewritebase rewriteoptions",
            "rules of Weir are always on, and begin at the root",
        ),
        ("accessfilename", "Weir reads no files in folders of the site"),
        (
            "errorlog loglevel",
            "Weir writes its messages of all levels to one log: `server-log`, or standard error",
        ),
        (
            "logformat",
            "the result has a format of Weir's; `log-template` makes others",
        ),
        (
            "serveradmin serversignature servertokens traceenable hostnamelookups usecanonicalname namevirtualhost",
            "it has no effect in Weir",
        ),
        (
            "addoutputfilterbytype deflatecompressionlevel deflatefilternote browsermatch brotlicompressionquality setoutputfilter \
             brotlifilternote",
            "Weir compresses types that shrink, and caches the result",
        ),
        (
            "fileetag contentdigest",
            "Weir's entity tags are computed from the content",
        ),
        (
            "keepalive enablesendfile enablemmap",
            "Weir keeps connections, and chooses how it sends files",
        ),
        (
            "loadmodule serverroot pidfile defaultruntimedir mutex startservers minsparethreads maxsparethreads threadlimit threadsperchild \
             maxrequestworkers maxconnectionsperchild minspareservers maxspareservers serverlimit listenbacklog",
            "Weir starts a worker for each core, under a service manager",
        ),
        (
            "indexoptions indexignore addicon addiconbytype addiconbyencoding defaulticon readmename headername adddescription indexorderdefault",
            "Weir's listings have a form of their own",
        ),
        ("directoryslash", "`/dir` redirects to `/dir/`"),
        (
            "typesconfig defaulttype",
            "Weir has a table of media types; `[types]` changes single ones",
        ),
        (
            "addlanguage languagepriority forcelanguagepriority defaultlanguage",
            "Weir does not choose among languages",
        ),
    ];
    let missing: Table = &[
        (
            "user group",
            "the unit of Weir's packages sets the user; add `user` if you start Weir as root",
        ),
        (
            "php_value php_flag php_admin_value php_admin_flag passengerroot passengerapproot wsgidaemonprocess wsgiprocessgroup wsgiapplicationgroup wsgipassauthorization wsgipythonhome \
             wsgipythonpath scriptsock",
            "Weir runs no programs; put an HTTP server before the application",
        ),
        (
            "setenv setenvif setenvifnocase passenv unsetenv define undefine",
            "Weir has no variables",
        ),
        (
            "limitrequestfields limitrequestfieldsize limitrequestline requestreadtimeout",
            "limits have keys of their own, as `max-fields`, `max-head-size` and `header-timeout`",
        ),
        (
            "rewritemap",
            "Weir has no tables of paths; write a `[[redirect]]` for each",
        ),
        (
            "cacheenable cacheroot cachedefaultexpire",
            "write `cache` in the `[[proxy]]`; the converter carries no cache of upstream responses",
        ),
    ];
    let find = |table: Table| {
        table
            .iter()
            .find(|(names, _)| names.split_whitespace().any(|known| known == name))
            .map(|(_, why)| *why)
    };
    match (find(unneeded), find(missing)) {
        (Some(why), _) => Fate::unneeded(why),
        (_, Some(why)) => Fate::missing(why),
        // Of modules such as mod_auth_openidc, mod_auth_mellon, ModSecurity.
        _ if ["auth", "oidc", "mellon", "secrule"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Fate::open("the converter does not know this directive, which limits access by its name")
        }
        _ => Fate::missing("the converter does not know this directive"),
    }
}
