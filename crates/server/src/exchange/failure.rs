//! Errors as answers: the status, the field lines it asks for, and the sentence of its page.

use crate::checked::Unanswered;
use crate::config::Access;
use crate::entry::Missing;
use crate::error_page::ErrorPage;
use crate::field_list::FieldListBuf;
use crate::service::admin::Command;
use http_semantics::method::Method;
use http_semantics::range;
use http_semantics::status::Status;

/// The methods that this server answers.
pub(super) const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Field lines that an error adds to its page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extra {
    None,
    /// `Allow`: the methods that this server answers.
    Allow,
    /// `Content-Range`: length of the representation that lacks the requested range.
    Whole(u64),
    /// `Retry-After`: after this many seconds.
    RetryAfter(u32),
    /// `Vary`: the response depends on `Accept-Encoding`.
    VaryCoding,
    /// `Allow`: commands for the operator are sent with this method.
    AllowPost,
    /// `WWW-Authenticate`: the token of the admin addresses.
    Admin,
    /// `WWW-Authenticate`: the realm of the access rule at this index.
    Authenticate(u16),
}

impl Extra {
    /// Adds the lines. `rules` are the access rules of the site.
    pub(super) fn write(self, lines: &mut FieldListBuf, rules: &[Access]) {
        match self {
            Extra::None => {}
            Extra::Allow => lines.add("Allow", ALLOW.as_bytes()),
            Extra::Whole(len) => {
                lines.add_with("Content-Range", |out| range::unsatisfied_content_range(len, out));
            }
            Extra::RetryAfter(secs) => {
                lines.add("Retry-After", itoa::Buffer::new().format(secs).as_bytes());
            }
            Extra::VaryCoding => lines.add("Vary", b"Accept-Encoding"),
            Extra::AllowPost => lines.add("Allow", b"POST"),
            Extra::Admin => {
                lines.add("WWW-Authenticate", b"Bearer realm=\"Weir\"");
                lines.add("WWW-Authenticate", b"Basic realm=\"Weir\", charset=\"UTF-8\"");
            }
            Extra::Authenticate(at) => {
                // After a reload, the rule may be gone.
                let realm = rules.get(usize::from(at)).map_or("", Access::realm);
                let value = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
                lines.add("WWW-Authenticate", value.as_bytes());
            }
        }
    }
}

/// An error response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) extra: Extra,
    /// The fault of the request, as a clause for the page.
    pub(crate) detail: Option<&'static str>,
}

impl Failure {
    /// 408: the request did not arrive in time.
    pub(crate) const TIMEOUT: Failure = Failure::of(Status::REQUEST_TIMEOUT);
    /// 413: the request's body is too large.
    pub(crate) const TOO_LARGE: Failure = Failure::of(Status::PAYLOAD_TOO_LARGE);
    /// 413: a file is larger than the rule of uploads allows.
    pub(crate) const FILE_TOO_LARGE: Failure = Failure {
        detail: Some("The file is larger than this server stores here (`largest` in `[[uploads]]`)."),
        ..Failure::TOO_LARGE
    };
    /// 429: too many requests from this address.
    pub(crate) const TOO_MANY: Failure = Failure {
        extra: Extra::RetryAfter(1),
        ..Failure::of(Status::TOO_MANY_REQUESTS)
    };
    /// 429: too many requests from this client for a path; another one may be admitted after this many seconds.
    pub(crate) const fn too_many(retry_after: u32) -> Failure {
        Failure {
            extra: Extra::RetryAfter(retry_after),
            ..Failure::TOO_MANY
        }
    }

    /// 503: the server is overloaded.
    pub(crate) const BEHIND: Failure = Failure {
        extra: Extra::RetryAfter(1),
        ..Failure::of(Status::SERVICE_UNAVAILABLE)
    };
    /// 400: the request names no host (RFC 9110 section 7.2).
    pub(crate) const NO_HOST: Failure = Failure {
        detail: Some("the request names no host"),
        ..Failure::of(Status::BAD_REQUEST)
    };
    /// 400: the path of the target is malformed.
    pub(crate) const TARGET: Failure = Failure {
        detail: Some("the request target is malformed"),
        ..Failure::of(Status::BAD_REQUEST)
    };

    /// 401: the token of the admin addresses is needed.
    pub(crate) const ADMIN: Failure = Failure {
        extra: Extra::Admin,
        ..Failure::of(Status::UNAUTHORIZED)
    };

    /// The answer to a request that is not taken as a command; `None`: it is taken, or none.
    pub(crate) const fn of_command(command: Command) -> Option<Failure> {
        let (status, detail) = match command {
            Command::None | Command::Taken => return None,
            Command::Off => (
                Status::NOT_FOUND,
                "This server takes no commands here: `control = true` in `[admin]` enables them.",
            ),
            Command::Method => (Status::METHOD_NOT_ALLOWED, "Commands are sent with POST."),
            Command::ReadOnly => (
                Status::FORBIDDEN,
                "You may read here and not send commands: they need the token in `control-token-file`.",
            ),
            Command::CrossSite => (Status::FORBIDDEN, "A page of another site has sent this request."),
            Command::MediaType => (
                Status::UNSUPPORTED_MEDIA_TYPE,
                "Commands are JSON: the request needs `Content-Type: application/json`.",
            ),
        };
        Some(Failure {
            detail: Some(detail),
            extra: match command {
                Command::Method => Extra::AllowPost,
                _ => Extra::None,
            },
            ..Failure::of(status)
        })
    }

    /// 413: a command for the operator is too large.
    pub(crate) const COMMAND_TOO_LARGE: Failure = Failure {
        detail: Some("The command has more than 4,095 bytes."),
        ..Failure::TOO_LARGE
    };

    /// 401: the access rule at this index needs a password (RFC 9110 section 15.5.2).
    pub(crate) const fn unauthorized(rule: u16) -> Failure {
        Failure {
            extra: Extra::Authenticate(rule),
            ..Failure::of(Status::UNAUTHORIZED)
        }
    }

    /// 502, 503 or 504: a server that decides about the request did not answer.
    pub(crate) const fn unanswered(why: Unanswered) -> Failure {
        match why {
            Unanswered::Failed => Failure {
                detail: Some("The server that decides who may read this page did not answer."),
                ..Failure::of(Status::BAD_GATEWAY)
            },
            Unanswered::TimedOut => Failure {
                detail: Some("The server that decides who may read this page did not answer in time."),
                ..Failure::of(Status::GATEWAY_TIMEOUT)
            },
            Unanswered::TooMany => Failure::BEHIND,
        }
    }

    pub(crate) const fn of(status: Status) -> Failure {
        Failure {
            status,
            extra: Extra::None,
            detail: None,
        }
    }

    /// The error for a method that is not served: 405 for a known one, otherwise 501.
    pub(crate) fn of_method(method: Method) -> Failure {
        match method {
            Method::Other => Failure::of(Status::NOT_IMPLEMENTED),
            _ => Failure {
                extra: Extra::Allow,
                ..Failure::of(Status::METHOD_NOT_ALLOWED)
            },
        }
    }

    pub(crate) fn of_missing(missing: Missing) -> Failure {
        match missing {
            Missing::NotFound | Missing::Forbidden => Failure::of(missing.status()),
            Missing::Unavailable => Failure {
                extra: Extra::RetryAfter(1),
                ..Failure::of(missing.status())
            },
        }
    }

    /// The built-in page.
    pub(super) fn page(&self) -> ErrorPage {
        match self.detail {
            Some(detail) => ErrorPage::because(self.status, detail),
            None => ErrorPage::new(self.status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_path_reads_like_a_malformed_target() {
        let fault = http1::Fault::Target;
        assert_eq!(Failure::TARGET.status, fault.status());
        assert_eq!(Failure::TARGET.detail, Some(fault.text()));
    }
}
