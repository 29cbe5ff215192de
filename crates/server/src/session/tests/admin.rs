//! Requests at the admin addresses: which of them hold commands.

use super::rig::{Lines, Rig, answers, source};
use crate::config::{Admin, Config};
use crate::service::{Additions, Interprocess, Server};
use runtime::control::Control as Answering;
use std::sync::Arc;
use units::Seed;

/// A connection at the admin address of a server whose commands would go to `answering`, with these settings.
fn at_admin(answering: &Answering, set: impl FnOnce(&mut Admin)) -> Rig {
    let mut config =
        Config::from_toml("[admin]\nlisten = '127.0.0.1:9090'\n", "w.toml").expect("a valid file");
    set(config.admin.as_mut().expect("the table"));
    let additions = Additions {
        control: Some(answering.inbox()),
        ..Additions::default()
    };
    let server = Server::open_with(
        additions,
        Interprocess::default(),
        config,
        source(),
        None,
        Seed(1),
    )
    .expect("a server");
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
