//! The value of `--body`: text, or the content of a file.

use crate::failure::Failure;
use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Most bytes of a request's content: every open connection may hold a copy of it.
pub(super) const CONTENT_MAX: u64 = 64 << 20;

/// The content that `text` stands for: itself, or the file behind `@`.
///
/// # Errors
/// `Usage` if the file cannot be read or is too long.
pub(super) fn read(text: &str) -> Result<Arc<[u8]>, Failure> {
    match text.strip_prefix('@') {
        None => Ok(text.as_bytes().into()),
        Some(name) => {
            let content = bytes(Path::new(name), CONTENT_MAX);
            content
                .map(Arc::from)
                .map_err(|why| Failure::Usage(format!("--body: {why}")))
        }
    }
}

/// The content of a file of at most `max` bytes.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn bytes(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let name = path.display();
    let refused = |error: std::io::Error| format!("cannot read `{name}`: {error}");
    let file = OpenOptions::new().read(true).open(path).map_err(refused)?;
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content).map_err(refused)?;
    match content.len() as u64 > max {
        true => Err(format!(
            "`{name}` is longer than {} MiB, the most that is read",
            max >> 20
        )),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stands_for_itself_and_a_file_for_its_content() {
        assert_eq!(&*read("a=b&c=@d").expect("text"), b"a=b&c=@d");
        assert_eq!(&*read("").expect("text"), b"");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let name = format!("@{}", file.path().display());
        file.as_file().set_len(CONTENT_MAX).expect("sparse");
        assert_eq!(read(&name).expect("at the limit").len() as u64, CONTENT_MAX);
        file.as_file().set_len(CONTENT_MAX + 1).expect("sparse");
        let error = read(&name).expect_err("beyond").to_string();
        assert!(
            error.contains("is longer than 64 MiB, the most that is read"),
            "{error}"
        );
        let error = read("@/nowhere/at/all").expect_err("missing").to_string();
        assert!(error.contains("cannot read `/nowhere/at/all`"), "{error}");
    }
}
