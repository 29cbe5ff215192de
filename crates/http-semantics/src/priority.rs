//! Extensible priorities (RFC 9218): urgency and incremental delivery, from the value of a `Priority` field.

use crate::field::{members, trim};

/// The priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 (most urgent) to 7.
    pub urgency: u8,
    /// Whether the client can use the response piece by piece, so that it may share bandwidth.
    pub incremental: bool,
}

impl Priority {
    /// The priority of a request that names none (RFC 9218 section 4).
    pub const DEFAULT: Priority = Priority {
        urgency: 3,
        incremental: false,
    };

    /// The value of a `Priority` field that says this; of `u=3, i` the shorter `i`, as browsers send it.
    pub const fn value(self) -> &'static str {
        const PLAIN: [&str; 8] = ["u=0", "u=1", "u=2", "u=3", "u=4", "u=5", "u=6", "u=7"];
        const SHARED: [&str; 8] = [
            "u=0, i", "u=1, i", "u=2, i", "i", "u=4, i", "u=5, i", "u=6, i", "u=7, i",
        ];
        let at = (self.urgency & 7) as usize;
        if self.incremental { SHARED[at] } else { PLAIN[at] }
    }

    /// Applies one value of a `Priority` field. Unknown and malformed members leave this priority as it is
    /// (RFC 9218 section 4 tells servers to ignore them).
    #[must_use]
    pub fn updated(mut self, value: &[u8]) -> Priority {
        for member in members(value) {
            let member = member.split(|&b| b == b';').next().unwrap_or_default();
            match trim(member) {
                [b'u', b'=', digit @ b'0'..=b'7'] => self.urgency = digit - b'0',
                b"i" | b"i=?1" => self.incremental = true,
                b"i=?0" => self.incremental = false,
                _ => {}
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_rfc_9218() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=1", 1, false),
            ("u=5, i", 5, true),
            ("i;x=1 , u=0", 0, true),
            ("u=7,i=?0", 7, false),
            ("u=8", 3, false),
            ("u=-1, ux=2, i=1", 3, false),
            ("u=2, u=4", 4, false),
        ] {
            let expected = Priority { urgency, incremental };
            assert_eq!(Priority::DEFAULT.updated(value.as_bytes()), expected, "{value}");
            assert_eq!(Priority::DEFAULT.updated(expected.value().as_bytes()), expected);
        }
    }
}
