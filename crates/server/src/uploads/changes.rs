//! The methods that change files.
//!
//! Preconditions are checked right before a change, while no other request changes the folder. PUT and COPY also check them
//! before they read a body or copy. Readers see what was there before, or all of what is there after.

use super::asked::{Depth, Place, depth, overwrites};
use super::desk::{Desk, etag, is_missing};
use super::locks::Extent;
use super::reply::Reply;
use super::room::Growth;
use crate::local::Body;
use http_semantics::field::Name;
use http1::head::Request;
use runtime::fs::{Kind, Meta};
use std::io;
use std::sync::atomic::Ordering;
use units::UnixTime;

/// Stores a file (RFC 9110 section 9.3.4).
pub(super) fn put(
    desk: &Desk,
    head: &Request<'_, '_>,
    body: &mut Body<'_>,
    place: &Place,
) -> Result<Reply, Reply> {
    if place.is_folder {
        return Err(Reply::error(405, "This is a folder; MKCOL makes one."));
    }
    if head.fields.has(Name::ContentRange) {
        // RFC 9110 section 14.5.
        return Err(Reply::error(
            400,
            "Parts of a file cannot be stored; send all of it.",
        ));
    }
    let modified = modified(head)?;
    let before = file_or_nothing(desk, place)?;
    desk.require(head, before.as_ref())?;
    desk.unlocked(head, place, content_or_name(before.as_ref()))?;
    let refused = |error: io::Error| desk.refused(&error);
    let freed = before.map_or(0, |meta| meta.len);
    let announced = body.length.unwrap_or(0);
    let grant = desk.room.grant(&desk.folder, announced, freed).map_err(refused)?;
    let mut grant = grant.ok_or_else(Reply::full)?;
    let mut file = desk
        .folder
        .begin(&place.names())
        .map_err(|error| orphan(desk, &error))?;
    if desk.settings.rule.quota.is_some() {
        file.announce(announced).map_err(refused)?;
    }
    let is_announced = body.length.is_some();
    let mut length: u64 = 0;
    body.each(|data| {
        let more = data.len() as u64;
        if !is_announced && !grant.extend(&desk.folder, more).map_err(refused)? {
            return Err(Reply::full());
        }
        length += more;
        if length > desk.settings.rule.largest().0 {
            return Err(Reply::error(413, "The file is larger than `largest` allows."));
        }
        file.write(data).map_err(refused)
    })?;
    if let Some(modified) = modified {
        file.set_modified(modified).map_err(refused)?;
    }
    let sync = desk.settings.rule.sync;
    if sync {
        file.sync().map_err(refused)?;
    }
    let (meta, is_new) = desk.room.change(Some(grant), || {
        let before = file_or_nothing(desk, place)?;
        desk.require(head, before.as_ref())?;
        desk.unlocked(head, place, content_or_name(before.as_ref()))?;
        let (meta, _) = file.place(sync).map_err(|error| orphan(desk, &error))?;
        let replaced = before.map_or(0, |meta| meta.len);
        Ok(((meta, before.is_none()), Growth::By(meta.len, replaced)))
    })?;
    desk.changed(place, false);
    desk.tally.stored.fetch_add(1, Ordering::Relaxed);
    desk.tally.bytes.fetch_add(length, Ordering::Relaxed);
    let reply = Reply::of(if is_new { 201 } else { 204 }).with("ETag", etag(&meta));
    Ok(match modified {
        Some(_) => reply.with("X-OC-MTime", "accepted"),
        None => reply,
    })
}

/// Removes a file, or a folder with all that is in it (RFC 4918 section 9.6).
pub(super) fn delete(desk: &Desk, head: &Request<'_, '_>, place: &Place) -> Result<Reply, Reply> {
    if depth(head)?.is_some_and(|depth| depth != Depth::Infinity) {
        return Err(Reply::error(
            400,
            "A folder is removed with all that is in it: `Depth` is infinity.",
        ));
    }
    let sync = desk.settings.rule.sync;
    let (removed, is_tree) = desk.room.change(None, || {
        let there = present(desk, place)?;
        desk.require(head, Some(&there))?;
        desk.unlocked(head, place, Extent::Tree)?;
        let removed = desk.folder.remove(&place.names(), sync);
        let removed = removed.map_err(|error| desk.refused(&error))?;
        desk.locks.forget(place, true);
        Ok(((removed, has_below(there)), shrunk(&there)))
    })?;
    desk.changed(place, is_tree);
    removed.finish().map_err(|error| desk.refused(&error))?;
    desk.tally.removed.fetch_add(1, Ordering::Relaxed);
    Ok(Reply::of(204))
}

/// Makes a folder (RFC 4918 section 9.3).
pub(super) fn make_folder(
    desk: &Desk,
    head: &Request<'_, '_>,
    body: &mut Body<'_>,
    place: &Place,
) -> Result<Reply, Reply> {
    if !body.is_empty() {
        return Err(Reply::error(415, "A folder is made without a body."));
    }
    desk.room.change(None, || {
        let there = desk.there(place)?;
        if there.is_some() {
            return Err(Reply::error(405, "There is such a file already."));
        }
        desk.require(head, None)?;
        desk.unlocked(head, place, Extent::Name)?;
        let made = desk
            .folder
            .make_directory(&place.names(), desk.settings.rule.sync);
        made.map_err(|error| orphan(desk, &error))?;
        Ok(((), Growth::By(0, 0)))
    })?;
    desk.changed(place, false);
    Ok(Reply::of(201))
}

/// Copies a file or a folder (RFC 4918 section 9.8).
pub(super) fn copy(desk: &Desk, head: &Request<'_, '_>, place: &Place) -> Result<Reply, Reply> {
    let deep = match depth(head)? {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => return Err(Reply::error(400, "A copy has a `Depth` of 0 or infinity.")),
    };
    let (to, source) = both(desk, head, place)?;
    let refused = |error: io::Error| desk.refused(&error);
    let there = destination(desk, head, &to)?;
    let freed = there
        .filter(|meta| meta.kind == Kind::File)
        .map_or(0, |meta| meta.len);
    let grant = desk.room.grant(&desk.folder, 0, freed).map_err(refused)?;
    let mut grant = grant.ok_or_else(Reply::full)?;
    let mut copied: u64 = 0;
    let mut spend = |bytes| {
        copied += bytes;
        match grant.extend(&desk.folder, bytes)? {
            true => Ok(()),
            false => Err(io::ErrorKind::QuotaExceeded.into()),
        }
    };
    let copy = desk
        .folder
        .copy(&place.names(), &to.names(), deep, &mut spend)
        .map_err(|error| orphan(desk, &error))?;
    let sync = desk.settings.rule.sync;
    if sync {
        copy.sync().map_err(refused)?;
    }
    let (removed, is_new, is_tree) = desk.room.change(Some(grant), || {
        let there = destination(desk, head, &to)?;
        let removed = copy.place(sync).map_err(|error| orphan(desk, &error))?;
        desk.locks.forget(&to, false);
        let growth = match (source.kind, there) {
            (Kind::File, None) => Growth::By(copied, 0),
            (Kind::File, Some(there)) if there.kind == Kind::File => Growth::By(copied, there.len),
            _ => Growth::Unknown,
        };
        let is_tree = has_below(source) || there.is_some_and(has_below);
        Ok(((removed, there.is_none(), is_tree), growth))
    })?;
    desk.changed(&to, is_tree);
    removed.finish().map_err(refused)?;
    Ok(Reply::of(if is_new { 201 } else { 204 }))
}

/// Moves a file or a folder (RFC 4918 section 9.9).
pub(super) fn rename(desk: &Desk, head: &Request<'_, '_>, place: &Place) -> Result<Reply, Reply> {
    if depth(head)?.is_some_and(|depth| depth != Depth::Infinity) {
        return Err(Reply::error(
            400,
            "A folder is moved with all that is in it: `Depth` is infinity.",
        ));
    }
    let (to, removed, is_new, is_tree) = desk.room.change(None, || {
        let (to, source) = both(desk, head, place)?;
        desk.unlocked(head, place, Extent::Tree)?;
        let there = destination(desk, head, &to)?;
        let renamed = desk
            .folder
            .rename(&place.names(), &to.names(), desk.settings.rule.sync);
        let removed = renamed.map_err(|error| orphan(desk, &error))?;
        // Locks stay with their paths (RFC 4918 section 7.6).
        desk.locks.forget(place, true);
        desk.locks.forget(&to, false);
        let growth = there.as_ref().map_or(Growth::By(0, 0), shrunk);
        let is_tree = has_below(source) || there.is_some_and(has_below);
        Ok(((to, removed, there.is_none(), is_tree), growth))
    })?;
    desk.changed(place, is_tree);
    desk.changed(&to, is_tree);
    removed.finish().map_err(|error| desk.refused(&error))?;
    Ok(Reply::of(if is_new { 201 } else { 204 }))
}

/// The file at a place, if there is any.
fn file_or_nothing(desk: &Desk, place: &Place) -> Result<Option<Meta>, Reply> {
    match desk.there(place)? {
        Some(meta) if meta.kind == Kind::Directory => Err(Reply::error(405, "This is a folder.")),
        there => Ok(there),
    }
}

/// What is at a place. A symbolic link can be removed, and is never followed.
fn present(desk: &Desk, place: &Place) -> Result<Meta, Reply> {
    match desk.folder.meta(&place.names()) {
        Ok(meta) if place.is_folder && meta.kind != Kind::Directory => {
            Err(Reply::error(404, "There is no such folder."))
        }
        Ok(meta) => Ok(meta),
        Err(error) if is_missing(&error) => Err(Reply::error(404, "There is no such file.")),
        Err(error) => Err(desk.refused(&error)),
    }
}

/// Whether sites may serve files below the path of this one: it is a folder, or a link to one.
fn has_below(meta: Meta) -> bool {
    meta.kind != Kind::File
}

/// What changes if something is taken away.
fn shrunk(meta: &Meta) -> Growth {
    match meta.kind {
        Kind::File if meta.names == 1 => Growth::By(0, meta.len),
        _ => Growth::Unknown,
    }
}

/// The destination of a copy or a move, and what is to be copied or moved.
fn both(desk: &Desk, head: &Request<'_, '_>, place: &Place) -> Result<(Place, Meta), Reply> {
    let source = desk.meta(place)?;
    desk.require(head, Some(&source))?;
    let to = Place::of_destination(&desk.settings, head)?;
    if to.is_within(place) || place.is_within(&to) {
        return Err(Reply::error(
            403,
            "Source and destination are one, or one is in the other.",
        ));
    }
    Ok((to, source))
}

/// What is at a destination and will be replaced.
fn destination(desk: &Desk, head: &Request<'_, '_>, to: &Place) -> Result<Option<Meta>, Reply> {
    let there = desk.there(to)?;
    if there.is_some() && !overwrites(head)? {
        return Err(Reply::error(
            412,
            "There is such a file already, and `Overwrite` is F.",
        ));
    }
    let extent = match there {
        Some(_) => Extent::Tree,
        None => Extent::Name,
    };
    desk.unlocked(head, to, extent)?;
    Ok(there)
}

/// What storing a file changes.
fn content_or_name(before: Option<&Meta>) -> Extent {
    match before {
        Some(_) => Extent::Content,
        None => Extent::Name,
    }
}

/// The reply if a file cannot be made: RFC 4918 has 409 if its folder is missing.
pub(super) fn orphan(desk: &Desk, error: &io::Error) -> Reply {
    match is_missing(error) {
        true => Reply::error(409, "The folder above does not exist; MKCOL makes it."),
        false => desk.refused(error),
    }
}

/// The modification time that a client of ownCloud sends with a file, in Unix time.
fn modified(head: &Request<'_, '_>) -> Result<Option<UnixTime>, Reply> {
    let Some(value) = head.fields.find("x-oc-mtime") else {
        return Ok(None);
    };
    let text = core::str::from_utf8(value.trim_ascii()).unwrap_or_default();
    let whole = text.split('.').next().unwrap_or_default();
    match whole.parse() {
        Ok(secs) => Ok(Some(UnixTime::from_secs(secs))),
        Err(_) => Err(Reply::error(
            400,
            "`X-OC-Mtime` is a number of seconds since 1970.",
        )),
    }
}
