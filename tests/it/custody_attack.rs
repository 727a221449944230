//! Files that one raider's agent leaves in the rig's shared repository do not reach another raider: neither its
//! commits, nor anything that would stop the other's charge.

use std::fs;
use std::path::Path;

use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::domain::other_work::OtherWork;
use horde_supervisor::ports::repo::{Repo, RepoError};
use horde_supervisor::testing::tier::sampled;

use crate::custody_theirs::whole_life;
use crate::support::city::{City, permit, snapshot, toast};
use crate::support::git::{commit_all, feed_git, git, rev, try_git, write};

/// An act in a sandbox by which another raider would start on this agent's commits.
type Plant = (&'static str, fn(&Path) -> String);

/// Commits something in a worktree, and removes its directory. Returns the commit.
fn leave(worktree: &Path) -> String {
    write(worktree, "foreign", "foreign\n");
    let commit = commit_all(worktree, "foreign");
    fs::remove_dir_all(worktree).unwrap();
    commit
}

const PLANTS: [Plant; 4] = [
    ("a branch in its place", |sandbox| {
        git(sandbox, &["worktree", "add", "-q", "../Shadow"]);
        leave(&sandbox.with_file_name("Shadow"))
    }),
    ("detached in its place", |sandbox| {
        let add = ["worktree", "add", "-q", "--detach", "../Shadow"];
        git(sandbox, &add);
        leave(&sandbox.with_file_name("Shadow"))
    }),
    ("elsewhere under its name", |sandbox| {
        let away = sandbox.join("../../../away/Shadow");
        let to = away.display().to_string();
        git(sandbox, &["worktree", "add", "-q", "--detach", &to]);
        leave(&away)
    }),
    ("under its branch", |sandbox| {
        write(sandbox, "foreign", "foreign\n");
        let commit = commit_all(sandbox, "foreign");
        git(sandbox, &["branch", "raider/Shadow/gt-1-1"]);
        commit
    }),
];

#[test]
fn fresh_raider_starts_at_its_base_whatever_others_left_under_its_name() {
    for (what, plant) in PLANTS {
        let city = City::new();
        let toast = city.sandbox();
        let foreign = plant(&toast);
        let spec = city.spec_of("Shadow", 1);
        city.repo.make_sandbox(&spec).unwrap();
        assert_eq!(rev(&spec.path, "HEAD"), spec.base.as_str(), "{what}");
        let branch = git(&spec.path, &["branch", "--show-current"]);
        assert_eq!(branch, spec.branch, "{what}");
        assert_eq!(snapshot(&spec.path), snapshot(&city.checkout()), "{what}");
        let facts = city.facts(&spec.path);
        assert!(facts.is_clean() && facts.ahead == 0, "{what}: {facts:?}");
        assert!(facts.other_work.is_empty(), "{what}: {facts:?}");
        if what == "elsewhere under its name" {
            continue;
        }
        // A `gc` of the agents may remove the commit now.
        let kept = try_git(city.repo.repo_dir(), &["cat-file", "-e", &foreign]);
        assert!(kept.status.success(), "{what}");
        let told = city.repo.take_mended().join("; ");
        assert!(told.contains("Shadow"), "{what}: {told}");
    }
}

/// A charge that was interrupted by a kill is continued, and still starts at the base.
#[test]
fn interrupted_charge_is_not_completed_on_a_planted_sandbox() {
    let city = City::new();
    let toast = city.sandbox();
    let spec = city.spec_of("Shadow", 1);
    city.repo.make_sandbox(&spec).unwrap();
    let note = city.repo.repo_dir().join("horde/notes/Shadow.json");
    let text = fs::read_to_string(&note).unwrap();
    fs::write(
        &note,
        text.replace("\"complete\":true", "\"complete\":false"),
    )
    .unwrap();
    fs::remove_dir_all(&spec.path).unwrap();
    write(&toast, "foreign", "foreign\n");
    let foreign = commit_all(&toast, "foreign");
    let admin = city.repo.theirs().join("worktrees/Shadow");
    fs::write(admin.join("HEAD"), format!("{foreign}\n")).unwrap();
    city.repo.make_sandbox(&spec).unwrap();
    assert_eq!(rev(&spec.path, "HEAD"), spec.base.as_str());
    assert!(city.facts(&spec.path).is_clean());
}

/// The links of a used sandbox tell its entry; entries that others wrote do not.
#[test]
fn entry_that_another_claims_does_not_take_the_place_of_a_sandboxs_own() {
    let city = City::new();
    let toast = city.sandbox();
    let spec = city.spec_of("Shadow", 1);
    city.repo.make_sandbox(&spec).unwrap();
    write(&toast, "foreign", "foreign\n");
    commit_all(&toast, "foreign");
    // The forged entry comes first among those that name the sandbox.
    let add = ["worktree", "add", "-q", "--detach", "../Aaa"];
    git(&toast, &add);
    fs::remove_dir_all(toast.with_file_name("Aaa")).unwrap();
    let claims = city.repo.theirs().join("worktrees/Aaa/gitdir");
    let dot_git = spec.path.join(".git");
    fs::write(claims, format!("{}\n", dot_git.display())).unwrap();
    write(&spec.path, "README", "own\n");
    let own = commit_all(&spec.path, "own");
    city.repo.make_sandbox(&spec).unwrap();
    assert_eq!(rev(&spec.path, "HEAD"), own);
    city.repo.repair_sandbox(&spec).unwrap();
    assert_eq!(rev(&spec.path, "HEAD"), own);
    // And the charge of a missing sandbox leaves another sandbox alone whose entry claims to be it.
    let nux = city.spec_of("Nux", 1);
    let claims = city.repo.theirs().join("worktrees/Shadow/gitdir");
    let text = format!("{}\n", nux.path.join(".git").display());
    fs::write(claims, text).unwrap();
    city.repo.make_sandbox(&nux).unwrap();
    assert_eq!(rev(&nux.path, "HEAD"), nux.base.as_str());
    assert_eq!(rev(&spec.path, "HEAD"), own);
}

/// An act of an agent on the rig's shared repository: in the repository, from its sandbox.
type Block = (&'static str, fn(&Path, &Path));

/// Renames the agent's own branch, as it may wish.
fn rename_to(sandbox: &Path, name: &str) {
    git(sandbox, &["branch", "-m", name]);
}

fn pipe(theirs: &Path, name: &str) {
    let place = theirs.join(name);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

fn garble(theirs: &Path, text: &[u8]) {
    git(theirs, &["pack-refs", "--all"]);
    let mut refs = fs::read(theirs.join("packed-refs")).unwrap();
    refs.extend_from_slice(text);
    fs::write(theirs.join("packed-refs"), refs).unwrap();
}

const BLOCKS: [Block; 18] = [
    ("a branch raider", |_, sandbox| rename_to(sandbox, "raider")),
    ("a packed branch raider", |_, sandbox| {
        rename_to(sandbox, "raider");
        git(sandbox, &["pack-refs", "--all"]);
    }),
    ("a branch of the name", |_, sandbox| {
        git(sandbox, &["branch", "raider/Nux"]);
    }),
    ("branches below the branch", |_, sandbox| {
        git(sandbox, &["branch", "raider/Nux/gt-1-2/x"]);
        git(sandbox, &["pack-refs", "--all"]);
        git(sandbox, &["branch", "raider/Nux/gt-1-2/y/z"]);
    }),
    ("a pipe for the branch", |theirs, _| {
        pipe(theirs, "refs/heads/raider/Nux/gt-1-2");
    }),
    ("a pipe for its log", |theirs, _| {
        pipe(theirs, "logs/refs/heads/raider/Nux/gt-1-2");
    }),
    ("a link for the branch", |theirs, _| {
        let place = theirs.join("refs/heads/raider/Nux/gt-1-2");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place).unwrap();
    }),
    ("a link for the directory of its branches", |theirs, _| {
        let place = theirs.join("refs/heads/raider/Nux");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/tmp", place).unwrap();
    }),
    ("a stale lock", |theirs, sandbox| {
        rename_to(sandbox, "raider");
        git(sandbox, &["pack-refs", "--all"]);
        for name in ["packed-refs.lock", "refs/heads/raider.lock"] {
            let lock = fs::File::create(theirs.join(name)).unwrap();
            lock.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
    }),
    ("garbage for a branch", |theirs, _| {
        write(theirs, "refs/heads/raider/Nux", "garbage");
    }),
    ("a file for logs", |theirs, _| {
        fs::remove_dir_all(theirs.join("logs/refs/heads")).unwrap();
        write(theirs, "logs/refs/heads", "no directory");
    }),
    ("a file for its logs", |theirs, _| {
        write(theirs, "logs/refs/heads/raider/Nux", "no directory");
    }),
    ("a directory for its log", |theirs, _| {
        write(theirs, "logs/refs/heads/raider/Nux/gt-1-2/x", "no log");
    }),
    ("half a line in packed-refs", |theirs, _| {
        garble(theirs, b"half")
    }),
    ("binary packed-refs", |theirs, _| {
        garble(theirs, b"\xff\0\n")
    }),
    ("a bogus multi-pack-index", |theirs, _| {
        let bogus = [7; 4096];
        write(theirs, "objects/pack/multi-pack-index", bogus);
    }),
    ("a garbled shallow", |theirs, _| {
        write(theirs, "shallow", "x\n")
    }),
    ("a huge packed-refs", |theirs, _| {
        let id = "1".repeat(40);
        let line = |n| format!("{id} refs/tags/{n:040}\n");
        let lines: String = (0..1_000_000).map(line).collect();
        garble(theirs, lines.as_bytes());
    }),
];

#[test]
fn files_in_the_way_of_a_charge_are_set_aside() {
    for (what, block) in sampled(BLOCKS, 4) {
        let city = City::new();
        let (spec, sandbox) = (city.spec(1), city.sandbox());
        write(&sandbox, "README", "mine\n");
        let head = commit_all(&sandbox, "mine");
        block(city.repo.theirs(), &sandbox);
        whole_life(&city, "Nux");
        // git reads no index of packs in the sandboxes, so a bogus one does no harm.
        let told = city.repo.take_mended().join("; ");
        let is_told = told.contains("aside");
        assert_eq!(
            is_told,
            what != "a bogus multi-pack-index",
            "{what}: {told}"
        );
        assert_eq!(rev(&sandbox, "HEAD"), head, "{what}");
        let facts = city.facts(&sandbox);
        assert_eq!((facts.ahead, facts.head.as_str()), (1, &*head), "{what}");
        assert!(
            !facts.head_reachable && facts.dirty.is_empty(),
            "{what}: {facts:?}"
        );
        // And its work is treated like all other work.
        write(&sandbox, "more", "more\n");
        commit_all(&sandbox, "more");
        let facts = city.facts(&sandbox);
        let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
        let record = record.unwrap_or_else(|error| panic!("{what}: {error}"));
        city.repo
            .discard_sandbox(&permit(&spec, &facts), &city.trash(), &|| Ok(()))
            .unwrap();
        let to = city.root().join("restored/Toast");
        city.repo.restore(&record, &to).unwrap();
        assert_eq!(rev(&to, "HEAD~1"), head, "{what}");
    }
}

/// `git fetch --depth=1` cut off the history of all sandboxes.
#[test]
fn shallow_fetch_of_one_agent_cuts_off_no_history() {
    let city = City::new();
    let checkout = city.checkout();
    for text in ["2\n", "3\n"] {
        write(&checkout, "README", text);
        commit_all(&checkout, text);
    }
    git(&checkout, &["push", "-q", "origin", "main"]);
    city.repo.fetch_target("main").unwrap();
    let sandbox = city.sandbox();
    write(&sandbox, "mine", "mine\n");
    commit_all(&sandbox, "mine");
    let url = format!("file://{}", city.origin().display());
    git(&sandbox, &["fetch", "-q", "--depth=1", &url, "main"]);
    assert!(city.repo.theirs().join("shallow").exists());
    assert_eq!(git(&sandbox, &["rev-list", "--count", "HEAD"]), "2");
    city.repo.progress(&sandbox).unwrap();
    assert_eq!(git(&sandbox, &["rev-list", "--count", "HEAD"]), "4");
    assert_eq!(city.facts(&sandbox).ahead, 1);
    assert!(city.repo.theirs().join("shallow.aside").exists());
    let told = city.repo.take_mended().join("; ");
    assert!(told.contains("shallow"), "{told}");
    whole_life(&city, "Nux");
}

/// HEAD never was on that branch.
#[test]
fn commit_that_only_the_reflog_of_the_branch_names_is_seen_and_saved() {
    let city = City::new();
    let (spec, sandbox) = (city.spec(1), city.sandbox());
    let tree = rev(&sandbox, "HEAD^{tree}");
    let parent = ["-p", spec.base.as_str()];
    let alone = ["commit-tree", "-m", "alone", parent[0], parent[1], &tree];
    let alone = git(&sandbox, &alone);
    let name = format!("refs/heads/{}", spec.branch);
    let theirs = city.repo.theirs();
    let moves = format!("update {name} {alone}\n");
    feed_git(theirs, &["update-ref", "--stdin"], &moves);
    let back = format!("update {name} {}\n", spec.base);
    feed_git(theirs, &["update-ref", "--stdin"], &back);
    let log = fs::read_to_string(theirs.join("worktrees/Toast/logs/HEAD"));
    assert!(!log.unwrap_or_default().contains(&alone));
    let facts = city.facts(&sandbox);
    let told = OtherWork::left_behind(&alone[..8]).to_string();
    let mut lines = facts.other_work.iter().map(ToString::to_string);
    let is_told = lines.any(|line| line.starts_with(&told));
    assert!(is_told, "{facts:?}");
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let ours = city.repo.repo_dir();
    let kept = git(ours, &["for-each-ref", "--contains", &alone]);
    assert!(kept.contains("refs/horde/salvage/"), "{record:?}");
    // A pipe in its place does no harm.
    let log = theirs.join("logs").join(&name);
    fs::remove_file(&log).unwrap();
    nix::unistd::mkfifo(&log, nix::sys::stat::Mode::S_IRWXU).unwrap();
    city.facts(&sandbox);
}

/// Makes a tree with an entry of this name, as plumbing can.
fn odd_tree(sandbox: &Path, name: &[u8]) -> String {
    let blob = git(sandbox, &["hash-object", "-w", "README"]);
    let digits = (0..blob.len()).step_by(2);
    let id = digits.map(|at| u8::from_str_radix(&blob[at..at + 2], 16).unwrap());
    let id: Vec<u8> = id.collect();
    let file = sandbox.join("../../tree");
    fs::write(&file, [b"100644 ", name, b"\0", &id].concat()).unwrap();
    let file = file.display().to_string();
    let hash = ["hash-object", "-t", "tree", "-w", "--literally", &file];
    git(sandbox, &hash)
}

#[test]
fn commit_that_git_would_not_make_is_refused_at_done_and_saved() {
    let city = City::new();
    let (spec, sandbox) = (city.spec(1), city.sandbox());
    let (base, tree) = (spec.base.as_str(), odd_tree(&sandbox, b".Git"));
    let odd = git(&sandbox, &["commit-tree", "-m", "odd", "-p", base, &tree]);
    let own = rev(&sandbox, "HEAD^{tree}");
    let head = git(&sandbox, &["commit-tree", "-m", "away", "-p", &odd, &own]);
    git(&sandbox, &["reset", "-q", "--soft", &head]);
    write(&sandbox, "README", "mine\n");
    commit_all(&sandbox, "mine");
    let facts = city.facts(&sandbox);
    assert_eq!((facts.ahead, facts.is_clean()), (3, true));
    let fit = |head| city.repo.fit(&sandbox, head, "main");
    let Err(RepoError::Rejected(why)) = fit(&facts.head) else {
        panic!("{:?}", fit(&facts.head));
    };
    assert!(why.contains(&odd[..8]) && why.contains(".Git"), "{why}");
    let saved = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    saved.unwrap();
    // As the refusal says.
    git(&sandbox, &["reset", "-q", "--soft", base]);
    git(&sandbox, &["commit", "-qm", "mine"]);
    fit(&city.facts(&sandbox).head).unwrap();
}

/// git does not follow such an entry, so nothing of the sandbox could be measured.
#[test]
fn sandbox_whose_head_has_a_tree_that_git_cannot_read_is_measured_by_its_files() {
    let city = City::new();
    let (spec, sandbox) = (city.spec(1), city.sandbox());
    let tree = odd_tree(&sandbox, b"");
    let base = spec.base.as_str();
    let odd = git(&sandbox, &["commit-tree", "-m", "odd", "-p", base, &tree]);
    git(&sandbox, &["reset", "-q", "--soft", &odd]);
    write(&sandbox, "README", "mine\n");
    assert_eq!(city.facts(&sandbox).dirty, ["README"]);
}
