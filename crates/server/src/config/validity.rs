//! Which values of a configuration are valid together, and the bounds of those that have no type of their own.

use super::{Config, ConfigError, FastCgi, Http3, LineOrder, LogFormat, LogTemplate};
use super::{
    access, cors, header_rule, limit, mount, pattern, redirect, respond, trusted, try_files, uploads, values,
};
use runtime::shaping::Shaping;
use units::{Bytes, Duration};

/// Smallest limit on the size of a qlog file: a handshake fits.
const QLOG_SIZE_MIN: Bytes = Bytes::kib(64);

/// Smallest access log that is rotated.
const LOG_SIZE_MIN: Bytes = Bytes::kib(4);

/// Shortest period of an access log.
const LOG_TIME_MIN: Duration = Duration::from_secs(60);

impl Config {
    /// Validates values that depend on each other.
    ///
    /// # Errors
    /// The first key at fault and a valid value for it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_managed()?;
        self.validate_listeners()?;
        self.validate_replay()?;
        self.validate_versions()?;
        self.validate_control()?;
        self.validate_site()
    }

    /// Validates all that a site can have of its own.
    fn validate_site(&self) -> Result<(), ConfigError> {
        let at_least = |key: &'static str, value: u64, least: u64, why: &str| {
            if value >= least {
                return Ok(());
            }
            Err(ConfigError::invalid(
                key,
                format!("{value} is too small; it must be at least {least} ({why})"),
            ))
        };
        let at_most = |key: &'static str, value: u64, most: u64, why: &str| {
            if value <= most {
                return Ok(());
            }
            Err(ConfigError::invalid(
                key,
                format!("{value} is too large; it must be at most {most} ({why})"),
            ))
        };
        if let Some(rate) = self.line_rate
            && !(Shaping::RATE_MIN..=Shaping::RATE_MAX).contains(&rate)
        {
            return Err(ConfigError::invalid(
                "line-rate",
                values::no_line_rate(&rate.to_string()),
            ));
        }
        if self.line_rate.is_none() && self.line_order != LineOrder::default() {
            return Err(ConfigError::invalid(
                "line-order",
                "the order has an effect only with a line rate; set `line-rate` (`--line-rate`), too",
            ));
        }
        at_least(
            "max-head-size",
            self.max_head_size.0,
            256,
            "requests of browsers need as much",
        )?;
        at_most(
            "max-head-size",
            self.max_head_size.0,
            1 << 20,
            "each slow client may hold as much memory",
        )?;
        at_least(
            "max-target-length",
            self.max_target_length.0,
            16,
            "no path is shorter",
        )?;
        at_most(
            "max-target-length",
            self.max_target_length.0,
            self.max_head_size.0,
            "the value of `max-head-size`",
        )?;
        at_least(
            "max-fields",
            self.max_fields as u64,
            8,
            "requests of browsers need as many",
        )?;
        at_most(
            "max-fields",
            self.max_fields as u64,
            100,
            "the parser has room for no more",
        )?;
        at_most(
            "max-ranges",
            self.max_ranges as u64,
            1_000,
            "each range costs a part of the response",
        )?;
        at_least(
            "max-connections",
            self.max_connections.into(),
            1,
            "otherwise nobody is served",
        )?;
        at_least(
            "max-connections-per-address",
            self.max_connections_per_address.unwrap_or(1).into(),
            1,
            "otherwise nobody is served",
        )?;
        at_least(
            "max-handshakes-per-address",
            self.max_handshakes_per_address.unwrap_or(1).into(),
            1,
            "otherwise nobody is served over TLS",
        )?;
        at_least(
            "max-disk-queue",
            self.max_disk_queue.into(),
            1,
            "otherwise no file is read",
        )?;
        if self.line_rate.is_some() && self.min_send_rate.0 > 0 {
            return Err(ConfigError::invalid(
                "min-send-rate",
                "cannot be combined with `line-rate`, because responses that wait for the line would count as slow clients; remove one of the two",
            ));
        }
        at_least(
            "max-request-burst",
            self.max_request_burst.into(),
            1,
            "otherwise no request is answered",
        )?;
        at_least(
            "max-pipeline",
            self.max_pipeline.into(),
            1,
            "otherwise no request is answered",
        )?;
        at_least(
            "max-streams",
            self.max_streams.into(),
            1,
            "otherwise no request over HTTP/2 is answered; `http2 = \"off\"` turns it off",
        )?;
        let cut_off = "the minimum is 100ms; a shorter timeout would disconnect well-behaved clients";
        let refused =
            "the minimum is 100ms; a shorter timeout would reject requests whose file is still being opened";
        for (key, span, why) in [
            ("header-timeout", self.header_timeout, cut_off),
            ("idle-timeout", self.idle_timeout, cut_off),
            ("body-timeout", self.body_timeout, cut_off),
            ("write-timeout", self.write_timeout, cut_off),
            ("disk-timeout", self.disk_timeout, refused),
        ] {
            if span < Duration::from_millis(100) {
                return Err(ConfigError::invalid(key, why));
            }
        }
        if !mount::are_file_names(&self.index) {
            return Err(ConfigError::invalid(
                "index",
                "an index is a file name without `/`, as in \"index.html\"",
            ));
        }
        if self.compress_except.len() > pattern::EXCEPTIONS_MAX {
            return Err(ConfigError::invalid(
                "compress-except",
                format!("more than {} patterns; combine some", pattern::EXCEPTIONS_MAX),
            ));
        }
        self.behavior.validate()?;
        if let Some(tilde) = &self.tilde {
            tilde.validate()?;
        }
        if let Some(otlp) = &self.otlp {
            otlp.validate()?;
        }
        if self.http3 == Http3::On && !self.has_tls() {
            return Err(ConfigError::invalid(
                "http3",
                "HTTP/3 needs TLS: set a certificate (`tls-cert`, `tls-key`), a `domain`, or `tls = \"internal\"`",
            ));
        }
        at_least("qlog-files", self.qlog_files.into(), 1, "one file can be written")?;
        if self.qlog_size < QLOG_SIZE_MIN {
            return Err(ConfigError::invalid(
                "qlog-size",
                format!(
                    "{} is too small; it must be at least {QLOG_SIZE_MIN}",
                    self.qlog_size
                ),
            ));
        }
        at_least(
            "log-sample",
            self.log_sample.into(),
            1,
            "every response is logged",
        )?;
        if self.log_rotate_size.0 > 0 && self.log_rotate_size < LOG_SIZE_MIN {
            return Err(ConfigError::invalid(
                "log-rotate-size",
                format!(
                    "{} is too small; it must be at least {LOG_SIZE_MIN}, or 0 for none",
                    self.log_rotate_size
                ),
            ));
        }
        if !self.log_rotate_time.is_zero() && self.log_rotate_time < LOG_TIME_MIN {
            return Err(ConfigError::invalid(
                "log-rotate-time",
                "the minimum is one minute; `off` is none",
            ));
        }
        let shows_path = self.log_template.as_ref().is_some_and(LogTemplate::shows_path);
        if shows_path && !self.log_tcp {
            return Err(ConfigError::invalid(
                "log-template",
                "`$rtt_us`, `$cwnd` and `$retransmitted` need `log-tcp = true` (`--log-tcp`), which costs a system call per response",
            ));
        }
        if self.request_id.name().is_none() {
            let needs = |key, why| {
                Err(ConfigError::invalid(
                    key,
                    format!("{why} needs ids of requests; set `request-id = true` (`--request-id`), too"),
                ))
            };
            if self.log_template.as_ref().is_some_and(LogTemplate::shows_id) {
                return needs("log-template", "`$request_id`");
            }
            if self.request_id_answer {
                return needs("request-id-answer", "the field in responses");
            }
        }
        if self.otlp.is_none() && self.log_template.as_ref().is_some_and(LogTemplate::shows_trace) {
            return Err(ConfigError::invalid(
                "log-template",
                "`$trace_id` and `$span_id` need a collector of traces; set `endpoint` in `[otlp]` (`--otlp`), too",
            ));
        }
        if self.log_tcp && self.log_format != LogFormat::Json && !shows_path {
            return Err(ConfigError::invalid(
                "log-tcp",
                "only the JSON format has fields for it; set `log-format = \"json\"` (`--log-format json`), too",
            ));
        }
        let of_hosts = self
            .host
            .iter()
            .filter_map(|host| host.listing_stylesheet.as_deref());
        for sheet in of_hosts
            .chain([&*self.listing_stylesheet])
            .filter(|sheet| !sheet.is_empty())
        {
            values::site_path(sheet).map_err(|why| ConfigError::invalid("listing-stylesheet", why))?;
        }
        if let Some(page) = &self.spa_fallback {
            values::site_path(page).map_err(|why| ConfigError::invalid("spa-fallback", why))?;
        }
        mount::validate(&self.mount, self.hidden).map_err(|why| ConfigError::invalid("mount", why))?;
        let scripts: Vec<FastCgi> = self.scripts().collect();
        try_files::validate(&self.try_files)
            .and_then(|()| try_files::validate_scripts(&self.try_files, &scripts))
            .map_err(|why| ConfigError::invalid("try-files", why))?;
        limit::validate(&self.limit).map_err(|why| ConfigError::invalid("limit", why))?;
        header_rule::validate(&self.header_rule).map_err(|why| ConfigError::invalid("header-rule", why))?;
        cors::validate(&self.cors).map_err(|why| ConfigError::invalid("cors", why))?;
        for log in self.access_logs() {
            log.socket()
                .map_err(|why| ConfigError::invalid("access-log", why))?;
        }
        access::validate(&self.access).map_err(|why| ConfigError::invalid("access", why))?;
        uploads::validate(&self.uploads, &self.access).map_err(|why| ConfigError::invalid("uploads", why))?;
        trusted::validate(&self.trusted).map_err(|why| ConfigError::invalid("trusted", why))?;
        if self.trusted.is_empty() && self.listeners().iter().any(|listener| listener.proxy_protocol) {
            return Err(ConfigError::invalid(
                "proxy-protocol",
                "takes the header from trusted peers only, and `trusted` names none; name the networks of your load balancers",
            ));
        }
        redirect::all_end(&self.redirect).map_err(|why| ConfigError::invalid("redirect", why))?;
        respond::validate(&self.respond).map_err(|why| ConfigError::invalid("respond", why))?;
        for proxy in &self.proxy {
            proxy
                .validate()
                .map_err(|why| ConfigError::invalid("proxy", why))?;
        }
        if !self.host.is_empty() {
            for site in self.sites()? {
                site.validate_site()?;
            }
        }
        Ok(())
    }
}
