//! What a recording keeps of a fetch: the bodies of all complete responses, and the references to other origins, which a
//! fetch does not follow.
//!
//! Memory is bounded by the bytes that the fetch may receive, and by the number of its objects.

use super::page::Named;
use crate::timeline::{Initiator, Role};
use markup::Loading;
use url::Url;

/// What was kept.
#[derive(Debug, Default)]
pub struct Tape {
    /// The responses in the order of their ends.
    pub responses: Vec<Taped>,
    /// References to other origins, each once, in the order found.
    pub elsewhere: Vec<Reference>,
    /// Number of further references to other origins.
    pub left_out: u64,
    /// Bytes received, with all framing.
    pub received: u64,
}

/// A complete response.
#[derive(Debug)]
pub struct Taped {
    /// Index of its object.
    pub object: usize,
    /// Index of its request among the tries of the object.
    pub one: usize,
    /// Its body as received, without framing.
    pub body: Vec<u8>,
}

/// A reference to an object.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The URL, without a fragment.
    pub url: Url,
    role: Role,
    loading: Loading,
    initiator: Initiator,
}

impl Reference {
    /// The reference to a page, by its user.
    pub fn to_page(mut url: Url) -> Reference {
        url.set_fragment(None);
        Reference {
            url,
            role: Role::Page,
            loading: Loading::default(),
            initiator: Initiator::User,
        }
    }

    /// A reference that a page has.
    pub(super) fn of(url: Url, role: Role, loading: Loading, initiator: Initiator) -> Reference {
        Reference {
            url,
            role,
            loading,
            initiator,
        }
    }

    /// The same, as a page names it.
    pub(super) fn named(self) -> Named {
        Named {
            url: self.url,
            role: self.role,
            loading: self.loading,
            initiator: self.initiator,
            redirects: 0,
        }
    }
}

impl Tape {
    /// Keeps a reference to another origin, unless it is known, one too many, or of another scheme.
    pub(super) fn keep(&mut self, reference: Reference, most: usize) {
        let is_known = |known: &Reference| known.url == reference.url;
        if !matches!(reference.url.scheme(), "http" | "https") || self.elsewhere.iter().any(is_known) {
            return;
        }
        match self.elsewhere.len() < most {
            true => self.elsewhere.push(reference),
            false => self.left_out += 1,
        }
    }
}
