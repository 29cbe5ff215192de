//! What clients learn of files, and what they may set (RFC 4918 sections 9.1, 9.2 and 15, RFC 4331).
//!
//! Of the properties that the server computes, the modification time of a file may be set, as programs that synchronize folders
//! do. Others are stored as they are ([`super::dead`]).

use super::asked::{Depth, Place, depth};
use super::dead::{self, DEAD_MAX, Dead};
use super::desk::{Desk, etag, http_date};
use super::locking::{self, SUPPORTED};
use super::locks::Extent;
use super::reply::Reply;
use super::room::Growth;
use super::xml::{BODY_MAX, DAV, DECLARATION, Property, bounded, escaped, is_dav, parse, property, tag};
use crate::local::Body;
use crate::path;
use http_semantics::date;
use http1::head::Request;
use roxmltree::Node;
use runtime::fs::{Kind, Meta};
use std::fmt::Write as _;
use std::io;
use units::UnixTime;

/// Most files and folders of an answer: it is memory.
pub(super) const ENTRIES_MAX: usize = 20_000;

/// Most bytes of an answer to PROPFIND: it is memory.
pub(super) const ANSWER_MAX: usize = 32 << 20;

/// Properties that are told unasked, and those that are told if they are asked for.
const ALL: [&str; 8] = [
    "resourcetype",
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "supportedlock",
    "lockdiscovery",
];
const MORE: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// Statuses of properties.
const OK: &str = "200 OK";
const FORBIDDEN: &str = "403 Forbidden";
const FULL: &str = "507 Insufficient Storage";

/// Which properties are asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Names,
    These(Vec<Property>),
}

/// What an answer says of one file.
struct Subject<'s> {
    name: &'s [u8],
    place: &'s Place,
    meta: &'s Meta,
    /// Bytes that are left for the folder, and bytes that are used.
    quota: (Option<u64>, Option<u64>),
    /// Its dead properties, if they are asked for.
    dead: Vec<Dead>,
}

/// What an answer says of a property.
enum Told {
    /// Its name.
    Name,
    /// Its value, as XML.
    Value(String),
    /// Its whole element.
    Element(String),
}

/// What a request does with a property.
#[derive(Debug, PartialEq, Eq)]
enum Patch {
    /// The modification time is set.
    Time(UnixTime),
    /// A dead property is set.
    Set(Dead),
    /// A dead property is removed.
    Remove,
    /// A dead property is longer than what is kept.
    TooLong,
    /// It cannot be changed.
    Refused,
}

impl Wanted {
    /// Whether dead properties may be among them.
    fn has_dead(&self) -> bool {
        match self {
            Wanted::All | Wanted::Names => true,
            Wanted::These(these) => these.iter().any(|(space, _)| space != DAV),
        }
    }
}

/// Tells properties of a file, or of a folder and what is in it.
pub(super) fn find(
    desk: &Desk,
    head: &Request<'_, '_>,
    body: &mut Body<'_>,
    place: &Place,
) -> Result<Reply, Reply> {
    let depth = depth(head)?.unwrap_or(Depth::Infinity);
    let wanted = wanted(&body.whole(BODY_MAX)?)?;
    let meta = desk.meta(place)?;
    if depth == Depth::Infinity && meta.kind == Kind::Directory {
        let document =
            format!("{DECLARATION}<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n");
        return Err(Reply::xml(403, document));
    }
    let names = place.names();
    let listed = match (depth, meta.kind) {
        (Depth::One, Kind::Directory) => {
            let listed = desk.folder.list(&names, ENTRIES_MAX);
            let listed = listed.map_err(|error| desk.refused(&error))?;
            listed.ok_or_else(|| {
                Reply::error(
                    507,
                    format!("The folder has more than {ENTRIES_MAX} files and folders."),
                )
            })?
        }
        _ => Vec::new(),
    };
    let is_shown = |(name, _): &&(Vec<u8>, Meta)| !path::is_hidden(names.len(), name, desk.settings.hidden);
    let quota = quota(desk, &wanted)?;
    let mut out = format!("{DECLARATION}<D:multistatus xmlns:D=\"DAV:\">\n");
    // A file that cannot be opened has no properties that could be shown.
    let read = |note: io::Result<Vec<u8>>| dead::read(&note.unwrap_or_default());
    let has_dead = wanted.has_dead();
    let notes = match has_dead && !listed.is_empty() {
        true => Some(desk.folder.notes(&names).map_err(|error| desk.refused(&error))?),
        false => None,
    };
    let own = Subject {
        name: names.last().copied().unwrap_or_default(),
        place,
        meta: &meta,
        quota,
        dead: match has_dead {
            true => read(desk.folder.note(&names)),
            false => Vec::new(),
        },
    };
    let href = place.href(&desk.settings, None, meta.kind == Kind::Directory);
    describe(desk, &mut out, &href, &own, &wanted);
    for (name, meta) in listed.iter().filter(is_shown) {
        if out.len() > ANSWER_MAX {
            return Err(Reply::error(
                507,
                format!("The answer would have more than {ANSWER_MAX} bytes; ask for fewer properties."),
            ));
        }
        let is_folder = meta.kind == Kind::Directory;
        let href = place.href(&desk.settings, Some(name), is_folder);
        let place = &place.below(name, is_folder);
        let subject = Subject {
            name,
            place,
            meta,
            quota,
            dead: notes.as_ref().map_or_else(Vec::new, |notes| read(notes.of(name))),
        };
        describe(desk, &mut out, &href, &subject, &wanted);
    }
    out.push_str("</D:multistatus>\n");
    Ok(Reply::xml(207, out))
}

/// Sets and removes properties. Either all changes of a request are made, or none (RFC 4918 section 9.2).
pub(super) fn patch(
    desk: &Desk,
    head: &Request<'_, '_>,
    body: &mut Body<'_>,
    place: &Place,
) -> Result<Reply, Reply> {
    let changes = patches(&body.whole(BODY_MAX)?)?;
    let (meta, statuses) = desk.room.change(None, || {
        let meta = desk.meta(place)?;
        desk.require(head, Some(&meta))?;
        desk.unlocked(head, place, Extent::Content)?;
        let before = changes.iter().map(|(_, patch)| match patch {
            Patch::TooLong => FULL,
            Patch::Time(_) if meta.kind == Kind::File => OK,
            Patch::Time(_) | Patch::Refused => FORBIDDEN,
            Patch::Set(_) | Patch::Remove => OK,
        });
        let mut statuses: Vec<&str> = before.collect();
        if statuses.iter().all(|status| *status == OK)
            && let Err(status) = apply(desk, place, &changes).map_err(|error| desk.refused(&error))?
        {
            for (known, (_, patch)) in statuses.iter_mut().zip(&changes) {
                if matches!(patch, Patch::Set(_) | Patch::Remove) {
                    *known = status;
                }
            }
        }
        Ok(((meta, statuses), Growth::By(0, 0)))
    })?;
    let are_all_made = statuses.iter().all(|status| *status == OK);
    if are_all_made {
        desk.changed(place, false);
    }
    let mut out = format!("{DECLARATION}<D:multistatus xmlns:D=\"DAV:\">\n");
    let href = place.href(&desk.settings, None, meta.kind == Kind::Directory);
    let _ = write!(out, "<D:response><D:href>{}</D:href>", escaped(&href));
    for ((property, _), known) in changes.iter().zip(statuses) {
        let shown = match known == OK && !are_all_made {
            true => "424 Failed Dependency",
            false => known,
        };
        status(&mut out, [(property, Told::Name)].into_iter(), shown);
    }
    out.push_str("</D:response>\n</D:multistatus>\n");
    Ok(Reply::xml(207, out))
}

/// Makes changes, or none of them. The inner error is the status of those that store or remove dead properties.
///
/// # Errors
/// Of the system.
fn apply(desk: &Desk, place: &Place, changes: &[(Property, Patch)]) -> io::Result<Result<(), &'static str>> {
    let (names, sync) = (place.names(), desk.settings.rule.sync);
    let mut before = None;
    if changes
        .iter()
        .any(|(_, patch)| matches!(patch, Patch::Set(_) | Patch::Remove))
    {
        let known = desk.folder.note(&names)?;
        let dead = changes.iter().filter_map(|(name, patch)| match patch {
            Patch::Set(dead) => Some((name, Some(dead))),
            Patch::Remove => Some((name, None)),
            Patch::Time(_) | Patch::TooLong | Patch::Refused => None,
        });
        let Some(note) = dead::changed(&known, dead) else {
            return Ok(Err(FULL));
        };
        if note != known {
            use io::ErrorKind as Kind;
            match desk
                .folder
                .set_note(&names, &note, sync)
                .map_err(|error| (error.kind(), error))
            {
                Ok(()) => before = Some(known),
                // The file system stores none.
                Err((Kind::Unsupported, _)) => return Ok(Err(FORBIDDEN)),
                Err((Kind::StorageFull | Kind::QuotaExceeded | Kind::ArgumentListTooLong, _)) => {
                    return Ok(Err(FULL));
                }
                Err((_, error)) => return Err(error),
            }
        }
    }
    let times = changes.iter().rev().find_map(|(_, patch)| match patch {
        Patch::Time(time) => Some(*time),
        Patch::Set(_) | Patch::Remove | Patch::TooLong | Patch::Refused => None,
    });
    let Some(time) = times else {
        return Ok(Ok(()));
    };
    desk.folder.set_modified(&names, time).inspect_err(|_| {
        if let Some(before) = &before {
            // If that fails, too, the client learns of the first failure.
            let _ = desk.folder.set_note(&names, before, sync);
        }
    })?;
    Ok(Ok(()))
}

/// Bytes that are left and bytes that are used, if they are asked for.
fn quota(desk: &Desk, wanted: &Wanted) -> Result<(Option<u64>, Option<u64>), Reply> {
    let asks = match wanted {
        Wanted::These(these) => these
            .iter()
            .any(|(space, name)| space == DAV && MORE.contains(&&**name)),
        Wanted::All | Wanted::Names => false,
    };
    if !asks {
        return Ok((None, None));
    }
    let refused = |error| desk.refused(&error);
    let space = desk.folder.space().map_err(refused)?;
    Ok(match desk.room.report(&desk.folder).map_err(refused)? {
        Some((used, left)) => (Some(left.min(space)), Some(used)),
        None => (Some(space), None),
    })
}

/// Appends what is told of a file.
fn describe(desk: &Desk, out: &mut String, href: &str, subject: &Subject<'_>, wanted: &Wanted) {
    let _ = write!(out, "<D:response><D:href>{}</D:href>", escaped(href));
    let has = |name: &&&str| value(desk, subject, name).is_some();
    let known = || -> Vec<Property> {
        let names = ALL.iter().filter(has);
        names.map(|name| (DAV.to_owned(), (*name).to_owned())).collect()
    };
    let dead = |property: &Property| subject.dead.iter().find(|dead| dead.name == *property);
    match wanted {
        Wanted::Names => {
            let known = known();
            let names = known.iter().chain(subject.dead.iter().map(|dead| &dead.name));
            status(out, names.map(|name| (name, Told::Name)), OK);
        }
        Wanted::All => {
            let known = known();
            let live = known.iter().map(|property| {
                let value = value(desk, subject, &property.1).unwrap_or_default();
                (property, Told::Value(value))
            });
            let dead = subject.dead.iter();
            let dead = dead.map(|dead| (&dead.name, Told::Element(dead.element.clone())));
            status(out, live.chain(dead), OK);
        }
        Wanted::These(these) => {
            let of = |property: &Property| match property.0 == DAV {
                true => value(desk, subject, &property.1).map(Told::Value),
                false => dead(property).map(|dead| Told::Element(dead.element.clone())),
            };
            let (mut found, mut missing) = (Vec::new(), Vec::new());
            for property in these {
                match of(property) {
                    Some(told) => found.push((property, told)),
                    None => missing.push((property, Told::Name)),
                }
            }
            if !found.is_empty() || missing.is_empty() {
                status(out, found.into_iter(), OK);
            }
            if !missing.is_empty() {
                status(out, missing.into_iter(), "404 Not Found");
            }
        }
    }
    out.push_str("</D:response>\n");
}

/// Appends properties that have a status.
fn status<'p>(out: &mut String, properties: impl Iterator<Item = (&'p Property, Told)>, status: &str) {
    out.push_str("<D:propstat><D:prop>");
    for (property, told) in properties {
        let value = match told {
            Told::Element(element) => {
                out.push_str(&element);
                continue;
            }
            Told::Value(value) => value,
            Told::Name => String::new(),
        };
        let (opening, closing) = tag(property);
        let _ = match &*value {
            "" => write!(out, "<{opening}/>"),
            value => write!(out, "<{opening}>{value}</{closing}>"),
        };
    }
    let _ = write!(
        out,
        "</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    );
}

/// The value of a property of WebDAV, as XML; `None`: the file does not have it.
fn value(desk: &Desk, subject: &Subject<'_>, name: &str) -> Option<String> {
    let Subject { meta, quota, .. } = subject;
    let is_file = meta.kind == Kind::File;
    Some(match name {
        "resourcetype" if is_file => String::new(),
        "resourcetype" => "<D:collection/>".to_owned(),
        "displayname" => escaped(&String::from_utf8_lossy(subject.name)),
        "getcontentlength" if is_file => meta.len.to_string(),
        "getcontenttype" if is_file => escaped(&desk.media_type(subject.name)),
        "getetag" if is_file => escaped(&etag(meta)),
        "getlastmodified" => http_date(meta),
        "supportedlock" => SUPPORTED.to_owned(),
        "lockdiscovery" => locking::described(desk, subject.place),
        "quota-available-bytes" if !is_file => quota.0?.to_string(),
        "quota-used-bytes" if !is_file => quota.1?.to_string(),
        _ => return None,
    })
}

/// Which properties a body asks for.
fn wanted(body: &[u8]) -> Result<Wanted, Reply> {
    if body.trim_ascii().is_empty() {
        return Ok(Wanted::All);
    }
    let document = parse(body)?;
    let root = document.root_element();
    let wrong = || {
        Reply::error(
            400,
            "The body is no `propfind` with `prop`, `propname` or `allprop`.",
        )
    };
    if !is_dav(&root, "propfind") {
        return Err(wrong());
    }
    let mut found = root.children().filter_map(|node| {
        if is_dav(&node, "allprop") {
            return Some(Wanted::All);
        }
        if is_dav(&node, "propname") {
            return Some(Wanted::Names);
        }
        let properties = node.children().filter(Node::is_element);
        is_dav(&node, "prop").then(|| Wanted::These(properties.map(|node| property(&node)).collect()))
    });
    let wanted = found.next().ok_or_else(wrong)?;
    if let Wanted::These(these) = &wanted {
        bounded(these.iter())?;
    }
    Ok(wanted)
}

/// What a body does with which properties, in its order.
fn patches(body: &[u8]) -> Result<Vec<(Property, Patch)>, Reply> {
    let document = parse(body)?;
    let root = document.root_element();
    if !is_dav(&root, "propertyupdate") {
        return Err(Reply::error(400, "The body is no `propertyupdate`."));
    }
    let mut found = Vec::new();
    for action in root.children() {
        let sets = is_dav(&action, "set");
        if !sets && !is_dav(&action, "remove") {
            continue;
        }
        let properties = action
            .children()
            .filter(|node| is_dav(node, "prop"))
            .flat_map(|node| node.children().filter(Node::is_element));
        for node in properties {
            let name = property(&node);
            let patch = match (name.0 == DAV, sets) {
                (true, true) if is_time(&name) => {
                    let time = time(node.text().unwrap_or_default().trim());
                    time.map_or(Patch::Refused, Patch::Time)
                }
                (true, _) => Patch::Refused,
                (false, true) => {
                    let dead = Dead::of(node);
                    match dead.element.len() <= DEAD_MAX {
                        true => Patch::Set(dead),
                        false => Patch::TooLong,
                    }
                }
                (false, false) => Patch::Remove,
            };
            found.push((name, patch));
        }
    }
    bounded(found.iter().map(|(name, _)| name))?;
    match found.is_empty() {
        true => Err(Reply::error(400, "The body changes nothing.")),
        false => Ok(found),
    }
}

/// Whether a property is the modification time: that of RFC 4918, or the one that rclone sets.
fn is_time((space, name): &Property) -> bool {
    space == DAV && matches!(&**name, "getlastmodified" | "lastmodified")
}

/// A date of HTTP, or seconds since 1970.
fn time(text: &str) -> Option<UnixTime> {
    date::parse(text.as_bytes()).or_else(|| text.parse().ok().map(UnixTime::from_secs))
}

#[cfg(test)]
mod tests {
    use super::super::xml::{NAMES_MAX, NODES_MAX};
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_within_bounds() {
        let these = |names: &[(&str, &str)]| {
            let names = names
                .iter()
                .map(|(space, name)| ((*space).to_owned(), (*name).to_owned()));
            Wanted::These(names.collect())
        };
        for (body, expected) in [
            ("", Wanted::All),
            (" \r\n", Wanted::All),
            ("<propfind xmlns='DAV:'><allprop/></propfind>", Wanted::All),
            (
                "<a:propfind xmlns:a='DAV:'><a:propname/></a:propfind>",
                Wanted::Names,
            ),
            (
                "<?xml version='1.0'?><a:propfind xmlns:a='DAV:'><a:prop><a:getetag/><x xmlns='u'/><y/></a:prop></a:propfind>",
                these(&[("DAV:", "getetag"), ("u", "x"), ("", "y")]),
            ),
        ] {
            assert_eq!(wanted(body.as_bytes()).unwrap(), expected, "{body}");
        }
        let wide = |count| {
            let names = "<a/>".repeat(count);
            format!("<propfind xmlns='DAV:'><prop>{names}</prop></propfind>")
        };
        // The document and its two outer elements count, too.
        let most = NODES_MAX as usize - 3;
        assert!(matches!(wanted(wide(most).as_bytes()), Ok(Wanted::These(these)) if these.len() == most));
        let deep = format!("<propfind xmlns='DAV:'>{}", "<a>".repeat(20_000));
        for body in [
            "<propfind xmlns='DAV:'>",
            "<propfind><allprop/></propfind>",
            "<propfind xmlns='DAV:'/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><propfind xmlns='DAV:'><allprop/></propfind>",
            "<a:propfind xmlns:a='DAV:'><a:prop><b:c xmlns:b=''/></a:prop></a:propfind>",
            &deep,
            &wide(most + 1),
        ] {
            assert_eq!(wanted(body.as_bytes()).unwrap_err().status, 400, "{body:.60}");
        }
        assert_eq!(wanted(b"\xff").unwrap_err().status, 400);
        // A namespace counts with each name in it.
        let spaced = |length: usize| {
            let names = "<x:a/>".repeat(256);
            let space = "u".repeat(length);
            format!("<propfind xmlns='DAV:' xmlns:x='{space}'><prop>{names}</prop></propfind>")
        };
        assert!(wanted(spaced(NAMES_MAX / 256 - 1).as_bytes()).is_ok());
        assert_eq!(
            wanted(spaced(NAMES_MAX / 256).as_bytes()).unwrap_err().status,
            413
        );
    }

    #[test]
    fn changes_are_read_in_their_order() {
        let body = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><D:getlastmodified>Sun, 09 Sep 2001 01:46:40 \
                    GMT</D:getlastmodified></D:prop></D:set><D:set><D:prop><D:lastmodified>1000000001</D:lastmodified>\
                    <x xmlns='u'>1</x><D:displayname>a</D:displayname><D:lastmodified>soon</D:lastmodified></D:prop></D:set>\
                    <D:remove><D:prop><D:getlastmodified/><y/></D:prop></D:remove></D:propertyupdate>";
        let found = patches(body.as_bytes()).unwrap();
        let names: Vec<&str> = found.iter().map(|((_, name), _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "getlastmodified",
                "lastmodified",
                "x",
                "displayname",
                "lastmodified",
                "getlastmodified",
                "y"
            ]
        );
        let found: Vec<Patch> = found.into_iter().map(|(_, patch)| patch).collect();
        let element = match &found[2] {
            Patch::Set(dead) => &dead.element,
            other => panic!("{other:?}"),
        };
        assert_eq!(element, "<x:x xmlns:x=\"u\">1</x:x>");
        let time = |secs| Patch::Time(UnixTime::from_secs(secs));
        assert_eq!(found[..2], [time(1_000_000_000), time(1_000_000_001)]);
        assert_eq!(
            found[3..],
            [Patch::Refused, Patch::Refused, Patch::Refused, Patch::Remove]
        );
        assert!(patches(b"<D:propertyupdate xmlns:D='DAV:'/>").is_err());
    }
}
