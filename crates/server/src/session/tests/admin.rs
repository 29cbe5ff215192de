//! Requests at the admin addresses: who may read, and which requests hold commands.

use super::rig::{Lines, Rig, answers, source};
use crate::config::{Admin, Config};
use crate::service::{Additions, Interprocess, Server};
use crate::site::OpenError;
use runtime::control::Control as Answering;
use std::sync::Arc;
use units::Seed;

/// The tokens of a reader and of an operator, and one that nobody has.
const TOKENS: [&str; 3] = ["reader-0123456789", "operator-0123456789", "stranger-0123456789"];

/// A server with these settings of its admin address, whose commands would go to `answering`.
fn server(answering: &Answering, set: impl FnOnce(&mut Admin)) -> Result<Server, OpenError> {
    let mut config =
        Config::from_toml("[admin]\nlisten = '127.0.0.1:9090'\n", "w.toml").expect("a valid file");
    set(config.admin.as_mut().expect("the table"));
    let additions = Additions {
        control: Some(answering.inbox()),
        ..Additions::default()
    };
    Server::open_with(
        additions,
        Interprocess::default(),
        config,
        source(),
        None,
        Seed(1),
    )
}

/// A connection at the admin address of such a server.
fn at_admin(answering: &Answering, set: impl FnOnce(&mut Admin)) -> Rig {
    let server = server(answering, set).expect("a server");
    Rig::of(server.at_admin(), Arc::new(Lines::default()))
}

/// Puts these settings of the admin address in force.
fn reload(rig: &mut Rig, set: impl FnOnce(&mut Admin)) {
    let mut config = rig.server.config();
    set(config.admin.as_mut().expect("the table"));
    rig.server.reload(config, None).expect("a reload");
    rig.turn();
}

/// Status of the response to a command with these field lines; `None`: it is passed on.
fn command(rig: &mut Rig, lines: &str) -> Option<u16> {
    rig.reconnect();
    rig.asked.clear();
    rig.send(
        format!(
            "POST /control HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 15\r\n{lines}\r\n\
             {{\"do\":\"status\"}}"
        )
        .as_bytes(),
    );
    let got = answers(&rig.out, |_| false).first().map(|answer| answer.status);
    assert_eq!(got.is_none(), !rig.asked.is_empty(), "{}", rig.text());
    got
}

/// Status of the response to a request for a page with these field lines.
fn page(rig: &mut Rig, lines: &str) -> Option<u16> {
    rig.reconnect();
    rig.send(format!("GET /healthz HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
    answers(&rig.out, |_| false).first().map(|answer| answer.status)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of files writes some")]
fn each_token_has_its_rights() {
    let folder = tempfile::tempdir().expect("a folder");
    let [reader, operator, _] = TOKENS.map(|token| {
        let path = folder.path().join(token);
        std::fs::write(&path, format!("{token}\n")).expect("a file");
        path
    });
    let [of_reader, of_operator, of_stranger] =
        TOKENS.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let answering = Answering::without_file().expect("an inbox");
    let (read, denied, forbidden) = (Some(200), Some(401), Some(403));
    // The token files in force, and for each client the status of a page and that of a command.
    for (token, control_token, clients) in [
        (
            None,
            None,
            [(read, None), (read, None), (read, None), (read, None)],
        ),
        (
            Some(&reader),
            None,
            [(denied, denied), (denied, denied), (read, None), (denied, denied)],
        ),
        (
            None,
            Some(&operator),
            [
                (read, forbidden),
                (read, forbidden),
                (read, forbidden),
                (read, None),
            ],
        ),
        (
            Some(&reader),
            Some(&operator),
            [
                (denied, denied),
                (denied, denied),
                (read, forbidden),
                (read, None),
            ],
        ),
    ] {
        let mut rig = at_admin(&answering, |admin| {
            admin.control = true;
            admin.token_file = token.cloned();
            admin.control_token_file = control_token.cloned();
        });
        let mut count = 0;
        for (lines, wanted) in ["", &of_stranger, &of_reader, &of_operator]
            .into_iter()
            .zip(clients)
        {
            let context = format!("{token:?} {control_token:?} {lines}");
            let got = (page(&mut rig, lines), command(&mut rig, lines));
            assert_eq!(got, wanted, "{context}");
            if got.1 == forbidden {
                assert!(rig.text().contains("`control-token-file`"), "{}", rig.text());
            }
            count += u64::from(got.0 == denied) + u64::from(got.1.is_some());
        }
        assert_eq!(rig.server.totals().admin_denied, count);
    }
    // One token cannot have both rights.
    let same = server(&answering, |admin| {
        admin.control = true;
        admin.token_file = Some(reader.clone());
        admin.control_token_file = Some(reader.clone());
    });
    let why = same.expect_err("one token").to_string();
    assert!(why.contains("`control-token-file`"), "{why}");
}

#[test]
fn a_reload_disables_commands_and_never_enables_them() {
    let answering = Answering::without_file().expect("an inbox");
    let mut rig = at_admin(&answering, |_| {});
    assert_eq!(command(&mut rig, ""), Some(404));
    reload(&mut rig, |admin| admin.control = true);
    assert_eq!(command(&mut rig, ""), Some(404));
    let mut rig = at_admin(&answering, |admin| admin.control = true);
    for _ in 0..2 {
        assert_eq!(command(&mut rig, ""), None);
        reload(&mut rig, |_| {});
    }
    reload(&mut rig, |admin| admin.control = false);
    assert_eq!(command(&mut rig, ""), Some(404));
}
