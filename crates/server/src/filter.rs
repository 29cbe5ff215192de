//! Filters change responses before they are cached and sent. First come the rules of the configuration, then the
//! filters that a program adds through this library.
//!
//! ```text
//!  file or listing ──▶ header rules ──▶ added filters ──▶ codings, each once ──▶ kept ──▶ wire
//!                                                              └──▶ references of a page (hinted, structured)
//!                                                                        each answer ──┘ filters that ask for it
//! ```
//! Filters run when an entry is made; requests answered from memory do not run them. This file decides what a filter
//! may change. It does not know where entities come from, or which are cached.

use crate::ask::Ask;
use crate::config::{FieldLine, HeaderRule};
use crate::field_list::FieldList;
use crate::path;
use bytes::Bytes;
use core::fmt;
use std::sync::Arc;

/// A filter of responses. Several threads call it at once, some of them event loops, so it must not block.
pub trait Filter: Send + Sync + fmt::Debug {
    /// Changes the entity of a path. Called when its cache entry is made, or for each request if the entity cannot be
    /// cached.
    fn entity(&self, entity: &mut Entity<'_>);

    /// Whether the filter needs [`Entity::content`] for this path and media type (without parameters). Content up to
    /// [`Entity::CONTENT_MAX`] is then read into memory.
    fn wants_content(&self, _path: &[u8], _media_type: &str) -> bool {
        false
    }

    /// Whether [`Filter::answer`] is called for each response. Its price: known request heads are no longer answered
    /// without parsing them.
    fn is_for_each_answer(&self) -> bool {
        false
    }

    /// Adds field lines to a response of any kind, including errors and those of handlers.
    fn answer(&self, _ask: &Ask<'_>, _fields: &mut Added) {}
}

/// The entity of a path before compression: its field lines, and its content if a filter needs it.
#[derive(Debug)]
pub struct Entity<'e> {
    path: &'e [u8],
    file: &'e [u8],
    media_type: &'e str,
    len: u64,
    general: &'e [(String, String)],
    /// Replaces `general`.
    fields: Option<Vec<(String, String)>>,
    content: Option<Bytes>,
    is_replaced: bool,
}

impl<'e> Entity<'e> {
    /// Largest content that filters receive, in bytes.
    pub const CONTENT_MAX: u64 = 1 << 20;

    /// `general` are the field lines of every entity.
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

    /// The path of the response, decoded and without dot segments.
    pub fn path(&self) -> &[u8] {
        self.path
    }

    /// The path of the file behind the response, for instance an index.
    pub fn file(&self) -> &[u8] {
        self.file
    }

    /// The media type without parameters.
    pub fn media_type(&self) -> &str {
        self.media_type
    }

    /// Length of the content in bytes.
    pub fn content_len(&self) -> u64 {
        self.len
    }

    /// The content as left by earlier filters. `None` if no filter needs it or it is longer than
    /// [`Entity::CONTENT_MAX`].
    pub fn content(&self) -> Option<&[u8]> {
        self.content.as_deref()
    }

    /// Replaces the content. The new content gets its own entity tag and is compressed like any other; precompressed
    /// siblings of the old content are no longer served.
    pub fn set_content(&mut self, content: impl Into<Bytes>) {
        let content = content.into();
        self.len = content.len() as u64;
        self.content = Some(content);
        self.is_replaced = true;
    }

    /// The field lines of the response, without those that the server computes.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.fields.as_deref().unwrap_or(self.general);
        fields.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Adds a field line and keeps others of the same name.
    pub fn add_field(&mut self, line: &FieldLine) {
        let fields = self.fields.get_or_insert_with(|| self.general.to_vec());
        fields.push((line.name().to_owned(), line.value().to_owned()));
    }

    /// Removes all field lines of this name.
    pub fn remove_field(&mut self, name: &str) {
        if self.fields().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            let fields = self.fields.get_or_insert_with(|| self.general.to_vec());
            fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        }
    }

    /// Adds a field line and removes others of the same name.
    pub fn set_field(&mut self, line: &FieldLine) {
        self.remove_field(line.name());
        self.add_field(line);
    }
}

/// The result of the filters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Filtered {
    /// Field lines, if they differ from the general ones.
    pub(crate) fields: Option<Vec<(String, String)>>,
    /// Content, if it was replaced.
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

/// Field lines to add to one response.
#[derive(Debug, Default)]
pub struct Added(Vec<u8>);

impl Added {
    /// Adds a field line.
    pub fn add_field(&mut self, line: &FieldLine) {
        crate::field_list::write_line(&mut self.0, line.name(), line.value().as_bytes());
    }

    pub(crate) fn list(&self) -> FieldList<'_> {
        FieldList::of(&self.0)
    }

    /// The text of the list, to append lines to.
    pub(crate) fn text_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// Filters in order. Clones share the same filters.
#[derive(Clone, Debug, Default)]
pub struct Filters(Vec<Arc<dyn Filter>>);

impl Filters {
    /// The rules of a configuration, followed by `added`.
    pub(crate) fn of(rules: Vec<HeaderRule>, added: &[Arc<dyn Filter>]) -> Filters {
        // Those with conditions are no matter of the path alone.
        let rules: Vec<HeaderRule> = rules
            .into_iter()
            .filter(|rule| rule.conditions.is_empty())
            .collect();
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

    /// The filters that run for each response.
    pub(crate) fn for_each_answer(added: &[Arc<dyn Filter>]) -> Vec<Arc<dyn Filter>> {
        let each = added.iter().filter(|filter| filter.is_for_each_answer());
        each.map(Arc::clone).collect()
    }
}

/// The table `[[header-rule]]`: field lines for certain paths.
#[derive(Debug)]
struct HeaderRules(Vec<HeaderRule>);

impl Filter for HeaderRules {
    /// Lines replace earlier ones of the same name, and the fields that a rule removes.
    fn entity(&self, entity: &mut Entity<'_>) {
        let [asked, file] = [entity.path, entity.file].map(|decoded| {
            let mut spelled = Vec::new();
            path::encode(decoded, &mut spelled);
            spelled
        });
        for rule in &self.0 {
            if rule.path.matches(&asked) || rule.path.matches(&file) {
                let added = rule.header.iter().map(FieldLine::name);
                added
                    .chain(rule.removed())
                    .for_each(|name| entity.remove_field(name));
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
    fn a_rule_removes_fields() {
        let general = ["X-A", "X-B"].map(|name| (name.to_owned(), "general".to_owned()));
        let rules = [
            "header = ['X-C: rule']\nremove = ['x-a']",
            "remove = ['X-B', 'X-C']",
            "path = '*.css'\nremove = ['X-D']",
            "header = ['X-B: later']",
        ];
        let rules = rules.map(|text| toml::from_str::<HeaderRule>(text).unwrap());
        let filtered = Filters::of(rules.into(), &[]).pass(entity(&general));
        assert_eq!(filtered.fields.unwrap(), [("X-B".to_owned(), "later".to_owned())]);
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
