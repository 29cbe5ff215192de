//! Requests at the admin addresses: who may send them, and what answers.
//!
//! A request without the right token gets 401. Everything else is answered by the handlers here, and by no file or
//! upstream.

use super::handler::{Handler, Handlers};
use crate::config::Config;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_semantics::request::RequestHead;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Largest file of a token, in bytes.
const FILE_MAX: u64 = 4 << 10;

/// Shortest token accepted, in bytes.
const TOKEN_MIN: usize = 16;

/// The handlers of the admin addresses, and the token that opens them.
#[derive(Debug, Default)]
pub(crate) struct AdminHandlers {
    pub(crate) handlers: Handlers,
    /// SHA-256 of the token: comparing hashes tells nothing about the token. `None`: none is needed.
    token: Option<[u8; 32]>,
}

impl AdminHandlers {
    /// Takes its `own` handlers with their paths, and reads the file of the token, if the configuration names one.
    ///
    /// # Errors
    /// The file and what to do.
    pub(crate) fn open(
        config: &Config,
        own: Vec<(&'static str, Arc<dyn Handler>)>,
    ) -> Result<AdminHandlers, String> {
        let Some(admin) = &config.admin else {
            return Ok(AdminHandlers::default());
        };
        let mut handlers = Handlers::default();
        for (at, handler) in own {
            handlers.add(at, handler);
        }
        let token = match &admin.token_file {
            None => None,
            Some(file) => {
                let shown = file.display();
                let content = runtime::fs::read_small(file, FILE_MAX).map_err(|error| {
                    format!("cannot read the token `{shown}`: {error}; the user of the server must be able to read it")
                })?;
                let token = content.trim_ascii();
                if token.len() < TOKEN_MIN || !token.iter().all(u8::is_ascii_graphic) {
                    return Err(format!(
                        "`{shown}` has no usable token; write at least {TOKEN_MIN} visible characters, as from \
                         `openssl rand -hex 32`"
                    ));
                }
                Some(hash(token))
            }
        };
        Ok(AdminHandlers { handlers, token })
    }

    /// Whether a request may be answered: its token is right, or none is needed.
    pub(crate) fn admits(&self, head: &RequestHead<'_, '_>) -> bool {
        let Some(token) = self.token else { return true };
        let mut fields = head.fields.iter();
        let credentials = fields.find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let Some((scheme, value)) = credentials.and_then(|(_, value)| {
            let space = value.iter().position(|&b| b == b' ')?;
            Some((&value[..space], value[space..].trim_ascii()))
        }) else {
            return false;
        };
        if scheme.eq_ignore_ascii_case(b"bearer") {
            return hash(value) == token;
        }
        // Browsers ask for a name and a password; the password is the token.
        let decoded = match scheme.eq_ignore_ascii_case(b"basic") {
            true => STANDARD.decode(value).unwrap_or_default(),
            false => return false,
        };
        let password = decoded
            .iter()
            .position(|&b| b == b':')
            .map(|at| &decoded[at + 1..]);
        password.is_some_and(|password| hash(password) == token)
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}
