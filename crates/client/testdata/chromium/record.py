"""Writes requests.json: the requests of Chromium, recorded by a server on loopback.

python3 record.py CHROMIUM
"""
import http.server, json, os, shutil, subprocess, sys, tempfile, threading

HERE = os.path.dirname(os.path.abspath(__file__))
CYRILLIC = "<img src='п?q=п'>"

# `Link` field lines of the page, and the files with content.
LINKS = [
    '<hdr-preload.css>; rel=preload; as=style, <hdr-preload.png>; rel="preload"; as="image"',
    '<hdr-sheet.css>; rel=stylesheet', '<hdr-module.js>; rel=modulepreload',
    '<hdr-print.css>; rel=preload; as=style; media=print', '<hdr-prefetch.js>; rel=prefetch',
    '<hdr-noas.js>; rel=preload', '<hdr-pre.js>; rel=preload; as=script',
]
FILES = {
    'used.css': ('text/css', b"@import 'imported.css'; @import 'imp-print.css' print; #a{background:url(css-used.png)} "
                 b"#nosuch{background:url(css-unused.png)} #b{background-image:image-set('set1.png' 1x,'set2.png' 2x)} "
                 b"@media print{#a{border-image:url(css-print.png)}} @font-face{font-family:f;src:url(font.woff2)} "
                 b"@font-face{font-family:g;src:url(unusedfont.woff2)} #a{font-family:f}"),
    'frame.html': ('text/html', b'<img src=in-frame.png><link rel=stylesheet href=in-frame.css>'),
}
TYPES = {'.css': ('text/css', b''), '.js': ('text/javascript', b''), '.json': ('application/json', b'{}'),
         '.html': ('text/html', b'<p>'), '.vtt': ('text/vtt', b'WEBVTT\n\n')}

# Pages and style sheets by name: Content-Type, text, encoding.
SHEET = "body{background:url(п.png?q=п)}"
PAGES = {
    'latin1-header': ('text/html; charset=ISO-8859-1', "<img src='é.png?q=é#é'>", 'latin1'),
    'quoted-header': ('text/html; charset="windows-1251"', CYRILLIC, 'cp1251'),
    'unknown-header': ('text/html; charset=nosuch', '<meta charset=windows-1251>' + CYRILLIC, 'cp1251'),
    'meta': ('text/html', '<meta charset=windows-1251>' + CYRILLIC, 'cp1251'),
    'meta-equiv': ('text/html', "<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>" + CYRILLIC, 'cp1251'),
    'meta-late': ('text/html', '<!--' + 'x' * 1100 + '--><meta charset=windows-1251>' + CYRILLIC, 'cp1251'),
    'meta-after-reference': ('text/html', "<img src='?q=&eacute;'><meta charset=windows-1251>" + CYRILLIC, 'cp1251'),
    'meta-utf16': ('text/html', "<meta charset=utf-16><img src='é?q=é'>", 'utf-8'),
    'meta-user-defined': ('text/html', "<meta charset=x-user-defined><img src='é?q=é'>", 'latin1'),
    'xml': ('text/html', "<?xml version='1.0' encoding='windows-1251'?>" + CYRILLIC, 'cp1251'),
    'utf16le-mark': ('text/html', "\ufeff<img src='é?q=é'>", 'utf-16-le'),
    'utf16be-header': ('text/html; charset=utf-16be', "<img src='é?q=é'>", 'utf-16-be'),
    'utf8-mark': ('text/html; charset=iso-8859-1', "\ufeff<img src='é?q=é'>", 'utf-8'),
    'nothing': ('text/html', "<p>Café déjà vu</p><img src='é?q=é'>", 'latin1'),
    'nothing-utf8': ('text/html', "<p>Café déjà vu</p><img src='é?q=é'>", 'utf-8'),
    'no-letter': ('text/html; charset=iso-8859-1', "<img src='?q=&#26085;&amp;b=1'>", 'latin1'),
    'shift-jis': ('text/html; charset=shift_jis', "<img src='日?q=日本'>", 'shift_jis'),
    'iso-2022-jp': ('text/html; charset=iso-2022-jp', "<img src='日?q=日本'>", 'iso2022_jp'),
    'gb2312': ('text/html; charset=gb2312', "<img src='中?q=中€'>", 'gb18030'),
    'elements': ('text/html; charset=windows-1251', "<link rel=stylesheet href='z.css?q=п'><script src='s.js?q=п'></script>"
                 "<svg><image href='i?q=п'/></svg><video poster='v?q=п'></video><img srcset='w?q=п 1x'>", 'cp1251'),
    'base': ('text/html; charset=windows-1251', "<base href='/d/?x=п'><img src='?q=п'>", 'cp1251'),
    'srcdoc': ('text/html; charset=windows-1251', '<iframe srcdoc="' + CYRILLIC + '"></iframe>', 'cp1251'),
    'frame': ('text/html; charset=windows-1251', '<iframe src=fr.html></iframe>', 'cp1251'),
    'sheet-inherits': ('text/html; charset=windows-1251', '<link rel=stylesheet href=plain.css>', 'cp1251'),
    'sheet-says': ('text/html; charset=utf-8', '<link rel=stylesheet href=says.css>', 'utf-8'),
    'sheet-header': ('text/html; charset=utf-8', '<link rel=stylesheet href=header.css>', 'utf-8'),
    'sheet-imported': ('text/html; charset=utf-8', '<link rel=stylesheet href=imports.css>', 'utf-8'),
    'style-element': ('text/html; charset=windows-1251', "<style>p{background:url(п?q=п)}</style><p>x", 'cp1251'),
    'style-attribute': ('text/html; charset=windows-1251', "<p style='background:url(п?q=п)'>", 'cp1251'),
}
PARTS = {
    'fr.html': ('text/html', CYRILLIC, 'cp1251'),
    'plain.css': ('text/css', SHEET, 'cp1251'),
    'says.css': ('text/css', '@charset "windows-1251";' + SHEET, 'cp1251'),
    'header.css': ('text/css; charset=windows-1251', SHEET, 'cp1251'),
    'imports.css': ('text/css', "@charset \"windows-1251\";@import 'plain.css';", 'cp1251'),
}
PNG = bytes.fromhex('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489'
                    '0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082')
asked = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def do_GET(self):
        asked.append(self.raw_requestline.split()[1].decode('latin1'))
        name = self.path.split('?')[0].split('/')[-1]
        kind, body = TYPES.get(os.path.splitext(name)[1], ('image/png', PNG))
        if name in PAGES or name in PARTS:
            kind, text, encoding = (PAGES | PARTS)[name]
            body = text.encode(encoding)
        elif name == '':
            kind, body = 'text/html', open(HERE + '/page.html', 'rb').read()
        elif name in FILES:
            kind, body = FILES[name]
        self.send_response(200)
        self.send_header('Content-Type', kind)
        self.send_header('Cache-Control', 'no-store')
        for link in LINKS if name == '' else []:
            self.send_header('Link', link)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def visit(path, *more):
    asked.clear()
    folder = tempfile.mkdtemp()
    subprocess.run(['timeout', '60', sys.argv[1], '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic',
                    '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
                    '--user-data-dir=' + folder, *more, '--dump-dom', f'http://127.0.0.1:{server.server_port}/{path}'],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)
    return sorted(set(asked) - {'/favicon.ico', '/' + path})


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
version = subprocess.run([sys.argv[1], '--version'], capture_output=True, text=True).stdout.split()[1]


def file(name, kind, text, encoding):
    return {'name': name, 'type': kind, 'body': text.encode(encoding).hex()}


def listed(name, values):
    return json.dumps(name) + ': [\n' + ',\n'.join(json.dumps(one) for one in values) + '\n]'


files = [{'name': name, 'type': kind, 'body': body.hex()} for name, (kind, body) in FILES.items()]
members = [
    listed('asked', visit('', '--virtual-time-budget=8000')),
    listed('links', LINKS),
    listed('files', files),
    listed('cases', [file(name, *PAGES[name]) | {'asked': visit(name)} for name in PAGES]),
    listed('parts', [file(name, *PARTS[name]) for name in PARTS]),
]
with open(HERE + '/requests.json', 'w') as out:
    out.write(f'{{"chromium": "{version}",\n' + ',\n'.join(members) + '}\n')
