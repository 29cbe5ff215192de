//! placeholder
mod report;
mod strategy;
use crate::cli::{Failure, Voice, serve::Flags};
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let config = flags.configuration()?;
    let choice = strategy::choose(&config, 2)?;
    let s = report::Started {
        config: &config,
        choice: &choice,
        addresses: &config.listen.0,
        embedded: None,
        descriptors: 1024,
        took: std::time::Duration::ZERO,
    };
    println!("{}", s.json());
    eprintln!("{}", s.text(voice.color()));
    let _ = (
        flags.check,
        flags.file(),
        voice.reports(),
        voice.json,
        Failure::System(String::new()),
        crate::demo::FILES,
    );
    Ok(())
}
