//! Flags for behaviors of historical servers, which exist to be measured; in the file, the table `[behavior]`. Decides
//! spelling and help only.

use super::offered::offered;
use clap::Args;
use server::config::{
    Behavior, CONNECTION_MICROS_MAX, CacheLock, ColdReads, FileName, Keys, LOCK_CALLS_MAX, LOCK_MICROS_MAX,
    LookupTime, REQUEST_MICROS_MAX, WRITE_MICROS_MAX, parse_duration_or_off,
};
use units::{Bytes, Duration};

/// Flags that make Weir work like other servers. A flag that was not given is `None`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Behaviors for comparison (each costs time; keys of the table [behavior])")]
pub(crate) struct BehaviorFlags {
    /// When files are looked up: cached (once, and when they change), each-request (opened, examined, read and closed
    /// for each request) [default: cached]
    #[arg(long, value_name = "WHEN", env = "WEIR_LOOKUP", value_parser = offered::<LookupTime>(), hide_possible_values = true)]
    lookup: Option<LookupTime>,

    /// Which thread reads files that are not in memory: auto (the worker, or a helper thread if the kernel says that the
    /// read would wait), inline (the worker), helper (a helper thread) [default: auto]
    #[arg(long, value_name = "WHO", env = "WEIR_COLD_READS", value_parser = offered::<ColdReads>(), hide_possible_values = true)]
    cold_reads: Option<ColdReads>,

    /// Tries to open a file of this name in each directory down to the requested file, as Apache does for
    /// .htaccess; needs --lookup each-request [default: none]
    #[arg(long, value_name = "NAME", env = "WEIR_ANCESTOR_FILE")]
    ancestor_file: Option<FileName>,

    /// Reads the file and writes its bytes for each response: no copy in memory, no sendfile
    #[arg(long, env = "WEIR_COPIES", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    copies: Option<bool>,

    /// Lock held while a response is looked up and composed: none, entry (one lock per file), whole (one lock for the
    /// cache) [default: none]
    #[arg(long, value_name = "WHAT", env = "WEIR_CACHE_LOCK", value_parser = offered::<CacheLock>(), hide_possible_values = true)]
    cache_lock: Option<CacheLock>,

    /// Holds the lock of --cache-lock for this many microseconds more for each response, busy [default: 0]
    #[arg(long, value_name = "MICROSECONDS", env = "WEIR_LOCK_MICROS", value_parser = clap::value_parser!(u32).range(..=i64::from(LOCK_MICROS_MAX)))]
    lock_micros: Option<u32>,

    /// Formats the header block for each response
    #[arg(long, env = "WEIR_FRESH_HEAD", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    fresh_head: Option<bool>,

    /// Reads the clocks and formats the date each time requests arrive
    #[arg(long, env = "WEIR_FRESH_DATE", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    fresh_date: Option<bool>,

    /// Sends the header block with a separate system call, in a separate segment
    #[arg(long, env = "WEIR_SPLIT_HEAD", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    split_head: Option<bool>,

    /// Leaves Nagle's algorithm on
    #[arg(long, env = "WEIR_NAGLE", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    nagle: Option<bool>,

    /// Limit on the bytes of one write; 0: no limit [default: 0]
    #[arg(long, value_name = "BYTES", env = "WEIR_WRITE_SIZE")]
    write_size: Option<Bytes>,

    /// Keeps the worker busy for this many microseconds between two writes of a response [default: 0]
    #[arg(long, value_name = "MICROSECONDS", env = "WEIR_WRITE_MICROS", value_parser = clap::value_parser!(u32).range(..=i64::from(WRITE_MICROS_MAX)))]
    write_micros: Option<u32>,

    /// Keeps the worker busy for this many microseconds after it accepts a connection, before the first read; not for
    /// HTTP/3 [default: 0]
    #[arg(long, value_name = "MICROSECONDS", env = "WEIR_CONNECTION_MICROS", value_parser = clap::value_parser!(u32).range(..=i64::from(CONNECTION_MICROS_MAX)))]
    connection_micros: Option<u32>,

    /// Spends this many microseconds of processor time on each request, before it is answered [default: 0]
    #[arg(long, value_name = "MICROSECONDS", env = "WEIR_REQUEST_MICROS", value_parser = clap::value_parser!(u32).range(..=i64::from(REQUEST_MICROS_MAX)))]
    request_micros: Option<u32>,

    /// Writes each line of the access log separately and at once
    #[arg(long, env = "WEIR_LOG_EACH", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    log_each: Option<bool>,

    /// Lets one worker at a time accept connections: all workers share a lock
    #[arg(long, env = "WEIR_ACCEPT_LOCK", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    accept_lock: Option<bool>,

    /// Makes the two system calls of this many free locks for each response, as locks of 1997 did; today's enter the
    /// kernel only to wait [default: 0]
    #[arg(long, value_name = "LOCKS", env = "WEIR_LOCK_CALLS", value_parser = clap::value_parser!(u32).range(..=i64::from(LOCK_CALLS_MAX)))]
    lock_calls: Option<u32>,

    /// Closes a connection this long after a response unless another request has arrived; off: never [default: off]
    #[arg(long, value_name = "TIME", env = "WEIR_EARLY_CLOSE", value_parser = parse_duration_or_off)]
    early_close: Option<Duration>,
}

impl BehaviorFlags {
    /// The flags that make other behaviors of a preset invalid, as the keys of a file.
    pub(super) fn said(&self) -> Keys {
        let mut said = Keys::new();
        if let Some(lookup) = self.lookup {
            said.insert("lookup".to_owned(), lookup.to_string().into());
        }
        if let Some(lock) = self.cache_lock {
            said.insert("cache-lock".to_owned(), lock.to_string().into());
        }
        said
    }

    /// Overrides the configuration with the flags given.
    pub(super) fn override_in(&self, behavior: &mut Behavior) {
        macro_rules! take {
            ($($field:ident),* $(,)?) => {
                $(if let Some(value) = &self.$field { behavior.$field = value.clone(); })*
            };
        }
        take!(
            lookup,
            cold_reads,
            copies,
            cache_lock,
            lock_micros,
            fresh_head,
            fresh_date,
            split_head,
            nagle,
            write_size,
            write_micros,
            connection_micros,
            request_micros,
            log_each,
            accept_lock,
            lock_calls,
            early_close,
        );
        if self.ancestor_file.is_some() {
            behavior.ancestor_file.clone_from(&self.ancestor_file);
        }
    }
}
