//! The field `tracestate` (W3C Trace Context, level 1, section 3.3): what tracing systems before this server have noted about a
//! trace. Nothing is added here; what is valid is passed on as it came.

/// Name of the field.
pub const FIELD: &str = "tracestate";

/// Most members of a list (section 3.3.1.1).
const MEMBERS_MAX: usize = 32;

/// Longest key, and longest value.
const LENGTH_MAX: usize = 256;

/// Longest tenant and longest system, in a key of both.
const TENANT_MAX: usize = 241;
const SYSTEM_MAX: usize = 14;

/// The members in field lines, which are one list in this order. `None`: there is none, or the list is invalid and is dropped
/// as a whole (section 3.3.1).
pub fn read<'b>(lines: impl Iterator<Item = &'b [u8]>) -> Option<String> {
    let mut keys: Vec<&[u8]> = Vec::new();
    let mut state = String::new();
    for member in lines.flat_map(|line| line.split(|&b| b == b',')) {
        let member = member.trim_ascii();
        // Empty members are allowed, because two lists may have been joined.
        if member.is_empty() {
            continue;
        }
        let at = member.iter().position(|&b| b == b'=')?;
        let (key, value) = (&member[..at], &member[at + 1..]);
        if !is_key(key) || !is_value(value) || keys.contains(&key) || keys.len() == MEMBERS_MAX {
            return None;
        }
        keys.push(key);
        if !state.is_empty() {
            state.push(',');
        }
        state.push_str(str::from_utf8(member).ok()?);
    }
    (!state.is_empty()).then_some(state)
}

/// Whether this is a key (section 3.3.1.2): a name, or a tenant and a system with `@` between them.
fn is_key(key: &[u8]) -> bool {
    let is_rest = |part: &[u8]| {
        part.iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(b))
    };
    let begins = |part: &[u8], with_digit: bool| {
        part.first()
            .is_some_and(|b| b.is_ascii_lowercase() || (with_digit && b.is_ascii_digit()))
    };
    match key.iter().position(|&b| b == b'@') {
        None => key.len() <= LENGTH_MAX && begins(key, false) && is_rest(key),
        Some(at) => {
            let (tenant, system) = (&key[..at], &key[at + 1..]);
            tenant.len() <= TENANT_MAX
                && system.len() <= SYSTEM_MAX
                && begins(tenant, true)
                && begins(system, false)
                && is_rest(tenant)
                && is_rest(system)
        }
    }
}

/// Whether this is a value (section 3.3.1.3): visible ASCII and spaces, without `,` and `=`.
fn is_value(value: &[u8]) -> bool {
    (1..=LENGTH_MAX).contains(&value.len())
        && value
            .iter()
            .all(|&b| (0x20..0x7f).contains(&b) && b != b',' && b != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(lines: &[&str]) -> Option<String> {
        read(lines.iter().map(|line| line.as_bytes()))
    }

    /// The cases of the test suite of the W3C (github.com/w3c/trace-context, test/test.py).
    #[test]
    fn valid_lists_are_passed_on() {
        let (long, tenant) = ("z".repeat(256), "t".repeat(241));
        let systemic = format!("{tenant}@{}", "v".repeat(14));
        let all: Vec<String> = (1..=32).map(|at| format!("bar{at:02}={at:02}")).collect();
        let all = all.join(",");
        for (lines, passed) in [
            (vec!["foo=1"], "foo=1"),
            (vec!["foo=1,bar=2"], "foo=1,bar=2"),
            (vec!["foo=1", "bar=2"], "foo=1,bar=2"),
            (vec!["foo=1 \t , \t bar=2, \t baz=3"], "foo=1,bar=2,baz=3"),
            (vec!["foo=1,,,", "", "bar=2,"], "foo=1,bar=2"),
            (vec!["foo@bar=1,0t@s*-_/=2"], "foo@bar=1,0t@s*-_/=2"),
            (vec!["a= x!#$~"], "a= x!#$~"),
            (vec![&all], &all),
            (vec![&format!("{long}=1")], &format!("{long}=1")),
            (vec![&format!("{systemic}={long}")], &format!("{systemic}={long}")),
        ] {
            assert_eq!(of(&lines).as_deref(), Some(passed), "{lines:?}");
        }
    }

    #[test]
    fn one_fault_drops_the_list() {
        let long = "z".repeat(257);
        let many: Vec<String> = (0..33).map(|at| format!("bar{at:02}=1")).collect();
        for line in [
            "",
            ",",
            "foo",
            "foo=",
            "=1",
            "foo =1",
            "FOO=1",
            "foo.bar=1",
            "0foo=1",
            "foo@=1",
            "@foo=1",
            "foo@@bar=1",
            "foo@bar@baz=1",
            "foo@0bar=1",
            "foo=1,foo=1",
            "foo=1,foo=2",
            "foo=bar=baz",
            "foo=b\u{e9}",
            "foo=b\tr",
            &format!("{long}=1"),
            &format!("foo={long}"),
            &format!("{}@v=1", "t".repeat(242)),
            &format!("t@{}=1", "v".repeat(15)),
            &many.join(","),
        ] {
            assert_eq!(of(&[line]), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_passed_on_is_valid(bytes in any::<Vec<u8>>(), list in "[a-c@0= ,\t]{0,40}") {
            for lines in [[&bytes[..]], [list.as_bytes()]] {
                if let Some(state) = read(lines.into_iter()) {
                    prop_assert_eq!(read([state.as_bytes()].into_iter()), Some(state));
                }
            }
        }
    }
}
