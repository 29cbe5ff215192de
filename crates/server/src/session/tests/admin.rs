//! Requests at the admin addresses: who may connect and read, and which requests hold commands.

use super::rig::{Lines, Rig, answers, peer, source};
use crate::config::{Admin, Config};
use crate::service::{Additions, Interprocess, Server};
use crate::site::OpenError;
use runtime::control::Control as Answering;
use runtime::{Accepted, Service as _, Session as _};
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

#[test]
fn one_address_has_a_quarter_of_the_places() {
    let answering = Answering::without_file().expect("an inbox");
    let mut rig = at_admin(&answering, |_| {});
    let config = Config {
        max_handshakes_per_address: Some(1),
        ..rig.server.config()
    };
    rig.server.reload(config, None).expect("a reload");
    rig.turn();
    let accept = |rig: &mut Rig, is_to_agree: bool| {
        let accepted = Accepted {
            is_to_agree,
            ..peer()
        };
        rig.server.accept(&mut rig.cx, &accepted, rig.now)
    };
    let mut held = vec![accept(&mut rig, true).expect("a place")];
    for _ in 0..16 {
        assert!(accept(&mut rig, true).is_none(), "a handshake is under way");
    }
    while let Some(session) = accept(&mut rig, false) {
        held.push(session);
    }
    assert_eq!(held.len(), 15, "beside the connection of the rig");
    // Another address has places here, and this one at other listeners.
    let other = Accepted::at_first("192.0.2.8:1".parse().expect("an address"));
    let other = rig.server.accept(&mut rig.cx, &other, rig.now);
    let public = Server::of(&rig.server.hub).accept(&mut rig.cx, &peer(), rig.now);
    held.extend([other, public].map(|session| session.expect("a place")));
    let totals = rig.server.totals();
    assert_eq!(
        (
            rig.server.open_connections(),
            totals.refused_address,
            totals.refused_handshakes
        ),
        (18, 1, 16)
    );
    for mut session in held {
        session.closed(&mut rig.cx, rig.now);
    }
    assert_eq!(rig.server.open_connections(), 1);
    let mut again = accept(&mut rig, false).expect("a place is free");
    again.closed(&mut rig.cx, rig.now);
    // A trusted proxy connects for many clients.
    let config = Config {
        trusted: vec!["192.0.2.7".parse().expect("a network")],
        ..rig.server.config()
    };
    rig.server.reload(config, None).expect("a reload");
    rig.turn();
    let proxied: Vec<_> = (0..20).map_while(|_| accept(&mut rig, false)).collect();
    assert_eq!(proxied.len(), 20);
    for mut session in proxied {
        session.closed(&mut rig.cx, rig.now);
    }
}
