//! Processor times of document 003's client and servers: the fitted ones ([`crate::ASSUMPTIONS`]), and changes of single
//! ones for counterfactuals. Spends nothing.

use units::Duration;

/// Processor times. The default values are fitted to Tables 4 to 9, all together (F).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Milliseconds of the client for opening a connection.
    client_connection_ms: f64,
    /// Further milliseconds of the HTTP/1.0 client for each connection after its first.
    client_reopening_ms: f64,
    /// Milliseconds of the client for a response.
    client_response_ms: f64,
    /// Milliseconds of the client for a request.
    client_request_ms: f64,
    /// Milliseconds of the client for a read.
    client_read_ms: f64,
    /// Nanoseconds of the client for a byte.
    client_byte_ns: f64,
    /// Milliseconds of the HTTP/1.1 client to store an object in its cache, which wrote two files for each: "a
    /// performance bottleneck" even in memory (section "After Initial Tuning Tests"). The HTTP/1.0 client was an older
    /// one without a cache.
    cache_ms: f64,
    /// The servers' service times of a request, 3 ms (Apache) and 13 ms (Jigsaw), times this.
    server_request_factor: f64,
    /// Further milliseconds of the server for each connection of HTTP/1.0.
    server_connection_ms: f64,
}

fn millis(value: f64) -> Duration {
    Duration::from_nanos((value * 1e6).round() as u64)
}

impl Costs {
    /// The fitted times.
    pub const FITTED: Costs = Costs {
        client_connection_ms: 1.0,
        client_reopening_ms: 2.0,
        client_response_ms: 3.0,
        client_request_ms: 0.5,
        client_read_ms: 1.5,
        client_byte_ns: 800.0,
        cache_ms: 3.0,
        server_request_factor: 1.0,
        server_connection_ms: 1.0,
    };

    /// The names that [`Costs::with`] knows.
    pub const NAMES: [&str; 9] = [
        "client_connection_ms",
        "client_reopening_ms",
        "client_response_ms",
        "client_request_ms",
        "client_read_ms",
        "client_byte_ns",
        "cache_ms",
        "server_request_factor",
        "server_connection_ms",
    ];

    /// The times, in the order of [`Costs::NAMES`] and in the unit of the name.
    pub fn values(&self) -> [f64; 9] {
        [
            self.client_connection_ms,
            self.client_reopening_ms,
            self.client_response_ms,
            self.client_request_ms,
            self.client_read_ms,
            self.client_byte_ns,
            self.cache_ms,
            self.server_request_factor,
            self.server_connection_ms,
        ]
    }

    /// These times with some of them changed, by name.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one; a value below 0 or above 10,000.
    pub fn with(mut self, changes: &[(String, f64)]) -> Result<Costs, String> {
        for (name, value) in changes {
            let field = match name.as_str() {
                "client_connection_ms" => &mut self.client_connection_ms,
                "client_reopening_ms" => &mut self.client_reopening_ms,
                "client_response_ms" => &mut self.client_response_ms,
                "client_request_ms" => &mut self.client_request_ms,
                "client_read_ms" => &mut self.client_read_ms,
                "client_byte_ns" => &mut self.client_byte_ns,
                "cache_ms" => &mut self.cache_ms,
                "server_request_factor" => &mut self.server_request_factor,
                "server_connection_ms" => &mut self.server_connection_ms,
                _ => {
                    return Err(format!("times: {}", units::words::unknown(name, &Costs::NAMES)));
                }
            };
            if !(0.0..=10_000.0).contains(value) {
                return Err(format!("`{name}`: {value} is not a value; use 0 to 10000"));
            }
            *field = *value;
        }
        Ok(self)
    }

    /// The client's time for opening a connection; `again` if it is an HTTP/1.0 client that has opened one before.
    pub(crate) fn connection(&self, again: bool) -> Duration {
        let more = if again { self.client_reopening_ms } else { 0.0 };
        millis(self.client_connection_ms + more)
    }

    /// The client's time for bytes that complete so many responses, of which it stores some.
    pub(crate) fn heard(&self, bytes: usize, responses: u32, stored: u32) -> Duration {
        Duration::from_nanos((self.client_byte_ns * bytes as f64).round() as u64)
            + millis(self.client_response_ms) * responses
            + millis(self.cache_ms) * stored
    }

    /// The client's time for so many requests.
    pub(crate) fn requests(&self, number: u32) -> Duration {
        millis(self.client_request_ms) * number
    }

    /// The client's time for a read.
    pub(crate) fn read(&self) -> Duration {
        millis(self.client_read_ms)
    }

    /// The server's time for a request with this fitted service time, on a connection of its own or not.
    pub(crate) fn served(&self, service: Duration, is_alone: bool) -> Duration {
        let more = if is_alone { self.server_connection_ms } else { 0.0 };
        service.mul_f64(self.server_request_factor) + millis(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitted_times_are_those_of_the_assumptions() {
        let fitted = Costs::FITTED;
        assert_eq!(fitted.connection(false).as_micros(), 1_000);
        assert_eq!(fitted.connection(true).as_micros(), 3_000);
        assert_eq!(fitted.heard(1_000, 2, 1).as_micros(), 9_800);
        assert_eq!(fitted.requests(3).as_micros(), 1_500);
        assert_eq!(fitted.read().as_micros(), 1_500);
        let service = Duration::from_millis(13);
        assert_eq!(fitted.served(service, false), service);
        assert_eq!(fitted.served(service, true).as_millis(), 14);
    }

    #[test]
    fn each_time_can_be_changed_and_nothing_else() {
        for (index, name) in Costs::NAMES.into_iter().enumerate() {
            let changed = Costs::FITTED
                .with(&[(name.to_owned(), 7.0)])
                .expect("a known name and value");
            let mut values = Costs::FITTED.values();
            values[index] = 7.0;
            assert_eq!(changed.values(), values, "{name}");
            for wrong in [-1.0, f64::NAN, 10_001.0] {
                let refused = Costs::FITTED.with(&[(name.to_owned(), wrong)]);
                assert!(refused.is_err_and(|why| why.contains(name)), "{name} {wrong}");
            }
        }
        let refused = Costs::FITTED.with(&[("cache_mss".to_owned(), 1.0)]);
        assert!(refused.is_err_and(|why| why.contains("did you mean `cache_ms`")));
    }
}
