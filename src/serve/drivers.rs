//! The running strategies: one for each group of addresses, and replaced ones that still have connections. Decides
//! which sockets each strategy gets; `runtime::strategy` starts and ends their workers.
//!
//! ```text
//!   SERVING ── switch: its sockets go to a new strategy ──▶ RETIRING ── last connection closed ──▶ gone
//! ```

use super::datagrams::Datagrams;
use super::process_limits::limits;
use super::strategy::{Choice, Group as Planned};
use super::tls::{self, Tls};
use super::{Shares, refused, sockets};
use crate::failure::Failure;
use runtime::listen::{Address, Listener, Listening, Origin, Sockets};
use runtime::process::inherit::Forwarding;
use runtime::process::prefork::Member;
use runtime::strategy::Handle;
use server::Server;
use std::io;
use std::sync::Arc;
use units::Duration;

/// How often to check whether a replaced strategy has ended.
const RETIRED_WITHIN: Duration = Duration::from_secs(1);

/// All running strategies of this process.
pub(super) struct Drivers {
    serving: Vec<Group>,
    retiring: Vec<Handle>,
    shares: Shares,
    how: Listening,
    tls: Option<Arc<Tls>>,
    datagrams: Datagrams,
}

/// Addresses served by one strategy.
pub(super) struct Group {
    pub(super) choice: Choice,
    sockets: Vec<Sockets>,
    pub(super) addresses: Vec<Address>,
    /// Which of the addresses speak TLS.
    secured: Vec<Address>,
    /// For each address, the indexes of its listeners.
    places: Vec<Vec<usize>>,
    /// See [`Planned::connections_max`].
    connections_max: Option<u32>,
    /// See [`Planned::is_admin`].
    is_admin: bool,
    handle: Handle,
}

impl Group {
    /// Whether connections to an address speak TLS.
    pub(super) fn is_secured(&self, address: &Address) -> bool {
        self.secured.contains(address)
    }

    /// Each address with its number of open connections.
    pub(super) fn open(&self) -> impl Iterator<Item = (&Address, usize)> + '_ {
        let each = self.addresses.iter().zip(&self.places);
        each.map(|(address, places)| {
            let open = places.iter().map(|&place| self.handle.open_at(place));
            (address, open.sum())
        })
    }
}

impl Drivers {
    /// Starts the strategy of each group on its listeners; in a worker process, `member` is that process.
    ///
    /// # Errors
    /// `System`, if workers cannot be started; those already started end.
    pub(super) fn start(
        server: &Arc<Server>,
        tls: Option<Arc<Tls>>,
        member: Option<&Member>,
        groups: &[Planned],
        listeners: &[Vec<Listener>],
        shares: &Shares,
        how: Listening,
    ) -> Result<Drivers, Failure> {
        let mut all = Drivers {
            serving: Vec::new(),
            retiring: Vec::new(),
            shares: *shares,
            how,
            tls,
            datagrams: Datagrams::default(),
        };
        for (planned, listeners) in groups.iter().zip(listeners) {
            if listeners.is_empty() {
                // The service manager passed no socket for it.
                continue;
            }
            let group = all.serve(
                server,
                member,
                listeners,
                &planned.choice,
                (planned.connections_max, planned.is_admin),
            );
            all.serving.push(group.inspect_err(|_| all.stop())?);
        }
        Ok(all)
    }

    fn serve(
        &self,
        server: &Arc<Server>,
        member: Option<&Member>,
        listeners: &[Listener],
        choice: &Choice,
        (connections_max, is_admin): (Option<u32>, bool),
    ) -> Result<Group, Failure> {
        let admin = is_admin.then(|| Arc::new(server.at_admin()));
        let server = admin.as_ref().unwrap_or(server);
        let mut limits = limits(&self.shares);
        if let Some(most) = connections_max {
            limits.connections_max = limits
                .connections_max
                .min(usize::try_from(most).unwrap_or(usize::MAX));
        }
        let tls = self.tls.as_deref();
        let handle = serving::streams(
            tls::of(tls, listeners),
            sockets::announced(&server.config(), listeners),
            member,
            choice.strategy()?,
            listeners,
            server,
            limits,
        )
        .map_err(|error| refused("workers", &error))?;
        let secured = listeners.iter().filter(|listener| tls::is_at(tls, listener));
        Ok(Group {
            choice: choice.clone(),
            sockets: listeners.iter().map(Listener::sockets).collect(),
            addresses: sockets::addresses(listeners),
            secured: secured.map(Listener::address).collect(),
            places: places(listeners),
            connections_max,
            is_admin,
            handle,
        })
    }

    /// Adds the threads of HTTP/3, which start and end with the strategies.
    pub(super) fn add(&mut self, datagrams: Datagrams) {
        self.datagrams = datagrams;
    }

    /// The strategies in use, with their addresses.
    pub(super) fn serving(&self) -> &[Group] {
        &self.serving
    }

    /// Open connections of replaced strategies.
    pub(super) fn retiring(&mut self) -> usize {
        self.clear();
        self.retiring.iter().map(Handle::open).sum()
    }

    /// All listening sockets, to hand to another process.
    pub(super) fn sockets(&self) -> Vec<Sockets> {
        self.serving
            .iter()
            .flat_map(|group| group.sockets.clone())
            .collect()
    }

    /// Switches an address (`None`: all addresses) to another strategy, which accepts new connections from now on. Open
    /// connections get one more response each from their old strategy. Returns the strategy of each address in words.
    ///
    /// # Errors
    /// `Usage` for an address that is not listened on, `System` if workers cannot be started; then the old strategy
    /// stays.
    pub(super) fn switch(
        &mut self,
        server: &Arc<Server>,
        address: Option<&Address>,
        choice: &Choice,
    ) -> Result<String, Failure> {
        self.clear();
        let is_meant = |group: &Group| address.is_none_or(|one| group.addresses.contains(one));
        if !self.serving.iter().any(is_meant) {
            let known: Vec<String> = self.addresses().map(|address| address.to_string()).collect();
            return Err(Failure::Usage(format!(
                "{} is not listened on; choose one of: {}",
                address.map_or_else(|| "nothing".to_owned(), |address| address.to_string()),
                known.join(", ")
            )));
        }
        // Start everything new first, so that a failure changes nothing.
        let mut made = Vec::new();
        for group in self.serving.iter().filter(|group| is_meant(group)) {
            let (meant, others): (Vec<&Sockets>, Vec<&Sockets>) = group
                .sockets
                .iter()
                .partition(|sockets| address.is_none_or(|one| listens_on(sockets, one)));
            for (sockets, choice) in [(meant, choice), (others, &group.choice)] {
                if !sockets.is_empty() {
                    let taken =
                        self.take_over(server, &sockets, choice, (group.connections_max, group.is_admin));
                    made.push(taken.inspect_err(|_| {
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
        Ok(self.in_words())
    }

    /// The strategy of each address in words.
    pub(super) fn in_words(&self) -> String {
        let groups = self.serving.iter();
        in_force(groups.map(|group| (&*group.addresses, group.choice.in_words())))
    }

    fn take_over(
        &self,
        server: &Arc<Server>,
        all: &[&Sockets],
        choice: &Choice,
        of: (Option<u32>, bool),
    ) -> Result<Group, Failure> {
        let mut listeners = Vec::new();
        for parts in by_address(all) {
            let again = Listener::again(&parts, self.how, sockets::queues(choice));
            listeners.extend(again.map_err(|error| refused("a listening socket", &error))?);
        }
        self.serve(server, None, &listeners, choice, of)
    }

    fn addresses(&self) -> impl Iterator<Item = &Address> + '_ {
        self.serving.iter().flat_map(|group| &group.addresses)
    }

    /// Drops strategies that have ended and returns their memory to the system: hundreds of ended threads leave tens of
    /// megabytes in the allocator.
    pub(super) fn clear(&mut self) {
        let before = self.retiring.len();
        self.retiring.retain(|handle| !handle.is_finished());
        if self.retiring.len() < before {
            runtime::machine::give_memory_back();
        }
    }

    /// Time until [`Drivers::clear`] is due; `None` while no strategy is retiring.
    pub(super) fn patience(&self) -> Option<Duration> {
        (!self.retiring.is_empty()).then_some(RETIRED_WITHIN)
    }

    /// Channels by which a successor and this process pass datagrams on to each other. Called when the successor is started.
    pub(super) fn share_datagrams(&self) -> Forwarding {
        self.datagrams.share()
    }

    /// See [`Datagrams::expect`].
    pub(super) fn expect_datagrams(&self) {
        self.datagrams.expect();
    }

    /// See [`Datagrams::follow`].
    pub(super) fn follow_datagrams(&self) {
        self.datagrams.follow();
    }

    /// See [`Datagrams::take_back`].
    pub(super) fn take_datagrams_back(&self) {
        self.datagrams.take_back();
    }

    /// See [`Datagrams::leave_to_others`].
    pub(super) fn leave_datagrams_to_others(&self) {
        self.datagrams.leave_to_others();
    }

    /// Open connections of all strategies.
    pub(super) fn open(&self) -> usize {
        self.all().map(Handle::open).sum::<usize>() + self.datagrams.open()
    }

    /// See [`Handle::drain`].
    pub(super) fn drain(&self, grace: Duration) {
        self.datagrams.drain(grace);
        self.all().for_each(|handle| handle.drain(grace));
    }

    /// See [`Handle::retire`].
    pub(super) fn retire(&self) {
        self.datagrams.retire();
        self.all().for_each(Handle::retire);
    }

    /// See [`Handle::ease`].
    pub(super) fn ease(&self) {
        self.datagrams.ease();
        self.all().for_each(Handle::ease);
    }

    /// See [`Handle::stop`].
    pub(super) fn stop(&self) {
        self.datagrams.stop();
        self.all().for_each(Handle::stop);
    }

    /// Whether all threads have ended.
    pub(super) fn is_finished(&self) -> bool {
        self.datagrams.is_finished() && self.all().all(Handle::is_finished)
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
            .fold(self.datagrams.join(), io::Result::and)
    }
}

/// Indexes of listeners by address, in the order of [`sockets::addresses`]; surplus listeners are added to the first
/// listener of their address.
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

/// Groups sockets by address, surplus ones last. Sockets passed by a service manager are never grouped, because the
/// manager knows each of them.
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

/// Whether `sockets` belong to this address; for port 0, the address with the port that the system chose.
fn listens_on(sockets: &Sockets, address: &Address) -> bool {
    match sockets.origin() {
        Origin::Bound(asked) | Origin::Surplus(asked) if asked.port() != 0 => asked == *address,
        _ => sockets.address().as_ref() == Some(address),
    }
}

/// The strategies of all addresses in one line, without addresses if all have the same strategy.
fn in_force<'a>(groups: impl Iterator<Item = (&'a [Address], String)>) -> String {
    let mut by_words: Vec<(String, Vec<String>)> = Vec::new();
    for (addresses, words) in groups {
        let addresses = addresses.iter().map(Address::to_string);
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
        let address = |port| Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        let [one, two, three] = [1, 2, 3].map(address);
        let said = |groups: &[(&[Address], &str)]| {
            in_force(
                groups
                    .iter()
                    .map(|(addresses, words)| (*addresses, (*words).to_owned())),
            )
        };
        assert_eq!(said(&[(&[one.clone(), two.clone()], "loops")]), "loops");
        assert_eq!(
            said(&[
                (std::slice::from_ref(&one), "loops"),
                (std::slice::from_ref(&two), "loops")
            ]),
            "loops"
        );
        assert_eq!(
            said(&[(&[one], "loops"), (&[two], "pool"), (&[three], "loops")]),
            "127.0.0.1:1, 127.0.0.1:3: loops; 127.0.0.1:2: pool"
        );
    }
}
