//! The parts of a study small enough to commit beside its report: a table of its runs, a table of the numbers read
//! from them, and the lines that a README quotes. Decides their columns.

use super::{Material, counted, further};
use crate::ledger::{Study, apart};

/// All runs as CSV (RFC 4180): commands, status, disturbance. Times are in seconds, shares in percent.
pub fn runs_csv(study: &Study) -> String {
    let mut rows = vec![
        [
            "run",
            "repetition",
            "size",
            "world",
            "status",
            "reason",
            "excluded",
            "seed",
            "began",
            "seconds",
            "steal_pct",
            "cpu_pressure_pct",
            "others_pct",
            "program",
            "kernel",
            "processor",
            "commands",
        ]
        .map(str::to_owned),
    ];
    rows.extend(study.records.values().map(|record| {
        let head = &record.head;
        let commands: Vec<String> = head.commands.iter().map(|words| words.join(" ")).collect();
        let share = |share: Option<f64>| share.map_or(String::new(), |share| format!("{share:.2}"));
        [
            head.run.clone(),
            head.repetition.to_string(),
            head.size.clone(),
            head.world.name().to_owned(),
            head.status.name().to_owned(),
            head.reason.clone(),
            head.excluded.to_string(),
            head.seed.to_string(),
            head.began.to_string(),
            format!("{:.1}", head.seconds),
            format!("{:.2}", head.disturbance.steal_pct),
            share(head.disturbance.cpu_pressure_pct),
            share(head.disturbance.others_pct),
            head.program.clone(),
            head.kernel.clone(),
            head.processor.clone(),
            commands.join(" ; "),
        ]
    }));
    table(&rows)
}

/// Every number read from a completed run as CSV, with run, measure and labels.
pub fn values_csv(study: &Study) -> String {
    let mut rows =
        vec![["run", "repetition", "world", "measure", "unit", "labels", "value"].map(str::to_owned)];
    for (file, record) in &study.records {
        for one in record.observations(&study.plan, file) {
            let labels: Vec<String> = one
                .labels
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let unit = study.plan.units.get(&one.measure).cloned().unwrap_or_default();
            rows.push([
                record.head.run.clone(),
                record.head.repetition.to_string(),
                one.world.name().to_owned(),
                one.measure,
                unit,
                labels.join(" "),
                one.value.to_string(),
            ]);
        }
    }
    table(&rows)
}

/// Markdown for a file one level above `docs/report`: the number of claims by verdict, program, date, machine and
/// picture.
pub fn snippet(material: &Material<'_>) -> String {
    let sets = apart(material.ledger);
    let mut sentences = Vec::new();
    if !sets.documents.is_empty() {
        sentences.push(format!(
            "Of {} claims: {}",
            sets.documents.len(),
            counted(&sets.documents)
        ));
    }
    sentences.extend(further(&sets.further));
    if !sets.since.is_empty() {
        sentences.push(format!(
            "Of {} claims on the protocols since: {}",
            sets.since.len(),
            counted(&sets.since)
        ));
    }
    format!(
        "{} ({}{}; {}). [The report](docs/report/report.md) gives the rule and the \
         reason for each verdict.\n\n\
         ![Verdicts by document](docs/report/pictures/ledger.svg)\n",
        sentences.join(". "),
        material.program,
        super::machine(material)
            .map(|machine| format!(", {machine}"))
            .unwrap_or_default(),
        material.date,
    )
}

fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
        cells.join(",") + "\n"
    };
    rows.iter().map(line).collect()
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let rows = [["a".to_owned(), "b, \"c\"".to_owned()]];
        assert_eq!(table(&rows), "a,\"b, \"\"c\"\"\"\n");
    }
}
