//! Drops privileges once the server listens: user, Landlock, seccomp. Decides which files a server needs and words the
//! report; `runtime::process::privilege` and `runtime::seccomp` make the system calls.
//!
//! Roots, log and configuration are opened after that, with the remaining rights, also at start. So if they can be
//! opened at start, they can be opened at every reload.

use super::{access_log, cache_folder, choices, managed, qlog, tls};
use crate::cli::serve::Flags;
use crate::failure::Failure;
use runtime::fs::WriteFolder;
use runtime::listen::Listener;
use runtime::process::inherit::{Bounds, Program};
use runtime::process::notify;
use runtime::process::privilege::{self, Account, AccountError, Reach};
use runtime::seccomp::{self, Needs};
use server::config::{Config, IoKind, Landlock, Seccomp, ServerLog, UpstreamAddress};
use server::site::Logins;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files that the C library, the server and a program started for an upgrade read.
const SYSTEM_READ: [&str; 7] = [
    "/proc",
    "/sys/fs/cgroup",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/dev/null",
];
/// Files by which the C library finds the address of a CA or an upstream.
const RESOLVER_READ: [&str; 6] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/run/systemd/resolve",
];
/// Folders with the system's root certificates.
const ROOTS_READ: [&str; 3] = ["/etc/ssl", "/etc/pki", "/etc/ca-certificates"];
/// Files that a program for DNS records reads, to speak with a name server or its API.
const HOOK_READ: [&str; 4] = ["/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/dev/urandom"];
/// Folders of the programs that it starts, such as curl.
const HOOK_EXECUTE: [&str; 3] = ["/bin", "/sbin", "/usr"];
/// Folders of the libraries that they load.
const SYSTEM_EXECUTE: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

/// The rights in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The user as configured with `--user`.
    pub(crate) name: Option<String>,
    /// For the start report: what Landlock allows, or why Landlock is off.
    pub(crate) landlock: String,
    /// Whether Landlock is on.
    pub(crate) is_confined: bool,
    /// For the start report: which system calls the filter denies, or why there is no filter.
    pub(crate) seccomp: String,
    /// Whether the filter is on.
    pub(crate) is_filtered: bool,
}

impl Rights {
    /// Drops all rights that are no longer needed. No other thread may exist yet: it would keep its rights.
    ///
    /// # Errors
    /// `Usage` for a user that does not exist or cannot be switched to, `System` if a system call fails.
    pub(crate) fn give_up(
        config: &Config,
        flags: &Flags,
        listeners: &[Listener],
        program: &Program,
        inherited: Bounds,
    ) -> Result<Rights, Failure> {
        let file = flags.file();
        if let Some(account) = account(config, flags)? {
            privilege::become_account(&account).map_err(|error| no_user(&error, flags))?;
        }
        privilege::no_new_privileges().map_err(|error| {
            Failure::System(format!("cannot set no_new_privs: {error}; use a newer kernel"))
        })?;
        let (landlock, is_confined) = match (inherited.confined, config.landlock) {
            // An inherited Landlock domain cannot be widened, and each further layer counts against a limit of 16.
            (Some(words), _) => (words, true),
            (None, Landlock::Off) => ("no Landlock: switched off".to_owned(), false),
            (None, how) => confine(&reach(config, how, file, listeners, program)),
        };
        // Last, because the filter denies calls that the steps above make.
        let (seccomp, is_filtered) = match (inherited.filtered, config.seccomp) {
            (Some(words), _) => (words, true),
            (None, Seccomp::Off) => ("no seccomp filter: switched off".to_owned(), false),
            (None, Seccomp::Auto) => filter(config),
        };
        let (uid, gid) = privilege::current();
        let rights = Rights {
            uid,
            gid,
            name: config.user.as_ref().map(|user| user.name.clone()),
            landlock,
            is_confined,
            seccomp,
            is_filtered,
        };
        rights.warn_of_what_will_fail(config, file);
        Ok(rights)
    }

    /// The restrictions that the successor of an upgrade in place inherits.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            confined: self.is_confined.then(|| self.landlock.clone()),
            filtered: self.is_filtered.then(|| self.seccomp.clone()),
        }
    }

    /// Rejects folders for uploads that cannot be written to, and roots that Landlock does not allow, except those that
    /// `running` already has.
    ///
    /// # Errors
    /// `Usage`, naming the first rejected folder or root.
    pub(crate) fn refuse_new(&self, next: &Config, running: &Config, flags: &Flags) -> Result<(), Failure> {
        let known = uploads(running);
        for folder in uploads(next).iter().filter(|folder| !known.contains(folder)) {
            let tried = WriteFolder::open(folder).and_then(|folder| folder.try_out());
            tried.map_err(|error| flags.blame("uploads", cannot_store(folder, &error)))?;
        }
        if !self.is_confined {
            return Ok(());
        }
        let known: Vec<&Path> = roots(running).collect();
        for root in roots(next).filter(|root| !known.contains(root)) {
            if let Some(error) = privilege::beyond_reach(root) {
                let why = format!("cannot serve `{}`: {error}", root.display());
                let mount = next.mount.iter().find(|mount| mount.root == root);
                return Err(match (next.root.as_deref() == Some(root), mount) {
                    (true, _) => flags.blame_root(why),
                    (false, Some(mount)) => flags.blame("mount", format!("`{}`: {why}", mount.path)),
                    (false, None) => Failure::Usage(why),
                });
            }
        }
        Ok(())
    }

    /// Rejects all roots that Landlock does not allow, for a process that inherited its predecessor's restrictions.
    ///
    /// # Errors
    /// As [`Rights::refuse_new`].
    pub(crate) fn refuse(&self, config: &Config, flags: &Flags) -> Result<(), Failure> {
        self.refuse_new(config, &Config::default(), flags)
    }

    /// The line about the user in the start report.
    pub(crate) fn user(&self) -> String {
        let numbers = format!("{}:{}", self.uid, self.gid);
        match &self.name {
            Some(name) => {
                format!("user {name} ({numbers}); programs it starts gain no rights (no_new_privs)")
            }
            None if self.uid == 0 => {
                format!("user root ({numbers}); --user NAME drops root once the server listens")
            }
            None => format!("user {numbers}; programs it starts gain no rights (no_new_privs)"),
        }
    }

    /// An addition to an error message that missing rights may explain; empty otherwise.
    pub(crate) fn hint(&self, failure: &str) -> String {
        // Not a second time: a reload on behalf of a command has added it already.
        let is_explained = failure.contains("(running as user");
        if is_explained || !failure.to_ascii_lowercase().contains("permission denied") {
            return String::new();
        }
        let confined = if self.is_confined {
            format!(
                "; {}; other files are out of reach until a restart, or with --landlock=off",
                self.landlock
            )
        } else {
            String::new()
        };
        format!(" (running as user {}:{}{confined})", self.uid, self.gid)
    }

    /// Warns at start of failures that SIGHUP or SIGUSR1 would meet later.
    fn warn_of_what_will_fail(&self, config: &Config, file: Option<&Path>) {
        if self.name.is_none() {
            return;
        }
        // A pipe can be read only at the start, and a reload says so; to open it again would wait for a writer.
        if let Some(file) = file.filter(|file| !super::settings::is_pipe(file))
            && let Err(error) = std::fs::read_to_string(file)
        {
            tracing::warn!(
                "SIGHUP will fail: `{}` cannot be read: {error}{}; make it readable for group {}",
                file.display(),
                self.hint(&error.to_string()),
                self.gid
            );
        }
        let logs = config.access_logs();
        let logs = logs.iter().filter_map(|log| log.file());
        let logs = logs.chain(config.server_log.as_ref().and_then(ServerLog::file));
        for log in logs.filter(|log| !log.starts_with("/dev") && !privilege::can_make(log)) {
            tracing::warn!(
                "SIGUSR1 will find `{}` only if the rotation creates it: user {} cannot create files in its folder; \
                 make the folder writable",
                log.display(),
                self.uid
            );
        }
    }
}

/// Looks up the configured user and, if started as root, switches to it, so that `--check` tests with the rights that a
/// server would have.
///
/// # Errors
/// `Usage` for a user that does not exist, `System` if a system call fails.
pub(super) fn try_user(config: &Config, flags: &Flags) -> Result<(), Failure> {
    match account(config, flags)? {
        Some(account) if privilege::current().0 == 0 => {
            privilege::become_account(&account).map_err(|error| no_user(&error, flags))
        }
        // Users who cannot start the server may check its configuration.
        _ => Ok(()),
    }
}

/// Rejects folders for uploads in which the user of this process cannot create files. Creates none.
///
/// # Errors
/// `Usage`, naming the first rejected folder.
pub(super) fn check_uploads(config: &Config, flags: &Flags) -> Result<(), Failure> {
    let folders = uploads(config);
    let refused = folders
        .iter()
        .find(|folder| folder.is_dir() && !privilege::can_make(&folder.join("file")));
    match refused {
        Some(folder) => {
            let kind = match privilege::is_read_only(folder) {
                true => ErrorKind::ReadOnlyFilesystem,
                false => ErrorKind::PermissionDenied,
            };
            let error = kind.into();
            Err(flags.blame("uploads", cannot_store(folder, &error)))
        }
        None => Ok(()),
    }
}

/// Why uploads cannot be stored in a folder. If its owner and mode are the reason, they are named, and no other one.
fn cannot_store(folder: &Path, error: &io::Error) -> String {
    let (uid, gid) = privilege::current();
    let shown = folder.display();
    match folder.metadata() {
        _ if error.kind() == ErrorKind::ReadOnlyFilesystem => format!(
            "cannot store uploads in `{shown}`: {error}; add the folder to `ReadWritePaths=` of the systemd unit, or mount \
             its file system for writing"
        ),
        Ok(meta) if !privilege::can_make(&folder.join("file")) => format!(
            "cannot store uploads in `{shown}`: {error} (running as user {uid}:{gid}); the folder belongs to {}:{} and has \
             mode {:04o}; let the user of the server write to it, as with `chown {uid}:{gid}`",
            meta.uid(),
            meta.gid(),
            meta.mode() & 0o7777
        ),
        _ => format!("cannot store uploads in `{shown}`: {error}; let the user of the server write to it"),
    }
}

fn account(config: &Config, flags: &Flags) -> Result<Option<Account>, Failure> {
    let user = config.user.as_ref();
    user.map(|user| Account::find(&user.name, user.group.as_deref()))
        .transpose()
        .map_err(|error| no_user(&error, flags))
}

fn no_user(error: &AccountError, flags: &Flags) -> Failure {
    match error {
        AccountError::NoUser(_) | AccountError::NoGroup(_) | AccountError::NotRoot(_) => {
            flags.blame("user", error.to_string())
        }
        _ => Failure::System(format!("`user`: {error}")),
    }
}

fn confine(reach: &Reach) -> (String, bool) {
    match privilege::confine(reach) {
        Ok(privilege::Confinement::None(why)) => (format!("no Landlock: {why}"), false),
        Ok(version) => (format!("{version}: {}", words(reach)), true),
        Err(error) => (format!("no Landlock: {error}"), false),
    }
}

/// Installs the filter against system calls that a server with this configuration never makes.
fn filter(config: &Config) -> (String, bool) {
    let needs = Needs {
        // `weir ctl strategy` may switch to io_uring.
        uring: config.io == IoKind::Uring || config.takes_commands(),
        connects: !config.domain.is_empty()
            || config.upstreams().chain(config.collector()).next().is_some()
            || config.log_sockets().any(|socket| socket.udp_port().is_some()),
    };
    let ring = if needs.uring { "" } else { ", io_uring" };
    // Those of HTTP/3 are open before the filter is in force.
    let udp = if needs.connects { ", UDP" } else { "" };
    match seccomp::restrict(needs) {
        Ok(()) => (
            format!(
                "seccomp: opens TCP{udp} and UNIX sockets only; denies tracing, mounts, namespaces, kernel modules, keys, clock \
                 changes{ring}"
            ),
            true,
        ),
        Err(error) => (format!("no seccomp filter: {error}"), false),
    }
}

/// The allowed files and ports for the start report, without those that every process needs.
fn words(reach: &Reach) -> String {
    let own = |paths: &[PathBuf]| {
        let shown: Vec<String> = paths
            .iter()
            .filter(|path| {
                let mut system = SYSTEM_READ.iter().chain(&RESOLVER_READ).chain(&SYSTEM_EXECUTE);
                !system.any(|other| Path::new(other) == *path)
            })
            .map(|path| path.display().to_string())
            .collect();
        if shown.is_empty() {
            "nothing".to_owned()
        } else {
            shown.join(", ")
        }
    };
    let listed = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let written = reach.write.iter().chain(&reach.keep).chain(&reach.change);
    let written: Vec<PathBuf> = written.cloned().collect();
    let links = match &*reach.links {
        [] => String::new(),
        folders => format!("replaces links in {}; ", own(folders)),
    };
    let connects = match &*reach.connects {
        [] => String::new(),
        ports => format!("; connects to ports {}", listed(ports)),
    };
    let hook = match own(&reach.execute) {
        nothing if nothing == "nothing" => String::new(),
        folders => format!("reads and executes files in {folders} for --acme-hook; "),
    };
    format!(
        "reads {}; writes {}; {links}{hook}{}binds {}{connects}",
        own(&reach.read),
        own(&written),
        match &*reach.programs {
            [] => String::new(),
            programs => format!(
                "executes (so can read) files in {} for upgrades in place; ",
                own(programs)
            ),
        },
        if reach.ports.is_empty() {
            "nothing".to_owned()
        } else {
            listed(&reach.ports)
        }
    )
}

/// The files and ports that a server with this configuration needs.
fn reach(
    config: &Config,
    how: Landlock,
    file: Option<&Path>,
    listeners: &[Listener],
    program: &Program,
) -> Reach {
    let mut read = BTreeSet::new();
    for root in roots(config) {
        match how {
            Landlock::Root => read.extend(std::path::absolute(root)),
            Landlock::Auto | Landlock::Off => read.extend(around(root)),
        }
    }
    for logins in logins(config) {
        read.extend(logins.directories().filter(|directory| directory.exists()));
        if how != Landlock::Root {
            // Logins added before a reload have homes beside the others. Some system logins have the home `/`.
            let homes = logins.homes().filter(|home| home.parent().is_some());
            read.extend(homes.flat_map(around));
        }
    }
    // Editors and Kubernetes replace the file, so access must be to its folder.
    read.extend(file.map(folder));
    // A reload reads certificates again, and tools that renew them replace the files.
    read.extend(tls::files::named(config).iter().flat_map(|file| around(file)));
    // The same for files of users.
    let users = config.access_rules().filter_map(|rule| rule.htpasswd.as_deref());
    read.extend(users.flat_map(around));
    // The same for those of upstreams.
    let passed = config.proxies().filter_map(|rule| rule.tls.as_ref());
    let asked = config.access_rules().filter_map(|rule| rule.auth_tls.as_ref());
    read.extend(passed.chain(asked).flat_map(|tls| tls.files()).flat_map(around));
    // The same for the roots of a collector.
    let ca = config.otlp.as_ref().and_then(|otlp| otlp.ca.as_deref());
    read.extend(ca.into_iter().flat_map(around));
    let mut others = config.upstreams().chain(config.collector());
    if others.any(UpstreamAddress::is_secured) {
        read.extend(ROOTS_READ.map(PathBuf::from));
    }
    let tokens = config
        .admin
        .iter()
        .flat_map(|admin| [&admin.token_file, &admin.control_token_file]);
    read.extend(tokens.flatten().flat_map(|file| around(file)));
    // The recording is appended to, and the successor of an upgrade opens it again.
    let record = config.record.as_deref().map(folder);
    read.extend(record.clone());
    // Its files are counted.
    let qlog = qlog::folder(config);
    read.extend(qlog.clone());
    let mut read: Vec<PathBuf> = read.into_iter().collect();
    read.extend(SYSTEM_READ.map(PathBuf::from));
    if !config.domain.is_empty() || has_names(config) {
        read.extend(RESOLVER_READ.map(PathBuf::from));
    }
    let mut execute: Vec<PathBuf> = SYSTEM_EXECUTE.map(PathBuf::from).into();
    if let Some(hook) = &config.acme_hook {
        read.extend(HOOK_READ.map(PathBuf::from));
        read.extend(std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from));
        execute.extend(HOOK_EXECUTE.map(PathBuf::from));
        execute.extend(around(hook));
    }
    let place = |log: &Path| {
        // For a device or a pipe, the file itself; its folder holds unrelated files.
        let is_special = log.exists() && !log.is_file();
        if is_special { log.to_owned() } else { folder(log) }
    };
    let logs = config.access_logs();
    // Hosts' logs often share a folder.
    let logs: BTreeSet<PathBuf> = logs.iter().filter_map(|log| log.file()).map(place).collect();
    let server_log = config.server_log.as_ref().and_then(ServerLog::file);
    let rotated = logs
        .clone()
        .into_iter()
        .filter(|_| access_log::is_rotated(config));
    // The successor of an upgrade opens the file of secrets again.
    let key_log = config.tls_key_log.as_deref().map(folder);
    let mut write: Vec<PathBuf> = logs.into_iter().chain(record).chain(key_log).collect();
    write.extend(server_log.map(place));
    write.extend(choices::all(config).map(folder));
    write.extend(qlog);
    write.push("/dev/null".into());
    let mut ports: Vec<u16> = listeners
        .iter()
        .filter_map(|listener| Some(listener.address().tcp()?.port()))
        .collect();
    ports.sort_unstable();
    ports.dedup();
    Reach {
        read,
        execute,
        // For the new program of an upgrade in place.
        programs: around(program.path()).into_iter().collect(),
        write,
        keep: managed::folder(config)
            .map(Path::to_owned)
            .into_iter()
            .chain(rotated)
            .chain(cache_folder::all(config).map(Path::to_owned))
            .collect(),
        change: uploads(config),
        // Without commands, nobody can switch to another version.
        links: config
            .version_folders()
            .filter(|_| config.takes_commands())
            .filter_map(|(_, folder)| std::path::absolute(folder).ok())
            .collect(),
        connects: connects(config),
        sockets: config.control.as_deref().map(folder).into_iter().collect(),
        ports,
        abstract_sockets: notify::is_at_abstract_socket(),
    }
}

/// Ports that the server connects to: of an ACME authority, of upstreams, and of a collector.
fn connects(config: &Config) -> Vec<u16> {
    let mut ports = managed::ports(config);
    let upstreams = config.upstreams().chain(config.collector());
    // Name servers are asked over TCP if an answer is long.
    let resolver = has_names(config).then_some(53);
    for port in upstreams.filter_map(|upstream| upstream.port()).chain(resolver) {
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}

/// Whether host names of upstreams, log daemons and a collector are looked up.
fn has_names(config: &Config) -> bool {
    let mut upstreams = config.upstreams().chain(config.collector());
    upstreams.any(UpstreamAddress::has_name) || config.log_sockets().any(|socket| socket.has_name())
}

/// The roots: of the top level, of every host that has its own, and of mounts. Folders of versions and of a recording count as roots.
fn roots(config: &Config) -> impl Iterator<Item = &Path> {
    let own = config.host.iter().filter_map(|host| host.root.as_deref());
    let versions = config.version_folders().map(|(_, folder)| folder);
    let replay = config.replay.as_deref();
    let root = config.root.as_deref();
    let mounts = config.mounts().map(|mount| &*mount.root);
    root.into_iter()
        .chain(replay)
        .chain(own)
        .chain(versions)
        .chain(mounts)
}

/// The folders whose files clients may change. Mistakes in the configuration of hosts are reported when it is opened.
fn uploads(config: &Config) -> Vec<PathBuf> {
    let folders = config.upload_folders().unwrap_or_default();
    folders
        .iter()
        .map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.clone()))
        .collect()
}

/// The logins with pages. An unreadable password database is reported later, when the site is opened.
fn logins(config: &Config) -> impl Iterator<Item = Logins> {
    let own = config.host.iter().filter_map(|host| host.tilde.as_ref());
    let all = config.tilde.iter().chain(own);
    all.filter_map(|tilde| Logins::look_up(tilde).ok())
}

/// Folders to allow so that a root, or a program, stays reachable when it is replaced: by another of the same name, or
/// by changing a symbolic link on its path.
fn around(path: &Path) -> BTreeSet<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let holder = |path: &Path| match path.parent() {
        // Allowing `/` would restrict nothing.
        Some(parent) if parent.parent().is_some() => parent.to_owned(),
        _ => path.to_owned(),
    };
    let mut found = BTreeSet::from([holder(&path)]);
    for prefix in path.ancestors() {
        if prefix.is_symlink()
            && let Ok(target) = prefix.canonicalize()
        {
            found.insert(holder(&target));
        }
    }
    found
}

/// The absolute path of the folder that holds a file.
fn folder(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    file.parent().unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_can_be_replaced_within_reach() {
        let base = std::env::temp_dir().join(format!("weir-rights-{}", std::process::id()));
        let at = |name: &str| base.join(name);
        std::fs::create_dir_all(at("releases/1")).expect("a folder");
        std::fs::create_dir_all(at("plain")).expect("a folder");
        std::os::unix::fs::symlink("releases/1", at("current")).expect("a link");
        let base_real = base.canonicalize().expect("it is there");
        assert_eq!(around(&at("plain")), BTreeSet::from([base.clone()]));
        assert_eq!(
            around(&at("current")),
            BTreeSet::from([base.clone(), base_real.join("releases")])
        );
        assert_eq!(around(Path::new("/srv")), BTreeSet::from(["/srv".into()]));
        std::fs::remove_dir_all(&base).expect("our own folder");
    }

    #[test]
    fn no_owner_helps_where_nothing_can_be_written() {
        let said = cannot_store(Path::new("/proc"), &ErrorKind::ReadOnlyFilesystem.into());
        assert!(
            said.contains("`/proc`") && said.contains("ReadWritePaths="),
            "{said}"
        );
        assert!(!said.contains("chown"), "{said}");
    }

    #[test]
    fn only_what_rights_can_be_the_reason_of_is_explained() {
        let rights = Rights {
            uid: 33,
            gid: 34,
            name: Some("www".to_owned()),
            landlock: "Landlock 6: reads /srv".to_owned(),
            is_confined: true,
            seccomp: "no seccomp filter: switched off".to_owned(),
            is_filtered: false,
        };
        assert_eq!(rights.hint("it is a file"), "");
        let hint = rights.hint("cannot open `/x`: Permission denied (os error 13)");
        for word in ["33:34", "reads /srv", "restart", "--landlock=off"] {
            assert!(hint.contains(word), "{hint}");
        }
        assert_eq!(
            rights.hint(&format!("Permission denied{hint}")),
            "",
            "once is enough"
        );
    }
}
