//! Symbolic links, absolute ones above all: those that stay inside are followed, and none leads out, even while links
//! change.
use super::*;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicBool;
use units::{Draw as _, Seed};

/// `root` with `a/b.txt` and `top.txt`, a link `current` to `root`, and secrets beside it.
fn tree() -> Temp {
    let dir = Temp::new();
    dir.write("root/a/b.txt", b"b");
    dir.write("root/top.txt", b"top");
    dir.write("secret.txt", b"secret");
    dir.write("root-secret/secret.txt", b"secret");
    symlink("root", dir.path().join("current")).unwrap();
    dir
}

/// Opened by its own path and through a link, with both resolvers.
fn roots(dir: &Temp) -> Vec<Root> {
    ["root", "current"]
        .iter()
        .flat_map(|name| {
            let path = dir.path().join(name);
            [Root::open(&path).unwrap(), Root::open_walking(&path)]
        })
        .collect()
}

fn read(root: &Root, rel: &str, how: How) -> Result<Vec<u8>, OpenError> {
    root.open_file(rel.as_bytes(), how)
        .map(|file| file.read_all(0, 64, Wait::Block).unwrap_or_default())
}

#[test]
fn absolute_links_that_stay_inside_are_followed() {
    use OpenError::*;
    let dir = tree();
    // The root's name after links on its own path are resolved.
    let base = dir.path().canonicalize().unwrap();
    let base = base.to_str().unwrap();
    let inside = format!("{base}/root");
    let cases = [
        ("file", format!("{inside}/a/b.txt"), Ok("b")),
        ("spelled", format!("{inside}//./a//b.txt"), Ok("b")),
        ("up-inside", format!("{inside}/a/../top.txt"), Ok("top")),
        ("chain", format!("{inside}/file"), Ok("b")),
        ("relative-chain", "chain".to_owned(), Ok("b")),
        ("out", format!("{base}/secret.txt"), Err(OutsideRoot)),
        ("up-out", format!("{inside}/../secret.txt"), Err(OutsideRoot)),
        (
            "up-and-back",
            format!("{inside}/../{}/top.txt", "root"),
            Err(OutsideRoot),
        ),
        (
            "beside",
            format!("{base}/root-secret/secret.txt"),
            Err(OutsideRoot),
        ),
        ("chain-out", format!("{inside}/out"), Err(OutsideRoot)),
        ("missing", format!("{inside}/none"), Err(NotFound)),
        ("slash", format!("{inside}/top.txt/"), Err(NotFound)),
        ("ping", format!("{inside}/pong"), Err(Loop)),
        ("pong", format!("{inside}/ping"), Err(Loop)),
        ("system", "/etc/passwd".to_owned(), Err(OutsideRoot)),
    ];
    for (name, target, _) in &cases {
        symlink(target, dir.path().join("root").join(name)).unwrap();
    }
    symlink(format!("{inside}/a"), dir.path().join("root/folder")).unwrap();
    symlink(&inside, dir.path().join("root/a/home")).unwrap();
    let opened = roots(&dir);
    for root in &opened {
        for (name, target, want) in &cases {
            let got = read(root, name, FOLLOW);
            assert_eq!(
                got,
                want.map(|text| text.as_bytes().to_vec()),
                "{name} -> {target} {root:?}"
            );
            assert_eq!(read(root, name, REFUSE), Err(Link), "{name}");
            assert_eq!(
                root.stat(name.as_bytes(), FOLLOW).map(|_| ()),
                want.map(|_| ()),
                "stat {name}"
            );
        }
        assert_eq!(read(root, "folder/b.txt", FOLLOW).unwrap(), b"b");
        assert_eq!(
            read(root, "folder/home/folder/home/top.txt", FOLLOW).unwrap(),
            b"top"
        );
        assert_eq!(read(root, "folder/home/../secret.txt", FOLLOW), Err(OutsideRoot));
        let names = root.list(b"", Symlinks::FollowWithinRoot, 100).unwrap().entries;
        let has = |wanted: &str| names.iter().any(|one| one.name == wanted.as_bytes());
        assert!(
            has("file") && has("folder") && !has("out") && !has("ping"),
            "{names:?}"
        );
        let cached = How {
            wait: Wait::Cached,
            ..FOLLOW
        };
        assert_eq!(read(root, "file", cached), Err(WouldBlock), "readlink may wait");
    }
    // The root's other name is a spelling only of a root opened by that name.
    symlink(format!("{base}/current/top.txt"), dir.path().join("root/alias")).unwrap();
    let got: Vec<bool> = opened
        .iter()
        .map(|root| read(root, "alias", FOLLOW).is_ok())
        .collect();
    assert_eq!(got, [false, false, true, true]);
}

#[test]
fn absolute_links_in_a_grafted_directory_stay_in_it() {
    let dir = Temp::new();
    for root in grafted(&dir) {
        let base = dir.path().canonicalize().unwrap();
        let web = base.join("home/a/web");
        for (name, target) in [
            ("inside", web.join("f.txt")),
            ("mail", base.join("home/a/mail.txt")),
            ("site", base.join("root/web/f.txt")),
        ] {
            let _ = std::fs::remove_file(web.join(name));
            symlink(target, web.join(name)).unwrap();
        }
        assert_eq!(read(&root, "~a/inside", FOLLOW).unwrap(), b"a's");
        assert_eq!(read(&root, "~a/mail", FOLLOW), Err(OpenError::OutsideRoot));
        assert_eq!(read(&root, "~a/site", FOLLOW), Err(OpenError::OutsideRoot));
    }
}

/// Random links over a few names, compared with an oracle that resolves like any program. If that ends inside and no
/// link leads out, the file is found; and everything found lies inside.
#[test]
fn what_links_lead_to_is_inside_or_not_found() {
    for round in 0..60 {
        let seed = Seed(19 + round);
        let mut rng = seed.rng();
        let mut below = |n: u64| rng.next_u64() % n;
        let dir = tree();
        let base = dir.path().canonicalize().unwrap();
        let root = base.join("root");
        // In half of the rounds, nothing ever leads out, not even for a moment.
        let is_tame = round % 2 == 0;
        for number in 0..12 {
            let mut target = match below(4) {
                0 | 1 => format!("{}/", root.display()),
                2 if !is_tame => format!("{}/", base.display()),
                _ => String::new(),
            };
            for _ in 0..1 + below(3) {
                let name = match below(10) {
                    0 if !is_tame => "..".to_owned(),
                    1 => ".".to_owned(),
                    2 => "a".to_owned(),
                    3 => "b.txt".to_owned(),
                    4 => "top.txt".to_owned(),
                    5 if !is_tame => "secret.txt".to_owned(),
                    _ => format!("l{}", below(12)),
                };
                target.push_str(&name);
                target.push('/');
            }
            let at = match below(3) {
                0 => root.join("a").join(format!("l{number}")),
                _ => root.join(format!("l{number}")),
            };
            symlink(target.trim_end_matches('/'), at).unwrap();
        }
        let inside: HashSet<(u64, u64)> = ["", "a", "a/b.txt", "top.txt"]
            .iter()
            .map(|rel| root.join(rel).metadata().unwrap())
            .map(|found| (found.dev(), found.ino()))
            .collect();
        for number in 0..12 {
            for rel in [
                format!("l{number}"),
                format!("a/l{number}"),
                format!("l{number}/b.txt"),
            ] {
                let truth = std::fs::metadata(root.join(&rel)).ok();
                let truth = truth.map(|found| (found.dev(), found.ino()));
                for opened in both(&dir) {
                    let found = opened.open_file(rel.as_bytes(), FOLLOW).ok();
                    let found = found.map(|file| (file.meta().device, file.meta().inode));
                    assert!(
                        found.is_none_or(|one| inside.contains(&one)),
                        "{seed:?} {rel} leads out"
                    );
                    // Both resolve `..` after a link alike, so they find the same file.
                    assert!(found.is_none() || found == truth, "{seed:?} {rel}");
                    if is_tame {
                        assert_eq!(found, truth, "{seed:?} {rel}");
                    }
                }
            }
        }
    }
}

#[test]
fn links_that_are_swapped_while_they_are_resolved_lead_nowhere_outside() {
    let dir = tree();
    let base = dir.path().canonicalize().unwrap();
    let root = base.join("root");
    std::fs::create_dir_all(base.join("spare")).unwrap();
    std::fs::write(root.join("a/secret.txt"), "inside").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swap = || {
            let targets = [
                root.join("a"),
                base.join("root-secret"),
                PathBuf::from("a"),
                PathBuf::from("../root-secret"),
                root.join("a/../../root-secret"),
                root.join("hop"),
            ];
            let mut turn = 0;
            while !stop.load(Ordering::Relaxed) {
                for name in ["hop", "folder"] {
                    let fresh = base.join("spare/link");
                    symlink(&targets[turn % targets.len()], &fresh).unwrap();
                    std::fs::rename(&fresh, root.join(name)).unwrap();
                    turn += 1;
                }
                // A directory where a link was, and the other way round.
                std::fs::create_dir(base.join("spare/real")).unwrap();
                std::fs::write(base.join("spare/real/secret.txt"), "inside").unwrap();
                let _ = std::fs::remove_file(root.join("kind"));
                std::fs::rename(base.join("spare/real"), root.join("kind")).unwrap();
                std::fs::remove_dir_all(root.join("kind")).unwrap();
                symlink(base.join("root-secret"), root.join("kind")).unwrap();
            }
        };
        scope.spawn(swap);
        let began = std::time::Instant::now();
        let (mut found, mut refused) = (0, 0);
        let opened = both(&dir);
        while began.elapsed() < std::time::Duration::from_millis(1500) || found == 0 || refused == 0 {
            for (number, rel) in ["hop/secret.txt", "folder/secret.txt", "kind/secret.txt"]
                .iter()
                .enumerate()
            {
                match read(&opened[number % 2], rel, FOLLOW) {
                    Ok(content) if content == b"inside" => found += 1,
                    Ok(content) => {
                        stop.store(true, Ordering::Relaxed);
                        panic!("{rel} led to {:?}", String::from_utf8_lossy(&content));
                    }
                    Err(_) => refused += 1,
                }
            }
            if began.elapsed() > std::time::Duration::from_secs(60) {
                stop.store(true, Ordering::Relaxed);
                panic!("{found} found, {refused} refused");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
