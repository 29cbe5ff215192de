//! `weir lab claims`: the claims of documents 001 and 003 with verdicts that `period` computes.

use crate::cli::lab::ClaimsFlags;
use crate::cli::output::print;
use crate::cli::{Failure, Voice};
use load::site::microscape::TagCase;
use period::claims::{Evidence, judge};
use period::page::microscape;
use period::server::Ending;
use serde_json::json;
use std::rc::Rc;

/// Retrievals of each configuration of document 001.
const PAGES: usize = 100;

/// Runs the command to its end.
///
/// # Errors
/// `Failed` if a claim does not hold, `System` if the report cannot be written.
pub(super) fn run(flags: &ClaimsFlags, voice: &Voice) -> Result<(), Failure> {
    let page = Rc::new(microscape(TagCase::Lower));
    let evidence = Evidence::gather(&page, flags.runs, PAGES);
    let verdicts = judge(&evidence);
    let mut text: String = verdicts
        .iter()
        .map(|one| {
            let word = if one.holds {
                "reproduced in the simulated stack"
            } else {
                "not reproduced in the simulated stack"
            };
            if voice.json {
                let line = json!({
                    "event": "claim", "id": one.id, "claim": one.claim, "verdict": word, "holds": one.holds,
                    "because": one.because, "provenance": one.provenance,
                });
                format!("{line}\n")
            } else {
                format!(
                    "{} {word}\n      {} [{}]\n      {}\n",
                    one.id, one.claim, one.provenance, one.because
                )
            }
        })
        .collect();
    if voice.json {
        text += &counted(&evidence);
    }
    print(&text)?;
    match verdicts.iter().filter(|one| !one.holds).count() {
        0 => Ok(()),
        count => Err(Failure::Failed(format!(
            "{count} claims do not hold in the simulation"
        ))),
    }
}

/// What no table shows: what became of answers when a server closed, and seconds with and without Nagle's algorithm.
fn counted(evidence: &Evidence) -> String {
    let closings = evidence.closings.iter().map(|one| {
        let closing = match one.ending {
            Ending::Full => "full",
            Ending::Half => "half",
        };
        json!({ "event": "closing", "closing": closing, "written": one.written, "received": one.received,
            "failed": one.failed })
    });
    let nagle = ["on", "off"].into_iter().zip(&evidence.nagle).map(|(nagle, figures)| {
        json!({ "event": "nagle", "nagle": nagle, "seconds": figures.seconds, "packets": figures.packets() })
    });
    closings.chain(nagle).map(|line| format!("{line}\n")).collect()
}
