//! Tests of task files in a real directory.

mod heard;
mod replaced;

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use notify::RecursiveMode;

use super::*;
use crate::ports::tasks::TaskEvent;

fn files(city: &Path) -> DiskTaskFiles {
    DiskTaskFiles::new(city.join("outbox"), city.join("trash"), city.join("set-up")).unwrap()
}

#[test]
fn only_old_files_below_the_directory_are_pruned() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let logs = city.path().join("logs");
    assert_eq!(tasks.prune(&logs, expired(Timestamp::MAX), &[]), Ok(0));
    let (old, young) = (logs.join("horde/old"), logs.join("horde/young"));
    fs::create_dir_all(logs.join("horde")).unwrap();
    for file in [&old, &young] {
        fs::write(file, "log").unwrap();
    }
    let past = std::time::SystemTime::now() - Duration::from_secs(7200);
    fs::File::open(&old).unwrap().set_modified(past).unwrap();
    let before = Timestamp::now() - Duration::from_secs(3600);
    assert_eq!(tasks.prune(&logs, expired(before), &[]), Ok(1));
    assert!(!old.exists() && young.exists());
}

fn expired(before: Timestamp) -> Expired {
    Expired {
        before: Some(before),
        replaced_before: None,
    }
}

#[test]
fn directory_is_removed_with_its_last_file_unless_in_use() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let root = city.path().join("tasks");
    let dirs = ["gt-1/1", "gt-1/2", "gt-2/1"].map(|dir| root.join("horde").join(dir));
    let past = std::time::SystemTime::now() - Duration::from_secs(7200);
    let age = |path: &Path| fs::File::open(path).unwrap().set_modified(past).unwrap();
    for dir in &dirs {
        tasks.write_task(dir, "do it").unwrap();
        tasks.unwatch(dir);
        for name in ["TASK.md", "outcome", ""] {
            age(&dir.join(name));
        }
    }
    let new = root.join("horde/gt-3/1");
    fs::create_dir_all(&new).unwrap();
    for relic in ["gt-1", "gt-2"] {
        age(&root.join("horde").join(relic));
    }
    let before = Timestamp::now() - Duration::from_secs(3600);
    assert_eq!(tasks.prune(&root, expired(before), &dirs[1..2]), Ok(4));
    let there = dirs.each_ref().map(|dir| dir.exists());
    assert_eq!(there, [false, true, false]);
    assert!(!root.join("horde/gt-2").exists());
    assert!(dirs[1].join("TASK.md").exists() && new.exists());
}

/// A watcher for the case that this user's agents have taken every watch.
struct NoneLeft;

impl Watcher for NoneLeft {
    fn new<F: notify::EventHandler>(_: F, _: notify::Config) -> notify::Result<Self> {
        Ok(Self)
    }

    fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
        Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch))
    }

    fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
        Ok(())
    }

    fn kind() -> notify::WatcherKind {
        notify::WatcherKind::NullWatcher
    }
}

/// Makes task files whose watchers and watches depend on `open`.
fn scarce(city: &Path, open: Open) -> DiskTaskFiles {
    let dirs = ["outbox", "trash", "set-up"].map(|dir| city.join(dir));
    let [outbox, trash, set_ups] = dirs;
    DiskTaskFiles::with(outbox, trash, set_ups, open).unwrap()
}

#[test]
fn a_task_that_cannot_be_watched_is_a_task() {
    let city = crate::testing::scratch();
    let tasks = scarce(city.path(), Box::new(|_| Ok(Box::new(NoneLeft))));
    assert!(tasks.unwatched().is_some(), "at the start, which goes on");
    let dir = city.path().join("task");
    tasks.write_task(&dir, "do it").unwrap();
    assert_eq!(fs::read_to_string(dir.join("TASK.md")).unwrap(), "do it");
    fs::write(dir.join("outcome"), "passed").unwrap();
    assert_eq!(tasks.outcome(&dir, city.path()).unwrap().text, "passed");
    assert_eq!(tasks.watches.missing(), 2);
    tasks.unwatch(&dir);
    assert_eq!(tasks.watches.missing(), 1);
}

#[test]
fn a_kernel_that_had_no_watcher_left_is_asked_again() {
    let city = crate::testing::scratch();
    let some = Arc::new(AtomicBool::new(false));
    let there = Arc::clone(&some);
    let open = move |heard: Heard| -> notify::Result<Box<dyn Watcher + Send>> {
        match there.load(Ordering::Relaxed) {
            true => Ok(Box::new(notify::recommended_watcher(heard)?)),
            false => Err(notify::Error::generic("too many open files")),
        }
    };
    let tasks = scarce(city.path(), Box::new(open));
    let (tell, told) = mpsc::channel();
    tasks.listen(Box::new(move |event| {
        let _closed = tell.send(event);
    }));
    let dir = city.path().join("task");
    tasks.write_task(&dir, "do it").unwrap();
    assert!(tasks.outbox().unwrap().is_empty());
    some.store(true, Ordering::Relaxed);
    // Each patrol does this.
    assert!(tasks.outbox().unwrap().is_empty());
    let hear = || told.recv_timeout(Duration::from_secs(20)).unwrap();
    fs::write(dir.join("outcome"), "passed").unwrap();
    assert_eq!(hear(), TaskEvent::Outcome(dir));
    fs::write(city.path().join("outbox/a.json"), "{}").unwrap();
    while hear() != TaskEvent::Outbox {}
    assert!(tasks.unwatched().is_none(), "it would be said again");
}

#[test]
fn a_charge_starts_with_an_empty_outcome() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let dir = city.path().join("task");
    tasks.write_task(&dir, "do it").unwrap();
    fs::write(dir.join("outcome"), "passed").unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    assert_eq!(tasks.outcome(&dir, city.path()).unwrap().text, "");
}

#[test]
fn intents_come_in_order_and_can_be_set_aside() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let intent = r#"{"v":1,"op":"done","args":{},"raider":"Toast","rig":"r","incarnation":1,"cwd":"/s","pid":1,"at":"2026-01-31T12:00:00Z"}"#;
    fs::write(city.path().join("outbox/a.json"), intent).unwrap();
    fs::write(city.path().join("outbox/b.json"), "not an intent").unwrap();
    fs::write(city.path().join("outbox/c.tmp"), "half").unwrap();
    let found = tasks.outbox().unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found.iter().filter(|(_, intent)| intent.is_ok()).count(), 1);
    let garbage = found.iter().find(|(_, intent)| intent.is_err());
    let (garbage, _) = garbage.unwrap();
    tasks.set_aside(garbage).unwrap();
    assert!(city.path().join("outbox/b.refused").exists());
    let (path, _) = found.iter().find(|(_, intent)| intent.is_ok()).unwrap();
    tasks.set_aside(path).unwrap();
    assert!(city.path().join("outbox/a.refused").exists());
    assert!(tasks.outbox().unwrap().is_empty());
    fs::write(path, intent).unwrap();
    tasks.remove_intent(path).unwrap();
    tasks.remove_intent(path).unwrap();
    assert!(tasks.outbox().unwrap().is_empty());
}

#[test]
fn where_a_directory_really_is_counts() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let (own, other) = (city.path().join("own"), city.path().join("other"));
    for dir in [own.join("deep"), other.clone()] {
        fs::create_dir_all(dir).unwrap();
    }
    std::os::unix::fs::symlink(&other, own.join("link")).unwrap();
    for within in ["", "deep", "deep/.."] {
        assert!(tasks.is_within(&own.join(within), &own), "{within}");
    }
    for beyond in ["..", "link", "deep/../../other", "is-not-there"] {
        assert!(!tasks.is_within(&own.join(beyond), &own), "{beyond}");
    }
    assert!(!tasks.is_within(Path::new(""), &own));
}

#[test]
fn failing_set_up_reports_its_output() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let commands = ["touch made".to_owned(), "echo broken; exit 3".to_owned()];
    let error = tasks.set_up(city.path(), &commands, &env).unwrap_err();
    assert!(error.why.contains("broken"), "{error}");
    assert!(city.path().join("made").exists());
}

#[test]
fn the_trash_is_emptied_of_everything_and_links_are_not_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let (trash, precious) = (city.path().join("trash"), city.path().join("precious"));
    fs::create_dir_all(trash.join("old/cache")).unwrap();
    fs::create_dir(&precious).unwrap();
    for file in [
        trash.join("old/cache/file"),
        trash.join("file"),
        precious.join("file"),
    ] {
        fs::write(file, "x").unwrap();
    }
    symlink(&precious, trash.join("link")).unwrap();
    symlink(&precious, trash.join("old/link")).unwrap();
    for dir in ["old/cache", "old"] {
        let mode = fs::Permissions::from_mode(0o500);
        fs::set_permissions(trash.join(dir), mode).unwrap();
    }
    tasks.empty_trash().unwrap();
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
    assert!(precious.join("file").exists());
    tasks.empty_trash().unwrap();
}

/// A process works in, writes to, or has a directory open of a thrown-away directory; and files that it wrote.
#[test]
fn trash_in_use_stays_and_files_written_there_are_not_deleted() {
    let dir = crate::testing::scratch();
    let trash = dir.path().join("trash");
    let tasks = files(dir.path());
    for name in ["stood-in", "written", "reached"] {
        fs::create_dir_all(trash.join(name).join("sub")).unwrap();
        fs::write(trash.join(name).join("file"), "old").unwrap();
    }
    let start = |command: &mut std::process::Command| {
        let child = command.stdin(std::process::Stdio::piped()).spawn();
        child.unwrap()
    };
    let mut cat = std::process::Command::new("cat");
    let stands = start(cat.current_dir(trash.join("stood-in/sub")));
    let mut cat = std::process::Command::new("cat");
    let late = fs::File::create(trash.join("written/late")).unwrap();
    let writes = start(cat.stdout(late));
    let mut shell = std::process::Command::new("sh");
    let script =
        "exec 3<\"$0\"; echo >&2; read -r line; printf '%s' \"$line\" >/proc/self/fd/3/late";
    let shell = shell.args(["-c", script]).arg(trash.join("reached/sub"));
    let mut reaches = start(shell.stderr(std::process::Stdio::piped()));
    let mut opened = [0];
    let told = reaches.stderr.as_mut().unwrap();
    std::io::Read::read_exact(told, &mut opened).unwrap();
    let changed = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    // Waits for the next tick of the clock of the kernel's stamps.
    crate::testing::eventually("another stamp", || {
        fs::write(dir.path().join("probe"), "").unwrap();
        let now = changed(&dir.path().join("probe"));
        (now > changed(&trash.join("stood-in/file"))).then_some(())
    });
    tasks.empty_trash().unwrap();
    assert_eq!(tasks.leftovers().unwrap().trash.len(), 3);
    assert!(tasks.written_in_trash().is_empty());
    for (mut child, text) in [(stands, ""), (writes, "late"), (reaches, "late\n")] {
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, text.as_bytes()).unwrap();
        drop(input);
        child.wait().unwrap();
    }
    // A person who looks at what was written is no reason to say no more of it.
    let mut cat = std::process::Command::new("cat");
    let mut looks = start(cat.current_dir(trash.join("written")));
    for _ in 0..2 {
        tasks.empty_trash().unwrap();
        let late = [("reached", "reached/sub/late"), ("written", "written/late")];
        let late = late.map(|(entry, file)| (trash.join(entry), trash.join(file)));
        assert!(tasks.leftovers().unwrap().trash.is_empty());
        assert_eq!(tasks.written_in_trash(), late.clone().into());
        for (_, file) in late {
            assert_eq!(fs::read(file).unwrap(), b"late");
        }
    }
    drop(looks.stdin.take());
    looks.wait().unwrap();
    for name in ["reached", "written"] {
        fs::remove_dir_all(trash.join(name)).unwrap();
    }
    tasks.empty_trash().unwrap();
    assert!(tasks.written_in_trash().is_empty());
    assert_eq!(fs::read_dir(&trash).unwrap().count(), 0);
}

/// An agent puts a link to a person's directory there.
#[test]
fn nothing_is_removed_or_renamed_behind_a_link() {
    let home = crate::testing::scratch();
    let city = crate::testing::scratch();
    for name in ["dir/file", "a.json"].map(|name| home.path().join(name)) {
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        fs::write(name, "precious").unwrap();
    }
    let tasks = files(city.path());
    let link = |name: &str| {
        let at = city.path().join(name);
        let _was_there = fs::remove_dir(&at);
        std::os::unix::fs::symlink(home.path(), &at).unwrap();
        at
    };
    link("trash");
    assert!(tasks.empty_trash().is_err());
    let all = expired(Timestamp::MAX);
    assert!(tasks.prune(&link("tasks"), all, &[]).is_err());
    let intent = link("outbox").join("a.json");
    assert!(tasks.outbox().is_err());
    assert!(tasks.set_aside(&intent).is_err() && tasks.remove_intent(&intent).is_err());
    for name in ["dir/file", "a.json"] {
        assert_eq!(fs::read(home.path().join(name)).unwrap(), b"precious");
    }
    // At the next start both are directories again.
    let tasks = files(city.path());
    tasks.empty_trash().unwrap();
    assert!(tasks.outbox().unwrap().is_empty());
    assert!(
        city.path()
            .join("trash")
            .symlink_metadata()
            .unwrap()
            .is_dir()
    );
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

/// Runs it in a thread of its own, so that a call that blocks for ever does not block the test.
fn soon<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(run()));
    let limit = Duration::from_secs(20);
    told.recv_timeout(limit)
        .expect("an answer within the limit")
}

#[test]
fn irregular_file_delays_no_reader() {
    let city = crate::testing::scratch();
    let tasks = Arc::new(files(city.path()));
    let own = Arc::clone(&tasks);
    fifo(&city.path().join("outbox/a.json"));
    let found = soon(move || own.outbox().unwrap());
    assert!(matches!(&found[..], [(_, Err(_))]), "{found:?}");
    let (dir, sandbox) = (city.path().join("task"), city.path().join("sandbox"));
    for path in [&dir, &sandbox] {
        fs::create_dir(path).unwrap();
    }
    fifo(&dir.join("outcome"));
    fifo(&sandbox.join(".horde-outcome"));
    let (own, of) = (Arc::clone(&tasks), (dir.clone(), sandbox.clone()));
    let found = soon(move || own.outcome(&of.0, &of.1)).unwrap();
    assert!(
        found.written.is_some(),
        "it can be told apart from a new one"
    );
    let odd = found.odd;
    assert!(odd.is_some_and(|why| why.contains("regular file")));
    // The next incarnation has a file again.
    let (own, of) = (Arc::clone(&tasks), dir.clone());
    soon(move || own.write_task(&of, "do it")).unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "");
}

#[test]
fn an_outcome_file_is_replaced_and_never_written_through() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let (dir, precious) = (city.path().join("task"), city.path().join("precious"));
    fs::create_dir(&dir).unwrap();
    fs::write(&precious, "x").unwrap();
    std::os::unix::fs::symlink(&precious, dir.join("outcome")).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "x");
    assert!(dir.join("outcome").symlink_metadata().unwrap().is_file());
}

#[test]
fn outcome_file_from_the_repository_is_no_outcome() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let (dir, sandbox) = (city.path().join("task"), city.path().join("sandbox"));
    tasks.write_task(&dir, "do it").unwrap();
    fs::create_dir(&sandbox).unwrap();
    let own = sandbox.join(".horde-outcome");
    fs::write(&own, "passed").unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "passed");
    let of = sandbox.clone();
    tasks.ask_of_commits(Box::new(move |sandbox, name, bytes| {
        Some(
            match (sandbox, name, bytes) == (&of, ".horde-outcome", Some(b"passed")) {
                true => Committed::Before,
                false => Committed::No,
            },
        )
    }));
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "");
    fs::write(&own, "its own").unwrap();
    assert_eq!(tasks.outcome(&dir, &sandbox).unwrap().text, "its own");
}

/// Anything that an agent puts in place of a file is not read, does not block, and is not written through.
/// Case task-links of an adversary: links in the place of outcome, task and prompt.
#[test]
fn links_and_pipes_of_agents_are_not_followed() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let (dir, sandbox) = (
        city.path().join("tasks/rig/gt-1/1"),
        city.path().join("raiders/Toast"),
    );
    fs::create_dir_all(&sandbox).unwrap();
    tasks.write_task(&dir, "do it").unwrap();
    let secret = city.path().join("secret");
    fs::write(&secret, "\"hunter2\"").unwrap();
    let link = |at: &Path| {
        let _was_there = fs::remove_file(at);
        std::os::unix::fs::symlink(&secret, at).unwrap();
    };
    let read = || tasks.outcome(&dir, &sandbox).unwrap();
    link(&sandbox.join(".horde-outcome"));
    assert_eq!(read().text, "");
    assert!(read().odd.unwrap().contains("link"));
    fs::remove_file(sandbox.join(".horde-outcome")).unwrap();
    link(&dir.join("outcome"));
    let odd = read();
    assert_eq!(odd.text, "");
    assert!(odd.odd.unwrap().contains("link"));
    fs::remove_file(dir.join("outcome")).unwrap();
    nix::unistd::mkfifo(&dir.join("outcome"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(read().odd.is_some());
    for name in ["TASK.md", "outcome", "TASK.md.new", "prompt.md"] {
        link(&dir.join(name));
    }
    tasks.write_task(&dir, "do more").unwrap();
    tasks.write_prompt(&dir, "prompt").unwrap();
    link(&city.path().join("outbox/1.json"));
    let left = tasks.outbox().unwrap();
    assert!(
        left[0].1.as_ref().unwrap_err().why.contains("link"),
        "{left:?}"
    );
    let elsewhere = city.path().join("elsewhere");
    fs::rename(&dir, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
    fs::write(elsewhere.join("outcome"), "stolen").unwrap();
    assert_eq!(read().text, "");
    assert!(tasks.write_task(&dir, "x").is_err());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "\"hunter2\"");
    assert_eq!(
        fs::read_to_string(elsewhere.join("TASK.md")).unwrap(),
        "do more"
    );
}
