//! Traces for a collector of OpenTelemetry: table `[otlp]`.
//!
//! Decides where spans go, which requests have one, and how many may wait. It makes and sends none.

use super::auth::AuthUrl;
use super::resource_attribute::ResourceAttribute;
use super::upstream::UpstreamAddress;
use super::values::{self, FieldLine};
use super::{Config, ConfigError};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::path::PathBuf;
use units::Duration;

/// Most spans that may wait in a process.
const QUEUE_MAX: u32 = 1 << 20;

/// Most attributes of the resource.
const RESOURCE_MAX: usize = 64;

/// Paths that are added to the endpoint (OTLP specification, "OTLP/HTTP Request").
const SIGNALS: [&str; 3] = ["/v1/traces", "/v1/metrics", "/v1/logs"];

/// Fields of requests to the collector that have values of their own.
const OWN: [&str; 3] = ["host", "user-agent", "expect"];

/// The table `[otlp]`. Its endpoint turns tracing on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Otlp {
    /// The collector; the path of traces is added to it.
    pub endpoint: Option<OtlpEndpoint>,
    /// The name of this server in traces (`service.name`).
    pub service_name: String,
    /// Further attributes of this server in traces, such as `deployment.environment.name`.
    pub resource: Vec<ResourceAttribute>,
    /// Field lines for the collector, such as a token.
    #[serde(deserialize_with = "values::request_lines")]
    pub header: Vec<FieldLine>,
    /// Share of the traces that begin here and are recorded.
    pub sample: Share,
    /// Who decides about the traces that requests of others continue.
    pub sampled_by: SampledBy,
    /// Whose `traceparent` is believed.
    pub parent: Parents,
    /// PEM file with the roots that the collector's certificate is checked with. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// How batches are compressed.
    pub compression: OtlpCompression,
    /// Most spans that wait in a process; further ones are dropped.
    pub queue: u32,
    /// Most spans in a request to the collector.
    pub batch: u32,
    /// Longest time for which spans are collected before they are sent.
    #[serde(deserialize_with = "values::duration")]
    pub interval: Duration,
    /// Time for a request to the collector.
    #[serde(deserialize_with = "values::duration")]
    pub timeout: Duration,
}

impl Default for Otlp {
    fn default() -> Otlp {
        Otlp {
            endpoint: None,
            service_name: "weir".to_owned(),
            resource: Vec::new(),
            header: Vec::new(),
            sample: Share::ALL,
            sampled_by: SampledBy::default(),
            parent: Parents::default(),
            ca: None,
            compression: OtlpCompression::default(),
            queue: 8_192,
            batch: 512,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
        }
    }
}

units::words! {
    /// Which peers are believed when they say that a request belongs to a trace (`traceparent`).
    #[derive(Default)]
    pub enum Parents {
        /// All clients.
        #[default]
        All = "all",
        /// Those in `trusted`.
        Trusted = "trusted",
        /// None: each request begins a trace.
        None = "none",
    }
}

units::words! {
    /// Who decides whether a request that continues a trace is recorded. About other requests, the share decides.
    #[derive(Default)]
    pub enum SampledBy {
        /// Its parent, by the `sampled` flag.
        #[default]
        Parent = "parent",
        /// The share, by the trace ID.
        Share = "share",
    }
}

units::words! {
    /// The coding of requests to the collector.
    #[derive(Default)]
    pub enum OtlpCompression {
        /// None.
        #[default]
        None = "none",
        /// `Content-Encoding: gzip`, which every collector accepts.
        Gzip = "gzip",
    }
}

impl Otlp {
    /// Whether Weir sets the field of this line itself, so that the line cannot be configured.
    pub fn has_own(line: &FieldLine) -> bool {
        let name = line.name().to_ascii_lowercase();
        OWN.contains(&&*name) || values::is_computed(&name)
    }

    /// Validates values that depend on each other, and their ranges. The endpoint may come from elsewhere
    /// ([`Config::validate_collector`]).
    ///
    /// # Errors
    /// The first key at fault and a valid value for it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |key, why: String| Err(ConfigError::invalid(key, why));
        if self.ca.is_some()
            && let Some(endpoint) = &self.endpoint
            && !endpoint.upstream().is_secured()
        {
            return wrong(
                "ca",
                format!("has no effect: {endpoint} is not https; write an https endpoint, or leave `ca` out"),
            );
        }
        if self.service_name.is_empty() || self.service_name.len() > 255 {
            return wrong("service-name", "a name has 1 to 255 bytes".to_owned());
        }
        if self.resource.len() > RESOURCE_MAX {
            return wrong(
                "resource",
                format!("has more than {RESOURCE_MAX} attributes; remove some"),
            );
        }
        if let Some(line) = self.header.iter().find(|line| Otlp::has_own(line)) {
            return wrong(
                "header",
                format!(
                    "`{}` is set by Weir for each request to the collector; remove it",
                    line.name()
                ),
            );
        }
        if !(1..=QUEUE_MAX).contains(&self.queue) {
            return wrong(
                "queue",
                format!("must be 1 to {QUEUE_MAX}, and is {}", self.queue),
            );
        }
        if !(1..=self.queue).contains(&self.batch) {
            return wrong(
                "batch",
                format!(
                    "must be 1 to {}, the value of `queue`, and is {}",
                    self.queue, self.batch
                ),
            );
        }
        for (key, span) in [("interval", self.interval), ("timeout", self.timeout)] {
            if !(Duration::from_millis(100)..=Duration::from_secs(600)).contains(&span) {
                return wrong(key, "must be between 100ms and 10m".to_owned());
            }
        }
        Ok(())
    }
}

impl Config {
    /// The collector of traces, if there is one.
    pub fn collector(&self) -> Option<&UpstreamAddress> {
        Some(self.otlp.as_ref()?.endpoint.as_ref()?.upstream())
    }

    /// Checks that there is a collector if there is a table for it, once flags and environment were read.
    ///
    /// # Errors
    /// The key that is missing.
    pub fn validate_collector(&self) -> Result<(), ConfigError> {
        match self.otlp.is_some() && self.collector().is_none() {
            true => Err(ConfigError::invalid(
                "otlp",
                "there is no collector; set `endpoint` (`--otlp`), as in http://127.0.0.1:4318",
            )),
            false => Ok(()),
        }
    }

    /// Whether spans would go to another collector, which the rights of a running process may not allow.
    pub(super) fn changes_collector(&self, running: &Config) -> bool {
        self.collector().is_some() && self.collector() != running.collector()
    }

    /// Keeps the collector of a running process.
    pub(super) fn keep_collector(&mut self, running: &Config) {
        match (&mut self.otlp, &running.otlp) {
            (Some(otlp), Some(running)) => otlp.endpoint.clone_from(&running.endpoint),
            _ => self.otlp = None,
        }
    }
}

/// The URL of a collector, as `http://127.0.0.1:4318` or `https://otlp.example.com/v1/otlp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint {
    url: AuthUrl,
    /// Whether the URL is that of the traces themselves, to which nothing is added.
    is_whole: bool,
}

impl OtlpEndpoint {
    /// The endpoint of traces with exactly this URL, as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` has it (OpenTelemetry
    /// specification, "Endpoint URLs for OTLP/HTTP").
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn of_traces(text: &str) -> Result<OtlpEndpoint, String> {
        let url = url(text)?;
        Ok(OtlpEndpoint { url, is_whole: true })
    }

    /// Its server.
    pub fn upstream(&self) -> &UpstreamAddress {
        self.url.upstream()
    }

    /// The URL of what is at this path below it.
    pub fn below(&self, path: &str) -> String {
        match self.is_whole {
            true => self.url.to_string(),
            false => format!("{}{path}", self.url.to_string().trim_end_matches('/')),
        }
    }
}

/// The URL of a collector, which may have a query.
fn url(text: &str) -> Result<AuthUrl, String> {
    let is_http = text.starts_with("http://") || text.starts_with("https://");
    let url = text.parse().ok().filter(|_| is_http);
    url.ok_or_else(|| {
        format!(
            "`{}` is not the URL of a collector; write one as in http://127.0.0.1:4318, without query",
            text.escape_debug()
        )
    })
}

impl FromStr for OtlpEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<OtlpEndpoint, String> {
        let url = url(text)?;
        if url.target().contains('?') {
            return Err(format!(
                "`{}` has a query; write a URL as in http://127.0.0.1:4318, without query",
                text.escape_debug()
            ));
        }
        let text = text.trim_end_matches('/');
        match SIGNALS.iter().find_map(|signal| text.strip_suffix(signal)) {
            Some(base) => Err(format!(
                "`{}` has the path of a signal, which Weir adds itself; write {}",
                text.escape_debug(),
                base.escape_debug()
            )),
            None => Ok(OtlpEndpoint { url, is_whole: false }),
        }
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.below(""))
    }
}

impl<'de> Deserialize<'de> for OtlpEndpoint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<OtlpEndpoint, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

impl Share {
    /// All of them.
    pub const ALL: Share = Share(1.0);
    /// None of them.
    pub const NONE: Share = Share(0.0);

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let share = text
            .parse::<f64>()
            .ok()
            .filter(|share| (0.0..=1.0).contains(share));
        share.map(Share).ok_or_else(|| {
            format!(
                "`{}` is not a share; write a number from 0 to 1, as in 0.1",
                text.escape_debug()
            )
        })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Share, D::Error> {
        struct Reader;
        impl de::Visitor<'_> for Reader {
            type Value = Share;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 1")
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Share, E> {
                number.to_string().parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Share, E> {
                number.to_string().parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Result<Otlp, String> {
        let config = Config::from_toml(&format!("[otlp]\n{text}\n"), "w.toml");
        config
            .map_err(|error| error.to_string())
            .map(|config| config.otlp.expect("a table"))
    }

    #[test]
    fn an_endpoint_is_a_url_without_query() {
        for (text, shown, traces) in [
            (
                "http://127.0.0.1:4318",
                "http://127.0.0.1:4318",
                "http://127.0.0.1:4318/v1/traces",
            ),
            (
                "http://[::1]:4318/",
                "http://[::1]:4318",
                "http://[::1]:4318/v1/traces",
            ),
            (
                "https://otlp.example.com/otlp/",
                "https://otlp.example.com:443/otlp",
                "https://otlp.example.com:443/otlp/v1/traces",
            ),
        ] {
            let endpoint: OtlpEndpoint = text.parse().unwrap();
            assert_eq!(
                (
                    endpoint.to_string().as_str(),
                    endpoint.below("/v1/traces").as_str()
                ),
                (shown, traces)
            );
            assert_eq!(shown.parse::<OtlpEndpoint>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "127.0.0.1:4318",
            "grpc://127.0.0.1:4317",
            "h2c://127.0.0.1:4318",
            "unix:/run/otel.sock",
            "http://a:1/?key=1",
            "http://user:word@a:1/",
        ] {
            let why = text.parse::<OtlpEndpoint>().unwrap_err();
            assert!(why.contains("http://127.0.0.1:4318"), "{text}: {why}");
        }
    }

    #[test]
    fn an_endpoint_of_traces_is_used_as_it_is() {
        for (text, used) in [
            ("http://a:1/v1/traces", "http://a:1/v1/traces"),
            ("http://a:1/v1/traces/?key=1", "http://a:1/v1/traces/?key=1"),
            ("http://a:1", "http://a:1/"),
        ] {
            let endpoint = OtlpEndpoint::of_traces(text).unwrap();
            assert_eq!(
                (
                    endpoint.below("/v1/traces").as_str(),
                    endpoint.to_string().as_str()
                ),
                (used, used)
            );
        }
        assert!(OtlpEndpoint::of_traces("a:4317").is_err() && OtlpEndpoint::of_traces("unix:/a").is_err());
    }

    #[test]
    fn a_table_has_defaults() {
        let otlp = read("endpoint = 'http://127.0.0.1:4318'").unwrap();
        assert_eq!((otlp.queue, otlp.batch, otlp.sample.get()), (8_192, 512, 1.0));
        assert_eq!((otlp.interval.as_secs(), otlp.timeout.as_secs()), (5, 10));
        assert_eq!((otlp.parent, otlp.service_name.as_str()), (Parents::All, "weir"));
        assert_eq!(
            (otlp.sampled_by, otlp.compression, otlp.resource.len()),
            (SampledBy::Parent, OtlpCompression::None, 0)
        );
        let otlp = read(
            "endpoint = 'https://a.test'\nheader = ['Authorization: Bearer x']\nsample = 0.25\nparent = 'trusted'\n\
             ca = 'ca.pem'\nqueue = 1\nbatch = 1\ninterval = '100ms'\ntimeout = '10m'\nservice-name = 'shop'\nsampled-by = 'share'\n\
             compression = 'gzip'\nresource = ['a=b']",
        )
        .unwrap();
        assert_eq!(
            (otlp.sampled_by, otlp.compression, otlp.resource[0].value()),
            (SampledBy::Share, OtlpCompression::Gzip, "b")
        );
        assert_eq!((otlp.header[0].value(), otlp.sample.get()), ("Bearer x", 0.25));
        for (text, sample) in [("sample = 1", 1.0), ("sample = 0", 0.0)] {
            let otlp = read(&format!("endpoint = 'http://a.test:1'\n{text}")).unwrap();
            assert_eq!(otlp.sample.get(), sample);
        }
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        for (text, parts) in [
            ("endpoint = 'http://a'\nsample = 1.5", ["`sample`", "from 0 to 1"]),
            ("endpoint = 'http://a'\nsample = -1", ["`sample`", "from 0 to 1"]),
            ("endpoint = 'http://a'\nca = 'x'", ["`ca`", "is not https"]),
            ("endpoint = 'http://a'\nqueue = 0", ["`queue`", "1 to 1048576"]),
            (
                "endpoint = 'http://a'\nqueue = 1048577",
                ["`queue`", "1 to 1048576"],
            ),
            (
                "endpoint = 'http://a'\nqueue = 9\nbatch = 10",
                ["`batch`", "1 to 9"],
            ),
            ("endpoint = 'http://a'\nbatch = 0", ["`batch`", "1 to 8192"]),
            ("endpoint = 'http://a'\ninterval = '1ms'", ["`interval`", "100ms"]),
            ("endpoint = 'http://a'\ntimeout = '11m'", ["`timeout`", "10m"]),
            (
                "endpoint = 'http://a'\nservice-name = ''",
                ["`service-name`", "1 to 255"],
            ),
            (
                "endpoint = 'http://a'\nheader = ['Host: b']",
                ["`header`", "remove it"],
            ),
            (
                "endpoint = 'http://a'\nheader = ['Content-Type: b']",
                ["`header`", "remove it"],
            ),
            ("endpoint = 'http://a'\nheader = ['b']", ["header", "NAME: VALUE"]),
            ("endpoint = 'http://a'\nparent = 'al'", ["`al`", "`all`"]),
            (
                "endpoint = 'http://a'\nresource = ['a']",
                ["resource", "NAME=VALUE"],
            ),
            ("endpoint = 'http://a'\ncompression = 'zip'", ["`zip`", "`gzip`"]),
            ("endpoint = 'a:4318'", ["`endpoint`", "http://127.0.0.1:4318"]),
            (
                "endpoint = 'http://a:4318/v1/traces'",
                ["Weir adds itself", "write http://a:4318"],
            ),
            (
                "endpoint = 'https://a/otlp/v1/metrics/'",
                ["Weir adds itself", "write https://a/otlp"],
            ),
        ] {
            let why = read(text).expect_err(text);
            assert!(parts.iter().all(|part| why.contains(part)), "{text}: {why}");
        }
        let name = |length| format!("endpoint = 'http://a'\nservice-name = '{}'", "n".repeat(length));
        assert!(read(&name(255)).is_ok() && read(&name(256)).is_err());
        let resource = |count| format!("endpoint = 'http://a'\nresource = [{}]", "'a=b',".repeat(count));
        assert!(read(&resource(RESOURCE_MAX)).is_ok());
        let why = read(&resource(RESOURCE_MAX + 1)).unwrap_err();
        assert!(why.contains("more than 64 attributes"), "{why}");
    }

    #[test]
    fn a_table_needs_a_collector_in_the_end() {
        for (text, is_valid) in [
            ("", true),
            ("[otlp]", false),
            ("[otlp]\nsample = 0.5", false),
            ("[otlp]\nendpoint = 'http://a'", true),
        ] {
            let checked = Config::from_toml(text, "w.toml").unwrap().validate_collector();
            assert_eq!(checked.is_ok(), is_valid, "{text}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("set `endpoint`"), "{error}");
            }
        }
    }

    #[test]
    fn another_collector_needs_a_restart_and_the_rest_does_not() {
        let config = |text: &str| Config::from_toml(text, "w.toml").unwrap();
        let one = config("[otlp]\nendpoint = 'http://127.0.0.1:1'");
        let fewer = config("[otlp]\nendpoint = 'http://127.0.0.1:1'\nsample = 0.5");
        let other = config("[otlp]\nendpoint = 'http://127.0.0.1:2'\nsample = 0.5");
        let none = config("");
        assert!(fewer.needs_restart(&one).is_empty() && none.needs_restart(&one).is_empty());
        for running in [&one, &none] {
            assert_eq!(other.needs_restart(running), ["otlp"]);
        }
        let kept = |running: &Config| {
            let mut next = other.clone();
            next.keep_until_restart(running);
            next.otlp
        };
        assert_eq!(kept(&one), fewer.otlp);
        assert_eq!(kept(&none), None);
    }
}
