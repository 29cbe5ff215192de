//! Flags for the pages of logins (`/~login/`); in the file, the table `[tilde]`. Any of these flags creates the table.

use clap::Args;
use server::config::{HomeDirectory, Tilde};

/// Flags for the pages of logins. A flag that was not given is `None` or empty.
#[derive(Debug, Args)]
#[command(next_help_heading = "User directories (keys of the table [tilde])")]
pub(crate) struct TildeFlags {
    /// Serves this directory of each login's home at /~login/. A reload reads the logins again. Responses never reveal
    /// which logins exist [without a value: public_html] [default: none]
    #[arg(long, value_name = "DIRECTORY", env = "WEIR_TILDE", num_args = 0..=1, require_equals = true,
          default_missing_value = "public_html")]
    tilde: Option<HomeDirectory>,

    /// Serves pages of this login only, regardless of its user ID; repeatable
    #[arg(long, value_name = "LOGIN", env = "WEIR_TILDE_ENABLED", value_delimiter = ',')]
    tilde_enabled: Vec<String>,

    /// Serves no pages of this login; repeatable
    #[arg(
        long,
        value_name = "LOGIN",
        env = "WEIR_TILDE_DISABLED",
        value_delimiter = ','
    )]
    tilde_disabled: Vec<String>,

    /// Lowest user ID with pages, except for logins in --tilde-enabled; 1000 if not given
    #[arg(long, value_name = "UID", env = "WEIR_TILDE_MIN_UID")]
    tilde_min_uid: Option<u32>,
}

impl TildeFlags {
    /// Overrides the configuration with the flags given.
    pub(super) fn override_in(&self, tilde: &mut Option<Tilde>) {
        let is_said = self.tilde.is_some()
            || !self.tilde_enabled.is_empty()
            || !self.tilde_disabled.is_empty()
            || self.tilde_min_uid.is_some();
        if !is_said {
            return;
        }
        let tilde = tilde.get_or_insert_default();
        if let Some(directory) = &self.tilde {
            tilde.directory.clone_from(directory);
        }
        if !self.tilde_enabled.is_empty() {
            tilde.enabled = Some(self.tilde_enabled.clone());
        }
        if !self.tilde_disabled.is_empty() {
            tilde.disabled.clone_from(&self.tilde_disabled);
        }
        if let Some(least) = self.tilde_min_uid {
            tilde.min_uid = least;
        }
    }
}
