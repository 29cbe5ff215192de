//! Sites in cleartext whose names a site with TLS has, too. Weir's hosts answer at all addresses alike, so one of the two
//! has the name.

/// Takes the names out of a site in cleartext that a site with TLS has. Returns them.
pub(crate) fn leave(names: &mut Vec<String>, secured: &[String]) -> Vec<String> {
    let (twins, own) = std::mem::take(names)
        .into_iter()
        .partition(|name| secured.contains(name));
    *names = own;
    twins
}

/// Why a site in cleartext has lost these names. `kind`: what the dialect calls a site.
pub(crate) fn why(kind: &str, twins: &[String]) -> String {
    format!(
        "the {kind} with TLS has the names {}: Weir's hosts answer at all addresses alike",
        twins.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_that_of_the_site_with_tls() {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let mut names = texts(&["a.test", "b.test", "c.test"]);
        let twins = leave(&mut names, &texts(&["b.test", "x.test"]));
        assert_eq!((names, twins), (texts(&["a.test", "c.test"]), texts(&["b.test"])));
        assert!(why("site", &texts(&["a.test", "b.test"])).contains("names a.test, b.test:"));
    }
}
