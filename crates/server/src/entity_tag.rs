//! Whether the entity tag of a file may be strong (RFC 9110 section 8.8.1): whether its times tell its versions apart.
//! How tags are made is not decided here.

use runtime::fs::Meta;
use units::UnixTime;

/// Seconds without a change after which a file's times tell its versions apart.
const SETTLED: i64 = 2;

/// Seconds without a change after which a file is taken to be on disk, if the kernel cannot tell. The kernel starts
/// writing back after 30 (`vm.dirty_expire_centisecs`) and checks every 5.
const WRITTEN_BACK: i64 = 60;

/// Whether an entity tag is weak.
pub(crate) fn is_weak(etag: &[u8]) -> bool {
    etag.starts_with(b"W/")
}

/// Whether any further write to the file is certain to change its times, except for writes through a memory map.
pub(crate) fn is_settled(meta: &Meta, wall: UnixTime) -> bool {
    was_left_alone(meta, SETTLED, wall)
}

/// Whether every further write to the file will change its times, so that its tag may be strong. After a write through
/// a memory map, further ones to that page change the times only once it has been written back.
pub(crate) fn shows_writes(file: &runtime::fs::File, wall: UnixTime) -> bool {
    is_settled(file.meta(), wall)
        && file
            .is_written_back()
            .unwrap_or_else(|| was_left_alone(file.meta(), WRITTEN_BACK, wall))
}

fn was_left_alone(meta: &Meta, secs: i64, wall: UnixTime) -> bool {
    meta.modified.secs.max(meta.changed.secs) + secs < wall.secs
}
