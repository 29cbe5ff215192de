//! Stack space for the field lines of one head.

use core::mem::MaybeUninit;
use http_semantics::field::{Line, MAX_FIELDS, MAX_LINES};

/// Space on the caller's stack for the field lines of one head. Creating it costs nothing: the slots stay
/// uninitialized until the tokenizer fills them.
#[derive(Debug)]
pub struct Slots<'b> {
    pub(crate) headers: [MaybeUninit<Line<'b>>; MAX_LINES],
    /// For a second parse after the first was abandoned, of a peer's head.
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
            headers: [const { MaybeUninit::uninit() }; MAX_LINES],
            again: [const { MaybeUninit::uninit() }; MAX_FIELDS],
        }
    }
}
