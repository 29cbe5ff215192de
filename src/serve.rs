//! placeholder
use crate::cli::{Failure, Voice, serve::Flags};
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let _ = (
        flags.configuration()?,
        flags.check,
        flags.file(),
        voice.reports(),
        voice.json,
        Failure::System(String::new()),
        crate::demo::FILES,
    );
    Ok(())
}
