//! Links to task directories in commits.

use super::*;

/// git would bring it into the sandboxes of others, whose sessions would write into this task.
#[test]
fn link_to_a_task_is_not_landed_and_one_that_the_target_has_is_no_fault_of_the_branch() {
    let rigged = Rigged::new();
    let fetch = ["fetch", "-q", "origin"];
    rigged.repo.git().args(fetch).run().unwrap();
    let with = |target: &str, parent: &Oid| {
        let blob = write(&rigged, "blob", target);
        let entry = [b"120000 .horde-outcome\0".to_vec(), raw_id(blob.as_str())].concat();
        let tree = write(&rigged, "tree", entry);
        commit_on(&rigged, tree.as_str(), parent, BY)
    };
    let checked = |head: &Oid| check(&rigged.repo, &PathBuf::from("/none"), head, "main");
    let task = "/city/.horde/tasks/rig/gt-1/Toast-1/outcome";
    let head = with(task, &rigged.base);
    let why = checked(&head).unwrap_err().to_string();
    assert!(why.contains("git rm --cached .horde-outcome"), "{why}");
    let elsewhere = with("docs/outcome", &rigged.base);
    assert_eq!(checked(&elsewhere), Ok(()));
    rigged.foreign_push("main", &head);
    rigged.repo.git().args(fetch).run().unwrap();
    assert_eq!(checked(&with(task, &head)), Ok(()));
}
