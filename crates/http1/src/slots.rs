//! Room for the field lines of one head, which the tokenizer fills.

use core::mem::MaybeUninit;
use http_semantics::field::{Line, MAX_FIELDS};

/// Room on the caller's stack for the field lines of one head. Making it costs nothing: the slots
/// stay uninitialized until the tokenizer fills them.
#[derive(Debug)]
pub struct Slots<'b> {
    pub(crate) headers: [MaybeUninit<Line<'b>>; MAX_FIELDS],
    /// For a second reading, where the first was given up.
    pub(crate) again: [MaybeUninit<Line<'b>>; MAX_FIELDS],
}

impl Slots<'_> {
    /// Empty slots.
    #[inline]
    #[expect(
        clippy::new_without_default,
        reason = "a default would hide that these live on the stack"
    )]
    pub const fn new() -> Self {
        Slots {
            headers: [const { MaybeUninit::uninit() }; MAX_FIELDS],
            again: [const { MaybeUninit::uninit() }; MAX_FIELDS],
        }
    }
}
