//! Tests that nobody gets more than from the original server without a word in the report.

use super::decided::{apache, decision};

/// Lines of Apache that ask for a password.
const ASKS: &str = "AuthType Basic\nAuthName x\nAuthUserFile /u\nRequire valid-user";

#[test]
fn a_password_does_not_replace_a_network_of_another_section() {
    let found = apache(&format!(
        "<Directory /srv/www>\nOrder deny,allow\nDeny from all\nAllow from 10.0.0.0/8\n</Directory>\n\
         <Directory /srv/www/sub>\n{ASKS}\nRequire ip 10.1.0.0/16\n</Directory>"
    ));
    let both = decision(&found, "/sub/a");
    assert!(
        both.contains("htpasswd") && both.contains("10.1.0.0/16") && !both.contains("satisfy"),
        "{both} {}",
        found.toml
    );
    // Lines `Allow` and `Deny` of a section replace `Satisfy`, too.
    let found = apache(&format!(
        "<Directory /srv/www>\nSatisfy any\nOrder deny,allow\nDeny from all\nAllow from 10.0.0.0/8\n{ASKS}\n\
         </Directory>\n<Directory /srv/www/sub>\nOrder allow,deny\nAllow from all\n</Directory>"
    ));
    assert!(decision(&found, "/a").contains("satisfy"), "{}", found.toml);
    let both = decision(&found, "/sub/a");
    assert!(
        both.contains("htpasswd") && !both.contains("satisfy"),
        "{both} {}",
        found.toml
    );
}
