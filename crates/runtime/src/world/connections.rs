//! The connections of a host and an index of their deadlines, so that the next event is found, and a change of one
//! connection noted, in a time that grows with the logarithm of their number.
//!
//! An endpoint is changed through [`Connections::change`] only, which looks at its deadline afterwards: the index
//! cannot fall behind. Decides nothing of what is done to it.

use super::host::{Conn, Open};
use measure::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Connections by number.
#[derive(Default)]
pub(super) struct Connections {
    open: BTreeMap<Conn, Indexed>,
    due: BTreeSet<(Instant, Conn)>,
}

struct Indexed {
    open: Open,
    /// As it stands in `due`.
    deadline: Option<Instant>,
}

impl Connections {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn has(&self, conn: Conn) -> bool {
        self.open.contains_key(&conn)
    }

    /// Adds a connection; one that had its number is forgotten.
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

    /// Does something to a connection, if it is there.
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

    /// When the first of them wants to be woken.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Those whose deadline has come, by number: which of them came first within an instant is nobody's business.
    pub(super) fn due(&self, now: Instant) -> Vec<Conn> {
        let come = self.due.iter().take_while(|(at, _)| *at <= now);
        let mut due: Vec<Conn> = come.map(|(_, conn)| *conn).collect();
        due.sort_unstable();
        due
    }

    /// What the index stands for, found by asking every connection.
    #[cfg(test)]
    pub(super) fn deadlines(&self) -> BTreeSet<(Instant, Conn)> {
        let deadline = |(conn, indexed): (&Conn, &Indexed)| Some((indexed.open.endpoint.deadline()?, *conn));
        self.open.iter().filter_map(deadline).collect()
    }

    /// The index.
    #[cfg(test)]
    pub(super) fn index(&self) -> &BTreeSet<(Instant, Conn)> {
        &self.due
    }
}
