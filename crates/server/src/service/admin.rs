//! Requests at the admin addresses: who may send them, and what answers.
//!
//! A request without the right token gets 401, and a command of a client that may only read gets 403. Everything else is
//! answered by the handlers here or, if it is a command for the operator, by [`crate::control`]; and by no file or upstream.

use super::handler::{Handler, Handlers};
use crate::config::Config;
use crate::control::{self, Control};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::sync::Arc;

/// Largest file of a token, in bytes.
const FILE_MAX: u64 = 4 << 10;

/// Shortest token accepted, in bytes.
const TOKEN_MIN: usize = 16;

/// SHA-256 of a token: comparing hashes tells nothing about the token.
type TokenHash = [u8; 32];

/// The handlers of the admin addresses, and the tokens that open them.
#[derive(Debug, Default)]
pub(crate) struct AdminHandlers {
    pub(crate) handlers: Handlers,
    /// The token of readers. `None`: none is needed.
    token: Option<TokenHash>,
    /// The token for commands, which may read, too. `None`: all clients that may read may send commands.
    control_token: Option<TokenHash>,
    /// What takes commands for the operator; `None`: none are taken.
    pub(crate) control: Option<Arc<Control>>,
}

/// What the client of a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// Read.
    Read,
    /// Read, and send commands.
    Control,
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
    /// Its client may only read.
    ReadOnly,
    /// A page of another site has sent it. Browsers add stored passwords and certificates to such requests.
    CrossSite,
    /// Its content is not declared to be JSON, as that of forms is not, which pages of other sites can send.
    MediaType,
}

impl AdminHandlers {
    /// Takes its `own` handlers with their paths, and reads the files of the tokens that the configuration names.
    ///
    /// # Errors
    /// The key, its file and what to do.
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
        let read = |key: &str, file: Option<&Path>| file.map(|file| read_token(key, file)).transpose();
        let token = read("token-file", admin.token_file.as_deref())?;
        let control_token = read("control-token-file", admin.control_token_file.as_deref())?;
        if token.is_some() && token == control_token {
            return Err(
                "`control-token-file`: it has the token of `token-file`, which is only for reading; write another token"
                    .to_owned(),
            );
        }
        Ok(AdminHandlers {
            handlers,
            token,
            control_token,
            control,
        })
    }

    /// Admits a request: its token is right, or none is needed. Returns what its client may do.
    ///
    /// # Errors
    /// Why it is not answered.
    pub(crate) fn admit(&self, head: &RequestHead<'_, '_>) -> Result<Right, Denied> {
        let sent = sent_token(head);
        let right = match self.control_token {
            None => Right::Control,
            Some(token) if sent == Ok(token) => return Ok(Right::Control),
            Some(_) => Right::Read,
        };
        match (self.token, sent) {
            (None, _) => Ok(right),
            (Some(token), Ok(sent)) if sent == token => Ok(right),
            (Some(_), Ok(_)) => Err(Denied::WrongToken),
            (Some(_), Err(why)) => Err(why),
        }
    }

    /// What a request means for the operator, once it was admitted with this right.
    pub(crate) fn command(&self, head: &RequestHead<'_, '_>, right: Right) -> Command {
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
        if right != Right::Control {
            return Command::ReadOnly;
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

/// The token in a file, which this key names.
///
/// # Errors
/// The key, the file and what to do.
fn read_token(key: &str, file: &Path) -> Result<TokenHash, String> {
    let shown = file.display();
    let content = runtime::fs::read_small(file, FILE_MAX).map_err(|error| {
        format!(
            "`{key}`: cannot read the token `{shown}`: {error}; the user of the server must be able to read it"
        )
    })?;
    let token = content.trim_ascii();
    if token.len() < TOKEN_MIN || !token.iter().all(u8::is_ascii_graphic) {
        return Err(format!(
            "`{key}`: `{shown}` has no usable token; write at least {TOKEN_MIN} visible characters, as from \
             `openssl rand -hex 32`"
        ));
    }
    Ok(hash(token))
}

/// The token that a request sends.
///
/// # Errors
/// Why it sends none that could be right.
fn sent_token(head: &RequestHead<'_, '_>) -> Result<TokenHash, Denied> {
    let mut fields = head.fields.iter();
    let credentials = fields.find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let Some((scheme, value)) = credentials.and_then(|(_, value)| {
        let space = value.iter().position(|&b| b == b' ')?;
        Some((&value[..space], value[space..].trim_ascii()))
    }) else {
        return Err(Denied::NoToken);
    };
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(hash(value));
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return Err(Denied::NoToken);
    }
    // Browsers ask for a name and a password; the password is the token.
    let decoded = STANDARD.decode(value).unwrap_or_default();
    let colon = decoded.iter().position(|&b| b == b':');
    colon.map(|at| hash(&decoded[at + 1..])).ok_or(Denied::WrongToken)
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

fn hash(token: &[u8]) -> TokenHash {
    Sha256::digest(token).into()
}
