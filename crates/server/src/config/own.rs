//! A host's value for a setting that the top level may have: inherited, off (`false`), or its own.
//!
//! At the top level, `false` is the default, and `true` means the flag without a value.

use super::tilde::Tilde;
use core::fmt;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Unexpected, Visitor};
use std::path::PathBuf;

/// Page for `spa-fallback = true`, and for the flag without a value.
pub const SPA_FALLBACK: &str = "/index.html";

/// A host's value for a setting that it may inherit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Own<T> {
    /// Not given: the value of the top level applies.
    #[default]
    Inherited,
    /// `false`: off for this host.
    Off,
    /// The host's own value.
    Set(T),
}

impl<T: Clone> Own<T> {
    /// The value in force for the host, given that of the top level.
    pub(super) fn over(&self, top: &Option<T>) -> Option<T> {
        match self {
            Own::Inherited => top.clone(),
            Own::Off => None,
            Own::Set(own) => Some(own.clone()),
        }
    }

    /// The host's own value.
    pub fn as_ref(&self) -> Option<&T> {
        match self {
            Own::Set(own) => Some(own),
            Own::Inherited | Own::Off => None,
        }
    }

    /// The host's own value, for changes.
    pub fn as_mut(&mut self) -> Option<&mut T> {
        match self {
            Own::Set(own) => Some(own),
            Own::Inherited | Own::Off => None,
        }
    }
}

impl<T> From<Option<T>> for Own<T> {
    /// `None` is an explicit `false`.
    fn from(said: Option<T>) -> Own<T> {
        said.map_or(Own::Off, Own::Set)
    }
}

/// A path or a boolean.
struct Page(Option<String>);

impl<'de> Deserialize<'de> for Page {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Page, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Page;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "a path of the site, as in \"{SPA_FALLBACK}\", or false for none"
                )
            }

            fn visit_str<E: de::Error>(self, path: &str) -> Result<Page, E> {
                Ok(Page(Some(path.to_owned())))
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Page, E> {
                Ok(Page(is_on.then(|| SPA_FALLBACK.to_owned())))
            }
        }
        d.deserialize_any(Reader)
    }
}

/// A table or a boolean.
struct Table(Option<Tilde>);

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Table, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Table;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a table, as in { directory = \"public_html\" }")
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Table, E> {
                Ok(Table(is_on.then(Tilde::default)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table, A::Error> {
                Tilde::deserialize(MapAccessDeserializer::new(map)).map(|tilde| Table(Some(tilde)))
            }
        }
        d.deserialize_any(Reader)
    }
}

/// A file or `false`.
struct Log(Option<PathBuf>);

impl<'de> Deserialize<'de> for Log {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Log, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Log;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file, as in \"/var/log/weir/example.log\", or false for none")
            }

            fn visit_str<E: de::Error>(self, path: &str) -> Result<Log, E> {
                Ok(Log(Some(path.into())))
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Log, E> {
                match is_on {
                    true => Err(E::invalid_value(Unexpected::Bool(true), &self)),
                    false => Ok(Log(None)),
                }
            }
        }
        d.deserialize_any(Reader)
    }
}

/// Reads `access-log` of a host.
pub(super) fn log_of_host<'de, D: Deserializer<'de>>(d: D) -> Result<Own<PathBuf>, D::Error> {
    Log::deserialize(d).map(|Log(log)| Own::from(log))
}

/// Reads `spa-fallback` of the top level.
pub(super) fn page<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Page::deserialize(d).map(|Page(page)| page)
}

/// Reads `spa-fallback` of a host.
pub(super) fn page_of_host<'de, D: Deserializer<'de>>(d: D) -> Result<Own<String>, D::Error> {
    page(d).map(Own::from)
}

/// Reads `tilde` of the top level.
pub(super) fn tilde<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Tilde>, D::Error> {
    Table::deserialize(d).map(|Table(tilde)| tilde)
}

/// Reads `tilde` of a host.
pub(super) fn tilde_of_host<'de, D: Deserializer<'de>>(d: D) -> Result<Own<Tilde>, D::Error> {
    tilde(d).map(Own::from)
}
