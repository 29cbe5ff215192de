//! Decoded fields: one text and the lengths within it; how large a list of them may be.

/// Names and values in the order received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields {
    text: Vec<u8>,
    /// Length of the name, length of the value.
    spans: Vec<(u32, u32)>,
}

impl Fields {
    /// Appends a field.
    #[inline]
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        self.spans.push((name.len() as u32, value.len() as u32));
    }

    /// The fields as (name, value).
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.text[..];
        self.spans.iter().map(move |&(name, value)| {
            let (name, after) = rest.split_at(name as usize);
            let (value, after) = after.split_at(value as usize);
            rest = after;
            (name, value)
        })
    }

    /// Bytes of all names and values.
    #[inline]
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no fields.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Removes all fields and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
    }

    /// Gives back unused memory.
    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.spans.shrink_to_fit();
    }

    /// Bytes of memory held, used or not.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.spans.capacity() * size_of::<(u32, u32)>()
    }
}

/// Bounds on a decoded list.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of fields.
    pub fields: usize,
    /// Bytes of names and values, and 32 for each field (RFC 9113 section 6.5.2, RFC 9114 section 4.2.2).
    pub bytes: usize,
}

/// The extent of a decoded list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All fields are in the output.
    Whole,
    /// The list exceeds the bounds; the output holds only its beginning.
    Oversized,
}
