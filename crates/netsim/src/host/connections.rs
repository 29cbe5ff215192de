//! The connections of a host, with an index of their deadlines. Finding the next event and noting a change both take
//! time logarithmic in the number of connections.
//!
//! An endpoint is changed only through [`Connections::change`], which updates its deadline afterwards, so the index
//! never becomes stale. What the change is, callers decide.

use super::{Conn, Open};
use std::collections::{BTreeMap, BTreeSet};
use units::Instant;

/// Connections by number.
#[derive(Default)]
pub(crate) struct Connections {
    open: BTreeMap<Conn, Indexed>,
    due: BTreeSet<(Instant, Conn)>,
}

struct Indexed {
    open: Open,
    /// The deadline entered in `due`.
    deadline: Option<Instant>,
}

impl Connections {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// All of them, by number.
    pub(super) fn all(&self) -> impl Iterator<Item = &Open> {
        self.open.values().map(|indexed| &indexed.open)
    }

    pub(super) fn has(&self, conn: Conn) -> bool {
        self.open.contains_key(&conn)
    }

    /// Adds a connection; it replaces one with the same number.
    pub(super) fn insert(&mut self, conn: Conn, open: Open) {
        self.remove(conn);
        let deadline = None;
        self.open.insert(conn, Indexed { open, deadline });
        self.change(conn, |_| {});
    }

    pub(super) fn remove(&mut self, conn: Conn) {
        if let Some(Indexed {
            deadline: Some(at), ..
        }) = self.open.remove(&conn)
        {
            self.due.remove(&(at, conn));
        }
    }

    /// Applies a change to a connection, if it exists.
    pub(super) fn change<T>(&mut self, conn: Conn, what: impl FnOnce(&mut Open) -> T) -> Option<T> {
        let indexed = self.open.get_mut(&conn)?;
        let done = what(&mut indexed.open);
        let deadline = indexed.open.endpoint.deadline();
        if deadline != indexed.deadline {
            if let Some(before) = indexed.deadline {
                self.due.remove(&(before, conn));
            }
            if let Some(at) = deadline {
                self.due.insert((at, conn));
            }
            indexed.deadline = deadline;
        }
        Some(done)
    }

    /// The earliest deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Connections whose deadline has come, by number; the order within one instant does not matter.
    pub(super) fn due(&self, now: Instant) -> Vec<Conn> {
        let come = self.due.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<Conn> = come.map(|(_, conn)| *conn).collect();
        due.sort_unstable();
        due
    }

    /// The index's expected content, found by asking every connection.
    #[cfg(test)]
    pub(crate) fn deadlines(&self) -> BTreeSet<(Instant, Conn)> {
        let deadline = |(conn, indexed): (&Conn, &Indexed)| Some((indexed.open.endpoint.deadline()?, *conn));
        self.open.iter().filter_map(deadline).collect()
    }

    /// The index.
    #[cfg(test)]
    pub(crate) fn index(&self) -> &BTreeSet<(Instant, Conn)> {
        &self.due
    }
}
