//! Answers: status, field lines and content, before any version of HTTP frames them.
//!
//! The lines of an answer come in this order: those of the entry, `Content-Length` unless there is no content, those of
//! this answer, and `Date`. The session adds the last, and what its connection needs.

use super::failure::{ALLOW, Failure};
use super::multipart::Multipart;
use crate::checked::Answered;
use crate::conditional::Dependence;
use crate::config::{Access, Config, Redirect, Respond, spelling};
use crate::context::Lines;
use crate::entry::{Content, Representation, Resource};
use crate::error_page::{self, ErrorPage};
use crate::field_list::FieldList;
use crate::field_rules::{self, CrossOrigin, FieldRules};
use crate::filter::Added;
use crate::head_cache::Settled;
use crate::recorded::Reply;
use crate::request_id::RequestId;
use crate::service::handler::Made;
use bytes::Bytes;
use http_semantics::method::Method;
use http_semantics::range::{self, ByteRange};
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use std::sync::MutexGuard;
use units::{Draw as _, Rng};

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer<'e> {
    pub(crate) status: Status,
    pub(crate) head: Head<'e>,
    /// Further lines, to send after `Content-Length`.
    pub(crate) more: FieldList<'e>,
    pub(crate) source: Source<'e>,
    /// Length of the content in bytes, sent or not.
    pub(crate) len: u64,
    /// False for a response to HEAD.
    pub(crate) sends_content: bool,
    /// The configured lock, held until the answer is written.
    pub(crate) _held: Option<MutexGuard<'e, ()>>,
    /// Set if the same head gets the same answer again as long as the entry lives.
    pub(crate) settled: Option<Settled<'e>>,
}

/// The field lines of an answer, without `Content-Length` and `Date`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Head<'e> {
    /// 200 with all lines of this representation; its head is prepared.
    Prepared(&'e Representation),
    /// These lines.
    Composed(FieldList<'e>),
}

/// Where the content of an answer comes from.
#[derive(Debug)]
pub(crate) enum Source<'e> {
    /// Nowhere: the status allows no content.
    Empty,
    /// Content of an entry, from this offset on.
    Entry(&'e Content, u64),
    /// Bytes made for this answer.
    Made(Bytes),
    /// A built-in page.
    Page(ErrorPage),
    /// Several ranges.
    Parts(Multipart),
}

impl<'e> Answer<'e> {
    /// 200 with the whole representation and its prepared head.
    #[inline]
    pub(crate) fn prepared(representation: &'e Representation) -> Answer<'e> {
        Answer {
            status: Status::OK,
            head: Head::Prepared(representation),
            more: FieldList::default(),
            source: Source::Entry(&representation.content, 0),
            len: representation.len,
            sends_content: true,
            settled: None,
            _held: None,
        }
    }
}

/// Composes one answer.
pub(super) struct Composer<'e, 'b> {
    lines: &'e mut Lines,
    query: Option<&'b [u8]>,
    sends_content: bool,
    /// Lines added by filters.
    added: Added,
    /// Access rules of the site.
    rules: &'e [Access],
    /// Rules for field lines, the index of the site in them, and the path of the request.
    field_rules: Option<(&'e FieldRules, usize, Option<&'b [u8]>)>,
    /// What the answer owes to conditions of rules.
    dependence: Option<Box<Dependence>>,
    /// Whether a rule decides which pages of other origins may read the answer.
    is_cross_origin: bool,
    /// Whether requests of other origins could get another answer.
    varies_by_origin: bool,
    /// Fields of the request that the answer depends on, in addition to those its representation names.
    varies: &'static [&'static str],
}

impl<'e, 'b> Composer<'e, 'b> {
    /// A composer of the answer to a request, or to input that is none.
    #[inline]
    pub(super) fn new(
        lines: &'e mut Lines,
        head: Option<&RequestHead<'b, '_>>,
        added: Added,
    ) -> Composer<'e, 'b> {
        lines.head.clear();
        lines.more.clear();
        Composer {
            lines,
            query: head.and_then(|head| head.target.query()),
            sends_content: head.is_none_or(|head| head.method != Method::Head),
            added,
            rules: &[],
            field_rules: None,
            dependence: None,
            is_cross_origin: false,
            varies_by_origin: false,
            varies: &[],
        }
    }

    /// A composer of answers of a site with these access rules.
    #[inline]
    pub(super) fn guarded_by(self, rules: &'e [Access]) -> Composer<'e, 'b> {
        Composer { rules, ..self }
    }

    /// Adds the lines of these rules to answers that are no files. `path` is that of the request, if it has one.
    #[inline]
    pub(super) fn ruled_by(
        self,
        rules: &'e FieldRules,
        site: usize,
        path: Option<&'b [u8]>,
    ) -> Composer<'e, 'b> {
        let field_rules = (!rules.is_empty()).then_some((rules, site, path));
        Composer { field_rules, ..self }
    }

    /// Adds what a rule says to pages of other origins. It replaces what other rules say to them.
    #[cold]
    pub(super) fn cross_origin(mut self, cross: &CrossOrigin<'_, '_>) -> Composer<'e, 'b> {
        cross.write(self.added.text_mut());
        self.is_cross_origin = true;
        self.varies_by_origin = cross.depends_on_origin();
        self
    }

    /// Adds what the answer owes to conditions of rules.
    #[cold]
    pub(super) fn depending(self, dependence: Dependence) -> Composer<'e, 'b> {
        Composer {
            dependence: Some(Box::new(dependence)),
            ..self
        }
    }

    /// Adds what the answer, which has the content of a file, owes to header rules with conditions. Their lines are in place of
    /// those for answers of every kind.
    #[cold]
    pub(super) fn depending_on_file(self, dependence: Dependence) -> Composer<'e, 'b> {
        let before = self.dependence.map(|before| *before).unwrap_or_default();
        Composer {
            dependence: Some(Box::new(before.and(dependence))),
            ..self
        }
    }

    /// Adds the id of the request.
    #[cold]
    pub(super) fn identified(mut self, id: &RequestId) -> Composer<'e, 'b> {
        id.write(self.added.text_mut());
        self
    }

    /// Adds these fields to `Vary`.
    #[inline]
    pub(super) fn varying(self, varies: &'static [&'static str]) -> Composer<'e, 'b> {
        Composer { varies, ..self }
    }

    /// 200 with the whole representation.
    #[inline]
    pub(super) fn whole(self, resource: &Resource, representation: &'e Representation) -> Answer<'e> {
        if self.varies.is_empty()
            && resource.recipe.is_none()
            && !self.varies_by_origin
            && !(self.is_cross_origin && field_rules::has_permission(representation.all_fields()))
            && self.dependence.is_none()
        {
            self.lines.more.extend(self.added.list());
            return Answer {
                more: self.lines.more.list(),
                sends_content: self.sends_content,
                ..Answer::prepared(representation)
            };
        }
        match &resource.recipe {
            None => self.lines.head.extend(representation.all_fields()),
            Some(recipe) => recipe.write(representation, self.lines.head.text_mut()),
        }
        let source = Source::Entry(&representation.content, 0);
        self.answer(Status::OK, source, representation.len)
    }

    /// 304, with the fields of the 200 response that caches update (RFC 9110 section 15.4.5).
    #[inline]
    pub(super) fn not_modified(self, representation: &Representation) -> Answer<'e> {
        self.lines.head.extend(representation.general_fields());
        self.answer(Status::NOT_MODIFIED, Source::Empty, 0)
    }

    /// 206 with one range.
    pub(super) fn one_range(self, representation: &'e Representation, range: ByteRange) -> Answer<'e> {
        let head = &mut self.lines.head;
        head.extend(representation.all_fields());
        head.add_with("Content-Range", |out| {
            range::content_range(range, representation.len, out);
        });
        let source = Source::Entry(&representation.content, range.first);
        self.answer(Status::PARTIAL_CONTENT, source, range.len())
    }

    /// 206 with several ranges.
    pub(super) fn many_ranges(
        self,
        representation: &Representation,
        ranges: Vec<ByteRange>,
        rng: &mut Rng,
    ) -> Answer<'e> {
        let multipart = Multipart::new(
            rng.next_u64(),
            &representation.media_type,
            representation.len,
            &representation.content,
            ranges,
        );
        let head = &mut self.lines.head;
        head.extend(representation.general_fields());
        head.add_with("Content-Type", |out| multipart.framing().content_type(out));
        let len = multipart.content_length();
        self.answer(Status::PARTIAL_CONTENT, Source::Parts(multipart), len)
    }

    /// 204 with the methods, which are the same for every target.
    pub(super) fn options(self) -> Answer<'e> {
        self.lines.head.add("Allow", ALLOW.as_bytes());
        self.ruled(Status::NO_CONTENT, Source::Empty, 0)
    }

    /// 204 for a preflight request.
    #[cold]
    pub(super) fn preflight(self) -> Answer<'e> {
        self.ruled(Status::NO_CONTENT, Source::Empty, 0)
    }

    /// 301 to a path of this site. The location always begins with exactly one slash, so it cannot name another host.
    pub(super) fn redirect(self, location: &[u8]) -> Answer<'e> {
        self.lines.head.add_with("Location", |out| {
            out.push(b'/');
            let start = location.iter().position(|&b| b != b'/' && b != b'\\');
            let visible = |b: &&u8| b.is_ascii_graphic();
            out.extend(location[start.unwrap_or(location.len())..].iter().filter(visible));
            if let Some(query) = self.query {
                out.push(b'?');
                escape(query, out);
            }
        });
        self.built_in(
            ErrorPage::new(Status::MOVED_PERMANENTLY),
            Status::MOVED_PERMANENTLY,
        )
    }

    /// The target of a configured redirect.
    #[cold]
    pub(super) fn moved(self, redirect: &Redirect, status: Status, path: &[u8]) -> Answer<'e> {
        self.lines
            .head
            .add_with("Location", |out| redirect.location(path, self.query, out, escape));
        self.built_in(ErrorPage::new(status), status)
    }

    /// A text of the configuration. With status 200, it has the lines of a file, and otherwise those of an error.
    #[cold]
    pub(super) fn fixed(self, rule: &Respond, config: &Config, path: &[u8]) -> Answer<'e> {
        let (status, text) = (rule.status(), rule.text());
        let head = &mut self.lines.head;
        if !text.is_empty() {
            head.add("Content-Type", rule.media_type().as_bytes());
            head.add("X-Content-Type-Options", b"nosniff");
        }
        let source = match status {
            Status::NO_CONTENT => Source::Empty,
            _ => Source::Made(text.clone()),
        };
        let len = text.len() as u64;
        if status != Status::OK {
            return self.ruled(status, source, len);
        }
        let spelled = spelling(path).unwrap_or_default();
        field_rules::put_of_content(config, &spelled, head);
        self.answer(status, source, len)
    }

    /// 308 to the same address with https (RFC 9110 section 15.4.9): the method stays. A request that names no host
    /// gets 400, because nothing says where it should go.
    #[cold]
    pub(super) fn secure_address(self, head: &RequestHead<'_, '_>, port: u16) -> Answer<'e> {
        let host = head.authority().map(without_port);
        let (Some(host), Some(path)) = (host.filter(|host| !host.is_empty()), head.target.path()) else {
            return self.page(Failure::of(Status::BAD_REQUEST));
        };
        self.lines.head.add_with("Location", |out| {
            out.extend_from_slice(b"https://");
            escape(host, out);
            if port != 443 {
                out.push(b':');
                out.extend_from_slice(itoa::Buffer::new().format(port).as_bytes());
            }
            escape(path, out);
            if let Some(query) = self.query {
                out.push(b'?');
                escape(query, out);
            }
        });
        self.built_in(
            ErrorPage::new(Status::PERMANENT_REDIRECT),
            Status::PERMANENT_REDIRECT,
        )
    }

    /// The response of a handler.
    #[cold]
    pub(super) fn made(self, made: Made) -> Answer<'e> {
        let head = &mut self.lines.head;
        head.add("Content-Type", made.media_type.as_bytes());
        head.add("Cache-Control", b"no-store");
        head.add("X-Content-Type-Options", b"nosniff");
        let len = made.content.len() as u64;
        self.answer(made.status, Source::Made(made.content), len)
    }

    /// A recorded response.
    pub(super) fn recorded(self, reply: Reply<'_>) -> Answer<'e> {
        self.lines.head.extend(FieldList::of(reply.lines));
        let len = reply.content.len() as u64;
        let source = match reply.is_bodiless {
            true => Source::Empty,
            false => Source::Made(reply.content.clone()),
        };
        self.answer(reply.status, source, len)
    }

    /// The answer of a server that does not admit the request.
    #[cold]
    pub(super) fn relayed(self, answered: &Answered) -> Answer<'e> {
        self.lines.head.extend(FieldList::of(&answered.lines));
        let content = answered.content.clone();
        let len = content.len() as u64;
        self.ruled(answered.status, Source::Made(content), len)
    }

    /// An error with the built-in page.
    #[cold]
    pub(super) fn page(self, failure: Failure) -> Answer<'e> {
        failure.extra.write(&mut self.lines.head, self.rules);
        self.built_in(failure.page(), failure.status)
    }

    /// An error with a page of the site.
    pub(super) fn site_page(self, failure: Failure, page: &'e Representation) -> Answer<'e> {
        failure.extra.write(&mut self.lines.head, self.rules);
        self.lines.head.extend(page.own_fields());
        self.ruled(failure.status, Source::Entry(&page.content, 0), page.len)
    }

    fn built_in(self, page: ErrorPage, status: Status) -> Answer<'e> {
        self.lines
            .head
            .add("Content-Type", error_page::MEDIA_TYPE.as_bytes());
        let len = page.len() as u64;
        self.ruled(status, Source::Page(page), len)
    }

    /// As [`Composer::answer`], with the lines of rules that apply to every response.
    fn ruled(self, status: Status, source: Source<'e>, len: u64) -> Answer<'e> {
        if let Some((rules, site, path)) = self.field_rules {
            let always = rules.always(site, path);
            let head = &mut self.lines.head;
            always.removed.iter().for_each(|name| head.remove(name));
            for (name, _) in always.lines.list().iter() {
                head.remove(&String::from_utf8_lossy(name));
            }
            head.extend(always.lines.list());
        }
        self.answer(status, source, len)
    }

    /// The answer with the lines composed so far.
    #[inline]
    fn answer(self, status: Status, source: Source<'e>, len: u64) -> Answer<'e> {
        let Lines { head, more } = self.lines;
        if let Some(dependence) = &self.dependence {
            dependence.put_lines(head);
        }
        if self.is_cross_origin {
            field_rules::remove_permission(head);
        }
        // A single line names all of them, because some clients read only the first.
        let mut with_more;
        let varies = match (self.varies_by_origin, &self.dependence) {
            (false, None) => self.varies,
            (by_origin, dependence) => {
                with_more = self.varies.to_vec();
                with_more.extend(by_origin.then_some("Origin"));
                for name in dependence.iter().flat_map(|one| one.fields()) {
                    if !with_more.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                        with_more.push(name);
                    }
                }
                &with_more
            }
        };
        if !varies.is_empty() && !head.add_members("Vary", varies) {
            more.add("Vary", varies.join(", ").as_bytes());
        }
        more.extend(self.added.list());
        Answer {
            status,
            head: Head::Composed(head.list()),
            more: more.list(),
            source,
            len,
            sends_content: self.sends_content,
            settled: None,
            _held: None,
        }
    }
}

/// The host of an authority. An IPv6 address keeps its brackets.
fn without_port(authority: &[u8]) -> &[u8] {
    let bracket = authority.iter().rposition(|&b| b == b']').unwrap_or(0);
    match authority[bracket..].iter().position(|&b| b == b':') {
        Some(colon) => &authority[..bracket + colon],
        None => authority,
    }
}

/// Escapes the bytes of a target that a URI must not contain (RFC 3986 section 2) and the client should have escaped.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &b in text {
        if b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b) {
            out.push(b);
        } else {
            let hex = |digit: u8| b"0123456789ABCDEF"[usize::from(digit)];
            out.extend([b'%', hex(b >> 4), hex(b & 15)]);
        }
    }
}
