//! A city's directories with one rig: a checkout, its bare origin, and the adapter under test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use horde_supervisor::adapters::git::{GitRepo, GitRig};
use horde_supervisor::domain::cause::Cause;
use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::facts::{GitFacts, Probed};
use horde_supervisor::domain::ids::{Incarnation, Oid, RaiderId};
use horde_supervisor::domain::nuke::{Evidence, Judgement, NukePermit, judge};
use horde_supervisor::ports::repo::{Repo, SalvageRecord, SandboxSpec};
use horde_supervisor::testing::{scratch, scratch_on_disk};

use super::git::{git, rev, write};
use super::repository::repository;

/// A rig in a temporary directory.
pub struct City {
    /// Removed when dropped.
    pub dir: tempfile::TempDir,
    /// The adapter.
    pub repo: GitRepo,
}

impl City {
    /// Makes a checkout with some history on `main` and a bare origin, not prepared yet.
    pub fn bare() -> Self {
        Self::with(|_| {})
    }

    /// Makes the same, prepared.
    pub fn new() -> Self {
        let city = Self::bare();
        city.repo.prepare().expect("prepared");
        city
    }

    /// Makes the same, with changes to the checkout before its first commit is pushed.
    pub fn with(change: impl FnOnce(&Path)) -> Self {
        Self::inside(scratch(), change)
    }

    /// As [`City::new`], on the disk.
    pub fn on_disk() -> Self {
        let city = Self::inside(scratch_on_disk(), |_| {});
        city.repo.prepare().expect("prepared");
        city
    }

    /// As [`City::with`], in this directory.
    pub fn inside(dir: tempfile::TempDir, change: impl FnOnce(&Path)) -> Self {
        let root = fs::canonicalize(dir.path()).expect("a real path");
        let checkout = root.join("checkout");
        repository(&checkout, Some("origin.git"), |checkout| {
            for (name, content) in [
                ("README", "hello\n"),
                ("src/a.txt", "a1\na2\na3\n"),
                ("src/b.txt", "b1\nb2\nb3\n"),
                ("src/deep/c.txt", "c1\n"),
                ("run.sh", "#!/bin/sh\n"),
                (".gitignore", "*.ignored\n"),
            ] {
                write(checkout, name, content);
            }
            change(checkout);
        });
        let repo = repo(&root, RigSource::Path(checkout), true);
        Self { dir, repo }
    }

    /// Returns the temporary directory.
    pub fn root(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("a real path")
    }

    /// Returns the user's checkout.
    pub fn checkout(&self) -> PathBuf {
        self.root().join("checkout")
    }

    /// Returns the bare origin.
    pub fn origin(&self) -> PathBuf {
        self.root().join("origin.git")
    }

    /// Returns the directory of removed sandboxes.
    pub fn trash(&self) -> PathBuf {
        self.root().join("city/.horde/trash")
    }

    /// Returns the spec of Toast's sandbox.
    pub fn spec(&self, incarnation: u64) -> SandboxSpec {
        self.spec_of("Toast", incarnation)
    }

    /// Returns the spec of a raider's sandbox, and writes its task.
    pub fn spec_of(&self, name: &str, incarnation: u64) -> SandboxSpec {
        let base = rev(self.repo.repo_dir(), "refs/remotes/origin/main");
        spec(
            &self.root().join("city"),
            &base,
            (name, "gt-1", incarnation),
        )
    }

    /// Makes Toast's first sandbox.
    pub fn sandbox(&self) -> PathBuf {
        let spec = self.spec(1);
        self.repo.make_sandbox(&spec).expect("a sandbox");
        spec.path
    }

    /// Pushes the head of a sandbox as the branch `work`.
    pub fn push_work(&self, sandbox: &Path) {
        let url = self.repo.push_url().expect("a remote");
        let push = ["push", "--quiet", &url, "HEAD:refs/heads/work"];
        git(sandbox, &push);
        self.repo.fetch_branch("work").expect("fetched");
    }

    /// Saves what Toast's sandbox holds.
    pub fn salvage(&self, sandbox: &Path) -> SalvageRecord {
        let saved = self.repo.salvage(sandbox, &toast(), Incarnation(1));
        saved.expect("salvage")
    }

    /// Restores salvage. Returns the directory.
    pub fn restored(&self, record: &SalvageRecord) -> PathBuf {
        let to = self.root().join("restored");
        self.repo.restore(record, &to).expect("restored");
        to
    }

    /// Removes a sandbox.
    pub fn discard(&self, permit: &NukePermit) {
        let removed = self.repo.discard_sandbox(permit, &self.trash(), &|| Ok(()));
        removed.expect("removed");
    }

    /// Returns the facts of a sandbox.
    pub fn facts(&self, sandbox: &Path) -> GitFacts {
        self.repo.facts(sandbox, "main").expect("facts")
    }
}

/// Makes the adapter of a rig under `root`.
pub fn repo(root: &Path, source: RigSource, push: bool) -> GitRepo {
    GitRepo::new(rig(root, source, push))
}

/// Describes a rig under `root`.
pub fn rig(root: &Path, source: RigSource, push: bool) -> GitRig {
    rig_of(&root.join("city"), source, push)
}

/// Describes the rig of a city in this directory.
pub fn rig_of(city: &Path, source: RigSource, push: bool) -> GitRig {
    let rig = city.join("horde");
    GitRig {
        name: "horde".parse().expect("a name"),
        source,
        ours: city.join(".horde/custody/horde.git"),
        theirs: rig.join("repo.git"),
        raiders_dir: rig.join("raiders"),
        forge_dir: rig.join("forge"),
        push,
    }
}

/// Returns the spec of a sandbox in a city: the raider's name, its relic and its incarnation. Writes its task.
pub fn spec(city: &Path, base: &str, (name, relic, incarnation): (&str, &str, u64)) -> SandboxSpec {
    let task_dir = city.join(format!(".horde/tasks/horde/{relic}/{name}-{incarnation}"));
    write(&task_dir, "TASK.md", "do it\n");
    write(&task_dir, "outcome", "");
    SandboxSpec {
        raider: format!("horde/raiders/{name}").parse().expect("an id"),
        relic: relic.to_owned().try_into().expect("an id"),
        incarnation: Incarnation(incarnation),
        branch: format!("raider/{name}/{relic}-{incarnation}"),
        base: Oid::new(base).expect("an oid"),
        path: city.join("horde/raiders").join(name),
        task_dir,
        copy: vec![],
    }
}

/// Returns the permit for these facts, as if salvage had been written from them.
pub fn permit(spec: &SandboxSpec, git: &GitFacts) -> NukePermit {
    let evidence = Evidence {
        raider: spec.raider.clone(),
        incarnation: spec.incarnation,
        sandbox: spec.path.clone(),
        session: Probed::Known(None),
        session_runs: false,
        git: Probed::Known(git.clone()),
        salvaged: Some(git.clone()),
        cause: Cause::Done,
        detected: jiff::Timestamp::UNIX_EPOCH,
    };
    match judge(evidence) {
        Judgement::Permit(permit) => *permit,
        other => panic!("no permit: {other:?}"),
    }
}

/// Toast.
pub fn toast() -> RaiderId {
    "horde/raiders/Toast".parse().expect("an id")
}

/// Returns every file below a directory with its mode and bytes; leaves out `.git`, our links, and directories.
pub fn snapshot(dir: &Path) -> BTreeMap<Vec<u8>, (String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(&here).expect("a directory") {
            let path = entry.expect("an entry").path();
            let relative = path.strip_prefix(dir).expect("below");
            let ours = [
                "TASK.md",
                ".horde-outcome",
                ".orange-outcome",
                ".horde-task.md",
            ];
            if path.file_name() == Some(".git".as_ref())
                || (path.is_symlink() && ours.iter().any(|name| relative == Path::new(name)))
                || path.extension() == Some("ignored".as_ref())
            {
                continue;
            }
            let meta = fs::symlink_metadata(&path).expect("metadata");
            let name = relative.as_os_str().as_bytes().to_vec();
            if meta.is_symlink() {
                let target = fs::read_link(&path).expect("a link");
                let target = target.as_os_str().as_bytes().to_vec();
                found.insert(name, ("link".to_owned(), target));
            } else if meta.is_dir() {
                open.push(path);
            } else if meta.is_file() {
                let exec = meta.permissions().mode() & 0o111 != 0;
                let kind = if exec { "exec" } else { "file" };
                let content = fs::read(&path).expect("a file");
                found.insert(name, (kind.to_owned(), content));
            }
        }
    }
    found
}
