//! The presets with their sources, as a table or JSON.

use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use link::{PRESETS, Profile, Server, Way};

pub(super) fn print(voice: &Voice) -> Result<(), Failure> {
    let text = if voice.json { json() } else { table() };
    output::print(&text)
}

fn rate(way: &Way) -> String {
    match &way.server {
        Some(Server::Rate(rate)) => rate.to_string(),
        Some(Server::Trace(trace)) => format!("trace, {} on average", trace.rate()),
        None => "none".to_owned(),
    }
}

fn presets() -> impl Iterator<Item = Profile> {
    PRESETS.iter().filter_map(|name| Profile::preset(name))
}

fn table() -> String {
    let mut text = format!(
        "{:<8} {:>14} {:>14} {:>8}  {}\n",
        "link", "down", "up", "rtt ms", "from"
    );
    for profile in presets() {
        let rtt = (profile.up.delay + profile.down.delay).as_secs_f64() * 1e3;
        text += &format!(
            "{:<8} {:>14} {:>14} {rtt:>8}  {}\n",
            profile.name,
            rate(&profile.down),
            rate(&profile.up),
            profile.source
        );
    }
    text
}

fn json() -> String {
    let bits = |way: &Way| match &way.server {
        Some(Server::Rate(rate)) => Some(rate.0),
        _ => None,
    };
    presets()
        .map(|profile| {
            let line = serde_json::json!({
                "link": profile.name,
                "down_bits_per_second": bits(&profile.down),
                "up_bits_per_second": bits(&profile.up),
                "rtt_ms": (profile.up.delay + profile.down.delay).as_secs_f64() * 1e3,
                "half_duplex": profile.half_duplex,
                "source": profile.source,
            });
            format!("{line}\n")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_a_line() {
        assert_eq!(table().lines().count(), PRESETS.len() + 1);
        assert_eq!(json().lines().count(), PRESETS.len());
        assert!(table().contains("NOTE-pipelining-970624"));
    }
}
