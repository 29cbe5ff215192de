"""Chromium: a page fetches files over HTTP/3 and their digests are compared with those of a folder.

    URL FOLDER CERTIFICATE NAME...    all at once; prints what the browser's log of its network (net-log) has as JSON

The page is written into the folder. Chromium believes the certificate by the digest of its key, and begins with QUIC: over
QUIC it accepts authorities of the user's own only for origins that its command line names. Exit code 3: no chromium.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from urllib.parse import urlsplit

PAGE = """<!DOCTYPE html><title>-</title><link rel=icon href=data:,><pre></pre><script>
const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
const get = async (name) => {
  const answer = await fetch(name);
  const digest = await crypto.subtle.digest('SHA-256', await answer.arrayBuffer());
  return [name, answer.status + ' ' + hex(digest)];
};
Promise.all(NAMES.map(get)).then((found) => Object.fromEntries(found)).catch((error) => String(error))
  .then((said) => { document.querySelector('pre').textContent = 'found: ' + JSON.stringify(said); });
</script>"""


def digest_of_key(certificate):
    command = ["openssl", "x509", "-in", certificate, "-noout", "-pubkey"]
    pem = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    key = base64.b64decode("".join(pem.splitlines()[1:-1]))
    return base64.b64encode(hashlib.sha256(key).digest()).decode()


def main(url, folder, certificate, names):
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit(3)
    with open(os.path.join(folder, "browser.html"), "w") as page:
        page.write(PAGE.replace("NAMES", json.dumps(names)))
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, "net.json")
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={scratch}/profile",
            f"--ignore-certificate-errors-spki-list={digest_of_key(certificate)}",
            f"--origin-to-force-quic-on={urlsplit(url).netloc}",
            f"--log-net-log={log}",
            "--virtual-time-budget=100000",
            "--dump-dom",
            url + "browser.html",
        ]
        run = subprocess.run(command, capture_output=True, text=True)
        said = re.search("found: ([^<]*)", run.stdout)
        if said is None:
            sys.exit(f"{run.stdout}{run.stderr}")
        with open(log) as file:
            net = json.load(file)
    size = 0
    found = json.loads(said[1])
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            wanted = file.read()
        if not isinstance(found, dict) or found[name] != f"200 {hashlib.sha256(wanted).hexdigest()}":
            sys.exit(f"{name}: {found if isinstance(found, str) else found[name]}")
        size += len(wanted)
    kinds = {number: name for name, number in net["constants"]["logEventTypes"].items()}
    events = [(kinds[event["type"]], event.get("params", {})) for event in net["events"]]
    counts = Counter(name for name, _ in events)
    handshakes = [params for name, params in events if name == "QUIC_SESSION_CERTIFICATE_VERIFIED"]
    versions = {params.get("version") for name, params in events if name == "QUIC_SESSION_VERSION_NEGOTIATED"}
    answers = [params["headers"] for name, params in events if name == "HTTP3_HEADERS_DECODED"]
    print(
        json.dumps(
            {
                "files": len(names),
                "bytes": size,
                "connections": len(handshakes),
                "versions": sorted(version for version in versions if version),
                "answers": sum(":status: 200" in headers for headers in answers),
                "handshakes_of_tcp": counts["SSL_CONNECT"],
            }
        )
    )


main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
