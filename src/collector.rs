//! A collector of OpenTelemetry: where it is, who speaks to it, and what becomes of a request. Decides how a request is sent;
//! what is sent, when and how often, the callers decide.

use crate::ask::{self, Unanswered, ask};
use crate::failure::Failure;
use crate::secure::{self, Fault, Secure};
use otlp::answer::{self, Verdict};
use otlp::export::{MEDIA_TYPE, Scope};
use server::config::Otlp;
use std::sync::Arc;
use tls::refusal::{FLAGS, Settings};
use units::Duration;
use url::Url;

/// What made the spans, for whoever reads them.
pub(crate) const SCOPE: Scope<'static> = Scope {
    name: "weir",
    version: env!("CARGO_PKG_VERSION"),
};

/// The settings of connections to a collector.
const SETTINGS: Settings = Settings {
    ca: "--otlp-ca",
    insecure: None,
    clear: "an http URL in --otlp",
    ..FLAGS
};

/// A place of a collector, and what each request to it has.
#[derive(Debug)]
pub(crate) struct Collector {
    url: Url,
    secure: Option<Secure>,
    fields: Vec<(String, String)>,
    patience: Duration,
    resource: Vec<(&'static str, String)>,
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
        let of_fault = |fault: Fault| match fault {
            Fault::Usage(why) => Failure::Usage(why),
            Fault::System(why) => Failure::System(why),
        };
        let text = endpoint.below(path);
        let url =
            Url::parse(&text).map_err(|error| Failure::Usage(format!("`{text}` is no URL: {error}")))?;
        let secure = match endpoint.upstream().is_secured() {
            false => None,
            true => {
                let roots = match &otlp.ca {
                    Some(file) => secure::named_roots(file, "--otlp-ca"),
                    None => secure::system_roots(),
                };
                let host = endpoint.upstream().host();
                let secure = Secure::trusting(Arc::new(roots.map_err(of_fault)?), &host);
                Some(secure.map_err(Failure::Usage)?.with_settings(&SETTINGS))
            }
        };
        let lines = otlp.header.iter();
        Ok(Some(Collector {
            url,
            secure,
            fields: lines
                .map(|line| (line.name().to_owned(), line.value().to_owned()))
                .collect(),
            patience: otlp.timeout,
            resource: resource(&otlp.service_name),
        }))
    }

    /// The attributes of whoever speaks.
    pub(crate) fn resource(&self) -> Vec<(&str, &str)> {
        let attributes = self.resource.iter();
        attributes.map(|(key, value)| (*key, value.as_str())).collect()
    }

    /// Sends the content of a request and waits for the response.
    ///
    /// # Errors
    /// Why there is no response.
    pub(crate) fn send(&self, content: &[u8]) -> Result<(u16, Verdict), Unanswered> {
        let own = [("Content-Type", MEDIA_TYPE)];
        let more = self.fields.iter();
        let more = more.map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = own.into_iter().chain(more).collect();
        let request = ask::Request {
            url: &self.url,
            method: "POST",
            fields: &fields,
            content,
        };
        let response = ask(&request, self.secure.as_ref(), self.patience)?;
        let verdict = answer::judge(response.status, response.field("Retry-After"), &response.content);
        Ok((response.status, verdict))
    }

    /// Where it is, for logs.
    pub(crate) fn place(&self) -> &str {
        self.url.as_str()
    }
}

/// What is known of this program (OpenTelemetry semantic conventions, "Resource").
#[allow(clippy::disallowed_methods, reason = "the name of this machine is in a file")]
fn resource(service: &str) -> Vec<(&'static str, String)> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let mut attributes = vec![
        ("service.name", service.to_owned()),
        ("service.version", SCOPE.version.to_owned()),
        ("service.instance.id", format!("{host}-{}", std::process::id())),
        ("telemetry.sdk.name", SCOPE.name.to_owned()),
        ("telemetry.sdk.language", "rust".to_owned()),
        ("telemetry.sdk.version", SCOPE.version.to_owned()),
    ];
    if !host.is_empty() {
        attributes.push(("host.name", host.to_owned()));
    }
    attributes
}
