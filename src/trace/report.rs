//! The sink of all results: lines are written at once, tables keep the rows that they will show. Memory stays
//! bounded: lines are forgotten once written, and tables keep only the largest rows. Decides which results concern
//! the reader, not what they are.

use super::compared::{Compared, Comparison};
use super::qlog::Qlog;
use super::rank::Largest;
use super::source::Ending;
use super::visit::{Joined, Visit};
use super::{lines, text};
use crate::cli::trace::{Flags, Sheet};
use crate::voice::Voice;
use ::trace::{Connection, Event, Finding, Lookup, Quic, Series, Summary, Transaction};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use units::Duration;

/// Limit on rows in a list about one connection.
const ROWS_MAX: usize = 10_000;

/// Form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    /// As text, what concerns the objects of a visit only.
    Visit,
    /// Nothing but files.
    Silent,
    Json,
    Csv(Sheet),
}

/// A connection with the cost of its findings.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) connection: Connection,
    pub(super) findings: u64,
    pub(super) cost: Duration,
}

/// A QUIC connection with the cost of its findings.
#[derive(Debug)]
pub(super) struct ListedQuic {
    pub(super) quic: Quic,
    pub(super) findings: u64,
    pub(super) cost: Duration,
}

/// The parts of the capture that the tables show.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) findings: Vec<Finding>,
    pub(super) findings_seen: u64,
    pub(super) requests: Vec<Transaction>,
    pub(super) requests_seen: u64,
    pub(super) connections: Vec<Listed>,
    pub(super) connections_seen: u64,
    pub(super) quic: Vec<ListedQuic>,
    pub(super) quic_seen: u64,
    pub(super) lookups: Vec<Lookup>,
    pub(super) lookups_seen: u64,
}

/// Receives results.
pub(super) struct Report {
    out: BufWriter<io::Stdout>,
    /// The first write error; nothing is written after it.
    failed: Option<io::Error>,
    form: Form,
    /// The connection given with --connection.
    only: Option<u64>,
    /// Cost of the findings of connections that are still followed; bounded by the analyzer's limit.
    costs: HashMap<u64, (u64, Duration)>,
    findings: Largest<Finding, Duration>,
    requests: Largest<Transaction, Duration>,
    connections: Largest<Listed, (Duration, u64)>,
    quic: Largest<ListedQuic, (Duration, u64)>,
    lookups: Largest<Lookup, Duration>,
    /// The connection to draw.
    candidate: Option<((Duration, u64), u64)>,
    has_found: bool,
    /// The file of --qlog.
    qlog: Option<Qlog>,
    /// The log of --compare-qlog.
    compared: Option<Compared>,
    /// The archive of --har.
    visit: Option<Visit>,
    /// Whether --report wants a page.
    wants_page: bool,
    /// The page of --report.
    page: Option<String>,
}

impl Report {
    pub(super) fn new(
        flags: &Flags,
        voice: &Voice,
        qlog: Option<Qlog>,
        compared: Option<Compared>,
        visit: Option<Visit>,
    ) -> Report {
        let form = match flags.csv {
            _ if voice.json => Form::Json,
            Some(sheet) => Form::Csv(sheet),
            None => Form::Text,
        };
        let room = match (form, flags.connection) {
            (Form::Text, None) => flags.top,
            (Form::Text, Some(_)) => ROWS_MAX,
            _ => 0,
        };
        let mut report = Report {
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            failed: None,
            form,
            only: flags.connection,
            costs: HashMap::new(),
            findings: Largest::new(room),
            requests: Largest::new(room),
            connections: Largest::new(room),
            quic: Largest::new(room),
            lookups: Largest::new(room),
            candidate: None,
            has_found: false,
            qlog,
            compared,
            visit,
            wants_page: flags.report.is_some(),
            page: None,
        };
        let head = match form {
            Form::Text | Form::Visit | Form::Silent => String::new(),
            Form::Json => lines::head(flags),
            Form::Csv(sheet) => lines::columns(sheet),
        };
        report.put(&head);
        report
    }

    /// Leaves out of the text what concerns no object of the visit, and all of it if reports are not wanted.
    pub(super) fn tell_the_visit_only(&mut self, voice: &Voice) {
        if self.form == Form::Text {
            self.form = if voice.reports() {
                Form::Visit
            } else {
                Form::Silent
            };
        }
    }

    /// The page for --report, once the report has ended.
    pub(super) fn take_page(&mut self) -> Option<String> {
        self.page.take()
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none()
            && let Err(error) = self.out.write_all(text.as_bytes())
        {
            self.failed = Some(error);
        }
    }

    /// Whether the reader closed the output.
    pub(super) fn is_unwanted(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether the requested connection was in the capture.
    pub(super) fn has_found(&self) -> bool {
        self.has_found
    }

    /// The requested connection; otherwise the one that lost the most time, or the largest if none lost any.
    pub(super) fn candidate(&self) -> Option<u64> {
        self.only.or(self.candidate.map(|(_, id)| id))
    }

    /// Takes one result.
    pub(super) fn event(&mut self, event: Event) {
        let id = match &event {
            Event::Finding(finding) => Some(finding.connection.0),
            Event::Transaction(transaction) => Some(transaction.connection.0),
            Event::Connection(connection) => Some(connection.id.0),
            Event::Quic(quic) => Some(quic.id.0),
            Event::Packet(packet) => Some(packet.connection.0),
            Event::Parameters(parameters) => Some(parameters.connection.0),
            Event::Http3(frame) => Some(frame.connection.0),
            Event::Lookup(_) | Event::Datagrams(_) => None,
        };
        if self.only.is_some() && self.only != id {
            return;
        }
        self.has_found |= self.only.is_some();
        if let Some(qlog) = &mut self.qlog {
            qlog.event(&event);
        }
        if let Some(compared) = &mut self.compared {
            compared.event(&event);
        }
        if let Some(visit) = &mut self.visit {
            visit.event(&event);
        }
        if matches!(event, Event::Packet(_) | Event::Parameters(_) | Event::Http3(_)) {
            return;
        }
        match self.form {
            Form::Json => {
                let line = lines::json(&event);
                self.put(&line);
            }
            Form::Csv(sheet) => {
                if let Some(row) = lines::row(sheet, &event) {
                    self.put(&row);
                }
            }
            Form::Text | Form::Visit | Form::Silent => {}
        }
        match event {
            Event::Finding(finding) => self.finding(finding),
            Event::Transaction(transaction) => {
                let took = text::took(&transaction);
                self.requests.offer(took, || transaction);
            }
            Event::Connection(connection) => self.connection(*connection),
            Event::Lookup(lookup) => {
                // A lookup without a response cost the client its whole patience.
                let wait = lookup.wait.unwrap_or(Duration::MAX);
                self.lookups.offer(wait, || *lookup);
            }
            Event::Quic(quic) => self.quic(*quic),
            Event::Datagrams(_) | Event::Packet(_) | Event::Parameters(_) | Event::Http3(_) => {}
        }
    }

    fn finding(&mut self, finding: Finding) {
        let cost = self.costs.entry(finding.connection.0).or_default();
        cost.0 += 1;
        cost.1 += finding.cost;
        self.findings.offer(finding.cost, || finding);
    }

    fn quic(&mut self, quic: Quic) {
        let (findings, cost) = self.costs.remove(&quic.id.0).unwrap_or_default();
        let payload = quic.from_client.volume.payload + quic.from_server.volume.payload;
        let listed = || ListedQuic { quic, findings, cost };
        self.quic.offer((cost, payload), listed);
    }

    fn connection(&mut self, connection: Connection) {
        let (findings, cost) = self.costs.remove(&connection.id.0).unwrap_or_default();
        let payload = connection.from_client.volume.payload + connection.from_server.volume.payload;
        let rank = (cost, payload);
        if self.candidate.is_none_or(|(best, _)| rank > best) {
            self.candidate = Some((rank, connection.id.0));
        }
        let listed = || Listed {
            connection,
            findings,
            cost,
        };
        self.connections.offer(rank, listed);
    }

    /// The file of --qlog, to be written.
    pub(super) fn take_qlog(&mut self) -> Option<Qlog> {
        self.qlog.take()
    }

    /// Flushes the output: a live capture may pause for long.
    pub(super) fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.out.flush()
        {
            self.failed = Some(error);
        }
    }

    /// Ends the report.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn end(&mut self, summary: &Summary, series: &Series, ending: &Ending) -> io::Result<()> {
        let compared = self.compared.take();
        let compared = compared.map(|log| (log.comparisons(summary.start_ns), log));
        let visit = self.visit.take();
        let joined = visit.as_ref().map(|visit| visit.joined(summary.start_ns));
        if let Some(joined) = joined.as_ref().filter(|_| self.wants_page) {
            self.page = Some(joined.page());
        }
        let last = match self.form {
            Form::Silent => String::new(),
            Form::Visit => joined
                .as_ref()
                .map_or(String::new(), |joined| joined.text().trim_start().to_owned()),
            Form::Json => {
                let all = compared.iter().flat_map(|(all, _)| all).map(Comparison::json);
                let objects = joined.iter().flat_map(Joined::json);
                all.chain(objects).chain([lines::end(summary, ending)]).collect()
            }
            Form::Csv(sheet) => lines::sheet(sheet, summary, series),
            Form::Text => {
                let book = self.book();
                let mut report = match self.only {
                    Some(_) => text::connection(&book, ending),
                    None => text::capture(&book, summary, ending),
                };
                if let Some((all, log)) = &compared {
                    report.push_str(&log.text(all));
                }
                if let Some(joined) = &joined {
                    report.push_str(&joined.text());
                }
                report
            }
        };
        self.put(&last);
        self.flush();
        self.failed.take().map_or(Ok(()), Err)
    }

    fn book(&mut self) -> Book {
        let mut book = Book {
            findings_seen: self.findings.seen(),
            findings: self.findings.take(),
            requests_seen: self.requests.seen(),
            requests: self.requests.take(),
            connections_seen: self.connections.seen(),
            connections: self.connections.take(),
            quic_seen: self.quic.seen(),
            quic: self.quic.take(),
            lookups_seen: self.lookups.seen(),
            lookups: self.lookups.take(),
        };
        if self.only.is_some() {
            book.findings.sort_by_key(|finding| finding.at);
            book.requests.sort_by_key(|request| request.index);
        }
        book
    }
}
