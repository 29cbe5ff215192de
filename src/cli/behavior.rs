//! The flags of behaviors that are there to be compared: in the file they are the table `[behavior]`.

use super::offered::{CACHE_LOCK, COLD_READS, LOOKUP, offered};
use clap::Args;
use measure::{Bytes, Duration};
use server::config::{Behavior, CacheLock, ColdReads, FileName, Keys, LookupTime, parse_duration_or_off};

/// Flags that make the server do what others do. None where nothing was said.
#[derive(Debug, Args)]
#[command(next_help_heading = "Behaviors to compare (each costs; keys of the table [behavior])")]
pub(crate) struct BehaviorFlags {
    /// When files are looked for: cached (once, and when they change), each-request (opened, looked at, read and
    /// closed) [default: cached]
    #[arg(long, value_name = "WHEN", env = "WEIR_LOOKUP", value_parser = offered::<LookupTime>(LOOKUP), hide_possible_values = true)]
    lookup: Option<LookupTime>,

    /// Who reads files that are not in memory yet: asked (the worker if nothing has to be waited for, else a helper),
    /// inline (the worker), aside (a helper) [default: asked]
    #[arg(long, value_name = "WHO", env = "WEIR_COLD_READS", value_parser = offered::<ColdReads>(COLD_READS), hide_possible_values = true)]
    cold_reads: Option<ColdReads>,

    /// Tries to open a file of this name in each directory down to the requested file, as Apache does for
    /// .htaccess; with --lookup each-request [default: none]
    #[arg(long, value_name = "NAME", env = "WEIR_ANCESTOR_FILE")]
    ancestor_file: Option<FileName>,

    /// Reads and writes files for each answer: nothing in memory, no sendfile
    #[arg(long, env = "WEIR_COPIES", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    copies: Option<bool>,

    /// Locked while an answer is made: none, entry, whole [default: none]
    #[arg(long, value_name = "WHAT", env = "WEIR_CACHE_LOCK", value_parser = offered::<CacheLock>(CACHE_LOCK), hide_possible_values = true)]
    cache_lock: Option<CacheLock>,

    /// Composes the head of an answer for each request
    #[arg(long, env = "WEIR_FRESH_HEAD", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    fresh_head: Option<bool>,

    /// Reads the clocks and formats the date for each arrival of requests
    #[arg(long, env = "WEIR_FRESH_DATE", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    fresh_date: Option<bool>,

    /// Sends the head of a file's answer by a call, and in a segment, of its own
    #[arg(long, env = "WEIR_SPLIT_HEAD", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    split_head: Option<bool>,

    /// Leaves Nagle's algorithm on
    #[arg(long, env = "WEIR_NAGLE", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    nagle: Option<bool>,

    /// Bytes of one write at the most; 0: as many as the kernel takes [default: 0]
    #[arg(long, value_name = "BYTES", env = "WEIR_WRITE_SIZE")]
    write_size: Option<Bytes>,

    /// Writes each line of the access log by itself
    #[arg(long, env = "WEIR_LOG_EACH", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    log_each: Option<bool>,

    /// Holds a lock that all workers share while a connection is accepted
    #[arg(long, env = "WEIR_ACCEPT_LOCK", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    accept_lock: Option<bool>,

    /// Closes a connection that was answered and asks for nothing more for this long; off: never [default: off]
    #[arg(long, value_name = "TIME", env = "WEIR_EARLY_CLOSE", value_parser = parse_duration_or_off)]
    early_close: Option<Duration>,
}

impl BehaviorFlags {
    /// What was said of what rules other behaviors out, as a file would have it.
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

    /// Puts what was said into the configuration.
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
            fresh_head,
            fresh_date,
            split_head,
            nagle,
            write_size,
            log_each,
            accept_lock,
            early_close,
        );
        if self.ancestor_file.is_some() {
            behavior.ancestor_file.clone_from(&self.ancestor_file);
        }
    }
}
