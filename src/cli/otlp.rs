//! Flags for traces; in the file, the table `[otlp]`. Any of these flags creates the table.

use super::offered::offered;
use clap::Args;
use server::config::{
    FieldLine, Otlp, OtlpCompression, OtlpEndpoint, Parents, ResourceAttribute, SampledBy, Share,
    parse_duration,
};
use std::path::PathBuf;
use units::Duration;

/// Flags for traces. A flag that was not given is `None` or empty.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traces (keys of the table [otlp])")]
pub(crate) struct OtlpFlags {
    /// Sends a span of each request to this collector of OpenTelemetry, over HTTP, as in http://127.0.0.1:4318. The key in
    /// the table is `endpoint` [default: none]
    #[arg(long, value_name = "URL", env = "WEIR_OTLP")]
    otlp: Option<OtlpEndpoint>,

    /// Name of this server in traces; weir if not given
    #[arg(long, value_name = "NAME", env = "WEIR_OTLP_SERVICE_NAME")]
    otlp_service_name: Option<String>,

    /// Further attribute of this server in traces, as in deployment.environment.name=production; repeatable
    #[arg(long, value_name = "NAME=VALUE", env = "WEIR_OTLP_RESOURCE")]
    otlp_resource: Vec<ResourceAttribute>,

    /// Field line for the collector, such as `Authorization: Bearer TOKEN`; repeatable
    #[arg(long, value_name = "NAME: VALUE", env = "WEIR_OTLP_HEADER", value_parser = FieldLine::of_request)]
    otlp_header: Vec<FieldLine>,

    /// Share of the traces that begin here and are recorded, from 0 to 1; 1 if not given
    #[arg(long, value_name = "SHARE", env = "WEIR_OTLP_SAMPLE")]
    otlp_sample: Option<Share>,

    /// Who decides whether a request that continues a trace is recorded: parent (its `sampled` flag), share (--otlp-sample);
    /// parent if not given
    #[arg(long, value_name = "WHO", env = "WEIR_OTLP_SAMPLED_BY", value_parser = offered::<SampledBy>(), hide_possible_values = true)]
    otlp_sampled_by: Option<SampledBy>,

    /// Whose `traceparent` Weir takes over: all, trusted (peers in --trusted), none (each request begins a trace); all if
    /// not given
    #[arg(long, value_name = "WHOSE", env = "WEIR_OTLP_PARENT", value_parser = offered::<Parents>(), hide_possible_values = true)]
    otlp_parent: Option<Parents>,

    /// PEM file with the roots for the collector's certificate; the system's if not given
    #[arg(long, value_name = "FILE", env = "WEIR_OTLP_CA")]
    otlp_ca: Option<PathBuf>,

    /// Coding of requests to the collector: none, gzip; none if not given
    #[arg(long, value_name = "CODING", env = "WEIR_OTLP_COMPRESSION", value_parser = offered::<OtlpCompression>(), hide_possible_values = true)]
    otlp_compression: Option<OtlpCompression>,

    /// Limit on spans that wait in a process; further ones are dropped and counted; 8192 if not given
    #[arg(long, value_name = "N", env = "WEIR_OTLP_QUEUE")]
    otlp_queue: Option<u32>,

    /// Limit on spans in a request to the collector; 512 if not given
    #[arg(long, value_name = "N", env = "WEIR_OTLP_BATCH")]
    otlp_batch: Option<u32>,

    /// Longest time for which spans are collected before they are sent; 5s if not given
    #[arg(long, value_name = "TIME", env = "WEIR_OTLP_INTERVAL", value_parser = parse_duration)]
    otlp_interval: Option<Duration>,

    /// Time for a request to the collector; 10s if not given
    #[arg(long, value_name = "TIME", env = "WEIR_OTLP_TIMEOUT", value_parser = parse_duration)]
    otlp_timeout: Option<Duration>,
}

impl OtlpFlags {
    /// Overrides the configuration with the flags given.
    pub(super) fn override_in(&self, table: &mut Option<Otlp>) {
        let mut is_said = false;
        let mut otlp = table.clone().unwrap_or_default();
        macro_rules! take {
            ($($flag:ident => $key:ident),* $(,)?) => {
                $(if let Some(value) = &self.$flag {
                    is_said = true;
                    otlp.$key = value.clone();
                })*
            };
        }
        take!(
            otlp_service_name => service_name,
            otlp_sample => sample,
            otlp_sampled_by => sampled_by,
            otlp_compression => compression,
            otlp_parent => parent,
            otlp_queue => queue,
            otlp_batch => batch,
            otlp_interval => interval,
            otlp_timeout => timeout,
        );
        if self.otlp.is_some() {
            is_said = true;
            otlp.endpoint.clone_from(&self.otlp);
        }
        if self.otlp_ca.is_some() {
            is_said = true;
            otlp.ca.clone_from(&self.otlp_ca);
        }
        if !self.otlp_resource.is_empty() {
            is_said = true;
            otlp.resource.clone_from(&self.otlp_resource);
        }
        if !self.otlp_header.is_empty() {
            is_said = true;
            otlp.header.clone_from(&self.otlp_header);
        }
        if is_said {
            *table = Some(otlp);
        }
    }

    /// Whether a flag sets this key of the table.
    pub(super) fn says(&self, key: &str) -> bool {
        match key {
            "endpoint" => self.otlp.is_some(),
            "service-name" => self.otlp_service_name.is_some(),
            "header" => !self.otlp_header.is_empty(),
            "sample" => self.otlp_sample.is_some(),
            "sampled-by" => self.otlp_sampled_by.is_some(),
            "ca" => self.otlp_ca.is_some(),
            "compression" => self.otlp_compression.is_some(),
            "timeout" => self.otlp_timeout.is_some(),
            _ => false,
        }
    }
}
