//! The value of `--body`: text, or the content of a file.

use crate::failure::Failure;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Most bytes of a request's content: every open connection may hold a copy of it.
const CONTENT_MAX: u64 = 64 << 20;

/// The content that `text` stands for: itself, or the file behind `@`.
///
/// # Errors
/// `Usage` if the file cannot be read or is too long.
pub(super) fn read(text: &str) -> Result<Arc<[u8]>, Failure> {
    let Some(name) = text.strip_prefix('@') else {
        return Ok(text.as_bytes().into());
    };
    let refused =
        |error: std::io::Error| Failure::Usage(format!("cannot read the body from `{name}`: {error}"));
    let file = File::open(name).map_err(refused)?;
    let mut content = Vec::new();
    file.take(CONTENT_MAX + 1)
        .read_to_end(&mut content)
        .map_err(refused)?;
    if content.len() as u64 > CONTENT_MAX {
        return Err(Failure::Usage(format!(
            "`{name}` is longer than 64 MiB, the limit of --body: every open connection may hold a copy of it"
        )));
    }
    Ok(content.into())
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
            error.contains("is longer than 64 MiB, the limit of --body"),
            "{error}"
        );
        let error = read("@/nowhere/at/all").expect_err("missing").to_string();
        assert!(
            error.contains("cannot read the body from `/nowhere/at/all`"),
            "{error}"
        );
    }
}
