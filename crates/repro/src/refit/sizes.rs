//! Sizes of requests and response heads, by the bytes of visits, which are linear in them.

use super::target::{Target, prepared};
use super::{Quantity, Refit, Subject};
use crate::leave_one_out::Linear;
use crate::page::Page;
use crate::server::Kind;
use crate::tables::RECALLED;
use crate::visit::{Case, Network, PPP_HEAD_LESS, PPP_REQUEST_LESS, revalidation};
use client::plan::Mode;
use http1::version::Version;
use std::rc::Rc;

/// Objects of the page: requests and responses of a visit.
const OBJECTS: f64 = 43.0;

/// A fitted size: where it counts in the bytes of a visit.
#[derive(Clone, Copy)]
pub(super) enum Size {
    /// Head of a response with content, HTTP/1.1.
    Head(Kind),
    /// Head of a 304 (Not Modified).
    NotModified(Kind),
    /// Head of every HTTP/1.0 response.
    OldHead(Kind),
    /// Revalidating request.
    Request(Kind),
    /// Bytes that heads of first visits over PPP lack.
    HeadLess,
    /// Bytes that requests over PPP lack.
    RequestLess,
}

impl Size {
    pub(super) fn all() -> Vec<Size> {
        let of = |kind| {
            [
                Size::Head(kind),
                Size::NotModified(kind),
                Size::OldHead(kind),
                Size::Request(kind),
            ]
        };
        let kinds = Kind::ALL.into_iter().flat_map(of);
        kinds.chain([Size::HeadLess, Size::RequestLess]).collect()
    }

    fn name(self) -> String {
        match self {
            Size::Head(kind) => format!("head in B, {}", kind.name()),
            Size::NotModified(kind) => format!("head of 304 in B, {}", kind.name()),
            Size::OldHead(kind) => format!("HTTP/1.0 head in B, {}", kind.name()),
            Size::Request(kind) => format!("revalidating request in B, {}", kind.name()),
            Size::HeadLess => "B less in heads, PPP".to_owned(),
            Size::RequestLess => "B less in requests, PPP".to_owned(),
        }
    }

    pub(super) fn adopted(self) -> f64 {
        let size = match self {
            Size::Head(kind) => kind.head(200, Version::Http11),
            Size::NotModified(kind) => kind.head(304, Version::Http11),
            Size::OldHead(kind) => kind.head(200, Version::Http10),
            Size::Request(kind) => revalidation(kind),
            Size::HeadLess => PPP_HEAD_LESS,
            Size::RequestLess => PPP_REQUEST_LESS,
        };
        size as f64
    }

    /// Bytes of a visit per byte of this size: how many of its messages have it.
    pub(super) fn slope(self, case: &Case) -> f64 {
        let is_old = case.manner.mode == Mode::Http10;
        let is_ppp = case.network == Network::Ppp;
        let counts = match self {
            Size::Head(kind) => kind == case.server && case.is_first && !is_old,
            Size::NotModified(kind) => kind == case.server && !case.is_first && !is_old,
            Size::OldHead(kind) => kind == case.server && is_old,
            Size::Request(kind) => kind == case.server && !case.is_first,
            Size::HeadLess => is_ppp && case.is_first,
            Size::RequestLess => is_ppp,
        };
        match (counts, self) {
            (false, _) => 0.0,
            (true, Size::HeadLess | Size::RequestLess) => -OBJECTS,
            (true, _) => OBJECTS,
        }
    }
}

/// Sizes of requests and heads, fitted to the payload bytes of all rows.
pub(super) fn sizes(page: &Rc<Page>, runs: u64) -> Refit {
    let rows = prepared(page, |_| true);
    let sizes = Size::all();
    let linear = Linear {
        at: sizes.iter().map(|size| size.adopted()).collect(),
        figures: rows.iter().map(|one| one.ready.mean(runs).bytes()).collect(),
        slopes: rows
            .iter()
            .map(|one| sizes.iter().map(|size| size.slope(&one.row.case)).collect())
            .collect(),
    };
    let published: Vec<f64> = rows.iter().map(|one| one.row.bytes).collect();
    Refit::new(
        Subject {
            document: "003",
            what: "sizes of requests and response heads",
            method: "least squares, all sizes together: 43 messages of each size; retransmissions stay as they are",
            provenance: RECALLED,
        },
        sizes.iter().map(|size| (size.name(), size.adopted())).collect(),
        rows.iter()
            .map(|one| Target::of(&one.row, Quantity::Bytes))
            .collect(),
        |without| linear.refit(&published, without),
        |index, values| linear.figure(index, values),
    )
}
