//! Submodules that look clean: commits that only their reflogs name, and the git directory of a submodule that is no
//! longer checked out.

use std::fs;
use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::domain::nuke::{CleanupStatus, only_left_behind};
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::tier::takes;

use crate::custody_salvage::roundtrip;
use crate::support::city::{City, permit};
use crate::support::git::{commit_all, git, rev, write};

/// A sandbox that takes in a library with a submodule of its own; all of it pushed.
struct Taken {
    city: City,
    sandbox: PathBuf,
}

const LOCAL: [&str; 2] = ["-c", "protocol.file.allow=always"];

fn with_local(dir: &Path, args: &[&str]) -> String {
    git(dir, &[&LOCAL, args].concat())
}

/// Makes a repository with a file, inside the city's root.
fn library(city: &City, name: &str) -> (PathBuf, String) {
    let dir = city.root().join(name);
    fs::create_dir(&dir).unwrap();
    git(&dir, &["init", "--quiet", "-b", "main"]);
    write(&dir, "code", "1\n");
    commit_all(&dir, name);
    let url = dir.display().to_string();
    (dir, url)
}

impl Taken {
    fn new() -> Self {
        let city = City::new();
        let (_, inner) = library(&city, "inner");
        let (outer, url) = library(&city, "library");
        with_local(&outer, &["submodule", "--quiet", "add", &inner, "inner"]);
        commit_all(&outer, "with an inner one");
        let sandbox = city.sandbox();
        with_local(&sandbox, &["submodule", "--quiet", "add", &url, "lib"]);
        let deep = ["submodule", "--quiet", "update", "--init", "--recursive"];
        with_local(&sandbox, &deep);
        commit_all(&sandbox, "with a library");
        let taken = Self { city, sandbox };
        taken.push();
        assert_eq!(taken.status(), CleanupStatus::Clean);
        taken
    }

    fn push(&self) {
        let origin = self.city.origin().display().to_string();
        git(&self.sandbox, &["push", "--quiet", &origin, "HEAD:main"]);
        self.city.repo.fetch_target("main").unwrap();
    }

    fn status(&self) -> CleanupStatus {
        CleanupStatus::measured(&self.city.facts(&self.sandbox))
    }

    /// Commits on a branch there, and returns to the commit before.
    fn commit(&self, at: &str) -> String {
        let dir = self.sandbox.join(at);
        git(&dir, &["checkout", "--quiet", "-B", "mine"]);
        write(&dir, "code", "mine\n");
        let commit = commit_all(&dir, "only here");
        git(&dir, &["checkout", "--quiet", "--detach", "HEAD~1"]);
        commit
    }

    /// Commits like that, and deletes the branch.
    fn leave(&self, at: &str) -> String {
        let commit = self.commit(at);
        git(&self.sandbox.join(at), &["branch", "--quiet", "-D", "mine"]);
        commit
    }

    /// Asserts that `git status` shows nothing, the agent may be done, and a removal saves this commit without being
    /// asked; after that a restore has it again, in this git directory (`admin` stands for that of the worktree).
    fn is_kept(&self, line: &str, commit: &str, git_dir: &str) -> PathBuf {
        assert_eq!(git(&self.sandbox, &["status", "--short"]), "");
        let facts = self.city.facts(&self.sandbox);
        assert_eq!(facts.other_work[0], line);
        assert!(only_left_behind(&facts), "{facts:?}");
        let (record, to) = roundtrip(&self.city, &self.sandbox, "a");
        assert!(record.bytes > 0, "{record:?}");
        // The `git status` above has written an index.
        let permit = permit(&self.city.spec(1), &self.city.facts(&self.sandbox));
        let trash = self.city.trash();
        self.city
            .repo
            .discard_sandbox(&permit, &trash, &|| Ok(()))
            .unwrap();
        fs::remove_dir_all(trash).unwrap();
        git(self.city.repo.theirs(), &["gc", "--quiet", "--prune=now"]);
        git(self.city.repo.repo_dir(), &["gc", "--quiet", "--prune=now"]);
        let again = self.city.root().join("restored/again");
        self.city.repo.restore(&record, &again).unwrap();
        for to in [&to, &again] {
            let admin = git(to, &["rev-parse", "--absolute-git-dir"]);
            let own = format!("--git-dir={}", git_dir.replace("admin", &admin));
            let text = git(to, &[&own, "show", &format!("{commit}:code")]);
            assert_eq!(text, "mine");
        }
        again
    }
}

#[test]
#[ignore = "long tier: further forms of submodules"]
fn commits_that_a_submodule_has_left_are_saved() {
    let taken = Taken::new();
    let commit = taken.leave("lib");
    let line = "only this sandbox references the content of submodule lib: unpushed commits: 1";
    let to = taken.is_kept(line, &commit, "lib/.git");
    assert!(git(&to.join("lib"), &["reflog"]).contains("only here"));
}

#[test]
fn commits_of_a_submodule_inside_a_submodule_are_saved() {
    let taken = Taken::new();
    let commit = taken.leave("lib/inner");
    let line =
        "only this sandbox references the content of submodule lib/inner: unpushed commits: 1";
    let facts = taken.city.facts(&taken.sandbox);
    assert_eq!(facts.other_work[0], line);
    assert!(only_left_behind(&facts), "{facts:?}");
    let (_, to) = roundtrip(&taken.city, &taken.sandbox, "a");
    let inner = to.join("lib/inner");
    git(&inner, &["cat-file", "-e", &commit]);
}

/// `git submodule deinit` removes the files; the branches stay in the git directory.
#[test]
fn commits_of_a_submodule_that_is_not_checked_out_any_more_are_saved() {
    let taken = Taken::new();
    let commit = taken.commit("lib");
    let deinit = ["submodule", "--quiet", "deinit", "-f", "lib"];
    git(&taken.sandbox, &deinit);
    let line = "only this sandbox references the content of submodule .git/modules/lib: unpushed commits: 1";
    let to = taken.is_kept(line, &commit, "admin/modules/lib");
    with_local(&to, &["submodule", "--quiet", "update", "--init", "lib"]);
    assert_eq!(rev(&to.join("lib"), "mine"), commit);
}

#[test]
#[ignore = "long tier: further forms of submodules"]
fn commits_of_a_submodule_inside_one_that_is_not_checked_out_are_saved() {
    let taken = Taken::new();
    let commit = taken.commit("lib/inner");
    let deinit = ["submodule", "--quiet", "deinit", "-f", "inner"];
    git(&taken.sandbox.join("lib"), &deinit);
    let line = "only this sandbox references the content of submodule .git/modules/lib/modules/inner: \
                unpushed commits: 1";
    taken.is_kept(line, &commit, "admin/modules/lib/modules/inner");
}

/// Neither the index nor a file shows it.
#[test]
#[ignore = "long tier: further forms of submodules"]
fn commits_of_a_submodule_that_was_removed_are_saved() {
    let taken = Taken::new();
    let commit = taken.commit("lib");
    git(&taken.sandbox, &["rm", "--quiet", "lib"]);
    git(&taken.sandbox, &["commit", "--quiet", "-m", "without it"]);
    taken.push();
    let line = "only this sandbox references the content of submodule .git/modules/lib: unpushed commits: 1";
    taken.is_kept(line, &commit, "admin/modules/lib");
}

/// Staged or stashed work of a submodule exists nowhere else either.
#[test]
fn stash_and_index_of_a_submodule_are_saved() {
    let hold = |at: &Path, how: &[&str]| {
        write(at, "code", "mine\n");
        git(at, how);
    };
    for (how, holds) in [
        (&["stash", "--quiet"][..], "stash entries"),
        (&["add", "code"], "staged changes"),
    ] {
        let taken = Taken::new();
        hold(&taken.sandbox.join("lib"), how);
        let deinit = ["submodule", "--quiet", "deinit", "-f", "lib"];
        git(&taken.sandbox, &deinit);
        let line = format!(
            "only this sandbox references the content of submodule .git/modules/lib: {holds}"
        );
        assert_eq!(taken.city.facts(&taken.sandbox).other_work, [line]);
    }
}

/// A stopped operation may have put changes aside, although everything looks clean.
#[test]
fn an_operation_in_a_submodule_is_no_clean_one() {
    let taken = Taken::new();
    let lib = taken.sandbox.join("lib");
    git(&lib, &["bisect", "start"]);
    let facts = taken.city.facts(&taken.sandbox);
    assert_eq!(facts.other_work[0], "submodule lib: a bisect in progress");
    assert!(!facts.is_committed());
}

/// git looks at nothing there: even `git status` is silent.
#[test]
fn files_where_a_submodule_is_not_checked_out_are_work() {
    let taken = Taken::new();
    let deinit = ["submodule", "--quiet", "deinit", "lib"];
    git(&taken.sandbox, &deinit);
    assert_eq!(taken.status(), CleanupStatus::Clean);
    write(&taken.sandbox, "lib/notes", "mine\n");
    assert_eq!(git(&taken.sandbox, &["status", "--short"]), "");
    let facts = taken.city.facts(&taken.sandbox);
    let line = "submodule lib: files, although it is not checked out";
    assert_eq!(facts.other_work, [line]);
    assert!(!facts.is_committed());
    let (_, to) = roundtrip(&taken.city, &taken.sandbox, "a");
    assert_eq!(fs::read_to_string(to.join("lib/notes")).unwrap(), "mine\n");
    write(&taken.sandbox, "lib/notes", "more\n");
    assert_ne!(taken.city.facts(&taken.sandbox), facts);
}

/// If all commits of a submodule came with the base, neither its reflog nor its git directory holds work.
#[test]
fn a_submodule_in_which_nothing_was_made_is_nothing() {
    let taken = Taken::new();
    let lib = taken.sandbox.join("lib");
    git(&lib, &["checkout", "--quiet", "--detach", "HEAD~1"]);
    assert_eq!(taken.status(), CleanupStatus::HasUncommitted, "HEAD moved");
    git(&taken.sandbox, &["submodule", "--quiet", "update"]);
    assert_eq!(taken.status(), CleanupStatus::Clean);
    let deinit = ["submodule", "--quiet", "deinit", "-f", "lib"];
    git(&taken.sandbox, &deinit);
    assert_eq!(taken.status(), CleanupStatus::Clean);
    let clone = taken.city.repo.theirs().join("worktrees/Toast/modules/lib");
    assert!(clone.is_dir());
    let saved = taken.city.repo.salvage(
        &taken.sandbox,
        &"horde/raiders/Toast".parse().unwrap(),
        Incarnation(1),
    );
    let nested = |name: &String| name.contains("/nested-");
    assert!(!saved.unwrap().refs.iter().any(nested));
}

/// Only the agent's word says that a commit there was pushed, so it is saved without being asked.
#[test]
fn commits_that_only_a_submodule_calls_pushed_are_saved() {
    let taken = Taken::new();
    let lib = taken.sandbox.join("lib");
    let commit = taken.leave("lib");
    git(&lib, &["checkout", "--quiet", "-B", "mine", "HEAD@{1}"]);
    git(&lib, &["push", "--quiet", "origin", "mine"]);
    git(&taken.sandbox, &["submodule", "--quiet", "update"]);
    let line = "only this sandbox references the content of submodule lib: \
                commits that only its own refs list as pushed: 3";
    taken.is_kept(line, &commit, "lib/.git");
}

/// A ref of its remote, or a list of ends, written by an agent into a submodule made commits disappear.
#[test]
fn false_remotes_of_a_submodule_hide_no_commit() {
    let forge: [fn(&Path); 2] = [
        |lib| {
            drop(git(
                lib,
                &["update-ref", "refs/remotes/origin/main", "HEAD"],
            ))
        },
        |lib| {
            let dir = git(lib, &["rev-parse", "--absolute-git-dir"]);
            write(
                Path::new(&dir),
                "shallow",
                format!("{}\n", rev(lib, "HEAD")),
            );
        },
    ];
    for (nth, forge) in forge.into_iter().enumerate() {
        for absent in [false, true] {
            if !takes(2 * nth + usize::from(absent), 2) {
                continue;
            }
            let taken = Taken::new();
            let lib = taken.sandbox.join("lib");
            git(&lib, &["checkout", "--quiet", "-B", "mine"]);
            write(&lib, "code", "mine\n");
            let commit = commit_all(&lib, "only here");
            git(&taken.sandbox, &["commit", "--quiet", "-am", "pinned"]);
            taken.push();
            forge(&lib);
            let name = match absent {
                true => ".git/modules/lib",
                false => "lib",
            };
            if absent {
                git(
                    &taken.sandbox,
                    &["submodule", "--quiet", "deinit", "-f", "lib"],
                );
            }
            let facts = taken.city.facts(&taken.sandbox);
            let line = format!(
                "only this sandbox references the content of submodule {name}: commits that only \
                its own refs list as pushed: "
            );
            let told = facts.other_work.first().map_or("", |work| work);
            assert!(told.starts_with(&line), "{facts:?}");
            let git_dir = match absent {
                true => "admin/modules/lib",
                false => "lib/.git",
            };
            taken.is_kept(told, &commit, git_dir);
        }
    }
}

/// A commit that the base records came from outside, even if no branch of the library has it any more.
#[test]
fn commit_that_came_with_the_base_is_no_work() {
    let city = City::bare();
    let (library, url) = library(&city, "library");
    write(&library, "code", "released\n");
    let pin = commit_all(&library, "released");
    git(&library, &["tag", "v1"]);
    git(&library, &["reset", "--quiet", "--hard", "HEAD~1"]);
    let checkout = city.checkout();
    with_local(&checkout, &["submodule", "--quiet", "add", &url, "lib"]);
    git(&checkout.join("lib"), &["checkout", "--quiet", "v1"]);
    commit_all(&checkout, "with a library");
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    with_local(&sandbox, &["submodule", "--quiet", "update", "--init"]);
    assert_eq!(rev(&sandbox.join("lib"), "HEAD"), pin);
    git(&sandbox.join("lib"), &["checkout", "--quiet", "HEAD~1"]);
    git(&sandbox, &["submodule", "--quiet", "update"]);
    assert!(city.facts(&sandbox).is_clean());
    git(&sandbox, &["submodule", "--quiet", "deinit", "lib"]);
    assert!(city.facts(&sandbox).is_clean());
}

/// Libraries pin their submodules at tags, which need no branch: an untouched clone holds no work, hidden or not.
#[test]
fn pin_that_no_branch_has_is_no_work() {
    let city = City::with(|checkout| write(checkout, ".gitignore", "vendor/\n"));
    let (inner, inner_url) = library(&city, "inner");
    write(&inner, "code", "released\n");
    commit_all(&inner, "released");
    git(&inner, &["tag", "v1"]);
    git(&inner, &["reset", "--quiet", "--hard", "HEAD~1"]);
    let (outer, url) = library(&city, "library");
    with_local(
        &outer,
        &["submodule", "--quiet", "add", &inner_url, "inner"],
    );
    git(&outer.join("inner"), &["checkout", "--quiet", "v1"]);
    commit_all(&outer, "with an inner one");
    let checkout = city.checkout();
    with_local(&checkout, &["submodule", "--quiet", "add", &url, "lib"]);
    commit_all(&checkout, "with a library");
    git(&checkout, &["push", "--quiet", "origin", "main"]);
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    let deep = ["submodule", "--quiet", "update", "--init", "--recursive"];
    with_local(&sandbox, &deep);
    let clone = [
        "clone",
        "--quiet",
        "--recurse-submodules",
        &url,
        "vendor/lib",
    ];
    with_local(&sandbox, &clone);
    let facts = city.facts(&sandbox);
    assert!(facts.is_clean(), "{facts:?}");
    // A commit that was made there is work, even if it is pinned.
    let mine = sandbox.join("lib/inner");
    write(&mine, "code", "mine\n");
    commit_all(&mine, "only here");
    assert!(!city.facts(&sandbox).is_clean());
}

/// An interrupted removal takes HEAD, and leaves objects that may exist nowhere else.
#[test]
fn a_git_directory_without_head_is_saved_whole() {
    let taken = Taken::new();
    taken.commit("lib");
    let deinit = ["submodule", "--quiet", "deinit", "-f", "lib"];
    git(&taken.sandbox, &deinit);
    let admin = taken.city.repo.theirs().join("worktrees/Toast");
    fs::remove_file(admin.join("modules/lib/HEAD")).unwrap();
    let facts = taken.city.facts(&taken.sandbox);
    let line = "only this sandbox references the content of submodule .git/modules/lib: cannot be inspected";
    let [told] = &facts.other_work[..] else {
        panic!("{facts:?}")
    };
    assert!(told.starts_with(line), "{told}");
}

/// `git config --file` also reads the repository that it runs in, which is theirs.
#[test]
fn submodules_are_linked_anew_whatever_the_shared_configuration_says() {
    let taken = Taken::new();
    write(&taken.sandbox, "lib/code", "2\n");
    let config = taken.city.repo.theirs().join("config");
    let good = fs::read(&config).unwrap();
    fs::write(&config, "[core\nhalf a line").unwrap();
    let raider = crate::support::city::toast();
    let saved = taken
        .city
        .repo
        .salvage(&taken.sandbox, &raider, Incarnation(1));
    let to = taken.city.root().join("restored");
    taken.city.repo.restore(&saved.unwrap(), &to).unwrap();
    fs::write(&config, good).unwrap();
    let status = ["status", "--short"];
    assert_eq!(
        git(&to.join("lib"), &status),
        git(&taken.sandbox.join("lib"), &status)
    );
}
