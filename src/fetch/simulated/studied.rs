//! Simulated runs of the study on the protocols since: visits in its modes, and a client that takes page after page.
//!
//! With TLS as [`secured`] has it, or without; in both cases processors take no time.

use super::secured::{self, Visited};
use super::{FILES, Today, USER_AGENT, parsed, plain};
use crate::failure::Failure;
use client::plan::{Manner, Mode, Plan};
use client::session::{Ending, Version};
use link::Profile;
use load::crew::{Crew, Model, Setup};
use load::replies::Accept;
use load::request_source::RequestSource;
use load::work::{Target, Work};
use netsim::{Dialing, Limits, World};
use repro::visit::{Figures, Hosts, Network};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant, Seed};

/// Time in which pages that have begun may end, and connections close.
const GRACE: Duration = Duration::from_secs(60);

/// Where a run takes place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'l> {
    /// The link, as `weir link` takes it.
    pub(crate) link: &'l str,
    /// Whether connections have TLS; those of HTTP/3 always do.
    pub(crate) is_secured: bool,
    /// What losses follow from.
    pub(crate) seed: Seed,
}

impl Setting<'_> {
    fn hosts(&self) -> Result<Hosts, Failure> {
        let link: Profile = parsed(self.link)?;
        Ok(Hosts {
            link,
            ..Hosts::today(Network::Lan)
        })
    }
}

/// A complete visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    /// Totals at the client.
    pub(crate) figures: Figures,
    /// Bytes that the client sent above TLS and QUIC.
    pub(crate) request_bytes: u64,
}

/// Pages of a client without pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Packets of both hosts, from the first handshake to the last closing.
    pub(crate) packets: u64,
    /// Complete pages.
    pub(crate) pages: u64,
}

/// Visits the page with an empty cache, or validates it.
///
/// # Errors
/// `Usage` for an impossible link, `Failed` if an object is missing, `System` if the system has no random numbers.
pub(crate) fn visit(
    setting: &Setting<'_>,
    manner: Manner,
    connections: usize,
    is_first: bool,
) -> Result<Visit, Failure> {
    let plan = Plan {
        connections,
        ..plain(manner, is_first)
    };
    let today = match setting.is_secured || manner.mode == Mode::Http3 {
        true => Today::secured(setting.hosts()?, plan)?,
        false => Today::ready(setting.hosts()?, plan, Duration::ZERO, None)?,
    };
    let Visited { figures, outcome, .. } = today.visit(setting.seed)?;
    let (timeline, sums) = (&outcome.timeline, outcome.timeline.sums());
    if sums.failed > 0 || timeline.objects.len() < FILES.len() {
        let complete = (timeline.objects.len() as u64).saturating_sub(sums.failed);
        return Err(Failure::Failed(format!(
            "{manner} over `{}`: {complete} of {} objects arrived",
            setting.link,
            FILES.len()
        )));
    }
    Ok(Visit {
        figures,
        request_bytes: sums.bytes_out,
    })
}

/// Lets a client take the page again and again for this long, over one connection that stays open or one per page
/// (`early-close`). The last page may take longer.
///
/// # Errors
/// As [`visit`].
pub(crate) fn pages(setting: &Setting<'_>, mode: Mode, span: Duration) -> Result<Pages, Failure> {
    let manner = Manner { mode, coding: None };
    let today = Today::secured(setting.hosts()?, plain(manner, true))?;
    let tls = today.tls.as_ref().expect("`Today::secured` has TLS");
    let crew = tls.client(
        Crew::new(setup(mode, span), model(), Arc::default()),
        &[b"http/1.1"],
    );
    let crew = Rc::new(RefCell::new(crew));
    let mut world = World::new(
        &today.hosts.link,
        (
            today.hosts.client.clone(),
            Box::new(Dialing::new(Rc::clone(&crew), Duration::ZERO)),
        ),
        (today.hosts.server.clone(), Box::new(tls.hosted(&today.server))),
        setting.seed,
        Limits {
            log_max: 0,
            ..Limits::default()
        },
    );
    world.run(Instant::ZERO + span + GRACE);
    let [client, server] = world.tallies();
    let until = world.now();
    drop(world);
    let crew = Rc::into_inner(crew).expect("the world, which held the other handle, was dropped");
    let record = crew.into_inner().into_inner().into_record(until);
    if record.files_failed > 0 || record.unfinished > 0 || record.objects == 0 {
        return Err(Failure::Failed(format!(
            "{manner} over `{}`: {} pages complete, {} not; {} files failed",
            setting.link, record.objects, record.unfinished, record.files_failed
        )));
    }
    Ok(Pages {
        packets: client.packets + server.packets,
        pages: record.objects,
    })
}

/// A user that takes one object, the page with all that it embeds.
fn model() -> Model {
    let source = RequestSource::Turn {
        order: Arc::new([0]),
        next: 0,
        stride: 1,
    };
    Model::Closed(vec![(Duration::ZERO, source)])
}

fn setup(mode: Mode, span: Duration) -> Setup {
    let files = FILES.iter().map(|(path, content)| Target {
        path: match *path {
            "/index.html" => "/".into(),
            path => path.into(),
        },
        bytes: Some(content.len() as u64),
        class: None,
        xxh3: None,
    });
    let work = Work {
        files: files.collect(),
        objects: vec![(0..FILES.len() as u32).collect()],
        deciles: Vec::new(),
    };
    let url = secured::url();
    let host = url.host_str().unwrap_or_default();
    Setup {
        work: Arc::new(work),
        mode,
        ending: Arc::new(Ending::new(Version::Http11, host, USER_AGENT)),
        accept: Accept::default(),
        lengths: true,
        warmup: Duration::ZERO,
        duration: span,
        counted: span,
        grace: GRACE,
        timeout: GRACE,
        verify: false,
        unseen_from: u64::MAX,
        lanes: 1,
        sharing: None,
        secured: true,
        script: None,
        started: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTING: Setting<'static> = Setting {
        link: "4g",
        is_secured: true,
        seed: Seed(1),
    };

    #[test]
    fn a_connection_for_each_page_costs_its_opening_and_its_closing() {
        let of = |mode| pages(&SETTING, mode, Duration::from_secs(5)).expect("pages");
        let (kept, closed) = (of(Mode::Pipelined), of(Mode::EarlyClose));
        assert!(kept.pages >= 3 && closed.pages >= 3, "{kept:?}, {closed:?}");
        let each = |pages: Pages| pages.packets as f64 / pages.pages as f64;
        let more = each(closed) - each(kept);
        // Three packets open TCP, three or four close it, TLS takes four or more.
        assert!((6.0..40.0).contains(&more), "{more}: {kept:?}, {closed:?}");
        assert_eq!(of(Mode::Pipelined), kept, "the same on every run");
    }

    #[test]
    fn tls_costs_packets_and_a_round_trip() {
        let manner = "pipelined".parse().expect("a manner");
        let clear = Setting {
            is_secured: false,
            ..SETTING
        };
        let [secured, clear] =
            [SETTING, clear].map(|setting| visit(&setting, manner, 1, true).expect("a visit").figures);
        assert!(secured.packets() > clear.packets(), "{secured:?}, {clear:?}");
        // The round trip of the link.
        let more = secured.seconds - clear.seconds;
        assert!((0.07..0.2).contains(&more), "{more}");
    }
}
