//! The methods LOCK and UNLOCK (RFC 4918 sections 9.10 and 9.11), and what clients learn of locks.

use super::asked::{Depth, Place, depth};
use super::changes::orphan;
use super::condition;
use super::desk::Desk;
use super::locks::{Claim, Denied, Extent, LOCKS_MAX, Lock, OVERLAPS_MAX, Release};
use super::reply::Reply;
use super::room::Growth;
use super::xml::{BODY_MAX, DECLARATION, escaped, is_dav, parse};
use crate::credentials::Credentials;
use crate::local::Body;
use http1::head::Request;
use runtime::fs::Kind;
use std::fmt::Write as _;
use units::{Duration, Instant};

/// Time of a lock if the client names none.
const TIME: Duration = Duration::from_secs(600);

/// Longest time of a lock. A client that needs it longer refreshes it.
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// Most bytes that are kept of what a client says of its user.
const OWNER_MAX: usize = 1_024;

/// The value of the property `supportedlock`.
pub(super) const SUPPORTED: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope>\
    <D:locktype><D:write/></D:locktype></D:lockentry>\
    <D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// Locks a file or a folder. A path without a file gets an empty one (RFC 4918 section 7.3). Without a body, a lock is
/// refreshed.
pub(super) fn lock(
    desk: &Desk,
    head: &Request<'_, '_>,
    body: &mut Body<'_>,
    place: &Place,
) -> Result<Reply, Reply> {
    let is_deep = match depth(head)? {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => return Err(Reply::error(400, "A lock has a `Depth` of 0 or infinity.")),
    };
    let content = body.whole(BODY_MAX)?;
    let time = time(head.fields.find("timeout").unwrap_or_default());
    if content.trim_ascii().is_empty() {
        return refresh(desk, head, place, time);
    }
    let (is_shared, owner) = wish(&content)?;
    let user = Credentials::user(&head.fields);
    let token = token().ok_or_else(|| Reply::error(500, "The system has no random numbers."))?;
    let (lock, is_new) = desk.room.change(None, || {
        let there = desk.there(place)?;
        desk.require(head, there.as_ref())?;
        desk.agreed(head)?;
        let is_folder = there.is_some_and(|meta| meta.kind == Kind::Directory);
        if place.is_folder && !is_folder {
            return Err(Reply::error(409, "There is no such folder; MKCOL makes it."));
        }
        if there.is_none() {
            desk.unlocked(head, place, Extent::Name)?;
        }
        let now = desk.now();
        let lock = Lock {
            token,
            place: place.clone().known(is_folder),
            is_deep,
            is_shared,
            owner,
            user,
            until: now + time,
        };
        desk.locks
            .grant(lock.clone(), desk.settings.rule.locks_per_user().into(), now)
            .map_err(|denied| refused(desk, place, &denied))?;
        if there.is_none() {
            let sync = desk.settings.rule.sync;
            let made = desk
                .folder
                .begin(&place.names())
                .and_then(|file| file.place(sync));
            if let Err(error) = made {
                let claim = Claim {
                    tokens: &[lock.token.as_bytes()],
                    user: lock.user.as_deref(),
                };
                desk.locks.release(place, claim, now);
                return Err(orphan(desk, &error));
            }
        }
        Ok(((lock, there.is_none()), Growth::By(0, 0)))
    })?;
    if is_new {
        desk.changed(place, false);
    }
    let token = format!("<{}>", lock.token);
    let document = discovery(&active(desk, &lock, desk.now()));
    Ok(Reply::xml(if is_new { 201 } else { 200 }, document).with("Lock-Token", token))
}

fn refresh(desk: &Desk, head: &Request<'_, '_>, place: &Place, time: Duration) -> Result<Reply, Reply> {
    let user = Credentials::user(&head.fields);
    let tokens = condition::tokens(head)?;
    let claim = Claim {
        tokens: &tokens,
        user: user.as_deref(),
    };
    let now = desk.now();
    match desk.locks.refresh(place, claim, time, now) {
        Some(lock) => Ok(Reply::xml(200, discovery(&active(desk, &lock, now)))),
        None => Err(unmatched(412)),
    }
}

/// Ends a lock.
pub(super) fn unlock(desk: &Desk, head: &Request<'_, '_>, place: &Place) -> Result<Reply, Reply> {
    let named = head.fields.find("lock-token").map(<[u8]>::trim_ascii);
    let token = named.and_then(|value| value.strip_prefix(b"<")?.strip_suffix(b">"));
    let Some(token) = token else {
        return Err(Reply::error(
            400,
            "The field `Lock-Token` is missing, or is no URL in angle brackets.",
        ));
    };
    let user = Credentials::user(&head.fields);
    let claim = Claim {
        tokens: &[token],
        user: user.as_deref(),
    };
    match desk.locks.release(place, claim, desk.now()) {
        Release::Done => Ok(Reply::of(204)),
        Release::Missing => Err(unmatched(409)),
        Release::Foreign => Err(Reply::error(403, "Another user has this lock.")),
    }
}

/// The reply to a change that a lock forbids.
pub(super) fn locked(desk: &Desk, lock: &Lock) -> Reply {
    let href = href(desk, lock);
    error(
        423,
        &format!("<D:lock-token-submitted><D:href>{href}</D:href></D:lock-token-submitted>"),
    )
}

/// The value of the property `lockdiscovery`.
pub(super) fn described(desk: &Desk, place: &Place) -> String {
    let now = desk.now();
    let locks = desk.locks.covering(place, now);
    locks.iter().map(|lock| active(desk, lock, now)).collect()
}

fn refused(desk: &Desk, place: &Place, denied: &Denied) -> Reply {
    match denied {
        Denied::Full => Reply::error(
            507,
            format!("There are {LOCKS_MAX} locks in this folder; wait until one ends."),
        ),
        Denied::Exhausted => Reply::error(
            507,
            format!(
                "There are {} locks of this user in this folder, as many as a user may have (`locks-per-user` in `[[uploads]]`); \
                 end one, or wait until one ends.",
                desk.settings.rule.locks_per_user()
            ),
        ),
        Denied::Crowded => Reply::error(
            507,
            format!(
                "More than {OVERLAPS_MAX} shared locks cover some of the files that this lock would cover; wait until one ends."
            ),
        ),
        Denied::Conflict(lock) if lock.place.is_within(place) && !lock.place.is_at(place) => {
            // RFC 4918 section 9.10.9.
            let (below, own) = (href(desk, lock), place.href(&desk.settings, None, true));
            let own = escaped(&own);
            let of = |href: &str, status: &str| {
                format!(
                    "<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 {status}</D:status></D:response>"
                )
            };
            let (first, second) = (of(&below, "423 Locked"), of(&own, "424 Failed Dependency"));
            Reply::xml(
                207,
                format!("{DECLARATION}<D:multistatus xmlns:D=\"DAV:\">{first}{second}</D:multistatus>\n"),
            )
        }
        Denied::Conflict(lock) => {
            let href = href(desk, lock);
            error(
                423,
                &format!("<D:no-conflicting-lock><D:href>{href}</D:href></D:no-conflicting-lock>"),
            )
        }
    }
}

/// No lock with the token of the request covers its path.
fn unmatched(status: u16) -> Reply {
    error(status, "<D:lock-token-matches-request-uri/>")
}

fn error(status: u16, condition: &str) -> Reply {
    Reply::xml(
        status,
        format!("{DECLARATION}<D:error xmlns:D=\"DAV:\">{condition}</D:error>\n"),
    )
}

fn discovery(active: &str) -> String {
    format!("{DECLARATION}<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{active}</D:lockdiscovery></D:prop>\n")
}

/// The path of the root of a lock, as XML.
fn href(desk: &Desk, lock: &Lock) -> String {
    escaped(&lock.place.href(&desk.settings, None, lock.place.is_folder))
}

/// What clients learn of a lock (RFC 4918 section 14.1).
fn active(desk: &Desk, lock: &Lock, now: Instant) -> String {
    let scope = if lock.is_shared { "shared" } else { "exclusive" };
    let depth = if lock.is_deep { "infinity" } else { "0" };
    let left = lock.until.since(now).as_nanos().div_ceil(1_000_000_000);
    let mut out = format!(
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>"
    );
    if !lock.owner.is_empty() {
        let _ = write!(out, "<D:owner>{}</D:owner>", lock.owner);
    }
    let _ = write!(
        out,
        "<D:timeout>Second-{left}</D:timeout><D:locktoken><D:href>{}</D:href></D:locktoken><D:lockroot><D:href>{}</D:href>\
         </D:lockroot></D:activelock>",
        lock.token,
        href(desk, lock)
    );
    out
}

/// Whether a shared lock is asked for, and what the body says of its owner: a URL or a text, as XML.
fn wish(body: &[u8]) -> Result<(bool, String), Reply> {
    let document = parse(body)?;
    let root = document.root_element();
    let child = |name: &str| root.children().find(|node| is_dav(node, name));
    let has = |name: &str, inner: &str| {
        child(name).is_some_and(|node| node.children().any(|node| is_dav(&node, inner)))
    };
    let (shared, exclusive) = (has("lockscope", "shared"), has("lockscope", "exclusive"));
    if !is_dav(&root, "lockinfo") || !has("locktype", "write") || shared == exclusive {
        return Err(Reply::error(
            400,
            "The body is no `lockinfo` with the type `write`, and the scope `exclusive` or `shared`.",
        ));
    }
    let owner = child("owner").map_or_else(String::new, |owner| {
        let texts = |node: roxmltree::Node<'_, '_>| -> String {
            let texts = node.descendants().filter(roxmltree::Node::is_text);
            let texts: String = texts.filter_map(|node| node.text()).collect();
            escaped(texts.trim())
        };
        match owner.children().find(|node| is_dav(node, "href")) {
            Some(url) => format!("<D:href>{}</D:href>", texts(url)),
            None => texts(owner),
        }
    });
    match owner.len() <= OWNER_MAX {
        true => Ok((shared, owner)),
        false => Err(Reply::error(
            413,
            format!("What the body says of the owner has more than {OWNER_MAX} bytes."),
        )),
    }
}

/// The time of a lock, within bounds. `value`: what the client wishes for in its field `Timeout` (RFC 4918 section 10.7).
fn time(value: &[u8]) -> Duration {
    let wishes = value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    let mut times = wishes.filter_map(|wish| {
        if wish.eq_ignore_ascii_case(b"infinite") {
            return Some(TIME_MAX);
        }
        let digits = wish
            .get(..7)
            .filter(|start| start.eq_ignore_ascii_case(b"second-"))?;
        let secs = http_semantics::field::decimal(&wish[digits.len()..])?;
        Some(Duration::from_secs(secs.clamp(1, TIME_MAX.as_secs())))
    });
    times.next().unwrap_or(TIME)
}

/// A URN that no other lock has, and that nobody guesses (RFC 9562 section 5.4). `None`: the system has no randomness.
fn token() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut out = String::from("urn:uuid:");
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounded() {
        for (value, secs) in [
            ("", TIME.as_secs()),
            ("Second-x, Extend", TIME.as_secs()),
            ("Second-0", 1),
            ("Second-90", 90),
            ("second-3600", 3_600),
            ("Second-3601", 3_600),
            ("Second-4100000000", 3_600),
            ("Infinite, Second-5", 3_600),
            ("Extend, Second-5", 5),
        ] {
            assert_eq!(time(value.as_bytes()), Duration::from_secs(secs), "{value}");
        }
    }

    #[test]
    fn tokens_are_of_version_4() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert_ne!(one, other);
        let parts: Vec<&str> = one.strip_prefix("urn:uuid:").unwrap().split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{one}");
        assert!(
            parts[2].starts_with('4') && "89ab".contains(&parts[3][..1]),
            "{one}"
        );
    }

    #[test]
    fn bodies_are_read_within_bounds() {
        let body = |scope: &str, owner: &str| {
            format!(
                "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
                 <D:owner>{owner}</D:owner></D:lockinfo>"
            )
        };
        let read = |scope: &str, owner: &str| wish(body(scope, owner).as_bytes());
        for (scope, owner, expected) in [
            ("exclusive", "", (false, "")),
            ("shared", " ann &amp; bob ", (true, "ann &amp; bob")),
            (
                "exclusive",
                "<D:href>http://a/</D:href>",
                (false, "<D:href>http://a/</D:href>"),
            ),
            ("exclusive", "<x xmlns='u'>ann</x>", (false, "ann")),
        ] {
            assert_eq!(read(scope, owner).unwrap(), (expected.0, expected.1.to_owned()));
        }
        assert!(read("exclusive", &"x".repeat(OWNER_MAX)).is_ok());
        assert_eq!(
            read("exclusive", &"x".repeat(OWNER_MAX + 1)).unwrap_err().status,
            413
        );
        for body in [
            "<D:lockinfo xmlns:D='DAV:'/>",
            "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:shared/></D:lockscope></D:lockinfo>",
            &body("none", ""),
            &body("shared/><D:exclusive", ""),
            "no XML",
        ] {
            assert_eq!(wish(body.as_bytes()).unwrap_err().status, 400, "{body}");
        }
    }
}
