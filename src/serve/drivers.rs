//! The strategies that run: one for each group of addresses, and those whose place another has taken and whose
//! connections are not over yet. Decides which sockets go to whom; starts and ends nothing by itself.
//!
//! ```text
//!   SERVING ── switch: the same sockets to a new strategy ──▶ RETIRING ── last connection over ──▶ gone
//! ```

use super::strategy::Choice;
use super::{Shares, limits, refused, sockets};
use crate::cli::Failure;
use measure::Duration;
use runtime::listen::{Listener, Listening, Origin, Sockets};
use runtime::strategy::{self as drivers, Handle};
use server::Server;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// How often a strategy whose place was taken is looked at.
const RETIRED_WITHIN: Duration = Duration::from_secs(1);

/// What runs.
pub(super) struct Drivers {
    serving: Vec<Group>,
    retiring: Vec<Handle>,
    shares: Shares,
    how: Listening,
}

/// Addresses with a strategy in common.
pub(super) struct Group {
    pub(super) choice: Choice,
    sockets: Vec<Sockets>,
    pub(super) addresses: Vec<SocketAddr>,
    /// The listeners of each address, by their places.
    places: Vec<Vec<usize>>,
    handle: Handle,
}

impl Group {
    /// Each address with its connections open now.
    pub(super) fn open(&self) -> impl Iterator<Item = (SocketAddr, usize)> + '_ {
        let each = self.addresses.iter().zip(&self.places);
        each.map(|(address, places)| {
            let open = places.iter().map(|&place| self.handle.open_at(place));
            (*address, open.sum())
        })
    }
}

impl Drivers {
    /// One strategy, on all of these.
    ///
    /// # Errors
    /// `System`, for what the system refuses.
    pub(super) fn start(
        server: &Arc<Server>,
        choice: &Choice,
        listeners: &[Listener],
        shares: &Shares,
        how: Listening,
    ) -> Result<Drivers, Failure> {
        let handle = drivers::serve(choice.strategy()?, listeners, server, limits(shares))
            .map_err(|error| refused("workers", &error))?;
        Ok(Drivers::of(handle, choice, listeners, shares, how))
    }

    /// The same, started already.
    pub(super) fn of(
        handle: Handle,
        choice: &Choice,
        listeners: &[Listener],
        shares: &Shares,
        how: Listening,
    ) -> Drivers {
        Drivers {
            serving: vec![Group::of(handle, choice, listeners)],
            retiring: Vec::new(),
            shares: *shares,
            how,
        }
    }

    /// Who serves which addresses.
    pub(super) fn serving(&self) -> &[Group] {
        &self.serving
    }

    /// Connections of strategies whose place another has taken.
    pub(super) fn retiring(&mut self) -> usize {
        self.clear();
        self.retiring.iter().map(Handle::open).sum()
    }

    /// All sockets, for another process.
    pub(super) fn sockets(&self) -> Vec<Sockets> {
        self.serving
            .iter()
            .flat_map(|group| group.sockets.clone())
            .collect()
    }

    /// Gives an address (none: all of them) to another strategy: new connections are its own from now on, those
    /// there are get one more answer each from the one they began with. Says in words what each address has now.
    ///
    /// # Errors
    /// `Usage` for an address that is not listened on, `System` for what the system refuses; then the strategy
    /// stays as it was.
    pub(super) fn switch(
        &mut self,
        server: &Arc<Server>,
        address: Option<SocketAddr>,
        choice: &Choice,
    ) -> Result<String, Failure> {
        self.clear();
        let is_meant = |group: &Group| address.is_none_or(|one| group.addresses.contains(&one));
        if !self.serving.iter().any(is_meant) {
            let known: Vec<String> = self.addresses().map(|address| address.to_string()).collect();
            return Err(Failure::Usage(format!(
                "{} is not listened on; there are: {}",
                address.map_or_else(|| "nothing".to_owned(), |address| address.to_string()),
                known.join(", ")
            )));
        }
        // First everything new, so that a refusal leaves all as it is.
        let mut made = Vec::new();
        for group in self.serving.iter().filter(|group| is_meant(group)) {
            let (meant, others): (Vec<&Sockets>, Vec<&Sockets>) = group
                .sockets
                .iter()
                .partition(|sockets| address.is_none_or(|one| listens_on(sockets, one)));
            for (sockets, choice) in [(meant, choice), (others, &group.choice)] {
                if !sockets.is_empty() {
                    made.push(self.take_over(server, &sockets, choice).inspect_err(|_| {
                        for group in &made {
                            let group: &Group = group;
                            group.handle.retire();
                        }
                    })?);
                }
            }
        }
        let (leaving, staying): (Vec<Group>, Vec<Group>) = self.serving.drain(..).partition(is_meant);
        self.serving = staying;
        self.serving.extend(made);
        for group in leaving {
            group.handle.retire();
            self.retiring.push(group.handle);
        }
        let groups = self.serving.iter();
        Ok(in_force(
            groups.map(|group| (&*group.addresses, group.choice.in_words())),
        ))
    }

    fn take_over(&self, server: &Arc<Server>, all: &[&Sockets], choice: &Choice) -> Result<Group, Failure> {
        let mut listeners = Vec::new();
        for parts in by_address(all) {
            let again = Listener::again(&parts, self.how, sockets::queues(choice));
            listeners.extend(again.map_err(|error| refused("a listening socket", &error))?);
        }
        let handle = drivers::serve(choice.strategy()?, &listeners, server, limits(&self.shares))
            .map_err(|error| refused("workers", &error))?;
        Ok(Group::of(handle, choice, &listeners))
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.serving
            .iter()
            .flat_map(|group| group.addresses.iter().copied())
    }

    /// Forgets strategies that have ended. What their threads have used goes back to the system: hundreds of threads
    /// leave tens of megabytes behind, of which a strategy of few has no use.
    pub(super) fn clear(&mut self) {
        let before = self.retiring.len();
        self.retiring.retain(|handle| !handle.is_finished());
        if self.retiring.len() < before {
            runtime::machine::give_memory_back();
        }
    }

    /// How long until [`Drivers::clear`] may have something to do; none while nothing retires.
    pub(super) fn patience(&self) -> Option<Duration> {
        (!self.retiring.is_empty()).then_some(RETIRED_WITHIN)
    }

    /// Connections open now.
    pub(super) fn open(&self) -> usize {
        self.all().map(Handle::open).sum()
    }

    /// See [`Handle::drain`].
    pub(super) fn drain(&self, grace: Duration) {
        self.all().for_each(|handle| handle.drain(grace));
    }

    /// See [`Handle::retire`].
    pub(super) fn retire(&self) {
        self.all().for_each(Handle::retire);
    }

    /// See [`Handle::ease`].
    pub(super) fn ease(&self) {
        self.all().for_each(Handle::ease);
    }

    /// See [`Handle::stop`].
    pub(super) fn stop(&self) {
        self.all().for_each(Handle::stop);
    }

    /// Whether all threads have ended.
    pub(super) fn is_finished(&self) -> bool {
        self.all().all(Handle::is_finished)
    }

    fn all(&self) -> impl Iterator<Item = &Handle> {
        let serving = self.serving.iter().map(|group| &group.handle);
        serving.chain(&self.retiring)
    }

    /// Waits for all threads to end.
    ///
    /// # Errors
    /// The first failure of a worker.
    pub(super) fn join(self) -> io::Result<()> {
        let serving = self.serving.into_iter().map(|group| group.handle);
        serving
            .chain(self.retiring)
            .map(Handle::join)
            .fold(Ok(()), io::Result::and)
    }
}

impl Group {
    fn of(handle: Handle, choice: &Choice, listeners: &[Listener]) -> Group {
        Group {
            choice: choice.clone(),
            sockets: listeners.iter().map(Listener::sockets).collect(),
            addresses: sockets::addresses(listeners),
            places: places(listeners),
            handle,
        }
    }
}

/// The places of listeners by address, in the order of [`sockets::addresses`]: surplus ones with the first of theirs.
fn places(listeners: &[Listener]) -> Vec<Vec<usize>> {
    let is_surplus = |listener: &Listener| matches!(listener.sockets().origin(), Origin::Surplus(_));
    let (surplus, own): (Vec<usize>, Vec<usize>) =
        (0..listeners.len()).partition(|&at| is_surplus(&listeners[at]));
    let mut places: Vec<Vec<usize>> = own.into_iter().map(|at| vec![at]).collect();
    for at in surplus {
        let address = listeners[at].address();
        if let Some(place) = places
            .iter_mut()
            .find(|place| listeners[place[0]].address() == address)
        {
            place.push(at);
        }
    }
    places
}

/// Those of one address together, what is not surplus first. What a service manager passed stays apart: each of its
/// sockets is one it knows.
fn by_address<'s>(all: &[&'s Sockets]) -> Vec<Vec<&'s Sockets>> {
    let mut groups: Vec<Vec<&Sockets>> = Vec::new();
    for &sockets in all {
        let same = groups.iter_mut().find(|group| {
            let passed = |one: &Sockets| one.origin() == Origin::Passed;
            !passed(sockets) && !passed(group[0]) && group[0].address() == sockets.address()
        });
        match same {
            Some(group) => {
                let at = if matches!(sockets.origin(), Origin::Surplus(_)) {
                    group.len()
                } else {
                    0
                };
                group.insert(at, sockets);
            }
            None => groups.push(vec![sockets]),
        }
    }
    groups
}

/// Whether these are sockets of this address, the port the system chose included.
fn listens_on(sockets: &Sockets, address: SocketAddr) -> bool {
    match sockets.origin() {
        Origin::Bound(asked) | Origin::Surplus(asked) if asked.port() != 0 => asked == address,
        _ => sockets.address() == Some(address),
    }
}

/// What addresses have, in one line: said once if all have the same.
fn in_force<'a>(groups: impl Iterator<Item = (&'a [SocketAddr], String)>) -> String {
    let mut by_words: Vec<(String, Vec<String>)> = Vec::new();
    for (addresses, words) in groups {
        let addresses = addresses.iter().map(SocketAddr::to_string);
        match by_words.iter_mut().find(|(known, _)| *known == words) {
            Some((_, all)) => all.extend(addresses),
            None => by_words.push((words, addresses.collect())),
        }
    }
    if let [(words, _)] = &mut *by_words {
        return std::mem::take(words);
    }
    let each = by_words
        .iter()
        .map(|(words, addresses)| format!("{}: {words}", addresses.join(", ")));
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_named_where_they_differ() {
        let [one, two, three] = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let said = |groups: &[(&[SocketAddr], &str)]| {
            in_force(
                groups
                    .iter()
                    .map(|(addresses, words)| (*addresses, (*words).to_owned())),
            )
        };
        assert_eq!(said(&[(&[one, two], "loops")]), "loops");
        assert_eq!(said(&[(&[one], "loops"), (&[two], "loops")]), "loops");
        assert_eq!(
            said(&[(&[one], "loops"), (&[two], "pool"), (&[three], "loops")]),
            "127.0.0.1:1, 127.0.0.1:3: loops; 127.0.0.1:2: pool"
        );
    }
}
