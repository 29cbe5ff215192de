//! Serialization of quantities in JSON and CSV: names end in the unit, durations are decimal numbers.

use core::time::Duration;
use serde::Serializer;

/// Milliseconds with a fraction; the field's name ends in `_ms`.
pub(crate) fn ms<S: Serializer>(d: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(d.as_nanos() as f64 / 1e6)
}

/// Seconds with a fraction; the field's name ends in `_s`.
pub(crate) fn seconds<S: Serializer>(d: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(d.as_nanos() as f64 / 1e9)
}

/// As [`ms`], with `null` for `None`.
pub(crate) fn ms_option<S: Serializer>(d: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match d {
        Some(d) => ms(d, serializer),
        None => serializer.serialize_none(),
    }
}

/// As [`seconds`], with `null` for `None`.
pub(crate) fn seconds_option<S: Serializer>(d: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match d {
        Some(d) => seconds(d, serializer),
        None => serializer.serialize_none(),
    }
}
