//! Which requests the rules admit, in every spelling of a path.

use super::*;
use crate::checked::Assumed;
use crate::service::handler::{Ask, Handler, Made};
use crate::site::Source;
use crate::{Additions, Interprocess, Question, Server};
use http_semantics::field::{Fields, Line};
use http_semantics::method::Method;
use http_semantics::request::Protocol;
use http_semantics::status::Status;
use http_semantics::target::Target;
use units::{Instant, Seed, UnixTime};

/// The password is `secret`.
const ANN: &str = "ann:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

/// `ann:secret`, and with a wrong password.
const RIGHT: &[u8] = b"Basic YW5uOnNlY3JldA==";
const WRONG: &[u8] = b"Basic YW5uOndyb25n";

const NEAR: &str = "192.0.2.7";
const FAR: &str = "198.51.100.7";

struct World {
    gates: Gates,
    _folder: tempfile::TempDir,
}

/// The gates of a configuration, in which `USERS` is a file with the user `ann`.
fn world(text: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    #[expect(clippy::disallowed_methods, reason = "the test makes the file")]
    std::fs::write(&file, ANN).unwrap();
    let text = text.replace("USERS", &format!("htpasswd = '{}'", file.display()));
    let config = Config::from_toml(&text, "w.toml").unwrap();
    World {
        gates: Gates::open(config.sites().unwrap().iter(), None).unwrap(),
        _folder: folder,
    }
}

/// A GET request for a path.
fn request<'b, 's>(path: &'b str, lines: &'s [Line<'b>]) -> RequestHead<'b, 's> {
    RequestHead {
        method: Method::Get,
        method_name: "GET",
        target: Target::parse(path.as_bytes(), Method::Get).unwrap(),
        target_raw: path.as_bytes(),
        protocol: Protocol::Http11,
        fields: Fields::new(lines),
    }
}

fn ask(world: &World, path: &str, authorization: &[&[u8]], peer: &str, is_wrong: bool) -> Verdict {
    let lines: Vec<Line<'_>> = authorization
        .iter()
        .map(|value| Line {
            name: "Authorization",
            value,
        })
        .collect();
    let head = request(path, &lines);
    let sender = Sender {
        peer: peer.parse().unwrap(),
        is_secured: false,
        certificate: None,
        id: None,
        trace: None,
    };
    let mut known = Known::default();
    known.add(Checked::Password(!is_wrong));
    world.gates.verdict(0, &head, sender, &known)
}

/// The verdict in a word, after a check if one is needed.
fn word(world: &World, path: &str, authorization: &[&[u8]], peer: &str) -> &'static str {
    let mut verdict = ask(world, path, authorization, peer, false);
    if let Verdict::Check(check) = verdict {
        let is_wrong = !matches!(check.run(), Checked::Password(true));
        verdict = ask(world, path, authorization, peer, is_wrong);
    }
    match verdict {
        Verdict::Open(Admitted { user: Some(user), .. }) if *user == *b"ann" => "ann",
        Verdict::Open(Admitted { user: Some(_), .. }) => "somebody",
        Verdict::Open(Admitted { is_ruled: true, .. }) => "open",
        Verdict::Open(_) => "free",
        Verdict::Refused(Status::FORBIDDEN) => "403",
        Verdict::Refused(Status::GONE) => "410",
        Verdict::Refused(status) => panic!("{status}"),
        Verdict::Uncertified => "uncertified",
        Verdict::Challenge(_) => "401",
        Verdict::Check(_) => "check",
        Verdict::Busy => "503",
        Verdict::Malformed => "400",
        Verdict::Answered(_) | Verdict::Unanswered(_) => "decided elsewhere",
    }
}

#[test]
fn no_spelling_of_a_path_avoids_its_rule() {
    let world = world("[[access]]\npath = '/admin/*'\ndeny = 'all'");
    for path in [
        "/admin",
        "/admin/",
        "/admin/x/y?z",
        "//admin/x",
        "/%61dmin/x",
        "/%61%64%6d%69%6e",
        "/x/../admin/x",
        "/x/%2e%2e/admin/x",
        "/x/%2E./admin",
        "/./admin/./x",
        "/admin/../admin/x",
        "/admin/..",
        "/admin/../x",
        "/ADMIN/x",
        "/Admin",
        "/%41dmin",
        "/admin%2fx",
        "/admin%2Fx/..",
        "/x%2f..%2fadmin/y",
        "/x/..%2fadmin/y",
        "/admin%5cx",
        "/admin\\x/..",
        "/x/..\\admin",
        "/admin//",
        "/admin/x.gz",
        "/admin.gz",
        "/admin.BR",
        "http://a.test/admin/x",
        "http://a.test//admin",
    ] {
        assert_eq!(word(&world, path, &[], NEAR), "403", "{path}");
    }
    for path in [
        "/",
        "/administration",
        "/x/admin",
        "/x/../y",
        "/admi",
        "/admin%20",
        "/admin;x",
        "/%2561dmin",
    ] {
        assert_eq!(word(&world, path, &[], NEAR), "free", "{path}");
    }
    for path in ["/admin/%zz", "/%00", "/x%"] {
        assert_eq!(word(&world, path, &[], NEAR), "400", "{path}");
    }
}

#[test]
fn a_file_has_one_rule_under_each_of_its_paths() {
    let world = world(
        "index = ['index.html', 'a b.htm']\n\
         [[access]]\npath = '/a/index.html'\ndeny = 'all'\n\
         [[access]]\npath = '/b/*.htm'\ndeny = 'all'\n\
         [[access]]\npath = '/c.css'\ndeny = 'all'\n\
         [[access]]\npath = '*.html'\nallow = 'all'\n\
         [[access]]\npath = '/d/'\ndeny = 'all'",
    );
    for (path, found) in [
        ("/a/", "403"),
        ("/a/index.html", "403"),
        ("/a/index.html.br", "403"),
        ("/a/other", "free"),
        ("/b/", "403"),
        ("/b/a%20b.htm", "403"),
        ("/b/x.html", "open"),
        ("/c.css", "403"),
        ("/c.css.zst", "403"),
        ("/c.css.map", "free"),
        // Its listing is not a page.
        ("/d/", "403"),
        ("/d/x.html", "open"),
        ("/d/x.css", "403"),
    ] {
        assert_eq!(word(&world, path, &[], NEAR), found, "{path}");
    }
}

#[test]
fn files_that_are_tried_have_their_rules() {
    let world = world(
        "[[try-files]]\npath = '*'\nfiles = ['$path', '$path.html', '/last.html']\n\
         [[access]]\npath = '/a.html'\ndeny = 'all'\n\
         [[access]]\npath = '/b/*'\ndeny = 'all'",
    );
    for (path, found) in [
        ("/a", "403"),
        ("/a/", "403"),
        ("/%61", "403"),
        ("/a.html", "403"),
        ("/b", "403"),
        ("/c", "free"),
    ] {
        assert_eq!(word(&world, path, &[], NEAR), found, "{path}");
    }
}

#[test]
fn the_first_rule_applies() {
    let world = world(
        "[[access]]\npath = '/a/public/*'\nallow = 'all'\n\
         [[access]]\npath = '/a/*'\nallow = '192.0.2.0/24'\n\
         [[access]]\npath = '/a/late/*'\nallow = 'all'",
    );
    for (path, peer, found) in [
        ("/a/public/x", FAR, "open"),
        ("/a/public/../x", FAR, "403"),
        ("/a/x", FAR, "403"),
        ("/a/x", NEAR, "open"),
        ("/a/x", "::ffff:192.0.2.7", "open"),
        ("/a/x", "2001:db8::1", "403"),
        ("/a/late/x", FAR, "403"),
        ("/b", FAR, "free"),
    ] {
        assert_eq!(word(&world, path, &[], peer), found, "{path} {peer}");
    }
}

#[test]
fn passwords_and_networks_combine() {
    let world = world(
        "[[access]]\npath = '/all/*'\nallow = '192.0.2.0/24'\nUSERS\n\
         [[access]]\npath = '/any/*'\nallow = '192.0.2.0/24'\nUSERS\nsatisfy = 'any'\n\
         [[access]]\npath = '/word/*'\nUSERS",
    );
    for (path, authorization, peer, found) in [
        ("/all/", &[][..], NEAR, "401"),
        ("/all/", &[RIGHT], NEAR, "ann"),
        ("/all/", &[RIGHT], FAR, "403"),
        ("/any/", &[], NEAR, "open"),
        ("/any/", &[WRONG], NEAR, "open"),
        ("/any/", &[], FAR, "401"),
        ("/any/", &[WRONG], FAR, "401"),
        ("/any/", &[RIGHT], FAR, "ann"),
        ("/word/", &[], FAR, "401"),
        ("/word/", &[WRONG], FAR, "401"),
        ("/word/", &[RIGHT], FAR, "ann"),
        ("/word/", &[RIGHT, RIGHT], FAR, "401"),
        ("/word/", &[RIGHT, WRONG], FAR, "401"),
        ("/word/", &[b"Bearer x"], FAR, "401"),
    ] {
        assert_eq!(word(&world, path, authorization, peer), found, "{path} {peer}");
    }
}

#[test]
fn a_password_is_checked_once() {
    let world = world("[[access]]\npath = '/'\nUSERS");
    for _ in 0..2 {
        // Wrong ones are not remembered.
        let Verdict::Check(check) = ask(&world, "/", &[WRONG], NEAR, false) else {
            panic!("it is not known");
        };
        assert!(matches!(check.run(), Checked::Password(false)));
    }
    let two = [(); 2].map(|()| match ask(&world, "/", &[RIGHT], NEAR, false) {
        Verdict::Check(check) => check,
        other => panic!("it is not known: {other:?}"),
    });
    for check in two {
        assert!(matches!(check.run(), Checked::Password(true)));
        let Verdict::Open(admitted) = ask(&world, "/other", &[RIGHT], FAR, false) else {
            panic!("it is known");
        };
        assert_eq!(admitted.user.as_deref(), Some(&b"ann"[..]));
    }
}

#[test]
fn a_rule_admits_the_users_that_it_names() {
    for (users, found, unknown) in [
        ("", "ann", ""),
        ("users = 'ann'", "ann", ""),
        ("users = ['bob', 'ann', 'eve']", "ann", ": `bob`, `eve`;"),
        ("users = ['bob']", "403", ": `bob`;"),
        ("users = ['Ann']", "403", ": `Ann`;"),
    ] {
        let world = world(&format!("[[access]]\npath = '/a'\nUSERS\n{users}"));
        // The second time, the password is known.
        for _ in 0..2 {
            assert_eq!(word(&world, "/a", &[RIGHT], NEAR), found, "{users}");
            // Without the right password, nobody learns which users are admitted.
            assert_eq!(word(&world, "/a", &[WRONG], NEAR), "401", "{users}");
            assert_eq!(word(&world, "/a", &[], NEAR), "401", "{users}");
        }
        let warnings = world.gates.password_warnings();
        assert_eq!(warnings.len(), usize::from(!unknown.is_empty()), "{warnings:?}");
        assert!(
            warnings
                .iter()
                .all(|why| why.contains("`/a`") && why.contains(unknown)),
            "{warnings:?}"
        );
    }
    let world = world("[[access]]\nUSERS\nusers = 'bob'\nallow = '192.0.2.0/24'\nsatisfy = 'any'");
    assert_eq!(word(&world, "/a", &[RIGHT], NEAR), "open");
    assert_eq!(word(&world, "/a", &[RIGHT], FAR), "403");
    assert_eq!(word(&world, "/a", &[WRONG], FAR), "401");
}

#[test]
fn the_number_of_checks_is_bounded() {
    let world = world("[[access]]\npath = '/'\nUSERS");
    let check = |peer: &str| match ask(&world, "/", &[WRONG], peer, false) {
        Verdict::Check(check) => Some(check),
        Verdict::Busy => None,
        other => panic!("{other:?}"),
    };
    let of_one: Vec<Check> = (0..=CHECKS_OF_ADDRESS_MAX).map_while(|_| check(NEAR)).collect();
    assert_eq!(of_one.len() as u32, CHECKS_OF_ADDRESS_MAX);
    let of_all: Vec<Check> = (0..=CHECKS_MAX)
        .map_while(|n| check(&format!("10.0.0.{n}")))
        .collect();
    assert_eq!((of_one.len() + of_all.len()) as u32, CHECKS_MAX);
    drop(of_one);
    assert!(check(NEAR).is_some(), "a check that is dropped leaves its place");
}

#[test]
fn a_file_that_cannot_be_used_is_an_error() {
    let config = Config::from_toml("[[access]]\npath = '/'\nhtpasswd = '/nowhere/users'", "w.toml");
    let sites = config.unwrap().sites().unwrap();
    let why = Gates::open(sites.iter(), None).unwrap_err();
    assert!(why.contains("`/nowhere/users`"), "{why}");
}

/// Answers to one token, as a CA that checks names asks for it.
#[derive(Debug)]
struct Answers;

impl Handler for Answers {
    fn answer(&self, ask: &Ask<'_>, _: &Server) -> Option<Made> {
        (ask.path == b"token").then(|| Made {
            status: Status::OK,
            media_type: "text/plain",
            content: "key".into(),
        })
    }

    fn is_guarded(&self) -> bool {
        false
    }
}

#[test]
fn answers_to_a_ca_are_exempt_and_files_beside_them_are_not() {
    let additions = Additions {
        handlers: vec![("/.well-known/acme-challenge/".to_owned(), Arc::new(Answers))],
        ..Additions::default()
    };
    let source = Source::Embedded {
        files: &[("/.well-known/acme-challenge/file", b"x")],
        modified: UnixTime::from_secs(784_111_777),
    };
    let config = Config::from_toml("[[access]]\npath = '/'\ndeny = 'all'", "w.toml").unwrap();
    let processes = Interprocess::default();
    let server = Server::open_with(additions, processes, config, source, None, Seed(1)).unwrap();
    for (target, status) in [
        ("/.well-known/acme-challenge/token", 200),
        ("/.well-known/acme-challenge/file", 403),
        ("/.well-known/acme-challenge/../x", 403),
        ("/x", 403),
    ] {
        let question = Question {
            method: "GET",
            host: "a.test",
            target,
            is_secured: false,
            peer: NEAR.parse().unwrap(),
            is_admitted: false,
            fields: &[],
        };
        let wall = UnixTime::from_secs(1_000_000_000);
        let explanation = server.explain(&question, Instant::ZERO, wall).unwrap();
        assert_eq!(explanation.status, Some(status), "{target}");
    }
}

#[test]
fn a_certificate_is_needed_where_a_rule_says_so() {
    let world = world(
        "[[access]]\npath = '/any/*'\ncertificate = true\n\
         [[access]]\npath = '/ann/*'\ncertificate = ['Ann', 'Eve']\n\
         [[access]]\npath = '/near/*'\ncertificate = true\nallow = '192.0.2.0/24'\nstatus = 410\n\
         [[access]]\npath = '/either/*'\ncertificate = 'Ann'\nallow = '192.0.2.0/24'\nsatisfy = 'any'\n\
         [[access]]\npath = '/both/*'\ncertificate = 'Ann'\nUSERS\n",
    );
    let ask = |path: &str, peer: &str, certificate: Option<&str>| {
        let head = request(path, &[]);
        let sender = Sender {
            peer: peer.parse().unwrap(),
            is_secured: certificate.is_some(),
            certificate,
            id: None,
            trace: None,
        };
        match world.gates.verdict(0, &head, sender, &Known::default()) {
            // The answer depends on the client, whether it is admitted or not.
            Verdict::Open(Admitted { is_ruled: true, .. }) => "open",
            Verdict::Open(_) => "free",
            Verdict::Uncertified => "uncertified",
            Verdict::Refused(_) => "refused",
            Verdict::Challenge(_) => "401",
            other => panic!("{other:?}"),
        }
    };
    for (path, peer, [none, ann, bob]) in [
        ("/", NEAR, ["free", "free", "free"]),
        ("/any/x", NEAR, ["uncertified", "open", "open"]),
        ("/%61ny/x", NEAR, ["uncertified", "open", "open"]),
        ("/ann/x", NEAR, ["uncertified", "open", "uncertified"]),
        ("/near/x", NEAR, ["uncertified", "open", "open"]),
        ("/near/x", FAR, ["refused", "refused", "refused"]),
        ("/either/x", NEAR, ["open", "open", "open"]),
        ("/either/x", FAR, ["uncertified", "open", "uncertified"]),
        ("/both/x", NEAR, ["uncertified", "401", "uncertified"]),
    ] {
        let found = [None, Some("Ann"), Some("Bob")].map(|name| ask(path, peer, name));
        assert_eq!(found, [none, ann, bob], "{path} {peer}");
    }
}

#[test]
fn an_assumed_admission_stands_for_checks_and_not_for_networks() {
    let world = world(
        "[[access]]\npath = '/all/*'\ncertificate = 'Ann'\nauth = 'http://192.0.2.9:1/v'\nUSERS\n\
         allow = '192.0.2.0/24'\n\
         [[access]]\npath = '/any/*'\nallow = '192.0.2.0/24'\nsatisfy = 'any'\nUSERS\n\
         [[access]]\npath = '/asked/*'\nauth = 'http://192.0.2.9:1/v'\n\
         [[access]]\npath = '/nobody/*'\ndeny = 'all'\n",
    );
    let ask = |path: &str, peer: &str, has_certificate: bool| {
        let head = request(path, &[]);
        let sender = Sender {
            peer: peer.parse().unwrap(),
            is_secured: true,
            certificate: None,
            id: None,
            trace: None,
        };
        let known = Known::assuming(Assumed { has_certificate });
        match world.gates.verdict(0, &head, sender, &known) {
            Verdict::Open(Admitted {
                is_ruled: true,
                user: None,
                vouched: None,
            }) => "open",
            Verdict::Open(_) => "free",
            Verdict::Refused(_) => "refused",
            Verdict::Uncertified => "uncertified",
            other => panic!("{other:?}"),
        }
    };
    for (path, peer, [with, without]) in [
        ("/", NEAR, ["free", "free"]),
        ("/all/x", NEAR, ["open", "uncertified"]),
        ("/all/x", FAR, ["refused", "refused"]),
        ("/any/x", FAR, ["open", "open"]),
        ("/asked/x", FAR, ["open", "open"]),
        ("/nobody/x", NEAR, ["refused", "refused"]),
    ] {
        let found = [true, false].map(|has_certificate| ask(path, peer, has_certificate));
        assert_eq!(found, [with, without], "{path} {peer}");
    }
}

#[test]
fn another_server_decides_behind_network_and_password() {
    let text = "[[access]]\npath = '/a'\nauth = 'http://192.0.2.9:1/v'\ncopy = ['Remote-User', 'Authorization']\n\
                deny = '198.51.100.0/24'\nUSERS\n[[access]]\npath = '/b'\nauth = 'http://192.0.2.9:1/v'\n\
                satisfy = 'any'\nallow = '192.0.2.0/24'\n";
    let world = world(text);
    let line = Line {
        name: "Authorization",
        value: RIGHT,
    };
    let ask = |path: &str, peer: &str, lines: &[Line<'_>], known: &Known| {
        let head = request(path, lines);
        let sender = Sender {
            peer: peer.parse().unwrap(),
            is_secured: true,
            certificate: None,
            id: None,
            trace: None,
        };
        let guarded = world.gates.guarded(
            0,
            Facts {
                head: &head,
                is_secured: true,
            },
        );
        (world.gates.verdict(0, &head, sender, known), guarded)
    };
    let mut known = Known::default();
    assert!(matches!(ask("/a", FAR, &[line], &known).0, Verdict::Refused(_)));
    assert!(matches!(ask("/a", NEAR, &[], &known).0, Verdict::Challenge(0)));
    let Verdict::Check(password @ Check::Password(_)) = ask("/a", NEAR, &[line], &known).0 else {
        panic!("the password comes first");
    };
    known.add(password.run());
    let (verdict, guarded) = ask("/a/x", NEAR, &[line], &known);
    let Verdict::Check(Check::Asked(question, _)) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(question.url().to_string(), "http://192.0.2.9:1/v");
    assert!(guarded.is_personal && guarded.keeps_back("Remote_User") && guarded.keeps_back("authorization"));
    let number = question.number();
    let answer = |status: u16, user: Option<&[u8]>| {
        Checked::Asked(
            number,
            Ok(Arc::new(Answered {
                status: Status::from_u16(status).unwrap(),
                lines: Vec::new(),
                content: bytes::Bytes::new(),
                vouched: Vouched {
                    lines: b"Remote-User: bob\r\n".to_vec(),
                    user: user.map(Into::into),
                },
            })),
        )
    };
    for (checked, expected) in [
        (answer(200, Some(b"bob")), Some("bob")),
        (answer(204, None), Some("ann")),
        (answer(302, None), None),
        (answer(500, None), None),
        (Checked::Asked(number, Err(Unanswered::TimedOut)), None),
    ] {
        let mut known = Known::default();
        known.add(checked);
        assert_eq!(known.is_refused(), expected.is_none());
        match (ask("/a", NEAR, &[line], &known).0, expected) {
            (Verdict::Open(admitted), Some(user)) => {
                assert_eq!(admitted.user.as_deref(), Some(user.as_bytes()));
                assert_eq!(admitted.vouched.unwrap().lines, b"Remote-User: bob\r\n");
            }
            (Verdict::Answered(_) | Verdict::Unanswered(Unanswered::TimedOut), None) => {}
            (verdict, _) => panic!("{verdict:?}"),
        }
        // The answer of one server is not that of another.
        assert!(matches!(
            ask("/b", FAR, &[], &known).0,
            Verdict::Check(Check::Asked(..))
        ));
    }
    let (verdict, guarded) = ask("/b", NEAR, &[], &known);
    assert!(matches!(verdict, Verdict::Open(admitted) if admitted.vouched.is_none()));
    assert!(guarded.is_personal);
    let (verdict, guarded) = ask("/c", NEAR, &[], &known);
    assert!(matches!(verdict, Verdict::Open(admitted) if !admitted.is_ruled));
    // Others may need the credentials of the client.
    assert!(
        !guarded.is_personal && guarded.keeps_back("remote-user") && !guarded.keeps_back("Authorization")
    );
}

#[test]
fn a_rule_with_a_condition_applies_to_what_meets_it() {
    let world = world(
        "[[access]]\npath = '/docs/*'\nif = 'header Authorization=k'\nallow = 'all'\n\
         [[access]]\npath = '*.html'\nif = 'scheme http'\ndeny = 'all'\nstatus = 410\n\
         [[access]]\npath = '/docs/*'\ndeny = 'all'\nstatus = 404\n\
         [[access]]\nallow = 'all'\n",
    );
    for (path, authorization, status) in [
        ("/docs/a", &[][..], 404),
        ("/docs/a", &[&b"k"[..]], 0),
        ("/docs/a", &[b"l"], 404),
        // Two lines are another value.
        ("/docs/a", &[b"k", b"k"], 404),
        ("/DOCS", &[b"k"], 0),
        ("/a.html", &[], 410),
        // The index of the directory, and the file that is compressed.
        ("/docs/", &[b"k"], 0),
        ("/docs/", &[], 410),
        ("/x/", &[], 410),
        ("/a.html.gz", &[], 410),
        ("/docs%2Fa", &[], 404),
        ("/x", &[], 0),
    ] {
        let verdict = ask(&world, path, authorization, FAR, false);
        let found = match &verdict {
            Verdict::Open(admitted) => {
                assert!(admitted.is_ruled, "{path}");
                0
            }
            Verdict::Refused(refused) => refused.as_u16(),
            _ => panic!("{verdict:?}"),
        };
        assert_eq!(found, status, "{path} {authorization:?}");
    }
}

#[test]
fn rules_whose_conditions_matter_to_a_path_are_found() {
    let world = world(
        "[[try-files]]\npath = '/t*'\nfiles = ['/docs/*']\n\
         [[access]]\npath = '/docs/*'\nif = 'header X'\nallow = 'all'\n\
         [[access]]\npath = '*.html'\nif = 'header Y'\ndeny = 'all'\n\
         [[access]]\npath = '/docs/*'\ndeny = 'all'\n[[access]]\nallow = 'all'\n",
    );
    for (path, expected) in [
        ("/a", &[][..]),
        ("/docs/a", &[0]),
        ("/DOCS", &[0]),
        ("/docs%2Fa", &[0]),
        ("/docs/", &[0, 1]),
        ("/a.html.gz", &[1]),
        ("/ta", &[0]),
    ] {
        let head = request(path, &[]);
        let found = world.gates.conditional(0, &head);
        let found: Vec<usize> = found.into_iter().map(|(at, _)| at).collect();
        assert_eq!(found, expected, "{path}");
    }
}
