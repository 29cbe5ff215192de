//! Rules that limit the requests of each client for some paths: how many a second, and how many at a time.
//!
//! Decides what a rule says, which requests it counts and which addresses are one client. Requests are counted elsewhere.

use super::access::{Network, networks};
use super::condition::{Conditions, Facts};
use super::pattern::PathPattern;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::Duration;

/// Maximum number of rules of a site. Each has a table of its clients.
const RULES_MAX: usize = 100;

/// A table `[[limit]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Limit {
    /// The rule applies to matching paths and to those below them.
    #[serde(default)]
    pub path: PathPattern,
    /// What requests must have to be counted and limited.
    #[serde(default, rename = "if")]
    pub conditions: Conditions,
    /// Requests of one client in the long run. `None`: no limit.
    pub rate: Option<RequestRate>,
    /// Requests of one client at once, above the rate. `None`: those of a second, at least one.
    pub burst: Option<u32>,
    /// Requests of one client under way, until their responses are sent. `None`: no limit.
    pub concurrent: Option<u32>,
    /// Length of the IPv4 prefix that all addresses of one client share.
    #[serde(default = "whole_address")]
    pub ipv4_prefix: u8,
    /// The same for IPv6.
    #[serde(default = "half_address")]
    pub ipv6_prefix: u8,
    /// Networks whose clients are not limited.
    #[serde(default, deserialize_with = "networks")]
    pub except: Vec<Network>,
}

const fn whole_address() -> u8 {
    32
}

const fn half_address() -> u8 {
    64
}

/// A number of requests in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    requests: u32,
    within: Duration,
}

impl RequestRate {
    /// Time between two requests.
    pub(crate) fn interval(self) -> Duration {
        self.within / self.requests
    }
}

impl FromStr for RequestRate {
    type Err = String;

    fn from_str(text: &str) -> Result<RequestRate, String> {
        let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
        let secs = match unit.trim() {
            "s" => Some(1),
            "m" => Some(60),
            "h" => Some(3_600),
            _ => None,
        };
        match (number.trim().parse(), secs) {
            (Ok(requests @ 1..=1_000_000), Some(secs)) => Ok(RequestRate {
                requests,
                within: Duration::from_secs(secs),
            }),
            _ => Err(format!(
                "`{}` is not a rate; write 1 to 1000000 requests per second, minute or hour, as in 10/s, 30/m or 100/h",
                text.escape_debug()
            )),
        }
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.within.as_secs() {
            1 => "s",
            60 => "m",
            _ => "h",
        };
        write!(f, "{}/{unit}", self.requests)
    }
}

impl<'de> Deserialize<'de> for RequestRate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<RequestRate, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        let written = Written::deserialize(d).map_err(|_| {
            de::Error::custom("this is not a rate; write requests and a time, as in \"10/s\"")
        })?;
        let text = match written {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}

impl Limit {
    /// Whether the rule counts a request for a path that it covers.
    pub(crate) fn counts(&self, facts: Facts<'_, '_, '_>) -> bool {
        self.conditions.hold(facts)
    }

    /// What the rule allows each client, in words.
    pub(crate) fn allowance(&self) -> String {
        let rate = self.rate.map(|rate| format!("{rate}, {} at once", self.burst()));
        let concurrent = self.concurrent.map(|most| format!("{most} under way"));
        let both: Vec<String> = rate.into_iter().chain(concurrent).collect();
        both.join(", ")
    }

    /// The address that stands for the client with this one, which must be canonical. `None`: the client is not limited.
    pub(crate) fn client(&self, peer: IpAddr) -> Option<IpAddr> {
        if self.except.iter().any(|network| network.matches(peer).is_some()) {
            return None;
        }
        Some(match peer {
            IpAddr::V4(v4) => {
                let mask = u32::MAX << (32 - u32::from(self.ipv4_prefix.clamp(1, 32)));
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX << (128 - u32::from(self.ipv6_prefix.clamp(1, 64)));
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        })
    }

    /// Requests of one client at once, above the rate.
    pub(crate) fn burst(&self) -> u32 {
        let of_a_second = self.rate.map_or(1, |rate| {
            let interval = rate.interval().as_nanos().max(1);
            u32::try_from(1_000_000_000 / interval).unwrap_or(u32::MAX)
        });
        self.burst.unwrap_or(of_a_second).max(1)
    }

    fn validate(&self) -> Result<(), String> {
        let path = &self.path;
        self.conditions
            .validate()
            .map_err(|why| format!("the rule for `{path}` counts no request: {why}"))?;
        if self.rate.is_none() && self.concurrent.is_none() {
            return Err(format!(
                "the rule for `{path}` limits nothing; set `rate`, `concurrent`, or both"
            ));
        }
        if self.rate.is_none() && self.burst.is_some() {
            return Err(format!(
                "the rule for `{path}` has a `burst` and no rate; set `rate`, too"
            ));
        }
        if self.burst == Some(0) || self.concurrent == Some(0) {
            return Err(format!(
                "the rule for `{path}` admits no request; `burst` and `concurrent` are at least 1"
            ));
        }
        if !(8..=32).contains(&self.ipv4_prefix) || !(16..=64).contains(&self.ipv6_prefix) {
            return Err(format!(
                "the rule for `{path}` has no useful prefix; `ipv4-prefix` is 8 to 32, and `ipv6-prefix` 16 to 64"
            ));
        }
        Ok(())
    }
}

/// Validates the rules of a site.
pub(super) fn validate(rules: &[Limit]) -> Result<(), String> {
    if rules.len() > RULES_MAX {
        return Err(format!("more than {RULES_MAX} rules; combine some"));
    }
    rules.iter().try_for_each(Limit::validate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<Limit, String> {
        let rule: Limit =
            toml::from_str(&format!("path = '/a'\n{text}")).map_err(|e| e.message().to_owned())?;
        validate(std::slice::from_ref(&rule))?;
        Ok(rule)
    }

    #[test]
    fn a_rate_has_a_time() {
        for (text, interval_ms, burst) in [
            ("rate = 10", 100, 10),
            ("rate = '10/s'", 100, 10),
            ("rate = '30/m'", 2_000, 1),
            ("rate = '1/h'", 3_600_000, 1),
            ("rate = '600/m'\nburst = 3", 100, 3),
        ] {
            let rule = rule(text).unwrap();
            let rate = rule.rate.unwrap();
            assert_eq!(rate.interval(), Duration::from_millis(interval_ms), "{text}");
            assert_eq!(rule.burst(), burst, "{text}");
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }

    #[test]
    fn addresses_of_a_network_are_one_client() {
        let rule = rule("rate = 1\nipv4-prefix = 24\nipv6-prefix = 48\nexcept = '10.0.0.0/8'").unwrap();
        for (one, other, are_same) in [
            ("192.0.2.1", "192.0.2.200", true),
            ("192.0.2.1", "192.0.3.1", false),
            ("2001:db8:1:2::1", "2001:db8:1:3::9", true),
            ("2001:db8:1::1", "2001:db8:2::1", false),
        ] {
            let [one, other] = [one, other].map(|text| rule.client(text.parse().unwrap()));
            assert!(one.is_some());
            assert_eq!(one == other, are_same);
        }
        assert_eq!(rule.client("10.1.2.3".parse().unwrap()), None);
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, advice) in [
            ("", "limits nothing"),
            ("burst = 2\nconcurrent = 1", "no rate"),
            ("concurrent = 0", "at least 1"),
            ("rate = 1\nburst = 0", "at least 1"),
            ("rate = 0", "is not a rate"),
            ("rate = '1/d'", "is not a rate"),
            ("rate = true", "is not a rate"),
            ("rate = 1\nipv4-prefix = 0", "8 to 32"),
            ("rate = 1\nipv6-prefix = 65", "16 to 64"),
            ("rate = 1\nif = 'bot'", "`bot` is not a condition"),
            (
                "rate = 1\nif = ['method GET', 'method POST']",
                "the rule for `/a` counts no request: `method GET` and `method POST` never hold together",
            ),
        ] {
            let why = rule(text).unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
        let rules = vec![rule("rate = 1").unwrap(); RULES_MAX + 1];
        assert!(validate(&rules).unwrap_err().contains("more than 100 rules"));
        assert_eq!(validate(&rules[1..]), Ok(()));
    }
}
