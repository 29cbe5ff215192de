//! Writes the seed corpora: every conformance vector, in the form its fuzz target takes.
//!
//! `seeds VECTORS CORPUS`: reads `VECTORS/*.md`, writes `CORPUS/<target>/<number>`.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1);
    let (Some(vectors), Some(corpus)) = (arguments.next(), arguments.next()) else {
        println!("usage: seeds VECTORS CORPUS");
        return Ok(());
    };
    let mut files: Vec<_> = fs::read_dir(vectors)?.collect::<Result<_, _>>()?;
    files.sort_by_key(|file| file.file_name());
    let mut count = 0;
    for file in files {
        for (kind, message) in http1::vectors::messages(&fs::read_to_string(file.path())?) {
            for (target, seed) in seeds(&kind, &message) {
                let folder = Path::new(&corpus).join(target);
                fs::create_dir_all(&folder)?;
                fs::write(folder.join(format!("vector-{count}")), seed)?;
                count += 1;
            }
        }
    }
    for (target, seed) in OTHERS {
        let folder = Path::new(&corpus).join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("other-{count}")), seed)?;
        count += 1;
    }
    println!("{count} seeds");
    Ok(())
}

/// Seeds that are no messages.
const OTHERS: [(&str, &str); 8] = [
    (
        "references",
        "\u{f}\u{3}<base href=/x/><img src='a.png' srcset=\"b.png 1x, c.png\"><link rel=icon href=/f.ico>",
    ),
    (
        "references",
        "\u{f}\u{0}<script src=a.js>'<img src=no>'</script><!-- <img src=no> --><object data=../&amp;.svg>",
    ),
    (
        "access_log",
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 1024\n",
    ),
    (
        "access_log",
        "::1 - j d [10/Oct/2000:13:55:36 -0700] \"GET /\\xc3\\\" HTTP/1.0\" 304 - \"http://a/b\" \"c\" 7\r\n",
    ),
    (
        "access_log",
        "{\"time\":\"1994-11-06T08:49:37Z\",\"peer\":\"::1\",\"method\":\"GET\",\"target\":\"/a\",\"status\":200}\n",
    ),
    (
        "access_log",
        "{\"time\":\"1994-11-06T08:49:37.5+01:00\",\"peer\":\"\\u00e4\",\"raw\":\"\",\"status\":400}\n",
    ),
    (
        "recording",
        "{\"format\":\"weir-exchange\",\"version\":1,\"method\":\"GET\",\"url\":\"https://a.test/?b\",\"protocol\":\"h2\",\
         \"recorded\":1795392000,\"first_byte_seconds\":0.012,\"request_fields\":[[\"Accept\",\"*/*\"]],\"status\":200,\
         \"fields\":[[\"content-type\",\"text/html\"]],\"body_bytes\":4}\na\nb\n",
    ),
    (
        "recording",
        "{\"format\":\"weir-exchange\",\"version\":1,\"method\":\"GET\",\"url\":\"http://a.test:81/s?q=cats\",\"protocol\":\"h2\",\
         \"recorded\":1,\"first_byte_seconds\":0,\"request_fields\":[],\"status\":204,\"fields\":[],\"body_bytes\":0}\n\
         {\"format\":\"weir-exchange\",\"version\":1,\"method\":\"POST\",\"url\":\"http://a.test./s?q=dogs\",\"protocol\":\"h2\",\
         \"recorded\":2,\"first_byte_seconds\":0,\"request_fields\":[],\"status\":302,\"fields\":[],\"body_bytes\":0}\n\
         HEAD A.TEST:81 /s?q=cows",
    ),
];

/// The targets a vector is a seed for, with the bytes of options each expects first.
fn seeds(kind: &str, message: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut words = kind.split(' ');
    let subject = words.next().unwrap_or_default();
    let requests = words.filter(|word| word.starts_with(char::is_uppercase)).count() as u8;
    match subject {
        "server" => {
            let mut seeds = vec![
                ("server_connection", [&[0, 0], message].concat()),
                ("session", [&[0; 8], message].concat()),
            ];
            let coded = b"Transfer-Encoding: chunked\r\n\r\n";
            if let Some(at) = message.windows(coded.len()).position(|window| window == coded) {
                seeds.push(("chunked", [&[4], &message[at + coded.len()..]].concat()));
            }
            if let Some(target) = message.split(|&b| b == b' ').nth(1) {
                seeds.push(("target", target.to_vec()));
            }
            seeds
        }
        "client" => vec![("client_connection", [&[requests & 3, 0], message].concat())],
        "range" => vec![("range", [&1_000_u16.to_be_bytes(), message].concat())],
        "encoding" => vec![("negotiate", message.to_vec())],
        "path" => vec![("target", message.to_vec())],
        _ => Vec::new(),
    }
}
