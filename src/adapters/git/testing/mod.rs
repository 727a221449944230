//! A rig with its remote in a temporary directory, for the tests of landing.

mod checkout;
mod existing_branch;
mod land;
mod landing_bound;
mod landing_filter;
mod landing_moment;
mod landing_recovery;
mod landing_sequence;
mod landing_submodule;
mod push;
mod remote;

use std::path::PathBuf;

use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Repository, Signature};

use super::command::Git;
use super::rig::{GitRepo, GitRig, oid};
use super::share;
use crate::domain::city::RigSource;
use crate::domain::ids::{Oid, RigName};
use crate::testing::empty_repository;
use crate::testing::program::script;

/// A prepared rig whose target `main` has one commit.
pub(super) struct Rigged {
    dir: tempfile::TempDir,
    pub(super) repo: GitRepo,
    /// The first commit of `main`.
    pub(super) base: Oid,
}

/// Settings of the test repositories: the user's global settings may differ.
const SETTINGS: &str = "\
[user]
\tname = Test
\temail = test@example.invalid
[commit]
\tgpgsign = false
[core]
\thooksPath = hooks
\texcludesFile = /dev/null
";

impl Rigged {
    /// Makes a rig with a bare remote.
    pub(super) fn new() -> Self {
        Self::make(false, true)
    }

    /// Makes a rig whose checkout is its own origin.
    pub(super) fn local() -> Self {
        Self::make(true, true)
    }

    /// Makes a rig that does not push.
    pub(super) fn silent() -> Self {
        Self::make(false, false)
    }

    fn make(local: bool, push: bool) -> Self {
        let dir = crate::testing::scratch();
        let origin = dir.path().join("origin");
        // git separates paths by a colon, where it takes several.
        let ours = dir.path().join("ci:ty/.horde/custody/rig.git");
        let theirs = dir.path().join("ci:ty/rig/repo.git");
        let url = origin.display();
        let of_ours = format!(
            "{SETTINGS}[remote \"origin\"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[horde]\n\tpushUrl = {url}\n"
        );
        empty_repository::bare(&ours, &of_ours);
        for (path, bare) in [(&origin, !local), (&theirs, true)] {
            match bare {
                true => empty_repository::bare(path, SETTINGS),
                false => empty_repository::of_a_checkout(&path.join(".git"), SETTINGS),
            }
        }
        let rig = GitRig {
            name: RigName::new("rig").unwrap(),
            source: if local {
                RigSource::Path(origin.clone())
            } else {
                RigSource::Remote(origin.display().to_string())
            },
            raiders_dir: dir.path().join("ci:ty/rig/raiders"),
            forge_dir: dir.path().join("ci:ty/rig/forge"),
            ours,
            theirs,
            push,
        };
        let repo = GitRepo::new(rig);
        share::init(&repo).unwrap();
        share::lend(&repo).unwrap();
        let base = commit(&repo, None, &[("file", "1\n2\n3\n")], FileMode::Blob);
        let mut rigged = Self { dir, repo, base };
        rigged.seed(local);
        rigged
    }

    /// Gives the remote its first commit, and a checkout its files.
    fn seed(&mut self, local: bool) {
        let head = self.base.clone();
        if !local {
            self.foreign_push("main", &head);
            return;
        }
        self.foreign_push("seed", &head);
        self.in_origin(&["reset", "-q", "--hard", "seed"]);
        self.in_origin(&["branch", "-q", "-D", "seed"]);
    }

    pub(super) fn origin(&self) -> PathBuf {
        self.dir.path().join("origin")
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs git in the remote. Returns its output.
    pub(super) fn in_origin(&self, args: &[&str]) -> String {
        Git::in_dir(&self.origin()).args(args).run().unwrap().text()
    }

    /// Returns the commit of the remote's branch.
    pub(super) fn at(&self, branch: &str) -> Option<Oid> {
        let name = format!("refs/heads/{branch}");
        let git = Git::in_dir(&self.origin()).args(["rev-parse", "--verify", "-q", &name]);
        let output = git.output().unwrap();
        output.ok().then(|| oid(&output.text()).unwrap())
    }

    /// Makes a commit in ours on a parent.
    pub(super) fn commit(&self, parent: &Oid, files: &[(&str, &str)]) -> Oid {
        commit(&self.repo, Some(parent), files, FileMode::Blob)
    }

    /// As [`Rigged::commit`], with links to these targets.
    pub(super) fn links(&self, parent: &Oid, links: &[(&str, &str)]) -> Oid {
        commit(&self.repo, Some(parent), links, FileMode::Link)
    }

    /// Returns the tree of a commit.
    pub(super) fn tree(&self, commit: &Oid) -> String {
        let name = format!("{commit}^{{tree}}");
        self.repo
            .git()
            .args(["rev-parse", &name])
            .run()
            .unwrap()
            .text()
    }

    /// Pushes to the remote past this rig, as another user would.
    pub(super) fn foreign_push(&self, branch: &str, head: &Oid) {
        let refspec = format!("+{head}:refs/heads/{branch}");
        let url = self.origin().display().to_string();
        self.repo
            .git()
            .args(["push", "-q", &url, &refspec])
            .run()
            .unwrap();
    }

    /// Writes a hook of the remote.
    pub(super) fn hook(&self, name: &str, text: &str) {
        let hooks = self.origin().join("hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        script(&hooks.join(name), text);
    }
}

/// Makes a commit of the parent's files with these changed; an empty text removes a file.
fn commit(repo: &GitRepo, parent: Option<&Oid>, files: &[(&str, &str)], mode: FileMode) -> Oid {
    let git = Repository::open(repo.repo_dir()).unwrap();
    let parent = parent.map(|id| {
        let id = git2::Oid::from_str(id.as_str()).unwrap();
        git.find_commit(id).unwrap()
    });
    let tree = match &parent {
        Some(parent) => parent.tree().unwrap(),
        None => git
            .find_tree(git.treebuilder(None).unwrap().write().unwrap())
            .unwrap(),
    };
    let mut update = TreeUpdateBuilder::new();
    for (path, text) in files {
        if text.is_empty() {
            update.remove(*path);
        } else {
            update.upsert(*path, git.blob(text.as_bytes()).unwrap(), mode);
        }
    }
    let tree = git
        .find_tree(update.create_updated(&git, &tree).unwrap())
        .unwrap();
    let who = Signature::now("Ann", "ann@example.invalid").unwrap();
    let message = format!(
        "change {}\n",
        files.first().map_or("nothing", |(path, _)| path)
    );
    let parents: Vec<_> = parent.iter().collect();
    let id = git
        .commit(None, &who, &who, &message, &tree, &parents)
        .unwrap();
    Oid::new(id.to_string()).unwrap()
}
