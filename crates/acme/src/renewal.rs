//! When to renew a certificate: in the window that the CA suggests (ARI, RFC 9773), or else by its lifetime; and how long
//! to wait after a failure.

use crate::account::encoded;
use crate::dialogue::{Dialogue, parsed, retry_after};
use crate::error::Error;
use crate::world::World;
use serde::{Deserialize, Serialize};
use units::{Draw as _, Duration, Seed, UnixTime, civil};
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};

/// A lifetime below this is short: renewal at its half, not after two thirds.
const SHORT_SECS: i64 = 10 * 86_400;

/// How often a CA is asked for its window if it does not say (RFC 9773 section 4.3 lets it), and the bounds of what it
/// may say.
const ASK_EVERY: Duration = Duration::from_secs(6 * 3_600);
const ASK_LEAST: Duration = Duration::from_secs(60);
const ASK_MOST: Duration = Duration::from_secs(86_400);

/// The first wait after a failure, and the longest.
const AGAIN_FIRST: Duration = Duration::from_secs(60);
const AGAIN_MOST: Duration = Duration::from_secs(12 * 3_600);

/// When the CA wants a certificate to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Unix time.
    pub start: i64,
    /// Unix time, not before `start`.
    pub end: i64,
}

/// What [`ask`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suggested {
    /// The window; `None` if the CA suggests none.
    pub window: Option<Window>,
    /// How long this is good for.
    pub again: Duration,
}

/// The name of a certificate in ARI (RFC 9773 section 4.1): its authority's key identifier and its serial number.
/// `None` for a certificate without that identifier, or one that cannot be read.
pub fn id(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let key = certificate
        .extensions()
        .iter()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(found) => found.key_identifier.as_ref(),
            _ => None,
        })?;
    Some(format!(
        "{}.{}",
        encoded(key.0),
        encoded(certificate.raw_serial())
    ))
}

/// Asks the CA when to renew the certificate of this [`id`]. No window if the CA knows no ARI.
///
/// # Errors
/// The CA does not answer, refuses, or makes no sense.
pub fn ask(world: &mut dyn World, directory: &str, id: &str) -> Result<Suggested, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Info {
        suggested_window: Texts,
    }
    #[derive(Deserialize)]
    struct Texts {
        start: String,
        end: String,
    }
    let mut dialogue = Dialogue::begin(world, directory)?;
    let Some(url) = dialogue.directory.renewal_info.clone() else {
        return Ok(Suggested {
            window: None,
            again: ASK_MOST,
        });
    };
    let answer = dialogue.get(&format!("{}/{id}", url.trim_end_matches('/')))?;
    let Info {
        suggested_window: texts,
    } = parsed(&answer, "the renewal window")?;
    let seconds = |text: &str| civil::rfc3339(text.as_bytes()).map(|time| time.secs);
    let nonsense = || Error::Unexpected("the renewal window of the CA is no span of time".to_owned());
    let window = Window {
        start: seconds(&texts.start).ok_or_else(nonsense)?,
        end: seconds(&texts.end).ok_or_else(nonsense)?,
    };
    if window.end < window.start {
        return Err(nonsense());
    }
    let again = retry_after(&answer, dialogue.world.now()).unwrap_or(ASK_EVERY);
    Ok(Suggested {
        window: Some(window),
        again: again.clamp(ASK_LEAST, ASK_MOST),
    })
}

/// When to renew a certificate that is valid from `begins` to `ends`: at a time of chance in the CA's window, or after
/// two thirds of its lifetime (half of a short one), up to a twentieth earlier by chance. The same seed gives the same
/// time, so that waiting for it ends.
pub fn due(begins: UnixTime, ends: UnixTime, window: Option<Window>, seed: Seed) -> UnixTime {
    let mut rng = seed.rng();
    let mut below = |span: i64| match u64::try_from(span) {
        Ok(span) if span > 0 => i64::try_from(rng.next_u64() % span).unwrap_or(0),
        _ => 0,
    };
    if let Some(window) = window {
        return UnixTime::from_secs(window.start + below(window.end.saturating_sub(window.start)));
    }
    let lifetime = ends.secs.saturating_sub(begins.secs).max(0);
    let after = match lifetime < SHORT_SECS {
        true => lifetime / 2,
        false => lifetime / 3 * 2,
    };
    UnixTime::from_secs(begins.secs + after - below(lifetime / 20))
}

/// How long to wait after so many failures in a row, at least 1: doubled each time, longer by up to a quarter by chance,
/// and no less than what the CA asks for.
pub fn wait(failures: u32, asked: Option<Duration>, seed: Seed) -> Duration {
    let doubled = AGAIN_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let span = doubled.min(AGAIN_MOST);
    let quarter = u64::try_from(span.as_millis() / 4).unwrap_or(u64::MAX).max(1);
    let chance = Duration::from_millis(seed.rng().next_u64() % quarter);
    (span + chance).max(asked.unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn a_certificate_is_renewed_in_good_time() {
        let from = UnixTime::from_secs(1_800_000_000);
        let until = |days: i64| UnixTime::from_secs(from.secs + days * DAY);
        for seed in 0..100 {
            let age = |days: i64, window| {
                (due(from, until(days), window, Seed(seed)).secs - from.secs) as f64 / DAY as f64
            };
            assert!((55.0..=60.0).contains(&age(90, None)), "seed {seed}");
            assert!((2.7..=3.0).contains(&age(6, None)), "seed {seed}");
            let window = Window {
                start: from.secs + 10 * DAY,
                end: from.secs + 12 * DAY,
            };
            assert!((10.0..12.0).contains(&age(90, Some(window))), "seed {seed}");
            let instant = Window {
                end: window.start,
                ..window
            };
            assert!((age(90, Some(instant)) - 10.0).abs() < 1e-9);
        }
        assert_eq!(due(from, from, None, Seed(1)), from);
    }

    #[test]
    fn failures_are_followed_by_ever_longer_waits() {
        let secs = |failures| wait(failures, None, Seed(7)).as_secs();
        assert!((60..=75).contains(&secs(1)) && (120..=150).contains(&secs(2)));
        assert!((43_200..=54_000).contains(&secs(40)));
        let asked = Duration::from_secs(90_000);
        assert_eq!(wait(1, Some(asked), Seed(7)), asked);
    }
}
