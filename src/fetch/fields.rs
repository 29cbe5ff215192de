//! What the flags add to every request of a fetch: fields, a login, cookies.

use crate::failure::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::extra::Extra;
use client::plan::Plan;
use url::Url;

/// Fields that the fetch itself decides, with the reason.
const DECIDED: [(&str, &str); 5] = [
    (
        "Accept-Encoding",
        "choose a coding with --mode, as in serial+gzip",
    ),
    ("Range", "choose ranges with --first-bytes"),
    ("If-Range", "choose ranges with --first-bytes"),
    (
        "If-None-Match",
        "the cache sends conditions: see --cache and --revalidate",
    ),
    (
        "If-Modified-Since",
        "the cache sends conditions: see --cache and --revalidate",
    ),
];

/// What flags say of requests.
pub(crate) struct Given<'f> {
    /// Further fields.
    pub(crate) header: &'f [Extra],
    /// Name and password.
    pub(crate) user: Option<&'f str>,
    /// Lists of cookies.
    pub(crate) cookie: &'f [String],
}

/// Fields and cookies for every request.
pub(crate) struct Asked {
    fields: Vec<(String, String)>,
    cookies: Vec<(String, String)>,
}

impl Asked {
    /// Reads the flags. Takes a name and password out of the URL.
    ///
    /// # Errors
    /// `Usage` for fields that the fetch decides, or cookies without a name.
    pub(crate) fn of(flags: &Given<'_>, page: &mut Url) -> Result<Asked, Failure> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for extra in flags.header {
            let name = &extra.name;
            if let Some((_, why)) = DECIDED.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
                return Err(Failure::Usage(format!("`--header {name}`: {why}")));
            }
            fields.push((name.clone(), extra.value.clone()));
        }
        let of_url = login(page);
        if let Some(login) = flags.user.map(str::to_owned).or(of_url) {
            if login.chars().any(char::is_control) || !login.contains(':') {
                return Err(Failure::Usage(
                    "`--user`: write a name and a password as NAME:PASSWORD, without control characters"
                        .to_owned(),
                ));
            }
            if fields
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("Authorization"))
            {
                return Err(Failure::Usage(
                    "`--header Authorization` and a login (--user, or name and password in the URL) say the same; omit one of them"
                        .to_owned(),
                ));
            }
            fields.push((
                "Authorization".to_owned(),
                format!("Basic {}", STANDARD.encode(login)),
            ));
        }
        let mut cookies = Vec::new();
        for pair in flags.cookie.iter().flat_map(|pairs| pairs.split(';')) {
            let named = pair
                .split_once('=')
                .map(|(name, value)| (name.trim(), value.trim()));
            match named {
                Some((name, value)) if !name.is_empty() && !pair.chars().any(char::is_control) => {
                    cookies.push((name.to_owned(), value.to_owned()));
                }
                _ => {
                    return Err(Failure::Usage(format!(
                        "`--cookie`: `{}` is not a cookie; write name=value",
                        pair.trim().escape_debug()
                    )));
                }
            }
        }
        Ok(Asked { fields, cookies })
    }

    /// The plan with these fields and cookies.
    pub(crate) fn on(&self, plan: Plan) -> Plan {
        Plan {
            fields: self.fields.clone(),
            cookies: self.cookies.clone(),
            ..plan
        }
    }
}

/// Name and password of a URL, decoded; the URL has none afterwards.
fn login(page: &mut Url) -> Option<String> {
    if page.username().is_empty() && page.password().is_none() {
        return None;
    }
    let decoded = |text: &str| {
        let pair = format!("v={}", text.replace('+', "%2B"));
        let value = url::form_urlencoded::parse(pair.as_bytes()).next();
        value.map_or(String::new(), |(_, value)| value.into_owned())
    };
    let name = decoded(page.username());
    let password = decoded(page.password().unwrap_or_default());
    // An http or https URL has a host, so it can be without a name.
    let _ = page.set_username("");
    let _ = page.set_password(None);
    Some(format!("{name}:{password}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_taken_out_of_a_url() {
        for (text, wanted) in [
            ("http://h/a", None),
            ("http://me:p%40ss+w@h/a", Some("me:p@ss+w")),
            ("http://me@h/a", Some("me:")),
        ] {
            let mut url = Url::parse(text).expect(text);
            assert_eq!(login(&mut url).as_deref(), wanted, "{text}");
            assert_eq!(url.as_str(), "http://h/a");
        }
    }
}
