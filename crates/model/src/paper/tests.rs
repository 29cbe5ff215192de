//! The tables of document 004 against the formulas: the exact list of entries that differ.

use super::*;

/// Counts of match, last digit, erratum and measured; keys of the last-digit and erratum entries.
fn tally(table: Table) -> ([usize; 4], Vec<String>, Vec<String>) {
    let mut counts = [0; 4];
    let (mut last, mut errata) = (Vec::new(), Vec::new());
    for entry in table.entries().unwrap() {
        match entry.verdict() {
            Verdict::Match => counts[0] += 1,
            Verdict::LastDigit => {
                counts[1] += 1;
                last.push(entry.key);
            }
            Verdict::Erratum => {
                counts[2] += 1;
                errata.push(entry.key);
            }
            Verdict::Measured => counts[3] += 1,
        }
    }
    (counts, last, errata)
}

/// The CSV column `name` must hold our computed values, to its digits.
fn agrees_with_reference(table: Table, name: &str) {
    let mut lines = table.csv().lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = header.iter().position(|column| *column == name).unwrap();
    for (line, entry) in lines.zip(table.entries().unwrap()) {
        let cell = line.split(',').nth(at).unwrap();
        let Some(computed) = entry.computed else {
            assert_eq!(cell, "", "{}", entry.key);
            continue;
        };
        let digits = cell.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let half = 0.5001 * 10f64.powi(-(digits.max(3) as i32));
        assert!(
            (computed - number(cell)).abs() <= half,
            "{}: {computed} against {cell}",
            entry.key
        );
    }
}

#[test]
fn table_1_has_one_erratum() {
    let (counts, last, errata) = tally(Table::One);
    assert_eq!(counts, [44, 0, 1, 0]);
    assert!(last.is_empty());
    assert_eq!(errata, ["20000 B Tf"]);
    agrees_with_reference(Table::One, "computed");
}

#[test]
fn table_2_matches_but_for_five_last_digits_of_the_experiment() {
    let (counts, last, errata) = tally(Table::Two);
    assert_eq!(counts, [61, 5, 0, 6]);
    assert_eq!(
        last,
        [
            "exp 3000 B m=5 T-TCP t_w",
            "exp 3000 B m=5 T-TCP t_T",
            "exp 12000 B m=10 TCP t_T",
            "exp 12000 B m=10 T-TCP t_w",
            "exp 12000 B m=10 T-TCP t_T",
        ]
    );
    assert!(errata.is_empty());
    agrees_with_reference(Table::Two, "computed");
}

#[test]
fn table_3_never_follows_from_the_printed_equations() {
    let (counts, _, errata) = tally(Table::Three(InnerSum::Printed));
    assert_eq!(counts, [0, 0, 24, 0]);
    assert_eq!(errata.len(), 24);
    for entry in Table::Three(InnerSum::Printed).entries().unwrap() {
        let above = entry.computed.unwrap() - entry.printed;
        assert!((3.5..21.2).contains(&above), "{} {above}", entry.key);
    }
    agrees_with_reference(Table::Three(InnerSum::Printed), "computed_as_printed");
}

#[test]
fn table_3_follows_from_the_sum_over_the_group_index() {
    let (counts, last, errata) = tally(Table::Three(InnerSum::TableThree));
    assert_eq!(counts, [16, 8, 0, 0]);
    assert!(errata.is_empty());
    assert_eq!(
        last,
        [
            "comp 3000 B TCP t_T",
            "comp 12000 B TCP t_w",
            "comp 12000 B TCP t_T",
            "comp 12000 B T-TCP t_w",
            "exp 3000 B T-TCP t_T",
            "exp 6000 B T-TCP t_T",
            "exp 12000 B TCP t_T",
            "exp 12000 B T-TCP t_T",
        ]
    );
    agrees_with_reference(Table::Three(InnerSum::TableThree), "computed_index_sum");
}

#[test]
fn table_4_is_wrong_in_k_and_m_of_oc3() {
    let (counts, last, errata) = tally(Table::Four);
    assert_eq!(counts, [68, 0, 4, 0]);
    assert!(last.is_empty());
    assert_eq!(errata, ["OC3 6000 K", "OC3 6000 M", "OC3 12000 K", "OC3 12000 M"]);
    agrees_with_reference(Table::Four, "computed");
}

#[test]
fn table_5_has_ten_errata() {
    let (counts, last, errata) = tally(Table::Five);
    assert_eq!(counts, [35, 7, 10, 0]);
    assert_eq!(
        last,
        [
            "6: T1+E1+T3 E1 15 a' mean turnaround",
            "1: T1 x 2 T1+T1 50 b' mean (Eq. 8)",
            "2: T1+E1 T1+E1 50 b' mean (Eq. 8)",
            "4: T1+T3 T1+T3 50 b sum over lines",
            "4: T1+T3 T1+T3 50 b mean (Eq. 7)",
            "5: E1+T3 E1+T3 50 b mean (Eq. 7)",
            "6: T1+E1+T3 T1+E1+T3 50 b' mean (Eq. 8)",
        ]
    );
    assert_eq!(
        errata,
        [
            "6: T1+E1+T3 T1 15 a mean waiting",
            "6: T1+E1+T3 T1 15 a' mean turnaround",
            "1: T1 x 2 T1+T1 50 b sum over lines",
            "1: T1 x 2 T1+T1 50 b mean (Eq. 7)",
            "1: T1 x 2 T1+T1 50 b' sum over lines",
            "3: E1 x 2 E1+E1 50 b sum over lines",
            "3: E1 x 2 E1+E1 50 b' sum over lines",
            "6: T1+E1+T3 T1+E1+T3 50 b sum over lines",
            "6: T1+E1+T3 T1+E1+T3 50 b mean (Eq. 7)",
            "6: T1+E1+T3 T1+E1+T3 50 b' sum over lines",
        ]
    );
    agrees_with_reference(Table::Five, "computed");
}

#[test]
fn every_link_of_the_tables_is_known() {
    for (name, rate) in LINKS {
        assert_eq!(link(name), rate);
    }
    assert_eq!(size_of("1M"), ONE_M);
}

#[test]
fn figure_3_saves_half_on_two_lines_and_two_thirds_on_three() {
    for size in [Bytes(6000), ONE_M] {
        let savings = figure_three(size).unwrap();
        assert_eq!(savings.len(), 60);
        for point in &savings {
            assert!(point.waiting_percent > point.turnaround_percent, "{point:?}");
            let m = point.users as f64;
            if matches!(point.group.as_str(), "T1+T1" | "E1+E1") {
                assert!(
                    (point.waiting_percent - 100.0 * (m / 2.0) / (m - 1.0)).abs() < 1e-9,
                    "{point:?}"
                );
            }
            // Equal halves of any two lines save the same share; three lines save about two thirds.
            let expected = if point.group.len() == 5 {
                49.9..56.0
            } else {
                66.0..77.0
            };
            assert!(expected.contains(&point.waiting_percent), "{point:?}");
        }
    }
}

#[test]
fn every_table_says_what_it_is_and_where_its_numbers_come_from() {
    for (number, table) in [
        (1, Table::One),
        (2, Table::Two),
        (3, Table::Three(InnerSum::Printed)),
        (4, Table::Four),
        (5, Table::Five),
    ] {
        assert!(
            table.source().contains(&format!("Table {number}")),
            "{}",
            table.source()
        );
        assert!(
            table.provenance().starts_with("the document's own text"),
            "{}",
            table.provenance()
        );
    }
}
