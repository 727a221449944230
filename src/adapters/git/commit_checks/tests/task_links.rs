//! Links to task directories in commits.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::super::super::command::Git;
use super::*;
use crate::domain::task_names::anew_without;

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

    /// A commit with a link `TASK.md` through `docs`, and `docs` as this entry.
    fn by_docs(&self, docs: &str, id: &str, parent: &Oid) -> Oid {
        let link = write(&self.0, "blob", ["docs", "TASK.md"].join("/"));
        let task = [b"120000 TASK.md\0".to_vec(), raw_id(link.as_str())].concat();
        let docs = [format!("{docs} docs\0").into_bytes(), raw_id(id)].concat();
        let tree = write(&self.0, "tree", [task, docs].concat());
        commit_on(&self.0, tree.as_str(), parent, BY)
    }

    fn without(&self, parent: &Oid) -> Oid {
        commit_on(&self.0, &self.0.tree(&self.0.base), parent, BY)
    }

    fn merge(&self, ours: &Oid, theirs: &Oid) -> Oid {
        let tree = self.0.tree(&self.0.base);
        let head = format!("tree {tree}\nparent {ours}\nparent {theirs}\n");
        let head = format!("{head}author {BY}\ncommitter {BY}\n\nmerge\n");
        write(&self.0, "commit", head)
    }

    fn checked(&self, head: &Oid) -> Result<(), RepoError> {
        let sandbox = PathBuf::from("/city/horde/raiders/Toast");
        check(&self.0.repo, &sandbox, head, "main")
    }

    fn refused(&self, head: &Oid) -> String {
        self.checked(head).unwrap_err().to_string()
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
        // In each other sandbox it leads to the task of this one.
        ("TASK.md", "../Toast/TASK.md"),
        ("TASK.md", "/city/horde/raiders/Toast/TASK.md"),
        ("TASK.md", "../../../../../../proc/self/cwd/../Nux/TASK.md"),
        ("TASK.md", "/tmp/../proc/self/cwd/../Nux/TASK.md"),
        ("TASK.md", "/dev/fd/../cwd/../Nux/TASK.md"),
        // By a link there.
        ("TASK.md", "../Toast/docs/.horde-task.md"),
        ("TASK.md", "../Toast/x"),
        ("TASK.md", "../../../another/raiders/Toast/x"),
        (
            "TASK.md",
            "../../../.horde/tasks/rig/gt-1/../gt-1/Nux-1/TASK.md",
        ),
        // By a link of the system, or one that a session made.
        ("TASK.md", "/var/run/../city/horde/raiders/Nux/TASK.md"),
        ("TASK.md", "/var/run/../proc/self/cwd/../Nux/TASK.md"),
        ("TASK.md", "/tmp/made"),
        // By a directory that git does not have, and each sandbox has.
        ("TASK.md", "target/../../Nux/TASK.md"),
        ("TASK.md", "target/task.md"),
        ("TASK.md", "TASK.md"),
        ("TASK.md", "docs/task.md/x"),
    ] {
        let why = links.refused(&links.with(name, target, &base));
        assert!(why.contains(&format!(": {name} is a link")), "{why}");
    }
    let head = links.with("outcome", TASK_OF_ANOTHER, &base);
    assert_eq!(links.checked(&head), Ok(()));
}

/// A branch is not asked for the place where such a link of the project ends.
#[test]
fn link_of_the_project_to_no_file_is_no_fault_of_a_branch_that_brings_no_other_link() {
    let links = Links::new();
    for target in [
        "local/task.md",
        "tasks",
        "TASK.md",
        "../elsewhere",
        "a/TASK.md",
    ] {
        let own = links.with("TASK.md", target, &links.0.base);
        let own = links.0.commit(&own, &[("tasks/one", "1\n")]);
        let own = links.0.links(&own, &[("a", "target/x")]);
        links.0.foreign_push("main", &own);
        links.fetch();
        let next = links.0.commit(&own, &[("tasks/one", "2\n"), ("b", "b\n")]);
        assert_eq!(links.checked(&next), Ok(()), "{target}");
        // It ends at a place that git does not have as well.
        let led = links.0.links(&own, &[("a", "target/../../Nux")]);
        let may_be_led = !["tasks", "../elsewhere"].contains(&target);
        assert_eq!(links.checked(&led).is_err(), may_be_led, "{target}");
    }
}

/// The text of the link is the same: the directory that it goes through became a link.
#[test]
fn link_to_a_task_by_a_link_in_the_tree_is_not_landed() {
    let links = Links::new();
    let task = write(&links.0, "blob", "of the project\n");
    let task = [b"100644 TASK.md\0".to_vec(), raw_id(task.as_str())].concat();
    let dir = write(&links.0, "tree", task);
    let fine = links.by_docs("40000", dir.as_str(), &links.0.base);
    assert_eq!(links.checked(&fine), Ok(()));
    links.0.foreign_push("main", &fine);
    links.fetch();
    let beside = write(&links.0, "blob", "../Shadow");
    let head = links.by_docs("120000", beside.as_str(), &fine);
    assert!(links.refused(&head).contains("TASK.md is a link"));
    assert_eq!(
        links.checked(&links.by_docs("40000", dir.as_str(), &fine)),
        Ok(())
    );
}

/// Later sandboxes had no outcome file.
#[test]
fn directory_and_submodule_in_the_place_of_an_outcome_file_are_not_landed() {
    let links = Links::new();
    let (base, blob) = (links.0.base.clone(), write(&links.0, "blob", "x\n"));
    let file = [b"100644 x\0".to_vec(), raw_id(blob.as_str())].concat();
    let below = write(&links.0, "tree", file);
    for (mode, id) in [("40000", &below), ("160000", &base)] {
        let entry = format!("{mode} .horde-outcome\0").into_bytes();
        let entry = [entry, raw_id(id.as_str())].concat();
        let tree = write(&links.0, "tree", entry);
        let head = commit_on(&links.0, tree.as_str(), &base, BY);
        let why = links.refused(&head);
        assert!(why.contains(": .horde-outcome is no file"), "{why}");
        let after = links.without(&head);
        assert!(links.refused(&after).contains(head.short()));
    }
}

/// A landing by rebase takes each commit over.
#[test]
fn link_to_a_task_that_a_later_commit_removes_is_not_landed() {
    let links = Links::new();
    let brings = links.with("TASK.md", TASK_OF_ANOTHER, &links.0.base);
    let why = links.refused(&links.without(&brings));
    assert!(why.contains(brings.short()), "{why}");
    let merges = links.merge(&links.0.base, &brings);
    assert!(links.refused(&merges).contains(brings.short()));
    let anew = links.without(&links.0.base);
    assert_eq!(links.checked(&anew), Ok(()));
}

#[test]
fn link_that_the_target_or_a_merged_branch_of_the_remote_has_is_no_fault_of_the_branch() {
    let links = Links::new();
    let brings = links.with("TASK.md", TASK_OF_ANOTHER, &links.0.base);
    let removes = links.without(&brings);
    links.0.foreign_push("side", &removes);
    links.fetch();
    let merges = links.merge(&links.0.base, &removes);
    assert_eq!(links.checked(&merges), Ok(()));
    // A head that the remote has is looked at all the same.
    links.0.foreign_push("side", &brings);
    links.fetch();
    assert!(links.refused(&brings).contains("TASK.md is a link"));

    let head = links.with(".horde-outcome", TASK_OF_ANOTHER, &links.0.base);
    links.0.foreign_push("main", &head);
    links.fetch();
    let next = links.with(".horde-outcome", TASK_OF_ANOTHER, &head);
    assert_eq!(links.checked(&next), Ok(()));
    let other = links.with(".horde-outcome", "elsewhere", &head);
    assert!(links.checked(&other).is_err());
}

/// Runs what the refusal of `hd done` advises, in a checkout.
fn made_anew(dir: &Path, base: &str, name: &str) {
    for command in anew_without(base, name) {
        let words = command.split(' ').skip(1);
        let git = Git::in_dir(dir).args(words.collect::<Vec<_>>());
        git.env("GIT_EDITOR", "echo anew >").run().unwrap();
    }
}

#[test]
fn commands_that_the_refusal_advises_make_commits_without_the_link() {
    let links = Links::new();
    let dir = links.0.path("work");
    let git = |args: &[&str]| Git::in_dir(&dir).args(args).run().unwrap().text();
    let url = links.0.origin().display().to_string();
    links
        .0
        .repo
        .git()
        .args(["clone", "-q", &url])
        .arg(&dir)
        .run()
        .unwrap();
    for (key, value) in [("user.name", "Ada"), ("user.email", "ada@example.invalid")] {
        git(&["config", key, value]);
    }
    let base = git(&["rev-parse", "HEAD"]).trim().to_owned();
    let brings = |name: &str| {
        drop(fs::remove_file(dir.join(name)));
        symlink(TASK_OF_ANOTHER, dir.join(name)).unwrap();
        fs::write(dir.join("work.txt"), name).unwrap();
        git(&["add", "-f", name, "work.txt"]);
        git(&["commit", "-qm", "with a link"]);
    };
    let expect_without = |name: &str, at: &str| {
        made_anew(&dir, at, name);
        let changed = git(&["diff", "--name-only", at, "HEAD"]);
        assert_eq!(changed.trim(), "work.txt");
        assert_eq!(
            git(&["rev-list", "--count", &format!("{at}..HEAD")]).trim(),
            "1"
        );
    };
    brings(".horde-outcome");
    expect_without(".horde-outcome", &base);
    // A later commit has removed it.
    brings("TASK.md");
    git(&["rm", "-q", "--cached", "TASK.md"]);
    git(&["commit", "-qm", "removed"]);
    expect_without("TASK.md", &base);
    // A file of the project had the name.
    git(&["reset", "-q", "--hard", &base]);
    drop(fs::remove_file(dir.join("TASK.md")));
    fs::write(dir.join("TASK.md"), "of the project").unwrap();
    git(&["add", "-f", "TASK.md"]);
    git(&["commit", "-qm", "project"]);
    let project = git(&["rev-parse", "HEAD"]).trim().to_owned();
    brings("TASK.md");
    expect_without("TASK.md", &project);
}
