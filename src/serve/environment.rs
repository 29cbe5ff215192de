//! The environment variables a server keeps after reading its flags. Decides the names; `runtime::environment` erases
//! the others from memory, because they may be secrets of other programs.
//!
//! This is an allow list, because names do not reveal secrets. An upgrade in place starts the new program with these
//! variables only. So all of `WEIR_*` stays, including flags that only a newer version knows. Of `OTEL_*`, those stay that
//! `cli::otel` reads, also at a reload.

use crate::cli::otel;
use std::io;

/// Names to keep: of search paths and folders, the terminal, the locale and the service manager.
const NAMES: [&str; 26] = [
    "CLICOLOR",
    "COLORTERM",
    "COLUMNS",
    "CREDENTIALS_DIRECTORY",
    "GLIBC_TUNABLES",
    "HOME",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LANG",
    "LANGUAGE",
    "LINES",
    "LLVM_PROFILE_FILE",
    "LOGNAME",
    "NOTIFY_SOCKET",
    "NO_COLOR",
    "PATH",
    "PWD",
    "SHELL",
    "STATE_DIRECTORY",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "TMPDIR",
    "TZ",
    "TZDIR",
    "USER",
    "XDG_DATA_HOME",
];
/// Prefixes of names to keep: flags, passed sockets, the watchdog, the locale, the loader, the allocator.
const PREFIXES: [&str; 7] = ["WEIR_", "LISTEN_", "WATCHDOG_", "LC_", "LD_", "MALLOC_", "RUST_"];
/// Suffix of names to keep: options of sanitizers (`ASAN_OPTIONS`).
const SUFFIX: &str = "SAN_OPTIONS";

/// Erases all other variables and returns their number. Call it before starting another thread.
///
/// # Errors
/// The system's error; all variables then remain.
pub(super) fn forget_the_rest() -> io::Result<usize> {
    runtime::environment::keep_only(is_kept)
}

fn is_kept(name: &[u8]) -> bool {
    let mut names = NAMES.iter().chain(&otel::VARIABLES);
    names.any(|kept| kept.as_bytes() == name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
        || name.ends_with(SUFFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::is_kept;

    #[test]
    fn only_what_a_server_uses_stays() {
        for name in [
            "PATH",
            "WEIR_LISTEN",
            "LISTEN_FDS",
            "LC_ALL",
            "TZ",
            "ASAN_OPTIONS",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ] {
            assert!(is_kept(name.as_bytes()), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "DATABASE_URL",
            "PATHS",
            "OTEL_PYTHON_LOG_LEVEL",
            "SSH_AUTH_SOCK",
            "",
        ] {
            assert!(!is_kept(name.as_bytes()), "{name}");
        }
    }
}
