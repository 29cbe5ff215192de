//! The behavior of one user equivalent besides its requests: objects per session and OFF times.
//!
//! Each user has its own generator, so a rank can simulate its own users only. Does not know what the user requests.

use crate::chance::{Purpose, stream};
use crate::model::Model;
use crate::parameters::Parameters;
use units::{Duration, Rng, Seed};

/// Random state of one user: 32 bytes.
#[derive(Clone, Debug)]
pub struct Habits {
    rng: Rng,
}

impl Habits {
    /// State of user number `user`.
    pub fn new(seed: Seed, user: u32) -> Habits {
        Habits {
            rng: stream(seed, Purpose::User, u64::from(user)),
        }
    }

    /// Number of objects in the next session, at least 1.
    pub fn session_length(&mut self, parameters: &Parameters) -> u64 {
        libm::round(parameters.session_length.draw(&mut self.rng)).max(1.0) as u64
    }

    /// OFF time after an object.
    pub fn off_time(&mut self, parameters: &Parameters) -> Duration {
        self.time(&parameters.off_time)
    }

    /// Active OFF time: after a file that is not the last of its object.
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

/// Share of sessions of at most `length` objects.
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

    /// The models hold across users, too: generators are independent.
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
