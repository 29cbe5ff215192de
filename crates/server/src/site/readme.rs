//! The README of a listed directory: which file it is, and whether the listing may show it.

use super::Shared;
use super::load::join;
use super::path;
use super::tree::Opened;
use crate::listing::{Item, Readme};
use core::fmt::Display;
use runtime::complaints;
use runtime::fs::Wait;

/// The README of the directory at `path`, among these entries, and whether no event in the directory reports all its
/// changes. `None`: there is none, or it is not to be shown. Blocks.
pub(super) fn read(shared: &Shared, path: &[u8], items: &[Item]) -> Option<(Readme, bool)> {
    let rules = shared.config.readme.as_ref()?;
    let name = Readme::find(items)?;
    let (mut directory, mut file) = (Vec::new(), Vec::new());
    path::encode(path, &mut directory);
    let site_path = [path, name].concat();
    path::encode(&site_path, &mut file);
    if !rules.admit(&directory, &file) {
        return None;
    }
    let rel = path.strip_prefix(b"/").unwrap_or(path);
    let rel = join(rel.strip_suffix(b"/").unwrap_or(rel), name);
    // The next request tries again: nothing need change in the directory when the cause ends.
    let failed = |cause: &dyn Display| {
        complaints::warn(&site_path, || {
            format!("is not shown in the listing of its directory: {cause}")
        });
        (Readme::unreadable(name), true)
    };
    // As for a request: the same links are followed, and nothing is opened that is no file.
    Some(match shared.trees.open_file(&rel, Wait::Block) {
        Ok(Opened::Embedded { bytes, .. }) if bytes.len() as u64 <= Readme::BYTES_MAX => {
            (Readme::of(name, bytes), false)
        }
        Ok(Opened::Embedded { .. }) => (Readme::too_large(name), false),
        Ok(Opened::Disk { file, linked }) if file.meta().len > Readme::BYTES_MAX => {
            (Readme::too_large(name), linked)
        }
        Ok(Opened::Disk { file, linked }) => match file.read_all(0, file.meta().len as usize, Wait::Block) {
            Ok(bytes) => (Readme::of(name, &bytes), linked),
            Err(cause) => failed(&cause),
        },
        // It has just taken the place of a file.
        Ok(Opened::Directory { .. }) => return None,
        Err(cause) => failed(&cause),
    })
}
