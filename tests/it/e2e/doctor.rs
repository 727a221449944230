//! `hd doctor`: each fault is made for real, found, and fixed if no work can be lost by that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use horde_supervisor::adapters::sessions::LocalSessions;
use horde_supervisor::domain::ids::{Generation, Incarnation, SessionId};
use horde_supervisor::ports::sessions::{SessionSpec, Sessions};
use serde_json::Value;

use crate::support::git::{git, write};
use crate::support::live::{City, wait};
use crate::support::plan::Plan;
use crate::support::processes;

/// Runs `hd doctor`. Returns the exit code, and kind, subject and state (fixed or not) of each finding.
fn run(doctor: &mut Command) -> (i32, Vec<(String, String, bool)>) {
    let output = doctor.output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = said["findings"].as_array().unwrap().iter();
    let found = found.map(|it| (text(&it["kind"]), text(&it["subject"]), it["fixed"] == true));
    (output.status.code().unwrap(), found.collect())
}

/// Puts our own programs first in its PATH, because the machine may have another `hd`.
fn doctor(city: &City, program: &str, fix: bool) -> Command {
    let own = cargo_bin("hd");
    let path = std::env::var("PATH").unwrap();
    let mut doctor = city.program(program);
    doctor
        .env(
            "PATH",
            format!("{}:{path}", own.parent().unwrap().display()),
        )
        .args(["--json", "--city"])
        .arg(city.root())
        .arg("doctor");
    if fix {
        doctor.arg("--fix");
    }
    doctor
}

fn kinds(found: &[(String, String, bool)]) -> Vec<&str> {
    found.iter().map(|(kind, ..)| kind.as_str()).collect()
}

/// Starts a session of this city without an owner. Returns its agent's pid.
fn orphan(city: &City) -> u32 {
    let sessions = city.root().join(".horde/sessions");
    let provider = LocalSessions::new(sessions, cargo_bin("horde-supervisor"), "none").unwrap();
    let spec = SessionSpec {
        id: SessionId::new("gt-horde-Ghost").unwrap(),
        generation: Generation(1),
        incarnation: Incarnation(1),
        argv: vec!["sleep".into(), "3600".into()],
        env: [("PATH".to_owned(), std::env::var("PATH").unwrap())].into(),
        cwd: city.root().to_owned(),
        output_limit: 1 << 20,
        meta: Default::default(),
    };
    // The daemon, which knows nothing of this start, may remove the directory at first.
    let started = wait("the orphan", || provider.start(&spec).ok());
    started.agent.pid
}

fn stray(city: &City, name: &str) {
    let (repo, branch) = (
        city.root().join("horde/repo.git"),
        format!("raider/{name}/gt-90-1"),
    );
    let path = city.sandbox(name);
    let path = path.to_str().unwrap();
    git(
        &repo,
        &[
            "worktree",
            "add",
            "--quiet",
            "-b",
            &branch,
            path,
            "origin/main",
        ],
    );
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_city_at_work_is_well() {
    let city = City::new();
    let landed = city.work(
        "land",
        &[
            "echo x >file",
            "git add file",
            "git commit --quiet -m x",
            "hd done",
        ],
    );
    city.wait_status(&landed, "closed");
    city.wait_no_raiders();
    city.work("go on", &["sign up", "forever"]);
    city.wait_sign("up");
    for fix in [false, true] {
        let (code, found) = run(&mut doctor(&city, "hd", fix));
        assert_eq!((code, found), (0, Vec::new()));
    }
    assert_eq!(city.raiders().len(), 1);
}

/// Makes every fault at once. Returns the orphan's process, and the commit that only a stray branch holds.
fn break_all(city: &City) -> (u32, String) {
    let ghost = orphan(city);
    for name in ["Rust", "Nux"] {
        stray(city, name);
    }
    write(&city.sandbox("Nux"), "half-done", "precious");
    let repo = city.root().join("horde/repo.git");
    git(&repo, &["branch", "raider/Ghost/gt-91-1", "origin/main"]);
    let who = ["-c", "user.name=x", "-c", "user.email=x"];
    let tree = git(&repo, &["rev-parse", "origin/main^{tree}"]);
    let commit = [&who[..], &["commit-tree", "-m", "x", tree.trim()]].concat();
    let lone = git(&repo, &commit).trim().to_owned();
    git(&repo, &["branch", LONE, &lone]);
    let state = city.root().join(".horde");
    write(&state, "trash/horde-Toast-1/file", "x");
    write(&state, "outbox/1-2.refused", "{}");
    mode(&state, 0o755);
    (ghost, lone)
}

const LONE: &str = "raider/Ghost/gt-92-1";

/// Returns the findings that were fixed, or those that were not.
fn of(found: &[(String, String, bool)], mended: bool) -> Vec<String> {
    let of = found.iter().filter(|it| it.2 == mended);
    let mut of: Vec<_> = of.map(|it| it.1.clone()).collect();
    of.sort();
    of
}

#[test]
fn every_fault_is_found_and_mended_without_loss() {
    let city = City::new();
    let (ghost, lone) = break_all(&city);
    let (repo, state) = (
        city.root().join("horde/repo.git"),
        city.root().join(".horde"),
    );
    let mut mendable = vec![
        state.to_str().unwrap().to_owned(),
        state
            .join("outbox/1-2.refused")
            .to_str()
            .unwrap()
            .to_owned(),
        "gt-horde-Ghost".to_owned(),
        "horde raider/Ghost/gt-91-1".to_owned(),
        "horde/raiders/Rust".to_owned(),
        "trash".to_owned(),
    ];
    mendable.sort();
    let kept = [format!("horde {LONE}"), "horde/raiders/Nux".to_owned()];
    let (code, found) = run(&mut doctor(&city, "hd", false));
    let mut all = [&mendable[..], &kept[..]].concat();
    all.sort();
    assert_eq!((code, of(&found, false)), (1, all));
    assert!(processes::runs(ghost), "a look changes nothing");

    let (code, found) = run(&mut doctor(&city, "hd", true));
    assert_eq!(of(&found, true), mendable, "{found:?}");
    assert_eq!((code, of(&found, false)), (1, kept.to_vec()));
    assert!(!processes::runs(ghost) && !city.sandbox("Rust").exists());
    let half = city.sandbox("Nux").join("half-done");
    assert_eq!(fs::read_to_string(&half).unwrap(), "precious");
    assert_eq!(git(&repo, &["rev-parse", LONE]).trim(), lone);
    let closed = fs::metadata(&state).unwrap().permissions();
    assert_eq!(closed.mode() & 0o777, 0o700);

    // A person settles the rest.
    fs::remove_file(half).unwrap();
    git(&repo, &["branch", "-D", LONE]);
    let (code, found) = run(&mut doctor(&city, "hd", true));
    assert_eq!((code, of(&found, true)), (0, vec![kept[1].clone()]));
    assert_eq!(run(&mut doctor(&city, "hd", false)), (0, Vec::new()));
}

/// As the hint says: the work of a stray sandbox is saved, and its slot is free.
#[test]
fn a_stray_sandbox_with_work_goes_by_the_nuke_that_is_named() {
    let city = City::new();
    stray(&city, "Nux");
    write(&city.sandbox("Nux"), "half-done", "precious");
    let nux = "horde/raiders/Nux";
    let said = doctor(&city, "hd", true).output().unwrap();
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let (finding, salvage) = (&said["findings"][0], ["--salvage", "--yes"]);
    assert_eq!(finding["subject"], nux);
    let hint = finding["hint"].as_str().unwrap();
    assert!(
        hint.contains(&format!("hd raider nuke {nux} --salvage")),
        "{hint}"
    );
    city.hd(&["raider", "nuke", nux, "--yes"]).error(5);
    let nuked = city.hd(&[&["raider", "nuke", nux][..], &salvage].concat());
    let nuked = nuked.json();
    assert!(!city.sandbox("Nux").exists());
    let id = nuked["salvage"].as_str().unwrap();
    let restored = city.hd(&["salvage", "restore", id]).json();
    let half = Path::new(restored["path"].as_str().unwrap()).join("half-done");
    assert_eq!(fs::read_to_string(half).unwrap(), "precious");
    let (_, found) = run(&mut doctor(&city, "hd", true));
    assert!(!kinds(&found).contains(&"stray_sandbox"), "{found:?}");
}

#[test]
fn another_hd_is_told_of_unless_we_are_called_horde() {
    let city = City::new();
    write(city.root(), "debian/hd", "#!/bin/sh\nexec hexdump -C\n");
    mode(&city.root().join("debian/hd"), 0o755);
    let path = format!(
        "{}/debian:{}",
        city.root().display(),
        std::env::var("PATH").unwrap()
    );
    let (code, found) = run(doctor(&city, "hd", true).env("PATH", &path));
    assert_eq!((code, kinds(&found)), (1, vec!["shadowed_hd"]));
    let (code, found) = run(doctor(&city, "horde", false).env("PATH", &path));
    assert_eq!((code, found), (0, Vec::new()));
}

#[test]
fn doctor_without_a_supervisor_reports_local_findings() {
    let mut city = City::new();
    city.stop();
    mode(&city.root().join(".horde"), 0o750);
    let (code, found) = run(&mut doctor(&city, "hd", true));
    assert_eq!(
        (code, kinds(&found)),
        (3, vec!["supervisor", "permissions"])
    );
    assert!(found[1].2, "{found:?}");
    let (code, found) = run(doctor(&city, "hd", false).env("PATH", "/is-not-there"));
    assert_eq!(
        (code, kinds(&found)),
        (3, vec!["supervisor", "git_version", "program"])
    );
    write(city.root(), "city.toml", "[workspace]\nnam = 1\n");
    let (code, found) = run(&mut doctor(&city, "hd", false));
    assert_eq!((code, kinds(&found)), (3, vec!["supervisor", "config"]));
}

/// The finding names the harness and the agents that cannot start without the program.
#[test]
fn a_program_that_sessions_do_not_find_is_named() {
    let harness = "[harness.ghost]\ncommand = [\"no-such-agent\"]\n\
                   [[agents]]\nname = \"mayor\"\nharness = \"ghost\"\nprompt = \"go\"\nsuspended = true\n\
                   [[agents]]\nname = \"clerk\"\ncommand = [\"/no/such/clerk\"]\nsuspended = true\n";
    let city = Plan::new().add(harness).start();
    let output = doctor(&city, "hd", true).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = said["findings"].as_array().unwrap().iter();
    let told = told.map(|it| [&it["kind"], &it["subject"], &it["says"]].map(|it| it.as_str()));
    let told: Vec<_> = told.map(|it| it.map(Option::unwrap_or_default)).collect();
    let [clerk, ghost] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(clerk[..2], ["program", "agent clerk"]);
    assert!(
        clerk[2].starts_with("/no/such/clerk does not exist"),
        "{clerk:?}"
    );
    assert_eq!(ghost[..2], ["program", "harness ghost"]);
    assert!(
        ghost[2].contains("no-such-agent is not in the PATH"),
        "{ghost:?}"
    );
    assert!(
        ghost[2].contains("of agent mayor cannot start"),
        "{ghost:?}"
    );
}

/// The supervisor cannot start with this git; the doctor tells why.
#[test]
fn a_repository_that_cannot_be_copied_is_told() {
    let city = City::made(&Plan::new());
    let checkout = city.root().join("horde-checkout");
    let origin = format!("file://{}", city.origin().display());
    write(&checkout, "more", "more\n");
    git(&checkout, &["add", "."]);
    git(
        &checkout,
        &[
            "-c",
            "user.name=x",
            "-c",
            "user.email=x",
            "commit",
            "--quiet",
            "-m",
            "second",
        ],
    );
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    fs::remove_dir_all(&checkout).unwrap();
    git(
        city.root(),
        &[
            "clone",
            "--quiet",
            "--depth",
            "1",
            &origin,
            "horde-checkout",
        ],
    );
    assert_eq!(
        kinds(&run(&mut doctor(&city, "hd", false)).1),
        ["supervisor"]
    );
    git(&checkout, &["remote", "rename", "origin", "elsewhere"]);
    let (code, found) = run(&mut doctor(&city, "hd", false));
    assert_eq!((code, kinds(&found)), (3, vec!["supervisor", "repository"]));
    // The supervisor holds the rig, and reports that itself.
    let mut city = city;
    city.start();
    let says = |city: &City| city.hd(&["status"]).json()["ground"][0]["says"].clone();
    let said = wait("it is said", || says(&city).as_str().map(str::to_owned));
    assert!(said.starts_with("rig horde is held: "), "{said}");
}

/// The supervisor keeps the git that it was started with.
#[test]
fn another_git_than_the_supervisors_is_told() {
    let city = City::new();
    let git = city.root().join("other/git");
    write(
        city.root(),
        "other/git",
        "#!/bin/sh\n[ \"$1\" = version ] && { echo git version 99.1.2; exit; }\nPATH=${PATH#*:} exec git \"$@\"\n",
    );
    mode(&git, 0o755);
    let mut doctor = doctor(&city, "hd", false);
    let path = doctor.get_envs().find(|(name, _)| *name == "PATH");
    let path = path.unwrap().1.unwrap().to_str().unwrap().to_owned();
    let other = git.parent().unwrap().display();
    let output = doctor
        .env("PATH", format!("{other}:{path}"))
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &said["findings"][0];
    assert_eq!(finding["kind"], "git_version", "{said}");
    let says = finding["says"].as_str().unwrap();
    assert!(
        says.contains("99.1.2") && says.contains("the supervisor uses"),
        "{says}"
    );
    assert_eq!(output.status.code(), Some(1));
}
