//! A collector of OpenTelemetry: where it is, who speaks to it, and what becomes of a request. Decides how a request is sent;
//! what is sent, when and how often, the callers decide.

use crate::ask::{self, Persistent, Unanswered};
use crate::failure::Failure;
use crate::secure::{self, Secure};
use flate2::write::GzEncoder;
use otlp::answer::{self, Verdict};
use otlp::export::{MEDIA_TYPE, Scope};
use runtime::clock;
use server::config::{Otlp, OtlpCompression};
use std::borrow::Cow;
use std::io::{self, Write as _};
use tls::refusal::Settings;
use units::Duration;
use url::Url;

/// The program that made the spans and metrics.
pub(crate) const SCOPE: Scope<'static> = Scope {
    name: "weir",
    version: env!("CARGO_PKG_VERSION"),
};

/// The settings of connections to a collector, as errors name them.
const SETTINGS: Settings = Settings {
    ca: "--otlp-ca",
    insecure: None,
    certificate: "have the collector accept clients without one",
    name: "use a name of the certificate in --otlp, or install one for this name",
    clear: "an http URL in --otlp",
    versions: "enable TLS 1.2 or 1.3 there",
    protocols: "enable HTTP/1.1 there",
};

/// A place of a collector, and what each request to it has.
#[derive(Debug)]
pub(crate) struct Collector {
    url: Url,
    secure: Option<Secure>,
    /// Collectors must accept repeated requests, because clients send one again whose response got lost.
    connection: Persistent,
    fields: Vec<(String, String)>,
    patience: Duration,
    compression: OtlpCompression,
    resource: Vec<(Cow<'static, str>, String)>,
}

impl Collector {
    /// The collector of a configuration, for what is at this path; `None`: there is none.
    ///
    /// # Errors
    /// `Usage` for a file that cannot be used, `System` without root certificates.
    pub(crate) fn of(otlp: &Otlp, path: &str) -> Result<Option<Collector>, Failure> {
        let Some(endpoint) = &otlp.endpoint else {
            return Ok(None);
        };
        let text = endpoint.below(path);
        let url =
            Url::parse(&text).map_err(|error| Failure::Usage(format!("`{text}` is no URL: {error}")))?;
        let secure = match endpoint.upstream().is_secured() {
            false => None,
            true => {
                let roots = secure::roots(otlp.ca.as_deref(), SETTINGS.ca)?;
                let host = endpoint.upstream().host();
                Some(Secure::trusting(roots, &host, &SETTINGS).map_err(Failure::Usage)?)
            }
        };
        let lines = otlp.header.iter();
        Ok(Some(Collector {
            url,
            secure,
            connection: Persistent::default(),
            fields: lines
                .map(|line| (line.name().to_owned(), line.value().to_owned()))
                .collect(),
            patience: otlp.timeout,
            compression: otlp.compression,
            resource: resource(otlp),
        }))
    }

    /// The attributes of whoever speaks.
    pub(crate) fn resource(&self) -> Vec<(&str, &str)> {
        let attributes = self.resource.iter();
        attributes.map(|(key, value)| (&**key, value.as_str())).collect()
    }

    /// Sends the content of a request and waits for the response. The connection persists for the next one.
    ///
    /// # Errors
    /// Why there is no response.
    pub(crate) fn send(&self, content: &[u8]) -> Result<(u16, Verdict), Unanswered> {
        let coded = match self.compression {
            OtlpCompression::None => None,
            OtlpCompression::Gzip => Some(gzip(content).map_err(|error| error.to_string())?),
        };
        let coding = coded.as_ref().map(|_| ("Content-Encoding", "gzip"));
        let own = [("Content-Type", MEDIA_TYPE)].into_iter().chain(coding);
        let more = self.fields.iter();
        let more = more.map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = own.chain(more).collect();
        let request = ask::Request {
            url: &self.url,
            method: "POST",
            fields: &fields,
            content: coded.as_deref().unwrap_or(content),
        };
        let response = self
            .connection
            .ask(&request, self.secure.as_ref(), self.patience)?;
        let verdict = answer::judge(response.status, response.field("Retry-After"), &response.content);
        Ok((response.status, verdict))
    }

    /// Where it is, for logs.
    pub(crate) fn place(&self) -> &str {
        self.url.as_str()
    }
}

/// Time before the next attempt after so many failed ones. `asked`: the time that the collector asked for.
pub(crate) fn pause(failed: u32, asked: Option<Duration>) -> Duration {
    let fraction = f64::from(clock::wall().nanos % 1_000_000) / 1_000_000.0;
    answer::pause(failed, asked, fraction)
}

/// The content in the coding gzip.
///
/// # Errors
/// Of the encoder; writing to memory has none.
fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    // Spans resemble each other, so the fastest level already leaves little; the workers need the processor, too.
    let mut encoder = GzEncoder::new(Vec::with_capacity(content.len() / 4), flate2::Compression::fast());
    encoder.write_all(content)?;
    encoder.finish()
}

/// What is known of this program (OpenTelemetry semantic conventions, "Resource"). Configured attributes replace those of the
/// same name.
#[allow(clippy::disallowed_methods, reason = "the name of this machine is in a file")]
fn resource(otlp: &Otlp) -> Vec<(Cow<'static, str>, String)> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let mut attributes: Vec<(Cow<'static, str>, String)> = [
        ("service.name", otlp.service_name.clone()),
        ("service.version", SCOPE.version.to_owned()),
        ("service.instance.id", format!("{host}-{}", std::process::id())),
        ("telemetry.sdk.name", SCOPE.name.to_owned()),
        ("telemetry.sdk.language", "rust".to_owned()),
        ("telemetry.sdk.version", SCOPE.version.to_owned()),
    ]
    .map(|(key, value)| (Cow::Borrowed(key), value))
    .into();
    if !host.is_empty() {
        attributes.push(("host.name".into(), host.to_owned()));
    }
    for own in &otlp.resource {
        let value = own.value().to_owned();
        match attributes.iter_mut().find(|(key, _)| key == own.name()) {
            Some(known) => known.1 = value,
            None => attributes.push((own.name().to_owned().into(), value)),
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn configured_attributes_come_once_each() {
        let read = |text: &str| text.parse().expect("an attribute");
        let otlp = Otlp {
            resource: vec![read("host.name=front"), read("a=1"), read("a=2")],
            ..Otlp::default()
        };
        let resource = resource(&otlp);
        let of = |name: &str| -> Vec<&str> {
            let those = resource.iter().filter(|(key, _)| key == name);
            those.map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!(
            [of("host.name"), of("a"), of("service.name")],
            [["front"], ["2"], ["weir"]]
        );
    }

    #[test]
    fn gzip_can_be_undone() {
        let content = b"span span span".repeat(100);
        let coded = gzip(&content).expect("memory");
        assert!(coded.len() < content.len() / 4, "{}", coded.len());
        let mut decoded = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&*coded);
        decoder.read_to_end(&mut decoded).expect("gzip");
        assert_eq!(decoded, content);
    }
}
