//! A hit that equal requests get again: no lookup, and the head of the response is written once a second.
//!
//! ```text
//!   Reply, from a lookup ─▶ Settled ─ its head was written ─▶ Repeat ─ equal request ─▶ Again
//!                                                                └─ stale, dropped, purged ─▶ nothing: a lookup decides
//! ```
//! Decides how long a response stays the answer to equal requests. It holds no content: an evicted response frees its
//! memory. Who keeps it, and for which requests, `crate::head_cache` (HTTP/1) and `crate::field_cache` (HTTP/2 and HTTP/3) decide.

use super::object::Object;
use super::{Cache, Count};
use crate::entry::Content;
use crate::field_block::Compression;
use crate::field_list::FieldList;
use bytes::Bytes;
use http_cache::directives::RequestDirectives;
use http_cache::reuse::{self, Reuse};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use units::UnixTime;

/// Longest head of a response that is kept, in bytes.
const HEAD_MAX: usize = 4096;

/// Uses that are told to the eviction policy at once if the store is busy; further ones are not told.
const USES_MAX: u32 = 1 << 16;

/// Longest content that is not moved to a file in memory, in bytes: above it, `sendfile` costs less than copying.
const COPIED_MAX: usize = 16 << 10;

/// Files in memory have whole pages.
const PAGE: u64 = 4096;

/// The lines whose values change while a response ages.
const AGE: &[u8] = b"\r\nAge: ";
const TTL: &[u8] = b"\r\nCache-Status: weir; hit; ttl=";

/// A fresh response that answered a request which asked for nothing special.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(super) cache: Arc<Cache>,
    pub(super) object: Arc<Object>,
    /// Civil time of the response.
    pub(super) wall: UnixTime,
}

/// The head of a response as it was written for a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Written<'a> {
    /// Text of HTTP/1, with the empty line at its end.
    Text(&'a [u8]),
    /// A field block of these lines.
    Block(FieldList<'a>, Compression),
}

/// A stored response as equal requests get it.
#[derive(Debug)]
pub(crate) struct Repeat {
    cache: Arc<Cache>,
    object: Weak<Object>,
    status: u16,
    /// The head as text, with the values of the second `written`. That of a field block has its lines alone, behind an empty
    /// one.
    head: Vec<u8>,
    /// How the head is compressed; `None`: it is sent as text.
    compression: Option<Compression>,
    /// The head as a field block; empty until it is needed.
    block: Vec<u8>,
    age: Range<usize>,
    ttl: Range<usize>,
    written: UnixTime,
    /// Uses that the eviction policy was not told of.
    uses: u32,
}

/// A response to an equal request.
#[derive(Debug)]
pub(crate) struct Again {
    object: Arc<Object>,
}

impl Settled {
    /// The response, whose head was written like this. `None`: the head is too long, or other lines have the start of those
    /// that change.
    pub(crate) fn repeat(self, written: Written<'_>) -> Option<Repeat> {
        let (head, compression) = match written {
            Written::Text(head) => (head.to_vec(), None),
            Written::Block(lines, compression) => ([b"\r\n", lines.text()].concat(), Some(compression)),
        };
        let age = value(&head, AGE)?;
        let ttl = value(&head, TTL)?;
        if head.len() > HEAD_MAX || age.end > ttl.start {
            return None;
        }
        Some(Repeat {
            status: self.object.head.status,
            object: Arc::downgrade(&self.object),
            cache: self.cache,
            head,
            compression,
            block: Vec::new(),
            age,
            ttl,
            written: self.wall,
            uses: 0,
        })
    }
}

impl Repeat {
    /// The content for an equal request at `wall`; the head is then [`Repeat::head`] or [`Repeat::block`]. `None`: only a
    /// lookup can tell the response.
    #[inline]
    pub(crate) fn again(&mut self, wall: UnixTime) -> Option<Again> {
        self.cache.catch_up();
        let object = self
            .object
            .upgrade()
            .filter(|object| !object.standing.is_outdated())?;
        if wall.secs != self.written.secs {
            self.rewrite(&object, wall)?;
        }
        if let Some(compression) = self.compression
            && self.block.is_empty()
        {
            compression.status(self.status, &mut self.block);
            compression.lines(FieldList::of(&self.head), &mut self.block);
        }
        self.cache.count(Count::Hits, 1);
        self.uses = (self.uses + 1).min(USES_MAX);
        if self.cache.store.touch(&object, self.uses) {
            self.uses = 0;
        }
        Some(Again { object })
    }

    /// Moves long content to a file in memory, if there is room for that.
    pub(crate) fn move_to_file(&mut self) {
        let Some(object) = self.object.upgrade() else {
            return;
        };
        if object.body.len() > COPIED_MAX
            && object.file.is_none()
            && let Some(moved) = self.cache.move_to_file(&object)
        {
            self.object = Arc::downgrade(&moved);
        }
    }

    /// Writes the head for another second. `None`: the response is not fresh then.
    #[cold]
    fn rewrite(&mut self, object: &Object, wall: UnixTime) -> Option<()> {
        let asked = RequestDirectives::default();
        if reuse::decide(&object.head, &asked, &self.cache.allowances(), wall) != Reuse::Fresh {
            return None;
        }
        let mut number = itoa::Buffer::new();
        // The later one first, so that the place of the earlier one does not change.
        let ttl = number.format(object.head.ttl(wall)).as_bytes();
        self.head.splice(self.ttl.clone(), ttl.iter().copied());
        self.ttl.end = self.ttl.start + ttl.len();
        let before = self.age.end;
        let age = number.format(object.head.age.now(wall)).as_bytes();
        self.head.splice(self.age.clone(), age.iter().copied());
        self.age.end = self.age.start + age.len();
        let moved = |at: usize| at - before + self.age.end;
        self.ttl = moved(self.ttl.start)..moved(self.ttl.end);
        self.written = wall;
        self.block.clear();
        Some(())
    }

    /// Status of the response.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// The whole head of the response as text, with the empty line at its end.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The whole head of the response as a field block; empty if it is text.
    pub(crate) fn block(&self) -> &[u8] {
        &self.block
    }
}

impl Again {
    /// The content as bytes.
    pub(crate) fn body(&self) -> &Bytes {
        &self.object.body
    }

    /// The content as it is sent. `is_encrypted`: it is read before that.
    pub(crate) fn content(&self, is_encrypted: bool) -> Content {
        match &self.object.file {
            Some(file) if !is_encrypted => Content::File(Arc::clone(file)),
            _ => Content::Memory(self.object.body.clone()),
        }
    }
}

impl Cache {
    /// The response with its content in a file in memory. `None`: there is no room for it, or the response is not stored any
    /// more.
    fn move_to_file(&self, object: &Object) -> Option<Arc<Object>> {
        let cost = Object::cost(&object.key, &object.head, &object.variant);
        let for_head = self.store.reserve(cost)?;
        let charge = self
            .store
            .reserve_file((object.body.len() as u64).next_multiple_of(PAGE))?;
        match object.in_file(charge, for_head) {
            Ok(moved) => self.store.exchange(object, moved),
            Err(error) => {
                if !self.has_no_files.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "the proxy's cache copies each response above 16 KiB: the system makes no file in memory: {error}; \
                         allow memfd_create(2) and more open files"
                    );
                }
                None
            }
        }
    }
}

/// Where the number behind the only occurrence of `start` is.
fn value(head: &[u8], start: &[u8]) -> Option<Range<usize>> {
    let mut found = memchr::memmem::find_iter(head, start);
    let from = found.next()? + start.len();
    let len = head[from..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let is_alone = found.next().is_none() && head[from + len..].starts_with(b"\r\n");
    (len > 0 && is_alone).then_some(from..from + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Policy;
    use crate::config::ProxyCache;
    use crate::proxy::cache::tests::Rig;
    use crate::proxy::cache::{Purge, Step, store};
    use http_semantics::method::Method;
    use units::{Bytes, Instant};

    const FRESH: &str = "Cache-Control: max-age=60";

    /// The response to a request that a stored one answers, and the head that it has with this time.
    fn settled(rig: &Rig, target: &str, request: &str) -> (Settled, String) {
        let mut cached = rig.cached(Method::Get, target, request);
        assert_eq!(cached.look_up(Instant::ZERO), Step::Serve);
        let mut reply = cached.take_reply().unwrap();
        let settled = reply.settled.take().expect("it depends on nothing else");
        let fields = String::from_utf8(reply.text).unwrap();
        (
            settled,
            format!("HTTP/1.1 200 OK\r\n{fields}Via: 1.1 weir\r\n\r\n"),
        )
    }

    fn known(rig: &Rig, target: &str, request: &str) -> Repeat {
        let (settled, head) = settled(rig, target, request);
        let written = Written::Text(head.as_bytes());
        settled.repeat(written).expect("it has both lines")
    }

    fn now(rig: &Rig) -> UnixTime {
        UnixTime::from_secs(rig.wall)
    }

    #[test]
    fn a_head_is_written_as_a_lookup_would_write_it() {
        let mut rig = Rig::new(ProxyCache::default());
        rig.get("/", "", 200, "Cache-Control: max-age=1000", b"content");
        let mut repeat = known(&rig, "/", "");
        let began = rig.wall;
        // The numbers get shorter and longer.
        for at in [0, 9, 10, 99, 100, 900, 901, 950, 991, 999, 5, 0] {
            rig.wall = began + at;
            let again = repeat.again(now(&rig)).expect("it is fresh");
            assert_eq!(&again.body()[..], b"content");
            let (_, expected) = settled(&rig, "/", "");
            assert_eq!(String::from_utf8_lossy(repeat.head()), expected, "{at}");
        }
        rig.wall = began + 1_000;
        assert!(repeat.again(now(&rig)).is_none(), "it is stale");
        assert_eq!(rig.cache.report().counts[Count::Hits as usize], 12 + 13);
    }

    #[test]
    fn heads_with_other_such_lines_are_not_repeated() {
        let rig = Rig::new(ProxyCache::default());
        rig.get("/", "", 200, FRESH, b"");
        let both = "HTTP/1.1 200 OK\r\nAge: 1\r\nCache-Status: weir; hit; ttl=59\r\n";
        for (head, is_repeated) in [
            (format!("{both}\r\n"), true),
            (format!("{both}Age: 2\r\n\r\n"), false),
            (format!("{both}Cache-Status: weir; hit; ttl=1\r\n\r\n"), false),
            ("HTTP/1.1 200 OK\r\nAge: 1\r\n\r\n".to_owned(), false),
            (
                "HTTP/1.1 200 OK\r\nCache-Status: weir; hit; ttl=1\r\nAge: 1\r\n\r\n".to_owned(),
                false,
            ),
            (
                format!("{both}A: {}\r\n\r\n", "x".repeat(HEAD_MAX - both.len() - 7)),
                true,
            ),
            (
                format!("{both}A: {}\r\n\r\n", "x".repeat(HEAD_MAX - both.len() - 6)),
                false,
            ),
        ] {
            let (settled, _) = settled(&rig, "/", "");
            let written = Written::Text(head.as_bytes());
            assert_eq!(settled.repeat(written).is_some(), is_repeated, "{head}");
        }
    }

    #[test]
    fn a_response_that_is_not_the_answer_any_more_is_not_repeated() {
        let rig = Rig::new(ProxyCache {
            size: Bytes::kib(64),
            policy: Policy::Lru,
            max_object_size: Bytes::kib(16),
            ..ProxyCache::default()
        });
        let vary = "Cache-Control: max-age=60\nVary: Foo";
        // A purge, by whichever process.
        rig.get("/a", "", 200, FRESH, b"a");
        let mut repeat = known(&rig, "/a", "");
        assert!(repeat.again(now(&rig)).is_some());
        rig.cache.purges.note(&Purge::All);
        assert!(repeat.again(now(&rig)).is_none());
        // A variant for other requests changes nothing, one for all does.
        rig.get("/b", "Foo: 1", 200, vary, b"1");
        let mut repeat = known(&rig, "/b", "Foo: 1");
        rig.get("/b", "Foo: 2", 200, vary, b"2");
        assert!(repeat.again(now(&rig)).is_some());
        rig.get("/b", "Foo: 3", 200, FRESH, b"3");
        assert!(repeat.again(now(&rig)).is_none());
        assert_eq!(rig.get("/b", "Foo: 1", 500, "", b"").1, b"3", "as a lookup says");
        // A language that the client prefers.
        let languages = "Cache-Control: max-age=60\nVary: Accept-Language\nContent-Language: ";
        rig.get(
            "/c",
            "Accept-Language: de, en;q=0.5",
            200,
            &format!("{languages}en"),
            b"en",
        );
        let mut repeat = known(&rig, "/c", "Accept-Language: de, en;q=0.5");
        rig.get("/c", "Accept-Language: de", 200, &format!("{languages}de"), b"de");
        assert!(repeat.again(now(&rig)).is_none());
        // Eviction, which frees the memory.
        rig.get("/d", "", 200, FRESH, &[7; 5_000]);
        let mut repeat = known(&rig, "/d", "");
        assert!(repeat.again(now(&rig)).is_some());
        for at in 0..100 {
            rig.get(&format!("/{at}"), "", 200, FRESH, &[7; 5_000]);
        }
        assert!(repeat.again(now(&rig)).is_none());
        rig.cache.purges.note(&Purge::All);
        rig.cache.apply(&mut rig.cache.hold_purges());
        assert_eq!(rig.cache.report().bytes, 0, "nothing is held");
    }

    #[test]
    fn long_content_moves_to_a_file_within_the_budget() {
        let size = Bytes::mib(1);
        let rig = Rig::new(ProxyCache {
            size,
            max_object_size: Bytes::kib(512),
            ..ProxyCache::default()
        });
        for (len, is_moved) in [(COPIED_MAX, false), (COPIED_MAX + 1, true), (300_000, true)] {
            let (target, body) = (format!("/{len}"), vec![7; len]);
            rig.get(&target, "", 200, FRESH, &body);
            let mut repeat = known(&rig, &target, "");
            repeat.move_to_file();
            // Once more does nothing.
            repeat.move_to_file();
            let again = repeat.again(now(&rig)).expect("it is stored");
            assert_eq!(again.body(), &body);
            match again.content(false) {
                Content::File(file) => assert!(is_moved && file.meta().len == len as u64, "{len}"),
                Content::Memory(bytes) => assert!(!is_moved && bytes == body, "{len}"),
            }
            assert!(matches!(again.content(true), Content::Memory(bytes) if bytes == body));
            // Lookups and ranges find the moved one.
            assert_eq!(
                rig.get(&target, "Range: bytes=5-9", 500, "", b""),
                (206, vec![7; 5], false)
            );
            let report = rig.cache.report();
            assert!(report.bytes_peak <= size.0, "{report:?}");
        }
        assert_eq!(rig.cache.store.files(), 2);
        let report = rig.cache.report();
        assert_eq!(report.entries, 3);
        // No room: half of the budget is being sent.
        rig.get("/large", "", 200, FRESH, &vec![7; 400_000]);
        let mut repeat = known(&rig, "/large", "");
        let held = rig.cache.store.reserve(size.0 - 700_000).unwrap();
        repeat.move_to_file();
        assert!(
            repeat
                .again(now(&rig))
                .is_none_or(|again| matches!(again.content(false), Content::Memory(_)))
        );
        drop(held);
        rig.cache.purges.note(&Purge::All);
        rig.cache.apply(&mut rig.cache.hold_purges());
        assert_eq!((rig.cache.report().bytes, rig.cache.store.files()), (0, 0));
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let rig = Rig::new(ProxyCache::default());
        let body = vec![7; COPIED_MAX + 1];
        for at in 0..store::FILES_MAX + 3 {
            let target = format!("/{at}");
            rig.get(&target, "", 200, FRESH, &body);
            let mut repeat = known(&rig, &target, "");
            repeat.move_to_file();
            let again = repeat.again(now(&rig)).expect("it is stored");
            let is_file = matches!(again.content(false), Content::File(_));
            assert_eq!(is_file, at < store::FILES_MAX, "{at}");
        }
        assert_eq!(rig.cache.store.files(), store::FILES_MAX);
        assert_eq!(
            rig.cache.report().entries,
            store::FILES_MAX + 3,
            "none was evicted for that"
        );
    }
}
