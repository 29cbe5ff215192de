//! The cached virtual file system.
pub mod config;
pub mod load;
pub(crate) mod path;
pub mod view;
pub use config::*;
pub use load::*;
use measure::{Instant, UnixTime};
use std::sync::Arc;
pub use view::*;

/// A site, opened: shared by all workers.
#[derive(Clone, Debug)]
pub struct Site {
    shared: Arc<Shared>,
}
#[derive(Debug)]
struct Shared {
    config: SiteConfig,
}

impl Site {
    /// Opens the root (not its files) and starts watching it.
    ///
    /// # Errors
    /// The root that cannot be opened, and why.
    pub fn open(config: SiteConfig) -> Result<Site, OpenError> {
        Ok(Site {
            shared: Arc::new(Shared { config }),
        })
    }
    /// A worker's window on the site; made once per worker.
    pub fn view(&self, now: Instant, wall: UnixTime) -> View {
        let _ = &self.shared.config;
        let _ = (now, wall);
        unimplemented!()
    }
}
