//! Request methods (RFC 9110 section 9, RFC 5789) as a small value.
//!
//! Method names are case-sensitive. An unlisted method is [`Method::Other`]; the request head keeps its name,
//! because only a server can say whether it implements the method.

/// A request method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET: transfer the selected representation.
    Get,
    /// HEAD: GET without content.
    Head,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
    /// CONNECT: open a tunnel; the target is an authority.
    Connect,
    /// OPTIONS.
    Options,
    /// TRACE.
    Trace,
    /// PATCH.
    Patch,
    /// Any other method token.
    Other,
}

impl Method {
    /// The method with this token.
    #[inline]
    pub fn of(name: &str) -> Method {
        match name.as_bytes() {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }

    /// The token, or `None` for [`Method::Other`].
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_sensitive_and_round_trip() {
        for name in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
        ] {
            assert_eq!(Method::of(name).name(), Some(name));
            assert_eq!(Method::of(&name.to_lowercase()), Method::Other);
        }
        assert_eq!(Method::of("BREW").name(), None);
    }
}
