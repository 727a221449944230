//! `hd` as its users see it, against a fake supervisor behind the real server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use horde_supervisor::control::protocol::{ControlError, ErrorKind, Intent};
use horde_supervisor::control::rights::CallerRole;
use horde_supervisor::domain::ids::SessionId;
use serde_json::{Value, json};

mod asks;

use self::asks::asks;
use crate::fake_city::{FakeCity, VARIABLES, event, hd, until};

/// The result of a run of `hd`.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the command to its end.
pub fn run(command: &mut assert_cmd::Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl FakeCity {
    fn run(&self, words: &[&str]) -> Ran {
        run(self.hd().args(words))
    }
}

#[test]
fn json_is_the_result_itself() {
    let city = FakeCity::start();
    let result =
        json!({"city": "c", "version": "9", "pid": 41, "deep": {"list": [1, "two", null]}});
    city.fake.answer("ping", Ok(result.clone()));
    let ran = city.run(&["ping", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), result);
    let ran = city.run(&["ping"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "pong (pid 41)\n"));
}

#[test]
fn error_kinds_decide_the_exit_code_and_hints_are_apart() {
    for kind in ErrorKind::ALL {
        let city = FakeCity::start();
        let error = ControlError::new(*kind, "it is so").hint("do otherwise");
        city.fake.answer("status", Err(error));
        let ran = city.run(&["status"]);
        assert_eq!(ran.code, i32::from(kind.exit().code()), "{kind:?}");
        assert_eq!(ran.stdout, "");
        assert_eq!(ran.stderr, "error: it is so\nhint: do otherwise\n");
        let ran = city.run(&["status", "--json"]);
        let told: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(told["error"]["message"], "it is so");
        assert_eq!(told["error"]["kind"], serde_json::to_value(kind).unwrap());
    }
}

#[test]
fn words_of_the_command_line_are_keys_of_the_request() {
    let city = FakeCity::start();
    let session = SessionId::new("gt-horde-Toast").unwrap();
    for (line, op, args) in asks() {
        let who = match op {
            "done" | "handoff" | "wait" | "hook" => CallerRole::Raider(session.clone()),
            _ => CallerRole::Operator,
        };
        *city.fake.0.who.lock().unwrap() = who;
        let words = shell_words::split(line).unwrap();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ran = city.run(&words);
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
        assert_eq!(city.fake.asked(op).last(), Some(&args), "{line}");
    }
}

#[test]
fn destructive_verbs_fail_closed_without_a_terminal() {
    let city = FakeCity::start();
    for words in [["raider", "nuke", "Toast"], ["raider", "repair", "Toast"]] {
        let ran = city.run(&words);
        assert_eq!(ran.code, 2, "{words:?}");
        assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
    }
    city.fake
        .told("relic.show", &json!({"status": "hooked", "children": []}));
    assert_eq!(city.run(&["relic", "close", "gt-1"]).code, 2);
    for op in ["raider.nuke", "raider.repair", "relic.close"] {
        assert!(city.fake.asked(op).is_empty(), "{op} was asked");
    }
    assert_eq!(city.run(&["relic", "close", "gt-1", "--yes"]).code, 0);
    assert_eq!(city.fake.asked("relic.close")[0]["yes"], true);
}

#[test]
fn nothing_is_asked_about_an_object_that_does_not_exist() {
    let city = FakeCity::start();
    for (op, words) in [
        ("raider.show", &["raider", "nuke", "x"][..]),
        ("mq.show", &["mq", "reject", "gt-9", "--note", "no"]),
        ("salvage.show", &["salvage", "prune", "x"]),
    ] {
        let missing = ControlError::new(ErrorKind::NotFound, "there is none");
        city.fake.answer(op, Err(missing));
        let ran = city.run(words);
        assert_eq!(
            (ran.code, ran.stderr.contains("there is none")),
            (4, true),
            "{words:?}"
        );
    }
    let ran = city.run(&["rig", "remove", "nowhere"]);
    assert!(
        ran.stderr.contains("the rig nowhere is not in this file"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_open_relic_is_closed_without_being_asked_twice() {
    let city = FakeCity::start();
    city.fake
        .told("relic.show", &json!({"status": "open", "children": []}));
    let ran = city.run(&["relic", "close", "gt-1", "--reason", "not needed"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        city.fake.asked("relic.close"),
        [json!({"relic": "gt-1", "reason": "not needed"})]
    );
}

#[test]
fn raider_done_and_reset_do_not_exist_and_name_the_replacement() {
    let city = FakeCity::away();
    for (verb, instead) in [("done", "hd done"), ("reset", "hd raider nuke")] {
        let ran = city.run(&["raider", verb, "Toast"]);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains(instead), "{}", ran.stderr);
    }
}

#[test]
fn missing_supervisor_is_exit_3_and_missing_city_is_exit_2() {
    let city = FakeCity::away();
    let ran = city.run(&["ping"]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains("hd up"), "{}", ran.stderr);
    let nowhere = horde_supervisor::testing::scratch();
    let ran = run(hd().arg("ping").current_dir(nowhere.path()));
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("hd init"), "{}", ran.stderr);
}

#[test]
fn a_supervisor_that_hangs_is_not_waited_for_without_end() {
    let city = FakeCity::away();
    fs::create_dir(city.root().join(".horde")).unwrap();
    let _never_accepts = UnixListener::bind(city.socket()).unwrap();
    let ran = city.run(&["ping"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("does not answer"), "{}", ran.stderr);
}

#[test]
fn the_city_is_found_from_inside_it_and_from_inside_a_session() {
    let city = FakeCity::start();
    let inner = city.root().join("horde/raiders/Toast");
    fs::create_dir_all(&inner).unwrap();
    assert_eq!(run(hd().arg("ping").current_dir(&inner)).code, 0);
    let elsewhere = horde_supervisor::testing::scratch();
    let ran = run(hd()
        .arg("ping")
        .current_dir(elsewhere.path())
        .env("HD_CITY", city.root())
        .env("HD_SOCKET", city.socket()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = run(hd()
        .arg("ping")
        .current_dir(elsewhere.path())
        .env("HORDE_CITY", city.root()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_socket_deeper_than_an_address_can_say_is_reached() {
    let city = FakeCity::start();
    let deep = horde_supervisor::testing::scratch();
    let dir = deep.path().join("d".repeat(120));
    fs::create_dir(&dir).unwrap();
    fs::hard_link(city.socket(), dir.join("s")).unwrap();
    let ran = run(hd()
        .arg("ping")
        .env("HD_CITY", city.root())
        .env("HD_SOCKET", dir.join("s")));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn events_are_lines_and_end() {
    let city = FakeCity::start();
    let ran = city.run(&["events", "--json", "--since", "7", "--type", "raider.*"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines, [event(1), event(2), event(3)]);
    assert_eq!(
        city.fake.asked("events"),
        [json!({"since": 7, "type": "raider.*"})]
    );
    let ran = city.run(&["events"]);
    assert!(
        ran.stdout
            .lines()
            .all(|line| line.contains("raider.charged")),
        "{}",
        ran.stdout
    );
}

#[test]
fn followed_events_end_with_the_supervisor() {
    let mut city = FakeCity::start();
    let mut child = Command::new(cargo_bin("hd"));
    for name in VARIABLES {
        child.env_remove(name);
    }
    let mut child = child
        .arg("--city")
        .arg(city.root())
        .args(["events", "-f", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("it follows", || {
        city.fake.0.stream.lock().unwrap().is_some()
    });
    let sender = city.fake.0.stream.lock().unwrap().clone().unwrap();
    sender.blocking_send(Ok(event(1).to_string())).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), event(1));
    city.stop();
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn an_empty_task_is_exit_2() {
    let city = FakeCity::start();
    for words in [["run", " "].as_slice(), &["relic", "create", ""]] {
        let ran = city.run(words);
        assert_eq!(ran.code, 2, "{words:?}");
        assert!(ran.stderr.contains("it is empty"), "{}", ran.stderr);
    }
}

#[test]
fn run_without_a_terminal_returns_at_once() {
    let city = FakeCity::start();
    let result =
        json!({"relics": [{"relic": "gt-1", "raider": "horde/raiders/Toast", "branch": "b"}]});
    city.fake.told("run", &result);
    let ran = city.run(&["run", "a task"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        ran.stdout,
        "gt-1 is charged to horde/raiders/Toast, on branch b\n"
    );
    assert!(city.fake.asked("events").is_empty());
}

#[test]
fn done_waits_in_the_outbox_while_the_supervisor_is_away() {
    let city = FakeCity::away();
    let sandbox = city.root().join("horde/raiders/Toast");
    fs::create_dir_all(&sandbox).unwrap();
    let mut done = hd();
    done.args(["done", "--reason", "all tests pass"])
        .current_dir(&sandbox)
        .env("HD_CITY", city.root())
        .env("HD_SOCKET", city.socket())
        .env("HD_ACTOR", "horde/raiders/Toast")
        .env("HD_RAIDER", "Toast")
        .env("HD_RIG", "horde")
        .env("HD_RELIC", "gt-1")
        .env("HD_SESSION", "gt-horde-Toast")
        .env("HD_INCARNATION", "3");
    let ran = run(&mut done);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("no key"), "{}", ran.stderr);
    let ran = run(done.env("HD_KEY", "the key"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("completion is saved"), "{}", ran.stderr);
    let files: Vec<_> = fs::read_dir(city.root().join(".horde/outbox"))
        .unwrap()
        .collect();
    assert_eq!(files.len(), 1);
    let path = files[0].as_ref().unwrap().path();
    assert_eq!(path.extension().unwrap(), "json");
    let intent: Intent = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(intent.op, "done");
    assert_eq!(intent.args["reason"], "all tests pass");
    assert_eq!(intent.raider.as_deref(), Some("horde/raiders/Toast"));
    assert_eq!(
        (intent.incarnation, intent.relic.as_deref()),
        (Some(3), Some("gt-1"))
    );
    assert_eq!(intent.cwd, sandbox.canonicalize().unwrap());
    assert!(intent.is_signed("the key"));
}

/// The supervisor would not accept such a declaration.
#[test]
fn done_is_not_written_down_in_anothers_sandbox() {
    let city = FakeCity::away();
    for name in ["Toast", "Shadow"] {
        fs::create_dir_all(city.root().join("horde/raiders").join(name)).unwrap();
    }
    let mut done = hd();
    done.arg("done")
        .current_dir(city.root().join("horde/raiders/Shadow"))
        .env("HD_CITY", city.root())
        .env("HD_ACTOR", "horde/raiders/Toast")
        .env("HD_RAIDER", "Toast");
    let ran = run(&mut done);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains("horde/raiders/Toast"), "{}", ran.stderr);
    assert!(!city.root().join(".horde/outbox").exists());
}

#[test]
fn done_outside_a_session_writes_nothing() {
    let city = FakeCity::away();
    let ran = city.run(&["done"]);
    assert_eq!(ran.code, 3);
    assert!(!city.root().join(".horde/outbox").exists());
}

#[test]
fn config_check_and_show_need_no_supervisor() {
    let city = FakeCity::away();
    let ran = city.run(&["config", "check"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = city.run(&["config", "show", "--json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(shown["workspace"]["name"], "fake");
    fs::write(city.root().join("city.toml"), "[workspace]\nnmae = \"x\"\n").unwrap();
    let ran = city.run(&["config", "check"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("city.toml") && ran.stderr.contains("name"),
        "{}",
        ran.stderr
    );
    let ran = city.run(&["config", "check", "--json"]);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &told["ok"]), (2, &json!(false)));
}

fn repository(at: &Path) {
    let init = Command::new("git")
        .args(["init", "-q"])
        .arg(at)
        .status()
        .unwrap();
    assert!(init.success());
}

#[test]
fn init_makes_the_city_beside_the_repository() {
    let temp = horde_supervisor::testing::scratch();
    let repo = temp.path().join("my.tool");
    repository(&repo);
    let ran = run(hd().arg("init").current_dir(&repo));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // Each line can be pasted unchanged.
    let city = temp.path().join("my-tool-city").canonicalize().unwrap();
    let next = format!("next:\n  cd {}\n  hd up -d\n", city.display());
    assert!(ran.stderr.contains(&next), "{}", ran.stderr);
    let ran = run(hd().args(["config", "check"]).current_dir(&city));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!repo.join("city.toml").exists());
    let again = run(hd().arg("init").current_dir(&repo));
    assert_eq!(again.code, 1, "a city is never overwritten");
}

#[test]
fn init_here_stays_out_of_git() {
    let temp = horde_supervisor::testing::scratch();
    let repo = temp.path().join("tool");
    repository(&repo);
    let ran = run(hd().args(["init", "--here"]).current_dir(&repo));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let status = Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(&repo)
        .output();
    assert_eq!(String::from_utf8(status.unwrap().stdout).unwrap(), "");
    assert_eq!(
        run(hd().args(["config", "check"]).current_dir(&repo)).code,
        0
    );
}

#[test]
fn completions_and_manual_pages_come_from_the_same_definition() {
    let ran = run(hd().args(["completions", "bash"]));
    assert!(ran.stdout.contains("unquarantine"));
    let temp = horde_supervisor::testing::scratch();
    let ran = run(hd().args(["man", "--out"]).arg(temp.path()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for page in [
        "hd.1",
        "hd-charge.1",
        "hd-raider-nuke.1",
        "hd-salvage-restore.1",
    ] {
        assert!(temp.path().join(page).is_file(), "{page}");
    }
    assert!(run(hd().arg("man")).stdout.contains(".TH"));
}

#[test]
fn a_wrong_word_is_exit_2_and_help_names_the_exit_codes() {
    assert_eq!(run(hd().arg("chrage")).code, 2);
    let help = run(hd().arg("--help"));
    assert_eq!(help.code, 0);
    assert!(
        help.stdout.contains("10 protocol version mismatch"),
        "{}",
        help.stdout
    );
    assert!(help.stdout.contains("hd demo"), "{}", help.stdout);
}
