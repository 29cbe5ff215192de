//! What `./check` says at its end of a stage that failed: `tools/failures`, run over outputs as cargo writes them.

use std::io::Write;
use std::process::{Command, Stdio};

/// What it makes of an output, in at most so many lines.
fn told(output: &str, most: usize) -> String {
    let mut run = Command::new(super::root().join("tools/failures"))
        .args(["-v", &format!("most={most}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("awk(1)");
    let mut input = run.stdin.take().expect("a pipe");
    input.write_all(output.as_bytes()).expect("it reads");
    drop(input);
    let output = run.wait_with_output().expect("its end");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

const TESTS: &str = "
test a::works ... ok
error: a program under test says so
failures:

---- a::fails stdout ----

thread '<unnamed>' (7) panicked at tests/a.rs:3:4:
assertion `left == right` failed
  left: 1
 right: 2
stack backtrace:
   0: nobody::wants::to::know
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

thread 'a::fails' (8) panicked at tests/a.rs:5:6:
a thread that is joined
--- stderr of the server:
error: what it said

---- a::brief stdout ----
thread 'a::brief' (9) panicked at tests/b.rs:1:1:
not within 60s: an answer
--- stderr of the server:
what it said

---- a::too stdout ----
Error: \"no such file\"


failures:
    a::brief
    a::fails
    a::silent
    a::too

test result: FAILED. 1 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

error: test failed, to rerun pass `-p a --test a`
";

#[test]
fn a_stage_that_failed_is_told_by_its_tests() {
    assert_eq!(
        told(TESTS, 30),
        "  a::fails
      tests/a.rs:3:4
      assertion `left == right` failed
        left: 1
       right: 2
  a::brief
      tests/b.rs:1:1
      not within 60s: an answer
  a::too
      Error: \"no such file\"
  a::silent
"
    );
    // Names come first.
    assert_eq!(
        told(TESTS, 7),
        "  a::fails
      tests/a.rs:3:4
  a::brief
      tests/b.rs:1:1
  a::too
      Error: \"no such file\"
  a::silent
"
    );
    assert_eq!(told(TESTS, 2), "  a::fails\n  and 3 more\n");
}

#[test]
fn a_test_that_did_not_end_is_named() {
    let output = "
test a::ends has been running for over 60 seconds
test a::hangs has been running for over 60 seconds
test a::ends ... ok
check: stage test was ended after 2400 s
";
    assert_eq!(
        told(output, 30),
        "  a::hangs: has not ended\n  check: stage test was ended after 2400 s\n"
    );
}

#[test]
fn a_stage_without_tests_is_told_by_its_errors_or_its_end() {
    let output = "
\u{1b}[1m\u{1b}[91merror[E0308]\u{1b}[0m: mismatched types
   \u{1b}[1m--> \u{1b}[0msrc/a.rs:1:2
error: could not compile `a` (lib) due to 1 previous error
";
    assert_eq!(
        told(output, 30),
        "  error[E0308]: mismatched types\n         --> src/a.rs:1:2\n"
    );
    let lines: String = (1..=40).map(|number| format!("line {number}\n\n")).collect();
    assert_eq!(told(&lines, 2), "  line 39\n  line 40\n");
    assert_eq!(told(&lines, 30).lines().count(), 12);
}
