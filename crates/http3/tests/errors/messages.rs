//! Malformed messages (RFC 9114 section 4.1.2). The rules themselves are those of `http_semantics::message`, which has the
//! table of all; here is what each kind does to its stream.

use crate::*;

#[test]
fn malformed_requests_end_their_stream() {
    let malformed = "reset 0 H3_MESSAGE_ERROR, stop 0 H3_MESSAGE_ERROR";
    for fields in [
        ":method=GET :scheme=https :authority=a",
        ":method=GET :method=GET :scheme=https :authority=a :path=/",
        ":method=GET :scheme=https :authority=a a=b :path=/",
        ":method=GET :scheme=https :authority=a :path=/ :status=200",
        ":method=GET :scheme=https :authority=a :path=/ A=b",
        ":method=GET :scheme=https :authority=a :path=/ connection=close",
        ":method=GET :scheme=https :authority=a :path=/ transfer-encoding=chunked",
        ":method=GET :scheme=https :authority=a :path=/ te=gzip",
        ":method=GET :scheme=https :authority=a :path=/ host=b",
        ":method=GET :scheme=https :authority=a :path=/ content-length=x",
        ":method=CONNECT :scheme=https :authority=a :path=/",
    ] {
        check(Ours::Server, &[(&[Fin(0, headers(fields))], malformed)]);
    }
    // The stream after it is served.
    let steps = [Fin(0, headers(":method=GET")), Fin(4, get())];
    check(Ours::Server, &[(&steps, malformed)]);
    let trailers = [get(), headers(":path=/")].concat();
    check(Ours::Server, &[(&[Fin(0, trailers)], malformed)]);
}

#[test]
fn malformed_responses_end_their_stream() {
    for fields in [
        "a=b",
        ":status=20",
        ":status=101",
        ":status=200 :status=200",
        ":status=200 upgrade=h2c",
        ":status=200 :path=/",
    ] {
        check(
            Ours::Client,
            &[(&[Send(0, headers(fields))], "stop 0 H3_MESSAGE_ERROR")],
        );
    }
}
