//! The users of `basic_auth` and their hashes, and the files that Weir reads them from.

use crate::directive::Directive;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Greatest cost of a hash that Weir accepts.
const COST_MAX: u32 = 15;

/// Users by the file that has them, as lines `NAME:HASH`. A file admits all its users wherever a rule names it, so each set of
/// users has its own.
#[derive(Debug, Default)]
pub(super) struct Users {
    sets: Vec<Vec<String>>,
}

/// Name of a file beside the result, by the number of its set.
fn name(at: usize) -> String {
    match at {
        0 => "weir.htpasswd".to_owned(),
        at => format!("weir-{}.htpasswd", at + 1),
    }
}

impl Users {
    /// The name of the file for these users.
    pub(super) fn file(&mut self, lines: Vec<String>) -> String {
        let known = self.sets.iter().position(|set| *set == lines);
        let at = known.unwrap_or_else(|| {
            self.sets.push(lines);
            self.sets.len() - 1
        });
        name(at)
    }

    /// All files: name and text.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let sets = self.sets.iter().enumerate();
        sets.map(|(at, lines)| (name(at), lines.join("\n") + "\n"))
            .collect()
    }
}

/// The lines of a directive, and the users that have no hash that Weir can check.
pub(super) fn read(directive: &Directive) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut lost) = (Vec::new(), Vec::new());
    for user in directive.inner() {
        let hash = hash(user.arg(0)).filter(|_| !user.name.contains(':'));
        match hash {
            Some(hash) => {
                let line = format!("{}:{hash}", user.name);
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
            None => lost.push(user.name.clone()),
        }
    }
    lines.sort();
    (lines, lost)
}

/// The bcrypt hash of a text, which is in base64 in configurations for Caddy before 2.5.
fn hash(text: &str) -> Option<String> {
    let hash = match text.starts_with('$') {
        true => text.to_owned(),
        false => String::from_utf8(base64(text)?).ok()?,
    };
    let mut fields = hash.strip_prefix('$')?.split('$');
    let (kind, cost, rest) = (fields.next()?, fields.next()?, fields.next()?);
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/');
    let is_cost = cost.len() == 2 && cost.parse().is_ok_and(|cost: u32| (4..=COST_MAX).contains(&cost));
    let is_whole = fields.next().is_none() && rest.len() == 53 && rest.bytes().all(is_letter);
    (matches!(kind, "2a" | "2b" | "2y") && is_cost && is_whole).then_some(hash)
}

/// The bytes of a text in base64 (RFC 4648 section 4), with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2a$14$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, expected) in [
            ("Zm9vYmFy", Some("foobar")),
            ("Zm9vYmE=", Some("fooba")),
            ("Zm9vYmE", Some("fooba")),
            ("Zm9vYg==", Some("foob")),
            ("Zg", Some("f")),
            ("Z", None),
            ("", None),
            ("Zm9v YmFy", None),
            ("Zm9_", None),
        ] {
            let found = base64(text).map(|bytes| String::from_utf8(bytes).expect("text"));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn hashes_are_those_that_weir_checks() {
        let encoded = "JDJhJDE0JGFiY2RlZmdoaWprbG1ub3BxcnN0dXVPUWl5Q3hsZ2Yvb2V1VHFpeEttV2RjWVVoNEhqbDBh";
        for (text, expected) in [
            (HASH, Some(HASH)),
            (encoded, Some(HASH)),
            (&*HASH.replace("$14$", "$16$"), None),
            (&*HASH.replace("$2a$", "$2x$"), None),
            (&HASH[..HASH.len() - 1], None),
            (&*format!("{HASH}$x"), None),
            ("$argon2id$v=19$m=47104,t=1,p=1$c2FsdA$aGFzaA", None),
            ("plain", None),
            ("{$HASH}", None),
            ("", None),
        ] {
            assert_eq!(hash(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn each_set_of_users_has_its_own_file() {
        let mut users = Users::default();
        let set = |names: &[&str]| names.iter().map(|name| format!("{name}:x")).collect::<Vec<_>>();
        assert_eq!(users.file(set(&["ann"])), "weir.htpasswd");
        assert_eq!(users.file(set(&["bob"])), "weir-2.htpasswd");
        assert_eq!(users.file(set(&["ann"])), "weir.htpasswd");
        let expected = [("weir.htpasswd", "ann:x\n"), ("weir-2.htpasswd", "bob:x\n")];
        assert_eq!(
            users.files(),
            expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
        );
    }
}
