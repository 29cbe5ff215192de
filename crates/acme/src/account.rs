//! The account: a key that signs requests (JWS with ES256, RFC 7515, RFC 7518 section 3.4) and the URL by which the CA
//! knows it.

use crate::error::Error;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// Length of a coordinate of P-256 in bytes.
const COORDINATE: usize = 32;

/// An account with one CA.
pub struct Account {
    key: EcdsaKeyPair,
    pkcs8: Vec<u8>,
    /// Where the CA keeps it; `None` before it was registered.
    pub url: Option<String>,
}

/// An account as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// PKCS #8, in base64url.
    key: String,
    url: Option<String>,
}

/// The account that an operator already has with a CA (external account binding, RFC 8555 section 7.3.4).
#[derive(Clone)]
pub struct Binding {
    key_id: String,
    key: Vec<u8>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl Binding {
    /// Reads a key ID and a key in base64url, as CAs hand them out, with space between them.
    ///
    /// # Errors
    /// What is wrong with the text. It is not repeated.
    pub fn parse(text: &str) -> Result<Binding, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [key_id, key] = words[..] else {
            return Err("there must be two words in it: the key ID and the key".to_owned());
        };
        let key = URL_SAFE_NO_PAD
            .decode(key.trim_end_matches('='))
            .map_err(|_| "the second word, the key, is not base64url".to_owned())?;
        Ok(Binding {
            key_id: key_id.to_owned(),
            key,
        })
    }
}

/// Text in base64url without padding, as everywhere in ACME.
pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn no_key<E>(_: E) -> Error {
    Error::Here(
        "the account key cannot be used; remove it from the folder of --tls-state to make a new account"
            .to_owned(),
    )
}

impl Account {
    /// An account with a new key, unknown to any CA.
    ///
    /// # Errors
    /// `Here`, if the system has no random bytes.
    pub fn new() -> Result<Account, Error> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let pkcs8 =
            pkcs8.map_err(|_| Error::Here("the system has no random bytes for an account key".to_owned()))?;
        Account::of(pkcs8.as_ref().to_vec(), None)
    }

    fn of(pkcs8: Vec<u8>, url: Option<String>) -> Result<Account, Error> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8).map_err(no_key)?;
        Ok(Account { key, pkcs8, url })
    }

    /// An account as [`Account::text`] wrote it.
    ///
    /// # Errors
    /// `Here`, if this is no such text.
    pub fn parse(text: &str) -> Result<Account, Error> {
        let kept: Kept = serde_json::from_str(text).map_err(no_key)?;
        let pkcs8 = URL_SAFE_NO_PAD.decode(kept.key).map_err(no_key)?;
        Account::of(pkcs8, kept.url)
    }

    /// The account as text, to keep. It holds the private key.
    pub fn text(&self) -> String {
        let kept = Kept {
            key: encoded(&self.pkcs8),
            url: self.url.clone(),
        };
        // Strings always become JSON.
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// The public key (JWK, RFC 7517). The members stand in the order of RFC 7638 section 3.
    fn jwk(&self) -> Value {
        let point = self.key.public_key().as_ref();
        // An uncompressed point: 4, x, y.
        let half = |from: usize| point.get(from..from + COORDINATE).unwrap_or_default();
        json!({
            "crv": "P-256",
            "kty": "EC",
            "x": encoded(half(1)),
            "y": encoded(half(1 + COORDINATE)),
        })
    }

    /// The thumbprint of the public key (RFC 7638), in base64url.
    pub(crate) fn thumbprint(&self) -> String {
        // `serde_json` keeps members sorted, which is the order required.
        encoded(digest::digest(&digest::SHA256, self.jwk().to_string().as_bytes()))
    }

    /// A signed request body (RFC 8555 section 6.2). An empty `payload` is POST-as-GET. Names the account by its URL, or
    /// before it has one, by its key.
    pub(crate) fn sign(&self, url: &str, nonce: &str, payload: &str) -> Result<Vec<u8>, Error> {
        let mut protected = json!({ "alg": "ES256", "nonce": nonce, "url": url });
        match &self.url {
            Some(kid) => protected["kid"] = json!(kid),
            None => protected["jwk"] = self.jwk(),
        }
        let (protected, payload) = (encoded(protected.to_string()), encoded(payload));
        let signed = self
            .key
            .sign(&SystemRandom::new(), format!("{protected}.{payload}").as_bytes())
            .map_err(no_key)?;
        let body = json!({ "protected": protected, "payload": payload, "signature": encoded(signed) });
        Ok(body.to_string().into())
    }

    /// Binds this account to another that the operator has (RFC 8555 section 7.3.4): a JWS over the public key, with
    /// HMAC.
    pub(crate) fn bind(&self, to: &Binding, url: &str) -> Value {
        let protected = encoded(json!({ "alg": "HS256", "kid": to.key_id, "url": url }).to_string());
        let payload = encoded(self.jwk().to_string());
        let key = hmac::Key::new(hmac::HMAC_SHA256, &to.key);
        let signed = hmac::sign(&key, format!("{protected}.{payload}").as_bytes());
        json!({ "protected": protected, "payload": payload, "signature": encoded(signed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    #[test]
    fn an_account_is_kept_as_text() {
        let mut account = Account::new().expect("a key");
        account.url = Some("https://ca.test/1".to_owned());
        let again = Account::parse(&account.text()).expect("its own text");
        assert_eq!(
            (again.thumbprint(), again.url),
            (account.thumbprint(), account.url)
        );
        for text in ["", "{}", "{\"key\":\"AAAA\",\"url\":null}"] {
            assert!(Account::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_signature_is_of_what_is_sent() {
        let account = Account::new().expect("a key");
        let body = account
            .sign("https://ca.test/new", "n1", "{\"a\":1}")
            .expect("a body");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let part = |name: &str| body[name].as_str().expect("text").to_owned();
        let signed = format!("{}.{}", part("protected"), part("payload"));
        let signature = URL_SAFE_NO_PAD.decode(part("signature")).expect("base64url");
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, account.key.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .expect("its signature");
        let protected = URL_SAFE_NO_PAD.decode(part("protected")).expect("base64url");
        let protected: Value = serde_json::from_slice(&protected).expect("JSON");
        assert_eq!(protected["url"], "https://ca.test/new");
        assert_eq!(protected["jwk"]["kty"], "EC");
        assert_eq!(protected["kid"], Value::Null);
    }

    #[test]
    fn a_binding_is_two_words() {
        assert!(Binding::parse("kid_1 c2VjcmV0").is_ok());
        assert!(Binding::parse("kid_1\nc2VjcmV0==\n").is_ok());
        for text in ["", "kid_1", "kid_1 c2V jcmV0", "kid_1 $$$"] {
            let why = Binding::parse(text).expect_err(text);
            assert!(!why.contains("c2V"), "{why}");
        }
    }
}
