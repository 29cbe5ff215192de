//! A directive, as every dialect has them: a name, arguments, and perhaps a block.

use crate::fate::Fate;
use crate::report::{At, Report};

/// A directive.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) at: At,
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
    pub(crate) block: Option<Vec<Directive>>,
}

impl Directive {
    /// The directive without its block, as reports show it.
    pub(crate) fn shown(&self) -> String {
        [std::slice::from_ref(&self.name), &self.args].concat().join(" ")
    }

    /// The argument at this index; empty if there is none.
    pub(crate) fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", |arg| arg)
    }

    /// The directives of the block.
    pub(crate) fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Reports the directive and all in it with one fate.
    pub(crate) fn note_all(&self, fate: &Fate, report: &mut Report) {
        report.add(&self.at, &self.shown(), fate.clone());
        for inner in self.inner() {
            inner.note_all(fate, report);
        }
    }
}
