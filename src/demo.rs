//! The embedded site, which `weir serve` serves without a root. Decides which files belong to it; knows nothing of how
//! they are served.

/// Every file of `demo/`, by its path on the site.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$((concat!("/", $path), include_bytes!(concat!("../demo/", $path)))),*]
    };
}

/// Path and content of each file. Listed by hand, so that no stray file is published and the build depends on the tree
/// only; a test keeps the list complete.
pub(crate) const FILES: &[(&str, &[u8])] = files![
    "404.html",
    "favicon.svg",
    "gallery.html",
    "how.html",
    "images/crest.svg",
    "images/labyrinth.svg",
    "images/request.svg",
    "images/ripples.png",
    "images/streamlines.png",
    "images/tailwater.png",
    "images/v-notch.svg",
    "images/valley.png",
    "index.html",
    "notes/rating-curve.txt",
    "robots.txt",
    "style.css",
];

#[cfg(test)]
mod tests {
    use super::FILES;
    use std::path::Path;

    /// Every path below `folder`, as the site names it.
    fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("demo/ is part of the tree") {
            let entry = entry.expect("a directory entry");
            let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("a file type").is_dir() {
                walk(&entry.path(), &name, found);
            } else {
                found.push(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let mut found = Vec::new();
        walk(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("demo"),
            "",
            &mut found,
        );
        found.sort();
        let mut listed: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        listed.sort_unstable();
        assert_eq!(listed, found);
    }

    #[test]
    fn pages_refer_only_to_files_that_exist() {
        for (page, content) in FILES.iter().filter(|(path, _)| path.ends_with(".html")) {
            let text = std::str::from_utf8(content).expect("pages are UTF-8");
            for attribute in ["href=\"", "src=\""] {
                for piece in text.split(attribute).skip(1) {
                    let target = piece.split('"').next().unwrap_or_default();
                    let path = if target == "/" { "/index.html" } else { target };
                    let known = FILES.iter().any(|(known, _)| *known == path);
                    assert!(known || path == "/no-such-page", "{page} refers to {target}");
                }
            }
        }
    }

    #[test]
    fn the_site_stays_small() {
        let total: usize = FILES.iter().map(|(_, content)| content.len()).sum();
        assert!(total < 400 * 1024, "{total} bytes");
    }
}
