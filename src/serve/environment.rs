//! Which environment variables a server keeps once its flags are read. Decides the names; `runtime::environment` forgets
//! the rest, which may be secrets of other programs.
//!
//! A list of what stays, as nobody can tell a secret by its name. An upgrade in place starts the next program with these
//! alone, so flags of a version to come stay too.

use std::io;

/// Names that stay: what finds programs and places, the words of terminals, and what a service manager says.
const NAMES: [&str; 24] = [
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
    "SYSTEMD_EXEC_PID",
    "TERM",
    "TMPDIR",
    "TZ",
    "TZDIR",
    "USER",
];
/// Beginnings of names that stay: flags, passed sockets and the watchdog, the locale, the loader, the allocator.
const PREFIXES: [&str; 7] = ["WEIR_", "LISTEN_", "WATCHDOG_", "LC_", "LD_", "MALLOC_", "RUST_"];
/// Ends of names that stay: what tells a sanitizer how to report.
const SUFFIX: &str = "SAN_OPTIONS";

/// Forgets the others. To be called before there is another thread.
///
/// # Errors
/// What the system says; all variables are there then.
pub(super) fn forget_the_rest() -> io::Result<usize> {
    runtime::environment::keep_only(is_kept)
}

fn is_kept(name: &[u8]) -> bool {
    NAMES.iter().any(|kept| kept.as_bytes() == name)
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
        ] {
            assert!(is_kept(name.as_bytes()), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "DATABASE_URL",
            "PATHS",
            "SSH_AUTH_SOCK",
            "",
        ] {
            assert!(!is_kept(name.as_bytes()), "{name}");
        }
    }
}
