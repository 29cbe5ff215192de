//! Lists of field lines, in the order in which they are sent.
//!
//! A list is stored as the text that HTTP/1 sends: `name: value` and CRLF for each line. HTTP/1 copies it; other
//! versions take names and values from it. Names are tokens and values contain no line breaks; whoever makes a line has
//! checked both.

/// Field lines, borrowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldList<'a>(&'a [u8]);

impl<'a> FieldList<'a> {
    /// The list with this text.
    #[inline]
    pub(crate) fn of(text: &'a [u8]) -> FieldList<'a> {
        FieldList(text)
    }

    /// The lines as HTTP/1 sends them, each with its CRLF.
    #[inline]
    pub fn text(self) -> &'a [u8] {
        self.0
    }

    /// Names, as they were written, and values.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.0.split_inclusive(|&b| b == b'\n').filter_map(|line| {
            let line = line.strip_suffix(b"\r\n")?;
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii_start()))
        })
    }

    /// Whether a line has this name.
    pub(crate) fn has(self, name: &str) -> bool {
        self.iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// Appends `name: value` and CRLF to the text of a list.
pub(crate) fn write_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Field lines, owned. Cleared and reused for one response after another, so that composing one allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldListBuf(Vec<u8>);

impl FieldListBuf {
    /// Removes all lines and keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The lines.
    #[inline]
    pub(crate) fn list(&self) -> FieldList<'_> {
        FieldList(&self.0)
    }

    /// Appends a line.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        write_line(&mut self.0, name, value);
    }

    /// Appends a line whose value `write` appends.
    pub(crate) fn add_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        write(&mut self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    /// Removes all lines of this name.
    pub(crate) fn remove(&mut self, name: &str) {
        if self.list().has(name) {
            let mut kept = Vec::with_capacity(self.0.len());
            for line in self.0.split_inclusive(|&b| b == b'\n') {
                if !FieldList(line).has(name) {
                    kept.extend_from_slice(line);
                }
            }
            self.0 = kept;
        }
    }

    /// Removes all lines whose names begin with this, in any case.
    pub(crate) fn remove_beginning(&mut self, prefix: &str) {
        let begins = |line: &[u8]| {
            line.get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let lines = self.0.split_inclusive(|&b| b == b'\n');
        let kept: Vec<&[u8]> = lines.filter(|line| !begins(line)).collect();
        self.0 = kept.concat();
    }

    /// Appends the lines of a list.
    #[inline]
    pub(crate) fn extend(&mut self, list: FieldList<'_>) {
        self.0.extend_from_slice(list.0);
    }

    /// The text of the list, to append lines to.
    pub(crate) fn text_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// Adds the missing ones of these members to the first line of this name, which holds a list of members without case. Returns
    /// false if there is no line of this name.
    pub(crate) fn add_members(&mut self, name: &str, members: &[&str]) -> bool {
        let list = self.list();
        let Some((_, value)) = list
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()))
        else {
            return false;
        };
        let is_missing = |member: &&&str| {
            let mut named = value.split(|&b| b == b',');
            !named.any(|one| one.trim_ascii().eq_ignore_ascii_case(member.as_bytes()))
        };
        let more: String = members
            .iter()
            .filter(is_missing)
            .flat_map(|member| [", ", *member])
            .collect();
        let end = value.as_ptr() as usize - self.0.as_ptr() as usize + value.len();
        self.0.splice(end..end, more.into_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(list: &FieldListBuf) -> String {
        String::from_utf8(list.list().text().to_vec()).unwrap()
    }

    #[test]
    fn lines_come_out_as_they_went_in() {
        let mut list = FieldListBuf::default();
        list.add("ETag", b"\"a:b\"");
        list.add_with("Vary", |out| out.extend_from_slice(b"Accept"));
        list.add("X", b"");
        let other = list.clone();
        list.extend(other.list());
        assert_eq!(&text(&list)[..29], "ETag: \"a:b\"\r\nVary: Accept\r\nX:");
        let lines: Vec<_> = list.list().iter().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0], (&b"ETag"[..], &b"\"a:b\""[..]));
        assert_eq!(lines[5], (&b"X"[..], &b""[..]));
        assert!(list.list().has("etag") && !list.list().has("a"));
        list.clear();
        assert_eq!(list.list().iter().count(), 0);
    }

    #[test]
    fn lines_are_removed_by_the_beginning_of_their_names() {
        let mut list = FieldListBuf::default();
        for name in ["A-B-C", "a", "a-b-", "X-A-B-C", "A-BC"] {
            list.add(name, b"a-b-c");
        }
        list.remove_beginning("a-b-");
        assert_eq!(text(&list), "a: a-b-c\r\nX-A-B-C: a-b-c\r\nA-BC: a-b-c\r\n");
        list.clear();
        list.remove_beginning("a-b-");
        assert_eq!(text(&list), "");
    }

    #[test]
    fn a_list_of_members_names_each_once() {
        for (before, after) in [
            ("Accept-Encoding", "Accept-Encoding, Accept, Sec-Fetch-Mode"),
            (
                "Accept, Accept-Encoding",
                "Accept, Accept-Encoding, Sec-Fetch-Mode",
            ),
            ("Sec-Fetch-Mode,Accept", "Sec-Fetch-Mode,Accept"),
            ("accept", "accept, Sec-Fetch-Mode"),
        ] {
            let mut list = FieldListBuf::default();
            list.add("A", b"b");
            list.add("Vary", before.as_bytes());
            list.add("C", b"d");
            assert!(list.add_members("Vary", &["Accept", "Sec-Fetch-Mode"]));
            assert_eq!(text(&list), format!("A: b\r\nVary: {after}\r\nC: d\r\n"));
        }
        assert!(!FieldListBuf::default().add_members("Vary", &["Accept"]));
    }
}
