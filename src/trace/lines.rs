//! Machine-readable results: JSON, one object per line, and CSV.

use super::counters::{CONNECTION, DIRECTION};
use super::datagrams;
use super::source::Ending;
use super::words;
use crate::cli::trace::{Flags, Sheet};
use ::trace::{Connection, Event, Finding, Lookup, Series, Summary, Transaction};
use serde_json::{Value, json};

/// Version of the JSON lines.
const FORMAT: u32 = 1;

/// The first line: format and source.
pub(super) fn head(flags: &Flags) -> String {
    let command: Vec<String> = std::env::args().collect();
    let file = flags.file.as_ref().map(|path| path.display().to_string());
    let head = json!({
        "event": "trace",
        "format": FORMAT,
        "version": env!("CARGO_PKG_VERSION"),
        "command": command,
        "file": file,
        "interface": flags.live,
    });
    format!("{head}\n")
}

/// A result as a JSON line; findings include title and remedy.
pub(super) fn json(event: &Event) -> String {
    let mut value = json!(event);
    if let Event::Finding(finding) = event {
        value["title"] = finding.kind.title().into();
        value["remedy"] = finding.kind.remedy().into();
    }
    format!("{value}\n")
}

/// The last line: totals of the capture and whether it is complete.
pub(super) fn end(summary: &Summary, ending: &Ending) -> String {
    let mut value = json!(summary);
    value["event"] = "summary".into();
    value["complete"] = ending.is_complete().into();
    value["error"] = ending.error().map_or(Value::Null, |error| {
        let mut value = json!(error);
        value["text"] = error.to_string().into();
        value
    });
    value["stopped_by"] = json!(ending.reason());
    value["packets_dropped"] = json!(ending.dropped());
    format!("{value}\n")
}

/// The CSV header of a sheet; empty for sheets made at the end.
pub(super) fn columns(sheet: Sheet) -> String {
    let names: Vec<String> = match sheet {
        Sheet::Connections => {
            let whole = CONNECTION.iter().map(|counter| counter.column.to_owned());
            let of = |end: &'static str| {
                DIRECTION
                    .iter()
                    .map(move |counter| format!("{end}_{}", counter.column))
            };
            whole.chain(of("client")).chain(of("server")).collect()
        }
        Sheet::Findings => words_of("connection,at_ms,sender,kind,cost_ms,packets,measures,remedy"),
        Sheet::Requests => words_of(
            "connection,index,method,target,status,complete,start_ms,request_ms,wait_ms,receive_ms,ahead,\
             request_header_bytes,request_body_bytes,response_header_bytes,response_body_bytes,packets,first_packet,\
             last_packet,stream,reset,priority,flow_control_ms",
        ),
        Sheet::Lookups => words_of(
            "client,server,name,type,start_ms,wait_ms,code,answers,truncated,transmissions,first_packet,last_packet",
        ),
        Sheet::Types | Sheet::Established | Sheet::Cwnd | Sheet::CwndDistribution | Sheet::Points => {
            return String::new();
        }
    };
    format!("{}\n", names.join(","))
}

fn words_of(line: &str) -> Vec<String> {
    line.split(',').map(str::to_owned).collect()
}

/// The CSV row of a result, if the sheet has one.
pub(super) fn row(sheet: Sheet, event: &Event) -> Option<String> {
    let cells = match (sheet, event) {
        (Sheet::Connections, Event::Connection(connection)) => connection_row(connection),
        (Sheet::Findings, Event::Finding(finding)) => finding_row(finding),
        (Sheet::Requests, Event::Transaction(transaction)) => request_row(transaction),
        (Sheet::Lookups, Event::Lookup(lookup)) => lookup_row(lookup),
        _ => return None,
    };
    let cells: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
    Some(format!("{}\n", cells.join(",")))
}

fn connection_row(connection: &Connection) -> Vec<String> {
    let whole = CONNECTION.iter().map(|counter| (counter.of)(connection).plain());
    let of = |direction| {
        DIRECTION
            .iter()
            .map(move |counter| (counter.of)(direction).plain())
    };
    whole
        .chain(of(&connection.from_client))
        .chain(of(&connection.from_server))
        .collect()
}

fn ms(time: units::Duration) -> String {
    format!("{:.6}", time.as_secs_f64() * 1e3)
}

fn finding_row(finding: &Finding) -> Vec<String> {
    vec![
        finding.connection.0.to_string(),
        ms(finding.at),
        words::side(finding.sender).to_owned(),
        finding.kind.title().to_owned(),
        ms(finding.cost),
        words::packets(&finding.packets).replace(',', ""),
        words::measures(finding),
        finding.kind.remedy().to_owned(),
    ]
}

fn request_row(t: &Transaction) -> Vec<String> {
    vec![
        t.connection.0.to_string(),
        t.index.to_string(),
        t.method.clone(),
        t.target.clone(),
        t.status.map(|status| status.to_string()).unwrap_or_default(),
        u8::from(t.complete).to_string(),
        ms(t.start),
        ms(t.request),
        t.wait.map(ms).unwrap_or_default(),
        t.receive.map(ms).unwrap_or_default(),
        t.ahead.to_string(),
        t.request_header_bytes.to_string(),
        t.request_body_bytes.to_string(),
        t.response_header_bytes.to_string(),
        t.response_body_bytes.to_string(),
        t.packets.to_string(),
        t.first_packet.to_string(),
        t.last_packet.to_string(),
        t.stream.map(|stream| stream.to_string()).unwrap_or_default(),
        t.reset
            .as_ref()
            .map(|reset| reset.code.clone())
            .unwrap_or_default(),
        t.priority.clone().unwrap_or_default(),
        t.flow_control.map(ms).unwrap_or_default(),
    ]
}

fn lookup_row(lookup: &Lookup) -> Vec<String> {
    vec![
        lookup.client.to_string(),
        lookup.server.to_string(),
        lookup.name.clone(),
        datagrams::record(lookup.record),
        ms(lookup.start),
        lookup.wait.map(ms).unwrap_or_default(),
        lookup.code.map(|code| code.to_string()).unwrap_or_default(),
        lookup.answers.to_string(),
        u8::from(lookup.truncated).to_string(),
        lookup.transmissions.to_string(),
        lookup.first_packet.to_string(),
        lookup.last_packet.to_string(),
    ]
}

/// A CSV cell (RFC 4180). Request targets may hold anything, so cells that a spreadsheet would take for a formula are
/// defused.
fn quoted(cell: &str) -> String {
    let is_number = cell.parse::<f64>().is_ok();
    let cell = if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

/// A sheet made from the whole capture; empty for sheets whose rows were written before.
pub(super) fn sheet(sheet: Sheet, summary: &Summary, series: &Series) -> String {
    match sheet {
        Sheet::Connections | Sheet::Findings | Sheet::Requests | Sheet::Lookups => String::new(),
        Sheet::Types => summary.kinds_csv(),
        Sheet::Established => summary.established.csv(),
        Sheet::Cwnd => summary.cwnd.csv(),
        Sheet::CwndDistribution => summary.cwnd_distribution.csv(),
        Sheet::Points => series.csv(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (cell, want) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "'=1+1"),
            ("-1.5", "-1.5"),
            ("-cmd", "'-cmd"),
        ] {
            assert_eq!(quoted(cell), want);
        }
    }
}
