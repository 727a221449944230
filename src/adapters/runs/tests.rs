//! Rights and ends of the processes of runs, on real processes.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::*;
use crate::adapters::commands::process::{self, Script};
use crate::testing::eventually;

fn read_pid(path: &Path) -> u32 {
    eventually("a pid is written", || {
        fs::read_to_string(path).ok()?.trim().parse().ok()
    })
}

/// A line that leaves a process without its parent, session, group and environment.
const STRAY: &str = "(setsid env -i /bin/sh -c 'sh -c \"echo \\$\\$ >pid; exec sleep 300\" &' &)";

/// Waits until the process that wrote its pid has been handed to a keeper.
fn wait_adopted(pid: u32) -> u32 {
    eventually("it has a keeper", || {
        let parent = proc::stat(pid).unwrap()?.parent;
        keeper::is_keeper(parent).then_some(parent)
    })
}

fn lives(pid: u32) -> bool {
    proc::stat(pid).unwrap().is_some_and(|stat| stat.lives())
}

/// Runs the line until `go` is opened, and meanwhile judges the process whose pid the line wrote.
fn judged(line: &str, rights: Rights) -> Option<Rights> {
    let dir = crate::testing::scratch();
    let (path, go) = (dir.path().to_owned(), dir.path().join("go"));
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let is_stray = line == STRAY;
    let line = format!("{line}\nread _ <go");
    let script = move || {
        let own = Run::begin(&path.join("runs"), rights).unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let script = Script {
            line: &line,
            dir: &path,
            env: &env,
            stdin: Stdio::null(),
            limit: Duration::from_secs(300),
            stop: None,
        };
        process::run(script, &own, &mut |_| {}).unwrap();
        own.end().unwrap();
    };
    let running = std::thread::spawn(script);
    let pid = read_pid(&dir.path().join("pid"));
    if is_stray {
        wait_adopted(pid);
    }
    let found = rights_of(pid);
    fs::write(&go, "\n").unwrap();
    running.join().unwrap();
    found
}

#[test]
fn processes_of_a_run_have_its_rights_and_no_others() {
    let child = "sleep 300 & echo $! >pid";
    let bare = "env -i sh -c 'echo $$ >pid; exec sleep 300' &";
    let aside = "(setsid sh -c 'echo $$ >pid; exec sleep 300' &)";
    for line in [child, bare, aside, STRAY] {
        for rights in [Rights::Read, Rights::Work, Rights::All] {
            assert_eq!(judged(line, rights), Some(rights), "{line}");
        }
    }
}

/// A daemon was killed, and its keeper goes on with a process that carries no mark itself.
#[test]
fn what_a_killed_daemon_left_below_a_keeper_has_read_rights_and_is_ended() {
    let dir = crate::testing::scratch();
    work_for(dir.path());
    let mut command = keeper::of(&format!("{STRAY}; trap '' TERM; sleep 300; :"));
    command.current_dir(dir.path()).env(TOKEN, "7-8-9");
    command.env(ERRAND, errand().unwrap());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: both are async-signal-safe.
    unsafe {
        command.pre_exec(|| match nix::unistd::fork()? {
            nix::unistd::ForkResult::Parent { .. } => nix::libc::_exit(0),
            nix::unistd::ForkResult::Child => Ok(()),
        });
    }
    command.spawn().unwrap().wait().unwrap();
    let stray = read_pid(&dir.path().join("pid"));
    let keeper = wait_adopted(stray);
    let line = proc::ancestry(keeper).unwrap();
    let own = std::process::id();
    assert!(line.iter().all(|above| above.pid != own), "{line:?}");
    assert_eq!(rights_of(stray), Some(Rights::Read));
    let runs = dir.path().join("runs");
    fs::create_dir(&runs).unwrap();
    fs::write(runs.join("7-8-9"), "").unwrap();
    end_leftovers(&runs).unwrap();
    assert!(!lives(stray) && !lives(keeper));
}

/// Processes that a killed keeper sets free are found by their token, and ended with the run.
#[test]
fn run_whose_keeper_is_killed_has_failed_and_is_ended_by_its_token() {
    let dir = crate::testing::scratch();
    let own = Run::begin(&dir.path().join("runs"), Rights::Read).unwrap();
    let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let script = Script {
        line: "echo $$ >pid; kill -9 $PPID; exec sleep 300",
        dir: dir.path(),
        env: &env,
        stdin: Stdio::null(),
        limit: Duration::from_secs(300),
        stop: None,
    };
    let end = process::run(script, &own, &mut |_| {}).unwrap();
    let killed = matches!(
        end,
        process::End::Ended {
            code: None,
            signal: Some(9),
            cut: None
        }
    );
    assert!(killed, "{end:?}");
    own.end().unwrap();
    assert!(!lives(read_pid(&dir.path().join("pid"))));
}

/// A hook of git may leave a process that has neither its parent, its group nor its environment.
#[test]
fn process_left_behind_by_git_has_read_rights() {
    use crate::adapters::git::command::Git;
    let dir = crate::testing::scratch();
    work_for(dir.path());
    for line in ["(setsid sh -c 'echo $$ >pid; exec sleep 300' &)", STRAY] {
        let alias = format!(
            "alias.bg=!cd {} && {line} >/dev/null 2>&1",
            dir.path().display()
        );
        let git = Git::in_dir(dir.path()).as_user();
        git.args(["-c", &alias, "bg"]).run().unwrap();
        let stray = read_pid(&dir.path().join("pid"));
        let is_ours = |above: &ProcessId| above.pid == std::process::id();
        let left = || {
            let line = proc::ancestry(stray).unwrap();
            (!line.iter().any(is_ours)).then_some(())
        };
        eventually("it is left behind", left);
        let found = rights_of(stray);
        nix::sys::signal::kill(Pid::from_raw(stray.cast_signed()), Signal::SIGKILL).unwrap();
        assert_eq!(found, Some(Rights::Read), "{line}");
        fs::remove_file(dir.path().join("pid")).unwrap();
    }
}

#[test]
fn errand_of_another_city_is_nothing_here() {
    let dir = crate::testing::scratch();
    work_for(dir.path());
    let mut another = Command::new("sh");
    another.args(["-c", "(setsid sh -c 'echo $$ >pid; exec sleep 300' &)"]);
    another.env(ERRAND, "/another/city").current_dir(dir.path());
    another.status().unwrap();
    let other = read_pid(&dir.path().join("pid"));
    let found = rights_of(other);
    nix::sys::signal::kill(Pid::from_raw(other.cast_signed()), Signal::SIGKILL).unwrap();
    assert_eq!(found, None);
}

fn sleeper(token: Option<&str>) -> std::process::Child {
    let mut sleep = Command::new("sleep");
    sleep.arg("300").process_group(0);
    sleep.envs(token.map(|token| (TOKEN, token)));
    sleep.spawn().unwrap()
}

/// A record is a file, and agents write files: neither the pid nor the token in one is trusted.
#[test]
fn forged_record_ends_no_stranger_and_no_run_of_another_directory() {
    let dir = crate::testing::scratch();
    let (ours, forged) = (dir.path().join("ours"), dir.path().join("forged"));
    let run = Run::begin(&ours, Rights::Read).unwrap();
    let mut stranger = sleeper(None);
    let mut running = sleeper(Some(&*run.token));
    run.started(running.id()).unwrap();
    fs::create_dir(&forged).unwrap();
    for (name, process) in [("1-2-3", &stranger), (&*run.token, &running)] {
        let named = proc::identify(process.id()).unwrap();
        let record = format!("{} {}", named.pid, named.started);
        fs::write(forged.join(name), record).unwrap();
    }
    end_leftovers(&forged).unwrap();
    let ended = [&mut stranger, &mut running].map(|child| child.try_wait().unwrap());
    let left = fs::read_dir(&forged).unwrap().count();
    run.end().unwrap();
    let killed = running.wait().unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!(ended, [None, None], "stranger and run live");
    assert_eq!(left, 0, "the forged records are gone");
    assert!(
        !killed.success(),
        "the run itself is ended by its own record"
    );
}

/// The shell of a run carries its token; its children may not, but stay in the shell's group.
#[test]
fn group_of_a_leader_with_the_token_is_ended_after_the_daemon_was_killed() {
    let dir = crate::testing::scratch();
    let mut shell = Command::new("sh");
    shell.args(["-c", "env -i sleep 300 & echo $! >pid; wait"]);
    shell.current_dir(dir.path()).env(TOKEN, "4-5-6");
    let mut shell = shell.process_group(0).spawn().unwrap();
    let child = read_pid(&dir.path().join("pid"));
    let runs = dir.path().join("runs");
    fs::create_dir(&runs).unwrap();
    fs::write(runs.join("4-5-6"), "").unwrap();
    end_leftovers(&runs).unwrap();
    shell.wait().unwrap();
    eventually("its child has ended", || (!lives(child)).then_some(()));
}

#[test]
fn other_child_processes_have_read_rights_whatever_token_they_carry() {
    let dir = crate::testing::scratch();
    let owners = Run::begin(dir.path(), Rights::All).unwrap();
    let agents = Run::begin(dir.path(), Rights::Read).unwrap();
    let mut hook = Command::new("sh")
        .args([
            "-c",
            "env HD_RUN_TOKEN=$OTHER sleep 300 & echo $! >pid; wait",
        ])
        .current_dir(dir.path())
        .env(TOKEN, &agents.token)
        .env("OTHER", &owners.token)
        .process_group(0)
        .spawn()
        .unwrap();
    let forger = read_pid(&dir.path().join("pid"));
    let found = (rights_of(hook.id()), rights_of(forger));
    hook.kill().unwrap();
    hook.wait().unwrap();
    for run in [&owners, &agents] {
        run.end().unwrap();
    }
    assert_eq!(found, (Some(Rights::Read), Some(Rights::Read)));
    assert_eq!(rights_of(std::process::id()), None, "we are no errand");
    let gone = Some(Rights::Read);
    assert_eq!(rights_of(hook.id()), gone, "what it was is unknown");
}
