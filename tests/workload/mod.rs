//! The black box of `weir site` and `weir load`: starts the built binary and looks only at what it prints
//! and writes.
//!
//! - `site`: files, manifests, reports, what may be overwritten
//! - `plan`: the request stream and its parts
//! - `stream`: that what is planned is what is sent
//! - `run`: what a server sees of a run, and what is said of it
//! - `answers`: replies that are no plain good files, and what requests may say
//! - `results`: files, merges, comparisons, searches
//! - `trust`: runs whose figures would be untrue although most requests were quick
//! - `bodies`: requests with content, and other methods than GET
//! - `scenarios`: steps that depend on each other
//! - `metrics`, `remote_write`: the seconds of a run at a collector of OpenTelemetry and at a receiver of Prometheus remote write
//! - `barrier`: ranks that start together by a folder that they share
//! - `gate`: requirements on a run, and the summaries for continuous integration
//! - `asked`: that what was asked is done, and said if it is not
//!
//! `schema` holds what is printed against the schemas in `schemas/`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it starts programs and reads files"
)]

mod answers;
mod asked;
mod barrier;
pub(crate) mod bodies;
mod gate;
mod metrics;
mod plan;
mod remote_write;
mod results;
mod run;
mod scenarios;
mod site;
mod stream;
mod trust;

use crate::cli::weir;
use serde_json::Value;
use std::path::Path;

/// Its standard output, if it ended well.
fn printed(arguments: &[&str]) -> String {
    let output = weir(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Its standard error, if it ended with this code.
fn refused(arguments: &[&str], code: i32) -> String {
    let output = weir(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    errors
}

/// The result of a run that ended with this code, and why it failed, if it did: a failure is a line of its own.
fn result(arguments: &[&str], code: i32) -> (Value, String) {
    let output = weir(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors} {said}");
    let mut said = lines(&said).into_iter();
    let result = said.next().expect("a result");
    conforms("load-result.schema.json", std::slice::from_ref(&result));
    let failure = said
        .next()
        .map_or(String::new(), |line| line["error"].to_string());
    (result, failure)
}

/// Checks values against a schema of ours.
fn conforms(name: &str, values: &[Value]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(name);
    let schema = std::fs::read_to_string(path).expect("a schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    values
        .iter()
        .for_each(|value| crate::schema::check(&schema, value, name));
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
