//! The flags of `/~login/`: in the file they are the table `[tilde]`, which any of them makes.

use clap::Args;
use server::config::{HomeDirectory, Tilde};

/// Flags for the pages of logins. None where nothing was said.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pages of logins (keys of the table [tilde])")]
pub(crate) struct TildeFlags {
    /// Serves this directory of each login's home at /~login/; read anew at each reload. No answer tells which
    /// logins exist [without a value: public_html] [default: none]
    #[arg(long, value_name = "DIRECTORY", env = "WEIR_TILDE", num_args = 0..=1, require_equals = true,
          default_missing_value = "public_html")]
    tilde: Option<HomeDirectory>,

    /// Only this login has a page, whatever its number; may be repeated
    #[arg(long, value_name = "LOGIN", env = "WEIR_TILDE_ENABLED", value_delimiter = ',')]
    tilde_enabled: Vec<String>,

    /// This login has no page; may be repeated
    #[arg(
        long,
        value_name = "LOGIN",
        env = "WEIR_TILDE_DISABLED",
        value_delimiter = ','
    )]
    tilde_disabled: Vec<String>,

    /// Lowest user number of a person; lower ones have no page unless enabled by name; 1000 if not given
    #[arg(long, value_name = "UID", env = "WEIR_TILDE_MIN_UID")]
    tilde_min_uid: Option<u32>,
}

impl TildeFlags {
    /// Puts what was said into the configuration.
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
