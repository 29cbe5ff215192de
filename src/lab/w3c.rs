//! `weir lab w3c`: document 003's tables, simulated beside the published figures, as text or JSON lines.

use crate::cli::lab::{Table, W3cFlags};
use crate::failure::Failure;
use crate::fetch::simulated;
use crate::output::print;
use crate::voice::Voice;
use client::plan::{Manner, Mode};
use load::site::microscape::TagCase;
use repro::closing::{Closing, closing, nagle};
use repro::costs::Costs;
use repro::page::microscape;
use repro::server::Ending;
use repro::tables::{self, Initial, MANNERS, Modem, RECALLED, RECOVERED, Row};
use repro::visit::{Figures, Hosts, Network};
use repro::{ASSUMPTIONS, Basis};
use serde_json::{Value, json};
use std::fmt::Write;
use std::rc::Rc;
use units::Seed;

const DOCUMENT: &str = "003";

/// Runs the command.
///
/// # Errors
/// `Usage` for an unknown time or a table that has none, `System` if the report cannot be written.
pub(super) fn run(flags: &W3cFlags, voice: &Voice) -> Result<(), Failure> {
    let page = Rc::new(microscape(TagCase::Lower));
    let costs = costs(flags)?;
    let is_changed = !flags.set.is_empty();
    let wants = |table| match &flags.table[..] {
        [] => !is_changed || has_costs(table),
        wanted => wanted.contains(&table),
    };
    let mut text = String::new();
    if is_changed {
        text += &if voice.json {
            lines(flags.set.iter().map(changed_json))
        } else {
            changed(&flags.set)
        };
    }
    if wants(Table::Number(3)) {
        let columns = tables::initial(&page, flags.runs);
        text += &if voice.json {
            lines(columns.iter().map(initial_json))
        } else {
            initial(&columns)
        };
    }
    for number in (4..=9).filter(|&number| wants(Table::Number(number))) {
        let rows = tables::rows(&page, flags.runs, costs, |row| row.table == number);
        text += &if voice.json {
            lines(rows.iter().map(|row| row_json(row, flags.runs)))
        } else {
            main_table(number, &rows)
        };
    }
    if wants(Table::Modem) {
        let rows = tables::modem(&page, flags.runs);
        text += &if voice.json {
            lines(rows.iter().map(modem_json))
        } else {
            modem(&rows)
        };
    }
    if wants(Table::Closing) {
        let endings = [Ending::Full, Ending::Half].map(|ending| closing(&page, ending));
        text += &if voice.json {
            lines(endings.iter().map(closing_json))
        } else {
            closings(&endings)
        };
    }
    if wants(Table::Nagle) {
        let figures = nagle(&page, flags.runs);
        text += &if voice.json {
            lines(["on", "off"].into_iter().zip(&figures).map(nagle_json))
        } else {
            format!(
                "Serial first visit to a server that buffers, LAN: {:.2} s with Nagle's algorithm, {:.2} s without\n\n",
                figures[0].seconds, figures[1].seconds
            )
        };
    }
    if flags.today {
        let rows = today()?;
        text += &if voice.json {
            lines(rows.iter().map(today_json))
        } else {
            today_table(&rows)
        };
    }
    text += &if voice.json {
        lines(ASSUMPTIONS.iter().map(assumption_json))
    } else {
        assumptions()
    };
    print(&text)
}

/// Whether the table is simulated with the fitted processor times, which can be changed.
fn has_costs(table: Table) -> bool {
    matches!(table, Table::Number(4..=9))
}

/// The processor times of Tables 4 to 9.
fn costs(flags: &W3cFlags) -> Result<Costs, Failure> {
    if !flags.set.is_empty() && flags.table.iter().any(|table| !has_costs(*table)) {
        return Err(Failure::Usage(
            "--set changes Tables 4 to 9 only; leave out the other tables".to_owned(),
        ));
    }
    Costs::FITTED
        .with(&flags.set)
        .map_err(|why| Failure::Usage(format!("--set: {why}")))
}

fn changed(set: &[(String, f64)]) -> String {
    let words: Vec<String> = set
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    format!("Not the fitted processor times: {}\n\n", words.join(" "))
}

fn changed_json((name, value): &(String, f64)) -> Value {
    json!({ "event": "changed", "document": DOCUMENT, "name": name, "value": value })
}

fn lines(values: impl Iterator<Item = Value>) -> String {
    values.map(|value| format!("{value}\n")).collect()
}

fn visit_word(is_first: bool) -> &'static str {
    if is_first { "first visit" } else { "revalidation" }
}

/// The JSON fields common to all simulated rows.
pub(super) fn figures_json(figures: &Figures) -> Value {
    json!({
        "packets": figures.packets(), "packets_up": figures.up.packets, "packets_down": figures.down.packets,
        "bytes": figures.bytes(), "bytes_up": figures.up.bytes, "bytes_down": figures.down.bytes,
        "overhead_percent": figures.overhead(), "seconds": figures.seconds, "connections": figures.connections,
    })
}

fn row_json(row: &Row, runs: u64) -> Value {
    let (published, case) = (&row.published, &row.published.case);
    let [packets, bytes, seconds] = row.errors();
    json!({
        "event": "row", "document": DOCUMENT, "table": published.table, "server": case.server.name(),
        "network": case.network.name(), "mode": case.manner.to_string(), "first_visit": case.is_first, "runs": runs,
        "published": {
            "packets": published.packets, "bytes": published.bytes, "seconds": published.seconds,
            "overhead_percent": published.overhead(), "provenance": RECALLED,
        },
        "simulated": figures_json(&row.simulated),
        "error": { "packets": packets, "bytes": bytes, "seconds": seconds },
        "within": row.within(), "verdict": row.not_explained().unwrap_or_else(|| "met".to_owned()),
        "parameters_not_explained": Hosts::contradiction(case.network),
    })
}

fn initial_json(column: &Initial) -> Value {
    let [up, down, seconds] = column.published;
    json!({
        "event": "row", "document": DOCUMENT, "table": 3, "server": "Jigsaw", "network": "lan",
        "mode": column.mode.name(), "first_visit": false,
        "published": { "packets": up + down, "packets_up": up, "packets_down": down, "seconds": seconds,
            "provenance": RECALLED },
        "simulated": figures_json(&column.simulated),
        "verdict": "not explained: early versions of client and server; no source states their costs",
    })
}

fn modem_json(row: &Modem) -> Value {
    json!({
        "event": "row", "document": DOCUMENT, "table": "modem", "server": row.server.name(), "network": "ppp",
        "mode": if row.deflated { "pipelined+deflate" } else { "pipelined" }, "first_visit": true, "page_alone": true,
        "published": { "packets": row.packets, "seconds": row.seconds, "provenance": RECOVERED },
        "simulated": figures_json(&row.simulated),
    })
}

fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Full => "full",
        Ending::Half => "half",
    }
}

fn closing_json(one: &Closing) -> Value {
    json!({ "event": "closing", "document": DOCUMENT, "closing": ending(one.ending), "written": one.written,
        "received": one.received, "failed": one.failed })
}

fn nagle_json((nagle, figures): (&str, &Figures)) -> Value {
    json!({ "event": "nagle", "document": DOCUMENT, "nagle": nagle, "seconds": figures.seconds,
        "packets": figures.packets() })
}

fn closings(endings: &[Closing]) -> String {
    let mut text = "Responses lost when a server closes after five requests, pipelined, WAN\n".to_owned();
    for one in endings {
        let _ = writeln!(
            text,
            "  {} close: {} of {} responses written never arrive",
            ending(one.ending),
            i64::from(one.written) - i64::from(one.received),
            one.written
        );
    }
    text.push('\n');
    text
}

fn assumption_json(one: &repro::Assumption) -> Value {
    json!({
        "event": "assumption", "document": DOCUMENT, "what": one.what, "value": one.value,
        "basis": one.basis.name(), "means": one.basis.meaning(), "to": one.to, "not_explained": one.not_explained,
    })
}

fn main_table(number: u32, rows: &[Row]) -> String {
    let Some(case) = rows.first().map(|row| row.published.case) else {
        return String::new();
    };
    let mut text = format!(
        "Table {number}: {} over {}, simulated / published ({RECALLED})\n{:<30} {:<12} {:>15} {:>9} {:>19} {:>11} {:>15}\n",
        case.server.name(),
        case.network.name().to_uppercase(),
        "mode",
        "",
        "packets",
        "up+down",
        "bytes",
        "overhead %",
        "seconds",
    );
    for row in rows {
        let (ours, theirs) = (&row.simulated, &row.published);
        let name = MANNERS.iter().find(|(_, manner)| *manner == theirs.case.manner);
        let _ = writeln!(
            text,
            "{:<30} {:<12} {:>7.1} / {:>5.1} {:>5.0}+{:<3.0} {:>8.0} / {:>8.0} {:>4.1} / {:>4.1} {:>6.2} / {:>6.2}  {}",
            name.map_or("", |(name, _)| name),
            visit_word(theirs.case.is_first),
            ours.packets(),
            theirs.packets,
            ours.up.packets,
            ours.down.packets,
            ours.bytes(),
            theirs.bytes,
            ours.overhead(),
            theirs.overhead(),
            ours.seconds,
            theirs.seconds,
            row.not_explained().unwrap_or_default(),
        );
    }
    if let Some(contradiction) = Hosts::contradiction(case.network) {
        let _ = writeln!(text, "not explained: {contradiction}");
    }
    text.push('\n');
    text
}

fn initial(columns: &[Initial]) -> String {
    let mut text = format!(
        "Table 3: Jigsaw over LAN, revalidation with a 1 s timer and no explicit flush, simulated / published ({RECALLED})\n"
    );
    let _ = writeln!(
        text,
        "{:<30} {:>15} {:>15} {:>15}",
        "mode", "packets up", "down", "seconds"
    );
    for column in columns {
        let (ours, [up, down, seconds]) = (&column.simulated, column.published);
        let _ = writeln!(
            text,
            "{:<30} {:>7.1} / {:>5.0} {:>7.1} / {:>5.0} {:>7.2} / {:>5.2}",
            column.mode.name(),
            ours.up.packets,
            up,
            ours.down.packets,
            down,
            ours.seconds,
            seconds
        );
    }
    text += "not explained: early versions of client and server; no source states their costs\n\n";
    text
}

fn modem(rows: &[Modem]) -> String {
    let mut text = format!(
        "The page without its images over the modem, simulated / published ({RECOVERED}; teardown not counted here)\n"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:<30} {:<12} {:>7.1} / {:>5.1} {:>26.2} / {:>5.2} s",
            row.server.name(),
            if row.deflated { "deflated" } else { "plain" },
            row.simulated.packets(),
            row.packets,
            row.simulated.seconds,
            row.seconds
        );
    }
    text.push('\n');
    text
}

fn assumptions() -> String {
    let mut text = "Assumptions of Tables 4 to 9, the same for all rows\n".to_owned();
    for basis in Basis::ALL {
        let _ = writeln!(text, "  {}: {}", basis.name(), basis.meaning());
    }
    text.push('\n');
    for one in ASSUMPTIONS {
        let _ = writeln!(
            text,
            "  {}: {} ({}: {}{})",
            one.what,
            one.value,
            one.basis.name(),
            one.to,
            one.not_explained
                .map_or_else(String::new, |why| format!("; not explained: {why}"))
        );
    }
    text
}

/// The TCP of both hosts.
#[derive(Clone, Copy)]
enum Stack {
    /// That of the document's hosts, without the compression of its modem.
    Then,
    /// Linux.
    Today,
}

impl Stack {
    const ALL: [Stack; 2] = [Stack::Then, Stack::Today];

    fn name(self) -> &'static str {
        match self {
            Stack::Then => "1997",
            Stack::Today => "linux-6",
        }
    }

    fn hosts(self, network: Network) -> Hosts {
        match self {
            Stack::Then => Hosts::of(network, 1.0, Seed(1)),
            Stack::Today => Hosts::today(network),
        }
    }
}

/// A visit of this program's client to its server.
struct Today {
    stack: Stack,
    network: Network,
    mode: String,
    is_first: bool,
    figures: Figures,
}

/// This program's client and server over the same networks.
fn today() -> Result<Vec<Today>, Failure> {
    let http2 = Manner {
        mode: Mode::Http2,
        coding: None,
    };
    let manners = MANNERS.iter().map(|(_, manner)| *manner).chain([http2]);
    let mut rows = Vec::new();
    for stack in Stack::ALL {
        for network in Network::ALL {
            for manner in manners.clone() {
                for is_first in [true, false] {
                    rows.push(Today {
                        stack,
                        network,
                        mode: manner.to_string(),
                        is_first,
                        figures: simulated::between(stack.hosts(network), manner, is_first)?,
                    });
                }
            }
        }
    }
    Ok(rows)
}

fn today_json(row: &Today) -> Value {
    json!({
        "event": "row", "document": DOCUMENT, "server": "Weir", "stack": row.stack.name(), "network": row.network.name(),
        "mode": row.mode, "first_visit": row.is_first, "simulated": figures_json(&row.figures),
    })
}

fn today_table(rows: &[Today]) -> String {
    let mut text = format!(
        "Weir's server and client, simulated over the same networks\n{:<8} {:<30} {:<12} {:>9} {:>9} {:>9} {:>11} {:>9}\n",
        "TCP of", "network and mode", "", "packets", "up+down", "bytes", "overhead %", "seconds"
    );
    for row in rows {
        let ours = &row.figures;
        let _ = writeln!(
            text,
            "{:<8} {:<30} {:<12} {:>9.0} {:>5.0}+{:<3.0} {:>9.0} {:>11.1} {:>9.2}",
            row.stack.name(),
            format!("{} {}", row.network.name(), row.mode),
            visit_word(row.is_first),
            ours.packets(),
            ours.up.packets,
            ours.down.packets,
            ours.bytes(),
            ours.overhead(),
            ours.seconds
        );
    }
    text.push('\n');
    text
}
