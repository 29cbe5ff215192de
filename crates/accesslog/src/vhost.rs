//! Rejects logs that mix virtual hosts, as Debian's `other_vhosts_access.log` can (Apache httpd's `vhost_combined`:
//! `%v:%p %h %l %u ...`). One path on two hosts is two files, so statistics by path need a single host. Does not
//! choose one.

use crate::Record;
use std::fmt;

/// Checks that all records of a log belong to one virtual host, if they name any.
#[derive(Clone, Debug, Default)]
pub struct OneHost {
    seen: Option<Vec<u8>>,
}

/// The error for a log of several virtual hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeveralHosts {
    /// The first virtual host of the log, and the first that differs.
    pub hosts: [String; 2],
}

impl fmt::Display for SeveralHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, other] = &self.hosts;
        write!(
            f,
            "lines belong to several virtual hosts, such as {first} and {other}: one path names different files; keep the lines \
             of one host, for example with `grep '^{first} '`"
        )
    }
}

impl std::error::Error for SeveralHosts {}

impl OneHost {
    /// Checks a record.
    ///
    /// # Errors
    /// It belongs to another virtual host than an earlier record.
    pub fn admit(&mut self, record: &Record<'_>) -> Result<(), SeveralHosts> {
        let Some(vhost) = record.vhost.as_deref() else {
            return Ok(());
        };
        match &self.seen {
            None => self.seen = Some(vhost.to_vec()),
            Some(seen) if seen.eq_ignore_ascii_case(vhost) => {}
            Some(seen) => {
                let text = |host: &[u8]| String::from_utf8_lossy(host).into_owned();
                return Err(SeveralHosts {
                    hosts: [text(seen), text(vhost)],
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn a_second_host_is_named() {
        let mut one = OneHost::default();
        let mut admit = |line: &str| {
            let line = format!("{line} - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 1");
            one.admit(&parse(line.as_bytes()).expect("a line"))
        };
        assert_eq!(admit("192.0.2.1"), Ok(()));
        assert_eq!(admit("www.example.org:80 192.0.2.1"), Ok(()));
        assert_eq!(admit("WWW.example.org:80 192.0.2.2"), Ok(()));
        let refused = admit("b.example.org:80 192.0.2.2").expect_err("another host");
        assert_eq!(
            refused.hosts,
            ["www.example.org:80", "b.example.org:80"].map(str::to_owned)
        );
        assert!(
            refused.to_string().contains("grep '^www.example.org:80 '"),
            "{refused}"
        );
    }
}
