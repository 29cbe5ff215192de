//! What becomes of a directive.

/// What became of a directive. The text of a variant is a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It limits access, and the result does not: the operator must act before the site is public.
    Open(String),
    /// It is not in the result.
    Missing(String),
    /// It is in the result, and Weir behaves differently in the way that the text says.
    Changed(String),
    /// Weir needs no line for it.
    Unneeded(String),
    /// It is in the result.
    Carried,
}

impl Fate {
    /// A word for it, as reports and JSON use.
    pub fn word(&self) -> &'static str {
        match self {
            Fate::Open(_) => "open",
            Fate::Missing(_) => "missing",
            Fate::Changed(_) => "changed",
            Fate::Unneeded(_) => "unneeded",
            Fate::Carried => "carried",
        }
    }

    /// The reason; empty for a carried directive.
    pub fn why(&self) -> &str {
        match self {
            Fate::Open(why) | Fate::Missing(why) | Fate::Changed(why) | Fate::Unneeded(why) => why,
            Fate::Carried => "",
        }
    }

    /// [`Fate::Missing`].
    pub(crate) fn missing(why: impl Into<String>) -> Fate {
        Fate::Missing(why.into())
    }

    /// [`Fate::Open`].
    pub(crate) fn open(why: impl Into<String>) -> Fate {
        Fate::Open(why.into())
    }

    /// [`Fate::Changed`].
    pub(crate) fn changed(why: impl Into<String>) -> Fate {
        Fate::Changed(why.into())
    }

    /// [`Fate::Unneeded`].
    pub(crate) fn unneeded(why: impl Into<String>) -> Fate {
        Fate::Unneeded(why.into())
    }
}
