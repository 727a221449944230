//! An interrupted restore: either nothing of it is left, or the next restore removes the rest.

use std::fs;
use std::path::{Path, PathBuf};

use crate::custody_salvage::index;
use crate::support::city::{City, snapshot};
use crate::support::git::{commit_all, git, rev, try_feed_git, write};
use horde_supervisor::domain::ids::{Incarnation, RaiderId};
use horde_supervisor::ports::repo::{Repo, SalvageRecord};

/// A salvaged sandbox, with a nested repository.
struct Saved {
    city: City,
    sandbox: PathBuf,
    record: SalvageRecord,
    to: PathBuf,
    part: PathBuf,
}

fn saved() -> Saved {
    let city = City::with(|checkout| {
        write(checkout, "src/big.bin", "content\n");
    });
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "edited\n");
    write(&sandbox, "new", "1\n");
    let nested = sandbox.join("tools/inner");
    fs::create_dir_all(&nested).unwrap();
    git(&nested, &["init", "--quiet", "-b", "main"]);
    write(&nested, "code", "1\n");
    commit_all(&nested, "inner");
    let raider = "horde/raiders/Toast".parse().unwrap();
    let record = city.repo.salvage(&sandbox, &raider, Incarnation(1));
    let record = record.unwrap();
    let restored = city.root().join("restored");
    Saved {
        sandbox,
        to: restored.join("a"),
        part: restored.join(format!("{}.part", record.id)),
        record,
        city,
    }
}

impl Saved {
    fn worktrees(&self) -> PathBuf {
        self.city.repo.theirs().join("worktrees")
    }

    /// Returns the names in a directory.
    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Asserts that the next restore gives everything back, and leaves nothing else.
    fn comes_back(&self, after: &str) {
        let restored = self.city.repo.restore(&self.record, &self.to);
        restored.unwrap_or_else(|error| panic!("{after}: {error}"));
        assert_eq!(snapshot(&self.to), snapshot(&self.sandbox), "{after}");
        assert_eq!(index(&self.to), index(&self.sandbox), "{after}");
        let inner = |dir: &Path| rev(&dir.join("tools/inner"), "HEAD");
        assert_eq!(inner(&self.to), inner(&self.sandbox), "{after}");
        assert_eq!(Self::names(self.to.parent().unwrap()), ["a"], "{after}");
        assert_eq!(Self::names(&self.worktrees()).len(), 2, "{after}");
        // The restored worktree is whole to git, too: `prune` removes nothing.
        git(self.city.repo.theirs(), &["worktree", "prune"]);
        git(&self.to, &["fsck"]);
    }
}

#[test]
fn a_restore_that_fails_leaves_nothing_and_the_next_one_succeeds() {
    let saved = saved();
    let repo = &saved.city.repo;
    // The object that the restore needs last is gone.
    let id = git(&saved.sandbox, &["hash-object", "--no-filters", "README"]);
    let ours = repo.repo_dir();
    let blob = ours.join("objects").join(&id[..2]).join(&id[2..]);
    let aside = saved.city.root().join("aside");
    fs::rename(&blob, &aside).unwrap();
    let refused = repo.restore(&saved.record, &saved.to).unwrap_err();
    assert!(refused.to_string().contains("missing"), "{refused}");
    assert!(Saved::names(saved.to.parent().unwrap()).is_empty());
    assert_eq!(Saved::names(&saved.worktrees()), ["Toast"]);
    fs::rename(&aside, &blob).unwrap();
    saved.comes_back("a failure");
    let again = repo.restore(&saved.record, &saved.to).unwrap_err();
    assert!(again.to_string().contains("exists already"), "{again}");
}

/// The list in the salvage names one file more than can be written: the comparison at the end of a restore finds it.
#[test]
fn restore_that_does_not_equal_its_salvage_leaves_nothing() {
    let saved = saved();
    let ours = saved.city.repo.repo_dir();
    let meta = saved
        .record
        .refs
        .iter()
        .find(|name| name.ends_with("/meta"));
    let meta = meta.unwrap();
    let fed = |args: &[&str], input: &str| {
        let output = try_feed_git(ours, args, input);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let old = rev(ours, &format!("{meta}:files"));
    let list = git(ours, &["cat-file", "blob", &old]) + "\nw f 644 1 0 0 - - zz\n";
    let new = fed(&["hash-object", "-w", "--stdin"], &list);
    let tree = git(ours, &["ls-tree", meta]) + "\n";
    let tree = fed(&["mktree"], &tree.replace(&old, &new));
    let other = git(ours, &["commit-tree", "-p", meta, "-m", "other", &tree]);
    git(ours, &["update-ref", meta, &other]);
    let refused = saved.city.repo.restore(&saved.record, &saved.to);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("zz is in the salvage and was not restored"),
        "{refused}"
    );
    assert!(Saved::names(saved.to.parent().unwrap()).is_empty());
    assert_eq!(Saved::names(&saved.worktrees()), ["Toast"]);
}

/// The objects of a salvage are looked for whenever it is written, and when it is found again.
#[test]
fn state_whose_salvage_lost_an_object_is_not_called_saved() {
    let saved = saved();
    let repo = &saved.city.repo;
    let raider: RaiderId = "horde/raiders/Toast".parse().unwrap();
    let save = || repo.salvage(&saved.sandbox, &raider, Incarnation(1));
    assert_eq!(save().unwrap(), saved.record);
    let id = git(&saved.sandbox, &["hash-object", "--no-filters", "new"]);
    let blob = repo
        .repo_dir()
        .join("objects")
        .join(&id[..2])
        .join(&id[2..]);
    let aside = saved.city.root().join("aside");
    fs::rename(&blob, &aside).unwrap();
    let refused = save().unwrap_err().to_string();
    assert!(refused.contains(&id), "{refused}");
    fs::rename(&aside, &blob).unwrap();
    assert_eq!(save().unwrap(), saved.record);
}

/// A salvage whose manifest was lost stopped all later ones of the raider.
#[test]
fn salvage_whose_manifest_cannot_be_read_keeps_no_later_state_from_being_saved() {
    let saved = saved();
    let repo = &saved.city.repo;
    let ours = repo.repo_dir();
    let mut refs = saved.record.refs.iter();
    let meta = refs.find(|name| name.ends_with("/meta")).unwrap();
    let id = rev(ours, meta);
    fs::remove_file(ours.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
    let raider: RaiderId = "horde/raiders/Toast".parse().unwrap();
    let save = || repo.salvage(&saved.sandbox, &raider, Incarnation(1));
    repo.salvage_size(&saved.sandbox).unwrap();
    let again = save().unwrap();
    assert_ne!(again.id, saved.record.id);
    write(&saved.sandbox, "new", "2\n");
    let later = save().unwrap();
    assert_eq!(save().unwrap(), later);
    repo.restore(&later, &saved.to).unwrap();
    assert_eq!(snapshot(&saved.to), snapshot(&saved.sandbox));
}

/// The commit of the manifest, or that of HEAD, is missing, then there again.
#[test]
fn salvage_that_lost_its_commit_is_said_to_be_damaged_and_its_refs_can_be_deleted() {
    for name in ["/meta", "/head"] {
        let saved = saved();
        let repo = &saved.city.repo;
        let ours = repo.repo_dir();
        let mut refs = saved.record.refs.iter();
        let lost = refs.find(|it| it.ends_with(name)).unwrap();
        let id = rev(ours, lost);
        let commit = ours.join("objects").join(&id[..2]).join(&id[2..]);
        let aside = saved.city.root().join("aside");
        fs::rename(&commit, &aside).unwrap();
        let refused = repo.restore(&saved.record, &saved.to);
        let refused = refused.unwrap_err().to_string();
        let expected = format!("its commit {id} is missing");
        assert!(refused.contains(&expected), "{refused}");
        assert!(!saved.to.exists());
        fs::rename(&aside, &commit).unwrap();
        saved.comes_back("the commit is there again");
        fs::rename(&commit, &aside).unwrap();
        let present = repo.present_tips(&saved.record.refs).unwrap();
        let present: Vec<_> = present.into_iter().map(|(name, _)| name).collect();
        let mut others = saved.record.refs.clone();
        others.retain(|it| it != lost);
        assert_eq!(present, others);
        let tips = repo.tips(&saved.record.refs).unwrap();
        assert_eq!(tips.len(), saved.record.refs.len());
        repo.delete_refs(&tips).unwrap();
        assert_eq!(repo.tips(&saved.record.refs).unwrap(), []);
    }
}

/// A directory that is not ours under that name is not touched.
#[test]
fn foreign_directory_in_the_place_of_a_restore_is_not_touched() {
    let saved = saved();
    write(&saved.part, "precious", "1\n");
    let refused = saved.city.repo.restore(&saved.record, &saved.to);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("in the way"), "{refused}");
    assert_eq!(Saved::names(&saved.part), ["precious"]);
}

/// A state that a kill leaves, and the function that makes it.
type Kill<'a> = (&'static str, &'a dyn Fn(&Saved));

/// The states that kill -9 leaves, from one end of a restore to the other.
#[test]
fn remains_of_a_killed_restore_are_replaced() {
    let whole = |saved: &Saved| {
        let restored = saved.city.repo.restore(&saved.record, &saved.to);
        restored.unwrap();
    };
    // While files are written, the worktree's entry leads to the place where they are written.
    let half = |saved: &Saved| {
        whole(saved);
        fs::rename(&saved.to, &saved.part).unwrap();
        let link = fs::read_to_string(saved.part.join(".git")).unwrap();
        let admin = Path::new(link.trim().trim_start_matches("gitdir: "));
        let back = format!("{}/.git\n", saved.part.display());
        fs::write(admin.join("gitdir"), back).unwrap();
        fs::remove_file(saved.part.join("README")).unwrap();
        fs::remove_dir_all(saved.part.join("tools")).unwrap();
    };
    let kills: [Kill<'_>; 7] = [
        ("its directory made", &|saved| {
            fs::create_dir_all(&saved.part).unwrap();
        }),
        ("known to git, without files", &|saved| {
            half(saved);
            fs::remove_dir_all(&saved.part).unwrap();
        }),
        ("its link not yet renamed", &|saved| {
            half(saved);
            fs::remove_dir_all(&saved.part).unwrap();
            write(&saved.part, ".tmpAbC123", "gitdir: ");
        }),
        ("half filled", &half),
        ("half taken away again", &|saved| {
            half(saved);
            for name in Saved::names(&saved.part) {
                if name != ".git" {
                    let path = saved.part.join(name);
                    drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)));
                }
            }
        }),
        ("before the rename", &|saved| {
            whole(saved);
            fs::rename(&saved.to, &saved.part).unwrap();
        }),
        ("before the rename, and pruned", &|saved| {
            whole(saved);
            fs::rename(&saved.to, &saved.part).unwrap();
            git(saved.city.repo.theirs(), &["worktree", "prune"]);
            assert_eq!(Saved::names(&saved.worktrees()), ["Toast"]);
        }),
    ];
    for (when, kill) in kills {
        let saved = saved();
        kill(&saved);
        saved.comes_back(when);
    }
}
