//! The limit on mounts: Weir has one for all sites together. Decides which mounts are left out, and reports them.

use crate::fate::Fate;
use crate::model::{MOUNTS_MAX, Server};
use crate::report::{At, Report};

/// Leaves out the mounts beyond the limit, the last ones of the last hosts.
pub(crate) fn bound(server: &mut Server, file: &str, report: &mut Report) {
    let mut room = MOUNTS_MAX;
    let mut left = Vec::new();
    for site in core::iter::once(&mut server.top).chain(&mut server.hosts) {
        let kept = site.mounts.len().min(room);
        left.extend(site.mounts.drain(kept..).map(|mount| mount.path));
        room -= kept;
    }
    let Some(first) = left.first() else { return };
    let at = At {
        file: file.into(),
        line: 0,
    };
    let why = format!(
        "Weir has at most {MOUNTS_MAX} mounts for all hosts; the result lacks {} mounts, the first of them for `{first}`",
        left.len()
    );
    report.add(&at, "roots of paths", Fate::missing(why));
}
