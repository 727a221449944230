//! Links to task directories in commits.

use super::*;

/// A rig that has fetched its remote, and commits with one link.
struct Links(Rigged);

impl Links {
    fn new() -> Self {
        let links = Self(Rigged::new());
        links.fetch();
        links
    }

    fn fetch(&self) {
        let fetch = self.0.repo.git().args(["fetch", "-q", "origin"]);
        fetch.run().unwrap();
    }

    fn with(&self, name: &str, target: &str, parent: &Oid) -> Oid {
        let blob = write(&self.0, "blob", target);
        let entry = format!("120000 {name}\0").into_bytes();
        let entry = [entry, raw_id(blob.as_str())].concat();
        let tree = write(&self.0, "tree", entry);
        commit_on(&self.0, tree.as_str(), parent, BY)
    }

    fn without(&self, parent: &Oid) -> Oid {
        commit_on(&self.0, &self.0.tree(&self.0.base), parent, BY)
    }

    fn checked(&self, head: &Oid) -> Result<(), RepoError> {
        let sandbox = PathBuf::from("/city/horde/raiders/Toast");
        check(&self.0.repo, &sandbox, head, "main")
    }
}

const TASK_OF_ANOTHER: &str = "/city/.horde/tasks/rig/gt-1/Nux-1/TASK.md";

#[test]
fn link_to_a_task_is_not_landed_however_it_is_written() {
    let links = Links::new();
    let base = links.0.base.clone();
    for (name, target) in [
        (
            ".horde-outcome",
            "/city/.horde/tasks/rig/gt-1/Nux-1/outcome",
        ),
        (
            ".orange-outcome",
            "../../../.horde/tasks/rig/gt-1/Nux-1/outcome",
        ),
        // By a link of a directory, which git brings as well.
        (".horde-outcome", "docs/outcome"),
        (".horde-task.md", "docs/task.md"),
        ("TASK.md", TASK_OF_ANOTHER),
        (
            "TASK.md",
            "../../../.horde/tasks/rig/gt-1/../gt-1/Nux-1/TASK.md",
        ),
    ] {
        let head = links.with(name, target, &base);
        let why = links.checked(&head).unwrap_err().to_string();
        let helps = format!(
            "`git reset --soft {}`, `git rm --cached -f {name}`",
            base.short()
        );
        assert!(why.contains(&helps), "{why}");
    }
    for (name, target) in [("TASK.md", "docs/task.md"), ("outcome", TASK_OF_ANOTHER)] {
        let head = links.with(name, target, &base);
        assert_eq!(links.checked(&head), Ok(()), "{name} to {target}");
    }
}

/// A landing by rebase takes each commit over.
#[test]
fn link_to_a_task_that_a_later_commit_removes_is_not_landed() {
    let links = Links::new();
    let brings = links.with("TASK.md", TASK_OF_ANOTHER, &links.0.base);
    let head = links.without(&brings);
    let why = links.checked(&head).unwrap_err().to_string();
    assert!(why.contains(brings.short()), "{why}");
    let anew = links.without(&links.0.base);
    assert_eq!(links.checked(&anew), Ok(()));
}

#[test]
fn link_that_the_target_has_is_no_fault_of_the_branch() {
    let links = Links::new();
    let head = links.with(".horde-outcome", TASK_OF_ANOTHER, &links.0.base);
    links.0.foreign_push("main", &head);
    links.fetch();
    let next = links.with(".horde-outcome", TASK_OF_ANOTHER, &head);
    assert_eq!(links.checked(&next), Ok(()));
    let other = links.with(".horde-outcome", "elsewhere", &head);
    assert!(links.checked(&other).is_err());
}
