//! The order and the shape in which work lands.

use super::landed;
use crate::faults::{does, plan};
use crate::support::git::git;
use crate::support::live::wait;

#[test]
fn the_more_urgent_lands_first_and_then_the_older() {
    let gate = "while [ ! -e {root}/signs/go ]; do sleep 0.05; done";
    let gates = format!(r#"[{{ name = "wait", run = "{gate}" }}]"#);
    let mut city = plan().set("forge", "gates", &gates).start();
    let mut work = Vec::new();
    for (name, priority) in [("a", 0), ("b", 0), ("c", 5), ("d", 0)] {
        let relic = city.urgent(name, priority, &does(name));
        city.charge(&relic);
        let state = if name == "a" { "testing" } else { "queued" };
        wait(&format!("{name} is {state}"), || {
            let mrs = city.mrs(&relic);
            mrs.iter().any(|mr| mr["state"] == state).then_some(())
        });
        work.push((name.to_owned(), relic));
    }
    city.sign("go");
    city.assert_landed(&work);
    let order = landed(&city);
    assert_eq!(order, ["Work on a", "Work on c", "Work on b", "Work on d"]);
    city.stop();
}

/// Lands two commits in this style. Returns parents and subjects of main's history, the newest first.
fn land_two(style: &str) -> Vec<(usize, String)> {
    let mut city = plan().set("forge", "style", &format!("{style:?}")).start();
    let script = "echo 1 > one; git add one; git commit -q -m 'Add one'\n\
                  echo 2 > two; git add two; git commit -q -m 'Add two'\n\
                  exec hd done";
    let relic = city.script("Add both", script);
    city.charge(&relic);
    city.wait_status(&relic, "closed");
    city.assert_quiet();
    city.assert_no_salvage();
    assert_eq!(git(&city.origin(), &["show", "main:one"]), "1");
    assert_eq!(git(&city.origin(), &["show", "main:two"]), "2");
    let log = git(
        &city.origin(),
        &["log", "--topo-order", "--format=%p|%s", "main"],
    );
    city.stop();
    let line = |line: &str| {
        let (parents, subject) = line.split_once('|').expect("a line");
        (parents.split_whitespace().count(), subject.to_owned())
    };
    log.lines().map(line).collect()
}

#[test]
fn rebased_work_keeps_its_commits() {
    let log = land_two("rebase");
    let log: Vec<_> = log
        .iter()
        .map(|(parents, subject)| (*parents, &**subject))
        .collect();
    assert_eq!(log, [(1, "Add two"), (1, "Add one"), (0, "first")]);
}

#[test]
fn squashed_work_is_one_commit() {
    let log = land_two("squash");
    assert_eq!(log.len(), 2, "{log:?}");
    assert_eq!(log[0].0, 1);
    assert!(log[0].1.contains("Add both"), "{log:?}");
}

#[test]
fn merged_work_keeps_its_history() {
    let log = land_two("merge");
    assert_eq!(log.len(), 4, "{log:?}");
    assert_eq!(log[0].0, 2);
    assert!(log[0].1.contains("Add both"), "{log:?}");
}
