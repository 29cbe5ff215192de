//! Which mounts a result can have: those of folders, and as many as Weir's limit for all sites together. Decides which mounts are
//! left out, and reports them.

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

/// Why there is no mount for a path and what the configuration has for it, if that has the name of a file.
pub(crate) fn of_file(path: &str, file: &str) -> Option<String> {
    let extension = |text: &str| {
        let name = text.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map(|(_, extension)| extension.to_owned())
    };
    let is_file = extension(path).is_some() && extension(path) == extension(file);
    is_file.then(|| {
        format!("a mount of Weir is for a folder, and `{file}` has the name of a file; put the file below the root")
    })
}

#[cfg(test)]
mod tests {
    use crate::Dialect;
    use crate::fidelity::converted;

    #[test]
    fn a_file_has_no_mount() {
        let text = "server { listen 80; root /srv/a;\nlocation /icon.ico { alias /srv/b/site.ico; }\n}\n";
        let found = converted(Dialect::Nginx, text);
        assert!(!found.toml.contains("[[mount]]"), "{}", found.toml);
        let of_file = |note: &&crate::Note| note.line == 2 && note.fate.why().contains("the name of a file");
        assert_eq!(
            found.report.notes().iter().filter(of_file).count(),
            1,
            "{:?}",
            found.report
        );
    }
}
