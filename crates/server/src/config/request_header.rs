//! How the fields of a request change on their way to an upstream.
//!
//! Decides which fields a rule may change. Framing, the fields of one connection, and those in which this server describes
//! the client stay its own: a rule could otherwise make two servers see one message differently, or forge a client. Scheme
//! and host that the client used are the exception: behind a balancer that ends TLS, only the operator may know them.

use super::values::FieldLine;
use crate::own_fields::is_reserved;
use serde::{Deserialize, Deserializer, de};

/// Most lines and names of a rule: each request is compared with all of them.
const LINES_MAX: usize = 100;

/// Fields in which this server describes a request, and which a rule may give a fixed value instead.
const FIXABLE: [&str; 2] = ["x-forwarded-proto", "x-forwarded-host"];

/// A table `[proxy.request-header]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RequestHeader {
    /// Lines that replace all lines of the same name.
    #[serde(deserialize_with = "lines")]
    pub set: Vec<FieldLine>,
    /// Lines beside those of the client.
    #[serde(deserialize_with = "lines")]
    pub add: Vec<FieldLine>,
    /// Names of fields that the upstream does not get.
    pub remove: Vec<String>,
}

fn lines<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<FieldLine>, D::Error> {
    let texts = Vec::<String>::deserialize(d)?;
    let lines = texts.iter().map(|text| FieldLine::of_request(text));
    lines.collect::<Result<_, String>>().map_err(de::Error::custom)
}

impl RequestHeader {
    /// Names this host, which must be valid.
    pub(crate) fn for_host(host: &str) -> RequestHeader {
        RequestHeader {
            set: vec![FieldLine::new("Host", host)],
            ..RequestHeader::default()
        }
    }

    /// Whether lines of this name, as the client sent them, are left out.
    pub(crate) fn drops(&self, name: &str) -> bool {
        let is_it = |other: &str| other.eq_ignore_ascii_case(name);
        self.remove.iter().any(|one| is_it(one)) || self.set.iter().any(|line| is_it(line.name()))
    }

    /// The lines that are sent beside those of the client.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_host = |line: &&FieldLine| line.name().eq_ignore_ascii_case("host");
        let all = self
            .set
            .iter()
            .chain(&self.add)
            .filter(move |line| !is_host(line));
        all.map(|line| (line.name(), line.value()))
    }

    /// The host that upstreams are asked for, if it is not that of the request.
    pub(crate) fn host(&self) -> Option<&str> {
        self.fixed("host")
    }

    /// The value that the rule sets for a field. Its line is among [`RequestHeader::lines`], except that of `Host`.
    pub(crate) fn fixed(&self, name: &str) -> Option<&str> {
        let mut lines = self.set.iter();
        let line = lines.find(|line| line.name().eq_ignore_ascii_case(name))?;
        Some(line.value())
    }

    /// Checks the names.
    ///
    /// # Errors
    /// A sentence that names the mistake and what to do.
    pub(super) fn validate(&self) -> Result<(), String> {
        let RequestHeader { set, add, remove } = self;
        if set.len() + add.len() + remove.len() > LINES_MAX {
            return Err(format!(
                "`request-header` has more than {LINES_MAX} lines and names; remove some"
            ));
        }
        let is_settable = |name: &str| {
            let is_it = |known: &str| known.eq_ignore_ascii_case(name);
            is_it("host") || FIXABLE.into_iter().any(is_it)
        };
        let names = set.iter().map(FieldLine::name).filter(|name| !is_settable(name));
        let names = names.chain(add.iter().map(FieldLine::name));
        let mut names = names.chain(remove.iter().map(String::as_str));
        if let Some(name) = names.find(|name| is_reserved(name)) {
            return Err(format!(
                "`request-header` cannot change `{name}`, which belongs to the connection or is written by Weir; remove it (`set` \
                 may have `Host`, `X-Forwarded-Proto` and `X-Forwarded-Host`, as in set = [\"Host: app.internal\"])"
            ));
        }
        let is_token = |name: &str| {
            let is_part = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            !name.is_empty() && name.bytes().all(is_part)
        };
        if let Some(name) = remove.iter().find(|name| !is_token(name)) {
            return Err(format!(
                "`{}` is no field name; write one without a value, as in remove = [\"Cookie\"]",
                name.escape_debug()
            ));
        }
        if let Some(host) = self.host().filter(|host| !is_host(host)) {
            return Err(format!(
                "`{}` is no host; write a name, with a port or without one, as in \"Host: app.internal\"",
                host.escape_debug()
            ));
        }
        self.validate_fixed()
    }

    /// Checks the fixed values of fields in which this server describes requests.
    fn validate_fixed(&self) -> Result<(), String> {
        for name in FIXABLE {
            let lines = self.set.iter();
            let of_name = lines.filter(|line| line.name().eq_ignore_ascii_case(name));
            if of_name.count() > 1 {
                return Err(format!("`set` has several lines `{name}`; write one"));
            }
        }
        if let Some(scheme) = self.fixed("x-forwarded-proto").filter(|text| !is_scheme(text)) {
            return Err(format!(
                "`{}` is no scheme; write one, as in \"X-Forwarded-Proto: https\"",
                scheme.escape_debug()
            ));
        }
        // Applications such as OnlyOffice also read a path behind the host.
        let is_plain = |text: &str| {
            let is_part = |b: u8| b.is_ascii_graphic() && !b"\"\\,;".contains(&b);
            !text.is_empty() && text.bytes().all(is_part)
        };
        if let Some(host) = self.fixed("x-forwarded-host").filter(|text| !is_plain(text)) {
            return Err(format!(
                "`{}` is no host; write one, as in \"X-Forwarded-Host: www.example.org\"",
                host.escape_debug()
            ));
        }
        Ok(())
    }
}

/// Whether a text has the characters of a host with or without a port.
pub(crate) fn is_host(text: &str) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b))
}

/// Whether a text is a scheme (RFC 3986 section 3.1), which is also a token of `Forwarded`.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::RequestHeader;

    #[test]
    fn mistakes_are_named() {
        let read = |text: &str| {
            let rule: RequestHeader = toml::from_str(text).map_err(|error| error.to_string())?;
            rule.validate().map(|()| rule)
        };
        let rule = read(
            "set = ['X-Env: prod', 'Content-Type: text/plain', 'Host: app.internal:80']\nadd = ['X-Via: weir']\nremove = ['Cookie']\n",
        )
        .unwrap();
        assert!(rule.drops("cookie") && rule.drops("x-env") && !rule.drops("X-Via"));
        assert_eq!(rule.host(), Some("app.internal:80"));
        let lines: Vec<_> = rule.lines().collect();
        let expected = [
            ("X-Env", "prod"),
            ("Content-Type", "text/plain"),
            ("X-Via", "weir"),
        ];
        assert_eq!(lines, expected);
        for (text, said) in [
            ("set = ['Transfer-Encoding: chunked']", "`Transfer-Encoding`"),
            ("set = ['Content-Length: 5']", "`Content-Length`"),
            ("add = ['Connection: X-A']", "`Connection`"),
            ("add = ['Host: a']", "change `Host`"),
            ("add = ['X_Forwarded_For: 10.0.0.1']", "`X_Forwarded_For`"),
            ("set = ['Forwarded: for=10.0.0.1']", "`Forwarded`"),
            ("set = ['Via: 1.1 x']", "`Via`"),
            ("set = ['X-Forwarded-For: 10.0.0.1']", "change `X-Forwarded-For`"),
            ("set = ['X_Forwarded_Proto: https']", "change `X_Forwarded_Proto`"),
            ("add = ['X-Forwarded-Proto: https']", "change `X-Forwarded-Proto`"),
            ("remove = ['X-Forwarded-Host']", "change `X-Forwarded-Host`"),
            ("set = ['X-Forwarded-Proto: https, http']", "no scheme"),
            ("set = ['X-Forwarded-Proto:']", "no scheme"),
            (
                "set = ['X-Forwarded-Proto: http', 'x-forwarded-proto: https']",
                "several lines",
            ),
            ("set = ['X-Forwarded-Host: a, b']", "as in \"X-Forwarded-Host"),
            ("set = ['X-Forwarded-Host:']", "as in \"X-Forwarded-Host"),
            ("remove = ['Upgrade']", "`Upgrade`"),
            ("remove = ['X-A: 1']", "no field name"),
            ("set = ['Host: a b']", "no host"),
            ("set = ['X-A']", "NAME: VALUE"),
            ("set = 'X-A: 1'", "sequence"),
            ("sets = []", "unknown field"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
        let fixed = read(
            "set = ['X-Forwarded-Proto: https', 'x-forwarded-host: a.test/office', 'X-Forwarded-Port: 443']\n",
        )
        .unwrap();
        assert_eq!(fixed.fixed("x-forwarded-proto"), Some("https"));
        assert_eq!(fixed.fixed("X-Forwarded-Host"), Some("a.test/office"));
        assert_eq!(fixed.fixed("X-Forwarded-For"), None);
        let many = format!("remove = [{}]", "'A',".repeat(101));
        assert!(read(&many).unwrap_err().contains("more than 100"));
    }
}
