//! The runner with a shell script in place of the binary, which prints the output that a test needs.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const PLAN: &str = r#"
document = "000"
title = "t"
question = "q"
prediction = "p"
[[arm]]
name = "a"
world = "measured"
over = { x = ["1", "2"] }
repetitions = { quick = 2, full = 2, paper = 2 }
seconds = { quick = 0.1, full = 1, paper = 1 }
run = [["say", "{x}", "{seed}"]]
read = [{ values = { v = "/v" } }]
[[arm]]
name = "b"
world = "measured"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 0.1, full = 1, paper = 1 }
needs = ["program:no-such-program-anywhere"]
run = [["say", "3", "3"]]
read = [{ values = { v = "/v" } }]
"#;

/// A folder with a program that runs this script and logs each call.
fn lab(script: &str) -> (TempDir, Settings) {
    let folder = TempDir::new().expect("a folder");
    let weir = folder.path().join("weir");
    let calls = folder.path().join("calls");
    let text = format!("#!/bin/sh\necho \"$@\" >> {}\n{script}\n", calls.display());
    fs::write(&weir, text).expect("a script");
    fs::set_permissions(&weir, fs::Permissions::from_mode(0o755)).expect("its mode");
    let settings = Settings {
        weir,
        program: "weir 0".to_owned(),
        out: folder.path().join("out"),
        size: Size::Quick,
        steal_max_pct: 100.0,
        others_max_pct: 100.0,
        only: Vec::new(),
        figures: false,
    };
    (folder, settings)
}

fn go(settings: &Settings) -> Tally {
    let plan = Plan::parse("p", PLAN).expect("a plan");
    run("s", PLAN, &plan, settings, &mut |_| {}).expect("a run")
}

fn calls(folder: &TempDir) -> Vec<String> {
    let text = fs::read_to_string(folder.path().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn arms_take_turns_and_what_is_missing_is_not_run() {
    let (folder, settings) = lab("echo \"{\\\"v\\\": $2}\"");
    let tally = go(&settings);
    assert_eq!((tally.done, tally.kept, tally.not_run), (4, 0, 1));
    assert_eq!(calls(&folder), ["say 1 1", "say 2 1", "say 1 2", "say 2 2"]);
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let results = results(&settings.out, "s", &plan, None).expect("results");
    assert_eq!(results.len(), 5);
    let missing = &results["results/s/b.0.jsonl"].head;
    assert_eq!(missing.reason, "no-such-program-anywhere is not installed");
    let two = results["results/s/a-x=2.1.jsonl"].observations(&plan, "f");
    assert_eq!((two[0].value, two[0].labels["x"].as_str()), (2.0, "2"));
}

#[test]
fn what_is_there_is_not_run_again_and_what_was_cut_is() {
    let (folder, settings) = lab("echo \"{\\\"v\\\": $2}\"");
    go(&settings);
    let path = settings.out.join("results/s/a-x=2.0.jsonl");
    let text = fs::read_to_string(&path).expect("a result");
    fs::write(&path, &text[..text.len() / 2]).expect("cut");
    let tally = go(&settings);
    assert_eq!((tally.done, tally.kept), (4, 3));
    assert_eq!(calls(&folder)[4..], ["say 2 1"]);
    // Another build of the program makes other results.
    let other = Settings {
        program: "weir 1".to_owned(),
        ..settings
    };
    assert_eq!(go(&other).kept, 0);
}

#[test]
fn a_run_that_says_it_is_invalid_is_repeated_and_then_left() {
    let (folder, settings) = lab("echo \"{\\\"v\\\": $2}\"; test $2 = 1 || exit 3");
    let tally = go(&settings);
    assert_eq!((tally.done, tally.invalid), (2, 2));
    let tried = calls(&folder)
        .iter()
        .filter(|call| call.starts_with("say 2"))
        .count();
    assert_eq!(tried, 6);
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let results = results(&settings.out, "s", &plan, None).expect("results");
    let head = &results["results/s/a-x=2.0.jsonl"].head;
    assert_eq!((head.status, head.excluded), (Status::Invalid, 2));
}

/// Other programs "use" 200 % of the processors, more than any machine has, so that no measured run counts as
/// disturbed.
fn disturb(settings: &Settings, file: &str) {
    let path = settings.out.join("results/s").join(file);
    let mut record = Record::parse(&fs::read_to_string(&path).expect("a result")).expect("a result");
    record.head.disturbance.others_pct = Some(200.0);
    fs::write(&path, record.text()).expect("a result");
}

#[test]
fn what_others_were_at_work_beside_is_repeated_last_and_replaced_by_what_is_better() {
    let (folder, settings) = lab("echo \"{\\\"v\\\": $2}\"; test ! -e $(dirname $0)/bad || exit 3");
    go(&settings);
    disturb(&settings, "a-x=1.1.jsonl");
    disturb(&settings, "a-x=2.0.jsonl");
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let head = |file: &str| {
        let found = results(&settings.out, "s", &plan, None).expect("results");
        found[file].head.clone()
    };
    // An invalid result is no improvement.
    fs::write(folder.path().join("bad"), "").expect("a file");
    assert_eq!((go(&settings).kept, calls(&folder).len()), (4, 6));
    let two = head("results/s/a-x=2.0.jsonl");
    assert_eq!((two.disturbance.others_pct, two.excluded), (Some(200.0), 0));
    fs::remove_file(folder.path().join("bad")).expect("it was there");
    assert_eq!(go(&settings).kept, 4);
    assert_eq!(calls(&folder)[6..], ["say 2 1", "say 1 2"]);
    let two = head("results/s/a-x=2.0.jsonl");
    assert!(two.disturbance.others_pct <= Some(100.0), "{two:?}");
    assert_eq!((two.status, two.excluded), (Status::Done, 1));
    // Now the result is good.
    assert_eq!((go(&settings).kept, calls(&folder).len()), (4, 8));
}

#[test]
fn a_report_of_one_size_has_no_results_of_another() {
    let (_folder, settings) = lab("echo \"{\\\"v\\\": $2}\"");
    go(&settings);
    let full = Settings {
        size: Size::Full,
        only: vec!["none".to_owned()],
        ..settings.clone()
    };
    // Quick results exist, full results do not.
    assert_eq!(go(&full).done, 0);
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let count = |size: Option<Size>| results(&settings.out, "s", &plan, size).expect("results").len();
    assert_eq!([Some(Size::Quick), Some(Size::Full), None].map(count), [5, 0, 5]);
    let longer = PLAN.replace("quick = 0.1, full = 1", "quick = 1, full = 1");
    let plan = Plan::parse("p", &longer).expect("a plan");
    let both = results(&settings.out, "s", &plan, Some(Size::Full)).expect("results");
    assert_eq!(
        both.len(),
        5,
        "what lasts equally long in both sizes is the same run"
    );
}

#[test]
fn what_is_left_follows_from_the_plan_and_then_from_what_runs_took() {
    let (_folder, settings) = lab("echo \"{\\\"v\\\": $2}\"");
    let text = PLAN.replace("quick = 0.1,", "lead = 5\nquick = 0.1,");
    assert!(Plan::parse("p", &text).is_err(), "it is a key of the arm");
    let text = PLAN.replacen("over =", "lead = 50\nover =", 1);
    let plan = Plan::parse("p", &text).expect("a plan");
    let Ahead {
        left_s: planned,
        lacking,
    } = ahead("s", &text, &plan, &settings);
    assert!((planned - 4.0 * 50.3).abs() < 1e-6, "{planned}");
    // What cannot run takes no time, and is said before the others run.
    let reason = "no-such-program-anywhere is not installed".to_owned();
    assert_eq!(lacking, BTreeMap::from([(reason, 1)]));
    let mut told = Vec::new();
    run("s", &text, &plan, &settings, &mut |progress| {
        told.push(progress.left_s)
    })
    .expect("a run");
    assert!((told[0] - planned).abs() < 1e-6, "{told:?}");
    // After one run of the arm, its duration replaces the plan's estimate.
    assert!(told[1] < 50.0, "{told:?}");
    assert!(ahead("s", &text, &plan, &settings).left_s < 1.0);
}

#[test]
fn a_result_names_no_path_of_this_machine() {
    let (folder, settings) = lab("echo $0 $2 >&2; exit 4");
    let text = PLAN.replace("\"say\"", "\"say {scratch}/x\"");
    let plan = Plan::parse("p", &text).expect("a plan");
    run("s", &text, &plan, &settings, &mut |_| {}).expect("a run");
    let kept = fs::read_to_string(settings.out.join("results/s/a-x=1.0.jsonl")).expect("a result");
    assert!(kept.contains("say SCRATCH/x"), "{kept}");
    assert!(!kept.contains(&folder.path().display().to_string()), "{kept}");
}

#[test]
fn a_program_that_fails_says_why() {
    let (_folder, settings) = lab("echo nonsense >&2; exit 4");
    assert_eq!(go(&settings).failed, 4);
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let results = results(&settings.out, "s", &plan, None).expect("results");
    let reason = &results["results/s/a-x=1.0.jsonl"].head.reason;
    assert_eq!(reason, "`weir say 1 1`: exit code 4: nonsense");
}

const SERVED: &str = r#"
document = "000"
title = "t"
question = "q"
prediction = "p"
[[arm]]
name = "a"
world = "measured"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 0.1, full = 1, paper = 1 }
serve = ["serve", "it"]
watch = true
apart = true
meanwhile = ["beside", "{port}", "{processor}"]
run = [["say", "{pid}"]]
read = [{ event = "said", values = { v = "/v" } }, { event = "resources", values = { looks = "/looks", idle = "/server_idle_pct" } }]
"#;

/// Serves nothing, prints an address, and reports its allowed processors on request.
const SERVER: &str = r#"
here=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
echo "$1 on $here" >> "${0%/*}/places"
case $1 in
serve) echo '{"listeners":[{"address":"127.0.0.1:7"}]}'; exec sleep 1000 ;;
beside) echo $$ > "${0%/*}/beside"; exec sleep 1000 ;;
say) until test -s "${0%/*}/beside"; do sleep 0.01; done
  echo "{\"event\":\"said\",\"v\":$(test -d /proc/$2 && echo 1 || echo 0)}" ;;
esac"#;

#[test]
fn a_server_is_watched_apart_from_what_runs_meanwhile() {
    let (folder, settings) = lab(SERVER);
    let plan = Plan::parse("p", SERVED).expect("a plan");
    let tally = run("s", SERVED, &plan, &settings, &mut |_| {}).expect("a run");
    let results = results(&settings.out, "s", &plan, None).expect("results");
    let record = &results["results/s/a.0.jsonl"];
    if tally.not_run == 1 {
        // One processor, or no taskset.
        assert!(!record.head.reason.is_empty());
        return;
    }
    assert_eq!(tally.done, 1, "{}", record.head.reason);
    let found = record.observations(&plan, "f");
    let value = |name: &str| found.iter().find(|one| one.measure == name).map(|one| one.value);
    assert_eq!(value("v"), Some(1.0), "{{pid}} is the server");
    assert!(value("looks").is_some_and(|looks| looks >= 1.0), "{found:?}");
    assert_eq!(record.head.commands[1][..3], ["weir", "beside", "7"]);
    assert!(value("idle").is_some(), "{found:?}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let places = read("places");
    let on = |command: &str| {
        let mut lines = places.lines().filter_map(|line| line.split_once(" on "));
        lines.find(|(name, _)| *name == command).expect(command).1
    };
    assert!(on("serve") != on("say") && on("say") == on("beside"), "{places}");
    assert_eq!(
        on("serve"),
        record.head.commands[1][3],
        "{{processor}} is the server's"
    );
    // The parallel command has ended with the arm.
    let beside = read("beside");
    let comm = fs::read_to_string(format!("/proc/{}/comm", beside.trim())).unwrap_or_default();
    assert!(comm.trim() != "sleep", "{comm}");
}

#[test]
fn what_runs_meanwhile_may_not_fail() {
    let server = SERVER.replace("exec sleep 1000 ;;\nsay)", "exit 4 ;;\nsay)");
    assert_ne!(server, SERVER);
    let (_folder, settings) = lab(&server);
    let plan = Plan::parse("p", SERVED).expect("a plan");
    let tally = run("s", SERVED, &plan, &settings, &mut |_| {}).expect("a run");
    let results = results(&settings.out, "s", &plan, None).expect("results");
    let reason = &results["results/s/a.0.jsonl"].head.reason;
    if tally.not_run == 1 {
        // One processor, or no taskset.
        assert!(!reason.is_empty());
        return;
    }
    assert_eq!(
        (
            tally.failed,
            reason.starts_with("`weir beside {port} {processor}`: it ended early")
        ),
        (1, true),
        "{reason}"
    );
}

#[test]
fn what_is_about_a_server_needs_one() {
    let text = SERVED.replace("serve = [\"serve\", \"it\"]\n", "");
    let error = Plan::parse("p", &text).expect_err("no server").to_string();
    assert!(error.contains("arm a: `confine`, `apart` and `watch`"), "{error}");
    let text = SERVED.replace("\"/v\"", "\"/v +\"");
    let error = Plan::parse("p", &text).expect_err("an expression").to_string();
    assert!(error.contains("arm a: `/v +`: unexpected `the end`"), "{error}");
}

#[test]
fn the_settings_of_a_link_are_kept_with_the_result() {
    let script = "echo \"{\\\"near\\\":{\\\"a\\\":\\\"1\\\"},\\\"far\\\":{\\\"a\\\":\\\"2\\\"}}\" > $3; echo '{\"v\": 1}'";
    let (folder, settings) = lab(script);
    let text = PLAN.replace("[\"say\", \"{x}\", \"{seed}\"]", "[\"link\", \"lan\", \"{x}\"]");
    let plan = Plan::parse("p", &text).expect("a plan");
    run("s", &text, &plan, &settings, &mut |_| {}).expect("a run");
    assert!(
        calls(&folder)[0].starts_with("link --settings "),
        "{:?}",
        calls(&folder)
    );
    let results = results(&settings.out, "s", &plan, None).expect("results");
    let head = &results["results/s/a-x=1.0.jsonl"].head;
    let [ends] = head.links.as_slice() else {
        panic!("{:?}", head.links);
    };
    assert_eq!((ends.near["a"].as_str(), ends.far["a"].as_str()), ("1", "2"));
    // The path of the file is of this machine.
    assert!(head.commands[0][3].starts_with("SCRATCH/"), "{:?}", head.commands);
}

#[test]
fn runs_that_only_compute_come_first_and_are_counted_once() {
    // Each waits until as many have begun as there are processors, two at most: none ends if they take turns.
    let (folder, settings) = lab("case $1 in compute) touch $(dirname $0)/began-$2; n=0; \
         until [ $(ls $(dirname $0) | grep -c began-) -ge $ABREAST ] || [ $n -ge 500 ]; do n=$((n+1)); sleep 0.02; done; \
         [ $n -lt 500 ] || exit 1;; esac; echo \"{\\\"v\\\": 1}\"");
    let abreast = std::thread::available_parallelism().map_or(1, |count| count.get().min(2));
    let script = fs::read_to_string(&settings.weir).expect("a script");
    fs::write(&settings.weir, script.replace("$ABREAST", &abreast.to_string())).expect("a script");
    let text = format!(
        "{PLAN}[[arm]]\nname = \"c\"\nworld = \"simulated\"\nover = {{ x = [\"1\", \"2\"] }}\n\
         repetitions = {{ quick = 1, full = 1, paper = 1 }}\nseconds = {{ quick = 0.1, full = 1, paper = 1 }}\n\
         run = [[\"compute\", \"{{x}}\"]]\nread = [{{ values = {{ v = \"/v\" }} }}]\n"
    );
    let plan = Plan::parse("p", &text).expect("a plan");
    let mut done = Vec::new();
    let tally = run("s", &text, &plan, &settings, &mut |progress| {
        done.push(progress.done)
    })
    .expect("a run");
    assert_eq!((tally.done, tally.kept, tally.failed), (6, 0, 0));
    assert!(calls(&folder)[..2].iter().all(|call| call.starts_with("compute")));
    assert_eq!(calls(&folder).len(), 6);
    assert_eq!(done, [0, 1, 0, 1, 2, 3, 4, 5, 6]);
    // A second call finds all results.
    let tally = run("s", &text, &plan, &settings, &mut |_| {}).expect("a run");
    assert_eq!((tally.done, tally.kept), (6, 6));
    assert_eq!(calls(&folder).len(), 6);
}

#[test]
fn a_parameter_that_is_a_word_may_be_several_and_two_parameters_in_a_word_are_one() {
    let known: Labels = [("a", "x y"), ("b", "z"), ("site", "/with a space")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    for (word, wanted) in [
        ("{a}", &["x", "y"][..]),
        ("{a} loss={b}", &["x y loss=z"]),
        ("-{a}", &["-x y"]),
        ("{site}", &["/with a space"]),
    ] {
        assert_eq!(filled(&[word.to_owned()], &known), wanted, "{word}");
    }
}

#[test]
fn an_arm_is_selected_by_a_prefix_or_alone_by_its_whole_name() {
    for (only, wanted) in [("visit", [true, true, false]), ("visit$", [true, false, false])] {
        let found = ["visit", "visit-5g", "urgent"].map(|name| selects(only, name));
        assert_eq!(found, wanted, "{only}");
    }
}
