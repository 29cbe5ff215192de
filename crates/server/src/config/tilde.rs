//! The logins with pages at `/~login/`: table `[tilde]`.
//!
//! Its keys are the words of Apache's `UserDir` (directory, enabled, disabled). This file decides which logins have
//! pages; [`crate::site::Logins`] finds them and their homes.

use super::ConfigError;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The table `[tilde]`. Its presence turns `/~login/` on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Tilde {
    /// The directory within each home that is served.
    pub directory: HomeDirectory,
    /// The only logins with pages, whatever their user IDs. `None`: all from `min_uid` on.
    pub enabled: Option<Vec<String>>,
    /// Logins that never have pages.
    pub disabled: Vec<String>,
    /// The lowest user ID of a person; lower ones belong to the system.
    pub min_uid: u32,
    /// Logins and their homes; replaces the password database.
    pub users: Option<BTreeMap<String, PathBuf>>,
}

impl Default for Tilde {
    fn default() -> Tilde {
        Tilde {
            directory: HomeDirectory("public_html".to_owned()),
            enabled: None,
            disabled: Vec::new(),
            min_uid: 1000,
            users: None,
        }
    }
}

impl Tilde {
    /// Whether this login has pages. Logins of `users` have no user ID.
    pub fn allows(&self, login: &str, uid: Option<u32>) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == login);
        let is_meant = match &self.enabled {
            Some(enabled) => named(enabled),
            None => uid.is_none_or(|uid| uid >= self.min_uid),
        };
        is_meant && !named(&self.disabled)
    }

    /// Validates values that depend on each other.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let users = self.users.iter().flatten();
        for login in users.map(|(login, _)| login).chain(self.enabled.iter().flatten()) {
            if login.is_empty() || login.contains(['/', '\0']) {
                return Err(ConfigError::invalid(
                    "tilde",
                    format!("`{login}` is not a valid login"),
                ));
            }
        }
        if let (Some(users), Some(enabled)) = (&self.users, &self.enabled)
            && let Some(unknown) = enabled.iter().find(|login| !users.contains_key(*login))
        {
            return Err(ConfigError::invalid(
                "enabled",
                format!("`{unknown}` is not in `users`; add it there with its home, or remove it here"),
            ));
        }
        Ok(())
    }
}

/// A relative path without `.` and `..` segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeDirectory(String);

impl HomeDirectory {
    /// The path, without a slash at either end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HomeDirectory {
    type Err = String;

    fn from_str(text: &str) -> Result<HomeDirectory, String> {
        let path = text.strip_suffix('/').unwrap_or(text);
        let is_plain = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
        // A whole home would expose mail and keys.
        if path.split('/').all(is_plain) {
            return Ok(HomeDirectory(path.to_owned()));
        }
        Err(format!(
            "`{text}` is not a directory in a home; write a relative path without dots, as in public_html"
        ))
    }
}

impl<'de> Deserialize<'de> for HomeDirectory {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<HomeDirectory, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn tilde(text: &str) -> Result<Tilde, String> {
        let config = Config::from_toml(&format!("root = 'www'\n{text}"), "w.toml");
        config
            .map_err(|e| e.to_string())
            .map(|config| config.tilde.expect("a table"))
    }

    #[test]
    fn people_are_meant_unless_others_are_named() {
        for (text, allowed) in [
            ("[tilde]", ["alice"].as_slice()),
            ("[tilde]\nmin-uid = 0", &["root", "alice"]),
            ("[tilde]\nmin-uid = 2000", &[]),
            (
                "[tilde]\nenabled = ['root', 'alice']\ndisabled = ['root']",
                &["alice"],
            ),
            ("[tilde]\nenabled = ['root']", &["root"]),
            ("[tilde]\nenabled = []", &[]),
            ("[tilde]\ndisabled = ['alice']", &[]),
        ] {
            let tilde = tilde(text).unwrap();
            let found: Vec<&str> = [("root", 0), ("alice", 1000)]
                .into_iter()
                .filter_map(|(login, uid)| tilde.allows(login, Some(uid)).then_some(login))
                .collect();
            assert_eq!(found, allowed, "{text}");
        }
        let table = tilde("[tilde.users]\nalice = '/home/alice'\n").unwrap();
        assert!(table.allows("alice", None));
    }

    #[test]
    fn what_would_open_a_whole_home_is_refused() {
        for (text, fragment) in [
            ("[tilde]\ndirectory = '.'", "not a directory in a home"),
            ("[tilde]\ndirectory = ''", "not a directory in a home"),
            ("[tilde]\ndirectory = '../x'", "not a directory in a home"),
            ("[tilde]\ndirectory = '/srv/x'", "not a directory in a home"),
            ("[tilde]\ndirektory = 'x'", "did you mean `directory`"),
            ("[tilde]\nenabled = ['a/b']", "not a valid login"),
            (
                "[tilde]\nenabled = ['bob']\n[tilde.users]\nalice = '/x'",
                "not in `users`",
            ),
        ] {
            let error = tilde(text).unwrap_err();
            assert!(error.contains(fragment), "{text}: {error}");
        }
        let nested = tilde("[tilde]\ndirectory = 'web/public/'").unwrap();
        assert_eq!(nested.directory.as_str(), "web/public");
    }
}
