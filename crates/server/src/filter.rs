//! Filters between an entity and the wire, in order: those of the configuration, then those a program adds
//! that uses this library.
//!
//! ```text
//!  file or listing ──▶ header rules ──▶ added filters ──▶ codings, each once ──▶ kept ──▶ wire
//!                                                              └──▶ references of a page (hinted, structured)
//!                                                                        each answer ──┘ filters that ask for it
//! ```
//! A filter acts when an entry is made, so a request that is answered from memory knows nothing of filters.
//! Decides what a filter may change. Refuses to know where entities come from, and what is kept.

use crate::config::{FieldLine, HeaderRule};
use crate::handler::Ask;
use crate::site::path;
use bytes::Bytes;
use core::fmt;
use std::sync::Arc;

/// Changes what is sent. Called by several threads at once, and on event loops: it must not wait.
pub trait Filter: Send + Sync + fmt::Debug {
    /// Changes what answers a path. Called when its entry is made: once for as long as it is kept, for each
    /// request if it cannot be.
    fn entity(&self, entity: &mut Entity<'_>);

    /// Whether [`Entity::content`] is wanted of what has this path and this media type (without parameters).
    /// Up to [`Entity::CONTENT_MAX`] it is then read into memory.
    fn wants_content(&self, _path: &[u8], _media_type: &str) -> bool {
        false
    }

    /// Whether [`Filter::answer`] is to be called for each answer. That has a price: a head that was met before
    /// is no longer answered without being looked at.
    fn is_for_each_answer(&self) -> bool {
        false
    }

    /// Adds field lines to an answer, whatever it is: an error too, and what a handler makes.
    fn answer(&self, _ask: &Ask<'_>, _fields: &mut Added) {}
}

/// What answers a path, before it is encoded: its field lines, and its content if that was wanted.
#[derive(Debug)]
pub struct Entity<'e> {
    path: &'e [u8],
    file: &'e [u8],
    media_type: &'e str,
    len: u64,
    general: &'e [(String, String)],
    /// In place of `general`.
    fields: Option<Vec<(String, String)>>,
    content: Option<Bytes>,
    is_replaced: bool,
}

impl<'e> Entity<'e> {
    /// The most bytes of content a filter is given.
    pub const CONTENT_MAX: u64 = 1 << 20;

    /// `general` are the field lines everything has.
    pub(crate) fn new(
        (path, file): (&'e [u8], &'e [u8]),
        media_type: &'e str,
        len: u64,
        general: &'e [(String, String)],
        content: Option<Bytes>,
    ) -> Entity<'e> {
        Entity {
            path,
            file,
            media_type,
            len,
            general,
            fields: None,
            content,
            is_replaced: false,
        }
    }

    /// The path that is answered: decoded, without dot segments.
    pub fn path(&self) -> &[u8] {
        self.path
    }

    /// The path of the file that answers it: an index, say.
    pub fn file(&self) -> &[u8] {
        self.file
    }

    /// The media type without parameters.
    pub fn media_type(&self) -> &str {
        self.media_type
    }

    /// The length of the content in bytes.
    pub fn content_len(&self) -> u64 {
        self.len
    }

    /// The content, as the filters before left it. `None` if no filter wanted it, or it is longer than
    /// [`Entity::CONTENT_MAX`].
    pub fn content(&self) -> Option<&[u8]> {
        self.content.as_deref()
    }

    /// Puts other content in its place. It gets a tag of its own, and files beside it that hold the old one in
    /// some coding are no longer served; it is encoded anew like any other.
    pub fn set_content(&mut self, content: impl Into<Bytes>) {
        let content = content.into();
        self.len = content.len() as u64;
        self.content = Some(content);
        self.is_replaced = true;
    }

    /// The field lines it will have beside those the server computes.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.fields.as_deref().unwrap_or(self.general);
        fields.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Adds a field line, beside others of its name.
    pub fn add_field(&mut self, line: &FieldLine) {
        let fields = self.fields.get_or_insert_with(|| self.general.to_vec());
        fields.push((line.name().to_owned(), line.value().to_owned()));
    }

    /// Removes the field lines of this name.
    pub fn remove_field(&mut self, name: &str) {
        if self.fields().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            let fields = self.fields.get_or_insert_with(|| self.general.to_vec());
            fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        }
    }

    /// Adds a field line in the place of all others of its name.
    pub fn set_field(&mut self, line: &FieldLine) {
        self.remove_field(line.name());
        self.add_field(line);
    }
}

/// What came of an entity.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Filtered {
    /// Field lines, if they are not those everything has.
    pub(crate) fields: Option<Vec<(String, String)>>,
    /// Content, if it is another.
    pub(crate) content: Option<Bytes>,
}

impl From<Entity<'_>> for Filtered {
    fn from(entity: Entity<'_>) -> Filtered {
        Filtered {
            fields: entity.fields,
            content: entity.content.filter(|_| entity.is_replaced),
        }
    }
}

/// Field lines for one answer.
#[derive(Debug, Default)]
pub struct Added(Vec<u8>);

impl Added {
    /// Adds one.
    pub fn add_field(&mut self, line: &FieldLine) {
        crate::site::write_line(&mut self.0, line.name(), line.value().as_bytes());
    }

    pub(crate) fn lines(&self) -> &[u8] {
        &self.0
    }
}

/// Filters in order. Clones are the same filters.
#[derive(Clone, Debug, Default)]
pub struct Filters(Vec<Arc<dyn Filter>>);

impl Filters {
    /// The rules of a configuration, then these.
    pub(crate) fn of(rules: Vec<HeaderRule>, added: &[Arc<dyn Filter>]) -> Filters {
        let own = (!rules.is_empty()).then(|| Arc::new(HeaderRules(rules)) as Arc<dyn Filter>);
        Filters(own.into_iter().chain(added.iter().map(Arc::clone)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn want_content(&self, path: &[u8], media_type: &str) -> bool {
        self.0.iter().any(|filter| filter.wants_content(path, media_type))
    }

    pub(crate) fn pass(&self, mut entity: Entity<'_>) -> Filtered {
        for filter in &self.0 {
            filter.entity(&mut entity);
        }
        entity.into()
    }

    /// Those that are for each answer.
    pub(crate) fn for_each_answer(added: &[Arc<dyn Filter>]) -> Vec<Arc<dyn Filter>> {
        let each = added.iter().filter(|filter| filter.is_for_each_answer());
        each.map(Arc::clone).collect()
    }
}

/// The table `[[header-rule]]`: field lines for some paths.
#[derive(Debug)]
struct HeaderRules(Vec<HeaderRule>);

impl Filter for HeaderRules {
    /// A later line of a name takes the place of an earlier one.
    fn entity(&self, entity: &mut Entity<'_>) {
        let [asked, file] = [entity.path, entity.file].map(|decoded| {
            let mut spelled = Vec::new();
            path::encode(decoded, &mut spelled);
            spelled
        });
        for rule in &self.0 {
            if rule.path.matches(&asked) || rule.path.matches(&file) {
                rule.header
                    .iter()
                    .for_each(|line| entity.remove_field(line.name()));
                rule.header.iter().for_each(|line| entity.add_field(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Shout;

    impl Filter for Shout {
        fn entity(&self, entity: &mut Entity<'_>) {
            if let Some(content) = entity.content() {
                entity.set_content(content.to_ascii_uppercase());
            }
        }
    }

    #[derive(Debug)]
    struct Name(&'static str);

    impl Filter for Name {
        fn entity(&self, entity: &mut Entity<'_>) {
            entity.set_field(&self.0.parse().unwrap());
            if let Some(content) = entity.content() {
                entity.set_content([content, b"!"].concat());
            }
        }
    }

    fn entity(general: &[(String, String)]) -> Entity<'_> {
        let content = Some(Bytes::from_static(b"text"));
        Entity::new((b"/", b"/index.html"), "text/html", 4, general, content)
    }

    #[test]
    fn filters_act_in_their_order() {
        let general = [("X-A".to_owned(), "general".to_owned())];
        let rule: HeaderRule =
            toml::from_str("path = '*.html'\nheader = ['x-a: rule', 'X-B: rule']").unwrap();
        let filters = Filters::of(
            vec![rule],
            &[
                Arc::new(Name("X-B: added")),
                Arc::new(Shout),
                Arc::new(Name("X-C: c")),
            ],
        );
        let filtered = filters.pass(entity(&general));
        let fields: Vec<String> = filtered
            .fields
            .unwrap()
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(fields, ["x-a: rule", "X-B: added", "X-C: c"]);
        assert_eq!(filtered.content.unwrap(), "TEXT!!");
    }

    #[test]
    fn a_rule_sees_every_spelling_of_a_path() {
        for (rule, applies) in [
            ("/a%20b/*", true),
            ("/%61%20b/it's.css", true),
            ("/a%20b/it%27s.css", true),
            ("/a%2520b/*", false),
        ] {
            let text = format!("path = \"{rule}\"\nheader = ['X-B: rule']");
            let filters = Filters::of(vec![toml::from_str(&text).unwrap()], &[]);
            let path = &b"/a b/it's.css"[..];
            let filtered = filters.pass(Entity::new((path, path), "text/css", 1, &[], None));
            assert_eq!(filtered.fields.is_some(), applies, "{rule}");
        }
    }

    #[test]
    fn what_nobody_changes_is_as_it_was() {
        let general = [("X-A".to_owned(), "general".to_owned())];
        let rule: HeaderRule = toml::from_str("path = '*.css'\nheader = ['X-B: rule']").unwrap();
        for filters in [Filters::default(), Filters::of(vec![rule], &[])] {
            let filtered = filters.pass(entity(&general));
            assert_eq!(
                filtered,
                Filtered {
                    fields: None,
                    content: None
                }
            );
        }
        let mut unchanged = entity(&general);
        unchanged.remove_field("X-None");
        assert_eq!(Filtered::from(unchanged).fields, None);
    }
}
