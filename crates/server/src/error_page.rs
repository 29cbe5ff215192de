//! The page for an error where the site has none of its own: small, readable in light and dark, and
//! made without allocating, so that answering floods of errors costs no more than answering hits.
//!
//! Nothing a client sent appears in it.

use http_semantics::status::{Status, reason};

/// A page for a status, with a sentence that says what was wrong where more is known.
#[derive(Clone, Copy, Debug)]
pub struct ErrorPage {
    status: Status,
    detail: &'static str,
}

/// `Content-Type` of the page.
pub const MEDIA_TYPE: &str = "text/html; charset=utf-8";

const BEFORE_TITLE: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<title>";
const BEFORE_HEADING: &str = "</title>\n<style>body{font:1.1em/1.5 system-ui,sans-serif;max-width:34em;\
    margin:18vh auto;padding:0 1em}h1{font-size:1.5em}</style>\n<h1>";
const BEFORE_DETAIL: &str = "</h1>\n<p>";
const END: &str = "</p>\n</html>\n";

impl ErrorPage {
    /// The page of a status.
    pub fn new(status: Status) -> ErrorPage {
        let detail = match status.as_u16() {
            301 | 302 | 303 | 307 | 308 => "This page is at another address.",
            400 => "The request could not be understood.",
            403 => "This page may not be read.",
            404 => "There is no page at this address.",
            405 => "This server only sends files: it knows GET, HEAD and OPTIONS.",
            406 => "This page does not exist in a coding your program accepts.",
            408 => "The request did not arrive in time.",
            412 => "The page is not in the state your program expected.",
            413 => "The request carries more than this server takes.",
            416 => "The page has no such part.",
            417 => "The request expects something this server does not do.",
            429 => "Your address asks for more than this server gives one. Please slow down.",
            501 => "This server does not know the request's method.",
            503 => "The server is short of resources at this moment. Please try again.",
            _ => "",
        };
        ErrorPage { status, detail }
    }

    /// The page of a fault: the same, with the fault named.
    pub fn of_fault(fault: http1::Fault) -> ErrorPage {
        ErrorPage {
            status: fault.status(),
            detail: fault.text(),
        }
    }

    fn pieces(&self) -> [&'static str; 12] {
        let code = status_text(self.status);
        let reason = reason(self.status);
        let detail = match self.detail {
            "" => reason,
            detail => detail,
        };
        // A fault's text is a clause; the page makes it a sentence.
        let (opening, closing) = match detail.ends_with('.') {
            true => ("", ""),
            false => ("The request was refused: ", "."),
        };
        [
            BEFORE_TITLE,
            code,
            " ",
            reason,
            BEFORE_HEADING,
            code,
            " ",
            reason,
            BEFORE_DETAIL,
            opening,
            detail,
            closing,
        ]
    }

    /// Length of the page in bytes.
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|p| p.len()).sum::<usize>() + END.len()
    }

    /// Whether the page is empty: never.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends the page.
    pub fn write(&self, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            out.extend_from_slice(piece.as_bytes());
        }
        out.extend_from_slice(END.as_bytes());
    }
}

/// The code in digits, for the statuses this server sends.
fn status_text(status: Status) -> &'static str {
    match status.as_u16() {
        301 => "301",
        302 => "302",
        303 => "303",
        307 => "307",
        308 => "308",
        400 => "400",
        403 => "403",
        404 => "404",
        405 => "405",
        406 => "406",
        408 => "408",
        412 => "412",
        413 => "413",
        414 => "414",
        416 => "416",
        417 => "417",
        429 => "429",
        431 => "431",
        501 => "501",
        503 => "503",
        505 => "505",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::Fault;

    #[test]
    fn the_length_is_the_length_and_every_sentence_ends() {
        let by_status = (300..600).map(|n| ErrorPage::new(Status::from_u16(n).unwrap()));
        for page in by_status.chain(Fault::all().map(ErrorPage::of_fault)) {
            let mut out = Vec::new();
            page.write(&mut out);
            assert_eq!(out.len(), page.len());
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(reason(page.status)) && text.len() < 700, "{text}");
        }
    }

    #[test]
    fn the_page_of_a_redirect_is_no_error() {
        for status in [301, 302, 303, 307, 308] {
            let mut out = Vec::new();
            ErrorPage::new(Status::from_u16(status).unwrap()).write(&mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(&format!("<title>{status} ")), "{text}");
        }
    }

    #[test]
    fn a_page_names_its_status_and_the_fault() {
        let mut out = Vec::new();
        ErrorPage::of_fault(Fault::HostMissing).write(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("<title>400 Bad Request</title>"), "{text}");
        assert!(
            text.contains("<p>The request was refused: the Host field is missing.</p>"),
            "{text}"
        );
    }
}
