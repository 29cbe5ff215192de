//! What a request names: the files of its path and of `Destination`, and how deep it goes.

use super::Settings;
use super::reply::Reply;
use crate::path::{self, Unnamed};
use http1::head::Request;
use runtime::fs::WriteFolder;

/// A file or folder that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    names: Vec<Vec<u8>>,
    /// Whether its path ends with a slash.
    pub(super) is_folder: bool,
}

/// How much of a folder a request is about (RFC 4918 section 10.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Zero,
    One,
    Infinity,
}

impl Place {
    /// The names on the way to it, from the folder of the rule on.
    pub(super) fn names(&self) -> Vec<&[u8]> {
        self.names.iter().map(Vec::as_slice).collect()
    }

    /// Whether both are one file or folder, however their paths end.
    pub(super) fn is_at(&self, other: &Place) -> bool {
        self.names == other.names
    }

    /// Whether it is the folder that holds the other place.
    pub(super) fn is_right_above(&self, other: &Place) -> bool {
        other
            .names
            .split_last()
            .is_some_and(|(_, above)| self.names == above)
    }

    /// The same place, known to be a folder or not.
    #[must_use]
    pub(super) fn known(self, is_folder: bool) -> Place {
        Place { is_folder, ..self }
    }

    /// The place of this name in it.
    pub(super) fn below(&self, name: &[u8], is_folder: bool) -> Place {
        let names = self.names.iter().cloned().chain([name.to_vec()]);
        Place {
            names: names.collect(),
            is_folder,
        }
    }

    #[cfg(test)]
    pub(super) fn at(path: &str) -> Place {
        let names = path.split('/').filter(|name| !name.is_empty());
        Place {
            names: names.map(|name| name.as_bytes().to_vec()).collect(),
            is_folder: false,
        }
    }

    /// Whether it is at the other place, or below it.
    pub(super) fn is_within(&self, other: &Place) -> bool {
        self.names.starts_with(&other.names)
    }

    /// The place that a raw path names.
    ///
    /// # Errors
    /// 400 for a malformed path, 404 for one that no file can have, 403 for one outside the rule and for a hidden one.
    pub(super) fn of(settings: &Settings, raw: &[u8]) -> Result<Place, Reply> {
        let mut whole = Vec::new();
        path::resolve(raw, true, &mut whole).map_err(|unnamed| match unnamed {
            Unnamed::Malformed => Reply::error(400, "The path is malformed."),
            Unnamed::Nothing if whole.split(|&b| b == b'/').any(WriteFolder::is_part) => Reply::error(
                403,
                "Names that begin with `.weir-upload-` are those of uploads under way.",
            ),
            Unnamed::Nothing => Reply::error(
                404,
                "No file can have this path: a name has at most 255 bytes and no slash (`%2F`), a path at most 4,095 bytes.",
            ),
        })?;
        let below = path_of_rule(settings)
            .and_then(|path| whole.strip_prefix(&*path).map(<[u8]>::to_vec))
            .ok_or_else(|| Reply::error(403, "This path is outside the folder of the rule."))?;
        let names = below.split(|&b| b == b'/').filter(|name| !name.is_empty());
        let names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        let mut depths = names.iter().enumerate();
        if depths.any(|(depth, name)| path::is_hidden(depth, name, settings.hidden)) {
            return Err(Reply::error(
                403,
                "Names that begin with a dot are not used here, unless `hidden = true` is set.",
            ));
        }
        Ok(Place {
            names,
            is_folder: below.is_empty() || below.ends_with(b"/"),
        })
    }

    /// The place that `Destination` names (RFC 4918 section 10.3).
    ///
    /// # Errors
    /// As [`Place::of`], 400 without a valid field, and 502 for another server.
    pub(super) fn of_destination(settings: &Settings, head: &Request<'_, '_>) -> Result<Place, Reply> {
        let field = head.fields.find("destination");
        let Some(value) = field.map(<[u8]>::trim_ascii) else {
            return Err(Reply::error(400, "The field `Destination` is missing."));
        };
        Place::of_url(settings, head, value).map_err(|reply| reply.about("Destination", value))
    }

    /// The place that a URL or a path names.
    ///
    /// # Errors
    /// As [`Place::of`], 400 for a URL with a query or a fragment, and 502 for another server.
    pub(super) fn of_url(settings: &Settings, head: &Request<'_, '_>, value: &[u8]) -> Result<Place, Reply> {
        let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
            value
                .get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let raw = match scheme {
            None => value,
            Some(scheme) => {
                let rest = &value[scheme.len()..];
                let end = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                let own = head.authority().unwrap_or_default();
                if !without_usual_port(authority).eq_ignore_ascii_case(without_usual_port(own)) {
                    return Err(Reply::error(502, "The URL names another server."));
                }
                path
            }
        };
        if raw.iter().any(|b| b"?#".contains(b)) {
            return Err(Reply::error(400, "The URL has a query or a fragment."));
        }
        Place::of(settings, raw)
    }

    /// The path of a file at this place, as clients ask for it.
    pub(super) fn href(&self, settings: &Settings, more: Option<&[u8]>, is_folder: bool) -> String {
        let mut out = settings.rule.path.text().into_bytes();
        for (at, name) in self.names().into_iter().chain(more).enumerate() {
            if at > 0 {
                out.push(b'/');
            }
            path::encode(name, &mut out);
        }
        if is_folder && !out.ends_with(b"/") {
            out.push(b'/');
        }
        // ASCII only.
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// The path of the rule, decoded.
fn path_of_rule(settings: &Settings) -> Option<Vec<u8>> {
    let mut resolved = Vec::new();
    let text = settings.rule.path.text();
    path::resolve(text.as_bytes(), true, &mut resolved).ok()?;
    Some(resolved)
}

fn without_usual_port(authority: &[u8]) -> &[u8] {
    let usual = [&b":80"[..], b":443"];
    usual
        .into_iter()
        .find_map(|port| authority.strip_suffix(port))
        .unwrap_or(authority)
}

/// The depth of a request; `None`: it says nothing.
///
/// # Errors
/// 400 for a value that has no meaning.
pub(super) fn depth(head: &Request<'_, '_>) -> Result<Option<Depth>, Reply> {
    let Some(value) = head.fields.find("depth") else {
        return Ok(None);
    };
    match value.trim_ascii() {
        b"0" => Ok(Some(Depth::Zero)),
        b"1" => Ok(Some(Depth::One)),
        value if value.eq_ignore_ascii_case(b"infinity") => Ok(Some(Depth::Infinity)),
        _ => Err(Reply::error(400, "`Depth` is 0, 1 or infinity.")),
    }
}

/// Whether what is at the destination may be replaced (RFC 4918 section 10.6).
///
/// # Errors
/// 400 for a value that has no meaning.
pub(super) fn overwrites(head: &Request<'_, '_>) -> Result<bool, Reply> {
    match head.fields.find("overwrite").map(<[u8]>::trim_ascii) {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(_) => Err(Reply::error(400, "`Overwrite` is T or F.")),
    }
}
