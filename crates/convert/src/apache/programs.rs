//! Programs of PHP that a configuration expects: the server's own configuration, or a module, runs them, and not this file. Decides
//! whether Weir would send their text, and closes their paths.

use super::rewrite;
use crate::access::Access;
use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Site;
use crate::report::Report;

/// The paths of programs.
const PATHS: &str = "*.php";

/// The first directive, of a block and those in it, that makes no sense without PHP.
pub(super) fn sign(block: &[Directive]) -> Option<&Directive> {
    block.iter().find_map(|one| match is_sign(one) {
        true => Some(one),
        false => sign(one.inner()),
    })
}

fn is_sign(directive: &Directive) -> bool {
    let names_program = |arg: &String| {
        let arg = arg.to_ascii_lowercase();
        arg.contains(".php") && !arg.contains("://")
    };
    let name = directive.name.to_ascii_lowercase();
    match name.as_str() {
        "directoryindex" | "fallbackresource" | "errordocument" | "<files" | "<filesmatch" => {
            directive.args.iter().any(names_program)
        }
        // The target: a redirect of old names says nothing about files.
        "rewriterule" => !rewrite::redirects(directive) && directive.args.get(1).is_some_and(names_program),
        name => name.starts_with("php_"),
    }
}

/// Closes the paths of programs in a site whose files clients get, unless an application gets them. Whether it had to.
pub(super) fn close(site: &mut Site) -> bool {
    let is_all = |path: &str| matches!(path, "*" | "/*");
    let is_passed = site
        .proxies
        .iter()
        .any(|rule| rule.is_fastcgi || is_all(&rule.path));
    let is_led = site
        .redirects
        .iter()
        .any(|rule| rule.conditions.is_empty() && rule.except.is_empty() && is_all(&rule.from));
    let is_closed = site
        .access
        .iter()
        .any(|rule| rule.path == PATHS && rule.is_for_nobody() && rule.conditions.is_empty());
    let is_open = !is_passed && !is_led && !is_closed;
    if is_open {
        site.access.push(Access::nobody(PATHS));
    }
    is_open
}

/// Reports what [`close`] has done, at the directive that shows that there are programs.
pub(super) fn note(sign: &Directive, report: &mut Report) {
    let why = "Weir runs no programs, and the configuration names no application for them; the result denies `*.php`, because Weir would \
               send their text; pass them to php-fpm with a `[[proxy]]`";
    report.add(&sign.at, "programs of PHP", Fate::missing(why));
}

#[cfg(test)]
mod tests {
    use crate::fidelity::converted;
    use crate::{Conversion, Dialect, Fate};

    const CLOSED: &str = "[[access]]\npath = \"*.php\"\ndeny = [\"all\"]\n";

    fn notes(found: &Conversion) -> usize {
        let of_programs = |note: &&crate::Note| note.directive == "programs of PHP";
        let notes = found.report.notes().iter().filter(of_programs);
        notes.filter(|note| matches!(note.fate, Fate::Missing(_))).count()
    }

    #[test]
    fn the_text_of_programs_is_not_published() {
        for text in [
            "RewriteEngine on\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n",
            "php_value upload_max_filesize 64M\n",
            "<IfModule mod_php.c>\nphp_flag display_errors off\n</IfModule>\n",
            "DirectoryIndex index.php index.html\n",
            "FallbackResource /index.php\n",
            "ErrorDocument 404 /error.php\n",
            "<Files wp-config.PHP>\nRequire all denied\n</Files>\n",
            "Alias /app /usr/share/app\n<Directory /usr/share/app>\nDirectoryIndex index.php\n</Directory>\n",
            // Clients that a section admits get no text either.
            "DirectoryIndex index.php\n<Files login.php>\nRequire ip 10.0.0.0/8\n</Files>\n",
        ] {
            let found = converted(Dialect::Apache, text);
            let first = found.toml.split("[[access]]").nth(1).unwrap_or_default();
            assert!(
                format!("[[access]]{first}").starts_with(CLOSED),
                "{text}: {}",
                found.toml
            );
            assert_eq!(notes(&found), 1, "{text}: {:?}", found.report);
        }
    }

    #[test]
    fn sites_without_programs_or_with_an_application_stay_open() {
        for text in [
            "Redirect /old.php /new\n",
            "RewriteEngine on\nRewriteRule ^old\\.php$ /new.php [R=301,L]\n",
            "ErrorDocument 404 http://a.test/error.php\n",
            "DirectoryIndex index.html\n",
            "DocumentRoot /srv/a\nDirectoryIndex index.php\n<FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n\
             </FilesMatch>\n",
            "DocumentRoot /srv/a\nDirectoryIndex index.php\nProxyPass / http://127.0.0.1:8080/\n",
        ] {
            let found = converted(Dialect::Apache, text);
            assert!(!found.toml.contains("*.php"), "{text}: {}", found.toml);
            assert_eq!(notes(&found), 0, "{text}: {:?}", found.report);
        }
    }

    #[test]
    fn every_virtual_host_with_files_is_closed() {
        let found = converted(
            Dialect::Apache,
            "<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\n</VirtualHost>\n\
             <VirtualHost *:80>\nServerName b.test\nDocumentRoot /srv/b\nDirectoryIndex index.php\n</VirtualHost>\n\
             <VirtualHost *:80>\nServerName c.test\nRedirect / https://b.test/\n</VirtualHost>\n",
        );
        let closed = CLOSED.trim_start_matches("[[access]]\n");
        assert_eq!(found.toml.matches(closed).count(), 2, "{}", found.toml);
    }
}
