//! The wording of faults. Tests that need a single thread (forks of this process) use the built binary, in
//! `tests/profile.rs`: a test here has several threads.

use super::*;

#[test]
fn a_refusal_names_each_means_and_what_to_do() {
    let no = || io::Error::from_raw_os_error(libc::EACCES);
    let fault = Fault::Refused(vec![(Means::Tracepoints, no()), (Means::Ptrace, no())]);
    let text = fault.to_string();
    for part in [
        "tracepoints: Permission",
        "; ptrace: Permission",
        "run as root",
        "lab doctor",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(Fault::NoProcess(77).to_string().contains("77"));
}
