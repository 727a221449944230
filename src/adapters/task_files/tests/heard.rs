//! Outcome files are heard of, whatever an editor makes of their links.

use super::*;

/// Weakness W6 of an earlier system: an editor that saves by renaming replaced the link to the outcome file, and its
/// text was never read.
#[test]
fn an_outcome_is_heard_of_however_it_is_written() {
    let city = crate::testing::scratch();
    let tasks = files(city.path());
    let (tell, told) = mpsc::channel();
    tasks.listen(Box::new(move |event| {
        let _closed = tell.send(event);
    }));
    // A task directory, and a sandbox with a link to its outcome.
    let place = |name: &str| {
        let (dir, sandbox) = (city.path().join("tasks").join(name), city.path().join(name));
        tasks.write_task(&dir, "do it").unwrap();
        fs::create_dir(&sandbox).unwrap();
        std::os::unix::fs::symlink(dir.join("outcome"), sandbox.join(".horde-outcome")).unwrap();
        tasks.watch(&dir, &sandbox);
        (dir, sandbox)
    };
    // Returns what was heard before an event of this place. Events of all sandboxes come in order.
    let hear = |dir: &Path| -> Vec<TaskEvent> {
        let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
        let own = TaskEvent::Outcome(dir.to_owned());
        std::iter::from_fn(|| Some(next()).filter(|event| *event != own)).collect()
    };
    let read = |(dir, sandbox): &(PathBuf, PathBuf)| tasks.outcome(dir, sandbox).unwrap().text;
    let linked = place("linked");
    assert_eq!(read(&linked), "");
    fs::write(linked.1.join(".horde-outcome"), "through the link").unwrap();
    hear(&linked.0);
    assert_eq!(read(&linked), "through the link");
    let written = place("written");
    fs::remove_file(written.1.join(".horde-outcome")).unwrap();
    fs::write(written.1.join(".horde-outcome"), "instead of the link").unwrap();
    hear(&written.0);
    assert_eq!(read(&written), "instead of the link");
    let renamed = place("renamed");
    fs::write(renamed.1.join("new"), "renamed over it").unwrap();
    fs::rename(renamed.1.join("new"), renamed.1.join(".horde-outcome")).unwrap();
    hear(&renamed.0);
    assert_eq!(read(&renamed), "renamed over it");
    let unheard = place("unheard");
    tasks.unwatch(&unheard.0);
    fs::write(unheard.1.join(".orange-outcome"), "unheard").unwrap();
    let last = place("last");
    fs::write(last.1.join(".orange-outcome"), "heard").unwrap();
    let before = hear(&last.0);
    assert!(
        !before.contains(&TaskEvent::Outcome(unheard.0)),
        "{before:?}"
    );
}
