//! What clients learn of files, and what they may set (RFC 4918 sections 9.1, 9.2 and 15, RFC 4331).
//!
//! There are live properties only. The modification time of a file may be set, as programs that synchronize folders do; no
//! other property can.

use super::asked::{Depth, Place, depth};
use super::conversation::Body;
use super::desk::{Desk, etag, http_date};
use super::reply::Reply;
use http_semantics::date;
use http1::head::Request;
use roxmltree::{Document, Node, ParsingOptions};
use runtime::fs::{Kind, Meta};
use std::fmt::Write as _;
use units::UnixTime;

/// Most bytes of a body with XML.
pub(super) const BODY_MAX: usize = 64 << 10;

/// Most elements and texts in it. The parser calls itself for each level.
const NODES_MAX: u32 = 500;

/// Most files and folders of an answer: it is memory.
const ENTRIES_MAX: usize = 20_000;

/// The namespace of WebDAV.
const DAV: &str = "DAV:";

/// Properties that are told unasked, and those that are told if they are asked for.
const ALL: [&str; 7] = [
    "resourcetype",
    "displayname",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "supportedlock",
];
const MORE: [&str; 2] = ["quota-available-bytes", "quota-used-bytes"];

/// The name of a property: namespace and local name.
type Property = (String, String);

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
    meta: &'s Meta,
    /// Bytes that are left for the folder, and bytes that are used.
    quota: (Option<u64>, Option<u64>),
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
        let document = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error \
                        xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
        return Err(Reply::xml(403, document.to_owned()));
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
    let is_shown = |(name, _): &&(Vec<u8>, Meta)| {
        let is_known = names.is_empty() && name == b".well-known";
        name[0] != b'.' || desk.settings.hidden || is_known
    };
    let quota = quota(desk, &wanted)?;
    let mut out =
        String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n");
    let own = Subject {
        name: names.last().copied().unwrap_or_default(),
        meta: &meta,
        quota,
    };
    let href = place.href(&desk.settings, None, meta.kind == Kind::Directory);
    describe(desk, &mut out, &href, &own, &wanted);
    for (name, meta) in listed.iter().filter(is_shown) {
        let href = place.href(&desk.settings, Some(name), meta.kind == Kind::Directory);
        describe(desk, &mut out, &href, &Subject { name, meta, quota }, &wanted);
    }
    out.push_str("</D:multistatus>\n");
    Ok(Reply::xml(207, out))
}

/// Sets the modification time of a file. Either all properties of a request are set, or none (RFC 4918 section 9.2).
pub(super) fn patch(
    desk: &Desk,
    head: &Request<'_, '_>,
    body: &mut Body<'_>,
    place: &Place,
) -> Result<Reply, Reply> {
    let text = body.whole(BODY_MAX)?;
    let meta = desk.meta(place)?;
    desk.require(head, Some(&meta))?;
    let changes = patches(&text)?;
    let set = |(property, time): &(Property, Option<UnixTime>)| {
        time.filter(|_| meta.kind == Kind::File && is_time(property))
    };
    let are_all_set = changes.iter().all(|change| set(change).is_some());
    if are_all_set && let Some(time) = changes.last().and_then(set) {
        desk.folder
            .set_modified(&place.names(), time)
            .map_err(|error| desk.refused(&error))?;
        desk.changed(place, false);
    }
    let mut out =
        String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n");
    let href = place.href(&desk.settings, None, meta.kind == Kind::Directory);
    let _ = write!(out, "<D:response><D:href>{}</D:href>", escaped(&href));
    for change in &changes {
        let status = match (are_all_set, set(change)) {
            (true, _) => "200 OK",
            (false, None) => "403 Forbidden",
            (false, Some(_)) => "424 Failed Dependency",
        };
        out.push_str("<D:propstat><D:prop>");
        element(&mut out, &change.0, None);
        let _ = write!(
            out,
            "</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
        );
    }
    out.push_str("</D:response>\n</D:multistatus>\n");
    Ok(Reply::xml(207, out))
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
    let known = || ALL.iter().filter(has);
    let dav = |name: &str| (DAV.to_owned(), name.to_owned());
    match wanted {
        Wanted::Names => {
            let names: Vec<Property> = known().map(|name| dav(name)).collect();
            status(out, names.iter().map(|name| (name, None)), "200 OK");
        }
        Wanted::All => {
            let names: Vec<Property> = known().map(|name| dav(name)).collect();
            let found = names.iter().map(|name| (name, value(desk, subject, &name.1)));
            status(out, found, "200 OK");
        }
        Wanted::These(these) => {
            let of = |(space, name): &Property| match space == DAV {
                true => value(desk, subject, name),
                false => None,
            };
            let (found, missing): (Vec<&Property>, Vec<&Property>) =
                these.iter().partition(|property| of(property).is_some());
            if !found.is_empty() || missing.is_empty() {
                status(
                    out,
                    found.into_iter().map(|property| (property, of(property))),
                    "200 OK",
                );
            }
            if !missing.is_empty() {
                status(
                    out,
                    missing.into_iter().map(|property| (property, None)),
                    "404 Not Found",
                );
            }
        }
    }
    out.push_str("</D:response>\n");
}

/// Appends properties that have a status.
fn status<'p>(
    out: &mut String,
    properties: impl Iterator<Item = (&'p Property, Option<String>)>,
    status: &str,
) {
    out.push_str("<D:propstat><D:prop>");
    for (property, value) in properties {
        element(out, property, value.as_deref());
    }
    let _ = write!(
        out,
        "</D:prop><D:status>HTTP/1.1 {status}</D:status></D:propstat>"
    );
}

/// Appends a property. Its value is XML.
fn element(out: &mut String, (space, name): &Property, value: Option<&str>) {
    let (open, close) = match &**space {
        DAV => (format!("D:{name}"), format!("D:{name}")),
        "" => (name.clone(), name.clone()),
        space => (
            format!("x:{name} xmlns:x=\"{}\"", escaped(space)),
            format!("x:{name}"),
        ),
    };
    let _ = match value {
        None | Some("") => write!(out, "<{open}/>"),
        Some(value) => write!(out, "<{open}>{value}</{close}>"),
    };
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
        // RFC 4918 section 15.10: empty without locks.
        "supportedlock" => String::new(),
        "quota-available-bytes" if !is_file => quota.0?.to_string(),
        "quota-used-bytes" if !is_file => quota.1?.to_string(),
        _ => return None,
    })
}

/// Text in XML. Characters that XML cannot have become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The document in a body.
fn parse(body: &[u8]) -> Result<Document<'_>, Reply> {
    let wrong = |why: String| Reply::error(400, format!("The body is not XML that can be read: {why}."));
    let text = core::str::from_utf8(body).map_err(|error| wrong(error.to_string()))?;
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: NODES_MAX,
    };
    let document = Document::parse_with_options(text, options).map_err(|error| wrong(error.to_string()))?;
    // Namespaces in XML 1.0 section 6.2: a prefix is not declared away.
    let is_undeclared = |node: Node<'_, '_>| {
        node.namespaces()
            .any(|one| one.name().is_some() && one.uri().is_empty())
    };
    match document.descendants().any(is_undeclared) {
        true => Err(wrong("a namespace has no name".to_owned())),
        false => Ok(document),
    }
}

fn is_dav(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.has_tag_name((DAV, name))
}

fn property(node: &Node<'_, '_>) -> Property {
    let name = node.tag_name();
    (
        name.namespace().unwrap_or_default().to_owned(),
        name.name().to_owned(),
    )
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
    found.next().ok_or_else(wrong)
}

/// What a body sets and removes, with the time that a value is.
fn patches(body: &[u8]) -> Result<Vec<(Property, Option<UnixTime>)>, Reply> {
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
            let text = node.text().unwrap_or_default().trim();
            found.push((property(&node), time(text).filter(|_| sets)));
        }
    }
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
        let deep = format!("<propfind xmlns='DAV:'>{}", "<a>".repeat(20_000));
        for body in [
            "<propfind xmlns='DAV:'>",
            "<propfind><allprop/></propfind>",
            "<propfind xmlns='DAV:'/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><propfind xmlns='DAV:'><allprop/></propfind>",
            "<a:propfind xmlns:a='DAV:'><a:prop><b:c xmlns:b=''/></a:prop></a:propfind>",
            &deep,
        ] {
            assert_eq!(wanted(body.as_bytes()).unwrap_err().status, 400, "{body:.60}");
        }
        assert_eq!(wanted(b"\xff").unwrap_err().status, 400);
    }

    #[test]
    fn times_are_set_and_nothing_else() {
        let body = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><D:getlastmodified>Sun, 09 Sep 2001 01:46:40 \
                    GMT</D:getlastmodified></D:prop></D:set><D:set><D:prop><D:lastmodified>1000000001</D:lastmodified>\
                    <x xmlns='u'>1</x></D:prop></D:set><D:remove><D:prop><D:getlastmodified/></D:prop></D:remove>\
                    </D:propertyupdate>";
        let found = patches(body.as_bytes()).unwrap();
        let secs: Vec<Option<i64>> = found.iter().map(|(_, time)| time.map(|time| time.secs)).collect();
        assert_eq!(secs, [Some(1_000_000_000), Some(1_000_000_001), Some(1), None]);
        let times: Vec<bool> = found.iter().map(|(property, _)| is_time(property)).collect();
        assert_eq!(times, [true, true, false, true]);
        assert!(patches(b"<D:propertyupdate xmlns:D='DAV:'/>").is_err());
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a<b>&\"\u{1}\né"), "a&lt;b&gt;&amp;&quot;\u{fffd}&#10;é");
    }
}
