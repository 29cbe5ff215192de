//! The standard environment variables of OpenTelemetry for traces (OpenTelemetry specification, "Environment Variable
//! Specification", "OTLP Exporter", "Resource SDK"). They set keys of the table `[otlp]` that neither flag nor file sets.
//!
//! Decides what each variable means for Weir. As the specification requires, an empty variable is not set, and a value that
//! cannot be used is ignored with a warning: the variables are often set for all programs of a machine.

use http_semantics::target;
use server::config::{FieldLine, Otlp, OtlpEndpoint, ResourceAttribute, SampledBy, Share};
use units::Duration;

/// All variables that are read here.
pub(crate) const VARIABLES: [&str; 18] = [
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "OTEL_TRACES_EXPORTER",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
];

/// The protocol that Weir sends traces by, as variables name it.
const PROTOCOL: &str = "http/protobuf";

/// What the variables did besides setting keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Filled {
    /// The variable that names the collector, if neither flag nor file does.
    pub(super) turned_on_by: Option<&'static str>,
    /// Variables that were ignored, and why.
    pub(super) warnings: Vec<String>,
}

impl Filled {
    pub(super) fn log(&self, endpoint: Option<&OtlpEndpoint>) {
        if let Some((name, endpoint)) = self.turned_on_by.zip(endpoint) {
            tracing::info!("traces go to {endpoint}, because of the variable {name} in the environment");
        }
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
    }
}

/// Sets the keys of the table that nobody set (`is_set`), from the variables that `read` returns. Creates the table if a variable
/// names a collector.
pub(super) fn fill(
    table: &mut Option<Otlp>,
    is_set: &dyn Fn(&str) -> bool,
    read: &dyn Fn(&str) -> Option<String>,
) -> Filled {
    let mut variables = Variables {
        read,
        warnings: Vec::new(),
    };
    let mut turned_on_by = None;
    let has_collector = table.as_ref().is_some_and(|otlp| otlp.endpoint.is_some());
    if !has_collector
        && !variables.are_disabled()
        && let Some((name, endpoint)) = variables.endpoint()
    {
        table.get_or_insert_default().endpoint = Some(endpoint);
        turned_on_by = Some(name);
    }
    if let Some(otlp) = table {
        variables.set_service(otlp, is_set);
        variables.set_exporter(otlp, is_set);
        if !is_set("sample") && !is_set("sampled-by") {
            variables.set_sampler(otlp);
        }
    }
    Filled {
        turned_on_by,
        warnings: variables.warnings,
    }
}

struct Variables<'v> {
    read: &'v dyn Fn(&str) -> Option<String>,
    warnings: Vec<String>,
}

impl Variables<'_> {
    /// The value of a variable, if it is set.
    fn get(&self, name: &str) -> Option<String> {
        debug_assert!(VARIABLES.contains(&name), "{name} would be erased at the start");
        let value = (self.read)(name)?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// The first of these variables that is set: that of traces, before that of all signals.
    fn first(&self, names: [&'static str; 2]) -> Option<(&'static str, String)> {
        names.into_iter().find_map(|name| Some((name, self.get(name)?)))
    }

    fn ignore(&mut self, name: &str, why: &str) {
        self.warnings.push(format!("ignored the variable {name}: {why}"));
    }

    /// Makes a change, unless it makes a valid table invalid.
    fn change(&mut self, otlp: &mut Otlp, name: &str, change: impl FnOnce(&mut Otlp)) {
        let mut changed = otlp.clone();
        change(&mut changed);
        match changed.validate() {
            Err(error) if otlp.validate().is_ok() => self.ignore(name, &error.message),
            _ => *otlp = changed,
        }
    }

    /// Whether the environment says that programs send no traces, or not by OTLP.
    fn are_disabled(&self) -> bool {
        let is_true = |value: String| value.eq_ignore_ascii_case("true");
        let is_other = |value: String| value.split(',').all(|exporter| exporter.trim() != "otlp");
        self.get("OTEL_SDK_DISABLED").is_some_and(is_true)
            || self.get("OTEL_TRACES_EXPORTER").is_some_and(is_other)
    }

    /// The collector, and the variable that names it.
    fn endpoint(&mut self) -> Option<(&'static str, OtlpEndpoint)> {
        let of_traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let (name, text) = self.first([of_traces, "OTEL_EXPORTER_OTLP_ENDPOINT"])?;
        let protocol = self.first([
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ]);
        if let Some((of, other)) = protocol.filter(|(_, protocol)| protocol != PROTOCOL) {
            let why = format!(
                "{of} is `{}`, and Weir sends traces by {PROTOCOL}; set that, and the collector's port for HTTP (4318 by default)",
                other.escape_debug()
            );
            self.ignore(name, &why);
            return None;
        }
        let endpoint = match name == of_traces {
            true => OtlpEndpoint::of_traces(&text),
            false => text.parse(),
        };
        match endpoint {
            Ok(endpoint) => Some((name, endpoint)),
            Err(why) => {
                self.ignore(name, &why);
                None
            }
        }
    }

    /// Sets what the traces say of this server. Configured attributes replace those of the environment.
    fn set_service(&mut self, otlp: &mut Otlp, is_set: &dyn Fn(&str) -> bool) {
        let is_named = is_set("service-name");
        let of_service = "OTEL_SERVICE_NAME";
        let mut name = self.get(of_service).map(|name| (of_service, name));
        let of_resource = "OTEL_RESOURCE_ATTRIBUTES";
        if let Some(text) = self.get(of_resource) {
            match attributes(&text) {
                Ok((service, attributes)) => {
                    name = name.or(service.map(|service| (of_resource, service)));
                    self.change(otlp, of_resource, |otlp| {
                        // The last one of a name counts.
                        let own = std::mem::replace(&mut otlp.resource, attributes);
                        otlp.resource.extend(own);
                    });
                }
                Err(why) => self.ignore(of_resource, &why),
            }
        }
        if let Some((of, name)) = name.filter(|_| !is_named) {
            self.change(otlp, of, |otlp| otlp.service_name = name);
        }
    }

    /// Sets how requests to the collector are made.
    fn set_exporter(&mut self, otlp: &mut Otlp, is_set: &dyn Fn(&str) -> bool) {
        let of_traces = |key: &str, names: [&'static str; 2], variables: &Variables<'_>| {
            variables.first(names).filter(|_| !is_set(key))
        };
        let names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        if let Some((name, text)) = of_traces("header", names, &*self) {
            match lines(&text) {
                Ok(lines) => self.change(otlp, name, |otlp| otlp.header = lines),
                Err(why) => self.ignore(name, &why),
            }
        }
        let names = [
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
        ];
        if let Some((name, file)) = of_traces("ca", names, &*self) {
            self.change(otlp, name, |otlp| otlp.ca = Some(file.into()));
        }
        let names = [
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
            "OTEL_EXPORTER_OTLP_COMPRESSION",
        ];
        if let Some((name, coding)) = of_traces("compression", names, &*self) {
            match coding.parse() {
                Ok(coding) => self.change(otlp, name, |otlp| otlp.compression = coding),
                Err(why) => self.ignore(name, &why),
            }
        }
        let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
        if let Some((name, millis)) = of_traces("timeout", names, &*self) {
            match millis.parse() {
                Ok(millis) => self.change(otlp, name, |otlp| otlp.timeout = Duration::from_millis(millis)),
                Err(_) => self.ignore(name, "it is no number of milliseconds; write one, as in 10000"),
            }
        }
    }

    /// Sets which requests are recorded.
    fn set_sampler(&mut self, otlp: &mut Otlp) {
        let name = "OTEL_TRACES_SAMPLER";
        let Some(sampler) = self.get(name) else { return };
        let (sampled_by, rest) = match sampler.strip_prefix("parentbased_") {
            Some(rest) => (SampledBy::Parent, rest),
            None => (SampledBy::Share, &*sampler),
        };
        let share = match rest {
            "always_on" => Share::ALL,
            "always_off" => Share::NONE,
            "traceidratio" => self.ratio(),
            _ => {
                let why = format!(
                    "Weir has no sampler `{}`; write always_on, always_off or traceidratio, or one of these after parentbased_",
                    sampler.escape_debug()
                );
                return self.ignore(name, &why);
            }
        };
        self.change(otlp, name, |otlp| {
            otlp.sample = share;
            otlp.sampled_by = sampled_by;
        });
    }

    fn ratio(&mut self) -> Share {
        let name = "OTEL_TRACES_SAMPLER_ARG";
        let Some(text) = self.get(name) else {
            return Share::ALL;
        };
        text.parse().unwrap_or_else(|why: String| {
            self.ignore(name, &why);
            Share::ALL
        })
    }
}

/// The name of the service, and the other attributes.
fn attributes(text: &str) -> Result<(Option<String>, Vec<ResourceAttribute>), String> {
    let (mut service, mut attributes) = (None, Vec::new());
    for (name, value) in pairs(text)? {
        match &*name {
            "service.name" => service = Some(value),
            _ => attributes.push(ResourceAttribute::new(&name, &value)?),
        }
    }
    Ok((service, attributes))
}

/// Field lines. No error shows a value, which may be a secret.
fn lines(text: &str) -> Result<Vec<FieldLine>, String> {
    let line = |(name, value): (String, String)| {
        if name.contains(':') {
            return Err(format!("`{}` is not a field name", name.escape_debug()));
        }
        FieldLine::of_request(&format!("{name}: {value}"))
    };
    pairs(text)?.into_iter().map(line).collect()
}

/// The members of a list such as `a=1,b=2` with their percent-escapes decoded (W3C Baggage, section 3.3.1, without properties).
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let decoded = |part: &str| {
        let bytes = target::decode(part.trim().as_bytes()).ok()?;
        String::from_utf8(bytes.into_owned()).ok()
    };
    let members = text.split(',').map(str::trim).enumerate();
    let pair = |(at, member): (usize, &str)| {
        let pair = member.split_once('=');
        let pair = pair.and_then(|(name, value)| Some((decoded(name)?, decoded(value)?)));
        pair.ok_or_else(|| {
            format!(
                "its member {} is not NAME=VALUE; separate members by commas, and write a comma within a value as %2C",
                at + 1
            )
        })
    };
    members
        .filter(|(_, member)| !member.is_empty())
        .map(pair)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::config::OtlpCompression;

    /// What these variables make of a table in which these keys are set.
    fn filled(table: Option<Otlp>, set: &[&str], variables: &[(&str, &str)]) -> (Option<Otlp>, Filled) {
        let mut table = table;
        let read = |name: &str| {
            let mut found = variables.iter().filter(|(its, _)| *its == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        let filled = fill(&mut table, &|key| set.contains(&key), &read);
        (table, filled)
    }

    fn configured() -> Otlp {
        Otlp {
            endpoint: Some("http://127.0.0.1:1".parse().expect("a URL")),
            ..Otlp::default()
        }
    }

    /// The table and the warnings, if the variables name a collector with this URL for all signals, too.
    fn with(url: &str, variables: &[(&str, &str)]) -> (Otlp, Vec<String>) {
        let all = [&[("OTEL_EXPORTER_OTLP_ENDPOINT", url)], variables].concat();
        let (table, filled) = filled(None, &[], &all);
        let otlp = table.expect("a collector");
        otlp.validate().expect("a valid table");
        (otlp, filled.warnings)
    }

    #[test]
    fn nothing_is_sent_unless_a_variable_names_a_collector() {
        for variables in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[("OTEL_SERVICE_NAME", "shop"), ("OTEL_TRACES_SAMPLER", "nonsense")],
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"),
                ("OTEL_SDK_DISABLED", "TRUE"),
            ],
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"),
                ("OTEL_TRACES_EXPORTER", "none"),
            ],
        ] {
            assert_eq!(
                filled(None, &[], variables),
                (None, Filled::default()),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn an_endpoint_is_a_base_for_all_signals_and_whole_for_traces() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1/base/");
        let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:2/in?key=1");
        for (variables, turned_on_by, url) in [
            (&[base][..], base.0, "http://a:1/base/v1/traces"),
            (&[base, whole], whole.0, "http://b:2/in?key=1"),
            (
                &[base, ("OTEL_TRACES_EXPORTER", "console, otlp")],
                base.0,
                "http://a:1/base/v1/traces",
            ),
            (
                &[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", PROTOCOL)],
                base.0,
                "http://a:1/base/v1/traces",
            ),
        ] {
            let (table, filled) = filled(None, &[], variables);
            assert_eq!(
                (filled.turned_on_by, filled.warnings.len()),
                (Some(turned_on_by), 0)
            );
            let endpoint = table.and_then(|otlp| otlp.endpoint).expect("an endpoint");
            assert_eq!(endpoint.below("/v1/traces"), url);
        }
    }

    #[test]
    fn an_endpoint_that_cannot_be_used_is_ignored() {
        for (variables, parts) in [
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317"),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                ][..],
                ["OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`", "4318"],
            ),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "a:4318")],
                ["OTEL_EXPORTER_OTLP_ENDPOINT: `a:4318`", "write one"],
            ),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/v1/traces")],
                ["Weir adds itself", "write http://a"],
            ),
        ] {
            let (table, filled) = filled(None, &[], variables);
            assert_eq!((table, filled.turned_on_by), (None, None));
            let [warning] = &filled.warnings[..] else {
                panic!("{filled:?}");
            };
            assert!(parts.iter().all(|part| warning.contains(part)), "{warning}");
        }
    }

    #[test]
    fn requests_to_the_collector_are_set() {
        let (otlp, warnings) = with(
            "https://a",
            &[
                (
                    "OTEL_EXPORTER_OTLP_HEADERS",
                    "Authorization=Bearer%20x%2Cy, x-key = 1 ,",
                ),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "10000"),
                ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "100"),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
            ],
        );
        assert_eq!(warnings, [""; 0]);
        let lines = otlp.header.iter();
        let lines: Vec<_> = lines.map(|line| (line.name(), line.value())).collect();
        assert_eq!(lines, [("Authorization", "Bearer x,y"), ("x-key", "1")]);
        assert_eq!(
            (otlp.compression, otlp.timeout),
            (OtlpCompression::Gzip, Duration::from_millis(100))
        );
        assert_eq!(otlp.ca.as_deref(), Some("ca.pem".as_ref()));
    }

    #[test]
    fn a_service_has_a_name_and_attributes() {
        let resource = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,host.name=%C3%A9,k=1");
        let (otlp, warnings) = with("http://a", &[resource]);
        assert_eq!(warnings, [""; 0]);
        let shown: Vec<String> = otlp.resource.iter().map(ToString::to_string).collect();
        assert_eq!(
            (&*otlp.service_name, shown),
            ("a", vec!["host.name=é".to_owned(), "k=1".to_owned()])
        );
        let (otlp, _) = with("http://a", &[resource, ("OTEL_SERVICE_NAME", "b")]);
        assert_eq!(otlp.service_name, "b");
    }

    #[test]
    fn samplers_are_shares_and_who_decides() {
        for (sampler, argument, share, sampled_by) in [
            ("always_on", "", 1.0, SampledBy::Share),
            ("always_off", "", 0.0, SampledBy::Share),
            ("traceidratio", "0.25", 0.25, SampledBy::Share),
            ("parentbased_always_on", "0.25", 1.0, SampledBy::Parent),
            ("parentbased_always_off", "", 0.0, SampledBy::Parent),
            ("parentbased_traceidratio", "0.5", 0.5, SampledBy::Parent),
            ("parentbased_traceidratio", "", 1.0, SampledBy::Parent),
        ] {
            let variables = [
                ("OTEL_TRACES_SAMPLER", sampler),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ];
            let (otlp, warnings) = with("http://a", &variables);
            assert_eq!(
                (otlp.sample.get(), otlp.sampled_by, warnings.len()),
                (share, sampled_by, 0),
                "{sampler}"
            );
        }
    }

    #[test]
    fn values_that_cannot_be_used_are_ignored_and_named() {
        let long = "x".repeat(256);
        for (variable, value, part) in [
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,secret", "its member 2"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0D%0Ab", "visible ASCII"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a%3Ab=secret", "not a field name"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "Content-Type=secret",
                "is set by Weir",
            ),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "`gzip`"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "99", "between 100ms"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem", "is not https"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=%4", "its member 1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "telemetry.sdk.name=x", "remove it"),
            ("OTEL_SERVICE_NAME", &long, "1 to 255"),
            ("OTEL_TRACES_SAMPLER", "xray", "no sampler `xray`"),
        ] {
            let (otlp, warnings) = with("http://127.0.0.1:1", &[(variable, value)]);
            assert_eq!(otlp, configured(), "{variable}");
            let [warning] = &warnings[..] else {
                panic!("{variable}: {warnings:?}");
            };
            assert!(
                warning.contains(variable) && warning.contains(part) && !warning.contains("secret"),
                "{warning}"
            );
        }
        let sampler = ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio");
        let (otlp, warnings) = with("http://127.0.0.1:1", &[sampler, ("OTEL_TRACES_SAMPLER_ARG", "2")]);
        assert_eq!((otlp, warnings.len()), (configured(), 1));
    }

    #[test]
    fn variables_change_nothing_that_is_configured() {
        let own = Otlp {
            service_name: "own".to_owned(),
            resource: vec!["k=own".parse().expect("an attribute")],
            sample: Share::NONE,
            ..configured()
        };
        let set = [
            "endpoint",
            "service-name",
            "header",
            "sample",
            "ca",
            "compression",
            "timeout",
        ];
        let (table, made) = filled(
            Some(own.clone()),
            &set,
            &[
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:2/in"),
                ("OTEL_SERVICE_NAME", "b"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "a=1"),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "100"),
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"),
                ("OTEL_TRACES_SAMPLER", "always_on"),
                ("OTEL_SDK_DISABLED", "true"),
            ],
        );
        assert_eq!((table, made), (Some(own.clone()), Filled::default()));
        // Attributes of both are in force, and the configured one counts where both have it.
        let (table, _) = filled(
            Some(own),
            &set,
            &[("OTEL_RESOURCE_ATTRIBUTES", "k=1,l=2,service.name=b")],
        );
        let table = table.expect("a table");
        let shown: Vec<String> = table.resource.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["k=1", "l=2", "k=own"]);
        assert_eq!(table.service_name, "own");
    }

    #[test]
    fn every_variable_has_its_place_in_the_guide() {
        let text = include_str!("../../docs/operate.md");
        for name in VARIABLES {
            let shown = name.replace("OTLP_TRACES_", "OTLP_");
            assert!(text.contains(&format!("`{shown}`")), "{name}");
        }
    }
}
