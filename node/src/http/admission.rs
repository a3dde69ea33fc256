//! Admission of connections to a listener, when more arrive than it has room for.
//!
//! A connection whose requests present a token is authenticated; one that has presented none, or whose caller holds too many already,
//! is unauthenticated. A new connection never waits for one of the latter to end: it replaces the oldest of the address that has most
//! of them. So a flood of silent sockets can take the share of unauthenticated connections, and nothing from clients with a token.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// Limits on concurrent connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    pub all: usize,
    pub per_address: usize,
    pub unauthenticated: usize,
    /// Authenticated connections of one caller; further ones count as unauthenticated.
    pub per_caller: usize,
}

/// Number of a connection; a later one has a higher number.
pub type Number = u64;

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    /// Name of the caller, if the connection is authenticated.
    caller: Option<String>,
}

/// Decision about a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admitted {
    Yes {
        number: Number,
    },
    /// Admitted in place of an unauthenticated connection, which has to be closed.
    InPlaceOf {
        number: Number,
        closed: Number,
    },
    /// Refused: all connections that it could replace are authenticated.
    No,
}

/// Connections of a listener.
#[derive(Debug)]
pub struct Admission {
    shares: Shares,
    connections: BTreeMap<Number, Connection>,
    next: Number,
}

impl Admission {
    pub fn new(shares: Shares) -> Self {
        Self {
            shares,
            connections: BTreeMap::new(),
            next: 0,
        }
    }

    /// Decides about a new connection from `address`; one that it replaces is removed.
    pub fn arrive(&mut self, address: IpAddr) -> Admitted {
        // Only the first 64 bits of an IPv6 address are compared and stored, here and for the limit of an
        // address.
        let address = network(address);
        let from_there = self
            .connections
            .values()
            .filter(|connection| connection.address == address);
        let unauthenticated = self
            .connections
            .values()
            .filter(|connection| connection.caller.is_none());
        // An address at its limit may only replace an unauthenticated connection of its own, so that one address cannot displace the others.
        let closed = if from_there.count() >= self.shares.per_address {
            self.oldest_unauthenticated_of(address).map(Some)
        } else if self.connections.len() >= self.shares.all
            || unauthenticated.count() >= self.shares.unauthenticated
        {
            self.unauthenticated_to_close().map(Some)
        } else {
            Some(None)
        };
        let Some(closed) = closed else {
            return Admitted::No;
        };
        if let Some(closed) = closed {
            self.connections.remove(&closed);
        }
        let number = self.next;
        self.next += 1;
        let caller = None;
        self.connections.insert(number, Connection { address, caller });
        match closed {
            Some(closed) => Admitted::InPlaceOf { number, closed },
            None => Admitted::Yes { number },
        }
    }

    /// Records that a request of the connection has presented a caller's token.
    pub fn recognise(&mut self, number: Number, caller: &str) {
        let known = self
            .connections
            .values()
            .filter(|connection| connection.caller.as_deref() == Some(caller))
            .count();
        if let Some(connection) = self.connections.get_mut(&number)
            // A connection that already counts for this caller must not be counted against the caller's own
            // limit again.
            && connection.caller.as_deref() != Some(caller)
        {
            connection.caller = (known < self.shares.per_caller).then(|| caller.to_owned());
        }
    }

    pub fn leave(&mut self, number: Number) {
        self.connections.remove(&number);
    }

    fn oldest_unauthenticated_of(&self, address: IpAddr) -> Option<Number> {
        self.unauthenticated()
            .find_map(|(number, from)| (from == address).then_some(number))
    }

    fn unauthenticated_to_close(&self) -> Option<Number> {
        let mut crowds: HashMap<IpAddr, (usize, Number)> = HashMap::new();
        for (number, address) in self.unauthenticated() {
            // They come the oldest first, so the number of the first one stays.
            let (crowd, _) = crowds.entry(address).or_insert((0, number));
            *crowd += 1;
        }
        crowds
            .into_values()
            // Between equal crowds the oldest connection goes, so that the choice does not depend on the
            // order of the map.
            .max_by_key(|(crowd, oldest)| (*crowd, u64::MAX - oldest))
            .map(|(_, oldest)| oldest)
    }

    /// Unauthenticated connections, the oldest first.
    fn unauthenticated(&self) -> impl Iterator<Item = (Number, IpAddr)> {
        self.connections
            .iter()
            .filter(|(_, connection)| connection.caller.is_none())
            .map(|(number, connection)| (*number, connection.address))
    }
}

/// Returns what counts as one address: for IPv6 the network of 64 bits, since one customer gets at least that.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        // `to_canonical` has turned IPv4 addresses mapped into IPv6 back, so that on a dual-stack socket they
        // do not all fall into one network.
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(prefix).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHARES: Shares = Shares {
        all: 8,
        per_address: 4,
        unauthenticated: 6,
        per_caller: 3,
    };

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn admission() -> Admission {
        Admission::new(SHARES)
    }

    #[test]
    fn an_address_that_is_full_makes_room_among_its_own_unauthenticated() {
        let mut admission = admission();
        for number in 0..4 {
            assert_eq!(admission.arrive(address(1)), Admitted::Yes { number });
        }
        admission.recognise(0, "eva");
        let replaced = Admitted::InPlaceOf { number: 4, closed: 1 };
        assert_eq!(admission.arrive(address(1)), replaced);
        for known in [2, 3, 4] {
            admission.recognise(known, &format!("caller {known}"));
        }
        assert_eq!(admission.arrive(address(1)), Admitted::No);
        assert_eq!(admission.arrive(address(2)), Admitted::Yes { number: 5 });
    }

    #[test]
    fn the_largest_crowd_of_unauthenticated_gives_way() {
        let mut admission = admission();
        for from in [1, 2, 2, 2, 3, 3] {
            admission.arrive(address(from));
        }
        let replaced = Admitted::InPlaceOf { number: 6, closed: 1 };
        assert_eq!(admission.arrive(address(4)), replaced);
    }

    #[test]
    fn one_caller_cannot_hold_all_places() {
        let mut admission = admission();
        for from in [1, 1, 2, 2] {
            if let Admitted::Yes { number } = admission.arrive(address(from)) {
                admission.recognise(number, "eva");
            }
        }
        assert_eq!(
            admission.unauthenticated().count(),
            1,
            "the fourth of them is not authenticated"
        );
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let near = ["2001:db8::1", "2001:db8::ffff:1"].map(|text| network(text.parse().unwrap()));
        assert_eq!(near[0], near[1]);
        assert_ne!(near[0], network("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), address(1));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Arrive(u8),
        Recognise(prop::sample::Index, u8),
        Leave(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..5_u8).prop_map(Step::Arrive),
            3 => (any::<prop::sample::Index>(), 0..4_u8).prop_map(|(at, who)| Step::Recognise(at, who)),
            1 => any::<prop::sample::Index>().prop_map(Step::Leave),
        ]
    }

    proptest! {
        #[test]
        fn shares_hold_and_nobody_who_is_known_gives_way(steps in prop::collection::vec(step(), 1..200)) {
            let mut admission = admission();
            for step in steps {
                let numbers: Vec<Number> = admission.connections.keys().copied().collect();
                let known: Vec<Number> = admission.connections.iter()
                    .filter_map(|(number, connection)| connection.caller.is_some().then_some(*number))
                    .collect();
                match step {
                    Step::Arrive(from) => {
                        let has_unauthenticated = admission.unauthenticated().any(|(_, there)| there == address(from));
                        let answer = admission.arrive(address(from));
                        if let Admitted::InPlaceOf { closed, .. } = answer {
                            prop_assert!(!known.contains(&closed));
                        }
                        prop_assert!(answer != Admitted::No || !has_unauthenticated);
                    }
                    Step::Recognise(at, who) if !numbers.is_empty() => {
                        admission.recognise(numbers[at.index(numbers.len())], &who.to_string());
                    }
                    Step::Leave(at) if !numbers.is_empty() => admission.leave(numbers[at.index(numbers.len())]),
                    Step::Recognise(..) | Step::Leave(_) => {}
                }
                prop_assert!(admission.connections.len() <= SHARES.all);
                prop_assert!(admission.unauthenticated().count() <= SHARES.unauthenticated);
                for from in 0..5 {
                    let there = admission.connections.values().filter(|connection| connection.address == address(from));
                    prop_assert!(there.count() <= SHARES.per_address);
                }
            }
        }
    }
}
