//! TCP of 1997, as far as today's kernel can be told to behave like it: which settings that takes, and which settings
//! tell how a host's TCP behaves.

use crate::{HostSettings, Settings};

/// Initial congestion window in segments. RFC 2001 has one; the stacks of the time began with two, as they counted the
/// acknowledgment of the handshake.
const INITCWND: u32 = 2;

/// Files below /proc/sys/net/ipv4 with their values, and the document that brought the feature. Each namespace has its
/// own. Files that this kernel lacks are features that it lacks.
pub(super) const OFF: [(&str, &str); 12] = [
    // RFC 1323 is of 1992, and neither SunOS 4 nor Solaris 2.5 nor Linux 2.0 of the documents used it.
    ("tcp_timestamps", "0"),
    ("tcp_window_scaling", "0"),
    // RFC 2018 is of October 1996.
    ("tcp_sack", "0"),
    // RFC 2883.
    ("tcp_dsack", "0"),
    // RFC 3168.
    ("tcp_ecn", "0"),
    // Early retransmit (RFC 5827) and tail-loss probes (RFC 8985).
    ("tcp_early_retrans", "0"),
    // RACK (RFC 8985).
    ("tcp_recovery", "0"),
    // F-RTO (RFC 5682).
    ("tcp_frto", "0"),
    // RFC 7413.
    ("tcp_fastopen", "0"),
    // Linux: small writes of one connection may wait for each other.
    ("tcp_autocorking", "0"),
    // Linux: a connection inherits the threshold of the one before it.
    ("tcp_no_metrics_save", "1"),
    // Linux: the receive buffer grows with the connection.
    ("tcp_moderate_rcvbuf", "0"),
];

/// The settings that a run should name besides [`OFF`].
const ALSO: [&str; 2] = ["tcp_congestion_control", "tcp_slow_start_after_idle"];

/// The settings of the hosts' routes with those of an aged TCP filled in.
pub(super) fn completed(hosts: &HostSettings) -> HostSettings {
    if !hosts.aged {
        return hosts.clone();
    }
    HostSettings {
        initcwnd: hosts.initcwnd.or(Some(INITCWND)),
        congestion: hosts.congestion.clone().or(Some("reno".to_owned())),
        idle_restart: hosts.idle_restart.or(Some(true)),
        ..hosts.clone()
    }
}

/// The settings of the namespace of the calling thread.
pub(super) fn read(hosts: &HostSettings) -> Settings {
    let names = OFF.iter().map(|(name, _)| *name).chain(ALSO);
    let mut settings: Settings = names
        .filter_map(|name| {
            let value = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
            Some((name.to_owned(), value.trim().to_owned()))
        })
        .collect();
    let hosts = completed(hosts);
    if let Some(segments) = hosts.initcwnd {
        settings.insert("initcwnd".to_owned(), segments.to_string());
    }
    // The routes carry it where the sysctl refuses it.
    if let Some(name) = hosts.congestion {
        settings.insert("tcp_congestion_control".to_owned(), name);
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aged_host_keeps_what_was_asked_for() {
        let plain = HostSettings::default();
        assert_eq!(completed(&plain), plain);
        let aged = completed(&HostSettings {
            aged: true,
            congestion: Some("cubic".to_owned()),
            ..HostSettings::default()
        });
        assert_eq!(
            (aged.initcwnd, aged.congestion.as_deref(), aged.idle_restart),
            (Some(2), Some("cubic"), Some(true))
        );
    }

    #[test]
    fn settings_name_the_congestion_control() {
        let read = read(&HostSettings {
            aged: true,
            ..HostSettings::default()
        });
        assert_eq!(read["tcp_congestion_control"], "reno");
        assert_eq!(read["initcwnd"], "2");
        assert!(read.contains_key("tcp_timestamps"), "{read:?}");
    }
}
