//! The way to a certificate: account, order, authorizations, challenges, finalization, chain (RFC 8555 section 7).

use crate::account::{Account, Binding};
use crate::challenge::{Challenge, Kind};
use crate::dialogue::{Dialogue, parsed};
use crate::error::{Error, Problem};
use crate::world::{Response, World};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::Deserialize;
use serde_json::{Value, json};
use units::Duration;

/// How long the CA may take to check a name, or to issue.
const PATIENCE: Duration = Duration::from_secs(300);

/// Pause between two looks at something that the CA works on, and the longest that it may ask for.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MOST: Duration = Duration::from_secs(30);

/// Problems with an order that are not repeated without what it replaces: the account has to be registered anew, or the CA
/// wants to be left alone.
const LEFT_ALONE: [&str; 2] = ["accountDoesNotExist", "rateLimited"];

/// A CA, and how to be its customer.
#[derive(Clone, Debug, Default)]
pub struct Ca {
    /// URL of its directory (RFC 8555 section 7.1.1).
    pub directory: String,
    /// An address for its messages.
    pub email: Option<String>,
    /// The account that the operator has with it already.
    pub binding: Option<Binding>,
}

/// The certificate wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// DNS names and IP addresses, at least one.
    pub names: Vec<String>,
    /// Ways to show that they are ours, the preferred one first.
    pub kinds: Vec<Kind>,
    /// The kind of certificate, if the CA offers several (draft-aaron-acme-profiles).
    pub profile: Option<String>,
    /// ARI's name of the certificate that this one replaces (RFC 9773 section 5).
    pub replaces: Option<String>,
    /// Pause between new DNS records and the CA's look at them: the time until all name servers have them.
    pub dns_wait: Duration,
}

units::words! {
    /// Why a certificate must not be trusted any more (RFC 5280 section 5.3.1). CAs refuse what only they can know.
    #[derive(Default)]
    pub enum Reason {
        /// None is given.
        #[default]
        Unspecified = "unspecified",
        /// Another may have the private key.
        KeyCompromise = "key-compromise",
        /// The names belong to another organization now.
        AffiliationChanged = "affiliation-changed",
        /// There is a newer certificate.
        Superseded = "superseded",
        /// The names are no longer served.
        CessationOfOperation = "cessation-of-operation",
    }
}

impl Reason {
    /// Its number.
    const fn code(self) -> u8 {
        match self {
            Reason::Unspecified => 0,
            Reason::KeyCompromise => 1,
            Reason::AffiliationChanged => 3,
            Reason::Superseded => 4,
            Reason::CessationOfOperation => 5,
        }
    }
}

/// A certificate that was issued.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The chain, PEM, the certificate for the names first.
    pub chain: String,
    /// Its private key, PEM. New with every certificate.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
struct Order {
    status: String,
    #[serde(default)]
    authorizations: Vec<String>,
    #[serde(default)]
    finalize: String,
    #[serde(default)]
    certificate: Option<String>,
    #[serde(default)]
    error: Option<Problem>,
}

#[derive(Debug, Deserialize)]
struct Authorization {
    status: String,
    identifier: Identifier,
    #[serde(default)]
    wildcard: bool,
    #[serde(default)]
    challenges: Vec<Offered>,
}

#[derive(Debug, Deserialize)]
struct Identifier {
    value: String,
}

#[derive(Debug, Deserialize)]
struct Offered {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    error: Option<Problem>,
}

/// Gets a certificate. Takes as long as the CA needs, at most some minutes for each name. The account is registered if
/// it is new to the CA; keep it afterwards, also after an error.
///
/// # Errors
/// See [`Error`].
pub fn obtain(
    world: &mut dyn World,
    ca: &Ca,
    account: &mut Account,
    wanted: &Wanted,
) -> Result<Issued, Error> {
    let mut dialogue = Dialogue::begin(world, &ca.directory)?;
    if let Some(profile) = &wanted.profile
        && !dialogue.directory.meta.profiles.contains_key(profile)
    {
        let mut offered: Vec<&str> = dialogue
            .directory
            .meta
            .profiles
            .keys()
            .map(String::as_str)
            .collect();
        offered.sort_unstable();
        let offered = if offered.is_empty() {
            "none".to_owned()
        } else {
            offered.join(", ")
        };
        return Err(Error::Here(format!(
            "the CA has no profile `{profile}`, it offers: {offered} (--acme-profile)"
        )));
    }
    let (url, answer) = match begun(&mut dialogue, ca, account, wanted) {
        // The CA has forgotten the account.
        Err(error) if account.url.is_some() && error.is("accountDoesNotExist") => {
            account.url = None;
            begun(&mut dialogue, ca, account, wanted)?
        }
        other => other?,
    };
    let order: Order = parsed(&answer, "the order")?;
    let mut presented = Vec::new();
    let outcome = authorize(
        &mut dialogue,
        account,
        &order.authorizations,
        wanted,
        &mut presented,
    );
    for one in &presented {
        dialogue.world.withdraw(&one.challenge);
    }
    outcome?;
    let order = settled(&mut dialogue, account, &url, answer, &["pending"])?;
    if order.status != "ready" {
        return Err(not_issued(&order));
    }
    let (key, request) = csr(&wanted.names)?;
    let payload = json!({ "csr": crate::account::encoded(request) }).to_string();
    let answer = dialogue.post(account, &order.finalize, &payload)?;
    let order = settled(&mut dialogue, account, &url, answer, &["processing", "ready"])?;
    let (Some(certificate), "valid") = (&order.certificate, order.status.as_str()) else {
        return Err(not_issued(&order));
    };
    let answer = dialogue.post(account, certificate, "")?;
    let chain = String::from_utf8(answer.body)
        .ok()
        .filter(|chain| chain.contains("-----BEGIN CERTIFICATE-----"))
        .ok_or_else(|| Error::Unexpected("the CA sent no certificate chain".to_owned()))?;
    Ok(Issued { chain, key })
}

/// Tells the CA that a certificate (DER) must not be trusted any more (RFC 8555 section 7.6), for the account that
/// ordered it. One that is revoked already is no error.
///
/// # Errors
/// See [`Error`].
pub fn revoke(
    world: &mut dyn World,
    ca: &Ca,
    account: &mut Account,
    certificate: &[u8],
    reason: Reason,
) -> Result<(), Error> {
    let mut dialogue = Dialogue::begin(world, &ca.directory)?;
    let place = dialogue.directory.revoke_cert.clone();
    let place = place
        .ok_or_else(|| Error::Unexpected("the CA does not say where to revoke certificates".to_owned()))?;
    register(&mut dialogue, ca, account)?;
    let payload = json!({ "certificate": crate::account::encoded(certificate), "reason": reason.code() });
    match dialogue.post(account, &place, &payload.to_string()) {
        Err(error) if error.is("alreadyRevoked") => Ok(()),
        other => other.map(drop),
    }
}

/// Registers the account if it is new; the CA answers with the old one if it knows the key (RFC 8555 section 7.3).
fn register(dialogue: &mut Dialogue<'_>, ca: &Ca, account: &mut Account) -> Result<(), Error> {
    if account.url.is_some() {
        return Ok(());
    }
    let url = dialogue.directory.new_account.clone();
    let mut payload = json!({ "termsOfServiceAgreed": true });
    if let Some(email) = &ca.email {
        payload["contact"] = json!([format!("mailto:{email}")]);
    }
    if let Some(binding) = &ca.binding {
        payload["externalAccountBinding"] = account.bind(binding, &url);
    }
    let answer = dialogue.post(account, &url, &payload.to_string())?;
    let place = answer.field("Location");
    let place =
        place.ok_or_else(|| Error::Unexpected("the CA does not say where the account is".to_owned()))?;
    account.url = Some(place.to_owned());
    Ok(())
}

/// A new order: its URL and its content.
fn begun(
    dialogue: &mut Dialogue<'_>,
    ca: &Ca,
    account: &mut Account,
    wanted: &Wanted,
) -> Result<(String, Response), Error> {
    register(dialogue, ca, account)?;
    let identifiers: Vec<Value> = wanted
        .names
        .iter()
        .map(|name| {
            // RFC 8738 section 3.
            let kind = if name.parse::<std::net::IpAddr>().is_ok() {
                "ip"
            } else {
                "dns"
            };
            json!({ "type": kind, "value": name })
        })
        .collect();
    let mut payload = json!({ "identifiers": identifiers });
    if let Some(profile) = &wanted.profile {
        payload["profile"] = json!(profile);
    }
    if let (Some(id), Some(_)) = (&wanted.replaces, &dialogue.directory.renewal_info) {
        payload["replaces"] = json!(id);
    }
    let url = dialogue.directory.new_order.clone();
    let answer = match dialogue.post(account, &url, &payload.to_string()) {
        // Another order replaces it already (RFC 9773 section 5), the CA has forgotten the certificate, or it fails over
        // this member in another way: this order is for itself. What it refuses for other reasons, it refuses again.
        Err(Error::Refused(problem))
            if payload["replaces"].is_string() && !LEFT_ALONE.contains(&problem.short()) =>
        {
            if let Some(members) = payload.as_object_mut() {
                members.remove("replaces");
            }
            dialogue.post(account, &url, &payload.to_string())?
        }
        other => other?,
    };
    let place = answer.field("Location");
    let place =
        place.ok_or_else(|| Error::Unexpected("the CA does not say where the order is".to_owned()))?;
    Ok((place.to_owned(), answer))
}

/// A challenge whose answer is there for the CA to see.
struct Presented {
    /// URL of the authorization.
    authorization: String,
    /// URL of the challenge.
    place: String,
    kind: Kind,
    challenge: Challenge,
}

/// Shows the CA that all names are ours. What is presented for that must be withdrawn afterwards, also after an error.
fn authorize(
    dialogue: &mut Dialogue<'_>,
    account: &Account,
    authorizations: &[String],
    wanted: &Wanted,
    presented: &mut Vec<Presented>,
) -> Result<(), Error> {
    // All answers are there before the CA looks for one: a name and its wildcard have different answers in the same DNS
    // record, which name servers remember for a while.
    for url in authorizations {
        if let Some(one) = chosen(dialogue, account, url, &wanted.kinds)? {
            // Also if this fails, which may leave half of it.
            presented.push(one);
            let one = presented.last().map(|one| &one.challenge);
            one.map_or(Ok(()), |challenge| dialogue.world.present(challenge))
                .map_err(Error::Here)?;
        }
    }
    if wanted.dns_wait > Duration::ZERO && presented.iter().any(|one| one.kind == Kind::Dns) {
        dialogue.world.wait(wanted.dns_wait);
    }
    let told: Result<Vec<Response>, Error> = presented
        .iter()
        .map(|one| dialogue.post(account, &one.place, "{}"))
        .collect();
    for (one, answer) in presented.iter().zip(told?) {
        validated(dialogue, account, one, answer)?;
    }
    Ok(())
}

/// The challenge to answer for an authorization; `None`: the CA knows already that the name is ours.
fn chosen(
    dialogue: &mut Dialogue<'_>,
    account: &Account,
    url: &str,
    kinds: &[Kind],
) -> Result<Option<Presented>, Error> {
    let answer = dialogue.post(account, url, "")?;
    let found: Authorization = parsed(&answer, "an authorization")?;
    if found.status == "valid" {
        return Ok(None);
    }
    let name = &found.identifier.value;
    let registered = |kind: Kind| {
        Kind::ALL
            .iter()
            .find(|(other, _)| *other == kind)
            .map_or("", |(_, name)| *name)
    };
    let offer = |kind: &Kind| found.challenges.iter().find(|one| one.kind == registered(*kind));
    let Some((kind, offered)) = kinds.iter().find_map(|kind| Some((*kind, offer(kind)?))) else {
        let all: Vec<&str> = found.challenges.iter().map(|one| one.kind.as_str()).collect();
        let wildcard = if found.wildcard {
            " (a wildcard needs dns-01: --acme-hook)"
        } else {
            ""
        };
        return Err(Error::Here(format!(
            "for {name}, the CA offers {}{wildcard}, and this server answers none of these (--acme-challenge)",
            all.join(", ").escape_debug()
        )));
    };
    Ok(Some(Presented {
        authorization: url.to_owned(),
        place: offered.url.clone(),
        kind,
        challenge: Challenge::new(kind, &offered.token, name, account)?,
    }))
}

/// Waits for what comes of the CA's check.
fn validated(
    dialogue: &mut Dialogue<'_>,
    account: &Account,
    of: &Presented,
    told: Response,
) -> Result<(), Error> {
    let mut answer = told;
    let mut waited = Duration::ZERO;
    loop {
        waited += dialogue.pause(&answer, PAUSE, PAUSE_MOST);
        answer = dialogue.post(account, &of.authorization, "")?;
        let found: Authorization = parsed(&answer, "an authorization")?;
        match found.status.as_str() {
            "valid" => return Ok(()),
            "pending" if waited < PATIENCE => {}
            status => {
                let of_kind = |one: &Offered| Kind::ALL.contains(&(of.kind, one.kind.as_str()));
                let offered = found.challenges.into_iter().find(of_kind);
                let mut problem = offered.and_then(|one| one.error).unwrap_or_default();
                if problem.detail.is_empty() {
                    problem.detail = format!("the check of the name is {status}");
                }
                problem.name = Some(found.identifier.value);
                return Err(Error::Refused(Box::new(problem)));
            }
        }
    }
}

/// The order once it is in none of these states, or after some minutes.
fn settled(
    dialogue: &mut Dialogue<'_>,
    account: &Account,
    url: &str,
    first: Response,
    passing: &[&str],
) -> Result<Order, Error> {
    let mut answer = first;
    let mut order: Order = parsed(&answer, "the order")?;
    let mut waited = Duration::ZERO;
    while passing.contains(&order.status.as_str()) && waited < PATIENCE {
        waited += dialogue.pause(&answer, PAUSE, PAUSE_MOST);
        answer = dialogue.post(account, url, "")?;
        order = parsed(&answer, "the order")?;
    }
    Ok(order)
}

fn not_issued(order: &Order) -> Error {
    let mut problem = order.error.clone().unwrap_or_default();
    if problem.detail.is_empty() {
        problem.detail = format!("the order is {}", order.status);
    }
    Error::Refused(Box::new(problem))
}

/// A new key (PEM) and a request for a certificate of it (PKCS #10, DER). Without a common name, which has no meaning
/// any more (RFC 9525 section 2).
fn csr(names: &[String]) -> Result<(String, Vec<u8>), Error> {
    let impossible = |error: rcgen::Error| Error::Here(format!("no certificate can be requested: {error}"));
    let key = KeyPair::generate().map_err(impossible)?;
    let mut parameters = CertificateParams::new(names.to_vec()).map_err(impossible)?;
    parameters.distinguished_name = DistinguishedName::new();
    let request = parameters.serialize_request(&key).map_err(impossible)?;
    Ok((key.serialize_pem(), request.der().to_vec()))
}

#[cfg(test)]
mod tests;
