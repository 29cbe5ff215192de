//! Other servers on this machine, for comparison, and their configuration: that of document 000's Table 10 where it
//! says something, otherwise one that holds none back (files from the page cache, keep-alive of 15 s). All write an access
//! log, as the servers of the documents did.

use std::fs;
use std::path::{Path, PathBuf};

/// A configured server.
pub(super) struct Peer {
    pub(super) program: PathBuf,
    pub(super) words: Vec<String>,
    /// The command that ends it and its children.
    pub(super) stop: Option<Vec<String>>,
}

/// Path of an installed server.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let file = if name.starts_with("apache") {
        "apache2"
    } else {
        name
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(file))
        .find(|path| path.is_file())
}

/// Whether the name is a known server.
pub(super) fn is_known(name: &str) -> bool {
    ["apache-prefork", "apache-event", "nginx", "lighttpd"].contains(&name)
}

/// A port of 127.0.0.1 without a listener or recent use.
pub(super) fn free_port() -> Result<u16, String> {
    let used: String = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .collect();
    // Below the ephemeral port range; each process starts elsewhere.
    let start = 20_000 + (std::process::id() % 10_000) as u16;
    (start..32_000)
        .find(|port| !used.contains(&format!(":{port:04X} ")))
        .ok_or_else(|| "no port is free".to_owned())
}

/// Writes the configuration into `scratch`; `start` is Apache's initial number of processes, otherwise five.
pub(super) fn prepare(
    name: &str,
    start: Option<u32>,
    port: u16,
    root: &Path,
    scratch: &Path,
    is_root: bool,
) -> Result<Peer, String> {
    let program = program(name).ok_or_else(|| format!("{name} is not installed"))?;
    let file = scratch.join("server.conf");
    let (root, folder) = (root.display(), scratch.display());
    let config = file.display().to_string();
    let (text, words) = match name {
        "nginx" => (
            format!(
                "daemon off;\nmaster_process on;\nworker_processes auto;\n{}pid {folder}/pid;\nerror_log {folder}/error.log;\n\
                 events {{ worker_connections 4096; }}\nhttp {{\n access_log {folder}/access.log; sendfile on; tcp_nopush on;\n \
                 keepalive_timeout 15s; keepalive_requests 1000000;\n open_file_cache max=20000 inactive=60s;\n \
                 default_type application/octet-stream; types {{ text/html html; image/gif gif; text/plain txt; }}\n \
                 client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; \
                 scgi_temp_path {folder};\n server {{ listen 127.0.0.1:{port} backlog=1024; root {root}; }}\n}}\n",
                if is_root { "user root;\n" } else { "" }
            ),
            vec!["-c".to_owned(), config],
        ),
        "lighttpd" => (
            format!(
                "server.document-root = \"{root}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
                 server.errorlog = \"{folder}/error.log\"\nserver.modules += (\"mod_accesslog\")\n\
                 accesslog.filename = \"{folder}/access.log\"\nserver.max-keep-alive-requests = 0\n\
                 server.max-keep-alive-idle = 15\nserver.max-fds = 4096\nindex-file.names = (\"index.html\")\n\
                 mimetype.assign = (\".html\" => \"text/html\", \".gif\" => \"image/gif\", \".txt\" => \"text/plain\")\n"
            ),
            vec!["-D".to_owned(), "-f".to_owned(), config],
        ),
        _ => (
            apache(
                name == "apache-event",
                start,
                is_root,
                port,
                &root.to_string(),
                &folder.to_string(),
            ),
            vec!["-D".to_owned(), "FOREGROUND".to_owned(), "-f".to_owned(), config],
        ),
    };
    fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let stop = (name != "lighttpd").then(|| {
        let mut stop = vec![program.display().to_string()];
        let signal = if name == "nginx" { "-s" } else { "-k" };
        stop.extend(
            words
                .iter()
                .filter(|word| !["-D", "FOREGROUND"].contains(&word.as_str()))
                .cloned(),
        );
        stop.extend([signal.to_owned(), "stop".to_owned()]);
        stop
    });
    Ok(Peer { program, words, stop })
}

fn apache(is_event: bool, start: Option<u32>, is_root: bool, port: u16, root: &str, folder: &str) -> String {
    // Apache refuses to run its children as root.
    let user = if is_root {
        "User www-data\nGroup www-data\n"
    } else {
        ""
    };
    let modules = "/usr/lib/apache2/modules";
    let (mpm, bounds) = if is_event {
        (
            "event",
            "ServerLimit 32\nThreadsPerChild 64\nThreadLimit 64\nMaxRequestWorkers 2048\n".to_owned(),
        )
    } else {
        (
            "prefork",
            format!(
                "StartServers {}\nMinSpareServers 5\nMaxSpareServers 10\nServerLimit 900\nMaxRequestWorkers 900\n",
                start.unwrap_or(5).min(900)
            ),
        )
    };
    let load: String = ["authz_core", "mime", "dir"]
        .iter()
        .map(|name| format!("LoadModule {name}_module {modules}/mod_{name}.so\n"))
        .collect();
    format!(
        "ServerRoot {folder}\nPidFile {folder}/pid\nErrorLog {folder}/error.log\n\
         CustomLog {folder}/access.log \"%h %l %u %t \\\"%r\\\" %>s %b\"\n\
         Listen 127.0.0.1:{port}\nServerName localhost\n\
         LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so\n{load}{bounds}{user}ListenBackLog 1024\nKeepAlive On\n\
         KeepAliveTimeout 15\nMaxKeepAliveRequests 150\nMaxConnectionsPerChild 10000000\nDirectoryIndex index.html\n\
         TypesConfig /dev/null\nAddType text/html .html\nAddType image/gif .gif\nAddType text/plain .txt\n\
         DocumentRoot {root}\n<Directory {root}>\nAllowOverride None\nRequire all granted\n</Directory>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_listened_on_is_not_free() {
        let port = free_port().expect("a port");
        assert!((20_000..32_000).contains(&port));
    }

    #[test]
    fn what_is_not_installed_is_not_found() {
        assert!(program("no-such-program-anywhere").is_none());
        assert!(program("sh").is_some());
    }
}
