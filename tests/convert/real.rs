//! The server that a configuration is for answers requests in cleartext, then Weir with the converted configuration at the same
//! addresses: files, redirects and refusals must be the same. Skipped without nginx or Apache httpd.

use super::USERS;
use crate::cli::{WEIR, text, weir};
use crate::serve::acme::free_ports;
use crate::serve::process::eventually;
use crate::serve::tree::Tree;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that listens at this address; `None`: it is not on this machine.
fn start(command: &mut Command, address: SocketAddr) -> Option<Running> {
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let Ok(child) = started else {
        println!("skipped: {:?} is not on this machine", command.get_program());
        return None;
    };
    let mut running = Running(child);
    eventually("a server", || {
        let ended = running.0.try_wait().expect("our own child");
        assert_eq!(ended, None, "{command:?} ended");
        TcpStream::connect(address).ok()
    });
    Some(running)
}

/// What a server answers: status, the target of a redirect, the lines of fields that the configurations of these tests set, and
/// the content of a file.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    location: Option<String>,
    lines: Vec<String>,
    content: Option<String>,
}

fn ask(address: SocketAddr, host: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .expect("a request");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let all = text(&bytes);
    let (head, content) = all
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{host} {path}: {all:?}"));
    let status: u16 = head[9..12].parse().expect("a status");
    let field = |name: &str| {
        let found = head.lines().filter_map(|line| line.split_once(": "));
        let mut values = found.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.to_owned())
    };
    let lines = head
        .lines()
        .filter(|line| line.to_ascii_lowercase().starts_with("x-test"));
    Answer {
        // Weir chooses among permanent redirects.
        status: if status == 308 { 301 } else { status },
        location: field("Location"),
        lines: lines.map(str::to_ascii_lowercase).collect(),
        content: (status == 200).then(|| content.to_owned()),
    }
}

/// A tree with the folders of the sites: each file says where it is.
fn tree() -> Tree {
    let tree = Tree::new();
    for name in [
        "a/index.html",
        "a/page.html",
        "a/admin/x.txt",
        "a/in/deep/x.txt",
        "b/index.html",
        "b/x.txt",
        "plain/index.html",
        "plain/x.txt",
        "alias/x.txt",
        "alias/deep/x.txt",
        "deeper/x.txt",
        "deeper/x.cfg",
        "clear/.well-known/acme-challenge/token",
        "acme/token",
        "clear/x.txt",
    ] {
        tree.write(name, name);
    }
    tree.write("users", USERS);
    tree.write("cert.pem", include_str!("../../testdata/convert/cert.pem"));
    tree.write("key.pem", include_str!("../../testdata/convert/key.pem"));
    tree.write("logs/none", "");
    tree
}

/// Asks the server of the dialect and Weir for each host and path, and compares. `CLEAR` and `SECURE` in the configuration are
/// ports, `ROOT` is the folder of the sites.
fn compare(dialect: &str, config: &str, asked: &[(&str, &str)]) {
    let tree = tree();
    let root = Tree::path(&tree).display().to_string();
    let [clear, secure] = free_ports();
    let filled = |config: &str| {
        config
            .replace("ROOT", &root)
            .replace("CLEAR", &clear.to_string())
            .replace("SECURE", &secure.to_string())
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, clear));
    let config = filled(config);
    let (name, whole) = match dialect {
        "nginx" => (
            "nginx.conf",
            format!(
                "daemon off; master_process off; pid {root}/pid; error_log stderr crit; events {{}}\nhttp {{ access_log off; \
                 client_body_temp_path {root}/logs; proxy_temp_path {root}/logs; fastcgi_temp_path {root}/logs; \
                 uwsgi_temp_path {root}/logs; scgi_temp_path {root}/logs;\n{config}}}\n"
            ),
        ),
        _ => ("site.conf", config.clone()),
    };
    let file = tree.write(name, whole);
    let mut command = match dialect {
        "nginx" => {
            let mut command = Command::new("/usr/sbin/nginx");
            command.arg("-p").arg(&root).arg("-c").arg(&file);
            command
        }
        _ => {
            let modules = [
                ("mpm_event", "mpm_event"),
                ("authz_core", "authz_core"),
                ("authz_host", "authz_host"),
                ("alias", "alias"),
                ("dir", "dir"),
                ("mime", "mime"),
                ("headers", "headers"),
                ("rewrite", "rewrite"),
                ("ssl", "ssl"),
            ];
            let lines = modules.map(|(name, file)| {
                format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{file}.so\n")
            });
            let start = tree.write(
                "httpd.conf",
                format!(
                    "{}ServerRoot {root}\nPidFile {root}/pid\nErrorLog {root}/logs/error\nMutex file:{root}/logs\n\
                     TypesConfig /dev/null\nServerName localhost\nInclude {}\n",
                    lines.concat(),
                    file.display()
                ),
            );
            let mut command = Command::new("/usr/sbin/apache2");
            command.args(["-X", "-f"]).arg(start);
            command
        }
    };
    let wanted: Vec<Answer> = {
        let Some(_running) = start(&mut command, address) else {
            return;
        };
        asked
            .iter()
            .map(|(host, path)| ask(address, host, path))
            .collect()
    };
    let out = tree.join("weir.toml");
    let words = ["convert", "--from", dialect, "--out"];
    let output = weir(&[&words[..], &[&*out.to_string_lossy(), &*file.to_string_lossy()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = std::fs::read_to_string(&out).expect("the result");
    eventually("the address", || std::net::TcpListener::bind(address).ok());
    let mut command = serve(&out);
    let _running = start(&mut command, address).expect("Weir");
    for ((host, path), wanted) in asked.iter().zip(&wanted) {
        let found = ask(address, host, path);
        assert_eq!(
            &found,
            wanted,
            "{dialect} {host}{path}\n{result}\n{}",
            text(&output.stderr)
        );
    }
}

fn serve(config: &Path) -> Command {
    let mut command = Command::new(WEIR);
    command
        .args(["serve", "--config"])
        .arg(config)
        .stderr(Stdio::null());
    command
}

/// Lines of a server with TLS.
const TLS: &str =
    "listen 127.0.0.1:SECURE ssl; ssl_certificate ROOT/cert.pem; ssl_certificate_key ROOT/key.pem;";

#[test]
fn nginx_redirects_the_hosts_that_it_says() {
    let config = format!(
        "server {{ listen 127.0.0.1:CLEAR default_server; server_name _; root ROOT/clear;\n\
         location /.well-known/acme-challenge/ {{ }}\n\
         location / {{ return 301 https://$host$request_uri; }} }}\n\
         server {{ {TLS} server_name a.test www.a.test; root ROOT/a; index index.html;\n\
         location /admin/ {{ auth_basic x; auth_basic_user_file ROOT/users; }}\n\
         location / {{ try_files $uri /index.html; }} }}\n\
         server {{ {TLS} server_name b.test; root ROOT/b;\n\
         location / {{ proxy_pass http://127.0.0.1:1; }} }}\n\
         server {{ listen 127.0.0.1:CLEAR; server_name plain.test; root ROOT/plain; }}\n"
    );
    let mut asked = Vec::new();
    for host in ["a.test", "www.a.test", "b.test"] {
        for path in [
            "/",
            "/page.html?q=1",
            "/admin/x.txt",
            "/.well-known/acme-challenge/token",
            // Without a dot, Weir sends the page for unknown paths of `a.test`.
            "/.well-known/acme-challenge/none.txt",
        ] {
            asked.push((host, path));
        }
    }
    asked.extend([
        ("plain.test", "/"),
        ("plain.test", "/x.txt"),
        ("plain.test", "/none"),
    ]);
    compare("nginx", &config, &asked);
    // Every host is redirected.
    let config = format!(
        "server {{ listen 127.0.0.1:CLEAR; server_name a.test; return 301 https://$host$request_uri; }}\n\
         server {{ {TLS} server_name a.test; root ROOT/a; }}\n"
    );
    // To the first address with TLS, whose port is not that of nginx's target.
    let whole = |text: &str| {
        let folder = Tree::with(&[(
            "nginx.conf",
            &text
                .replace("ROOT", "/srv")
                .replace("CLEAR", "80")
                .replace("SECURE", "443"),
        )]);
        let output = weir(&["convert", &folder.join("nginx.conf").to_string_lossy()]);
        super::text(&output.stdout)
    };
    assert!(whole(&config).contains("https-redirect = true"));
}

#[test]
fn nginx_finds_the_files_of_locations_in_others() {
    let config = "server { listen 127.0.0.1:CLEAR; server_name a.test; root ROOT/a;\n\
         location / { proxy_pass http://127.0.0.1:1;\n\
         location /in/ { root ROOT/a; }\n\
         location /al/ { alias ROOT/alias/; location /al/deep/ { alias ROOT/deeper/; location ~ \\.cfg$ { deny all; } }\n\
         location /al/own/ { alias ROOT/alias/; } } }\n\
         location /.cfg/ { }\n}\n\
         server { listen 127.0.0.1:CLEAR; server_name b.test; root ROOT/b;\n\
         location /files/ { alias ROOT/alias/; location ~ \\.txt$ { add_header X-Test-In 1; } location /files/b/ { root ROOT/b; } }\n}\n";
    compare(
        "nginx",
        config,
        &[
            ("a.test", "/in/deep/x.txt"),
            ("a.test", "/al/x.txt"),
            ("a.test", "/al/deep/x.txt"),
            ("a.test", "/al/deep/x.cfg"),
            ("a.test", "/al/own/x.txt"),
            ("a.test", "/al/own/none"),
            ("b.test", "/files/x.txt"),
            ("b.test", "/x.txt"),
            ("b.test", "/files/none"),
        ],
    );
}

#[test]
fn apache_keeps_the_folder_of_challenges() {
    let secure = "<VirtualHost 127.0.0.1:SECURE>\nServerName a.test\nServerAlias www.a.test\nDocumentRoot ROOT/a\nSSLEngine on\n\
        SSLCertificateFile ROOT/cert.pem\nSSLCertificateKeyFile ROOT/key.pem\n\
        <Directory ROOT/a>\nRequire all granted\n</Directory>\n</VirtualHost>\n";
    let plain = "<VirtualHost 127.0.0.1:CLEAR>\nServerName plain.test\nDocumentRoot ROOT/plain\n\
        <Directory ROOT/plain>\nRequire all granted\n</Directory>\n</VirtualHost>\n";
    for rules in [
        "RewriteCond %{REQUEST_URI} !^/\\.well-known/acme-challenge/\n\
         RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]",
        "RewriteCond %{HTTPS} off\nRewriteCond %{REQUEST_URI} !acme-challenge [NC]\n\
         RewriteRule ^/?(.*)$ https://%{HTTP_HOST}/$1 [R=301,L]",
        "RewriteRule ^/\\.well-known/acme-challenge/ - [L]\n\
         RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [R=301,L]",
        "RewriteRule !^/\\.well-known/acme-challenge/ https://%{SERVER_NAME}%{REQUEST_URI} [R=301,L]",
    ] {
        let rules = rules.replace("%{SERVER_NAME}", "%{HTTP_HOST}");
        let config = format!(
            "Listen 127.0.0.1:CLEAR\nListen 127.0.0.1:SECURE\n<Directory />\nRequire all denied\n</Directory>\n\
             <VirtualHost 127.0.0.1:CLEAR>\nServerName a.test\nServerAlias www.a.test\nDocumentRoot ROOT/clear\n\
             Alias /.well-known/acme-challenge/ ROOT/acme/\n<Directory ROOT/acme>\nRequire all granted\n</Directory>\n\
             RewriteEngine On\n{rules}\n</VirtualHost>\n{secure}{plain}"
        );
        let mut asked = vec![("plain.test", "/x.txt"), ("plain.test", "/")];
        for host in ["a.test", "www.a.test"] {
            for path in [
                "/page.html",
                "/",
                "/.well-known/acme-challenge/token",
                "/.well-known/acme-challenge/none",
            ] {
                asked.push((host, path));
            }
        }
        compare("apache", &config, &asked);
    }
}
