//! The access log of a site.

use crate::fate::Fate;
use crate::value::quote;

/// Where the requests of a site are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Nowhere.
    Off,
    /// In a file. `format`: key and TOML value.
    To {
        file: String,
        format: (&'static str, String),
    },
}

impl Log {
    /// A log in one of Weir's formats: `combined`, `common` or `json`.
    pub(crate) fn of_format(file: &str, format: &str) -> Log {
        Log::To {
            file: file.to_owned(),
            format: ("log-format", quote(format)),
        }
    }

    /// A log whose lines a template makes.
    pub(crate) fn of_template(file: &str, template: &str) -> Log {
        Log::To {
            file: file.to_owned(),
            format: ("log-template", quote(template)),
        }
    }

    /// The file; `None` if there is no log.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Log::Off => None,
            Log::To { file, .. } => Some(file),
        }
    }
}

/// Sets the log of a site; it has one.
pub(crate) fn set(log: &mut Option<Log>, new: Log, fate: Fate) -> Fate {
    match log {
        Some(known) if *known != new => Fate::missing(match known.file() {
            Some(file) => format!("a host has one access log: `{file}`"),
            None => "another line of this host switches its access log off".to_owned(),
        }),
        _ => {
            *log = Some(new);
            fate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_log() {
        let mut log = None;
        let one = Log::of_format("/a.log", "json");
        assert_eq!(set(&mut log, one.clone(), Fate::Carried), Fate::Carried);
        assert_eq!(
            set(&mut log, one.clone(), Fate::Carried),
            Fate::Carried,
            "the same log"
        );
        let fate = set(&mut log, Log::of_format("/b.log", "json"), Fate::Carried);
        assert!(
            matches!(&fate, Fate::Missing(why) if why.contains("`/a.log`")),
            "{fate:?}"
        );
        assert_eq!(log, Some(one), "the first one stays");
    }
}
