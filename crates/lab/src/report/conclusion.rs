//! The conclusion of a document's page: how many claims hold, then the plan's sentences, each chosen by the results.

use crate::ledger::{Entry, Study, Verdict};
use crate::observation::World;

/// At most this many sentences.
pub(super) const SENTENCES_MAX: usize = 6;

/// The sentences, from the claims of this study. The first counts them; further ones are counted if there are no others.
pub(super) fn sentences(study: &Study, entries: &[&Entry]) -> Vec<String> {
    let (further, others): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().copied().partition(|entry| entry.is_further);
    let counted = match others.is_empty() && !further.is_empty() {
        true => count(&further, study.is_since(), "further "),
        false => count(&others, study.is_since(), ""),
    };
    let mut all = vec![counted];
    let mut undecided: Vec<&str> = Vec::new();
    for one in &study.plan.conclusions {
        let claims: Vec<&&Entry> = entries
            .iter()
            .filter(|entry| one.claims.contains(&entry.id))
            .collect();
        let (then, now) = (all_hold(&claims, then), all_hold(&claims, now));
        if (then, now) == (None, None) {
            undecided.extend(one.claims.iter().map(String::as_str));
            continue;
        }
        let general = || {
            let word = |holds: Option<bool>, world: &str| match holds {
                Some(true) => format!("holds {world}"),
                Some(false) => format!("does not hold {world}"),
                None => format!("is undecided {world}"),
            };
            let (simulated, measured) = match study.is_since() {
                true => ("in the simulation", "on this machine"),
                false => ("then", "now"),
            };
            format!(
                "{} {} and {}.",
                one.claims.join(" with "),
                word(then, simulated),
                word(now, measured)
            )
        };
        // Sentences on the protocols since are about this machine: their simulation is not of another time.
        let told = then.filter(|_| !study.is_since());
        let mut text = one.says(told, now).map_or_else(general, str::to_owned);
        let is_presumed = claims.iter().any(|entry| entry.verdict == Verdict::Assumed);
        if told == Some(true) && is_presumed && !text.contains("assum") {
            // Part of the sentence, of which a page has few.
            text.truncate(text.trim_end_matches('.').len());
            text.push_str("; the simulation assumes what it shows of then.");
        }
        all.push(text);
    }
    if let [others @ .., last] = undecided.as_slice() {
        let others = match others {
            [] => String::new(),
            others => format!("{} and ", others.join(", ")),
        };
        all.push(format!("No run decides {others}{last} yet."));
    }
    all.truncate(SENTENCES_MAX);
    all
}

/// Whether a claim holds in the document's time: simulated, or by its formulas. For a claim on the protocols since: whether
/// it holds in the simulation, which is of today.
pub(super) fn then(entry: &Entry) -> Option<bool> {
    decided(entry, World::Simulated).or_else(|| decided(entry, World::Model))
}

/// Whether a claim holds on this machine.
pub(super) fn now(entry: &Entry) -> Option<bool> {
    decided(entry, World::Measured)
}

/// Whether a claim holds in a world; `None` if that world does not decide it.
fn decided(entry: &Entry, world: World) -> Option<bool> {
    let view = entry.views.get(&world).filter(|_| entry.by.contains(&world))?;
    view.holds.filter(|_| view.premise == Some(true))
}

/// Whether all hold; `None` if none fails and one is undecided.
fn all_hold(claims: &[&&Entry], holds: fn(&Entry) -> Option<bool>) -> Option<bool> {
    let each = || claims.iter().map(|entry| holds(entry));
    if each().any(|held| held == Some(false)) {
        Some(false)
    } else if claims.is_empty() || each().any(|held| held.is_none()) {
        None
    } else {
        Some(true)
    }
}

/// Whether it has a number that no document printed.
fn is_tested(entry: &Entry) -> bool {
    entry.views.keys().any(|world| *world != World::Published)
}

/// How many claims of a `kind`, such as `further `, hold then and now. The simulation of the protocols since is of today: its
/// claims are counted apart.
fn count(entries: &[&Entry], is_since: bool, kind: &str) -> String {
    if !entries.iter().any(|entry| is_tested(entry)) {
        return format!("No run has tested these {} {kind}claims yet.", entries.len());
    }
    // By construction or by presumption, a claim holds whatever the results are.
    let is_evidence = |entry: &&&Entry| !matches!(entry.verdict, Verdict::Identity | Verdict::Assumed);
    let number = |holds: fn(&Entry) -> Option<bool>| {
        let held = entries
            .iter()
            .filter(is_evidence)
            .filter(|entry| holds(entry) == Some(true));
        held.count()
    };
    let rest = entries.len() - entries.iter().filter(is_evidence).count();
    let rest = match rest {
        0 => String::new(),
        some => format!("; {} by construction or by an assumption", hold(some)),
    };
    if is_since {
        let simulated = entries
            .iter()
            .filter(is_evidence)
            .filter(|entry| then(entry).is_some())
            .count();
        let simulated = match simulated {
            0 => String::new(),
            some => format!(
                "; of {some} that the simulation decides, {} there",
                hold(number(then))
            ),
        };
        return format!(
            "Of {} {kind}{}, {} on this machine{simulated}{rest}.",
            entries.len(),
            plural(entries.len()),
            hold(number(now))
        );
    }
    let is_measured = entries
        .iter()
        .any(|entry| entry.views.contains_key(&World::Measured));
    let now = if is_measured {
        match number(now) {
            0 => " and none on this machine now".to_owned(),
            some => format!(" and {some} on this machine now"),
        }
    } else {
        String::new()
    };
    let then_place = if entries
        .iter()
        .any(|entry| entry.views.contains_key(&World::Simulated))
    {
        "in the simulated world of then"
    } else {
        "by the document's formulas"
    };
    if number(then) == 0 && (!is_measured || number(self::now) == 0) {
        let place = if is_measured {
            format!("{then_place} or on this machine now")
        } else {
            then_place.to_owned()
        };
        return format!(
            "Of {} {kind}{}, none holds {place}{rest}.",
            entries.len(),
            plural(entries.len())
        );
    }
    format!(
        "Of {} {kind}{}, {} {then_place}{now}{rest}.",
        entries.len(),
        plural(entries.len()),
        hold(number(then))
    )
}

fn plural(count: usize) -> &'static str {
    match count {
        1 => "claim",
        _ => "claims",
    }
}

fn hold(count: usize) -> String {
    match count {
        1 => "1 holds".to_owned(),
        many => format!("{many} hold"),
    }
}
