//! The behavior of one user equivalent besides its requests: objects per session and OFF times.
//!
//! Each user draws from a generator of its own, so that a rank can simulate its own users without drawing for the
//! others. Does not know what the user requests.

use crate::chance::{Purpose, stream};
use crate::model::Model;
use crate::parameters::Parameters;
use measure::{Duration, Rng, Seed};

/// The chance of one user: 32 bytes.
#[derive(Clone, Debug)]
pub struct Habits {
    rng: Rng,
}

impl Habits {
    /// Of user number `user`.
    pub fn new(seed: Seed, user: u32) -> Habits {
        Habits {
            rng: stream(seed, Purpose::User, u64::from(user)),
        }
    }

    /// Objects of the next session, at least 1.
    pub fn session_length(&mut self, parameters: &Parameters) -> u64 {
        libm::round(parameters.session_length.draw(&mut self.rng)).max(1.0) as u64
    }

    /// The time after an object.
    pub fn off_time(&mut self, parameters: &Parameters) -> Duration {
        self.time(&parameters.off_time)
    }

    /// The time after a file of an object that is not its last.
    pub fn active_off_time(&mut self, parameters: &Parameters) -> Duration {
        match &parameters.active_off_time {
            Some(model) => self.time(model),
            None => Duration::ZERO,
        }
    }

    fn time(&mut self, model: &Model) -> Duration {
        Duration::from_nanos(libm::round(model.draw(&mut self.rng) * 1e9) as u64)
    }
}

/// The share of sessions of at most `length` objects.
pub fn session_cdf(parameters: &Parameters, length: u64) -> f64 {
    if length == 0 {
        return 0.0;
    }
    parameters.session_length.cdf(length as f64 + 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit;
    use crate::parameters::Set;

    /// Over many users as over many draws: their generators are independent.
    #[test]
    fn sessions_and_off_times_follow_their_models() {
        let parameters = Parameters::published(Set::Table8);
        let (mut sessions, mut off) = (Vec::new(), Vec::new());
        for user in 0..10_000 {
            let mut habits = Habits::new(Seed(1), user);
            for _ in 0..10 {
                sessions.push(habits.session_length(&parameters));
                off.push(habits.off_time(&parameters).as_secs_f64());
            }
        }
        let fit = fit::chi_square(&sessions, |length| session_cdf(&parameters, length));
        assert!(fit.p_value > 0.01, "{fit:?}");
        let fit = fit::kolmogorov_smirnov(&mut off, |x| parameters.off_time.cdf(x));
        assert!(fit.p_value > 0.01, "{fit:?}");
    }

    #[test]
    fn a_thinking_user_is_small() {
        assert!(size_of::<Habits>() <= 32);
    }
}
