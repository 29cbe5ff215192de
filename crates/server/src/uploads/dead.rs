//! Dead properties (RFC 4918 section 4): what clients store beside a file, and Weir only keeps. They are XML in a note on the file
//! ([`runtime::fs::WriteFolder::note`]), so they move with it and are not among the files that readers can ask for.

use super::xml::{Property, escaped, parse, property, tag};
use core::fmt::Write as _;
use roxmltree::{NS_XML_URI, Node};

/// Most bytes of the properties of a file. ext4 stores little more than this.
pub(super) const DEAD_MAX: usize = 3 << 10;

/// A property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dead {
    pub(super) name: Property,
    /// Its element, with all declarations of namespaces except that of `D`.
    pub(super) element: String,
}

impl Dead {
    /// The property that an element is. Comments, processing instructions and prefixes are not kept (RFC 4918 section 4.3).
    pub(super) fn of(node: Node<'_, '_>) -> Dead {
        // The language is inherited (XML 1.0 section 2.12).
        let language = node
            .ancestors()
            .find_map(|node| node.attribute((NS_XML_URI, "lang")));
        let own = node.attribute((NS_XML_URI, "lang"));
        let mut element = String::new();
        write(&mut element, node, language.filter(|_| own.is_none()));
        Dead {
            name: property(&node),
            element,
        }
    }
}

/// The properties in a note. What is no such note has none: another program wrote it.
pub(super) fn read(note: &[u8]) -> Vec<Dead> {
    if note.is_empty() {
        return Vec::new();
    }
    let Ok(document) = parse(note) else {
        return Vec::new();
    };
    let elements = document.root_element().children().filter(Node::is_element);
    elements.map(Dead::of).collect()
}

/// The note after changes, in their order; a property without an element is removed. `None`: it would be too long, or have more
/// elements than can be read.
pub(super) fn changed<'c>(
    note: &[u8],
    changes: impl Iterator<Item = (&'c Property, Option<&'c Dead>)>,
) -> Option<Vec<u8>> {
    let mut all = read(note);
    for (name, dead) in changes {
        all.retain(|known| known.name != *name);
        all.extend(dead.cloned());
    }
    let note = written(&all);
    (note.len() <= DEAD_MAX && read(&note) == all).then_some(note)
}

fn written(all: &[Dead]) -> Vec<u8> {
    if all.is_empty() {
        return Vec::new();
    }
    let elements: String = all.iter().map(|dead| dead.element.as_str()).collect();
    format!("<p xmlns:D=\"DAV:\">{elements}</p>").into_bytes()
}

/// Appends an element, up to a length that is too long for a note.
fn write(out: &mut String, node: Node<'_, '_>, language: Option<&str>) {
    if out.len() > DEAD_MAX {
        return;
    }
    let (opening, closing) = tag(&property(&node));
    let _ = write!(out, "<{opening}");
    for (at, attribute) in node.attributes().enumerate() {
        let (name, value) = (attribute.name(), escaped(attribute.value()));
        let _ = match attribute.namespace() {
            None => write!(out, " {name}=\"{value}\""),
            Some(NS_XML_URI) => write!(out, " xml:{name}=\"{value}\""),
            Some(space) => write!(
                out,
                " xmlns:a{at}=\"{}\" a{at}:{name}=\"{value}\"",
                escaped(space)
            ),
        };
    }
    if let Some(language) = language {
        let _ = write!(out, " xml:lang=\"{}\"", escaped(language));
    }
    out.push('>');
    for child in node.children() {
        if child.is_element() {
            write(out, child, None);
        } else if child.is_text() {
            out.push_str(&escaped(child.text().unwrap_or_default()));
        }
    }
    let _ = write!(out, "</{closing}>");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first property in a document.
    fn dead(inner: &str) -> Dead {
        let text = format!("<p xmlns:D='DAV:' xmlns:o='urn:outer' xml:lang='de'>{inner}</p>");
        let document = parse(text.as_bytes()).unwrap();
        let element = document.root_element().first_element_child();
        Dead::of(element.unwrap())
    }

    fn set(note: &[u8], dead: &Dead) -> Option<Vec<u8>> {
        changed(note, [(&dead.name, Some(dead))].into_iter())
    }

    #[test]
    fn elements_need_nothing_around_them() {
        for (text, expected) in [
            ("<o:a/>", "<x:a xmlns:x=\"urn:outer\" xml:lang=\"de\"></x:a>"),
            (
                "<a xml:lang='en'>&lt;<!-- no -->b</a>",
                "<a xml:lang=\"en\">&lt;b</a>",
            ),
            (
                "<a xmlns='u' b='\"' o:c='d'><D:href xml:lang='en'>h<i/></D:href></a>",
                "<x:a xmlns:x=\"u\" b=\"&quot;\" xmlns:a1=\"urn:outer\" a1:c=\"d\" xml:lang=\"de\">\
                 <D:href xml:lang=\"en\">h<x:i xmlns:x=\"u\"></x:i></D:href></x:a>",
            ),
            ("<a>b<![CDATA[<]]></a>", "<a xml:lang=\"de\">b&lt;</a>"),
        ] {
            let found = dead(text);
            assert_eq!(found.element, expected);
            let note = set(b"", &found).unwrap();
            assert_eq!(read(&note), [found], "as it was");
        }
    }

    #[test]
    fn changes_are_made_in_their_order() {
        let (one, other, again) = (dead("<a>1</a>"), dead("<o:a>2</o:a>"), dead("<a>3</a>"));
        let note = [&one, &other, &again]
            .into_iter()
            .fold(Vec::new(), |note, dead| set(&note, dead).unwrap());
        assert_eq!(read(&note), [other.clone(), again.clone()]);
        let changes = [(&one.name, None), (&other.name, None), (&one.name, Some(&one))];
        let note = changed(&note, changes.into_iter()).unwrap();
        assert_eq!(read(&note), std::slice::from_ref(&one));
        assert_eq!(changed(&note, [(&one.name, None)].into_iter()), Some(Vec::new()));
        // What another program has written is replaced.
        for foreign in ["no XML", "<p", "<!DOCTYPE p [<!ENTITY b 'c'>]><p><a>&b;</a></p>"] {
            assert!(read(foreign.as_bytes()).is_empty());
            assert_eq!(set(foreign.as_bytes(), &one), Some(note.clone()));
        }
    }

    #[test]
    fn notes_are_bounded() {
        let of = |length: usize| dead(&format!("<a>{}</a>", "x".repeat(length)));
        let least = set(b"", &of(0)).unwrap().len();
        assert_eq!(set(b"", &of(DEAD_MAX - least)).unwrap().len(), DEAD_MAX);
        assert_eq!(set(b"", &of(DEAD_MAX - least + 1)), None);
        // So many elements could not be read.
        let wide = dead(&format!("<a>{}</a>", "<b/>x".repeat(150)));
        let note = set(b"", &wide).unwrap();
        let more = dead(&format!("<c>{}</c>", "<b/>x".repeat(110)));
        assert!(note.len() + more.element.len() <= DEAD_MAX);
        assert_eq!(set(&note, &more), None);
        // A namespace is written for each element that has it.
        let inner = "<o:b/>".repeat(400);
        let long = format!("<o:a xmlns:o='{}'>{inner}</o:a>", "u".repeat(DEAD_MAX));
        assert!(dead(&long).element.len() < 4 * DEAD_MAX);
        assert_eq!(set(b"", &dead(&long)), None);
    }
}
