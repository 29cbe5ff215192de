//! Web pages of an exact length with references to their embedded files.
//!
//! A page is as complete as its length allows: with head, heading and text around the images; with a title; or with the
//! references only. All three are HTML that a browser shows.

use crate::prose::Prose;
use std::io::{self, Write};
use units::{Bytes, Rng};

/// Number of embedded files that a page of this length has room to reference, in a site of `files` files.
pub fn room(size: Bytes, files: u32) -> u32 {
    let digits = u64::from(files.saturating_sub(1).max(1).ilog10() + 1);
    u32::try_from(size.0 / ("<img src=.gif>".len() as u64 + digits)).unwrap_or(u32::MAX)
}

/// Shortest reference to an embedded file.
pub fn reference(path: &str) -> String {
    format!("<img src={path}>")
}

/// Minimum length of text between two images; shorter pieces are merged.
const PIECE_MIN: u64 = 120;

/// Writes a page of exactly `size` bytes with these references; [`room`] says how many fit.
///
/// # Errors
/// Errors of `out`; `InvalidInput` if the references alone exceed `size`.
pub fn write(
    title: &str,
    references: &[String],
    size: Bytes,
    rng: Rng,
    out: &mut impl Write,
) -> io::Result<()> {
    let named: u64 = references.iter().map(|reference| reference.len() as u64).sum();
    let free = size.0.checked_sub(named).ok_or_else(|| {
        let why = format!(
            "{} references need {named} bytes of a page of {}",
            references.len(),
            size.0
        );
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    let complete = format!(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n<title>{title}</title>\n\
         <meta name=viewport content=\"width=device-width\">\n<style>\n\
         body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem }}\n\
         img {{ max-width: 100%; vertical-align: middle; margin: .25rem }}\n</style>\n<h1>{title}</h1>\n"
    );
    let short = format!("<!doctype html><title>{title}</title>\n");
    // The full head only if it does not outweigh the text.
    let head = if free >= 3 * complete.len() as u64 {
        complete
    } else if free >= short.len() as u64 {
        short
    } else {
        String::new()
    };
    out.write_all(head.as_bytes())?;
    let mut prose = Prose::new(rng);
    let mut text = free - head.len() as u64;
    let piece = text / (references.len() as u64 + 1);
    for reference in references {
        if piece >= PIECE_MIN {
            prose.paragraphs(piece, out)?;
            text -= piece;
        }
        out.write_all(reference.as_bytes())?;
    }
    prose.paragraphs(text, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Seed;

    fn page(size: u64, references: usize) -> String {
        let references: Vec<String> = (0..references)
            .map(|i| reference(&format!("{}.gif", 1000 + i)))
            .collect();
        let mut out = Vec::new();
        write("Page 7", &references, Bytes(size), Seed(size).rng(), &mut out).unwrap();
        assert_eq!(out.len() as u64, size);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pages_have_their_length_and_their_references() {
        for size in (18..2500).chain([100_000]) {
            let room = room(Bytes(size), 2000) as usize;
            for references in [1, room / 2, room].into_iter().filter(|&count| count > 0) {
                let text = page(size, references);
                assert_eq!(text.matches("<img src=").count(), references, "{size}");
                assert!(text.contains(&format!("<img src={}.gif>", 1000 + references - 1)));
            }
        }
        assert!(page(3000, 4).starts_with("<!doctype html>\n<html lang=en>"));
    }

    #[test]
    fn a_page_too_small_is_refused() {
        let tags = vec![reference("1.gif"); 3];
        let error = write("x", &tags, Bytes(40), Seed(1).rng(), &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn pages_deflate_about_threefold() {
        use flate2::{Compression, write::ZlibEncoder};
        let text = page(43_008, 42);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        let ratio = encoder.finish().unwrap().len() as f64 / text.len() as f64;
        assert!((0.27..0.40).contains(&ratio), "{ratio}");
    }
}
