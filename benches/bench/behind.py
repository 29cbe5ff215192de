"""Servers behind `weir link`: their commands at the far end, the site's certificate, and the server turns of a repetition.

What is asked of them, and what is measured, is each bench's own.
"""

import os
import shutil
import subprocess

NGINX = """daemon off; master_process off; pid {run}/pid; error_log {run}/error.log; events {{}} http {{ access_log off;
client_body_temp_path {run}/a; proxy_temp_path {run}/b; fastcgi_temp_path {run}/c; uwsgi_temp_path {run}/d; scgi_temp_path {run}/e;
sendfile on; types {{ text/html html; text/css css; application/javascript js; image/png png; }} server {{ listen 443 ssl http2; ssl_certificate {pem}; ssl_certificate_key {key}; root {root}; }} }}
"""
H2O = """listen: {{ port: 443, ssl: {{ certificate-file: {pem}, key-file: {key} }} }}
error-log: {run}/error.log
hosts: {{ default: {{ paths: {{ /: {{ file.dir: {root} }} }} }} }}
"""


def command(server, weir, run, root, pem, key):
    """The shell command of a server at the far end."""
    name, _, path = server.partition("=")
    if name in ("nginx", "h2o"):
        config = os.path.join(run, f"{name}.conf")
        with open(config, "w") as f:
            f.write((NGINX if name == "nginx" else H2O).format(run=run, root=root, pem=pem, key=key))
        return f"exec {name} -c {config} > {run}/said 2>&1"
    return f"exec {path or weir} serve {root} --listen 0.0.0.0:443 --tls-cert {pem} --tls-key {key} -q"


def certificate(folder):
    """A key and a certificate for it, readable by servers that drop their rights."""
    pem, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "cert.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    key, "-out", pem, "-days", "9", "-subj", "/CN=localhost"], check=True, capture_output=True)
    os.chmod(key, 0o644)
    return pem, key


def installed(servers, weir):
    """Those of the servers whose program is on this machine; says which are not."""
    found = []
    for server in servers:
        program = {"nginx": "nginx", "h2o": "h2o"}.get(server, server.partition("=")[2] or weir)
        if shutil.which(program):
            found.append(server)
        else:
            print(f"skipped: {server}: {program} is not installed")
    return found


def turns(servers, repetition):
    """The servers, each first once."""
    at = repetition % len(servers)
    return servers[at:] + servers[:at]


def write_into(path, marks, text):
    """Writes the text between two marks of a document."""
    begin, end = marks
    with open(path) as f:
        before, _, rest = f.read().partition(begin)
    with open(path, "w") as f:
        f.write(f"{before}{begin}\n\n{text}\n{end}{rest.partition(end)[2]}")
