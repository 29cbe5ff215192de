//! Replies of a part of this process, before they are written.

use std::fs::File;

/// A reply. As an error, it ends a request early.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) content: Content,
}

/// What follows the head.
#[derive(Debug)]
pub(crate) enum Content {
    Nothing,
    /// Text of this media type.
    Text(&'static str, String),
    /// This many bytes of a file, from where it is read next, with their media type.
    File(File, u64, String),
}

impl Reply {
    /// A reply without content.
    pub(crate) fn of(status: u16) -> Reply {
        Reply {
            status,
            fields: Vec::new(),
            content: Content::Nothing,
        }
    }

    /// An error, explained in a sentence.
    pub(crate) fn error(status: u16, why: impl Into<String>) -> Reply {
        let mut why = why.into();
        why.push('\n');
        Reply {
            content: Content::Text("text/plain; charset=utf-8", why),
            ..Reply::of(status)
        }
    }

    /// The same reply with a further field line.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Reply {
        self.fields.push((name, value.into()));
        self
    }
}
