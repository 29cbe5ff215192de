//! Requests at the admin addresses: who may send them, and what answers.
//!
//! A request without the right token gets 401. Everything else is answered by the handlers here or, if it is a command for
//! the operator, by [`crate::control`]; and by no file or upstream.

use super::handler::{Handler, Handlers};
use crate::config::Config;
use crate::control::{self, Control};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_semantics::method::Method;
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
    /// What takes commands for the operator; `None`: none are taken.
    pub(crate) control: Option<Arc<Control>>,
}

/// Why a request has no right to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It has no token.
    NoToken,
    /// Its token is another one.
    WrongToken,
}

/// What a request means for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Nothing: it has another path.
    None,
    /// It may hold a command.
    Taken,
    /// It is at the path of commands, and no commands are taken.
    Off,
    /// It is not a POST.
    Method,
    /// A page of another site has sent it. Browsers add stored passwords and certificates to such requests.
    CrossSite,
    /// Its content is not declared to be JSON, as that of forms is not, which pages of other sites can send.
    MediaType,
}

impl AdminHandlers {
    /// Takes its `own` handlers with their paths, and reads the file of the token, if the configuration names one.
    ///
    /// # Errors
    /// The file and what to do.
    pub(crate) fn open(
        config: &Config,
        own: Vec<(&'static str, Arc<dyn Handler>)>,
        control: Option<Arc<Control>>,
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
        Ok(AdminHandlers {
            handlers,
            token,
            control,
        })
    }

    /// Admits a request: its token is right, or none is needed.
    ///
    /// # Errors
    /// Why it is not answered.
    pub(crate) fn admit(&self, head: &RequestHead<'_, '_>) -> Result<(), Denied> {
        let Some(token) = self.token else { return Ok(()) };
        let mut fields = head.fields.iter();
        let credentials = fields.find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let Some((scheme, value)) = credentials.and_then(|(_, value)| {
            let space = value.iter().position(|&b| b == b' ')?;
            Some((&value[..space], value[space..].trim_ascii()))
        }) else {
            return Err(Denied::NoToken);
        };
        let is_right = if scheme.eq_ignore_ascii_case(b"bearer") {
            hash(value) == token
        } else if scheme.eq_ignore_ascii_case(b"basic") {
            // Browsers ask for a name and a password; the password is the token.
            let decoded = STANDARD.decode(value).unwrap_or_default();
            let colon = decoded.iter().position(|&b| b == b':');
            colon.is_some_and(|at| hash(&decoded[at + 1..]) == token)
        } else {
            return Err(Denied::NoToken);
        };
        is_right.then_some(()).ok_or(Denied::WrongToken)
    }

    /// What an admitted request means for the operator.
    pub(crate) fn command(&self, head: &RequestHead<'_, '_>) -> Command {
        let path = head.target.path().unwrap_or_default();
        let path = path.strip_prefix(b"/.weir").unwrap_or(path);
        if path != control::PATH.as_bytes() {
            return Command::None;
        }
        if self.control.is_none() {
            return Command::Off;
        }
        if head.method != Method::Post {
            return Command::Method;
        }
        if is_cross_site(head) {
            return Command::CrossSite;
        }
        match is_json(head) {
            true => Command::Taken,
            false => Command::MediaType,
        }
    }
}

impl Denied {
    /// The reason, for the log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Denied::NoToken => "there is no token",
            Denied::WrongToken => "the token is wrong",
        }
    }
}

/// The values of all fields of this name.
fn values<'h>(head: &'h RequestHead<'_, '_>, name: &'static str) -> impl Iterator<Item = &'h [u8]> {
    let fields = head.fields.iter();
    let named = fields.filter(move |(its, _)| its.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.trim_ascii())
}

/// Whether a page of another site has sent the request: browsers say so in `Sec-Fetch-Site` (Fetch Metadata) and in `Origin`
/// (RFC 6454 section 7). Programs send neither.
fn is_cross_site(head: &RequestHead<'_, '_>) -> bool {
    let own = head.authority().unwrap_or_default();
    let is_own = |origin: &[u8]| {
        let schemes = [&b"https://"[..], b"http://"];
        let host = schemes.iter().find_map(|scheme| origin.strip_prefix(*scheme));
        host.is_some_and(|host| host.eq_ignore_ascii_case(own))
    };
    !values(head, "sec-fetch-site").all(|site| matches!(site, b"same-origin" | b"none"))
        || !values(head, "origin").all(is_own)
}

fn is_json(head: &RequestHead<'_, '_>) -> bool {
    let kind = values(head, "content-type").next().unwrap_or_default();
    let kind = kind.split(|&b| b == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}
