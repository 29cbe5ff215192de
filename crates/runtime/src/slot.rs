//! How drivers name a connection: by its place in their table, and by which of the connections of that place it is.

/// A connection's slot and generation. Descriptors and slots are reused while events of their former owners may still
/// be in flight; the generation tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
