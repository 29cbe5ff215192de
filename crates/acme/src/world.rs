//! What ACME needs from outside: requests to the CA, time, and a place where challenges are answered.

use crate::challenge::Challenge;
use units::{Duration, UnixTime};

/// A request to the CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD` or `POST`.
    pub method: &'static str,
    /// An absolute URL.
    pub url: String,
    /// Sent as `application/jose+json`; empty for GET and HEAD.
    pub body: Vec<u8>,
}

/// The CA's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Fields in the order received.
    pub fields: Vec<(String, String)>,
    /// Content.
    pub body: Vec<u8>,
}

impl Response {
    /// The first field of this name, whatever its case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let (_, value) = fields.find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }
}

/// The outside.
pub trait World {
    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// In words, why there is none.
    fn send(&mut self, request: &Request) -> Result<Response, String>;

    /// Makes the answer to a challenge available, everywhere a CA may look for it.
    ///
    /// # Errors
    /// In words, why that is not possible.
    fn present(&mut self, challenge: &Challenge) -> Result<(), String>;

    /// Takes it back.
    fn withdraw(&mut self, challenge: &Challenge);

    /// Civil time.
    fn now(&self) -> UnixTime;

    /// Waits.
    fn wait(&mut self, span: Duration);
}
