//! The policies by name. Their words are values of the key `balance`.

units::words! {
    /// Which of several upstreams gets the next request.
    #[derive(Default)]
    pub enum Policy {
        /// They take turns.
        RoundRobin = "round-robin",
        /// The one with the fewest requests under way.
        LeastConnections = "least-connections",
        /// The one of two random ones that has fewer requests under way.
        #[default]
        TwoChoices = "two-choices",
        /// The one of two random ones with the least product of peak response time and requests under way.
        Ewma = "ewma",
        /// The one that the key of the request hashes to, with a bound on its load.
        Hash = "hash",
        /// The one whose requests' total turnaround time grows least.
        Turnaround = "turnaround",
    }
}
