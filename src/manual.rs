//! Shell completions and manual pages, generated from the declaration that also makes `--help`, so that the three
//! always agree. Decides where they are written.

use crate::cli::Cli;
use crate::cli::manual::{Completions, Man};
use crate::failure::Failure;
use clap_complete::Shell;
use std::io::{self, Write};

/// Prints the completion script to standard output.
///
/// # Errors
/// `System`, if standard output cannot be written.
pub(crate) fn complete(flags: &Completions) -> Result<(), Failure> {
    let script = completions(flags.shell);
    let mut out = io::stdout().lock();
    out.write_all(&script)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::System(format!("cannot write to standard output: {error}")))
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::declaration(), "weir", &mut script);
    script
}

/// Writes the manual pages.
///
/// # Errors
/// `System`, if the directory does not exist or cannot be written.
pub(crate) fn write(flags: &Man) -> Result<(), Failure> {
    clap_mangen::generate_to(Cli::declaration(), &flags.directory).map_err(|error| {
        Failure::System(format!(
            "cannot write the manual to `{}`: {error}; name an existing, writable directory",
            flags.directory.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// Every command with the long names of its flags.
    fn declared() -> Vec<(String, Vec<String>)> {
        let mut declaration = Cli::declaration();
        declaration.build();
        declaration
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
            .map(|command| {
                let shown = command.get_arguments().filter(|flag| !flag.is_hide_set());
                let flags = shown.filter_map(|flag| flag.get_long());
                (command.get_name().to_owned(), flags.map(str::to_owned).collect())
            })
            .collect()
    }

    #[test]
    fn completions_know_every_command_and_flag() {
        for shell in [
            Shell::Bash,
            Shell::Zsh,
            Shell::Fish,
            Shell::Elvish,
            Shell::PowerShell,
        ] {
            assert!(Shell::value_variants().contains(&shell));
            let script = String::from_utf8(completions(shell)).expect("text");
            for (command, flags) in declared() {
                assert!(script.contains(&command), "{shell}: {command}");
                for flag in flags {
                    assert!(script.contains(&flag), "{shell}: {command} --{flag}");
                }
            }
        }
    }

    /// Completions list the words; the help explains them in prose and does not list them again.
    #[test]
    fn completions_offer_the_words_a_flag_takes() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completions(shell)).expect("text");
            for words in [
                "phttpd java-server zeus",
                "loops loop pool thread-per-connection thread-per-request",
                "pool thread-per-connection thread-per-request processes",
                "epoll uring blocking",
                "s3-fifo hinted structured",
                "common combined json",
                "cached each-request",
            ] {
                let offered = match shell {
                    Shell::Fish => words.replace(' ', "\\t''\n"),
                    _ => words.to_owned(),
                };
                // `ctl strategy` takes a positional argument, for which fish scripts offer no words.
                let is_known = shell != Shell::Fish || !words.starts_with("loops loop pool");
                assert!(script.contains(&offered) || !is_known, "{shell}: {words}");
            }
        }
        let mut declaration = Cli::declaration();
        let serve = declaration.find_subcommand_mut("serve").expect("a command");
        let help = serve.render_long_help().to_string();
        let mut lists = help.lines().filter(|line| line.contains("possible values"));
        assert!(lists.all(|line| line.contains("true, false")), "{help}");
    }

    #[test]
    fn every_command_has_a_page_with_every_flag() {
        let directory = std::env::temp_dir().join(format!("weir-man-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a folder");
        write(&Man {
            directory: directory.clone(),
        })
        .expect("pages");
        for (command, flags) in declared() {
            let page = std::fs::read_to_string(directory.join(format!("weir-{command}.1"))).expect("a page");
            let page = page.replace("\\-", "-");
            for flag in flags.iter().filter(|flag| *flag != "help" && *flag != "version") {
                assert!(page.contains(&format!("--{flag}")), "{command}: --{flag}");
            }
        }
        let page = std::fs::read_to_string(directory.join("weir-serve.1")).expect("a page");
        assert!(page.contains("WEIR_CACHE_SIZE"), "variables are in the manual");
        std::fs::remove_dir_all(&directory).expect("our own folder");
        let error = write(&Man { directory }).expect_err("it is gone");
        assert!(error.to_string().contains("directory"), "{error}");
    }
}
