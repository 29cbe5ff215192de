//! The meaning of a response: content with references, a valid cache entry, a part, a redirection or a failure.
//!
//! References are followed as soon as their tag is complete; those of a style sheet when the sheet is.
//! [`super::page`] finds them.

use super::page::{Named, Text, linked};
use super::request::strong_validator;
use super::{Asked, Fetch, Job, Taped};
use crate::cache;
use crate::decode::{self, Decoder, Growth};
use crate::session::{Head, Said};
use crate::streamed::Came;
use crate::timeline::{Fate, Initiator, Part, Piece, Role, Source};
use encoding_rs::{Encoding, WINDOWS_1252};
use http_semantics::coding::Coding;
use http_semantics::field::Name;
use units::Instant;

/// Largest body kept, in bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A response in progress.
#[derive(Debug)]
pub(super) struct Reply {
    decoder: Option<Decoder>,
    text: Text,
    body: Vec<u8>,
    is_kept: bool,
    /// The body so far, for a recording.
    taped: Option<Vec<u8>>,
    /// Why its content cannot be used.
    broken: Option<String>,
}

/// The field lines of a head as text; lines that are not UTF-8 are left out.
fn lines_of(head: &Head<'_, '_>) -> Vec<(String, String)> {
    head.fields
        .iter()
        .filter_map(|(name, value)| Some((name.to_owned(), str::from_utf8(value).ok()?.to_owned())))
        .collect()
}

/// Decodes a whole body.
fn decoded(mut decoder: Decoder, body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut content = decoder.push(body)?;
    content.extend(decoder.finish()?);
    Ok(content)
}

/// First byte and total length from `Content-Range` (RFC 9110 section 14.4).
fn content_range(fields: &[(String, String)]) -> Option<(u64, u64)> {
    let (range, whole) = cache::field(fields, "content-range")?
        .strip_prefix("bytes ")?
        .split_once('/')?;
    Some((
        range.split_once('-')?.0.trim().parse().ok()?,
        whole.trim().parse().ok()?,
    ))
}

impl Fetch {
    /// Handles a part of the response to the request at this place among those that wait.
    pub(super) fn said(&mut self, line: usize, place: usize, said: &Said<'_, '_, '_>, now: Instant) {
        match said {
            Said::Head(head, bytes) => self.head(line, place, head, *bytes as u64, now),
            Said::Body(data, bytes) => self.body(line, place, data, *bytes as u64, now),
            Said::End(bytes) => self.complete(line, place, *bytes as u64, now),
        }
    }

    /// Handles what came over a stream.
    pub(super) fn came(&mut self, line: usize, came: Came<'_, '_, '_>, now: Instant) {
        let (Came::Said(stream, _) | Came::Hints(stream, _) | Came::Reset(stream, _)) = came;
        let mut waiting = self.lines[line].waiting.iter();
        let Some(place) = waiting.position(|asked| asked.stream == stream) else {
            return;
        };
        match came {
            Came::Said(_, said) => {
                let (Said::Head(_, bytes) | Said::Body(_, bytes) | Said::End(bytes)) = said;
                self.note_piece(line, place, bytes as u64);
                self.said(line, place, &said, now);
            }
            Came::Hints(_, links) => self.hinted(line, place, links, now),
            Came::Reset(_, reset) => {
                let Some(asked) = self.lines[line].waiting.remove(place) else {
                    return;
                };
                // What was refused was not looked at; it costs a try all the same, so that this ends.
                self.items[asked.object].strikes += 1;
                let why = format!("the server cancelled the response ({})", reset.code);
                self.ask_again(asked.object, asked.part, &why);
            }
        }
    }

    /// Begins with what a page embeds before the page comes (RFC 8297). Only of pages: a browser heeds no other hints.
    fn hinted(&mut self, line: usize, place: usize, links: Vec<String>, now: Instant) {
        let asked = &self.lines[line].waiting[place];
        let (number, one) = (asked.object, asked.one);
        let object = &mut self.timeline.objects[number];
        if object.role != Role::Page || !self.plan.embedded {
            return;
        }
        object.tries[one].hinted.get_or_insert(now);
        let fields: Vec<_> = links.into_iter().map(|link| ("link".to_owned(), link)).collect();
        let ahead = linked(&fields, &self.items[number].url, Initiator::EarlyHints);
        self.follow(ahead, number, now);
    }

    /// Records that the latest receipt brought these bytes of a response.
    fn note_piece(&mut self, line: usize, place: usize, bytes: u64) {
        let arrival = self.timeline.connections[line].arrivals.len() - 1;
        let asked = &self.lines[line].waiting[place];
        let pieces = &mut self.timeline.objects[asked.object].tries[asked.one].pieces;
        match pieces.last_mut() {
            Some(last) if last.arrival == arrival => last.bytes += bytes,
            _ => pieces.push(Piece {
                arrival,
                bytes,
                dry: None,
            }),
        }
    }

    fn head(&mut self, line: usize, place: usize, head: &Head<'_, '_>, bytes: u64, now: Instant) {
        let Some(&Asked {
            object: number,
            one,
            part,
            ..
        }) = self.lines[line].waiting.get(place)
        else {
            return;
        };
        let (growth, around) = (self.growth(), self.around(number));
        let set = head.fields.iter();
        let mut jar = core::mem::take(&mut self.jar);
        for (_, line) in set.filter(|(name, _)| name.eq_ignore_ascii_case("Set-Cookie")) {
            jar.set(line, self.place(&self.items[number].url));
        }
        self.jar = jar;
        let object = &mut self.timeline.objects[number];
        let media = head.fields.get(Name::ContentType).unwrap_or_default();
        object.media = String::from_utf8_lossy(media).to_ascii_lowercase();
        object.status = Some(head.status);
        if !matches!(part, Part::Rest(_)) || head.status != 206 {
            object.content_bytes = 0;
        }
        let one = &mut object.tries[one];
        one.first.get_or_insert(now);
        one.status = head.status;
        one.reason = head.reason.to_owned();
        one.fields = lines_of(head);
        one.head_bytes = bytes;
        let is_content = head.status == 200;
        let coding = decode::coding_of(head.fields.get(Name::ContentEncoding));
        let decoder = coding.and_then(|coding| Decoder::new(coding, growth).ok());
        let url = &self.items[number].url;
        let text = if is_content && self.plan.embedded {
            Text::of(object.role, &object.media, url, around)
        } else {
            Text::None
        };
        let ahead = match text {
            Text::Page(_) => linked(&one.fields, url, Initiator::LinkField),
            Text::Sheet(_) | Text::None => Vec::new(),
        };
        let reply = Reply {
            broken: decoder
                .is_none()
                .then(|| "the response's content coding is unknown".to_owned()),
            // A part of coded content cannot be decoded on its own.
            decoder: decoder.filter(|_| head.status != 206),
            text,
            body: Vec::new(),
            is_kept: is_content || head.status == 206,
            taped: self.tape.as_ref().map(|_| Vec::new()),
        };
        if let Some(asked) = self.lines[line].waiting.get_mut(place) {
            asked.reply = Some(reply);
        }
        self.follow(ahead, number, now);
    }

    /// The encoding of the referring object, for objects without one of their own.
    fn around(&self, number: usize) -> &'static Encoding {
        match self.timeline.objects[number].parent {
            Some(parent) => self.items[parent].encoding,
            None => WINDOWS_1252,
        }
    }

    /// Limits on the decoded content of one more response.
    fn growth(&self) -> Growth {
        Growth {
            bytes_max: self.plan.limits.bytes_max.saturating_sub(self.decoded),
            ratio_max: self.plan.limits.ratio_max,
        }
    }

    fn body(&mut self, line: usize, place: usize, data: &[u8], bytes: u64, now: Instant) {
        let Some(asked) = self.lines[line].waiting.get_mut(place) else {
            return;
        };
        let number = asked.object;
        self.timeline.objects[number].tries[asked.one].body_bytes += bytes;
        let Some(reply) = &mut asked.reply else {
            return;
        };
        if let Some(taped) = &mut reply.taped {
            taped.extend_from_slice(data);
        }
        if reply.is_kept && reply.body.len() + data.len() <= KEPT_BYTES_MAX {
            reply.body.extend_from_slice(data);
        } else {
            reply.is_kept = false;
            reply.body = Vec::new();
        }
        let decoded;
        let content = match &mut reply.decoder {
            None => data,
            Some(decoder) => match decoder.push(data) {
                Ok(bytes) => {
                    decoded = bytes;
                    &decoded[..]
                }
                Err(error) => {
                    // The rest is still read, because responses after it are useful; the decoder refuses it.
                    reply.text = Text::None;
                    (reply.is_kept, reply.body) = (false, Vec::new());
                    let why = || format!("the content cannot be decoded: {error}");
                    reply.broken.get_or_insert_with(why);
                    return;
                }
            },
        };
        self.decoded += content.len() as u64;
        self.timeline.objects[number].content_bytes += content.len() as u64;
        let found = reply.text.push(content);
        let encoding = reply.text.encoding();
        self.items[number].encoding = encoding.unwrap_or(self.items[number].encoding);
        self.follow(found, number, now);
    }

    fn follow(&mut self, found: Vec<Named>, parent: usize, now: Instant) {
        for named in found {
            self.note(named, Some(parent), now);
        }
    }

    /// Handles the end of a response.
    pub(super) fn complete(&mut self, line: usize, place: usize, bytes: u64, now: Instant) {
        let Some(asked) = self.lines[line].waiting.remove(place) else {
            return;
        };
        let (number, one, part) = (asked.object, asked.one, asked.part);
        self.lines[line].answered += 1;
        let Some(mut reply) = asked.reply else {
            return;
        };
        self.finish_decoding(&mut reply, number, now);
        if let (Some(tape), Some(body)) = (&mut self.tape, reply.taped.take()) {
            tape.responses.push(Taped {
                object: number,
                one,
                body,
            });
        }
        let record = &mut self.timeline.objects[number].tries[one];
        record.body_bytes += bytes;
        record.last = Some(now);
        let (status, fields) = (record.status, record.fields.clone());
        match (status, part) {
            (304, _) => self.not_modified(number, &fields, now),
            (301 | 302 | 303 | 307 | 308, _) => self.moved(number, status, &fields, now),
            (200, Part::Head) => {
                let kept = self.entries.get(&self.timeline.objects[number].url);
                if kept.is_some_and(|entry| entry.kept.is_same(&fields)) {
                    self.take_from_cache(number, Source::Validated, now);
                } else {
                    self.again_whole(number);
                }
            }
            (206, Part::First(_)) => self.first_part(number, reply, fields, now),
            (206, Part::Rest(from)) => self.rest(number, from, reply, &fields, now),
            (416, Part::First(_) | Part::Rest(_)) => self.again_whole(number),
            // RFC 9110 section 15.3.7: 206 is only for requests with Range.
            (206, Part::Whole | Part::Head) => {
                self.timeline.objects[number].fate = Fate::Failed(
                    "the server sent a part (206), although the request had no Range".to_owned(),
                );
            }
            (200..=299, _) => self.done(number, reply, status, fields, now),
            _ => self.timeline.objects[number].fate = Fate::Failed(format!("status {status}")),
        }
    }

    /// Checks that coded content is complete.
    fn finish_decoding(&mut self, reply: &mut Reply, number: usize, now: Instant) {
        match reply.decoder.as_mut().map(Decoder::finish) {
            Some(Ok(content)) => {
                self.decoded += content.len() as u64;
                self.timeline.objects[number].content_bytes += content.len() as u64;
                let found = reply.text.push(&content);
                self.follow(found, number, now);
            }
            Some(Err(error)) => {
                let why = || format!("the content cannot be decoded: {error}");
                reply.broken.get_or_insert_with(why);
            }
            None => {}
        }
    }

    fn again_whole(&mut self, number: usize) {
        let item = &mut self.items[number];
        item.conditions.clear();
        item.front = None;
        self.queue.push_back(Job {
            object: number,
            part: Part::Whole,
        });
    }

    fn done(
        &mut self,
        number: usize,
        reply: Reply,
        status: u16,
        fields: Vec<(String, String)>,
        now: Instant,
    ) {
        if let Some(why) = reply.broken {
            self.timeline.objects[number].fate = Fate::Failed(why);
            return;
        }
        self.timeline.objects[number].fate = Fate::Done(Source::Network);
        self.items[number].front = None;
        let (found, encoding) = reply.text.finish(&self.items[number].url);
        self.items[number].encoding = encoding.unwrap_or(self.items[number].encoding);
        self.follow(found, number, now);
        if reply.is_kept {
            self.keep(number, status, fields, reply.body, now);
        }
    }

    /// The last request for an object and its response, for the cache.
    fn exchange<'e>(
        &self,
        number: usize,
        sent: &'e [(String, String)],
        status: u16,
        fields: Vec<(String, String)>,
        now: Instant,
    ) -> cache::Exchange<'e> {
        let one = self.timeline.objects[number].tries.last();
        cache::Exchange {
            sent,
            asked: self.civil(one.and_then(|one| one.sent).unwrap_or(now)),
            came: self.civil(one.and_then(|one| one.first).unwrap_or(now)),
            status,
            fields,
        }
    }

    /// Stores a response in the cache, if the rules allow it.
    fn keep(
        &mut self,
        number: usize,
        status: u16,
        fields: Vec<(String, String)>,
        body: Vec<u8>,
        now: Instant,
    ) {
        let object = &self.timeline.objects[number];
        let sent = self.varying_fields(object.role);
        let url = object.url.clone();
        let exchange = self.exchange(number, &sent, status, fields, now);
        if cache::store(&mut self.entries, &url, exchange, body) {
            self.changed.insert(url);
        }
    }

    fn not_modified(&mut self, number: usize, fields: &[(String, String)], now: Instant) {
        let object = &self.timeline.objects[number];
        let (sent, url) = (self.varying_fields(object.role), object.url.clone());
        let exchange = self.exchange(number, &sent, 304, fields.to_vec(), now);
        let is_ours = match self.entries.get_mut(&url) {
            Some(entry) => entry.kept.validated(exchange),
            None => false,
        };
        if is_ours {
            self.changed.insert(url);
            self.take_from_cache(number, Source::Validated, now);
        } else if self.items[number].conditions.is_empty() {
            self.timeline.objects[number].fate =
                Fate::Failed("the server sent 304 to an unconditional request".to_owned());
        } else {
            self.again_whole(number);
        }
    }

    /// Uses the cache entry as the object.
    pub(super) fn take_from_cache(&mut self, number: usize, source: Source, now: Instant) {
        let (growth, around) = (self.growth(), self.around(number));
        let object = &mut self.timeline.objects[number];
        let Some(entry) = self.entries.get(&object.url) else {
            object.fate = Fate::Failed("the cache entry no longer exists".to_owned());
            return;
        };
        object.fate = Fate::Done(source);
        object.status.get_or_insert(entry.kept.status);
        object.media = entry
            .kept
            .field("content-type")
            .unwrap_or_default()
            .to_ascii_lowercase();
        object.content_bytes = entry.body.len() as u64;
        if !self.plan.embedded {
            return;
        }
        let url = &self.items[number].url;
        let mut text = Text::of(object.role, &object.media, url, around);
        if matches!(text, Text::None) {
            return;
        }
        let coding = decode::coding_of(entry.kept.field("content-encoding").map(str::as_bytes));
        let decoder = coding.filter(|coding| *coding != Coding::Identity);
        let content = match decoder.map(|coding| Decoder::new(coding, growth)) {
            None => entry.body.clone(),
            Some(decoder) => match decoder.and_then(|decoder| decoded(decoder, &entry.body)) {
                Ok(content) => content,
                Err(error) => {
                    object.fate = Fate::Failed(format!("the content cannot be decoded: {error}"));
                    return;
                }
            },
        };
        object.content_bytes = content.len() as u64;
        self.decoded += content.len() as u64;
        let mut found = match text {
            Text::Page(_) => linked(&entry.kept.fields, url, Initiator::LinkField),
            Text::Sheet(_) | Text::None => Vec::new(),
        };
        found.extend(text.push(&content));
        let (rest, encoding) = text.finish(url);
        found.extend(rest);
        self.items[number].encoding = encoding.unwrap_or(around);
        self.follow(found, number, now);
    }

    fn moved(&mut self, number: usize, status: u16, fields: &[(String, String)], now: Instant) {
        let item = &self.items[number];
        let redirects = item.redirects + 1;
        let target = cache::field(fields, "location").map(|to| item.url.join(to));
        let fate = match target {
            None => Fate::Failed(format!("status {status} without a Location field")),
            Some(Err(error)) => Fate::Failed(format!("status {status} with an invalid Location: {error}")),
            Some(Ok(_)) if redirects > self.plan.limits.redirects_max => Fate::Failed(format!(
                "more than {} redirections",
                self.plan.limits.redirects_max
            )),
            Some(Ok(to)) => {
                let role = self.timeline.objects[number].role;
                let before = self.timeline.objects.len();
                let target = Named {
                    url: to.clone(),
                    role,
                    loading: self.items[number].loading,
                    initiator: Initiator::Redirect,
                    redirects,
                };
                match self.note(target, Some(number), now) {
                    // A known object that redirects back here would wait for itself.
                    Some(other) if other < before && self.leads_to(other, number) => {
                        Fate::Failed("redirection loop".to_owned())
                    }
                    Some(other) => Fate::Moved(other),
                    None => Fate::Failed(format!("redirected to {to}, which is not followed")),
                }
            }
        };
        self.timeline.objects[number].fate = fate;
    }

    /// Whether redirections lead from one object to the other.
    fn leads_to(&self, from: usize, to: usize) -> bool {
        let mut at = from;
        // No chain is longer than the number of objects.
        for _ in 0..=self.timeline.objects.len() {
            if at == to {
                return true;
            }
            match self.timeline.objects[at].fate {
                Fate::Moved(next) => at = next,
                _ => return false,
            }
        }
        true
    }

    fn first_part(&mut self, number: usize, reply: Reply, fields: Vec<(String, String)>, now: Instant) {
        match content_range(&fields) {
            Some((0, whole)) if reply.is_kept => {
                let have = reply.body.len() as u64;
                if have >= whole {
                    self.whole_of_parts(number, reply.body, fields, now);
                } else if have == 0 || strong_validator(&fields).is_none() {
                    // Parts are joined only if their validators prove that they belong together.
                    self.again_whole(number);
                } else {
                    self.items[number].front = Some((reply.body, fields));
                    self.later.push_back(Job {
                        object: number,
                        part: Part::Rest(have),
                    });
                }
            }
            _ => self.again_whole(number),
        }
    }

    fn rest(&mut self, number: usize, from: u64, reply: Reply, fields: &[(String, String)], now: Instant) {
        match (content_range(fields), self.items[number].front.take()) {
            (Some((start, whole)), Some((mut body, mut first)))
                if start == from && strong_validator(&first) == strong_validator(fields) =>
            {
                body.extend_from_slice(&reply.body);
                // Fields of the later part replace those of the earlier one.
                first.retain(|(name, _)| cache::field(fields, name).is_none());
                first.extend_from_slice(fields);
                if body.len() as u64 == whole {
                    self.whole_of_parts(number, body, first, now);
                } else {
                    self.again_whole(number);
                }
            }
            _ => self.again_whole(number),
        }
    }

    /// Joins the parts; from then on the object counts as received whole (RFC 9111 section 3.4).
    fn whole_of_parts(
        &mut self,
        number: usize,
        body: Vec<u8>,
        mut fields: Vec<(String, String)>,
        now: Instant,
    ) {
        fields.retain(|(name, _)| {
            !name.eq_ignore_ascii_case("content-range") && !name.eq_ignore_ascii_case("content-length")
        });
        fields.push(("Content-Length".to_owned(), body.len().to_string()));
        let object = &mut self.timeline.objects[number];
        object.fate = Fate::Done(Source::Network);
        object.content_bytes = body.len() as u64;
        self.keep(number, 200, fields, body, now);
    }
}
