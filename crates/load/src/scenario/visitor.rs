//! One user of a script: its values and cookies, the request it makes next and what it takes from the response.

use super::capture::CONTENT_MAX;
use super::{Script, Slot};
use crate::record::Trouble;
use client::jar::{Jar, Place};
use client::session::{Lines, content_length};
use std::sync::Arc;

/// A request with all values in their places.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// Path and query.
    pub(crate) target: String,
    /// `Host` first, `Content-Length` included.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Option<Arc<[u8]>>,
}

/// One user of a script.
#[derive(Debug, Default)]
pub struct Visitor {
    /// The row of each feed.
    rows: Vec<u64>,
    /// Values that steps have captured.
    captured: Vec<Vec<u8>>,
    jar: Jar,
    pub(crate) request: Rendered,
    /// The step whose request is rendered.
    pub(crate) step: Option<u32>,
    /// Content of the response in progress, as far as captures need it.
    content: Vec<u8>,
    /// Whether the content is longer than what is kept, or in a coding.
    is_unreadable: bool,
    /// A field that had to be captured is missing.
    has_missed: bool,
}

impl Visitor {
    /// Begins a start; false if a feed has no row left for it.
    pub(crate) fn start(&mut self, script: &Script, start: u64) -> bool {
        let feeds = (0..).zip(&script.feeds);
        let rows: Option<Vec<u64>> = feeds
            .map(|(number, feed)| feed.row(start, script.seed, number))
            .collect();
        let Some(rows) = rows else { return false };
        self.rows = rows;
        self.step = None;
        self.captured.clear();
        self.captured.resize(usize::from(script.captured), Vec::new());
        if !script.keeps_cookies {
            self.jar.clear();
        }
        true
    }

    /// Builds the request of a step. `now`: seconds since 1970.
    ///
    /// # Errors
    /// If the values make no valid request: a target that is none or of another server, a line break in a field, or too
    /// much content.
    pub(crate) fn render(&mut self, script: &Script, number: u32, now: i64) -> Result<(), Trouble> {
        let Visitor { rows, captured, .. } = self;
        let value = |slot: u16| -> &[u8] {
            match script.slots[usize::from(slot)] {
                Slot::Column(feed, column) => {
                    let feed = usize::from(feed);
                    script.feeds[feed].value(rows[feed], usize::from(column))
                }
                Slot::Captured(at) => &captured[usize::from(at)],
            }
        };
        let step = &script.steps[number as usize];
        let mut bytes = Vec::new();
        step.target
            .write(&mut bytes, value)
            .map_err(|_| Trouble::Request)?;
        let target = target(&bytes, script).ok_or(Trouble::Request)?;
        let mut fields = script.common.clone();
        for (name, template) in &step.fields {
            bytes.clear();
            template.write(&mut bytes, value).map_err(|_| Trouble::Request)?;
            let text = String::from_utf8(bytes.clone()).map_err(|_| Trouble::Request)?;
            if text.chars().any(|letter| letter.is_control() && letter != '\t') {
                return Err(Trouble::Request);
            }
            match fields
                .iter_mut()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
            {
                Some(field) => field.1 = text,
                None => fields.push((name.clone(), text)),
            }
        }
        let place = place(script, &target, now);
        let has_cookie = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Cookie"));
        if !has_cookie && let Some(line) = self.jar.line(place) {
            fields.push(("Cookie".to_owned(), line));
        }
        let mut content = None;
        if let Some(template) = &step.content {
            let mut bytes = Vec::new();
            template.write(&mut bytes, value).map_err(|_| Trouble::Request)?;
            content = Some(Arc::from(bytes));
        }
        if let Some(length) = content_length(&step.verb, content.as_deref()) {
            fields.push(("Content-Length".to_owned(), length.to_string()));
        }
        self.request = Rendered {
            target,
            fields,
            content,
        };
        self.step = Some(number);
        Ok(())
    }

    /// Appends the rendered request in the form of HTTP/1.
    pub(crate) fn write(&self, script: &Script, number: u32, version: &str, out: &mut Vec<u8>) {
        let Rendered {
            target,
            fields,
            content,
        } = &self.request;
        let verb = &script.steps[number as usize].verb;
        for part in [verb.name(), " ", target, " HTTP/", version, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        for (name, value) in fields {
            for part in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(content.as_deref().unwrap_or_default());
    }

    /// Takes cookies and captured fields from the head of a response.
    pub(crate) fn head(&mut self, script: &Script, fields: Lines<'_>, now: i64) {
        let Some(number) = self.step else { return };
        self.content.clear();
        (self.is_unreadable, self.has_missed) = (false, false);
        for (name, value) in fields.iter() {
            if name.eq_ignore_ascii_case("Set-Cookie") {
                self.jar.set(value, place(script, &self.request.target, now));
            }
            self.is_unreadable |=
                name.eq_ignore_ascii_case("Content-Encoding") && !value.eq_ignore_ascii_case(b"identity");
        }
        for (slot, source) in &script.steps[number as usize].captures {
            let super::capture::Source::Field(name) = source else {
                continue;
            };
            match fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, value)) if value.len() <= super::capture::VALUE_MAX => {
                    self.captured[usize::from(*slot)] = value.to_vec();
                }
                _ => self.has_missed = true,
            }
        }
    }

    /// Whether content of the response in progress must not be skipped.
    pub(crate) fn needs_content(&self, script: &Script) -> bool {
        self.step
            .is_some_and(|number| script.steps[number as usize].needs_content())
    }

    /// Keeps content that captures search.
    pub(crate) fn body(&mut self, script: &Script, bytes: &[u8]) {
        if self.needs_content(script) {
            let room = CONTENT_MAX - self.content.len();
            self.content.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Judges a complete response, and captures the values in its content.
    ///
    /// # Errors
    /// An unexpected status, or a value that is not there.
    pub(crate) fn end(&mut self, script: &Script, status: u16) -> Result<(), Trouble> {
        let Some(step) = self.step.take().map(|number| &script.steps[number as usize]) else {
            return Ok(());
        };
        if !step.expect.holds(status) {
            return Err(Trouble::Status);
        }
        if self.has_missed {
            return Err(Trouble::Capture);
        }
        for (slot, source) in &step.captures {
            if !source.is_in_content() {
                continue;
            }
            let found = match self.is_unreadable {
                true => None,
                false => source.find(&self.content),
            };
            self.captured[usize::from(*slot)] = found.ok_or(Trouble::Capture)?;
        }
        Ok(())
    }
}

/// The server, as cookies see it.
fn place<'a>(script: &'a Script, path: &'a str, now: i64) -> Place<'a> {
    let host = &script.authority;
    let end = match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => at,
        _ => host.len(),
    };
    Place {
        host: &host[..end],
        path,
        is_secure: script.is_secure,
        now,
    }
}

/// The target as it is sent: without scheme and authority, if they are those of the server, without a fragment, and with
/// the bytes escaped that no target may contain. `None` if it is none.
fn target(bytes: &[u8], script: &Script) -> Option<String> {
    let text = core::str::from_utf8(bytes).ok()?;
    let scheme = if script.is_secure { "https://" } else { "http://" };
    let path = match text.get(..scheme.len()) {
        Some(start) if start.eq_ignore_ascii_case(scheme) => {
            let rest = &text[scheme.len()..];
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let is_ours = rest[..end].eq_ignore_ascii_case(&script.authority);
            if !is_ours {
                return None;
            }
            &rest[end..]
        }
        _ if text.starts_with('/') => text,
        _ => return None,
    };
    let path = path.split('#').next().unwrap_or_default();
    let mut out = String::new();
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        match byte.is_ascii_graphic() {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::{Scenario, Step};
    use super::*;
    use crate::replies::Accept;
    use crate::scenario::capture::Source;
    use crate::scenario::feed::{Feed, Order};
    use crate::scenario::template::Template;
    use client::session::{Fields, Line, Verb};
    use units::Seed;

    fn template(text: &str) -> Template {
        Template::read(text.as_bytes(), |name| match name {
            "users.name" => Ok(0),
            "token" => Ok(1),
            other => Err(other.to_owned()),
        })
        .expect(text)
    }

    fn script(target: &str, fields: &[(&str, &str)], content: Option<&str>) -> Script {
        let step = Step {
            name: "s".to_owned(),
            verb: Verb::POST,
            target: template(target),
            fields: fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), template(value)))
                .collect(),
            content: content.map(template),
            expect: Accept::successful(),
            think: None,
            captures: vec![(0, Source::Field("x-token".to_owned()))],
        };
        Script {
            scenarios: vec![Scenario {
                name: "a".to_owned(),
                weight: 1,
                steps: 0..1,
            }],
            steps: vec![step],
            feeds: vec![Feed::read(b"name\nanna b\n\"x\r\ny\"", Order::Once).expect("a table")],
            slots: vec![Slot::Column(0, 0), Slot::Captured(0)],
            captured: 1,
            keeps_cookies: false,
            keeps_connections: true,
            is_secure: false,
            authority: "h:80".to_owned(),
            common: vec![
                ("Host".to_owned(), "h:80".to_owned()),
                ("User-Agent".to_owned(), "weir".to_owned()),
            ],
            seed: Seed(1),
        }
    }

    fn sent(visitor: &Visitor, script: &Script) -> String {
        let mut out = Vec::new();
        visitor.write(script, 0, "1.1", &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn values_and_cookies_are_in_the_next_request() {
        let script = script(
            "/u/{{users.name}}?t={{token}}",
            &[("user-agent", "me"), ("X-T", "{{token}}")],
            Some("n={{users.name|url}}"),
        );
        let mut visitor = Visitor::default();
        assert!(visitor.start(&script, 0));
        visitor.render(&script, 0, 1000).expect("a request");
        assert_eq!(
            sent(&visitor, &script),
            "POST /u/anna%20b?t= HTTP/1.1\r\nHost: h:80\r\nUser-Agent: me\r\nX-T: \r\nContent-Length: 10\r\n\r\nn=anna%20b"
        );
        let lines = [
            Line {
                name: "Set-Cookie",
                value: b"sid=1; Path=/",
            },
            Line {
                name: "Set-Cookie",
                value: b"old=2; Path=/; Expires=Thu, 01 Jan 1970 00:16:45 GMT",
            },
            Line {
                name: "X-Token",
                value: b"abc",
            },
        ];
        visitor.head(&script, Fields::new(&lines).into(), 1000);
        assert_eq!(visitor.end(&script, 201), Ok(()));
        visitor.render(&script, 0, 1004).expect("a request");
        let next = sent(&visitor, &script);
        assert!(
            next.contains("?t=abc ") && next.contains("X-T: abc\r\nCookie: sid=1; old=2\r\n"),
            "{next}"
        );
        visitor.render(&script, 0, 1005).expect("a request");
        assert!(
            sent(&visitor, &script).contains("Cookie: sid=1\r\n"),
            "the other has expired"
        );
        // Without its field, the step has failed; a new start knows nothing of the one before.
        visitor.head(&script, Fields::new(&lines[..2]).into(), 1005);
        assert_eq!(visitor.end(&script, 201), Err(Trouble::Capture));
        visitor.render(&script, 0, 1005).expect("a request");
        visitor.head(&script, Fields::new(&lines).into(), 1005);
        assert_eq!(visitor.end(&script, 404), Err(Trouble::Status));
        assert!(visitor.start(&script, 1));
        assert!(!visitor.start(&script, 2), "the feed has two rows");
    }

    #[test]
    fn values_cannot_break_a_request_apart() {
        let mut visitor = Visitor::default();
        let field = script("/", &[("X-A", "{{users.name}}")], None);
        assert!(visitor.start(&field, 1));
        assert_eq!(visitor.render(&field, 0, 1000), Err(Trouble::Request));
        let path = script("/{{users.name}}", &[], None);
        visitor.render(&path, 0, 1000).expect("a request");
        assert!(sent(&visitor, &path).starts_with("POST /x%0D%0Ay HTTP/1.1\r\nHost"));
        for (target, wanted) in [
            ("http://h:80/a#b", Some("/a")),
            ("HTTP://H:80?x", Some("/?x")),
            ("http://other/a", None),
            ("https://h:80/", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(
                super::target(target.as_bytes(), &path).as_deref(),
                wanted,
                "{target}"
            );
        }
    }

    #[test]
    fn content_is_searched_within_its_bound() {
        let mut script = script("/", &[], None);
        script.steps[0].captures = vec![(0, Source::Between(b"<".as_slice().into(), b">".as_slice().into()))];
        let mut visitor = Visitor::default();
        let mut found = |before: usize| {
            assert!(visitor.start(&script, 0));
            visitor.render(&script, 0, 1000).expect("a request");
            visitor.head(&script, Fields::new(&[]).into(), 1000);
            visitor.body(&script, &vec![b'x'; before]);
            visitor.body(&script, b"<v>");
            visitor.end(&script, 200)
        };
        assert_eq!(found(CONTENT_MAX - 3), Ok(()));
        assert_eq!(found(CONTENT_MAX - 2), Err(Trouble::Capture));
        assert_eq!(found(0), Ok(()));
        let coded = [Line {
            name: "Content-Encoding",
            value: b"gzip",
        }];
        visitor.render(&script, 0, 1000).expect("a request");
        visitor.head(&script, Fields::new(&coded).into(), 1000);
        visitor.body(&script, b"<v>");
        assert_eq!(visitor.end(&script, 200), Err(Trouble::Capture));
    }
}
