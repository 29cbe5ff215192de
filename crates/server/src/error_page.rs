//! The built-in error page: small, readable in light and dark mode, and made without allocation, so that floods of
//! errors cost no more than cache hits.
//!
//! The page contains no text from the client.

use http_semantics::status::{Status, reason};

/// A page for a status, with a sentence about the cause.
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
const BEFORE_STYLE: &str = "</title>\n<style>";
/// The style of the page, which content security policies name by its hash.
pub(crate) const STYLE: &str = "body{font:1.1em/1.5 system-ui,sans-serif;max-width:34em;\
    margin:18vh auto;padding:0 1em}h1{font-size:1.5em}";
const BEFORE_HEADING: &str = "</style>\n<h1>";
const BEFORE_DETAIL: &str = "</h1>\n<p>";
const END: &str = "</p>\n</html>\n";

impl ErrorPage {
    /// The page for a status.
    pub fn new(status: Status) -> ErrorPage {
        let detail = match status.as_u16() {
            301 | 302 | 303 | 307 | 308 => "This page is at another address.",
            400 => "The request could not be understood.",
            401 => "This page needs a user name and a password.",
            403 => "You do not have permission to read this page.",
            404 => "There is no page at this address.",
            405 => "This server only sends files: it answers GET, HEAD and OPTIONS.",
            406 => "This page is not available in a content coding that your browser accepts.",
            408 => "The request did not arrive in time.",
            410 => "This page is gone for good.",
            412 => "The page does not meet the conditions of the request.",
            413 => "The request is larger than this server accepts.",
            416 => "The page does not have the requested range.",
            417 => "This server does not support what the request expects.",
            429 => "Too many requests came from your address. Please slow down.",
            451 => "This page is not available, for legal reasons.",
            501 => "This server does not support the request's method.",
            503 => "The server cannot answer at the moment. Please try again later.",
            _ => "",
        };
        ErrorPage { status, detail }
    }

    /// The page for an invalid request. `detail` is a clause that names the fault.
    pub fn because(status: Status, detail: &'static str) -> ErrorPage {
        ErrorPage { status, detail }
    }

    fn pieces(&self) -> [&'static str; 14] {
        let code = status_text(self.status);
        let reason = reason(self.status);
        let detail = match self.detail {
            "" => reason,
            detail => detail,
        };
        // The text of a fault is a clause; the page makes it a sentence.
        let (opening, closing) = match detail.ends_with('.') {
            true => ("", ""),
            false => ("The request was rejected: ", "."),
        };
        [
            BEFORE_TITLE,
            code,
            " ",
            reason,
            BEFORE_STYLE,
            STYLE,
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

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|p| p.len()).sum::<usize>() + END.len()
    }

    /// Always false.
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

/// The digits of the statuses that this server sends.
fn status_text(status: Status) -> &'static str {
    match status.as_u16() {
        301 => "301",
        302 => "302",
        303 => "303",
        307 => "307",
        308 => "308",
        400 => "400",
        401 => "401",
        403 => "403",
        404 => "404",
        405 => "405",
        406 => "406",
        408 => "408",
        410 => "410",
        412 => "412",
        413 => "413",
        414 => "414",
        416 => "416",
        417 => "417",
        429 => "429",
        431 => "431",
        451 => "451",
        501 => "501",
        502 => "502",
        503 => "503",
        504 => "504",
        505 => "505",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::Fault;

    fn of_fault(fault: Fault) -> ErrorPage {
        ErrorPage::because(fault.status(), fault.text())
    }

    #[test]
    fn the_length_is_the_length_and_every_sentence_ends() {
        let by_status = (300..600).map(|n| ErrorPage::new(Status::from_u16(n).unwrap()));
        for page in by_status.chain(Fault::all().map(of_fault)) {
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
    fn the_page_of_a_refusal_has_its_status_and_a_sentence() {
        for (status, title, sentence) in [
            (
                410,
                "<title>410 Gone</title>",
                "<p>This page is gone for good.</p>",
            ),
            (
                451,
                "<title>451 Unavailable For Legal Reasons</title>",
                "<p>This page is not available, for legal reasons.</p>",
            ),
        ] {
            let mut out = Vec::new();
            ErrorPage::new(Status::from_u16(status).unwrap()).write(&mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(title) && text.contains(sentence), "{text}");
        }
    }

    #[test]
    fn a_page_names_its_status_and_the_fault() {
        let mut out = Vec::new();
        of_fault(Fault::HostMissing).write(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("<title>400 Bad Request</title>"), "{text}");
        assert!(
            text.contains("<p>The request was rejected: the Host field is missing.</p>"),
            "{text}"
        );
    }
}
