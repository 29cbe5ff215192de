//! How a rule for a proxy caches responses of its upstreams: the key `cache` of `[[proxy]]`, which is `true`, `false` or a
//! table. `crate::proxy::cache` obeys it.

use super::values;
use crate::cache::Policy;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::path::PathBuf;
use units::{Bytes, Duration};

/// Largest allowance for stale responses, and largest time for which errors are kept.
const TIME_MAX: Duration = Duration::from_secs(365 * 86_400);

/// What the disk needs beside the largest content.
const DISK_OVERHEAD: Bytes = Bytes::mib(2);

/// A table `[proxy.cache]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProxyCache {
    /// Byte budget of the cache in memory, per process; never exceeded.
    #[serde(deserialize_with = "values::bytes")]
    pub size: Bytes,
    /// Which response is evicted first.
    pub policy: Policy,
    /// Content of a response that is stored; larger ones pass without being stored.
    #[serde(deserialize_with = "values::bytes")]
    pub max_object_size: Bytes,
    /// Time after its lifetime in which a response is served while it is validated, if the response does not say.
    #[serde(deserialize_with = "values::duration_or_off")]
    pub stale_while_revalidate: Duration,
    /// Time after its lifetime in which a response is served in place of an error, if the response does not say.
    #[serde(deserialize_with = "values::duration_or_off")]
    pub stale_if_error: Duration,
    /// Folder in which responses are kept across restarts, too.
    pub disk: Option<PathBuf>,
    /// Byte budget of that folder; never exceeded.
    #[serde(deserialize_with = "values::bytes")]
    pub disk_size: Bytes,
    /// Time for which a 404, 405, 410, 414 or 501 is fresh, if the response does not say.
    #[serde(deserialize_with = "values::duration_or_off")]
    pub negative_time: Duration,
}

impl Default for ProxyCache {
    fn default() -> ProxyCache {
        ProxyCache {
            size: Bytes::mib(64),
            policy: Policy::default(),
            max_object_size: Bytes::mib(4),
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            negative_time: Duration::ZERO,
            disk: None,
            disk_size: Bytes::mib(1_024),
        }
    }
}

impl ProxyCache {
    /// Smallest byte budget: a few heads.
    pub const SIZE_MIN: Bytes = Bytes::kib(64);

    /// # Errors
    /// A sentence that names the mistake and a valid value.
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.size < ProxyCache::SIZE_MIN {
            return Err("`size` of a cache is too small; the minimum is 64KiB".to_owned());
        }
        if self.max_object_size.0 > self.size.0 / 2 {
            return Err(format!(
                "`max-object-size` of a cache is more than half of its `size`; the maximum is {} bytes here",
                self.size.0 / 2
            ));
        }
        let disk_min = self.max_object_size.0.saturating_add(DISK_OVERHEAD.0);
        if self.disk.is_some() && self.disk_size.0 < disk_min {
            return Err(format!(
                "`disk-size` of a cache is too small for `max-object-size`; the minimum is {disk_min} bytes here"
            ));
        }
        if self.disk.is_none() && self.disk_size != ProxyCache::default().disk_size {
            return Err(
                "`disk-size` of a cache has no effect without `disk`; name a folder with it".to_owned(),
            );
        }
        let times = [
            self.stale_while_revalidate,
            self.stale_if_error,
            self.negative_time,
        ];
        if times.iter().any(|time| *time > TIME_MAX) {
            return Err("a time of a cache is too long; the maximum is 365d".to_owned());
        }
        Ok(())
    }
}

/// Reads `true`, `false` or a table.
pub(super) fn switch<'de, D: Deserializer<'de>>(d: D) -> Result<Option<ProxyCache>, D::Error> {
    struct Either;

    impl<'de> Visitor<'de> for Either {
        type Value = Option<ProxyCache>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("`true`, `false` or a table, as in cache = { size = \"256MiB\" }")
        }

        fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Self::Value, E> {
            Ok(is_on.then(ProxyCache::default))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            ProxyCache::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    d.deserialize_any(Either)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Rule {
        #[serde(default, deserialize_with = "switch")]
        cache: Option<ProxyCache>,
    }

    #[test]
    fn a_cache_is_a_switch_or_a_table() {
        let read = |text: &str| -> Result<Option<ProxyCache>, String> {
            let rule: Rule = toml::from_str(text).map_err(|error| error.to_string())?;
            rule.cache.as_ref().map_or(Ok(()), ProxyCache::validate)?;
            Ok(rule.cache)
        };
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("cache = false").unwrap(), None);
        assert_eq!(read("cache = true").unwrap(), Some(ProxyCache::default()));
        let cache = read(
            "cache = { size = \"1MiB\", policy = \"lru\", max-object-size = \"64KiB\", stale-while-revalidate = \"10s\", \
             stale-if-error = \"1h\", negative-time = \"5s\" }",
        );
        let cache = cache.unwrap().unwrap();
        assert_eq!((cache.size, cache.policy), (Bytes::mib(1), Policy::Lru));
        assert_eq!(cache.stale_if_error, Duration::from_secs(3_600));
        let cache = read("cache = { disk = \"/var/cache/weir\", disk-size = \"10GiB\" }");
        let cache = cache.unwrap().unwrap();
        assert_eq!(
            cache.disk.as_deref(),
            Some(std::path::Path::new("/var/cache/weir"))
        );
        assert_eq!(cache.disk_size, Bytes::mib(10_240));
        for (text, said) in [
            ("cache = 1", "`true`"),
            ("cache = { sizes = 1 }", "`sizes`"),
            ("cache = { size = \"1KiB\" }", "`size`"),
            ("cache = { size = \"1MiB\" }", "`max-object-size`"),
            ("cache = { disk = \"/x\", disk-size = \"5MiB\" }", "`disk-size`"),
            ("cache = { disk-size = \"5GiB\" }", "without `disk`"),
            ("cache = { negative-time = \"366d\" }", "365d"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }
}
