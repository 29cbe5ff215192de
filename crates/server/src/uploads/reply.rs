//! Replies to changes and questions, beyond those that every part of this process gives.

pub(super) use crate::local::reply::{Content, Reply};
use std::io;

/// The media type of all XML.
pub(super) const XML: &str = "application/xml; charset=\"utf-8\"";

impl Reply {
    /// A document.
    pub(super) fn xml(status: u16, document: String) -> Reply {
        Reply {
            content: Content::Text(XML, document),
            ..Reply::of(status)
        }
    }

    /// For a change or a question that the system refused. Statuses are those of RFC 4918 sections 9 and 11.
    pub(super) fn refused(error: &io::Error) -> Reply {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound => Reply::error(404, "There is no such file."),
            Kind::NotADirectory => Reply::error(409, "A part of the path is no folder."),
            Kind::IsADirectory => Reply::error(405, "This is a folder."),
            Kind::AlreadyExists => Reply::error(405, "There is such a file already."),
            Kind::QuotaExceeded if error.raw_os_error().is_none() => Reply::full(),
            Kind::QuotaExceeded | Kind::StorageFull => {
                Reply::error(507, "There is no room for this: the disk is full.")
            }
            Kind::CrossesDevices => Reply::error(502, "The destination is on another file system."),
            Kind::InvalidFilename => {
                Reply::error(403, "The path is too long, or its folders are nested too deeply.")
            }
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
                Reply::error(403, "The server may not change this file.")
            }
            Kind::ResourceBusy => Reply::error(
                403,
                "This is the folder of the rule itself, or a mount point, and cannot be changed.",
            ),
            _ => Reply::error(500, "The server could not do this; its log says why."),
        }
    }

    /// No room for a file in the quota of the rule.
    pub(super) fn full() -> Reply {
        Reply::error(507, "There is no room for this: the quota of the folder is full.")
    }

    /// The same error, about a field of the request with this value.
    pub(super) fn about(self, field: &str, value: &[u8]) -> Reply {
        match self.content {
            Content::Text(kind, why) => Reply {
                content: Content::Text(kind, format!("`{field}: {}`: {why}", value.escape_ascii())),
                ..self
            },
            _ => self,
        }
    }
}
