//! A thread that lives in a network namespace and runs jobs there for other threads.
//!
//! A namespace belongs to a thread, and a socket to the namespace of the thread that created it. Jobs of a [`Netns`] see
//! the interfaces of its namespace, children they start stay there, and their sockets may be used by all threads.

use runtime::sys;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel, sync_channel};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace. Both end when this is dropped and its children are gone.
#[derive(Clone, Debug)]
pub(super) struct Netns {
    jobs: Sender<Job>,
}

impl Netns {
    /// A thread in a network namespace of its own.
    pub(super) fn new(name: &str) -> io::Result<Netns> {
        let (jobs, todo) = channel::<Job>();
        let (tell, told) = sync_channel(1);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let ready = sys::unshare(false, true);
            let is_ready = ready.is_ok();
            let _ = tell.send(ready);
            if is_ready {
                todo.into_iter().for_each(|job| job());
            }
        })?;
        told.recv().map_err(|_| gone())??;
        Ok(Netns { jobs })
    }

    /// Runs a job in the namespace and waits for it.
    pub(super) fn call<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (tell, told) = sync_channel(1);
        let job = move || {
            let _ = tell.send(job());
        };
        self.jobs.send(Box::new(job)).map_err(|_| gone())?;
        told.recv().map_err(|_| gone())
    }

    /// A handle that identifies the namespace to the kernel.
    pub(super) fn namespace(&self) -> io::Result<Namespace> {
        self.call(|| File::open("/proc/thread-self/ns/net").map(Namespace))?
    }
}

/// A network namespace, held open.
#[derive(Debug)]
pub(super) struct Namespace(File);

impl Namespace {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread of the link ended early")
}
