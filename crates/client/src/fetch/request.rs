//! The text of a request: only what is necessary, so that its size matches the robot's.
//!
//! Range requests carry If-Range (RFC 9110 section 13.1.5), so that a changed object arrives whole.

use super::{Fetch, Job};
use crate::cache::field;
use crate::jar::Place;
use crate::plan::Mode;
use crate::timeline::{Part, Role};
use core::fmt::Write;
use url::{Position, Url};

impl Fetch {
    /// Field lines for an object of this role that responses may vary by.
    pub(super) fn varying_fields(&self, role: Role) -> Vec<(String, String)> {
        let mut fields = vec![("user-agent".to_owned(), self.plan.user_agent.clone())];
        // Images are already compressed; the note compressed only the page.
        let is_text = role.names_more() || role == Role::Script;
        if let Some(coding) = self.plan.manner.coding.filter(|_| is_text) {
            fields.push(("accept-encoding".to_owned(), coding.name().to_owned()));
        }
        let own = self.plan.fields.iter();
        fields.extend(own.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        // Whatever path it has: an entry that depends on cookies is then used for the same cookies only.
        fields.extend(
            self.jar
                .line(self.place(&self.page))
                .map(|line| ("cookie".to_owned(), line)),
        );
        fields
    }

    /// A URL as cookies see it.
    pub(super) fn place<'u>(&self, url: &'u Url) -> Place<'u> {
        Place {
            host: url.host_str().unwrap_or_default(),
            path: url.path(),
            is_secure: url.scheme() == "https",
            now: self.wall.secs,
        }
    }

    /// The value that the plan gives to a field of this name.
    fn own(&self, name: &str) -> Option<&str> {
        let mut fields = self.plan.fields.iter();
        let field = fields.find(|(own, _)| own.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.as_str())
    }

    /// The text of a request head.
    pub(super) fn request(&self, job: Job, is_last: bool) -> String {
        let (item, role) = (&self.items[job.object], self.timeline.objects[job.object].role);
        let method = match job.part {
            Part::Head => "HEAD",
            _ => "GET",
        };
        let version = match self.plan.manner.mode {
            Mode::Http10 => "1.0",
            Mode::Http2 => "2",
            Mode::Http3 => "3",
            _ => "1.1",
        };
        let target = &item.url[Position::BeforePath..Position::AfterQuery];
        let mut text = format!(
            "{method} {target} HTTP/{version}\r\nHost: {}\r\nUser-Agent: {}\r\nAccept: {}\r\n",
            self.own("Host").unwrap_or(authority(&item.url)),
            self.own("User-Agent").unwrap_or(&self.plan.user_agent),
            self.own("Accept").unwrap_or("*/*"),
        );
        let mut line = |name: &str, value: &str| {
            let _ = write!(text, "{name}: {value}\r\n");
        };
        if let Some(authority) = &self.alternative {
            line("Alt-Used", authority);
        }
        for (name, value) in self.varying_fields(role) {
            if name == "accept-encoding" {
                line("Accept-Encoding", &value);
            }
        }
        if !matches!(job.part, Part::Rest(_)) {
            for (name, value) in &item.conditions {
                let name = match name.as_str() {
                    "if-none-match" => "If-None-Match",
                    _ => "If-Modified-Since",
                };
                line(name, value);
            }
        }
        match job.part {
            Part::First(bytes) => line("Range", &format!("bytes=0-{}", bytes.max(1) - 1)),
            Part::Rest(from) => {
                line("Range", &format!("bytes={from}-"));
                let fields = item.front.as_ref().map(|(_, fields)| fields.as_slice());
                if let Some(validator) = fields.and_then(strong_validator) {
                    line("If-Range", validator);
                }
            }
            Part::Whole | Part::Head => {}
        }
        let placed = ["Host", "User-Agent", "Accept"];
        for (name, value) in &self.plan.fields {
            if !placed.iter().any(|placed| placed.eq_ignore_ascii_case(name)) {
                line(name, value);
            }
        }
        if self.own("Cookie").is_none()
            && let Some(cookies) = self.jar.line(self.place(&item.url))
        {
            line("Cookie", &cookies);
        }
        if is_last {
            line("Connection", "close");
        }
        text.push_str("\r\n");
        text
    }
}

/// A request as HTTP/2 has it: pseudo-fields, then the lines of its text with the client's priority. `scheme` is that of
/// its URL.
pub(super) fn as_fields(text: &str, scheme: &str, priority: Option<&str>) -> Vec<(String, String)> {
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut host, mut regular) = ("", Vec::new());
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name {
            "Host" => host = value,
            name => regular.push((name.to_ascii_lowercase(), value.to_owned())),
        }
    }
    regular.extend(priority.map(|value| ("priority".to_owned(), value.to_owned())));
    let pseudo = [
        (":method", method),
        (":scheme", scheme),
        (":authority", host),
        (":path", target),
    ];
    let pseudo = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pseudo.into_iter().chain(regular).collect()
}

/// The validator that proves that a later part belongs to an earlier one; weak entity tags do not (RFC 9110
/// section 13.1.5).
pub(super) fn strong_validator(fields: &[(String, String)]) -> Option<&str> {
    match field(fields, "etag") {
        Some(tag) if !tag.starts_with("W/") => Some(tag),
        Some(_) => None,
        None => field(fields, "last-modified"),
    }
}

/// The value of `Host`.
fn authority(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}
