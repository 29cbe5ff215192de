//! The black box: every test here starts the built binary, speaks to it over a real socket and looks
//! only at what a client, an operator or the file system can see. Each test runs once per strategy that has what it
//! looks at: one that has not has no such test, instead of one that passes without looking. Responses that the session alone
//! decides (`files`, `representations`, `hosts`, `tilde`, `messages`) run once per back end.
//!
//! - `access`: who may have which paths, by network and by password
//! - `admin`: the live page and metrics at addresses of their own
//! - `admin_control`: commands there, and `weir ctl --admin`
//! - `adapt`: what the server notices, and what its controllers would do
//! - `ahead`: what a page embeds is in memory before it is asked for
//! - `announced`: load balancers that announce their client in front of a connection
//! - `fields`: field lines by rule in responses of every kind, and pages of other origins
//! - `forward_auth`, `forward_auth_reuse`: requests about which another server decides, and the connections to it
//! - `fastcgi`: applications of FastCGI: which script answers which path, and how applications can fail
//! - `fixed`: texts of the configuration as answers
//! - `files`: which file answers which path; redirects, listings, error pages, methods
//! - `request_id`: the same id of a request in logs, at upstreams and in responses
//! - `representations`: conditions, ranges, content codings
//! - `conditions`: rules that apply to requests with certain fields, cookies or parameters
//! - `control`: what `weir ctl` asks, and a strategy that changes under load
//! - `connections`: persistence, pipelining, half-close, bytes that nobody read
//! - `bounds`: what happens when a limit or a timeout is reached, and that the others do not feel it
//! - `disk`: files that change, vanish, shrink, or are no files at all; the way out of the root
//! - `explained`: which rules `--explain` names, and that a server answers alike
//! - `behavior`: what other servers do, switched on, singly and as presets
//! - `observatory`: security headers, graded as a scanner would
//! - `operation`: configuration, signals, logs, exit codes
//! - `upgrade`: one process follows another, and no request is lost
//! - `handover`: upgrades in which the old or the new program dies
//! - `uploads`: files that clients store, move and remove, and programs that do
//! - `versions`: versions of a site, one of which is put in the place of another at once
//! - `memory`: a bounded server under clients that make it hold memory
//! - `manager`: what a service manager passes and is told
//! - `root`: roots that are lost while the server runs
//! - `warnings`: what the log says of requests that failed
//! - `rights`: what the process may still do once it listens
//! - `mounts`: several roots in one site
//! - `hosts`: sites told apart by name, redirects, field lines for some paths
//! - `host_logs`: access logs of hosts
//! - `server_log`: messages of the server in a file
//! - `tried`: files that are tried for a path
//! - `trusted`: the client that a proxy in front of the server names
//! - `http2`: many requests over one connection, and stops, upgrades and floods under them
//! - `http3`: the same over QUIC
//! - `otlp`, `otlp_collector`: spans of requests, at a collector that records them and at a real one
//! - `proxy`: requests that other servers answer, and how those servers can fail
//! - `proxy_http2`, `proxy_http3`: the same for clients of HTTP/2 and of HTTP/3, many at a time
//! - `proxy_h2_strict`: HTTP/2 on both sides of the proxy: malformed messages of either side, and what arrives of valid ones
//! - `proxy_malformed`: malformed responses of HTTP/2 upstreams for HTTP/1.1 and HTTP/3 clients
//! - `proxy_pairings`: malformed requests of HTTP/2 and HTTP/3 clients for upstreams of HTTP/1.1 and HTTP/2
//! - `proxy_load`: a reload, a change of strategy, an upgrade and a stop while clients use the proxy lose no request
//! - `proxy_http3_upgrade`: bodies under way over HTTP/3 outlive a reload and upgrades
//! - `proxy_request`: what an upstream gets, and when it gets it
//! - `proxy_websockets`: WebSocket through the proxy, with the Python package `websockets` at both ends
//! - `recorded`: recordings of pages, and their replay
//! - `limited`: requests of each client by path, and logs by template
//! - `proxy_mixed`: files and upstreams that share paths
//! - `line`: a line whose rate was declared: what is sent keeps to it, and in which order
//! - `reload`: every key that a reload can change, over every strategy
//! - `slow`: clients that take their time, and disks that do
//! - `listings`: directories without an index: order, pages, search, README, theme, and hostile names in them
//! - `listeners`: addresses with a strategy and limits of their own
//! - `log_daemons`: logs that go to syslog and to the journal
//! - `load`: a reload and a stop while clients ask lose no request
//! - `tilde`: pages of logins, and that no answer tells which there are
//! - `tls`: certificates, resumption, handshakes that do not end
//! - `live`: the live page, metrics, health and readiness
//! - `supervision`: workers that die, processes that must not be left behind
//! - `messages`: malformed and odd requests, and the conformance vectors
//! - `uring`: what happens where the system refuses io_uring, and bursts larger than a ring
//! - `clients`: programs people use (curl, wget, Python requests, Node fetch)
//!
//! The tools: `process` starts and stops the server, `wire` is a client that trusts nothing, `frames` a client of HTTP/2,
//! `tree` makes a folder of files.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it opens sockets and touches files"
)]

mod frames;
pub(crate) mod process;
pub(crate) mod tree;
mod wire;

mod access;
pub(crate) mod acme;
mod adapt;
mod admin;
mod admin_control;
mod ahead;
mod announced;
mod behavior;
mod bounds;
mod certificates;
mod clients;
mod conditions;
mod connections;
mod control;
mod disk;
mod explained;
mod fastcgi;
mod fields;
mod files;
mod fixed;
mod forward_auth;
mod forward_auth_reuse;
mod handover;
mod host_logs;
mod hosts;
mod http2;
mod http2_clients;
mod http3;
mod limited;
mod line;
mod listeners;
mod listings;
mod live;
mod load;
mod log_daemons;
mod manager;
mod memory;
mod messages;
mod mounts;
mod observatory;
mod operation;
pub(crate) mod otlp;
mod otlp_collector;
mod otlp_connections;
mod proxy;
mod proxy_balance;
mod proxy_cache;
mod proxy_cache_disk;
mod proxy_failures;
mod proxy_h2_scripted;
mod proxy_h2_strict;
mod proxy_h2_upstream;
mod proxy_http2;
mod proxy_http3;
mod proxy_http3_upgrade;
mod proxy_load;
mod proxy_malformed;
mod proxy_mixed;
mod proxy_names;
mod proxy_pairings;
mod proxy_request;
mod proxy_reuse;
mod proxy_tls;
mod proxy_websocket;
mod proxy_websockets;
mod recorded;
mod reload;
mod representations;
mod request_id;
mod rights;
mod root;
mod server_log;
mod slow;
mod supervision;
mod tilde;
pub(crate) mod tls;
mod tls_abuse;
mod tried;
mod trusted;
mod unix_sockets;
mod upgrade;
mod uploads;
mod uring;
mod versions;
mod warnings;

/// A module with a test for this strategy out of each named function `fn(Strategy)` of the module around it.
macro_rules! on_strategy {
    ($module:ident, $strategy:ident: $($name:ident),*) => {
        mod $module { $(#[test] fn $name() {
            let strategy = crate::serve::process::Strategy::$strategy;
            if strategy.is_possible() { super::$name(strategy) }
        })* }
    };
}

/// Makes one test per strategy out of each named function `fn(Strategy)`.
macro_rules! on_every_strategy {
    ($($name:ident),* $(,)?) => {
        crate::serve::on_strategy!(loops, LOOPS: $($name),*);
        crate::serve::on_strategy!(one_loop, ONE_LOOP: $($name),*);
        crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
        crate::serve::on_strategy!(loops_uring, LOOPS_URING: $($name),*);
        crate::serve::on_strategy!(one_loop_uring, ONE_LOOP_URING: $($name),*);
        crate::serve::on_strategy!(pool, POOL: $($name),*);
        crate::serve::on_strategy!(per_connection, PER_CONNECTION: $($name),*);
        crate::serve::on_strategy!(per_request, PER_REQUEST: $($name),*);
        crate::serve::on_strategy!(processes, PROCESSES: $($name),*);
    };
}

/// Makes one test per back end out of each named function `fn(Strategy)`. For responses that the session alone decides: it is
/// the same code under every strategy, and what strategies do with bytes is tested where they do.
macro_rules! on_each_back_end {
    ($($name:ident),* $(,)?) => {
        crate::serve::on_strategy!(loops, LOOPS: $($name),*);
        crate::serve::on_strategy!(loops_uring, LOOPS_URING: $($name),*);
        crate::serve::on_strategy!(pool, POOL: $($name),*);
    };
}

/// The same for what is not there where a process has one connection and others come and go.
macro_rules! where_connections_share_a_process {
    ($($name:ident),* $(,)?) => {
        mod where_connections_share_a_process {
            use super::*;
            crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
        }
        crate::serve::where_workers_are_threads!($($name),*);
    };
}

/// The same for what is not there where workers are processes.
macro_rules! where_workers_are_threads {
    ($($name:ident),* $(,)?) => {
        mod where_workers_are_threads {
            use super::*;
            crate::serve::on_strategy!(loops, LOOPS: $($name),*);
            crate::serve::on_strategy!(one_loop, ONE_LOOP: $($name),*);
            crate::serve::on_strategy!(loops_uring, LOOPS_URING: $($name),*);
            crate::serve::on_strategy!(one_loop_uring, ONE_LOOP_URING: $($name),*);
            crate::serve::on_strategy!(pool, POOL: $($name),*);
            crate::serve::on_strategy!(per_connection, PER_CONNECTION: $($name),*);
            crate::serve::on_strategy!(per_request, PER_REQUEST: $($name),*);
        }
    };
}

/// The same for what is there only where workers are processes.
macro_rules! where_workers_are_processes {
    ($($name:ident),* $(,)?) => {
        mod where_workers_are_processes {
            use super::*;
            crate::serve::on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
            crate::serve::on_strategy!(processes, PROCESSES: $($name),*);
        }
    };
}
use {
    on_each_back_end, on_every_strategy, on_strategy, where_connections_share_a_process,
    where_workers_are_processes, where_workers_are_threads,
};
