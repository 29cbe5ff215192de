//! One request to a CA over HTTPS. Blocks the thread that asks.

use crate::ask::{self, ask};
use crate::secure::{self, Secure};
use acme::world::{Request, Response};
use std::sync::Arc;
use tls::refusal::Settings;
use tls::rustls::RootCertStore;
use units::Duration;
use url::Url;

/// How long a CA may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings of connections to a CA, as errors name them.
pub(super) const SETTINGS: Settings = Settings {
    ca: "--acme-ca-root",
    insecure: None,
    certificate: "check --acme-ca: Weir has none for CAs",
    name: "use a name of the certificate in --acme-ca, or install one for this name",
    clear: "another --acme-ca",
    versions: "enable TLS 1.2 or 1.3 there",
    protocols: "enable HTTP/1.1 there",
};

/// Sends a request and waits for the answer.
///
/// # Errors
/// In words, why there is none.
pub(super) fn send(request: &Request, roots: &Arc<RootCertStore>) -> Result<Response, String> {
    let url = Url::parse(&request.url).map_err(|error| format!("`{}` is no URL: {error}", request.url))?;
    if url.scheme() != "https" {
        return Err(format!("`{url}` is not https"));
    }
    let host = url.host_str().unwrap_or_default();
    let secure = Secure::trusting(Arc::clone(roots), secure::host(host), &SETTINGS)?;
    let fields = [
        ("Accept-Language", "en"),
        ("Content-Type", "application/jose+json"),
    ];
    let is_post = request.method == "POST";
    let asked = ask::Request {
        url: &url,
        method: request.method,
        fields: if is_post { &fields } else { &fields[..1] },
        content: &request.body,
    };
    let answer = ask(&asked, Some(&secure), PATIENCE).map_err(|unanswered| unanswered.why)?;
    Ok(Response {
        status: answer.status,
        fields: answer.fields,
        body: answer.content,
    })
}
