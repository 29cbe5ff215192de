//! A collector of OpenTelemetry, or a receiver of Prometheus remote write: where it is, who speaks to it, and what becomes of a
//! request. Decides how a request is sent; what is sent, when and how often, the callers decide.

use crate::ask::{self, Persistent, Unanswered};
use crate::failure::Failure;
use crate::secure::{self, Secure};
use flate2::write::GzEncoder;
use otlp::answer::{self, Verdict};
use otlp::export::{MEDIA_TYPE, Scope};
use runtime::clock;
use server::config::{FieldLine, Otlp, OtlpCompression};
use std::borrow::Cow;
use std::io::{self, Write as _};
use std::path::Path;
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

/// The settings of connections to a receiver of remote write, as errors name them.
const RECEIVER_SETTINGS: Settings = Settings {
    ca: "--remote-write-ca",
    certificate: "have the receiver accept clients without one",
    name: "use a name of the certificate in --remote-write, or install one for this name",
    clear: "an http URL in --remote-write",
    ..SETTINGS
};

/// The field with the version of remote write, in its version 1.0.
pub(crate) const REMOTE_WRITE_VERSION: (&str, &str) = ("X-Prometheus-Remote-Write-Version", "0.1.0");

/// Time for a request to a receiver of remote write.
const RECEIVER_PATIENCE: Duration = Duration::from_secs(10);

/// Most of the reason of a receiver that is logged, in characters.
const REASON_MAX: usize = 300;

/// How the content of requests is coded, and what a response means.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    /// OTLP 1 over HTTP.
    Otlp(OtlpCompression),
    /// Prometheus remote write 1.0.
    RemoteWrite,
}

impl Protocol {
    /// The name of the content coding and the content in it; `None`: the content as it is.
    ///
    /// # Errors
    /// Of the encoder, in words.
    fn coded(self, content: &[u8]) -> Result<Option<(&'static str, Vec<u8>)>, String> {
        match self {
            Protocol::Otlp(OtlpCompression::None) => Ok(None),
            Protocol::Otlp(OtlpCompression::Gzip) => match gzip(content) {
                Ok(coded) => Ok(Some(("gzip", coded))),
                Err(error) => Err(error.to_string()),
            },
            // The block format: receivers do not take frames.
            Protocol::RemoteWrite => match snap::raw::Encoder::new().compress_vec(content) {
                Ok(coded) => Ok(Some(("snappy", coded))),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

/// A place of a collector or receiver, and what each request to it has.
#[derive(Debug)]
pub(crate) struct Collector {
    url: Url,
    secure: Option<Secure>,
    /// Collectors must accept repeated requests, because clients send one again whose response got lost.
    connection: Persistent,
    fields: Vec<(String, String)>,
    patience: Duration,
    protocol: Protocol,
    /// Empty for a receiver of remote write, whose series have labels instead.
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
                let host = endpoint.upstream().host();
                Some(trusting(otlp.ca.as_deref(), &host, &SETTINGS)?)
            }
        };
        Ok(Some(Collector {
            url,
            secure,
            connection: Persistent::default(),
            fields: fields(&otlp.header),
            patience: otlp.timeout,
            protocol: Protocol::Otlp(otlp.compression),
            resource: resource(otlp),
        }))
    }

    /// The receiver of remote write at this URL. Requests to it have these field lines as well. `ca`: the file with roots for
    /// its certificate.
    ///
    /// # Errors
    /// `Usage` for a file that cannot be used, `System` without root certificates.
    pub(crate) fn of_remote_write(
        url: &Url,
        header: &[FieldLine],
        ca: Option<&Path>,
    ) -> Result<Collector, Failure> {
        let secure = match url.scheme() {
            "https" => {
                let host = secure::host(url.host_str().unwrap_or_default());
                Some(trusting(ca, host, &RECEIVER_SETTINGS)?)
            }
            _ => None,
        };
        Ok(Collector {
            url: url.clone(),
            secure,
            connection: Persistent::default(),
            fields: fields(header),
            patience: RECEIVER_PATIENCE,
            protocol: Protocol::RemoteWrite,
            resource: Vec::new(),
        })
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
        let coded = self.protocol.coded(content)?;
        let coding = coded.as_ref().map(|(coding, _)| ("Content-Encoding", *coding));
        let version = match self.protocol {
            Protocol::Otlp(_) => None,
            Protocol::RemoteWrite => Some(REMOTE_WRITE_VERSION),
        };
        let own = [("Content-Type", MEDIA_TYPE)]
            .into_iter()
            .chain(coding)
            .chain(version);
        let more = self.fields.iter();
        let more = more.map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = own.chain(more).collect();
        let request = ask::Request {
            url: &self.url,
            method: "POST",
            fields: &fields,
            content: coded.as_ref().map_or(content, |(_, coded)| coded.as_slice()),
        };
        let response = self
            .connection
            .ask(&request, self.secure.as_ref(), self.patience)?;
        let (status, retry_after) = (response.status, response.field("Retry-After"));
        let verdict = match self.protocol {
            Protocol::Otlp(_) => answer::judge(status, retry_after, &response.content),
            Protocol::RemoteWrite => {
                let verdict = judge_write(status, retry_after);
                // Receivers say in words why they refuse samples.
                let reason = String::from_utf8_lossy(&response.content);
                let reason: String = reason.trim().chars().take(REASON_MAX).collect();
                if !matches!(verdict, Verdict::Taken { .. }) && !reason.is_empty() {
                    tracing::warn!(
                        "{} answers with {status}: \"{}\"",
                        self.place(),
                        reason.escape_debug()
                    );
                }
                verdict
            }
        };
        Ok((status, verdict))
    }

    /// Where it is, for logs.
    pub(crate) fn place(&self) -> &str {
        self.url.as_str()
    }
}

/// What a response to a remote write means (Prometheus Remote-Write 1.0, "Retries & Backoff"). Its content means nothing.
fn judge_write(status: u16, retry_after: Option<&str>) -> Verdict {
    match status {
        200..=299 => Verdict::Taken {
            rejected: 0,
            message: String::new(),
        },
        429 | 500..=599 => Verdict::Again {
            after: answer::seconds_asked(retry_after),
        },
        _ => Verdict::Refused,
    }
}

/// TLS to this host, with the roots in this file or those of the system.
fn trusting(ca: Option<&Path>, host: &str, settings: &'static Settings) -> Result<Secure, Failure> {
    let roots = secure::roots(ca, settings.ca)?;
    Secure::trusting(roots, host, settings).map_err(Failure::Usage)
}

/// Names and values of field lines.
fn fields(lines: &[FieldLine]) -> Vec<(String, String)> {
    let lines = lines.iter();
    lines
        .map(|line| (line.name().to_owned(), line.value().to_owned()))
        .collect()
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
    fn remote_writes_are_blocks_of_snappy() {
        let content = b"series series series".repeat(100);
        let coded = Protocol::RemoteWrite.coded(&content).expect("a short content");
        let (coding, coded) = coded.expect("a coding");
        assert_eq!(coding, "snappy");
        assert!(coded.len() < content.len() / 4, "{}", coded.len());
        let decoded = snap::raw::Decoder::new().decompress_vec(&coded);
        assert_eq!(decoded.expect("a block"), content);
    }

    #[test]
    fn remote_writes_are_repeated_after_failures_of_the_receiver() {
        let again = |seconds: Option<u64>| Verdict::Again {
            after: seconds.map(Duration::from_secs),
        };
        for status in [429, 500, 501, 503, 599] {
            assert_eq!(judge_write(status, None), again(None), "{status}");
            assert_eq!(judge_write(status, Some("7")), again(Some(7)), "{status}");
        }
        for status in [301, 400, 401, 404, 408, 413] {
            assert_eq!(judge_write(status, Some("7")), Verdict::Refused, "{status}");
        }
        for status in [200, 204] {
            let verdict = judge_write(status, None);
            assert!(matches!(verdict, Verdict::Taken { rejected: 0, .. }), "{status}");
        }
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
