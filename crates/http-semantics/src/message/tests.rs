//! The table of sections 8.2 and 8.3: which sections are malformed.

use super::*;

type Pairs<'t> = &'t [(&'t str, &'t str)];

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "example.org"),
    (":path", "/a?b"),
];

fn bytes<'t>(pairs: Pairs<'t>) -> impl Iterator<Item = (&'t [u8], &'t [u8])> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

#[test]
fn malformed_requests() {
    let [method, scheme, authority, path] = GET;
    let cases: &[Pairs] = &[
        &[],
        &[scheme, authority, path],
        &[method, authority, path],
        &[method, scheme, authority],
        &[method, scheme, authority, path, path],
        &[method, scheme, authority, ("a", "b"), path],
        &[method, scheme, authority, (":path", "")],
        &[method, scheme, authority, (":path", "a")],
        &[method, scheme, authority, (":path", "*")],
        &[method, scheme, authority, (":path", "/a b")],
        &[method, scheme, (":authority", "u@h"), path],
        &[(":method", "G T"), scheme, authority, path],
        &[(":method", ""), scheme, authority, path],
        &[method, (":scheme", ""), authority, path],
        &[method, (":scheme", "1a"), authority, path],
        &[method, (":scheme", "https://b/x?"), authority, path],
        &[method, scheme, authority, path, (":status", "200")],
        &[method, scheme, authority, path, (":protocol", "websocket")],
        &[method, scheme, authority, path, ("host", "other.org")],
        &[method, scheme, path, ("host", "a"), ("host", "a")],
        &[(":method", "CONNECT"), scheme, authority, path],
        &[(":method", "CONNECT")],
    ];
    for case in cases {
        assert!(request(bytes(case)).is_err(), "{case:?}");
    }
    for (name, value) in [
        ("", "x"),
        ("Accept", "x"),
        ("a b", "x"),
        ("a:b", "x"),
        ("caf\u{e9}", "x"),
        ("a", "x\r\ny"),
        ("a", "x\0"),
        ("a", " x"),
        ("a", "x\t"),
        ("a", "\u{7f}"),
        ("connection", "close"),
        ("keep-alive", "1"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("content-length", "-1"),
        ("content-length", ""),
    ] {
        let case = [&GET[..], &[(name, value)]].concat();
        assert!(request(bytes(&case)).is_err(), "{name}: {value:?}");
        assert!(trailers(bytes(&[(name, value)])).is_err(), "{name}: {value:?}");
    }
    let lengths = [&GET[..], &[("content-length", "1"), ("content-length", "2")]].concat();
    assert!(request(bytes(&lengths)).is_err());
}

#[test]
fn valid_requests() {
    let extra = [
        ("te", "trailers"),
        ("content-length", "7"),
        ("priority", "u=1, i"),
        ("host", "EXAMPLE.org"),
        ("cookie", "a=b"),
        ("cookie", "c=d"),
        ("x", ""),
    ];
    let case = [&GET[..], &extra].concat();
    let control = request(bytes(&case)).unwrap();
    assert_eq!(control.length, Some(7));
    assert_eq!(
        (control.priority.urgency, control.priority.incremental),
        (1, true)
    );
    let mut slots = [Line { name: "", value: b"" }; 16];
    let head = control.head(bytes(&case), &mut slots, Protocol::Http2).unwrap();
    assert_eq!(head.authority(), Some(&b"example.org"[..]));
    assert_eq!(
        (head.target.path(), head.target.query()),
        (Some(&b"/a"[..]), Some(&b"b"[..]))
    );
    assert_eq!(head.fields.len(), extra.len());
    assert_eq!(head.protocol, Protocol::Http2);

    let connect = [(":method", "CONNECT"), (":authority", "example.org:443")];
    let control = request(bytes(&connect)).unwrap();
    let head = control
        .head(bytes(&connect), &mut slots, Protocol::Http2)
        .unwrap();
    assert_eq!(head.target, Target::Authority(b"example.org:443"));
    let star = [(":method", "OPTIONS"), (":scheme", "http"), (":path", "*")];
    let control = request(bytes(&star)).unwrap();
    assert_eq!(
        control
            .head(bytes(&star), &mut slots, Protocol::Http2)
            .unwrap()
            .target,
        Target::Asterisk
    );
}

#[test]
fn responses() {
    let status = response(bytes(&[(":status", "304"), ("content-length", "5")])).unwrap();
    assert_eq!((status.code, status.length), (304, Some(5)));
    let cases: &[Pairs] = &[
        &[],
        &[("a", "b"), (":status", "200")],
        &[(":status", "200"), (":status", "200")],
        &[(":status", "20")],
        &[(":status", "099")],
        &[(":status", "2x0")],
        &[(":status", "101")],
        &[(":status", "200"), (":path", "/")],
        &[(":status", "200"), ("connection", "close")],
    ];
    for case in cases {
        assert!(response(bytes(case)).is_err(), "{case:?}");
    }
}
