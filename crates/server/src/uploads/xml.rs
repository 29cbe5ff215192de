//! XML of requests and replies: what is read is bounded, and what is written is escaped.

use super::reply::Reply;
use core::fmt::Write as _;
use roxmltree::{Document, NS_XML_URI, Node, ParsingOptions};

/// Most bytes of a body with XML.
pub(super) const BODY_MAX: usize = 64 << 10;

/// Most elements and texts in it. The parser calls itself for each level.
pub(super) const NODES_MAX: u32 = 500;

/// Most bytes of the names of the properties in a request, each with its namespace. Replies repeat them for each file.
pub(super) const NAMES_MAX: usize = BODY_MAX;

/// The namespace of WebDAV.
pub(super) const DAV: &str = "DAV:";

/// How documents begin.
pub(super) const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";

/// The name of a property: namespace and local name.
pub(super) type Property = (String, String);

/// Text in XML. Characters that XML cannot have become U+FFFD.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The opening tag of an element, without its brackets, and the name for its closing tag. The prefixes `D` and `xml` are
/// bound.
pub(super) fn tag((space, name): &Property) -> (String, String) {
    let prefixed = |prefix: &str| format!("{prefix}:{name}");
    match &**space {
        DAV => (prefixed("D"), prefixed("D")),
        NS_XML_URI => (prefixed("xml"), prefixed("xml")),
        "" => (name.clone(), name.clone()),
        space => {
            let name = prefixed("x");
            (format!("{name} xmlns:x=\"{}\"", escaped(space)), name)
        }
    }
}

/// The document in a body.
///
/// # Errors
/// 400 if it is no XML, or has a document type, a namespace without a name, or more than [`NODES_MAX`] nodes.
pub(super) fn parse(body: &[u8]) -> Result<Document<'_>, Reply> {
    let wrong = |why: String| Reply::error(400, format!("The body is not XML that can be read: {why}."));
    let text = core::str::from_utf8(body).map_err(|error| wrong(error.to_string()))?;
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: NODES_MAX,
    };
    let document = Document::parse_with_options(text, options).map_err(|error| wrong(error.to_string()))?;
    // Namespaces in XML 1.0 section 6.2: a prefix is not declared away.
    let is_undeclared = |node: Node<'_, '_>| {
        node.namespaces()
            .any(|one| one.name().is_some() && one.uri().is_empty())
    };
    match document.descendants().any(is_undeclared) {
        true => Err(wrong("a namespace has no name".to_owned())),
        false => Ok(document),
    }
}

pub(super) fn is_dav(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.has_tag_name((DAV, name))
}

/// The name of an element.
pub(super) fn property(node: &Node<'_, '_>) -> Property {
    let name = node.tag_name();
    (
        name.namespace().unwrap_or_default().to_owned(),
        name.name().to_owned(),
    )
}

/// Refuses too many names of properties, or too long ones.
///
/// # Errors
/// 413 for more than [`NAMES_MAX`] bytes.
pub(super) fn bounded<'p>(properties: impl Iterator<Item = &'p Property>) -> Result<(), Reply> {
    let bytes: usize = properties.map(|(space, name)| space.len() + name.len()).sum();
    match bytes <= NAMES_MAX {
        true => Ok(()),
        false => Err(Reply::error(
            413,
            format!(
                "The names of the properties, each with its namespace, have more than {NAMES_MAX} bytes."
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a<b>&\"\u{1}\né"), "a&lt;b&gt;&amp;&quot;\u{fffd}&#10;é");
    }

    #[test]
    fn names_are_bounded() {
        let name = |length: usize| ("u".repeat(length - 1), "a".to_owned());
        assert!(bounded([name(NAMES_MAX - 3), name(3)].iter()).is_ok());
        assert_eq!(
            bounded([name(NAMES_MAX - 3), name(4)].iter()).unwrap_err().status,
            413
        );
    }

    #[test]
    fn tags_need_no_declarations_around_them() {
        let tag = |space: &str| tag(&(space.to_owned(), "a".to_owned()));
        for (space, opening, closing) in [
            ("DAV:", "D:a", "D:a"),
            ("", "a", "a"),
            (NS_XML_URI, "xml:a", "xml:a"),
            ("u:\"", "x:a xmlns:x=\"u:&quot;\"", "x:a"),
        ] {
            assert_eq!(tag(space), (opening.to_owned(), closing.to_owned()));
        }
    }
}
