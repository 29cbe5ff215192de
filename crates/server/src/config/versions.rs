//! Sites whose files come in versions (`versions`): what such a folder excludes, and which folders there are.

use super::{Config, ConfigError, HostName};
use std::path::Path;

impl Config {
    /// Refuses a site with two places for its files.
    pub(super) fn validate_versions(&self) -> Result<(), ConfigError> {
        let hosts = self.host.iter().map(|host| (&host.root, &host.versions));
        let mut sites = std::iter::once((&self.root, &self.versions)).chain(hosts);
        match sites.any(|(root, versions)| root.is_some() && versions.is_some()) {
            true => Err(ConfigError::invalid(
                "versions",
                "cannot be combined with `root`: the link `current` in the folder leads to the files; remove one of the two",
            )),
            false => Ok(()),
        }
    }

    /// The folders of versions, with the names of their hosts: none for the top level, whose folder comes first.
    pub fn version_folders(&self) -> impl Iterator<Item = (&[HostName], &Path)> {
        let top = self.versions.as_deref().map(|folder| (&[][..], folder));
        let own = self.host.iter();
        let own = own.filter_map(|host| Some((&*host.names, host.versions.as_deref()?)));
        top.into_iter().chain(own)
    }
}
